"""Matches labeled sets of documents and measures the agreement with their labels."""
