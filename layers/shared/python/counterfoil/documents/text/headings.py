"""References, dates and currency from the labels of a document. Pure."""

import re
from collections.abc import Iterator
from types import MappingProxyType

from counterfoil.documents.lexicon import READER
from counterfoil.documents.lexicon.folding import fold_letters
from counterfoil.documents.structured import ROLES, DocumentType
from counterfoil.documents.text import dates, identifiers
from counterfoil.documents.text.evidence import Evidence
from counterfoil.documents.text.layout import OURS, Cell, LabeledValue, Layout, find

_REFERENCES = {
    DocumentType.INVOICE: {
        DocumentType.PURCHASE_ORDER: "po_reference",
        DocumentType.DELIVERY_NOTE: "delivery_note_reference",
        DocumentType.CONTRACT: "contract_reference",
        DocumentType.ORDER_CONFIRMATION: "sales_order_reference",
    },
    DocumentType.CREDIT_NOTE: {
        DocumentType.INVOICE: "invoice_reference",
        DocumentType.PURCHASE_ORDER: "po_reference",
    },
    DocumentType.PURCHASE_ORDER: {DocumentType.CONTRACT: "contract_reference"},
    DocumentType.ORDER_CONFIRMATION: {DocumentType.PURCHASE_ORDER: "po_reference"},
    DocumentType.DELIVERY_NOTE: {DocumentType.PURCHASE_ORDER: "po_reference"},
    DocumentType.GOODS_RECEIPT: {
        DocumentType.PURCHASE_ORDER: "po_reference",
        DocumentType.DELIVERY_NOTE: "delivery_note_reference",
    },
    DocumentType.CONTRACT: {},
}
_STRONG = READER.patterns("labels.number")
_BARE = READER.patterns("labels.bare_reference")
_PRECEDING = READER.pattern("labels.preceding_invoice")
_QUOTATION = READER.pattern("labels.quotation")
_YOUR_REFERENCE = READER.pattern("labels.your_reference")
_ANY_REFERENCE = READER.pattern("labels.any_reference")
_OWN_DATE = READER.patterns("labels.own_date")
_ANY_DATE = READER.pattern("labels.any_date")
_DUE_DATE = READER.pattern("labels.due_date")
_PAY_UNTIL = re.compile(
    rf"(?:{READER.alternatives('labels.pay')})\b(?P<between>[^;]{{0,60}}?)\b"
    rf"(?:{READER.alternatives('labels.until')})\s*:?\s*$"
)
"""The words of a sentence that asks for payment, up to the date that follows."""
_DISCOUNT = re.compile(READER.alternatives("labels.discount"))
_CURRENCY = READER.pattern("labels.currency")
_CURRENCIES = MappingProxyType({"€": "EUR", "£": "GBP", "euro": "EUR", "euros": "EUR"})
_CODE = re.compile(
    r"(?<![A-Za-z])(?:EUR|GBP|CHF|USD|DKK|SEK|NOK|PLN|CZK|HUF|RON|BGN|DEM|CAD|AUD|JPY|CNY|TRY|ISK)(?![A-Za-z])"
)
_LOOKS_LIKE_AN_ORDER = re.compile(r"[A-Z]{2,}[-./]?\d[\w./-]*|45\d{8}")
_IS_AN_ORDER = re.compile(r"(?:PO|ORD|BEST|PED|CDE)[-./]?\d[\w./-]*|45\d{8}")
_IS_AN_INVOICE = re.compile(r"(?:INV|RE|RG|RN|FA|FAC|FACT|FT|FV)[-./]?\d[\w./-]*")
_DATE_TAIL = re.compile(
    r"\s*[,(/]?\s*(?:vom|von|v\.|from|dated|du|de|di|del|van|af|of|den|dd|d\.d\.|(?:datum|date|data|fecha|dato)\b\s*:?)?\s*"
)
_LIST = re.compile(r"\s*(?:,|;|/|und|and|et|e|y|en|og|\+|&)\s+")
_LINE_OF_ORDER = re.compile(r"\s*,?\s*(?:zeile|position|pos|line|ligne|riga|linea|regel|linje)\W*\d+\W*")
_UPPER_PART = 0.45
_TOWN_BEFORE_DATE = re.compile(r"[A-Z\u00c0-\u00dd][\w.' -]{2,25},\s*(?:den |le |l\u00ec |li |am |the |a |d\. |den )?")
_UNTIL = re.compile(r"(?:^|\s)(?:bis(?: zum)?|until|by|jusqu'au|entro il|hasta el|voor|senest)\s*$")
_IN_FULL = re.compile(
    r"\s*(?:ohne abzug|rein netto|netto\b|net\b|without deduction|in full|sans escompte|senza sconto|sin descuento"
    r"|zonder korting|uden fradrag)"
)
"""Behind the day until which all is to be paid: `bis zum 11.07.2024 ohne Abzug`."""

