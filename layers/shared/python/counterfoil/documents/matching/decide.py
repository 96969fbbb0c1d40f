"""Repeats the decisions that the arrival of a document affects.

A decision depends on a child and the holders of its blocking keys (see the package). When a document arrives or
changes, exactly these decisions are repeated, each from its complete input:

 1. the decision about the document;
 2. the decisions about documents that may have waited for it. These documents name its number, or they have no match by
    number and the document is a candidate. A new document affects only those for which it is a candidate
    (`rules.is_candidate_kind`). A changed document affects all of them, because its previous content is unknown;
 3. the decisions about its duplicates, because it may be their new original. If a document becomes a duplicate or is no
    longer a duplicate, also the decisions about children that were or could be linked to it;
 4. the decisions that follow from a delivery whose order changed: about children that name the delivery, and about
    children of its old and new order.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching import rules
from counterfoil.documents.matching.evidence import reasoning
from counterfoil.documents.matching.judge import JudgePrompt, apply_answer
from counterfoil.documents.matching.keys import PARENT_KINDS, Key
from counterfoil.documents.matching.normalize import DELIVERY, ORDER, Document
from counterfoil.documents.matching.reading import Context, Plan, run
from counterfoil.documents.matching.rules import ProposedMatch, RuleDecision
from counterfoil.documents.matching.score import score
from counterfoil.documents.matching.sql import Pair

_DIRECT_METHODS = ("reference", "content", "reviewer")
"""Methods of the links that `through` links follow."""


@dataclass(frozen=True, slots=True)
class MatchDecision:
    """Result of the decisions about a document and about affected documents."""

    added: Mapping[Pair, ProposedMatch]
    """Edges that are new or have new evidence."""
    removed: frozenset[Pair]
    choices: Mapping[UUID, RuleDecision]
    """Repeated decisions by document."""
    unmatched: frozenset[UUID]
    """Decided documents without an edge."""
    reasonings: Mapping[Pair, str]
    """Sentences that explain each of the `added` edges, except for edges by the LLM judge."""
    search_keys: Mapping[UUID, frozenset[Key]]
    """For each decided document, the keys by which similar documents find it."""
    pending_prompts: tuple[JudgePrompt, ...] = ()
    """Questions that the LLM judge has not answered."""

    def reason(self, id_: UUID) -> str | None:
        """Return the reason why a document has no match or is ambiguous, or None."""
        reason = self.choices[id_].reason
        return None if reason == rules.NO_PARTNER and id_ not in self.unmatched else reason


def decide(
    context: Context, document: Document, obsolete: Collection[Key] = (), *, is_new: bool = False
) -> Plan[MatchDecision]:
    """Decide about a document and every document that its arrival affects.

    `obsolete` are the keys that the document no longer has. `is_new` means that it had no keys before.
    """
    context.add(document)
    affected = yield from affected_documents(context, document, obsolete, is_new=is_new)
    yield from context.read_inputs(affected)
    reclassified = [
        other
        for other in affected
        if other.kind in keyed.DUPLICABLE_KINDS and context.is_duplicate(other) != context.was_duplicate(other)
    ]
    if reclassified:
        partners = yield from _partners_of(context, reclassified, None if is_new else document)
        affected = _distinct([*affected, *partners])
        yield from context.read_inputs(affected)
    choices = {child.id: context.decide(child) for child in affected}
    cases, verdicts = context.judge_prompts(choices)
    choices |= {id_: apply_answer(choices[id_], cases[id_], verdict) for id_, verdict in verdicts.items()}
    transitive_links = yield from _transitive_links(context, choices, document.id)
    outcome = yield from _compare(context, choices, transitive_links)
    return replace(outcome, pending_prompts=tuple(case for id_, case in cases.items() if id_ not in verdicts))


def affected_documents(
    context: Context, document: Document, obsolete: Collection[Key], *, is_new: bool = False
) -> Plan[list[Document]]:
    """Return the document, and the documents whose own decisions it may change.

    These are possible duplicates, documents that may have waited for it, linked children and rivals.

    `obsolete` are the keys that the document no longer has. A departing document loses all its keys.
    """
    copy_keys = keyed.duplicate_keys(document) | {key for key in obsolete if key.type.startswith("copy:")}
    waiting_keys = keyed.expected_number_keys(document) | {
        key for obsolete_key in obsolete for key in keyed.affected_keys(obsolete_key)
    }
    referenced_keys = keyed.referenced_numbers(document) | {
        key for obsolete_key in obsolete for key in keyed.referenced_number_keys(obsolete_key)
    }
    similarity_keys = keyed.similarity_keys(document)
    yield from context.read_holders(
        referenced_keys | copy_keys, waiting_keys | keyed.seeker_keys(document), count_only=similarity_keys
    )
    affected = (
        context.holders(copy_keys) | context.newly_crowded_holders(copy_keys) | context.waiting_holders(waiting_keys)
    )
    seeking = context.waiting_holders(keyed.seeker_keys(document)) - affected
    yield from context.read(affected | seeking | context.holders(referenced_keys), [document.id])
    linked = {end for edge in context.edges(document.id) for end in (edge.pair if edge.is_manual else (edge.child,))}
    if is_new and not context.newly_crowded_holders(similarity_keys):
        seeking = {other.id for other in context.documents(seeking) if rules.is_candidate_kind(other, document)}
    rivals = yield from _rivals(context, document, referenced_keys, affected)
    affected |= linked | seeking | rivals
    yield from context.load(affected)
    unconditional = linked | rivals | context.newly_crowded_holders(copy_keys) | (affected if obsolete else set())
    candidates = context.documents(affected, exclude=document.id)
    return _distinct(
        [document, *(other for other in candidates if other.id in unconditional or _may_affect(document, other))]
    )


def _rivals(
    context: Context, document: Document, referenced_keys: Collection[Key], affected: Collection[UUID]
) -> Plan[set[UUID]]:
    """Return documents of the same kind that may match the same parents.

    They are affected because the document uses part of the parents' quantities. The edges of these parents and of
    `affected` documents are prefetched.
    """
    referenced = context.holders(referenced_keys)
    shared_parents = [other for other in context.documents(referenced) if other.kind in keyed.SEARCHED_KINDS]
    search_keys = {key for other in shared_parents for key in keyed.seeker_keys(other)}
    ids = yield from context.read_seekers(search_keys, document.kind, prefetch=referenced | set(affected))
    yield from context.load(ids)
    return {
        rival.id
        for rival in context.documents(ids, exclude=document.id)
        if rules.candidates_to_score(rival, shared_parents)
    }


def _may_affect(document: Document, other: Document) -> bool:
    """Return True if a document's arrival may change the decision about another."""
    if other.kind == document.kind:
        return rules.is_same_document(document, other)
    return document.kind in PARENT_KINDS[other.kind]


