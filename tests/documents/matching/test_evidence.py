"""Evidence is explained in sentences, with a running total of its bits."""

import pytest

from counterfoil.documents.matching.compare import Feature, FeatureLevel, Total, Values, compare
from counterfoil.documents.matching.evidence import _sentence, evidence_steps, label, reasoning
from counterfoil.documents.matching.normalize import Document
from counterfoil.documents.matching.rules import MatchMethod, ProposedMatch
from counterfoil.documents.matching.score import FeatureEvidence, Score, current, score
from tests.documents.matching.samples import delivery, invoice, line, order, read


def test_each_level_has_a_distinct_phrase():
    levels = list(current().bits[True])
    rendered = {(feature, label(code)) for feature, code in levels}
    assert len(rendered) == len(levels)
    assert not any(set("{}_+") & set(text) for _, text in rendered)


def test_level_with_two_values_has_one_phrase():
    assert label("same_vat_id+different_legal_form") == "same VAT ID, same name, different legal form"
    assert label("all+two") == "all match (2 in total)"


def test_evidence_steps_have_a_running_total():
    first, second = evidence_steps([["number", "same+long", 9.5], ["total", "less", -0.25]])
    assert (first.feature, first.label, first.level, first.text) == (
        Feature.NUMBER,
        "named number",
        "same+long",
        "same (over 5 characters)",
    )
    assert (first.total, second.total) == (9.5, 9.25)


def test_sentences_name_the_compared_documents():
    features: list[list[str | float]] = [["number", "same+long", 9.5], ["total", "more", 1.5]]
    named = evidence_steps(features, "invoice", "purchase order", "4500002784")
    assert [step.sentence for step in named] == [
        "The invoice names purchase order 4500002784.",
        "The net total is larger than that of the purchase order, as in many matches.",
    ]
    assert evidence_steps(features)[0].sentence == "The document names the number of the other document."


@pytest.mark.parametrize("is_referenced", [True, False])
def test_larger_total_supports_a_match(is_referenced: bool):
    assert current().bits[is_referenced][FeatureLevel.of(Feature.TOTAL, Total.MORE)] > 0


def match(child: Document, parent: Document, by: MatchMethod = "reference") -> ProposedMatch:
    return ProposedMatch(child.id, parent.id, parent.kind, by, score(child, parent))


def test_reasoning_names_the_agreeing_values():
    ordered, billed = read(order("4500002777"), 1), read(invoice(po_reference="4500002777"), 2)
    assert reasoning(match(billed, ordered), billed, ordered) == (
        "Same order number 4500002777. Same supplier (VAT DE136695976). 2 of 2 line items match. "
        "Date: within three weeks."
    )


def test_reasoning_names_the_shared_number():
    delivered, billed = read(delivery("LS-500", po_reference="4711"), 1), read(invoice(po_reference="4711"), 2)
    assert "Same order number 4711." in reasoning(match(billed, delivered, "through"), billed, delivered)


def test_reasoning_counts_the_agreeing_lines():
    ordered = read(order(lines=[line("A-1"), line("A-2")]), 1)
    billed = read(invoice(lines=[line("A-1"), line("A-2"), line("B-9", "7", "99.00")]), 2)
    assert _sentence(Feature.LINES, "most+several", billed, ordered) == "2 of 3 line items match."


@pytest.mark.parametrize(
    ("feature", "level", "sentence"),
    [
        (Feature.NUMBER, "same_as_read+long", "Order number 4711: same except for characters that OCR confuses."),
        (Feature.SELLER, "similar_name", "Supplier: similar name."),
        (Feature.BUYER, "same_identifier+same_name", "Buyer: same name."),
        (Feature.PRICES, "all_same+two", "Same prices."),
        (Feature.DATE, "within_three_weeks", "Date: within three weeks."),
    ],
)
def test_sentence_is_rendered_from_feature_and_level(feature: Feature, level: str, sentence: str):
    assert _sentence(feature, level, read(invoice()), read(order("4711"))) == sentence


def test_reasoning_begins_with_the_strongest_support():
    ordered, billed = read(order(), 1), read(invoice(), 2)
    evidence = (
        FeatureEvidence(Feature.PRIOR, "invoice", -9.0),
        FeatureEvidence(Feature.PRICES, "all_same+two", 9.5),
        FeatureEvidence(Feature.DATE, "same_day", 0.5),
        FeatureEvidence(Feature.TOTAL, "same", 12.25),
        FeatureEvidence(Feature.QUANTITIES, "some_more", -2.0),
    )
    found = ProposedMatch(billed.id, ordered.id, ordered.kind, "content", Score(evidence, is_referenced=False))

    assert reasoning(found, billed, ordered) == "Clearly the best candidate. Same net total. Same prices."


def test_excess_within_rounding_is_not_a_larger_quantity():
    ordered = order(lines=[line("A-1", "1000"), line("A-2", "5")])
    billed = invoice(lines=[line("A-1", "1000.0005"), line("A-2", "4")])
    assert FeatureLevel.of(Feature.QUANTITIES, Values.NONE_MORE) in compare(read(billed), read(ordered)).levels
