"""Small clusters have the expected variances, or none."""

from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from counterfoil.documents.matching import normalize, rules
from counterfoil.documents.three_way_match import (
    Key,
    Limits,
    Result,
    ThreeWayMatchStatus,
    Tolerance,
    Tolerances,
    VarianceCode,
    cluster,
)
from counterfoil.documents.three_way_match.model import VARIANCE_LABELS
from tests.documents.three_way_match.samples import (
    TWO,
    codes,
    credit,
    delivery,
    duplicate_of,
    invoice,
    line,
    links,
    make_document,
    order,
    receipt,
    result,
)


def only_sentence(match_result: Result, code: str) -> str:
    """Assert that the only open variance has this code. Return its sentence."""
    assert codes(match_result) == [code]
    return next(variance.message for variance in match_result.variances if variance.is_open)


def test_agreeing_documents_are_matched():
    match_result = result(order(), delivery(), receipt(), invoice())
    assert (match_result.outcome, match_result.variances, match_result.reasons) == (
        ThreeWayMatchStatus.MATCHED,
        (),
        ("Everything agrees.",),
    )


def test_record_shows_quantities_per_line_item():
    match_result = result(
        order(), delivery(), receipt(lines=[line(quantity="9", rejected_quantity="1"), TWO[1]]), invoice()
    )
    (row, _) = match_result.record["lines"]
    assert {
        name: row[name] for name in ("article", "ordered", "delivered", "received", "rejected", "billed", "price")
    } == {
        "article": "A-1",
        "ordered": "10",
        "delivered": "10",
        "received": "9",
        "rejected": "1",
        "billed": "10",
        "price": "4.2",
    }
    assert [part["role"] for part in row["parts"]] == ["ordered", "delivered", "received", "billed"]


# -- quantities -----------------------------------------------------------------------------------------------------


def test_billing_beyond_delivery_is_an_exception():
    match_result = result(order(), delivery(lines=[line(quantity="9"), TWO[1]]), invoice())
    assert codes(match_result) == ["over_billed_quantity", "under_delivered"]
    assert match_result.outcome is ThreeWayMatchStatus.EXCEPTION
    assert (
        match_result.reasons[0]
        == "Invoice R-100 bills 10 pieces of “Bolt A-1”, but only 9 pieces were delivered (1 piece too many)."
    )


def test_partial_invoice_is_incomplete():
    match_result = result(order(), delivery(lines=[line(quantity="4")]), invoice(lines=[line(quantity="4")]))
    assert codes(match_result) == ["under_delivered", "under_delivered"]
    assert match_result.outcome is ThreeWayMatchStatus.INCOMPLETE
    assert (
        "Purchase order 4711 is not fully billed. Open: 6 pieces of “Bolt A-1”, and 1 more line item."
        in match_result.reasons
    )


def test_partial_deliveries_and_invoices_are_added_up():
    parts = [("4", "1"), ("6", "4")]
    match_result = result(
        order(),
        *(delivery(f"L{n}", n, lines=[line(quantity=a), line("B-2", b, None)]) for n, (a, b) in enumerate(parts)),
        *(invoice(f"R{n}", n, lines=[line(quantity=a), line("B-2", b, "12.50")]) for n, (a, b) in enumerate(parts)),
    )
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)


def test_invoice_exceeding_the_order_is_reported():
    first, second = invoice("R1", 10), invoice("R2", 12, lines=[line(quantity="2")])
    match_result = result(order(), delivery(), first, second)
    assert {variance.document.number for variance in match_result.variances} == {"R2"}
    assert codes(match_result) == ["billed_beyond_order", "over_billed_quantity"]
    assert match_result.reasons[0].startswith(
        "With invoice R2, 2 invoices together bill 12 pieces of “Bolt A-1”, but only 10 pieces were"
    )


def test_delivery_beyond_order_is_reported():
    sentence = only_sentence(
        result(order(), delivery(lines=[line(quantity="11"), TWO[1]]), invoice()), "over_delivered"
    )
    assert sentence == "“Bolt A-1”: 10 pieces were ordered, but 11 were delivered (1 piece too many)."


