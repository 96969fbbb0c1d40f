"""Extraction scoring counts correct, incorrect, missed and excluded values."""

import pytest

from tests.benchmarks.extraction.__main__ import main
from tests.benchmarks.extraction.page_text import PageText
from tests.benchmarks.extraction.scoring import Counts, compare, compare_lines, header, is_same
from tests.documents.text.text_pages import draw_page


def on_page(name: str, value: str) -> bool:
    return True


def totals(counts: Counts) -> tuple[int, int, int, int, int]:
    return counts.right, counts.false, counts.missed, counts.not_on_page, counts.beyond


def test_incorrect_value_is_miss_and_false_positive():
    counts = compare([("total_net", "10.00"), ("currency", "EUR")], [("total_net", "11.00")], on_page)
    assert totals(counts) == (0, 1, 2, 0, 0)
    assert counts.misses == [("total_net", "10.00", "11.00"), ("currency", "EUR", "")]


def test_value_on_no_page_is_excluded():
    counts = compare([("total_net", "10.00")], [("total_net", "11.00")], lambda name, value: False)
    assert totals(counts) == (0, 0, 0, 1, 0)
    assert totals(counts.strict()) == (0, 1, 1, 0, 0)


def test_only_strict_counts_include_values_missing_from_xml():
    counts = compare([], [("issuer.email", "a@b.de")], on_page)
    assert totals(counts) == (0, 0, 0, 0, 1)
    assert counts.strict().false == 1


def test_each_list_value_is_scored():
    truth = header({"po_reference": ["1", "2"], "issuer": {"name": "A"}, "line_items": [{}]})
    assert truth == [("po_reference", "1"), ("po_reference", "2"), ("issuer.name", "A")]
    assert totals(compare(truth, header({"po_reference": ["2", "3"]}), on_page)) == (1, 1, 2, 0, 0)


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("total_net", "10.00", "10"),
        ("line_items.0.quantity", "5.0000", "5"),
        ("issuer.vat_id", "DE 136695976", "DE136695976"),
        ("issuer.name", "Herrn\nMax Mustermann", "Herrn Max Mustermann"),
        ("line_items.0.unit", "C62", "H87"),
        ("line_items.0.description", "Trennblätter A4", "Trennblätter, A4"),
    ],
)
def test_equivalent_values_are_equal(name: str, a: str, b: str):
    assert is_same(name, a, b)


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("invoice_number", "0471", "471"),
        ("issuer.postal_code", "01234", "1234"),
        ("line_items.0.unit", "C62", "KGM"),
        ("line_items.0.description", "Trennblätter A4", "Trennblätter A5, gelocht"),
    ],
)
def test_different_values_are_not_equal(name: str, a: str, b: str):
    assert not is_same(name, a, b)


def test_lines_are_paired_by_most_equal_fields():
    truth = [{"description": "Anker", "quantity": "1"}, {"description": "Bolzen", "quantity": "2"}]
    read = [{"description": "Bolzen", "quantity": "2"}, {"description": "Anker", "quantity": "1"}]
    assert totals(compare_lines(truth, read, on_page)) == (4, 0, 0, 0, 0)


def test_unpaired_lines_are_false_positives_or_misses():
    line = {"description": "Anker", "quantity": "1"}
    assert totals(compare_lines([line], [line, {"description": "Zoll", "quantity": "7"}], on_page)) == (2, 2, 0, 0, 0)
    assert totals(compare_lines([line, {"description": "Zoll"}], [line], on_page)) == (2, 0, 1, 0, 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("invoice_date", "2018-03-05"),
        ("payment_due_date", "2018-04-12"),
        ("total_gross", "1234.50"),
        ("currency", "EUR"),
        ("issuer.country", "DE"),
        ("issuer.iban", "DE08700901001234567890"),
        ("line_items.0.position", "01"),
    ],
)
def test_value_on_page_is_found_in_any_format(field: str, value: str):
    drawing = (
        "vom 05.03.2018, fällig 12. April 2018\n1.234,50 € \nD-80333 München\nDE08 7009 0100 1234 5678 90\n1 Anker"
    )
    assert PageText([draw_page(drawing)]).states(field, value)


@pytest.mark.parametrize(
    ("field", "value"),
    [("invoice_date", "2018-03-06"), ("total_gross", "1234.51"), ("currency", "GBP"), ("issuer.country", "FR")],
)
def test_value_not_on_page_is_not_found(field: str, value: str):
    assert not PageText([draw_page("vom 05.03.2018\n1.234,50 €\nD-80333 München")]).states(field, value)


def test_empty_folder_error_names_the_corpus(tmp_path, capsys: pytest.CaptureFixture[str]):
    assert main([str(tmp_path)]) == 1
    assert "https://github.com/ZUGFeRD/corpus" in capsys.readouterr().out
