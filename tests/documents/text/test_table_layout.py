"""A document as a whole decides how its numbers are read; a single one never does."""

from decimal import Decimal

import pytest

from counterfoil.documents.text.table_layout import NumberFormat, number_format, parse_number, read_tokens
from tests.documents.text.paper import paper


def _format(text: str) -> NumberFormat:
    return number_format(paper(text).words)


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
def test_a_number_that_can_be_read_in_one_way_tells_the_mark(text: str, mark: str):
    assert _format(text).mark == mark


@pytest.mark.parametrize("text", ["1.234", "1,234", "4711", "13.05.2025", "12.50 12,50"])
def test_nothing_is_told_by_what_can_be_read_in_two_ways(text: str):
    assert _format(text).mark is None


def test_most_numbers_decide_where_a_time_looks_like_one():
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
def test_other_words_are_no_numbers(text: str):
    assert parse_number(text, NumberFormat(",", blanks_group=False)) is None


def test_only_whole_numbers_are_read_where_the_mark_is_unknown():
    form = NumberFormat(None, blanks_group=False)

    assert parse_number("42", form) == 42
    assert parse_number("1.234", form) is None


def _read(text: str) -> list[tuple[str, Decimal | None]]:
    page = paper(text)
    return [(token.text, token.value) for token in read_tokens(page.lines()[0].words, number_format(page.words))]


def test_blanks_may_group_digits():
    assert _read("1 234 567,50") == [("1 234 567,50", Decimal("1234567.50"))]


def test_blanks_group_no_digits_where_dots_do():
    assert [text for text, _ in _read("12 345 1.234,56")] == ["12", "345", "1.234,56"]


def test_columns_are_no_groups():
    assert [text for text, _ in _read("1   234   5,60")] == ["1", "234", "5,60"]


def test_a_percent_sign_may_stand_apart_and_currencies_are_dropped():
    page = paper("19 %   12,50 EUR")
    found = read_tokens(page.lines()[0].words, number_format(page.words))

    assert [(token.text, token.is_percent) for token in found] == [("19 %", True), ("12,50", False)]


def test_long_numbers_of_articles_tell_nothing_where_the_language_does():
    form = _format("Pakbon voor uw bestelling van 49037.58 62148.05 aantal 1.700")

    assert (form.mark, form.by_language) == (",", True)


def test_long_fractions_tell_where_nothing_else_does():
    assert _format("15387,08").mark == ","
