"""What is decided from scores: copies, partners, deliveries of an order, and why a document stays alone. Pure.

A decision belongs to the child of a link (`keys.PARENTS`) and depends on that child and its candidates alone. Three
rules make links, and a fourth follows from theirs:

    copy       a document that is an earlier one again is linked to the first of its copies, and to nothing else
    reference  the child names the parent's number, and the rest does not speak against it
    content    the child names no such number, and one candidate fits clearly better than all others
    through    what a child's order or delivery note is linked to: the deliveries that an invoice for the order bills,
               the order of the delivery note that an invoice names
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal
from uuid import UUID

from counterfoil.documents.matching.keys import COPIED, PARENTS, SOUGHT
from counterfoil.documents.matching.normalise import Reference
from counterfoil.documents.matching.profile import CONTRACT, DELIVERY, INVOICE, ORDER, RECEIPT, Document
from counterfoil.documents.matching.score import (
    DOUBTFUL,
    MARGIN,
    SURE,
    SURE_BY_CONTENT,
    Evidence,
    Score,
    close,
    match_lines,
    parties,
    score,
)

_COUNTS = {2: "Two", 3: "Three", 4: "Four"}

By = Literal["copy", "reference", "content", "through"]

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
    judged: Judgement | None = None
    """None where rules alone decided."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Candidates of which one at most is the child's parent, and rules cannot tell which, or whether any is."""

    kind: str
    """The parent's kind, or several kinds."""
    by: By
    number: str | None
    """What the child names, where it names a number."""
    candidates: tuple[Link, ...]
    """The best first."""
    reason: str | None = None
    """A sentence for people, where they fit equally."""


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


Candidates = Collection[Document]
_Scored = tuple[Score, Document]
IsCopy = Callable[[Document], bool]


def arrival(document: Document) -> tuple[object, ...]:
    """Documents in the order in which copies are told from their original."""
    return document.received_at, document.id


# -- copies ---------------------------------------------------------------------------------------------------------


def original(document: Document, candidates: Candidates) -> Document | None:
    """The first of the documents that this one is a copy of, or None where it is the first itself."""
    earlier = (other for other in candidates if arrival(other) < arrival(document) and same_again(document, other))
    return min(earlier, key=arrival, default=None)


def same_again(a: Document, b: Document) -> bool:
    """Whether two documents are one: a duplicate invoice and its original, an order and its change. Symmetric."""
    if a.kind != b.kind or a.kind not in COPIED or a.number is None or b.number is None or parties(a, b) <= 0:
        return False
    days = None if a.day is None or b.day is None else abs(a.day - b.day)
    same_number = bool(a.number.folded & b.number.folded)
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


# -- partners -------------------------------------------------------------------------------------------------------


def choose(child: Document, named: Candidates, similar: Candidates, copies: Candidates, is_copy: IsCopy) -> Choice:
    """Decide a child's partners.

    `named` are the documents that bear a number which the child names, `similar` those of the kinds that `undecided`
    asks for, `copies` those that may be the same document. None of them is linked to where `is_copy` holds.
    """
    if first := original(child, copies):
        evidence = Evidence(
            "copy", "the same number" if _same_number(child, first) else "the same bill, another number", 20.0
        )
        return Choice((Link(child.id, first.id, first.kind, "copy", Score((evidence,), named=True)),))
    links, doubts = _by_reference(child, [other for other in named if not is_copy(other)])
    if kinds := _undecided(child, links):
        found, doubt = _by_content(child, [other for other in similar if other.kind in kinds and not is_copy(other)])
        links += found
        doubts += doubt
    reasons = [doubt.reason for doubt in doubts if doubt.reason]
    if not links:
        reasons = reasons or [_not_here(child, named)]
    return Choice(tuple(links), reasons[0] if reasons else None, _open(doubts, links))


def _open(doubts: Sequence[Doubt], links: Sequence[Link]) -> tuple[Doubt, ...]:
    """The doubts that matter still. What a number left open, similar documents may have settled, or repeat."""
    settled = {link.kind for link in links if link.by == "content"}
    named = tuple(doubt for doubt in doubts if doubt.by == "reference" and doubt.kind not in settled)
    return named or tuple(doubt for doubt in doubts if doubt.by == "content")


def undecided(child: Document, named: Candidates, is_copy: IsCopy) -> tuple[str, ...]:
    """The kinds of parent for which a child's numbers decide nothing, and similar documents have to be looked at."""
    links, _ = _by_reference(child, [other for other in named if not is_copy(other)])
    return _undecided(child, links)


