"""Repeats the decisions that the arrival of a document affects.

A decision depends on a child and the holders of its blocking keys (see the package). When a document arrives or
changes, exactly these decisions are repeated, each from all its input:

 1. the decision of the document;
 2. those of documents that may have waited for it: they name its number, or they have no match by number and it is a
    candidate. A new document that they do not consider (`rules.is_candidate_kind`) does not affect them. The previous
    content of a changed document is unknown, so that it affects all of them;
 3. those of its duplicates, because it may be their new original. Then also the children that were, or could be, linked
    to a document that is now a duplicate;
 4. those that follow from a delivery whose order changed: children that name the delivery, and children of its old and
    new order.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching import rules
from counterfoil.documents.matching.judge import JudgePrompt, apply_answer
from counterfoil.documents.matching.keys import PARENT_KINDS, Key
from counterfoil.documents.matching.normalize import DELIVERY, ORDER, Document
from counterfoil.documents.matching.reading import Context, Plan, run
from counterfoil.documents.matching.rules import ProposedMatch, RuleDecision
from counterfoil.documents.matching.score import score
from counterfoil.documents.matching.sql import Pair

_OWN = ("reference", "content", "reviewer")
"""Kinds of links that are the basis of `through` links."""


@dataclass(frozen=True, slots=True)
class MatchDecision:
    """Result of a decision and of the decisions that it affects."""

    made: Mapping[Pair, ProposedMatch]
    """Edges that are new or have new evidence."""
    gone: frozenset[Pair]
    choices: Mapping[UUID, RuleDecision]
    """Repeated decisions by document."""
    alone: frozenset[UUID]
    """Decided documents without an edge."""
    sought: Mapping[UUID, frozenset[Key]]
    """For each decided document, the keys by which similar documents find it."""
    unasked: tuple[JudgePrompt, ...] = ()
    """Questions that the LLM judge has not answered."""

    def note(self, id_: UUID) -> str | None:
        """Return the reason of a decision. A document with a child does not count as unmatched."""
        found = self.choices[id_].reason
        return None if found == rules.NO_PARTNER and id_ not in self.alone else found


def decide(
    context: Context, document: Document, obsolete: Collection[Key] = (), *, is_new: bool = False
) -> Plan[MatchDecision]:
    """Decide about a document and every document that its arrival affects.

    `obsolete` are the keys that it no longer has. With `is_new`, it had no keys before.
    """
    context.add(document)
    again = yield from affected_documents(context, document, obsolete, is_new=is_new)
    yield from context.surround(again)
    displaced = [
        other
        for other in again
        if other.kind in keyed.DUPLICABLE_KINDS and context.is_copy(other) != context.was_copy(other)
    ]
    if displaced:
        partners = yield from _partners_of(context, displaced, None if is_new else document)
        again = _distinct([*again, *partners])
        yield from context.surround(again)
    choices = {child.id: context.choose(child) for child in again}
    cases, verdicts = context.cases(choices)
    choices |= {id_: apply_answer(choices[id_], cases[id_], verdict) for id_, verdict in verdicts.items()}
    through = yield from _through(context, choices, document.id)
    outcome = yield from _compare(context, choices, through)
    return replace(outcome, unasked=tuple(case for id_, case in cases.items() if id_ not in verdicts))


def affected_documents(
    context: Context, document: Document, obsolete: Collection[Key], *, is_new: bool = False
) -> Plan[list[Document]]:
    """Return the document, its possible duplicates, and documents that may have waited for it.

    `obsolete` are the keys that it no longer has: all keys of a document that leaves.
    """
    copies = keyed.duplicate_keys(document) | {key for key in obsolete if key.type.startswith("copy:")}
    waiting = keyed.expected_number_keys(document) | {key for gone in obsolete for key in keyed.was_rematched_key(gone)}
    claimed = keyed.referenced_numbers(document) | {
        key for gone in obsolete for key in keyed.referenced_number_keys(gone)
    }
    alike = keyed.similarity_keys(document)
    yield from context.follow(claimed | copies, waiting | keyed.seekers(document), counted=alike)
    again = context.holders(copies) | context.crowd(copies) | context.waiting(waiting)
    seekers = context.waiting(keyed.seekers(document)) - again
    yield from context.read(again | seekers | context.holders(claimed), [document.id])
    linked = {end for edge in context.edges(document.id) for end in (edge.pair if edge.by_person else (edge.child,))}
    if is_new and not context.crowd(alike):
        seekers = {other.id for other in context.documents(seekers) if rules.is_candidate_kind(other, document)}
    rivals = yield from _rivals(context, document, claimed, again)
    again |= linked | seekers | rivals
    yield from context.load(again)
    always = linked | rivals | context.crowd(copies) | (again if obsolete else set())
    others = context.documents(again, but=document.id)
    return _distinct([document, *(other for other in others if other.id in always or _concerns(document, other))])


def _rivals(context: Context, document: Document, claimed: Collection[Key], again: Collection[UUID]) -> Plan[set[UUID]]:
    """Return documents of the same kind that may match the same parents.

    The document uses a part of the parents' quantities. The edges of these parents, and of documents decided `again`,
    are prefetched.
    """
    named = context.holders(claimed)
    shared = [other for other in context.documents(named) if other.kind in keyed.SEARCHED_KINDS]
    wanted = {key for other in shared for key in keyed.seekers(other)}
    ids = yield from context.seekers(wanted, document.kind, ahead=named | set(again))
    yield from context.load(ids)
    return {rival.id for rival in context.documents(ids, but=document.id) if rules.candidates_to_score(rival, shared)}


def _concerns(document: Document, other: Document) -> bool:
    """Return True if the arrival of a document may change the decision of another one."""
    if other.kind == document.kind:
        return rules.is_same_document(document, other)
    return document.kind in PARENT_KINDS[other.kind]


def _partners_of(context: Context, displaced: Collection[Document], changed: Document | None) -> Plan[list[Document]]:
    """Return the children that are, or may be, linked to new or former duplicates.

    `changed` is a document whose previous content is unknown.
    """
    yield from context.follow(
        back={key for other in displaced for key in keyed.expected_number_keys(other) | keyed.seekers(other)}
    )
    found = {
        id_ for other in displaced for id_ in context.waiting(keyed.expected_number_keys(other) | keyed.seekers(other))
    }
    yield from context.load(found)
    ids = {edge.child for other in displaced for edge in context.edges(other.id)}
    for other in displaced:
        ids |= context.waiting(keyed.expected_number_keys(other))
        seekers = context.documents(context.waiting(keyed.seekers(other)))
        ids |= {child.id for child in seekers if other is changed or rules.is_candidate_kind(child, other)}
    yield from context.read(ids, ids)
    kinds = {other.kind for other in displaced}
    return [child for child in context.documents(ids) if kinds & set(PARENT_KINDS[child.kind])]


# -- links through an order or a delivery --------------------------------------------------------------------------


def _through(
    context: Context, choices: Mapping[UUID, RuleDecision], arrived: UUID
) -> Plan[dict[UUID, list[ProposedMatch]]]:
    """Return all `through` links of each child whose order or delivery is affected.

    A delivery affects the children of its order if it is new there, left it, or has changed.
    """
    yield from context.read_edges(choices)
    now = _Stand(context, choices)
    touched = set(choices)
    deliveries = [id_ for id_ in choices if (found := context.document(id_)) and found.kind == DELIVERY]
    moved = [id_ for id_ in deliveries if now.stored(id_, ORDER) != now.parents(id_, ORDER)]
    orders = {order for id_ in moved for order in now.stored(id_, ORDER) | now.parents(id_, ORDER)}
    if arrived in deliveries:
        moved.append(arrived)
        orders |= now.parents(arrived, ORDER)
    orders |= {end for edge in context.edges(arrived) for end in edge.pair}  # its previous kind is unknown
    yield from context.read_edges(orders)
    touched |= {child for order in orders for child in now.children(order)}
    touched |= {child for id_ in moved for child in now.children(id_)}
    touched |= yield from context.fellows(context.documents(moved))
    yield from context.read(touched, touched)
    children = [child for child in context.documents(touched) if rules.has_transitive_matches(child)]
    yield from context.read_edges(
        {parent for child in children for kind in (DELIVERY, ORDER) for parent in now.parents(child.id, kind)}
    )
    through = {}
    for child in children:
        through[child.id] = yield from _follow(context, now, child)
    return through


def _follow(context: Context, now: "_Stand", child: Document) -> Plan[list[ProposedMatch]]:
    """Return the orders of the deliveries that a child names, or its deliveries from its order.

    If the order is missing, deliveries that name the same order count. Links that reviewers confirmed are added and do
    not replace others.
    """
    orders, deliveries = now.decided(child.id, ORDER), now.decided(child.id, DELIVERY)
    if (orders and deliveries) or now.is_copy(child.id):
        return []
    if not orders and not deliveries:
        orders, deliveries = now.parents(child.id, ORDER), now.parents(child.id, DELIVERY)
        if orders and deliveries:
            return []
    found: list[Document] = []
    if orders:
        ids = {other for order in now.parents(child.id, ORDER) for other in now.children(order)}
        found = rules.matching_deliveries(child, (yield from context.candidates(child, ids, DELIVERY)))
    elif deliveries:
        ids = {order for delivery in now.parents(child.id, DELIVERY) for order in now.parents(delivery, ORDER)}
        found = yield from context.candidates(child, ids, ORDER)
    if not orders and not found and deliveries == now.confirmed(child.id, DELIVERY):
        ids = yield from context.fellows([child])
        fellows = yield from context.candidates(child, ids, DELIVERY)
        found = rules.sibling_deliveries(child, [other for other in fellows if not now.parents(other.id, ORDER)])
    return [ProposedMatch(child.id, other.id, other.kind, "through", score(child, other)) for other in found]


class _Stand:
    """Links by the decision of the child, as decided now or as stored. `through` links are not included."""

    def __init__(self, context: Context, choices: Mapping[UUID, RuleDecision]) -> None:
        self._context = context
        self._choices = choices
        self._children: dict[UUID, set[UUID]] = {}
        for id_, choice in choices.items():
            for link in choice.links:
                self._children.setdefault(link.parent, set()).add(id_)

    def stored(self, child: UUID, kind: str) -> frozenset[UUID]:
        """Return the stored parents, including those of earlier decisions by reviewers."""
        return frozenset(
            edge.parent for edge in self._context.decided_by(child) if edge.kind == kind and edge.by in _OWN
        )

    def parents(self, child: UUID, kind: str) -> frozenset[UUID]:
        return self.decided(child, kind) | self.confirmed(child, kind)

    def decided(self, child: UUID, kind: str) -> frozenset[UUID]:
        """Return the parents by the decision of the child, which includes confirmed ones that it names."""
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
            edge.parent for edge in self._context.decided_by(child) if edge.by_person and edge.kind == kind
        )

    def is_copy(self, child: UUID) -> bool:
        choice = self._choices.get(child)
        if choice is not None:
            return any(link.by == "copy" for link in choice.links)
        found = self._context.document(child)
        return found is not None and self._context.was_copy(found)

    def children(self, parent: UUID) -> set[UUID]:
        run(self._context.read_edges([parent]))
        kept = {
            edge.child
            for edge in self._context.edges(parent)
            if edge.parent == parent and edge.by in _OWN and (edge.by_person or edge.child not in self._choices)
        }
        return kept | self._children.get(parent, set())


# -- changes --------------------------------------------------------------------------------------------------------


def _compare(
    context: Context, choices: Mapping[UUID, RuleDecision], through: Mapping[UUID, list[ProposedMatch]]
) -> Plan[MatchDecision]:
    """Compare the decisions with the stored edges."""
    yield from context.read_edges(choices)
    links: dict[Pair, ProposedMatch] = {}
    stored: set[Pair] = set()
    for child in choices.keys() | through.keys():
        choice = choices.get(child)
        owned = [edge for edge in context.decided_by(child) if not edge.by_person and (choice or edge.by == "through")]
        stored |= {edge.pair for edge in owned}
        for link in [*(choice.links if choice else ()), *through.get(child, ())]:
            links[Pair.of(link.child, link.parent)] = link
    made = {pair: link for pair, link in links.items() if not _same(context, pair, link)}
    gone = frozenset(stored - links.keys())
    standing = {pair for read in context.edges_read.values() for pair in read if pair not in gone} | links.keys()
    connected = {end for pair in standing for end in pair}
    alone = frozenset(choices.keys() - connected)
    return MatchDecision(
        made, gone, choices, alone, {child.id: context.seeking(child) for child in context.documents(choices)}
    )


def _same(context: Context, pair: Pair, link: ProposedMatch) -> bool:
    edge = context.edges_read[link.child].get(pair)
    question = link.judged.question if link.judged else None
    return edge is not None and (
        edge.by_person
        or (edge.by == link.by and edge.question == question and abs(edge.score - link.score.total) < 1e-6)
    )


def _distinct(documents: Iterable[Document]) -> list[Document]:
    return list({document.id: document for document in documents}.values())
