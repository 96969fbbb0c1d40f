"""Data types of a three-way match: documents, units and variances. Pure.

Factors between units are exact by the definitions of the SI, of the international yard and pound (1959), and of time.
Factors that depend on the goods (pieces in a box, meters on a reel) are not converted.

Freight, surcharges, fees, discounts and down payments are not goods and are not ordered. EN 16931 requires a unit on
every line, so only the words in their descriptions distinguish them. Words come from `normalize.words`: folded, without
accents.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from counterfoil.documents import units
from counterfoil.documents.lexicon import THREE_WAY_MATCH
from counterfoil.documents.matching.normalize import Reference, normalize_code, reference, words
from counterfoil.documents.structured import ROLES, DocumentType, is_identified
from counterfoil.documents.three_way_match.tolerances import Limits, as_json

_FACTORS = {
    unit: (dimension, Decimal(factor))
    for dimension, units in {
        "number": {"C62": "1", "DZN": "12", "CEN": "100", "MIL": "1000", "GRO": "144"},
        "mass": {"MGM": "0.000001", "GRM": "0.001", "DTN": "100", "KGM": "1", "TNE": "1000", "LBR": "0.45359237",
                 "ONZ": "0.028349523125"},
        "length": {"MMT": "0.001", "CMT": "0.01", "DMT": "0.1", "MTR": "1", "KMT": "1000", "INH": "0.0254",
                   "FOT": "0.3048", "YRD": "0.9144"},
        "area": {"MMK": "0.000001", "CMK": "0.0001", "MTK": "1", "HAR": "10000", "KMK": "1000000",
                 "FTK": "0.09290304"},
        "volume": {"MLT": "0.001", "CLT": "0.01", "DLT": "0.1", "LTR": "1", "HLT": "100", "MTQ": "1000",
                   "CMQ": "0.001", "DMQ": "1"},
        "time": {"SEC": "1", "MIN": "60", "HUR": "3600"},
        "energy": {"WHR": "1", "KWH": "1000", "MWH": "1000000"},
    }.items()
    for unit, factor in units.items()
}  # fmt: skip

_SERVICES = frozenset(
    {"SEC", "MIN", "HUR", "DAY", "WEE", "MON", "QAN", "SAN", "ANN", "E48", "E49", "E51", "LS", "ACT", "LH"}
)  # fmt: skip
"""Unit codes of services: time, service units, jobs, activities and lump sums."""


_WORDS = {
    "C62": ("piece", "pieces"), "XBX": ("box", "boxes"), "XPK": ("pack", "packs"), "DZN": ("dozen", "dozen"),
    "XCT": ("carton", "cartons"), "XRO": ("roll", "rolls"), "XBO": ("bottle", "bottles"), "XBG": ("bag", "bags"),
    "XPX": ("pallet", "pallets"), "PR": ("pair", "pairs"), "SET": ("set", "sets"),
    "SEC": ("second", "seconds"), "MIN": ("minute", "minutes"), "HUR": ("hour", "hours"), "DAY": ("day", "days"),
    "WEE": ("week", "weeks"), "MON": ("month", "months"), "ANN": ("year", "years"), "E48": ("service", "services"),
    "MGM": ("mg", "mg"), "GRM": ("g", "g"), "KGM": ("kg", "kg"), "TNE": ("t", "t"), "MMT": ("mm", "mm"),
    "CMT": ("cm", "cm"), "MTR": ("m", "m"), "KMT": ("km", "km"), "MTK": ("m²", "m²"), "MLT": ("ml", "ml"),
    "LTR": ("l", "l"), "HLT": ("hl", "hl"), "MTQ": ("m³", "m³"), "KWH": ("kWh", "kWh"),
}  # fmt: skip
"""Names of units in sentences, singular and plural."""
MEASURED_UNITS = frozenset(unit for unit, (one, many) in _WORDS.items() if one == many) - {"DZN"}
"""Units of quantities that are measured, not counted."""


def unit_name(unit: str | None, quantity: Decimal) -> str:
    """Return a unit's name for a sentence.

    The name is empty if `unit` is None, and the code if the unit has no name.
    """
    if unit is None:
        return ""
    return _WORDS.get(unit, (unit, unit))[abs(quantity) != 1]


def conversion_factor(unit: str | None, target: str | None) -> Decimal | None:
    """Return the number of `target` units in one `unit`; None if unknown.

    If either unit is missing, the units are treated as equal.

    >>> conversion_factor("TNE", "KGM")
    Decimal('1000')
    """
    if unit == target or unit is None or target is None:
        return Decimal(1)
    source_factor, target_factor = _FACTORS.get(unit), _FACTORS.get(target)
    if source_factor is None or target_factor is None or source_factor[0] != target_factor[0]:
        return None
    return source_factor[1] / target_factor[1]


def is_goods(unit: str | None) -> bool:
    """Return True for units of goods, which are delivered, unlike services and time."""
    return unit is not None and unit not in _SERVICES


_ALONE, _ANYWHERE, _FIRST, _ENDINGS, _PHRASES = (
    tuple(map(words, THREE_WAY_MATCH.terms(f"charges.{concept}")))
    for concept in ("alone", "anywhere", "first", "ending", "phrase")
)


def is_charge(description: str) -> bool:
    """Return True if the words of a description name a charge.

    >>> is_charge("mindermengenzuschlag"), is_charge("transport box")
    (True, False)
    """
    words = [word for word in description.split() if not word.isdigit()]
    if not words:
        return False
    return (
        all(word in _ALONE for word in words)
        or words[0] in _FIRST
        or any(word in _ANYWHERE or word.endswith(_ENDINGS) for word in words)
        or any(f" {phrase} " in f" {description} " for phrase in _PHRASES)
    )


_DIGITS = Context(prec=18)
_MAX_COMPARED_TEXT = 400
"""Maximum number of characters of a description that are compared."""
_CENT = Decimal("0.01")
_MIN_SHARE, _MAX_SHARE = Decimal("0.2"), Decimal(2)
"""Minimum ratio of a discounted price to the stated price, and maximum ratio with a surcharge."""
MAX_TEXT_CHARS = 80
"""Maximum number of characters of a description or number that a sentence quotes."""


class VarianceCode(StrEnum):
    """Kinds of variances."""

    OVER_BILLED_QUANTITY = "over_billed_quantity"
    UNDER_DELIVERED = "under_delivered"
    OVER_DELIVERED = "over_delivered"
    PRICE_MISMATCH = "price_mismatch"
    PRICE_BASIS_MISMATCH = "price_basis_mismatch"
    TOTAL_MISMATCH = "total_mismatch"
    CURRENCY_MISMATCH = "currency_mismatch"
    MISSING_PURCHASE_ORDER = "missing_purchase_order"
    MISSING_DELIVERY = "missing_delivery"
    DUPLICATE_INVOICE = "duplicate_invoice"
    OVER_ORDERED_AMOUNT = "billed_beyond_order"
    REJECTED_GOODS_BILLED = "rejected_goods_billed"
    TAX_MISMATCH = "tax_mismatch"


VARIANCE_LABELS: Mapping[str, str] = {
    VarianceCode.OVER_BILLED_QUANTITY: "Quantity billed but not delivered",
    VarianceCode.UNDER_DELIVERED: "Short delivery",
    VarianceCode.OVER_DELIVERED: "Excess delivery",
    VarianceCode.PRICE_MISMATCH: "Price difference",
    VarianceCode.PRICE_BASIS_MISMATCH: "Price for a different quantity",
    VarianceCode.TOTAL_MISMATCH: "Total difference",
    VarianceCode.CURRENCY_MISMATCH: "Currency difference",
    VarianceCode.MISSING_PURCHASE_ORDER: "Missing purchase order",
    VarianceCode.MISSING_DELIVERY: "Missing delivery",
    VarianceCode.DUPLICATE_INVOICE: "Duplicate invoice",
    VarianceCode.OVER_ORDERED_AMOUNT: "Billed more than ordered",
    VarianceCode.REJECTED_GOODS_BILLED: "Rejected goods billed",
    VarianceCode.TAX_MISMATCH: "Tax difference",
}
"""Names of variances for users."""
WAITING = frozenset({VarianceCode.UNDER_DELIVERED, VarianceCode.MISSING_DELIVERY, VarianceCode.MISSING_PURCHASE_ORDER})
"""Variances that a later document may resolve."""


DecisionKind = Literal["accepted", "disputed"]
"""A reviewer's decision about a variance."""


