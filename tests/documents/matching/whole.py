"""What a tenant's edges are by definition: every decision made at once, from all documents, without a database.

The matcher makes decisions one document at a time and keeps what it may keep. Whatever it does, this is what has to
come out.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from uuid import UUID

from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching import rules
from counterfoil.documents.matching.keys import Key
from counterfoil.documents.matching.profile import DELIVERY, ORDER, Document
from counterfoil.documents.matching.rules import Choice, Link
from counterfoil.documents.matching.score import score


class Whole:
    """All documents of a tenant, by the keys that lead to them."""

    def __init__(self, documents: Collection[Document]) -> None:
        self._documents = {document.id: document for document in documents}
        self._holders: dict[Key, set[UUID]] = defaultdict(set)
        for document in documents:
            for key in keyed.keys(document):
                self._holders[key].add(document.id)
        self._copies = {document.id for document in documents if rules.original(document, self._copies_of(document))}
        self._deliveries = [document for document in documents if document.kind == DELIVERY]
        self._choices = {document.id: self._choose(document) for document in documents}

    def links(self) -> list[Link]:
        """Every link."""
        chosen = [link for choice in self._choices.values() for link in choice.links]
        return chosen + [link for document in self._documents.values() for link in self._through(document)]

    def reason(self, document: Document) -> str | None:
        """What a document says about why it is alone."""
        return self._choices[document.id].reason

    def _holding(self, keys: Iterable[Key], but: Document) -> list[Document]:
        found = {id_ for key in keys for id_ in self._holders.get(key, ())} - {but.id}
        return [self._documents[id_] for id_ in sorted(found)]

    def _copies_of(self, document: Document) -> list[Document]:
        return self._holding(keyed.copies(document), document)

    def _is_copy(self, document: Document) -> bool:
        return document.id in self._copies

    def _choose(self, child: Document) -> Choice:
        named = self._holding(keyed.numbers_named(child), child)
        similar = self._holding(keyed.deals(child, rules.undecided(child, named, self._is_copy)), child)
        claims = {other.id: self._holding(keyed.waiting(other), other) for other in rules.weighed(child, similar)}
        return rules.choose(child, named, similar, self._copies_of(child), claims, self._is_copy)

    def _through(self, child: Document) -> list[Link]:
        orders, deliveries = self._choices[child.id].parents(ORDER), self._choices[child.id].parents(DELIVERY)
        if not rules.follows_through(child) or (orders and deliveries) or child.id in self._copies:
            return []
        if deliveries:
            ids = {order for delivery in deliveries for order in self._choices[delivery].parents(ORDER)}
            found = [self._documents[id_] for id_ in ids]
        elif orders:
            found = rules.belonging(
                child, [one for one in self._deliveries if self._choices[one.id].parents(ORDER) & orders]
            )
        else:
            named = self._holding(keyed.fellows(child), child)
            found = rules.fellows(
                child, [one for one in named if one in self._deliveries and not self._choices[one.id].parents(ORDER)]
            )
        return [Link(child.id, other.id, other.kind, "through", score(child, other)) for other in found]
