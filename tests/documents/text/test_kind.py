"""Dates, VAT ids, IBANs and document numbers are read if they are unambiguous."""

import pytest

from counterfoil.documents.text import kind
from counterfoil.documents.text.kind import CHECKED_CONFIDENCE, LABELED_CONFIDENCE


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
def test_date_is_read(text: str, day: str):
    assert kind.parse_date(text, None) == day


@pytest.mark.parametrize("text", ["04/03/2025", "04-03-2025", "31.02.2024", "13/13/2024", "1.234,56", "12.05", "KW 36"])
def test_invalid_and_ambiguous_dates_are_not_read(text: str):
    assert kind.parse_date(text, None) is None


def test_unambiguous_date_determines_the_date_order():
    assert kind.parse_date("04/03/2025", kind.date_order(["04/03/2025", "28/03/2025"])) == "2025-03-04"
    assert kind.parse_date("04/03/2025", kind.date_order(["04/03/2025", "03/28/2025"])) == "2025-04-03"


def test_contradictory_dates_leave_date_order_unknown():
    assert kind.date_order(["13/03/2025", "03/13/2025"]) is None


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
def test_european_documents_put_the_day_first(texts: list[str]):
    assert kind.date_order(texts) == "day first"


def test_english_without_country_leaves_date_order_unknown():
    assert kind.date_order(["Invoice 17", "Date", "Amount", "Quantity"]) is None


def test_all_dates_are_found_with_positions():
    text = "vom 01.03.2013 bis 05.03.2013"
    assert [text[start:end] for start, end, _ in kind.find_dates(text, None)] == ["01.03.2013", "05.03.2013"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("DE136695976", "DE136695976"),
        (": DE 136 695 976", "DE136695976"),
        ("FR 19 787878784 - SIRET : 787", "FR19787878784"),
        ("NL004495445B01", "NL004495445B01"),
        ("DK 13 58 56 28", "DK13585628"),
        ("IT 00743110157 REA MI", "IT00743110157"),
        ("ESA28015865", "ESA28015865"),
        ("GB 980 7806 84", "GB980780684"),
        ("CHE-107.787.577 MWST", "CHE107787577MWST"),
        ("ATU13585627", "ATU13585627"),
    ],
)
def test_vat_id_with_valid_check_digits_is_certain(text: str, number: str):
    assert kind.vat_id(text) == (number, CHECKED_CONFIDENCE)


def test_vat_id_with_invalid_check_digits_is_uncertain():
    assert kind.vat_id("DE123456789 HRB 17") == ("DE123456789", LABELED_CONFIDENCE)


@pytest.mark.parametrize("text", ["DEUTSCHLAND", "auf Anfrage", "4711", "DE", "Nr. 17"])
def test_other_text_is_not_a_vat_id(text: str):
    assert kind.vat_id(text) is None


def test_iban_is_separated_from_the_following_text():
    text = "DE08 7009 0100 1234 5678 90 BIC GENODEF1M04"
    assert kind.iban(text) == ("DE08700901001234567890", CHECKED_CONFIDENCE)
    assert kind.find_ibans(f"Konto {text}") == ["DE08700901001234567890"]


def test_invalid_iban_is_read_only_beside_a_label():
    assert kind.iban("DE12 1234 4321 9876 00") == ("DE1212344321987600", LABELED_CONFIDENCE)
    assert kind.find_ibans("Konto DE12 1234 4321 9876 00") == []


def test_masked_iban_is_rejected():
    assert kind.iban("DE54 5004 **** **** **** 00") is None


@pytest.mark.parametrize(
    ("text", "number", "tail"),
    [
        (": RE-20140519/499 vom 19.05.2014", "RE-20140519/499", " vom 19.05.2014"),
        ("FT 1981/2025", "FT 1981/2025", ""),
        ("9314110911/00/M/00/N", "9314110911/00/M/00/N", ""),
        ("4711, 4712", "4711", ", 4712"),
    ],
)
def test_document_number_is_split_from_following_text(text: str, number: str, tail: str):
    assert kind.split_reference(text) == (number, tail)


@pytest.mark.parametrize("text", ["auf Anfrage", "", "vom 01.03.2013", "x" * 50 + "1"])
def test_other_text_is_not_a_document_number(text: str):
    assert kind.split_reference(text) is None


def test_email_addresses_are_found():
    assert kind.emails("E-Mail : max@muster.de, oder info@muster.de.") == ["max@muster.de", "info@muster.de"]
