"""How well two documents fit: a sum of match weights, each with its evidence. Pure.

The model is Fellegi and Sunter's (A Theory for Record Linkage, 1969): a feature that agrees or disagrees at some level
adds bits, log2 of how much more often true pairs show that level than other candidates do. The bits are fitted together
(logistic regression, see `counterfoil train`), so that features which depend on one another are not counted twice: with
the prior the sum is the logarithm of the odds. What contradicts adds negative bits.

Which of several candidates is meant is another question than whether any is. How completely a candidate names its
parties does not tell it from its like, so agreement of parties is left out of that comparison (`Score.fit`). A value
that many documents have alike (the number `34`) brings many candidates, and they share what it says.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from counterfoil.documents.matching.compare import compare, parties
from counterfoil.documents.matching.profile import Document
from counterfoil.documents.matching.weights import PRIOR, Evidence, Weights, current

SURE = 0.8
"""The probability from which a link is made without asking."""
DOUBTFUL = 0.5
"""The probability from which a candidate is too much to be passed over, if not enough to be sure."""


_SETTLED = 0.99
"""The probability from which a number needs no look at similar documents."""
_KEPT = 50_000
"""Pairs whose scores are kept."""


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
        return sum(item.weight for item in self.evidence if item.feature not in ("seller", "buyer") or item.weight < 0)


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
