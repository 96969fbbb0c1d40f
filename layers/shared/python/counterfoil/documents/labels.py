"""Reads what the text of an invoice's pages says beside a label. Pure.

A field is taken only where a line names it: `Rechnungsnummer: R-17`, `Your order BC-4656`, `Gesamtbetrag 119,00 €`. The
two sides are taken from the sender's line above a letter's address (DIN 5008: name, street and town on one line, and
the recipient below it). What no label names is absent, lines of goods among it; so is a date or an amount that could be
read in two ways.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NUMBER = re.compile(
    r"(?i:rechnungs-?(?:nummer|nr\.?)|invoice\s+(?:number|no\.?)|num[ée]ro\s+de\s+facture|factuurnummer"
    r"|(?:rechnung|invoice|facture|fattura|factuur)(?:\s*(?:nr\.?|no\.?|n[°º]|n\.|#))?)\s*:?\s+"
    r"(?!\d{1,2}[./-]\d{1,2}[./-]\d{2,4}$)(?P<value>(?:[A-Z]{1,4}\s)?[\w./-]*\d[\w./-]*)"
)
_DATE_LABEL = r"(?:rechnungsdatum|datum|invoice date|date)"
_DUE_LABEL = r"(?:fällig am|zahlbar bis|due date|payable by)"
_ORDER_LABEL = (
    r"(?:ihre bestell(?:ung|nummer)|bestell(?:nummer|-nr\.?)|your order|(?:purchase )?order (?:number|no\.?))"
)
_DELIVERY_LABEL = r"(?:lieferschein(?:nummer|-nr\.?)?|delivery note(?: (?:number|no\.?))?)"
_NET_LABEL = r"(?:nettobetrag|summe netto|net total|total net)"
_GROSS_LABEL = r"(?:gesamtbetrag|rechnungsbetrag|bruttobetrag|amount due|total due|grand total)"
_VAT_LABEL = r"(?:ust-?\s?id-?nr\.?|vat (?:number|no\.?|id))"
_BUYER_VAT_LABEL = r"(?:ihre ust-?\s?id-?nr\.?|your vat (?:number|no\.?|id))"

_REFERENCE = r"(?P<value>[\w./-]*\d[\w./-]*)"
_DAY = r"(?P<value>\d{1,2}\.\d{1,2}\.\d{4}|\d{4}-\d{2}-\d{2})"
_VAT_ID = r"(?P<value>[A-Z]{2}[A-Z0-9]{2,13})"
_AMOUNT = r"(?P<before>[€£]|EUR|GBP|CHF)?\s*(?P<value>\d[\d.,'\u00a0 ]*[.,]\d\d)\s*(?P<after>[€£]|EUR|GBP|CHF)?"
_FIELDS = (
    ("invoice_date", _DATE_LABEL, _DAY),
    ("payment_due_date", _DUE_LABEL, _DAY),
    ("po_reference", _ORDER_LABEL, _REFERENCE),
    ("delivery_note_reference", _DELIVERY_LABEL, _REFERENCE),
    ("total_net", _NET_LABEL, _AMOUNT),
    ("total_gross", _GROSS_LABEL, _AMOUNT),
    ("issuer.vat_id", _VAT_LABEL, _VAT_ID),
    ("recipient.vat_id", _BUYER_VAT_LABEL, _VAT_ID),
)
_PATTERNS = {name: re.compile(rf"(?i:{label})\s*:?\s+{value}") for name, label, value in _FIELDS}
_CURRENCIES = {"€": "EUR", "£": "GBP"}
_TOWN = re.compile(r"(?P<code>(?:[A-Z]{1,2}-)?\d{4,6}|[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}) (?P<city>\D.*)")
_SENDER_SEPARATOR = re.compile(r"\s+[·•|]\s+")


def invoice_number(text: str) -> str | None:
    """The number of the invoice that a page belongs to, where one of its lines is just that: a label and a number."""
    return next((found["value"] for line in _lines(text) if (found := _NUMBER.fullmatch(line))), None)


def read_invoice(text: str) -> dict[str, Any] | None:
    """The fields of an invoice that its text names; None where it names no number of its own."""
    number = invoice_number(text)
    if number is None:
        return None
    lines = list(_lines(text))
    fields: dict[str, Any] = {"invoice_number": number}
    parties = _parties(lines)
    for name, pattern in _PATTERNS.items():
        found = next((found for line in lines if (found := pattern.fullmatch(line))), None)
        if found is None:
            continue
        party, _, own = name.rpartition(".")
        if party in parties:
            parties[party][own] = found["value"]
        elif not party:
            fields |= _stated(name, found)
    return {**fields, **parties}


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if stripped := line.strip():
            yield stripped


def _stated(name: str, found: "re.Match[str]") -> Mapping[str, str]:
    """The field `name` in the form of structured data, and the currency where an amount names it."""
    value = found["value"]
    if name.startswith("total_"):
        symbol = found["before"] or found["after"]
        currency = {"currency": _CURRENCIES.get(symbol, symbol)} if symbol else {}
        whole, cents = re.sub(r"\D", "", value[:-3]), value[-2:]
        return {name: f"{int(whole)}.{cents}", **currency}
    if "date" in name and "." in value:
        day, month, year = value.split(".")
        return {name: f"{year}-{int(month):02}-{int(day):02}"}
    return {name: value}


def _parties(lines: Sequence[str]) -> dict[str, dict[str, str]]:
    """Issuer and recipient by the sender's line and the address below it; empty without such a line."""
    for place, line in enumerate(lines):
        parts = _SENDER_SEPARATOR.split(line)
        if len(parts) == 3 and (town := _TOWN.fullmatch(parts[2])):
            parties = {"issuer": _party(parts[0], parts[1], town)}
            address = lines[place + 1 : place + 4]
            if len(address) == 3 and (below := _TOWN.fullmatch(address[2])):
                parties["recipient"] = _party(address[0], address[1], below)
            return parties
    return {}


def _party(name: str, street: str, town: "re.Match[str]") -> dict[str, str]:
    return {"name": name, "street": street, "postal_code": town["code"], "city": town["city"]}
