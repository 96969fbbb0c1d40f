"""Data of a three-way match: documents with lines in decimals, units of measure, variances, the result. Pure.

Factors between units are exact by the definitions of the SI, of the international yard and pound (1959), and of time.
What depends on the goods (pieces in a box, meters on a reel) is not converted.

Freight, surcharges, fees, discounts and down payments bill no goods. Nobody orders them, and EN 16931 requires a unit
on every line, so their words tell them apart. Words are those of `normalise.words`: folded, without accents.
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
from counterfoil.documents.matching.normalise import Reference, code, reference, words
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
"""Time, service units, jobs, activities and lump sums."""


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
"""What people call a unit, of one and of several."""


def spoken(unit: str | None, quantity: Decimal) -> str:
    """A unit as a sentence names it; empty where none is stated, the code where people have no other word for it."""
    if unit is None:
        return ""
    return _WORDS.get(unit, (unit, unit))[abs(quantity) != 1]


def factor(unit: str | None, wanted: str | None) -> Decimal | None:
    """How many of `wanted` one `unit` is; None where that is not certain. A unit that is not stated is the wanted one.

    >>> factor("TNE", "KGM")
    Decimal('1000')
    """
    if unit == wanted or unit is None or wanted is None:
        return Decimal(1)
    mine, theirs = _FACTORS.get(unit), _FACTORS.get(wanted)
    if mine is None or theirs is None or mine[0] != theirs[0]:
        return None
    return mine[1] / theirs[1]


def is_goods(unit: str | None) -> bool:
    """Whether what is measured so is delivered: not time, and not a service."""
    return unit is not None and unit not in _SERVICES


_ALONE, _ANYWHERE, _FIRST, _ENDINGS, _PHRASES = (
    tuple(map(words, THREE_WAY_MATCH.terms(f"charges.{concept}")))
    for concept in ("alone", "anywhere", "first", "ending", "phrase")
)


def is_charge(said: str) -> bool:
    """Whether a description, as `normalise.words` gives it, is of a charge.

    >>> is_charge("mindermengenzuschlag"), is_charge("transport box")
    (True, False)
    """
    telling = [word for word in said.split() if not word.isdigit()]
    if not telling:
        return False
    return (
        all(word in _ALONE for word in telling)
        or telling[0] in _FIRST
        or any(word in _ANYWHERE or word.endswith(_ENDINGS) for word in telling)
        or any(f" {phrase} " in f" {said} " for phrase in _PHRASES)
    )


_DIGITS = Context(prec=18)
_COMPARED_TEXT = 400
"""Characters of a description that are compared: what tells articles apart is not behind them."""
_CENT = Decimal("0.01")
_LEAST, _MOST = Decimal("0.2"), Decimal(2)
"""Of a price, what a discount leaves at least, and what a surcharge makes of it at most."""
LONGEST_TEXT = 80
"""Characters of a description or a number that a sentence quotes."""


class Code(StrEnum):
    """What can be wrong with a case."""

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
    BILLED_BEYOND_ORDER = "billed_beyond_order"
    REJECTED_GOODS_BILLED = "rejected_goods_billed"
    TAX_MISMATCH = "tax_mismatch"


WAITING = frozenset({Code.UNDER_DELIVERED, Code.MISSING_DELIVERY, Code.MISSING_PURCHASE_ORDER})
"""What a document that is still to come may put right."""


Decision = Literal["accepted", "disputed"]
"""Decision of a person about a variance."""


class Outcome(StrEnum):
    """Three-way match status."""

    MATCHED = "matched"
    WITHIN_TOLERANCE = "within-tolerance"
    EXCEPTION = "exception"
    INCOMPLETE = "incomplete"


# -- what is read ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A line as its document states it. Codes, words and units are in canonical forms, to be compared."""

    place: int
    """From 0, in the order of the document."""
    label: str
    """How people find it: its position, else its place from 1."""
    article: str | None
    buyer_article: str | None
    article_text: str | None
    """One of the article numbers as written, for people."""
    description: str | None
    words: str
    quantity: Decimal | None
    rejected: Decimal | None
    unit: str | None
    unit_price: Decimal | None
    """For `price_basis` units."""
    price_basis: Decimal
    net: Decimal | None
    tax_rate: Decimal | None
    order: Reference | None
    """The order that the line itself names."""
    order_line: str | None

    @property
    def price(self) -> Decimal | None:
        """For one unit: what is stated, else what the line's amount comes to."""
        if self.unit_price is not None:
            return _DIGITS.divide(self.unit_price, self.price_basis)
        return _DIGITS.divide(self.net, self.quantity) if self.net is not None and self.quantity else None

    @property
    def cost(self) -> Decimal | None:
        """For one unit, what the line comes to: its price less a discount, or with a surcharge, of the line.

        The stated price where the amount is it but for rounding, for it has more places.
        """
        price = self.price
        if price is None or self.net is None or not self.quantity or self.unit_price is None:
            return price
        places = min(int(self.unit_price.as_tuple().exponent), -2)
        rounding = max(2 * _CENT, _DIGITS.divide(abs(self.quantity).scaleb(places) / 2, self.price_basis))
        is_rounded = abs(_DIGITS.multiply(price, self.quantity) - self.net) <= rounding
        return price if is_rounded else _DIGITS.divide(self.net, self.quantity)

    @property
    def is_discount(self) -> bool:
        """Whether what the line comes to can be its price after a discount or with a surcharge, or is its price."""
        return not self.price or self.cost is None or _LEAST <= _DIGITS.divide(self.cost, self.price) <= _MOST

    @property
    def is_item(self) -> bool:
        """Whether it is about goods or services, and not about freight, a discount or a down payment."""
        if self.article is not None or self.buyer_article is not None:
            return True
        return self.unit is not None and not is_charge(self.words)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a case."""

    id: UUID
    type: DocumentType
    received_at: datetime
    number: str
    reference: Reference | None
    day: date | None
    sellers: tuple[str, ...]
    """The seller's VAT id and name, as far as they are stated."""
    names_supplier: bool
    """Whether its supplier has any identifier; see `is_identified`."""
    currency: str | None
    net: Decimal | None
    tax: Decimal | None
    gross: Decimal | None
    named: Mapping[str, tuple[Reference, ...]]
    """The numbers that it names, by the field that names them."""
    lines: tuple[Line, ...]
    data: Mapping[str, Any] = field(repr=False)
    """Its structured data as they are."""

    @property
    def title(self) -> str:
        """How a sentence calls it: `invoice RE-100`."""
        return f"{self.type.value.replace('_', ' ')} {short(self.number)}".rstrip()

    @property
    def heading(self) -> str:
        """The same, at the beginning of a sentence."""
        return self.title[0].upper() + self.title[1:]

    @property
    def order_of_time(self) -> tuple[date, datetime, UUID]:
        """Sorts documents by their own date, then by receipt."""
        return self.day or self.received_at.date(), self.received_at, self.id


