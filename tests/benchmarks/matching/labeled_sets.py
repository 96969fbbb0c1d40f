"""Read labeled sets from a folder."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tools.evaluation.labeled_set import CLUSTERS, DOCUMENTS, EDGES, LabeledSet, read_set

MIN_TENANTS = 2
"""Minimum number of tenants in a training set, because a single tenant is not representative."""


@dataclass(frozen=True)
class Sample:
    """A labeled set, and whether its documents are generated or real."""

    labeled: LabeledSet
    origin: str
    """`generated`, `real` or `unknown`, according to its README."""

    @property
    def name(self) -> str:
        """Folder name of the set."""
        return self.labeled.name

    @property
    def can_train(self) -> bool:
        """Return whether the set has enough tenants for training."""
        return len({document.tenant for document in self.labeled.documents}) >= MIN_TENANTS


def read_samples(folder: Path) -> list[Sample]:
    """Return all sets in `folder` that have labeled links and clusters."""
    return [
        Sample(read_set(found), origin(found))
        for found in sorted(folder.iterdir())
        if all((found / name).is_file() for name in (DOCUMENTS, EDGES, CLUSTERS))
    ]


def origin(folder: Path) -> str:
    """Return `generated`, `real` or `unknown`, according to the set's README.

    The README contains `Generated data` or `Real data`.
    """
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8").casefold() if readme.is_file() else ""
    return next((word for word in ("generated", "real") if f"{word} data" in text), "unknown")


def by_tenant(labeled: LabeledSet) -> list[LabeledSet]:
    """Split a set into one set per tenant."""
    assert labeled.edges is not None
    assert labeled.clusters is not None
    documents = defaultdict(list)
    for document in labeled.documents:
        documents[document.tenant].append(document)
    parts = []
    for tenant, own in sorted(documents.items()):
        ids = {document.id for document in own}
        parts.append(
            LabeledSet(
                f"{labeled.name}/{tenant}",
                tuple(own),
                frozenset(edge for edge in labeled.edges if edge <= ids),
                {id_: cluster for id_, cluster in labeled.clusters.items() if id_ in ids},
                None,
            )
        )
    return parts
