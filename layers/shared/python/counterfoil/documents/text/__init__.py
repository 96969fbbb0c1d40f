"""Reads business documents from the words that a text layer or OCR provides."""
