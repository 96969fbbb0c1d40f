"""Each code, and what is none: what a clerk would say of small cases."""

from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from counterfoil.documents.matching import normalise, rules
from counterfoil.documents.three_way_match import Key, Limits, Outcome, Result, Tolerance, Tolerances, case
from tests.documents.three_way_match.papers import (
    TWO,
    again,
    codes,
    credit,
    delivery,
    invoice,
    line,
    links,
    order,
    paper,
    receipt,
    result,
)


def only(found: Result, code: str) -> str:
    """The sentence of the one thing that is wrong."""
    assert codes(found) == [code]
    return next(one.sentence for one in found.variances if one.is_open)


def test_a_case_that_agrees_is_matched():
    found = result(order(), delivery(), receipt(), invoice())
    assert (found.outcome, found.variances, found.reasons) == (Outcome.MATCHED, (), ("Everything agrees.",))


def test_the_lines_stand_side_by_side():
    found = result(order(), delivery(), receipt(lines=[line(quantity="9", rejected_quantity="1"), TWO[1]]), invoice())
    (row, _) = found.record["lines"]
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


def test_more_billed_than_delivered():
    found = result(order(), delivery(lines=[line(quantity="9"), TWO[1]]), invoice())
    assert codes(found) == ["over_billed_quantity", "under_delivered"]
    assert found.outcome is Outcome.EXCEPTION
    assert found.reasons[0] == "Invoice R-100 bills 10 pieces of 'Bolt A-1'; 9 pieces were delivered, 1 piece too many."


def test_less_billed_than_ordered_waits_for_the_rest():
    found = result(order(), delivery(lines=[line(quantity="4")]), invoice(lines=[line(quantity="4")]))
    assert codes(found) == ["under_delivered", "under_delivered"]
    assert found.outcome is Outcome.INCOMPLETE
    assert "Purchase order 4711: 6 pieces of 'Bolt A-1' not billed yet, and more on 1 other lines." in found.reasons


def test_partial_deliveries_and_invoices_are_added_up():
    parts = [("4", "1"), ("6", "4")]
    found = result(
        order(),
        *(delivery(f"L{n}", n, lines=[line(quantity=a), line("B-2", b, None)]) for n, (a, b) in enumerate(parts)),
        *(invoice(f"R{n}", n, lines=[line(quantity=a), line("B-2", b, "12.50")]) for n, (a, b) in enumerate(parts)),
    )
    assert (codes(found), found.outcome) == ([], Outcome.MATCHED)


def test_the_invoice_that_goes_beyond_is_the_one_that_is_told():
    first, second = invoice("R1", 10), invoice("R2", 12, lines=[line(quantity="2")])
    found = result(order(), delivery(), first, second)
    assert {one.document.number for one in found.variances} == {"R2"}
    assert codes(found) == ["billed_beyond_order", "over_billed_quantity"]
    assert found.reasons[0].startswith(
        "With invoice R2, 2 invoices together bill 12 pieces of 'Bolt A-1'; 10 pieces were"
    )


def test_more_delivered_than_ordered():
    sentence = only(result(order(), delivery(lines=[line(quantity="11"), TWO[1]]), invoice()), "over_delivered")
    assert sentence == "'Bolt A-1': 11 pieces of 10 pieces ordered were delivered, 1 piece too many."


def test_rejected_goods_that_are_billed():
    refused = receipt(lines=[line(rejected_quantity="3"), TWO[1]])
    sentence = only(result(order(), delivery(), refused, invoice()), "rejected_goods_billed")
    assert sentence == "Invoice R-100 bills 10 pieces of 'Bolt A-1'; 7 pieces were accepted, 3 pieces too many."


def test_rejected_goods_that_are_not_billed_are_in_order():
    refused = receipt(lines=[line(rejected_quantity="3"), TWO[1]])
    found = result(order(), delivery(), refused, invoice(lines=[line(quantity="7"), TWO[1]]))
    assert codes(found) == []


@pytest.mark.parametrize(
    "description", ["Fracht und Verpackung", "Versandkosten", "Shipping & handling", "Frais de port", "Fragt"]
)
def test_freight_is_billed_without_an_order(description: str):
    freight = {"position": "3", "description": description, "quantity": "1", "unit": "C62", "net_amount": "12.50"}

    assert "billed_beyond_order" not in codes(result(order(), delivery(), invoice(lines=[*TWO, freight])))


