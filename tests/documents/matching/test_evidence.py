"""Evidence in words, and the running total of its weights."""

from uuid import UUID

from counterfoil.documents.matching.compare import Feature, FeatureLevel, Values, compare
from counterfoil.documents.matching.evidence import evidence_steps, reasoning, words
from counterfoil.documents.matching.rules import ProposedMatch
from counterfoil.documents.matching.score import FeatureEvidence, Score, current
from tests.documents.matching.samples import invoice, line, order, read


def test_each_level_has_its_own_words():
    levels = list(current().general[True])
    rendered = {(feature, words(code)) for feature, code in levels}
    assert len(rendered) == len(levels)
    assert not any(set("{}_+") & set(text) for _, text in rendered)


def test_two_values_render_as_one_phrase():
    assert words("same_vat_id+different_legal_form") == "same VAT ID, same name, different legal form"
    assert words("all+two") == "all of two"


def test_waterfall_sums_stored_evidence():
    first, second = evidence_steps([["number", "same+long", 9.5], ["total", "less", -0.25]])
    assert (first.feature, first.label, first.level, first.text) == (
        Feature.NUMBER,
        "number",
        "same+long",
        "same, long",
    )
    assert (first.total, second.total) == (9.5, 9.25)


def test_reasoning_names_the_strongest_support_in_sentences():
    evidence = (
        FeatureEvidence(Feature.PRIOR, "invoice", -9.0),
        FeatureEvidence(Feature.NUMBER, "same+long", 9.5),
        FeatureEvidence(Feature.DATE, "same_day", 0.5),
        FeatureEvidence(Feature.SELLER, "same_vat_id", 12.25),
        FeatureEvidence(Feature.TOTAL, "different", -2.0),
        FeatureEvidence(Feature.ARTICLES, "all_same+two", 3.0),
    )
    match = ProposedMatch(UUID(int=1), UUID(int=2), "order", "reference", Score(evidence, named=True))

    assert (
        reasoning(match) == "Referenced by its number. Seller: same VAT ID. Number: same. Articles: all two the same."
    )


def test_rounding_is_not_a_larger_quantity():
    ordered = order(lines=[line("A-1", "1000"), line("A-2", "5")])
    billed = invoice(lines=[line("A-1", "1000.0005"), line("A-2", "4")])
    assert FeatureLevel.of(Feature.QUANTITIES, Values.NONE_MORE) in compare(read(billed), read(ordered)).levels
