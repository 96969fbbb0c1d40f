"""Extracts structured data from pages by labels, layout and sums. Pure.

Every field has evidence. Ambiguous values, and values without a label or a meaningful position, are omitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from counterfoil.documents.structured import ROLES, DocumentType
from counterfoil.documents.text import kind, parties, table_layout, table_lines, totals
from counterfoil.documents.text.kind import LabeledFields, parse_reference
from counterfoil.documents.text.layout import LabeledValue, Layout
from counterfoil.documents.text.page import Evidence, Page

_PRICED = frozenset(
    {
        DocumentType.INVOICE,
        DocumentType.CREDIT_NOTE,
        DocumentType.PURCHASE_ORDER,
        DocumentType.ORDER_CONFIRMATION,
        DocumentType.CONTRACT,
    }
)
_ORDERS = frozenset({DocumentType.PURCHASE_ORDER, DocumentType.ORDER_CONFIRMATION})
_TOTALS = ("total_net", "total_tax", "total_gross")


@dataclass(frozen=True)
class Reading:
    """Values stated by a document, as input for `structured.to_structured_data`.

    `evidence` has an entry for each field, by path: "invoice_number", "issuer.vat_id", "line_items.0.quantity".
    """

    type: DocumentType
    fields: dict[str, Any]
    evidence: dict[str, Evidence]


def read(pages: Sequence[Page]) -> Reading | None:
    """Read one document from its pages.

    Returns None if its type or its own number is missing.
    """
    layout = Layout(pages)
    order = kind.date_order(cell.text for cell in layout.cells)
    identity = _identity(layout, order)
    if identity is None:
        return None
    type_, number, number_evidence, day = identity
    roles = ROLES[type_]
    labeled = LabeledFields(layout, type_, order, number)
    labeled.read()
    fields: dict[str, Any] = {roles.number: number, **labeled.fields}
    evidence = {roles.number: number_evidence, **labeled.evidence}
    if day is not None:
        fields[roles.date], evidence[roles.date] = day
    for role, party in parties.read(layout, type_).items():
        fields[role] = party.fields
        evidence |= {f"{role}.{name}": source for name, source in party.evidence.items()}
    if type_ in _PRICED:
        _read_amounts(layout, fields, evidence)
    _read_lines(type_, pages, fields, evidence)
    if type_ is DocumentType.CREDIT_NOTE:
        _credit(fields)
    return Reading(type_, fields, evidence)


_Identity = tuple[DocumentType, str, Evidence, tuple[str, Evidence] | None]


def _identity(layout: Layout, order: kind.DateOrder | None) -> _Identity | None:
    """Return the type, the number, its evidence, and any date beside the number."""

    def parse(text: str) -> tuple[str, float] | None:
        return parse_reference(text, order)

    title = kind.title(layout, order)
    # A line in normal-size type may name another document: `Lieferschein 4711` above its line items.
    by_number = None if title is not None and title.is_tall else kind.type_by_number(layout, parse, title)
    if title is None or by_number is not None:
        if by_number is None:
            return None
        return by_number[0], by_number[1].value, _evidence(by_number[1], 0.8), kind.date_after(by_number[1], order)
    day = None if title.date is None else (title.date, Evidence("title", 0.95, title.cell.page))
    if title.number is not None:
        return title.type, title.number, Evidence("title", title.confidence, title.cell.page), day
    labeled, share = next(iter(kind.own_numbers(layout, title.type, parse)), None), 1.0
    if labeled is None:
        labeled, share = next(kind.named_numbers(layout, title.type, parse), None), 0.9
    if labeled is None:
        labeled, share = kind.number_beside(layout, title, parse), 0.7
    if labeled is None:
        return None
    return title.type, labeled.value, _evidence(labeled, share), day or kind.date_after(labeled, order)


def _evidence(labeled: LabeledValue, share: float) -> Evidence:
    return Evidence("label", round(labeled.confidence * share, 2), labeled.cell.page)


def _read_amounts(layout: Layout, fields: dict[str, Any], evidence: dict[str, Evidence]) -> None:
    form = table_layout.number_format(word for page in layout.pages for word in page.words)
    amounts = totals.read(layout, form)
    fields |= {name: str(amount) for name, amount in amounts.amounts.items()}
    evidence |= amounts.evidence
    if (currency := kind.currency(layout)) is not None:
        fields["currency"], evidence["currency"] = currency


def _read_lines(
    type_: DocumentType, pages: Sequence[Page], fields: dict[str, Any], evidence: dict[str, Evidence]
) -> None:
    net, gross = (Decimal(fields[name]) if name in fields else None for name in ("total_net", "total_gross"))
    is_credit_note = type_ is DocumentType.CREDIT_NOTE
    lines = table_lines.read_lines(pages, is_credit_note=is_credit_note, total_net=net, total_gross=gross)
    if type_ in _ORDERS and net is None and "total_tax" not in fields and gross is not None and lines.net == gross:
        # Orders may label the sum of prices without tax as the total.
        fields["total_net"], evidence["total_net"] = fields.pop("total_gross"), evidence.pop("total_gross")
    if lines.items:
        fields["line_items"] = [item.fields for item in lines.items]
    for index, item in enumerate(lines.items):
        evidence |= {f"line_items.{index}.{name}": source for name, source in item.evidence.items()}


def _credit(fields: dict[str, Any]) -> None:
    """Make a credit note's totals positive if none is positive.

    Some credit notes are printed with minus signs.
    """
    amounts = [Decimal(fields[name]) for name in _TOTALS if name in fields]
    if not any(amounts) or any(amount > 0 for amount in amounts):
        return
    fields |= {name: str(-Decimal(fields[name])) for name in _TOTALS if name in fields}
