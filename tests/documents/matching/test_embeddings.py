"""Documents found by what they are about: vectors are asked for once and kept, and a model that fails fails nothing."""

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
from counterfoil.documents.matching import normalise
from counterfoil.documents.matching.normalise import document
from counterfoil.errors import BreakerOpenError, CancelledError
from tests.documents.matching.embedding import answer, embedder, embedding_of, in_english, in_german, two_languages
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import Paper, invoice, line, order, pile
from tests.documents.matching.whole import Whole
from tests.llm.conftest import Guards
from tests.llm.server import Answer, Failure, Server

PAIR = [in_english(), in_german()]
HANDS = (1, 4)


@pytest.fixture
def model() -> Iterator[Server]:
    with Server(otherwise=answer) as server:
        yield server


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=max(HANDS) + 1)
    yield database
    database.close()


@pytest.fixture
def office(database: Database, admin: Connection, model: Server) -> Office:
    """An order in English and its invoice in German, not matched yet."""
    return Office(database, admin, PAIR, embedder=embedder(database, model))


def kept(office: Office) -> dict[int, normalise.Embedding]:
    """By position, what is kept of each document's vector."""
    rows = office.admin.execute(
        "SELECT document_id, text_hash, model, signature FROM document_embedding WHERE tenant_id = %s",
        [office.tenant_id],
    )
    return {office.ids.index(id_): normalise.Embedding(*found) for id_, *found in rows}


def keys_by_vector(office: Office, position: int) -> set[str]:
    rows = office.admin.execute(
        "SELECT key FROM document_key WHERE document_id = %s AND starts_with(key, '≈')", [office.ids[position]]
    )
    return {key for (key,) in rows}


def whole(papers: Sequence[Paper], of: dict[int, normalise.Embedding]) -> dict[tuple[int, int], tuple[str, float]]:
    """The edges as they are by definition, with these vectors kept."""
    read = [
        document(UUID(int=number + 1), paper.received_at, paper.kind, paper.data, of.get(number))
        for number, paper in enumerate(papers)
    ]
    return {
        (min(link.child.int, link.parent.int) - 1, max(link.child.int, link.parent.int) - 1): (
            link.by,
            round(link.score.total, 6),
        )
        for link in Whole(read).links()
    }


# What it is for


def test_documents_in_two_languages_find_each_other_with_it_and_not_without(
    database: Database, admin: Connection, office: Office
):
    without = Office(database, admin, PAIR)
    without.match_all()
    assert without.links() == set()
    office.match_all()
    assert {pair: by for pair, (by, _) in office.edges().items()} == {(0, 1): "content"}


@pytest.mark.parametrize("order_of_arrival", [[0, 1], [1, 0]])
def test_whichever_of_the_two_comes_first(order_of_arrival: list[int], office: Office):
    office.match_all(order_of_arrival)
    assert office.links() == {(0, 1)}


@pytest.mark.parametrize("hands", HANDS)
@pytest.mark.parametrize("seed", range(2))
def test_the_order_makes_no_difference(
    seed: int, hands: int, database: Database, admin: Connection, model: Server
) -> None:
    papers = two_languages(seed, 16)
    expected = whole(papers, {number: embedding_of(paper) for number, paper in enumerate(papers)})
    assert expected.keys() > whole(papers, {}).keys()
    for number in range(4):
        office = Office(database, admin, papers, embedder=embedder(database, model))
        office.match_all(Random(number).sample(range(len(papers)), len(papers)), hands)
        assert (number, office.edges()) == (number, expected)


@pytest.mark.parametrize("hands", HANDS)
@pytest.mark.parametrize("seed", range(3))
def test_edges_follow_from_the_vectors_that_are_kept_and_later_ones_are_found_by_a_later_match(
    seed: int, hands: int, database: Database, admin: Connection
) -> None:
    papers = two_languages(seed, 16)
    order_of_arrival = Random(seed).sample(range(len(papers)), len(papers))
    office = Office(database, admin, papers)
    with Server(otherwise=answer, failing=0.8, seed=seed) as failing:
        office.embedder = embedder(database, failing)
        office.match_all(order_of_arrival, hands)
    first = kept(office)
    assert 0 < len(first) < len(papers)
    assert office.edges() == whole(papers, first)
    with Server(otherwise=answer) as model:
        office.embedder = embedder(database, model)
        office.match_all(reversed(order_of_arrival), hands)
    assert kept(office).keys() == set(range(len(papers)))
    assert office.edges() == whole(papers, kept(office))


def test_without_a_model_what_is_kept_still_counts(office: Office):
    office.match_all()
    office.embedder = None
    office.match_all([1, 0])
    assert office.links() == {(0, 1)}


def test_a_person_s_decision_sees_the_same(office: Office):
    office.match_all()
    other = office.file(order("9000", 5, lines=[line("Z-1")]))
    office.match(other)
    office.decide(other, 1, "rejected")
    assert office.links() == {(0, 1)}


def test_a_search_that_read_a_document_without_its_vector_looks_again(database: Database, admin: Connection):
    office = Office(database, admin, [PAIR[0], in_german(order, "4712", 0), PAIR[1]])
    office.match_all([1, 2])
    assert office.links() == {(1, 2)}
    decided = office.search(1)
    with Server(otherwise=answer) as model:
        embedder(database, model).embed(database, office.tenant_id, office.ids[2])
    assert office.write(decided).decided_again


def test_a_document_that_nobody_could_have_found_disturbs_nobody(office: Office):
    decided = office.search(0)
    office.search(1)  # has its vector kept
    assert not office.write(decided).decided_again


# What is kept


