"""Features of a page: its type, number, sender, header and position. Pure.

The position is the place of the page in its document. Titles and labels are German, English, French, Italian, Spanish,
Dutch and Danish. Patterns apply to folded text: lowercase, without accents, with plain quotes and single spaces
(`folding.normalize_text`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from re import Match
from statistics import median
from typing import Literal

from counterfoil.documents.lexicon import SPLITTER
from counterfoil.documents.lexicon.folding import normalize_text
from counterfoil.documents.text.page import Line, Page, Word

_STAGE_ORDER = (
    ("contract", "quotation"),
    ("purchase_order",),
    ("order_confirmation",),
    ("delivery_note",),
    ("goods_receipt",),
    ("invoice",),
    ("credit_note",),
    ("statement",),
)
"""Document types by stage of a purchase, earliest first.

Documents cite documents from earlier stages: an invoice cites its order, but not vice versa.
"""
_STAGES = {kind: stage for stage, kinds in enumerate(_STAGE_ORDER) for kind in kinds}

_DATE = r"\d{1,2}[./-]\s?\d{1,2}[./-]\s?\d{2,4}|\d{4}-\d{2}-\d{2}|\d{1,2}\.? [a-z]{3,9}\.? \d{4}"
_NO_PREFIX = r"(?:vom|von|du|of|del|van|af|nr|no|to|zu|zum|den|und|and|et|on|per|page|side|pag|blad|p|n|total)\b"
_NUMBER_FORM = (
    rf"(?:(?!{_NO_PREFIX})[a-z]{{1,4}} )?(?!(?:{_DATE})(?:\s|"
    rf"$))(?=[a-z./_-]*\d)[a-z0-9](?:[\w./-]*\w)?(?![\w./-]|,\d)"
)
_CALLED = r"(?:(?:nummer|number|numero|num|nr|no|n|id)\b|n ?°|#) ?[.:°]*"
_LINKED = r"(?:de la |de l'|della |dell'|del |de |d'|du |di |of |van |af )"
_ASIDE = r"(?: ?\([^()]{1,40}\))?"
_DATED = rf"(?:[ ,]*(?:vom|v\.|dated|date|of|issued at|issued on|du|del|van|von|af|le|il|den)?:? ?(?:{_DATE}))?"

_latest_first = sorted(_STAGES, key=lambda kind: -_STAGES[kind])  # a Stornorechnung must not match as a Rechnung
_titles = "|".join(f"(?P<{kind}>{SPLITTER.alternatives('titles.title', kind)})" for kind in _latest_first)
_stems = "|".join(f"(?P<{kind}_stem>{SPLITTER.alternatives('titles.stem', kind)})" for kind in _latest_first)
_TITLE = re.compile(
    rf"(?:{_titles})\b{_ASIDE}(?P<label> ?[:.]| ?-? ?{_CALLED})? ?(?P<number>{_NUMBER_FORM})?(?P<rest>{_DATED}.*)"
)
"""Name of a document type at the start of a text, optionally with a number; `rest` is the text after them."""
_LABEL = re.compile(
    rf"(?:(?:{_stems})s?-? ?{_CALLED}|{_CALLED} ?{_LINKED}?(?:{_titles.replace('?P<', '?P<named_')})\b ?:?)"
    rf" ?(?P<number>{_NUMBER_FORM})?(?P<rest>.*)"
)
"""A number labeled with the type of its document: `Rechnungs-Nr. 17`, `numéro de facture: 17`."""
_PIECES = ("label", "number", "rest")
"""Groups of `_TITLE` and `_LABEL` that do not name a type."""
_OWN_LABEL = re.compile(
    rf"(?:(?:beleg|dokument(?:en)?|document|bilags)s?-? ?(?:nummer|number|nr|no)\b ?[.:]*|nummer|number|numero"
    rf"|n ?°|numero de document)(?: ?:)? (?P<number>{_NUMBER_FORM})(?P<rest>{_DATED})$"
)
"""A document number labeled without a type: `Beleg-Nr. 17`, `Nummer 17`."""
_ONLY_DATE = re.compile(rf"{_DATED}[ .,;]*$")
_NUMBER = re.compile(_NUMBER_FORM)

_PAGE = SPLITTER.alternatives("pages.page")
_OF = SPLITTER.alternatives("pages.page_of")
_OF_LABELED = SPLITTER.alternatives("pages.page_of_labeled")
_PAGE_PLACE = re.compile(
    rf"\b(?:{_PAGE}) ?[:.]? ?(?:nr\.?|no\.?|n°)? ?(?P<place>\d{{1,4}})"
    rf"(?: ?(?:{_OF}|{_OF_LABELED}|/) ?(?P<count>\d{{1,4}}))?\b(?![.,]\d)"
)
_BARE_PLACE = re.compile(rf"-? ?(?P<place>\d{{1,3}}) ?(?:/|{_OF}) ?(?P<count>\d{{1,3}}) ?-?|- ?(?P<alone>\d{{1,3}}) ?-")
_BEFORE_OTHER_PAGE = re.compile(rf"\b(?:{SPLITTER.alternatives('pages.before_other_page')})\W*$")
_AFTER_OTHER_PAGE = re.compile(SPLITTER.alternatives("pages.after_other_page"))
"""Words that refer to another page."""

_CARRIED = re.compile(
    rf"\b(?:{SPLITTER.alternatives('pages.carried')})"
    rf"|^(?:{SPLITTER.alternatives('pages.carried_alone')})\b ?:? [\d.,' ]+(?: ?[a-z€£$]{{1,3}})?$"
)
_TOTAL = re.compile(rf"(?:{SPLITTER.alternatives('pages.total')})\b[^\d\n]{{0,25}}-?\d[\d.,' ]*[.,]\d\d\b")
"""A total at the end of a document."""
_GOODS = re.compile(
    r"(?:^| )(?!\d{1,2}\.\d{1,2}\.\d\d\b)-?\d[\d.,']*[.,]\d\d"
    r"(?: ?(?:eur|usd|gbp|chf|dkk|kr\.?|€|£|\$))?(?: \d\d? ?%?)?$"
)
"""The end of a table row: an amount, optionally with its tax rate."""
_NO_TOTAL = re.compile(SPLITTER.alternatives("pages.not_total"))

_SHORT_GAP = r"[^\d]{0,12}"
_head_labels = {means: "|".join(labels) for means, labels in SPLITTER.meanings("pages.head_label").items()}
_HEAD_LABELS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:{_head_labels['date']})\b[ .:]*(?:{_DATE})",
        rf"(?:{_head_labels['customer']}){_SHORT_GAP}\d",
        rf"(?:{_head_labels['your']}) (?:{_head_labels['reference']})[a-z]*{_SHORT_GAP}\d",
        rf"(?:{_head_labels['due']})[a-z]*{_SHORT_GAP}(?:{_DATE})",
        rf"(?:{_head_labels['delivered']}){_SHORT_GAP}(?:{_DATE})",
        rf"(?:ihre |your |votre |uw )?(?:{_head_labels['tax']})[^\d]{{0,25}}[a-z]{{0,3}}\d[\d. ]{{6,}}",
        rf"(?:{_head_labels['contact']})\b ?:? \w",
    )
)
"""One pattern for each kind of fact in a first page's header."""

