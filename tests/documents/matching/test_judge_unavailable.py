"""Unanswered questions: the model refuses them, or time runs out."""

from math import inf
from typing import TypeVar

import pytest
from pydantic import BaseModel

from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.documents import matching
from counterfoil.errors import CancelledError, DeferredError, RejectedRequestError
from counterfoil.llm import LlmRequest, LlmResponse
from tests.documents.matching.samples import invoice, order
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.documents.matching.test_judge import (
    TWICE,
    MakeJudge,
    again,
    billed,
    goods,
    harness,
    make_judge,
    scripted,
    stored_answers,
)
from tests.llm.server import Answer, Failure, Server, Step

__all__ = ["harness", "make_judge", "scripted"]

M = TypeVar("M", bound=BaseModel)


# Refused questions


@pytest.mark.parametrize(
    ("refusal", "stored_refusal"),
    [
        (Failure(400), "127.0.0.1 answered with HTTP 400"),
        (Failure(422), "127.0.0.1 answered with HTTP 422"),
        (Failure(400, too_long=True), "127.0.0.1 answered with HTTP 400: the prompt is longer than the model reads"),
        (Answer('{"matches": [', cut_off=True), "The answer was cut off, at 30 tokens"),
    ],
)
def test_refused_question_leaves_neighbor_ambiguous(
    refusal: Step, stored_refusal: str, harness: TenantHarness, scripted: Server, admin: Connection
):
    scripted.then(refusal)
    with pytest.raises(RejectedRequestError):
        harness.match(2)  # its own question was refused, so a reviewer must decide
    assert stored_answers(admin) == []
    sound = harness.file(again(2))
    scripted.then(refusal)
    assert isinstance(harness.match(sound), matching.MatchResult)
    assert stored_answers(admin) == [{"matches": [], "refused": stored_refusal}]
    assert len(scripted.requests) == 2
    for position in (sound, 2):
        harness.match(position)  # the refused question is not sent again for either document
    assert (len(scripted.requests), harness.links()) == (2, set())
    assert harness.reason(2) == "Three documents fit equally: order 4711, order 4711, order 4711."


def test_refused_neighbor_keeps_its_certain_matches(
    database: Database, admin: Connection, scripted: Server, make_judge: MakeJudge
):
    two_numbers = invoice(po_reference=["4711", "4712"], lines=[])
    harness = TenantHarness(database, admin, [*TWICE[:2], order("4712", lines=[goods(2)]), two_numbers], make_judge)
    harness.match_all([0, 1, 2])
    scripted.then(Failure(400))
    with pytest.raises(RejectedRequestError):
        harness.match(3)
    scripted.then(Failure(400))
    harness.match(harness.file(again(4)))
    assert harness.links() == {(2, 3)}


@pytest.mark.parametrize("status", [401, 403, 404])
def test_general_refusal_is_not_stored(status: int, harness: TenantHarness, scripted: Server, admin: Connection):
    scripted.then(Failure(400))
    with pytest.raises(RejectedRequestError):
        harness.match(2)
    scripted.then(Failure(status))
    with pytest.raises(RejectedRequestError, match=str(status)):
        harness.match(harness.file(again(2)))
    assert stored_answers(admin) == []


# Out of time


class SlowModel:
    """A model that takes 5 seconds per answer and chooses no candidate."""

    left = inf
    calls = 0

    def complete_json(
        self,
        question: LlmRequest,
        answer: type[M],
        deadline: Deadline,
    ) -> LlmResponse[M]:
        if deadline.remaining() < 5:
            raise CancelledError("Too little time to call the language model")
        self.left -= 5
        self.calls += 1
        return LlmResponse(answer.model_validate({"matches": []}))


@pytest.fixture
def crowded(database: Database, admin: Connection) -> tuple[TenantHarness, SlowModel]:
    """Five ambiguous invoices for two orders of one number, and an unmatched third."""
    slow = SlowModel()
    harness = TenantHarness(
        database,
        admin,
        [again(0), again(1), *map(billed, range(5)), again(2)],
        lambda: matching.Judge(slow, "m", lambda: NOW, Deadline(lambda: slow.left)),
    )
    harness.match_all(range(7))
    slow.calls = 0
    return harness, slow


def test_out_of_time_after_answers_defers(crowded: tuple[TenantHarness, SlowModel]):
    harness, slow = crowded
    for answered in (2, 4):
        slow.left = 11
        with pytest.raises(DeferredError, match="after 2 answers") as deferral:
            harness.search(7, harness.judge)
        assert (slow.calls, deferral.value.until) == (answered, NOW)
    slow.left = 11
    harness.write(harness.search(7, harness.judge))
    assert slow.calls == 5


def test_out_of_time_before_any_answer_fails(crowded: tuple[TenantHarness, SlowModel]):
    harness, slow = crowded
    slow.left = 4
    with pytest.raises(CancelledError):
        harness.search(7, harness.judge)
