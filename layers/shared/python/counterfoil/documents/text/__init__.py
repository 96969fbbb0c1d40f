"""Reads business documents from the words of their pages, wherever those come from: a text layer or recognition."""