_SALUTATION = re.compile(rf"(?:{SPLITTER.alternatives('pages.salutation')})\b")
_TOWN = re.compile(
    r"(?:[a-z]{1,3}[- ])?\d{4,6} ?(?:[a-z]{2} )?[a-z][a-z .'/()-]+|[a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2} [a-z .'-]+"
    r"|[a-z .'-]+,? [a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2}"
)
"""The last line of an address: postal code and town."""

_ANNEX = re.compile(SPLITTER.alternatives("pages.annex"))

_FIRM = re.compile(
    rf"(?<![\w&.'-])[\w&.'-]+(?: [\w&.'+-]+){{0,5}}?,? (?:{SPLITTER.alternatives('legal_forms.written')})\b"
)
_VAT_ID = re.compile(
    r"\b(?:ATU\d{8}|BE0?\d{9}|CHE\d{9}|DE\d{9}|DK\d{8}|ES[A-Z0-9]\d{7}[A-Z0-9]|FR[A-Z0-9]{2}\d{9}|GB\d{9}|IT\d{11}|"
    r"LU\d{8}|NL\d{9}B\d{2}|PL\d{10}|SE\d{12})\b"
)
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}[A-Z0-9]{11,30}\b")

_TITLE_HEIGHT = 1.25  # relative to the median word height of the page
_LARGE = 1.5
_HEADER, _FOOTER = 0.2, 0.82  # relative to the page height
_UPPER = 0.6
_MARGIN = 0.12
_LINES_ABOVE_TOWN = 2
_FIGURE = 4  # digits
_GAP = 1.0  # in word heights; a wider gap separates columns