class ThreeWayMatchStatus(StrEnum):
    """Three-way match status."""

    MATCHED = "matched"
    WITHIN_TOLERANCE = "within-tolerance"
    EXCEPTION = "exception"
    INCOMPLETE = "incomplete"


# -- documents ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A line item of a document. Codes, words and units are in canonical form."""

    place: int
    """Index in the document, from 0."""
    label: str
    """The stated position, or else the index from 1."""
    article: str | None
    buyer_article: str | None
    article_text: str | None
    """The supplier's or else the buyer's article number, as written."""
    description: str | None
    words: str
    quantity: Decimal | None
    rejected: Decimal | None
    unit: str | None
    unit_price: Decimal | None
    """Price of `price_basis` units."""
    price_basis: Decimal
    net: Decimal | None
    tax_rate: Decimal | None
    order: Reference | None
    """Number of the purchase order that the line item names."""
    order_line: str | None

    @property
    def price(self) -> Decimal | None:
        """Price of one unit: as stated, or else the amount divided by the quantity."""
        if self.unit_price is not None:
            return _DIGITS.divide(self.unit_price, self.price_basis)
        return _DIGITS.divide(self.net, self.quantity) if self.net is not None and self.quantity else None

    @property
    def cost(self) -> Decimal | None:
        """Amount for one unit, after the line item's discounts and surcharges.

        If the amount differs from the price only by rounding, the result is the stated price, which has more decimal
        places.
        """
        price = self.price
        if price is None or self.net is None or not self.quantity or self.unit_price is None:
            return price
        places = min(int(self.unit_price.as_tuple().exponent), -2)
        rounding = max(2 * _CENT, _DIGITS.divide(abs(self.quantity).scaleb(places) / 2, self.price_basis))
        is_rounded = abs(_DIGITS.multiply(price, self.quantity) - self.net) <= rounding
        return price if is_rounded else _DIGITS.divide(self.net, self.quantity)

    @property
    def has_plausible_cost(self) -> bool:
        """True if `cost` is a plausible price after a discount or with a surcharge."""
        return not self.price or self.cost is None or _MIN_SHARE <= _DIGITS.divide(self.cost, self.price) <= _MAX_SHARE

    @property
    def is_item(self) -> bool:
        """True for goods and services.

        False for charges, and with neither article number nor unit.
        """
        if self.article is not None or self.buyer_article is not None:
            return True
        return self.unit is not None and not is_charge(self.words)


