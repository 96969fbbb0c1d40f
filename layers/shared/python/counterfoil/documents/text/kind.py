"""A document's type, number and other fields, from its title and labels. Pure.

The other fields include dates, references and the currency. The title decides the type. It is the largest line that
contains only the name of a type, with an optional number and date. If there is no title, the label of a type-specific
number decides.

Dates are read in seven languages, and only if they are unambiguous. VAT ids and IBANs contain check digits
(python-stdnum implements the rules of each country's authority). A number with invalid check digits is read only
beside its label and with lower confidence, because it may be misprinted in the document.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import Literal

from stdnum import iban as _iban
from stdnum.ch import uid as _swiss
from stdnum.eu import vat as _vat
from stdnum.gb import vat as _british

from counterfoil.documents.lexicon import READER, pattern
from counterfoil.documents.lexicon.folding import fold_letters
from counterfoil.documents.structured import ROLES, DocumentType
from counterfoil.documents.text.layout import (
    BUYER_LABEL,
    NUMBER_WORD,
    SUPPLIER_LABEL,
    Cell,
    LabeledValue,
    Layout,
    find,
    is_column_header,
    is_line_item_header,
)
from counterfoil.documents.text.page import Evidence

DateOrder = Literal["day first", "month first"]

_MONTH_OF = MappingProxyType(
    {word: int(number) for number, names in READER.meanings("languages.month").items() for word in names}
)
_MONTH_NAMES = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_YEAR = r"(?:19|20)\d{2}"
_DATE = re.compile(
    rf"(?<![\d.,/-])(?:"
    rf"(?P<iso_year>{_YEAR})[-./](?P<iso_month>\d{{1,2}})[-./](?P<iso_day>\d{{1,2}})"
    rf"|(?P<first>\d{{1,2}})\s?(?P<mark>[./-])\s?(?P<second>\d{{1,2}})\s?(?P=mark)\s?(?P<year>{_YEAR}|\d{{2}})"
    rf"|(?P<day>\d{{1,2}})(?:\.|st|nd|rd|th|er|o)?[\s-]*(?:(?:de|of)\s+)?(?P<name>{_MONTH_NAMES})\.?,?[\s-]*"
    rf"(?:del?\s+)?(?P<of>{_YEAR})"
    rf"|(?P<us_name>{_MONTH_NAMES})\.?\s+(?P<us_day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<us_year>{_YEAR})"
    rf")(?![\d/-]|[.,]\d)"
)
_LONG_WORDS = re.compile(r"[a-z]{4,}")
_ENGLISH = frozenset(READER.terms("languages.month_first"))
_LANGUAGE_WORDS = _ENGLISH.union(READER.terms("languages.day_first"))
_EUROPEAN = re.compile(
    r"£|(?<![a-z])(?:gb|ie)\s?\d{7,9}"
    r"|(?:vat|vat reg|vat registration)\b[^a-z]{0,12}(?:no|number|id)?[.: ]*[a-z]{2}\s?\d{8}"
)


def date_order(texts: Iterable[str]) -> DateOrder | None:
    """Return the order of day and month in a document's dates; None if unknown.

    A date with a number over 12 decides. Otherwise, the day is first in languages other than English, and in documents
    with a European VAT id. English text alone leaves the order unknown.
    """
    orders: set[DateOrder] = set()
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
        languages.update(
            "en" if word in _ENGLISH else "other" for word in _LONG_WORDS.findall(text) if word in _LANGUAGE_WORDS
        )
        is_european = is_european or _EUROPEAN.search(text) is not None
    if orders:
        return orders.pop() if len(orders) == 1 else None
    if languages["other"] > 2 * languages["en"] or is_european:
        return "day first"
    return None


def find_dates(text: str, order: DateOrder | None) -> Iterator[tuple[int, int, str | None]]:
    """Yield the start, end and ISO form of each date in a text.

    The form is None if the date is ambiguous or invalid.
    """
    for match in _DATE.finditer(fold_letters(text)):
        yield match.start(), match.end(), _iso_date(match, order)


def parse_date(text: str, order: DateOrder | None) -> str | None:
    """Return the ISO form of a date, optionally with a weekday or time.

    Returns None for other texts and ambiguous dates.
    """
    for start, end, day in find_dates(text, order):
        before, after = fold_letters(text[:start]).strip(" :(,."), text[end:].strip(" .,;)")
        if (not before or before.isalpha()) and len(before) <= 10 and re.fullmatch(r"(\d{1,2}:\d\d(:\d\d)?)?", after):
            return day
    return None


def _iso_date(match: "re.Match[str]", order: DateOrder | None) -> str | None:
    if match["iso_year"]:
        return _iso_day(match["iso_year"], match["iso_month"], match["iso_day"])
    if match["name"]:
        return _iso_day(match["of"], str(_MONTH_OF[match["name"]]), match["day"])
    if match["us_name"]:
        return _iso_day(match["us_year"], str(_MONTH_OF[match["us_name"]]), match["us_day"])
    first, second, year = match["first"], match["second"], match["year"]
    if len(year) == 2:
        year = f"20{year}" if int(year) < 70 else f"19{year}"
    if match["mark"] == "." or int(first) > 12 or first == second:
        order = "day first"
    elif int(second) > 12:
        order = "month first"
    if order is None:
        return None
    return _iso_day(year, second, first) if order == "day first" else _iso_day(year, first, second)


def _iso_day(year: str, month: str, day: str) -> str | None:
    try:
        return dt.date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None


_COUNTRIES = "AT|BE|BG|CHE|CY|CZ|DE|DK|EE|EL|ES|FI|FR|GB|GR|HR|HU|IE|IT|LT|LU|LV|MT|NL|NO|PL|PT|RO|SE|SI|SK|XI"
_VAT = re.compile(rf"(?<![A-Z0-9])(?P<id>(?:{_COUNTRIES})[ -]?[0-9A-Z](?:[ .-]?[0-9A-Z]){{5,15}})(?![a-z0-9])")
_VAT_FORM = re.compile(r"[A-Z]{2,3}(?=(?:[A-Z]*\d){7})[A-Z0-9]{8,13}")
_IBAN = re.compile(r"(?<![A-Z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?![A-Za-z0-9])")
_EMAIL = re.compile(r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_REFERENCE = re.compile(
    r"(?:[A-Z]{1,5} |[A-Z\d]{1,3} [-/] (?=\d{4}))?"
    r"(?=\S*\d)[A-Za-z0-9\u00c0-\u024f][\w./\-+]*(?<![./-])(?!\w)"
)
_MAX_REFERENCE = 40

_MARKS_BEFORE = " .:#-\u2013"

CHECKED_CONFIDENCE, LABELED_CONFIDENCE = 1.0, 0.7
"""Confidence in a number with valid check digits, and in a number identified only by its label."""


def vat_id(text: str) -> tuple[str, float] | None:
    """Return the VAT id at the start of a text, if any, and its confidence.

    The id is returned without separators.
    """
    match = _VAT.match(text.strip(_MARKS_BEFORE))
    if match is None:
        return None
    for candidate in _shortened_variants(match["id"]):
        if has_valid_check_digits(candidate):
            return candidate, CHECKED_CONFIDENCE
    number = next(filter(_VAT_FORM.fullmatch, reversed(_shortened_variants(match["id"]))), None)
    return None if number is None else (number, LABELED_CONFIDENCE)


def _shortened_variants(text: str) -> list[str]:
    """Return a text without separators, then variants without its last parts."""
    parts = re.split(r"[ .-]", text)
    return ["".join(parts[:count]) for count in range(len(parts), 0, -1)]


def has_valid_check_digits(number: str) -> bool:
    """Validate the check digits of a VAT id by the rules of its country."""
    if number.startswith("CHE"):
        return bool(_swiss.is_valid(re.sub(r"(MWST|TVA|IVA)$", "", number)))
    if number.startswith("GB"):
        return bool(_british.is_valid(number))
    return bool(_vat.is_valid(number))


def iban(text: str) -> tuple[str, float] | None:
    """Return the IBAN at the start of a text, if any, and its confidence.

    The IBAN is returned without spaces.
    """
    match = _IBAN.match(text.strip(_MARKS_BEFORE))
    if match is None:
        return None
    parts = match[0].split(" ")
    for count in range(len(parts), 0, -1):
        number = "".join(parts[:count])
        if _iban.is_valid(number, check_country=False):  # bank lists become outdated, check digit rules do not
            return number, CHECKED_CONFIDENCE
    return match[0].replace(" ", ""), LABELED_CONFIDENCE


def find_ibans(text: str) -> list[str]:
    """Return the IBANs with valid check digits in a text."""
    candidates = (iban(match[0]) for match in _IBAN.finditer(text))
    return [number for number, confidence in filter(None, candidates) if confidence == CHECKED_CONFIDENCE]


def find_vat_ids(text: str) -> list[str]:
    """Return the VAT ids with valid check digits in a text."""
    candidates = (vat_id(text[match.start() :]) for match in _VAT.finditer(text))
    return [number for number, confidence in filter(None, candidates) if confidence == CHECKED_CONFIDENCE]


def emails(text: str) -> list[str]:
    """Return the e-mail addresses in a text."""
    return [match[0].rstrip(".") for match in _EMAIL.finditer(text)]


def split_reference(text: str) -> tuple[str, str] | None:
    """Split a text into the document number at its start and the text after it.

    Returns None if it does not start with a document number.
    """
    stripped = text.lstrip(_MARKS_BEFORE)
    match = _REFERENCE.match(stripped)
    if match is None or len(match[0]) > _MAX_REFERENCE:
        return None
    return match[0], stripped[match.end() :]


_TITLES = {
    DocumentType(kind): READER.alternatives("titles.title", kind)
    for kind in READER.meanings("titles.title")
    if kind != "statement"
}
_TITLE = re.compile("|".join(rf"(?<![a-z])(?P<{kind.name}>{titles})(?![a-z])" for kind, titles in _TITLES.items()))
_NAMES = {kind: re.compile(rf"(?<![a-z])(?:{titles})(?![a-z])") for kind, titles in _TITLES.items()}
_REPEATED_TITLE = re.compile(rf"[\s.:]*[/|]\s*(?:{_TITLE.pattern})")
_SELF_BILLED = re.compile(r"selbst ausgestellte rechnung|selbstfakturi|gutschriftsverfahren|self[ -]?bill")
Parse = Callable[[str], tuple[str, float] | None]

_PARENTHESIS = re.compile(r"\([^()]*\)")
_FROM = r"vom|von|from|dated|issued(?: at| on)?|du|del|van|af|of"
_DATE_WORD = re.compile(rf"[\s,(\-|:/]*(?:(?:{_FROM}|date|en date du|dd|d d|den|datum|dato|am|a)\b)?[\s:.]*")
_CITED_DOCUMENT = re.compile(rf"\s*(?:zu|zur|to|for|sur|su|sobre|op|til|vedr)\b\.?\s*(?:[a-z']+ )?(?:{_TITLE.pattern})")
"""Another document that a title names after its number: `Gutschrift Nr. 7 zu Rechnung 4711`."""
_ENDS_IN_DATE_WORD = re.compile(rf"[\s,(]*(?:{_FROM})\s*")
_SPACED = re.compile(r"(?:[\w-] ){3,}[\w-]")
_MARKS = " .:,|-\u2013"
_TYPE_CODE = re.compile(r"td\d\d\s*[-:(]?\s*")
"""Document type code of Italian electronic invoices: `TD01 (fattura)`, `TD04 - Nota di credito`."""
_TYPE_LABEL = READER.pattern("titles.type_label")
_TALL_RATIO = 1.2
_WORDS_BEFORE, _WORDS_BETWEEN = 3, 3

_PREPOSITIONS = frozenset(READER.terms("titles.preposition"))
"""Prepositions before a type, or between type and number, in references to other documents."""
_NUMBER_OF = READER.patterns("labels.number")
OWN_NUMBER = {
    kind: pattern((*labels, *READER.terms("labels.own_number")))
    for kind, labels in READER.meanings("labels.number").items()
}
_ORDER_NUMBER = READER.pattern("labels.order_number")
_BARE_NUMBER = READER.pattern("labels.bare_number")
_REMINDER = READER.pattern("titles.title", "statement")
"""Titles of reminders and statements, which name other documents."""
_UPPER_PART = 0.45
_NEAR_TITLE = 8.0  # in title heights
_FEWEST_BELOW = 4  # minimum characters of a number below its label; shorter numbers may be line item positions
_BY_NUMBER = (
    DocumentType.CREDIT_NOTE,
    DocumentType.INVOICE,
    DocumentType.GOODS_RECEIPT,
    DocumentType.ORDER_CONFIRMATION,
    DocumentType.DELIVERY_NOTE,
    DocumentType.PURCHASE_ORDER,
    DocumentType.CONTRACT,
)
"""Types in the order in which an untitled document is searched for their labeled numbers.