def test_goods_that_have_to_do_with_freight_are_goods():
    boxes = {"position": "3", "description": "Transport box", "quantity": "1", "unit": "C62", "net_amount": "12.50"}

    assert "billed_beyond_order" in codes(result(order(), delivery(), invoice(lines=[*TWO, boxes])))


def test_what_was_never_ordered():
    sentence = only(
        result(order(), delivery(), invoice(lines=[*TWO, line("Z-9", "1", "99.00")])), "billed_beyond_order"
    )
    assert sentence == "Invoice R-100, line 3: 'Bolt Z-9' is billed and was not ordered."


@pytest.mark.parametrize("amount", ["12.50", "-10.00"])
def test_freight_and_discounts_are_not_ordered_and_no_exception(amount: str):
    extra = {"description": "Freight", "quantity": "1", "unit_price": amount, "net_amount": amount}
    assert codes(result(order(), delivery(), invoice(lines=[*TWO, extra]))) == []


def test_of_a_delivery_with_note_and_receipt_what_was_received_counts():
    note, counted = delivery(), receipt(delivery_note_reference="L1", lines=[line(quantity="8"), TWO[1]])
    assert codes(result(order(), note, counted, invoice())) == ["over_billed_quantity", "under_delivered"]


def test_a_receipt_without_its_note_counts_too():
    first = delivery("L1", lines=[line(quantity="4"), TWO[1]])
    second = receipt("W2", lines=[line(quantity="6")])
    both = receipt("W1", delivery_note_reference="L1", lines=[line(quantity="4"), TWO[1]])
    assert codes(result(order(), first, both, second, invoice())) == []


def test_services_are_not_delivered():
    lines = [line(unit="HUR", quantity="3", price="80")]
    assert codes(result(order(lines=lines), invoice(lines=lines))) == []


def test_without_an_order_the_delivery_is_what_an_invoice_is_held_against():
    note, bill = delivery(po_reference="", lines=[line(quantity="9")]), invoice(po_reference="", lines=[line()])
    assert codes(result(note, bill)) == ["over_billed_quantity"]


def test_units_that_can_be_converted_are():
    found = result(
        order(lines=[line(unit="TNE", quantity="1.5", price="900")]),
        delivery(lines=[line(unit="KGM", quantity="1500")]),
        invoice(lines=[line(unit="KGM", quantity="1500", price="0.90")]),
    )
    assert (codes(found), found.record["lines"][0]["billed"]) == ([], "1.5")


def test_conversions_that_do_not_come_out_even_make_no_difference():
    lines = [line(unit="FOT", quantity="1", price="3.60"), line("B-2", unit="KGM", quantity="0.45359237", price="7")]
    other = [line(unit="INH", quantity="12", price="0.30"), line("B-2", unit="LBR", quantity="1", price="3.17514659")]
    third = line(unit="INH", quantity="4", price="0.30")
    parts = [[third], [third], [third, other[1]]]
    notes = [delivery(f"L{number}", number, lines=part) for number, part in enumerate(parts)]
    found = result(order(lines=lines), *notes, invoice(lines=other))
    assert (found.variances, found.outcome) == ((), Outcome.MATCHED)


def test_units_that_cannot_be_converted_are_for_a_person():
    found = result(order(), delivery(), invoice(lines=[line(unit="BX", quantity="1", price="42"), TWO[1]]))
    assert (codes(found), found.outcome) == ([], Outcome.EXCEPTION)
    assert found.reasons[0] == (
        "Invoice R-100, line 1: its unit XBX cannot be compared with the order's: check the quantity."
    )


# -- lines ----------------------------------------------------------------------------------------------------------


WRITTEN = {
    "split": [line(quantity="4"), line(quantity="6"), TWO[1]],
    "another order": [TWO[1], TWO[0]],
    "codes written otherwise": [{**TWO[0], "article_number": "A1"}, {**TWO[1], "article_number": "b 2"}],
    "another language": [{**TWO[0], "description": "Schraube"}, {**TWO[1], "description": "Mutter"}],
    "words alone": [{k: v for k, v in one.items() if k != "article_number"} for one in TWO],
    "order lines alone": [
        {**TWO[1], "article_number": "", "description": "Ware", "po_line": "2"},
        {**TWO[0], "article_number": "", "description": "Ware", "po_line": "1"},
    ],
    "lump": [{"description": "Items as per order", "quantity": "1", "unit_price": "104.50", "net_amount": "104.50"}],
}
"""How the lines of one bill may be written."""