def _undecided(child: Document, links: Sequence[Link]) -> tuple[str, ...]:
    found = {link.kind for link in links}
    kinds = []
    for kind in PARENTS[child.kind]:
        if kind in found or kind not in SOUGHT:
            continue
        if kind == ORDER and found & {
            DELIVERY,
            CONTRACT,
        }:  # the order is that of the delivery; a contract can do without one
            continue
        if kind == CONTRACT and (
            child.named.get(CONTRACT) or (child.kind == INVOICE and (child.named.get(ORDER) or found))
        ):
            continue
        kinds.append(kind)
    return tuple(kinds)


def _by_reference(child: Document, candidates: Sequence[Document]) -> tuple[list[Link], list[Doubt]]:
    links: dict[UUID, Link] = {}
    doubts: list[Doubt] = []
    for kind in PARENTS[child.kind]:
        scored = [
            (score(child, other), other)
            for other in candidates
            if other.kind == kind and _reached(child.named.get(kind, ()), other)
        ]
        for reference in child.named.get(kind, ()):
            reached = [pair for pair in scored if _reached([reference], pair[1])]
            best, equal = _best(reached, SURE)
            if best:
                links[best[1].id] = _link(child, best, "reference")
            elif equal:
                doubts.append(_doubt(child, equal, kind, reference.text, _equally(equal)))
            elif near := _fitting(reached, DOUBTFUL):
                doubts.append(_doubt(child, near, kind, reference.text, None))
    return list(links.values()), doubts


def _link(child: Document, found: _Scored, by: By) -> Link:
    return Link(child.id, found[1].id, found[1].kind, by, found[0])


def _doubt(child: Document, found: Sequence[_Scored], kind: str, number: str | None, reason: str | None) -> Doubt:
    by: By = "content" if number is None else "reference"
    return Doubt(kind, by, number, tuple(_link(child, pair, by) for pair in found), reason)


def _reached(references: Iterable[Reference], other: Document) -> bool:
    """Whether one of the numbers is the other document's own, as far as can be read."""
    own = other.number
    return own is not None and any(
        named.folded & own.folded or (named.tail is not None and named.tail == own.tail) for named in references
    )


def _by_content(child: Document, candidates: Sequence[Document]) -> tuple[list[Link], list[Doubt]]:
    """The best of all candidates: without a number, an invoice may as well be for an order as for a contract."""
    best, equal = _best([(score(child, other), other) for other in candidates], SURE_BY_CONTENT)
    if best:
        return [_link(child, best, "content")], []
    kinds = " or ".join(sorted({other.kind for _, other in equal}))
    return [], [_doubt(child, equal, kinds, None, _equally(equal))] if equal else []


def _best(scored: Sequence[_Scored], enough: float) -> tuple[_Scored | None, list[_Scored]]:
    """The best of the candidates that fit well enough; where none is clearly better than the next, those that equal."""
    fitting = _fitting(scored, enough)
    if not fitting:
        return None, []
    best = fitting[0][0].fit
    equal = [pair for pair in fitting if best - pair[0].fit < MARGIN]
    return (fitting[0], []) if len(equal) == 1 else (None, equal)


def _fitting(scored: Sequence[_Scored], enough: float) -> list[_Scored]:
    return sorted(
        (pair for pair in scored if pair[0].total >= enough), key=lambda pair: (-pair[0].fit, arrival(pair[1]))
    )


def _equally(equal: Sequence[_Scored]) -> str:
    named = ", ".join(
        f"{_WORDS[other.kind]} {other.number.text if other.number else 'without a number'}" for _, other in equal[:3]
    )
    return f"{_COUNTS.get(len(equal), str(len(equal)))} documents fit equally: {named}."


def _not_here(child: Document, named: Candidates) -> str:
    """Why a document found no partner."""
    for kind in PARENTS[child.kind]:
        for reference in child.named.get(kind, ()):
            what = f"{_WORDS[kind]} {reference.text}"
            if any(other.kind == kind and _reached([reference], other) for other in named):
                return f"Names {what}, but what is here under that number does not fit."
            return f"Names {what}, which is not here."
    return "No partner found."


def _same_number(a: Document, b: Document) -> bool:
    return a.number is not None and b.number is not None and bool(a.number.folded & b.number.folded)


# -- through an order or a delivery ---------------------------------------------------------------------------------


def follows_through(child: Document) -> bool:
    """Whether links of this child can follow from others'."""
    return child.kind in (INVOICE, RECEIPT)


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
