"""Decisions from scores: duplicates, matches, and reasons for no match. Pure.

A decision belongs to the child of a link (`keys.PARENT_KINDS`) and depends only on this child and its candidates. Three
rules make links, and a fourth rule follows these links:

- copy: a duplicate is linked to its original, and to no other document.
- reference: the child names the parent's number, and the other evidence does not contradict the match.
- content: the child names no number, and one candidate fits clearly better than all others.
- through: the child follows the links of its order or delivery note. An invoice for an order is linked to the
  deliveries that it bills, and an invoice for a delivery note to the order of that delivery.

Reviewers' decisions (`ManualDecisions`) take precedence. A rejected document is not a candidate. A confirmed parent
decides the reference to its number, or to its kind. The reviewer's link is stored separately.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import combinations
from typing import Literal
from uuid import UUID

from counterfoil.documents.matching.compare import Duplicate, Feature, is_close, match_lines
from counterfoil.documents.matching.keys import DUPLICABLE_KINDS, PARENT_KINDS, SEARCHED_KINDS
from counterfoil.documents.matching.normalize import CONTRACT, DELIVERY, INVOICE, ORDER, RECEIPT, Document, Reference
from counterfoil.documents.matching.score import (
    AUTO_MATCH_PROBABILITY,
    REVIEW_PROBABILITY,
    FeatureEvidence,
    Score,
    is_conclusive,
    match_probabilities,
    same_parties,
    score,
)

_COUNTS = {2: "Two", 3: "Three", 4: "Four"}

MatchMethod = Literal["copy", "reference", "content", "through", "reviewer"]

_MIN_SCORE = -10.0
"""Minimum score of a candidate in bits, before other documents' claims on it are considered."""
_MIN_RATIO = 8.0
"""Minimum ratio of match probabilities that distinguishes two candidates."""
_COPY_DAYS = 3
_COPY_UNDER_NEW_NUMBER_DAYS = 27
"""Less than a month, because monthly invoices for the same amount are not duplicates."""
_CHANGE_DAYS = 60
"""Maximum days between an order and its change. A later order has reused the number."""
_BEFORE_DELIVERY, _AFTER_DELIVERY = -14, 120
"""Minimum and maximum number of days from a delivery to its receipt or invoice."""
_MAX_SUBSET = 10
"""Maximum number of an order's deliveries whose subsets are summed."""
_WORDS = {
    INVOICE: "invoice",
    ORDER: "purchase order",
    DELIVERY: "delivery note",
    CONTRACT: "contract",
}


@dataclass(frozen=True, slots=True)
class LlmJudgment:
    """The language model's judgment about an ambiguous match."""

    confidence: str
    reasoning: str
    question: str
    """Hash of the question in hexadecimal."""


@dataclass(frozen=True, slots=True)
class ProposedMatch:
    """A link that a child's decision makes."""

    child: UUID
    parent: UUID
    kind: str
    """The parent's kind."""
    by: MatchMethod
    score: Score
    probability: float = 1.0
    """Match probability."""
    judgment: LlmJudgment | None = None
    """None for links by rules."""


@dataclass(frozen=True, slots=True)
class AmbiguousMatch:
    """Candidates among which the rules cannot decide.

    At most one of them is the parent.
    """

    kinds: tuple[str, ...]
    """The candidates' kinds."""
    number: str | None
    """Number that the child names, if any."""
    candidates: tuple[ProposedMatch, ...]
    """Best first."""
    reason: str | None = None
    """Sentence for reviewers if several candidates match equally well."""
    llm_skip_reason: str | None = None
    """Sentence for reviewers if the language model could not be used."""


@dataclass(frozen=True, slots=True)
class RuleDecision:
    """Decision about a child by the first three rules."""

    links: tuple[ProposedMatch, ...] = ()
    reason: str | None = None
    """Sentence for reviewers: why there is no link, or why the match is ambiguous."""
    ambiguous_matches: tuple[AmbiguousMatch, ...] = ()
    """Matches that the rules could not decide."""

    def parents(self, kind: str) -> frozenset[UUID]:
        """Return the documents of `kind` that the child is linked to."""
        return frozenset(link.parent for link in self.links if link.kind == kind)


def unresolved_matches(choice: RuleDecision) -> tuple[AmbiguousMatch, ...]:
    """Return the ambiguous matches without a link to one of their candidates."""
    parents = {link.parent for link in choice.links}
    return tuple(
        ambiguous_match
        for ambiguous_match in choice.ambiguous_matches
        if not any(link.parent in parents for link in ambiguous_match.candidates)
    )


