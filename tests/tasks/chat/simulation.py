"""Simulated concurrent chats with reordered, duplicate and crashed deliveries.

The queue is in memory, and its clock advances when nothing is due. Database, consumers and archiver are real.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any
from uuid import UUID, uuid4

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import MAX_RECEIVES, RedeliverPolicy, RequeuePolicy
from counterfoil.delivery.sql import Claim, ClaimStatus
from counterfoil.delivery.work import Message, OutboxMessage
from counterfoil.errors import ContextWindowError, CounterfoilError, ServiceUnavailableError
from counterfoil.kinds import WORK_KINDS
from counterfoil.llm import LlmRequest
from counterfoil.tasks import store as tasks
from counterfoil.tasks.chat import CHAT_COMPLETION
from counterfoil.tasks.store import read_task_message
from counterfoil.tasks.task_type import Services
from functions.dead_letters.archiver import Archiver
from functions.tasks.work import run_task
from tests.delivery.harness import Clock, Context, FakeSqs, event, make_consumer, record
from tests.tasks.chat.conftest import USER, Model

KIND = WORK_KINDS["tasks"]
URL = "tasks"
WORKER = {"name": "tasks", "timeout": 120, "permits": 2, "start_margin": 30, "retries": "requeue"}
HIDDEN, LEASE = timedelta(seconds=300), timedelta(seconds=120)
ARN = "arn:aws:sqs:eu-central-1:000000000000:counterfoil-tasks"


@dataclass
class FaultRates:
    """Fault probabilities, 0 to 1."""

    model_fails: float = 0.2
    model_refuses: float = 0.05
    killed_after_claim: float = 0.07
    killed_before_settling: float = 0.07
    killed_before_acknowledging: float = 0.07
    delivered_twice: float = 0.07
    send_fails: float = 0.05
    canceled: float = 0.05
    time_passes: float = 0.3
    """Probability that time passes during an attempt. The attempt can then outlive its lease."""


NO_FAULTS = FaultRates(*[0.0] * 9)


@dataclass
class QueuedMessage:
    """A message in the in-memory queue."""

    body: str
    visible_at: datetime
    receives: int = 0
    handle: str = field(default_factory=lambda: str(uuid4()))


class Queue(FakeSqs):
    """In-memory SQS: random order, visibility timeouts and occasional send failures."""

    def __init__(self, clock: Clock, random: Random, send_fails: float) -> None:
        super().__init__()
        self.clock, self.random, self.send_fails = clock, random, send_fails
        self.messages: dict[str, QueuedMessage] = {}
        self.busy_workers = 0
        self.lock = threading.Lock()

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        if self.random.random() < self.send_fails:
            raise ServiceUnavailableError("SQS is unavailable")
        with self.lock:
            for entry in Entries:
                self.put(entry["MessageBody"], self.clock() + timedelta(seconds=entry["DelaySeconds"]))
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def put(self, body: str, visible_at: datetime) -> None:
        item = QueuedMessage(body, visible_at)
        self.messages[item.handle] = item

    def receive(self, random: Random, twice: float) -> list[QueuedMessage]:
        with self.lock:
            due = [message for message in self.messages.values() if message.visible_at <= self.clock()]
            received = random.sample(due, min(len(due), random.randint(1, 3)))
            self.busy_workers += bool(received)
            for message in received:
                message.receives += 1
                message.visible_at = self.clock() + HIDDEN
                if random.random() < twice:
                    self.put(message.body, self.clock())
        return received

    def finish_batch(self, received: list[QueuedMessage], failed: set[str]) -> None:
        """Delete acknowledged messages.

        Failed messages reappear after their visibility timeout.
        """
        with self.lock:
            for message in received:
                if message.handle not in failed:
                    self.messages.pop(message.handle, None)
                elif message.handle in self.visibility:
                    message.visible_at = self.clock() + timedelta(seconds=self.visibility[message.handle])

    def next_due(self) -> datetime | None:
        with self.lock:
            return min((message.visible_at for message in self.messages.values()), default=None)


class Simulation:
    """Users, workers, queue and clock of one simulation."""

    def __init__(
        self,
        url: str,
        maintenance_url: str,
        admin: Connection,
        tenant: UUID,
        queue: Queue,
        rates: FaultRates,
        seed: int,
    ) -> None:
        self.url, self.admin, self.tenant, self.queue, self.clock = url, admin, tenant, queue, queue.clock
        self.rates, self.seed, self.started_at = rates, seed, queue.clock()
        self.maintenance = Database(maintenance_url)
        self.archiver_lock = threading.Lock()
        self.model_calls: list[tuple[UUID, list[str]]] = []
        """Job id of each model call, with the earlier replies that the model saw."""
        self.fault_counts: Counter[str] = Counter()
        self.idle_lock = threading.Lock()
        self.jobs_by_session: dict[UUID, list[UUID]] = {}
        self.submitted, self.finished = threading.Event(), threading.Event()
        self.failures: list[BaseException] = []

    # -- users --------------------------------------------------------------------------------------------------------

    def submit_all(self, sessions: int, messages: int) -> None:
        """Submit all messages while the workers run."""
        kind = CHAT_COMPLETION
        assert kind is not None
        database, random = Database(self.url), Random(self.seed)
        outbox = self.outbox(database)
        open_counts: dict[UUID | None, int] = {}
        while open_counts or len(self.jobs_by_session) < sessions:
            session = random.choice(list(open_counts)) if open_counts and random.random() < 0.7 else None
            if session is None and len(self.jobs_by_session) == sessions:
                continue
            payload: dict[str, Any] = {"message": f"message {open_counts.get(session, 0) + 1}"}
            if session is not None:
                payload["session_id"] = str(session)
            order = tasks.build_request(kind, payload, user_id=USER, max_retry=4)
            submission = tasks.submit(database, self.tenant, order, self.clock(), bucket=None)
            job = submission.task.job_id
            session = session or job
            open_counts[session] = open_counts.get(session, 0) + 1
            self.jobs_by_session.setdefault(session, []).append(job)
            outbox.send(submission.messages)
            if open_counts[session] >= messages:
                del open_counts[session]
            if random.random() < self.rates.canceled:
                self.cancel(database, outbox, job)
        database.close()

    def cancel(self, database: Database, outbox: Outbox, job: UUID) -> None:
        def attempt() -> Sequence[OutboxMessage]:
            with database.tenant(self.tenant) as connection:
                canceled = tasks.cancel(connection, job, self.clock(), USER)
            assert canceled is not None
            return canceled[1]

        with suppress(tasks.TaskFinishedError):
            outbox.send(retry_on_conflict(attempt))

    def outbox(self, database: Database) -> Outbox:
        return Outbox(database, {"tasks": URL}, clock=self.clock)

    # -- workers ------------------------------------------------------------------------------------------------------

    def work(self, number: int) -> None:
        """Run one worker until the simulation has finished."""
        random = Random(f"{self.seed}/{number}")
        database = Database(self.url, max_connections=4)
        services = Services(llm=lambda: Model(lambda question: self.reply(question, random)))  # type: ignore[arg-type, return-value]
        consumer = make_consumer(
            database,
            lambda attempt: run_task(attempt, services),
            self.clock,
            read=read_task_message,
            worker=WORKER,
            queue_urls={"tasks": URL},
        )
        try:
            while not self.finished.is_set():
                received = self.queue.receive(random, self.rates.delivered_twice)
                if not received:
                    self.idle(database, random)
                    continue
                exhausted = [message for message in received if message.receives > MAX_RECEIVES]
                for message in exhausted:
                    self.archive(message)
                deliverable = [message for message in received if message not in exhausted]
                if deliverable:
                    self.deliver(database, consumer, services, deliverable, random)
                with self.queue.lock:
                    self.queue.busy_workers -= 1
        except BaseException as error:  # noqa: BLE001  # raised in `run`
            self.failures.append(error)
            self.finished.set()
        finally:
            database.close()

    def deliver(
        self, database: Database, consumer: Any, services: Services, deliverable: list[QueuedMessage], random: Random
    ) -> None:
        fault_draw = random.random()
        for name in ("killed_after_claim", "killed_before_settling", "killed_before_acknowledging"):
            fault_draw -= getattr(self.rates, name)
            if fault_draw < 0:
                self.fault_counts[name] += 1
                break
        else:
            name = "well"
        if name in ("killed_after_claim", "killed_before_settling"):
            self.crash(database, services, deliverable, then_work=name == "killed_before_settling")
            return
        records = [
            record(message.body, receives=message.receives, handle=message.handle, arn=ARN) for message in deliverable
        ]
        response = consumer.handle(event(*records), Context())
        if name == "well":
            failed = {failure["itemIdentifier"] for failure in response["batchItemFailures"]}
            self.queue.finish_batch(
                deliverable, {message["receiptHandle"] for message in records if message["messageId"] in failed}
            )

    def crash(
        self, database: Database, services: Services, deliverable: list[QueuedMessage], *, then_work: bool
    ) -> None:
        for queued_message in deliverable:
            (message,) = read_task_message(queued_message.body).messages
            claim = retry_on_conflict(partial(self.claim, database, message))
            if then_work and claim.status is ClaimStatus.CLAIMED:
                attempt = TenantAttempt(
                    message.work_id, self.tenant, message.revision, claim.attempts, claim.token, database, self.clock
                )
                with suppress(CounterfoilError):
                    run_task(attempt, services)

    def claim(self, database: Database, message: Message) -> Claim:
        now = self.clock()
        with database.delivery() as connection:
            claims = sql.claim(connection, KIND, [message], now=now, lease=now + LEASE, max_attempts=6)
        return claims[message]

    def reply(self, question: LlmRequest, random: Random) -> str:
        assert question.work_id is not None
        self.model_calls.append((question.work_id, [turn.assistant for turn in question.history]))
        probability = random.random()
        if probability < self.rates.model_fails:
            raise ServiceUnavailableError("The model is unavailable")
        if probability < self.rates.model_fails + self.rates.model_refuses:
            raise ContextWindowError("The prompt exceeds the context window")
        return f"Re: {question.user}"

    def archive(self, message: QueuedMessage) -> None:
        body = record(message.body, receives=message.receives, handle=message.handle, arn=f"{ARN}-dlq")
        with self.archiver_lock:
            self.fault_counts["archived"] += 1
            archiver = Archiver(
                self.maintenance,
                self.outbox(self.maintenance),
                RedeliverPolicy(),
                self.clock,
                {"tasks": RequeuePolicy()},
            )
            waiting = archiver.process("tasks", SQSRecord(body))
        self.queue.visibility[message.handle] = 0 if waiting is None else int(waiting.seconds) + 1
        self.queue.finish_batch([message], set() if waiting is None else {message.handle})

    # -- time ---------------------------------------------------------------------------------------------------------

    def idle(self, database: Database, random: Random) -> None:
        """Send unsent messages, advance the clock or end the simulation."""
        with self.idle_lock:
            is_quiet = self.submitted.is_set() and not self.queue.busy_workers
            if not is_quiet and random.random() >= self.rates.time_passes:
                self.finished.wait(0.002)
                return
            now = self.clock()
            next_due_at = self.queue.next_due()
            if next_due_at is not None and next_due_at <= now:
                return
            if self.outbox(database).send_unsent(created_before=now):
                return
            row = self.admin.execute(
                "SELECT count(*) FILTER (WHERE status IN ('pending', 'in-progress')) FROM task"
            ).fetchone()
            if is_quiet and row == (0,) and next_due_at is None:
                self.finished.set()
                return
            unsent = self.admin.execute("SELECT min(scheduled_at) FROM outbox WHERE sent_at IS NULL").fetchone()
            coming = [at for at in (next_due_at, unsent[0] if unsent else None) if at is not None]
            if coming:
                self.clock.now = max(now, min(coming))
            elif is_quiet:
                raise AssertionError(f"{row} tasks are unfinished, and no message is scheduled for them")

    def run(self, *, sessions: int, messages: int, workers: int) -> None:
        """Run until every message's task has ended."""
        threads = [threading.Thread(target=self.work, args=(number,)) for number in range(workers)]
        for thread in threads:
            thread.start()
        try:
            self.submit_all(sessions, messages)
        finally:
            self.submitted.set()
            for thread in threads:
                thread.join(120)
        assert not any(thread.is_alive() for thread in threads)
        if self.failures:
            raise self.failures[0]

    # -- results ------------------------------------------------------------------------------------------------------

    def faults(self) -> set[str]:
        """Return descriptions of all inconsistencies in the transcripts."""
        states: dict[UUID, str] = dict(
            self.admin.execute("SELECT id, coalesce(status, 'canceled') FROM task").fetchall()
        )
        return {
            fault for session, jobs in self.jobs_by_session.items() for fault in self.faults_of(session, jobs, states)
        }

    def faults_of(self, session: UUID, jobs: list[UUID], states: dict[UUID, str]) -> Iterator[str]:
        """Yield the inconsistencies of one session."""
        rows = self.admin.execute(
            "SELECT number, role, job_id, content FROM chat_message WHERE session_id = %s ORDER BY number", [session]
        ).fetchall()
        user_messages = {row[2]: row[3] for row in rows if row[1] == "user"}
        answered = [row[2] for row in rows if row[1] == "assistant"]
        if [row[0] for row in rows] != list(range(1, len(rows) + 1)):
            yield "A session's message numbers have a gap"
        if list(user_messages) != jobs:
            yield "A session's messages are not in submission order"
        if len(set(answered)) < len(answered):
            yield "A message has two replies"
        if answered != sorted(answered, key=jobs.index):
            yield "Replies are not in the order of their messages"
        if set(answered) != {job for job in jobs if states[job] == "succeeded"}:
            yield "Succeeded tasks and replies do not match"
        if any(row[3] != f"Re: {user_messages[row[2]]}" for row in rows if row[1] == "assistant"):
            yield "A message has the reply to another message"
        for job, history in self.model_calls:
            if job in user_messages:
                before = jobs[: jobs.index(job)]
                if history != [f"Re: {user_messages[item]}" for item in before if states[item] == "succeeded"]:
                    yield "The model did not see the earlier replies"
