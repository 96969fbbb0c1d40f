"""Ambiguous invoices: each one references a number that two purchase orders have."""

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
    """Ingest `count` invoices, each with two candidate orders.

    Return the invoice numbers.
    """
    orders: list[Path] = []
    invoices: list[Path] = []
    numbers: list[str] = []
    for case in generate_cases(SEED).cases:
        documents_by_kind = {generated.document.kind: generated.document for generated in reversed(case.documents)}
        if len(numbers) < count and {Kind.PURCHASE_ORDER, Kind.INVOICE} <= documents_by_kind.keys():
            order, invoice = documents_by_kind[Kind.PURCHASE_ORDER], documents_by_kind[Kind.INVOICE]
            name = str(len(numbers))
            later_order = replace(order, issue_date=order.issue_date + timedelta(days=2))
            orders += [
                _write(folder, f"{name}-one", _with_unique_lines(order, 1)),
                _write(folder, f"{name}-other", _with_unique_lines(later_order, 2)),
            ]
            ambiguous = replace(_with_unique_lines(invoice, 3), references={"po_reference": order.number})
            invoices.append(_write(folder, f"{name}-invoice", ambiguous))
            numbers.append(ambiguous.number)
    assert len(numbers) == count
    for paths in (orders, invoices):  # the candidates must exist before the invoices
        assert {outcome.state.is_final for outcome in ingest(paths)} == {True}
    return numbers


def _with_unique_lines(document: Document, number: int) -> Document:
    """Return a copy of a document whose articles occur in no other document."""
    lines = [
        replace(
            line,
            article_number=f"{number}{index}77{document.number}",
            buyer_article_number=None,
            description=f"{WORDS[number - 1]} {index}",
            quantity=Decimal(3 + number),
            unit_price=Decimal(7 * number + index),
        )
        for index, line in enumerate(document.lines[:2])
    ]
    return replace(document, lines=tuple(lines))


def _write(folder: Path, name: str, document: Document) -> Path:
    path = folder / f"{name}.xml"
    path.write_bytes(write_ubl(document))
    return path
