"""Line items are extracted from tables by means of headings, columns and totals."""

from decimal import Decimal

import pytest

from counterfoil.documents.text.table_lines import read_lines
from tests.documents.text.text_pages import draw_page


def fields(*drawings: str, is_credit_note: bool = False) -> list[dict[str, str]]:
    lines = read_lines([draw_page(drawing) for drawing in drawings], is_credit_note=is_credit_note)
    return [item.fields for item in lines.items]


GERMAN = """
Pos  Artikel-Nr.  Bezeichnung                   Menge  Einheit  Einzelpreis   Gesamt
1    A-100        Schraube M8 x 40               100   Stk           0,1250    12,50
                  verzinkt, DIN 933
2    B-200        Mutter M8                    1.500   Stk           0,0400    60,00
3    C-300        Unterlegscheibe                 12   kg            3,50      42,00

                                      Nettobetrag                            114,50
                                      USt. 19 %                               21,76
                                      Gesamtbetrag                           136,26
"""


def test_line_fields_follow_the_headings():
    first, second, third = fields(GERMAN)

    assert first == {
        "position": "1",
        "article_number": "A-100",
        "description": "Schraube M8 x 40 verzinkt, DIN 933",
        "quantity": "100",
        "unit": "C62",
        "unit_price": "0.1250",
        "net_amount": "12.50",
        "tax_rate": "19",
    }
    assert (second["quantity"], second["net_amount"]) == ("1500", "60.00")
    assert (third["unit"], third["unit_price"]) == ("KGM", "3.50")


def test_line_item_has_evidence_and_a_box():
    first = read_lines([draw_page(GERMAN)]).items[0]

    assert first.evidence.keys() == first.fields.keys()
    assert {evidence.page for evidence in first.evidence.values()} == {1}
    assert first.page == 1
    left, top, right, bottom = first.box
    assert (left, right) == (0.0, 84 * 6.0)
    assert bottom - top == 23.0  # height of two text lines


def test_matching_total_proves_the_line_items():
    lines = read_lines([draw_page(GERMAN)])

    assert lines.is_proven
    assert lines.net == Decimal("114.50")
    assert min(item.evidence["net_amount"].confidence for item in lines.items) > 0.95


def test_line_items_without_matching_total_are_unproven():
    lines = read_lines([draw_page(GERMAN.replace("114,50", "119,50"))])

    assert not lines.is_proven
    assert lines.net == Decimal("114.50")


def test_contradictory_line_item_has_low_confidence():
    lines = read_lines([draw_page(GERMAN.replace("   60,00", "   66,00"))])

    confidence = [item.evidence["net_amount"].confidence for item in lines.items]
    assert confidence[1] < 0.5 < confidence[0]


@pytest.mark.parametrize(
    ("drawing", "expected"),
    [
        (
            """
Item  Description                         Qty           Unit Price      Disc %       Total
10    Hydraulic pump HP-7                 2 pcs           1,250.00          10    2,250.00
20    Assembly                         3.50 hrs              80.00                  280.00
""",
            [("10", "2", "C62", "1125.00", "2250.00"), ("20", "3.50", "HUR", "80.00", "280.00")],
        ),
        (
            """
N°   Désignation                        Qté    P.U. HT     TVA    Montant HT
1    Gants de protection taille 9     1 200       2,45    20 %      2 940,00
2    Huile                             12 l      18,90    20 %        226,80
""",
            [("1", "1200", "C62", "2.45", "2940.00"), ("2", "12", "LTR", "18.90", "226.80")],
        ),
        (
            """
Riga  Descrizione                    Quantità  U.M.   Prezzo unitario      Importo
1     Vite M8                             100  pz              0,1200        12,00
2     Olio                                  5  litri           1.250,50   6.252,50
""",
            [("1", "100", "C62", "0.1200", "12.00"), ("2", "5", "LTR", "1250.50", "6252.50")],
        ),
        (
            """
Línea  Descripción                 Cantidad   Ud.    Precio    Dto    Importe
1      Silla de oficina                   4   uds    120,00   25%      360,00
2      Cable                             10   m        3,00             30,00
""",
            [("1", "4", "C62", "90.00", "360.00"), ("2", "10", "MTR", "3.00", "30.00")],
        ),
        (
            """
Regel  Omschrijving                  Aantal   Eenheid    Prijs     Bedrag
1      Bloempot terracotta 17 cm         24   stuks       4,50     108,00
2      Potgrond                          10   kg          2,25      22,50
""",
            [("1", "24", "C62", "4.50", "108.00"), ("2", "10", "KGM", "2.25", "22.50")],
        ),
        (
            """
Linje  Beskrivelse                  Antal    Enhed   Enhedspris   Beløb
1      Skruer                          10    stk         12,50    125,00
2      Maling hvid                      3    ltr         99,00    297,00
""",
            [("1", "10", "C62", "12.50", "125.00"), ("2", "3", "LTR", "99.00", "297.00")],
        ),
    ],
    ids=["English", "French", "Italian", "Spanish", "Dutch", "Danish"],
)
def test_headings_are_recognized_in_many_languages(drawing: str, expected: list[tuple[str, ...]]):
    names = ("position", "quantity", "unit", "unit_price", "net_amount")

    assert [tuple(line[name] for name in names) for line in fields(drawing)] == expected


