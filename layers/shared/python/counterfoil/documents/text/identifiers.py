"""Numbers that name a firm, an account or a document, and how they look. Pure.

VAT ids and IBANs carry check digits (python-stdnum knows those of every country, from the authorities' own rules). A
number whose check digits are wrong is taken only beside a label that says what it is, and with less confidence: it may
be a mistake of the document, and the document states it.
"""

import re

from stdnum import iban as _iban
from stdnum.ch import uid as _swiss
from stdnum.eu import vat as _vat
from stdnum.gb import vat as _british

_COUNTRIES = "AT|BE|BG|CHE|CY|CZ|DE|DK|EE|EL|ES|FI|FR|GB|GR|HR|HU|IE|IT|LT|LU|LV|MT|NL|NO|PL|PT|RO|SE|SI|SK|XI"
_VAT = re.compile(rf"(?<![A-Z0-9])(?P<id>(?:{_COUNTRIES})[ -]?[0-9A-Z](?:[ .-]?[0-9A-Z]){{5,15}})(?![a-z0-9])")
_LOOKS_RIGHT = re.compile(r"[A-Z]{2,3}(?=(?:[A-Z]*\d){7})[A-Z0-9]{8,13}")
_IBAN = re.compile(r"(?<![A-Z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?![A-Za-z0-9])")
_EMAIL = re.compile(r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_REFERENCE = re.compile(
    r"(?:[A-Z]{1,5} |[A-Z\d]{1,3} [-/] (?=\d{4}))?"
    r"(?=\S*\d)[A-Za-z0-9\u00c0-\u024f][\w./\-+]*(?<![./-])(?!\w)"
)
_MAX_REFERENCE = 40

_MARKS = " .:#-\u2013"

CERTAIN, STATED = 1.0, 0.7
"""Check digits are right; only the label speaks for the number."""


def vat_id(text: str) -> tuple[str, float] | None:
    """The VAT id that a text begins with and its confidence, without blanks; None where there is none."""
    match = _VAT.match(text.strip(_MARKS))
    if match is None:
        return None
    for candidate in _shortened(match["id"]):
        if has_right_check_digits(candidate):
            return candidate, CERTAIN
    number = next(filter(_LOOKS_RIGHT.fullmatch, reversed(_shortened(match["id"]))), None)
    return None if number is None else (number, STATED)


def _shortened(text: str) -> list[str]:
    """The text without its marks, then without its last parts: what follows a number may look like more of it."""
    parts = re.split(r"[ .-]", text)
    return ["".join(parts[:count]) for count in range(len(parts), 0, -1)]


def has_right_check_digits(number: str) -> bool:
    """Check a VAT id by the rules of its country."""
    if number.startswith("CHE"):
        return bool(_swiss.is_valid(re.sub(r"(MWST|TVA|IVA)$", "", number)))
    if number.startswith("GB"):
        return bool(_british.is_valid(number))
    return bool(_vat.is_valid(number))


def iban(text: str) -> tuple[str, float] | None:
    """The IBAN that a text begins with and its confidence, without blanks; None where there is none."""
    match = _IBAN.match(text.strip(_MARKS))
    if match is None:
        return None
    parts = match[0].split(" ")
    for count in range(len(parts), 0, -1):
        number = "".join(parts[:count])
        if _iban.is_valid(number, check_country=False):  # lists of banks grow old, check digits do not
            return number, CERTAIN
    return match[0].replace(" ", ""), STATED


def find_ibans(text: str) -> list[str]:
    """The IBANs in a text whose check digits are right."""
    found = (iban(match[0]) for match in _IBAN.finditer(text))
    return [number for number, confidence in filter(None, found) if confidence == CERTAIN]


def find_vat_ids(text: str) -> list[str]:
    """The VAT ids in a text whose check digits are right."""
    found = (vat_id(text[match.start() :]) for match in _VAT.finditer(text))
    return [number for number, confidence in filter(None, found) if confidence == CERTAIN]


def emails(text: str) -> list[str]:
    """The e-mail addresses in a text."""
    return [match[0].rstrip(".") for match in _EMAIL.finditer(text)]


def reference(text: str) -> tuple[str, str] | None:
    """The number of a document that a text begins with, and what follows it; None where there is none."""
    stripped = text.lstrip(_MARKS)
    match = _REFERENCE.match(stripped)
    if match is None or len(match[0]) > _MAX_REFERENCE:
        return None
    return match[0], stripped[match.end() :]
