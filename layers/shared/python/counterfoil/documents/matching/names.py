"""Company names in comparable forms. Pure.

The vocabulary is in `lexicon/legal_forms.toml`: legal forms, fillers, and markers of branches and other names. A group
is the kind of company that a form denotes: limited, stock, partners, trader, cooperative, association, foundation or
public. `GmbH` and `Ltd` are in the same group, `GmbH` and `AG` are not.

Removing a legal form never removes a word of the name. Short forms, which may also be words or initials, count only at
the end of a name. Forms that may also precede a name (`AS Tallink`, `AS Roma`) are interpreted both ways.
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
    """The words describe a branch."""
    BRANCH_AFTER_FORM = 2
    """The words describe a branch if the marker follows the end of the name, or if they contain no such end."""
    BRANCH_BEFORE = 3
    """The word before the marker names the branch: `UK Branch`."""
    ALIAS = 4
    """The words are another name of the company, its owner's name, or a former name."""
    ALIAS_AFTER_FORM = 5
    """The words are another name if the marker follows the end of the name."""
    CARE_OF = 6
    """The words name a person or another company that receives the mail."""


_SIGNS_WITH_SLASH = {sign: words for words, signs in MATCHER.meanings("legal_forms.slashed").items() for sign in signs}
"""Maps markers with a slash to words."""


def comparison_form(text: str) -> str:
    """Return the folded words of a text for comparison.

    For example, `S.p.A.` becomes `SpA`, `rn` becomes `m`, and `aa` (Danish `å`) becomes `a`.
    """
    bare = fold_umlauts(text).replace(".", "").replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", "")
    return bare.replace("rn", "m").replace("aa", "a")


def _entries(concept: str, means: str = "") -> Sequence[str]:
    """Return the normalized terms of a concept."""
    return comparison_form("\n".join(MATCHER.terms(f"legal_forms.{concept}", means))).split("\n")


def _meanings() -> Iterator[tuple[str, WordMeaning]]:
    for group in MATCHER.meanings("legal_forms.form"):
        sure, last = WordMeaning(WordRole.SURE, group), WordMeaning(WordRole.LAST, group)
        yield from ((form.removeprefix("-"), last if form[0] == "-" else sure) for form in _entries("form", group))
    for group in MATCHER.meanings("legal_forms.kind"):
        yield from ((kind, WordMeaning(WordRole.KIND, group)) for kind in _entries("kind", group))
    for role, concept in ((WordRole.FILLER, "filler"), (WordRole.LINK, "link"), (WordRole.LETTER, "letter")):
        yield from ((word, WordMeaning(role)) for word in _entries(concept))
    yield from ((mark, WordMeaning(WordRole.BREAK)) for mark in ",;()[]|")


# If a word is in two lists, the first list applies.
_MEANINGS = dict(reversed(list(_meanings())))
"""Meanings of words and phrases in a name. Phrases have one space between their words."""
_SIGNS = {text: sign for sign in NameMarker for text in _entries("sign", sign.name.lower())}
"""Markers by word or phrase."""
_LEADING, _LEADING_CYRILLIC = (
    {form: group for group in MATCHER.meanings(f"legal_forms.{concept}") for form in _entries(concept, group)}
    for concept in ("leading", "leading_cyrillic")
)
"""Legal forms that may also precede a name, and forms that may do so only in Cyrillic text."""
_POSSIBLE_LEADING = frozenset(_entries("perhaps_leading"))
"""Words before a name that are either a legal form or part of the name."""


def _phrases_by_first_word() -> dict[str, tuple[tuple[str, ...], ...]]:
    by_first_word: dict[str, list[tuple[str, ...]]] = {}
    for text in (*_MEANINGS, *_SIGNS):
        first, *rest = text.split(" ")
        if rest:
            by_first_word.setdefault(first, []).append((first, *rest))
    return {first: tuple(sorted(phrases, key=len, reverse=True)) for first, phrases in by_first_word.items()}


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
_MAX_OTHER_KEYS = 2
_MAX_ACRONYM = 4
"""Maximum length of an acronym that may be followed by its place: `TIL Manchester`."""
_BRANCHES = {
    "uk", "us", "eu", "uae", "german", "french", "swiss", "italian", "spanish", "dutch", "irish", "polish", "belgian",
    "european", "europe", "ireland", "india", "london", "dublin", "dubai", "singapore", "paris", "frankfurt",
}  # fmt: skip
"""Words that usually precede `Branch`."""


@dataclass(frozen=True, slots=True)
class Name:
    """A company name.

    `core` is the name without legal form, branch, filler words and place. Its words are sorted.
    """

    core: str
    form: str | None
    """Group of the legal form: limited, stock, partners, trader, cooperative, association, foundation, public."""
    key: str
    """Blocking key: a prefix of the first word, which survives abbreviation and missing words.

    `i` and `l` are equal, and repeated letters count once.
    """
    aliases: frozenset[str] = frozenset()
    """Cores of other names in the text (trading as, formerly, owner), and of other interpretations."""
    alias_keys: tuple[str, ...] = ()
    """Blocking keys of the first two other names."""


