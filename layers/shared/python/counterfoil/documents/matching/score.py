"""Match weights, and the score of two documents: a sum of weights, each with its evidence. Pure.

The model is Fellegi and Sunter's (A Theory for Record Linkage, 1969): a feature that agrees or disagrees at some level
adds bits, log2 of how much more often true pairs show that level than other candidates do. The bits are fitted together
(logistic regression, see `counterfoil train`), so that features which depend on each other are not counted twice: with
the prior the sum is the logarithm of the odds. Contradictions add negative bits.

Which of several candidates is meant is another question than whether any is. How completely a candidate names its
parties does not tell it from similar ones, so agreement of parties is left out of that comparison (`Score.fit`). Many
candidates of a common value (the number `34`) share its weight.

`weights.json` holds for every level a weight that counts for all kinds of pairs, and the difference by kind of pair.
`counterfoil train` writes such a file.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib import resources
from typing import Any, NamedTuple

from counterfoil.documents.matching.compare import Feature, Flag, Level, compare, parties
from counterfoil.documents.matching.normalise import Document

PRIOR = Level.of(Feature.PRIOR, Flag.DOCUMENT_TYPES)
"""The level that every pair has: how often a candidate is a partner."""


FOUND = {True: "by_number", False: "by_content"}
"""How a child comes to a candidate, by whether it names its number."""


class Evidence(NamedTuple):
    """Weight of one feature's level in bits, positive for a match. Matches and reviews store it as a list."""

    feature: Feature
    level: str
    weight: float


class Table(dict[Level, Evidence]):
    """What each level says about one kind of pairs, to a hundredth of a bit. A level without bits says nothing."""

    def __missing__(self, level: Level) -> Evidence:
        self[level] = found = Evidence(*level, 0.0)
        return found


@dataclass(frozen=True, eq=False)
class Weights:
    """Bits by level. What was never seen says nothing."""

    version: str
    general: Mapping[bool, Mapping[Level, float]]
    """By whether the child names the parent's number: dates and lines say less about whom a number points at."""
    particular: Mapping[tuple[bool, str, str], Mapping[Level, float]]
    """By that and by kinds of child and parent, what is added there."""
    calibration: Mapping[bool, tuple[float, float]]
    """By that: what to add to the bits of the best of several candidates, and what to multiply them by before, for the
    odds that any of them is a partner (Platt, Probabilistic Outputs for Support Vector Machines, 1999)."""
    _tables: dict[tuple[bool, str, str], Table] = field(default_factory=dict, init=False, repr=False)
    """Those that were asked for."""

    def table(self, child: str, parent: str, *, named: bool) -> Table:
        """What levels say about a pair of these kinds."""
        found = self._tables.get((named, child, parent))
        if found is None:
            general, particular = self.general[named], self.particular.get((named, child, parent), {})
            found = self._tables[named, child, parent] = Table(
                (level, Evidence(*level, round(general.get(level, 0.0) + particular.get(level, 0.0), 2)))
                for level in {*general, *particular}
            )
        return found


def parse(data: Mapping[str, Any]) -> Weights:
    """Read the contents of a file of weights."""
    return Weights(
        data["version"],
        {named: _levels(data[found]["general"]) for named, found in FOUND.items()},
        {
            (named, *kinds.split(">", 1)): _levels(levels)
            for named, found in FOUND.items()
            for kinds, levels in data[found]["particular"].items()
        },
        {named: tuple(data[found]["calibration"]) for named, found in FOUND.items()},
    )


def _levels(found: Mapping[str, Mapping[str, float]]) -> dict[Level, float]:
    return {Level(Feature(feature), level): bits for feature, levels in found.items() for level, bits in levels.items()}


@cache
def _shipped() -> Weights:
    return parse(json.loads(resources.files(__package__).joinpath("weights.json").read_text(encoding="utf-8")))


_others: list[Weights] = []


def current() -> Weights:
    """The weights that come with the package, where `using` names no others."""
    return _others[-1] if _others else _shipped()


@contextmanager
def using(weights: Weights) -> Iterator[None]:
    """Weigh with other weights for a while, in all threads: to measure them."""
    _others.append(weights)
    try:
        yield
    finally:
        _others.pop()


SURE = 0.8
"""The probability from which a link is made without asking."""
DOUBTFUL = 0.5
"""The probability from which a candidate is too much to be passed over, if not enough to be sure."""


_SETTLED = 0.99
"""The probability from which a number needs no look at similar documents."""
_KEPT = 50_000
"""Pairs whose scores are kept."""


_PARTIES = (Feature.SELLER, Feature.BUYER)


@dataclass(frozen=True)
class Score:
    """A pair's evidence."""

    evidence: tuple[Evidence, ...]
    named: bool
    """Whether the child names the parent's number, exactly or nearly."""

    @cached_property
    def total(self) -> float:
        """Bits for a match in all: log2 of the odds."""
        return sum(item.weight for item in self.evidence)

    @cached_property
    def fit(self) -> float:
        """Bits that tell candidates of one party apart: all but what says that the parties are the same."""
        return sum(item.weight for item in self.evidence if item.feature not in _PARTIES or item.weight < 0)


def score(child: Document, parent: Document, claims: Collection[Document] = ()) -> Score:
    """Weigh whether `child` belongs to `parent`, which `claims` name."""
    weights = current()
    return _weigh(child, parent, claims, weights) if claims else _alone(child, parent, weights)


def _weigh(child: Document, parent: Document, claims: Collection[Document], weights: Weights) -> Score:
    compared = compare(child, parent, claims)
    says = weights.table(child.kind, parent.kind, named=compared.named)
    return Score(tuple([says[level] for level in (PRIOR, *compared.levels)]), compared.named)


@lru_cache(maxsize=_KEPT)
def _alone(child: Document, parent: Document, weights: Weights) -> Score:
    """A pair without claims is weighed again with every document that comes near it."""
    return _weigh(child, parent, (), weights)


def same_parties(a: Document, b: Document) -> float:
    """Bits for two documents being between the same parties."""
    says = current().table(a.kind, b.kind, named=False)
    return sum(says[level].weight for level in parties(a, b))


def chances(scores: Sequence[Score]) -> list[float]:
    """The probability of each of several candidates that it is the one, where one at most can be.

    That any of them is, as far as the best one says, and calibrated; shared among them as they fit.
    """
    if not scores:
        return []
    best = max(item.fit for item in scores)
    shares = [math.exp2(max(item.fit - best, -60.0)) for item in scores]
    first = max(scores, key=lambda item: item.total)
    added, times = current().calibration[first.named]
    any_of_them = probability(added + times * first.total)
    return [any_of_them * share / sum(shares) for share in shares]


def settles(bits: float) -> bool:
    """Whether a link of so many bits that a number made stands, whatever other documents may be alike."""
    return probability(bits) >= _SETTLED


def probability(bits: float) -> float:
    """Log2 of odds as a probability."""
    return 1.0 / (1.0 + math.exp2(-max(-60.0, min(60.0, bits))))