_HEADING = "Pos  Artikel   Bezeichnung               Menge ME      Preis       Betrag\n"


def test_multipage_table_skips_carried_totals():
    first = f"""
Firma Muster GmbH, Hauptstr. 1, 12345 Berlin

{_HEADING}1    A-1       Erstes Teil                 10 Stk     10,00       100,00
2    A-2       Zweites Teil                20 Stk      5,00       100,00
                              Übertrag                            200,00
"""
    second = f"""
Firma Muster GmbH, Hauptstr. 1, 12345 Berlin

{_HEADING}                              Übertrag                            200,00
3    A-3       Drittes Teil                 5 Stk     20,00       100,00
                              Summe netto                         300,00
"""
    lines = read_lines([draw_page(first), draw_page(second)])

    assert [(item.page, item.fields["article_number"]) for item in lines.items] == [(1, "A-1"), (1, "A-2"), (2, "A-3")]
    assert lines.is_proven


def test_table_continues_on_next_page_without_heading():
    first = f"""
{_HEADING}1    A-1       Erstes Teil                 10 Stk     10,00       100,00
2    A-2       Zweites Teil                20 Stk      5,00       100,00
"""
    second = """
               mit einer zweiten Zeile
3    A-3       Drittes Teil                 5 Stk     20,00       100,00
                              Summe netto                         300,00
"""
    descriptions = [line["description"] for line in fields(first, second)]

    assert descriptions == ["Erstes Teil", "Zweites Teil mit einer zweiten Zeile", "Drittes Teil"]


def test_group_titles_and_subtotals_are_not_line_items():
    lines = fields("""
Pos  Leistung                             Menge  Preis     Betrag
Los 1: Rohbau
1    Mauerwerk                               10  120,00  1.200,00
2    Putz                                    20   15,00    300,00
     Zwischensumme Los 1                                 1.500,00
Los 2: Ausbau
3    Türen                                    4  250,00  1.000,00
     Zwischensumme Los 2                                 1.000,00
     Summe netto                                         2.500,00
""")

    assert [line["description"] for line in lines] == ["Mauerwerk", "Putz", "Türen"]


def test_discounts_and_charges_in_total_are_line_items():
    lines = fields("""
Pos   Description                Qty     Price      Amount
1     Desk                         2    200.00      400.00
2     Chair                        4     50.00      200.00
      Less discount 10%                             -60.00
      Shipping                                       25.00
      Net total                                     565.00
""")

    assert lines[2:] == [
        {"description": "discount", "net_amount": "-60.00"},
        {"description": "Shipping", "net_amount": "25.00"},
    ]


def test_charge_outside_the_total_is_not_a_line_item():
    lines = fields("""
Pos   Description                Qty     Price      Amount
1     Desk                         2    200.00      400.00
2     Chair                        4     50.00      200.00
      Net total                                     600.00
      Shipping, paid by you on delivery              25.00
""")

    assert len(lines) == 2


def test_discount_below_a_line_item_lowers_its_amount():
    lines = fields("""
Pos   Bezeichnung                Menge     Preis      Betrag
1     Tisch                         2    200,00      400,00
      abzgl. 10 % Rabatt                             -40,00
2     Stuhl                         4     50,00      200,00
      Summe netto                                    560,00
""")

    assert [line["net_amount"] for line in lines] == ["360.00", "200.00"]


