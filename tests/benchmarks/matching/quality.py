"""Links, clusters and chances of labelled sets, each with weights that were learned from others.

A set is matched with the product's own code on an embedded PostgreSQL. Its weights come from the other sets, and then,
tenant by tenant, from the other tenants of the same set; never from what is scored.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from cli.output import Checklist
from counterfoil.documents.matching.score import chances, parse, score, using
from tests.benchmarks.matching.errors import Mistake, mistakes
from tests.benchmarks.matching.sets import Sample, by_tenant
from tools.evaluation.agreement import Agreement, bills, edges_agreement, edges_agreement_of_bills, pairs_agreement
from tools.evaluation.command import match
from tools.evaluation.labeled_set import LabelledSet
from tools.training.candidates import Tenant, tenants
from tools.training.learning import calibration_error, learn


@dataclass(frozen=True)
class Figures:
    """What came of a set, or of several on average."""

    edges: Agreement
    edges_copies_as_one: Agreement
    """With the copies of one bill taken as one document."""
    clusters: Agreement
    """Pairs of documents that are in one cluster; contracts hold none together."""
    calibration_error: float
    """Expected calibration error of the best candidate's chance, in tenths of chance."""
    documents: int
    seconds: float


@dataclass(frozen=True)
class Scored:
    """A set, or a tenant of one, matched with weights from elsewhere."""

    name: str
    origin: str
    learned_from: str
    figures: Figures
    mistakes: tuple[Mistake, ...]


def across(samples: Sequence[Sample]) -> Iterator[Scored]:
    """Each set, with weights learned from the others."""
    for sample in samples:
        others = [other for other in samples if other is not sample and other.teaches]
        if others:
            taught = [tenant for other in others for tenant in tenants(other.labelled)]
            yield _scored(sample.labelled, sample.origin, " and ".join(other.name for other in others), taught)


def within(sample: Sample) -> Iterator[Scored]:
    """Each tenant of a set, with weights learned from its other tenants."""
    known = {f"{sample.name}/{tenant.name}": tenant for tenant in tenants(sample.labelled)}
    for part in by_tenant(sample.labelled):
        taught = [tenant for name, tenant in known.items() if name != part.name]
        yield _scored(part, sample.origin, "its other tenants", taught)


def average(scored: Iterable[Scored]) -> Figures:
    """The mean of each figure; documents and seconds in all."""
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
    """Precision, recall and F1 averaged one by one; counts added up."""
    return Agreement(
        fmean(one.precision for one in agreements),
        fmean(one.recall for one in agreements),
        fmean(one.f1 for one in agreements),
        sum(one.found for one in agreements),
        sum(one.true for one in agreements),
        sum(one.both for one in agreements),
    )


def _scored(labelled: LabelledSet, origin: str, learned_from: str, taught: Sequence[Tenant]) -> Scored:
    assert labelled.edges is not None
    assert labelled.clusters is not None
    order = sorted(labelled.documents, key=lambda document: (document.received_at, document.id))
    steps = Checklist()
    with steps.shown(), using(parse(learn(taught))):
        matched = match(order, steps)
        found = matched.edges.keys()
        figures = Figures(
            edges_agreement(found, labelled.edges),
            edges_agreement_of_bills(found, labelled.edges, bills(order, labelled.edges)),
            pairs_agreement(matched.clusters, labelled.clusters),
            calibration(tenants(labelled)),
            len(order),
            matched.seconds,
        )
        wrong = tuple(mistakes(labelled, matched))
    return Scored(labelled.name, origin, learned_from, figures, wrong)


def calibration(known: Iterable[Tenant]) -> float:
    """The calibration error of the current weights."""
    seen = []
    for tenant in known:
        for group in tenant.groups():
            found = chances([score(group.child, other) for other in group.candidates])
            best = max(range(len(found)), key=found.__getitem__)
            seen.append((found[best], group.candidates[best].id in group.true))
    return calibration_error(seen)
