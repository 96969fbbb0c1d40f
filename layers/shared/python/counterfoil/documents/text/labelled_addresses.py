"""Addresses whose lines are labelled one by one: `Denominazione: ...`, `Indirizzo: ...`, `Cap: ... Comune: ...`. Pure.

Courtesy copies of electronic invoices print them so, below the heading of each side.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from counterfoil.documents.lexicon import READER
from counterfoil.documents.text import addresses
from counterfoil.documents.text.addresses import Address, Town
from counterfoil.documents.text.layout import Cell, Layout

_LABEL = re.compile(
    "|".join(rf"(?P<{part}>{label.pattern})\s*:" for part, label in READER.patterns("labels.address").items())
)
_CODE = re.compile(r"(?:[A-Z]{1,2}-)?(\d{4,5}(?: ?[A-Z]{2})?|[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|\d{3} \d{2})")
_CLOSE = 2.5  # heights of the text between lines that belong together
_LONGEST = 120


def find(layout: Layout) -> dict[str, Address]:
    """The addresses by the roles of their headings; those without a name or a town are left out."""
    found: dict[str, Address] = {}
    for cell in layout.cells:
        role = addresses.heading(cell)
        if role is None or role in found:
            continue
        stated, cells = _stated(layout, cell)
        code = _CODE.fullmatch(stated.get("code", ""))
        if "name" in stated and "city" in stated and code is not None:
            town = Town(code[1], stated["city"], addresses.country(stated.get("country", "")))
            found[role] = Address(stated["name"], stated.get("street"), town, cells)
    return found


def _stated(layout: Layout, top: Cell) -> tuple[Mapping[str, str], tuple[Cell, ...]]:
    """What the labels below a heading state, and the cells of its block."""
    stated: dict[str, str] = {}
    cells: list[Cell] = []
    above = top
    for cell in layout.under(top):
        if abs(cell.left - top.left) > 2 * top.height:
            continue
        if cell.top - above.bottom > _CLOSE * top.height or addresses.heading(cell) is not None:
            break
        above = cell
        cells.append(cell)
        for name, value in _parts(cell):
            stated.setdefault(name, value)
    return stated, tuple(cells)


def _parts(cell: Cell) -> Iterator[tuple[str, str]]:
    """The labels of a line with what stands behind each: `Cap: 22100 Nazione: IT`."""
    if len(cell.text) > _LONGEST or _LABEL.match(cell.plain) is None:
        return
    for match, following in pairwise((*_LABEL.finditer(cell.plain), None)):
        end = len(cell.text) if following is None else following.start()
        if match is not None and (value := cell.text[match.end() : end].strip(" ,;")):
            yield match.lastgroup or "", value