@pytest.mark.parametrize(
    ("delivered", "sentence"),
    [
        ("9", "“Bolt A-1”: 9 of 10 pieces ordered were delivered; 1 piece is missing."),
        ("1", "“Bolt A-1”: 1 of 10 pieces ordered was delivered; 9 pieces are missing."),
    ],
)
def test_short_delivery_states_the_missing_quantity(delivered: str, sentence: str):
    match_result = result(order(), delivery(lines=[line(quantity=delivered), TWO[1]]))
    assert only_sentence(match_result, "under_delivered") == sentence


def test_each_variance_code_has_a_label():
    assert VARIANCE_LABELS.keys() == set(VarianceCode)


def test_billed_rejected_goods_are_reported():
    rejected_receipt = receipt(lines=[line(rejected_quantity="3"), TWO[1]])
    sentence = only_sentence(result(order(), delivery(), rejected_receipt, invoice()), "rejected_goods_billed")
    assert (
        sentence == "Invoice R-100 bills 10 pieces of “Bolt A-1”, but only 7 pieces were accepted (3 pieces too many)."
    )


def test_unbilled_rejected_goods_cause_no_variance():
    rejected_receipt = receipt(lines=[line(rejected_quantity="3"), TWO[1]])
    match_result = result(order(), delivery(), rejected_receipt, invoice(lines=[line(quantity="7"), TWO[1]]))
    assert codes(match_result) == []


@pytest.mark.parametrize(
    "description", ["Fracht und Verpackung", "Versandkosten", "Shipping & handling", "Frais de port", "Fragt"]
)
def test_unordered_freight_is_not_billed_beyond_order(description: str):
    freight = {"position": "3", "description": description, "quantity": "1", "unit": "C62", "net_amount": "12.50"}

    assert "billed_beyond_order" not in codes(result(order(), delivery(), invoice(lines=[*TWO, freight])))


def test_unordered_goods_named_like_freight_are_reported():
    boxes = {"position": "3", "description": "Transport box", "quantity": "1", "unit": "C62", "net_amount": "12.50"}

    assert "billed_beyond_order" in codes(result(order(), delivery(), invoice(lines=[*TWO, boxes])))


def test_unordered_article_is_reported():
    sentence = only_sentence(
        result(order(), delivery(), invoice(lines=[*TWO, line("Z-9", "1", "99.00")])), "billed_beyond_order"
    )
    assert sentence == "Invoice R-100, line item 3: “Bolt Z-9” is billed but was not ordered."


@pytest.mark.parametrize("amount", ["12.50", "-10.00"])
def test_unordered_freight_of_either_sign_causes_no_variance(amount: str):
    charge = {"description": "Freight", "quantity": "1", "unit_price": amount, "net_amount": amount}
    assert codes(result(order(), delivery(), invoice(lines=[*TWO, charge]))) == []


def test_received_quantity_overrides_the_delivery_note():
    note, goods_receipt = delivery(), receipt(delivery_note_reference="L1", lines=[line(quantity="8"), TWO[1]])
    assert codes(result(order(), note, goods_receipt, invoice())) == ["over_billed_quantity", "under_delivered"]


def test_receipt_without_delivery_note_counts_as_delivered():
    first = delivery("L1", lines=[line(quantity="4"), TWO[1]])
    second = receipt("W2", lines=[line(quantity="6")])
    both = receipt("W1", delivery_note_reference="L1", lines=[line(quantity="4"), TWO[1]])
    assert codes(result(order(), first, both, second, invoice())) == []


def test_services_require_no_delivery():
    lines = [line(unit="HUR", quantity="3", price="80")]
    assert codes(result(order(lines=lines), invoice(lines=lines))) == []


def test_invoice_without_order_is_compared_with_delivery():
    note, invoice_ = delivery(po_reference="", lines=[line(quantity="9")]), invoice(po_reference="", lines=[line()])
    assert codes(result(note, invoice_)) == ["over_billed_quantity"]


def test_convertible_units_are_converted():
    match_result = result(
        order(lines=[line(unit="TNE", quantity="1.5", price="900")]),
        delivery(lines=[line(unit="KGM", quantity="1500")]),
        invoice(lines=[line(unit="KGM", quantity="1500", price="0.90")]),
    )
    assert (codes(match_result), match_result.record["lines"][0]["billed"]) == ([], "1.5")