Style = Literal["title", "heading", "label"]
"""Style of a mention.

`title` is larger than the page's text. `heading` is on its own line. `label` is next to other text, such as a
reference.
"""
_STYLES: tuple[Style, ...] = ("title", "heading", "label")


@dataclass(frozen=True)
class Segment:
    """Words of a line without a column gap between them."""

    text: str
    """Folded."""
    left: float
    right: float
    top: float
    height: float


@dataclass(frozen=True)
class TypeMention:
    """A document type named on a page, with its number if stated."""

    kind: str
    number: str | None
    """Only the letters and digits, because separators differ between spellings."""
    style: Style
    height: float
    above: float
    """Share of the page's lines above it, 0 to 1."""

    @property
    def stage(self) -> int:
        """Stage of the type in a purchase."""
        return _STAGES[self.kind]


@dataclass(frozen=True)
class PagePlace:
    """Printed page number, such as `Page 2 of 3`."""

    place: int
    count: int | None


@dataclass(frozen=True)
class PageFeatures:
    """Features found on a page."""

    own: TypeMention | None
    """Type and number that the page states as its own."""
    named: tuple[TypeMention, ...]
    """All types named on the page."""
    unnamed: str | None
    """Number that the page states as its own, without a type."""
    places: tuple[PagePlace, ...]
    sender: frozenset[str]
    """VAT ids and bank accounts in header and footer."""
    firms: frozenset[str]
    """Companies in the header."""
    header: frozenset[str]
    """Lines of the header, without digits."""
    lines: frozenset[str]
    """All lines, without digits."""
    large: frozenset[str]
    """Lines in the upper half that are larger than the page's text, without digits."""
    head: tuple[frozenset[str], ...]
    """Digit strings in the header facts typical of a first page, one set for each kind of fact found."""
    figures: frozenset[str]
    """Digits of all numbers, dates and ids."""
    has_total: bool
    carries_in: bool
    """Whether its upper part states a sum carried over from the previous page."""
    carries_out: bool
    """Whether its lower part states a sum carried over to the next page."""
    is_annex: bool
    words: int

    @property
    def head_labels(self) -> int:
        """Number of different header facts found that are typical of a first page."""
        return len(self.head)

    @property
    def number(self) -> str | None:
        """The document's own number."""
        return self.unnamed if self.own is None or self.own.number is None else self.own.number


def read(page: Page) -> PageFeatures:
    """Return the features of a page."""
    lines = [(line, tuple(_segments(line))) for line in page.lines()]
    height = max(page.height, 1.0)
    usual_height = median([word.bottom - word.top for word in page.words]) if page.words else 1.0
    texts = [normalize_text(line.text) for line, _ in lines]
    goods_index = next((index for index, text in enumerate(texts) if _GOODS.search(text)), len(lines))
    mentions = [
        mention for index in range(len(lines)) for mention in _mentions(lines, index, usual_height, goods_index)
    ]
    own = _own_mention(mentions)
    upper_lines = [
        segments
        for index, (line, segments) in enumerate(lines)
        if line.top <= _UPPER * height or index <= _UPPER * len(lines)
    ]
    header = [text for (line, _), text in zip(lines, texts, strict=True) if line.bottom <= _HEADER * height]
    carried = [line.top / height for (line, _), text in zip(lines, texts, strict=True) if _CARRIED.search(text)]
    footer = [line.text for line, _ in lines if line.top >= _FOOTER * height]
    head = tuple(_head_facts(upper_lines))
    if own is not None or len(head) > 1:  # on later pages, text starts where the letterhead would be
        footer += [line.text for line, _ in lines if line.bottom <= _HEADER * height]
    return PageFeatures(
        own=own,
        named=tuple(mentions),
        unnamed=_generic_number(upper_lines),
        places=tuple(_places(lines, height)),
        sender=frozenset(_ids(footer)),
        firms=frozenset(match.group() for text in header if (match := _FIRM.search(text))),
        header=frozenset(map(_without_digits, header)),
        lines=frozenset(map(_without_digits, texts)),
        large=frozenset(
            _without_digits(text)
            for (line, segments), text in zip(lines, texts, strict=True)
            if line.top <= height / 2 and max(segment.height for segment in segments) >= _LARGE * usual_height
        ),
        head=head,
        figures=frozenset(_figures(texts)),
        has_total=any(_is_total(text) for text in texts),
        carries_in=any(top <= _UPPER for top in carried),
        carries_out=any(top > _UPPER for top in carried),
        is_annex=any(_ANNEX.match(segment.text) for segments in upper_lines[:4] for segment in segments),
        words=len(page.words),
    )


