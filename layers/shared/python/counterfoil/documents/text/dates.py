"""Dates as seven languages write them, read only where they can be read in one way. Pure."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Literal

from counterfoil.documents.lexicon import READER
from counterfoil.documents.lexicon.folding import fold_letters

Order = Literal["day first", "month first"]

_MONTH_OF = MappingProxyType(
    {word: int(number) for number, names in READER.meanings("languages.month").items() for word in names}
)
_NAMES = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_YEAR = r"(?:19|20)\d{2}"
_DATE = re.compile(
    rf"(?<![\d.,/-])(?:"
    rf"(?P<iso_year>{_YEAR})[-./](?P<iso_month>\d{{1,2}})[-./](?P<iso_day>\d{{1,2}})"
    rf"|(?P<first>\d{{1,2}})\s?(?P<mark>[./-])\s?(?P<second>\d{{1,2}})\s?(?P=mark)\s?(?P<year>{_YEAR}|\d{{2}})"
    rf"|(?P<day>\d{{1,2}})(?:\.|st|nd|rd|th|er|o)?[\s-]*(?:(?:de|of)\s+)?(?P<name>{_NAMES})\.?,?[\s-]*"
    rf"(?:del?\s+)?(?P<of>{_YEAR})"
    rf"|(?P<us_name>{_NAMES})\.?\s+(?P<us_day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<us_year>{_YEAR})"
    rf")(?![\d/-]|[.,]\d)"
)
_WORDS = re.compile(r"[a-z]{4,}")
_ENGLISH = frozenset(READER.terms("languages.month_first"))
_TELLING = _ENGLISH.union(READER.terms("languages.day_first"))
_EUROPEAN = re.compile(
    r"£|(?<![a-z])(?:gb|ie)\s?\d{7,9}"
    r"|(?:vat|vat reg|vat registration)\b[^a-z]{0,12}(?:no|number|id)?[.: ]*[a-z]{2}\s?\d{8}"
)


def order_of(texts: Iterable[str]) -> Order | None:
    """Whether a document writes the day or the month first, where its dates or its language show it.

    A date with a number over 12 shows it. Else the language does: month first is written in English alone, and not on
    papers of a European firm, which bear a VAT id.
    """
    orders: set[Order] = set()
    languages: Counter[str] = Counter()
    is_european = False
    for text in map(fold_letters, texts):
        for match in _DATE.finditer(text):
            if match["first"] and match["mark"] != ".":
                first, second = int(match["first"]), int(match["second"])
                if first > 12 >= second:
                    orders.add("day first")
                elif second > 12 >= first:
                    orders.add("month first")
        languages.update("en" if word in _ENGLISH else "other" for word in _WORDS.findall(text) if word in _TELLING)
        is_european = is_european or _EUROPEAN.search(text) is not None
    if orders:
        return orders.pop() if len(orders) == 1 else None
    if languages["other"] > 2 * languages["en"] or is_european:
        return "day first"
    return None


def find(text: str, order: Order | None) -> Iterator[tuple[int, int, str | None]]:
    """Yield each date of a text: where it begins and ends, and its ISO form; None where it can be read in two ways."""
    for match in _DATE.finditer(fold_letters(text)):
        yield match.start(), match.end(), _iso(match, order)


def whole(text: str, order: Order | None) -> str | None:
    """The date that a text is, alone or with a weekday or time beside it; None for anything else."""
    for start, end, day in find(text, order):
        before, after = fold_letters(text[:start]).strip(" :(,."), text[end:].strip(" .,;)")
        if (not before or before.isalpha()) and len(before) <= 10 and re.fullmatch(r"(\d{1,2}:\d\d(:\d\d)?)?", after):
            return day
    return None


def _iso(match: "re.Match[str]", order: Order | None) -> str | None:
    if match["iso_year"]:
        return _day(match["iso_year"], match["iso_month"], match["iso_day"])
    if match["name"]:
        return _day(match["of"], str(_MONTH_OF[match["name"]]), match["day"])
    if match["us_name"]:
        return _day(match["us_year"], str(_MONTH_OF[match["us_name"]]), match["us_day"])
    first, second, year = match["first"], match["second"], match["year"]
    if len(year) == 2:
        year = f"20{year}" if int(year) < 70 else f"19{year}"
    if match["mark"] == "." or int(first) > 12 or first == second:
        order = "day first"
    elif int(second) > 12:
        order = "month first"
    if order is None:
        return None
    return _day(year, second, first) if order == "day first" else _day(year, first, second)


def _day(year: str, month: str, day: str) -> str | None:
    try:
        return dt.date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None