def test_inexact_conversions_cause_no_variance():
    lines = [line(unit="FOT", quantity="1", price="3.60"), line("B-2", unit="KGM", quantity="0.45359237", price="7")]
    other = [line(unit="INH", quantity="12", price="0.30"), line("B-2", unit="LBR", quantity="1", price="3.17514659")]
    third = line(unit="INH", quantity="4", price="0.30")
    parts = [[third], [third], [third, other[1]]]
    notes = [delivery(f"L{number}", number, lines=part) for number, part in enumerate(parts)]
    match_result = result(order(lines=lines), *notes, invoice(lines=other))
    assert (match_result.variances, match_result.outcome) == ((), ThreeWayMatchStatus.MATCHED)


def test_inconvertible_units_require_a_manual_check():
    match_result = result(order(), delivery(), invoice(lines=[line(unit="BX", quantity="1", price="42"), TWO[1]]))
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.EXCEPTION)
    assert match_result.reasons[0] == (
        "Invoice R-100, line item 1: its unit XBX cannot be converted to the unit in the purchase order. "
        "Check the quantity."
    )


# -- line items -----------------------------------------------------------------------------------------------------


WRITTEN = {
    "split": [line(quantity="4"), line(quantity="6"), TWO[1]],
    "reordered": [TWO[1], TWO[0]],
    "other article number spellings": [{**TWO[0], "article_number": "A1"}, {**TWO[1], "article_number": "b 2"}],
    "another language": [{**TWO[0], "description": "Schraube"}, {**TWO[1], "description": "Mutter"}],
    "descriptions only": [{k: v for k, v in one.items() if k != "article_number"} for one in TWO],
    "order line references only": [
        {**TWO[1], "article_number": "", "description": "Ware", "po_line": "2"},
        {**TWO[0], "article_number": "", "description": "Ware", "po_line": "1"},
    ],
    "lump sum": [
        {"description": "Items as per order", "quantity": "1", "unit_price": "104.50", "net_amount": "104.50"}
    ],
}
"""Line items of equivalent invoices, by layout."""


@pytest.mark.parametrize("how", WRITTEN)
def test_line_layout_does_not_affect_the_match(how: str):
    match_result = result(order(), delivery(), invoice(lines=WRITTEN[how]))
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)


def test_article_number_is_learned_from_a_delivery_note():
    buyer_line, supplier_line = {"buyer_article_number": "900"}, {"article_number": "XK-7"}
    base = {"description": "Handschuhe L", "quantity": "4", "unit": "BX", "unit_price": "10", "net_amount": "40.00"}
    other = {"description": "Handschuhe XL", "quantity": "4", "unit": "BX", "unit_price": "10", "net_amount": "40.00"}
    match_result = result(
        order(lines=[base | buyer_line, other | {"buyer_article_number": "901"}]),
        delivery("L1", lines=[base | {"description": "Gloves"} | supplier_line | buyer_line | {"quantity": "3"}]),
        delivery(
            "L2",
            lines=[base | {"description": "Gloves"} | supplier_line | {"quantity": "1"}, other],
        ),
        invoice(lines=[base, other]),
    )
    assert codes(match_result) == []


def test_lines_of_several_orders_are_separated_by_reference():
    first, second = order("4711"), order("4712", lines=[line(quantity="3")])
    lines = [line(quantity="3", po_reference="4712"), line(po_reference="4711"), TWO[1]]
    invoice_ = invoice(lines=lines, po_reference=["4711", "4712"])
    notes = [delivery("L1"), delivery("L2", lines=[line(quantity="3")], po_reference="4712")]
    edges = [(first.id, invoice_.id), (second.id, invoice_.id), (first.id, notes[0].id), (second.id, notes[1].id)]
    assert codes(result(first, second, *notes, invoice_, edges=edges)) == []


# -- prices ---------------------------------------------------------------------------------------------------------


def test_price_beyond_tolerance_is_a_difference():
    sentence = only_sentence(result(order(), delivery(), invoice(lines=[line(price="4.41"), TWO[1]])), "price_mismatch")
    assert sentence == (
        "Invoice R-100, line item 1: “Bolt A-1” is billed at 4.41 EUR per piece, "
        "ordered at 4.20 EUR per piece, 5% more."
    )


