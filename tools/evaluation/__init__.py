"""Matches labeled sets of documents and measures agreement with the labels."""