def read_document(id_: UUID, type_: str, received_at: datetime, data: Mapping[str, Any]) -> Document:
    """Read structured data, by the specification's field names. What nobody can read is left out.

    Raises:
        KeyError: documents of this type have no roles (`other`).
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
            found
            for name in ("vat_id", "name")
            if isinstance(seller, Mapping) and (found := _text(seller.get(name))) is not None
        ),
        names_supplier=is_identified(seller),
        currency=(_text(data.get("currency")) or "").upper() or None,
        net=number_of(data.get("total_net")),
        tax=number_of(data.get("total_tax")),
        gross=number_of(data.get("total_gross")),
        named={name: numbers for name in data if name.endswith("_reference") and (numbers := _references(data[name]))},
        lines=tuple(_line(place, item) for place, item in enumerate(items or _whole(kind, data))),
        data=data,
    )


def _whole(kind: DocumentType, data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """An invoice that states no lines bills one thing: its net total."""
    is_bill = kind is DocumentType.INVOICE and number_of(data.get("total_net")) is not None
    return [{"position": "total", "net_amount": data["total_net"]}] if is_bill else []


def _line(place: int, item: Mapping[str, Any]) -> Line:
    article, buyer_article = _text(item.get("article_number")), _text(item.get("buyer_article_number"))
    description, order = _text(item.get("description")), _text(item.get("po_reference"))
    basis = number_of(item.get("price_basis_quantity"))
    return Line(
        place=place,
        label=_text(item.get("position")) or str(place + 1),
        article=(code(article) or None) if article else None,
        buyer_article=(code(buyer_article) or None) if buyer_article else None,
        article_text=article or buyer_article,
        description=description,
        words=words(description)[:_COMPARED_TEXT] if description else "",
        quantity=number_of(item.get("quantity")),
        rejected=number_of(item.get("rejected_quantity")),
        unit=units.canonical(_text(item.get("unit"))),
        unit_price=number_of(item.get("unit_price")),
        price_basis=basis if basis is not None and basis > 0 else Decimal(1),
        net=number_of(item.get("net_amount")),
        tax_rate=number_of(item.get("tax_rate")),
        order=reference(order) if order else None,
        order_line=_text(item.get("po_line")),
    )


def _text(value: Any) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None


def number_of(value: Any) -> Decimal | None:
    """A decimal string as a number; None where there is none, or what nobody can compute with."""
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
    return tuple(found for text in texts if isinstance(text, str) and (found := reference(text)))


# -- what is found --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance:
    """One difference between what documents of a case state."""

    code: Code
    document: Document
    """The document that has to be looked at."""
    line: str | None = None
    expected: Decimal | str | None = None
    actual: Decimal | str | None = None
    difference: Decimal | None = None
    unit: str | None = None
    currency: str | None = None
    limits: Limits | None = None
    """The tolerance that it was held against; None where none applies."""
    is_tolerated: bool = False
    sentence: str
    settled_by: str | None = None
    """What put it right since, in a sentence."""
    awaits: str | None = None
    """What is named and not here, and may put it right when it comes, in a sentence."""
    decision: Decision | None = None
    """The last decision of a person about it."""

    @property
    def is_open(self) -> bool:
        """Whether somebody has to act."""
        return not self.is_tolerated and self.settled_by is None

    @property
    def is_waiting(self) -> bool:
        """Whether a document that is still to come may put it right."""
        return self.code in WAITING or self.awaits is not None

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
            "sentence": self.sentence,
            "settled_by": self.settled_by,
            "awaits": self.awaits,
            "decision": self.decision,
        }


@dataclass(frozen=True, slots=True)
class Part:
    """What one line of one document adds to a row."""

    document: UUID
    line: str
    role: str
    """ordered, confirmed, delivered, received, billed or credited."""
    quantity: Decimal | None
    """In the row's unit; None where the units cannot be compared."""
    unit_price: Decimal | None
    """For one unit of the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One article or service, side by side over all documents. A quantity is None where no document speaks of it."""

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
    """As ordered, for one unit."""
    parts: tuple[Part, ...]


