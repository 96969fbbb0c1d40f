"""Accuracy of text extraction, compared with the XML of hybrid invoices."""
