"""Embeddings match documents across languages.

If the model fails, matching works without them.
"""

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
    english_order,
    german_invoice,
    two_languages,
)
from tests.documents.matching.reference_matching import ReferenceMatching
from tests.documents.matching.samples import SampleDocument, invoice, line, order, random_samples
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.llm.conftest import Guards
from tests.llm.server import Answer, Failure, Server

PAIR = [english_order(), german_invoice()]
CONCURRENCY = (1, 4)


@pytest.fixture
def model() -> Iterator[Server]:
    with Server(respond=answer) as server:
        yield server


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=max(CONCURRENCY) + 1)
    yield database
    database.close()


@pytest.fixture
def harness(database: Database, admin: Connection, model: Server) -> TenantHarness:
    """A tenant with an English order and its German invoice, both unmatched."""
    return TenantHarness(database, admin, PAIR, embedder=embedder(database, model))


def stored_embeddings(harness: TenantHarness) -> dict[int, normalize.Embedding]:
    """Return the stored embeddings by document position."""
    rows = harness.admin.execute(
        "SELECT document_id, text_hash, model, signature FROM document_embedding WHERE tenant_id = %s",
        [harness.tenant_id],
    )
    return {harness.ids.index(id_): normalize.Embedding(*columns) for id_, *columns in rows}


def keys_by_vector(harness: TenantHarness, position: int) -> set[str]:
    rows = harness.admin.execute(
        "SELECT value FROM document_key WHERE document_id = %s AND starts_with(value, '≈')", [harness.ids[position]]
    )
    return {key for (key,) in rows}


def expected_edges(
    samples: Sequence[SampleDocument], embeddings: dict[int, normalize.Embedding]
) -> dict[tuple[int, int], tuple[str, float]]:
    """Return the reference implementation's edges for documents with embeddings."""
    read = [
        document(UUID(int=number + 1), sample.received_at, sample.kind, sample.data, embeddings.get(number))
        for number, sample in enumerate(samples)
    ]
    return {
        (min(link.child.int, link.parent.int) - 1, max(link.child.int, link.parent.int) - 1): (
            link.by,
            round(link.score.total, 6),
        )
        for link in ReferenceMatching(read).links()
    }


# Effect on matching


def test_embeddings_match_documents_across_languages(database: Database, admin: Connection, harness: TenantHarness):
    reference = TenantHarness(database, admin, PAIR)
    reference.match_all()
    assert reference.links() == set()
    harness.match_all()
    assert {pair: by for pair, (by, _) in harness.edges().items()} == {(0, 1): "content"}


@pytest.mark.parametrize("arrival_order", [[0, 1], [1, 0]])
def test_pair_matches_by_embeddings_in_either_order(arrival_order: list[int], harness: TenantHarness):
    harness.match_all(arrival_order)
    assert harness.links() == {(0, 1)}


@pytest.mark.parametrize("concurrency", CONCURRENCY)
@pytest.mark.parametrize("seed", range(2))
def test_arrival_order_does_not_change_embedding_matches(
    seed: int, concurrency: int, database: Database, admin: Connection, model: Server
) -> None:
    samples = two_languages(seed, 16)
    expected = expected_edges(samples, {number: embedding_of(sample) for number, sample in enumerate(samples)})
    assert expected.keys() > expected_edges(samples, {}).keys()
    for number in range(4):
        harness = TenantHarness(database, admin, samples, embedder=embedder(database, model))
        harness.match_all(Random(number).sample(range(len(samples)), len(samples)), concurrency)
        assert (number, harness.edges()) == (number, expected)


