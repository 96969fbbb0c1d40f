"""Rules extract type, parties, references and totals from page text."""

from typing import Any

import pytest

from counterfoil.documents.structured import DocumentType, to_structured_data
from counterfoil.documents.text import reading
from counterfoil.documents.text.reading import Reading
from tests.documents.text.text_pages import draw_page

LETTER = """
Bürohaus Süderholz KG

Bürohaus Süderholz KG · Gewerbestraße 108 · 28195 Bremen      Nummer          R003946
Ateliers Montfléau SA                                         Datum           03.03.2025
17 boulevard de la Gare                                       Fällig am       17.03.2025
69002 Lyon                                                    Ihre Bestellung BC2025-04656
Frankreich                                                    Lieferschein    80003458
                                                              Ihre USt-IdNr.  FR19787878784
Rechnung R003946

                                                     Nettobetrag                3.115,82 €
                                                     Umsatzsteuer 19 % auf 3.115,82   592,01 €
                                                     Gesamtbetrag               3.707,83 €
Bürohaus Süderholz KG      Steuernummer 201/113/40209     IBAN DE08 7009 0100 1234 5678 90
Gewerbestraße 108          USt-IdNr. DE136695976          verkauf@suederholz.example
28195 Bremen
"""


def read(drawing: str) -> Reading:
    reading_ = reading.read([draw_page(drawing)])
    assert reading_ is not None
    to_structured_data(reading_.type, reading_.fields)  # raises if the fields are invalid
    return reading_


def fields(drawing: str) -> dict[str, Any]:
    return {name: value for name, value in read(drawing).fields.items() if name != "line_items"}


def test_all_fields_of_a_letter_are_extracted():
    assert fields(LETTER) == {
        "invoice_number": "R003946",
        "invoice_date": "2025-03-03",
        "payment_due_date": "2025-03-17",
        "po_reference": "BC2025-04656",
        "delivery_note_reference": "80003458",
        "currency": "EUR",
        "total_net": "3115.82",
        "total_tax": "592.01",
        "total_gross": "3707.83",
        "issuer": {
            "name": "Bürohaus Süderholz KG",
            "street": "Gewerbestraße 108",
            "postal_code": "28195",
            "city": "Bremen",
            "vat_id": "DE136695976",
            "tax_number": "201/113/40209",
            "iban": "DE08700901001234567890",
            "email": "verkauf@suederholz.example",
        },
        "recipient": {
            "name": "Ateliers Montfléau SA",
            "street": "17 boulevard de la Gare",
            "postal_code": "69002",
            "city": "Lyon",
            "country": "FR",
            "vat_id": "FR19787878784",
        },
    }


def test_every_field_has_evidence():
    reading_ = read(LETTER)
    paths = {
        f"{name}.{own}" if own else name
        for name, value in reading_.fields.items()
        for own in (value if isinstance(value, dict) else [""])
    }
    assert reading_.evidence.keys() == paths
    assert all(0 < evidence.confidence <= 1 and evidence.page == 1 for evidence in reading_.evidence.values())
    assert reading_.evidence["total_gross"].source == "label and sum"


