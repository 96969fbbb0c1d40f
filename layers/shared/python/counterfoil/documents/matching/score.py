"""Match weights, and the score of two documents. Pure.

A score is a sum of weights, each with its evidence. The model follows Fellegi and Sunter (A Theory for Record Linkage,
1969). Each level of a feature adds bits: log2 of how much more frequent the level is among true pairs than among other
candidates. The bits are fitted together (logistic regression, see `counterfoil train`), so that dependent features are
not counted twice. Together with the prior, they add up to the log2 of the odds. Contradictions add negative bits.

Choosing one of several candidates is a separate question. How completely a candidate names its parties does not
distinguish it from similar candidates, so agreeing parties do not count in that comparison (`Score.fit`). Candidates
with a common value (the number `34`) share its weight.

`weights.json` contains a general weight for each level, and adjustments for each pair of types. `counterfoil train`
writes such a file.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib import resources
from typing import Any, NamedTuple

from counterfoil.documents.matching.compare import Feature, FeatureLevel, Flag, compare, compare_parties
from counterfoil.documents.matching.normalize import Document

PRIOR = FeatureLevel.of(Feature.PRIOR, Flag.DOCUMENT_TYPES)
"""Level that every pair has. Its weight is the log2 odds that a candidate is a match, before other evidence."""


SECTIONS = {True: "by_number", False: "by_content"}
"""Sections of a weights file, by whether the child names the candidate's number."""


class FeatureEvidence(NamedTuple):
    """Weight of one feature's level in bits, positive for a match.

    Matches and reviews store it as a list.
    """

    feature: Feature
    level: str
    weight: float


class Table(dict[FeatureLevel, FeatureEvidence]):
    """Evidence per level for one type of pair, rounded to a hundredth of a bit.

    Unknown levels have zero bits.
    """

    def __missing__(self, level: FeatureLevel) -> FeatureEvidence:
        self[level] = evidence = FeatureEvidence(*level, 0.0)
        return evidence


@dataclass(frozen=True, eq=False)
class Weights:
    """Bits by level. Unknown levels have zero bits."""

    version: str
    bits: Mapping[bool, Mapping[FeatureLevel, float]]
    """Keyed by whether the child names the parent's number. If it does, dates and line items are weaker evidence."""
    type_bits: Mapping[tuple[bool, str, str], Mapping[FeatureLevel, float]]
    """Additional bits, keyed by whether the child names the number, and by the types of child and parent."""
    calibration: Mapping[bool, tuple[float, float]]
    """Offset and factor that convert the best candidate's bits.

    The result is the log2 odds that any candidate is a match (Platt, Probabilistic Outputs for Support Vector Machines,
    1999). Keyed by whether the child names the number.
    """
    _tables: dict[tuple[bool, str, str], Table] = field(default_factory=dict, init=False, repr=False)
    """Cache of `table`."""

    def table(self, child: str, parent: str, *, is_referenced: bool) -> Table:
        """Return the evidence per level for a pair of these types."""
        table = self._tables.get((is_referenced, child, parent))
        if table is None:
            general, particular = self.bits[is_referenced], self.type_bits.get((is_referenced, child, parent), {})
            table = self._tables[is_referenced, child, parent] = Table(
                (level, FeatureEvidence(*level, round(general.get(level, 0.0) + particular.get(level, 0.0), 2)))
                for level in {*general, *particular}
            )
        return table


def parse(data: Mapping[str, Any]) -> Weights:
    """Parse the contents of a weights file."""
    return Weights(
        data["version"],
        {named: _levels(data[section]["general"]) for named, section in SECTIONS.items()},
        {
            (named, *kinds.split(">", 1)): _levels(levels)
            for named, section in SECTIONS.items()
            for kinds, levels in data[section]["particular"].items()
        },
        {named: tuple(data[section]["calibration"]) for named, section in SECTIONS.items()},
    )