def test_price_within_tolerance_is_reported():
    match_result = result(order(), delivery(), invoice(lines=[line(price="4.21"), TWO[1]]))
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.WITHIN_TOLERANCE)
    assert match_result.reasons[0].endswith("0.2% more. This is within the tolerance.")


def test_same_price_per_hundred_causes_no_variance():
    assert (
        codes(result(order(), delivery(), invoice(lines=[line(price="420", price_basis_quantity="100"), TWO[1]]))) == []
    )


def test_same_price_for_another_basis_is_reported():
    match_result = result(order(), delivery(), invoice(lines=[line(price_basis_quantity="100"), TWO[1]]))
    sentence = only_sentence(match_result, "price_basis_mismatch")
    assert "is billed at 4.20 EUR per 100 pieces, ordered at 4.20 EUR per piece." in sentence


def test_another_tax_rate_is_reported():
    match_result = result(
        order(lines=[line(tax_rate="19"), TWO[1]]), delivery(), invoice(lines=[line(tax_rate="7"), TWO[1]])
    )
    assert only_sentence(match_result, "tax_mismatch").endswith("is taxed at 7%, ordered at 19%.")


def test_currency_case_and_spaces_are_ignored():
    assert codes(result(order(), delivery(), invoice(currency=" eur"))) == []


def test_other_currency_prices_are_not_compared():
    lines = [line(price="9.99"), TWO[1]]
    assert only_sentence(result(order(), delivery(), invoice(currency="USD", lines=lines)), "currency_mismatch") == (
        "Invoice R-100 is in USD, purchase order 4711 in EUR."
    )


# -- totals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("totals", "is_wrong"),
    [
        ({"total_net": "104.55"}, False),
        ({"total_net": "104.56"}, True),
        ({"total_gross": "110.00"}, True),
        ({"total_tax": "19.86", "total_gross": "124.00"}, False),
        ({"total_tax": "19.86", "total_gross": "124.36"}, False),
        ({"total_net": "1045.0"}, True),
    ],
)
def test_totals_may_differ_only_by_rounding(totals: dict[str, str], is_wrong: bool):
    stated: dict[str, Any] = {"total_net": "104.50", "total_tax": "0.00", "total_gross": None} | totals
    assert codes(result(order(), delivery(), invoice(**stated))) == (["total_mismatch"] if is_wrong else [])


# -- duplicate and missing documents --------------------------------------------------------------------------------


def test_repeated_invoice_is_only_a_duplicate():
    first, copy = invoice(), duplicate_of(invoice(received=14))
    match_result = result(
        order(), delivery(), first, copy, edges=[*links([order(), delivery(), first]), (first.id, copy.id)]
    )
    assert only_sentence(match_result, "duplicate_invoice") == (
        "Invoice R-100 is a duplicate of an earlier invoice with this number (2026-03-12, 104.50 EUR)."
    )
    assert match_result.variances[0].document.id == copy.id


def test_unlinked_invoice_with_same_number_is_duplicate():
    first, copy = invoice(), duplicate_of(invoice(received=14))
    assert codes(result(order(), delivery(), first, copy)) == ["duplicate_invoice"]


def test_equal_halves_of_an_order_are_not_duplicates():
    half = [line(quantity="5"), line("B-2", "2.5", "12.50")]
    match_result = result(order(), delivery(), invoice("R1", 10, lines=half), invoice("R2", 11, lines=half))
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)


def test_same_number_next_year_is_not_a_duplicate():
    lines = [line(unit="MON", quantity="1", price="900")]
    last = invoice("1", 0, lines=lines, po_reference="")
    second_invoice = invoice("0001", 365, lines=lines, po_reference="")
    rent = make_document("contract", "C1", -10, lines=lines)
    assert codes(result(rent, last, second_invoice, edges=[(rent.id, last.id), (rent.id, second_invoice.id)])) == []


