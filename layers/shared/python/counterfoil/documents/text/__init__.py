"""Reads business documents from the words of their pages, wherever those come from: a text layer or recognition."""

from counterfoil.documents.text import unreadable
from counterfoil.documents.text.evidence import Evidence
from counterfoil.documents.text.reading import Reading, read

__all__ = ["Evidence", "Reading", "read", "unreadable"]