@dataclass(frozen=True, slots=True)
class ManualDecisions:
    """Reviewers' decisions about one document."""

    confirmed: tuple[Document, ...] = ()
    """Documents whose match was confirmed."""
    rejected: frozenset[UUID] = frozenset()
    """Documents whose match was rejected."""


NO_DECISIONS = ManualDecisions()
NO_PARTNER = "No match found."
Candidates = Collection[Document]
_Scored = tuple[Score, Document]
IsDuplicate = Callable[[Document], bool]


def arrival_order_key(document: Document) -> tuple[object, ...]:
    """Return the key that sorts documents by time of receipt."""
    return document.received_at, document.id


# -- copies ---------------------------------------------------------------------------------------------------------


def find_original(
    document: Document, candidates: Candidates, decisions: ManualDecisions = NO_DECISIONS
) -> Document | None:
    """Return the original of a duplicate, or None if the document is not a duplicate."""
    earlier = (
        other
        for other in (*candidates, *decisions.confirmed)
        if other.id not in decisions.rejected and _rank(other) < _rank(document) and is_same_document(document, other)
    )
    return min(earlier, key=_rank, default=None)


def _rank(document: Document) -> tuple[object, ...]:
    """Return the key that sorts duplicates, the original first.

    The original is the document with the earliest date. Among invoices with the same date, it is the invoice with the
    fewest OCR errors. Clerks check the original's figures, so it must not be a bad scan that was received first.
    """
    day = document.day if document.day is not None else date.max.toordinal()
    return day, document.misread_words if document.kind == INVOICE else 0, *arrival_order_key(document)


def is_same_document(a: Document, b: Document) -> bool:
    """Return True for duplicate invoices, and for an order and its change. Symmetric."""
    if a.kind != b.kind or a.kind not in DUPLICABLE_KINDS or a.number is None or b.number is None:
        return False
    return _has_same_content(a, b, a.number, b.number) and same_parties(a, b) > 0


def _has_same_content(a: Document, b: Document, number_a: Reference, number_b: Reference) -> bool:
    """Return True if two documents of one kind have the same content.

    The parties are not compared.
    """
    days = None if a.day is None or b.day is None else abs(a.day - b.day)
    same_number = bool(number_a.folded & number_b.folded)
    if a.kind == ORDER:
        return same_number and (days is None or days <= _CHANGE_DAYS) and _has_mostly_same_lines(a, b)
    if a.net != b.net or (a.gross is not None and b.gross is not None and abs(a.gross - b.gross) > 1):
        return False
    if same_number:
        return days is None or days <= _COPY_DAYS
    return days is not None and days <= _COPY_UNDER_NEW_NUMBER_DAYS and _bills_same_items(a, b)


def _has_mostly_same_lines(a: Document, b: Document) -> bool:
    shorter_length = min(len(a.lines), len(b.lines))
    return shorter_length == 0 or 2 * len(match_lines(a.lines, b.lines)) >= shorter_length


def _bills_same_items(a: Document, b: Document) -> bool:
    """Return True if two invoices bill the same items, quantities and prices.

    The order and the deliveries that they name must also agree.
    """
    for kind in (ORDER, DELIVERY):
        forms_a, forms_b = _reference_forms(a, kind), _reference_forms(b, kind)
        if bool(forms_a) != bool(forms_b) or (forms_a and not forms_a & forms_b):
            return False
    if len(a.lines) != len(b.lines) or a.amounts != b.amounts:
        return False
    matched = match_lines(a.lines, b.lines)
    return len(matched) == len(a.lines) and all(
        is_close(pair.child.quantity, pair.parent.quantity) and is_close(pair.child.price, pair.parent.price)
        for pair in matched
    )


def _reference_forms(document: Document, kind: str) -> frozenset[str]:
    return frozenset(form for reference in document.references.get(kind, ()) for form in reference.folded)


def is_parent(child: Document, other: Document) -> bool:
    """Return True if the other document's kind is a parent kind of this child."""
    return other.kind in PARENT_KINDS[child.kind]


def order_pair(first: Document, second: Document) -> tuple[Document, Document]:
    """Return the child and the parent.

    If neither is a possible parent, the later document is the child.
    """
    if is_parent(first, second):
        return first, second
    if is_parent(second, first):
        return second, first
    return (first, second) if _rank(second) < _rank(first) else (second, first)


# -- matches --------------------------------------------------------------------------------------------------------