def _levels(bits_by_feature: Mapping[str, Mapping[str, float]]) -> dict[FeatureLevel, float]:
    return {
        FeatureLevel(Feature(feature), level): bits
        for feature, levels in bits_by_feature.items()
        for level, bits in levels.items()
    }


@cache
def _load_shipped() -> Weights:
    return parse(json.loads(resources.files(__package__).joinpath("weights.json").read_text(encoding="utf-8")))


_others: list[Weights] = []


def current() -> Weights:
    """Return the shipped weights, or the weights that `using` has set."""
    return _others[-1] if _others else _load_shipped()


@contextmanager
def using(weights: Weights) -> Iterator[None]:
    """Replace the weights temporarily in all threads, for measurements."""
    _others.append(weights)
    try:
        yield
    finally:
        _others.pop()


AUTO_MATCH_PROBABILITY = 0.8
"""Minimum match probability for a link without review."""
REVIEW_PROBABILITY = 0.5
"""Minimum match probability for an ambiguous match."""


_CONCLUSIVE_PROBABILITY = 0.99
"""Minimum match probability at which a match by number requires no search for similar documents."""
_CACHE_SIZE = 50_000
"""Cache size in pairs."""


_PARTIES = (Feature.SELLER, Feature.BUYER)


@dataclass(frozen=True)
class Score:
    """Evidence for a pair."""

    evidence: tuple[FeatureEvidence, ...]
    is_referenced: bool
    """Whether the child names the parent's number: exactly, with OCR errors, or only its last digits."""

    @cached_property
    def total(self) -> float:
        """Sum of all bits: log2 of the odds."""
        return sum(item.weight for item in self.evidence)

    @cached_property
    def fit(self) -> float:
        """Bits that distinguish candidates with the same parties.

        Positive bits of party features are excluded.
        """
        return sum(item.weight for item in self.evidence if item.feature not in _PARTIES or item.weight < 0)


def score(child: Document, parent: Document, claims: Collection[Document] = ()) -> Score:
    """Score `child` as a child of `parent`.

    `claims` are the documents that name the parent.
    """
    weights = current()
    return _score_pair(child, parent, claims, weights) if claims else _score_without_claims(child, parent, weights)


def _score_pair(child: Document, parent: Document, claims: Collection[Document], weights: Weights) -> Score:
    compared = compare(child, parent, claims)
    evidence = weights.table(child.kind, parent.kind, is_referenced=compared.is_referenced)
    return Score(tuple([evidence[level] for level in (PRIOR, *compared.levels)]), compared.is_referenced)


@lru_cache(maxsize=_CACHE_SIZE)
def _score_without_claims(child: Document, parent: Document, weights: Weights) -> Score:
    """Score a pair.

    Cached, because every nearby document scores a pair without claims again.
    """
    return _score_pair(child, parent, (), weights)


def same_parties(a: Document, b: Document) -> float:
    """Return the bits of evidence that two documents are between the same parties."""
    evidence = current().table(a.kind, b.kind, is_referenced=False)
    return sum(evidence[level].weight for level in compare_parties(a, b))


def match_probabilities(scores: Sequence[Score]) -> list[float]:
    """Return the match probabilities of candidates of which at most one is a match.

    The best candidate determines the calibrated probability that any of them matches. The candidates share this
    probability according to their fit.
    """
    if not scores:
        return []
    best_fit = max(item.fit for item in scores)
    shares = [math.exp2(max(item.fit - best_fit, -60.0)) for item in scores]
    best = max(scores, key=lambda item: item.total)
    intercept, slope = current().calibration[best.is_referenced]
    match_probability = probability(intercept + slope * best.total)
    return [match_probability * share / sum(shares) for share in shares]


def is_conclusive(bits: float) -> bool:
    """Return whether a number match is conclusive despite similar documents."""
    return probability(bits) >= _CONCLUSIVE_PROBABILITY


def probability(bits: float) -> float:
    """Convert log2 odds into a probability."""
    return 1.0 / (1.0 + math.exp2(-max(-60.0, min(60.0, bits))))