Fields = dict[str, str | list[str]]


def parse_reference(text: str, order: dates.Order | None, *, strict: bool = True) -> tuple[str, float] | None:
    """The number of a document that a text begins with; `strict`: only a date, a line or further numbers may follow."""
    if any(start == len(text) - len(text.lstrip(" .:#(-")) for start, _, _ in dates.find(text, order)):
        return None
    found = identifiers.reference(text)
    if found is None:
        return None
    value, tail = found
    if not strict:
        return (value, 0.9) if not tail or tail[0] in " ,;.)(" else None
    return (value, 1.0) if _may_follow(tail, order) else None


def _may_follow(tail: str, order: dates.Order | None) -> bool:
    rest = tail.strip(" .,;)")
    if not rest or _LINE_OF_ORDER.fullmatch(fold_letters(rest)):
        return True
    day = next(iter(dates.find(tail, order)), None)
    if day is not None and _DATE_TAIL.fullmatch(fold_letters(tail[: day[0]])):
        return True
    following = _LIST.match(tail)
    return following is not None and identifiers.reference(tail[following.end() :]) is not None


def day_behind(found: LabeledValue, order: dates.Order | None) -> tuple[str, Evidence] | None:
    """The date that stands behind a number: `Nr. 4711 vom 4. Juli 2024`."""
    tail = found.cell.text.partition(found.value)[2]
    day = next(iter(dates.find(tail, order)), None)
    if day is None or day[2] is None or _DATE_TAIL.fullmatch(fold_letters(tail[: day[0]])) is None:
        return None
    return day[2], Evidence("label", 0.9, found.cell.page)


