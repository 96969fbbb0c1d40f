"""Agreement adds bits to a score, and contradiction subtracts bits.

Common values add few bits.
"""

import pytest

from counterfoil.documents.matching.compare import Feature, FeatureLevel, match_lines
from counterfoil.documents.matching.score import (
    AUTO_MATCH_PROBABILITY,
    PRIOR,
    REVIEW_PROBABILITY,
    Score,
    current,
    match_probabilities,
    score,
)
from tests.documents.matching.samples import (
    BUYER,
    OTHER_SELLER,
    SELLER,
    SampleDocument,
    contract,
    delivery,
    invoice,
    line,
    order,
    read,
)


def weight(score_: Score, feature: str) -> float:
    return sum(item.weight for item in score_.evidence if item.feature == feature)


def probability(*samples: SampleDocument) -> float:
    """Return the first order's match probability. The last sample is the invoice."""
    *orders, invoice_ = samples
    return match_probabilities([score(read(invoice_), read(sample, 2)) for sample in orders])[0]


def test_referenced_fitting_order_is_certain() -> None:
    score_ = score(read(invoice(po_reference="4711")), read(order("4711")))
    assert score_.is_referenced
    assert match_probabilities([score_])[0] > 0.99


def test_unreferenced_fitting_order_is_certain_by_content() -> None:
    score_ = score(read(invoice()), read(order()))
    assert not score_.is_referenced
    assert (
        AUTO_MATCH_PROBABILITY
        <= match_probabilities([score_])[0]
        < probability(order("4711"), invoice(po_reference="4711"))
    )


def test_other_suppliers_order_number_is_not_sufficient() -> None:
    unrelated = order("4711", seller=OTHER_SELLER)
    assert probability(unrelated, invoice(po_reference="4711", lines=[line("Z-9")])) < REVIEW_PROBABILITY


def test_equal_candidates_share_the_probability() -> None:
    first, second = order("4711"), order("4712")
    assert probability(first, second, invoice()) == pytest.approx(probability(first, invoice()) / 2)


def test_better_fitting_candidate_gets_most_probability() -> None:
    assert (
        probability(order("4711"), order("4712", lines=[line("A-100"), line("B-1")]), invoice())
        >= AUTO_MATCH_PROBABILITY
    )


def test_missing_party_details_do_not_change_probability() -> None:
    incomplete = order("4712", seller={"name": "Tarnow Schrauben AG"})
    assert probability(order("4711"), incomplete, invoice()) == pytest.approx(
        probability(incomplete, order("4711"), invoice())
    )


def test_no_candidates_yield_no_probabilities() -> None:
    assert match_probabilities([]) == []


def test_evidence_bits_sum_to_the_log_odds() -> None:
    score_ = score(read(invoice()), read(order()))
    assert score_.evidence[0][:2] == PRIOR
    assert score_.total == pytest.approx(sum(item.weight for item in score_.evidence))


def test_shipped_weights_rank_their_levels_correctly() -> None:
    weights = current()
    for named in (True, False):
        bits = weights.bits[named]
        assert (
            bits[FeatureLevel(Feature.NUMBER, "same+long")]
            > bits[FeatureLevel(Feature.NUMBER, "same_end+short")]
            > 0
            > bits[FeatureLevel(Feature.NUMBER, "different")]
        )
        for side in (Feature.SELLER, Feature.BUYER):
            assert (
                bits[FeatureLevel(side, "different_vat_id+different_name")]
                < bits[FeatureLevel(side, "different_name")]
                <= 0
            )
        assert bits[FeatureLevel(Feature.LINES, "none+several")] < bits[FeatureLevel(Feature.LINES, "all+several")]
        assert (
            bits[FeatureLevel(Feature.DATE, "years_after")] < 0 < bits[FeatureLevel(Feature.DATE, "within_three_weeks")]
        )


def test_long_number_adds_more_than_short() -> None:
    short = score(read(invoice(po_reference="34")), read(order("34")))
    long = score(read(invoice(po_reference="AEG012345")), read(order("AEG012345")))
    assert weight(short, "number") < weight(long, "number")


def test_reference_to_another_order_subtracts_bits() -> None:
    assert weight(score(read(invoice(po_reference="BE-9000")), read(order("4711"))), "number") < -5


@pytest.mark.parametrize(
    ("spelling", "level"),
    [
        ("PO 4711-22", "same+long"),
        ("47l1-22", "same_as_read+long"),
        ("4711-23", "one_character_differs"),
        ("88-4711-22", "different"),
    ],
)
def test_number_variants_have_a_similarity_level(spelling: str, level: str) -> None:
    score_ = score(read(invoice(po_reference=spelling)), read(order("4711-22")))
    assert [item.level for item in score_.evidence if item.feature == "number"] == [level]


def test_same_buyer_adds_less_than_same_supplier() -> None:
    score_ = score(read(invoice()), read(order()))
    assert 0 < weight(score_, "buyer") < weight(score_, "seller")


def test_another_vat_id_outweighs_the_same_name() -> None:
    same_name = SELLER | {"vat_id": "DE999999999"}
    assert weight(score(read(invoice(seller=same_name)), read(order())), "seller") < 0