def test_a_text_is_asked_about_once(office: Office, model: Server):
    office.match_all()
    again = office.file(in_german(number="R-10"))
    office.match_all()
    assert len(model.requests) == 2
    assert kept(office)[again] == kept(office)[1]
    vectors = office.admin.execute("SELECT l2_norm(vector), vector_dims(vector) FROM document_embedding")
    assert {(round(norm, 2), dimensions) for norm, dimensions in vectors} == {(1.0, 256)}


def test_another_tenant_s_vectors_are_none_of_ours(database: Database, admin: Connection, model: Server):
    for _ in range(2):
        office = Office(database, admin, PAIR, embedder=embedder(database, model))
        office.match_all()
        assert len(kept(office)) == 2
    assert len(model.requests) == 4


def test_a_document_without_descriptions_is_not_asked_about(office: Office, model: Server):
    office.match(office.file(invoice(lines=[])))
    assert (model.requests, kept(office)) == ([], {})


def test_another_model_is_asked_and_keys_of_the_first_one_go(database: Database, office: Office, model: Server):
    office.match_all()
    before = keys_by_vector(office, 0)
    office.embedder = embedder(database, model, EMBEDDING_MODEL="n")
    office.match(0)
    assert office.links() == set()  # the invoice's vector is the first one's
    office.match(1)
    assert office.links() == {(0, 1)}
    assert {found.model for found in kept(office).values()} == {"openai/n"}
    assert (len(before), len(keys_by_vector(office, 0))) == (normalise.BANDS, normalise.BANDS)
    assert before.isdisjoint(keys_by_vector(office, 0))


def test_other_words_are_asked_about_and_old_ones_lead_nowhere(office: Office, model: Server, admin: Connection):
    office.match_all()
    said = in_english()
    said.data["line_items"][0]["description"] = said.data["line_items"][1]["description"] = "paint"
    admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [json.dumps(said.data), office.ids[0]])
    model.then(Failure(400))
    office.match(0)
    assert (office.links(), keys_by_vector(office, 0)) == (set(), set())
    office.match(0)
    assert len(keys_by_vector(office, 0)) == normalise.BANDS
    assert [request.user for request in model.requests[2:]] == ["paint", "paint"]


def test_a_vector_goes_with_its_document(office: Office, admin: Connection):
    office.match_all()
    admin.execute("DELETE FROM document_match")
    admin.execute("DELETE FROM document WHERE id = %s", [office.ids[0]])
    assert list(kept(office)) == [1]


def test_a_document_that_was_removed_while_the_model_was_asked_has_no_vector(office: Office, model: Server):
    def removed(request: Any) -> str:
        office.admin.execute("DELETE FROM document WHERE id = %s", [office.ids[0]])
        return answer(request)

    model._otherwise = removed
    assert office.embedder is not None
    office.embedder.embed(office.database, office.tenant_id, office.ids[0])
    assert kept(office) == {}


# Where there is none


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
def test_a_model_that_fails_fails_no_document(
    steps: list[Any], office: Office, model: Server, capsys: pytest.CaptureFixture[str]
):
    model.then(*steps)
    assert isinstance(office.match(0), matching.Written)
    assert len(model.requests) == len(steps)
    assert '"Unembedded": [1.0]' in capsys.readouterr().out
    assert (kept(office), keys_by_vector(office, 0)) == ({}, set())
    office.match_all([0, 1])  # and the next match asks again
    assert office.links() == {(0, 1)}


def test_all_else_is_as_it_is_without(database: Database, admin: Connection, model: Server):
    papers = pile(7, 20)
    without = Office(database, admin, papers)
    without.match_all()
    model._otherwise = lambda _: "nothing"
    office = Office(database, admin, papers, embedder=embedder(database, model))
    office.match_all()
    assert (office.edges(), office.clusters(), office.reviews()) == (
        without.edges(), without.clusters(), without.reviews()
    )  # fmt: skip


def test_an_open_breaker_and_a_key_that_is_missing_cost_no_call(database: Database, office: Office, model: Server):
    away = Guards(closed=BreakerOpenError("away", until=NOW + timedelta(minutes=1)))
    office.embedder = embedder(database, model, breakers=away)
    office.match(0)
    office.embedder = embedder(database, model, EMBEDDING_API_KEY="")
    office.match(0)
    assert (model.requests, kept(office)) == ([], {})


def test_it_counts_against_the_budget_of_the_day(database: Database, office: Office, model: Server, admin: Connection):
    office.embedder = embedder(database, model, LLM_QUESTIONS_PER_DAY="1")
    office.match_all()
    assert (len(model.requests), list(kept(office)), office.links()) == (1, [0], set())
    calls = "SELECT purpose, provider, model, outcome, input_tokens FROM llm_call"
    assert admin.execute(calls).fetchall() == [("embedding", "openai-embeddings", "m", "answered", 40)]


def test_a_try_that_was_stopped_ends(database: Database, office: Office, model: Server):
    stopped = Event()
    stopped.set()
    office.embedder = embedder(database, model, deadline=Deadline(cancelled=stopped))
    with pytest.raises(CancelledError):
        office.match(0)


def test_half_of_the_time_that_is_left_is_for_matching_without(database: Database, office: Office, model: Server):
    assert office.embedder is not None
    clock = iter([10.0, 10.0, 5.5])
    make: Callable[[], Any] = office.embedder.make
    short = matching.Embedder("openai/m", make, Deadline(lambda: next(clock, 5.5)))
    model.then(Failure(503, retry_after="3"))
    short.embed(office.database, office.tenant_id, office.ids[0])
    assert (len(model.requests), kept(office)) == (1, {})
