"""Searches pages for the values in a model's answer. Pure.

Each value is searched for in every common notation: amounts with periods, commas, spaces or apostrophes, and dates with
the month as a number or word. If a notation is ambiguous (1.234, 01/02/2026), each interpretation counts as stated,
because the model has chosen one and arithmetic verifies it.
"""

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import TypeVar

from counterfoil.documents.text.page import Page

_T = TypeVar("_T")

_DIGITS = re.compile(r"\d[\d.,'\u2019]*")
_SEPARATOR = re.compile(r"[.,'\u2019]")
_GROUPED = re.compile(r"\d{1,3}([.,'\u2019]?)\d{3}(?:\1\d{3})*", re.ASCII)
_GROUP_BEFORE = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})*$")
_GROUP_AFTER = re.compile(r"\d{3}(?![\d'\u2019])(?:[.,]\d+)?", re.ASCII)
_AMOUNT = r"(\d[\d.,'\u2019 ]{0,30})"
_UNIT = r"(?:[^\W\d_]{1,3}|[\u20ac$\u00a3\u00a5])?"
_SIGNED = (
    re.compile(rf"[-\u2212\u2013(]\s?{_UNIT}\s?{_AMOUNT}"),
    re.compile(rf"{_AMOUNT}{_UNIT}\s?[-\u2212\u2013)](?!\d)"),
)
"""A minus sign or parenthesis before or after an amount. The currency may be between them."""
_LONGEST = 24
"""Maximum number of characters in the digit groups before a group of three digits."""
_ALPHANUMERIC = re.compile(r"[^\W_]+")
_LABEL = re.compile(r"[:;,()\[\]=#*\"|]|(?<=[^\W\d_])\.")
"""Characters that end a label or number even if no space follows: `No.4711`, `PO:4711,4712`."""
_MIN_JOINED_WORD_LENGTH = 4
"""Minimum length of a word that is also searched for within and across other words, because a line break may split
it."""

_NUMERIC_DATE = re.compile(r"(?<!\d)(\d{1,4})(\s?[./\-\u2013]\s?)(\d{1,2})\2(\d{1,4})(?!\d)")
_COMPACT_DATE = re.compile(r"(?<!\d)(\d{4})(\d{2})(\d{2})(?!\d)")
_DAY_MONTH_YEAR = re.compile(r"(?<!\d)(\d{1,2})[^\w\n]{0,4}(?:[a-z]{2}\b)?[^\w\n]{0,4}(?:de |of )?([^\W\d_]{3,10})"
                             r"[^\w\n]{0,4}(?:de |del )?['\u2019]?(\d{4}|\d{2})(?!\d)", re.IGNORECASE)  # fmt: skip
_MONTH_DAY_YEAR = re.compile(r"([^\W\d_]{3,10})\.?\s*(\d{1,2})(?:[a-z]{2}\b)?[,.\s]\s*(\d{4})(?!\d)", re.IGNORECASE)
_MONTHS: Mapping[str, int] = {
    beginning: number
    for number, beginnings in enumerate(
        # unambiguous prefixes in English, German, French, Italian, Spanish, Dutch and Danish
        (
            "jan gen ene", "feb fev", "mar mae maa mrz", "apr avr abr", "may mai mag mei maj", "jun juin giu",
            "jul juil lug", "aug aou ago", "sep set", "oct okt ott", "nov", "dec dez dic",
        ),
        1,
    )
    for beginning in beginnings.split()
}  # fmt: skip
_SYMBOLS: Mapping[str, tuple[str, ...]] = {
    "EUR": ("\u20ac", "EURO"),
    "USD": ("$",),
    "GBP": ("\u00a3",),
    "CHF": ("FR", "SFR"),
    "DKK": ("KR",),
    "NOK": ("KR",),
    "SEK": ("KR",),
    "PLN": ("Z\u0141",),
    "CZK": ("K\u010c",),
    "JPY": ("\u00a5",),
    "CAD": ("$",),
    "AUD": ("$",),
}


