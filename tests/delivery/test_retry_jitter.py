"""Jitter spreads the retries of 1,000 tasks that fail together.

The tests control the clock: each message arrives when its SQS delay ends.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from statistics import mean
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import enqueue
from counterfoil.kinds import WORK_KINDS
from counterfoil.tasks.store import read_task_message
from tests.delivery.harness import Clock, Context, FakeSqs, event, fail_transiently, record, settings, succeed
from tests.factories import make_task

TASKS = 1000
QUEUE, RETRY_QUEUE = "counterfoil-tasks", "counterfoil-tasks-retry"
SEED = 7


@dataclass
class RetryScenario:
    """One tenant's tasks and their messages."""

    database: Database
    admin: Connection
    sqs: FakeSqs
    clock: Clock
    tenant: UUID

    def send(self, tasks: int, outbox: Outbox) -> list[str]:
        """Submit tasks and return their first messages."""
        ids = [make_task(self.admin, self.tenant) for _ in range(tasks)]
        with self.database.tenant(self.tenant) as connection:
            now = self.clock()
            messages = enqueue(connection, WORK_KINDS["tasks"], [(id_, self.tenant, 1, 0) for id_ in ids], now, now)
        outbox.send(messages)
        return [entry["MessageBody"] for entry in self.sqs.sent.pop(QUEUE)]

    def outbox(self) -> Outbox:
        """Return an outbox with seeded random numbers."""
        random = Random(SEED).random
        return Outbox(self.database, {"tasks": QUEUE}, {"tasks": RETRY_QUEUE}, clock=self.clock, random=random)

    def fail(self, bodies: Sequence[str], outbox: Outbox, **options: Any) -> list[tuple[str, int]]:
        """Fail all tasks now. Return their next messages, each with its delay in seconds."""
        self.run(bodies, outbox, fail_transiently, **options)
        return [(entry["MessageBody"], entry["DelaySeconds"]) for entry in self.sqs.sent.pop(RETRY_QUEUE, [])]

    def run(
        self, bodies: Sequence[str], outbox: Outbox, work: Callable[[TenantAttempt], Outcome], **options: Any
    ) -> None:
        consumer = Consumer(
            settings(
                worker={"name": "tasks", "timeout": 120, "permits": 4, "start_margin": 30, "retries": "requeue"},
                queue_urls={"tasks": QUEUE},
                retry_queue_urls={"tasks": RETRY_QUEUE},
                **options,
            ),
            work,
            database=self.database,
            outbox=outbox,
            visibility=Visibility(QUEUE, RETRY_QUEUE),
            read=read_task_message,
            clock=self.clock,
        )
        for start in range(0, len(bodies), 10):
            response = consumer.handle(event(*map(record, bodies[start : start + 10])), Context())
            assert response["batchItemFailures"] == []

    def waits(self) -> list[float]:
        """Return the seconds from each task's last failed attempt to its next attempt."""
        fetched = self.admin.execute(
            """SELECT extract(epoch FROM next_attempt_at - ended_at) FROM (
                   SELECT DISTINCT ON (work_id) next_attempt_at, ended_at FROM work_attempt
                   WHERE outcome = 'retry' ORDER BY work_id, ended_at DESC) last"""
        ).fetchall()
        return [float(seconds) for (seconds,) in fetched]


@pytest.fixture
def retry_scenario(database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, tenant: UUID) -> RetryScenario:
    return RetryScenario(database, admin, sqs, clock, tenant)


def histogram(title: str, seconds: Sequence[int]) -> str:
    """Return a text histogram of seconds, with one mark per ten tasks."""
    counts = Counter(seconds)
    lines = [f"{second:4d} s {counts[second]:5d} {'#' * -(-counts[second] // 10)}" for second in range(max(counts) + 1)]
    return "\n".join(["", title, *lines])


def test_retries_of_many_failures_spread_over_jitter(
    retry_scenario: RetryScenario, admin: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    outbox = retry_scenario.outbox()
    retries = retry_scenario.fail(retry_scenario.send(TASKS, outbox), outbox, retry_jitter_max_seconds=10)

    seconds = [delay for _, delay in retries]
    with capsys.disabled():
        print(histogram(f"Retry delays of {TASKS} tasks that failed together, with 10 s of jitter", seconds))  # noqa: T201
    assert len(retries) == TASKS
    assert (min(seconds), max(seconds)) == (2, 12)  # base of 1 s doubled once, plus up to 10 s of jitter
    counts = Counter(seconds)
    assert max(counts.values()) < 140  # 100 per second on average, plus four standard deviations
    assert min(counts[second] for second in range(3, 12)) > 60
    assert mean(seconds) == pytest.approx(2 + 5, abs=0.3)

    start = retry_scenario.clock()
    for second in sorted(counts):  # no message arrives early
        retry_scenario.clock.now = start + timedelta(seconds=second)
        retry_scenario.run(
            [body for body, delay in retries if delay == second], outbox, succeed, retry_jitter_max_seconds=10
        )
    assert admin.execute("SELECT status, attempts, count(*) FROM task GROUP BY 1, 2").fetchall() == [
        ("succeeded", 2, TASKS)
    ]


def test_retries_without_jitter_are_simultaneous(retry_scenario: RetryScenario) -> None:
    outbox = retry_scenario.outbox()
    retries = retry_scenario.fail(retry_scenario.send(200, outbox), outbox, retry_jitter_max_seconds=0)

    assert Counter(delay for _, delay in retries) == {2: 200}


def test_retry_delay_is_policy_delay_plus_jitter(retry_scenario: RetryScenario) -> None:
    outbox = retry_scenario.outbox()
    bodies = retry_scenario.send(100, outbox)
    for retry in range(1, 6):
        retries = retry_scenario.fail(bodies, outbox)
        delays = retry_scenario.waits()
        assert len(delays) == len(retries) == 100
        assert 2**retry <= min(delays) <= max(delays) < 2**retry + 1
        assert mean(delays) == pytest.approx(2**retry + 0.5, abs=0.15)
        assert {delay for _, delay in retries} <= {2**retry, 2**retry + 1}  # SQS delays are whole seconds
        assert mean(delay for _, delay in retries) == pytest.approx(2**retry + 0.5, abs=0.25)
        bodies = [body for body, _ in retries]
        retry_scenario.clock.advance(seconds=2**retry + 2)
    assert retry_scenario.fail(bodies, outbox) == []  # at most six attempts


@pytest.mark.parametrize("base", [0.15, 0.4, 0.725])
def test_rounded_delays_average_to_exact_delay(retry_scenario: RetryScenario, base: float) -> None:
    outbox = retry_scenario.outbox()
    retries = retry_scenario.fail(
        retry_scenario.send(TASKS // 2, outbox), outbox, retry_jitter_max_seconds=0, retry_base_delay_seconds=base
    )

    assert {delay for _, delay in retries} == {int(2 * base), int(2 * base) + 1}
    assert mean(delay for _, delay in retries) == pytest.approx(2 * base, abs=0.08)  # four standard errors


def test_retry_delay_is_capped(retry_scenario: RetryScenario) -> None:
    outbox = retry_scenario.outbox()
    retries = retry_scenario.fail(
        retry_scenario.send(50, outbox),
        outbox,
        retry_base_delay_seconds=50,
        retry_jitter_max_seconds=10,
        retry_max_delay_seconds=60,
    )

    assert {delay for _, delay in retries} == {60}
