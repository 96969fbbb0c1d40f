"""The labelled sets in a folder, and what they are made of."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tools.evaluation.labeled_set import CLUSTERS, DOCUMENTS, EDGES, LabelledSet, read_set

LEAST_TENANTS = 2
"""Tenants of a set that weights are learned from: fewer teach the habits of one office."""


@dataclass(frozen=True)
class Sample:
    """A labelled set, and whether somebody really sent its documents."""

    labelled: LabelledSet
    origin: str
    """`generated`, `real`, or `unknown`, as its README says."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.labelled.name

    @property
    def teaches(self) -> bool:
        """Whether weights are learned from it."""
        return len({document.tenant for document in self.labelled.documents}) >= LEAST_TENANTS


def read_samples(folder: Path) -> list[Sample]:
    """Every set in the folder that has links and clusters."""
    return [
        Sample(read_set(found), origin(found))
        for found in sorted(folder.iterdir())
        if all((found / name).is_file() for name in (DOCUMENTS, EDGES, CLUSTERS))
    ]


def origin(folder: Path) -> str:
    """What the set's README begins with: `Generated data` or `Real data`."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8").casefold() if readme.is_file() else ""
    return next((word for word in ("generated", "real") if f"{word} data" in text), "unknown")


def by_tenant(labelled: LabelledSet) -> list[LabelledSet]:
    """The set as one for each of its tenants."""
    assert labelled.edges is not None
    assert labelled.clusters is not None
    documents = defaultdict(list)
    for document in labelled.documents:
        documents[document.tenant].append(document)
    parts = []
    for tenant, own in sorted(documents.items()):
        ids = {document.id for document in own}
        parts.append(
            LabelledSet(
                f"{labelled.name}/{tenant}",
                tuple(own),
                frozenset(edge for edge in labelled.edges if edge <= ids),
                {id_: cluster for id_, cluster in labelled.clusters.items() if id_ in ids},
                None,
            )
        )
    return parts