class Headings:
    """Reads the labelled fields of a document of a known type, each with its evidence."""

    def __init__(self, layout: Layout, kind: DocumentType, order: dates.Order | None, own: str | None) -> None:
        self._layout, self._kind, self._order, self._own = layout, kind, order, own
        self.fields: Fields = {}
        self.evidence: dict[str, Evidence] = {}

    def read(self) -> None:
        """Fill `fields` and `evidence`."""
        for other, name in _REFERENCES[self._kind].items():
            self._read_references(name, self._stated(other))
        if self._kind is DocumentType.INVOICE:
            self._read_references("preceding_invoice_reference", find(self._layout, _PRECEDING, self._reference))
        if self._kind is DocumentType.CREDIT_NOTE and "invoice_reference" not in self.fields:
            self._read_references("invoice_reference", find(self._layout, _PRECEDING, self._reference))
        if self._kind is DocumentType.CREDIT_NOTE and "invoice_reference" not in self.fields:
            self._read_references("invoice_reference", self._like(_IS_AN_INVOICE, _YOUR_REFERENCE, _ANY_REFERENCE))
        if self._kind is DocumentType.PURCHASE_ORDER:
            self._read_references("quotation_reference", find(self._layout, _QUOTATION, self._reference))
        if "po_reference" in _REFERENCES[self._kind].values() and "po_reference" not in self.fields:
            self._read_references("po_reference", self._like(_LOOKS_LIKE_AN_ORDER, _YOUR_REFERENCE))
        if "po_reference" in _REFERENCES[self._kind].values() and "po_reference" not in self.fields:
            self._read_references("po_reference", self._like(_IS_AN_ORDER, _ANY_REFERENCE))
        self._read_dates()

    def _stated(self, other: DocumentType) -> Iterator[LabeledValue]:
        def parse_loosely(text: str) -> tuple[str, float] | None:
            return parse_reference(text, self._order, strict=False)

        for found in find(self._layout, _STRONG[other], parse_loosely, anywhere=True):
            if other is not DocumentType.PURCHASE_ORDER or not OURS.search(found.label.plain):
                yield found
        if other in _BARE:
            yield from find(self._layout, _BARE[other], self._reference, below=False)

    def _like(self, form: "re.Pattern[str]", *labels: "re.Pattern[str]") -> Iterator[LabeledValue]:
        """What labels only call a reference, where it looks like the number of what is wanted."""
        for label in labels:
            for found in find(self._layout, label, self._reference):
                if form.fullmatch(found.value):
                    yield LabeledValue(found.value, 0.6, found.label, found.cell)

    def _reference(self, text: str) -> tuple[str, float] | None:
        return parse_reference(text, self._order)

    def _read_references(self, name: str, found: Iterator[LabeledValue]) -> None:
        values: dict[str, Evidence] = {}
        for one in found:
            for value in (one.value, *self._further(one)):
                if value != self._own:
                    values.setdefault(value, Evidence("label", one.confidence, one.cell.page))
        for value in [value for value in values if any(other.endswith(f" {value}") for other in values)]:
            del values[value]  # the same number, read once without the letters before it
        if values:
            self.fields[name] = next(iter(values)) if len(values) == 1 else list(values)
            self.evidence[name] = min(values.values(), key=lambda evidence: evidence.confidence)

    def _further(self, found: LabeledValue) -> Iterator[str]:
        """Further numbers behind one, as in `4711, 4712 und 4713`."""
        tail = found.cell.text.partition(found.value)[2]
        while (separator := _LIST.match(tail)) and (following := identifiers.reference(tail[separator.end() :])):
            value, tail = following
            if dates.whole(value, self._order) is None and (len(value) > 4 or not value.isdecimal()):
                yield value

    def _read_dates(self) -> None:
        roles = ROLES[self._kind]
        for label in (_OWN_DATE[self._kind], _ANY_DATE):
            found = next(find(self._layout, label, self._day), None)
            if found is not None:
                self._set(roles.date, found)
                break
        due = next(find(self._layout, _DUE_DATE, self._day), None)
        due = due or next(self._asked_until(), None)
        due = due or next(find(self._layout, _DUE_DATE, self._day, anywhere=True, below=False), None)
        if roles.date not in self.fields:
            self._read_lone_date(roles.date, None if due is None else due.value)
        if due is not None and self._kind in {DocumentType.INVOICE, DocumentType.CREDIT_NOTE}:
            self._set("payment_due_date", due)

    def _day(self, text: str) -> tuple[str, float] | None:
        for start, end, day in dates.find(text, self._order):
            before, after = fold_letters(text[:start]).strip(" :(,."), text[end:].strip(" .,;)")
            if (
                day is not None
                and not before.replace(" ", "").isdigit()
                and len(before) <= 12
                and not after[:1].isdigit()
            ):
                is_period = re.match(r"\s*(?:-|\u2013|bis|to|until|au|al|t/m|til)\s*\d", text[end:])
                return None if is_period else (day, 1.0)
            return None
        return None

    def _read_lone_date(self, name: str, due: str | None) -> None:
        """A date that stands alone in the upper part of the first page, where it is the only such date but that due.

        One that stands behind a town says so itself: `Cully, le 23 août 2024`.
        """
        days: dict[str, Cell] = {}
        written: dict[str, Cell] = {}
        for cell in self._layout.cells:
            if cell.page == 1 and cell.top < _UPPER_PART * self._layout.pages[0].height:
                town = _TOWN_BEFORE_DATE.match(cell.text)
                day = dates.whole(cell.text[town.end() :] if town else cell.text, self._order)
                if day is not None:
                    (written if town else days).setdefault(day, cell)
        days.pop(due or "", None)
        for found in (written, written | days):
            if len(found) == 1:
                ((day, cell),) = found.items()
                self._set(name, LabeledValue(day, 0.7, cell, cell), source="place")
                return

    def _asked_until(self) -> Iterator[LabeledValue]:
        """The day until which a sentence asks for payment; days for a discount are left aside."""
        for line in self._layout.lines:
            text = " ".join(cell.text for cell in line)
            for start, end, day in dates.find(text, self._order):
                before = fold_letters(text[:start])
                asked = _PAY_UNTIL.search(before)
                if asked is None and _IN_FULL.match(fold_letters(text[end:])):
                    asked = _UNTIL.search(before)
                if asked and day is not None and not _DISCOUNT.search(asked[0]):
                    yield LabeledValue(day, 0.85, line[0], line[0])

    def _set(self, name: str, found: LabeledValue, source: str = "label") -> None:
        self.fields[name] = found.value
        self.evidence[name] = Evidence(source, round(found.confidence, 2), found.cell.page)


def currency(layout: Layout) -> tuple[str, Evidence] | None:
    """The currency that a label names, or the only one that stands anywhere."""

    def code(text: str) -> tuple[str, float] | None:
        match = _CODE.search(text[:12])
        symbol = _CURRENCIES.get(text.strip(" :").casefold())
        return (match[0], 1.0) if match else (symbol, 1.0) if symbol else None

    found = next(find(layout, _CURRENCY, code), None)
    if found is not None:
        return found.value, Evidence("label", found.confidence, found.cell.page)
    seen: dict[str, Cell] = {}
    for cell in layout.cells:
        for match in _CODE.finditer(cell.text):
            seen.setdefault(match[0], cell)
        for sign in "€£":
            if sign in cell.text:
                seen.setdefault(_CURRENCIES[sign], cell)
    if len(seen) == 1:
        ((only, cell),) = seen.items()
        return only, Evidence("only currency", 0.9, cell.page)
    return None