def _partners_of(
    context: Context, reclassified: Collection[Document], changed: Document | None
) -> Plan[list[Document]]:
    """Return the children that are, or may be, linked to new or former duplicates.

    `changed` is the document whose previous content is unknown, if any.
    """
    yield from context.read_holders(
        waiting_keys={
            key for other in reclassified for key in keyed.expected_number_keys(other) | keyed.seeker_keys(other)
        }
    )
    waiting = {
        id_
        for other in reclassified
        for id_ in context.waiting_holders(keyed.expected_number_keys(other) | keyed.seeker_keys(other))
    }
    yield from context.load(waiting)
    ids = {edge.child for other in reclassified for edge in context.edges(other.id)}
    for other in reclassified:
        ids |= context.waiting_holders(keyed.expected_number_keys(other))
        seeking = context.documents(context.waiting_holders(keyed.seeker_keys(other)))
        ids |= {child.id for child in seeking if other is changed or rules.is_candidate_kind(child, other)}
    yield from context.read(ids, ids)
    kinds = {other.kind for other in reclassified}
    return [child for child in context.documents(ids) if kinds & set(PARENT_KINDS[child.kind])]


# -- links through an order or a delivery --------------------------------------------------------------------------


def _transitive_links(
    context: Context, choices: Mapping[UUID, RuleDecision], arrived_id: UUID
) -> Plan[dict[UUID, list[ProposedMatch]]]:
    """Return all `through` links of each child whose order or delivery is affected.

    A delivery affects the children of an order if it was added to the order, was removed from it, or has changed.
    """
    yield from context.read_edges(choices)
    state = _LinkState(context, choices)
    affected = set(choices)
    deliveries = [id_ for id_ in choices if (document := context.document(id_)) and document.kind == DELIVERY]
    moved_deliveries = [id_ for id_ in deliveries if state.stored(id_, ORDER) != state.parents(id_, ORDER)]
    orders = {order for id_ in moved_deliveries for order in state.stored(id_, ORDER) | state.parents(id_, ORDER)}
    if arrived_id in deliveries:
        moved_deliveries.append(arrived_id)
        orders |= state.parents(arrived_id, ORDER)
    orders |= {end for edge in context.edges(arrived_id) for end in edge.pair}  # it may have been an order
    yield from context.read_edges(orders)
    affected |= {child for order in orders for child in state.children(order)}
    affected |= {child for id_ in moved_deliveries for child in state.children(id_)}
    affected |= yield from context.read_siblings(context.documents(moved_deliveries))
    yield from context.read(affected, affected)
    children = [child for child in context.documents(affected) if rules.has_transitive_matches(child)]
    yield from context.read_edges(
        {parent for child in children for kind in (DELIVERY, ORDER) for parent in state.parents(child.id, kind)}
    )
    links = {}
    for child in children:
        links[child.id] = yield from _transitive_parents(context, state, child)
    return links