Documents often cite types that are later in this list, but rarely types that are earlier.
"""


@dataclass(frozen=True)
class Title:
    """A line that names a document type, with its number and date if present."""

    type: DocumentType
    cell: Cell
    number: str | None
    date: str | None
    confidence: float
    is_tall: bool


def title(layout: Layout, order: DateOrder | None) -> Title | None:
    """Return the topmost of the largest title candidates on the earliest page."""
    usual_height = median([cell.height for cell in layout.cells] or [0.0])
    candidates = list(_titles(layout, order, usual_height))
    return min(
        candidates,
        key=lambda candidate: (candidate.cell.page, -round(candidate.cell.height), candidate.cell.top),
        default=None,
    )


def _titles(layout: Layout, order: DateOrder | None, usual_height: float) -> Iterator[Title]:
    for cell in layout.cells:
        text = cell.text.replace(" ", "") if _SPACED.fullmatch(cell.text) else cell.text
        if code_match := _TYPE_CODE.match(fold_letters(text)):
            text = text[code_match.end() :].replace(")", " ")
        words = fold_letters(text)
        match = _TITLE.search(words)
        if match is None or not _may_precede(words[: match.start()]):
            continue
        kind = DocumentType[match.lastgroup or ""]
        if kind is DocumentType.CREDIT_NOTE and _SELF_BILLED.search(words):
            kind = DocumentType.INVOICE
        rest = text[match.end() :]
        details = _number_and_date(layout, cell, rest, order)
        if details is None:
            continue
        number, day = details
        is_bare = number is None and day is None
        is_marked_as_type = code_match is not None or _is_of_type(layout, cell)
        if is_bare and not is_marked_as_type and cell.height < _TALL_RATIO * usual_height and _is_label(layout, cell):
            continue
        is_tall = cell.height >= _TALL_RATIO * usual_height
        yield Title(kind, cell, number, day, 0.7 if is_bare and not is_tall else 0.95, is_tall)


def _may_precede(text: str) -> bool:
    words = re.findall(r"[^\s\-]+", text)
    return (
        len(words) <= _WORDS_BEFORE
        and not _PREPOSITIONS & set(words)
        and not any(mark in text for mark in ":,;")
        and not any(map(str.isdigit, text))
    )


def _is_of_type(layout: Layout, cell: Cell) -> bool:
    """Return whether the label above a cell marks it as the name of a type.

    For example, `Documento` may be above `FACTURA`.
    """
    cells_above = [other for other in layout.over(cell, 2 * cell.height) if abs(other.left - cell.left) < cell.height]
    return bool(cells_above) and _TYPE_LABEL.fullmatch(cells_above[-1].plain.strip(" .:")) is not None


def _is_label(layout: Layout, cell: Cell) -> bool:
    """Return whether a cell is a label, with a colon or a value to its right."""
    right = layout.right_of(cell)
    return cell.text.rstrip().endswith(":") or (
        right is not None and (right.text.startswith(":") or split_reference(right.text) is not None)
    )


def _number_and_date(
    layout: Layout, cell: Cell, rest: str, order: DateOrder | None
) -> tuple[str | None, str | None] | None:
    """Return the number and date after a title, or None if other text follows."""
    rest = _PARENTHESIS.sub(lambda match: " " * len(match[0]), rest) if not parse_date(rest, order) else rest
    while repeated := _REPEATED_TITLE.match(fold_letters(rest)):
        rest = rest[repeated.end() :]
    if not rest.strip(_MARKS):
        return None, None
    number: str | None = None
    number_match = NUMBER_WORD.search(fold_letters(rest))
    if number_match:
        between = re.findall(r"[a-z]+", fold_letters(rest[: number_match.start()]))
        if (
            len(between) > _WORDS_BETWEEN
            or _PREPOSITIONS & set(between) - {"des", "of"}
            or _TITLE.search(fold_letters(rest[: number_match.start()]))
        ):
            return None
        rest = rest[number_match.end() :]
    day = next(iter(find_dates(rest, order)), None)
    if day is not None and _DATE_WORD.fullmatch(fold_letters(rest[: day[0]])):
        return None, day[2]
    reference = split_reference(rest)
    if reference is None:
        return None
    number, tail = reference
    return _with_tail(layout, cell, number, tail, order)


def _with_tail(
    layout: Layout, cell: Cell, number: str, tail: str, order: DateOrder | None
) -> tuple[str | None, str | None] | None:
    if not tail.strip(_MARKS) or _CITED_DOCUMENT.match(fold_letters(tail)):
        return number, None
    day = next(iter(find_dates(tail, order)), None)
    if day is not None and _DATE_WORD.fullmatch(fold_letters(tail[: day[0]])) and len(tail) - day[1] <= 2:
        return number, day[2]
    if _ENDS_IN_DATE_WORD.fullmatch(fold_letters(tail)):
        below = layout.below(cell)
        return number, None if below is None else parse_date(below.text, order)
    return None


def type_by_number(layout: Layout, parse: Parse, title: Title | None) -> tuple[DocumentType, LabeledValue] | None:
    """Return a document's type and number, based on the number's label or name.

    Returns None if there is no such number. Only a labeled invoice number overrides a title, because invoices cite
    documents of most other types.
    """
    if title is not None:
        is_citable = title.type not in {DocumentType.INVOICE, DocumentType.CREDIT_NOTE}
        labeled_number = next(_labeled(layout, DocumentType.INVOICE, parse), None) if is_citable else None
        return (
            None if labeled_number is None or labeled_number.label.page != 1 else (DocumentType.INVOICE, labeled_number)
        )
    for kind in _BY_NUMBER:
        labeled_number = next(iter(own_numbers(layout, kind, parse)), None)
        if labeled_number is not None and labeled_number.label.page == 1:
            return kind, labeled_number
    return _type_by_name(layout, parse)


def _type_by_name(layout: Layout, parse: Parse) -> tuple[DocumentType, LabeledValue] | None:
    """Return the first type whose name precedes a number, and the number.

    Only the upper part of page 1 is searched. Returns None for reminders and statements, because they name invoices.
    """
    first_page_cells = [cell for cell in layout.cells if cell.page == 1]
    if any(_REMINDER.search(cell.plain) for cell in first_page_cells):
        return None
    height = layout.pages[0].height if layout.pages else 0.0
    for kind in _BY_NUMBER:
        for labeled_number in named_numbers(layout, kind, parse):
            is_recipients = BUYER_LABEL.search(labeled_number.label.plain) is not None
            if labeled_number.label.page == 1 and labeled_number.label.top < _UPPER_PART * height and not is_recipients:
                return kind, labeled_number
    return None


def _labeled(layout: Layout, kind: DocumentType, parse: Parse) -> Iterator[LabeledValue]:
    """Yield a type's labeled numbers, then the numbers after its name."""
    yield from find(layout, _NUMBER_OF[kind], parse)
    yield from named_numbers(layout, kind, parse)


