"""Reads what rules alone do not: scanned pages by recognition, and what rules leave open by a language model."""