class ClusterStatus(StrEnum):
    """Status of a cluster in lists. The first condition that holds decides.

    | status | condition |
    |---|---|
    | exception | an open variance that no person disputed, or a quantity that cannot be compared |
    | needs-review | a match is ambiguous, or a document without a confirmed match names no supplier |
    | disputed | every open variance was disputed by a person |
    | incomplete | a document is still missing |
    | accepted | matched, because a person accepted variances |
    | matched | nothing is open |
    """

    EXCEPTION = "exception"
    NEEDS_REVIEW = "needs-review"
    DISPUTED = "disputed"
    INCOMPLETE = "incomplete"
    ACCEPTED = "accepted"
    MATCHED = "matched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A cluster as lists show it."""

    status: ClusterStatus
    supplier: str | None
    """Name, or else VAT id, as a document states it."""
    order_numbers: tuple[str, ...]
    """Numbers of its purchase orders, or else those that its documents name."""
    currency: str | None
    ordered: Decimal | None
    """Net; None without a purchase order."""
    delivered: Decimal | None
    """Quantities delivered at ordered prices; None without a delivery."""
    billed: Decimal | None
    """Net, less credit notes; None without an invoice."""
    at_stake: Decimal
    """Amount of the open variances. The whole invoice counts without an order or delivery, and for a duplicate."""
    waiting_since: datetime | None
    """Receipt of the first invoice, or else of the first document. None without documents."""
    documents: int
    """Without contracts."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a case comes to, and why."""

    outcome: Outcome
    reasons: tuple[str, ...]
    """Sentences for a clerk, the most important first. A cluster that needs review begins with its open reviews."""
    variances: tuple[Variance, ...]
    rows: tuple[Row, ...]
    remarks: tuple[str, ...]
    """Facts that changed what was compared: an order that was changed, a delivery note seen twice, a credit note."""
    summary: Summary
    """For lists. It is not part of `record`."""

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it: stored with the case, and sent to its tenant's systems."""
        return {
            "outcome": self.outcome.value,
            "reasons": list(self.reasons),
            "variances": [variance.record for variance in self.variances],
            "lines": as_json(self.rows, plain),
            "remarks": list(self.remarks),
        }


def short(text: str) -> str:
    """A text as a sentence quotes it: on one line, and not longer than is good for the sentence."""
    plain = " ".join(text.split())
    return plain if len(plain) <= LONGEST_TEXT else plain[: LONGEST_TEXT - 3] + "..."


def plain(number: Decimal) -> str:
    """A number as people write it: no exponent, no zeros behind the point but those that amounts have."""
    text = format(number.normalize(), "f")
    return "0" if text == "-0" else text


def money(number: Decimal, currency: str | None) -> str:
    """An amount as people write it: two places at least, and its currency."""
    text = plain(number)
    whole, _, places = text.partition(".")
    return f"{whole}.{places:0<2} {currency or ''}".rstrip()


def _plain(value: Decimal | str | None) -> str | None:
    return plain(value) if isinstance(value, Decimal) else value
