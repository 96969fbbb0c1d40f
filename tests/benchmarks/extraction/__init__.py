"""Measure the accuracy of text extraction against the XML in hybrid invoices."""
