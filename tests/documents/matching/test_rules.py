"""What a link is, case by case, decided from documents alone."""

from counterfoil.documents.matching import rules
from tests.documents.matching.papers import (
    OTHER_SELLER,
    SELLER,
    Paper,
    confirmation,
    contract,
    credit,
    delivery,
    invoice,
    line,
    order,
    read,
    receipt,
)
from tests.documents.matching.whole import Whole


def linked(*papers: Paper) -> set[tuple[int, int, str]]:
    """Child, parent and rule of each link, by the positions of the papers."""
    documents = [read(paper, position + 1) for position, paper in enumerate(papers)]
    return {(link.child.int - 1, link.parent.int - 1, link.by) for link in Whole(documents).links()}


def reason(*papers: Paper) -> str | None:
    """What the last of the papers says about why it is alone."""
    documents = [read(paper, position + 1) for position, paper in enumerate(papers)]
    return Whole(documents).reason(documents[-1])


def test_documents_that_name_the_order_belong_to_it() -> None:
    papers = [
        order("4711"),
        invoice(po_reference="PO 4711"),
        confirmation(po_reference="4711"),
        delivery(po_reference="04711"),
    ]
    assert {(1, 0, "reference"), (2, 0, "reference"), (3, 0, "reference")} <= linked(*papers)


def test_an_invoice_may_be_for_several_orders() -> None:
    one, two = order("4711", lines=[line("A-1")]), order("4712", 2, lines=[line("B-1")])
    bill = invoice(po_reference=["4711", "4712"], lines=[line("A-1"), line("B-1")])
    assert linked(one, two, bill) == {(2, 0, "reference"), (2, 1, "reference")}


def test_the_number_of_a_line_counts_as_the_documents() -> None:
    assert linked(order("4711"), invoice(lines=[line("A-100", po_reference="4711")])) == {(1, 0, "reference")}


def test_an_invoice_without_a_number_belongs_to_the_one_order_that_fits() -> None:
    assert linked(order("4711"), order("4800", lines=[line("Q-1")]), invoice()) == {(2, 0, "content")}


def test_two_orders_that_fit_equally_are_in_doubt_and_said_to_be() -> None:
    papers = [order("4711"), order("4712", 1), invoice()]
    assert linked(*papers) == set()
    assert reason(*papers) == "Two documents fit equally: order 4711, order 4712."


def test_how_fully_an_order_names_the_parties_does_not_decide_between_two() -> None:
    silent = order("4712", seller={"name": "Tarnow Schrauben AG"})
    assert linked(order("4711"), silent, invoice()) == set()


def test_an_order_that_is_not_here_is_named() -> None:
    assert reason(order("4711", seller=OTHER_SELLER, lines=[line("Q")]), invoice(po_reference="B-77")) == (
        "Names order B-77, which is not here."
    )


def test_a_number_that_another_sellers_order_bears_is_not_enough() -> None:
    papers = [order("4711", seller=OTHER_SELLER, lines=[line("Q-1")]), invoice(po_reference="4711")]
    assert linked(*papers) == set()
    assert reason(*papers) == "Names order 4711, but the document with that number does not fit."


def test_nothing_near_is_no_partner() -> None:
    assert reason(invoice()) == "No partner found."


def test_a_duplicate_is_linked_to_its_original_and_to_nothing_else() -> None:
    first, again = invoice(po_reference="4711", received=11), invoice(po_reference="4711", received=12)
    assert linked(order("4711"), again, first) == {(2, 0, "reference"), (1, 2, "copy")}


def test_of_copies_received_together_the_smallest_id_is_the_original() -> None:
    assert linked(invoice(), invoice(), invoice()) == {(1, 0, "copy"), (2, 0, "copy")}


def test_the_same_bill_under_another_number_is_a_duplicate() -> None:
    assert linked(order("4711"), invoice("R-1", 10, po_reference="4711"), invoice("R-9", 17, po_reference="4711")) == {
        (1, 0, "reference"),
        (2, 1, "copy"),
    }


