"""What is decided from scores: copies, partners, deliveries of an order, and why a document stays alone. Pure.

A decision belongs to the child of a link (`keys.PARENTS`) and depends on that child and its candidates alone. Three
rules make links, and a fourth follows from theirs:

    copy       a document that is an earlier one again is linked to the first of its copies, and to nothing else
    reference  the child names the parent's number, and the rest does not speak against it
    content    the child names no such number, and one candidate fits clearly better than all others
    through    what a child's order or delivery note is linked to: the deliveries that an invoice for the order bills,
               the order of the delivery note that an invoice names

What a person said comes first (`Said`): whom a document was said not to belong to is no candidate of any rule; where it
was said whom it belongs to, its number, or the kind of parent, is settled. The link itself is the person's.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import combinations
from typing import Literal
from uuid import UUID

from counterfoil.documents.matching.compare import Duplicate, Feature, close, match_lines
from counterfoil.documents.matching.keys import COPIED, PARENTS, SOUGHT
from counterfoil.documents.matching.normalise import CONTRACT, DELIVERY, INVOICE, ORDER, RECEIPT, Document, Reference
from counterfoil.documents.matching.score import DOUBTFUL, SURE, Evidence, Score, chances, same_parties, score, settles

_COUNTS = {2: "Two", 3: "Three", 4: "Four"}

By = Literal["copy", "reference", "content", "through", "person"]

_CONSIDERED = -10.0
"""Bits: what fits worse, before it is looked at what others leave of it, is no candidate."""
_ALIKE = 8.0
"""Candidates of which one is so many times likelier than another are told apart."""
_COPY_DAYS = 3
_COPY_UNDER_NEW_NUMBER_DAYS = 27
"""Shorter than a month: the same amount every month is not a copy."""
_CHANGE_DAYS = 60
"""How long after an order its change may be dated. Later, the number has been used again."""
_BEFORE_DELIVERY, _AFTER_DELIVERY = -14, 120
"""Days by which a document about a delivery may be dated before and after it."""
_MAX_SUBSET = 10
"""Deliveries of an order among which a sum is looked for."""
_WORDS = {
    INVOICE: "invoice",
    ORDER: "order",
    DELIVERY: "delivery note",
    CONTRACT: "contract",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What somebody said about a link that rules leave in doubt."""

    confidence: str
    reasoning: str
    question: str
    """Which question it answers, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link that a child's decision makes."""

    child: UUID
    parent: UUID
    kind: str
    """The parent's kind."""
    by: By
    score: Score
    chance: float = 1.0
    """The probability that it is right."""
    judged: Judgement | None = None
    """None where rules alone decided."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Candidates of which one at most is the child's parent, and rules cannot tell which, or whether any is."""

    kinds: tuple[str, ...]
    """The candidates' kinds."""
    number: str | None
    """What the child names, where it names a number."""
    candidates: tuple[Link, ...]
    """The best first."""
    reason: str | None = None
    """A sentence for people, where they fit equally."""
    unasked: str | None = None
    """Why no language model was asked that could have been, in a sentence for people."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A child's decision, before what follows from it."""

    links: tuple[Link, ...] = ()
    reason: str | None = None
    """Why it found none, or why it is in doubt: a sentence for people. None where there is nothing to say."""
    doubts: tuple[Doubt, ...] = ()
    """What the rules leave open."""

    def parents(self, kind: str) -> frozenset[UUID]:
        """The documents of `kind` that the child is linked to."""
        return frozenset(link.parent for link in self.links if link.kind == kind)


def open_doubts(choice: Choice) -> tuple[Doubt, ...]:
    """The doubts that no link of the decision answers."""
    parents = {link.parent for link in choice.links}
    return tuple(doubt for doubt in choice.doubts if not any(link.parent in parents for link in doubt.candidates))