def test_full_credit_note_resolves_a_duplicate():
    first, duplicate = invoice(), invoice("R-200", 12)
    edges = [*links([order(), delivery(), first]), (first.id, duplicate.id), (duplicate.id, credit().id)]
    match_result = result(order(), delivery(), first, duplicate, credit(), edges=edges)
    assert (codes(match_result), match_result.variances[0].decided_by) == ([], "Credit note G1 credits all of it.")
    assert match_result.outcome is ThreeWayMatchStatus.MATCHED


def test_missing_order_is_reported():
    match_result = result(delivery(), invoice())
    sentence = "Invoice R-100 names purchase order 4711, which has not been received."
    assert only_sentence(match_result, "missing_purchase_order") == sentence
    assert match_result.outcome is ThreeWayMatchStatus.INCOMPLETE


def test_excess_of_a_measured_quantity_is_too_much():
    ordered, delivered = line(unit="MTR"), line(unit="MTR", quantity="11.5")
    match_result = result(order(lines=[ordered]), delivery(lines=[delivered]), invoice(lines=[ordered]))
    assert only_sentence(match_result, "over_delivered").endswith("but 11.5 were delivered (1.5 m too much).")


def test_several_missing_orders_are_reported_in_plural():
    lines = [line(po_reference="4711"), line("B-2", "5", "12.50", po_reference="4712")]
    match_result = result(delivery(), invoice(lines=lines, po_reference=""))
    sentence = "Invoice R-100 names purchase orders 4711, 4712, which have not been received."
    assert only_sentence(match_result, "missing_purchase_order") == sentence


def test_damaged_reference_is_not_a_missing_order():
    assert codes(result(order(), delivery(), invoice(po_reference="9711"))) == []


def test_undelivered_billed_goods_are_reported():
    match_result = result(order(), invoice())
    assert only_sentence(match_result, "missing_delivery") == (
        "Invoice R-100 bills 10 pieces of “Bolt A-1” and 1 more line item, "
        "but there is no delivery note or goods receipt for purchase order 4711."
    )


def test_invoice_without_line_items_bills_its_total():
    invoice_ = invoice(lines=[], total_net="104.50", total_gross="104.50")
    match_result = result(order(), delivery(), invoice_)
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)


def test_lump_sum_below_the_order_is_incomplete():
    match_result = result(order(), delivery(), invoice(lines=[], total_net="99.00", total_gross="99.00"))
    assert match_result.outcome is ThreeWayMatchStatus.INCOMPLETE
    assert match_result.reasons[-1] == (
        "Invoice R-100 names no line item of purchase order 4711: 99.00 EUR cannot be split by line item."
    )


def test_lump_sum_beyond_the_order_is_reported():
    match_result = result(order(), delivery(), invoice(lines=[], total_net="150.00", total_gross="150.00"))
    assert only_sentence(match_result, "billed_beyond_order") == (
        "Invoice R-100 bills 150.00 EUR without naming an article; purchase order 4711 is worth 104.50 EUR."
    )


def test_empty_delivery_note_leaves_quantities_unknown():
    match_result = result(order(), delivery(lines=[]), invoice())
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.INCOMPLETE)
    assert match_result.reasons == ("Delivery note L1 has no line items, so the delivered quantities are unknown.",)


def test_order_without_invoice_is_incomplete():
    match_result = result(order(), delivery())
    assert (match_result.outcome, match_result.reasons) == (
        ThreeWayMatchStatus.INCOMPLETE,
        ("The invoice is missing.",),
    )


def test_invoice_without_order_has_a_reason():
    match_result = result(invoice(po_reference=""))
    assert match_result.reasons == ("Invoice R-100 names no purchase order, and no matching one was found.",)


# -- versions, credits and tolerances -------------------------------------------------------------------------------


def test_changed_order_replaces_the_first_version():
    changed = duplicate_of(order(day=2, lines=[line(quantity="12"), TWO[1]]))
    note, invoice_ = delivery(lines=[line(quantity="12"), TWO[1]]), invoice(lines=[line(quantity="12"), TWO[1]])
    match_result = result(order(), changed, note, invoice_, edges=links([order(), note, invoice_]))
    assert codes(match_result) == []
    assert match_result.warnings == (
        "Purchase order 4711 was changed or repeated, and its last version counts (2026-03-04).",
    )


