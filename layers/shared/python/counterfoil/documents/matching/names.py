"""Company names in comparable forms. Pure.

The vocabulary is in `lexicon/legal_forms.toml`: legal forms, fillers, and markers of a branch or of another name. A
group is the kind of company that a form creates. `GmbH` and `Ltd` are in one group, `GmbH` and `AG` in two: limited,
stock, partners, trader, cooperative, association, foundation, public.

A legal form never removes a word of the name. Short forms, which may also be words or initials, count only at the end
of a name. Forms that may also precede a name (`AS Tallink`, `AS Roma`) have both interpretations.
"""

# ruff: noqa: RUF001 - letters of other alphabets
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from counterfoil.documents.lexicon import MATCHER
from counterfoil.documents.lexicon.folding import fold_umlauts


class WordRole(IntEnum):
    """Role of a word in a company name."""

    WORD = 0
    """A word of the name."""
    SURE = 1
    """A legal form at any position."""
    LAST = 2
    """A legal form at the end; elsewhere a word or initials (`AS Roma`, `SIA Abrasives AG`)."""
    KIND = 3
    """Indicates the legal form and is part of the name (`Stiftung Warentest`)."""
    FILLER = 4
    """Not part of the name if at the end: `& Co.`, `Group`, `in liquidation`."""
    LINK = 5
    """Joins words: `und`, `the`."""
    LETTER = 6
    """Joins the words around it: Italian `e`, Spanish `y`."""
    BREAK = 7
    """A comma or a bracket."""


class WordMeaning(NamedTuple):
    """Role of a word in a name, and its group if it is a legal form."""

    role: WordRole
    group: str | None = None


class NameMarker(IntEnum):
    """Effect of a word on the words after it."""

    BRANCH = 1
    """They describe a branch."""
    BRANCH_AFTER_FORM = 2
    """They describe a branch after the end of the name."""
    BRANCH_BEFORE = 3
    """The word before it names the branch: `UK Branch`."""
    ALIAS = 4
    """Another name of the company, its owner's name, or a former name."""
    ALIAS_AFTER_FORM = 5
    """Another name after the end of the name."""
    CARE_OF = 6
    """A person, or another company that receives the mail."""


_SIGNS_WITH_SLASH = {sign: words for words, signs in MATCHER.meanings("legal_forms.slashed").items() for sign in signs}
"""Markers with a slash, as words."""


def spelled(text: str) -> str:
    """Return words for comparison: folded, `S.p.A.` like `SpA`, `rn` like `m`, `aa` (Danish `å`) like `a`."""
    bare = fold_umlauts(text).replace(".", "").replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", "")
    return bare.replace("rn", "m").replace("aa", "a")


def _entries(concept: str, means: str = "") -> Sequence[str]:
    """Return the normalized terms of a concept."""
    return spelled("\n".join(MATCHER.terms(f"legal_forms.{concept}", means))).split("\n")


def _meanings() -> Iterator[tuple[str, WordMeaning]]:
    for group in MATCHER.meanings("legal_forms.form"):
        sure, last = WordMeaning(WordRole.SURE, group), WordMeaning(WordRole.LAST, group)
        yield from ((form.removeprefix("-"), last if form[0] == "-" else sure) for form in _entries("form", group))
    for group in MATCHER.meanings("legal_forms.kind"):
        yield from ((kind, WordMeaning(WordRole.KIND, group)) for kind in _entries("kind", group))
    for role, concept in ((WordRole.FILLER, "filler"), (WordRole.LINK, "link"), (WordRole.LETTER, "letter")):
        yield from ((word, WordMeaning(role)) for word in _entries(concept))
    yield from ((mark, WordMeaning(WordRole.BREAK)) for mark in ",;()[]|")


# If a word is in two lists, the first one counts.
_MEANINGS = dict(reversed(list(_meanings())))
"""Meanings of words and phrases in a name. Phrases have one space between their words."""
_SIGNS = {text: sign for sign in NameMarker for text in _entries("sign", sign.name.lower())}
"""Markers by word or phrase."""
_LEADING, _LEADING_CYRILLIC = (
    {form: group for group in MATCHER.meanings(f"legal_forms.{concept}") for form in _entries(concept, group)}
    for concept in ("leading", "leading_cyrillic")
)
"""Forms that may also precede a name, and the same for names in Cyrillic letters."""
_PERHAPS_LEADING = frozenset(_entries("perhaps_leading"))
"""Words before a name that are either a legal form or part of the name."""