@dataclass(frozen=True, slots=True)
class Said:
    """What people said about one document."""

    confirmed: tuple[Document, ...] = ()
    """Documents that it belongs together with."""
    rejected: frozenset[UUID] = frozenset()
    """Documents that it does not belong together with."""


NOTHING_SAID = Said()
NO_PARTNER = "No partner found."
Candidates = Collection[Document]
_Scored = tuple[Score, Document]
IsCopy = Callable[[Document], bool]


def arrival(document: Document) -> tuple[object, ...]:
    """Documents in the order in which copies are told from their original."""
    return document.received_at, document.id


# -- copies ---------------------------------------------------------------------------------------------------------


def original(document: Document, candidates: Candidates, said: Said = NOTHING_SAID) -> Document | None:
    """The first of the documents that this one is a copy of, or None where it is the first itself."""
    earlier = (
        other
        for other in (*candidates, *said.confirmed)
        if other.id not in said.rejected and _rank(other) < _rank(document) and same_again(document, other)
    )
    return min(earlier, key=_rank, default=None)


def _rank(document: Document) -> tuple[object, ...]:
    """Copies in the order of their claim to be the original: what was issued first; of one bill, what was read best.

    A clerk checks the figures of the original, and a bad scan of it that came first must not stand for it.
    """
    day = document.day if document.day is not None else date.max.toordinal()
    return day, document.misread if document.kind == INVOICE else 0, *arrival(document)


def same_again(a: Document, b: Document) -> bool:
    """Whether two documents are one: a duplicate invoice and its original, an order and its change. Symmetric."""
    if a.kind != b.kind or a.kind not in COPIED or a.number is None or b.number is None:
        return False
    return _alike(a, b, a.number, b.number) and same_parties(a, b) > 0


def _alike(a: Document, b: Document, number: Reference, other: Reference) -> bool:
    """Whether two documents of a kind say the same, whoever they are between."""
    days = None if a.day is None or b.day is None else abs(a.day - b.day)
    same_number = bool(number.folded & other.folded)
    if a.kind == ORDER:
        return same_number and (days is None or days <= _CHANGE_DAYS) and _much_alike(a, b)
    if a.net != b.net or (a.gross is not None and b.gross is not None and abs(a.gross - b.gross) > 1):
        return False
    if same_number:
        return days is None or days <= _COPY_DAYS
    return days is not None and days <= _COPY_UNDER_NEW_NUMBER_DAYS and _same_bill(a, b)


def _much_alike(a: Document, b: Document) -> bool:
    fewer = min(len(a.lines), len(b.lines))
    return fewer == 0 or 2 * len(match_lines(a.lines, b.lines)) >= fewer


def _same_bill(a: Document, b: Document) -> bool:
    """The same items, quantities and prices, for the same order and the same deliveries."""
    for kind in (ORDER, DELIVERY):
        mine, theirs = _all_forms(a, kind), _all_forms(b, kind)
        if bool(mine) != bool(theirs) or (mine and not mine & theirs):
            return False
    if len(a.lines) != len(b.lines) or a.amounts != b.amounts:
        return False
    matched = match_lines(a.lines, b.lines)
    return len(matched) == len(a.lines) and all(
        close(pair.child.quantity, pair.parent.quantity) and close(pair.child.price, pair.parent.price)
        for pair in matched
    )


def _all_forms(document: Document, kind: str) -> frozenset[str]:
    return frozenset(form for named in document.named.get(kind, ()) for form in named.folded)


def is_parent(child: Document, other: Document) -> bool:
    """Whether a document of the child's kind can belong to the other."""
    return other.kind in PARENTS[child.kind]


def ends(one: Document, other: Document) -> tuple[Document, Document]:
    """Child and parent: by their kinds, of one kind the later is the child of the earlier."""
    if is_parent(one, other):
        return one, other
    if is_parent(other, one):
        return other, one
    return (one, other) if _rank(other) < _rank(one) else (other, one)


# -- partners -------------------------------------------------------------------------------------------------------


