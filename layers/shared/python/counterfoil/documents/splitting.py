"""Splits a PDF of many documents into the page ranges of each.

A page that states another invoice number than the pages before it begins a document; pages that state none belong to
the document that is under way, and those before the first number to the first document.
"""

from typing import NamedTuple

from counterfoil.documents import labels, pdf


class PageRange(NamedTuple):
    """The pages of one document, both ends included, counted from 1."""

    first: int
    last: int


def split(content: bytes) -> list[PageRange]:
    """The documents in a PDF by their pages, which cover the whole file; one where nothing tells them apart.

    Raises `InvalidDocumentError` as `pdf.page_texts`.
    """
    texts = pdf.page_texts(content)
    begins, current = [1], None
    for page, text in enumerate(texts, 1):
        number = labels.invoice_number(text)
        if number is not None and number != current:
            if current is not None:
                begins.append(page)
            current = number
    ends = [begin - 1 for begin in begins[1:]] + [len(texts)]
    return [PageRange(first, last) for first, last in zip(begins, ends, strict=True)]
