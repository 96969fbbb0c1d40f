"""Evidence in words, and the running total of its weights."""

from counterfoil.documents.matching.compare import Feature, Level, Values, compare
from counterfoil.documents.matching.evidence import waterfall, words
from counterfoil.documents.matching.score import current
from tests.documents.matching.papers import invoice, line, order, read


def test_each_level_has_its_own_words():
    levels = list(current().general[True])
    rendered = {(feature, words(code)) for feature, code in levels}
    assert len(rendered) == len(levels)
    assert not any(set("{}_+") & set(text) for _, text in rendered)


def test_two_values_render_as_one_phrase():
    assert words("same_vat_id+different_legal_form") == "same VAT ID, same name, different legal form"
    assert words("all+two") == "all of two"


def test_waterfall_sums_stored_evidence():
    first, second = waterfall([["number", "same+long", 9.5], ["total", "less", -0.25]])
    assert (first.feature, first.label, first.level, first.text) == (
        Feature.NUMBER,
        "number",
        "same+long",
        "same, long",
    )
    assert (first.total, second.total) == (9.5, 9.25)


def test_rounding_is_not_a_larger_quantity():
    ordered = order(lines=[line("A-1", "1000"), line("A-2", "5")])
    billed = invoice(lines=[line("A-1", "1000.0005"), line("A-2", "4")])
    assert Level.of(Feature.QUANTITIES, Values.NONE_MORE) in compare(read(billed), read(ordered)).levels
