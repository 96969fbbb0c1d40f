"""What a document calls itself: its type, its own number and the date that stands with them. Pure.

The title decides: the largest line that is nothing but the name of a type, with a number and a date at most. Without
one, the label of a number does that only one type of document bears.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from counterfoil.documents.lexicon import READER, pattern
from counterfoil.documents.lexicon.folding import fold_letters
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.text import dates, identifiers
from counterfoil.documents.text.layout import YOURS, Cell, LabeledValue, Layout, find, heads_a_column, heads_goods

_TITLES = {
    DocumentType(kind): READER.alternatives("titles.title", kind)
    for kind in READER.meanings("titles.title")
    if kind != "statement"
}
_TITLE = re.compile("|".join(rf"(?<![a-z])(?P<{kind.name}>{titles})(?![a-z])" for kind, titles in _TITLES.items()))
_NAMES = {kind: re.compile(rf"(?<![a-z])(?:{titles})(?![a-z])") for kind, titles in _TITLES.items()}
_AGAIN = re.compile(rf"[\s.:]*[/|]\s*(?:{_TITLE.pattern})")
_SELF_BILLED = re.compile(r"selbst ausgestellte rechnung|selbstfakturi|gutschriftsverfahren|self[ -]?bill")
Parse = Callable[[str], tuple[str, float] | None]

_NUMBER_WORD = re.compile(r"(?:nummer|number|numero|num|nr|n\.?o|n\b|n'|#)[\s.:#]*")
_PARENTHESIS = re.compile(r"\([^()]*\)")
_FROM = r"vom|von|from|dated|issued(?: at| on)?|du|del|van|af|of"
_DATE_WORD = re.compile(rf"[\s,(\-|:/]*(?:(?:{_FROM}|date|en date du|dd|d d|den|datum|dato|am|a)\b)?[\s:.]*")
_CITES = re.compile(rf"\s*(?:zu|zur|to|for|sur|su|sobre|op|til|vedr)\b\.?\s*(?:[a-z']+ )?(?:{_TITLE.pattern})")
"""Another document that a title names behind its number: `Gutschrift Nr. 7 zu Rechnung 4711`."""
_ENDS_IN_DATE_WORD = re.compile(rf"[\s,(]*(?:{_FROM})\s*")
_SPACED = re.compile(r"(?:[\w-] ){3,}[\w-]")
_MARKS = " .:,|-\u2013"
_TYPE_CODE = re.compile(r"td\d\d\s*[-:(]?\s*")
"""The code that Italian electronic invoices name their type by: `TD01 (fattura)`, `TD04 - Nota di credito`."""
_TYPE_LABEL = READER.pattern("titles.type_label")
_TALL = 1.2
_WORDS_BEFORE, _WORDS_BETWEEN = 3, 3

_PREPOSITIONS = frozenset(READER.terms("titles.preposition"))
"""Before the name of a type, or between it and a number, these make it a mention of another document."""
_NUMBER_OF = READER.patterns("labels.number")
OWN_NUMBER = {
    kind: pattern((*labels, *READER.terms("labels.own_number")))
    for kind, labels in READER.meanings("labels.number").items()
}
_ORDER_NUMBER = READER.pattern("labels.order_number")
_BARE_NUMBER = READER.pattern("labels.bare_number")
_REMINDER = READER.pattern("titles.title", "statement")
"""Asks for the payment of other documents, and names them without being one."""
_UPPER_PART = 0.45
_NEAR_TITLE = 8.0  # heights of the title
_FEWEST_BELOW = 4  # characters of a number below its label; fewer may count lines
_BY_NUMBER = (
    DocumentType.CREDIT_NOTE,
    DocumentType.INVOICE,
    DocumentType.GOODS_RECEIPT,
    DocumentType.ORDER_CONFIRMATION,
    DocumentType.DELIVERY_NOTE,
    DocumentType.PURCHASE_ORDER,
    DocumentType.CONTRACT,
)
"""Without a title, the first of these whose number is labelled: each may cite those behind it, hardly those before."""


@dataclass(frozen=True)
class Title:
    """A line that names a type: with a number or a date where they stand in it."""

    type: DocumentType
    cell: Cell
    number: str | None
    date: str | None
    confidence: float
    is_tall: bool


def title(layout: Layout, order: dates.Order | None) -> Title | None:
    """The title of a document: of all candidates the largest, then the first."""
    usual = median([cell.height for cell in layout.cells] or [0.0])
    found = list(_titles(layout, order, usual))
    return min(found, key=lambda one: (one.cell.page, -round(one.cell.height), one.cell.top), default=None)


def _titles(layout: Layout, order: dates.Order | None, usual: float) -> Iterator[Title]:
    for cell in layout.cells:
        text = cell.text.replace(" ", "") if _SPACED.fullmatch(cell.text) else cell.text
        if coded := _TYPE_CODE.match(fold_letters(text)):
            text = text[coded.end() :].replace(")", " ")
        words = fold_letters(text)
        match = _TITLE.search(words)
        if match is None or not _may_precede(words[: match.start()]):
            continue
        kind = DocumentType[match.lastgroup or ""]
        if kind is DocumentType.CREDIT_NOTE and _SELF_BILLED.search(words):
            kind = DocumentType.INVOICE
        rest = text[match.end() :]
        read = _rest(layout, cell, rest, order)
        if read is None:
            continue
        number, day = read
        is_bare = number is None and day is None
        is_told = coded is not None or _is_of_type(layout, cell)
        if is_bare and not is_told and cell.height < _TALL * usual and _is_label(layout, cell):
            continue
        is_tall = cell.height >= _TALL * usual
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
    """Tell whether the label over a cell says that it is the name of a type: `Documento` over `FACTURA`."""
    over = [one for one in layout.over(cell, 2 * cell.height) if abs(one.left - cell.left) < cell.height]
    return bool(over) and _TYPE_LABEL.fullmatch(over[-1].plain.strip(" .:")) is not None


def _is_label(layout: Layout, cell: Cell) -> bool:
    """Tell whether a value stands to the right of a cell, or it ends in a colon: then it is no title."""
    right = layout.right_of(cell)
    return cell.text.rstrip().endswith(":") or (
        right is not None and (right.text.startswith(":") or identifiers.reference(right.text) is not None)
    )


def _rest(layout: Layout, cell: Cell, rest: str, order: dates.Order | None) -> tuple[str | None, str | None] | None:
    """Number and date of what follows a title's words; None where something else follows."""
    rest = _PARENTHESIS.sub(lambda match: " " * len(match[0]), rest) if not dates.whole(rest, order) else rest
    while again := _AGAIN.match(fold_letters(rest)):
        rest = rest[again.end() :]
    if not rest.strip(_MARKS):
        return None, None
    number: str | None = None
    numbered = _NUMBER_WORD.search(fold_letters(rest))
    if numbered and (numbered.start() == 0 or not rest[numbered.start() - 1].isalnum()):
        between = re.findall(r"[a-z]+", fold_letters(rest[: numbered.start()]))
        if (
            len(between) > _WORDS_BETWEEN
            or _PREPOSITIONS & set(between) - {"des", "of"}
            or _TITLE.search(fold_letters(rest[: numbered.start()]))
        ):
            return None
        rest = rest[numbered.end() :]
    day = next(iter(dates.find(rest, order)), None)
    if day is not None and _DATE_WORD.fullmatch(fold_letters(rest[: day[0]])):
        return None, day[2]
    reference = identifiers.reference(rest)
    if reference is None:
        return None
    number, tail = reference
    return _with_tail(layout, cell, number, tail, order)


