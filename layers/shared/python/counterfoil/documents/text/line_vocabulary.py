"""The words of tables of goods and services: column headings, totals, section titles, in seven languages. Pure.

German, English, French, Italian, Spanish, Dutch and Danish. A heading that means one thing here and another there
(`Amount` is a quantity or a sum of money) has several kinds, the likelier first; what stands below it decides.
"""

import re
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from counterfoil.documents.lexicon import READER
from counterfoil.documents.lexicon.folding import fold


class Kind(StrEnum):
    """What a column holds; the value is the field's name where structured data has one."""

    POSITION = "position"
    ARTICLE = "article_number"
    BUYER_ARTICLE = "buyer_article_number"
    GTIN = "gtin"
    DESCRIPTION = "description"
    QUANTITY = "quantity"
    ORDERED = "ordered quantity"
    REJECTED = "rejected_quantity"
    UNIT = "unit"
    PRICE = "unit_price"
    BASIS = "price_basis_quantity"
    DISCOUNT = "discount"
    NET = "net_amount"
    GROSS = "gross amount"
    TAX_RATE = "tax_rate"
    TAX_AMOUNT = "tax amount"
    ORDER = "po_reference"
    ORDER_LINE = "po_line"
    OTHER = "other"


TEXT_KINDS = frozenset({Kind.ARTICLE, Kind.BUYER_ARTICLE, Kind.GTIN, Kind.DESCRIPTION, Kind.ORDER, Kind.ORDER_LINE})
NUMERIC_KINDS = frozenset(
    {
        Kind.QUANTITY, Kind.ORDERED, Kind.REJECTED, Kind.PRICE, Kind.BASIS, Kind.DISCOUNT, Kind.NET, Kind.GROSS,
        Kind.TAX_RATE, Kind.TAX_AMOUNT,
    }
)  # fmt: skip

_KINDS = MappingProxyType(
    {
        phrase: tuple(map(Kind, kinds.split("; ")))
        for kinds, phrases in reversed(list(READER.meanings("tables.heading").items()))
        for phrase in phrases
    }
)

_CURRENCIES = frozenset(READER.terms("tables.currency"))
_WITHOUT_TAX = READER.alternatives("tables.without_tax")
_QUALIFIED = re.compile(rf"(?P<before>(?:{_WITHOUT_TAX}) )?(?P<phrase>.+?)(?P<after> (?:{_WITHOUT_TAX}))?")
_TAXED = re.compile(rf"(?P<phrase>.+?) (?:{READER.alternatives('tables.with_tax')})")
_MONEY = frozenset({Kind.PRICE, Kind.NET})
_OURS = frozenset(READER.terms("tables.whose", "ours"))
_YOURS = frozenset(READER.terms("tables.whose", "yours"))
_DANGLING = re.compile(rf" (?:{READER.alternatives('tables.dangling')})$")
_BASED = re.compile(
    r"(?P<price>[a-z ]+?) (?:(?:per|je|pro|par|por|pr|a|fur|for) )?(?P<basis>1|10|100|1000)"
    r"(?: (?:st|stk|stck|stuck|pcs|pc|pieces|einheiten|units|u|pz|pezzi|ud|uds|stuks|kg|m|l))?"
)
_MOST_LANGUAGES = 3
_NOT_HEADING = re.compile(r"[^a-z0-9#%]+")


@lru_cache(maxsize=4096)
def heading(text: str) -> tuple[Kind, ...]:
    """The kinds of column that a heading may name, the likelier first; empty where it names none."""
    plain = plain_heading(text)
    if plain in _KINDS:
        return _KINDS[plain]
    if (begun := _DANGLING.sub("", plain)) in _KINDS:
        return _KINDS[begun]
    if (one := _in_two_languages(text)) is not None:
        return one
    whose, _, own = plain.partition(" ")
    if Kind.ARTICLE in _KINDS.get(own, ()) and (whose in _OURS or whose in _YOURS):
        return (Kind.ARTICLE if whose in _OURS else Kind.BUYER_ARTICLE,)
    return _of_money(plain)


