"""Where the budget of questions is used up, documents are matched without the model, and their doubts say why."""

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
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import Paper, pile
from tests.documents.matching.test_judge import CHOICE, TWICE, Ask, again, answer, billed, kept, scripted
from tests.llm.conftest import Guards, Time
from tests.llm.judging import judge as sensible
from tests.llm.server import Server

__all__ = ["scripted"]

EQUAL = "Two documents fit equally: order 4711, order 4711."
SPENT = "The language model was not asked: today's budget of {} questions is used up (2026-06-01, UTC)."
Budget = Callable[..., Ask]


@pytest.fixture
def budget(scripted: Server, database: Database) -> Budget:
    """`budget(a_day, a_document, days_later)`: the judge of every try, with so many questions."""

    def make(a_day: int = 10_000, a_document: int = 10_000, days_later: int = 0) -> Ask:
        settings = Settings.from_environment(
            {
                "LLM_PROVIDER": "openai",
                "LLM_MODEL": "the-model",
                "LLM_URL": f"{scripted.url}/v1",
                "LLM_API_KEY": "k",
                "LLM_QUESTIONS_PER_DAY": str(a_day),
                "LLM_QUESTIONS_PER_DOCUMENT": str(a_document),
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
    """Two orders of one number, matched, and an invoice that names it, not matched yet; nobody may be asked."""
    office = Office(database, admin, TWICE, budget(0))
    office.match_all([0, 1])
    return office


def doubts(office: Office) -> list[Any]:
    rows = office.admin.execute("SELECT doubts FROM document_review WHERE state = 'open'").fetchall()
    return [doubt for (found,) in rows for doubt in found]


def test_it_is_matched_all_the_same_and_its_doubt_says_why_nobody_was_asked(office: Office, scripted: Server):
    written = office.match(2)
    assert isinstance(written, matching.Written)
    assert written.reason == office.reason(2) == f"{EQUAL} {SPENT.format(0)}"
    assert (office.links(), office.reviews(), scripted.requests) == (set(), {2: [[0, 1]]}, [])
    assert [(doubt["reason"], doubt["unasked"]) for doubt in doubts(office)] == [(EQUAL, SPENT.format(0))]


def test_what_was_not_asked_is_not_kept_and_can_be_asked_another_day(
    office: Office, scripted: Server, admin: Connection, budget: Budget
):
    office.judge = budget(1, days_later=0)
    other = office.file(billed(7))
    scripted.then(answer())
    office.match(other)  # has the only question of today
    office.match(2)
    assert (kept(admin), office.reason(2)) == ([{"matches": []}], f"{EQUAL} {SPENT.format(1)}")
    office.judge = budget(1, days_later=1)
    scripted.then(answer(CHOICE))
    office.match(2)
    assert (office.reason(2), len(kept(admin))) == (None, 2)
    assert (0, 2) in office.links()


def test_what_was_answered_before_needs_no_budget(office: Office, scripted: Server, budget: Budget):
    office.judge = budget(1)
    scripted.then(answer(CHOICE))
    office.match(2)
    office.judge = budget(0)
    office.match(2)
    assert (office.links(), office.reason(2)) == ({(0, 2)}, None)


def test_answers_that_the_budget_lasted_for_count(
    database: Database, admin: Connection, scripted: Server, budget: Budget
):
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
    office.match(4)  # has a budget of its own
    assert office.reviews() == {}


def test_without_budget_nothing_that_comes_in_between_puts_a_document_off(office: Office):
    decided = office.search(2, office.judge)
    office.write(office.search(office.file(again(2))))
    written = office.write(decided)  # it is another question now, and nobody would be asked that either
    assert (written.decided_again, office.reviews()) == (True, {2: [[0, 1, 3]]})
    assert SPENT.format(0) in (written.reason or "")


def test_a_link_by_an_answer_to_another_question_is_in_doubt_again(office: Office, scripted: Server, budget: Budget):
    office.judge = budget(1)
    scripted.then(answer(CHOICE))
    office.match(2)
    office.match(office.file(again(2)))
    assert (office.links(), office.reviews()) == (set(), {2: [[0, 1, 3]]})
    office.judge = budget(1, days_later=1)
    scripted.then(answer(CHOICE))
    office.match(2)
    assert (office.links(), office.reviews()) == ({(0, 2)}, {})


def test_a_try_that_is_refused_ends_at_once(office: Office):
    try:
        office.write(office.search(2, office.judge))
    except DeferredError:
        pytest.fail("It would come back, again and again")


@pytest.mark.parametrize("seed", [0, 11])
@pytest.mark.parametrize(("a_day", "a_document"), [(0, 10_000), (3, 10_000), (10_000, 1)])
@pytest.mark.parametrize("hands", [1, 4])
def test_edges_follow_from_documents_and_the_answers_kept(
    seed: int, a_day: int, a_document: int, hands: int, database: Database, admin: Connection, scripted: Server,
    budget: Budget,
):  # fmt: skip
    scripted._otherwise = sensible
    papers: list[Paper] = [*pile(seed, 24), *TWICE, billed(3), again(2)]
    whole = Office(database, admin, papers, budget())
    whole.match_all()
    office = Office(database, admin, papers, budget(a_day, a_document))
    order = list(range(len(papers)))
    Random(f"{seed} {hands}").shuffle(order)
    all_questions = len(scripted.requests)
    office.match_all(order, hands)
    questions = len(scripted.requests) - all_questions
    assert questions <= a_day
    assert (questions > 0) == (a_day > 0)
    if not questions:
        alone = Office(database, admin, papers)
        alone.match_all()
        assert (office.edges(), office.reviews()) == (alone.edges(), alone.reviews())
    found = office.edges(), office.clusters(), office.reviews()
    office.judge = None
    office.match_all()  # from the answers that are there, in another order
    assert (office.edges(), office.clusters(), office.reviews()) == found
    office.judge = budget(days_later=1)
    office.match_all(reversed(order), hands)
    assert (office.edges(), office.clusters()) == (whole.edges(), whole.clusters())
