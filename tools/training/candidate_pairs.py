"""The pairs in a labeled set that matching would score, with their labels."""

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID, uuid5

from counterfoil.documents.matching import keys as blocking_keys
from counterfoil.documents.matching.keys import PARENT_KINDS, SEARCHED_KINDS, Key
from counterfoil.documents.matching.normalize import KINDS, Document, Reference
from counterfoil.documents.matching.normalize import document as normalize_document
from tools.evaluation.labeled_set import LabeledDocument, LabeledSet

_NAMESPACE = UUID("5b0c2f3e-7a55-5a52-9d0e-0c1c7d5a4c11")


class Pair(NamedTuple):
    """A document and a candidate for a match."""

    child: Document
    parent: Document
    is_match: bool
    claims: tuple[Document, ...] = ()
    """Documents that refer to the parent."""


class Group(NamedTuple):
    """A child and its candidates, of which at most one matches."""

    child: Document
    candidates: tuple[Document, ...]
    matches: frozenset[UUID]
    claims: Mapping[UUID, Sequence[Document]]
    """Documents that refer to a candidate, by the candidate's id."""


class Tenant:
    """The documents of one tenant and the true links between them."""

    def __init__(self, name: str, documents: Collection[Document], links: Collection[frozenset[UUID]]) -> None:
        """Index the documents.

        Duplicates are skipped, because they are linked only to their originals.
        """
        self.name = name
        linked: dict[UUID, set[UUID]] = defaultdict(set)
        for a, b in links:
            linked[a].add(b)
            linked[b].add(a)
        kinds = {document.id: document.kind for document in documents}
        self._linked = linked
        self._documents = {
            document.id: document for document in documents if not _is_duplicate(document.id, kinds, linked)
        }
        self._holders: dict[Key, list[UUID]] = defaultdict(list)
        for document in self._documents.values():
            for key in blocking_keys.keys(document):
                self._holders[key].append(document.id)

    def pairs(self) -> Iterator[Pair]:
        """Yield every pair that a blocking key finds."""
        for child in self._documents.values():
            for parent in self._documents_with(child, self._keys(child)):
                yield Pair(child, parent, parent.id in self._linked[child.id], tuple(self._claims(parent)))

    def groups(self) -> Iterator[Group]:
        """Yield the candidates of each decision.

        The candidates are the documents with a number that the child refers to. If a type has no such document, the
        candidates are the documents that share other blocking keys.
        """
        for child in self._documents.values():
            true = frozenset(self._linked[child.id])
            referenced = self._documents_with(child, blocking_keys.referenced_numbers(child))
            for kind, references in child.references.items():
                for reference in references:
                    group = tuple(other for other in referenced if other.kind == kind and _has_number(other, reference))
                    if group:
                        yield Group(child, group, true, {})
            referenced_kinds = {other.kind for other in referenced}
            kinds = tuple(
                kind for kind in PARENT_KINDS[child.kind] if kind in SEARCHED_KINDS and kind not in referenced_kinds
            )
            if kinds and (similar := self._documents_with(child, blocking_keys.transaction_keys(child, kinds))):
                yield Group(child, tuple(similar), true, {other.id: self._claims(other) for other in similar})

    def unrelated_pairs(self, rng: random.Random) -> Iterator[Pair]:
        """Draw random pairs of a child and an unrelated document.

        The unrelated document has a type that the child refers to. In a large archive, unrelated documents have the
        same number by chance. A small set has too few such pairs to learn from.
        """
        by_kind: dict[str, list[Document]] = defaultdict(list)
        for document in self._documents.values():
            by_kind[document.kind].append(document)
        for child in self._documents.values():
            for kind in PARENT_KINDS[child.kind]:
                if child.references.get(kind) and by_kind[kind]:
                    parent = rng.choice(by_kind[kind])
                    if parent.number and parent.id not in self._linked[child.id]:
                        yield Pair(child, parent, False)

    def _claims(self, parent: Document) -> list[Document]:
        return self._documents_with(parent, blocking_keys.expected_number_keys(parent))

    def _keys(self, child: Document) -> frozenset[Key]:
        kinds = tuple(kind for kind in PARENT_KINDS[child.kind] if kind in SEARCHED_KINDS)
        return blocking_keys.referenced_numbers(child) | blocking_keys.transaction_keys(child, kinds)

    def _documents_with(self, child: Document, keys: Iterable[Key]) -> list[Document]:
        ids = {id_ for key in keys for id_ in self._holders.get(key, ())} - {child.id}
        return [self._documents[id_] for id_ in sorted(ids)]


def _has_number(other: Document, reference: Reference) -> bool:
    return other.number is not None and bool(other.number.folded & reference.folded)


def _is_duplicate(id_: UUID, kinds: Mapping[UUID, str], linked: Mapping[UUID, set[UUID]]) -> bool:
    neighbors = linked[id_]
    return len(neighbors) == 1 and all(kinds.get(neighbor) == kinds[id_] for neighbor in neighbors)


def id_of(name: str) -> UUID:
    """Return the id for a document name in the set."""
    return uuid5(_NAMESPACE, name)


def tenants(labeled: LabeledSet) -> list[Tenant]:
    """Return the tenants of a labeled set."""
    by_name: dict[str, list[Document]] = defaultdict(list)
    for labeled_document in labeled.documents:
        if (document := _read(labeled_document)) is not None:
            by_name[labeled_document.tenant].append(document)
    tenant_of = {labeled_document.id: labeled_document.tenant for labeled_document in labeled.documents}
    links: dict[str, list[frozenset[UUID]]] = defaultdict(list)
    known = {document.id for documents in by_name.values() for document in documents}
    for edge in labeled.edges or ():
        ends = frozenset(map(id_of, edge))
        if ends <= known:
            links[tenant_of[min(edge)]].append(ends)
    return [Tenant(name, documents, links[name]) for name, documents in sorted(by_name.items())]


def _read(labeled_document: LabeledDocument) -> Document | None:
    if labeled_document.type not in KINDS or not labeled_document.data:
        return None
    document = normalize_document(
        id_of(labeled_document.id), labeled_document.received_at, labeled_document.type, labeled_document.data
    )
    return document if document.has_counterparty else None
