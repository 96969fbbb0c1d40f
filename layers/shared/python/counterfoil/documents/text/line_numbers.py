"""Numbers as a page prints them: which decimal mark a document uses, and what its words are worth. Pure.

`1.234,56`, `1,234.56`, `1 234,56` and `1'234.56` are one amount; `1.234` alone could be two. The document as a whole
decides: what its unambiguous numbers use, all use. Where no number tells, its language does: a delivery note may have
nothing but whole quantities. Where nothing tells, only whole numbers without marks are read.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple

from counterfoil.documents.lexicon import READER
from counterfoil.documents.lexicon.folding import fold_letters
from counterfoil.documents.text.page import Word

_SIGNS = "-\N{MINUS SIGN}\N{EN DASH}"
_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}`"
_MAX_DIGITS = 15
_BLANK_IN_NUMBER = 0.58
"""Of the text's height: a gap that a blank within a number leaves; columns are further apart."""

_CURRENCY = r"(?:€|£|\$|EUR|CHF|GBP|USD|DKK|SEK|NOK|PLN|CZK|HUF|DEM|US\$|[Kk]r\.?|Fr\.|SFr\.?)"
_PRINTED = re.compile(
    rf"(?P<before>{_CURRENCY})?(?P<sign>[{_SIGNS}+])?(?P<digits>\d[\d.,{_APOSTROPHES}]*)"
    rf"(?P<trailing>[{_SIGNS}])?(?P<percent>%)?(?P<after>{_CURRENCY})?(?P<stop>[;:])?"
)
_CURRENCY_WORD = re.compile(rf"{_CURRENCY}|Euros?")
_GROUPED_BEFORE_COMMA = re.compile(rf"\d{{1,3}}(?:[.{_APOSTROPHES}]\d{{3}})+,\d+")
_GROUPED_BEFORE_DOT = re.compile(rf"\d{{1,3}}(?:[,{_APOSTROPHES}]\d{{3}})+\.\d+")
_PRICE_AND_BASIS = re.compile(r"(\d[\d.,]*[.,]\d{2,4})(/(?:1|10|100|1000)[^\W\d]{0,3}\.?)")
_TWO_GROUPS = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})+")
_FRACTION = re.compile(r"(?:\d{1,4}([.,])(?:\d{1,2}|\d{4,})|0([.,])\d+)")
_LONG_FRACTION = re.compile(r"\d{5,}([.,])\d{1,2}")
_ONE_GROUP = re.compile(r"[1-9]\d{0,2}([.,])\d{3}")
_SURE = 5
"""Votes of a number that shows both marks, against one that shows a fraction only, as dates and times may."""

_COMMA_WORDS = frozenset(READER.terms("languages.decimal_comma"))
_DOT_WORDS = frozenset(READER.terms("languages.decimal_dot"))
_SWISS = re.compile(r"CHF|CHE-?\d.*|Schweiz|Suisse|Svizzera|Switzerland")
"""Switzerland writes German, French and Italian with a decimal dot."""

