"""Where a field of a document comes from, and how sure it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Evidence:
    """What speaks for the value of a field.

    `source` names the way it was found ("label", "title", "address", ...), never what the document says. `confidence`
    runs from 0 to 1. `page` counts from 1.
    """

    source: str
    confidence: float
    page: int