@lru_cache(maxsize=20_000)
def name(text: str, place: str = "") -> Name:
    """Parse a company name. `place` is its city, which is often appended to the name."""
    words = _words(text)
    aliases: list[list[str]] = []
    place_words = _place(place) if place else frozenset()
    if not _SIGNS.keys().isdisjoint(words):
        words, aliases = _without_signs(words, place_words)
    core_words, form = _reduce(words, place_words)
    alias_words = [reduced for alias in aliases if (reduced := _reduce(alias, place_words)[0])]
    alias_cores = {" ".join(sorted(reduced)) for reduced in alias_words}
    if len(core_words) > 1:
        cyrillic = not text.isascii() and _CYRILLIC.search(text) is not None
        core_words, form, alternatives = _resolve_possible_form(core_words, form, cyrillic=cyrillic)
        alias_cores |= alternatives
    core, key = " ".join(sorted(core_words)), _key(core_words, place_words)
    alias_keys = tuple(_key(reduced, place_words) for reduced in alias_words[:_MAX_OTHER_KEYS]) if alias_words else ()
    return Name(core, form, key, frozenset(alias_cores - {core, ""}), alias_keys)


def _key(words: Sequence[str], place_words: frozenset[str]) -> str:
    """Return a prefix of the first word that is neither a legal form nor the place."""
    first = words[0] if words else ""
    key_word = next(
        (word for word in words if word not in _MEANINGS and word not in _LEADING and word not in place_words), first
    )
    return _DOUBLED.sub(r"\1", key_word.replace("i", "l"))[:_KEY_LETTERS]


def _resolve_possible_form(
    words: list[str], form: str | None, *, cyrillic: bool
) -> tuple[list[str], str | None, set[str]]:
    """Resolve a word that may be a legal form.

    Return words, form, and cores of other interpretations.
    """
    first, rest = words[0], words[1:]
    group = _LEADING.get(first) or (_LEADING_CYRILLIC.get(first) if cyrillic else None)
    if group is not None and form is None:
        return rest, group, {" ".join(sorted(words))}
    if group is not None or first in _POSSIBLE_LEADING:
        return words, form, {" ".join(sorted(rest))}
    if form is None and any(_MEANINGS.get(word, _WORD).role is _LAST for word in rest):  # `Siemens AG Österreich`
        remaining = [word for word in rest if _MEANINGS.get(word, _WORD).role is not _LAST]
        return words, form, {" ".join(sorted([first, *remaining]))}
    return words, form, set()


@lru_cache(maxsize=5_000)
def _place(place: str) -> frozenset[str]:
    return frozenset(_TOKEN.findall(comparison_form(place)))


def _words(text: str) -> list[str]:
    """Return a name's words and punctuation marks, with initials and phrases joined."""
    if not text.isascii() or text.endswith(("AE", "OE")):
        text = _UMLAUT_FORM.sub(_with_dots, text)
    spelling = comparison_form(text)
    if "/" in spelling:
        spelling = _SLASHED.sub(_without_slash, spelling)
    if not spelling.isascii():
        spelling = _ATTACHED.sub(r" \g<0> ", spelling)
    words = _TOKEN.findall(spelling)
    if _DIGIT.search(spelling):
        words = [word if word.isdigit() else word.translate(_CONFUSABLE) for word in words]
    if 1 in map(len, words):
        words = _join_initials(words)
    if not _PHRASES.keys().isdisjoint(words):
        words = _join_phrases(words)
    return words


def _without_slash(match: re.Match[str]) -> str:
    """Replace `t/a` with words, and two initials, as in `A/S`, with one word."""
    return f"{match[1]}{match[2]}" if match[1] else f" {_SIGNS_WITH_SLASH[match[0]]} "


def _with_dots(match: re.Match[str]) -> str:
    return ".".join(letter for letter in match.groups() if letter) + "."


def _join_initials(words: Sequence[str]) -> list[str]:
    """Join initials: `S. A. S.` becomes `sas`.

    A legal form at the end is separated: `M S A/S`.
    """
    joined: list[str] = []
    run = ""
    for word in (*words, ""):
        if len(word) == 1 and word.isalpha():
            run += word
            continue
        if len(run) > 1 and run not in _MEANINGS:
            if run[0] in "eyu":
                joined.append(run[0])
                run = run[1:]
            ends = (run[-length:] for length in (4, 3, 2) if len(run) > length)
            end = next((end for end in ends if end in _MEANINGS), "")
            joined += [run.removesuffix(end), end] if end else [run]
        elif run:
            joined.append(run)
        run = ""
        if word:
            joined.append(word)
    return joined


def _join_phrases(words: Sequence[str]) -> list[str]:
    joined: list[str] = []
    index = 0
    while index < len(words):
        phrases = _PHRASES.get(words[index], ())
        phrase = next(
            (candidate for candidate in phrases if tuple(words[index : index + len(candidate)]) == candidate),
            words[index : index + 1],
        )
        joined.append(" ".join(phrase))
        index += len(phrase)
    return joined