def test_the_same_amount_next_month_is_no_duplicate() -> None:
    bills = [invoice("R-1", 10, po_reference="4711"), invoice("R-2", 41, po_reference="4711")]
    assert linked(order("4711"), *bills) == {(1, 0, "reference"), (2, 0, "reference")}


def test_the_same_number_of_another_seller_is_no_duplicate() -> None:
    assert linked(invoice("R-1"), invoice("R-1", seller=OTHER_SELLER)) == set()


def test_a_change_is_linked_to_its_order_and_all_else_to_the_order() -> None:
    change = order("4711", 3, lines=[line("A-100", "20")])
    assert linked(order("4711"), change, invoice(po_reference="4711")) == {(1, 0, "copy"), (2, 0, "reference")}


def test_a_number_used_again_a_year_later_is_another_order() -> None:
    assert linked(order("4711"), order("4711", 300)) == set()


def test_a_credit_note_belongs_to_the_invoice_it_names() -> None:
    assert linked(invoice("R-1"), credit(invoice_reference="R-1")) == {(1, 0, "reference")}


def test_a_credit_note_for_a_duplicate_belongs_to_the_original() -> None:
    papers = [invoice("R-1", received=11), invoice("R-1", received=12), credit(invoice_reference="R-1")]
    assert linked(*papers) == {(1, 0, "copy"), (2, 0, "reference")}


def test_a_receipt_belongs_to_its_delivery_and_through_it_to_the_order() -> None:
    papers = [order("4711"), delivery("LS-1", po_reference="4711"), receipt(delivery_note_reference="ls 0001")]
    assert linked(*papers) == {(1, 0, "reference"), (2, 1, "reference"), (2, 0, "through")}


def test_an_invoice_for_an_order_bills_the_delivery_with_its_quantities() -> None:
    half, rest = [line("A-100", "4")], [line("A-100", "6")]
    papers = [
        order("4711"),
        delivery("LS-1", po_reference="4711", lines=half),
        delivery("LS-2", po_reference="4711", lines=rest),
        invoice(po_reference="4711", lines=rest),
    ]
    assert {link for link in linked(*papers) if link[0] == 3} == {(3, 0, "reference"), (3, 2, "through")}


def test_an_invoice_for_everything_bills_every_delivery() -> None:
    papers = [
        order("4711"),
        delivery("LS-1", po_reference="4711", lines=[line("A-100")]),
        delivery("LS-2", po_reference="4711", lines=[line("A-200", "5", "12.50")]),
        invoice(po_reference="4711"),
    ]
    assert {link for link in linked(*papers) if link[2] == "through"} == {(3, 1, "through"), (3, 2, "through")}


def test_a_delivery_of_equal_parts_leaves_the_invoice_for_one_in_doubt() -> None:
    part = [line("A-100", "5")]
    papers = [order("4711"), *(delivery(f"LS-{n}", po_reference="4711", lines=part) for n in (1, 2))]
    assert {link for link in linked(*papers, invoice(po_reference="4711", lines=part)) if link[2] == "through"} == set()


def test_days_do_not_choose_the_delivery_of_an_invoice() -> None:
    part = [line("A-100", "5")]
    deliveries = [delivery(f"LS-{when}", when, po_reference="4711", lines=part) for when in (7, 10)]
    bill = invoice(when=10, po_reference="4711", lines=part)
    assert {link for link in linked(order("4711"), *deliveries, bill) if link[2] == "through"} == set()


def test_an_order_belongs_to_the_contract_that_it_names() -> None:
    assert linked(contract("RV-60"), order(contract_reference="RV 60", lines=[line("Z-1")])) == {(1, 0, "reference")}


def test_an_invoice_for_what_a_contract_is_about_belongs_to_it_where_there_is_no_order() -> None:
    assert linked(contract("RV-60"), invoice()) == {(1, 0, "content")}


