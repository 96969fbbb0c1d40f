"""Build small sample documents for matching tests."""

from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from counterfoil.documents.matching.normalize import Document, document

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


class SampleDocument(NamedTuple):
    """A document before it is stored: type, data and time of receipt."""

    kind: str
    data: dict[str, Any]
    received_at: datetime = _RECEIVED


def day(number: int) -> str:
    """Return the ISO date `number` days after the samples' first day."""
    return (_START + timedelta(days=number)).isoformat()


def line(article: str, quantity: str = "10", price: str | None = "4.20", **fields: str) -> dict[str, str]:
    """Return a line item.

    Its net amount is quantity times price; without a price, it has none.
    """
    item = {"article_number": article, "description": f"Bolt {article}", "quantity": quantity, "unit": "C62", **fields}
    if price is not None:
        item |= {"unit_price": price, "net_amount": f"{float(quantity) * float(price):.2f}"}
    return item


def _sample(kind: str, number: str, when: int, fields: dict[str, Any]) -> SampleDocument:
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
    return SampleDocument(kind, data | fields, _RECEIVED + timedelta(days=received))


def order(number: str = "4711", when: int = 0, **fields: Any) -> SampleDocument:
    """Return a purchase order with two line items, 104.50 in total."""
    return _sample("purchase_order", number, when, fields)


def invoice(number: str = "R-81", when: int = 10, **fields: Any) -> SampleDocument:
    """Return an invoice for the same line items."""
    return _sample("invoice", number, when, fields)


def delivery(number: str = "LS-500", when: int = 7, **fields: Any) -> SampleDocument:
    """Return a delivery note for the same line items."""
    return _sample("delivery_note", number, when, fields)


def receipt(number: str = "WE-300", when: int = 8, **fields: Any) -> SampleDocument:
    """Return a goods receipt for the same line items."""
    return _sample("goods_receipt", number, when, fields)


def confirmation(number: str = "AB-200", when: int = 1, **fields: Any) -> SampleDocument:
    """Return an order confirmation for the same line items."""
    return _sample("order_confirmation", number, when, fields)


def credit(number: str = "G-900", when: int = 20, **fields: Any) -> SampleDocument:
    """Return a credit note for the same line items."""
    return _sample("credit_note", number, when, fields)


def contract(number: str = "RV-60", when: int = -30, **fields: Any) -> SampleDocument:
    """Return a framework contract for the same line items."""
    return _sample("contract", number, when, fields)


def read(sample: SampleDocument, id_: int = 1) -> Document:
    """Convert a sample to the document that matching compares."""
    return document(UUID(int=id_), sample.received_at, sample.kind, sample.data)


def random_samples(seed: int, size: int) -> list[SampleDocument]:
    """Return documents that share many numbers, articles, parties and days.

    They include duplicates, and wrong or missing references. They have no ground truth, and serve only to compare two
    matching results.
    """
    random = Random(seed)
    numbers = ["4711", "4712", "PO-4711", "0815", "8150"]
    result: list[SampleDocument] = []
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
        sample = kind(random.choice(numbers), random.randint(0, 40), **fields)
        result.append(sample)
        if kind in (invoice, order) and random.random() < 0.4:
            result.append(sample._replace(received_at=sample.received_at + timedelta(days=random.randint(-2, 2))))
    return result[:size]