def choose(
    child: Document,
    named: Candidates,
    similar: Candidates,
    copies: Candidates,
    claims: Mapping[UUID, Candidates],
    is_copy: IsCopy,
    said: Said = NOTHING_SAID,
) -> Choice:
    """Decide a child's partners. Those that a person confirmed are among them where the child names them.

    `named` are the documents that bear a number which the child names, `similar` those of the kinds that `undecided`
    asks for, of which `considers` leaves the candidates, `copies` those that may be the same document. None of them is
    linked to where `is_copy` holds. `claims` are the documents that name those of the similar ones that `weighed`
    finds.
    """
    if first := original(child, copies, said):
        level = Duplicate.SAME_NUMBER if _same_number(child, first) else Duplicate.SAME_CONTENT
        evidence = Evidence(Feature.DUPLICATE, level, 20.0)
        return Choice((Link(child.id, first.id, first.kind, "copy", Score((evidence,), named=True)),))
    bearers = _possible(named, is_copy, said)
    decided = _by_reference(child, bearers, said)
    if kinds := _undecided(child, decided.links, said):
        like = _possible((other for other in similar if considers(child, other)), is_copy, said)
        others = {other.id: other for other in (*like, *bearers) if other.kind in kinds}
        decided = _overruled(decided, _by_content(child, others.values(), claims))
    reasons = [doubt.reason for doubt in decided.doubts if doubt.reason]
    if not decided.links and not _confirmed(child, said):
        reasons = reasons or [_not_here(child, named, said)]
    return replace(decided, reason=reasons[0] if reasons else None)


def undecided(child: Document, named: Candidates, is_copy: IsCopy, said: Said = NOTHING_SAID) -> tuple[str, ...]:
    """The kinds of parent for which a child's numbers decide nothing, and similar documents have to be looked at."""
    return _undecided(child, _by_reference(child, _possible(named, is_copy, said), said).links, said)


def considers(child: Document, other: Document) -> bool:
    """Whether a child may be linked to a document: it names its number, or the two go together at all."""
    return names(child, other) or score(child, other).total >= _CONSIDERED


def weighed(child: Document, similar: Candidates) -> list[Document]:
    """Those of the similar documents of which it makes a difference what others leave of them."""
    return [
        other
        for other in similar
        if other.kind != CONTRACT and not names(child, other) and score(child, other).total >= _CONSIDERED
    ]


def _possible(candidates: Iterable[Document], is_copy: IsCopy, said: Said) -> list[Document]:
    return [other for other in candidates if other.id not in said.rejected and not is_copy(other)]


def names(child: Document, parent: Document) -> bool:
    """Whether a child names its parent's number."""
    return _reached(child.named.get(parent.kind, ()), parent)


def _confirmed(child: Document, said: Said) -> list[Document]:
    """Those that a person said the child belongs to."""
    return [other for other in said.confirmed if other.kind in PARENTS[child.kind]]


def _undecided(child: Document, links: Sequence[Link], said: Said) -> tuple[str, ...]:
    confirmed = {parent.kind for parent in _confirmed(child, said)}
    found = confirmed | {link.kind for link in links}
    kinds = []
    for kind in PARENTS[child.kind]:
        if kind not in SOUGHT or kind in confirmed or len(child.named.get(kind, ())) > 1:
            continue  # who names several has several, and what is alike is one
        if kind in found and all(settles(link.score.total) for link in links if link.kind == kind):
            continue
        if kind == ORDER and found & {DELIVERY, CONTRACT}:
            continue  # the order is that of the delivery; a contract can do without one
        if kind == CONTRACT and (
            child.named.get(CONTRACT) or (child.kind == INVOICE and (child.named.get(ORDER) or found))
        ):
            continue
        kinds.append(kind)
    return tuple(kinds)