@dataclass(frozen=True, slots=True)
class Document:
    """A document in a cluster."""

    id: UUID
    type: DocumentType
    received_at: datetime
    number: str
    reference: Reference | None
    day: date | None
    sellers: tuple[str, ...]
    """VAT id and name of the supplier, if stated."""
    is_supplier_identified: bool
    """Whether the supplier has a name, VAT id, tax number or registration id."""
    currency: str | None
    net: Decimal | None
    tax: Decimal | None
    gross: Decimal | None
    references: Mapping[str, tuple[Reference, ...]]
    """Numbers of other documents that this document names, by field."""
    lines: tuple[Line, ...]
    data: Mapping[str, Any] = field(repr=False)
    """Its structured data."""

    @property
    def title(self) -> str:
        """Name in sentences: `invoice RE-100`."""
        return f"{self.type.value.replace('_', ' ')} {truncate(self.number)}".rstrip()

    @property
    def heading(self) -> str:
        """Name at the beginning of a sentence."""
        return self.title[0].upper() + self.title[1:]

    @property
    def sort_key(self) -> tuple[date, datetime, UUID]:
        """Sort key: the document date, then the time of receipt."""
        return self.day or self.received_at.date(), self.received_at, self.id


def read_document(id_: UUID, type_: str, received_at: datetime, data: Mapping[str, Any]) -> Document:
    """Convert structured data (`structured`) to a document.

    Invalid values are skipped.

    Raises:
        KeyError: the type is `other`, which has no roles.
    """
    kind = DocumentType(type_)
    roles = ROLES[kind]
    number = _text(data.get(roles.number)) or ""
    items = [item for item in data.get("line_items") or () if isinstance(item, Mapping)]
    seller = data.get(roles.seller)
    return Document(
        id=id_,
        type=kind,
        received_at=received_at,
        number=number,
        reference=reference(number) if number else None,
        day=_day(data.get(roles.date)),
        sellers=tuple(
            value
            for name in ("vat_id", "name")
            if isinstance(seller, Mapping) and (value := _text(seller.get(name))) is not None
        ),
        is_supplier_identified=is_identified(seller),
        currency=(_text(data.get("currency")) or "").upper() or None,
        net=parse_number(data.get("total_net")),
        tax=parse_number(data.get("total_tax")),
        gross=parse_number(data.get("total_gross")),
        references={
            name: numbers for name in data if name.endswith("_reference") and (numbers := _references(data[name]))
        },
        lines=tuple(_line(index, item) for index, item in enumerate(items or _document_line(kind, data))),
        data=data,
    )