def _transitive_parents(context: Context, state: "_LinkState", child: Document) -> Plan[list[ProposedMatch]]:
    """Return the `through` links that follow a child's deliveries or its order.

    They lead to the orders of its deliveries, or to the deliveries of its order. If the order is missing, deliveries
    that name the same order are used. Links that reviewers confirmed are added, and do not replace other links.
    """
    orders, deliveries = state.decided(child.id, ORDER), state.decided(child.id, DELIVERY)
    if (orders and deliveries) or state.is_duplicate(child.id):
        return []
    if not orders and not deliveries:
        orders, deliveries = state.parents(child.id, ORDER), state.parents(child.id, DELIVERY)
        if orders and deliveries:
            return []
    parents: list[Document] = []
    if orders:
        ids = {other for order in state.parents(child.id, ORDER) for other in state.children(order)}
        parents = rules.matching_deliveries(child, (yield from context.candidates(child, ids, DELIVERY)))
    elif deliveries:
        ids = {order for delivery in state.parents(child.id, DELIVERY) for order in state.parents(delivery, ORDER)}
        parents = yield from context.candidates(child, ids, ORDER)
    if not orders and not parents and deliveries == state.confirmed(child.id, DELIVERY):
        ids = yield from context.read_siblings([child])
        siblings = yield from context.candidates(child, ids, DELIVERY)
        parents = rules.sibling_deliveries(child, [other for other in siblings if not state.parents(other.id, ORDER)])
    return [ProposedMatch(child.id, other.id, other.kind, "through", score(child, other)) for other in parents]