def _by_reference(child: Document, candidates: Sequence[Document], said: Said) -> Choice:
    """The bearer of each number that the child names: whom a person said, where it bears the number.

    A confirmed parent that bears none of these numbers takes the place of what is in doubt: one was misread, or wrong.
    """
    links: dict[UUID, Link] = {}
    doubts: list[Doubt] = []
    for kind in PARENTS[child.kind]:
        references = child.named.get(kind, ())
        scored = [
            (score(child, other), other) for other in candidates if other.kind == kind and _reached(references, other)
        ]
        confirmed = [other for other in _confirmed(child, said) if other.kind == kind]
        is_settled = any(not _reached(references, other) for other in confirmed)
        links |= {other.id: _named(child, other) for other in confirmed if _reached(references, other)}
        for reference in references:
            if any(_reached([reference], other) for other in confirmed):
                continue
            best, doubt = _one_of(child, [pair for pair in scored if _reached([reference], pair[1])], reference.text)
            if best:
                links[best.parent] = best
            elif doubt and not is_settled:
                doubts.append(doubt)
    return Choice(tuple(links.values()), None, tuple(doubts))


def _named(child: Document, parent: Document) -> Link:
    return Link(child.id, parent.id, parent.kind, "reference", score(child, parent))


def _by_content(child: Document, candidates: Iterable[Document], claims: Mapping[UUID, Candidates]) -> Choice:
    """The best of all candidates: without a number, an invoice may as well be for an order as for a contract."""
    scored = [(score(child, other, claims.get(other.id, ())), other) for other in candidates]
    named = {reference.text for _, other in scored for reference in child.named.get(other.kind, ())}
    best, doubt = _one_of(child, scored, ", ".join(sorted(named)) or None)
    return Choice((best,) if best else (), None, (doubt,) if doubt else ())


def _overruled(by_number: Choice, by_content: Choice) -> Choice:
    """What similar documents say takes the place of what a number of the same kind said without settling it."""
    heard = {link.kind for link in by_content.links} | {kind for doubt in by_content.doubts for kind in doubt.kinds}
    return Choice(
        (*(link for link in by_number.links if link.kind not in heard), *by_content.links),
        None,
        (*(doubt for doubt in by_number.doubts if not heard & set(doubt.kinds)), *by_content.doubts),
    )


def _one_of(child: Document, scored: Sequence[_Scored], number: str | None) -> tuple[Link | None, Doubt | None]:
    """The one of the candidates that is surely meant; else those of which nobody can tell."""
    ranked = sorted(
        zip(chances([found for found, _ in scored]), scored, strict=True),
        key=lambda item: (-item[0], -item[1][0].total, arrival(item[1][1])),
    )
    if not ranked:
        return None, None
    (chance, best), *_ = ranked
    if chance >= SURE:
        return _link(child, best, chance), None
    if sum(share for share, _ in ranked) < DOUBTFUL:
        return None, None
    return None, _doubt(child, [(share, pair) for share, pair in ranked if share * _ALIKE >= chance], number)


def _link(child: Document, found: _Scored, chance: float) -> Link:
    return Link(child.id, found[1].id, found[1].kind, "reference" if found[0].named else "content", found[0], chance)


def _doubt(child: Document, found: Sequence[tuple[float, _Scored]], number: str | None) -> Doubt:
    kinds = tuple(sorted({other.kind for _, (_, other) in found}))
    reason = _equally([other for _, (_, other) in found]) if len(found) > 1 else None
    return Doubt(kinds, number, tuple(_link(child, pair, chance) for chance, pair in found), reason)


def _reached(references: Iterable[Reference], other: Document) -> bool:
    """Whether one of the numbers is the other document's own, as far as can be read."""
    own = other.number
    return own is not None and any(
        named.folded & own.folded or (named.tail is not None and named.tail == own.tail) for named in references
    )


def _equally(equal: Sequence[Document]) -> str:
    named = ", ".join(
        f"{_WORDS[other.kind]} {other.number.text if other.number else 'without a number'}" for other in equal[:3]
    )
    return f"{_COUNTS.get(len(equal), str(len(equal)))} documents fit equally: {named}."