def _document_line(kind: DocumentType, data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return one line item with the net total, for an invoice that has no line items."""
    is_bill = kind is DocumentType.INVOICE and parse_number(data.get("total_net")) is not None
    return [{"position": "total", "net_amount": data["total_net"]}] if is_bill else []


def _line(place: int, item: Mapping[str, Any]) -> Line:
    article, buyer_article = _text(item.get("article_number")), _text(item.get("buyer_article_number"))
    description, order = _text(item.get("description")), _text(item.get("po_reference"))
    basis = parse_number(item.get("price_basis_quantity"))
    return Line(
        place=place,
        label=_text(item.get("position")) or str(place + 1),
        article=(normalize_code(article) or None) if article else None,
        buyer_article=(normalize_code(buyer_article) or None) if buyer_article else None,
        article_text=article or buyer_article,
        description=description,
        words=words(description)[:_MAX_COMPARED_TEXT] if description else "",
        quantity=parse_number(item.get("quantity")),
        rejected=parse_number(item.get("rejected_quantity")),
        unit=units.canonical(_text(item.get("unit"))),
        unit_price=parse_number(item.get("unit_price")),
        price_basis=basis if basis is not None and basis > 0 else Decimal(1),
        net=parse_number(item.get("net_amount")),
        tax_rate=parse_number(item.get("tax_rate")),
        order=reference(order) if order else None,
        order_line=_text(item.get("po_line")),
    )


def _text(value: Any) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None


def parse_number(value: Any) -> Decimal | None:
    """Return a decimal string as a number, or None if it is missing or invalid.

    Numbers that are too large or too small are invalid.
    """
    if not isinstance(value, str):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= 30 else None


def _day(value: Any) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _references(value: Any) -> tuple[Reference, ...]:
    texts = [value] if isinstance(value, str) else value if isinstance(value, Iterable) else ()
    return tuple(parsed for text in texts if isinstance(text, str) and (parsed := reference(text)))


# -- results --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance:
    """A difference between documents in a cluster."""

    code: VarianceCode
    document: Document
    """The document to check."""
    line: str | None = None
    expected: Decimal | str | None = None
    actual: Decimal | str | None = None
    difference: Decimal | None = None
    unit: str | None = None
    currency: str | None = None
    limits: Limits | None = None
    """The applied tolerance, if any."""
    is_tolerated: bool = False
    message: str
    decided_by: str | None = None
    """Sentence that states how the variance was resolved."""
    awaited_deliveries: str | None = None
    """Sentence about the missing deliveries that may resolve the variance."""
    decision: DecisionKind | None = None
    """A reviewer's latest decision."""
    decision_by: str | None = None
    """The reviewer, as named in the decision's sentence."""

    @property
    def is_open(self) -> bool:
        """True if the variance requires action."""
        return not self.is_tolerated and self.decided_by is None

    @property
    def is_waiting(self) -> bool:
        """True if a later document may resolve the variance."""
        return self.code in WAITING or self.awaited_deliveries is not None

    @property
    def record(self) -> dict[str, Any]:
        """JSON form, with the id, type and number of its document."""
        return {
            "code": self.code.value,
            "document": str(self.document.id),
            "document_type": self.document.type.value,
            "number": self.document.number,
            "line": self.line,
            "expected": _plain(self.expected),
            "actual": _plain(self.actual),
            "difference": _plain(self.difference),
            "unit": self.unit,
            "currency": self.currency,
            "tolerance": None if self.limits is None else as_json(self.limits),
            "within_tolerance": self.is_tolerated,
            "message": self.message,
            "decided_by": self.decided_by,
            "awaited_deliveries": self.awaited_deliveries,
            "decision": self.decision,
            "decision_by": self.decision_by,
        }


@dataclass(frozen=True, slots=True)
class LineContribution:
    """A document's line item in a row of the comparison."""

    document: UUID
    line: str
    role: str
    """ordered, confirmed, delivered, received, billed or credited."""
    quantity: Decimal | None
    """In the unit of the row. None if absent, or in a unit that cannot be converted."""
    unit_price: Decimal | None
    """Price of one unit of the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineComparison:
    """An article or service, compared across all documents.

    A quantity is None if no document states it.
    """

    order: UUID | None
    line: str
    article: str | None
    description: str | None
    unit: str | None
    currency: str | None
    ordered: Decimal | None
    delivered: Decimal | None
    received: Decimal | None
    rejected: Decimal | None
    billed: Decimal | None
    credited: Decimal | None
    price: Decimal | None
    """Ordered price of one unit."""
    parts: tuple[LineContribution, ...]


class ClusterStatus(StrEnum):
    """Status of a cluster in lists. The first condition that holds applies.

    | status | condition |
    |---|---|
    | exception | an open variance that is not disputed, or quantities that cannot be compared |
    | needs-review | a match is ambiguous, or a document without a confirmed match names no supplier |
    | disputed | reviewers disputed every open variance |
    | incomplete | a document is missing |
    | accepted | matched, because a reviewer accepted variances |
    | matched | no variance is open |
    """

    EXCEPTION = "exception"
    NEEDS_REVIEW = "needs-review"
    DISPUTED = "disputed"
    INCOMPLETE = "incomplete"
    ACCEPTED = "accepted"
    MATCHED = "matched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of a cluster for lists."""

    status: ClusterStatus
    supplier: str | None
    """Name, or else VAT id, as a document states it."""
    order_numbers: tuple[str, ...]
    """Numbers of its purchase orders, or else the order numbers that its documents name."""
    currency: str | None
    ordered: Decimal | None
    """Net total of the purchase orders; None if unknown."""
    delivered: Decimal | None
    """Delivered minus rejected quantities, at ordered prices; None if unknown."""
    billed: Decimal | None
    """Net total of the invoices minus credit notes; None if no invoice was received."""
    affected: Decimal
    """Amount of the open variances.

    An invoice counts in full if it is a duplicate, has no order or delivery, or is in a different currency than its
    order.
    """
    waiting_since: datetime | None
    """When the first invoice or credit note was received, or else the first document. None for an empty cluster."""
    documents: int
    """Number of documents, excluding contracts."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a three-way match."""

    outcome: ThreeWayMatchStatus
    reasons: tuple[str, ...]
    """Sentences for clerks, most important first. If the cluster needs review, they start with its open reviews."""
    variances: tuple[Variance, ...]
    rows: tuple[LineComparison, ...]
    warnings: tuple[str, ...]
    """Facts that affected the comparison: a changed order, a duplicate delivery note, a credit note."""
    summary: Summary
    """Summary for lists, which is not part of `record`."""

    @property
    def record(self) -> dict[str, Any]:
        """JSON form, which is stored and sent to destinations."""
        return {
            "outcome": self.outcome.value,
            "reasons": list(self.reasons),
            "variances": [variance.record for variance in self.variances],
            "lines": as_json(self.rows, format_number),
            "warnings": list(self.warnings),
        }


def truncate(text: str) -> str:
    """Return a text on one line, truncated to MAX_TEXT_CHARS, for sentences."""
    plain = " ".join(text.split())
    return plain if len(plain) <= MAX_TEXT_CHARS else plain[: MAX_TEXT_CHARS - 3] + "..."


def quote(text: str) -> str:
    """Return a truncated text in quotation marks."""
    return f"“{truncate(text)}”"


def format_number(number: Decimal) -> str:
    """Return a number without exponent and trailing zeros."""
    text = format(number.normalize(), "f")
    return "0" if text == "-0" else text


def format_money(number: Decimal, currency: str | None) -> str:
    """Return an amount with at least two decimal places and its currency."""
    text = format_number(number)
    integer, _, decimals = text.partition(".")
    return f"{integer}.{decimals:0<2} {currency or ''}".rstrip()


def _plain(value: Decimal | str | None) -> str | None:
    return format_number(value) if isinstance(value, Decimal) else value
