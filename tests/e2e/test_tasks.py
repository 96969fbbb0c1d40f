"""Chat messages are answered once and in order despite failures and kills.

Some calls to the model fail, and worker processes are killed. COUNTERFOIL_CHAOS_SEED repeats the order of kills and
pauses. Other timing depends on the machine. `make soak` uses more messages and more kills.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from random import Random
from statistics import mean, quantiles
from threading import Event, Lock
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant, add_tenant
from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.tasks import store
from counterfoil.tasks.chat import CHAT_COMPLETION
from tests.e2e.chaos import Chaos, is_emulator_failure, separate_cloud, watchdog_running
from tests.e2e.load import LOAD_SECONDS
from tests.e2e.polling import wait_until
from tests.llm.server import Failure, Request, Server, Step

pytestmark = [
    pytest.mark.e2e,
    # A connection whose peer was killed during a response is closed only by the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SEED = int(os.environ.get("COUNTERFOIL_CHAOS_SEED") or time.time_ns() % 1_000_000)
TASKS = 10 * (LOAD_SECONDS // 4)
MESSAGES = 10
"""Number of messages per session."""
KILLS = max(6, TASKS // 50)
FAILURE_SHARE = 0.2
"""Share of messages whose first three calls fail, and the failure rate of all other calls."""
ANSWER_SECONDS = 0.05
BASE, FACTOR, JITTER = 1, 2, 1
"""Default retry policy of tasks. BASE and JITTER are in seconds."""
SETTINGS = {
    "LEASE_SECONDS": "15",
    "HEARTBEAT_INTERVAL_SECONDS": "3",
    "MIN_VISIBILITY_SECONDS": "20",
    "OUTBOX_OVERDUE_SECONDS": "3",
    "RESEND_AFTER_SECONDS": "30",
    "LLM_PROVIDER": "openai",
    "LLM_MODEL": "scripted",
    "LLM_API_KEY": "none",
    "LLM_RETRY_BASE_SECONDS": "0.05",
    "CHAT_CALLS_PER_DAY": "1000000",
    "BREAKER_FAILURE_THRESHOLD": "1000",  # this test covers the retry policy, not the circuit breaker
}
SECONDS = 300
"""Timeout in seconds of each wait: for progress before a kill, and for the end of all tasks."""


MAX_EMULATOR_FAILURES = max(20, TASKS // 50)
"""Maximum number of tasks that may fail because the emulator deleted their code. Usually none fail."""
WRITE_DELAY = 0.5
"""Maximum seconds between calculating a retry delay and ending the attempt, on a busy machine."""


class Model(Server):
    """Language model that echoes messages and records each request's earlier answers."""

    def __init__(self) -> None:
        super().__init__(respond=lambda request: f"Re: {request.user}")
        self.random = Random(SEED)
        self.shown: list[tuple[str, list[str]]] = []
        self.failures_left: dict[str, int] = {}
        self._lock = Lock()

    def next(self, request: Request) -> Step:
        with self._lock:
            previous = [text for role, text in request.conversation if role == "assistant"]
            self.shown.append((request.user, previous))
            failures_left = self.failures_left.setdefault(
                request.user, 3 if self.random.random() < FAILURE_SHARE else 0
            )
            self.failures_left[request.user] = failures_left - 1
            is_failure = failures_left > 0 or self.random.random() < FAILURE_SHARE
        Event().wait(ANSWER_SECONDS)
        return self.random.choice([Failure(429), Failure(503), Failure(529)]) if is_failure else super().next(request)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    """The scripted language model."""
    model = Model()
    with model:
        yield model


@pytest.fixture(scope="module")
def cloud(model: Model) -> Iterator[Cloud]:
    """A separate cloud with short leases."""
    with separate_cloud("tasks", SETTINGS, model) as cloud:
        yield cloud


@pytest.fixture
def outbox(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outbox]:
    """An outbox that sends to the cloud's queues."""
    for name, value in cloud.state.emulator.environment.items():
        monkeypatch.setenv(name, value)
    aws.client.cache_clear()
    first, retries = cloud.outputs["TasksQueueUrl"], cloud.outputs["TasksRetryQueueUrl"]
    with closing(Database(cloud.database_url("counterfoil_worker"), max_connections=8)) as database:
        yield Outbox(database, {"tasks": first}, {"tasks": retries})
    aws.client.cache_clear()