def _phrases_by_first_word() -> dict[str, tuple[tuple[str, ...], ...]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for text in (*_MEANINGS, *_SIGNS):
        first, *rest = text.split(" ")
        if rest:
            found.setdefault(first, []).append((first, *rest))
    return {first: tuple(sorted(phrases, key=len, reverse=True)) for first, phrases in found.items()}


_PHRASES = _phrases_by_first_word()
"""Phrases by their first words, longest first."""
_ATTACHED = re.compile(
    "|".join(
        sorted(
            (re.escape(text) for text in (*_MEANINGS, *_SIGNS) if text >= "\u0e00" and len(text) > 1),
            key=len,
            reverse=True,
        )
    )
)
"""East Asian forms, written without a space next to the name."""

_TOKEN = re.compile(r"[^\W_]+|[,;()\[\]|&+]")
_DOUBLED = re.compile(r"(.)\1+")
_DIGIT = re.compile(r"\d")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_SLASHED = re.compile(rf"\b(?:{'|'.join(_SIGNS_WITH_SLASH)})\b|(?<!\w)(\w)/(\w)(?!\w)")
_UMLAUT_FORM = re.compile(r"(?<=\s)([AO])(E)$|\b([ΑΟ])(Ε)\b")
"""Greek forms (Α.Ε., Ο.Ε.) without dots, which look like umlauts."""
_CONFUSABLE = str.maketrans("015826", "olsbzg")
_WORD = WordMeaning(WordRole.WORD)
_SURE, _LAST, _KIND, _FILLER, _LINK, _LETTER, _BREAK = list(WordRole)[1:]
"""Module constants, because access to enum members is slow."""
_COMPOUNDS = {
    "aktiengesellschaft": "stock",
    "gesellschaft": None,
    "gesmbh": "limited",
    "gmbh": "limited",
    "ges": None,  # codespell:ignore ges
    "aktiebolaget": "limited",
    "aktiebolag": "limited",
    "aktieselskab": "stock",
}
"""Forms that German and the Nordic languages attach to the name."""
_COMPOUNDS_END = tuple(_COMPOUNDS)
_KEY_LETTERS = 6
_OTHER_KEYS = 2
_ACRONYM = 4
"""Maximum length of an acronym that may be followed by its place: `TIL Manchester`."""
_BRANCHES = {
    "uk", "us", "eu", "uae", "german", "french", "swiss", "italian", "spanish", "dutch", "irish", "polish", "belgian",
    "european", "europe", "ireland", "india", "london", "dublin", "dubai", "singapore", "paris", "frankfurt",
}  # fmt: skip
"""Words that usually precede `Branch`."""


@dataclass(frozen=True, slots=True)
class Name:
    """A company name.

    `core` has neither legal form, branch, filler words nor place. Its words are sorted.
    """

    core: str
    form: str | None
    """Group of the legal form: limited, stock, partners, trader, cooperative, association, foundation, public."""
    key: str
    """Blocking key: a prefix of the first word, which survives abbreviation and missing words.

    `i` and `l` are equal, and repeated letters count once.
    """
    others: frozenset[str] = frozenset()
    """Cores of other names in the text (trading as, formerly, owner), and of other interpretations."""
    other_keys: tuple[str, ...] = ()
    """Blocking keys of the first two other names."""


@lru_cache(maxsize=20_000)
def name(text: str, place: str = "") -> Name:
    """Parse a company name. `place` is its city, which is often appended to the name."""
    words = _words(text)
    aliases: list[list[str]] = []
    of_place = _place(place) if place else frozenset()
    if not _SIGNS.keys().isdisjoint(words):
        words, aliases = _without_signs(words, of_place)
    kept, form = _reduced(words, of_place)
    stated = [other for alias in aliases if (other := _reduced(alias, of_place)[0])]
    others = {" ".join(sorted(other)) for other in stated}
    if len(kept) > 1:
        cyrillic = not text.isascii() and _CYRILLIC.search(text) is not None
        kept, form, reading = _doubtful_forms(kept, form, cyrillic=cyrillic)
        others |= reading
    core, key = " ".join(sorted(kept)), _key(kept, of_place)
    other_keys = tuple(_key(other, of_place) for other in stated[:_OTHER_KEYS]) if stated else ()
    return Name(core, form, key, frozenset(others - {core, ""}), other_keys)


def _key(words: Sequence[str], of_place: frozenset[str]) -> str:
    """Return a prefix of the first word that is neither a legal form nor the place."""
    first = words[0] if words else ""
    found = next(
        (word for word in words if word not in _MEANINGS and word not in _LEADING and word not in of_place), first
    )
    return _DOUBLED.sub(r"\1", found.replace("i", "l"))[:_KEY_LETTERS]


def _doubtful_forms(kept: list[str], form: str | None, *, cyrillic: bool) -> tuple[list[str], str | None, set[str]]:
    """Return words and form of a name with a possible form, and the names by the other interpretation."""
    first, rest = kept[0], kept[1:]
    group = _LEADING.get(first) or (_LEADING_CYRILLIC.get(first) if cyrillic else None)
    if group is not None and form is None:
        return rest, group, {" ".join(sorted(kept))}
    if group is not None or first in _PERHAPS_LEADING:
        return kept, form, {" ".join(sorted(rest))}
    if form is None and any(_MEANINGS.get(word, _WORD).role is _LAST for word in rest):  # `Siemens AG Österreich`
        without = [word for word in rest if _MEANINGS.get(word, _WORD).role is not _LAST]
        return kept, form, {" ".join(sorted([first, *without]))}
    return kept, form, set()


@lru_cache(maxsize=5_000)
def _place(place: str) -> frozenset[str]:
    return frozenset(_TOKEN.findall(spelled(place)))


def _words(text: str) -> list[str]:
    """Return the words of a name and the marks between them, with joined initials and phrases."""
    if not text.isascii() or text.endswith(("AE", "OE")):
        text = _UMLAUT_FORM.sub(_dotted, text)
    written = spelled(text)
    if "/" in written:
        written = _SLASHED.sub(_unslashed, written)
    if not written.isascii():
        written = _ATTACHED.sub(r" \g<0> ", written)
    words = _TOKEN.findall(written)
    if _DIGIT.search(written):
        words = [word if word.isdigit() else word.translate(_CONFUSABLE) for word in words]
    if 1 in map(len, words):
        words = _initials_joined(words)
    if not _PHRASES.keys().isdisjoint(words):
        words = _phrases_joined(words)
    return words


def _unslashed(match: re.Match[str]) -> str:
    """Replace `t/a` by words, and two initials, as in `A/S`, by one word."""
    return f"{match[1]}{match[2]}" if match[1] else f" {_SIGNS_WITH_SLASH[match[0]]} "


def _dotted(match: re.Match[str]) -> str:
    return ".".join(letter for letter in match.groups() if letter) + "."


def _initials_joined(words: Sequence[str]) -> list[str]:
    """Join initials: `S. A. S.` becomes `sas`. A legal form at the end is separated: `M S A/S`."""
    found: list[str] = []
    run = ""
    for word in (*words, ""):
        if len(word) == 1 and word.isalpha():
            run += word
            continue
        if len(run) > 1 and run not in _MEANINGS:
            if run[0] in "eyu":
                found.append(run[0])
                run = run[1:]
            ends = (run[-length:] for length in (4, 3, 2) if len(run) > length)
            end = next((end for end in ends if end in _MEANINGS), "")
            found += [run.removesuffix(end), end] if end else [run]
        elif run:
            found.append(run)
        run = ""
        if word:
            found.append(word)
    return found


def _phrases_joined(words: Sequence[str]) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(words):
        phrases = _PHRASES.get(words[at], ())
        phrase = next((one for one in phrases if tuple(words[at : at + len(one)]) == one), words[at : at + 1])
        found.append(" ".join(phrase))
        at += len(phrase)
    return found


def _without_signs(words: list[str], of_place: frozenset[str]) -> tuple[list[str], list[list[str]]]:
    """Return the words of the name, and those of its other names."""
    aliases: list[list[str]] = []
    if _SIGNS.get(words[0]) is NameMarker.CARE_OF:
        words = words[1:]
    at = 1
    while at < len(words):
        sign = _SIGNS.get(words[at])
        if sign is None:
            at += 1
            continue
        end = _end(words, at)
        begin = _begin(words, at, end, sign, of_place)
        if begin is None or not any(word[0].isalnum() for word in words[:begin]):
            at += 1
            continue
        if sign in (NameMarker.ALIAS, NameMarker.ALIAS_AFTER_FORM) and at + 1 < end:
            aliases.append(words[at + 1 : end])
        words = words[:begin] + words[end:]
        at = begin
    return words, aliases


def _end(words: Sequence[str], at: int) -> int:
    """Return the end of the words after the marker at `at`: a bracket, or a marker of another name."""
    for end in range(at + 1, len(words)):
        if words[end] in (")", "]") or (end > at + 1 and _SIGNS.get(words[end]) is NameMarker.ALIAS):
            return end
    return len(words)


def _begin(words: Sequence[str], at: int, end: int, sign: NameMarker, of_place: frozenset[str]) -> int | None:
    """Return the start of the words that the marker at `at` removes; None if it is part of the name."""
    behind = words[at + 1 : end]
    over = _is_over(words[at - 1])
    if sign in (NameMarker.BRANCH_AFTER_FORM, NameMarker.ALIAS_AFTER_FORM):
        named = bool(behind) and not any(_is_over(word) for word in behind)
        return at if over or (sign is NameMarker.BRANCH_AFTER_FORM and named) else None
    if sign is NameMarker.BRANCH_BEFORE and not over:
        before = max((i + 1 for i in range(at) if _is_over(words[i])), default=0)
        if before > 0:
            return before
        if words[at - 1] in _BRANCHES or words[at - 1] in of_place:
            return at - 1 if at > 1 else None
        return at if of_place.intersection(behind) else None
    if sign is NameMarker.BRANCH and not over and behind and all(_is_over(word) for word in behind):
        return None
    return at


def _is_over(word: str) -> bool:
    """Return whether a word ends a name: a legal form, a comma or a bracket."""
    meaning = _MEANINGS.get(word)
    return meaning is not None and meaning.role in (WordRole.SURE, WordRole.LAST, WordRole.BREAK)


def _reduced(words: Sequence[str], of_place: frozenset[str]) -> tuple[list[str], str | None]:
    """Return the words of the name in order, and the group of its legal form. Parses from the end."""
    kept: list[str] = []
    places: list[str] = []
    form: str | None = None
    at_end = behind_company = True
    for at in range(len(words) - 1, -1, -1):
        word = words[at]
        role, group = _MEANINGS.get(word, _WORD)
        if role is _SURE or (role is _LAST and at_end and (form is None or behind_company)):
            if form is None and at > 0 and words[at + 1 : at + 2] == [","]:
                kept.clear()  # `Lyngcombe Chemicals GmbH, Abteilung Einkauf`
            places.clear()
            form, at_end, behind_company = form or group, True, False
        elif role is _BREAK:
            places.clear()
            at_end = True
        elif role is _FILLER and at_end:
            behind_company = True  # `AG & Co. KG`
        elif role is _LINK or (role is _LETTER and kept and at > 0):
            continue
        elif at_end and form is None and word in of_place:
            places.append(word)
        else:
            word, stated = _stated(word, words[at + 1 : at + 2], group if role is _KIND else None)
            form = form or stated
            kept.append(word)
            at_end = behind_company = False
    # A place without a preceding comma or form follows a complete name only: it is part of `Stadtwerke Köln`.
    if len(kept) > 1 or (kept and len(kept[0]) <= _ACRONYM):
        places = []
    whole = (places + kept)[::-1]
    return (whole, form) if whole else _nothing_but_forms(words, form)


def _stated(word: str, behind: Sequence[str], group: str | None) -> tuple[str, str | None]:
    """Return a word of the name without an attached legal form, and that form."""
    if word.endswith(_COMPOUNDS_END):
        for ending, meant in _COMPOUNDS.items():
            if ending == "ges" and "mbh" not in behind:  # codespell:ignore ges
                continue
            if word.endswith(ending) and len(word) > len(ending):
                return word.removesuffix(ending), meant
    return word, group


def _nothing_but_forms(words: Sequence[str], form: str | None) -> tuple[list[str], str | None]:
    """Keep the first of several forms as the name of a company that has no other name."""
    said = [
        word
        for word in words
        if _MEANINGS.get(word, _WORD).role not in (WordRole.LINK, WordRole.LETTER, WordRole.BREAK)
    ]
    others = any(_MEANINGS.get(word, _WORD).role in (WordRole.SURE, WordRole.LAST) for word in said[1:])
    return said[:1] or [word for word in words if word[0].isalnum()], form if others else None
