"""A simulated world: the product's components on simulated AWS services.

Each history has its own world.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from math import inf
from random import Random
from typing import Any
from unittest import mock
from uuid import UUID

from counterfoil import aws, db, metrics
from counterfoil.db import IDLE_SECONDS, Connection
from counterfoil.delivery import work
from counterfoil.delivery.attempt import Attempt, BatchWorker, Effects, Outcome, TenantAttempt, Worker
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import RedeliverPolicy, RequeuePolicy
from counterfoil.delivery.work import ParsedMessage, read_message
from counterfoil.documents import files
from counterfoil.documents.matching import matcher
from counterfoil.documents.matching.reading import DocumentCache
from counterfoil.documents.sandbox import parsers
from counterfoil.errors import CounterfoilError, ServiceUnavailableError
from counterfoil.kinds import WORK_KINDS
from counterfoil.settings import Settings
from counterfoil.tasks.store import read_task_message
from counterfoil.tasks.task_type import Services
from functions.acquisition.work import acquire
from functions.dead_letters import handler as dead_letters
from functions.dead_letters.archiver import Archiver
from functions.diagnostics.work import diagnose
from functions.ingestion.work import ingest
from functions.matching.work import match, match_together
from functions.tasks.work import run_task
from functions.watchdog import recovery
from functions.watchdog import uploads as watchdog_uploads
from functions.watchdog.recovery import Watchdog
from tools.simulation import operator_actions, scenario
from tools.simulation.aws_lambda import Function, Handler, Mapping, Schedule
from tools.simulation.database import MAINTENANCE, SimulatedDatabase, Store, Transactions
from tools.simulation.faults import Fault, Faults
from tools.simulation.ledger import WorkItemRef, work_items_in
from tools.simulation.scenario import AttemptScript, AttemptScripts, Storage
from tools.simulation.scheduler import START, Greenlets, Process, ProcessState, Scheduler
from tools.simulation.sqs import ARN, MAX_VISIBILITY_SECONDS, URL, Message, Queue, Sqs

HANDLERS: dict[str, tuple[Worker, Callable[[str], ParsedMessage]]] = {
    "acquisition": (acquire, files.read_event),
    "ingestion": (ingest, read_message),
    "matching": (match, read_message),
    "diagnostics": (diagnose, read_message),
    "tasks": (partial(run_task, services=Services()), read_task_message),
}
BATCH_HANDLERS = {"matching": match_together}
"""Workers that can process several work items together."""
REQUEUEING = ("tasks",)
"""Workers with a retry queue."""
RETRY_URLS = {worker: f"{URL}counterfoil-{worker}-retry" for worker in REQUEUEING}
URLS = {worker: f"{URL}counterfoil-{worker}" for worker in HANDLERS}
WRONG_CLOCK_SHARE = 0.2
"""Probability that a process's clock is off by an hour."""
LOWERED_LIMIT_SHARE = 0.1
"""Probability that a release lowers the attempt limit in a history."""
HUNG_DATABASE_SHARE = 0.2
"""Probability that the database may hang in a history."""
UPLOAD_LOST_AFTER = timedelta(minutes=5)
"""Age at which an upload without an event counts as lost.

It is shorter than the longest delay of an S3 event, so that some events arrive after reconciliation.
"""
MAX_RECONCILIATION_DELAY = timedelta(hours=2)
"""Time after which every upload without an event must have a job, regardless of faults."""
LOST_EVENT_SHARE = 0.15
"""Share of S3 events that are lost, in one of three histories on average."""
SOURCES = {f"{ARN}counterfoil-{worker}-dlq": worker for worker in HANDLERS}

RESEND_SECONDS, VISIBILITY_TIMEOUT_MULTIPLE = 900, 3
"""Wait before a lost message is resent, in seconds and in visibility timeouts of its queue. The longer wait applies."""


@dataclass(frozen=True)
class SimulatedWorker:
    """A worker's settings. Times are in seconds.

    Capacity is lower than in the product, so that permits are contended.
    """

    timeout: int
    batch_size: int
    visibility: int
    start_margin: int
    permits: int = 2
    maximum_concurrency: int = 2
    reserved_concurrency: int = 2


