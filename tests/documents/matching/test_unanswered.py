"""A question that gets no answer: it is refused, or the time of the try is over."""

from math import inf
from typing import TypeVar

import pytest
from pydantic import BaseModel

from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.documents import matching
from counterfoil.errors import CancelledError, DeferredError, RejectedRequestError
from counterfoil.llm import Answered, Question
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import invoice, order
from tests.documents.matching.test_judge import (
    TWICE,
    Ask,
    again,
    asked,
    billed,
    goods,
    kept,
    office,
    scripted,
)
from tests.llm.server import Answer, Failure, Server, Step

__all__ = ["asked", "office", "scripted"]

M = TypeVar("M", bound=BaseModel)


# Refused questions


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (Failure(400), "127.0.0.1 answered with HTTP 400"),
        (Failure(422), "127.0.0.1 answered with HTTP 422"),
        (Failure(400, too_long=True), "127.0.0.1 answered with HTTP 400: the prompt is longer than the model reads"),
        (Answer('{"matches": [', cut_off=True), "The answer was cut off, at 30 tokens"),
    ],
)
def test_a_question_about_a_neighbour_that_is_refused_leaves_that_one_in_doubt(
    refusal: Step, told: str, office: Office, scripted: Server, admin: Connection
):
    scripted.then(refusal)
    with pytest.raises(RejectedRequestError):
        office.match(2)  # its own question: a person has to look
    assert kept(admin) == []
    sound = office.file(again(2))
    scripted.then(refusal)
    assert isinstance(office.match(sound), matching.Written)
    assert kept(admin) == [{"matches": [], "refused": told}]
    assert len(scripted.requests) == 2
    for position in (sound, 2):
        office.match(position)  # the question is not put again, to whomever it belongs
    assert (len(scripted.requests), office.links()) == (2, set())
    assert office.reason(2) == "Three documents fit equally: order 4711, order 4711, order 4711."


def test_a_refused_neighbour_keeps_what_is_sure_about_it(
    database: Database, admin: Connection, scripted: Server, asked: Ask
):
    two_numbers = invoice(po_reference=["4711", "4712"], lines=[])
    office = Office(database, admin, [*TWICE[:2], order("4712", lines=[goods(2)]), two_numbers], asked)
    office.match_all([0, 1, 2])
    scripted.then(Failure(400))
    with pytest.raises(RejectedRequestError):
        office.match(3)
    scripted.then(Failure(400))
    office.match(office.file(again(4)))
    assert office.links() == {(2, 3)}


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_that_any_question_would_meet_is_kept_for_none(
    status: int, office: Office, scripted: Server, admin: Connection
):
    scripted.then(Failure(400))
    with pytest.raises(RejectedRequestError):
        office.match(2)
    scripted.then(Failure(status))
    with pytest.raises(RejectedRequestError, match=str(status)):
        office.match(office.file(again(2)))
    assert kept(admin) == []


# Within the time of a try


class Slow:
    """A model that takes 5 seconds for an answer, which is always none."""

    left = inf
    calls = 0

    def ask(
        self,
        question: Question,
        answer: type[M],
        deadline: Deadline,
    ) -> Answered[M]:
        if deadline.remaining() < 5:
            raise CancelledError("There is no time left to ask the language model")
        self.left -= 5
        self.calls += 1
        return Answered(answer.model_validate({"matches": []}))


@pytest.fixture
def crowded(database: Database, admin: Connection) -> tuple[Office, Slow]:
    """Five invoices in doubt between two orders of one number, and a third order of that number, not matched yet."""
    slow = Slow()
    office = Office(
        database,
        admin,
        [again(0), again(1), *map(billed, range(5)), again(2)],
        lambda: matching.Judge(slow, "m", lambda: NOW, Deadline(lambda: slow.left)),
    )
    office.match_all(range(7))
    slow.calls = 0
    return office, slow


def test_a_try_that_is_out_of_time_after_new_answers_has_not_failed(crowded: tuple[Office, Slow]):
    office, slow = crowded
    for answered in (2, 4):
        slow.left = 11
        with pytest.raises(DeferredError, match="after 2 answers") as put_off:
            office.search(7, office.judge)
        assert (slow.calls, put_off.value.until) == (answered, NOW)
    slow.left = 11
    office.write(office.search(7, office.judge))
    assert slow.calls == 5


def test_a_try_that_is_out_of_time_before_any_new_answer_has_failed(crowded: tuple[Office, Slow]):
    office, slow = crowded
    slow.left = 4
    with pytest.raises(CancelledError):
        office.search(7, office.judge)