def decide_matches(
    child: Document,
    named: Candidates,
    similar: Candidates,
    copies: Candidates,
    claims: Mapping[UUID, Candidates],
    is_duplicate: IsDuplicate,
    decisions: ManualDecisions = NO_DECISIONS,
) -> RuleDecision:
    """Decide about the links of a child.

    They include links to confirmed parents that the child names.

    `named` are the documents with a number that the child names. `similar` are documents of the kinds that
    `open_candidates` returns. `is_candidate_kind` selects their candidates. `copies` are possible duplicates.
    Documents for which `is_duplicate` is true are not linked. `claims` has, for each result of `candidates_to_score`,
    the documents that name its number.
    """
    if original := find_original(child, copies, decisions):
        level = Duplicate.SAME_NUMBER if _same_number(child, original) else Duplicate.SAME_CONTENT
        evidence = FeatureEvidence(Feature.DUPLICATE, level, 20.0)
        return RuleDecision(
            (ProposedMatch(child.id, original.id, original.kind, "copy", Score((evidence,), is_referenced=True)),)
        )
    named_candidates = _eligible(named, is_duplicate, decisions)
    decision = _by_reference(child, named_candidates, decisions)
    if kinds := _undecided_kinds(child, decision.links, decisions):
        similar_candidates = _eligible(
            (other for other in similar if is_candidate_kind(child, other)), is_duplicate, decisions
        )
        candidates = {other.id: other for other in (*similar_candidates, *named_candidates) if other.kind in kinds}
        decision = _overrule(decision, _by_content(child, candidates.values(), claims))
    reasons = [ambiguous_match.reason for ambiguous_match in decision.ambiguous_matches if ambiguous_match.reason]
    if not decision.links and not _confirmed_parents(child, decisions):
        reasons = reasons or [_unmatched_reason(child, named, decisions)]
    return replace(decision, reason=reasons[0] if reasons else None)


def open_candidates(
    child: Document, named: Candidates, is_duplicate: IsDuplicate, decisions: ManualDecisions = NO_DECISIONS
) -> tuple[str, ...]:
    """Return the parent kinds that numbers do not decide.

    Similar documents of these kinds are candidates.
    """
    return _undecided_kinds(
        child, _by_reference(child, _eligible(named, is_duplicate, decisions), decisions).links, decisions
    )


def is_candidate_kind(child: Document, other: Document) -> bool:
    """Return True if a document is a candidate by its number or its score.

    A document qualifies if the child names its number or the score is high enough.
    """
    return references(child, other) or score(child, other).total >= _MIN_SCORE


def candidates_to_score(child: Document, similar: Candidates) -> list[Document]:
    """Return similar documents whose score depends on other documents' claims."""
    return [
        other
        for other in similar
        if other.kind != CONTRACT and not references(child, other) and score(child, other).total >= _MIN_SCORE
    ]


def _eligible(candidates: Iterable[Document], is_duplicate: IsDuplicate, decisions: ManualDecisions) -> list[Document]:
    return [other for other in candidates if other.id not in decisions.rejected and not is_duplicate(other)]


def references(child: Document, parent: Document) -> bool:
    """Return True if the child names the parent's number."""
    return _has_referenced_number(child.references.get(parent.kind, ()), parent)


def _confirmed_parents(child: Document, decisions: ManualDecisions) -> list[Document]:
    """Return the confirmed parents of a child."""
    return [other for other in decisions.confirmed if other.kind in PARENT_KINDS[child.kind]]


def _undecided_kinds(child: Document, links: Sequence[ProposedMatch], decisions: ManualDecisions) -> tuple[str, ...]:
    confirmed = {parent.kind for parent in _confirmed_parents(child, decisions)}
    decided_kinds = confirmed | {link.kind for link in links}
    kinds = []
    for kind in PARENT_KINDS[child.kind]:
        if kind not in SEARCHED_KINDS or kind in confirmed or len(child.references.get(kind, ())) > 1:
            continue  # several numbers mean several parents, and content can only find one
        if kind in decided_kinds and all(is_conclusive(link.score.total) for link in links if link.kind == kind):
            continue
        if kind == ORDER and decided_kinds & {DELIVERY, CONTRACT}:
            continue  # the order follows from the delivery, and under a contract no order is required
        if kind == CONTRACT and (
            child.references.get(CONTRACT) or (child.kind == INVOICE and (child.references.get(ORDER) or decided_kinds))
        ):
            continue
        kinds.append(kind)
    return tuple(kinds)