def _without_signs(words: list[str], place_words: frozenset[str]) -> tuple[list[str], list[list[str]]]:
    """Return the words of the name without markers, and the words of its other names."""
    aliases: list[list[str]] = []
    if _SIGNS.get(words[0]) is NameMarker.CARE_OF:
        words = words[1:]
    index = 1
    while index < len(words):
        sign = _SIGNS.get(words[index])
        if sign is None:
            index += 1
            continue
        end = _marker_end(words, index)
        begin = _removal_start(words, index, end, sign, place_words)
        if begin is None or not any(word[0].isalnum() for word in words[:begin]):
            index += 1
            continue
        if sign in (NameMarker.ALIAS, NameMarker.ALIAS_AFTER_FORM) and index + 1 < end:
            aliases.append(words[index + 1 : end])
        words = words[:begin] + words[end:]
        index = begin
    return words, aliases


def _marker_end(words: Sequence[str], index: int) -> int:
    """Return the index after a marker's words.

    The words end at a bracket, or at a marker of another name.
    """
    for end in range(index + 1, len(words)):
        if words[end] in (")", "]") or (end > index + 1 and _SIGNS.get(words[end]) is NameMarker.ALIAS):
            return end
    return len(words)


def _removal_start(
    words: Sequence[str], index: int, end: int, sign: NameMarker, place_words: frozenset[str]
) -> int | None:
    """Return the start of the words that the marker at `index` removes.

    Returns None if the marker is part of the name.
    """
    following = words[index + 1 : end]
    follows_name_end = _ends_name(words[index - 1])
    if sign in (NameMarker.BRANCH_AFTER_FORM, NameMarker.ALIAS_AFTER_FORM):
        has_name = bool(following) and not any(_ends_name(word) for word in following)
        return index if follows_name_end or (sign is NameMarker.BRANCH_AFTER_FORM and has_name) else None
    if sign is NameMarker.BRANCH_BEFORE and not follows_name_end:
        start = max((position + 1 for position in range(index) if _ends_name(words[position])), default=0)
        if start > 0:
            return start
        if words[index - 1] in _BRANCHES or words[index - 1] in place_words:
            return index - 1 if index > 1 else None
        return index if place_words.intersection(following) else None
    if sign is NameMarker.BRANCH and not follows_name_end and following and all(_ends_name(word) for word in following):
        return None
    return index


def _ends_name(word: str) -> bool:
    """Return whether a word ends a name: a legal form, a comma or a bracket."""
    meaning = _MEANINGS.get(word)
    return meaning is not None and meaning.role in (WordRole.SURE, WordRole.LAST, WordRole.BREAK)


def _reduce(words: Sequence[str], place_words: frozenset[str]) -> tuple[list[str], str | None]:
    """Return the words of the name in order, and the group of its legal form.

    Parses from the end.
    """
    core: list[str] = []
    places: list[str] = []
    form: str | None = None
    at_end = after_company = True
    for index in range(len(words) - 1, -1, -1):
        word = words[index]
        role, group = _MEANINGS.get(word, _WORD)
        if role is _SURE or (role is _LAST and at_end and (form is None or after_company)):
            if form is None and index > 0 and words[index + 1 : index + 2] == [","]:
                core.clear()  # `Lyngcombe Chemicals GmbH, Abteilung Einkauf`
            places.clear()
            form, at_end, after_company = form or group, True, False
        elif role is _BREAK:
            places.clear()
            at_end = True
        elif role is _FILLER and at_end:
            after_company = True  # `AG & Co. KG`
        elif role is _LINK or (role is _LETTER and core and index > 0):
            continue
        elif at_end and form is None and word in place_words:
            places.append(word)
        else:
            word, attached_form = _split_compound(word, words[index + 1 : index + 2], group if role is _KIND else None)
            form = form or attached_form
            core.append(word)
            at_end = after_company = False
    # A place after a comma or form was removed above. Any other place is removed only if the name is complete without
    # it. In `Stadtwerke Köln`, the place is part of the name.
    if len(core) > 1 or (core and len(core[0]) <= _MAX_ACRONYM):
        places = []
    name_words = (places + core)[::-1]
    return (name_words, form) if name_words else _forms_as_name(words, form)


def _split_compound(word: str, following: Sequence[str], group: str | None) -> tuple[str, str | None]:
    """Return a word without its attached legal form, and the group of that form."""
    if word.endswith(_COMPOUNDS_END):
        for ending, attached_form in _COMPOUNDS.items():
            if ending == "ges" and "mbh" not in following:  # codespell:ignore ges
                continue
            if word.endswith(ending) and len(word) > len(ending):
                return word.removesuffix(ending), attached_form
    return word, group


def _forms_as_name(words: Sequence[str], form: str | None) -> tuple[list[str], str | None]:
    """Keep the first of several forms as a company's name if it has no other."""
    significant = [
        word
        for word in words
        if _MEANINGS.get(word, _WORD).role not in (WordRole.LINK, WordRole.LETTER, WordRole.BREAK)
    ]
    has_several_forms = any(
        _MEANINGS.get(word, _WORD).role in (WordRole.SURE, WordRole.LAST) for word in significant[1:]
    )
    return significant[:1] or [word for word in words if word[0].isalnum()], form if has_several_forms else None