@pytest.mark.parametrize(
    ("drawing", "kind", "expected"),
    [
        (
            """
            Faktura nr. 20417                 Fakturadato     3. marts 2025
                                              Forfaldsdato    17-03-2025
            Køber:
            Nordvang Byg ApS                  Ordrenr.        PO-8812
            Havnegade 12
            2100 København Ø
                                              Subtotal               1.000,00
                                              Moms 25 %                250,00
                                              I alt DKK              1.250,00
            """,
            DocumentType.INVOICE,
            {"invoice_number": "20417", "invoice_date": "2025-03-03", "payment_due_date": "2025-03-17",
             "po_reference": "PO-8812", "currency": "DKK", "total_net": "1000.00", "total_tax": "250.00",
             "total_gross": "1250.00",
             "recipient": {"name": "Nordvang Byg ApS", "street": "Havnegade 12", "postal_code": "2100",
                           "city": "København Ø"}},
        ),
        (
            """
            FACTURA RECTIFICATIVA N.º AB-2025/17      Fecha: 12 de marzo de 2025
            Factura original: F-2025/311

            Cliente
            Talleres Peñalba S.L.
            Calle Mayor 8
            28013 Madrid
                                              Base imponible     100,00 €
                                              IVA 21 %            21,00 €
                                              Total              121,00 €
            """,
            DocumentType.CREDIT_NOTE,
            {"credit_note_number": "AB-2025/17", "credit_note_date": "2025-03-12", "invoice_reference": "F-2025/311",
             "currency": "EUR", "total_net": "100.00", "total_tax": "21.00", "total_gross": "121.00",
             "recipient": {"name": "Talleres Peñalba S.L.", "street": "Calle Mayor 8", "postal_code": "28013",
                           "city": "Madrid"}},
        ),
        (
            """
            Ordine di acquisto ODA 4627/2025          Data ordine: 09/01/2025
            Vs. offerta n. PR-88                      Contratto n. C-12

            Fornitore
            Officine Vetralba S.r.l.
            Via del Mulino 17
            10121 Torino
            """,
            DocumentType.PURCHASE_ORDER,
            {"po_number": "ODA 4627/2025", "order_date": "2025-01-09", "quotation_reference": "PR-88",
             "contract_reference": "C-12",
             "supplier": {"name": "Officine Vetralba S.r.l.", "street": "Via del Mulino 17", "postal_code": "10121",
                          "city": "Torino"}},
        ),
        (
            """
            Pakbon PB-03269
            Leverdatum     17 juni 2025
            Uw order       IO-004004

            Koper
            Kruiswaard Techniek B.V.
            Dorpsstraat 5
            5611 CD Eindhoven
            """,
            DocumentType.DELIVERY_NOTE,
            {"delivery_note_number": "PB-03269", "delivery_date": "2025-06-17", "po_reference": "IO-004004",
             "buyer": {"name": "Kruiswaard Techniek B.V.", "street": "Dorpsstraat 5", "postal_code": "5611 CD",
                       "city": "Eindhoven"}},
        ),
        (
            """
            Accusé de réception de commande ARC000331     Date    10/01/2025
            Votre commande   BC2025-06369
            """,
            DocumentType.ORDER_CONFIRMATION,
            {"confirmation_number": "ARC000331", "confirmation_date": "2025-01-10", "po_reference": "BC2025-06369"},
        ),
        (
            """
            Goods received note
            GRN No.         Date received     Purchase order no.     Delivery note no.
            GRN005737       28/01/2025        PO0003297              DN002301
            """,
            DocumentType.GOODS_RECEIPT,
            {"receipt_number": "GRN005737", "receipt_date": "2025-01-28", "po_reference": "PO0003297",
             "delivery_note_reference": "DN002301"},
        ),
        (
            """
            Rahmenvertrag Nr. RV-2025-8 vom 01.02.2025

            Auftragnehmer
            Kranz Metall GmbH
            Werkstr. 4
            44135 Dortmund
            """,
            DocumentType.CONTRACT,
            {"contract_number": "RV-2025-8", "contract_date": "2025-02-01",
             "supplier": {"name": "Kranz Metall GmbH", "street": "Werkstr. 4", "postal_code": "44135",
                          "city": "Dortmund"}},
        ),
    ],
    ids=["da", "es", "it", "nl", "fr", "en", "de"],
)  # fmt: skip
def test_types_and_fields_are_read_in_seven_languages(drawing: str, kind: DocumentType, expected: dict[str, Any]):
    reading_ = read(drawing)
    assert reading_.type is kind
    assert {name: value for name, value in reading_.fields.items() if name != "line_items"} == expected


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("Rechnungsnummer: RE-2025-00397", "RE-2025-00397"),
        ("Rechnungs-Nr. 2025/17", "2025/17"),
        ("Rechnung R003946", "R003946"),
        ("RECHNUNG Nr. 17", "17"),
        ("Handelsrechnung (380) Nr. 471102 vom 05.03.2018", "471102"),
        ("Rechnung # RE-20140519/499 vom 19.05.2014", "RE-20140519/499"),
        ("Invoice number: SI0003462", "SI0003462"),
        ("Invoice No 4711", "4711"),
        ("Facture n° FA-004711", "FA-004711"),
        ("Fattura FT 1981/2025", "FT 1981/2025"),
        ("Factuur F-002788", "F-002788"),
        ("K O S T E N R E C H N U N G\nBeleg-Nr   : KR87654321012", "KR87654321012"),
    ],
)
def test_invoice_number_is_found(line: str, number: str):
    assert read(f"Wiesenbrück GmbH\n\n{line}").fields["invoice_number"] == number


