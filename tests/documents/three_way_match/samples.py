"""Build a small cluster: an order with its delivery, receipt and invoice.

The documents agree by default.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any
from uuid import UUID

from counterfoil.documents.three_way_match import Document, Result, Tolerances, find_variances, read_document

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
SELLER = {"name": "Tarnow Schrauben AG", "vat_id": "DE136695976"}
_FIELDS = {
    "purchase_order": ("po_number", "order_date", "supplier"),
    "order_confirmation": ("confirmation_number", "confirmation_date", "supplier"),
    "delivery_note": ("delivery_note_number", "delivery_date", "supplier"),
    "goods_receipt": ("receipt_number", "receipt_date", "supplier"),
    "invoice": ("invoice_number", "invoice_date", "issuer"),
    "credit_note": ("credit_note_number", "credit_note_date", "issuer"),
    "contract": ("contract_number", "contract_date", "supplier"),
}
_PRICED = {"purchase_order", "order_confirmation", "invoice", "credit_note", "contract"}


def line(article: str = "A-1", quantity: str = "10", price: str | None = "4.20", **fields: str) -> dict[str, str]:
    """Return a line item.

    By default, its net amount follows from quantity, price and price basis.
    """
    item = {"article_number": article, "description": f"Bolt {article}", "quantity": quantity, "unit": "C62", **fields}
    if price is not None:
        net = float(quantity) * float(price) / float(fields.get("price_basis_quantity", "1"))
        item = {"unit_price": price, "net_amount": f"{net:.2f}", **item}
    return item


TWO = (line(), line("B-2", "5", "12.50"))


def make_document(
    kind: str,
    number: str,
    day: int = 0,
    lines: Iterable[dict[str, str]] = TWO,
    received: int | None = None,
    **data: Any,
) -> Document:
    """Return a document.

    `day` and `received` count days from the start of the cluster.

    The id is derived from type and number. `data` overrides fields.
    """
    own, date, seller = _FIELDS[kind]
    at = START + timedelta(days=day if received is None else received)
    items = [dict(item) for item in lines]
    if kind not in _PRICED:
        items = [{k: v for k, v in item.items() if k not in ("unit_price", "net_amount", "tax_rate")} for item in items]
    stated: dict[str, Any] = {own: number, date: (START + timedelta(days=day)).date().isoformat(), seller: SELLER}
    if kind in _PRICED:
        net = sum(map(_number, items))
        stated |= {"currency": "EUR", "total_net": f"{net:.2f}", "total_tax": "0.00", "total_gross": f"{net:.2f}"}
    if kind not in {"purchase_order", "contract"}:
        stated["po_reference"] = "4711"
    id_ = UUID(bytes=f"{kind[:8]:8}{number[-8:]:>8}".encode())
    return read_document(id_, kind, at, stated | {"line_items": items} | data)


def _number(item: dict[str, str]) -> float:
    try:
        result_ = float(item.get("net_amount", 0))
    except ValueError:
        return 0.0
    return result_ if abs(result_) < 1e9 else 0.0


def duplicate_of(document: Document) -> Document:
    """Return the same document with another id, as if it had been received again."""
    return replace(document, id=UUID(int=document.id.int ^ 1))


def order(number: str = "4711", day: int = 0, **fields: Any) -> Document:
    return make_document("purchase_order", number, day, **fields)


def delivery(number: str = "L1", day: int = 5, **fields: Any) -> Document:
    return make_document("delivery_note", number, day, **fields)


def receipt(number: str = "W1", day: int = 6, **fields: Any) -> Document:
    return make_document("goods_receipt", number, day, **fields)


def invoice(number: str = "R-100", day: int = 10, **fields: Any) -> Document:
    return make_document("invoice", number, day, **fields)


def credit(number: str = "G1", day: int = 20, **fields: Any) -> Document:
    return make_document("credit_note", number, day, **fields)


_LINKED = [
    {"purchase_order", "order_confirmation"},
    {"purchase_order", "delivery_note"},
    {"purchase_order", "goods_receipt"},
    {"purchase_order", "invoice"},
    {"delivery_note", "invoice"},
    {"invoice", "credit_note"},
    {"contract", "invoice"},
]


def links(documents: Sequence[Document]) -> list[tuple[UUID, UUID]]:
    """Return the links that matching would create.

    Goods receipts are linked only to orders.
    """
    pairs = combinations(documents, 2)
    return [(a.id, b.id) for a, b in pairs if {a.type.value, b.type.value} in _LINKED]


def result(
    *documents: Document, edges: Sequence[tuple[UUID, UUID]] | None = None, tolerances: Tolerances | None = None
) -> Result:
    """Return the result of the three-way match."""
    return find_variances(documents, links(documents) if edges is None else edges, tolerances)


def codes(match_result: Result) -> list[str]:
    """Return the codes of open variances, in alphabetical order."""
    return sorted(variance.code.value for variance in match_result.variances if variance.is_open)
