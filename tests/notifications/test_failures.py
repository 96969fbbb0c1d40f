"""Notifications about worker failures do not quote document contents."""

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.delivery.work import Message
from counterfoil.errors import InvalidLlmResponseError
from tests.delivery.harness import Clock, Context, FakeSqs, event, life_cycle, make_consumer, record
from tests.notifications.conftest import Run
from tests.notifications.harness import FakeChannel

# Model answers that quote a document and contain an apostrophe.
MODEL_ANSWERS = ['{"matches": ["O\'Hara, salary 4,200"', "I can't say: O'Brien owes 77 EUR"]
Pending = Callable[..., Message]


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> FakeSqs:
    fake_sqs = FakeSqs()
    monkeypatch.setattr("counterfoil.aws.client", lambda _: fake_sqs)
    return fake_sqs


@pytest.fixture
def last_attempt(make_document: Callable[..., UUID], acme: UUID) -> Pending:
    """`last_attempt(**columns)` creates a document with one attempt left.

    It returns the document's message.
    """

    def make_message(**columns: object) -> Message:
        values = {"matching_status": "pending", "matching_revision": 1, "matching_attempts": 2, **columns}
        return Message(work_id=make_document(acme, type="invoice", **values), revision=1, send_number=0)

    return make_message


def fail_with_answer(answer: str) -> Callable[[TenantAttempt], NoReturn]:
    def work(_: TenantAttempt) -> NoReturn:
        raise InvalidLlmResponseError("The model's answer is not valid JSON", preview=answer)

    return work


def test_notification_omits_the_quoted_model_answer(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    last_attempt: Pending,
    run: Run,
    channel: FakeChannel,
):
    message = last_attempt()
    make_consumer(database, fail_with_answer(MODEL_ANSWERS[0]), clock).handle(
        event(record(message, receives=3)), Context()
    )
    assert MODEL_ANSWERS[0] in life_cycle(admin, message.work_id)["error"]  # visible only to the tenant
    run()
    fields = {field.label: field.value for field in channel.sent[0].text.fields}
    assert (fields["Error"], fields["Attempts"]) == ("The model's answer is not valid JSON", "3")
    assert fields["Document"] == str(message.work_id)


def test_workers_import_no_channels():
    program = """
import counterfoil.delivery.consumer, sys
print([name for name in ("channels", "notifier", "store") if f"counterfoil.notifications.{name}" in sys.modules])
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == "['store']\n"


def test_bad_model_answers_share_a_fingerprint(
    database: Database, sqs: FakeSqs, clock: Clock, last_attempt: Pending, run: Run, channel: FakeChannel
):
    for answer in MODEL_ANSWERS:
        make_consumer(database, fail_with_answer(answer), clock).handle(
            event(record(last_attempt(), receives=3)), Context()
        )
    run()
    assert len(channel.sent) == 1


def test_lost_worker_notification_omits_earlier_error(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    last_attempt: Pending,
    run: Run,
    channel: FakeChannel,
):
    message = last_attempt(
        matching_status="in-progress",
        matching_attempts=3,
        matching_claimed_at=clock() - timedelta(minutes=10),
        matching_lease_expires_at=clock() - timedelta(minutes=5),
        matching_error=f"The model's answer is not valid JSON: '{MODEL_ANSWERS[0]}'",
    )
    make_consumer(database, fail_with_answer(""), clock).handle(event(record(message, receives=3)), Context())
    assert MODEL_ANSWERS[0] in life_cycle(admin, message.work_id)["error"]
    run()
    (error,) = [field.value for field in channel.sent[0].text.fields if field.label == "Error"]
    assert error == "The worker ended during attempt 3 of 3 without settling it"
