"""One history: composes the product's parts with the simulated world, runs it to rest, and checks what came of it."""

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
from counterfoil.delivery.work import Intake, read_message
from counterfoil.documents import files
from counterfoil.documents.matching import matcher
from counterfoil.documents.matching.reading import Documents
from counterfoil.documents.sandbox import parsers
from counterfoil.errors import CounterfoilError, ServiceUnavailableError
from counterfoil.kinds import KINDS
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
from tools.simulation import people, scenario
from tools.simulation.aws_lambda import Function, Handler, Mapping, Schedule
from tools.simulation.database import KEEPER, SimulatedDatabase, Store, Transactions
from tools.simulation.faults import Fault, Faults
from tools.simulation.ledger import Named, named
from tools.simulation.scenario import Behaviour, Script, Storage
from tools.simulation.scheduler import START, Greenlets, Life, Process, Scheduler
from tools.simulation.sqs import ARN, LONGEST, URL, Message, Queue, Sqs

WORKERS: dict[str, tuple[Worker, Callable[[str], Intake]]] = {
    "acquisition": (acquire, files.read_event),
    "ingestion": (ingest, read_message),
    "matching": (match, read_message),
    "diagnostics": (diagnose, read_message),
    "tasks": (partial(run_task, services=Services()), read_task_message),
}
TOGETHER = {"matching": match_together}
"""Of those, the ones that can do several works in one go."""
REQUEUEING = ("tasks",)
"""Of those, the ones that have a queue for retries."""
RETRY_URLS = {worker: f"{URL}counterfoil-{worker}-retry" for worker in REQUEUEING}
URLS = {worker: f"{URL}counterfoil-{worker}" for worker in WORKERS}
WRONG_CLOCKS = 0.2
"""Share of the processes whose clock is wrong by an hour."""
LOWERED_LIMIT = 0.1
"""Share of the histories in which a release lowers the limit of attempts."""
HUNG_DATABASE = 0.2
"""Share of the histories in which the database may hang."""
UPLOAD_LOST_AFTER = timedelta(minutes=5)
"""Shorter than the latest S3 event takes, so that some arrive after the upload was reconciled."""
RECONCILED_WITHIN = timedelta(hours=2)
"""By then every upload without an event has a job, whatever fails."""
LOST_EVENTS = 0.15
"""Share of S3 events that are lost, in every third history."""
SOURCES = {f"{ARN}counterfoil-{worker}-dlq": worker for worker in WORKERS}

RESEND_SECONDS, VISIBILITY_TIMEOUTS = 900, 3
"""A lost message is resent after the longer of these: seconds, or visibility timeouts of its queue."""


@dataclass(frozen=True)
class Row:
    """What the simulation takes from a worker's row of the table, with fewer places, so that they are contended."""

    timeout: int
    batch_size: int
    visibility: int
    start_margin: int
    permits: int = 2
    maximum_concurrency: int = 2
    reserved: int = 2


ROWS = {
    "acquisition": Row(timeout=120, batch_size=5, visibility=720, start_margin=30),
    "ingestion": Row(timeout=300, batch_size=4, visibility=1800, start_margin=60),
    "matching": Row(timeout=120, batch_size=10, visibility=720, start_margin=30, permits=4),
    "diagnostics": Row(timeout=60, batch_size=10, visibility=360, start_margin=20),
    "tasks": Row(timeout=120, batch_size=10, visibility=720, start_margin=30, reserved=4),
}


@dataclass(eq=False)
class Try:
    """One attempt as the simulation saw it from inside."""

    worker: str
    attempt: Attempt
    process: Process
    task: int
    begun_after: int
    """Transactions begun when it began."""
    at: float
    behaviour: Behaviour
    raised: BaseException | None = None
    ended: bool = False
    by_itself: bool = True
    """Whether it went on, or began, without the others of its batch."""
    runs: int = 0
    """Runs without the others of its batch."""
    could_run: bool = False
    """Whether there was time for another run when the last one raised."""