def _by_reference(child: Document, candidates: Sequence[Document], decisions: ManualDecisions) -> RuleDecision:
    """Decide about each number that the child names.

    A confirmed parent with the number decides it.

    A confirmed parent with none of these numbers resolves ambiguous matches, because a number was incorrect or misread.
    """
    links: dict[UUID, ProposedMatch] = {}
    ambiguous_matches: list[AmbiguousMatch] = []
    for kind in PARENT_KINDS[child.kind]:
        references = child.references.get(kind, ())
        scored = [
            (score(child, other), other)
            for other in candidates
            if other.kind == kind and _has_referenced_number(references, other)
        ]
        confirmed = [other for other in _confirmed_parents(child, decisions) if other.kind == kind]
        is_settled = any(not _has_referenced_number(references, other) for other in confirmed)
        links |= {
            other.id: _match_by_number(child, other) for other in confirmed if _has_referenced_number(references, other)
        }
        for reference in references:
            if any(_has_referenced_number([reference], other) for other in confirmed):
                continue
            best, ambiguous_match = _choose(
                child, [pair for pair in scored if _has_referenced_number([reference], pair[1])], reference.text
            )
            if best:
                links[best.parent] = best
            elif ambiguous_match and not is_settled:
                ambiguous_matches.append(ambiguous_match)
    return RuleDecision(tuple(links.values()), None, tuple(ambiguous_matches))


def _match_by_number(child: Document, parent: Document) -> ProposedMatch:
    return ProposedMatch(child.id, parent.id, parent.kind, "reference", score(child, parent))


def _by_content(child: Document, candidates: Iterable[Document], claims: Mapping[UUID, Candidates]) -> RuleDecision:
    """Choose the best candidate of all kinds.

    The kinds compete, because an invoice can be for an order or a contract.
    """
    scored = [(score(child, other, claims.get(other.id, ())), other) for other in candidates]
    numbers = {reference.text for _, other in scored for reference in child.references.get(other.kind, ())}
    best, ambiguous_match = _choose(child, scored, ", ".join(sorted(numbers)) or None)
    return RuleDecision((best,) if best else (), None, (ambiguous_match,) if ambiguous_match else ())


def _overrule(by_number: RuleDecision, by_content: RuleDecision) -> RuleDecision:
    """Replace decisions by number with decisions by content about the same kind."""
    replaced_kinds = {link.kind for link in by_content.links} | {
        kind for ambiguous_match in by_content.ambiguous_matches for kind in ambiguous_match.kinds
    }
    return RuleDecision(
        (*(link for link in by_number.links if link.kind not in replaced_kinds), *by_content.links),
        None,
        (
            *(
                ambiguous_match
                for ambiguous_match in by_number.ambiguous_matches
                if not replaced_kinds & set(ambiguous_match.kinds)
            ),
            *by_content.ambiguous_matches,
        ),
    )


def _choose(
    child: Document, scored: Sequence[_Scored], number: str | None
) -> tuple[ProposedMatch | None, AmbiguousMatch | None]:
    """Return a link to the best candidate if certain, or else an ambiguous match.

    Both are None if there is no probable candidate.
    """
    ranked = sorted(
        zip(match_probabilities([candidate_score for candidate_score, _ in scored]), scored, strict=True),
        key=lambda item: (-item[0], -item[1][0].total, arrival_order_key(item[1][1])),
    )
    if not ranked:
        return None, None
    (probability, best), *_ = ranked
    if probability >= AUTO_MATCH_PROBABILITY:
        return _propose(child, best, probability), None
    if sum(share for share, _ in ranked) < REVIEW_PROBABILITY:
        return None, None
    return None, _ambiguous_match(
        child, [(share, pair) for share, pair in ranked if share * _MIN_RATIO >= probability], number
    )


def _propose(child: Document, scored: _Scored, probability: float) -> ProposedMatch:
    return ProposedMatch(
        child.id,
        scored[1].id,
        scored[1].kind,
        "reference" if scored[0].is_referenced else "content",
        scored[0],
        probability,
    )


def _ambiguous_match(child: Document, ranked: Sequence[tuple[float, _Scored]], number: str | None) -> AmbiguousMatch:
    kinds = tuple(sorted({other.kind for _, (_, other) in ranked}))
    reason = _tie_reason([other for _, (_, other) in ranked]) if len(ranked) > 1 else None
    return AmbiguousMatch(
        kinds, number, tuple(_propose(child, pair, probability) for probability, pair in ranked), reason
    )


def _has_referenced_number(references: Iterable[Reference], document: Document) -> bool:
    """Return True if a reference is the document's number or its last digits.

    OCR errors in the number are tolerated.
    """
    number = document.number
    return number is not None and any(
        reference.folded & number.folded or (reference.tail is not None and reference.tail == number.tail)
        for reference in references
    )