@pytest.mark.parametrize("concurrency", CONCURRENCY)
@pytest.mark.parametrize("seed", range(3))
def test_edges_depend_only_on_stored_embeddings(
    seed: int, concurrency: int, database: Database, admin: Connection
) -> None:
    samples = two_languages(seed, 16)
    arrival_order = Random(seed).sample(range(len(samples)), len(samples))
    harness = TenantHarness(database, admin, samples)
    with Server(respond=answer, failure_rate=0.8, seed=seed) as failing:
        harness.embedder = embedder(database, failing)
        harness.match_all(arrival_order, concurrency)
    first = stored_embeddings(harness)
    assert 0 < len(first) < len(samples)
    assert harness.edges() == expected_edges(samples, first)
    with Server(respond=answer) as model:
        harness.embedder = embedder(database, model)
        harness.match_all(reversed(arrival_order), concurrency)
    assert stored_embeddings(harness).keys() == set(range(len(samples)))
    assert harness.edges() == expected_edges(samples, stored_embeddings(harness))


def test_stored_embeddings_are_used_without_a_model(harness: TenantHarness):
    harness.match_all()
    harness.embedder = None
    harness.match_all([1, 0])
    assert harness.links() == {(0, 1)}


def test_rejecting_another_order_keeps_embedding_match(harness: TenantHarness):
    harness.match_all()
    other = harness.file(order("9000", 5, lines=[line("Z-1")]))
    harness.match(other)
    harness.decide(other, 1, "rejected")
    assert harness.links() == {(0, 1)}


def test_embedding_added_after_search_forces_new_decision(database: Database, admin: Connection):
    harness = TenantHarness(database, admin, [PAIR[0], german_invoice(order, "4712", 0), PAIR[1]])
    harness.match_all([1, 2])
    assert harness.links() == {(1, 2)}
    pending_match = harness.search(1)
    with Server(respond=answer) as model:
        embedder(database, model).embed(database, harness.tenant_id, harness.ids[2])
    assert harness.write(pending_match).was_repeated


def test_embedding_of_unmatched_document_forces_no_new_decision(harness: TenantHarness):
    pending_match = harness.search(0)
    harness.search(1)  # stores the invoice's embedding
    assert not harness.write(pending_match).was_repeated


# Storage


def test_equal_texts_are_embedded_once(harness: TenantHarness, model: Server):
    harness.match_all()
    duplicate = harness.file(german_invoice(number="R-10"))
    harness.match_all()
    assert len(model.requests) == 2
    assert stored_embeddings(harness)[duplicate] == stored_embeddings(harness)[1]
    vectors = harness.admin.execute("SELECT l2_norm(vector), vector_dims(vector) FROM document_embedding")
    assert {(round(norm, 2), dimensions) for norm, dimensions in vectors} == {(1.0, 256)}


def test_tenants_do_not_share_embeddings(database: Database, admin: Connection, model: Server):
    for _ in range(2):
        harness = TenantHarness(database, admin, PAIR, embedder=embedder(database, model))
        harness.match_all()
        assert len(stored_embeddings(harness)) == 2
    assert len(model.requests) == 4


def test_document_without_descriptions_is_not_embedded(harness: TenantHarness, model: Server):
    harness.match(harness.file(invoice(lines=[])))
    assert (model.requests, stored_embeddings(harness)) == ([], {})


def test_new_model_replaces_embeddings_and_keys(database: Database, harness: TenantHarness, model: Server):
    harness.match_all()
    before = keys_by_vector(harness, 0)
    harness.embedder = embedder(database, model, EMBEDDING_MODEL="n")
    harness.match(0)
    assert harness.links() == set()  # the invoice's embedding is still from the first model
    harness.match(1)
    assert harness.links() == {(0, 1)}
    assert {embedding.model for embedding in stored_embeddings(harness).values()} == {"openai/n"}
    assert (len(before), len(keys_by_vector(harness, 0))) == (normalize.BANDS, normalize.BANDS)
    assert before.isdisjoint(keys_by_vector(harness, 0))


def test_changed_descriptions_replace_embedding_and_keys(harness: TenantHarness, model: Server, admin: Connection):
    harness.match_all()
    changed = english_order()
    changed.data["line_items"][0]["description"] = changed.data["line_items"][1]["description"] = "paint"
    admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [json.dumps(changed.data), harness.ids[0]])
    model.add_steps(Failure(400))
    harness.match(0)
    assert (harness.links(), keys_by_vector(harness, 0)) == (set(), set())
    harness.match(0)
    assert len(keys_by_vector(harness, 0)) == normalize.BANDS
    assert [request.user for request in model.requests[2:]] == ["paint", "paint"]


