"""Search pages for values from structured data, in any written form."""

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property

from babel import Locale
from babel.dates import get_month_names

from counterfoil.documents.text.page import Page

_LANGUAGES = ("de", "en", "fr", "it", "es", "nl", "da")
_SIGNS = {"EUR": "€", "GBP": "£", "USD": "$"}
_NUMBER = re.compile(r"\d[\d.,'\u2019\u00a0 ]*")


def letters(text: str) -> str:
    """Return a text's letters and digits, case-folded."""
    return "".join(filter(str.isalnum, text.casefold()))


class PageText:
    """Text of a document's pages, searchable for values from structured data."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.text = "\n".join(page.text for page in pages)
        self._in_file_order = letters("".join(word.text for page in pages for word in page.words))
        self._in_lines = letters(self.text)

    def states(self, field: str, value: str) -> bool:
        """Return whether the pages show `value`. Unit codes always count as shown.

        `field` is the dotted path of the field, which decides how the value is compared.
        """
        name = field.rpartition(".")[2]
        if _is_number(name):
            return abs(Decimal(value)) in self._numbers
        match name:
            case "invoice_date" | "credit_note_date" | "payment_due_date":
                return self._states_date(dt.date.fromisoformat(value))
            case "currency":
                return re.search(rf"\b{value}\b", self.text) is not None or _SIGNS.get(value, value) in self.text
            case "country":
                return self._states_country(value)
            case "position":
                return any(first.lstrip("0") == value.lstrip("0") for first in self._beginnings)
            case _:
                normalized = letters(value)
                return name == "unit" or normalized in self._in_lines or normalized in self._in_file_order

    @cached_property
    def _beginnings(self) -> set[str]:
        """First word of every text line, in case it is a position number."""
        return {line.split()[0].strip(".") for line in self.text.splitlines() if line.strip()}

    @cached_property
    def _numbers(self) -> set[Decimal]:
        """Numbers on the pages, each read with a dot and with a comma as decimal mark."""
        numbers = {Decimal(0)}
        for written in _NUMBER.findall(self.text):
            for part in {written, *written.split()}:
                for mark in ".,":
                    digits = re.sub(rf"[^\d{re.escape(mark)}]", "", part).strip(mark)
                    if digits.count(mark) <= 1 and digits:
                        numbers.add(Decimal(digits.replace(mark, ".")))
        return numbers

    def _states_date(self, day: dt.date) -> bool:
        months = {f"{day.month:02}", str(day.month)}
        for language in _LANGUAGES:
            for width in ("wide", "abbreviated"):
                months.add(re.escape(get_month_names(width, locale=language)[day.month].rstrip(".")))
        month = "|".join(sorted(months, key=len, reverse=True))
        year, number = rf"(?:{day.year}|{day.year % 100:02})", f"0?{day.day}"
        gap = r"(?:[\s./,-]|de|den|of|th|st|nd|rd|º)*"
        forms = (
            f"{number}{gap}(?:{month}){gap}{year}",
            f"(?:{month}){gap}{number}{gap}{year}",
            f"{year}{gap}(?:{month}){gap}{number}",
        )
        return any(re.search(rf"(?<!\d){form}(?!\d)", self.text, re.IGNORECASE) for form in forms)

    def _states_country(self, code: str) -> bool:
        names = {Locale(language).territories.get(code, code) for language in _LANGUAGES}
        written = "|".join(map(re.escape, names))
        return (
            re.search(rf"\b{code}[\s-]|\b{code}$|\b{code[0]}-\d|\b(?i:{written})\b", self.text, re.MULTILINE)
            is not None
        )


def _is_number(name: str) -> bool:
    return name.startswith("total_") or name in {
        "quantity",
        "unit_price",
        "price_basis_quantity",
        "net_amount",
        "tax_rate",
        "rejected_quantity",
    }
