"""A document as matching sees it: what its structured data say, in canonical forms. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from counterfoil.documents import units
from counterfoil.documents.matching import meaning
from counterfoil.documents.matching.meaning import Embedding
from counterfoil.documents.matching.normalise import (
    Name,
    Reference,
    cents,
    code,
    day,
    identifier,
    misread,
    name,
    quantity,
    reference,
    vat_id,
    words,
)

INVOICE = "invoice"
CREDIT_NOTE = "credit_note"
ORDER = "purchase_order"
CONFIRMATION = "order_confirmation"
DELIVERY = "delivery_note"
RECEIPT = "goods_receipt"
CONTRACT = "contract"

_NUMBER_AND_DATE = {
    INVOICE: ("invoice_number", "invoice_date"),
    CREDIT_NOTE: ("credit_note_number", "credit_note_date"),
    ORDER: ("po_number", "order_date"),
    CONFIRMATION: ("confirmation_number", "confirmation_date"),
    DELIVERY: ("delivery_note_number", "delivery_date"),
    RECEIPT: ("receipt_number", "receipt_date"),
    CONTRACT: ("contract_number", "contract_date"),
}
KINDS = tuple(_NUMBER_AND_DATE)
"""The types of document that are matched."""
_REFERENCES = {
    "po_reference": ORDER,
    "delivery_note_reference": DELIVERY,
    "contract_reference": CONTRACT,
    "invoice_reference": INVOICE,
}
_IDENTIFIERS = ("tax_number", "registration_id", "endpoint_id", "iban", "email")
_OF_PARTY = ("name", "city", "vat_id", "country", "postal_code", *_IDENTIFIERS)
_PARTIES = 10_000
"""Writings of parties that are kept as they were read."""


@dataclass(frozen=True, slots=True)
class Party:
    """One side of a document."""

    name: Name | None
    vat: str | None
    """With the country's letters where the id or the address states them."""
    identifiers: Mapping[str, str]
    """By field: tax number, register number, endpoint, IBAN, e-mail address."""
    postal_code: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line about goods or services. Freight, discounts and other lines without unit and article are not kept here."""

    article: str | None
    buyer_article: str | None
    text: str
    unit: str | None
    """Its canonical code."""
    quantity: float | None
    price: float | None
    """For one unit: the price basis is divided out."""
    net: int | None


@dataclass(frozen=True, slots=True)
class Document:
    """A document in canonical forms. Amounts are cents, `day` is a proleptic Gregorian ordinal."""

    id: UUID
    received_at: datetime
    kind: str
    number: Reference | None
    named: Mapping[str, tuple[Reference, ...]]
    """Numbers of other documents that this one names, by their kind."""
    seller: Party
    buyer: Party
    day: int | None
    currency: str | None
    net: int | None
    gross: int | None
    lines: tuple[Line, ...]
    amounts: frozenset[int]
    """Net amounts of the lines that are not about goods."""
    misread: int
    """Of an invoice, words of names and lines in which a digit stands where a letter belongs: how badly it was
    captured. Of others nobody asks that."""
    buckets: tuple[str, ...] = ()
    """Those of the vector that is kept of its words; none where none is."""

    def __hash__(self) -> int:
        """By the id alone: scores are kept by document."""
        return hash(self.id)

    @property
    def has_counterparty(self) -> bool:
        """Whether any side says who it is."""
        return any(side.name or side.vat or side.identifiers for side in (self.seller, self.buyer))


def document(
    id_: UUID, received_at: datetime, kind: str, data: Mapping[str, Any], embedding: Embedding | None = None
) -> Document:
    """Read structured data, by the specification's field names. What nobody can read is left out.

    So is an `embedding` of other words than these.
    """
    number_field, date_field = _NUMBER_AND_DATE[kind]
    number = data.get(number_field)
    items = [item for item in data.get("line_items") or () if isinstance(item, Mapping)]
    goods = [item for item in items if _is_of_goods(item)]
    seller, buyer = ("issuer", "recipient") if kind in {INVOICE, CREDIT_NOTE} else ("supplier", "buyer")
    return Document(
        id_,
        received_at,
        kind,
        reference(number) if isinstance(number, str) else None,
        _named(data, items),
        _party(data.get(seller)),
        _party(data.get(buyer)),
        day(data.get(date_field)),
        data.get("currency"),
        cents(data.get("total_net")),
        cents(data.get("total_gross")),
        tuple(_line(item) for item in goods),
        frozenset(net for item in items if not _is_of_goods(item) and (net := cents(item.get("net_amount")))),
        sum(misread(text) for text in _said(data, items)) if kind == INVOICE else 0,
        _buckets(data, embedding),
    )


def _is_of_goods(item: Mapping[str, Any]) -> bool:
    return bool(item.get("unit") or item.get("article_number") or item.get("buyer_article_number"))


def _buckets(data: Mapping[str, Any], embedding: Embedding | None) -> tuple[str, ...]:
    if embedding is None or embedding.text_hash != meaning.text_hash(meaning.text(data)):
        return ()
    return meaning.buckets(embedding)


def _said(data: Mapping[str, Any], items: list[Mapping[str, Any]]) -> Iterator[str]:
    """Names of parties, and descriptions."""
    for part in (*(data.get(side) for side in ("issuer", "recipient", "supplier", "buyer")), *items):
        if isinstance(part, Mapping):
            yield from (text for field in ("name", "description") if isinstance(text := part.get(field), str))


def _named(data: Mapping[str, Any], items: list[Mapping[str, Any]]) -> dict[str, tuple[Reference, ...]]:
    named: dict[str, dict[frozenset[str], Reference]] = {}
    for field, kind in _REFERENCES.items():
        stated = [data.get(field)]
        if field == "po_reference":
            stated += [item.get(field) for item in items]
        for text in (text for value in stated if value for text in _texts(value)):
            if found := reference(text):
                named.setdefault(kind, {}).setdefault(found.folded, found)
    return {kind: tuple(found.values()) for kind, found in named.items()}


def _texts(value: object) -> Iterator[str]:
    for text in value if isinstance(value, list | tuple) else (value,):
        if isinstance(text, str) and text.strip():
            yield text


def _party(data: object) -> Party:
    if not isinstance(data, Mapping):
        return Party(None, None, {}, None)
    stated = [data.get(field) for field in _OF_PARTY]
    return _stated_party(*(value if isinstance(value, str) and value.strip() else None for value in stated))


@lru_cache(maxsize=_PARTIES)
def _stated_party(*values: str | None) -> Party:
    """Those who trade with one another do so again and again."""
    stated = {field: value for field, value in zip(_OF_PARTY, values, strict=True) if value is not None}
    vat = vat_id(stated["vat_id"], stated.get("country", "")) if "vat_id" in stated else None
    if vat is None and "vat_id" in stated:
        stated.setdefault("tax_number", stated["vat_id"])  # what stands there and is no VAT id
    return Party(
        name(stated["name"], stated.get("city", "")) if "name" in stated else None,
        vat,
        {field: found for field in _IDENTIFIERS if field in stated and (found := identifier(stated[field]))},
        identifier(stated["postal_code"]) if "postal_code" in stated else None,
    )


def _line(item: Mapping[str, Any]) -> Line:
    price, basis = quantity(item.get("unit_price")), quantity(item.get("price_basis_quantity"))
    return Line(
        code(item.get("article_number") or "") or None,
        code(item.get("buyer_article_number") or "") or None,
        words(item.get("description") or ""),
        units.canonical(item.get("unit")),
        quantity(item.get("quantity")),
        price / basis if price is not None and basis else price,
        cents(item.get("net_amount")),
    )
