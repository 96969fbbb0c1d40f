"""Which decisions a document's arrival touches, and what they are now.

Every decision depends on a child and on what its keys lead to (see the package). When a document arrives, or has new
data, the decisions of these children are made again, each from all that it depends on, and no others:

 1. its own;
 2. those that may have waited for it: they name its number, or no number led them to a partner and it may be theirs.
    Whoever does not consider it (`rules.considers`) is not touched by one that was not here before; of one that was
    here, nobody knows any more what it said;
 3. those of its copies: it may be the original of what was an original so far. Where that is so, also those of the
    children that were, or might be, linked to what is a copy now;
 4. what follows from a delivery's order, where that changed: the children that name the delivery, and those linked to
    the order that it came to or left.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching import rules
from counterfoil.documents.matching.judge import Case, settled
from counterfoil.documents.matching.keys import PARENTS, Key
from counterfoil.documents.matching.normalise import DELIVERY, ORDER, Document
from counterfoil.documents.matching.reading import Context, Plan, run
from counterfoil.documents.matching.rules import Choice, Link
from counterfoil.documents.matching.score import score
from counterfoil.documents.matching.sql import Pair

_OWN = ("reference", "content", "person")
"""Links that others can follow from."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What changes."""

    made: Mapping[Pair, Link]
    """Edges that were not there, or whose evidence is another one."""
    gone: frozenset[Pair]
    choices: Mapping[UUID, Choice]
    """The decisions made again."""
    alone: frozenset[UUID]
    """Of the documents decided again: those without any edge."""
    sought: Mapping[UUID, frozenset[Key]]
    """For each document decided again, by which keys similar documents find it."""
    unasked: tuple[Case, ...] = ()
    """What a language model could decide, and has not yet."""

    def note(self, id_: UUID) -> str | None:
        """Return the reason of a decision. A document with a child has a partner even if it chose none itself."""
        found = self.choices[id_].reason
        return None if found == rules.NO_PARTNER and id_ not in self.alone else found


def decide(
    context: Context, document: Document, obsolete: Collection[Key] = (), *, is_new: bool = False
) -> Plan[Outcome]:
    """Decide a document and all that its arrival touches.

    `obsolete` are keys that it has no more, `is_new` says that it never had any.
    """
    context.add(document)
    again = yield from touched(context, document, obsolete, is_new=is_new)
    yield from context.surround(again)
    displaced = [
        other for other in again if other.kind in keyed.COPIED and context.is_copy(other) != context.was_copy(other)
    ]
    if displaced:
        partners = yield from _partners_of(context, displaced, None if is_new else document)
        again = _distinct([*again, *partners])
        yield from context.surround(again)
    choices = {child.id: context.choose(child) for child in again}
    cases, verdicts = context.cases(choices)
    choices |= {id_: settled(choices[id_], cases[id_], verdict) for id_, verdict in verdicts.items()}
    through = yield from _through(context, choices, document.id)
    outcome = yield from _compare(context, choices, through)
    return replace(outcome, unasked=tuple(case for id_, case in cases.items() if id_ not in verdicts))


def touched(
    context: Context, document: Document, obsolete: Collection[Key], *, is_new: bool = False
) -> Plan[list[Document]]:
    """The document, its possible copies, and those that may have waited for it.

    `obsolete` are keys that it has no more: all of them, where it leaves.
    """
    copies = keyed.copies(document) | {key for key in obsolete if key.type.startswith("copy:")}
    waiting = keyed.waiting(document) | {key for gone in obsolete for key in keyed.forsaken(gone)}
    claimed = keyed.numbers_named(document) | {key for gone in obsolete for key in keyed.claimed(gone)}
    alike = keyed.alike(document)
    yield from context.follow(claimed | copies, waiting | keyed.seekers(document), counted=alike)
    again = context.holders(copies) | context.crowd(copies) | context.waiting(waiting)
    seekers = context.waiting(keyed.seekers(document)) - again
    yield from context.read(again | seekers | context.holders(claimed), [document.id])
    linked = {end for edge in context.edges(document.id) for end in (edge.pair if edge.by_person else (edge.child,))}
    if is_new and not context.crowd(alike):
        seekers = {other.id for other in context.documents(seekers) if rules.considers(other, document)}
    rivals = yield from _rivals(context, document, claimed, again)
    again |= linked | seekers | rivals
    yield from context.load(again)
    always = linked | rivals | context.crowd(copies) | (again if obsolete else set())
    others = context.documents(again, but=document.id)
    return _distinct([document, *(other for other in others if other.id in always or _concerns(document, other))])


def _rivals(context: Context, document: Document, claimed: Collection[Key], again: Collection[UUID]) -> Plan[set[UUID]]:
    """Those of its kind that may belong to what a document names, or named: it takes a share of that.

    The edges of what it names, and of those decided `again`, are read ahead.
    """
    named = context.holders(claimed)
    shared = [other for other in context.documents(named) if other.kind in keyed.SOUGHT]
    wanted = {key for other in shared for key in keyed.seekers(other)}
    ids = yield from context.seekers(wanted, document.kind, ahead=named | set(again))
    yield from context.load(ids)
    return {rival.id for rival in context.documents(ids, but=document.id) if rules.weighed(rival, shared)}