def _with_tail(
    layout: Layout, cell: Cell, number: str, tail: str, order: dates.Order | None
) -> tuple[str | None, str | None] | None:
    if not tail.strip(_MARKS) or _CITES.match(fold_letters(tail)):
        return number, None
    day = next(iter(dates.find(tail, order)), None)
    if day is not None and _DATE_WORD.fullmatch(fold_letters(tail[: day[0]])) and len(tail) - day[1] <= 2:
        return number, day[2]
    if _ENDS_IN_DATE_WORD.fullmatch(fold_letters(tail)):
        below = layout.below(cell)
        return number, None if below is None else dates.whole(below.text, order)
    return None


def type_by_number(layout: Layout, parse: Parse, title: Title | None) -> tuple[DocumentType, LabeledValue] | None:
    """The type whose number is labelled, where there is no title; an invoice also where it may cite what a title names.

    Labels that every type may have tell no type against a title.
    """
    if title is not None:
        is_citable = title.type not in {DocumentType.INVOICE, DocumentType.CREDIT_NOTE}
        found = next(_labelled(layout, DocumentType.INVOICE, parse), None) if is_citable else None
        return None if found is None or found.label.page != 1 else (DocumentType.INVOICE, found)
    for kind in _BY_NUMBER:
        found = next(iter(own_numbers(layout, kind, parse)), None)
        if found is not None and found.label.page == 1:
            return kind, found
    return _beside_its_name(layout, parse)


