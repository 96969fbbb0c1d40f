"""Read business documents from the words of their pages, whether from a text layer or from OCR."""