def _in_two_languages(text: str) -> tuple[Kind, ...] | None:
    """The kinds of a heading that says the same in several languages: `Qté / Aantal`; None for any other."""
    parts = [part for part in text.split("/") if part.strip()]
    if not 2 <= len(parts) <= _MOST_LANGUAGES:
        return None
    named = [_KINDS.get(plain_heading(part), ()) for part in parts]
    common = [kind for kind in named[0] if all(kind in kinds for kinds in named)]
    return tuple(common) or None


def _of_money(plain: str) -> tuple[Kind, ...]:
    """The kinds of an amount whose heading says what it is for, or whether it has the tax in it."""
    if (based := _BASED.fullmatch(plain)) and Kind.PRICE in heading(based["price"]):
        return (Kind.PRICE,)
    if (taxed := _TAXED.fullmatch(plain)) and not _MONEY.isdisjoint(_KINDS.get(taxed["phrase"], ())):
        return (Kind.GROSS,)
    match = _QUALIFIED.fullmatch(plain)
    kinds = _KINDS.get(match["phrase"], ()) if match and (match["before"] or match["after"]) else ()
    if Kind.PRICE in kinds:
        return (Kind.PRICE, Kind.NET)
    return kinds if Kind.NET in kinds else ()


def basis(text: str) -> int:
    """For how many units the prices below a heading are, where it says so: `Preis/100`, `Price per 1000`; else 1."""
    based = _BASED.fullmatch(plain_heading(text))
    return int(based["basis"]) if based and Kind.PRICE in heading(based["price"]) else 1


def plain_heading(text: str) -> str:
    """A heading's words, without case, diacritics, punctuation and the currency that it names."""
    words = _NOT_HEADING.sub(" ", fold(text).replace("%", " % ")).split()
    kept = [word for word in words if word not in _CURRENCIES]
    if len(kept) < len(words) and kept and kept[-1] == "in":
        kept.pop()
    return " ".join(kept)


@lru_cache(maxsize=4096)
def is_heading_word(word: str) -> bool:
    """Tell whether a word occurs in headings, alone or within one; what has no letters does not disturb."""
    return all(part in _HEADING_WORDS for part in plain_heading(word).split())


_HEADING_WORDS = (
    frozenset(word for phrase in _KINDS for word in phrase.split())
    | _CURRENCIES
    | set(READER.terms("tables.function_word"))
    | {"10", "100", "1000"}
)

_TOTAL = re.compile(rf"(?:{READER.alternatives('tables.total')})(?: .*)?")
_NO_TOTAL = re.compile(
    r"(?:ust|mwst|umsatzsteuer|steuer|lohnsteuer|vat|tax|btw|moms)-"
    r"(?!(?:betrag|summe|satz|gesamt|total|bedrag|amount|rate|bel\u00f8b|basis)\b)[^\W\d]{3,}",
    re.IGNORECASE,
)
"""Services that have a tax in their name: `Umsatzsteuer-Voranmeldung`."""
_CARRY = re.compile(rf"(?:{READER.alternatives('tables.carried')})(?: .*)?")
_SECTION = re.compile(rf"(?:{READER.alternatives('tables.section')})(?: .*)?")


@lru_cache(maxsize=4096)
def is_total(text: str) -> bool:
    """Tell whether a row's text is that of a sum, a tax or a weight, which are no lines."""
    return _TOTAL.fullmatch(plain_heading(text)) is not None and _NO_TOTAL.match(text) is None


def is_tax_name(text: str) -> bool:
    """Tell whether a text is no more than the name of a tax, as cells of a column of taxes may be."""
    return Kind.TAX_RATE in heading(text)


@lru_cache(maxsize=4096)
def is_carried(text: str) -> bool:
    """Tell whether a row carries a sum from page to page."""
    return _CARRY.fullmatch(plain_heading(text)) is not None


@lru_cache(maxsize=4096)
def is_section(text: str) -> bool:
    """Tell whether a row begins what follows a table: terms, bank details, notes, signatures."""
    return _SECTION.fullmatch(plain_heading(text)) is not None