def _segments(line: Line) -> Iterator[Segment]:
    parts: list[list[Word]] = [[line.words[0]]]
    for left, right in pairwise(line.words):
        if right.left - left.right > _GAP * max(left.bottom - left.top, right.bottom - right.top):
            parts.append([])
        parts[-1].append(right)
    for part in parts:
        yield Segment(
            normalize_text(" ".join(word.text for word in part)),
            part[0].left,
            max(word.right for word in part),
            min(word.top for word in part),
            max(word.bottom - word.top for word in part),
        )


Lines = Sequence[tuple[Line, tuple[Segment, ...]]]


def _mentions(lines: Lines, line_index: int, usual_height: float, goods_index: int) -> Iterator[TypeMention]:
    """Yield the types named in a line, each with the number beside or below it.

    A number below counts only if the type is a label. `goods_index` is the index of the first line with an amount. From
    there on, text describes line items and not the document.
    """
    _, segments = lines[line_index]
    for index, segment in enumerate(segments):
        tail = " ".join(part.text for part in segments[index:])
        match = _TITLE.match(tail) or _LABEL.match(tail)
        if match is None:
            continue
        label = match.group() if match.re is _LABEL else match["label"]
        number = match["number"] or (_number_below(lines, line_index, segment) if label else None)
        is_large = segment.height >= _TITLE_HEIGHT * usual_height
        is_alone = index == 0 and (len(segments) == 1 or _is_end(match))
        if number is None:
            if label or not (is_large or _is_end(match) or _fills_segment(segment, match)):
                continue  # a label without a value, or the start of a sentence
        elif is_alone and not (label or _is_end(match)):
            continue  # a sentence
        is_reference = label is not None and (match.re is _LABEL or ":" in label)
        is_heading = is_alone and not is_reference and line_index < goods_index
        style: Style = "title" if is_large else "heading" if is_heading else "label"
        yield TypeMention(_kind(match), _alphanumeric(number), style, segment.height, line_index / len(lines))


def _kind(match: Match[str]) -> str:
    names = (name for name, text in match.groupdict().items() if text is not None and name not in _PIECES)
    return next(names).removesuffix("_stem").removeprefix("named_")


def _is_end(match: Match[str]) -> bool:
    """Return whether only a date follows the match."""
    return _ONLY_DATE.match(match["rest"]) is not None


def _fills_segment(segment: Segment, match: Match[str]) -> bool:
    """Return whether the match covers its segment.

    If so, any text after it is in another column.
    """
    return match.end() - len(match["rest"]) >= len(segment.text)


def _number_below(lines: Lines, line_index: int, label: Segment) -> str | None:
    """Return the number below a label, as in the columns of a header."""
    if line_index + 1 == len(lines):
        return None
    for segment in lines[line_index + 1][1]:
        if segment.left < label.right and segment.right > label.left:
            match = _NUMBER.fullmatch(segment.text)
            return match.group() if match else None
    return None


def _alphanumeric(number: str | None) -> str | None:
    return None if number is None else "".join(character for character in number if character.isalnum())


