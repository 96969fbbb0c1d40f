"""Dates are read as seven languages write them, and only where they can mean one day."""

import pytest

from counterfoil.documents.text import dates


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("05.03.2018", "2018-03-05"),
        ("5.3.18", "2018-03-05"),
        ("2018-03-05", "2018-03-05"),
        ("2018/3/5", "2018-03-05"),
        ("25/04/2018", "2018-04-25"),
        ("04/25/2018", "2018-04-25"),
        ("24. Januar 2014", "2014-01-24"),
        ("1. März 2020", "2020-03-01"),
        ("24 January 2014", "2014-01-24"),
        ("24th of January 2014", "2014-01-24"),
        ("January 24, 2014", "2014-01-24"),
        ("1er août 2019", "2019-08-01"),
        ("12 décembre 2019", "2019-12-12"),
        ("3 maggio 2021", "2021-05-03"),
        ("3 de mayo de 2021", "2021-05-03"),
        ("17 juni 2022", "2022-06-17"),
        ("17. oktober 2022", "2022-10-17"),
        ("25-Apr-2018", "2018-04-25"),
        ("Montag, 05.03.2018", "2018-03-05"),
        ("05.03.2018 14:30", "2018-03-05"),
    ],
)
def test_a_date_is_read(text: str, day: str):
    assert dates.whole(text, None) == day


@pytest.mark.parametrize("text", ["04/03/2025", "04-03-2025", "31.02.2024", "13/13/2024", "1.234,56", "12.05", "KW 36"])
def test_what_is_no_date_or_may_be_two_is_none(text: str):
    assert dates.whole(text, None) is None


def test_another_date_on_the_page_settles_the_order():
    assert dates.whole("04/03/2025", dates.order_of(["04/03/2025", "28/03/2025"])) == "2025-03-04"
    assert dates.whole("04/03/2025", dates.order_of(["04/03/2025", "03/28/2025"])) == "2025-04-03"


def test_dates_that_contradict_each_other_settle_nothing():
    assert dates.order_of(["13/03/2025", "03/13/2025"]) is None


@pytest.mark.parametrize(
    "texts",
    [
        ["Facture 17", "Date de facture", "Montant", "Désignation", "Votre commande"],
        ["Fattura 17", "Importo", "Prezzo", "Descrizione"],
        ["Factura 17", "Fecha", "Importe", "Cantidad"],
        ["Factuur 17", "Bedrag", "Aantal", "Omschrijving"],
        ["Faktura 17", "Dato", "Beløb", "Antal"],
        ["Invoice 17", "Date", "Amount", "VAT number GB123456789"],
    ],
)
def test_the_day_comes_first_on_european_papers(texts: list[str]):
    assert dates.order_of(texts) == "day first"


def test_an_english_paper_of_unknown_country_says_nothing_of_the_order():
    assert dates.order_of(["Invoice 17", "Date", "Amount", "Quantity"]) is None


def test_all_dates_of_a_sentence_are_found_with_their_places():
    text = "vom 01.03.2013 bis 05.03.2013"
    assert [text[start:end] for start, end, _ in dates.find(text, None)] == ["01.03.2013", "05.03.2013"]
