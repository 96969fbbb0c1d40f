"""What of a document is embedded, and how vectors fall into buckets, which must never change."""

import math
from random import Random
from uuid import UUID

import pytest

from counterfoil.documents.matching import keys, meaning
from counterfoil.documents.matching.normalise import Document, document
from tests.documents.matching.embedding import embedding_of, in_english, in_german, vector_of
from tests.documents.matching.papers import Paper, invoice, line, order

GOLDEN = "openai/text-embedding-3-small"


def wave(dimensions: int) -> list[float]:
    """A vector that any language can compute."""
    return [math.sin(position + 1) for position in range(dimensions)]


def text_of(*descriptions: object) -> str:
    return meaning.text({"line_items": [{"description": one} for one in descriptions]})


def test_the_planes_never_change():
    assert meaning.signature(wave(1024)).hex() == "eda46c5e1a4dbbc1de62e4ba8e958a"
    assert meaning.signature(wave(1536)).hex() == "ed6de04e1a4dbec25c66e4b288d58a"
    assert meaning.signature(wave(3)).hex() == "cd5c3936b1618d9712ec5bb22bc346"


def test_buckets_never_change():
    found = meaning.buckets(meaning.Embedding(b"", GOLDEN, meaning.signature(wave(1024))))
    assert found == (
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


def test_only_the_direction_of_a_vector_counts():
    vector = wave(1024)
    assert meaning.signature([7.5 * one for one in vector]) == meaning.signature(vector)
    turned = int.from_bytes(meaning.signature([-one for one in vector]), "big")
    assert turned ^ int.from_bytes(meaning.signature(vector), "big") == (1 << meaning.PLANES) - 1


def test_models_share_no_bucket():
    signature = meaning.signature(wave(64))
    one, other = (set(meaning.buckets(meaning.Embedding(b"", model, signature))) for model in ("openai/a", "openai/b"))
    assert (len(one), len(other), one & other) == (meaning.BANDS, meaning.BANDS, set())


@pytest.mark.parametrize(("cosine", "least", "most"), [(0.95, 0.96, 1), (0.9, 0.85, 1), (0.5, 0, 0.35), (0, 0, 0.05)])
def test_vectors_are_neighbours_by_their_angle(cosine: float, least: float, most: float):
    random, pairs, shared = Random(7), 150, 0
    for _ in range(pairs):
        one, other = ([random.gauss(0, 1) for _ in range(96)] for _ in range(2))
        along = sum(a * b for a, b in zip(one, other, strict=True)) / math.fsum(a * a for a in one)
        across = [b - along * a for a, b in zip(one, other, strict=True)]
        scale = math.hypot(*one) / math.hypot(*across) * math.sqrt(1 - cosine**2)
        near = [cosine * a + scale * b for a, b in zip(one, across, strict=True)]
        found = [set(meaning.buckets(meaning.Embedding(b"", "m", meaning.signature(v)))) for v in (one, near)]
        shared += bool(found[0] & found[1])
    assert least <= shared / pairs <= most


def test_the_text_is_what_lines_describe_whatever_their_order():
    assert text_of("Lock washer", " Hexagon\tbolt ", "Lock washer", "", None, 3) == "Hexagon bolt\nLock washer"
    assert text_of("Lock washer", "Hexagon bolt") == text_of("Hexagon bolt", "Lock washer")


@pytest.mark.parametrize("data", [{}, {"line_items": None}, {"line_items": ["x", {"description": "  "}]}])
def test_without_descriptions_there_is_nothing_to_embed(data: dict[str, object]):
    assert meaning.text(data) == ""


def test_neither_parties_nor_numbers_nor_amounts_are_embedded():
    assert meaning.text(invoice(lines=[line("A-100")]).data) == "Bolt A-100"


def test_the_text_is_bounded():
    assert len(text_of(*(f"{number:03} {'long ' * 100}" for number in range(50)))) == meaning.LONGEST_TEXT


def test_half_a_character_has_a_hash_like_any_other():
    assert len(meaning.text_hash("\ud800")) == 32


# Keys


def read(paper: Paper, embedding: meaning.Embedding | None = None) -> Document:
    return document(UUID(int=1), paper.received_at, paper.kind, paper.data, embedding)


def test_a_document_without_a_vector_has_the_keys_it_always_had():
    assert read(order()).buckets == ()
    assert not any(meaning.MARK in key.value for key in keys.keys(read(order())))


def test_buckets_are_keys_like_parties_and_articles():
    parent, child = in_english(), in_german()
    stated = keys.keys(read(parent, embedding_of(parent))) - keys.keys(read(parent))
    assert len(stated) == meaning.BANDS
    assert {key.type for key in stated} == {"deal:purchase_order"}
    wanted = keys.deals(read(child, embedding_of(child)), ("purchase_order",))
    assert stated & wanted
    assert not keys.keys(read(parent)) & keys.deals(read(child), ("purchase_order",))


def test_a_vector_of_other_words_does_not_count():
    paper = order()
    other = embedding_of(order(lines=[line("Z-9")]))
    assert read(paper, other).buckets == ()
    assert len(read(paper, embedding_of(paper)).buckets) == meaning.BANDS


def test_a_document_without_a_date_has_no_key_by_its_vector():
    paper = order(order_date=None)
    assert not any(meaning.MARK in key.value for key in keys.keys(read(paper, embedding_of(paper))))


def test_the_stand_in_model_knows_two_languages():
    assert vector_of("Kabel") == vector_of("cable")
