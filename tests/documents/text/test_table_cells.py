"""Line items are extracted from unusual tables, such as tables without prices."""

from dataclasses import replace
from decimal import Decimal

import pytest

from counterfoil.documents.text.table_lines import read_lines
from tests.documents.text.test_tables import GERMAN, fields
from tests.documents.text.text_pages import draw_page


def test_delivery_note_uses_delivered_quantities():
    lines = fields("""
Regel  Artikelnr   Omschrijving                 Besteld   Geleverd   Eenheid
1      NL-4        Bloempot terracotta 17 cm         24         20   stuks
2      NL-9        Potgrond                          10         10   zak

Handtekening ontvanger
""")

    assert lines == [
        {
            "position": "1",
            "article_number": "NL-4",
            "description": "Bloempot terracotta 17 cm",
            "quantity": "20",
            "unit": "C62",
        },
        {"position": "2", "article_number": "NL-9", "description": "Potgrond", "quantity": "10", "unit": "XBG"},
    ]


def test_goods_receipt_has_rejected_quantities():
    lines = fields("""
Pos  Material   Bezeichnung              Menge geliefert   Angenommen   Abgelehnt   ME
10   M-1        Kugellager 6204                       50           48           2   Stk
20   M-2        Dichtring                            100          100           0   Stk
""")

    assert [(line["quantity"], line["rejected_quantity"]) for line in lines] == [("50", "2"), ("100", "0")]


def test_negative_credit_note_amounts_become_positive():
    drawing = """
Description                Quantity    Unit price      Price excl. VAT
Nougat                            5         4.55               -22.75
Oil                              10        19.80              -198.00
                                      Net total               -220.75
"""

    assert [line["net_amount"] for line in fields(drawing, is_credit_note=True)] == ["22.75", "198.00"]
    assert [line["net_amount"] for line in fields(drawing)] == ["-22.75", "-198.00"]


_WITH_TAX = """
Beschreibung               Menge     Preis      Betrag
Buch                           2     10,70       21,40
Stift                          1      5,35        5,35
Summe inkl. 7 % MwSt                             26,75
"""


def test_gross_line_amounts_are_not_net_amounts():
    lines = read_lines([draw_page(_WITH_TAX)], total_net=Decimal("25.00"), total_gross=Decimal("26.75"))

    assert [item.fields for item in lines.items] == [
        {"description": "Buch", "quantity": "2"},
        {"description": "Stift", "quantity": "1"},
    ]
    assert lines.items[0].evidence.keys() == lines.items[0].fields.keys()
    assert lines.net is None


def test_trailing_minus_makes_a_number_negative():
    lines = fields("""
Pos   Bezeichnung                Menge     Preis      Betrag
1     Rücknahme Tisch               2-   200,00      400,00-
2     Stuhl                         4     50,00      200,00
      Summe netto                                    200,00-
""")

    assert (lines[0]["quantity"], lines[0]["net_amount"]) == ("-2", "-400.00")


def test_vertically_centered_amounts_are_read():
    lines = fields("""
Nr.   Beschreibung                    Menge     Einzelpreis     Gesamtpreis

      Wartung der Anlage
1     gemäß Vertrag vom                   1          350,00          350,00
      12.01.2025

      Austausch der Pumpe
2     inklusive Dichtungen                2          120,00          240,00
      und Schrauben
""")

    assert [line["description"] for line in lines] == [
        "Wartung der Anlage gemäß Vertrag vom 12.01.2025",
        "Austausch der Pumpe inklusive Dichtungen und Schrauben",
    ]


def test_numbers_below_the_description_are_read():
    lines = fields("""
Pos   Artikel / Bezeichnung
                         Menge      Preis     Betrag
1     Bohrmaschine
                         2 Stk     100,00     200,00
2     Säge
                         1 Stk      50,00      50,00
""")

    assert [(line["position"], line["description"], line["net_amount"]) for line in lines] == [
        ("1", "Bohrmaschine", "200.00"),
        ("2", "Säge", "50.00"),
    ]


def test_several_article_numbers_in_a_cell_are_read():
    lines = fields("""
Pos   Art-Nr-Kunde     Beschreibung             Preis     Menge     Betrag
      Art-Nr-Lief.
1     K-77             Stahlcoil               100,00        10   1.000,00
      CO-123/V2A
2                      Blech                    50,00         2     100,00
      CO-124
""")

    assert [(line.get("buyer_article_number"), line["article_number"]) for line in lines] == [
        ("K-77", "CO-123/V2A"),
        (None, "CO-124"),
    ]


