"""Simulation of concurrent chats with reordered, duplicate and crashed deliveries.

The queue is in memory, and its clock advances when nothing is due. Database, engine and archiver are real.
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
    not_sent: float = 0.05
    canceled: float = 0.05
    time_flies: float = 0.3
    """Probability that time passes during work, so that attempts outlive their lease."""


NO_FAULTS = FaultRates(*[0.0] * 9)


@dataclass
class QueuedMessage:
    """A message in the queue."""

    body: str
    visible_at: datetime
    receives: int = 0
    handle: str = field(default_factory=lambda: str(uuid4()))


class Queue(FakeSqs):
    """In-memory SQS: random order, visibility timeouts and occasional send failures."""

    def __init__(self, clock: Clock, random: Random, not_sent: float) -> None:
        super().__init__()
        self.clock, self.random, self.not_sent = clock, random, not_sent
        self.messages: dict[str, QueuedMessage] = {}
        self.busy_workers = 0
        self.lock = threading.Lock()

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        if self.random.random() < self.not_sent:
            raise ServiceUnavailableError("SQS is unavailable")
        with self.lock:
            for entry in Entries:
                self.put(entry["MessageBody"], self.clock() + timedelta(seconds=entry["DelaySeconds"]))
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def put(self, body: str, visible_at: datetime) -> None:
        one = QueuedMessage(body, visible_at)
        self.messages[one.handle] = one

    def receive(self, random: Random, twice: float) -> list[QueuedMessage]:
        with self.lock:
            due = [one for one in self.messages.values() if one.visible_at <= self.clock()]
            taken = random.sample(due, min(len(due), random.randint(1, 3)))
            self.busy_workers += bool(taken)
            for one in taken:
                one.receives += 1
                one.visible_at = self.clock() + HIDDEN
                if random.random() < twice:
                    self.put(one.body, self.clock())
        return taken

    def finish_batch(self, taken: list[QueuedMessage], failed: set[str]) -> None:
        """Delete acknowledged messages. The others reappear after their visibility timeout."""
        with self.lock:
            for one in taken:
                if one.handle not in failed:
                    self.messages.pop(one.handle, None)
                elif one.handle in self.visibility:
                    one.visible_at = self.clock() + timedelta(seconds=self.visibility[one.handle])

    def next_due(self) -> datetime | None:
        with self.lock:
            return min((one.visible_at for one in self.messages.values()), default=None)


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
        """Job and visible earlier replies of each call to the model."""
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
        open_: dict[UUID | None, int] = {}
        while open_ or len(self.jobs_by_session) < sessions:
            session = random.choice(list(open_)) if open_ and random.random() < 0.7 else None
            if session is None and len(self.jobs_by_session) == sessions:
                continue
            payload: dict[str, Any] = {"message": f"message {open_.get(session, 0) + 1}"}
            if session is not None:
                payload["session_id"] = str(session)
            order = tasks.build_request(kind, payload, user_id=USER, max_retry=4)
            done = tasks.submit(database, self.tenant, order, self.clock(), bucket=None)
            job = done.task.job_id
            session = session or job
            open_[session] = open_.get(session, 0) + 1
            self.jobs_by_session.setdefault(session, []).append(job)
            outbox.send(done.sends)
            if open_[session] >= messages:
                del open_[session]
            if random.random() < self.rates.canceled:
                self.cancel(database, outbox, job)
        database.close()

    def cancel(self, database: Database, outbox: Outbox, job: UUID) -> None:
        def once() -> Sequence[OutboxMessage]:
            with database.tenant(self.tenant) as connection:
                found = tasks.cancel(connection, job, self.clock(), USER)
            assert found is not None
            return found[1]

        with suppress(tasks.TaskFinishedError):
            outbox.send(retry_on_conflict(once))

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
                taken = self.queue.receive(random, self.rates.delivered_twice)
                if not taken:
                    self.idle(database, random)
                    continue
                dead = [one for one in taken if one.receives > MAX_RECEIVES]
                for one in dead:
                    self.archive(one)
                live = [one for one in taken if one not in dead]
                if live:
                    self.deliver(database, consumer, services, live, random)
                with self.queue.lock:
                    self.queue.busy_workers -= 1
        except BaseException as error:  # noqa: BLE001  # raised in `run`
            self.failures.append(error)
            self.finished.set()
        finally:
            database.close()

    def deliver(
        self, database: Database, consumer: Any, services: Services, live: list[QueuedMessage], random: Random
    ) -> None:
        fate = random.random()
        for name in ("killed_after_claim", "killed_before_settling", "killed_before_acknowledging"):
            fate -= getattr(self.rates, name)
            if fate < 0:
                self.fault_counts[name] += 1
                break
        else:
            name = "well"
        if name in ("killed_after_claim", "killed_before_settling"):
            self.crash(database, services, live, then_work=name == "killed_before_settling")
            return
        records = [record(one.body, receives=one.receives, handle=one.handle, arn=ARN) for one in live]
        response = consumer.handle(event(*records), Context())
        if name == "well":
            failed = {failure["itemIdentifier"] for failure in response["batchItemFailures"]}
            self.queue.finish_batch(live, {one["receiptHandle"] for one in records if one["messageId"] in failed})

    def crash(self, database: Database, services: Services, live: list[QueuedMessage], *, then_work: bool) -> None:
        for one in live:
            (message,) = read_task_message(one.body).messages
            claim = retry_on_conflict(partial(self.claim, database, message))
            if then_work and claim.answer is ClaimStatus.CLAIMED:
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
            raise ContextWindowError("The prompt is longer than the model reads")
        return f"Re: {question.user}"

    def archive(self, one: QueuedMessage) -> None:
        body = record(one.body, receives=one.receives, handle=one.handle, arn=f"{ARN}-dlq")
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
        self.queue.visibility[one.handle] = 0 if waiting is None else int(waiting.visible_in) + 1
        self.queue.finish_batch([one], set() if waiting is None else {one.handle})

    # -- time ---------------------------------------------------------------------------------------------------------

    def idle(self, database: Database, random: Random) -> None:
        """Send unsent messages, advance the clock or end the simulation."""
        with self.idle_lock:
            is_quiet = self.submitted.is_set() and not self.queue.busy_workers
            if not is_quiet and random.random() >= self.rates.time_flies:
                self.finished.wait(0.002)
                return
            now = self.clock()
            due = self.queue.next_due()
            if due is not None and due <= now:
                return
            if self.outbox(database).send_unsent(created_before=now):
                return
            row = self.admin.execute(
                "SELECT count(*) FILTER (WHERE status IN ('pending', 'in-progress')) FROM task"
            ).fetchone()
            if is_quiet and row == (0,) and due is None:
                self.finished.set()
                return
            unsent = self.admin.execute("SELECT min(scheduled_at) FROM outbox WHERE sent_at IS NULL").fetchone()
            coming = [at for at in (due, unsent[0] if unsent else None) if at is not None]
            if coming:
                self.clock.now = max(now, min(coming))
            elif is_quiet:
                raise AssertionError(f"{row} tasks are unfinished, and no message is scheduled for them")

    def run(self, *, sessions: int, messages: int, workers: int) -> None:
        """Run until every message is answered or has ended without a reply."""
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
            yield "The message numbers of a session have a gap"
        if list(user_messages) != jobs:
            yield "Messages of a session are not in submission order"
        if len(set(answered)) < len(answered):
            yield "A message has two replies"
        if answered != sorted(answered, key=jobs.index):
            yield "Replies are not in the order of their messages"
        if set(answered) != {job for job in jobs if states[job] == "succeeded"}:
            yield "Succeeded tasks and replies do not match"
        if any(row[3] != f"Re: {user_messages[row[2]]}" for row in rows if row[1] == "assistant"):
            yield "A message has the reply to another message"
        for job, shown in self.model_calls:
            if job in user_messages:
                before = jobs[: jobs.index(job)]
                if shown != [f"Re: {user_messages[one]}" for one in before if states[one] == "succeeded"]:
                    yield "The model did not see the earlier replies"