class _LinkState:
    """Children's links: from their new decisions, or else as stored.

    Excludes `through` links.
    """

    def __init__(self, context: Context, choices: Mapping[UUID, RuleDecision]) -> None:
        self._context = context
        self._choices = choices
        self._children: dict[UUID, set[UUID]] = {}
        for id_, choice in choices.items():
            for link in choice.links:
                self._children.setdefault(link.parent, set()).add(id_)

    def stored(self, child: UUID, kind: str) -> frozenset[UUID]:
        """Return the stored parents, including parents from reviewers' earlier decisions."""
        return frozenset(
            edge.parent for edge in self._context.decided_by(child) if edge.kind == kind and edge.by in _DIRECT_METHODS
        )

    def parents(self, child: UUID, kind: str) -> frozenset[UUID]:
        return self.decided(child, kind) | self.confirmed(child, kind)

    def decided(self, child: UUID, kind: str) -> frozenset[UUID]:
        """Return the parents that the child's decision links.

        Confirmed parents are included if the child names them.
        """
        choice = self._choices.get(child)
        if choice is not None:
            return choice.parents(kind)
        run(self._context.read_edges([child]))
        return self.stored(child, kind) - {
            other for other in self.confirmed(child, kind) if not self._context.references(child, other)
        }

    def confirmed(self, child: UUID, kind: str) -> frozenset[UUID]:
        """Return the parents that reviewers confirmed."""
        run(self._context.read_edges([child]))
        return frozenset(
            edge.parent for edge in self._context.decided_by(child) if edge.is_manual and edge.kind == kind
        )

    def is_duplicate(self, child: UUID) -> bool:
        choice = self._choices.get(child)
        if choice is not None:
            return any(link.by == "copy" for link in choice.links)
        document = self._context.document(child)
        return document is not None and self._context.was_duplicate(document)

    def children(self, parent: UUID) -> set[UUID]:
        run(self._context.read_edges([parent]))
        stored = {
            edge.child
            for edge in self._context.edges(parent)
            if edge.parent == parent
            and edge.by in _DIRECT_METHODS
            and (edge.is_manual or edge.child not in self._choices)
        }
        return stored | self._children.get(parent, set())


# -- changes --------------------------------------------------------------------------------------------------------


def _compare(
    context: Context, choices: Mapping[UUID, RuleDecision], transitive_links: Mapping[UUID, list[ProposedMatch]]
) -> Plan[MatchDecision]:
    """Compare the decisions with the stored edges."""
    yield from context.read_edges(choices)
    links: dict[Pair, ProposedMatch] = {}
    stored: set[Pair] = set()
    for child in choices.keys() | transitive_links.keys():
        choice = choices.get(child)
        own_edges = [
            edge for edge in context.decided_by(child) if not edge.is_manual and (choice or edge.by == "through")
        ]
        stored |= {edge.pair for edge in own_edges}
        for link in [*(choice.links if choice else ()), *transitive_links.get(child, ())]:
            links[Pair.of(link.child, link.parent)] = link
    added = {pair: link for pair, link in links.items() if not _is_unchanged(context, pair, link)}
    removed = frozenset(stored - links.keys())
    remaining = {pair for edges in context.edges_read.values() for pair in edges if pair not in removed} | links.keys()
    connected = {end for pair in remaining for end in pair}
    unmatched = frozenset(choices.keys() - connected)
    return MatchDecision(
        added,
        removed,
        choices,
        unmatched,
        {pair: _reasoning(context, link) for pair, link in added.items() if link.judgment is None},
        {child.id: context.search_keys(child) for child in context.documents(choices)},
    )


def _reasoning(context: Context, link: ProposedMatch) -> str:
    child, parent = (context.document(id_) for id_ in (link.child, link.parent))
    if child is None or parent is None:
        message = f"a document in the match {link.child} {link.parent} was not loaded"
        raise AssertionError(message)
    return reasoning(link, child, parent)


def _is_unchanged(context: Context, pair: Pair, link: ProposedMatch) -> bool:
    edge = context.edges_read[link.child].get(pair)
    question = link.judgment.question if link.judgment else None
    return edge is not None and (
        edge.is_manual
        or (edge.by == link.by and edge.question == question and abs(edge.score - link.score.total) < 1e-6)
    )


def _distinct(documents: Iterable[Document]) -> list[Document]:
    return list({document.id: document for document in documents}.values())
