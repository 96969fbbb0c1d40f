"""The sample's documents as values, and the structured data to extract.

All values are immutable and use exact decimals. Writers (UBL, CII, PDF) only serialize a `Document`. Fields have the
same names as in structured data, so the document is its own ground truth.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Any

CENT = Decimal("0.01")


class Kind(StrEnum):
    """Document type, as in structured data."""

    PURCHASE_ORDER = "purchase_order"
    ORDER_CONFIRMATION = "order_confirmation"
    DELIVERY_NOTE = "delivery_note"
    GOODS_RECEIPT = "goods_receipt"
    INVOICE = "invoice"
    CREDIT_NOTE = "credit_note"


@dataclass(frozen=True)
class OwnFields:
    """Field names for a document type's own number, date and parties."""

    number: str
    date: str
    seller: str
    buyer: str


OWN_FIELDS: Mapping[Kind, OwnFields] = {
    Kind.PURCHASE_ORDER: OwnFields("po_number", "order_date", "supplier", "buyer"),
    Kind.ORDER_CONFIRMATION: OwnFields("confirmation_number", "confirmation_date", "supplier", "buyer"),
    Kind.DELIVERY_NOTE: OwnFields("delivery_note_number", "delivery_date", "supplier", "buyer"),
    Kind.GOODS_RECEIPT: OwnFields("receipt_number", "receipt_date", "supplier", "buyer"),
    Kind.INVOICE: OwnFields("invoice_number", "invoice_date", "issuer", "recipient"),
    Kind.CREDIT_NOTE: OwnFields("credit_note_number", "credit_note_date", "issuer", "recipient"),
}
WITHOUT_PRICES = frozenset({Kind.DELIVERY_NOTE, Kind.GOODS_RECEIPT})


@dataclass(frozen=True)
class Party:
    """A party with the fields that a document states. None means absent."""

    name: str
    vat_id: str | None = None
    tax_number: str | None = None
    registration_id: str | None = None
    endpoint_id: str | None = None
    iban: str | None = None
    email: str | None = None
    street: str | None = None
    city: str | None = None
    postal_code: str | None = None
    country: str | None = None


@dataclass(frozen=True)
class Company:
    """A company with all of its data.

    `party` selects the fields that a document states.
    """

    name: str
    short_name: str
    street: str
    postal_code: str
    city: str
    country: str
    language: str
    vat_id: str
    tax_number: str | None
    registration_id: str
    register: str
    email: str
    phone: str
    bank: str
    iban: str
    color: tuple[int, int, int]
    claim: str = ""

    def party(self, *stated: str) -> Party:
        """Return this company as a party with name, address and the fields in `stated`."""
        values = {name: getattr(self, name) for name in stated if name != "endpoint_id"}
        return Party(
            name=self.name,
            street=self.street,
            postal_code=self.postal_code,
            city=self.city,
            country=self.country,
            endpoint_id=self.email if "endpoint_id" in stated else None,
            **values,
        )


@dataclass(frozen=True, order=True)
class Tax:
    """VAT category (UNCL 5305) and rate in percent.

    S is standard or reduced, K intra-community, G export.
    """

    category: str
    rate: Decimal


@dataclass(frozen=True)
class Line:
    """A line item.

    Prices are per `price_basis_quantity` (default 1). Delivery documents have no prices.
    """

    position: str
    article_number: str | None
    buyer_article_number: str | None
    description: str
    quantity: Decimal
    unit: str
    unit_price: Decimal | None = None
    price_basis_quantity: Decimal | None = None
    tax: Tax | None = None
    po_line: str | None = None
    rejected_quantity: Decimal | None = None

    @property
    def net_amount(self) -> Decimal | None:
        """Quantity times price over basis, rounded half up to cents.

        None without a price.
        """
        if self.unit_price is None:
            return None
        amount = self.quantity * self.unit_price / (self.price_basis_quantity or 1)
        return amount.quantize(CENT, ROUND_HALF_UP)


@dataclass(frozen=True)
class TaxGroup:
    """Net total and tax of the line items with one VAT category and rate.

    Both are rounded half up to cents.
    """

    tax: Tax
    base: Decimal
    amount: Decimal


@dataclass(frozen=True)
class Totals:
    """Net, tax and gross totals of a document."""

    groups: tuple[TaxGroup, ...]
    net: Decimal
    tax: Decimal
    gross: Decimal


@dataclass(frozen=True)
class Document:
    """A business document.

    `references` maps fields (`po_reference`, ...) to other documents' numbers.

    `issuer` is the company that determines letterhead and language. `delivery_date`, `buyer_reference` and `note`
    appear in the file, but not in structured data.
    """

    kind: Kind
    number: str
    issue_date: date
    issuer: Company
    seller: Party
    buyer: Party
    lines: tuple[Line, ...]
    currency: str | None = None
    references: Mapping[str, str] = field(default_factory=dict)
    due_date: date | None = None
    delivery_date: date | None = None
    buyer_reference: str | None = None
    note: str | None = None

    @property
    def totals(self) -> Totals:
        """Sum the line items by VAT category and rate (EN 16931, BR-CO-10 to BR-CO-17).

        Raises:
            ValueError: the document has no prices.
        """
        bases: dict[Tax, Decimal] = {}
        for line in self.lines:
            if line.tax is None or line.net_amount is None:
                message = f"a {self.kind} has no prices"
                raise ValueError(message)
            bases[line.tax] = bases.get(line.tax, Decimal(0)) + line.net_amount
        groups = tuple(
            TaxGroup(tax, base, (base * tax.rate / 100).quantize(CENT, ROUND_HALF_UP))
            for tax, base in sorted(bases.items())
        )
        net = sum((group.base for group in groups), Decimal(0))
        tax_total = sum((group.amount for group in groups), Decimal(0))
        return Totals(groups, net, tax_total, net + tax_total)

    @property
    def structured_data(self) -> dict[str, Any]:
        """Structured data that extraction must return.

        Decimals and dates are strings.
        """
        own = OWN_FIELDS[self.kind]
        data: dict[str, Any] = {
            own.number: self.number,
            own.date: self.issue_date.isoformat(),
            own.seller: _without_none(asdict(self.seller)),
            own.buyer: _without_none(asdict(self.buyer)),
            **self.references,
            "line_items": [_line_data(line) for line in self.lines],
        }
        if self.kind not in WITHOUT_PRICES:
            totals = self.totals
            data["currency"] = self.currency
            data["total_net"] = plain(totals.net)
            data["total_tax"] = plain(totals.tax)
            data["total_gross"] = plain(totals.gross)
        if self.due_date is not None:
            data["payment_due_date"] = self.due_date.isoformat()
        return data


def plain(value: Decimal) -> str:
    """Format a decimal for structured data and XML, without an exponent."""
    return format(value, "f")


def _line_data(line: Line) -> dict[str, Any]:
    tax_rate = None if line.tax is None else line.tax.rate
    return _without_none(
        {
            "position": line.position,
            "article_number": line.article_number,
            "buyer_article_number": line.buyer_article_number,
            "description": line.description,
            "quantity": line.quantity,
            "unit": line.unit,
            "price_basis_quantity": line.price_basis_quantity,
            "unit_price": line.unit_price,
            "net_amount": line.net_amount,
            "tax_rate": tax_rate,
            "po_line": line.po_line,
            "rejected_quantity": line.rejected_quantity,
        }
    )


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: plain(value) if isinstance(value, Decimal) else value
        for name, value in values.items()
        if value is not None
    }
