"""If the LLM budget is exhausted, matches stay ambiguous and state the reason."""

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
from tests.documents.matching.samples import SampleDocument, random_samples
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.documents.matching.test_judge import (
    CHOICE,
    TWICE,
    MakeJudge,
    answer,
    duplicate_of,
    model_server,
    sample_invoice,
    stored_answers,
)
from tests.llm.conftest import Guards, Time
from tests.llm.judge_stub import judge as sensible
from tests.llm.server import Server

__all__ = ["model_server"]

EQUAL = "Two purchase orders with the number 4711 match equally well."
SPENT = "The language model was not called: today's call budget of {} is used up (2026-06-01, UTC)."
Budget = Callable[..., MakeJudge]


@pytest.fixture
def budget(model_server: Server, database: Database) -> Budget:
    """`budget(per_day, per_document, days_later)` returns a judge factory.

    The judges have these limits and a shifted clock.
    """

    def make(per_day: int = 10_000, per_document: int = 10_000, days_later: int = 0) -> MakeJudge:
        settings = Settings.from_environment(
            {
                "LLM_PROVIDER": "openai",
                "LLM_MODEL": "the-model",
                "LLM_URL": f"{model_server.url}/v1",
                "LLM_API_KEY": "k",
                "LLM_CALLS_PER_DAY": str(per_day),
                "LLM_CALLS_PER_DOCUMENT": str(per_document),
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
    """A tenant with two matched orders that share a number, and an unmatched invoice.

    The call budget is zero.
    """
    harness = TenantHarness(database, admin, TWICE, budget(0))
    harness.match_all([0, 1])
    return harness


def ambiguous_matches(harness: TenantHarness) -> list[Any]:
    rows = harness.admin.execute("SELECT ambiguous_matches FROM document_review WHERE state = 'open'").fetchall()
    return [ambiguous_match for (matches,) in rows for ambiguous_match in matches]


def test_exhausted_budget_leaves_match_ambiguous_with_reason(harness: TenantHarness, model_server: Server):
    match_result = harness.match(2)
    assert isinstance(match_result, matching.MatchResult)
    assert match_result.reason == harness.reason(2) == f"{EQUAL} {SPENT.format(0)}"
    assert (harness.links(), harness.reviews(), model_server.requests) == (set(), {2: [[0, 1]]}, [])
    assert [
        (ambiguous_match["reason"], ambiguous_match["llm_skip_reason"])
        for ambiguous_match in ambiguous_matches(harness)
    ] == [(EQUAL, SPENT.format(0))]


def test_call_over_budget_is_made_next_day(
    harness: TenantHarness, model_server: Server, admin: Connection, budget: Budget
):
    harness.judge = budget(1, days_later=0)
    other = harness.file(sample_invoice(7))
    model_server.add_steps(answer())
    harness.match(other)  # uses today's only call
    harness.match(2)
    assert (stored_answers(admin), harness.reason(2)) == ([{"matches": []}], f"{EQUAL} {SPENT.format(1)}")
    harness.judge = budget(1, days_later=1)
    model_server.add_steps(answer(CHOICE))
    harness.match(2)
    assert (harness.reason(2), len(stored_answers(admin))) == (None, 2)
    assert (0, 2) in harness.links()


def test_stored_answer_is_used_without_budget(harness: TenantHarness, model_server: Server, budget: Budget):
    harness.judge = budget(1)
    model_server.add_steps(answer(CHOICE))
    harness.match(2)
    harness.judge = budget(0)
    harness.match(2)
    assert (harness.links(), harness.reason(2)) == ({(0, 2)}, None)


def test_answers_within_document_budget_are_used(
    database: Database, admin: Connection, model_server: Server, budget: Budget
):
    harness = TenantHarness(
        database, admin, [duplicate_of(0), duplicate_of(1), sample_invoice(0), sample_invoice(1), sample_invoice(2)]
    )
    harness.match_all()
    third = harness.file(duplicate_of(2))
    harness.judge = budget(per_document=2)
    model_server.add_steps(answer(CHOICE), answer(CHOICE))
    harness.match(third)
    assert {pair[1] for pair in harness.links()} == {2, 3}
    assert list(harness.reviews()) == [4]
    assert "today's call budget of 2 for one document" in (harness.reason(4) or "")
    model_server.add_steps(answer(CHOICE))
    harness.match(4)  # document 4 has its own budget
    assert harness.reviews() == {}


def test_new_candidate_does_not_defer_without_budget(harness: TenantHarness):
    pending_match = harness.search(2, harness.judge)
    harness.write(harness.search(harness.file(duplicate_of(2))))
    write_result = harness.write(pending_match)  # the prompt has changed, and the budget covers no call
    assert (write_result.was_repeated, harness.reviews()) == (True, {2: [[0, 1, 3]]})
    assert SPENT.format(0) in (write_result.reason or "")


def test_new_candidate_after_exhausted_budget_makes_match_ambiguous(
    harness: TenantHarness, model_server: Server, budget: Budget
):
    harness.judge = budget(1)
    model_server.add_steps(answer(CHOICE))
    harness.match(2)
    harness.match(harness.file(duplicate_of(2)))
    assert (harness.links(), harness.reviews()) == (set(), {2: [[0, 1, 3]]})
    harness.judge = budget(1, days_later=1)
    model_server.add_steps(answer(CHOICE))
    harness.match(2)
    assert (harness.links(), harness.reviews()) == ({(0, 2)}, {})


def test_exhausted_budget_does_not_defer(harness: TenantHarness):
    try:
        harness.write(harness.search(2, harness.judge))
    except DeferredError:
        pytest.fail("A deferral would repeat endlessly")


@pytest.mark.parametrize("seed", [0, 11])
@pytest.mark.parametrize(("per_day", "per_document"), [(0, 10_000), (3, 10_000), (10_000, 1)])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_edges_depend_only_on_documents_and_stored_answers(
    seed: int, per_day: int, per_document: int, concurrency: int, database: Database, admin: Connection,
    model_server: Server, budget: Budget,
):  # fmt: skip
    model_server._otherwise = sensible
    samples: list[SampleDocument] = [*random_samples(seed, 24), *TWICE, sample_invoice(3), duplicate_of(2)]
    unlimited = TenantHarness(database, admin, samples, budget())
    unlimited.match_all()
    harness = TenantHarness(database, admin, samples, budget(per_day, per_document))
    order = list(range(len(samples)))
    Random(f"{seed} {concurrency}").shuffle(order)
    all_questions = len(model_server.requests)
    harness.match_all(order, concurrency)
    questions = len(model_server.requests) - all_questions
    assert questions <= per_day
    assert (questions > 0) == (per_day > 0)
    if not questions:
        separate = TenantHarness(database, admin, samples)
        separate.match_all()
        assert (harness.edges(), harness.reviews()) == (separate.edges(), separate.reviews())
    actual = harness.edges(), harness.clusters(), harness.reviews()
    harness.judge = None
    harness.match_all()  # with the stored answers only, in another order
    assert (harness.edges(), harness.clusters(), harness.reviews()) == actual
    harness.judge = budget(days_later=1)
    harness.match_all(reversed(order), concurrency)
    assert (harness.edges(), harness.clusters()) == (unlimited.edges(), unlimited.clusters())