def _beside_its_name(layout: Layout, parse: Parse) -> tuple[DocumentType, LabeledValue] | None:
    """The type by whose name a number stands on the first page, where nothing else names a type.

    Not where the page asks for payment: a reminder names invoices, and is none.
    """
    first = [cell for cell in layout.cells if cell.page == 1]
    if any(_REMINDER.search(cell.plain) for cell in first):
        return None
    height = layout.pages[0].height if layout.pages else 0.0
    for kind in _BY_NUMBER:
        for found in named_numbers(layout, kind, parse):
            is_yours = YOURS.search(found.label.plain) is not None
            if found.label.page == 1 and found.label.top < _UPPER_PART * height and not is_yours:
                return kind, found
    return None


def _labelled(layout: Layout, kind: DocumentType, parse: Parse) -> Iterator[LabeledValue]:
    """The numbers of a type by their labels, then those behind its name."""
    yield from find(layout, _NUMBER_OF[kind], parse)
    yield from named_numbers(layout, kind, parse)


def named_numbers(layout: Layout, kind: DocumentType, parse: Parse) -> Iterator[LabeledValue]:
    """The numbers that stand behind a cell which is the name of a type, or in it: `Sammelrechnung   R-1`."""
    name = _NAMES[kind]
    for found in find(layout, name, parse, below=False):
        words = found.label.text if found.cell is not found.label else found.label.text.removesuffix(found.value)
        if name.fullmatch(fold_letters(words).strip(" .:")):
            yield found


def own_numbers(layout: Layout, kind: DocumentType, parse: Parse) -> Sequence[LabeledValue]:
    """The numbers that stand beside a label of the type's own number, by the order of pages."""
    found = find(layout, OWN_NUMBER[kind], parse)
    if kind is DocumentType.INVOICE:
        return list(found)  # `Ihre Rechnung Nr. 4711` is what a seller writes
    own = [one for one in found if not YOURS.search(one.label.plain)]
    if kind is DocumentType.ORDER_CONFIRMATION and not own:
        own = [one for one in find(layout, _ORDER_NUMBER, parse) if not YOURS.search(one.label.plain)]
    return own


def number_beside(layout: Layout, title: Title, parse: Parse) -> LabeledValue | None:
    """The number whose label is the word for number alone: near a title, or in a row of labels on its page."""
    for found in find(layout, _BARE_NUMBER, parse):
        label = found.label
        is_near = abs(label.top - title.cell.top) <= _NEAR_TITLE * title.cell.height
        is_below = found.cell is not label and found.cell.top > label.bottom
        if (
            label.page == title.cell.page
            and (is_near or heads_a_column(layout, label))
            and not (is_below and (len(found.value) < _FEWEST_BELOW or heads_goods(layout, label)))
        ):
            return found
    return None
