"""Documents from Austria and Switzerland."""

from tests.documents.text.drawn_documents.sheet import DrawnDocument, Sheet, lines, party, totals


def swiss() -> DrawnDocument:
    """A Swiss invoice: apostrophes in numbers, amounts in francs, a price basis."""
    sheet = Sheet()
    sheet.rows(20, 22, "Zürichsee Papier AG", "Seestrasse 101", "8002 Zürich", "CHE-100.155.212 MWST")
    sheet.rows(120, 50, "Kanzlei Vogt & Partner", "Bundesplatz 7", "6300 Zug", size=10)
    sheet.at(20, 85, "Rechnung 24-10088", 15, bold=True)
    sheet.table(92, "20 55", "Datum:|7. Februar 2024", "Zahlbar bis:|08.03.2024", "Kunde:|30551")
    columns = "20 45 115r 120 150r 163r 190r"
    sheet.table(112, columns, "Artikel-Nr.|Bezeichnung|Menge|Einheit|Preis|per|Betrag CHF", bold=True)
    sheet.table(
        119, columns, "P-8090|Kopierpapier A4 80 g weiss|25'000|Stk|1.12|100|280.00",
        "U-C5F|Couverts C5 mit Fenster|5'000|Stk|6.48|100|324.00", "A-7R|Ordner A4 7 cm, rot|350|Stk|3.45|1|1'207.50",
    )  # fmt: skip
    sheet.table(142, "120 190r", "Total exkl. MWST|1'811.50", "MWST 8.1%|146.73", "Total inkl. MWST|1'958.23")
    sheet.at(20, 270, "IBAN CH93 0076 2011 6238 5295 7   Vielen Dank für Ihren Auftrag", 8)
    names = "article_number description quantity unit unit_price price_basis_quantity net_amount"
    return sheet.finish("invoice", {
        "invoice_number": "24-10088", "invoice_date": "2024-02-07", "payment_due_date": "2024-03-08",
        **totals("CHF 1811.50 146.73 1958.23"),
        "issuer": party("Zürichsee Papier AG|Seestrasse 101|8002|Zürich", vat_id="CHE100155212MWST",
                         iban="CH9300762011623852957"),
        "recipient": party("Kanzlei Vogt & Partner|Bundesplatz 7|6300|Zug"),
        "line_items": lines(
            names, "P-8090|Kopierpapier A4 80 g weiss|25000|C62|1.12|100|280.00",
            "U-C5F|Couverts C5 mit Fenster|5000|C62|6.48|100|324.00", "A-7R|Ordner A4 7 cm, rot|350|C62|3.45|-|1207.50",
        ),
    })  # fmt: skip


def austrian_fee() -> DrawnDocument:
    """An Austrian architect's fee note: no table, and the date after the city.

    Each service has its own amount.
    """
    sheet = Sheet("times")
    sheet.at(25, 25, "Architekturbüro Dipl.-Ing. Eva Steinlechner", 12, bold=True)
    sheet.rows(25, 30, "Maria-Theresien-Straße 31", "6020 Innsbruck", "UID: ATU13585627")
    sheet.rows(25, 55, "Herrn", "Dr. Franz Gruber", "Dorfstraße 8", "6167 Neustift im Stubaital")
    sheet.at(190, 85, "Innsbruck, am 21.03.2024", right=True)
    sheet.at(25, 95, "Honorarnote Nr. 24-031", 14, bold=True)
    sheet.at(25, 105, "Für unsere Leistungen erlauben wir uns, wie folgt in Rechnung zu stellen:")
    rows = "25 190r"
    sheet.table(
        115, rows, "Entwurfsplanung Umbau Dachgeschoß|4.200,00 EUR",
        "Einreichplan mit Baubeschreibung|1.850,00 EUR", "Nebenkosten pauschal|150,00 EUR",
    )  # fmt: skip
    sheet.table(134, rows, "Summe netto|6.200,00 EUR", "20 % USt|1.240,00 EUR", "Gesamtbetrag|7.440,00 EUR")
    sheet.at(25, 165, "Zahlbar bis spätestens 04.04.2024 auf unser Konto AT61 1904 3002 3457 3201.")
    return sheet.finish("invoice", {
        "invoice_number": "24-031", "invoice_date": "2024-03-21", "payment_due_date": "2024-04-04",
        **totals("EUR 6200.00 1240.00 7440.00"),
        "issuer": party("Architekturbüro Dipl.-Ing. Eva Steinlechner|Maria-Theresien-Straße 31|6020|Innsbruck",
        vat_id="ATU13585627", iban="AT611904300234573201"),
        "recipient": party("Herrn Dr. Franz Gruber|Dorfstraße 8|6167|Neustift im Stubaital"),
        "line_items": lines(
            "description net_amount", "Entwurfsplanung Umbau Dachgeschoß|4200.00",
            "Einreichplan mit Baubeschreibung|1850.00", "Nebenkosten pauschal|150.00",
        ),
    })  # fmt: skip


ALPINE = (
    swiss,
    austrian_fee,
)
