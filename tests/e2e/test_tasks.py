"""Conversations on the local cloud: with a model that fails and workers that are killed, each answer once and in order.

COUNTERFOIL_CHAOS_SEED repeats the order of kills and pauses; the rest depends on the machine. `make soak` does the same
with more messages and more kills.
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
from tests.e2e.chaos import Chaos, is_spoilt, own_cloud, watched
from tests.e2e.load import LOAD_SECONDS
from tests.e2e.waiting import until
from tests.llm.server import Failure, Request, Server, Step

pytestmark = [
    pytest.mark.e2e,
    # A connection whose other end was killed in the middle of an answer is closed by nobody but the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SEED = int(os.environ.get("COUNTERFOIL_CHAOS_SEED") or time.time_ns() % 1_000_000)
TASKS = 10 * (LOAD_SECONDS // 4)
MESSAGES = 10
"""Of one session."""
KILLS = max(6, TASKS // 50)
FAILING = 0.2
"""Of the messages: their first try fails with all its calls. And of the other calls as many."""
ANSWER_SECONDS = 0.05
BASE, FACTOR, JITTER = 1, 2, 1
"""Seconds, of the policy of tasks as it is unless somebody sets it otherwise."""
SETTINGS = {
    "LEASE_SECONDS": "15",
    "HEARTBEAT_SECONDS": "3",
    "PROTECTION_SECONDS": "20",
    "WATCHDOG_UNSENT_AFTER_SECONDS": "3",
    "WATCHDOG_RESEND_AFTER_SECONDS": "30",
    "LLM_PROVIDER": "openai",
    "LLM_MODEL": "scripted",
    "LLM_API_KEY": "none",
    "LLM_RETRY_BASE_SECONDS": "0.05",
    "CHAT_QUESTIONS_PER_DAY": "1000000",
    "BREAKER_FAILURES": "1000",  # what is to be seen here is the policy of the tasks
}
SECONDS = 300
"""Timeout for everything to end after the last kill."""


SPOILT_AT_MOST = max(20, TASKS // 50)
"""Messages of processes that the emulator takes the code away from. Usually there are none."""
WRITTEN_LATER = 0.5
"""Seconds by which the end of a try is written down after its wait was reckoned, on a machine that is busy."""


class Model(Server):
    """Answers a message with itself, where it answers at all; remembers the answers that it was shown with it."""

    def __init__(self) -> None:
        super().__init__(otherwise=lambda request: f"Re: {request.user}")
        self.random = Random(SEED)
        self.shown: list[tuple[str, list[str]]] = []
        self.left: dict[str, int] = {}
        self._held = Lock()

    def next(self, request: Request) -> Step:
        with self._held:
            said = [text for role, text in request.said if role == "assistant"]
            self.shown.append((request.user, said))
            left = self.left.setdefault(request.user, 3 if self.random.random() < FAILING else 0)
            self.left[request.user] = left - 1
            fails = left > 0 or self.random.random() < FAILING
        Event().wait(ANSWER_SECONDS)
        return self.random.choice([Failure(429), Failure(503), Failure(529)]) if fails else super().next(request)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    """The language model."""
    model = Model()
    with model:
        yield model


@pytest.fixture(scope="module")
def cloud(model: Model) -> Iterator[Cloud]:
    """A cloud of its own, whose leases are short."""
    with own_cloud("tasks", SETTINGS, model) as cloud:
        yield cloud


@pytest.fixture
def outbox(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outbox]:
    """Sends what is owed to the cloud's queues."""
    for name, value in cloud.state.emulator.environment.items():
        monkeypatch.setenv(name, value)
    aws.client.cache_clear()
    first, retries = cloud.outputs["TasksQueueUrl"], cloud.outputs["TasksRetryQueueUrl"]
    with closing(Database(cloud.database_url("counterfoil_worker"), max_connections=8)) as database:
        yield Outbox(database, {"tasks": first}, {"tasks": retries})
    aws.client.cache_clear()


class Talk:
    """What users say, each in sessions of his own, as fast as it is taken."""

    def __init__(self, cloud: Cloud, tenant: Tenant, outbox: Outbox) -> None:
        self.cloud, self.tenant, self.outbox = cloud, tenant, outbox
        self.said: dict[UUID, list[tuple[UUID, str]]] = {}
        """The messages of each session: their jobs and texts, in their order."""

    def session(self, number: int) -> None:
        """Say all that is said in one session."""
        kind = CHAT_COMPLETION
        assert kind is not None
        session: UUID | None = None
        for place in range(MESSAGES):
            text = f"message {place} of session {number}"
            payload: dict[str, Any] = {"message": text} | ({} if session is None else {"session_id": str(session)})
            order = store.order(kind, payload, user_id=f"user {number}")
            done = store.submit(self.cloud.database, self.tenant.id, order, datetime.now(UTC), bucket=None)
            session = session or done.task.job_id
            self.said.setdefault(session, []).append((done.task.job_id, text))
            self.outbox.send(done.sends)

    def faults(self, admin: Connection, spoilt: set[UUID]) -> Counter[str]:
        """What is wrong with the transcripts, in words, each with how many sessions it is wrong with.

        What has failed, as far as it may, has no answer, and those after it have theirs.
        """
        found: Counter[str] = Counter()
        for session, said in self.said.items():
            rows = admin.execute(
                "SELECT number, role, job_id, content FROM chat_message WHERE session_id = %s ORDER BY number",
                [session],
            ).fetchall()
            asked = [(job, content) for _, role, job, content in rows if role == "user"]
            answers = [(job, content) for _, role, job, content in rows if role == "assistant"]
            found["There is a gap"] += [row[0] for row in rows] != list(range(1, len(rows) + 1))
            found["Messages are not in the order in which they were said"] += asked != said
            wanted = [(job, f"Re: {text}") for job, text in said if job not in spoilt]
            found["Not every message has its answer, once and in order"] += answers != wanted
        return +found

    def shown_wrongly(self, shown: list[tuple[str, list[str]]], spoilt: set[UUID]) -> list[str]:
        """Messages with which the model was shown something else than what was answered before."""
        before = {
            text: [f"Re: {earlier}" for job, earlier in said[:place] if job not in spoilt]
            for said in self.said.values()
            for place, (_, text) in enumerate(said)
        }
        return [text for text, answers in shown if before[text] != answers]


