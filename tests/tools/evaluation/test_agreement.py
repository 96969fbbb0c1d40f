"""What was found is held against the truth: links, links with copies of one bill taken as one, clusters."""

from datetime import UTC, datetime

from tools.evaluation.agreement import (
    Agreement,
    Edge,
    bills,
    edges_agreement,
    edges_agreement_of_bills,
    pairs_agreement,
)
from tools.evaluation.labeled_set import LabelledDocument
from tools.evaluation.variances import counted


def documents(*names: str, kind: str = "invoice") -> list[LabelledDocument]:
    return [LabelledDocument(name, "t", kind, datetime(2026, 1, 1, tzinfo=UTC), {}) for name in names]


def edges(*pairs: str) -> frozenset[Edge]:
    """Each pair as `a-b`."""
    return frozenset(frozenset(pair.split("-")) for pair in pairs)


INVOICES = documents("i1", "i2", "i3")
TRUE = edges("i1-order", "i1-delivery", "i1-i2", "i1-i3")
"""An invoice with two copies; what it is for is linked to the first."""


def of_bills(found: frozenset[Edge], true: frozenset[Edge] = TRUE) -> Agreement:
    return edges_agreement_of_bills(found, true, bills(INVOICES, true))


def test_links_are_compared_one_by_one() -> None:
    assert edges_agreement(edges("a-b", "b-c"), edges("a-b", "d-c", "d-e")) == Agreement(0.5, 0.3333, 0.4, 2, 3, 1)


def test_which_of_the_copies_is_linked_to_the_rest_does_not_count() -> None:
    other = edges("i3-order", "i3-delivery", "i3-i1", "i3-i2")
    assert edges_agreement(other, TRUE).both == 1
    assert of_bills(other) == of_bills(TRUE) == Agreement(1.0, 1.0, 1.0, 4, 4, 4)


def test_a_chain_of_copies_is_as_good_as_a_star() -> None:
    assert of_bills(edges("i1-order", "i1-delivery", "i1-i2", "i2-i3")).f1 == 1.0


def test_a_copy_that_is_missed_and_a_link_too_many_among_them_count() -> None:
    assert of_bills(TRUE - edges("i1-i3")) == Agreement.of(3, 4, 3)
    assert of_bills(TRUE | edges("i2-i3")) == Agreement.of(5, 4, 4)


def test_a_bill_is_linked_once_however_many_of_its_copies_are() -> None:
    assert of_bills(TRUE | edges("i2-order")) == Agreement.of(4, 4, 4)
    assert of_bills(TRUE | edges("i2-other")) == Agreement.of(5, 4, 4)


def test_only_what_is_truly_a_copy_is_taken_as_one() -> None:
    assert of_bills(edges("i1-i2", "i2-order"), edges("i1-order")) == Agreement.of(2, 1, 0)
    orders = documents("o1", "o2", kind="purchase_order")
    assert bills(orders, edges("o1-o2")) == {}


def test_which_of_two_copies_of_one_bill_is_the_duplicate_is_not_counted() -> None:
    known, true_edges = documents("p0", "p1", "p2"), edges("p0-p1")
    true = [("p0", "duplicate_invoice"), ("p1", "tax_mismatch")]
    found = [("p1", "duplicate_invoice"), ("p0", "tax_mismatch")]
    assert counted(true, known, true_edges) == counted(found, known, true_edges)
    assert counted([("p2", "duplicate_invoice")], known, true_edges) != counted(true[:1], known, true_edges)
    assert counted([*true, ("p1", "duplicate_invoice")], known, true_edges) > counted(true, known, true_edges)


def test_pairs_are_compared_whatever_the_clusters_are_called() -> None:
    found = {"a": "1", "b": "1", "c": "1", "d": "2"}
    true = {"a": "x", "b": "x", "c": "y", "d": "y"}
    assert pairs_agreement(found, true) == Agreement(precision=0.3333, recall=0.5, f1=0.4, found=3, true=2, both=1)


def test_nothing_found_and_nothing_true_agree() -> None:
    assert Agreement.of(0, 0, 0) == Agreement(1.0, 1.0, 1.0, 0, 0, 0)
    assert Agreement.of(0, 3, 0).f1 == 0.0