def test_an_invoice_with_an_order_is_not_looked_for_among_contracts() -> None:
    papers = [contract("RV-60"), order("4711", contract_reference="RV-60"), invoice(po_reference="4711")]
    assert linked(*papers) == {(1, 0, "reference"), (2, 1, "reference")}


def test_an_invoice_and_a_delivery_that_name_the_same_order_belong_together_without_it() -> None:
    note, bill = delivery(po_reference="4711"), invoice(po_reference="PO 4711")
    assert linked(note, bill) == {(1, 0, "through")}
    assert linked(order("4711"), note, bill) == {(1, 0, "reference"), (2, 0, "reference"), (2, 1, "through")}
    assert linked(delivery(po_reference="4711", seller=OTHER_SELLER), bill) == set()


def test_a_wrong_number_gives_way_to_the_order_that_fits_and_bears_nearly_that_number() -> None:
    other = order("4711", lines=[line("Q-1", "3"), line("Q-2", "8")])
    assert linked(other, order("4712"), invoice(po_reference="4711")) == {(2, 1, "content")}


def test_a_badly_read_copy_that_came_first_is_not_the_original() -> None:
    bad = SELLER | {"name": "Tarn0w 5chrauben AG"}
    scan, clear = invoice(seller=bad, received=11), invoice(received=12)
    assert linked(order("4711"), scan, clear) == {(1, 2, "copy"), (2, 0, "content")}


def test_of_one_bill_under_two_numbers_the_one_that_was_issued_first_is_the_original() -> None:
    later, first = (invoice(number, when, received=received, po_reference="4711")
                    for number, when, received in (("R-90", 20, 21), ("R-81", 10, 30)))  # fmt: skip
    assert linked(order("4711"), later, first) == {(1, 2, "copy"), (2, 0, "reference")}


def test_an_invoice_without_a_number_is_for_the_order_that_another_has_left() -> None:
    billed, open_ = order("4711"), order("4712", 1)
    assert linked(billed, open_, invoice("R-1", 8, po_reference="4711"), invoice("R-2")) == {
        (2, 0, "reference"),
        (3, 1, "content"),
    }


def test_an_order_that_is_billed_in_full_has_no_second_invoice() -> None:
    again = invoice("R-2", 16)
    assert (1, 0, "content") in linked(order("4711"), again)
    assert linked(order("4711"), again, invoice("R-1", 8, po_reference="4711")) == {(2, 0, "reference")}


def test_a_delivery_of_just_what_is_left_completes_the_order() -> None:
    part, rest = ([line("A-100", amount)] for amount in ("6", "4"))
    papers = [
        order("4711", lines=[line("A-100", "10")]),
        order("4712", lines=[line("A-100", "10")]),
        delivery("LS-1", 5, po_reference="4711", lines=part),
        delivery("LS-2", 9, lines=rest),
    ]
    assert linked(*papers) == {(2, 0, "reference"), (3, 0, "content")}


def test_a_document_that_came_twice_takes_its_share_once() -> None:
    part, rest = ([line("A-100", amount)] for amount in ("6", "4"))
    note = delivery("LS-1", 5, po_reference="4711", lines=part)
    papers = [order("4711", lines=[line("A-100", "10")]), note, note, delivery("LS-2", 9, lines=rest)]
    assert (3, 0, "content") in linked(*papers)


def test_deliveries_of_an_invoice_are_unknown_if_two_sets_add_up() -> None:
    deliveries = [
        read(delivery(f"LS-{quantity}", quantity, lines=[line("A-1", str(quantity))]), quantity)
        for quantity in range(1, 5)
    ]
    by_quantity = dict(zip(range(1, 5), deliveries, strict=True))
    bill = {billed: read(invoice(lines=[line("A-1", str(billed))]), 9) for billed in (5, 8)}

    assert rules.belonging(bill[5], deliveries) == []  # 1 and 4, or 2 and 3
    assert rules.belonging(bill[8], deliveries) == [by_quantity[quantity] for quantity in (1, 3, 4)]