@pytest.mark.parametrize("how", WRITTEN)
def test_however_its_lines_are_written_the_same_bill_agrees(how: str):
    found = result(order(), delivery(), invoice(lines=WRITTEN[how]))
    assert (codes(found), found.outcome) == ([], Outcome.MATCHED)


def test_what_a_delivery_note_calls_an_article_is_learned_from_the_others():
    ours, theirs = {"buyer_article_number": "900"}, {"article_number": "XK-7"}
    plain = {"description": "Handschuhe L", "quantity": "4", "unit": "BX", "unit_price": "10", "net_amount": "40.00"}
    other = {"description": "Handschuhe XL", "quantity": "4", "unit": "BX", "unit_price": "10", "net_amount": "40.00"}
    found = result(
        order(lines=[plain | ours, other | {"buyer_article_number": "901"}]),
        delivery("L1", lines=[plain | {"description": "Gloves"} | theirs | ours | {"quantity": "3"}]),
        delivery(
            "L2",
            lines=[plain | {"description": "Gloves"} | theirs | {"quantity": "1"}, other],
        ),
        invoice(lines=[plain, other]),
    )
    assert codes(found) == []


def test_lines_of_several_orders_are_told_apart_by_the_order_that_they_name():
    first, second = order("4711"), order("4712", lines=[line(quantity="3")])
    lines = [line(quantity="3", po_reference="4712"), line(po_reference="4711"), TWO[1]]
    bill = invoice(lines=lines, po_reference=["4711", "4712"])
    notes = [delivery("L1"), delivery("L2", lines=[line(quantity="3")], po_reference="4712")]
    edges = [(first.id, bill.id), (second.id, bill.id), (first.id, notes[0].id), (second.id, notes[1].id)]
    assert codes(result(first, second, *notes, bill, edges=edges)) == []


# -- prices ---------------------------------------------------------------------------------------------------------


def test_a_price_beyond_the_tolerance():
    sentence = only(result(order(), delivery(), invoice(lines=[line(price="4.41"), TWO[1]])), "price_mismatch")
    assert (
        sentence
        == "Invoice R-100, line 1: 'Bolt A-1' is billed at 4.41 EUR per piece, ordered at 4.20 EUR per piece, 5 % more."
    )


def test_a_price_within_the_tolerance_is_told_and_needs_nobody():
    found = result(order(), delivery(), invoice(lines=[line(price="4.21"), TWO[1]]))
    assert (codes(found), found.outcome) == ([], Outcome.WITHIN_TOLERANCE)
    assert found.reasons[0].endswith("0.2 % more (within the tolerance).")


def test_a_price_restated_for_another_basis_is_the_same_price():
    assert (
        codes(result(order(), delivery(), invoice(lines=[line(price="420", price_basis_quantity="100"), TWO[1]]))) == []
    )


def test_the_same_figure_for_another_basis():
    found = result(order(), delivery(), invoice(lines=[line(price_basis_quantity="100"), TWO[1]]))
    sentence = only(found, "price_basis_mismatch")
    assert "is billed at 4.20 EUR per 100 pieces, ordered at 4.20 EUR per piece." in sentence


def test_another_tax_rate():
    found = result(order(lines=[line(tax_rate="19"), TWO[1]]), delivery(), invoice(lines=[line(tax_rate="7"), TWO[1]]))
    assert only(found, "tax_mismatch").endswith("is taxed at 7 %, ordered at 19 %.")


def test_a_currency_is_the_same_however_it_is_written():
    assert codes(result(order(), delivery(), invoice(currency=" eur"))) == []


