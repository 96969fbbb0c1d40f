"""Agreement of links, of links between groups of duplicates, and of clusters."""

from datetime import UTC, datetime

from tools.evaluation.agreement import (
    Agreement,
    Edge,
    edges_agreement,
    invoice_groups,
    invoice_level_agreement,
    pairs_agreement,
)
from tools.evaluation.labeled_set import LabeledDocument
from tools.evaluation.variances import countable


def documents(*names: str, kind: str = "invoice") -> list[LabeledDocument]:
    return [LabeledDocument(name, "t", kind, datetime(2026, 1, 1, tzinfo=UTC), {}) for name in names]


def edges(*pairs: str) -> frozenset[Edge]:
    """Return edges from pairs such as `a-b`."""
    return frozenset(frozenset(pair.split("-")) for pair in pairs)


INVOICES = documents("i1", "i2", "i3")
TRUE = edges("i1-order", "i1-delivery", "i1-i2", "i1-i3")
"""An invoice with two duplicates. The order and the delivery note are linked to the invoice."""


def invoice_agreement(found: frozenset[Edge], true: frozenset[Edge] = TRUE) -> Agreement:
    return invoice_level_agreement(found, true, invoice_groups(INVOICES, true))


def test_links_are_compared_individually() -> None:
    assert edges_agreement(edges("a-b", "b-c"), edges("a-b", "d-c", "d-e")) == Agreement(0.5, 0.3333, 0.4, 2, 3, 1)


def test_link_to_any_duplicate_counts_for_its_group() -> None:
    other = edges("i3-order", "i3-delivery", "i3-i1", "i3-i2")
    assert edges_agreement(other, TRUE).correct == 1
    assert invoice_agreement(other) == invoice_agreement(TRUE) == Agreement(1.0, 1.0, 1.0, 4, 4, 4)


def test_chain_of_duplicates_equals_star() -> None:
    assert invoice_agreement(edges("i1-order", "i1-delivery", "i1-i2", "i2-i3")).f1 == 1.0


def test_missing_or_redundant_duplicate_link_lowers_agreement() -> None:
    assert invoice_agreement(TRUE - edges("i1-i3")) == Agreement.from_counts(3, 4, 3)
    assert invoice_agreement(TRUE | edges("i2-i3")) == Agreement.from_counts(5, 4, 4)


def test_links_to_several_duplicates_count_once() -> None:
    assert invoice_agreement(TRUE | edges("i2-order")) == Agreement.from_counts(4, 4, 4)
    assert invoice_agreement(TRUE | edges("i2-other")) == Agreement.from_counts(5, 4, 4)


def test_only_true_duplicate_invoices_are_grouped() -> None:
    assert invoice_agreement(edges("i1-i2", "i2-order"), edges("i1-order")) == Agreement.from_counts(2, 1, 0)
    orders = documents("o1", "o2", kind="purchase_order")
    assert invoice_groups(orders, edges("o1-o2")) == {}


def test_either_document_may_be_the_duplicate() -> None:
    known, true_edges = documents("p0", "p1", "p2"), edges("p0-p1")
    true = [("p0", "duplicate_invoice"), ("p1", "tax_mismatch")]
    found = [("p1", "duplicate_invoice"), ("p0", "tax_mismatch")]
    assert countable(true, known, true_edges) == countable(found, known, true_edges)
    assert countable([("p2", "duplicate_invoice")], known, true_edges) != countable(true[:1], known, true_edges)
    assert countable([*true, ("p1", "duplicate_invoice")], known, true_edges) > countable(true, known, true_edges)


def test_pair_agreement_ignores_cluster_names() -> None:
    found = {"a": "1", "b": "1", "c": "1", "d": "2"}
    true = {"a": "x", "b": "x", "c": "y", "d": "y"}
    assert pairs_agreement(found, true) == Agreement(
        precision=0.3333, recall=0.5, f1=0.4, predicted=3, expected=2, correct=1
    )


def test_empty_prediction_agrees_only_with_empty_labels() -> None:
    assert Agreement.from_counts(0, 0, 0) == Agreement(1.0, 1.0, 1.0, 0, 0, 0)
    assert Agreement.from_counts(0, 3, 0).f1 == 0.0
