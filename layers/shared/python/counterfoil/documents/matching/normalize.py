"""Canonical forms of identifiers, words, numbers and embeddings. Pure.

OCR and typing errors damage text. The forms make two spellings equal (`PO-2025-00397` and `2025 - 397`) or at least
similar. Details that the forms drop (umlauts, zeros) are dropped in both documents.

Descriptions of line items are embedded, because vectors of the same goods are similar in every language. Two vectors at
an angle t are on the same side of a random plane through the origin with probability 1 - t / pi (M. Charikar,
Similarity Estimation Techniques from Rounding Algorithms, 2002). A signature has one bit for each of PLANES planes. Its
BANDS groups of BITS bits are the vector's buckets. Two vectors are neighbors if they share a bucket. This does not
depend on other documents.

Measured with 1,024 dimensions, at least .98 of pairs with a cosine of .95 are neighbors. This share is .94 at .90, .85
at .85, .72 at .80, .18 at .50, and .01 for unrelated pairs. A bucket contains 1/1,000 of unrelated documents, and 1/60
of documents with a cosine of .50. With fewer bits, buckets would reach MAX_DOCUMENTS_PER_KEY sooner. Each additional
band adds a key.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from hashlib import sha256, shake_256
from itertools import compress
from typing import Any, NamedTuple
from uuid import UUID
from zlib import crc32

from counterfoil.documents import units
from counterfoil.documents.lexicon.folding import fold_umlauts
from counterfoil.documents.matching.names import Name, name

_NOT_WORD = re.compile(r"[\W_]+")

_CONFUSABLE_DIGITS = str.maketrans("OQDILSBZG", "000115826")

_TAX_NUMBER = re.compile(r"\d{2,3}\s?/\s?\d{3,4}\s?/\s?\d{4,5}")
_VAT_ENDING = re.compile("(?:MWST|TVA|IVA|MVA)$")
_BARE_VAT = re.compile(r"[A-Z]\d{7,8}[A-Z\d]?")
"""A letter and digits: the form of Austrian, Spanish and Cypriot ids without their country letters."""
_VAT_LETTERS = {"GR": "EL", "CH": "CHE"}
_VAT_END = 8
"""Number of final characters that identify a VAT id without country letters. A few countries have shorter ids."""

_PREFIX_WORDS = re.compile(
    r"^(?:(?:P\.?\s?O|PURCHASE|ORDER|BESTELLUNG|BESTELLNUMMER|BESTELL|BEST|ORD|AUFTRAG|LIEFERSCHEIN|DELIVERY|NOTE|INVOICE|RECHNUNG|CONTRACT|VERTRAG"
    r"|COMMANDE|FACTURE|REFERENCE|REF|NUMBER|NUMMER|NUM|NO|NR|N°|IHRE|YOUR|OUR|UNSERE?)(?![A-Z])[\s.:#/-]*|[#:.\s]+)+(?=.*\d)"
)
_SUFFIX = re.compile(r"\s+(?:VOM|V\.|DATED|DATE|OF|FROM|DU|DEL|DE|Z DNIA|DAT\.)\s.*$|\s*[,;(].*$")
_YEAR = re.compile(r"(19|20)\d\d")
_POSITION = re.compile(r"(?<=\d)\s*(?:/|\bPOS\.?)\s*\d{1,3}$")
_SPACE_IN_NUMBER = re.compile(r"(?<=\d)\s+(?=\d)")
_GROUPS = re.compile(r"[A-Z0-9]+")
_MIN_TAIL = 3
"""Minimum number of digits at the end of a document number that identify it."""


@lru_cache(maxsize=20_000)
def words(text: str) -> str:
    """Return the folded words of a text in order, separated by single spaces."""
    return _NOT_WORD.sub(" ", fold_umlauts(text)).strip()


_MISREAD = re.compile(r"(?<![^\W\d_])(?:[^\W\d_]+[0156]+[^\W\d_]{2,}|[^\W\d_]{3,}[0156]|[0156][^\W\d_]{3,})(?!\w)")


@lru_cache(maxsize=20_000)
def ocr_confusions(text: str) -> int:
    """Count words in which OCR misread letters as digits: `Stahlhande1`, `5upplies`."""
    return len(_MISREAD.findall(text))


def identifier(text: str) -> str:
    """Return an identifier's letters and digits, with lookalike letters as digits."""
    return "".join(_GROUPS.findall(fold_umlauts(text).upper())).translate(_CONFUSABLE_DIGITS)


