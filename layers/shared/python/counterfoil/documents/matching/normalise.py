"""Canonical forms of what documents say: names, identifiers, references, words, numbers. Pure functions.

Capture damages text. The forms here make two writings of one thing equal (`GmbH` and `Gesellschaft mbH`,
`PO-2025-00397` and `2025 - 397`), and, where that is not possible, close. What they lose (umlauts, legal forms, zeros)
they lose on both sides.
"""

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from counterfoil.documents.alphabets import plain
from counterfoil.documents.matching.names import Name, name

__all__ = [
    "Name",
    "Reference",
    "cents",
    "code",
    "day",
    "identifier",
    "misread",
    "name",
    "quantity",
    "reference",
    "same_vat",
    "vat_end",
    "vat_id",
    "words",
]

_NOT_WORD = re.compile(r"[\W_]+")

_CONFUSABLE_DIGITS = str.maketrans("OQDILSBZG", "000115826")

_TAX_NUMBER = re.compile(r"\d{2,3}\s?/\s?\d{3,4}\s?/\s?\d{4,5}")
_VAT_ENDING = re.compile("(?:MWST|TVA|IVA|MVA)$")
_BARE_VAT = re.compile(r"[A-Z]\d{7,8}[A-Z\d]?")
"""A letter and a number, as ids of Austria, Spain and Cyprus are without their country."""
_VAT_LETTERS = {"GR": "EL", "CH": "CHE"}
_VAT_END = 8
"""Characters that are a VAT id without its country's letters, or the end of one; a few countries have shorter ids."""

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
"""Fewer digits at the end of a number say nothing about which number it is."""


@lru_cache(maxsize=20_000)
def words(text: str) -> str:
    """The words of a text, folded, separated by one space, in their order."""
    return _NOT_WORD.sub(" ", plain(text)).strip()


_MISREAD = re.compile(r"(?<![^\W\d_])(?:[^\W\d_]+[0156]+[^\W\d_]{2,}|[^\W\d_]{3,}[0156]|[0156][^\W\d_]{3,})(?!\w)")


@lru_cache(maxsize=20_000)
def misread(text: str) -> int:
    """How many words hold a digit that capture put in a letter's place: `Stahlhande1`, `5upplies`."""
    return len(_MISREAD.findall(text))


def identifier(text: str) -> str:
    """A VAT id, IBAN, register number, ...: letters and digits, letters that look like digits read as digits."""
    return "".join(_GROUPS.findall(plain(text).upper())).translate(_CONFUSABLE_DIGITS)


def vat_id(text: str, country: str = "") -> str | None:
    """A VAT id as `identifier`, with its country's letters (Greece's are EL) and without what says that it is one.

    `country` (ISO 3166 alpha-2) is that of the firm, for an id that is written without. None for a German tax number
    (`12/345/67890`), which is no VAT id. Check digits are not looked at: a misread id is still nearly right.
    """
    if _TAX_NUMBER.fullmatch(text.strip()):
        return None
    number = _VAT_ENDING.sub("", "".join(_GROUPS.findall(text.upper())))
    if number[:2].isdigit() or _BARE_VAT.fullmatch(number):
        number = _VAT_LETTERS.get(country, country) + number
    elif number.startswith("GR"):
        number = "EL" + number[2:]
    return number.translate(_CONFUSABLE_DIGITS) or None


def vat_end(vat: str) -> str:
    """The end of a VAT id, which it has with and without its country's letters."""
    return vat[-_VAT_END:]


def same_vat(a: str, b: str) -> bool:
    """Whether two VAT ids are one, be it that only one of them has its country's letters."""
    return a == b or (min(len(a), len(b)) >= _VAT_END and (a.endswith(b) or b.endswith(a)))


@lru_cache(maxsize=20_000)
def code(text: str) -> str:
    """An article number as `identifier`, without leading zeros."""
    return identifier(text).lstrip("0")


@dataclass(frozen=True, slots=True)
class Reference:
    """A document's number as somebody wrote it, in forms that can be compared."""

    text: str
    """As written, for people."""
    exact: frozenset[str]
    """Canonical forms: upper case, no prefix words, no separators, with and without leading zeros and position."""
    folded: frozenset[str]
    """The same with letters that look like digits read as digits: what capture may confuse is equal."""
    tail: str | None
    """The digits at the end, but for a year, without leading zeros, where they are at least three: what is left of a
    damaged number."""
    length: int
    """Characters of the shortest canonical form: how much an agreement says."""


@lru_cache(maxsize=20_000)
def reference(text: str) -> Reference | None:
    """Read a number; None where nothing that could tell documents apart is left."""
    upper = _SPACE_IN_NUMBER.sub("", _SUFFIX.sub("", plain(text).upper().strip()))
    stripped = _PREFIX_WORDS.sub("", upper) or upper
    exact: set[str] = set()
    folded: set[str] = set()
    for written in {stripped, _POSITION.sub("", stripped)}:
        exact |= _forms(written)
        folded |= _forms(written.translate(_CONFUSABLE_DIGITS))
    if not any(letter.isdigit() for form in exact for letter in form):
        return None
    digits = re.findall(r"\d+", stripped.translate(_CONFUSABLE_DIGITS))
    # `4711/2025` ends in its year, which it shares with every other number of that year.
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
    """An amount in minor units of two decimals, rounded half up; None where there is none or it is no number."""
    number = quantity(text)
    if number is None:
        return None
    # Rounded to less than a cent first: the float of 1.005 is a little less.
    return int(round(number * 100, 4) + (0.5 if number >= 0 else -0.5))


def quantity(text: str | None) -> float | None:
    """A quantity or price, for comparison within a tolerance only; None where there is none or it is no number."""
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is None or abs(number) < 1e15 else None


def day(text: str | None) -> int | None:
    """A date as the number of its day; None where there is none or it is no date."""
    try:
        return date.fromisoformat(text).toordinal() if text else None
    except ValueError:
        return None
