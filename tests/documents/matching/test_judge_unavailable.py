"""Matching fails, defers or stays ambiguous if the LLM judge is unavailable.

It is unavailable if a prompt is refused or the deadline is near.
"""

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
    duplicate_of,
    goods_line,
    harness,
    make_judge,
    model_server,
    sample_invoice,
    stored_answers,
)
from tests.llm.server import Answer, Failure, Server, Step

__all__ = ["harness", "make_judge", "model_server"]

M = TypeVar("M", bound=BaseModel)


# Refused prompts


@pytest.mark.parametrize(
    ("refusal", "stored_refusal"),
    [
        (Failure(400), "127.0.0.1 answered with HTTP 400"),
        (Failure(422), "127.0.0.1 answered with HTTP 422"),
        (
            Failure(400, too_long=True),
            "127.0.0.1 answered with HTTP 400: the prompt exceeds the model's context window",
        ),
        (Answer('{"matches": [', truncated=True), "The answer was truncated at 30 tokens"),
    ],
)
def test_refused_prompt_leaves_the_invoice_ambiguous(
    refusal: Step, stored_refusal: str, harness: TenantHarness, model_server: Server, admin: Connection
):
    model_server.add_steps(refusal)
    with pytest.raises(RejectedRequestError):
        harness.match(2)  # the prompt about this document was refused, so its match fails
    assert stored_answers(admin) == []
    unaffected = harness.file(duplicate_of(2))
    model_server.add_steps(refusal)
    assert isinstance(harness.match(unaffected), matching.MatchResult)
    assert stored_answers(admin) == [{"matches": [], "refused": stored_refusal}]
    assert len(model_server.requests) == 2
    for position in (unaffected, 2):
        harness.match(position)  # the refused prompt is not sent again for either document
    assert (len(model_server.requests), harness.links()) == (2, set())
    assert harness.reason(2) == "Three purchase orders with the number 4711 match equally well."


def test_invoice_with_refused_prompt_keeps_certain_matches(
    database: Database, admin: Connection, model_server: Server, make_judge: MakeJudge
):
    two_numbers = invoice(po_reference=["4711", "4712"], lines=[])
    harness = TenantHarness(
        database, admin, [*TWICE[:2], order("4712", lines=[goods_line(2)]), two_numbers], make_judge
    )
    harness.match_all([0, 1, 2])
    model_server.add_steps(Failure(400))
    with pytest.raises(RejectedRequestError):
        harness.match(3)
    model_server.add_steps(Failure(400))
    harness.match(harness.file(duplicate_of(4)))
    assert harness.links() == {(2, 3)}


@pytest.mark.parametrize("status", [401, 403, 404])
def test_refusal_unrelated_to_the_prompt_is_not_stored(
    status: int, harness: TenantHarness, model_server: Server, admin: Connection
):
    model_server.add_steps(Failure(400))
    with pytest.raises(RejectedRequestError):
        harness.match(2)
    model_server.add_steps(Failure(status))
    with pytest.raises(RejectedRequestError, match=str(status)):
        harness.match(harness.file(duplicate_of(2)))
    assert stored_answers(admin) == []


# Too little time left


class SlowModel:
    """A model that takes 5 seconds per answer and never chooses a candidate."""

    left = inf
    calls = 0

    def complete_json(
        self,
        question: LlmRequest,
        response_type: type[M],
        deadline: Deadline,
    ) -> LlmResponse[M]:
        if deadline.remaining() < 5:
            raise CancelledError("Not enough time to call the language model")
        self.left -= 5
        self.calls += 1
        return LlmResponse(response_type.model_validate({"matches": []}))


@pytest.fixture
def crowded_tenant(database: Database, admin: Connection) -> tuple[TenantHarness, SlowModel]:
    """A tenant with five ambiguous invoices, and its slow model.

    The third of its orders is unmatched.
    """
    slow = SlowModel()
    harness = TenantHarness(
        database,
        admin,
        [duplicate_of(0), duplicate_of(1), *map(sample_invoice, range(5)), duplicate_of(2)],
        lambda: matching.Judge(slow, "m", lambda: NOW, Deadline(lambda: slow.left)),
    )
    harness.match_all(range(7))
    slow.calls = 0
    return harness, slow


def test_running_out_of_time_after_answers_defers(crowded_tenant: tuple[TenantHarness, SlowModel]):
    harness, slow = crowded_tenant
    for answered in (2, 4):
        slow.left = 11
        with pytest.raises(DeferredError, match=r"\(2 received\)") as deferral:
            harness.search(7, harness.judge)
        assert (slow.calls, deferral.value.until) == (answered, NOW)
    slow.left = 11
    harness.write(harness.search(7, harness.judge))
    assert slow.calls == 5


def test_running_out_of_time_before_any_answer_fails(crowded_tenant: tuple[TenantHarness, SlowModel]):
    harness, slow = crowded_tenant
    slow.left = 4
    with pytest.raises(CancelledError):
        harness.search(7, harness.judge)