def vat_id(text: str, country: str = "") -> str | None:
    """Normalize a VAT id like `identifier`, including its country letters.

    The letters of Greece are EL, and a label after the id is removed. `country` is the company's country (ISO 3166
    alpha-2), for ids without country letters. The result is None for German tax numbers (`12/345/67890`), which are not
    VAT ids, and for empty ids. Check digits are not validated, because a misread id is still similar.
    """
    if _TAX_NUMBER.fullmatch(text.strip()):
        return None
    number = _VAT_ENDING.sub("", "".join(_GROUPS.findall(text.upper())))
    if number[:2].isdigit() or _BARE_VAT.fullmatch(number):
        number = _VAT_LETTERS.get(country, country) + number
    elif number.startswith("GR"):
        number = "EL" + number[2:]
    return number.translate(_CONFUSABLE_DIGITS) or None


def vat_suffix(vat: str) -> str:
    """Return the end of a VAT id, which is the same with and without country letters."""
    return vat[-_VAT_END:]


def same_vat(a: str, b: str) -> bool:
    """Return whether two VAT ids match.

    The country prefix is ignored if only one of them has it.
    """
    return a == b or (min(len(a), len(b)) >= _VAT_END and (a.endswith(b) or b.endswith(a)))


@lru_cache(maxsize=20_000)
def normalize_code(text: str) -> str:
    """Normalize an article number like `identifier`, without leading zeros."""
    return identifier(text).lstrip("0")


@dataclass(frozen=True, slots=True)
class Reference:
    """A document number in comparable forms."""

    text: str
    """The original spelling, for display."""
    exact: frozenset[str]
    """Canonical forms: upper case, without prefix words and separators, with and without leading zeros and position."""
    folded: frozenset[str]
    """Canonical forms in which letters that look like digits become digits, so that OCR errors have no effect."""
    tail: str | None
    """Last group of digits, without leading zeros; None if fewer than three. A year after other digits is skipped.

    The tail agrees even if the rest of the number is damaged.
    """
    length: int
    """Length of the shortest canonical form. A longer number is stronger evidence."""


@lru_cache(maxsize=20_000)
def reference(text: str) -> Reference | None:
    """Parse a document number; None if it contains no digit."""
    upper = _SPACE_IN_NUMBER.sub("", _SUFFIX.sub("", fold_umlauts(text).upper().strip()))
    stripped = _PREFIX_WORDS.sub("", upper) or upper
    exact: set[str] = set()
    folded: set[str] = set()
    for variant in {stripped, _POSITION.sub("", stripped)}:
        exact |= _forms(variant)
        folded |= _forms(variant.translate(_CONFUSABLE_DIGITS))
    if not any(letter.isdigit() for form in exact for letter in form):
        return None
    digits = re.findall(r"\d+", stripped.translate(_CONFUSABLE_DIGITS))
    # `4711/2025` ends with its year, which all numbers from that year share.
    if len(digits) > 1 and _YEAR.fullmatch(digits[-1]):
        digits.pop()
    tail = digits[-1].lstrip("0") if digits else ""
    return Reference(
        " ".join(text.split()),
        frozenset(exact),
        frozenset(folded),
        tail if len(tail) >= _MIN_TAIL else None,
        min(map(len, folded)),
    )


def _forms(text: str) -> set[str]:
    groups = _GROUPS.findall(text)
    bare = [group.lstrip("0") or "0" if group.isdigit() else group for group in groups]
    return {"".join(groups).lstrip("0") or "0", "".join(bare)} if groups else set()


def cents(text: str | None) -> int | None:
    """Return an amount in cents, rounded half away from zero.

    Returns None if the amount is absent, not a number, or too large for `quantity`.
    """
    number = quantity(text)
    if number is None:
        return None
    # Rounded to a fraction of a cent first, because the float 1.005 is slightly less than 1.005.
    return int(round(number * 100, 4) + (0.5 if number >= 0 else -0.5))


def quantity(text: str | None) -> float | None:
    """Return a quantity or price as a float.

    Returns None if it is absent, not a number, or 1e15 or more.
    """
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is None or abs(number) < 1e15 else None


def day(text: str | None) -> int | None:
    """Return the proleptic Gregorian ordinal of a date; None if absent or not a date."""
    try:
        return date.fromisoformat(text).toordinal() if text else None
    except ValueError:
        return None


