"""Table headings are recognized on one line or several lines."""

import pytest

from counterfoil.documents.text.table_headings import Heading, Kind, headings
from tests.documents.text.text_pages import draw_page


def _headings(drawing: str) -> list[Heading]:
    return list(headings(draw_page(drawing).lines()))


def _kinds(drawing: str) -> list[list[Kind]]:
    (record,) = _headings(drawing)
    return [[name[0] for name in column.names] for column in next(record.readings()).columns]


def test_heading_on_two_lines_is_read():
    kinds = _kinds("""
     Unsere   Ihre                       Menge  Meng.-    Preis/
Pos  Art.Nr.  Art.Nr.  Bezeichnung              einheit  Einheit   Betrag
""")

    assert kinds == [
        [Kind.POSITION],
        [Kind.ARTICLE],
        [Kind.BUYER_ARTICLE],
        [Kind.DESCRIPTION],
        [Kind.QUANTITY],
        [Kind.UNIT],
        [Kind.PRICE],
        [Kind.NET],
    ]


def test_column_with_several_headings_is_read():
    kinds = _kinds("""
Pos   Art-Nr-Kunde   Beschreibung   Nettopreis   Menge   Positions
      Art-Nr-Lief.                                       betrag
      Art-Nr                                             ohne
      (Art)                                              USt.
""")

    assert kinds[1] == [Kind.BUYER_ARTICLE, Kind.ARTICLE, Kind.GTIN]
    assert kinds[-1] == [Kind.NET]


def test_combined_article_and_description_column_is_read():
    assert _kinds("Position Material/Beschreibung     Menge     Preis    Betrag")[1] == [
        Kind.ARTICLE,
        Kind.DESCRIPTION,
    ]


def test_tax_table_is_not_a_goods_table():
    (record,) = _headings("USt. Satz     Nettopreis     Ust.-Betrag")

    assert not record.is_of_goods


@pytest.mark.parametrize(
    "text",
    [
        "Menge und Preis siehe Anlage, Artikel 7 der Bedingungen",
        "Pos 1   Beschreibung 2   Menge 3",
        "Datum",
        "Bitte geben Sie bei Zahlung Rechnungsnummer und Betrag an",
    ],
)
def test_text_with_heading_words_is_not_a_heading(text: str):
    assert [candidates for candidates in _headings(text) if candidates.is_of_goods] == []


def test_each_column_kind_is_assigned_once():
    (record,) = _headings("Description   Quantity   Unit price   Price   Total   Amount")

    for reading in record.readings():
        kinds = [kind for kind in reading.kinds if kind is not Kind.OTHER]
        assert len(kinds) == len(set(kinds))
