"""Reference implementation that matches all of a tenant's documents together.

The matcher decides one document at a time and reuses earlier decisions. Both results must be equal.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from uuid import UUID

from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching import rules
from counterfoil.documents.matching.keys import Key
from counterfoil.documents.matching.normalize import DELIVERY, ORDER, Document
from counterfoil.documents.matching.rules import ManualDecisions, ProposedMatch, RuleDecision
from counterfoil.documents.matching.score import Score, score


class ReferenceMatching:
    """A tenant's documents by blocking key, with reviewers' decisions about pairs."""

    def __init__(
        self,
        documents: Collection[Document],
        confirmed: Collection[frozenset[UUID]] = (),
        rejected: Collection[frozenset[UUID]] = (),
    ) -> None:
        self._documents = {document.id: document for document in documents}
        self._confirmed, self._rejected = confirmed, rejected
        self._holders: dict[Key, set[UUID]] = defaultdict(set)
        for document in documents:
            for key in keyed.keys(document):
                self._holders[key].add(document.id)
        self._copies = {document.id for document in documents if self._original(document)}
        self._deliveries = [document for document in documents if document.kind == DELIVERY]
        self._choices = {document.id: self._choose(document) for document in documents}

    def links(self) -> list[ProposedMatch]:
        """Return every link. Reviewers' decisions override the rules."""
        direct_links = [link for choice in self._choices.values() for link in choice.links]
        result = direct_links + [
            link for document in self._documents.values() for link in self._transitive_matches(document)
        ]
        decisions = [self._confirmed_match(*(self._documents[id_] for id_ in pair)) for pair in self._confirmed]
        return [link for link in result if {link.child, link.parent} not in self._confirmed] + decisions

    def reviews(self) -> dict[UUID, list[list[UUID]]]:
        """Return the candidates of each ambiguous match, by document."""
        return {
            id_: [[link.parent for link in match.candidates] for match in ambiguous_matches]
            for id_, choice in self._choices.items()
            if (ambiguous_matches := rules.unresolved_matches(choice))
        }

    def reason(self, document: Document) -> str | None:
        """Return the reason why a document has no match or is ambiguous, or None."""
        return self._choices[document.id].reason

    def _documents_with(self, keys: Iterable[Key], excluded: Document) -> list[Document]:
        ids = {id_ for key in keys for id_ in self._holders.get(key, ())} - {excluded.id}
        return [self._documents[id_] for id_ in sorted(ids)]

    def _copies_of(self, document: Document) -> list[Document]:
        return self._documents_with(keyed.duplicate_keys(document), document)

    def _original(self, document: Document) -> Document | None:
        return rules.find_original(document, self._copies_of(document), self._decisions(document))

    @staticmethod
    def _confirmed_match(first: Document, second: Document) -> ProposedMatch:
        child, parent = rules.order_pair(first, second)
        score_ = score(child, parent) if rules.is_parent(child, parent) else Score((), is_referenced=False)
        return ProposedMatch(child.id, parent.id, parent.kind, "reviewer", score_)

    def _others(self, document: Document, pairs: Collection[frozenset[UUID]]) -> list[Document]:
        return [self._documents[id_] for pair in pairs if document.id in pair for id_ in pair - {document.id}]

    def _decisions(self, document: Document) -> ManualDecisions:
        rejected = frozenset(other.id for other in self._others(document, self._rejected))
        return ManualDecisions(tuple(self._others(document, self._confirmed)), rejected)

    def _is_duplicate(self, document: Document) -> bool:
        return document.id in self._copies

    def _choose(self, child: Document) -> RuleDecision:
        named, decisions = self._documents_with(keyed.referenced_numbers(child), child), self._decisions(child)
        similar = self._documents_with(
            keyed.transaction_keys(child, rules.open_candidates(child, named, self._is_duplicate, decisions)), child
        )
        claims = {
            other.id: self._possible(other, self._documents_with(keyed.expected_number_keys(other), other))
            for other in rules.candidates_to_score(child, similar)
        }
        return rules.decide_matches(
            child, named, similar, self._copies_of(child), claims, self._is_duplicate, decisions
        )

    def _parents(self, child: UUID, kind: str) -> frozenset[UUID]:
        """Return the child's parents of type `kind`, plus any that a reviewer confirmed."""
        confirmed = self._others(self._documents[child], self._confirmed)
        return self._choices[child].parents(kind) | {other.id for other in confirmed if other.kind == kind}

    def _transitive_matches(self, child: Document) -> list[ProposedMatch]:
        own = self._choices[child.id]
        orders, deliveries = own.parents(ORDER), own.parents(DELIVERY)
        if not rules.has_transitive_matches(child) or (orders and deliveries) or child.id in self._copies:
            return []
        all_orders, all_deliveries = self._parents(child.id, ORDER), self._parents(child.id, DELIVERY)
        if not orders and not deliveries:
            if all_orders and all_deliveries:
                return []
            orders = all_orders
        related: list[Document] = []
        if orders:
            related = rules.matching_deliveries(child, self._possible(child, self._deliveries_of(all_orders)))
        else:
            ids = {order for delivery in all_deliveries for order in self._parents(delivery, ORDER)}
            related = self._possible(child, [self._documents[id_] for id_ in ids])
        if not orders and not deliveries and not related:
            referenced = self._possible(child, self._documents_with(keyed.shared_order_keys(child), child))
            related = rules.sibling_deliveries(
                child,
                [
                    document
                    for document in referenced
                    if document in self._deliveries and not self._parents(document.id, ORDER)
                ],
            )
        return [ProposedMatch(child.id, other.id, other.kind, "through", score(child, other)) for other in related]

    def _deliveries_of(self, orders: Collection[UUID]) -> list[Document]:
        return [delivery for delivery in self._deliveries if self._parents(delivery.id, ORDER) & frozenset(orders)]

    def _possible(self, child: Document, documents: Iterable[Document]) -> list[Document]:
        rejected = self._decisions(child).rejected
        return [other for other in documents if other.id not in rejected]