BANDS = 12
BITS = 10
PLANES = BANDS * BITS
MARK = "≈"
"""Prefix of a bucket. No name or number starts with it."""
MAX_TEXT_CHARS = 2_000
"""Maximum length of an embedded text, in characters."""
_LONGEST_LINE = 200


class Embedding(NamedTuple):
    """Stored form of a vector: the hash of its text, its model, and its signature."""

    text_hash: bytes
    model: str
    signature: bytes


def embedded_text(data: Mapping[str, Any]) -> str:
    """Return the text to embed: the distinct line item descriptions, sorted.

    Parties and numbers are excluded, because they are separate keys and would make texts about the same goods differ.
    The text is empty if no line item has a description.
    """
    descriptions = (item.get("description") for item in data.get("line_items") or () if isinstance(item, Mapping))
    lines = {
        " ".join(description.split())[:_LONGEST_LINE] for description in descriptions if isinstance(description, str)
    }
    return "\n".join(sorted(lines - {""}))[:MAX_TEXT_CHARS]


def text_hash(embedded: str) -> bytes:
    """Return the hash under which a text's vector is stored."""
    return sha256(embedded.encode("utf-8", "surrogatepass")).digest()


def signature(vector: Sequence[float]) -> bytes:
    """Return PLANES bits, one per plane: the side on which the vector lies.

    The result must never change.

    A plane's normal is +1 or -1 in every dimension. Its product with the vector is therefore twice the sum of the
    vector's values in the +1 dimensions, minus the sum of all values.
    """
    half = math.fsum(vector) / 2
    sides = (math.fsum(compress(vector, plane)) > half for plane in _planes(len(vector)))
    return _pack_bits(sides).to_bytes(PLANES // 8, "big")


def buckets(embedding: Embedding) -> tuple[str, ...]:
    """Return the BANDS buckets of a vector.

    Vectors from different models share no bucket.
    """
    bits = int.from_bytes(embedding.signature, "big")
    tag = f"{crc32(embedding.model.encode()):08x}"
    return tuple(f"{MARK}{tag}.{band:x}.{bits >> band * BITS & (1 << BITS) - 1:03x}" for band in range(BANDS))


def _pack_bits(sides: Iterable[bool]) -> int:
    value = 0
    for side in sides:
        value = value << 1 | side
    return value


@lru_cache(maxsize=2)
def _planes(dimensions: int) -> tuple[bytes, ...]:
    """Return each plane's normal, with one byte per dimension: 1 for +1, 0 for -1.

    The planes must never change.
    """
    return tuple(
        bytes(byte >> bit & 1 for byte in _noise(number, dimensions) for bit in range(8))[:dimensions]
        for number in range(PLANES)
    )


def _noise(number: int, dimensions: int) -> bytes:
    return shake_256(f"counterfoil plane {number}".encode()).digest(-(-dimensions // 8))


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
"""Types of documents that are matched."""
_REFERENCES = {
    "po_reference": ORDER,
    "delivery_note_reference": DELIVERY,
    "contract_reference": CONTRACT,
    "invoice_reference": INVOICE,
}
_IDENTIFIERS = ("tax_number", "registration_id", "endpoint_id", "iban", "email")
_PARTY_FIELDS = ("name", "city", "vat_id", "country", "postal_code", *_IDENTIFIERS)
_PARTIES = 10_000
"""Number of cached party spellings."""


@dataclass(frozen=True, slots=True)
class Party:
    """Supplier or buyer in a document."""

    name: Name | None
    vat: str | None
    """With country letters if the id or the address states them."""
    identifiers: Mapping[str, str]
    """By field: tax number, register number, endpoint, IBAN, e-mail address."""
    postal_code: str | None
    vat_text: str | None = None
    """The original spelling of `vat`, for display."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line item for goods or services.

    Line items with neither a unit nor an article number, such as freight and discounts, are not included.
    """

    article: str | None
    buyer_article: str | None
    text: str
    unit: str | None
    """Canonical unit code."""
    quantity: float | None
    price: float | None
    """Price of one unit, after division by the price basis."""
    net: int | None


@dataclass(frozen=True, slots=True)
class Document:
    """A document in canonical form.

    Amounts are in cents, and `day` is a proleptic Gregorian ordinal.
    """

    id: UUID
    received_at: datetime
    kind: str
    number: Reference | None
    references: Mapping[str, tuple[Reference, ...]]
    """Numbers of other documents that this document names, by type."""
    seller: Party
    buyer: Party
    day: int | None
    currency: str | None
    net: int | None
    gross: int | None
    lines: tuple[Line, ...]
    amounts: frozenset[int]
    """Net amounts of the line items that `lines` excludes, such as freight and discounts."""
    misread_words: int
    """Number of words in names and line items in which OCR misread a letter as a digit. 0 for document types other than
    invoices."""
    buckets: tuple[str, ...] = ()
    """Buckets of the stored vector; empty if no vector is stored."""

    def __hash__(self) -> int:
        """Hash by id only, because scores are cached by document."""
        return hash(self.id)

    @property
    def has_counterparty(self) -> bool:
        """Return whether any party has a name or an identifier."""
        return any(side.name or side.vat or side.identifiers for side in (self.seller, self.buyer))


def document(
    id_: UUID, received_at: datetime, kind: str, data: Mapping[str, Any], embedding: Embedding | None = None
) -> Document:
    """Normalize structured data. Invalid values are omitted.

    An `embedding` of a different text is ignored.
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
        sum(ocr_confusions(text) for text in _names_and_descriptions(data, items)) if kind == INVOICE else 0,
        _buckets(data, embedding),
    )


def _is_of_goods(item: Mapping[str, Any]) -> bool:
    return bool(item.get("unit") or item.get("article_number") or item.get("buyer_article_number"))


def _buckets(data: Mapping[str, Any], embedding: Embedding | None) -> tuple[str, ...]:
    if embedding is None or embedding.text_hash != text_hash(embedded_text(data)):
        return ()
    return buckets(embedding)


def _names_and_descriptions(data: Mapping[str, Any], items: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names of parties, and the descriptions of line items."""
    for part in (*(data.get(side) for side in ("issuer", "recipient", "supplier", "buyer")), *items):
        if isinstance(part, Mapping):
            yield from (text for field in ("name", "description") if isinstance(text := part.get(field), str))


def _named(data: Mapping[str, Any], items: list[Mapping[str, Any]]) -> dict[str, tuple[Reference, ...]]:
    named: dict[str, dict[frozenset[str], Reference]] = {}
    for field, kind in _REFERENCES.items():
        values = [data.get(field)]
        if field == "po_reference":
            values += [item.get(field) for item in items]
        for text in (text for stated_value in values if stated_value for text in _texts(stated_value)):
            if parsed := reference(text):
                named.setdefault(kind, {}).setdefault(parsed.folded, parsed)
    return {kind: tuple(parsed.values()) for kind, parsed in named.items()}


def _texts(value: object) -> Iterator[str]:
    for text in value if isinstance(value, list | tuple) else (value,):
        if isinstance(text, str) and text.strip():
            yield text


def _party(data: object) -> Party:
    if not isinstance(data, Mapping):
        return Party(None, None, {}, None)
    values = [data.get(field) for field in _PARTY_FIELDS]
    return _party_of_values(*(value if isinstance(value, str) and value.strip() else None for value in values))


@lru_cache(maxsize=_PARTIES)
def _party_of_values(*values: str | None) -> Party:
    """Return a party from its stated values. Cached, because the same parties recur."""
    fields = {field: value for field, value in zip(_PARTY_FIELDS, values, strict=True) if value is not None}
    vat = vat_id(fields["vat_id"], fields.get("country", "")) if "vat_id" in fields else None
    if vat is None and "vat_id" in fields:
        fields.setdefault("tax_number", fields["vat_id"])  # a value in this field that is not a VAT id
    return Party(
        name(fields["name"], fields.get("city", "")) if "name" in fields else None,
        vat,
        {field: normalized for field in _IDENTIFIERS if field in fields and (normalized := identifier(fields[field]))},
        identifier(fields["postal_code"]) if "postal_code" in fields else None,
        None if vat is None else fields["vat_id"].replace(" ", ""),
    )


def _line(item: Mapping[str, Any]) -> Line:
    price, basis = quantity(item.get("unit_price")), quantity(item.get("price_basis_quantity"))
    return Line(
        normalize_code(item.get("article_number") or "") or None,
        normalize_code(item.get("buyer_article_number") or "") or None,
        words(item.get("description") or ""),
        units.canonical(item.get("unit")),
        quantity(item.get("quantity")),
        price / basis if price is not None and basis else price,
        cents(item.get("net_amount")),
    )
