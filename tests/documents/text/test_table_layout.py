"""The number format is determined from the whole document.

Numbers are parsed in this format.
"""

from decimal import Decimal

import pytest

from counterfoil.documents.text.table_layout import NumberFormat, number_format, parse_number, read_tokens
from tests.documents.text.text_pages import draw_page


def _format(text: str) -> NumberFormat:
    return number_format(draw_page(text).words)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("1.234,56", ","),
        ("1,234.56", "."),
        ("1'234.56", "."),
        ("1\u2019234.56", "."),
        ("12,5", ","),
        ("0.0875", "."),
        ("1.234.567", ","),
    ],
)
def test_unambiguous_number_determines_the_decimal_mark(text: str, mark: str):
    assert _format(text).mark == mark


@pytest.mark.parametrize("text", ["1.234", "1,234", "4711", "13.05.2025", "12.50 12,50"])
def test_ambiguous_numbers_leave_the_mark_unknown(text: str):
    assert _format(text).mark is None


def test_majority_of_numbers_decides_the_mark():
    assert _format("8.30 12,50 13,75").mark == ","


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.234,56", "1234.56"),
        ("15387,0800", "15387.0800"),
        ("-5,00", "-5.00"),
        ("5,00-", "-5.00"),
        ("\N{MINUS SIGN}5,00", "-5.00"),
        ("19%", "19"),
        ("\u20ac12,50", "12.50"),
        ("12,50\u20ac", "12.50"),
        ("1.234", "1234"),
        ("42", "42"),
    ],
)
def test_numbers_are_read_with_signs_and_currencies(text: str, number: str):
    read = parse_number(text, NumberFormat(",", blanks_group=False))

    assert read == Decimal(number)
    assert str(read) == number


@pytest.mark.parametrize(
    "text", ["12.50", "1.23.456", "01.02.2025", "4711:", "A5", "12x", "1,2,3", "\u0663\u0664", "9" * 16]
)
def test_other_text_is_not_a_number(text: str):
    assert parse_number(text, NumberFormat(",", blanks_group=False)) is None


def test_unknown_mark_allows_only_whole_numbers():
    form = NumberFormat(None, blanks_group=False)

    assert parse_number("42", form) == 42
    assert parse_number("1.234", form) is None


def _read(text: str) -> list[tuple[str, Decimal | None]]:
    page = draw_page(text)
    return [(token.text, token.value) for token in read_tokens(page.lines()[0].words, number_format(page.words))]


def test_spaces_can_group_digits():
    assert _read("1 234 567,50") == [("1 234 567,50", Decimal("1234567.50"))]


def test_spaces_do_not_group_digits_if_dots_do():
    assert [text for text, _ in _read("12 345 1.234,56")] == ["12", "345", "1.234,56"]


def test_numbers_in_separate_columns_are_not_joined():
    assert [text for text, _ in _read("1   234   5,60")] == ["1", "234", "5,60"]


def test_percent_sign_and_currency_after_space_are_read():
    page = draw_page("19 %   12,50 EUR")
    result = read_tokens(page.lines()[0].words, number_format(page.words))

    assert [(token.text, token.is_percent) for token in result] == [("19 %", True), ("12,50", False)]


def test_language_outranks_long_article_numbers():
    form = _format("Pakbon voor uw bestelling van 49037.58 62148.05 aantal 1.700")

    assert (form.mark, form.by_language) == (",", True)


def test_long_fraction_decides_the_mark_without_other_evidence():
    assert _format("15387,08").mark == ","