WORKER_SETTINGS = {
    "acquisition": SimulatedWorker(timeout=120, batch_size=5, visibility=720, start_margin=30),
    "ingestion": SimulatedWorker(timeout=300, batch_size=4, visibility=1800, start_margin=60),
    "matching": SimulatedWorker(timeout=120, batch_size=10, visibility=720, start_margin=30, permits=4),
    "diagnostics": SimulatedWorker(timeout=60, batch_size=10, visibility=360, start_margin=20),
    "tasks": SimulatedWorker(timeout=120, batch_size=10, visibility=720, start_margin=30, reserved_concurrency=4),
}


@dataclass(eq=False)
class SimulatedAttempt:
    """An attempt, with the simulation's observations."""

    worker: str
    attempt: Attempt
    process: Process
    task: int
    started_after: int
    """Number of transactions started before the attempt."""
    started_at: float
    script: AttemptScript
    exception: BaseException | None = None
    has_ended: bool = False
    is_alone: bool = True
    """Whether the attempt started or continued without the other attempts in its batch."""
    runs: int = 0
    """Number of runs without the other attempts in its batch."""
    could_run: bool = False
    """Whether there was time for another run when the last run raised an error."""


@dataclass(eq=False)
class World:
    """All components and state of one history."""

    seed: int
    store: Store
    workers: dict[str, SimulatedWorker] = field(default_factory=lambda: dict(WORKER_SETTINGS))
    attempts: list[SimulatedAttempt] = field(default_factory=list)
    stalls: list[float] = field(default_factory=list)
    rematches: int = 0
    """Remaining number of matching attempts during which the work item gets new data."""
    max_attempts: int = 3
    """Attempt limit in processes that start now, for work items without their own limit."""
    attempt_limits: dict[UUID, int] = field(default_factory=dict)
    """Attempt limits of work items with their own limit."""
    unreadable: list[tuple[Queue, Message]] = field(default_factory=list)
    """Unreadable messages, with their queue."""
    unknown_work: list[tuple[str, UUID]] = field(default_factory=list)
    """Nonexistent work items that messages refer to, with their worker."""
    lost: set[WorkItemRef] = field(default_factory=set)
    """Work items whose current message was lost by a queue and not resent yet."""
    restored: set[tuple[str, UUID]] = field(default_factory=set)
    """Work items whose row is older than a sent message, with their worker."""
    names: dict[UUID, str] = field(default_factory=dict)
    archivers: dict[Process, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create the components."""
        self.scheduler = Scheduler(self.seed)
        self.random = self.scheduler.random
        self.faults = Faults(self.scheduler)
        self.transactions = Transactions(self.scheduler, self.faults, self.store)
        self.scripts = AttemptScripts(self.random, self.scheduler, self.random.choice((0, 0, 0.2, 0.5)))
        self.storage = Storage(self.scheduler, self.faults)
        self._events = Random(f"events of {self.seed}")  # noqa: S311  # separate, so that older seeds keep their histories
        self.uploads_without_event = 0
        """Number of uploads that the watchdog counted as lacking an S3 event."""
        self._lost_events = LOST_EVENT_SHARE if self._events.random() < 1 / 3 else 0
        self.rematches = self.random.choice((0, 0, 0, 1, 2))
        self.lease = self.random.choice((120, 40))
        is_short = self.random.random() < 0.2
        for worker, config in self.workers.items():
            self.workers[worker] = replace(
                config,
                permits=self.random.choice((1, 2, config.permits)),
                visibility=60 if is_short else config.visibility,
            )
        queues = {
            worker: Queue(
                self.scheduler, worker, config.visibility, Queue(self.scheduler, worker, 60 if is_short else 360)
            )
            for worker, config in self.workers.items()
        }
        retries = [
            Queue(self.scheduler, worker, self.workers[worker].visibility, queues[worker].dlq, "-retry")
            for worker in REQUEUEING
        ]
        self.sqs = Sqs(self.scheduler, self.faults, queues, retries)
        self.scheduler.at_point = self._strike
        self.functions = {worker: self._function(worker, config) for worker, config in self.workers.items()}
        self.functions["dead_letters"] = Function(
            self.scheduler, self.faults, "dead_letters", 60, 6, self._dead_letters
        )
        self.functions["watchdog"] = Function(self.scheduler, self.faults, "watchdog", 55, 1, self._watchdog)
        self.mappings = self._mappings(queues.values())
        self.scheduler.actions = [(mapping.can_poll, mapping.poll) for mapping in self.mappings]
        self._schedule = Schedule(self.scheduler, self.functions["watchdog"], self._watchdog_due)
        self.scheduler.before_time_passes = [self._next_visible, self.transactions.pass_time, self._schedule.pass_time]
        self.scheduler.after_time_passed = [
            self.transactions.time_passed,
            self._schedule.time_passed,
            self.sqs.time_passed,
            self._lose_message,
            self._lose_transaction,
        ]
        self._due_at: tuple[int, float] = (-1, inf)
        limit_random = Random(f"{self.seed}/limit")  # noqa: S311  # separate, so that older seeds keep their histories
        if limit_random.random() < LOWERED_LIMIT_SHARE:
            self.lower_limit(limit_random.uniform(0, 4000))
        if Random(f"{self.seed}/hung").random() < HUNG_DATABASE_SHARE:  # noqa: S311  # separate, as above
            self.faults.ensure(Fault.HUNG, 0)
        self.ended_at = 0
        """Number of events in the history, without the events of the checks."""

    def _mappings(self, queues: Iterable[Queue]) -> list[Mapping]:
        """Return the event source mappings for all queues and their dead-letter queues."""
        mappings = [
            Mapping(
                self.sqs, self.faults, queue, self.functions[queue.worker],
                batch_size=self.workers[queue.worker].batch_size,
                maximum_concurrency=self.workers[queue.worker].maximum_concurrency,
            )
            for queue in self.sqs.source_queues
        ]  # fmt: skip
        for queue in queues:
            assert queue.dlq is not None
            function = self.functions["dead_letters"]
            mappings.append(Mapping(self.sqs, self.faults, queue.dlq, function, batch_size=10, maximum_concurrency=2))
        return mappings

    def lower_limit(self, at: float) -> None:
        """Deploy a release at this time.

        It replaces idle processes and lowers the attempt limit by one.
        """

        def release() -> None:
            self.scheduler.sleep(at)
            self.max_attempts -= 1
            self.scheduler.log(f"a release allows {self.max_attempts} attempts")
            for function in self.functions.values():
                function.replace_idle()

        self.scheduler.spawn("release", release)

    # -- the product's components --------------------------------------------------------------------------------------

    def _settings(self, worker: str) -> Settings:
        config = self.workers[worker]
        return _settings(worker, config.timeout, config.permits, config.start_margin, self.lease, self.max_attempts)

    def _function(self, worker: str, config: SimulatedWorker) -> Function:
        def start(process: Process) -> Handler:
            process.clock_ahead = self._clock_error(process)
            settings = self._settings(worker)
            database = SimulatedDatabase(self.transactions, process)
            work, read = HANDLERS[worker]

            def single(attempt: TenantAttempt) -> Outcome:
                return self._handle(worker, work, process, attempt)

            def batch(connection: Connection, attempts: Sequence[TenantAttempt]) -> dict[UUID, Effects]:
                return self._handle_batch(worker, process, connection, attempts)

            consumer = Consumer(
                settings,
                BatchWorker(single, batch) if worker in BATCH_HANDLERS else single,
                database=database,
                outbox=self.outbox(database),
                visibility=Visibility(*(urls[worker] for urls in (URLS, RETRY_URLS) if worker in urls)),
                read=read,
                concurrency=ProtectionChecker(self, process),
            )
            return consumer.handle

        return Function(self.scheduler, self.faults, worker, config.timeout, config.reserved_concurrency, start)

    def outbox(self, database: SimulatedDatabase) -> Outbox:
        """Return an outbox on a process's database."""
        return Outbox(database, URLS, RETRY_URLS, random=self.random.random)

    def _clock_error(self, process: Process) -> timedelta:
        """Return the error of a process's clock. One clock in five is off by an hour."""
        clock_random = Random(f"{self.seed}/{process.name}")  # noqa: S311  # separate: older seeds keep their histories
        return (
            timedelta(seconds=clock_random.choice((-3600, 3600)))
            if clock_random.random() < WRONG_CLOCK_SHARE
            else timedelta()
        )

    def _dead_letters(self, process: Process) -> Handler:
        process.clock_ahead = self._clock_error(process)
        function = object.__new__(dead_letters._Function)  # without __init__: its components use simulated connections
        function.settings = _maintenance_settings()
        database = SimulatedDatabase(self.transactions, process, MAINTENANCE)
        policies = dict.fromkeys(REQUEUEING, RequeuePolicy())
        policy = RedeliverPolicy(max_attempts=self.max_attempts)
        function._archiver = Archiver(database, self.outbox(database), policy, database.now, policies)
        self.archivers[process] = function
        return dead_letters.handle

    def _watchdog(self, process: Process) -> Handler:
        process.clock_ahead = self._clock_error(process)
        database = SimulatedDatabase(self.transactions, process, MAINTENANCE)
        watchdog = Watchdog(_maintenance_settings(), database, self.outbox(database), database.now)

        def handle(_event: dict[str, Any], _context: Any) -> Any:
            recovered = watchdog.run()
            self.scheduler.log(str(recovered))
            self._reconcile_uploads(database)

        return handle

    def _reconcile_uploads(self, database: SimulatedDatabase) -> None:
        if not self.storage.objects:
            return
        try:
            created = watchdog_uploads.reconcile_uploads(
                database,
                scenario.BUCKET,
                self.scheduler.clock,
                lambda: inf,
                lost_after=UPLOAD_LOST_AFTER,
                is_queue_empty=lambda: not self.sqs.queues["acquisition"].messages,
            )
        except CounterfoilError as error:
            self.scheduler.log(f"uploads are not listed: {error}")
        else:
            self.scheduler.log(f"created jobs for {created} uploads without an event")

    # -- attempts ------------------------------------------------------------------------------------------------------

    def _handle(self, worker: str, work: Worker, process: Process, attempt: TenantAttempt) -> Outcome:
        scheduler, task = self.scheduler, self.scheduler.current
        assert task is not None
        script = self.scripts.next(worker, attempt.work_id)
        overlaps = any(not other.has_ended and other.attempt.work_id == attempt.work_id for other in self.attempts)
        if overlaps and script.seconds == 0 and self.random.random() < 0.7:
            script = replace(script, seconds=self.random.choice((10, 45, 90)))
        record = self._start_attempt(worker, process, attempt, script)
        record.runs, record.exception = record.runs + 1, None
        self._count_permits(worker, process)
        if worker == "matching" and self.rematches > 0 and self.random.random() < 0.3:
            self.rematches -= 1
            operator_actions.restart_work_item(self, (worker, attempt.work_id))
        scheduler.point(
            f"attempt {attempt.number} of {worker} {self.name(attempt.work_id)}, revision {attempt.revision}, "
            f"token {attempt.token}: {_describe_script(script)}"
        )
        try:
            outcome = self._run_attempt(work, attempt, script)
        except BaseException as error:
            record.exception = error
            deadline = attempt.deadline
            stopped = deadline.canceled.is_set() or deadline.superseded.is_set() or process.state is ProcessState.DEAD
            record.could_run = not stopped and deadline.remaining() > 0
            scheduler.log(f"raises {type(error).__name__}")
            raise
        finally:
            record.has_ended = True
        return _with_note(outcome, worker, attempt)

    def _start_attempt(
        self, worker: str, process: Process, attempt: Attempt, script: AttemptScript, *, is_alone: bool = True
    ) -> SimulatedAttempt:
        """Record an attempt that starts, or that continues alone after its batch failed."""
        task = self.scheduler.current
        assert task is not None
        for record in self.attempts:
            if record.attempt is attempt:
                record.task, record.script, record.has_ended, record.is_alone = task.number, script, False, is_alone
                return record
        start = self.transactions.started, self.scheduler.now
        self.attempts.append(SimulatedAttempt(worker, attempt, process, task.number, *start, script, is_alone=is_alone))
        return self.attempts[-1]

    def _count_permits(self, worker: str, process: Process) -> None:
        running = [other for other in self.attempts if other.process is process and not other.has_ended]
        if len(running) > self.workers[worker].permits:
            self.scheduler.fail(
                f"{len(running)} attempts run concurrently in {process.name}, which exceeds its permits"
            )

    def _handle_batch(
        self,
        worker: str,
        process: Process,
        connection: Connection,
        attempts: Sequence[TenantAttempt],
    ) -> dict[UUID, Effects]:
        if self.random.random() < 0.3:
            return {}  # in many batches, every attempt must run alone
        records = [
            self._start_attempt(worker, process, attempt, AttemptScript(), is_alone=False) for attempt in attempts
        ]
        self._count_permits(worker, process)
        self.scheduler.point(
            f"attempts of {worker} {', '.join(self.name(record.work_id) for record in attempts)} together"
        )
        try:
            effects = BATCH_HANDLERS[worker](connection, attempts)
        finally:
            for record in records:
                record.has_ended = True
        for attempt in attempts:
            if attempt.work_id in effects:
                _note(connection, worker, attempt)
        if self.random.random() < 0.1:
            raise ServiceUnavailableError("One of the work items fails the batch")
        return effects

    def _run_attempt(self, work: Worker, attempt: TenantAttempt, script: AttemptScript) -> Outcome:
        if not script.waits_after_work:
            self._wait(attempt, script)
        if script.deferred_for is not None:
            raise self.scripts.deferral(script.deferred_for)
        if script.error is not None and not script.after_work:
            raise script.error()
        outcome = work(attempt)
        if script.waits_after_work:
            self._wait(attempt, script)
        if script.error is not None:
            raise script.error()
        return outcome

    def _wait(self, attempt: Attempt, script: AttemptScript) -> None:
        if script.seconds == 0:
            return
        if script.ignores_cancel:
            self.scheduler.sleep(script.seconds)
            return
        deadline = attempt.deadline
        self.scheduler.wait(lambda: deadline.canceled.is_set() or deadline.superseded.is_set(), script.seconds)
        deadline.check()

    def is_event_lost(self) -> bool:
        """Decide at random whether an S3 event is lost."""
        return self._events.random() < self._lost_events

    def count_uploads_without_event(self, values: dict[metrics.Metric, float]) -> None:
        """Record the watchdog's metric for uploads without an event."""
        self.uploads_without_event += int(values[metrics.Metric.UPLOADS_WITHOUT_EVENT])

    def name(self, work_id: UUID) -> str:
        """Return a work item's name for the history."""
        return self.names.get(work_id, f"...{str(work_id)[-12:]}")

    # -- the world -----------------------------------------------------------------------------------------------------

    def _record_stall(self) -> None:
        self.stalls.append(self.scheduler.now)
        self.faults.locked_until = self.scheduler.now + IDLE_SECONDS

    def _strike(self, point: str) -> None:
        task, random = self.scheduler.current, self.random
        if task is None or task.process is None or not task.process.mortal:
            return
        if self.faults.inject(Fault.KILL):
            self.scheduler.kill(task.process, f"at {point}")
        if self.faults.inject(Fault.STALL):
            self._record_stall()
            self.scheduler.sleep(random.choice((0.1, 3, 15, 70, 130, 250, 400)))
        if self.faults.inject(Fault.PAUSE):
            self._record_stall()
            seconds = random.choice((20, self.lease + 5, self.lease + 30, 200))
            task.process.paused_until = self.scheduler.now + seconds
            if random.random() < 0.7:
                self.sqs.deliver_again(task.process.handles, seconds)
        if self.faults.inject(Fault.FAIL_OVER):
            self.faults.failover_until = self.scheduler.now + random.choice((1, 20, 120, 600))

    def _next_visible(self, nearest: float) -> float:
        times = [queue.next_visible() for queue in self.sqs.by_name.values()]
        return min([nearest, *(time for time in times if time is not None)])

    def _watchdog_due(self) -> float:
        """Return the earliest virtual time at which the watchdog has work."""
        if self._due_at[0] != self.transactions.writes:
            times = self.store.admin.execute(_NEXT_SEND).fetchone()
            assert times is not None
            due = [(time - START).total_seconds() for time in times if time is not None]
            ((jobs,),) = self.store.admin.execute("SELECT count(*) FROM acquisition_job").fetchall()
            if jobs < len(self.storage.objects) and self.scheduler.clock() < START + MAX_RECONCILIATION_DELAY:
                due.append(UPLOAD_LOST_AFTER.total_seconds())
            self._due_at = (self.transactions.writes, min(due, default=inf))
        return min([self._due_at[1], *self.resends_due().values()])

    def _lose_message(self) -> None:
        """Lose a message for an existing work item.

        In most cases, another message then keeps one of the worker's queues busy for hours.
        """
        queue = self.random.choice(self.sqs.source_queues)
        if not queue.messages or not self.faults.inject(Fault.MESSAGE_LOST):
            return
        message = self.random.choice(queue.messages)
        refs = work_items_in(queue.worker, message.body)
        rows = self._rows(queue.worker, [ref[1] for ref in refs])
        if not refs or len(rows) < len(refs):
            return
        queue.messages.remove(message)
        for row, ref in zip(rows, refs, strict=True):
            if ref[2:] >= row[1:]:
                self.lost.add((queue.worker, *row))
        self.scheduler.log(f"{queue.name} loses {message.id}")
        if self.random.random() < 0.7:
            queues = [candidate for candidate in self.sqs.source_queues if candidate.worker == queue.worker]
            self.put_unknown_work(self.random.choice(queues), delay=MAX_VISIBILITY_SECONDS)

    def _lose_transaction(self) -> None:
        """Lose the transaction that sent a message.

        The row is then older than the message. The message that the row refers to was acknowledged after the lost
        transaction.
        """
        queue = self.random.choice(tuple(self.sqs.by_name.values()))
        idle = [message for message in queue.messages if message.visible_at <= self.scheduler.now]
        if not idle or not self.faults.inject(Fault.TRANSACTION_LOST):
            return
        message = self.random.choice(idle)
        refs = work_items_in(queue.worker, message.body)
        rows = self._rows(queue.worker, [ref[1] for ref in refs])
        if "send_number" not in message.body or rows != [ref[1:] for ref in refs]:
            return
        body = json.loads(message.body)
        body[self.random.choice(("revision", "send_number"))] += 1
        message.body = json.dumps(body)
        self.restored.add(refs[0][:2])
        self.scheduler.log(f"{message.id} is newer than its row")

    def _rows(self, worker: str, ids: list[UUID]) -> list[tuple[Any, ...]]:
        """Return the id, revision and send number of existing work items.

        They are in the order of `ids`.
        """
        rows = self.store.admin.execute(WORK_KINDS[worker].sql(_NUMBERS), [ids]).fetchall()
        return sorted(rows, key=lambda row: ids.index(row[0]))

    def put_unknown_work(self, queue: Queue, delay: float = 0) -> None:
        """Put a message for a nonexistent work item into a queue."""
        message = work.Message(work_id=UUID(int=self.random.getrandbits(128), version=4), revision=1, send_number=0)
        self.unknown_work.append((queue.worker, message.work_id))
        body = scenario.task_body(message) if queue.worker == "tasks" else message.model_dump_json()
        self.sqs.put(queue, body, delay)

    def resends_due(self) -> dict[WorkItemRef, float]:
        """Return when the watchdog must resend each lost message, in virtual seconds."""
        due: dict[WorkItemRef, float] = {}
        for worker in {ref[0] for ref in self.lost}:
            ids = [ref[1] for ref in self.lost if ref[0] == worker]
            rows = self.store.admin.execute(
                WORK_KINDS[worker].sql(_LOST_SENDS), {"worker": worker, "ids": ids}
            ).fetchall()
            for id_, revision, send_number, since, waited in rows:
                minimum_wait = max(RESEND_SECONDS, VISIBILITY_TIMEOUT_MULTIPLE * self.workers[worker].visibility)
                due[worker, id_, revision, send_number] = (
                    since - START + max(timedelta(seconds=minimum_wait), waited)
                ).total_seconds()
        return {ref: due[ref] for ref in self.lost & due.keys()}

    def run(self) -> None:
        """Run until all work items are finished."""
        with _patch_product(self):
            try:
                self.scheduler.run()
            finally:
                self.faults.end()
                self.ended_at = len(self.scheduler.events)
                self.scheduler.close()


class ProtectionChecker(Greenlets):
    """Concurrency of a process that must protect its messages before it waits."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(world.scheduler, process)
        self._world = world

    def start(self, name: str, function: Callable[[], None]) -> None:
        """Start a task. Raises RuntimeError if a fault prevents a new thread."""
        if self._world.faults.inject(Fault.NO_THREAD):
            raise RuntimeError("can't start new thread")
        super().start(name, function)

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Wait in virtual time.

        Fails the history if messages in the batch are still unprotected.
        """
        task = self._world.scheduler.current
        if task is not None and task.name.endswith("/main") and timeout > 0 and not predicate():
            unprotected = [handle for handle in self._process.handles if handle not in self._world.sqs.protected]
            if unprotected:
                self._world.scheduler.fail(f"{self._process.name} waits before protecting {', '.join(unprotected)}")
        return super().wait_for(predicate, timeout)


def _describe_script(script: AttemptScript) -> str:
    if script.deferred_for is not None:
        return f"deferred for {script.deferred_for} s"
    text = (
        f"{script.seconds} s"
        + (" after the work" if script.waits_after_work else "")
        + (", ignores cancel" if script.ignores_cancel else "")
    )
    if script.error is None:
        return text
    return f"{text}, {type(script.error()).__name__} {'after' if script.after_work else 'before'} the work"


def _with_note(outcome: Outcome, worker: str, attempt: Attempt) -> Outcome:
    """Return the outcome, with effects that also record their commit in the ledger."""
    effects = outcome.effects

    def effects_with_note(connection: Any) -> Any:
        _note(connection, worker, attempt)
        return effects(connection)

    return replace(outcome, effects=effects_with_note)


_SETTINGS_CACHE: dict[tuple[Any, ...], Settings] = {}


def _settings(worker: str, timeout: int, permits: int, start_margin: int, lease: int, max_attempts: int) -> Settings:
    key = (worker, timeout, permits, start_margin, lease, max_attempts)
    if key not in _SETTINGS_CACHE:
        retries = "requeue" if worker in REQUEUEING else "redeliver"
        row = {"name": worker, "timeout": timeout, "permits": permits, "start_margin": start_margin, "retries": retries}
        _SETTINGS_CACHE[key] = Settings.model_validate(
            {
                "worker": row,
                "queue_urls": URLS,
                "retry_queue_urls": RETRY_URLS,
                "lease_seconds": lease,
                "heartbeat_interval_seconds": lease / 4,
                "redelivery_max_attempts": max_attempts,
            }
        )
    return _SETTINGS_CACHE[key]


def _maintenance_settings() -> Settings:
    if ("maintenance",) not in _SETTINGS_CACHE:
        _SETTINGS_CACHE["maintenance",] = Settings.model_validate(
            {
                "worker": {"name": "dead_letters", "timeout": 60, "start_margin": 25},
                "queue_urls": URLS,
                "retry_queue_urls": RETRY_URLS,
                "dead_letter_sources": SOURCES,
            }
        )
    return _SETTINGS_CACHE["maintenance",]


def _discard_metrics(*_values: Any, **_dimensions: str) -> None:
    """Do nothing, because a simulation has no metrics."""


@contextmanager
def _patch_product(world: World) -> Iterator[None]:
    """Replace the product's clients and clocks with this world's."""
    clients = {"sqs": world.sqs, "s3": world.storage}

    def monotonic() -> float:
        return world.scheduler.now

    def archiver() -> Any:
        task = world.scheduler.current
        assert task is not None
        assert task.process is not None
        return world.archivers[task.process]

    with (
        mock.patch.object(aws, "client", clients.__getitem__),
        mock.patch.object(db, "monotonic", monotonic),
        mock.patch.object(metrics, "emit", _discard_metrics),
        mock.patch.object(recovery, "emit", _discard_metrics),
        mock.patch.object(watchdog_uploads, "emit", world.count_uploads_without_event),
        mock.patch.object(watchdog_uploads, "run_with_deadline", lambda _seconds, call: call()),
        mock.patch.object(watchdog_uploads, "VERSIONS_PER_CALL", 1),
        mock.patch.object(watchdog_uploads, "MAX_CALLS", 1),
        mock.patch.object(parsers, "read", scenario.file_text),
        mock.patch.object(dead_letters, "function", archiver),
        mock.patch.object(matcher, "CACHE", DocumentCache()),  # must not contain documents from an earlier history
    ):
        yield


_NEXT_SEND = """
SELECT min(CASE WHEN scheduled_at > created_at + interval '900 s' THEN scheduled_at - interval '900 s'
                ELSE greatest(created_at + interval '60 s', scheduled_at - interval '900 s') END)
FROM outbox WHERE sent_at IS NULL
"""

_NUMBERS = "SELECT id, {revision}, {send_number} FROM {table} WHERE id = ANY(%s)"
_LOST_SENDS = """
SELECT t.id, t.{revision}, t.{send_number}, greatest(o.sent_at, t.{claimed_at}, t.{next_attempt_at},
       t.{lease_expires_at}), coalesce(o.sent_at - o.scheduled_at, '0')
FROM {table} t LEFT JOIN outbox o ON o.worker = %(worker)s AND o.work_id = t.id AND o.revision = t.{revision}
    AND o.send_number = t.{send_number}
WHERE t.id = ANY(%(ids)s) AND t.{status} IN ('pending', 'in-progress') AND (o.id IS NULL OR o.sent_at IS NOT NULL)
"""


def _note(connection: Any, worker: str, attempt: Attempt) -> None:
    connection.execute("SELECT simulation_effect(%s, %s, %s)", [worker, attempt.work_id, attempt.revision])
