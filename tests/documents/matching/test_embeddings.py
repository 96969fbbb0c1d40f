"""Matching by embeddings: stored once per text, optional if the model fails."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from random import Random
from threading import Event
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.documents import matching
from counterfoil.documents.matching import normalize
from counterfoil.documents.matching.normalize import document
from counterfoil.errors import BreakerOpenError, CancelledError
from tests.documents.matching.fake_embeddings import (
    answer,
    embedder,
    embedding_of,
    in_english,
    in_german,
    two_languages,
)
from tests.documents.matching.reference_matching import Whole
from tests.documents.matching.samples import SampleDocument, invoice, line, order, pile
from tests.documents.matching.tenant_harness import NOW, Office
from tests.llm.conftest import Guards
from tests.llm.server import Answer, Failure, Server

PAIR = [in_english(), in_german()]
CONCURRENCY = (1, 4)


@pytest.fixture
def model() -> Iterator[Server]:
    with Server(otherwise=answer) as server:
        yield server


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=max(CONCURRENCY) + 1)
    yield database
    database.close()


@pytest.fixture
def office(database: Database, admin: Connection, model: Server) -> Office:
    """An order in English and its invoice in German, not matched yet."""
    return Office(database, admin, PAIR, embedder=embedder(database, model))


def stored_embeddings(office: Office) -> dict[int, normalize.Embedding]:
    """Return the stored embeddings by position."""
    rows = office.admin.execute(
        "SELECT document_id, text_hash, model, signature FROM document_embedding WHERE tenant_id = %s",
        [office.tenant_id],
    )
    return {office.ids.index(id_): normalize.Embedding(*found) for id_, *found in rows}


def keys_by_vector(office: Office, position: int) -> set[str]:
    rows = office.admin.execute(
        "SELECT value FROM document_key WHERE document_id = %s AND starts_with(value, '≈')", [office.ids[position]]
    )
    return {key for (key,) in rows}


def expected_edges(
    samples: Sequence[SampleDocument], embeddings: dict[int, normalize.Embedding]
) -> dict[tuple[int, int], tuple[str, float]]:
    """Return the edges by definition, given these stored embeddings."""
    read = [
        document(UUID(int=number + 1), sample.received_at, sample.kind, sample.data, embeddings.get(number))
        for number, sample in enumerate(samples)
    ]
    return {
        (min(link.child.int, link.parent.int) - 1, max(link.child.int, link.parent.int) - 1): (
            link.by,
            round(link.score.total, 6),
        )
        for link in Whole(read).links()
    }


# Effect on matching


def test_embeddings_match_documents_across_languages(database: Database, admin: Connection, office: Office):
    without = Office(database, admin, PAIR)
    without.match_all()
    assert without.links() == set()
    office.match_all()
    assert {pair: by for pair, (by, _) in office.edges().items()} == {(0, 1): "content"}


@pytest.mark.parametrize("order_of_arrival", [[0, 1], [1, 0]])
def test_embedding_match_works_in_either_arrival_order(order_of_arrival: list[int], office: Office):
    office.match_all(order_of_arrival)
    assert office.links() == {(0, 1)}


@pytest.mark.parametrize("concurrency", CONCURRENCY)
@pytest.mark.parametrize("seed", range(2))
def test_arrival_order_does_not_change_embedding_matches(
    seed: int, concurrency: int, database: Database, admin: Connection, model: Server
) -> None:
    samples = two_languages(seed, 16)
    expected = expected_edges(samples, {number: embedding_of(sample) for number, sample in enumerate(samples)})
    assert expected.keys() > expected_edges(samples, {}).keys()
    for number in range(4):
        office = Office(database, admin, samples, embedder=embedder(database, model))
        office.match_all(Random(number).sample(range(len(samples)), len(samples)), concurrency)
        assert (number, office.edges()) == (number, expected)


@pytest.mark.parametrize("concurrency", CONCURRENCY)
@pytest.mark.parametrize("seed", range(3))
def test_edges_follow_the_embeddings_stored_so_far(
    seed: int, concurrency: int, database: Database, admin: Connection
) -> None:
    samples = two_languages(seed, 16)
    order_of_arrival = Random(seed).sample(range(len(samples)), len(samples))
    office = Office(database, admin, samples)
    with Server(otherwise=answer, failing=0.8, seed=seed) as failing:
        office.embedder = embedder(database, failing)
        office.match_all(order_of_arrival, concurrency)
    first = stored_embeddings(office)
    assert 0 < len(first) < len(samples)
    assert office.edges() == expected_edges(samples, first)
    with Server(otherwise=answer) as model:
        office.embedder = embedder(database, model)
        office.match_all(reversed(order_of_arrival), concurrency)
    assert stored_embeddings(office).keys() == set(range(len(samples)))
    assert office.edges() == expected_edges(samples, stored_embeddings(office))


def test_stored_embeddings_count_without_a_model(office: Office):
    office.match_all()
    office.embedder = None
    office.match_all([1, 0])
    assert office.links() == {(0, 1)}


def test_rejecting_another_order_keeps_embedding_match(office: Office):
    office.match_all()
    other = office.file(order("9000", 5, lines=[line("Z-1")]))
    office.match(other)
    office.decide(other, 1, "rejected")
    assert office.links() == {(0, 1)}


def test_embedding_added_after_search_forces_new_decision(database: Database, admin: Connection):
    office = Office(database, admin, [PAIR[0], in_german(order, "4712", 0), PAIR[1]])
    office.match_all([1, 2])
    assert office.links() == {(1, 2)}
    decided = office.search(1)
    with Server(otherwise=answer) as model:
        embedder(database, model).embed(database, office.tenant_id, office.ids[2])
    assert office.write(decided).decided_again


def test_embedding_of_unmatched_document_forces_no_new_decision(office: Office):
    decided = office.search(0)
    office.search(1)  # stores its embedding
    assert not office.write(decided).decided_again


# Storage


def test_equal_texts_are_embedded_once(office: Office, model: Server):
    office.match_all()
    again = office.file(in_german(number="R-10"))
    office.match_all()
    assert len(model.requests) == 2
    assert stored_embeddings(office)[again] == stored_embeddings(office)[1]
    vectors = office.admin.execute("SELECT l2_norm(vector), vector_dims(vector) FROM document_embedding")
    assert {(round(norm, 2), dimensions) for norm, dimensions in vectors} == {(1.0, 256)}


def test_tenants_do_not_share_embeddings(database: Database, admin: Connection, model: Server):
    for _ in range(2):
        office = Office(database, admin, PAIR, embedder=embedder(database, model))
        office.match_all()
        assert len(stored_embeddings(office)) == 2
    assert len(model.requests) == 4


def test_document_without_descriptions_is_not_embedded(office: Office, model: Server):
    office.match(office.file(invoice(lines=[])))
    assert (model.requests, stored_embeddings(office)) == ([], {})


def test_new_model_replaces_embeddings_and_keys(database: Database, office: Office, model: Server):
    office.match_all()
    before = keys_by_vector(office, 0)
    office.embedder = embedder(database, model, EMBEDDING_MODEL="n")
    office.match(0)
    assert office.links() == set()  # the invoice's embedding is still from the first model
    office.match(1)
    assert office.links() == {(0, 1)}
    assert {found.model for found in stored_embeddings(office).values()} == {"openai/n"}
    assert (len(before), len(keys_by_vector(office, 0))) == (normalize.BANDS, normalize.BANDS)
    assert before.isdisjoint(keys_by_vector(office, 0))


def test_changed_descriptions_replace_embedding_and_keys(office: Office, model: Server, admin: Connection):
    office.match_all()
    changed = in_english()
    changed.data["line_items"][0]["description"] = changed.data["line_items"][1]["description"] = "paint"
    admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [json.dumps(changed.data), office.ids[0]])
    model.then(Failure(400))
    office.match(0)
    assert (office.links(), keys_by_vector(office, 0)) == (set(), set())
    office.match(0)
    assert len(keys_by_vector(office, 0)) == normalize.BANDS
    assert [request.user for request in model.requests[2:]] == ["paint", "paint"]


def test_deleting_a_document_deletes_its_embedding(office: Office, admin: Connection):
    office.match_all()
    admin.execute("DELETE FROM document_match")
    admin.execute("DELETE FROM document WHERE id = %s", [office.ids[0]])
    assert list(stored_embeddings(office)) == [1]


def test_document_deleted_during_call_stores_no_embedding(office: Office, model: Server):
    def remove_document(request: Any) -> str:
        office.admin.execute("DELETE FROM document WHERE id = %s", [office.ids[0]])
        return answer(request)

    model._otherwise = remove_document
    assert office.embedder is not None
    office.embedder.embed(office.database, office.tenant_id, office.ids[0])
    assert stored_embeddings(office) == {}


# Failing or missing models


@pytest.mark.parametrize(
    "steps",
    [
        [Failure(503)] * 3,
        [Failure(401)],
        [Failure(400, too_long=True)],
        [Answer("no vector")] * 3,
        [Answer("[]")] * 3,
        [Answer("[0.0, 0.0]")] * 3,
        [Answer(json.dumps([0.5] * 16_001))] * 3,
        [Answer(json.dumps([1e308] * 20))] * 3,
    ],
)
def test_model_failure_does_not_fail_the_document(
    steps: list[Any], office: Office, model: Server, capsys: pytest.CaptureFixture[str]
):
    model.then(*steps)
    assert isinstance(office.match(0), matching.MatchResult)
    assert len(model.requests) == len(steps)
    assert '"EmbeddingsSkipped": [1.0]' in capsys.readouterr().out
    assert (stored_embeddings(office), keys_by_vector(office, 0)) == ({}, set())
    office.match_all([0, 1])  # the next match calls the model again
    assert office.links() == {(0, 1)}


def test_failing_model_leaves_other_matches_unchanged(database: Database, admin: Connection, model: Server):
    samples = pile(7, 20)
    without = Office(database, admin, samples)
    without.match_all()
    model._otherwise = lambda _: "nothing"
    office = Office(database, admin, samples, embedder=embedder(database, model))
    office.match_all()
    assert (office.edges(), office.clusters(), office.reviews()) == (
        without.edges(), without.clusters(), without.reviews()
    )  # fmt: skip


def test_open_breaker_or_missing_key_skips_the_call(database: Database, office: Office, model: Server):
    guards = Guards(error=BreakerOpenError("open", until=NOW + timedelta(minutes=1)))
    office.embedder = embedder(database, model, breakers=guards)
    office.match(0)
    office.embedder = embedder(database, model, EMBEDDING_API_KEY="")
    office.match(0)
    assert (model.requests, stored_embeddings(office)) == ([], {})


def test_embedding_counts_against_daily_budget(database: Database, office: Office, model: Server, admin: Connection):
    office.embedder = embedder(database, model, LLM_CALLS_PER_DAY="1")
    office.match_all()
    assert (len(model.requests), list(stored_embeddings(office)), office.links()) == (1, [0], set())
    calls = "SELECT purpose, provider, model, outcome, input_tokens FROM llm_call"
    assert admin.execute(calls).fetchall() == [("embedding", "openai-embeddings", "m", "answered", 40)]


def test_canceled_attempt_raises_canceled_error(database: Database, office: Office, model: Server):
    stopped = Event()
    stopped.set()
    office.embedder = embedder(database, model, deadline=Deadline(canceled=stopped))
    with pytest.raises(CancelledError):
        office.match(0)


def test_embedding_uses_at_most_half_the_remaining_time(database: Database, office: Office, model: Server):
    assert office.embedder is not None
    clock = iter([10.0, 10.0, 5.5])
    make: Callable[[], Any] = office.embedder.make
    short = matching.Embedder("openai/m", make, Deadline(lambda: next(clock, 5.5)))
    model.then(Failure(503, retry_after="3"))
    short.embed(office.database, office.tenant_id, office.ids[0])
    assert (len(model.requests), stored_embeddings(office)) == (1, {})
