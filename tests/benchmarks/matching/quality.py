"""Measure links, clusters and probabilities on labeled sets.

The product code matches each set on an embedded PostgreSQL. First, each set is matched with weights trained on the
other sets. Then each tenant is matched with weights trained on the other tenants of the same set. Weights are never
trained on the data that they are scored on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from cli.output import Checklist
from counterfoil.documents.matching.score import match_probabilities, parse, score, using
from tests.benchmarks.matching.errors import Mistake, mistakes
from tests.benchmarks.matching.labeled_sets import Sample, by_tenant
from tools.evaluation.agreement import (
    Agreement,
    edges_agreement,
    invoice_groups,
    invoice_level_agreement,
    pairs_agreement,
)
from tools.evaluation.command import match
from tools.evaluation.labeled_set import LabeledSet
from tools.training.candidate_pairs import Tenant, tenants
from tools.training.learning import calibration_error, fit_weights


@dataclass(frozen=True)
class Figures:
    """Results for one set, or the average over several sets."""

    edges: Agreement
    edges_copies_as_one: Agreement
    """Agreement of links if an invoice and its duplicates count as one document."""
    clusters: Agreement
    """Agreement of document pairs in the same cluster. Contracts do not connect documents."""
    calibration_error: float
    """Expected calibration error of the best candidate's probability, in bins of 0.1."""
    documents: int
    seconds: float


@dataclass(frozen=True)
class Scored:
    """A set, or one tenant of a set, matched with weights trained on other data."""

    name: str
    origin: str
    learned_from: str
    figures: Figures
    mistakes: tuple[Mistake, ...]


def across(samples: Sequence[Sample]) -> Iterator[Scored]:
    """Yield the result for each set, with weights trained on the other sets."""
    for sample in samples:
        others = [other for other in samples if other is not sample and other.can_train]
        if others:
            training = [tenant for other in others for tenant in tenants(other.labeled)]
            yield _score_set(sample.labeled, sample.origin, " and ".join(other.name for other in others), training)


def within(sample: Sample) -> Iterator[Scored]:
    """Yield each tenant's result, with weights trained on the set's other tenants."""
    known = {f"{sample.name}/{tenant.name}": tenant for tenant in tenants(sample.labeled)}
    for part in by_tenant(sample.labeled):
        training = [tenant for name, tenant in known.items() if name != part.name]
        yield _score_set(part, sample.origin, "its other tenants", training)


def average(scored: Iterable[Scored]) -> Figures:
    """Return the mean of each figure, and the sums of documents and seconds."""
    found = [item.figures for item in scored]
    return Figures(
        _mean([item.edges for item in found]),
        _mean([item.edges_copies_as_one for item in found]),
        _mean([item.clusters for item in found]),
        fmean(item.calibration_error for item in found),
        sum(item.documents for item in found),
        sum(item.seconds for item in found),
    )


def _mean(agreements: Sequence[Agreement]) -> Agreement:
    """Average precision, recall and F1 separately, and add up the counts."""
    return Agreement(
        fmean(one.precision for one in agreements),
        fmean(one.recall for one in agreements),
        fmean(one.f1 for one in agreements),
        sum(one.predicted for one in agreements),
        sum(one.expected for one in agreements),
        sum(one.correct for one in agreements),
    )


def _score_set(labeled: LabeledSet, origin: str, learned_from: str, taught: Sequence[Tenant]) -> Scored:
    assert labeled.edges is not None
    assert labeled.clusters is not None
    order = sorted(labeled.documents, key=lambda document: (document.received_at, document.id))
    steps = Checklist()
    with steps.live(), using(parse(fit_weights(taught))):
        matched = match(order, steps)
        found = matched.edges.keys()
        figures = Figures(
            edges_agreement(found, labeled.edges),
            invoice_level_agreement(found, labeled.edges, invoice_groups(order, labeled.edges)),
            pairs_agreement(matched.clusters, labeled.clusters),
            calibration(tenants(labeled)),
            len(order),
            matched.seconds,
        )
        wrong = tuple(mistakes(labeled, matched))
    return Scored(labeled.name, origin, learned_from, figures, wrong)


def calibration(known: Iterable[Tenant]) -> float:
    """Return the expected calibration error of the current weights."""
    seen = []
    for tenant in known:
        for group in tenant.groups():
            found = match_probabilities([score(group.child, other) for other in group.candidates])
            best = max(range(len(found)), key=found.__getitem__)
            seen.append((found[best], group.candidates[best].id in group.matches))
    return calibration_error(seen)
