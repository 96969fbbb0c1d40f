"""A suggested tolerance has enough acceptances and covers no disputed difference."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.documents.three_way_match import Key, Limits, Tolerance, Tolerances, VarianceCode, VarianceDecision
from counterfoil.documents.three_way_match.decisions import (
    MIN_DECISIONS,
    DecisionLabel,
    SkippedSuggestion,
    ToleranceSuggestion,
    suggest_tolerances,
)
from counterfoil.documents.three_way_match.tolerances import as_json, symmetric_limits

SELLER = ("DE136695976", "Tarnow Schrauben AG")
OTHER = ("DE129273398", "Vossberg Papier KG")
AT = datetime(2026, 4, 1, 9, tzinfo=UTC)


def label(  # one parameter per field that matters
    number: int,
    percent: str,
    *,
    accepted: bool = True,
    code: VarianceCode = VarianceCode.PRICE_MISMATCH,
    seller: tuple[str, ...] = SELLER,
    document: int | None = None,
    line: str | None = "1",
    measure: str = "EUR",
    expected: str = "100",
) -> DecisionLabel:
    """Return a decision on a difference of `percent` percent of `expected`."""
    of = UUID(int=number if document is None else document)
    about = (of, code, line, Decimal(expected), Decimal(expected) * (1 + Decimal(percent) / 100))
    by = "ann" if number % 2 else "bob"
    return DecisionLabel(
        seller, VarianceDecision(number, about, measure, accepted, by, AT + timedelta(days=number), None)
    )


def labels(count: int, percent: str = "1.5", first: int = 1, **fields: object) -> list[DecisionLabel]:
    return [label(number, percent, **fields) for number in range(first, first + count)]  # type: ignore[arg-type]


def only_suggestion(suggestion: Iterable[DecisionLabel], *tolerances: Tolerance) -> ToleranceSuggestion:
    (proposal,) = suggest_tolerances(suggestion, Tolerances(tolerances))
    assert isinstance(proposal, ToleranceSuggestion)
    return proposal


def withheld_reason(result: Iterable[DecisionLabel], *tolerances: Tolerance) -> str:
    (withheld,) = suggest_tolerances(result, Tolerances(tolerances))
    assert isinstance(withheld, SkippedSuggestion)
    return withheld.reason


def test_tolerance_is_suggested_with_evidence():
    suggestion = only_suggestion([*labels(19, "1.5"), label(20, "1.8"), label(21, "2.5", accepted=False)])
    assert (suggestion.supplier, suggestion.supplier_name, suggestion.key, suggestion.direction) == (
        *SELLER,
        Key.PRICE,
        "more",
    )
    assert suggestion.limits == Limits(lower_percent=Decimal(1), upper_percent=Decimal("1.50"))
    assert suggestion.current_limits == symmetric_limits(percent=Decimal(1))
    evidence = suggestion.evidence
    assert (evidence.accepted, evidence.newly_tolerated, evidence.people) == (20, 19, ("ann", "bob"))
    assert (evidence.largest_accepted, evidence.smallest_disputed) == (Decimal("1.8"), Decimal("2.5"))
    assert evidence.min_acceptance_rate == pytest.approx(0.05 ** (1 / 19))
    assert (evidence.since.isoformat(), evidence.until.isoformat()) == ("2026-04-02", "2026-04-21")


def test_suggestion_requires_minimum_number_of_documents():
    assert withheld_reason(labels(MIN_DECISIONS - 1)) == "19 documents accepted; 20 are required."
    assert isinstance(suggest_tolerances(labels(MIN_DECISIONS), Tolerances())[0], ToleranceSuggestion)


def test_line_items_of_one_invoice_count_once():
    assert withheld_reason(labels(60, document=7)) == "1 document accepted; 20 are required."


def test_acceptances_above_disputed_difference_are_ignored():
    decision_labels = [*labels(15, "1.2"), *labels(40, "3", first=20), label(99, "2", accepted=False)]
    assert withheld_reason(decision_labels) == "15 documents accepted below the disputed 2%; 20 are required."


def test_single_large_difference_does_not_raise_the_limit():
    assert only_suggestion([*labels(40, "1.25"), label(99, "30")]).limit == Decimal("1.25")


def test_limit_is_rounded_up_only_below_disputed_differences():
    assert only_suggestion(labels(20, "1.2345")).limit == Decimal("1.24")
    for disputed in ("1.236", "1.24"):
        assert only_suggestion([*labels(20, "1.2345"), label(99, disputed, accepted=False)]).limit == Decimal("1.2345")


def test_limit_is_the_nearest_rank_rounded_up():
    suggestion = only_suggestion([label(number, str(1 + Decimal(number) / 10)) for number in range(1, 22)])
    assert suggestion.limit == Decimal("3.00")  # the 20th of 21 sizes, because 95 percent of 21 is 19.95


def test_suppliers_keys_and_directions_are_counted_separately():
    result = [
        *labels(10, "1.5"),
        *labels(10, "-1.5", first=11),
        *labels(10, "1.5", first=21, seller=OTHER),
        *labels(10, "1.5", first=31, code=VarianceCode.OVER_BILLED_QUANTITY),
    ]
    proposals = suggest_tolerances(result, Tolerances())
    assert all(
        isinstance(suggestion, SkippedSuggestion) and suggestion.reason.startswith("10 documents")
        for suggestion in proposals
    )
    assert len(proposals) == 4


def test_supplier_vat_id_spelling_is_ignored():
    assert only_suggestion([*labels(10), *labels(10, first=11, seller=("de 136 695 976",))]).evidence.accepted == 20


def test_no_wider_tolerance_is_suggested_for_tolerated_differences():
    wide = Tolerance(Key.PRICE, symmetric_limits(percent=Decimal(3)), supplier=SELLER[1])
    assert withheld_reason(labels(20), wide) == "The current tolerance covers the accepted differences."
    assert withheld_reason(labels(20, "0.5")) == "The current tolerance covers the accepted differences."
    unlimited = Tolerance(Key.PRICE, Limits())
    assert suggest_tolerances(labels(20), Tolerances([unlimited])) == []


def test_tolerated_but_disputed_difference_is_reported():
    decision_labels = [*labels(20, "0.2"), label(99, "0.6", accepted=False)]
    assert withheld_reason(decision_labels).startswith("The current tolerance covers a disputed difference")


def test_suggestion_replaces_zero_quantity_limit_with_percentage():
    suggestion = only_suggestion(labels(20, "2", code=VarianceCode.OVER_BILLED_QUANTITY, measure="C62"))
    assert suggestion.limits == Limits(lower_absolute=Decimal(0), upper_percent=Decimal("2.00"))


def test_total_tolerance_is_an_amount_in_one_currency():
    decision_labels = labels(20, "0.3", code=VarianceCode.TOTAL_MISMATCH, line=None)
    assert only_suggestion(decision_labels).limits == Limits(
        lower_absolute=Decimal("0.05"), upper_absolute=Decimal("0.30")
    )
    mixed = [*decision_labels, label(99, "0.3", code=VarianceCode.TOTAL_MISMATCH, line=None, measure="USD")]
    assert withheld_reason(mixed) == "The tolerance is an amount, but the differences are in EUR and USD."


def test_absolute_limit_beside_percentage_is_preserved():
    capped = Tolerance(Key.PRICE, symmetric_limits(percent=Decimal(1), absolute=Decimal(2)))
    assert only_suggestion(labels(20), capped).limits.upper_absolute == Decimal(2)


def test_excess_amount_without_article_uses_total_tolerance():
    decision_labels = labels(20, "0.3", code=VarianceCode.OVER_ORDERED_AMOUNT, line=None)
    assert only_suggestion(decision_labels).key is Key.TOTAL


def test_tax_rates_and_price_bases_get_no_suggestion():
    assert suggest_tolerances(labels(30, "5", code=VarianceCode.TAX_MISMATCH, measure="P1"), Tolerances()) == []
    assert as_json(suggest_tolerances(labels(30, "5", code=VarianceCode.PRICE_BASIS_MISMATCH), Tolerances())[0])[
        "reason"
    ].startswith("0 doc")


def test_suggestion_id_depends_on_content_not_order():
    first = only_suggestion(labels(20))
    assert first.id == only_suggestion(reversed(labels(20))).id
    assert first.id != only_suggestion(labels(21)).id
    assert first.id != only_suggestion([*labels(20), label(99, "2", accepted=False)]).id
    general = Tolerance(Key.PRICE, symmetric_limits(percent=Decimal("0.5")))
    assert first.id != only_suggestion(labels(20), general).id


CODES = [
    VarianceCode.PRICE_MISMATCH,
    VarianceCode.OVER_BILLED_QUANTITY,
    VarianceCode.TOTAL_MISMATCH,
    VarianceCode.PRICE_BASIS_MISMATCH,
]
limits = st.none() | st.sampled_from([Decimal(0), Decimal("0.05"), Decimal(1), Decimal("2.5")])
tables = st.lists(
    st.builds(
        Tolerance,
        st.sampled_from([Key.PRICE, Key.BILLED_QUANTITY, Key.TOTAL]),
        st.builds(Limits, limits, limits, limits, limits),
        st.sampled_from([None, *SELLER]),
    ),
    max_size=3,
)


def random_labels(random: Random) -> list[DecisionLabel]:
    """Return decisions that accept many differences of any size and dispute a few."""
    size, spread = random.randint(0, 90), random.choice((10, 90, 90))
    largest, smallest = random.choice((0.5, 2, 4)), random.choice((0, 1, 3))
    code = random.choice(CODES)
    result = []
    for number in range(size):
        accepted = random.random() < 0.95
        percent = random.uniform(0.001, largest) if accepted else random.uniform(smallest, 4) + 0.001
        result.append(
            label(
                number,
                f"{percent * random.choice((1, 1, 1, -1)):.4f}",
                accepted=accepted,
                code=code if number % 5 else random.choice(CODES),
                document=random.randint(0, spread),
                expected=random.choice(("100", "100", "0.07", "3600")),
            )
        )
    return result


label_lists = st.randoms(use_true_random=False).map(random_labels)


@settings(max_examples=200, deadline=None)
@given(label_lists, tables)
def test_suggestion_is_supported_and_covers_no_dispute(found: list[DecisionLabel], table: list[Tolerance]):
    for proposal in suggest_tolerances(found, Tolerances(table)):
        if isinstance(proposal, SkippedSuggestion):
            continue
        of = [skipped for skipped in found if (skipped.key, skipped.direction) == (proposal.key, proposal.direction)]
        yes = [skipped for skipped in of if skipped.decision.is_accepted]
        assert len({skipped.decision.variance_key[0] for skipped in yes}) >= MIN_DECISIONS
        assert not any(
            proposal.limits.contains(skipped.expected, skipped.actual)
            for skipped in of
            if not skipped.decision.is_accepted
        )
        assert all(
            proposal.limits.contains(skipped.expected, skipped.actual)
            for skipped in found
            if skipped.key is proposal.key and proposal.current_limits.contains(skipped.expected, skipped.actual)
        )
        assert any(
            proposal.limits.contains(skipped.expected, skipped.actual)
            and not proposal.current_limits.contains(skipped.expected, skipped.actual)
            for skipped in yes
        )
        applied = Tolerances([*table, proposal.tolerance])
        assert applied.limits(proposal.key, suppliers=SELLER) == proposal.limits
        repeated = suggest_tolerances(found, applied)
        assert not any(
            isinstance(skipped, ToleranceSuggestion)
            and (skipped.key, skipped.direction) == (proposal.key, proposal.direction)
            for skipped in repeated
        )


@settings(max_examples=100, deadline=None)
@given(label_lists, st.integers(0, MIN_DECISIONS - 1))
def test_fewer_documents_than_required_suggest_nothing(found: list[DecisionLabel], most: int):
    few = [
        replace(
            suggestion,
            decision=replace(
                suggestion.decision,
                variance_key=(UUID(int=suggestion.decision.id % max(most, 1)), *suggestion.decision.variance_key[1:]),
            ),
        )
        for suggestion in found
    ]
    assert not any(isinstance(suggestion, ToleranceSuggestion) for suggestion in suggest_tolerances(few, Tolerances()))
