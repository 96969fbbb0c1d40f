"""Damaged numbers, names and ids have a canonical form.

Embedding buckets are stable.
"""

# ruff: noqa: RUF001 - names in other alphabets
import math
from random import Random
from uuid import UUID

import pytest

from counterfoil.documents.lexicon.folding import fold_umlauts
from counterfoil.documents.matching import keys, normalize
from counterfoil.documents.matching.names import name
from counterfoil.documents.matching.normalize import (
    Document,
    cents,
    day,
    document,
    identifier,
    quantity,
    reference,
    vat_id,
    words,
)
from tests.documents.matching.fake_embeddings import embedding_of, english_order, german_invoice, vector_of
from tests.documents.matching.samples import SampleDocument, invoice, line, order


@pytest.mark.parametrize(
    ("first", "second"),
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
def test_number_variants_share_a_canonical_form(first: str, second: str) -> None:
    a, b = reference(first), reference(second)
    assert a is not None
    assert b is not None
    assert a.exact & b.exact


@pytest.mark.parametrize(
    ("first", "second"), [("HH-000524", "HH-000S24"), ("B25-0063", "B25-0O63"), ("LS-1018", "LS-l0I8")]
)
def test_confusable_characters_match_only_when_folded(first: str, second: str) -> None:
    a, b = reference(first), reference(second)
    assert a is not None
    assert b is not None
    assert not a.exact & b.exact
    assert a.folded & b.folded


@pytest.mark.parametrize(
    ("first", "second"), [("4711", "4712"), ("BE/2025/0055", "BE/2025/0056"), ("2025-10", "2026-10")]
)
def test_similar_numbers_share_no_canonical_form(first: str, second: str) -> None:
    a, b = reference(first), reference(second)
    assert a is not None
    assert b is not None
    assert not a.folded & b.folded


def test_truncated_number_has_the_full_numbers_tail() -> None:
    full_number, rest = reference("HH-000779"), reference("000779")
    assert full_number is not None
    assert rest is not None
    assert full_number.tail == rest.tail == "779"


@pytest.mark.parametrize("text", ["n/a", "-", "siehe oben", ""])
def test_text_without_digits_is_not_a_number(text: str) -> None:
    assert reference(text) is None


@pytest.mark.parametrize(
    ("first", "second"),
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
def test_name_variants_share_one_core(first: str, second: str) -> None:
    assert name(first, "Łódź").core == name(second, "Łódź").core


def test_legal_form_is_separated_from_the_name() -> None:
    assert name("Grönfeldt Elektro GmbH").form == "limited"
    assert name("Grönfeldt Elektro KG").form == "partners"
    assert name("Grönfeldt Elektro").form is None


def test_legal_form_alone_becomes_the_name() -> None:
    assert name("Limited").core == "limited"


def test_shortened_name_has_the_full_names_key() -> None:
    assert name("Morsenau Anlag.").key == name("Morsenau Anlagenbau GmbH").key


def test_folding_yields_ascii_letters() -> None:
    assert fold_umlauts("Størrelse Straße Łódź") == "storrelse strasse lodz"


def test_misread_identifiers_are_equal() -> None:
    assert identifier("FR 1248l24B816") == identifier("FR12481248816")


@pytest.mark.parametrize(
    ("first", "second", "country"),
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
def test_vat_id_variants_are_equal(first: str, second: str, country: str) -> None:
    assert vat_id(first, country) == vat_id(second, country)


def test_foreign_vat_ids_and_tax_numbers_are_distinguished() -> None:
    assert vat_id("123456789", "DE") != vat_id("123456789", "PT")
    assert vat_id("12/345/67890", "DE") is None
    assert vat_id("-", "DE") is None


@pytest.mark.parametrize(("first", "second"), [("12/345/67890", "12 345 67890"), ("DE89 3704 0044", "DE8937040044")])
def test_separators_in_identifiers_are_ignored(first: str, second: str) -> None:
    assert identifier(first) == identifier(second)


def test_words_in_other_scripts_are_normalized() -> None:
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
def test_amounts_are_converted_to_cents(text: str | None, amount: int | None) -> None:
    assert cents(text) == amount


def test_invalid_number_or_date_yields_none() -> None:
    assert quantity("about ten") is None
    assert day("31.12.2025") is None
    assert day("2025-12-31") == 739616


@pytest.mark.parametrize(("spelling", "tail"), [("ODA 1953/2025", "1953"), ("2025/00123", "123"), ("RE-2025", "2025")])
def test_year_is_not_the_tail_beside_other_digits(spelling: str, tail: str) -> None:
    read = reference(spelling)
    assert read is not None
    assert read.tail == tail


GOLDEN = "openai/text-embedding-3-small"


def wave(dimensions: int) -> list[float]:
    """Return a vector that is easy to reproduce in any programming language."""
    return [math.sin(position + 1) for position in range(dimensions)]


def text_of(*descriptions: object) -> str:
    return normalize.embedded_text({"line_items": [{"description": description} for description in descriptions]})


def test_signatures_are_stable():
    assert normalize.signature(wave(1024)).hex() == "eda46c5e1a4dbbc1de62e4ba8e958a"
    assert normalize.signature(wave(1536)).hex() == "ed6de04e1a4dbec25c66e4b288d58a"
    assert normalize.signature(wave(3)).hex() == "cd5c3936b1618d9712ec5bb22bc346"


def test_buckets_are_stable():
    bucket_sets = normalize.buckets(normalize.Embedding(b"", GOLDEN, normalize.signature(wave(1024))))
    assert bucket_sets == (
        "≈7d4f9f78.0.18a",
        "≈7d4f9f78.1.3a5",
        "≈7d4f9f78.2.3a8",
        "≈7d4f9f78.3.392",
        "≈7d4f9f78.4.262",
        "≈7d4f9f78.5.077",
        "≈7d4f9f78.6.3bc",
        "≈7d4f9f78.7.136",
        "≈7d4f9f78.8.21a",
        "≈7d4f9f78.9.317",
        "≈7d4f9f78.a.246",
        "≈7d4f9f78.b.3b6",
    )


def test_signature_depends_only_on_a_vectors_direction():
    vector = wave(1024)
    assert normalize.signature([7.5 * component for component in vector]) == normalize.signature(vector)
    turned = int.from_bytes(normalize.signature([-component for component in vector]), "big")
    assert turned ^ int.from_bytes(normalize.signature(vector), "big") == (1 << normalize.PLANES) - 1


def test_models_share_no_bucket():
    signature = normalize.signature(wave(64))
    first, second = (
        set(normalize.buckets(normalize.Embedding(b"", model, signature))) for model in ("openai/a", "openai/b")
    )
    assert (len(first), len(second), first & second) == (normalize.BANDS, normalize.BANDS, set())


@pytest.mark.parametrize(("cosine", "least", "most"), [(0.95, 0.96, 1), (0.9, 0.85, 1), (0.5, 0, 0.35), (0, 0, 0.05)])
def test_shared_buckets_become_likelier_at_smaller_angles(cosine: float, least: float, most: float):
    random, pairs, shared = Random(7), 150, 0
    for _ in range(pairs):
        first, second = ([random.gauss(0, 1) for _ in range(96)] for _ in range(2))
        projection = sum(a * b for a, b in zip(first, second, strict=True)) / math.fsum(a * a for a in first)
        orthogonal = [b - projection * a for a, b in zip(first, second, strict=True)]
        scale = math.hypot(*first) / math.hypot(*orthogonal) * math.sqrt(1 - cosine**2)
        near = [cosine * a + scale * b for a, b in zip(first, orthogonal, strict=True)]
        bucket_sets = [
            set(normalize.buckets(normalize.Embedding(b"", "m", normalize.signature(v)))) for v in (first, near)
        ]
        shared += bool(bucket_sets[0] & bucket_sets[1])
    assert least <= shared / pairs <= most


def test_embedded_text_ignores_the_order_of_lines():
    assert text_of("Lock washer", " Hexagon\tbolt ", "Lock washer", "", None, 3) == "Hexagon bolt\nLock washer"
    assert text_of("Lock washer", "Hexagon bolt") == text_of("Hexagon bolt", "Lock washer")


@pytest.mark.parametrize("data", [{}, {"line_items": None}, {"line_items": ["x", {"description": "  "}]}])
def test_embedded_text_without_descriptions_is_empty(data: dict[str, object]):
    assert normalize.embedded_text(data) == ""


def test_only_descriptions_are_embedded():
    assert normalize.embedded_text(invoice(lines=[line("A-100")]).data) == "Bolt A-100"


def test_embedded_text_is_bounded():
    assert len(text_of(*(f"{number:03} {'long ' * 100}" for number in range(50)))) == normalize.MAX_TEXT_CHARS


def test_lone_surrogate_can_be_hashed():
    assert len(normalize.text_hash("\ud800")) == 32


# Keys


def read(sample: SampleDocument, embedding: normalize.Embedding | None = None) -> Document:
    return document(UUID(int=1), sample.received_at, sample.kind, sample.data, embedding)


def test_document_without_embedding_yields_no_bucket_keys():
    assert read(order()).buckets == ()
    assert not any(normalize.MARK in key.value for key in keys.keys(read(order())))


def test_embedding_buckets_are_blocking_keys():
    parent, child = english_order(), german_invoice()
    stated = keys.keys(read(parent, embedding_of(parent))) - keys.keys(read(parent))
    assert len(stated) == normalize.BANDS
    assert {key.type for key in stated} == {"deal:purchase_order"}
    expected = keys.transaction_keys(read(child, embedding_of(child)), ("purchase_order",))
    assert stated & expected
    assert not keys.keys(read(parent)) & keys.transaction_keys(read(child), ("purchase_order",))


def test_embedding_of_other_text_is_ignored():
    sample = order()
    other = embedding_of(order(lines=[line("Z-9")]))
    assert read(sample, other).buckets == ()
    assert len(read(sample, embedding_of(sample)).buckets) == normalize.BANDS


def test_embedding_of_undated_document_yields_no_key():
    sample = order(order_date=None)
    assert not any(normalize.MARK in key.value for key in keys.keys(read(sample, embedding_of(sample))))


def test_scripted_model_embeds_translations_alike():
    assert vector_of("Kabel") == vector_of("cable")
