"""Readers of electronic business documents in XML: one module per vocabulary."""