@pytest.mark.parametrize(
    "line",
    [
        "Rechnung vom 03.03.2025",
        "Rechnung 03.03.2025",
        "Zu Rechnung R003946",
        "Bitte überweisen Sie den Betrag unter Angabe der Rechnungsnummer.",
        "Rechnung",
        "Invoice address",
        "Ihre Bestellung 4500005145",
        "Rechnung gemäß Bestellung Nr. 2013-471331",
        "Beitragsrechnung zur Kraftfahrtversicherung Nr. 00.123.456.7",
        "Rechnung R003946 und Lieferschein 80003458",
    ],
)
def test_reference_or_bare_title_yields_no_document_number(line: str):
    assert reading.read([draw_page(f"Wiesenbrück GmbH\n\n{line}")]) is None


def test_title_outranks_referenced_documents():
    drawing = "Gutschrift GS-17\n\nBetrifft Rechnungsnummer: R-4711\nLieferschein 80003458 vom 01.02.2025"
    reading_ = read(drawing)
    assert (reading_.type, reading_.fields["credit_note_number"]) == (DocumentType.CREDIT_NOTE, "GS-17")
    assert reading_.fields["invoice_reference"] == "R-4711"


def test_self_billed_invoice_is_an_invoice():
    assert read("Gutschrift (Selbst ausgestellte Rechnung) Nr. 471102").type is DocumentType.INVOICE


def test_invoice_references_several_orders():
    drawing = (
        "Rechnung Nr. 17\n\nBestellnummern\nBestell-Nr. 4500001, 4500002 und 4500003\n* Bestellung Nr. 4500004 Zeile 1"
    )
    assert fields(drawing)["po_reference"] == ["4500001", "4500002", "4500003", "4500004"]


@pytest.mark.parametrize(
    "line",
    [
        "Invoice date 04/03/2025",  # March 4 or April 3
        "Amount due $ 1,234.56 or $ 1,300.00",
        "Your order is on its way",
        "VAT number on request",
        "Order:      Contact: 17",
        "Leistungszeitraum 01.01.2025 - 31.01.2025",
        "12345 Musterstadt",  # a city without a name
    ],
)
def test_ambiguous_or_missing_value_is_omitted(line: str):
    assert fields(f"Invoice 4711\n\n\n{line}\n") == {"invoice_number": "4711"}


def test_discount_deadline_is_not_the_due_date():
    drawing = "Rechnung 17\n\nZahlbar mit 2% Skonto bis 14.11.2018\nZahlbar ohne Abschlag bis     20.11.2018"
    assert fields(drawing)["payment_due_date"] == "2018-11-20"


def test_consistent_amounts_outrank_labeled_amounts():
    drawing = """
    Rechnung 17

    Gesamtbetrag der Zuschläge       3,00 €
    Warenwert netto                110,00 €
    Nettobetrag                    100,00 €
    Umsatzsteuer 19 %               19,00 €
    Gesamtbetrag                   119,00 €
    Zahlbetrag                      69,00 €
    """
    data = fields(drawing)
    assert (data["total_net"], data["total_tax"], data["total_gross"]) == ("100.00", "19.00", "119.00")


