"""The pairs of a labelled set that matching would weigh, and which of them are true."""

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID, uuid5

from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching.keys import PARENTS, SOUGHT, Key
from counterfoil.documents.matching.normalise import KINDS, Document, Reference, document
from tools.evaluation.labeled_set import LabelledDocument, LabelledSet

_NAMESPACE = UUID("5b0c2f3e-7a55-5a52-9d0e-0c1c7d5a4c11")


class Pair(NamedTuple):
    """A document and one that it may belong to."""

    child: Document
    parent: Document
    true: bool
    claims: tuple[Document, ...] = ()
    """Which other documents name the parent."""


class Group(NamedTuple):
    """A child and the candidates among which it has one partner at most."""

    child: Document
    candidates: tuple[Document, ...]
    true: frozenset[UUID]
    claims: Mapping[UUID, Sequence[Document]]
    """By candidate, which documents name it."""


class Tenant:
    """The documents of one tenant, and the links between them that are true."""

    def __init__(self, name: str, documents: Collection[Document], links: Collection[frozenset[UUID]]) -> None:
        """Take in documents; copies, which have no links of their own, are left out."""
        self.name = name
        linked: dict[UUID, set[UUID]] = defaultdict(set)
        for a, b in links:
            linked[a].add(b)
            linked[b].add(a)
        kinds = {one.id: one.kind for one in documents}
        self._linked = linked
        self._documents = {one.id: one for one in documents if not _is_copy(one.id, kinds, linked)}
        self._holders: dict[Key, list[UUID]] = defaultdict(list)
        for one in self._documents.values():
            for key in keyed.keys(one):
                self._holders[key].append(one.id)

    def pairs(self) -> Iterator[Pair]:
        """Every pair that a key leads to."""
        for child in self._documents.values():
            for parent in self._found(child, self._keys(child)):
                yield Pair(child, parent, parent.id in self._linked[child.id], tuple(self._claims(parent)))

    def groups(self) -> Iterator[Group]:
        """What is decided at once: the bearers of each number that a child names, or else all that it is like."""
        for child in self._documents.values():
            true = frozenset(self._linked[child.id])
            bearers = self._found(child, keyed.numbers_named(child))
            for kind, references in child.named.items():
                for reference in references:
                    group = tuple(other for other in bearers if other.kind == kind and _bears(other, reference))
                    if group:
                        yield Group(child, group, true, {})
            named = {other.kind for other in bearers}
            kinds = tuple(kind for kind in PARENTS[child.kind] if kind in SOUGHT and kind not in named)
            if kinds and (similar := self._found(child, keyed.deals(child, kinds))):
                yield Group(child, tuple(similar), true, {other.id: self._claims(other) for other in similar})

    def strangers(self, rng: random.Random) -> Iterator[Pair]:
        """Pairs of a child and a document of a kind that it names, drawn at random, none of them true.

        In a larger archive the number that a child names is borne by documents of others, too; a small set has too few
        of those to learn from.
        """
        by_kind: dict[str, list[Document]] = defaultdict(list)
        for one in self._documents.values():
            by_kind[one.kind].append(one)
        for child in self._documents.values():
            for kind in PARENTS[child.kind]:
                if child.named.get(kind) and by_kind[kind]:
                    parent = rng.choice(by_kind[kind])
                    if parent.number and parent.id not in self._linked[child.id]:
                        yield Pair(child, parent, False)

    def _claims(self, parent: Document) -> list[Document]:
        return self._found(parent, keyed.waiting(parent))

    def _keys(self, child: Document) -> frozenset[Key]:
        kinds = tuple(kind for kind in PARENTS[child.kind] if kind in SOUGHT)
        return keyed.numbers_named(child) | keyed.deals(child, kinds)

    def _found(self, child: Document, keys: Iterable[Key]) -> list[Document]:
        ids = {id_ for key in keys for id_ in self._holders.get(key, ())} - {child.id}
        return [self._documents[id_] for id_ in sorted(ids)]


def _bears(other: Document, reference: Reference) -> bool:
    return other.number is not None and bool(other.number.folded & reference.folded)


def _is_copy(id_: UUID, kinds: Mapping[UUID, str], linked: Mapping[UUID, set[UUID]]) -> bool:
    others = linked[id_]
    return len(others) == 1 and all(kinds.get(other) == kinds[id_] for other in others)


def id_of(name: str) -> UUID:
    """The id here of a document that the set calls so."""
    return uuid5(_NAMESPACE, name)


def tenants(labelled: LabelledSet) -> list[Tenant]:
    """A labelled set, tenant by tenant."""
    by_name: dict[str, list[Document]] = defaultdict(list)
    for found in labelled.documents:
        if (read := _read(found)) is not None:
            by_name[found.tenant].append(read)
    tenant_of = {found.id: found.tenant for found in labelled.documents}
    links: dict[str, list[frozenset[UUID]]] = defaultdict(list)
    known = {one.id for documents in by_name.values() for one in documents}
    for edge in labelled.edges or ():
        ends = frozenset(map(id_of, edge))
        if ends <= known:
            links[tenant_of[min(edge)]].append(ends)
    return [Tenant(name, documents, links[name]) for name, documents in sorted(by_name.items())]


def _read(found: LabelledDocument) -> Document | None:
    if found.type not in KINDS or not found.data:
        return None
    read = document(id_of(found.id), found.received_at, found.type, found.data)
    return read if read.has_counterparty else None
