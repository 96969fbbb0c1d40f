"""Tolerances that follow from what people accepted: from enough of it, never over what they disputed."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.documents.three_way_match import Code, Key, Limits, Tolerance, Tolerances, Verdict
from counterfoil.documents.three_way_match.decisions import LEAST, Label, Proposal, Withheld, propose
from counterfoil.documents.three_way_match.tolerances import as_json, both_ways

SELLER = ("DE136695976", "Tarnow Schrauben AG")
OTHER = ("DE129273398", "Vossberg Papier KG")
AT = datetime(2026, 4, 1, 9, tzinfo=UTC)


def label(  # one for each thing that matters
    number: int,
    percent: str,
    *,
    accepted: bool = True,
    code: Code = Code.PRICE_MISMATCH,
    seller: tuple[str, ...] = SELLER,
    document: int | None = None,
    line: str | None = "1",
    measure: str = "EUR",
    expected: str = "100",
) -> Label:
    """What was said of a difference of so many percent of 100."""
    of = UUID(int=number if document is None else document)
    about = (of, code, line, Decimal(expected), Decimal(expected) * (1 + Decimal(percent) / 100))
    by = "ann" if number % 2 else "bob"
    return Label(seller, Verdict(number, about, measure, accepted, by, AT + timedelta(days=number), None))


def labels(count: int, percent: str = "1.5", first: int = 1, **more: object) -> list[Label]:
    return [label(number, percent, **more) for number in range(first, first + count)]  # type: ignore[arg-type]


def one(found: Iterable[Label], *tolerances: Tolerance) -> Proposal:
    (proposal,) = propose(found, Tolerances(tolerances))
    assert isinstance(proposal, Proposal)
    return proposal


def why_not(found: Iterable[Label], *tolerances: Tolerance) -> str:
    (withheld,) = propose(found, Tolerances(tolerances))
    assert isinstance(withheld, Withheld)
    return withheld.why


def test_what_is_accepted_again_and_again_is_proposed_with_its_evidence():
    found = one([*labels(19, "1.5"), label(20, "1.8"), label(21, "2.5", accepted=False)])
    assert (found.supplier, found.supplier_name, found.key, found.direction) == (*SELLER, Key.PRICE, "more")
    assert found.limits == Limits(lower_percent=Decimal(1), upper_percent=Decimal("1.50"))
    assert found.before == both_ways(percent=Decimal(1))
    evidence = found.evidence
    assert (evidence.accepted, evidence.newly_tolerated, evidence.people) == (20, 19, ("ann", "bob"))
    assert (evidence.largest_accepted, evidence.smallest_disputed) == (Decimal("1.8"), Decimal("2.5"))
    assert evidence.at_least == pytest.approx(0.05 ** (1 / 19))
    assert (evidence.since.isoformat(), evidence.until.isoformat()) == ("2026-04-02", "2026-04-21")


def test_below_the_minimum_nothing_is_proposed_and_it_says_how_many_there_are():
    assert why_not(labels(LEAST - 1)) == "19 documents accepted; 20 are required."
    assert isinstance(propose(labels(LEAST), Tolerances())[0], Proposal)


def test_many_lines_of_one_bill_are_accepted_once():
    assert why_not(labels(60, document=7)) == "1 document accepted; 20 are required."


def test_what_was_accepted_beyond_the_smallest_disputed_difference_does_not_count():
    found = [*labels(15, "1.2"), *labels(40, "3", first=20), label(99, "2", accepted=False)]
    assert why_not(found) == "15 documents accepted below the disputed 2 %; 20 are required."


def test_a_single_large_difference_does_not_stretch_the_limit():
    assert one([*labels(40, "1.25"), label(99, "30")]).limit == Decimal("1.25")


def test_a_limit_is_rounded_up_but_never_onto_what_was_disputed():
    assert one(labels(20, "1.2345")).limit == Decimal("1.24")
    for disputed in ("1.236", "1.24"):
        assert one([*labels(20, "1.2345"), label(99, disputed, accepted=False)]).limit == Decimal("1.2345")


def test_limit_is_the_nearest_rank_rounded_up():
    found = one([label(number, str(1 + Decimal(number) / 10)) for number in range(1, 22)])
    assert found.limit == Decimal("3.00")  # the 20th of 21 sizes: 95 percent are 19.95


def test_suppliers_keys_and_directions_are_told_apart():
    found = [
        *labels(10, "1.5"),
        *labels(10, "-1.5", first=11),
        *labels(10, "1.5", first=21, seller=OTHER),
        *labels(10, "1.5", first=31, code=Code.OVER_BILLED_QUANTITY),
    ]
    told = propose(found, Tolerances())
    assert all(isinstance(each, Withheld) and each.why.startswith("10 documents") for each in told)
    assert len(told) == 4


def test_a_supplier_is_the_same_however_its_number_is_written():
    assert one([*labels(10), *labels(10, first=11, seller=("de 136 695 976",))]).evidence.accepted == 20


def test_what_is_tolerated_already_is_not_proposed():
    wide = Tolerance(Key.PRICE, both_ways(percent=Decimal(3)), supplier=SELLER[1])
    assert why_not(labels(20), wide) == "The current tolerance covers the accepted differences."
    assert why_not(labels(20, "0.5")) == "The current tolerance covers the accepted differences."
    nothing_held = Tolerance(Key.PRICE, Limits())
    assert propose(labels(20), Tolerances([nothing_held])) == []


def test_what_is_tolerated_and_was_disputed_is_pointed_out():
    found = [*labels(20, "0.2"), label(99, "0.6", accepted=False)]
    assert why_not(found).startswith("The current tolerance covers a disputed difference")


def test_quantities_of_which_nothing_is_tolerated_get_a_share():
    found = one(labels(20, "2", code=Code.OVER_BILLED_QUANTITY, measure="C62"))
    assert found.limits == Limits(lower_absolute=Decimal(0), upper_percent=Decimal("2.00"))


def test_totals_of_which_an_amount_is_tolerated_get_an_amount_of_one_currency():
    found = labels(20, "0.3", code=Code.TOTAL_MISMATCH, line=None)
    assert one(found).limits == Limits(lower_absolute=Decimal("0.05"), upper_absolute=Decimal("0.30"))
    mixed = [*found, label(99, "0.3", code=Code.TOTAL_MISMATCH, line=None, measure="USD")]
    assert why_not(mixed) == "The tolerance is an amount, but the differences are in EUR and USD."


def test_an_amount_that_holds_beside_a_share_stays():
    capped = Tolerance(Key.PRICE, both_ways(percent=Decimal(1), absolute=Decimal(2)))
    assert one(labels(20), capped).limits.upper_absolute == Decimal(2)


def test_a_bill_that_names_no_article_and_is_too_high_is_about_totals():
    found = labels(20, "0.3", code=Code.BILLED_BEYOND_ORDER, line=None)
    assert one(found).key is Key.TOTAL


def test_nobody_is_lenient_about_tax_rates_or_mistakes():
    assert propose(labels(30, "5", code=Code.TAX_MISMATCH, measure="P1"), Tolerances()) == []
    assert as_json(propose(labels(30, "5", code=Code.PRICE_BASIS_MISMATCH), Tolerances())[0])["why"].startswith("0 doc")


def test_a_proposal_has_another_id_when_anything_of_it_is_otherwise():
    first = one(labels(20))
    assert first.id == one(reversed(labels(20))).id
    assert first.id != one(labels(21)).id
    assert first.id != one([*labels(20), label(99, "2", accepted=False)]).id
    general = Tolerance(Key.PRICE, both_ways(percent=Decimal("0.5")))
    assert first.id != one(labels(20), general).id


CODES = [Code.PRICE_MISMATCH, Code.OVER_BILLED_QUANTITY, Code.TOTAL_MISMATCH, Code.PRICE_BASIS_MISMATCH]
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


def said(random: Random) -> list[Label]:
    """Much accepted and a little disputed, of few documents or many, small differences and large ones."""
    size, spread = random.randint(0, 90), random.choice((10, 90, 90))
    largest, smallest = random.choice((0.5, 2, 4)), random.choice((0, 1, 3))
    code = random.choice(CODES)
    found = []
    for number in range(size):
        accepted = random.random() < 0.95
        percent = random.uniform(0.001, largest) if accepted else random.uniform(smallest, 4) + 0.001
        found.append(
            label(
                number,
                f"{percent * random.choice((1, 1, 1, -1)):.4f}",
                accepted=accepted,
                code=code if number % 5 else random.choice(CODES),
                document=random.randint(0, spread),
                expected=random.choice(("100", "100", "0.07", "3600")),
            )
        )
    return found


seen = st.randoms(use_true_random=False).map(said)


@settings(max_examples=200, deadline=None)
@given(seen, tables)
def test_a_proposal_rests_on_enough_covers_nothing_disputed_and_takes_nothing_back(
    found: list[Label], table: list[Tolerance]
):
    for proposal in propose(found, Tolerances(table)):
        if isinstance(proposal, Withheld):
            continue
        of = [each for each in found if (each.key, each.direction) == (proposal.key, proposal.direction)]
        yes = [each for each in of if each.verdict.is_accepted]
        assert len({each.verdict.about[0] for each in yes}) >= LEAST
        assert not any(proposal.limits.allow(each.expected, each.actual) for each in of if not each.verdict.is_accepted)
        assert all(
            proposal.limits.allow(each.expected, each.actual)
            for each in found
            if each.key is proposal.key and proposal.before.allow(each.expected, each.actual)
        )
        assert any(
            proposal.limits.allow(each.expected, each.actual) and not proposal.before.allow(each.expected, each.actual)
            for each in yes
        )
        applied = Tolerances([*table, proposal.tolerance])
        assert applied.limits(proposal.key, suppliers=SELLER) == proposal.limits
        again = propose(found, applied)
        assert not any(
            isinstance(each, Proposal) and (each.key, each.direction) == (proposal.key, proposal.direction)
            for each in again
        )


@settings(max_examples=100, deadline=None)
@given(seen, st.integers(0, LEAST - 1))
def test_of_fewer_documents_than_the_minimum_nothing_is_ever_proposed(found: list[Label], most: int):
    few = [
        replace(
            each,
            verdict=replace(each.verdict, about=(UUID(int=each.verdict.id % max(most, 1)), *each.verdict.about[1:])),
        )
        for each in found
    ]
    assert not any(isinstance(each, Proposal) for each in propose(few, Tolerances()))