class Chat:
    """Sessions of several users, who submit messages without waiting for answers."""

    def __init__(self, cloud: Cloud, tenant: Tenant, outbox: Outbox) -> None:
        self.cloud, self.tenant, self.outbox = cloud, tenant, outbox
        self.submitted: dict[UUID, list[tuple[UUID, str]]] = {}
        """Each session's messages in order, as task id and text."""

    def session(self, number: int) -> None:
        """Submit all of a session's messages."""
        kind = CHAT_COMPLETION
        assert kind is not None
        session: UUID | None = None
        for index in range(MESSAGES):
            text = f"message {index} of session {number}"
            payload: dict[str, Any] = {"message": text} | ({} if session is None else {"session_id": str(session)})
            request = store.build_request(kind, payload, user_id=f"user {number}")
            submission = store.submit(self.cloud.database, self.tenant.id, request, datetime.now(UTC), bucket=None)
            session = session or submission.task.job_id
            self.submitted.setdefault(session, []).append((submission.task.job_id, text))
            self.outbox.send(submission.messages)

    def faults(self, admin: Connection, emulator_failures: set[UUID]) -> Counter[str]:
        """Count the sessions with each kind of fault.

        Tasks in `emulator_failures` must have no answer. Later messages in the same session must be answered.
        """
        counts: Counter[str] = Counter()
        for session, submitted in self.submitted.items():
            rows = admin.execute(
                "SELECT number, role, job_id, content FROM chat_message WHERE session_id = %s ORDER BY number",
                [session],
            ).fetchall()
            questions = [(job, content) for _, role, job, content in rows if role == "user"]
            answers = [(job, content) for _, role, job, content in rows if role == "assistant"]
            counts["Message numbers have a gap"] += [row[0] for row in rows] != list(range(1, len(rows) + 1))
            counts["Messages are out of order"] += questions != submitted
            expected = [(job, f"Re: {text}") for job, text in submitted if job not in emulator_failures]
            counts["Answers are missing, repeated or out of order"] += answers != expected
        return +counts

    def messages_with_wrong_context(
        self, requests: list[tuple[str, list[str]]], emulator_failures: set[UUID]
    ) -> list[str]:
        """Return messages that the model received with the wrong earlier answers.

        A request must contain exactly the session's earlier answers.
        """
        expected_answers = {
            text: [f"Re: {earlier}" for job, earlier in submitted[:index] if job not in emulator_failures]
            for submitted in self.submitted.values()
            for index, (_, text) in enumerate(submitted)
        }
        return [text for text, answers in requests if expected_answers[text] != answers]


