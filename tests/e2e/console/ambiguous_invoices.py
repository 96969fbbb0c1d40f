"""Ambiguous invoices, each with two orders that have the referenced number."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from counterfoil.documents.upload_list import Upload
from tools.sample_generator.cases import generate_cases
from tools.sample_generator.model import Document, Kind
from tools.sample_generator.ubl import write_ubl

SEED = 77
WORDS = ("Sonderanfertigung", "Muster", "Ersatzteil")
Ingest = Callable[..., list[Upload]]


def ingest_ambiguous(ingest: Ingest, folder: Path, count: int) -> list[str]:
    """Ingest `count` invoices with two candidate orders each. Return their numbers."""
    orders: list[Path] = []
    invoices: list[Path] = []
    numbers: list[str] = []
    for case in generate_cases(SEED).cases:
        of = {paper.document.kind: paper.document for paper in reversed(case.documents)}
        if len(numbers) < count and {Kind.PURCHASE_ORDER, Kind.INVOICE} <= of.keys():
            order, invoice = of[Kind.PURCHASE_ORDER], of[Kind.INVOICE]
            name = str(len(numbers))
            later = replace(order, issued=order.issued + timedelta(days=2))
            orders += [
                _written(folder, f"{name}-one", _about(order, 1)),
                _written(folder, f"{name}-other", _about(later, 2)),
            ]
            ambiguous = replace(_about(invoice, 3), references={"po_reference": order.number})
            invoices.append(_written(folder, f"{name}-invoice", ambiguous))
            numbers.append(ambiguous.number)
    assert len(numbers) == count
    for paths in (orders, invoices):  # the candidates must exist before the invoices
        assert {outcome.state.is_final for outcome in ingest(paths)} == {True}
    return numbers


def _about(document: Document, which: int) -> Document:
    """Return a copy with articles that no other document contains."""
    lines = [
        replace(
            line,
            article_number=f"{which}{place}77{document.number}",
            buyer_article_number=None,
            description=f"{WORDS[which - 1]} {place}",
            quantity=Decimal(3 + which),
            unit_price=Decimal(7 * which + place),
        )
        for place, line in enumerate(document.lines[:2])
    ]
    return replace(document, lines=tuple(lines))


def _written(folder: Path, name: str, document: Document) -> Path:
    path = folder / f"{name}.xml"
    path.write_bytes(write_ubl(document))
    return path
