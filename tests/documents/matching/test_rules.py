"""The matching rules decide each case from the documents alone."""

from counterfoil.documents.matching import rules
from tests.documents.matching.reference_matching import ReferenceMatching
from tests.documents.matching.samples import (
    OTHER_SELLER,
    SELLER,
    SampleDocument,
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


def links(*samples: SampleDocument) -> set[tuple[int, int, str]]:
    """Return each link as child position, parent position and rule."""
    documents = [read(sample, position + 1) for position, sample in enumerate(samples)]
    return {(link.child.int - 1, link.parent.int - 1, link.by) for link in ReferenceMatching(documents).links()}


def reason(*samples: SampleDocument) -> str | None:
    """Return the reason why the last document has no match."""
    documents = [read(sample, position + 1) for position, sample in enumerate(samples)]
    return ReferenceMatching(documents).reason(documents[-1])


def test_documents_match_the_referenced_order() -> None:
    samples = [
        order("4711"),
        invoice(po_reference="PO 4711"),
        confirmation(po_reference="4711"),
        delivery(po_reference="04711"),
    ]
    assert {(1, 0, "reference"), (2, 0, "reference"), (3, 0, "reference")} <= links(*samples)


def test_invoice_may_match_several_orders() -> None:
    first, second = order("4711", lines=[line("A-1")]), order("4712", 2, lines=[line("B-1")])
    invoice_ = invoice(po_reference=["4711", "4712"], lines=[line("A-1"), line("B-1")])
    assert links(first, second, invoice_) == {(2, 0, "reference"), (2, 1, "reference")}


def test_reference_in_a_line_item_is_used() -> None:
    assert links(order("4711"), invoice(lines=[line("A-100", po_reference="4711")])) == {(1, 0, "reference")}


def test_invoice_without_reference_matches_the_fitting_order() -> None:
    assert links(order("4711"), order("4800", lines=[line("Q-1")]), invoice()) == {(2, 0, "content")}


def test_two_equal_orders_are_ambiguous_with_reason() -> None:
    samples = [order("4711"), order("4712", 1), invoice()]
    assert links(*samples) == set()
    assert reason(*samples) == "Two documents match equally well: purchase order 4711, purchase order 4712."


def test_reason_names_at_most_three_tied_orders() -> None:
    orders = [order(number, day) for day, number in enumerate(("4711", "4712", "4713", "4714"))]
    assert reason(*orders, invoice()) == (
        "Four documents match equally well, such as purchase order 4711, purchase order 4712, purchase order 4713."
    )


def test_missing_party_details_do_not_break_ties() -> None:
    incomplete = order("4712", seller={"name": "Tarnow Schrauben AG"})
    assert links(order("4711"), incomplete, invoice()) == set()


def test_missing_order_is_named_in_the_reason() -> None:
    assert reason(order("4711", seller=OTHER_SELLER, lines=[line("Q")]), invoice(po_reference="B-77")) == (
        "Names purchase order B-77, which has not been received."
    )


def test_reference_to_other_suppliers_order_does_not_match() -> None:
    samples = [order("4711", seller=OTHER_SELLER, lines=[line("Q-1")]), invoice(po_reference="4711")]
    assert links(*samples) == set()
    assert reason(*samples) == "Names purchase order 4711, but the document with that number does not match."


def test_document_without_candidates_gets_a_reason() -> None:
    assert reason(invoice()) == "No match found."


def test_duplicate_matches_only_its_original() -> None:
    first, duplicate = invoice(po_reference="4711", received=11), invoice(po_reference="4711", received=12)
    assert links(order("4711"), duplicate, first) == {(2, 0, "reference"), (1, 2, "copy")}


def test_smallest_id_of_simultaneous_duplicates_is_original() -> None:
    assert links(invoice(), invoice(), invoice()) == {(1, 0, "copy"), (2, 0, "copy")}


def test_same_invoice_with_another_number_is_duplicate() -> None:
    assert links(order("4711"), invoice("R-1", 10, po_reference="4711"), invoice("R-9", 17, po_reference="4711")) == {
        (1, 0, "reference"),
        (2, 1, "copy"),
    }


def test_same_amount_next_month_is_not_a_duplicate() -> None:
    invoices = [invoice("R-1", 10, po_reference="4711"), invoice("R-2", 41, po_reference="4711")]
    assert links(order("4711"), *invoices) == {(1, 0, "reference"), (2, 0, "reference")}


def test_another_suppliers_equal_number_is_not_a_duplicate() -> None:
    assert links(invoice("R-1"), invoice("R-1", seller=OTHER_SELLER)) == set()


def test_order_change_is_linked_to_the_original_order() -> None:
    change = order("4711", 3, lines=[line("A-100", "20")])
    assert links(order("4711"), change, invoice(po_reference="4711")) == {(1, 0, "copy"), (2, 0, "reference")}


def test_number_reused_after_300_days_is_another_order() -> None:
    assert links(order("4711"), order("4711", 300)) == set()


def test_credit_note_matches_the_referenced_invoice() -> None:
    assert links(invoice("R-1"), credit(invoice_reference="R-1")) == {(1, 0, "reference")}


def test_credit_note_for_duplicate_matches_the_original() -> None:
    samples = [invoice("R-1", received=11), invoice("R-1", received=12), credit(invoice_reference="R-1")]
    assert links(*samples) == {(1, 0, "copy"), (2, 0, "reference")}


def test_receipt_matches_delivery_and_its_order() -> None:
    samples = [order("4711"), delivery("LS-1", po_reference="4711"), receipt(delivery_note_reference="ls 0001")]
    assert links(*samples) == {(1, 0, "reference"), (2, 1, "reference"), (2, 0, "through")}


def test_invoice_matches_delivery_with_equal_quantities() -> None:
    half, remainder = [line("A-100", "4")], [line("A-100", "6")]
    samples = [
        order("4711"),
        delivery("LS-1", po_reference="4711", lines=half),
        delivery("LS-2", po_reference="4711", lines=remainder),
        invoice(po_reference="4711", lines=remainder),
    ]
    assert {link for link in links(*samples) if link[0] == 3} == {(3, 0, "reference"), (3, 2, "through")}


def test_full_invoice_matches_every_delivery() -> None:
    samples = [
        order("4711"),
        delivery("LS-1", po_reference="4711", lines=[line("A-100")]),
        delivery("LS-2", po_reference="4711", lines=[line("A-200", "5", "12.50")]),
        invoice(po_reference="4711"),
    ]
    assert {link for link in links(*samples) if link[2] == "through"} == {(3, 1, "through"), (3, 2, "through")}


def test_equal_partial_deliveries_are_not_matched_to_invoice() -> None:
    part = [line("A-100", "5")]
    samples = [order("4711"), *(delivery(f"LS-{n}", po_reference="4711", lines=part) for n in (1, 2))]
    assert {link for link in links(*samples, invoice(po_reference="4711", lines=part)) if link[2] == "through"} == set()


def test_dates_do_not_choose_between_equal_deliveries() -> None:
    part = [line("A-100", "5")]
    deliveries = [delivery(f"LS-{when}", when, po_reference="4711", lines=part) for when in (7, 10)]
    invoice_ = invoice(when=10, po_reference="4711", lines=part)
    assert {link for link in links(order("4711"), *deliveries, invoice_) if link[2] == "through"} == set()


def test_order_matches_the_referenced_contract() -> None:
    assert links(contract("RV-60"), order(contract_reference="RV 60", lines=[line("Z-1")])) == {(1, 0, "reference")}


def test_invoice_without_order_matches_the_contract() -> None:
    assert links(contract("RV-60"), invoice()) == {(1, 0, "content")}


def test_invoice_with_order_does_not_match_the_contract() -> None:
    samples = [contract("RV-60"), order("4711", contract_reference="RV-60"), invoice(po_reference="4711")]
    assert links(*samples) == {(1, 0, "reference"), (2, 1, "reference")}


def test_invoice_and_delivery_match_without_their_order() -> None:
    note, invoice_ = delivery(po_reference="4711"), invoice(po_reference="PO 4711")
    assert links(note, invoice_) == {(1, 0, "through")}
    assert links(order("4711"), note, invoice_) == {(1, 0, "reference"), (2, 0, "reference"), (2, 1, "through")}
    assert links(delivery(po_reference="4711", seller=OTHER_SELLER), invoice_) == set()


def test_fitting_order_outranks_an_unfitting_referenced_order() -> None:
    other = order("4711", lines=[line("Q-1", "3"), line("Q-2", "8")])
    assert links(other, order("4712"), invoice(po_reference="4711")) == {(2, 1, "content")}


def test_badly_scanned_duplicate_is_not_the_original() -> None:
    misread_seller = SELLER | {"name": "Tarn0w 5chrauben AG"}
    scan, readable = invoice(seller=misread_seller, received=11), invoice(received=12)
    assert links(order("4711"), scan, readable) == {(1, 2, "copy"), (2, 0, "content")}


def test_earlier_issued_invoice_is_the_original() -> None:
    later, first = (invoice(number, when, received=received, po_reference="4711")
                    for number, when, received in (("R-90", 20, 21), ("R-81", 10, 30)))  # fmt: skip
    assert links(order("4711"), later, first) == {(1, 2, "copy"), (2, 0, "reference")}


def test_invoice_without_reference_matches_the_unbilled_order() -> None:
    billed, open_ = order("4711"), order("4712", 1)
    assert links(billed, open_, invoice("R-1", 8, po_reference="4711"), invoice("R-2")) == {
        (2, 0, "reference"),
        (3, 1, "content"),
    }


def test_fully_billed_order_matches_no_second_invoice() -> None:
    duplicate = invoice("R-2", 16)
    assert (1, 0, "content") in links(order("4711"), duplicate)
    assert links(order("4711"), duplicate, invoice("R-1", 8, po_reference="4711")) == {(2, 0, "reference")}


def test_delivery_of_remaining_quantity_matches_the_order() -> None:
    part, rest = ([line("A-100", amount)] for amount in ("6", "4"))
    samples = [
        order("4711", lines=[line("A-100", "10")]),
        order("4712", lines=[line("A-100", "10")]),
        delivery("LS-1", 5, po_reference="4711", lines=part),
        delivery("LS-2", 9, lines=rest),
    ]
    assert links(*samples) == {(2, 0, "reference"), (3, 0, "content")}


def test_duplicate_delivery_counts_once() -> None:
    part, rest = ([line("A-100", amount)] for amount in ("6", "4"))
    note = delivery("LS-1", 5, po_reference="4711", lines=part)
    samples = [order("4711", lines=[line("A-100", "10")]), note, note, delivery("LS-2", 9, lines=rest)]
    assert (3, 0, "content") in links(*samples)


def test_ambiguous_delivery_sets_are_not_matched() -> None:
    deliveries = [
        read(delivery(f"LS-{quantity}", quantity, lines=[line("A-1", str(quantity))]), quantity)
        for quantity in range(1, 5)
    ]
    by_quantity = dict(zip(range(1, 5), deliveries, strict=True))
    invoice_ = {billed: read(invoice(lines=[line("A-1", str(billed))]), 9) for billed in (5, 8)}

    assert rules.matching_deliveries(invoice_[5], deliveries) == []  # either 1 and 4, or 2 and 3
    assert rules.matching_deliveries(invoice_[8], deliveries) == [by_quantity[quantity] for quantity in (1, 3, 4)]
