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
from tests.documents.matching.tenant_harness import NOW, TenantHarness
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
def harness(database: Database, admin: Connection, budget: Budget) -> TenantHarness:
    """Two matched orders with one number, their unmatched invoice, and no budget."""
    harness = TenantHarness(database, admin, TWICE, budget(0))
    harness.match_all([0, 1])
    return harness


def ambiguous_matches(harness: TenantHarness) -> list[Any]:
    rows = harness.admin.execute("SELECT ambiguous_matches FROM document_review WHERE state = 'open'").fetchall()
    return [doubt for (found,) in rows for doubt in found]


def test_exhausted_budget_leaves_match_ambiguous_with_reason(harness: TenantHarness, scripted: Server):
    written = harness.match(2)
    assert isinstance(written, matching.MatchResult)
    assert written.reason == harness.reason(2) == f"{EQUAL} {SPENT.format(0)}"
    assert (harness.links(), harness.reviews(), scripted.requests) == (set(), {2: [[0, 1]]}, [])
    assert [(doubt["reason"], doubt["unasked"]) for doubt in ambiguous_matches(harness)] == [(EQUAL, SPENT.format(0))]


def test_question_over_budget_is_sent_another_day(
    harness: TenantHarness, scripted: Server, admin: Connection, budget: Budget
):
    harness.judge = budget(1, days_later=0)
    other = harness.file(billed(7))
    scripted.then(answer())
    harness.match(other)  # uses today's only question
    harness.match(2)
    assert (stored_answers(admin), harness.reason(2)) == ([{"matches": []}], f"{EQUAL} {SPENT.format(1)}")
    harness.judge = budget(1, days_later=1)
    scripted.then(answer(CHOICE))
    harness.match(2)
    assert (harness.reason(2), len(stored_answers(admin))) == (None, 2)
    assert (0, 2) in harness.links()


def test_stored_answer_needs_no_budget(harness: TenantHarness, scripted: Server, budget: Budget):
    harness.judge = budget(1)
    scripted.then(answer(CHOICE))
    harness.match(2)
    harness.judge = budget(0)
    harness.match(2)
    assert (harness.links(), harness.reason(2)) == ({(0, 2)}, None)


def test_answers_within_document_budget_count(database: Database, admin: Connection, scripted: Server, budget: Budget):
    harness = TenantHarness(database, admin, [again(0), again(1), billed(0), billed(1), billed(2)])
    harness.match_all()
    third = harness.file(again(2))
    harness.judge = budget(a_document=2)
    scripted.then(answer(CHOICE), answer(CHOICE))
    harness.match(third)
    assert {pair[1] for pair in harness.links()} == {2, 3}
    assert list(harness.reviews()) == [4]
    assert "today's budget of 2 questions for one document" in (harness.reason(4) or "")
    scripted.then(answer(CHOICE))
    harness.match(4)  # has its own budget
    assert harness.reviews() == {}


def test_without_budget_new_candidate_does_not_defer(harness: TenantHarness):
    decided = harness.search(2, harness.judge)
    harness.write(harness.search(harness.file(again(2))))
    written = harness.write(decided)  # the question has changed, and the budget covers neither
    assert (written.decided_again, harness.reviews()) == (True, {2: [[0, 1, 3]]})
    assert SPENT.format(0) in (written.reason or "")


def test_new_candidate_makes_judged_match_ambiguous_again(harness: TenantHarness, scripted: Server, budget: Budget):
    harness.judge = budget(1)
    scripted.then(answer(CHOICE))
    harness.match(2)
    harness.match(harness.file(again(2)))
    assert (harness.links(), harness.reviews()) == (set(), {2: [[0, 1, 3]]})
    harness.judge = budget(1, days_later=1)
    scripted.then(answer(CHOICE))
    harness.match(2)
    assert (harness.links(), harness.reviews()) == ({(0, 2)}, {})


def test_exhausted_budget_does_not_defer(harness: TenantHarness):
    try:
        harness.write(harness.search(2, harness.judge))
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
    unlimited = TenantHarness(database, admin, samples, budget())
    unlimited.match_all()
    harness = TenantHarness(database, admin, samples, budget(a_day, a_document))
    order = list(range(len(samples)))
    Random(f"{seed} {concurrency}").shuffle(order)
    all_questions = len(scripted.requests)
    harness.match_all(order, concurrency)
    questions = len(scripted.requests) - all_questions
    assert questions <= a_day
    assert (questions > 0) == (a_day > 0)
    if not questions:
        alone = TenantHarness(database, admin, samples)
        alone.match_all()
        assert (harness.edges(), harness.reviews()) == (alone.edges(), alone.reviews())
    found = harness.edges(), harness.clusters(), harness.reviews()
    harness.judge = None
    harness.match_all()  # from the stored answers, in another order
    assert (harness.edges(), harness.clusters(), harness.reviews()) == found
    harness.judge = budget(days_later=1)
    harness.match_all(reversed(order), concurrency)
    assert (harness.edges(), harness.clusters()) == (unlimited.edges(), unlimited.clusters())
