"""Queues and helpers for tests of work items whose retries are requeued."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from counterfoil.db import Connection
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.work import Message
from counterfoil.errors import BreakerOpenError
from counterfoil.tasks.store import read_task_message
from tests.delivery.harness import Context, FakeSqs, rows

QUEUE, RETRY_QUEUE = (f"http://127.0.0.1:1/000000000000/counterfoil-tasks{suffix}" for suffix in ("", "-retry"))
ARN, RETRY_ARN, DLQ_ARN = (
    f"arn:aws:sqs:eu-central-1:000000000000:counterfoil-tasks{suffix}" for suffix in ("", "-retry", "-dlq")
)
FIXED_RANDOM = 0.25
"""Value of every random number in these tests."""

Task = Callable[..., Message]
Run = Callable[..., list[str]]
LATE_CONTEXT = Context(seconds_left=20)
"""Lambda context with too little time left to start a work item."""


def task_row(admin: Connection, message: Message) -> dict[str, Any]:
    return next(task for task in rows(admin, "task") if task["id"] == str(message.work_id))


def sent_messages(sqs: FakeSqs, queue: str = RETRY_QUEUE) -> list[tuple[Message, float]]:
    return [(read_task_message(entry["MessageBody"]).messages[0], entry["DelaySeconds"]) for entry in sqs.sent[queue]]


def next_send(message: Message, increment: int = 1) -> Message:
    return message.model_copy(update={"send_number": message.send_number + increment})


def defer(attempt: TenantAttempt) -> Outcome:
    raise BreakerOpenError("The breaker is open", until=attempt.now() + timedelta(seconds=40))
