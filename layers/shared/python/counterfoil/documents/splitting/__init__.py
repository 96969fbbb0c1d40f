"""Splits a file of many documents into the pages of each, with the evidence for every boundary. Pure."""

from counterfoil.documents.splitting.split import SURE, Boundary, Kind, PageRange, Part, Split, split

__all__ = ["SURE", "Boundary", "Kind", "PageRange", "Part", "Split", "split"]
