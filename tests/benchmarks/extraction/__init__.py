"""How much of an invoice's own XML the extractor reads from the text of its pages."""