Mark = Literal[",", "."]


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How a document prints numbers: its decimal mark, None where nothing tells, and whether blanks group digits.

    `by_language` where no number tells the mark, and the words of the document do.
    """

    mark: Mark | None
    blanks_group: bool
    by_language: bool = False


class Token(NamedTuple):
    """A word, or several that are one number, with its box in points.

    `value` is None for what is no number, and for a doubtful one, which could be read in two ways.
    """

    text: str
    left: float
    top: float
    right: float
    bottom: float
    value: Decimal | None = None
    is_percent: bool = False
    is_doubtful: bool = False

    @property
    def middle(self) -> float:
        """Half its height on the page."""
        return (self.top + self.bottom) / 2


def number_format(words: Iterable[Word]) -> NumberFormat:
    """Decide from all words of a document how its numbers are to be read."""
    votes: Counter[Mark] = Counter()
    late: Counter[Mark] = Counter()
    groups: Counter[str] = Counter()
    doubtful: Counter[str] = Counter()
    texts = [word.text for word in words]
    for text in texts:
        match = _PRINTED.fullmatch(text)
        if match is None:
            continue
        digits = match["digits"].rstrip(".,")
        if _GROUPED_BEFORE_COMMA.fullmatch(digits):
            votes[","] += _SURE
            groups["."] += 1
        elif _GROUPED_BEFORE_DOT.fullmatch(digits):
            votes["."] += _SURE
            groups[","] += 1
        elif two := _TWO_GROUPS.fullmatch(digits):
            votes["," if two[1] == "." else "."] += 1
            groups[two[1]] += 1
        elif fraction := _FRACTION.fullmatch(digits):
            votes["," if "," in fraction[0] else "."] += 1
        elif fraction := _LONG_FRACTION.fullmatch(digits):
            late["," if "," in fraction[0] else "."] += 1  # as likely the number of an article
        elif one := _ONE_GROUP.fullmatch(digits):
            doubtful[one[1]] += 1
    mark = _most(votes)
    if mark is not None or votes:
        return NumberFormat(mark, not groups)
    spoken = _mark_of_language(texts, doubtful)
    return NumberFormat(spoken or _most(late), not groups, by_language=spoken is not None)


def _most(votes: "Counter[Mark]") -> Mark | None:
    ranked = votes.most_common(2)
    is_decided = len(ranked) == 1 or (len(ranked) == 2 and ranked[0][1] > ranked[1][1])
    return ranked[0][0] if is_decided else None


def _mark_of_language(texts: Iterable[str], doubtful: "Counter[str]") -> Mark | None:
    """The mark that the language of a document has; an English one may come from where a comma is the mark."""
    commas = dots = 0
    for text in texts:
        if _SWISS.fullmatch(text):
            return None
        word = fold_letters(text).strip(".:,;()")
        commas += word in _COMMA_WORDS
        dots += word in _DOT_WORDS
    if commas > 2 * dots:
        return ","
    return "." if dots > 2 * commas and not doubtful["."] else None


def value(text: str, form: NumberFormat) -> Decimal | None:
    """Read the number that a word is: sign, currency and percent sign may stand with it. None for all else."""
    match = _PRINTED.fullmatch(text.removesuffix(","))
    if match is None or match["stop"]:
        return None
    number = _unsigned(match["digits"], form)
    if number is None:
        return None
    is_negative = match["sign"] not in {None, "+"} or match["trailing"] is not None
    return -number if is_negative else number


def _unsigned(digits: str, form: NumberFormat) -> Decimal | None:
    if sum(map(str.isdigit, digits)) > _MAX_DIGITS:
        return None
    mark = form.mark
    if mark is None:
        return Decimal(digits) if digits.isdecimal() and digits.isascii() else None
    group = "." if mark == "," else ","
    whole, _, fraction = digits.partition(mark)
    parts = re.split(rf"[{re.escape(group)}{_APOSTROPHES} ]", whole)
    is_grouped = 1 <= len(parts[0]) <= 3 and all(len(part) == 3 for part in parts[1:])
    if (len(parts) > 1 and not is_grouped) or not "".join(parts).isascii() or not "".join(parts).isdecimal():
        return None
    if mark in digits and not (fraction.isdecimal() and fraction.isascii()):
        return None
    return Decimal("".join(parts) + (f".{fraction}" if fraction else ""))


def tokens(words: Sequence[Word], form: NumberFormat) -> list[Token]:
    """The words of one line with the numbers among them read, currencies beside numbers dropped, left to right."""
    found: list[Token] = []
    for word in _parted(words):
        previous = found[-1] if found else None
        if word.text == "%" and previous is not None and previous.value is not None:
            found[-1] = previous._replace(text=f"{previous.text} %", right=word.right, is_percent=True)
        elif form.blanks_group and previous is not None and _continues(previous, word):
            text = f"{previous.text} {word.text}"
            number = value(text.replace(" ", ""), form)
            found[-1] = Token(text, previous.left, previous.top, word.right, word.bottom, number)
        else:
            number = value(word.text, form)
            is_doubtful = number is None and form.mark is None and _ONE_GROUP.fullmatch(word.text) is not None
            found.append(Token(*word, number, number is not None and "%" in word.text, is_doubtful))
    return _without_currencies(found)


def _parted(words: Iterable[Word]) -> Iterator[Word]:
    """The words, with a price and its basis apart: `10,03/100`."""
    for word in words:
        match = _PRICE_AND_BASIS.fullmatch(word.text)
        if match is None:
            yield word
            continue
        middle = word.left + (word.right - word.left) * len(match[1]) / len(word.text)
        yield Word(match[1], word.left, word.top, middle, word.bottom)
        yield Word(match[2], middle, word.top, word.right, word.bottom)


def _continues(previous: Token, word: Word) -> bool:
    """Tell whether a word is the next three digits of a number that blanks group."""
    if word.left - previous.right > _BLANK_IN_NUMBER * (word.bottom - word.top) or word.left < previous.right - 1:
        return False
    begins = re.fullmatch(rf"[{_SIGNS}]?[1-9]\d{{0,2}}(?: \d{{3}}){{0,3}}", previous.text)
    return begins is not None and re.fullmatch(r"\d{3}(?:[.,]\d+)?", word.text) is not None


def _without_currencies(found: Sequence[Token]) -> list[Token]:
    kept = []
    for index, token in enumerate(found):
        beside = [found[other] for other in (index - 1, index + 1) if 0 <= other < len(found)]
        if _CURRENCY_WORD.fullmatch(token.text) and any(other.value is not None for other in beside):
            continue
        kept.append(token)
    return kept
