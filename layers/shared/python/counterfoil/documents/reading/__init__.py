"""Extraction beyond rules: OCR of scans, and a language model for missing fields."""