def pending_messages(cloud: Cloud) -> dict[str, int]:
    """Return the number of visible and in-flight messages in each non-empty queue.

    Delayed messages are excluded, because those of tasks that have already run are dropped on arrival.
    """
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    with closing(cloud.client("sqs")) as sqs:
        counts = {
            name: sum(map(int, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"].values()))
            for name, url in cloud.outputs.items()
            if name.endswith("QueueUrl")
        }
    return {name: number for name, number in counts.items() if number}


def count_unfinished(admin: Connection, tenant: Tenant) -> int:
    """Return the number of unfinished tasks."""
    row = admin.execute(
        "SELECT count(*) FROM task WHERE tenant_id = %s AND status IN ('pending', 'in-progress')", [tenant.id]
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_messages_are_answered_once_despite_failures(
    cloud: Cloud, model: Model, outbox: Outbox, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant, _ = add_tenant(cloud, f"chat-{uuid4().hex[:8]}")
    chat, chaos = Chat(cloud, tenant, outbox), Chaos(cloud, Random(SEED), {"tasks": 1})
    start = time.monotonic()
    with watchdog_running(cloud, interval=3), psycopg.connect(cloud.database_url("postgres"), autocommit=True) as admin:
        with ThreadPoolExecutor(4) as users:
            list(users.map(chat.session, range(TASKS // MESSAGES)))
        submitted = time.monotonic() - start
        for kill_number in range(KILLS):
            # Wait for progress between kills, because killing a process that is only starting tests nothing.
            remaining = TASKS - (kill_number + 1) * TASKS // (KILLS + 2)
            wait_until(lambda: count_unfinished(admin, tenant) <= remaining, SECONDS)  # noqa: B023 - called within the iteration
            chaos.kill_worker()
        kill_seconds = time.monotonic() - start
        with suppress(AssertionError):  # the checks below report unfinished tasks
            wait_until(lambda: not count_unfinished(admin, tenant), SECONDS)
        total_seconds = time.monotonic() - start
        with suppress(AssertionError):
            wait_until(lambda: not pending_messages(cloud), 150)
        delays = RetryDelays.of(admin, tenant)
        states = admin.execute("SELECT status, count(*) FROM task GROUP BY 1").fetchall()
        failed = admin.execute("SELECT id, error FROM task WHERE status = 'failed'").fetchall()
        figures = {
            "seed": SEED,
            "tasks": TASKS,
            "seconds": {
                "submitted": round(submitted, 1),
                "storm": round(kill_seconds, 1),
                "ended": round(total_seconds, 1),
            },
            "worker_kills": chaos.workers.total(),
            "kills_amid_claims": chaos.during_claims,
            "llm_calls": len(model.shown),
            "states": {str(status): count for status, count in states},
            **delays.figures,
        }
        with capsys.disabled():
            print("\n" + json.dumps(figures))  # noqa: T201
        emulator_failures = {id_ for id_, error in failed if is_emulator_failure(error)}
        assert len(emulator_failures) == len(failed) <= MAX_EMULATOR_FAILURES
        assert {status for status, _ in states} <= {"succeeded", "failed"}
        assert chat.faults(admin, emulator_failures) == {}
    assert chat.messages_with_wrong_context(model.shown, emulator_failures) == []
    assert pending_messages(cloud) == {}
    assert chaos.workers.total() == KILLS >= 6
    assert chaos.during_claims >= KILLS // 3 >= 2
    delays.check()


class RetryDelays:
    """Scheduled and measured delays before retries."""

    def __init__(self, rows: list[tuple[int, float, float]]) -> None:
        self.rows = rows

    @classmethod
    def of(cls, admin: Connection, tenant: Tenant) -> "RetryDelays":
        """Read the number, scheduled delay and measured delay of each retried attempt."""
        attempts = admin.execute(
            """
            SELECT number, extract(epoch FROM next_attempt_at - ended_at), extract(epoch FROM next_began - ended_at)
            FROM (SELECT *, lead(started_at) OVER (PARTITION BY work_id ORDER BY ended_at) AS next_began
                  FROM work_attempt WHERE tenant_id = %s) a
            WHERE outcome = 'retry' AND next_began IS NOT NULL
            """,
            [tenant.id],
        ).fetchall()
        return cls([(number, float(due), float(actual)) for number, due, actual in attempts])

    @property
    def figures(self) -> dict[str, object]:
        """Statistics for the report."""
        lateness = sorted(actual - due for _, due, actual in self.rows)
        delays_by_attempt = {number: [due for n, due, _ in self.rows if n == number] for number, _, _ in self.rows}
        return {
            "retries": len(self.rows),
            "waits_set": {
                number: [round(min(delays), 2), round(mean(delays), 2), round(max(delays), 2), len(delays)]
                for number, delays in sorted(delays_by_attempt.items())
            },
            "later_than_set": [
                round(value, 2) for value in (lateness[0], *quantiles(lateness, n=20)[::18], lateness[-1])
            ],
        }

    def check(self) -> None:
        """Assert that delays follow the policy. SQS may shorten them by up to a second."""
        assert len(self.rows) >= FAILURE_SHARE * TASKS / 4
        for number, due, actual in self.rows:
            assert BASE * FACTOR**number - WRITE_DELAY < due < BASE * FACTOR**number + JITTER
            assert actual > due - 1
