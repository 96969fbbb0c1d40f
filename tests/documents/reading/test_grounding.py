"""Values from the model are found on the pages in every common notation."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.documents.reading.grounding import Grounding, dates, numbers
from counterfoil.documents.text.page import Page, Word


def grounds(*texts: str) -> Grounding:
    """Return an index of one page per text.

    Word widths are proportional to word lengths.
    """
    return Grounding([_page(text) for text in texts])


def _page(text: str) -> Page:
    words = []
    for row, line in enumerate(text.split("\n")):
        left = 0.0
        for word in line.split():
            words.append(Word(word, left, row * 20.0, left + len(word) * 5, row * 20.0 + 10))
            left += len(word) * 5 + 3
    return Page(595, 842, tuple(words))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Total 1190.00", "1190"),
        ("Total 1.190,00 €", "1190.00"),
        ("Total EUR1,190.00", "1190.00"),
        ("Total 1 190,00", "1190.00"),
        ("Total 1 000 190,50", "1000190.5"),
        ("Total 1'190.00 CHF", "1190.00"),
        ("Total 1\u2019190.\u2014", "1190"),
        ("Total 1.190", "1190"),
        ("Preis 1,234", "1.234"),
        ("Gutschrift -50,00", "50.00"),
        ("Credit 50.00-", "-50.00"),
        ("19% MwSt", "19"),
        ("25,5 %", "25.5"),
        ("12Stk", "12"),
        ("1,23,456.00", "123456.00"),
        ("0,0849", "0.0849"),
    ],
)
def test_amount_is_found_in_any_national_format(text: str, value: str):
    assert grounds("Nothing here", text).number(value) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Total 1190.00", "119.00"),
        ("Total 1190.00", "190.00"),
        ("Total 1.190,00", "1.19"),
        ("10 1190,00", "101190.00"),
        ("12 3456", "123456"),
        ("R-2026", "20.26"),
        ("no number", "0"),
        ("Total 1190.00", "twelve"),
        ("Total 1190.00", "NaN"),
    ],
)
def test_amount_absent_from_pages_is_not_found(text: str, value: str):
    assert grounds(text).number(value) is None


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-14",
        "14.03.2026",
        "14.3.26",
        "14/03/2026",
        "3/14/2026",
        "14. März 2026",
        "14 march 2026",
        "March 14, 2026",
        "14th of March 2026",
        "14 mars 2026",
        "14 marzo 2026",
        "14 de marzo de 2026",
        "14 maart 2026",
        "14. marts 2026",
        "14 Mar 2026",
        "20260314",
    ],
)
def test_date_is_found_in_seven_languages(text: str):
    assert grounds(f"Datum {text} Seite 1").date("2026-03-14") == 1
    assert grounds(f"Datum {text} Seite 1").date("2026-03-15") is None


def test_ambiguous_date_matches_both_interpretations():
    page = grounds("Date 01/02/2026")
    assert (page.date("2026-01-02"), page.date("2026-02-01"), page.date("2026-02-02")) == (1, 1, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Rechnung R-1001", "R-1001"),
        ("USt-IdNr. DE 123 456 789", "DE123456789"),
        ("IBAN DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
        ("Nr.4711/22", "4711/22"),
        ("PO:4711,4712", "4712"),
        ("(4711)", "4711"),
        ("Mail: info@firm.example", "info@firm.example"),
        ("Artikel A 12-B\nx", "A12B"),
    ],
)
def test_identifier_is_found_despite_separators(text: str, value: str):
    assert grounds(text).identifier(value) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("R-1001/22", "R-1001"),
        ("R-1001", "1001"),
        ("R-1001", "100"),
        ("R-1001", "R-100"),
        ("R-1001", "001"),
        ("51299", "12"),
        ("x", "-"),
        ("x", ""),
    ],
)
def test_partial_identifier_is_not_found(text: str, value: str):
    assert grounds(text).identifier(value) is None


def test_name_requires_all_words_on_one_page():
    pages = grounds("Kuusela", "Kuusela Oy\nSatamakatu")
    assert pages.words("KUUSELA OY") == 2
    assert pages.words("Oy Satamakatu Kuusela") == 2
    assert pages.words("Kuusela GmbH") is None
    assert pages.words("...") is None


def test_word_hyphenated_across_lines_is_found():
    assert grounds("Schrauben-\nzieher blau").words("Schraubenzieher, blau") == 1
    assert grounds("lautlos").words("laut los an") is None


@pytest.mark.parametrize(
    ("text", "code"),
    [("1 EUR", "EUR"), ("1 €", "EUR"), ("£1", "GBP"), ("Fr. 5", "CHF"), ("kr 5", "SEK"), ("US$5", "USD")],
)
def test_currency_is_found_by_code_or_symbol(text: str, code: str):
    assert grounds(text).currency(code) == 1


@pytest.mark.parametrize(("text", "code"), [("1 EUR", "USD"), ("NEURON 1", "EUR"), ("krone", "SEK")])
def test_currency_absent_from_pages_is_not_found(text: str, code: str):
    assert grounds(text).currency(code) is None


@given(st.decimals(min_value=0, max_value=10**9, places=2), st.sampled_from([",.", ".,", " ,", "'.", " ."]))
def test_amount_is_found_with_any_digit_grouping(amount, marks):
    spelling = f"{amount:,.2f}".replace(",", "#").replace(".", marks[1]).replace("#", marks[0])
    assert grounds(f"Total {spelling} EUR").number(str(amount)) == 1


@pytest.mark.parametrize(
    ("text", "is_negative"),
    [
        ("Total 1 506,00 EUR", False),
        ("Total -1 506,00 EUR", True),
        ("Total EUR \u2212 1.506,00", True),
        ("Total -EUR 1.506,00", True),
        ("Total 1,506.00-", True),
        ("Total 1,506.00 EUR-", True),
        ("Total (1,506.00)", True),
        ("R-2026/1506 Total 1506.00", False),
    ],
)
def test_sign_of_an_amount_is_read(text: str, is_negative: bool):
    assert grounds(text).is_negative("-1506.00") is is_negative


@given(st.text(alphabet="0123456789.,'/- \n\u2019janmr", max_size=200))
def test_any_text_can_be_searched(text):
    assert all(number >= 0 for number in numbers(text))
    assert all(len(day) == 10 for day in dates(text))


@pytest.mark.parametrize(
    "text", ["1" + "." * 300_000, "1 " * 100_000, "12 jan " * 50_000, "1/" * 100_000, "9" * 300_000]
)
def test_hostile_page_is_searched_in_linear_time(text: str):
    short, long = (_seconds(text[: len(text) // parts]) for parts in (10, 1))
    assert (
        long < 40 * short + 0.5
    )  # the long text takes 10 times as long in linear time, and 100 times in quadratic time


def _seconds(text: str) -> float:
    started_at = time.perf_counter()
    assert Grounding([_page(text)]).number("7.77") is None
    list(dates(text))
    return time.perf_counter() - started_at
