"""Amounts that a page prints in a font without usable characters. Pure.

A reader sees the amount; the text layer has a shape without a letter. Other fonts of the page may be sound, so the page
as a whole is legible.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from counterfoil.documents.text import totals
from counterfoil.documents.text.layout import Layout
from counterfoil.documents.text.page import Page, Word

_FIELDS = {
    "payable": "total_gross",
    "sum": "total_net",
    "tax_part": "total_tax",
    "total_gross": "total_gross",
    "total_net": "total_net",
    "total_tax": "total_tax",
}
"""Fields by the kind of their label."""
FEWEST_CHARACTERS = 3
"""Fewer are a bullet or a symbol rather than an amount."""


def warning(pages: Sequence[Page], fields: Mapping[str, Any]) -> str | None:
    """Return a sentence that names the unreadable amounts; None if every amount is readable."""
    missing = unreadable(pages, fields)
    if not missing:
        return None
    numbers = sorted(set(missing.values()))
    where = f"page {numbers[0]}" if len(numbers) == 1 else f"pages {', '.join(map(str, numbers))}"
    return (
        f"Printed on {where} in a font without usable characters, so not read: {', '.join(sorted(missing))}. "
        "Print the document to a new PDF and send that."
    )


def unreadable(pages: Sequence[Page], fields: Mapping[str, Any]) -> dict[str, int]:
    """Return the page of each amount that is printed without usable characters and missing from `fields`.

    Pages count from 1.
    """
    lost = {
        number: [word for word in page.lost_words if len(word.text) >= FEWEST_CHARACTERS]
        for number, page in enumerate(pages, 1)
    }
    if not any(lost.values()):
        return {}
    found: dict[str, int] = {}
    for field, page in _labelled(Layout(pages), lost):
        if field not in fields:
            found.setdefault(field, page)
    return found


def _labelled(layout: Layout, lost: Mapping[int, Sequence[Word]]) -> Iterator[tuple[str, int]]:
    """Yield field and page of the lost words that stand right of a label, or else in a line of a table."""
    for line in layout.lines:
        if not line:
            continue
        page, top, bottom = line[0].page, min(cell.top for cell in line), max(cell.bottom for cell in line)
        beside = [word for word in lost[page] if top <= (word.top + word.bottom) / 2 <= bottom]
        labels = [(cell, kind) for cell in line if (kind := totals.label(cell)[0]) is not None]
        for cell, kind in labels:
            if any(word.left >= cell.left for word in beside):
                yield _FIELDS[kind], page
        if beside and not labels and len(line) > 1:
            yield "line_items", page
