"""Two writings of one thing are equal, and two things stay two."""

# ruff: noqa: RUF001 - names in other alphabets
import pytest

from counterfoil.documents.lexicon.folding import fold_umlauts
from counterfoil.documents.matching.normalise import cents, day, identifier, name, quantity, reference, vat_id, words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("PO-2025-00397", "2025-00397"),
        ("PO-2025-00397", "P.O. PO-2025-00397"),
        ("PO-2025-00397", "PO-2025-0000397"),
        ("BE/2025/0055", "BE20250055"),
        ("B25-0063", "B25-0063 vom 08.01.2025"),
        ("4500002689", "450 000 2689"),
        ("1441", "1441/10"),
        ("3897", "Bestellung Nr. 3897"),
        ("DN 00947", "dn 947"),
    ],
)
def test_writings_of_one_number_share_a_form(one: str, other: str) -> None:
    a, b = reference(one), reference(other)
    assert a is not None
    assert b is not None
    assert a.exact & b.exact


@pytest.mark.parametrize(
    ("one", "other"), [("HH-000524", "HH-000S24"), ("B25-0063", "B25-0O63"), ("LS-1018", "LS-l0I8")]
)
def test_what_capture_confuses_is_equal_when_folded_and_not_before(one: str, other: str) -> None:
    a, b = reference(one), reference(other)
    assert a is not None
    assert b is not None
    assert not a.exact & b.exact
    assert a.folded & b.folded


@pytest.mark.parametrize(("one", "other"), [("4711", "4712"), ("BE/2025/0055", "BE/2025/0056"), ("2025-10", "2026-10")])
def test_neighbouring_numbers_share_nothing(one: str, other: str) -> None:
    a, b = reference(one), reference(other)
    assert a is not None
    assert b is not None
    assert not a.folded & b.folded


def test_a_number_that_lost_its_beginning_shares_its_tail() -> None:
    whole, rest = reference("HH-000779"), reference("000779")
    assert whole is not None
    assert rest is not None
    assert whole.tail == rest.tail == "779"


@pytest.mark.parametrize("text", ["n/a", "-", "siehe oben", ""])
def test_what_has_no_digit_is_no_number(text: str) -> None:
    assert reference(text) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Müller GmbH", "MUELLER Gesellschaft mbH"),
        ("Trümrath Lebensmittelhandel Aktiengesellschaft", "Trümrath Lebensmittelhandel AG"),
        ("Harrowwick Sp. z o.o.", "HARROWWICK"),
        ("Lyngcombe Chemicals Sp. k., Łódź", "Lyngcombe Chemicals"),
        ("Caldcombe Lab Supplies S.A. Niederlassung Poznań", "Caldcornbe Lab Supp1ies"),
        ("ООО Ромашка", "OOO Romashka"),
        ("Ελληνικά Έλαια Α.Ε.", "Ellinika Elaia A.E."),
    ],
)
def test_writings_of_one_name_have_one_core(one: str, other: str) -> None:
    assert name(one, "Łódź").core == name(other, "Łódź").core


def test_the_legal_form_is_kept_apart() -> None:
    assert name("Grönfeldt Elektro GmbH").form == "limited"
    assert name("Grönfeldt Elektro KG").form == "partners"
    assert name("Grönfeldt Elektro").form is None


def test_a_name_of_nothing_but_a_legal_form_keeps_it() -> None:
    assert name("Limited").core == "limited"


def test_a_shortened_name_has_the_key_of_the_whole_one() -> None:
    assert name("Morsenau Anlag.").key == name("Morsenau Anlagenbau GmbH").key


def test_folding_keeps_nothing_but_latin_letters() -> None:
    assert fold_umlauts("Størrelse Straße Łódź") == "storrelse strasse lodz"


def test_identifiers_are_read_as_capture_may_have_meant_them() -> None:
    assert identifier("FR 1248l24B816") == identifier("FR12481248816")


@pytest.mark.parametrize(
    ("one", "other", "country"),
    [
        ("DE123456789", "DE 123 456 789", ""),
        ("DE123456789", "123 456 789", "DE"),
        ("DE123456789", "DEl23456789", "DE"),
        ("CHE-123.456.789 MWST", "CHE123456789", ""),
        ("CHE-123.456.789 TVA", "123.456.789", "CH"),
        ("NO 123 456 789 MVA", "123456789", "NO"),
        ("EL123456789", "GR 123456789", ""),
        ("EL123456789", "123456789", "GR"),
        ("ATU12345678", "U12345678", "AT"),
        ("ESB12345678", "B-12345678", "ES"),
        ("NL123456789B01", "123456789B01", "NL"),
    ],
)
def test_writings_of_one_vat_id_are_equal(one: str, other: str, country: str) -> None:
    assert vat_id(one, country) == vat_id(other, country)


def test_a_vat_id_of_another_country_or_a_tax_number_is_another_thing() -> None:
    assert vat_id("123456789", "DE") != vat_id("123456789", "PT")
    assert vat_id("12/345/67890", "DE") is None
    assert vat_id("-", "DE") is None


@pytest.mark.parametrize(("one", "other"), [("12/345/67890", "12 345 67890"), ("DE89 3704 0044", "DE8937040044")])
def test_marks_between_the_digits_of_an_identifier_say_nothing(one: str, other: str) -> None:
    assert identifier(one) == identifier(other)


def test_words_of_other_scripts_are_words() -> None:
    assert words("六角ボルト M8×40, verzinkt") == "六角ボルト m8 40 verzinkt"
    assert words("Болт M8") == "bolt m8"


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1190.00", 119000),
        ("-0.5", -50),
        ("0.005", 1),
        ("1.005", 101),
        ("-1.005", -101),
        ("1e400", None),
        ("NaN", None),
        ("", None),
        (None, None),
    ],
)
def test_amounts_are_cents(text: str | None, amount: int | None) -> None:
    assert cents(text) == amount


def test_what_is_no_number_or_date_is_nothing() -> None:
    assert quantity("about ten") is None
    assert day("31.12.2025") is None
    assert day("2025-12-31") == 739616


@pytest.mark.parametrize(("written", "tail"), [("ODA 1953/2025", "1953"), ("2025/00123", "123"), ("RE-2025", "2025")])
def test_a_year_at_the_end_is_not_what_is_left_of_a_number(written: str, tail: str) -> None:
    read = reference(written)
    assert read is not None
    assert read.tail == tail
