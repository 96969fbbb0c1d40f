"""Extraction beyond rules: OCR of scanned pages, and a language model for missing fields."""
