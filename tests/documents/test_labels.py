"""What the text of an invoice says beside labels is read, and nothing that could be meant otherwise."""

import pytest

from counterfoil.documents.labels import invoice_number, read_invoice


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("Rechnungsnummer: RE-2025-00397", "RE-2025-00397"),
        ("Rechnungs-Nr. 2025/17", "2025/17"),
        ("Rechnung R003946", "R003946"),
        ("RECHNUNG Nr. 17", "17"),
        ("Invoice number: SI0003462", "SI0003462"),
        ("Invoice No 4711", "4711"),
        ("Facture n° FA-004711", "FA-004711"),
        ("Fattura FT 1981/2025", "FT 1981/2025"),
        ("Factuur F-002788", "F-002788"),
    ],
)
def test_a_line_that_is_a_label_and_a_number_names_the_invoice(line: str, number: str):
    assert invoice_number(f"Wiesenbrück GmbH\n{line}\nDatum 03.03.2025\n") == number


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
        "Rechnung R003946 und Lieferschein 80003458",
    ],
)
def test_any_other_line_does_not(line: str):
    assert invoice_number(line) is None


LETTER = """Bürohaus Süderholz KG
Alles für Büro und Werkstatt seit 1968
Bürohaus Süderholz KG · Gewerbestraße 108 · 28195 Bremen
Ateliers Montfléau SA
17 boulevard de l’Étang
69002 Lyon
Frankreich
Nummer R003946
Datum 03.03.2025
Fällig am 17.03.2025
Ihre Bestellung BC2025-04656
Lieferschein 80003458
Ihre USt-IdNr. FR74476165584
Rechnung R003946
1 70148 Kugelschreiber blau, Großraummine 350 48,60 je 100 0 % 170,10
Nettobetrag 3.115,82 €
Gesamtbetrag 3.115,82 €
USt-IdNr. DE103305962
"""  # noqa: RUF001 - a French street in its own typography


def test_the_fields_of_a_letter_are_found_and_its_lines_of_goods_are_left():
    assert read_invoice(LETTER) == {
        "invoice_number": "R003946",
        "invoice_date": "2025-03-03",
        "payment_due_date": "2025-03-17",
        "po_reference": "BC2025-04656",
        "delivery_note_reference": "80003458",
        "currency": "EUR",
        "total_net": "3115.82",
        "total_gross": "3115.82",
        "issuer": {
            "name": "Bürohaus Süderholz KG",
            "street": "Gewerbestraße 108",
            "postal_code": "28195",
            "city": "Bremen",
            "vat_id": "DE103305962",
        },
        "recipient": {
            "name": "Ateliers Montfléau SA",
            "street": "17 boulevard de l’Étang",  # noqa: RUF001
            "postal_code": "69002",
            "city": "Lyon",
            "vat_id": "FR74476165584",
        },
    }


@pytest.mark.parametrize(
    "line",
    [
        "Invoice date 04/03/2025",  # the fourth of March, or the third of April
        "Amount due $ 1,234.56",  # whose dollars
        "Gesamtbetrag 1.234",  # thousands, or three decimals
        "Your order is on its way",
        "VAT number on request",
    ],
)
def test_what_could_be_meant_otherwise_is_absent(line: str):
    assert read_invoice(f"Invoice 4711\n{line}\n") == {"invoice_number": "4711"}


@pytest.mark.parametrize(
    ("amount", "gross", "currency"),
    [
        ("1.234,56 €", "1234.56", "EUR"),
        ("€ 1.023,31", "1023.31", "EUR"),
        ("£3,671.98", "3671.98", "GBP"),
        ("CHF 12'345.60", "12345.60", "CHF"),
        ("2\u00a0300,00 EUR", "2300.00", "EUR"),
        ("99,90", "99.90", None),
    ],
)
def test_amounts_are_read_in_the_ways_of_several_countries(amount: str, gross: str, currency: str | None):
    fields = read_invoice(f"Invoice 4711\nAmount due {amount}\n")
    assert fields is not None
    assert (fields["total_gross"], fields.get("currency")) == (gross, currency)


def test_without_a_number_of_its_own_there_is_nothing():
    assert read_invoice("Mahnung\nGesamtbetrag 17,00 €") is None