def test_inferred_fields_name_their_source():
    first, second = read_lines(
        [
            draw_page("""
Pos   Description                Qty       Price      Disc %     Amount
1     Desk                         2 pcs  200.00        10       360.00
      Your order no. 4711
2     Chair                        4       50.00                 200.00
      Net total                                                  560.00
      VAT 20 % on 560.00                                         112.00
""")
        ]
    ).items

    sources = {name: evidence.source for name, evidence in first.evidence.items()}
    assert sources == {
        "position": "table",
        "description": "table",
        "po_reference": "description",
        "quantity": "table",
        "unit": "table",
        "unit_price": "arithmetic",
        "net_amount": "table",
        "tax_rate": "taxes",
    }
    assert second.evidence["unit"].source == "other lines"


def test_price_basis_is_read_from_words_or_column():
    by_words, by_column = (
        fields("""
Pos  Bezeichnung            Menge        Preis         Betrag
1    Durchflussmesser           2       581.40      1'162.80
2    Signalkabel              500    244.40 je 100   1'222.00
"""),
        fields("""
Pos  Description                Quantity   Unit   Price    per    Net amount
1    Cable ties 200 mm             2,500   pcs    18.40    100        460.00
2    Screws                        5,000   pcs    12.00   1000         60.00
"""),
    )

    assert "price_basis_quantity" not in by_words[0]
    assert by_words[1]["price_basis_quantity"] == "100"
    assert by_words[1]["unit_price"] == "244.40"
    assert [line["price_basis_quantity"] for line in by_column] == ["100", "1000"]


def test_consistent_rows_form_a_table_without_heading():
    lines = fields("""
4711   Vite M8                     100     0,12     12,00
4712   Dado M8                     250     0,04     10,00
4713   Rondella                     30     0,50     15,00
                      Totale imponibile            37,00
""")

    assert lines[1] == {
        "article_number": "4712",
        "description": "Dado M8",
        "quantity": "250",
        "unit_price": "0.04",
        "net_amount": "10.00",
    }
    assert len(lines) == 3


def test_amounts_matching_the_total_require_no_heading():
    lines = read_lines(
        [
            draw_page("""
Beratung im März                               500,00 €
Reisekosten                                    120,50 €
Summe                                          620,50 €
zzgl. 19 % USt                                 117,90 €
Rechnungsbetrag                                738,40 €
""")
        ]
    )

    assert [item.fields for item in lines.items] == [
        {"description": "Beratung im März", "net_amount": "500.00"},
        {"description": "Reisekosten", "net_amount": "120.50"},
    ]
    assert lines.is_proven


def test_net_tax_and_gross_are_not_line_items():
    assert (
        fields("""
Rechnungsbetrag netto                          500,00 €
Umsatzsteuer                                    95,00 €
Rechnungsbetrag brutto                         595,00 €
""")
        == []
    )


def test_letter_without_table_yields_no_line_items():
    assert (
        fields("""
Sehr geehrte Damen und Herren,
anbei senden wir Ihnen die Preisliste. Menge und Preis siehe Anlage.
Mit freundlichen Grüßen, 12.05.2025
""")
        == []
    )


def test_ambiguous_numbers_are_omitted():
    lines = fields("""
Pos   Description                Qty       Price      Amount
1     Desk                         2       1.200      2.400
2     Chair                        4       1.100      4.400
""")

    assert lines == [
        {"position": "1", "description": "Desk", "quantity": "2"},
        {"position": "2", "description": "Chair", "quantity": "4"},
    ]


_WHOLE_QUANTITIES = """
{words}

Pos   Article     {name}                    {quantity}
1     A-17.20     Kugelschreiber               1.600
2     A-17.21     Locher                          24
"""


def test_language_decides_the_format_of_quantities():
    drawing = _WHOLE_QUANTITIES.format(words="Lieferschein für die Bestellung", name="Bezeichnung", quantity="Menge")
    lines = read_lines([draw_page(drawing)])

    assert [item.fields["quantity"] for item in lines.items] == ["1600", "24"]
    assert [item.evidence["quantity"].confidence < 0.7 for item in lines.items] == [True, False]


def test_dot_is_ambiguous_in_swiss_and_english_documents():
    for words in ("Lieferschein für die Bestellung, Zürich, Schweiz", "Delivery note for the order of the year"):
        drawing = _WHOLE_QUANTITIES.format(words=words, name="Description", quantity="Qty")

        assert [line.get("quantity") for line in fields(drawing)] == [None, "24"]


def test_page_footer_is_not_a_line_item():
    lines = fields("""
Pos   Artikel     Bezeichnung              Menge
1     A-1         Kugelschreiber               3
2     A-2         Locher                      24



Muster AG         Steuernummer 48/302       7877
04109 Leipzig     Konto                     4711
""")

    assert len(lines) == 2