def _concerns(document: Document, other: Document) -> bool:
    """Whether a document's arrival may change another one's decision."""
    if other.kind == document.kind:
        return rules.same_again(document, other)
    return document.kind in PARENTS[other.kind]


def _partners_of(context: Context, displaced: Collection[Document], changed: Document | None) -> Plan[list[Document]]:
    """The children that are, or may come to be, linked to documents that became copies, or are none any more.

    `changed` is the one of which nobody knows what it said before.
    """
    yield from context.follow(back={key for other in displaced for key in keyed.waiting(other) | keyed.seekers(other)})
    found = {id_ for other in displaced for id_ in context.waiting(keyed.waiting(other) | keyed.seekers(other))}
    yield from context.load(found)
    ids = {edge.child for other in displaced for edge in context.edges(other.id)}
    for other in displaced:
        ids |= context.waiting(keyed.waiting(other))
        seekers = context.documents(context.waiting(keyed.seekers(other)))
        ids |= {child.id for child in seekers if other is changed or rules.considers(child, other)}
    yield from context.read(ids, ids)
    kinds = {other.kind for other in displaced}
    return [child for child in context.documents(ids) if kinds & set(PARENTS[child.kind])]


# -- what follows from others' decisions ----------------------------------------------------------------------------


def _through(context: Context, choices: Mapping[UUID, Choice], arrived: UUID) -> Plan[dict[UUID, list[Link]]]:
    """The links that follow from others' decisions: for each child whose order or delivery is touched, all of them.

    A delivery touches its order's children where it came to the order, left it, or may say something else than before.
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
    orders |= {end for edge in context.edges(arrived) for end in edge.pair}  # whatever it was before
    yield from context.read_edges(orders)
    touched |= {child for order in orders for child in now.children(order)}
    touched |= {child for id_ in moved for child in now.children(id_)}
    touched |= yield from context.fellows(context.documents(moved))
    yield from context.read(touched, touched)
    children = [child for child in context.documents(touched) if rules.follows_through(child)]
    yield from context.read_edges(
        {parent for child in children for kind in (DELIVERY, ORDER) for parent in now.parents(child.id, kind)}
    )
    through = {}
    for child in children:
        through[child.id] = yield from _follow(context, now, child)
    return through


def _follow(context: Context, now: "_Stand", child: Document) -> Plan[list[Link]]:
    """The orders of the deliveries that a child names, or the deliveries of its order that belong to it.

    Where the order is not here, those of the deliveries that name it as well. What a person confirmed beside that adds
    to it: who confirms one of several links keeps the others.
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
        found = rules.belonging(child, (yield from context.candidates(child, ids, DELIVERY)))
    elif deliveries:
        ids = {order for delivery in now.parents(child.id, DELIVERY) for order in now.parents(delivery, ORDER)}
        found = yield from context.candidates(child, ids, ORDER)
    if not orders and not found and deliveries == now.confirmed(child.id, DELIVERY):
        ids = yield from context.fellows([child])
        fellows = yield from context.candidates(child, ids, DELIVERY)
        found = rules.fellows(child, [other for other in fellows if not now.parents(other.id, ORDER)])
    return [Link(child.id, other.id, other.kind, "through", score(child, other)) for other in found]


class _Stand:
    """Who is linked to whom by its own decision: as decided now, else as stored. What follows from others is not."""

    def __init__(self, context: Context, choices: Mapping[UUID, Choice]) -> None:
        self._context = context
        self._choices = choices
        self._children: dict[UUID, set[UUID]] = {}
        for id_, choice in choices.items():
            for link in choice.links:
                self._children.setdefault(link.parent, set()).add(id_)

    def stored(self, child: UUID, kind: str) -> frozenset[UUID]:
        """As they were when all this was read: a person's among them, even one that is not the person's any more."""
        return frozenset(
            edge.parent for edge in self._context.decided_by(child) if edge.kind == kind and edge.by in _OWN
        )

    def parents(self, child: UUID, kind: str) -> frozenset[UUID]:
        return self.decided(child, kind) | self.confirmed(child, kind)

    def decided(self, child: UUID, kind: str) -> frozenset[UUID]:
        """By the child's own decision: what a person confirmed is part of it where the child names it."""
        choice = self._choices.get(child)
        if choice is not None:
            return choice.parents(kind)
        run(self._context.read_edges([child]))
        return self.stored(child, kind) - {
            other for other in self.confirmed(child, kind) if not self._context.names(child, other)
        }

    def confirmed(self, child: UUID, kind: str) -> frozenset[UUID]:
        """By a person."""
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


# -- what changes ---------------------------------------------------------------------------------------------------


def _compare(context: Context, choices: Mapping[UUID, Choice], through: Mapping[UUID, list[Link]]) -> Plan[Outcome]:
    """Hold what is decided against what is stored."""
    yield from context.read_edges(choices)
    links: dict[Pair, Link] = {}
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
    return Outcome(
        made, gone, choices, alone, {child.id: context.seeking(child) for child in context.documents(choices)}
    )


def _same(context: Context, pair: Pair, link: Link) -> bool:
    edge = context.edges_read[link.child].get(pair)
    question = link.judged.question if link.judged else None
    return edge is not None and (
        edge.by_person
        or (edge.by == link.by and edge.question == question and abs(edge.score - link.score.total) < 1e-6)
    )


def _distinct(documents: Iterable[Document]) -> list[Document]:
    return list({document.id: document for document in documents}.values())