def test_duplicate_delivery_note_counts_once():
    match_result = result(order(), delivery(), duplicate_of(delivery()), invoice())
    assert codes(match_result) == []
    assert match_result.warnings == ("Delivery note L1 was received more than once, and counts once (2026-03-07).",)


def test_credited_excess_is_resolved():
    invoice_ = invoice(lines=[line(quantity="12"), TWO[1]])
    match_result = result(order(), delivery(), invoice_, credit(lines=[line(quantity="2")]))
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)
    assert {variance.decided_by for variance in match_result.variances} == {"Credit note G1 credits 2 pieces."}


def test_insufficient_credit_note_resolves_nothing():
    invoice_ = invoice(lines=[line(quantity="12"), TWO[1]])
    match_result = result(order(), delivery(), invoice_, credit(lines=[line(quantity="1")]))
    assert codes(match_result) == ["billed_beyond_order", "over_billed_quantity"]


def test_tolerance_for_a_supplier_applies_to_its_invoices():
    limits = Limits(upper_percent=Decimal(10), lower_absolute=Decimal(0))
    own = Tolerances([Tolerance(Key.BILLED_QUANTITY, limits, supplier="DE136695976")])
    invoice_ = invoice(lines=[line(quantity="11"), TWO[1]])
    match_result = result(order(), delivery(), invoice_, tolerances=own)
    assert match_result.outcome is ThreeWayMatchStatus.WITHIN_TOLERANCE


# -- unusual values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", ["", "0", "NaN", "Infinity", "1e999999", "-3", "ten"])
def test_invalid_numbers_yield_a_status(quantity: str):
    unusual_line = {**TWO[0], "quantity": quantity, "unit_price": quantity, "net_amount": quantity}
    for documents in (
        [order(lines=[unusual_line]), invoice()],
        [order(), delivery(lines=[unusual_line]), invoice(lines=[unusual_line])],
    ):
        assert result(*documents).record["outcome"] in set(ThreeWayMatchStatus)


@pytest.mark.parametrize("number", ["9" * 28, "1" + "0" * 30, "0." + "0" * 29 + "1"])
@pytest.mark.parametrize("field", ["quantity", "unit_price", "price_basis_quantity", "net_amount", "tax_rate"])
def test_numbers_of_any_size_yield_a_status(field: str, number: str):
    unusual_line = {**TWO[0], "tax_rate": "19", field: number}
    for documents in (
        [order(lines=[unusual_line]), delivery(), invoice()],
        [order(), delivery(), invoice(lines=[unusual_line])],
    ):
        assert result(*documents).record["outcome"] in set(ThreeWayMatchStatus)


def test_price_of_thirty_digits_is_a_price_difference():
    invoice_ = invoice(lines=[{**TWO[0], "unit_price": "4" + "0" * 29}, TWO[1]])
    assert "price_mismatch" in codes(result(order(), delivery(), invoice_))


def test_only_orders_sharing_a_number_are_compared(monkeypatch: pytest.MonkeyPatch):
    read, compared = list[UUID](), list[tuple[UUID, UUID]]()
    profiled, is_same = normalize.document, rules.is_same_document

    def record_read(id_: UUID, *rest: Any) -> normalize.Document:
        read.append(id_)
        return profiled(id_, *rest)

    def record_pair(first: normalize.Document, second: normalize.Document) -> bool:
        compared.append((first.id, second.id))
        return is_same(first, second)

    monkeypatch.setattr(normalize, "document", record_read)
    monkeypatch.setattr(cluster, "is_same_document", record_pair)
    forms = [order(day=day) for day in range(3)]
    forms = [replace(form, id=UUID(int=form.id.int + day)) for day, form in enumerate(forms)]
    result_ = cluster.ClusterDocuments([*forms, *(order(str(number)) for number in range(5000, 5040))], [])
    assert result_.superseded_orders == {forms[0].id: forms[2], forms[1].id: forms[2]}
    assert len(compared) == 3
    assert sorted(read) == sorted(form.id for form in forms)


def test_sentences_quote_only_part_of_long_texts():
    long = {**TWO[0], "description": "x\n" * 5000, "quantity": "12"}
    assert max(map(len, result(order(), delivery(), invoice(lines=[long])).reasons)) < 400