def test_taxes_of_two_rates_are_added():
    drawing = """
    Rechnung 17

    Nettobetrag                    200,00 €
    Umsatzsteuer 7 % von 100,00      7,00 €
    Umsatzsteuer 19 % von 100,00    19,00 €
    Gesamtbetrag                   226,00 €
    """
    reading_ = read(drawing)
    assert reading_.fields["total_tax"] == "26.00"
    assert reading_.evidence["total_tax"].source == "sum of its parts"


def test_totals_below_their_labels_are_read():
    drawing = """
    Rechnung 17

    Warenwert     Nettobetrag    MwSt-Betrag    Endbetrag
      -5,00           -4,85          -0,92        -5,77
      -2,90           -2,82          -0,20        -3,02
      -7,90           -7,67          -1,12        -8,79
    """
    data = fields(drawing)
    assert (data["total_net"], data["total_tax"], data["total_gross"]) == ("-7.67", "-1.12", "-8.79")


def test_credit_note_totals_are_positive():
    drawing = """
    Avoir AV-2017-0005

    Total HT        -218,48 €
    Total taxes      -14,99 €
    Total TTC       -233,47 €
    """
    data = fields(drawing)
    assert (data["total_net"], data["total_tax"], data["total_gross"]) == ("218.48", "14.99", "233.47")


def test_bilingual_document_is_read():
    drawing = """
    Rechnung / Invoice 4711

    Datum / Date:                03.03.2025
    Bestell-Nr. / Order No.:     4500017
    Käufer / Buyer:
    Kunden AG Mitte
    Kundenstraße 15
    69876 Frankfurt

    Zwischensumme / Subtotal        100,00 EUR
    MwSt. / VAT 19 %                 19,00 EUR
    Gesamtbetrag / Total amount     119,00 EUR
    """
    data = fields(drawing)
    assert (data["invoice_number"], data["invoice_date"], data["po_reference"]) == ("4711", "2025-03-03", "4500017")
    assert (data["total_net"], data["total_tax"], data["total_gross"]) == ("100.00", "19.00", "119.00")
    assert data["recipient"]["name"] == "Kunden AG Mitte"


def test_ambiguous_total_is_net_if_tax_confirms_it():
    drawing = "Rechnung 17\n\nSumme         100,00 €\nMwSt. 19 %     19,00 €\nGesamtbetrag  119,00 €"
    assert fields(drawing)["total_net"] == "100.00"
    assert "total_net" not in fields(drawing.replace("19,00 €\nG", "18,00 €\nG"))


def test_delivery_address_is_not_a_party():
    drawing = """
    Rechnung 17

    Verkäufer:               Abweichender Warenempfänger:     Käufer:
    Lieferant GmbH           Musterfirma Nürnberg             Kunden AG Mitte
    Lieferantenstraße 20     Am Bahnhof 42                    Hans Muster
    DE 80333 München         DE 75319 Nürnberg                Kundenstraße 15
                                                              DE 69876 Frankfurt
    """
    data = fields(drawing)
    assert data["issuer"] == {
        "name": "Lieferant GmbH", "street": "Lieferantenstraße 20", "postal_code": "80333", "city": "München",
        "country": "DE",
    }  # fmt: skip
    assert data["recipient"] == {
        "name": "Kunden AG Mitte", "street": "Kundenstraße 15", "postal_code": "69876", "city": "Frankfurt",
        "country": "DE",
    }  # fmt: skip


def test_unassignable_vat_ids_are_omitted():
    drawing = """
    Acme GmbH · Europa-Allee 1980 · 60486 Frankfurt

    Rechnung 17
    USt-IdNr.: DE136695976
    Sonstiges
    USt-IdNr.: DE812871812
    """
    assert "vat_id" not in fields(drawing)["issuer"]


def test_pages_without_a_document_number_yield_nothing():
    assert reading.read([draw_page("Guten Tag")]) is None
    assert reading.read([]) is None