def test_order_reference_of_a_line_item_is_read():
    first, second = fields("""
Pos   Bezeichnung                 Menge     Preis      Betrag
1     Tisch                           2    200,00      400,00
      Ihre Bestellung Nr. 4500017 Pos. 10
2     Stuhl                           4     50,00      200,00
      Ihre Bestellung Nr. 4500017 Pos. 20
""")

    assert (first["po_reference"], first["po_line"], first["description"]) == ("4500017", "10", "Tisch")
    assert second["po_line"] == "20"


def test_supplier_and_buyer_article_numbers_are_distinguished():
    (line,) = fields("""
Pos  Our item no.  Your item no.  Description        Delivery   Qty  Unit   Price/Unit   Total
10   S-100         C-900          Bearing 6204       12 May      20  pcs         4.50    90.00
""")

    assert (line["article_number"], line["buyer_article_number"]) == ("S-100", "C-900")


def test_article_column_without_numbers_is_the_description():
    lines = fields("""
Menge    Artikel                               Preis       Summe
2 x      Pizza Margherita                       8,50       17,00
1 x      Cola 0,5 l                             3,00        3,00
""")

    assert [(line["description"], line["quantity"]) for line in lines] == [
        ("Pizza Margherita", "2"),
        ("Cola 0,5 l", "1"),
    ]


def test_description_excludes_codes_and_gross_prices():
    (line,) = fields("""
Pos   Bezeichnung                 Menge     Preis      Betrag
1     Tisch, Eiche                    2    200,00      400,00
      GTIN: 4012345001235
      Bruttopreis: 220,00  Rabatt: 20,00
""")

    assert line["description"] == "Tisch, Eiche"


def test_numbers_resolve_an_ambiguous_heading():
    lines = fields("""
Amount     Product                       VAT      Price       Total
1.00       Design of a sample             7%     160.00      160.00
400.00     Balloons                      19%       0.79      316.00
""")

    assert [(line["quantity"], line["net_amount"]) for line in lines] == [("1.00", "160.00"), ("400.00", "316.00")]


@pytest.mark.parametrize(
    ("taxes", "rates"),
    [
        ("20 % VAT on 45.00                             9.00", ["20", "20", "20"]),
        ("7 % VAT on 21.00                              1.47\n19 % VAT on 24.00             4.56", ["7", "19", "19"]),
        ("7 % VAT on 20.00                              1.40\n19 % VAT on 25.00             4.75", [None] * 3),
    ],
    ids=["one rate", "unique assignment of rates", "ambiguous assignment of rates"],
)
def test_line_tax_rates_are_inferred_from_document_taxes(taxes: str, rates: list[str | None]):
    book = "21.00" if "21.00" in taxes else "20.00"
    pen = "4.00" if book == "21.00" else "5.00"
    lines = fields(f"""
Description                  Qty     Price      Amount
Book                           1     {book}       {book}
Pen                            1      {pen}        {pen}
Notebook                      10      2.00       20.00
Net total                                        45.00
{taxes}
""")

    assert [line.get("tax_rate") for line in lines] == rates


def test_missing_unit_means_pieces_beside_other_units():
    with_units = fields("""
Pos   Bezeichnung              Menge         Preis      Betrag
1     Kabel                     10 m          2,00       20,00
2     Stecker                    4            1,00        4,00
""")
    without = fields("""
Pos   Bezeichnung              Menge         Preis      Betrag
1     Kabel                     10            2,00       20,00
2     Stecker                    4            1,00        4,00
""")

    assert [line.get("unit") for line in with_units] == ["MTR", "C62"]
    assert [line.get("unit") for line in without] == [None, None]


def test_word_order_does_not_change_line_items():
    page = draw_page(GERMAN)
    reversed_page = replace(page, words=tuple(reversed(page.words)))

    assert read_lines([reversed_page]).items == read_lines([page]).items != ()


def test_words_drawn_twice_keep_quantities_and_amounts():
    page = draw_page(GERMAN)
    names = ("position", "quantity", "unit_price", "net_amount")
    once, twice = (
        [[item.fields[name] for name in names] for item in read_lines([drawn]).items]
        for drawn in (page, replace(page, words=page.words * 2))
    )

    assert twice == once != []


def test_pages_without_text_yield_no_line_items():
    assert read_lines([]).items == ()
    assert read_lines([draw_page("")]).items == ()