def test_in_another_currency_prices_are_not_compared():
    lines = [line(price="9.99"), TWO[1]]
    assert only(result(order(), delivery(), invoice(currency="USD", lines=lines)), "currency_mismatch") == (
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
def test_lines_and_totals_must_agree_but_for_cents_and_a_rounded_amount_to_pay(totals: dict[str, str], is_wrong: bool):
    stated: dict[str, Any] = {"total_net": "104.50", "total_tax": "0.00", "total_gross": None} | totals
    assert codes(result(order(), delivery(), invoice(**stated))) == (["total_mismatch"] if is_wrong else [])


# -- too many, missing ----------------------------------------------------------------------------------------------


def test_the_same_invoice_again_is_a_duplicate_and_nothing_else():
    first, copy = invoice(), again(invoice(received=14))
    found = result(order(), delivery(), first, copy, edges=[*links([order(), delivery(), first]), (first.id, copy.id)])
    assert only(found, "duplicate_invoice") == (
        "Invoice R-100 is here already: the same bill of 2026-03-12 over 104.50 EUR came again."
    )
    assert found.variances[0].document.id == copy.id


def test_the_same_number_on_the_same_day_is_a_duplicate_though_nobody_has_linked_it():
    first, copy = invoice(), again(invoice(received=14))
    assert codes(result(order(), delivery(), first, copy)) == ["duplicate_invoice"]


def test_two_halves_of_an_order_are_no_duplicates_however_alike_they_are():
    half = [line(quantity="5"), line("B-2", "2.5", "12.50")]
    found = result(order(), delivery(), invoice("R1", 10, lines=half), invoice("R2", 11, lines=half))
    assert (codes(found), found.outcome) == ([], Outcome.MATCHED)


def test_a_monthly_invoice_with_the_number_of_last_year_is_no_duplicate():
    lines = [line(unit="MON", quantity="1", price="900")]
    last = invoice("1", 0, lines=lines, po_reference="")
    this = invoice("0001", 365, lines=lines, po_reference="")
    rent = paper("contract", "C1", -10, lines=lines)
    assert codes(result(last, this, edges=[(rent.id, last.id), (rent.id, this.id)])) == []


def test_a_credit_note_over_all_of_a_duplicate_settles_it():
    first, again = invoice(), invoice("R-200", 12)
    edges = [*links([order(), delivery(), first]), (first.id, again.id), (again.id, credit().id)]
    found = result(order(), delivery(), first, again, credit(), edges=edges)
    assert (codes(found), found.variances[0].settled_by) == ([], "Credit note G1 credits all of it.")
    assert found.outcome is Outcome.MATCHED


def test_an_order_that_is_not_here():
    found = result(delivery(), invoice())
    assert only(found, "missing_purchase_order") == "Invoice R-100 names order 4711, which is not here."
    assert found.outcome is Outcome.INCOMPLETE


def test_a_number_that_capture_damaged_is_no_missing_order():
    assert codes(result(order(), delivery(), invoice(po_reference="9711"))) == []


def test_goods_billed_and_never_delivered():
    found = result(order(), invoice())
    assert only(found, "missing_delivery") == (
        "Invoice R-100 bills 10 pieces of 'Bolt A-1' and 1 more; "
        "there is no delivery note or receipt for purchase order 4711."
    )


def test_an_invoice_that_states_no_lines_bills_what_its_total_is_worth():
    bill = invoice(lines=[], total_net="104.50", total_gross="104.50")
    found = result(order(), delivery(), bill)
    assert (codes(found), found.outcome) == ([], Outcome.MATCHED)


def test_an_invoice_of_one_amount_that_no_goods_come_to_is_not_taken_for_them():
    found = result(order(), delivery(), invoice(lines=[], total_net="99.00", total_gross="99.00"))
    assert found.outcome is Outcome.INCOMPLETE
    assert found.reasons[-1] == (
        "Invoice R-100 names no line item of purchase order 4711: 99.00 EUR cannot be split by line item."
    )


def test_an_invoice_of_one_amount_beyond_its_order_s_worth():
    found = result(order(), delivery(), invoice(lines=[], total_net="150.00", total_gross="150.00"))
    assert only(found, "billed_beyond_order") == (
        "Invoice R-100 bills 150.00 EUR without naming an article; purchase order 4711 is worth 104.50 EUR."
    )


def test_a_delivery_note_without_lines_is_no_missing_delivery_and_nothing_that_was_counted():
    found = result(order(), delivery(lines=[]), invoice())
    assert (codes(found), found.outcome) == ([], Outcome.INCOMPLETE)
    assert found.reasons == ("Delivery note L1 has no line items, so the delivered quantities are unknown.",)


def test_an_order_alone_waits_for_its_invoice():
    found = result(order(), delivery())
    assert (found.outcome, found.reasons) == (Outcome.INCOMPLETE, ("There is no invoice yet.",))


def test_an_invoice_with_nothing_to_hold_it_against_says_so():
    found = result(invoice(po_reference=""))
    assert found.reasons == ("Invoice R-100 names no order, and no matching order was found.",)


# -- what counts ----------------------------------------------------------------------------------------------------


def test_an_order_that_was_changed_counts_as_it_was_changed():
    changed = again(order(day=2, lines=[line(quantity="12"), TWO[1]]))
    note, bill = delivery(lines=[line(quantity="12"), TWO[1]]), invoice(lines=[line(quantity="12"), TWO[1]])
    found = result(order(), changed, note, bill, edges=links([order(), note, bill]))
    assert codes(found) == []
    assert found.remarks == ("Purchase order 4711 was changed or came again: the last form of it counts (2026-03-04).",)


def test_a_delivery_note_that_came_twice_counts_once():
    found = result(order(), delivery(), again(delivery()), invoice())
    assert codes(found) == []
    assert found.remarks == ("Delivery note L1 came more than once, and counts once (2026-03-07).",)


def test_what_was_billed_too_much_and_credited_is_settled():
    bill = invoice(lines=[line(quantity="12"), TWO[1]])
    found = result(order(), delivery(), bill, credit(lines=[line(quantity="2")]))
    assert (codes(found), found.outcome) == ([], Outcome.MATCHED)
    assert {one.settled_by for one in found.variances} == {"Credit note G1 credits 2 pieces."}


def test_a_credit_note_over_less_settles_nothing():
    bill = invoice(lines=[line(quantity="12"), TWO[1]])
    found = result(order(), delivery(), bill, credit(lines=[line(quantity="1")]))
    assert codes(found) == ["billed_beyond_order", "over_billed_quantity"]


def test_a_tenant_s_tolerance_applies_to_its_supplier():
    limits = Limits(upper_percent=Decimal(10), lower_absolute=Decimal(0))
    own = Tolerances([Tolerance(Key.BILLED_QUANTITY, limits, supplier="DE136695976")])
    bill = invoice(lines=[line(quantity="11"), TWO[1]])
    found = result(order(), delivery(), bill, tolerances=own)
    assert found.outcome is Outcome.WITHIN_TOLERANCE


# -- what documents may state ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", ["", "0", "NaN", "Infinity", "1e999999", "-3", "ten"])
def test_numbers_that_make_no_sense_stop_nothing(quantity: str):
    odd = {**TWO[0], "quantity": quantity, "unit_price": quantity, "net_amount": quantity}
    for documents in ([order(lines=[odd]), invoice()], [order(), delivery(lines=[odd]), invoice(lines=[odd])]):
        assert result(*documents).record["outcome"] in set(Outcome)


@pytest.mark.parametrize("number", ["9" * 28, "1" + "0" * 30, "0." + "0" * 29 + "1"])
@pytest.mark.parametrize("field", ["quantity", "unit_price", "price_basis_quantity", "net_amount", "tax_rate"])
def test_a_number_of_any_size_is_held_against_the_others(field: str, number: str):
    odd = {**TWO[0], "tax_rate": "19", field: number}
    for documents in ([order(lines=[odd]), delivery(), invoice()], [order(), delivery(), invoice(lines=[odd])]):
        assert result(*documents).record["outcome"] in set(Outcome)


def test_a_price_of_thirty_digits_is_said_to_be_more():
    bill = invoice(lines=[{**TWO[0], "unit_price": "4" + "0" * 29}, TWO[1]])
    assert "price_mismatch" in codes(result(order(), delivery(), bill))


def test_of_many_orders_each_is_read_once_and_only_compared_with_those_of_its_number(monkeypatch: pytest.MonkeyPatch):
    read, compared = list[UUID](), list[tuple[UUID, UUID]]()
    profiled, is_same = normalise.document, rules.same_again

    def counted(id_: UUID, *rest: Any) -> normalise.Document:
        read.append(id_)
        return profiled(id_, *rest)

    def noted(one: normalise.Document, other: normalise.Document) -> bool:
        compared.append((one.id, other.id))
        return is_same(one, other)

    monkeypatch.setattr(normalise, "document", counted)
    monkeypatch.setattr(case, "same_again", noted)
    forms = [order(day=day) for day in range(3)]
    forms = [replace(form, id=UUID(int=form.id.int + day)) for day, form in enumerate(forms)]
    found = case.Case([*forms, *(order(str(number)) for number in range(5000, 5040))], [])
    assert found.changed == {forms[0].id: forms[2], forms[1].id: forms[2]}
    assert len(compared) == 3
    assert sorted(read) == sorted(form.id for form in forms)


def test_a_sentence_quotes_no_more_of_a_text_than_is_good_for_it():
    long = {**TWO[0], "description": "x\n" * 5000, "quantity": "12"}
    assert max(map(len, result(order(), delivery(), invoice(lines=[long])).reasons)) < 400
