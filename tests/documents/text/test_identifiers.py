"""VAT ids, IBANs and numbers of documents are told from what only looks like them."""

import pytest

from counterfoil.documents.text import identifiers
from counterfoil.documents.text.identifiers import CERTAIN, STATED


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
def test_a_vat_id_with_right_check_digits_is_certain(text: str, number: str):
    assert identifiers.vat_id(text) == (number, CERTAIN)


def test_a_vat_id_with_wrong_check_digits_is_only_stated():
    assert identifiers.vat_id("DE123456789 HRB 17") == ("DE123456789", STATED)


@pytest.mark.parametrize("text", ["DEUTSCHLAND", "auf Anfrage", "4711", "DE", "Nr. 17"])
def test_what_is_no_vat_id_is_none(text: str):
    assert identifiers.vat_id(text) is None


def test_an_iban_is_read_up_to_its_end():
    text = "DE08 7009 0100 1234 5678 90 BIC GENODEF1M04"
    assert identifiers.iban(text) == ("DE08700901001234567890", CERTAIN)
    assert identifiers.find_ibans(f"Konto {text}") == ["DE08700901001234567890"]


def test_an_iban_with_wrong_check_digits_counts_beside_a_label_only():
    assert identifiers.iban("DE12 1234 4321 9876 00") == ("DE1212344321987600", STATED)
    assert identifiers.find_ibans("Konto DE12 1234 4321 9876 00") == []


def test_a_masked_account_is_none():
    assert identifiers.iban("DE54 5004 **** **** **** 00") is None


@pytest.mark.parametrize(
    ("text", "number", "tail"),
    [
        (": RE-20140519/499 vom 19.05.2014", "RE-20140519/499", " vom 19.05.2014"),
        ("FT 1981/2025", "FT 1981/2025", ""),
        ("9314110911/00/M/00/N", "9314110911/00/M/00/N", ""),
        ("4711, 4712", "4711", ", 4712"),
    ],
)
def test_the_number_of_a_document_has_a_digit(text: str, number: str, tail: str):
    assert identifiers.reference(text) == (number, tail)


@pytest.mark.parametrize("text", ["auf Anfrage", "", "vom 01.03.2013", "x" * 50 + "1"])
def test_words_and_endless_strings_are_no_number(text: str):
    assert identifiers.reference(text) is None


def test_e_mail_addresses_are_found():
    assert identifiers.emails("E-Mail : max@muster.de, oder info@muster.de.") == ["max@muster.de", "info@muster.de"]