def named_numbers(layout: Layout, kind: DocumentType, parse: Parse) -> Iterator[LabeledValue]:
    """Yield the numbers directly after a type's name: `Sammelrechnung   R-1`."""
    name = _NAMES[kind]
    for labeled in find(layout, name, parse, below=False):
        words = (
            labeled.label.text if labeled.cell is not labeled.label else labeled.label.text.removesuffix(labeled.value)
        )
        if name.fullmatch(fold_letters(words).strip(" .:")):
            yield labeled


def own_numbers(layout: Layout, kind: DocumentType, parse: Parse) -> Sequence[LabeledValue]:
    """Return the numbers labeled as this type's own document number, in page order."""
    candidates = find(layout, OWN_NUMBER[kind], parse)
    if kind is DocumentType.INVOICE:
        return list(candidates)  # some suppliers label their own number `Ihre Rechnung Nr.`
    numbers = [candidate for candidate in candidates if not BUYER_LABEL.search(candidate.label.plain)]
    if kind is DocumentType.ORDER_CONFIRMATION and not numbers:
        numbers = [
            candidate
            for candidate in find(layout, _ORDER_NUMBER, parse)
            if not BUYER_LABEL.search(candidate.label.plain)
        ]
    return numbers


def number_beside(layout: Layout, title: Title, parse: Parse) -> LabeledValue | None:
    """Return the number labeled only "number" on the title's page.

    The label must be near the title or in a row of labels.
    """
    for labeled in find(layout, _BARE_NUMBER, parse):
        label = labeled.label
        is_near = abs(label.top - title.cell.top) <= _NEAR_TITLE * title.cell.height
        is_below = labeled.cell is not label and labeled.cell.top > label.bottom
        if (
            label.page == title.cell.page
            and (is_near or is_column_header(layout, label))
            and not (is_below and (len(labeled.value) < _FEWEST_BELOW or is_line_item_header(layout, label)))
        ):
            return labeled
    return None


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
"""Words before the due date in a payment request."""
_DISCOUNT = re.compile(READER.alternatives("labels.discount"))
_CURRENCY_LABEL = READER.pattern("labels.currency")
_CURRENCIES = MappingProxyType({"€": "EUR", "£": "GBP", "euro": "EUR", "euros": "EUR"})
_CURRENCY_CODE = re.compile(
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
_TOWN_BEFORE_DATE = re.compile(r"[A-Z\u00c0-\u00dd][\w.' -]{2,25},\s*(?:den |le |l\u00ec |li |am |the |a |d\. |den )?")
_UNTIL = re.compile(r"(?:^|\s)(?:bis(?: zum)?|until|by|jusqu'au|entro il|hasta el|voor|senest)\s*$")
_WITHOUT_DISCOUNT = re.compile(
    r"\s*(?:ohne abzug|rein netto|netto\b|net\b|without deduction|in full|sans escompte|senza sconto|sin descuento"
    r"|zonder korting|uden fradrag)"
)
"""Words after a due date without discount: `bis zum 11.07.2024 ohne Abzug`."""

Fields = dict[str, str | list[str]]


def parse_reference(text: str, order: DateOrder | None, *, strict: bool = True) -> tuple[str, float] | None:
    """Return the document number at the start of a text, if any, and its confidence.

    With `strict`, only a date, an order's line number or further numbers may follow it.
    """
    if any(start == len(text) - len(text.lstrip(" .:#(-")) for start, _, _ in find_dates(text, order)):
        return None
    reference = split_reference(text)
    if reference is None:
        return None
    value, tail = reference
    if not strict:
        return (value, 0.9) if not tail or tail[0] in " ,;.)(" else None
    return (value, 1.0) if _may_follow(tail, order) else None


def _may_follow(tail: str, order: DateOrder | None) -> bool:
    rest = tail.strip(" .,;)")
    if not rest or _LINE_OF_ORDER.fullmatch(fold_letters(rest)):
        return True
    day = next(iter(find_dates(tail, order)), None)
    if day is not None and _DATE_TAIL.fullmatch(fold_letters(tail[: day[0]])):
        return True
    next_item = _LIST.match(tail)
    return next_item is not None and split_reference(tail[next_item.end() :]) is not None


def date_after(labeled: LabeledValue, order: DateOrder | None) -> tuple[str, Evidence] | None:
    """Return the date after a number: `Nr. 4711 vom 4. Juli 2024`."""
    tail = labeled.cell.text.partition(labeled.value)[2]
    day = next(iter(find_dates(tail, order)), None)
    if day is None or day[2] is None or _DATE_TAIL.fullmatch(fold_letters(tail[: day[0]])) is None:
        return None
    return day[2], Evidence("label", 0.9, labeled.cell.page)


class LabeledFields:
    """Reads the labeled fields of a document whose type is known, and their evidence."""

    def __init__(self, layout: Layout, kind: DocumentType, order: DateOrder | None, own_number: str | None) -> None:
        self._layout, self._kind, self._order, self._own_number = layout, kind, order, own_number
        self.fields: Fields = {}
        self.evidence: dict[str, Evidence] = {}

    def read(self) -> None:
        """Fill `fields` and `evidence`."""
        for other, name in _REFERENCES[self._kind].items():
            self._read_references(name, self._numbers_of(other))
        if self._kind is DocumentType.INVOICE:
            self._read_references("preceding_invoice_reference", find(self._layout, _PRECEDING, self._reference))
        if self._kind is DocumentType.CREDIT_NOTE and "invoice_reference" not in self.fields:
            self._read_references("invoice_reference", find(self._layout, _PRECEDING, self._reference))
        if self._kind is DocumentType.CREDIT_NOTE and "invoice_reference" not in self.fields:
            self._read_references("invoice_reference", self._matching(_IS_AN_INVOICE, _YOUR_REFERENCE, _ANY_REFERENCE))
        if self._kind is DocumentType.PURCHASE_ORDER:
            self._read_references("quotation_reference", find(self._layout, _QUOTATION, self._reference))
        if "po_reference" in _REFERENCES[self._kind].values() and "po_reference" not in self.fields:
            self._read_references("po_reference", self._matching(_LOOKS_LIKE_AN_ORDER, _YOUR_REFERENCE))
        if "po_reference" in _REFERENCES[self._kind].values() and "po_reference" not in self.fields:
            self._read_references("po_reference", self._matching(_IS_AN_ORDER, _ANY_REFERENCE))
        self._read_dates()

    def _numbers_of(self, other: DocumentType) -> Iterator[LabeledValue]:
        def parse_loosely(text: str) -> tuple[str, float] | None:
            return parse_reference(text, self._order, strict=False)

        for labeled in find(self._layout, _NUMBER_OF[other], parse_loosely, anywhere=True):
            if other is not DocumentType.PURCHASE_ORDER or not SUPPLIER_LABEL.search(labeled.label.plain):
                yield labeled
        if other in _BARE:
            yield from find(self._layout, _BARE[other], self._reference, below=False)

    def _matching(self, pattern: "re.Pattern[str]", *labels: "re.Pattern[str]") -> Iterator[LabeledValue]:
        """Yield values of generic labels, such as `Reference`, that match `pattern`."""
        for label in labels:
            for labeled in find(self._layout, label, self._reference):
                if pattern.fullmatch(labeled.value):
                    yield LabeledValue(labeled.value, 0.6, labeled.label, labeled.cell)

    def _reference(self, text: str) -> tuple[str, float] | None:
        return parse_reference(text, self._order)

    def _read_references(self, name: str, labeled_values: Iterator[LabeledValue]) -> None:
        values: dict[str, Evidence] = {}
        for labeled in labeled_values:
            for value in (labeled.value, *self._following_numbers(labeled)):
                if value != self._own_number:
                    values.setdefault(value, Evidence("label", labeled.confidence, labeled.cell.page))
        for value in [value for value in values if any(other.endswith(f" {value}") for other in values)]:
            del values[value]  # another value is the same number with its leading letters
        if values:
            self.fields[name] = next(iter(values)) if len(values) == 1 else list(values)
            self.evidence[name] = min(values.values(), key=lambda evidence: evidence.confidence)

    def _following_numbers(self, labeled: LabeledValue) -> Iterator[str]:
        """Yield the numbers after the first, as in `4711, 4712 und 4713`."""
        tail = labeled.cell.text.partition(labeled.value)[2]
        while (separator := _LIST.match(tail)) and (following := split_reference(tail[separator.end() :])):
            value, tail = following
            if parse_date(value, self._order) is None and (len(value) > 4 or not value.isdecimal()):
                yield value

    def _read_dates(self) -> None:
        roles = ROLES[self._kind]
        for label in (_OWN_DATE[self._kind], _ANY_DATE):
            labeled = next(find(self._layout, label, self._parse_day), None)
            if labeled is not None:
                self._set(roles.date, labeled)
                break
        due = next(find(self._layout, _DUE_DATE, self._parse_day), None)
        due = due or next(self._payment_deadlines(), None)
        due = due or next(find(self._layout, _DUE_DATE, self._parse_day, anywhere=True, below=False), None)
        if roles.date not in self.fields:
            self._read_lone_date(roles.date, None if due is None else due.value)
        if due is not None and self._kind in {DocumentType.INVOICE, DocumentType.CREDIT_NOTE}:
            self._set("payment_due_date", due)

    def _parse_day(self, text: str) -> tuple[str, float] | None:
        for start, end, day in find_dates(text, self._order):
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
        """Read the only unlabeled date in the upper part of the first page.

        The due date is ignored. A date after a town takes precedence: `Cully, le 23 août 2024`.
        """
        days: dict[str, Cell] = {}
        days_after_town: dict[str, Cell] = {}
        for cell in self._layout.cells:
            if cell.page == 1 and cell.top < _UPPER_PART * self._layout.pages[0].height:
                town = _TOWN_BEFORE_DATE.match(cell.text)
                day = parse_date(cell.text[town.end() :] if town else cell.text, self._order)
                if day is not None:
                    (days_after_town if town else days).setdefault(day, cell)
        days.pop(due or "", None)
        for candidates in (days_after_town, days_after_town | days):
            if len(candidates) == 1:
                ((day, cell),) = candidates.items()
                self._set(name, LabeledValue(day, 0.7, cell, cell), source="place")
                return

    def _payment_deadlines(self) -> Iterator[LabeledValue]:
        """Yield the due dates in payment requests, except discount deadlines."""
        for line in self._layout.lines:
            text = " ".join(cell.text for cell in line)
            for start, end, day in find_dates(text, self._order):
                before = fold_letters(text[:start])
                match = _PAY_UNTIL.search(before)
                if match is None and _WITHOUT_DISCOUNT.match(fold_letters(text[end:])):
                    match = _UNTIL.search(before)
                if match and day is not None and not _DISCOUNT.search(match[0]):
                    yield LabeledValue(day, 0.85, line[0], line[0])

    def _set(self, name: str, labeled: LabeledValue, source: str = "label") -> None:
        self.fields[name] = labeled.value
        self.evidence[name] = Evidence(source, round(labeled.confidence, 2), labeled.cell.page)


def currency(layout: Layout) -> tuple[str, Evidence] | None:
    """Return the labeled currency, or else the only currency in the document.

    Returns None if the currency is ambiguous or absent.
    """

    def code(text: str) -> tuple[str, float] | None:
        match = _CURRENCY_CODE.search(text[:12])
        symbol = _CURRENCIES.get(text.strip(" :").casefold())
        return (match[0], 1.0) if match else (symbol, 1.0) if symbol else None

    labeled = next(find(layout, _CURRENCY_LABEL, code), None)
    if labeled is not None:
        return labeled.value, Evidence("label", labeled.confidence, labeled.cell.page)
    cells_by_code: dict[str, Cell] = {}
    for cell in layout.cells:
        for match in _CURRENCY_CODE.finditer(cell.text):
            cells_by_code.setdefault(match[0], cell)
        for sign in "€£":
            if sign in cell.text:
                cells_by_code.setdefault(_CURRENCIES[sign], cell)
    if len(cells_by_code) == 1:
        ((currency_code, cell),) = cells_by_code.items()
        return currency_code, Evidence("only currency", 0.9, cell.page)
    return None