class Grounding:
    """The pages' text.

    Each lookup returns the first page that states a value, from 1, or None.
    """

    def __init__(self, pages: Sequence[Page]) -> None:
        self._texts = [unicodedata.normalize("NFKC", page.text) for page in pages]

    def number(self, value: str) -> int | None:
        """Return the page with an amount, a quantity or a rate, regardless of its sign."""
        try:
            return self._numbers.get(abs(Decimal(value)))
        except InvalidOperation:
            return None

    def is_negative(self, value: str) -> bool:
        """Return whether any page states an amount with a minus sign or in parentheses."""
        return abs(Decimal(value)) in self._negative

    def date(self, value: str) -> int | None:
        """Return the page with a date. `value` is in ISO 8601."""
        return self._dates.get(value)

    def identifier(self, value: str) -> int | None:
        """Return the page with the complete number of a document, article or company.

        Spaces and punctuation are ignored.
        """
        joined = "".join(_tokens(value))
        return self._first(lambda page: page.states(joined, whole_words=True)) if joined else None

    def words(self, value: str) -> int | None:
        """Return the page with every word of a name or description."""
        tokens = list(_tokens(value))
        if not tokens:
            return None
        joined = "".join(tokens)
        return self._first(lambda page: page.states(joined)) or self._first(lambda page: all(map(page.has, tokens)))

    def currency(self, code: str) -> int | None:
        """Return the page with a currency code or symbol."""
        for number, text in enumerate(self._texts, 1):
            upper_text = text.upper()
            tokens = set(_ALPHANUMERIC.findall(upper_text))
            for name in (code.upper(), *_SYMBOLS.get(code.upper(), ())):
                if name in tokens or (not name.isalnum() and name in upper_text):
                    return number
        return None

    def _first(self, predicate: "Callable[[_Tokens], bool]") -> int | None:
        return next((number for number, page in enumerate(self._pages, 1) if predicate(page)), None)

    @cached_property
    def _pages(self) -> "list[_Tokens]":
        return [_Tokens(text) for text in self._texts]

    @cached_property
    def _numbers(self) -> dict[Decimal, int]:
        return _by_first_page(numbers(text) for text in self._texts)

    @cached_property
    def _negative(self) -> frozenset[Decimal]:
        amounts = (match[1] for text in self._texts for pattern in _SIGNED for match in pattern.finditer(text))
        return frozenset(number for amount in amounts for number in numbers(amount))

    @cached_property
    def _dates(self) -> dict[str, int]:
        return _by_first_page(dates(text) for text in self._texts)


def _by_first_page(values_by_page: "Iterable[Iterator[_T]]") -> "dict[_T, int]":
    first_pages: dict[_T, int] = {}
    for number, values in enumerate(values_by_page, 1):
        for value in values:
            first_pages.setdefault(value, number)
    return first_pages


class _Tokens:
    """Words and numbers of a page, without separators."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        edges, outer, place = {0}, {0}, 0
        for printed in text.split():
            for part in _LABEL.split(printed):
                for token in _tokens(part):
                    self._tokens.append(token)
                    place += len(token)
                    edges.add(place)
                outer.add(place)
        self._set = frozenset(self._tokens)
        self._joined = "".join(self._tokens)
        self._edges, self._outer = frozenset(edges), frozenset(outer)

    def states(self, sought: str, *, whole_words: bool = False) -> bool:
        """Return whether consecutive tokens form this text.

        `whole_words` requires complete printed words.
        """
        edges = self._outer if whole_words else self._edges
        position = self._joined.find(sought)
        while position >= 0:
            if position in edges and position + len(sought) in edges:
                return True
            position = self._joined.find(sought, position + 1)
        return False

    def has(self, word: str) -> bool:
        """Return whether a word occurs, possibly within or across other words."""
        return word in self._set or (len(word) >= _MIN_JOINED_WORD_LENGTH and word.isalpha() and word in self._joined)


def _tokens(text: str) -> Iterator[str]:
    """Yield the runs of letters and digits in a text, lowercased and without accents."""
    plain = unicodedata.normalize("NFKD", text.casefold().replace("\u00f8", "o").replace("\u0142", "l"))
    yield from _ALPHANUMERIC.findall("".join(character for character in plain if not unicodedata.combining(character)))


def numbers(text: str) -> Iterator[Decimal]:
    """Yield every number that a text may state, without its sign."""
    for line in text.splitlines():
        for match in _DIGITS.finditer(line):
            digits = match[0].rstrip(".,'\u2019")
            yield from _values(digits)
            end = match.start() - 1
            group_before = (
                _GROUP_BEFORE.search(line, max(0, end - _LONGEST), end) if line[end : end + 1] == " " else None
            )
            if group_before and _GROUP_AFTER.fullmatch(digits):  # spaces between digit groups
                parts = group_before[0].split(" ")
                for count in range(1, len(parts) + 1):
                    yield from _values("".join(parts[-count:]) + digits)


def _values(digits: str) -> Iterator[Decimal]:
    separators = _SEPARATOR.findall(digits)
    if not separators:
        yield Decimal(digits)
        return
    integer, _, fraction = digits.rpartition(separators[-1])
    yield Decimal(f"{_SEPARATOR.sub('', integer)}.{fraction}")
    if _GROUPED.fullmatch(digits):
        yield Decimal(_SEPARATOR.sub("", digits))


def dates(text: str) -> Iterator[str]:
    """Yield every date that a text may state, in ISO 8601."""
    for first, _, second, third in _NUMERIC_DATE.findall(text):
        yield from _days((first, second, third), (third, second, first), (third, first, second))
    for compact in _COMPACT_DATE.findall(text):
        yield from _days(compact)
    for day, month, year in _DAY_MONTH_YEAR.findall(text):
        if number := _month(month):
            yield from _days((year, number, day))
    for month, day, year in _MONTH_DAY_YEAR.findall(text):
        if number := _month(month):
            yield from _days((year, number, day))


def _month(name: str) -> str | None:
    plain = "".join(_tokens(name))
    number = _MONTHS.get(plain[:4]) or _MONTHS.get(plain[:3])
    return None if number is None else str(number)


def _days(*readings: tuple[str, str, str]) -> Iterator[str]:
    for year, month, day in readings:
        if len(year) not in (2, 4):
            continue
        try:
            yield dt.date(int(year if len(year) == 4 else f"20{year}"), int(month), int(day)).isoformat()
        except ValueError:
            continue
