"""Finds where documents begin.

A page that states another invoice number than the pages before it begins a document; pages that state none belong to
the document that is under way, and those before the first number to the first document.
"""

from collections.abc import Sequence

from counterfoil.documents import labels
from counterfoil.documents.splitting.parts import Boundary, Split
from counterfoil.documents.text.page import Page


def split(pages: Sequence[Page]) -> Split:
    """The documents in a file by its pages."""
    boundaries, current = [], None
    for place, page in enumerate(pages, 1):
        number = labels.invoice_number(page.text)
        begins = number is not None and current is not None and number != current
        current = number or current
        if place > 1:
            boundaries.append(Boundary(place, begins, 1.0))
    return Split(len(pages), tuple(boundaries))
