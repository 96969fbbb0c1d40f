"""An exhausted LLM budget leaves matches ambiguous and explains why."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.documents import matching
from counterfoil.errors import DeferredError
from counterfoil.llm import Llm
from counterfoil.settings import Settings
from tests.documents.matching.samples import SampleDocument, pile
from tests.documents.matching.tenant_harness import NOW, Office
from tests.documents.matching.test_judge import (
    CHOICE,
    TWICE,
    MakeJudge,
    again,
    answer,
    billed,
    scripted,
    stored_answers,
)
from tests.llm.conftest import Guards, Time
from tests.llm.judge_stub import judge as sensible
from tests.llm.server import Server

__all__ = ["scripted"]

EQUAL = "Two documents fit equally: order 4711, order 4711."
SPENT = "The language model was not asked: today's budget of {} questions is used up (2026-06-01, UTC)."
Budget = Callable[..., MakeJudge]


@pytest.fixture
def budget(scripted: Server, database: Database) -> Budget:
    """`budget(a_day, a_document, days_later)`: a judge factory with these limits."""

    def make(a_day: int = 10_000, a_document: int = 10_000, days_later: int = 0) -> MakeJudge:
        settings = Settings.from_environment(
            {
                "LLM_PROVIDER": "openai",
                "LLM_MODEL": "the-model",
                "LLM_URL": f"{scripted.url}/v1",
                "LLM_API_KEY": "k",
                "LLM_CALLS_PER_DAY": str(a_day),
                "LLM_CALLS_PER_DOCUMENT": str(a_document),
            }
        )
        llm = Llm.from_settings(settings, database, Guards())
        assert llm is not None
        llm._wait = Time().wait
        llm._clock = lambda: NOW + timedelta(days=days_later)
        return lambda: matching.Judge(llm, "the-model", lambda: NOW, Deadline())

    return make


@pytest.fixture
def office(database: Database, admin: Connection, budget: Budget) -> Office:
    """Two matched orders with one number, their unmatched invoice, and no budget."""
    office = Office(database, admin, TWICE, budget(0))
    office.match_all([0, 1])
    return office


def ambiguous_matches(office: Office) -> list[Any]:
    rows = office.admin.execute("SELECT ambiguous_matches FROM document_review WHERE state = 'open'").fetchall()
    return [doubt for (found,) in rows for doubt in found]


def test_exhausted_budget_leaves_match_ambiguous_with_reason(office: Office, scripted: Server):
    written = office.match(2)
    assert isinstance(written, matching.MatchResult)
    assert written.reason == office.reason(2) == f"{EQUAL} {SPENT.format(0)}"
    assert (office.links(), office.reviews(), scripted.requests) == (set(), {2: [[0, 1]]}, [])
    assert [(doubt["reason"], doubt["unasked"]) for doubt in ambiguous_matches(office)] == [(EQUAL, SPENT.format(0))]


def test_question_over_budget_is_sent_another_day(office: Office, scripted: Server, admin: Connection, budget: Budget):
    office.judge = budget(1, days_later=0)
    other = office.file(billed(7))
    scripted.then(answer())
    office.match(other)  # uses today's only question
    office.match(2)
    assert (stored_answers(admin), office.reason(2)) == ([{"matches": []}], f"{EQUAL} {SPENT.format(1)}")
    office.judge = budget(1, days_later=1)
    scripted.then(answer(CHOICE))
    office.match(2)
    assert (office.reason(2), len(stored_answers(admin))) == (None, 2)
    assert (0, 2) in office.links()


def test_stored_answer_needs_no_budget(office: Office, scripted: Server, budget: Budget):
    office.judge = budget(1)
    scripted.then(answer(CHOICE))
    office.match(2)
    office.judge = budget(0)
    office.match(2)
    assert (office.links(), office.reason(2)) == ({(0, 2)}, None)


def test_answers_within_document_budget_count(database: Database, admin: Connection, scripted: Server, budget: Budget):
    office = Office(database, admin, [again(0), again(1), billed(0), billed(1), billed(2)])
    office.match_all()
    third = office.file(again(2))
    office.judge = budget(a_document=2)
    scripted.then(answer(CHOICE), answer(CHOICE))
    office.match(third)
    assert {pair[1] for pair in office.links()} == {2, 3}
    assert list(office.reviews()) == [4]
    assert "today's budget of 2 questions for one document" in (office.reason(4) or "")
    scripted.then(answer(CHOICE))
    office.match(4)  # has its own budget
    assert office.reviews() == {}


def test_without_budget_new_candidate_does_not_defer(office: Office):
    decided = office.search(2, office.judge)
    office.write(office.search(office.file(again(2))))
    written = office.write(decided)  # the question has changed, and the budget covers neither
    assert (written.decided_again, office.reviews()) == (True, {2: [[0, 1, 3]]})
    assert SPENT.format(0) in (written.reason or "")


def test_new_candidate_makes_judged_match_ambiguous_again(office: Office, scripted: Server, budget: Budget):
    office.judge = budget(1)
    scripted.then(answer(CHOICE))
    office.match(2)
    office.match(office.file(again(2)))
    assert (office.links(), office.reviews()) == (set(), {2: [[0, 1, 3]]})
    office.judge = budget(1, days_later=1)
    scripted.then(answer(CHOICE))
    office.match(2)
    assert (office.links(), office.reviews()) == ({(0, 2)}, {})


def test_exhausted_budget_does_not_defer(office: Office):
    try:
        office.write(office.search(2, office.judge))
    except DeferredError:
        pytest.fail("A deferral would repeat endlessly")


@pytest.mark.parametrize("seed", [0, 11])
@pytest.mark.parametrize(("a_day", "a_document"), [(0, 10_000), (3, 10_000), (10_000, 1)])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_edges_follow_from_documents_and_stored_answers(
    seed: int, a_day: int, a_document: int, concurrency: int, database: Database, admin: Connection, scripted: Server,
    budget: Budget,
):  # fmt: skip
    scripted._otherwise = sensible
    samples: list[SampleDocument] = [*pile(seed, 24), *TWICE, billed(3), again(2)]
    unlimited = Office(database, admin, samples, budget())
    unlimited.match_all()
    office = Office(database, admin, samples, budget(a_day, a_document))
    order = list(range(len(samples)))
    Random(f"{seed} {concurrency}").shuffle(order)
    all_questions = len(scripted.requests)
    office.match_all(order, concurrency)
    questions = len(scripted.requests) - all_questions
    assert questions <= a_day
    assert (questions > 0) == (a_day > 0)
    if not questions:
        alone = Office(database, admin, samples)
        alone.match_all()
        assert (office.edges(), office.reviews()) == (alone.edges(), alone.reviews())
    found = office.edges(), office.clusters(), office.reviews()
    office.judge = None
    office.match_all()  # from the stored answers, in another order
    assert (office.edges(), office.clusters(), office.reviews()) == found
    office.judge = budget(days_later=1)
    office.match_all(reversed(order), concurrency)
    assert (office.edges(), office.clusters()) == (unlimited.edges(), unlimited.clusters())