def _tie_reason(documents: Sequence[Document]) -> str:
    count = _COUNTS.get(len(documents), str(len(documents)))
    names = list(dict.fromkeys((_WORDS[other.kind], other.number.text if other.number else "") for other in documents))
    if len(names) == 1:
        ((kind, number),) = names
        return f"{count} {kind}s {f'with the number {number}' if number else 'without a number'} match equally well."
    labels = ", ".join(f"{kind} {number or 'without a number'}" for kind, number in names[:3])
    return f"{count} documents match equally well{', such as' if len(names) > 3 else ':'} {labels}."


def _unmatched_reason(child: Document, named_documents: Candidates, decisions: ManualDecisions) -> str:
    """Return the reason why a document has no match."""
    for kind in PARENT_KINDS[child.kind]:
        for reference in child.references.get(kind, ()):
            label = f"{_WORDS[kind]} {reference.text}"
            ids = {
                other.id
                for other in named_documents
                if other.kind == kind and _has_referenced_number([reference], other)
            }
            if ids and ids <= decisions.rejected:
                return f"Names {label}, but a reviewer rejected the document with that number."
            if ids:
                return f"Names {label}, but the document with that number does not match."
            return f"Names {label}, which has not been received."
    return NO_PARTNER


def _same_number(a: Document, b: Document) -> bool:
    return a.number is not None and b.number is not None and bool(a.number.folded & b.number.folded)


# -- through an order or a delivery ---------------------------------------------------------------------------------


def has_transitive_matches(child: Document) -> bool:
    """Return True if the fourth rule applies to this child."""
    return child.kind in (INVOICE, RECEIPT)


def sibling_deliveries(child: Document, deliveries: Sequence[Document]) -> list[Document]:
    """Return the matching deliveries that name the same missing order as the child."""
    return matching_deliveries(child, [other for other in deliveries if same_parties(child, other) > 0])


def matching_deliveries(child: Document, deliveries: Sequence[Document]) -> list[Document]:
    """Return the deliveries of an order that an invoice bills or a receipt confirms.

    Only line items of the deliveries are compared, because an invoice can also bill services. Quantities decide:

    1. the only delivery with equal quantities; among several, a receipt takes the delivery of the same day
    2. all deliveries, if the invoice bills at least their total
    3. the only set of deliveries whose total is equal
    4. the only delivery, if most of its line items match
    """
    delivered = [
        (delivery, quantities)
        for delivery in sorted(deliveries, key=arrival_order_key)
        if (quantities := _delivered_quantities(child, delivery))
    ]
    lines = {index for _, quantities in delivered for index in quantities}
    if child.kind == RECEIPT:
        lines = set(range(len(child.lines)))
    exact = [delivery for delivery, quantities in delivered if _compare_quantities(child, lines, [quantities]) == 0]
    if exact:
        same_day = [delivery for delivery in exact if delivery.day == child.day]
        chosen = same_day if len(exact) > 1 and child.kind == RECEIPT else exact
        return chosen if len(chosen) == 1 else []
    if len(delivered) == 1:
        return (
            [delivered[0][0]]
            if len(deliveries) == 1 or _compare_quantities(child, lines, [delivered[0][1]]) is not None
            else []
        )
    if child.kind == RECEIPT or not delivered:
        return []
    if _compare_quantities(child, lines, [quantities for _, quantities in delivered]) is not None:
        return [delivery for delivery, _ in delivered]
    exact_subsets = [
        [delivery for delivery, _ in subset]
        for size in range(2, min(len(delivered), _MAX_SUBSET))
        for subset in combinations(delivered[:_MAX_SUBSET], size)
        if _compare_quantities(child, lines, [quantities for _, quantities in subset]) == 0
    ]
    return exact_subsets[0] if len(exact_subsets) == 1 else []


def _delivered_quantities(child: Document, delivery: Document) -> dict[int, float]:
    """Return delivered quantities by the child's line item index.

    Empty if the dates are too far apart, or if most line items do not match.
    """
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


def _compare_quantities(
    child: Document, lines: Collection[int], delivered: Sequence[Mapping[int, float]]
) -> int | None:
    """Compare the child's quantities: 0 if all are equal, 1 if some are larger.

    The result is None if the child has less of any line item, or states no quantity.
    """
    has_excess = False
    for index in lines:
        delivered_quantity = sum(quantities.get(index, 0.0) for quantities in delivered)
        child_quantity = child.lines[index].quantity
        if child_quantity is None or (
            delivered_quantity > child_quantity and not is_close(delivered_quantity, child_quantity)
        ):
            return None
        has_excess = has_excess or not is_close(delivered_quantity, child_quantity)
    return int(has_excess)
