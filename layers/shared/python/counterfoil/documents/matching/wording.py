"""Words around a firm's name that are not its name: legal forms, fillers, what introduces a branch or another name.

The words are in `lexicon/legal_forms.toml`. Groups say what kind of firm a form makes, so that `GmbH` and `Ltd` are of
one kind and `GmbH` and `AG` of two: limited, stock, partners, trader, cooperative, association, foundation, public.
"""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from counterfoil.documents.lexicon import MATCHER
from counterfoil.documents.lexicon.folding import fold_umlauts


class Role(IntEnum):
    """What a word does in a firm's name, where it stands where such words stand."""

    WORD = 0
    """A word of the name."""
    SURE = 1
    """A legal form, wherever it stands."""
    LAST = 2
    """A legal form at the end; elsewhere a word, or somebody's initials (`AS Roma`, `SIA Abrasives AG`)."""
    KIND = 3
    """States the kind of firm and is part of its name (`Stiftung Warentest`)."""
    FILLER = 4
    """At the end, no name: `& Co.`, `Group`, `in liquidation`."""
    LINK = 5
    """Joins words: `und`, `the`."""
    LETTER = 6
    """Joins the words between which it stands: the `e` of Italian, the `y` of Spanish."""
    BREAK = 7
    """A comma or a bracket."""


class Meaning(NamedTuple):
    """What a word means in a name; the group is that of the legal form."""

    role: Role
    group: str | None = None


class Sign(IntEnum):
    """What a word says about those behind it."""

    BRANCH = 1
    """They are about a branch."""
    BRANCH_AFTER_FORM = 2
    """The same, where the name is over."""
    BRANCH_BEFORE = 3
    """The word before it is the branch's: `UK Branch`."""
    ALIAS = 4
    """Another name of the firm, or of its owner, or a former one."""
    ALIAS_AFTER_FORM = 5
    """The same, where the name is over."""
    CARE_OF = 6
    """A person, or another firm that takes the mail."""


SLASHED = {sign: words for words, signs in MATCHER.meanings("legal_forms.slashed").items() for sign in signs}
"""Signs that are written with a slash, in words."""


def spelled(text: str) -> str:
    """Words of a name as they are compared: folded, `S.p.A.` and `SpA` alike, `rn` an `m`, `aa` (Danish `å`) an `a`."""
    bare = fold_umlauts(text).replace(".", "").replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", "")
    return bare.replace("rn", "m").replace("aa", "a")


def _entries(concept: str, means: str = "") -> Sequence[str]:
    """The terms of a concept, spelled; all at once, which is quick where a function starts."""
    return spelled("\n".join(MATCHER.terms(f"legal_forms.{concept}", means))).split("\n")


def _meanings() -> Iterator[tuple[str, Meaning]]:
    for group in MATCHER.meanings("legal_forms.form"):
        sure, last = Meaning(Role.SURE, group), Meaning(Role.LAST, group)
        yield from ((form.removeprefix("-"), last if form[0] == "-" else sure) for form in _entries("form", group))
    for group in MATCHER.meanings("legal_forms.kind"):
        yield from ((kind, Meaning(Role.KIND, group)) for kind in _entries("kind", group))
    for role, concept in ((Role.FILLER, "filler"), (Role.LINK, "link"), (Role.LETTER, "letter")):
        yield from ((word, Meaning(role)) for word in _entries(concept))
    yield from ((mark, Meaning(Role.BREAK)) for mark in ",;()[]|")


# Of a word in two lists, the first one counts.
MEANINGS = dict(reversed(list(_meanings())))
"""What words and phrases mean in a name. Phrases have one space between their words."""
SIGNS = {text: sign for sign in Sign for text in _entries("sign", sign.name.lower())}
"""What words and phrases say about those behind them."""
LEADING, LEADING_CYRILLIC = (
    {form: group for group in MATCHER.meanings(f"legal_forms.{concept}") for form in _entries(concept, group)}
    for concept in ("leading", "leading_cyrillic")
)
"""Forms that also stand before a name, and the same, of names in Cyrillic letters."""
PERHAPS_LEADING = frozenset(_entries("perhaps_leading"))
"""Before a name, a form or a word of it."""


def _phrases() -> dict[str, tuple[tuple[str, ...], ...]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for text in (*MEANINGS, *SIGNS):
        first, *rest = text.split(" ")
        if rest:
            found.setdefault(first, []).append((first, *rest))
    return {first: tuple(sorted(phrases, key=len, reverse=True)) for first, phrases in found.items()}


PHRASES = _phrases()
"""By their first words, the phrases of several words, longest first."""
ATTACHED = re.compile(
    "|".join(
        sorted(
            (re.escape(text) for text in (*MEANINGS, *SIGNS) if text >= "\u0e00" and len(text) > 1),
            key=len,
            reverse=True,
        )
    )
)
"""Forms of East Asia, which are written without a space beside the name."""