def test_vat_id_identifies_a_renamed_supplier() -> None:
    renamed = SELLER | {"name": "Nordverbund Handel GmbH"}
    same = weight(score(read(invoice()), read(order())), "seller")
    assert weight(score(read(invoice(seller=renamed)), read(order())), "seller") > same - 2


def seller_level(first: dict[str, str], second: dict[str, str]) -> str:
    score_ = score(read(invoice(seller=first)), read(order(seller=second)))
    return next((str(item.level) for item in score_.evidence if item.feature == "seller"), "")


@pytest.mark.parametrize(
    ("first", "second", "level"),
    [
        ("DE136695976", "136 695 976", "same_vat_id"),
        ("136695976", "DE136695976", "same_vat_id"),
        ("GR136695976", "EL 136695976", "same_vat_id"),
        ("ATU13669597", "U13669597", "same_vat_id"),
        ("DE136695976", "DE136695979", "similar_vat_id"),
        ("DE136695976", "AT136695976", "different_vat_id"),
        ("DE136695976", "5976", "different_vat_id"),
        ("CHE-136.695.976 MWST", "CHE136695976", "same_vat_id"),
    ],
)
def test_vat_id_variants_have_a_similarity_level(first: str, second: str, level: str) -> None:
    assert seller_level({"vat_id": first}, {"vat_id": second}) == level


def test_address_country_completes_a_vat_id() -> None:
    without_prefix = {"vat_id": "136695976", "country": "PT"}
    assert seller_level(without_prefix, {"vat_id": "PT136695976"}) == "same_vat_id"
    assert seller_level(without_prefix, {"vat_id": "DE136695976"}) == "different_vat_id"


def test_tax_number_in_vat_id_field_is_recognized() -> None:
    misplaced = {"vat_id": "181/815/08155"}
    assert seller_level(misplaced, {"tax_number": "181/815/08155"}) == "same_identifier"
    assert seller_level(misplaced, {"vat_id": "DE136695976"}) == ""
    assert seller_level({"vat_id": "-"}, {"vat_id": "-"}) == ""


@pytest.mark.parametrize(
    ("first", "second", "level"),
    [
        ("Max Müller t/a Brede Bau", "Brede Bau GmbH", "similar_name"),
        ("Autohaus Brede, Inh. Max Müller", "Max Mueller", "similar_name"),  # codespell:ignore inh
        ("Max Müller t/a Brede Bau", "Moritz Meier t/a Brede Bau", "similar_name"),
        ("Brede GmbH (formerly Hartmann)", "Vossberg GmbH (formerly Hartmann)", "similar_name"),
        ("Max Müller t/a Brede Bau", "Tarnow Schrauben AG", "different_name"),
        ("SIA Abrasives AG", "Abrasives SIA", "similar_name"),
    ],
)
def test_aliases_of_a_party_are_compared(first: str, second: str, level: str) -> None:
    assert seller_level({"name": first}, {"name": second}) == level


def test_missing_party_is_not_evidence() -> None:
    assert weight(score(read(invoice(buyer=None)), read(order(buyer=BUYER))), "buyer") == 0


@pytest.mark.parametrize(("when", "sign"), [(10, 1), (80, -1), (200, -1), (-10, -1), (-90, -1)])
def test_only_date_soon_after_order_adds_bits(when: int, sign: int) -> None:
    score_ = weight(score(read(invoice(when=when)), read(order(when=0))), "date")
    assert (score_ > 0) - (score_ < 0) == sign


def test_contract_covers_the_year_after_its_start() -> None:
    assert weight(score(read(order(when=200)), read(contract(when=0))), "date") > 0
    assert weight(score(read(order(when=-1)), read(contract(when=0))), "date") < 0


def test_another_currency_subtracts_bits() -> None:
    assert weight(score(read(invoice(currency="USD")), read(order())), "currency") < 0


def test_down_payment_is_recognized_by_its_share() -> None:
    down = invoice(
        lines=[{"description": "Anzahlung 20 %", "quantity": "1", "unit_price": "20.90", "net_amount": "20.90"}]
    )
    assert weight(score(read(down), read(order())), "total") > 0


def test_lines_are_paired_once_by_best_fit() -> None:
    invoice_lines = read(invoice(lines=[line("A-1", "5"), line("A-1", "10")])).lines
    order_lines = read(order(lines=[line("A-1", "10"), line("A-1", "5")])).lines
    assert [(pair.child.quantity, pair.parent.quantity) for pair in match_lines(invoice_lines, order_lines)] == [
        (5, 5),
        (10, 10),
    ]


def test_prices_are_compared_per_unit() -> None:
    per_hundred = line("A-1", "500", None, unit_price="12.00", price_basis_quantity="100")
    per_piece = line("A-1", "500", None, unit_price="0.12")
    [pair] = match_lines(read(invoice(lines=[per_hundred])).lines, read(order(lines=[per_piece])).lines)
    assert pair.child.price == pytest.approx(pair.parent.price)


def test_delivery_without_prices_fits_the_order() -> None:
    assert weight(score(read(delivery()), read(order())), "lines") > 0
