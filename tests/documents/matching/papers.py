"""Documents for the tests of matching: small, and like nothing but themselves."""

from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from counterfoil.documents.matching.normalise import Document, document

BUYER = {"name": "Brede Werke GmbH", "vat_id": "DE811907980", "city": "Ulm", "postal_code": "89073", "country": "DE"}
SELLER = {
    "name": "Tarnow Schrauben AG",
    "vat_id": "DE136695976",
    "city": "Kassel",
    "postal_code": "34117",
    "country": "DE",
}
OTHER_SELLER = {
    "name": "Vossberg Papier KG",
    "vat_id": "DE129273398",
    "city": "Köln",
    "postal_code": "50667",
    "country": "DE",
}
_START = date(2026, 3, 2)
_RECEIVED = datetime(2026, 3, 2, 8, tzinfo=UTC)


class Paper(NamedTuple):
    """A document before it is anybody's: its place in time and what it says."""

    kind: str
    data: dict[str, Any]
    received_at: datetime = _RECEIVED


def day(number: int) -> str:
    """The date so many days after the beginning."""
    return (_START + timedelta(days=number)).isoformat()


def line(article: str, quantity: str = "10", price: str | None = "4.20", **more: str) -> dict[str, str]:
    """A line about an article, with the amount that quantity and price make."""
    found = {"article_number": article, "description": f"Bolt {article}", "quantity": quantity, "unit": "C62", **more}
    if price is not None:
        found |= {"unit_price": price, "net_amount": f"{float(quantity) * float(price):.2f}"}
    return found


def _paper(kind: str, number: str, when: int, fields: dict[str, Any]) -> Paper:
    names = {
        "invoice": ("invoice_number", "invoice_date", "issuer", "recipient"),
        "credit_note": ("credit_note_number", "credit_note_date", "issuer", "recipient"),
        "purchase_order": ("po_number", "order_date", "supplier", "buyer"),
        "order_confirmation": ("confirmation_number", "confirmation_date", "supplier", "buyer"),
        "delivery_note": ("delivery_note_number", "delivery_date", "supplier", "buyer"),
        "goods_receipt": ("receipt_number", "receipt_date", "supplier", "buyer"),
        "contract": ("contract_number", "contract_date", "supplier", "buyer"),
    }[kind]
    priced = kind not in ("delivery_note", "goods_receipt")
    lines = fields.pop("lines", [line("A-100"), line("A-200", "5", "12.50")])
    if not priced:
        lines = [
            {name: value for name, value in item.items() if name not in ("unit_price", "net_amount")} for item in lines
        ]
    data = dict(zip(names, (number, day(when), fields.pop("seller", SELLER), fields.pop("buyer", BUYER)), strict=True))
    data["line_items"] = lines
    if priced:
        data |= {"currency": "EUR", "total_net": f"{sum(float(item.get('net_amount', 0)) for item in lines):.2f}"}
    received = fields.pop("received", when)
    return Paper(kind, data | fields, _RECEIVED + timedelta(days=received))


def order(number: str = "4711", when: int = 0, **fields: Any) -> Paper:
    """A purchase order of two lines, 104.50 in all."""
    return _paper("purchase_order", number, when, fields)


def invoice(number: str = "R-81", when: int = 10, **fields: Any) -> Paper:
    """An invoice over the same lines."""
    return _paper("invoice", number, when, fields)


def delivery(number: str = "LS-500", when: int = 7, **fields: Any) -> Paper:
    """A delivery note for the same lines."""
    return _paper("delivery_note", number, when, fields)


def receipt(number: str = "WE-300", when: int = 8, **fields: Any) -> Paper:
    """A goods receipt for the same lines."""
    return _paper("goods_receipt", number, when, fields)


def confirmation(number: str = "AB-200", when: int = 1, **fields: Any) -> Paper:
    """An order confirmation of the same lines."""
    return _paper("order_confirmation", number, when, fields)


def credit(number: str = "G-900", when: int = 20, **fields: Any) -> Paper:
    """A credit note over the same lines."""
    return _paper("credit_note", number, when, fields)


def contract(number: str = "RV-60", when: int = -30, **fields: Any) -> Paper:
    """A frame contract about the same lines."""
    return _paper("contract", number, when, fields)


def read(paper: Paper, id_: int = 1) -> Document:
    """A paper as matching sees it."""
    return document(UUID(int=id_), paper.received_at, paper.kind, paper.data)


def pile(seed: int, size: int) -> list[Paper]:
    """Documents with far too much alike: few numbers, articles, parties, days; copies, wrong and missing references.

    No truth is known about them; they are for asking whether the same comes out twice.
    """
    random = Random(seed)
    numbers = ["4711", "4712", "PO-4711", "0815", "8150"]
    found: list[Paper] = []
    for _ in range(size):
        kind = random.choice(
            [order, order, invoice, invoice, invoice, delivery, receipt, confirmation, credit, contract]
        )
        fields: dict[str, Any] = {
            "seller": random.choice([SELLER, SELLER, SELLER, OTHER_SELLER]),
            "received": random.randint(0, 3),
            "lines": [
                line(random.choice("XYZ") + "-1", random.choice(["10", "4", "6"])) for _ in range(random.randint(1, 2))
            ],
        }
        if kind in (invoice, delivery, receipt, confirmation, credit) and random.random() < 0.5:
            fields["po_reference"] = random.choice([*numbers, numbers[:2]])
        if kind in (invoice, receipt) and random.random() < 0.4:
            fields["delivery_note_reference"] = random.choice(numbers)
        if kind in (invoice, order) and random.random() < 0.2:
            fields["contract_reference"] = random.choice(numbers)
        if kind is credit and random.random() < 0.5:
            fields["invoice_reference"] = random.choice(numbers)
        paper = kind(random.choice(numbers), random.randint(0, 40), **fields)
        found.append(paper)
        if kind in (invoice, order) and random.random() < 0.4:
            found.append(paper._replace(received_at=paper.received_at + timedelta(days=random.randint(-2, 2))))
    return found[:size]
