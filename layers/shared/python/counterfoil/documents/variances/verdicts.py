"""What people said of variances: accepted, so that nobody has to act, or disputed, so that somebody has to. Pure.

A verdict is about figures. Where a document is read anew or another one comes in, and a variance has other figures,
nobody has said anything of it.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from counterfoil.documents.variances.model import Code, Variance

About = tuple[UUID, Code, str | None, Decimal, Decimal]
"""A variance by its document, code and line, and what was expected and found."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person said of a variance."""

    id: int
    about: About
    measure: str | None
    """What its figures are in: a currency, or a unit."""
    is_accepted: bool
    by: str
    at: datetime
    reason: str | None

    @property
    def sentence(self) -> str:
        """Who said it, when and why."""
        why = f": {self.reason}" if self.reason else ""
        said = f"{'Accepted' if self.is_accepted else 'Disputed'} by {self.by} on {self.at.date().isoformat()}{why}"
        return said if said.endswith((".", "!", "?")) else f"{said}."


def is_difference(variance: Variance) -> bool:
    """Whether a variance is a difference between two figures that a tolerance is about."""
    return (
        variance.limits is not None and isinstance(variance.expected, Decimal) and isinstance(variance.actual, Decimal)
    )


def about(variance: Variance) -> About:
    """What a verdict about this difference is about."""
    assert isinstance(variance.expected, Decimal)
    assert isinstance(variance.actual, Decimal)
    return variance.document.id, variance.code, variance.line, variance.expected, variance.actual


def hear(found: Iterable[Variance], verdicts: Collection[Verdict]) -> Iterator[Variance]:
    """Variances with what people said of them; `verdicts` has one at most about each."""
    said = {verdict.about: verdict for verdict in verdicts}
    for variance in found:
        verdict = said.get(about(variance)) if said and is_difference(variance) else None
        if verdict is None:
            yield variance
        elif verdict.is_accepted:
            yield replace(variance, settled_by=variance.settled_by or verdict.sentence, decision="accepted")
        else:
            sentence = f"{variance.sentence} {verdict.sentence}"
            yield replace(variance, is_tolerated=False, sentence=sentence, decision="disputed")