def _not_here(child: Document, named: Candidates, said: Said) -> str:
    """Why a document found no partner."""
    for kind in PARENTS[child.kind]:
        for reference in child.named.get(kind, ()):
            what = f"{_WORDS[kind]} {reference.text}"
            here = {other.id for other in named if other.kind == kind and _reached([reference], other)}
            if here and here <= said.rejected:
                return f"Names {what}, but a person said that it is not what is here under that number."
            if here:
                return f"Names {what}, but what is here under that number does not fit."
            return f"Names {what}, which is not here."
    return NO_PARTNER


def _same_number(a: Document, b: Document) -> bool:
    return a.number is not None and b.number is not None and bool(a.number.folded & b.number.folded)


# -- through an order or a delivery ---------------------------------------------------------------------------------


def follows_through(child: Document) -> bool:
    """Whether links of this child can follow from others'."""
    return child.kind in (INVOICE, RECEIPT)


def fellows(child: Document, deliveries: Sequence[Document]) -> list[Document]:
    """Those of the deliveries for an order which is not here that belong to a child which names that order, too."""
    return belonging(child, [other for other in deliveries if same_parties(child, other) > 0])


def belonging(child: Document, deliveries: Sequence[Document]) -> list[Document]:
    """Those of an order's deliveries that an invoice for the order bills, or that a receipt for it confirms.

    Quantities decide, on the lines that any of the deliveries holds (an invoice may bill services as well): the one
    delivery whose quantities are the child's; else all, where an invoice bills no less than they hold together; else
    those that add up to its quantities, where only one set of them does; else the only delivery, if most of its lines
    are there.
    """
    held = [(other, found) for other in sorted(deliveries, key=arrival) if (found := _held(child, other))]
    lines = {index for _, found in held for index in found}
    if child.kind == RECEIPT:
        lines = set(range(len(child.lines)))
    equal = [other for other, found in held if _compare(child, lines, [found]) == 0]
    if equal:
        same_day = [other for other in equal if other.day == child.day]
        alone = same_day if len(equal) > 1 and child.kind == RECEIPT else equal
        return alone if len(alone) == 1 else []
    if len(held) == 1:
        return [held[0][0]] if len(deliveries) == 1 or _compare(child, lines, [held[0][1]]) is not None else []
    if child.kind == RECEIPT or not held:
        return []
    if _compare(child, lines, [found for _, found in held]) is not None:
        return [other for other, _ in held]
    sums = [
        [other for other, _ in some]
        for size in range(2, min(len(held), _MAX_SUBSET))
        for some in combinations(held[:_MAX_SUBSET], size)
        if _compare(child, lines, [found for _, found in some]) == 0
    ]
    return sums[0] if len(sums) == 1 else []


def _held(child: Document, delivery: Document) -> dict[int, float]:
    """What a delivery holds of the child's lines, by their index; nothing where most of it is not the child's."""
    if (
        child.day is not None
        and delivery.day is not None
        and not _BEFORE_DELIVERY <= child.day - delivery.day <= _AFTER_DELIVERY
    ):
        return {}
    matched = match_lines(delivery.lines, child.lines, priced=False)
    if 2 * len(matched) < len(delivery.lines):
        return {}
    index = {id(line): number for number, line in enumerate(child.lines)}
    return {index[id(pair.parent)]: pair.child.quantity or 0.0 for pair in matched}


def _compare(child: Document, lines: Collection[int], held: Sequence[Mapping[int, float]]) -> int | None:
    """0 where deliveries hold just what the child states on these lines, 1 where it states more, else None."""
    more = False
    for index in lines:
        quantity = sum(found.get(index, 0.0) for found in held)
        stated = child.lines[index].quantity
        if stated is None or (quantity > stated and not close(quantity, stated)):
            return None
        more = more or not close(quantity, stated)
    return int(more)
