"""Matches labeled sets of documents and measures how well the results agree with the labels."""