def _own_mention(mentions: Sequence[TypeMention]) -> TypeMention | None:
    """Return the page's own type and number: the most prominent mention.

    Among equally prominent mentions, the type of the latest stage is chosen, because documents cite earlier documents.
    If an order and an invoice are equally prominent, the page is an invoice.
    """
    numbered = [mention for mention in mentions if mention.number is not None or mention.style != "label"]
    for style in _STYLES:
        candidates = [mention for mention in numbered if mention.style == style]
        if candidates:
            own = max(candidates, key=lambda mention: (mention.stage, mention.number is not None, -mention.above))
            same_kind = [other for other in mentions if other.kind == own.kind]
            number = own.number or next((other.number for other in same_kind if other.number is not None), None)
            # a labeled number and a separate mention of its type count as one heading
            is_headed = style == "label" and any(other.number is None for other in same_kind)
            return replace(own, number=number, style="heading" if is_headed else style)
    return None


def _generic_number(upper_lines: Iterable[Sequence[Segment]]) -> str | None:
    for segments in upper_lines:
        for index in range(len(segments)):
            match = _OWN_LABEL.match(" ".join(part.text for part in segments[index:]))
            if match:
                return _alphanumeric(match["number"])
    return None


def _places(lines: Lines, height: float) -> Iterator[PagePlace]:
    for line, segments in lines:
        in_margin = line.bottom <= _MARGIN * height or line.top >= (1 - _MARGIN) * height
        text = normalize_text(line.text)
        match = _PAGE_PLACE.search(text)
        if match is None and in_margin:
            match = next((bare for part in segments if (bare := _BARE_PLACE.fullmatch(part.text))), None)
        elif match is not None:
            before, after = text[: match.start()], text[match.end() :].strip()
            if _BEFORE_OTHER_PAGE.search(before) or _AFTER_OTHER_PAGE.match(after) or (after and not in_margin):
                continue  # a sentence about a page
        if match is None:
            continue
        groups = match.groupdict()
        page_number = int(groups["place"] or groups.get("alone") or 0)
        count = int(groups["count"]) if groups["count"] else None
        if page_number >= 1 and (count is None or page_number <= count):
            yield PagePlace(page_number, count)


def _ids(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        upper = text.upper()
        compact = "".join(character for character in upper if character.isalnum() or character == " ")
        for token in (compact, compact.replace(" ", "")):
            yield from _VAT_ID.findall(token)
        yield from _IBAN.findall(_join_groups(compact))


def _join_groups(text: str) -> str:
    """Join groups of four characters, as in a printed IBAN."""
    joined: list[str] = []
    for token in text.split():
        if (
            joined
            and len(joined[-1]) % 4 == 0
            and len(joined[-1]) >= 4
            and len(token) <= 4
            and joined[-1][2:4].isdigit()
        ):
            joined[-1] += token
        else:
            joined.append(token)
    return " ".join(joined)


def _head_facts(upper_lines: Sequence[Sequence[Segment]]) -> Iterator[frozenset[str]]:
    """Yield the digit strings of each kind of header fact found.

    A salutation usually has none.
    """
    tails = [
        " ".join(part.text for part in segments[index:]) for segments in upper_lines for index in range(len(segments))
    ]
    for pattern in (*_HEAD_LABELS, _SALUTATION):
        matching = [tail for tail in tails if pattern.match(tail)]
        if matching:
            yield frozenset(_figures(matching))
    towns = list(_address_towns(upper_lines))
    if towns:
        yield frozenset(_figures(towns))


def _address_towns(upper_lines: Sequence[Sequence[Segment]]) -> Iterator[str]:
    """Yield the last lines of addresses: towns with two left-aligned lines above."""
    segments = [segment for line in upper_lines for segment in line]
    for town in segments:
        if _TOWN.fullmatch(town.text):
            above = [
                other
                for other in segments
                if abs(other.left - town.left) <= town.height and 0 < town.top - other.top <= 4 * town.height
            ]
            if len(above) >= _LINES_ABOVE_TOWN:
                yield town.text


def _figures(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for token in text.split():
            digits = "".join(character for character in token if character.isdigit())
            if len(digits) >= _FIGURE:
                yield digits


def _without_digits(text: str) -> str:
    return "".join(character for character in text if not character.isdigit())


def _is_total(text: str) -> bool:
    match = _TOTAL.search(text)
    return match is not None and not _NO_TOTAL.search(text[: match.end()])