def waiting(cloud: Cloud) -> dict[str, int]:
    """Messages that can be received, or were, in every queue that holds any.

    Those that are delayed are left out: a task that was woken needs its own no more, and drops it when it comes.
    """
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    with closing(cloud.client("sqs")) as sqs:
        found = {
            name: sum(map(int, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"].values()))
            for name, url in cloud.outputs.items()
            if name.endswith("QueueUrl")
        }
    return {name: number for name, number in found.items() if number}


def live(admin: Connection, tenant: Tenant) -> int:
    """Tasks that are not over."""
    row = admin.execute(
        "SELECT count(*) FROM task WHERE tenant_id = %s AND status IN ('pending', 'in-progress')", [tenant.id]
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_every_message_is_answered_once_and_in_order_while_the_model_fails_and_workers_die(
    cloud: Cloud, model: Model, outbox: Outbox, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant, _ = add_tenant(cloud, f"chat-{uuid4().hex[:8]}")
    talk, chaos = Talk(cloud, tenant, outbox), Chaos(cloud, Random(SEED), {"tasks": 1})
    began = time.monotonic()
    with watched(cloud, every=3), psycopg.connect(cloud.database_url("postgres"), autocommit=True) as admin:
        with ThreadPoolExecutor(4) as users:
            list(users.map(talk.session, range(TASKS // MESSAGES)))
        said = time.monotonic() - began
        for kill in range(KILLS):
            # Each after some more have ended: a process that is only starting holds nothing that could be lost.
            left = TASKS - (kill + 1) * TASKS // (KILLS + 2)
            until(lambda: live(admin, tenant) <= left, SECONDS)  # noqa: B023 - looked at before the loop goes on
            chaos.kill_worker()
        storm = time.monotonic() - began
        with suppress(AssertionError):  # the verdict tells what has not ended by then
            until(lambda: not live(admin, tenant), SECONDS)
        ended = time.monotonic() - began
        with suppress(AssertionError):
            until(lambda: not waiting(cloud), 150)
        waits = Waits.of(admin, tenant)
        states = admin.execute("SELECT status, count(*) FROM task GROUP BY 1").fetchall()
        failed = admin.execute("SELECT id, error FROM task WHERE status = 'failed'").fetchall()
        figures = {
            "seed": SEED,
            "tasks": TASKS,
            "seconds": {"said": round(said, 1), "storm": round(storm, 1), "ended": round(ended, 1)},
            "worker_kills": chaos.workers.total(),
            "kills_amid_claims": chaos.amid,
            "llm_calls": len(model.shown),
            "states": {str(status): count for status, count in states},
            **waits.figures,
        }
        with capsys.disabled():
            print("\n" + json.dumps(figures))  # noqa: T201
        spoilt = {id_ for id_, error in failed if is_spoilt(error)}
        assert len(spoilt) == len(failed) <= SPOILT_AT_MOST
        assert {status for status, _ in states} <= {"succeeded", "failed"}
        assert talk.faults(admin, spoilt) == {}
    assert talk.shown_wrongly(model.shown, spoilt) == []
    assert waiting(cloud) == {}
    assert chaos.workers.total() == KILLS >= 6
    assert chaos.amid >= KILLS // 3 >= 2
    waits.check()


class Waits:
    """How long failed tries waited for the next one: as their rows have it, and as it was."""

    def __init__(self, rows: list[tuple[int, float, float]]) -> None:
        self.rows = rows

    @classmethod
    def of(cls, admin: Connection, tenant: Tenant) -> "Waits":
        """Of each failed try: its number, the wait that was set, and the time until the next try of the same task."""
        found = admin.execute(
            """
            SELECT number, extract(epoch FROM next_attempt_at - ended_at), extract(epoch FROM next_began - ended_at)
            FROM (SELECT *, lead(began_at) OVER (PARTITION BY work_id ORDER BY ended_at) AS next_began
                  FROM work_attempt WHERE tenant_id = %s) a
            WHERE outcome = 'retry' AND next_began IS NOT NULL
            """,
            [tenant.id],
        ).fetchall()
        return cls([(number, float(due), float(was)) for number, due, was in found])

    @property
    def figures(self) -> dict[str, object]:
        """For the report."""
        late = sorted(was - due for _, due, was in self.rows)
        by_number = {number: [due for n, due, _ in self.rows if n == number] for number, _, _ in self.rows}
        return {
            "retries": len(self.rows),
            "waits_set": {
                number: [round(min(of), 2), round(mean(of), 2), round(max(of), 2), len(of)]
                for number, of in sorted(by_number.items())
            },
            "later_than_set": [round(value, 2) for value in (late[0], *quantiles(late, n=20)[::18], late[-1])],
        }

    def check(self) -> None:
        """Each wait follows the policy, and no retry began sooner than SQS's whole second allows."""
        assert len(self.rows) >= FAILING * TASKS / 4
        for number, due, was in self.rows:
            assert BASE * FACTOR**number - WRITTEN_LATER < due < BASE * FACTOR**number + JITTER
            assert was > due - 1