@dataclass(eq=False)
class World:
    """Everything of one history."""

    seed: int
    store: Store
    rows: dict[str, Row] = field(default_factory=lambda: dict(ROWS))
    tries: list[Try] = field(default_factory=list)
    stalls: list[float] = field(default_factory=list)
    rematches: int = 0
    """How many works get new data while they are worked on."""
    max_attempts: int = 3
    """Attempts of a document: what processes that start now are configured with."""
    bounds: dict[UUID, int] = field(default_factory=dict)
    """How often works may be tried that say so for themselves."""
    bad: list[tuple[Queue, Message]] = field(default_factory=list)
    """Messages that nobody can read."""
    strays: list[tuple[str, UUID]] = field(default_factory=list)
    """Works that messages name and that do not exist, by worker."""
    lost: set[Named] = field(default_factory=set)
    """Current messages that a queue has lost and that are not resent yet."""
    restored: set[tuple[str, UUID]] = field(default_factory=set)
    """Works whose row is older than a message that was sent, by worker."""
    names: dict[UUID, str] = field(default_factory=dict)
    archivers: dict[Process, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Compose."""
        self.scheduler = Scheduler(self.seed)
        self.random = self.scheduler.random
        self.faults = Faults(self.scheduler)
        self.transactions = Transactions(self.scheduler, self.faults, self.store)
        self.script = Script(self.random, self.scheduler, self.random.choice((0, 0, 0.2, 0.5)))
        self.storage = Storage(self.scheduler, self.faults)
        self._events = Random(f"events of {self.seed}")  # noqa: S311  # of its own: stored seeds stay the same histories
        self.uploads_without_event = 0
        """Uploads that the watchdog counted, because their S3 event was lost."""
        self._lost_events = LOST_EVENTS if self._events.random() < 1 / 3 else 0
        self.rematches = self.random.choice((0, 0, 0, 1, 2))
        self.lease = self.random.choice((120, 40))
        short = self.random.random() < 0.2
        for worker, row in self.rows.items():
            self.rows[worker] = replace(
                row, permits=self.random.choice((1, 2, row.permits)), visibility=60 if short else row.visibility
            )
        queues = {
            worker: Queue(self.scheduler, worker, row.visibility, Queue(self.scheduler, worker, 60 if short else 360))
            for worker, row in self.rows.items()
        }
        retries = [
            Queue(self.scheduler, worker, self.rows[worker].visibility, queues[worker].dead, "-retry")
            for worker in REQUEUEING
        ]
        self.sqs = Sqs(self.scheduler, self.faults, queues, retries)
        self.scheduler.at_point = self._strike
        self.functions = {worker: self._function(worker, row) for worker, row in self.rows.items()}
        self.functions["dead_letters"] = Function(
            self.scheduler, self.faults, "dead_letters", 60, 6, self._dead_letters
        )
        self.functions["watchdog"] = Function(self.scheduler, self.faults, "watchdog", 55, 1, self._watchdog)
        self.mappings = self._mappings(queues.values())
        self.scheduler.actions = [(mapping.can_poll, mapping.poll) for mapping in self.mappings]
        self._schedule = Schedule(self.scheduler, self.functions["watchdog"], self._watchdog_due)
        self.scheduler.before_time_passes = [self._messages_show, self.transactions.pass_time, self._schedule.pass_time]
        self.scheduler.after_time_passed = [
            self.transactions.time_passed,
            self._schedule.time_passed,
            self.sqs.time_passed,
            self._lose_message,
            self._lose_transaction,
        ]
        self._due_at: tuple[int, float] = (-1, inf)
        chance = Random(f"{self.seed}/limit")  # noqa: S311  # its own, so that older seeds keep their histories
        if chance.random() < LOWERED_LIMIT:
            self.lower_limit(chance.uniform(0, 4000))
        if Random(f"{self.seed}/hung").random() < HUNG_DATABASE:  # noqa: S311  # its own, as above
            self.faults.ensure(Fault.HUNG, 0)
        self.ended_at = 0
        """Lines of the history; what the checks do is none of it."""

    def _mappings(self, queues: Iterable[Queue]) -> list[Mapping]:
        """The event source mappings of all queues and of the dead-letter queues of `queues`."""
        found = [
            Mapping(
                self.sqs, self.faults, queue, self.functions[queue.worker],
                batch_size=self.rows[queue.worker].batch_size,
                maximum_concurrency=self.rows[queue.worker].maximum_concurrency,
            )
            for queue in self.sqs.feeding
        ]  # fmt: skip
        for queue in queues:
            assert queue.dead is not None
            function = self.functions["dead_letters"]
            found.append(Mapping(self.sqs, self.faults, queue.dead, function, batch_size=10, maximum_concurrency=2))
        return found

    def lower_limit(self, at: float) -> None:
        """Have a release replace every idle process at this time and allow one attempt less."""

        def release() -> None:
            self.scheduler.sleep(at)
            self.max_attempts -= 1
            self.scheduler.say(f"a release allows {self.max_attempts} attempts")
            for function in self.functions.values():
                function.replace_idle()

        self.scheduler.spawn("release", release)

    # -- the product's parts ------------------------------------------------------------------------------------------

    def _settings(self, worker: str) -> Settings:
        row = self.rows[worker]
        return _settings(worker, row.timeout, row.permits, row.start_margin, self.lease, self.max_attempts)

    def _function(self, worker: str, row: Row) -> Function:
        def start(process: Process) -> Handler:
            process.clock_ahead = self._clock_error(process)
            settings = self._settings(worker)
            database = SimulatedDatabase(self.transactions, process)
            work, read = WORKERS[worker]

            def alone(attempt: TenantAttempt) -> Outcome:
                return self._work(worker, work, process, attempt)

            def together(connection: Connection, attempts: Sequence[TenantAttempt]) -> dict[UUID, Effects]:
                return self._work_together(worker, process, connection, attempts)

            consumer = Consumer(
                settings,
                BatchWorker(alone, together) if worker in TOGETHER else alone,
                database=database,
                outbox=self.outbox(database),
                visibility=Visibility(*(urls[worker] for urls in (URLS, RETRY_URLS) if worker in urls)),
                read=read,
                concurrency=Protecting(self, process),
            )
            return consumer.handle

        return Function(self.scheduler, self.faults, worker, row.timeout, row.reserved, start)

    def outbox(self, database: SimulatedDatabase) -> Outbox:
        """The outbox as a process of this world has it."""
        return Outbox(database, URLS, RETRY_URLS, random=self.random.random)

    def _clock_error(self, process: Process) -> timedelta:
        """Error of a process's clock. One in five is far off."""
        chance = Random(f"{self.seed}/{process.name}")  # noqa: S311  # its own, so that older seeds keep their histories
        return timedelta(seconds=chance.choice((-3600, 3600))) if chance.random() < WRONG_CLOCKS else timedelta()

    def _dead_letters(self, process: Process) -> Handler:
        process.clock_ahead = self._clock_error(process)
        function = object.__new__(dead_letters._Function)  # its parts, on simulated connections
        function.settings = _keeper_settings()
        database = SimulatedDatabase(self.transactions, process, KEEPER)
        others = dict.fromkeys(REQUEUEING, RequeuePolicy())
        policy = RedeliverPolicy(max_attempts=self.max_attempts)
        function._archiver = Archiver(database, self.outbox(database), policy, database.now, others)
        self.archivers[process] = function
        return dead_letters.handle

    def _watchdog(self, process: Process) -> Handler:
        process.clock_ahead = self._clock_error(process)
        database = SimulatedDatabase(self.transactions, process, KEEPER)
        watchdog = Watchdog(_keeper_settings(), database, self.outbox(database), database.now)

        def handle(_event: dict[str, Any], _context: Any) -> Any:
            recovered = watchdog.run()
            self.scheduler.say(str(recovered))
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
            self.scheduler.say(f"uploads are not listed: {error}")
        else:
            self.scheduler.say(f"{created} uploads without an event")

    # -- one try ------------------------------------------------------------------------------------------------------

    def _work(self, worker: str, work: Worker, process: Process, attempt: TenantAttempt) -> Outcome:
        scheduler, task = self.scheduler, self.scheduler.current
        assert task is not None
        behaviour = self.script.next(worker, attempt.work_id)
        overlaps = any(not other.ended and other.attempt.work_id == attempt.work_id for other in self.tries)
        if overlaps and behaviour.seconds == 0 and self.random.random() < 0.7:
            behaviour = replace(behaviour, seconds=self.random.choice((10, 45, 90)))
        one = self._begun(worker, process, attempt, behaviour)
        one.runs, one.raised = one.runs + 1, None
        self._count_permits(worker, process)
        if worker == "matching" and self.rematches > 0 and self.random.random() < 0.3:
            self.rematches -= 1
            people.redrive(self, (worker, attempt.work_id))
        scheduler.point(
            f"try {attempt.number} of {worker} {self.name(attempt.work_id)}, revision {attempt.revision}, "
            f"token {attempt.token}: {_told(behaviour)}"
        )
        try:
            outcome = self._carried_out(work, attempt, behaviour)
        except BaseException as error:
            one.raised = error
            deadline = attempt.deadline
            stopped = deadline.cancelled.is_set() or deadline.superseded.is_set() or process.life is Life.DEAD
            one.could_run = not stopped and deadline.remaining() > 0
            scheduler.say(f"raises {type(error).__name__}")
            raise
        finally:
            one.ended = True
        return _with_note(outcome, worker, attempt)

    def _begun(
        self, worker: str, process: Process, attempt: Attempt, behaviour: Behaviour, *, by_itself: bool = True
    ) -> Try:
        """A try that begins now, or goes on by itself after one together with others."""
        task = self.scheduler.current
        assert task is not None
        for one in self.tries:
            if one.attempt is attempt:
                one.task, one.behaviour, one.ended, one.by_itself = task.number, behaviour, False, by_itself
                return one
        at = self.transactions.begun, self.scheduler.now
        self.tries.append(Try(worker, attempt, process, task.number, *at, behaviour, by_itself=by_itself))
        return self.tries[-1]

    def _count_permits(self, worker: str, process: Process) -> None:
        running = [other for other in self.tries if other.process is process and not other.ended]
        if len(running) > self.rows[worker].permits:
            self.scheduler.fail(f"{len(running)} tries run at once in {process.name}, past its permits")

    def _work_together(
        self,
        worker: str,
        process: Process,
        connection: Connection,
        attempts: Sequence[TenantAttempt],
    ) -> dict[UUID, Effects]:
        if self.random.random() < 0.3:
            return {}  # so that many attempts still run alone
        tries = [self._begun(worker, process, attempt, Behaviour(), by_itself=False) for attempt in attempts]
        self._count_permits(worker, process)
        self.scheduler.point(f"tries of {worker} {', '.join(self.name(one.work_id) for one in attempts)} together")
        try:
            effects = TOGETHER[worker](connection, attempts)
        finally:
            for one in tries:
                one.ended = True
        for attempt in attempts:
            if attempt.work_id in effects:
                _note(connection, worker, attempt)
        if self.random.random() < 0.1:
            raise ServiceUnavailableError("It is spoiled by one of them")
        return effects

    def _carried_out(self, work: Worker, attempt: TenantAttempt, behaviour: Behaviour) -> Outcome:
        if not behaviour.late:
            self._take_time(attempt, behaviour)
        if behaviour.deferred_for is not None:
            raise self.script.deferral(behaviour.deferred_for)
        if behaviour.error is not None and not behaviour.after_work:
            raise behaviour.error()
        outcome = work(attempt)
        if behaviour.late:
            self._take_time(attempt, behaviour)
        if behaviour.error is not None:
            raise behaviour.error()
        return outcome

    def _take_time(self, attempt: Attempt, behaviour: Behaviour) -> None:
        if behaviour.seconds == 0:
            return
        if behaviour.deaf:
            self.scheduler.sleep(behaviour.seconds)
            return
        deadline = attempt.deadline
        self.scheduler.wait(lambda: deadline.cancelled.is_set() or deadline.superseded.is_set(), behaviour.seconds)
        deadline.check()

    def loses_event(self) -> bool:
        """Draw the loss of an S3 event."""
        return self._events.random() < self._lost_events

    def count_uploads_without_event(self, values: dict[metrics.Metric, float]) -> None:
        """Record the watchdog's metrics of uploads."""
        self.uploads_without_event += int(values[metrics.Metric.UPLOADS_WITHOUT_EVENT])

    def name(self, work_id: UUID) -> str:
        """How the history calls a work."""
        return self.names.get(work_id, f"...{str(work_id)[-12:]}")

    # -- the world ----------------------------------------------------------------------------------------------------

    def _stand_still(self) -> None:
        self.stalls.append(self.scheduler.now)
        self.faults.locked_until = self.scheduler.now + IDLE_SECONDS

    def _strike(self, what: str) -> None:
        task, random = self.scheduler.current, self.random
        if task is None or task.process is None or not task.process.mortal:
            return
        if self.faults.strikes(Fault.KILL):
            self.scheduler.kill(task.process, f"at {what}")
        if self.faults.strikes(Fault.STALL):
            self._stand_still()
            self.scheduler.sleep(random.choice((0.1, 3, 15, 70, 130, 250, 400)))
        if self.faults.strikes(Fault.PAUSE):
            self._stand_still()
            seconds = random.choice((20, self.lease + 5, self.lease + 30, 200))
            task.process.paused_until = self.scheduler.now + seconds
            if random.random() < 0.7:
                self.sqs.deliver_again(task.process.handles, seconds)
        if self.faults.strikes(Fault.FAIL_OVER):
            self.faults.lasting_until = self.scheduler.now + random.choice((1, 20, 120, 600))

    def _messages_show(self, nearest: float) -> float:
        shows = [queue.next_visible() for queue in self.sqs.by_name.values()]
        return min([nearest, *(at for at in shows if at is not None)])

    def _watchdog_due(self) -> float:
        """When, at the earliest, the watchdog would find something to do, as far as the database tells now."""
        if self._due_at[0] != self.transactions.writes:
            row = self.store.admin.execute(_DUE).fetchone()
            assert row is not None
            due = [(at - START).total_seconds() for at in row if at is not None]
            ((jobs,),) = self.store.admin.execute("SELECT count(*) FROM acquisition_job").fetchall()
            if jobs < len(self.storage.objects) and self.scheduler.clock() < START + RECONCILED_WITHIN:
                due.append(UPLOAD_LOST_AFTER.total_seconds())
            self._due_at = (self.transactions.writes, min(due, default=inf))
        return min([self._due_at[1], *self.resends_due().values()])

    def _lose_message(self) -> None:
        """Lose a message of work that has a row.

        In most cases another message then keeps a queue of its worker busy for hours.
        """
        queue = self.random.choice(self.sqs.feeding)
        if not queue.messages or not self.faults.strikes(Fault.MESSAGE_LOST):
            return
        message = self.random.choice(queue.messages)
        names = named(queue.worker, message.body)
        rows = self._rows(queue.worker, [name[1] for name in names])
        if not names or len(rows) < len(names):
            return
        queue.messages.remove(message)
        for row, name in zip(rows, names, strict=True):
            if name[2:] >= row[1:]:
                self.lost.add((queue.worker, *row))
        self.scheduler.say(f"{queue.name} loses {message.id}")
        if self.random.random() < 0.7:
            others = [other for other in self.sqs.feeding if other.worker == queue.worker]
            self.put_stray(self.random.choice(others), delay=LONGEST)

    def _lose_transaction(self) -> None:
        """Lose the transaction that sent a message, so that its row is older.

        The message that the row still names was acknowledged after that transaction.
        """
        queue = self.random.choice(tuple(self.sqs.by_name.values()))
        idle = [message for message in queue.messages if message.visible_at <= self.scheduler.now]
        if not idle or not self.faults.strikes(Fault.TRANSACTION_LOST):
            return
        message = self.random.choice(idle)
        names = named(queue.worker, message.body)
        rows = self._rows(queue.worker, [name[1] for name in names])
        if "send_number" not in message.body or rows != [name[1:] for name in names]:
            return
        body = json.loads(message.body)
        body[self.random.choice(("revision", "send_number"))] += 1
        message.body = json.dumps(body)
        self.restored.add(names[0][:2])
        self.scheduler.say(f"{message.id} is newer than its row")

    def _rows(self, worker: str, ids: list[UUID]) -> list[tuple[Any, ...]]:
        """Id, revision and send number of works, in the order of `ids`."""
        rows = self.store.admin.execute(KINDS[worker].sql(_NUMBERS), [ids]).fetchall()
        return sorted(rows, key=lambda row: ids.index(row[0]))

    def put_stray(self, queue: Queue, delay: float = 0) -> None:
        """Put a message about deleted work into a queue."""
        stray = work.Message(work_id=UUID(int=self.random.getrandbits(128), version=4), revision=1, send_number=0)
        self.strays.append((queue.worker, stray.work_id))
        body = scenario.task_body(stray) if queue.worker == "tasks" else stray.model_dump_json()
        self.sqs.put(queue, body, delay)

    def resends_due(self) -> dict[Named, float]:
        """When the watchdog must resend each lost message that its work still waits for, in virtual seconds."""
        due: dict[Named, float] = {}
        for worker in {name[0] for name in self.lost}:
            ids = [name[1] for name in self.lost if name[0] == worker]
            rows = self.store.admin.execute(KINDS[worker].sql(_SENT), {"worker": worker, "ids": ids}).fetchall()
            for id_, revision, send_number, since, waited in rows:
                patience = max(RESEND_SECONDS, VISIBILITY_TIMEOUTS * self.rows[worker].visibility)
                due[worker, id_, revision, send_number] = (
                    since - START + max(timedelta(seconds=patience), waited)
                ).total_seconds()
        return {name: due[name] for name in self.lost & due.keys()}

    def run(self) -> None:
        """Run to rest."""
        with _product_in(self):
            try:
                self.scheduler.run()
            finally:
                self.faults.end()
                self.ended_at = len(self.scheduler.events)
                self.scheduler.close()


class Protecting(Greenlets):
    """Concurrency of a consumer's process, which looks whether messages are protected before anything waits."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(world.scheduler, process)
        self._world = world
        self._own = process

    def begin(self, name: str, function: Callable[[], None]) -> None:
        """Start a task, if the machine has a thread for it."""
        if self._world.faults.strikes(Fault.NO_THREAD):
            raise RuntimeError("can't start new thread")
        super().begin(name, function)

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Wait; a batch must not, before it has asked for the protection of all its messages."""
        task = self._world.scheduler.current
        if task is not None and task.name.endswith("/main") and timeout > 0 and not predicate():
            exposed = [handle for handle in self._own.handles if handle not in self._world.sqs.protected]
            if exposed:
                self._world.scheduler.fail(f"{self._own.name} waits before it has protected {', '.join(exposed)}")
        return super().wait_for(predicate, timeout)


def _told(behaviour: Behaviour) -> str:
    if behaviour.deferred_for is not None:
        return f"deferred for {behaviour.deferred_for} s"
    told = (
        f"{behaviour.seconds} s" + (" after its work" if behaviour.late else "") + (", deaf" if behaviour.deaf else "")
    )
    if behaviour.error is None:
        return told
    return f"{told}, {type(behaviour.error()).__name__} {'after' if behaviour.after_work else 'before'} its work"


def _with_note(outcome: Outcome, worker: str, attempt: Attempt) -> Outcome:
    """The same outcome, whose effects leave a trace in the ledger."""
    effects = outcome.effects

    def noted(connection: Any) -> Any:
        _note(connection, worker, attempt)
        return effects(connection)

    return replace(outcome, effects=noted)


_CACHED: dict[tuple[Any, ...], Settings] = {}


def _settings(worker: str, timeout: int, permits: int, start_margin: int, lease: int, max_attempts: int) -> Settings:
    key = (worker, timeout, permits, start_margin, lease, max_attempts)
    if key not in _CACHED:
        retries = "requeue" if worker in REQUEUEING else "redeliver"
        row = {"name": worker, "timeout": timeout, "permits": permits, "start_margin": start_margin, "retries": retries}
        _CACHED[key] = Settings.model_validate(
            {
                "worker": row,
                "queue_urls": URLS,
                "retry_queue_urls": RETRY_URLS,
                "lease_seconds": lease,
                "heartbeat_seconds": lease / 4,
                "redelivery_max_attempts": max_attempts,
            }
        )
    return _CACHED[key]


def _keeper_settings() -> Settings:
    if ("keeper",) not in _CACHED:
        _CACHED["keeper",] = Settings.model_validate(
            {
                "worker": {"name": "dead_letters", "timeout": 60, "start_margin": 25},
                "queue_urls": URLS,
                "retry_queue_urls": RETRY_URLS,
                "dead_letter_sources": SOURCES,
            }
        )
    return _CACHED["keeper",]


def _unmeasured(*_values: Any, **_dimensions: str) -> None:
    """Metrics of a simulated world are nobody's."""


@contextmanager
def _product_in(world: World) -> Iterator[None]:
    """The product's seams, turned to this world."""
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
        mock.patch.object(metrics, "record", _unmeasured),
        mock.patch.object(recovery, "record", _unmeasured),
        mock.patch.object(watchdog_uploads, "record", world.count_uploads_without_event),
        mock.patch.object(watchdog_uploads, "within", lambda _seconds, call: call()),
        mock.patch.object(watchdog_uploads, "PAGE", 1),
        mock.patch.object(watchdog_uploads, "PAGES", 1),
        mock.patch.object(parsers, "read", scenario.file_text),
        mock.patch.object(dead_letters, "function", archiver),
        mock.patch.object(matcher, "CACHE", Documents()),  # what an earlier history left there would be read no more
    ):
        yield


_DUE = """
SELECT min(CASE WHEN not_before > created_at + interval '900 s' THEN not_before - interval '900 s'
                ELSE greatest(created_at + interval '60 s', not_before - interval '900 s') END)
FROM outbox WHERE sent_at IS NULL
"""

_NUMBERS = "SELECT id, {revision}, {send_number} FROM {table} WHERE id = ANY(%s)"
_SENT = """
SELECT t.id, t.{revision}, t.{send_number}, greatest(o.sent_at, t.{claimed_at}, t.{next_attempt_at},
       t.{lease_expires_at}), coalesce(o.sent_at - o.not_before, '0')
FROM {table} t LEFT JOIN outbox o ON o.worker = %(worker)s AND o.work_id = t.id AND o.revision = t.{revision}
    AND o.send_number = t.{send_number}
WHERE t.id = ANY(%(ids)s) AND t.{status} IN ('pending', 'in-progress') AND (o.id IS NULL OR o.sent_at IS NOT NULL)
"""


def _note(connection: Any, worker: str, attempt: Attempt) -> None:
    connection.execute("SELECT simulation_effect(%s, %s, %s)", [worker, attempt.work_id, attempt.revision])