def test_deleting_a_document_deletes_its_embedding(harness: TenantHarness, admin: Connection):
    harness.match_all()
    admin.execute("DELETE FROM document_match")
    admin.execute("DELETE FROM document WHERE id = %s", [harness.ids[0]])
    assert list(stored_embeddings(harness)) == [1]


def test_document_deleted_during_call_stores_no_embedding(harness: TenantHarness, model: Server):
    def remove_document(request: Any) -> str:
        harness.admin.execute("DELETE FROM document WHERE id = %s", [harness.ids[0]])
        return answer(request)

    model._otherwise = remove_document
    assert harness.embedder is not None
    harness.embedder.embed(harness.database, harness.tenant_id, harness.ids[0])
    assert stored_embeddings(harness) == {}


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
    steps: list[Any], harness: TenantHarness, model: Server, capsys: pytest.CaptureFixture[str]
):
    model.add_steps(*steps)
    assert isinstance(harness.match(0), matching.MatchResult)
    assert len(model.requests) == len(steps)
    assert '"EmbeddingsSkipped": [1.0]' in capsys.readouterr().out
    assert (stored_embeddings(harness), keys_by_vector(harness, 0)) == ({}, set())
    harness.match_all([0, 1])  # matching again calls the model again
    assert harness.links() == {(0, 1)}


def test_failing_model_leaves_other_matches_unchanged(database: Database, admin: Connection, model: Server):
    samples = random_samples(7, 20)
    reference = TenantHarness(database, admin, samples)
    reference.match_all()
    model._otherwise = lambda _: "nothing"
    harness = TenantHarness(database, admin, samples, embedder=embedder(database, model))
    harness.match_all()
    assert (harness.edges(), harness.clusters(), harness.reviews()) == (
        reference.edges(), reference.clusters(), reference.reviews()
    )  # fmt: skip


def test_open_breaker_or_missing_api_key_skips_call(database: Database, harness: TenantHarness, model: Server):
    guards = Guards(error=BreakerOpenError("open", until=NOW + timedelta(minutes=1)))
    harness.embedder = embedder(database, model, breakers=guards)
    harness.match(0)
    harness.embedder = embedder(database, model, EMBEDDING_API_KEY="")
    harness.match(0)
    assert (model.requests, stored_embeddings(harness)) == ([], {})


def test_embedding_call_counts_toward_the_daily_budget(
    database: Database, harness: TenantHarness, model: Server, admin: Connection
):
    harness.embedder = embedder(database, model, LLM_CALLS_PER_DAY="1")
    harness.match_all()
    assert (len(model.requests), list(stored_embeddings(harness)), harness.links()) == (1, [0], set())
    calls = "SELECT purpose, provider, model, outcome, input_tokens FROM llm_call"
    assert admin.execute(calls).fetchall() == [("embedding", "openai-embeddings", "m", "answered", 40)]


def test_embedding_in_canceled_attempt_raises_cancelled_error(
    database: Database, harness: TenantHarness, model: Server
):
    stop_event = Event()
    stop_event.set()
    harness.embedder = embedder(database, model, deadline=Deadline(canceled=stop_event))
    with pytest.raises(CancelledError):
        harness.match(0)


def test_embedding_uses_at_most_half_the_remaining_time(database: Database, harness: TenantHarness, model: Server):
    assert harness.embedder is not None
    clock = iter([10.0, 10.0, 5.5])
    make: Callable[[], Any] = harness.embedder.make
    short = matching.Embedder("openai/m", make, Deadline(lambda: next(clock, 5.5)))
    model.add_steps(Failure(503, retry_after="3"))
    short.embed(harness.database, harness.tenant_id, harness.ids[0])
    assert (len(model.requests), stored_embeddings(harness)) == (1, {})
