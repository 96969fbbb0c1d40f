"""The table of workers: one row for each Lambda function. It imports no CDK, so that everything may read it.

A new worker is one row here and one folder `functions/<name>/` with a `handler.py`. `infra/worker.py` turns a row into
its queue, dead-letter queue, function, logs, mappings, grants and alarms; `validate` rejects rows that could
lose work.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

DAY = 24 * 60 * 60

MAX_RECEIVE_COUNT = 3
"""Receives after which SQS moves a message to its dead-letter queue. Retrying is built on it: no row may differ."""
SOURCE_RETENTION = 10 * DAY
"""How long a queue keeps a message, in seconds."""
DEAD_LETTER_RETENTION = 14 * DAY
"""SQS's longest. A move keeps the first enqueue time, so that a dead letter has at least four days left."""

MINIMUM_CONCURRENCY = 2
"""The least MaximumConcurrency that a mapping takes; MAXIMUM_CONCURRENCY is the most. Both are bounds of AWS."""
MAXIMUM_CONCURRENCY = 1000
VISIBILITY_TIMEOUTS = 6
"""A message stays invisible for this many time-outs of its function, plus the batching window (AWS's advice)."""
MAX_VISIBILITY = 12 * 60 * 60
MAX_TIMEOUT = 900
MEMORY_MEGABYTES = range(128, 10_240 + 1)
MAX_BATCH_SIZE = 10_000
MAX_BATCH_SIZE_WITHOUT_WINDOW = 10
MAX_BATCHING_WINDOW = 300

ANNOUNCED = ("uploads/", "inbox/")
"""Prefixes of the uploads bucket whose new objects become messages to the workers that S3 feeds."""
UNBOUNDED = (*ANNOUNCED, "attachments/", "children/")
"""Prefixes of source files: without bound unless the deployment sets one."""
PREFIXES = (*UNBOUNDED, "tasks/", "dead-letters/", "exports/")
"""Every prefix of the uploads bucket."""
EVERY_QUEUE = ("*",)
"""In `sends_to`: every worker that has a queue, those of later rows too."""

DatabaseUser = Literal["counterfoil_worker", "counterfoil_api", "counterfoil_keeper", "master"]
Outgoing = Literal["llm", "embeddings", "ocr", "notifications", "webhooks"]
"""What a worker calls outside: the language model, the model of embeddings, the recognition of scanned pages, the
channels of notifications, the webhooks of tenants."""


class FedBy(StrEnum):
    """What starts a worker."""

    S3_EVENTS = "S3 events"
    OUTBOX = "outbox"
    SCHEDULE = "schedule"
    DEAD_LETTER_QUEUES = "dead-letter queues"
    DEPLOYMENT = "deployment"
    HTTP_API = "HTTP API"


class Alarm(StrEnum):
    """What a worker can raise an alarm about. The alarm is called after both, and so is its page of the runbook."""

    DEAD_LETTERS = "dead-letters"
    ERRORS = "errors"
    MESSAGE_AGE = "message-age"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One worker. Durations are seconds."""

    name: str
    """Also the name of its folder, and after `counterfoil-` that of its queue, function, log group and alarms."""
    does: str
    fed_by: FedBy
    timeout: int
    memory: int
    """Megabytes. A function has one processor at 1,769."""
    reserved_concurrency: int
    """Invocations at once, at most. The mappings' MaximumConcurrency together may not exceed it."""
    maximum_concurrency: int = 0
    """Invocations at once for each queue that feeds this worker, its queue for retries among them."""
    batch_size: int = 0
    batching_window: int = 0
    visibility: int = 0
    """Of the queues that feed this worker: its own, or for `dead_letters` every dead-letter queue."""
    permits: int = 1
    """Records at once inside one invocation: the others wait for a permit, protected and not claimed."""
    start_margin: int = 10
    """No record is started with less than this left of the invocation."""
    retries: Literal["redeliver", "requeue"] = "redeliver"
    """How work is tried again: by the same message, or by a new one on a queue for retries, which holds up no first
    try. Both queues have the same dead-letter queue, and each a mapping of its own."""
    retry_waits: tuple[int, ...] = ()
    """Waits before the first, second, ... retry on that queue, and there are no more. Empty: as the settings say."""
    sends_to: tuple[str, ...] = ()
    """Workers whose queues get its messages, besides its own queue, where parked work returns to."""
    reads: tuple[str, ...] = ()
    """Prefixes of the uploads bucket that it may read."""
    lists: tuple[str, ...] = ()
    """Prefixes of the uploads bucket whose object versions it may list."""
    writes: tuple[str, ...] = ()
    """Prefixes of the uploads bucket that it may write; no event announces what is written there."""
    removes: tuple[str, ...] = ()
    """Prefixes of the uploads bucket that it may delete from, and give up what it has half written."""
    erases: tuple[str, ...] = ()
    """Prefixes of the uploads bucket whose object versions it may delete."""
    admits: tuple[str, ...] = ()
    """Prefixes of the uploads bucket that it may let others upload to."""
    database_user: DatabaseUser = "counterfoil_worker"
    measures_queues: bool = False
    """It may ask how full the queues of all workers are."""
    manages_people: bool = False
    """Whether it may change people of the built-in user pool."""
    reads_alarms: bool = False
    """It may ask which alarms have gone off."""
    invokes: tuple[str, ...] = ()
    """Workers whose functions it may invoke, besides the schedule."""
    calls_out: tuple[Outgoing, ...] = ()
    depends_on: Literal["llm"] | None = None
    """What all of its work needs: while its circuit breaker is open for long, its queue is paused."""
    pauses_mappings: bool = False
    """It may pause and resume the mappings of every worker with a queue."""
    extra_files: tuple[str, ...] = ()
    """Files and folders, from the root of the project, that its asset needs besides its own folder."""
    alarms: tuple[Alarm, ...] = ()
    every: Literal["minute", "hour"] = "minute"
    """How often a schedule starts it. A minute's round that failed is left to the next; an hour's is tried again."""

    @property
    def resource_name(self) -> str:
        """The name of the queue and of the function."""
        return f"counterfoil-{self.name}"

    @property
    def logical_name(self) -> str:
        """How ids and outputs of the stack begin: `document_output` is `DocumentOutput`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def gate(self) -> int:
        """Records at once over all invocations, for a worker that takes messages; 0 for others."""
        return self.reserved_concurrency * self.permits if self.polls else 0

    @property
    def connections(self) -> int:
        """Connections to PostgreSQL at full load: a worker with a queue has two more than permits, any other has one.

        Each of them is one of PostgreSQL's own, for RDS Proxy pins it.
        """
        return self.reserved_concurrency * (self.permits + 2 if self.has_queue else 1)

    @property
    def uses_bucket(self) -> bool:
        """Whether it has business with the uploads bucket."""
        return any((self.reads, self.lists, self.writes, self.removes, self.erases, self.admits))

    @property
    def has_queue(self) -> bool:
        """Whether a queue and its dead-letter queue belong to this worker."""
        return self.fed_by in {FedBy.S3_EVENTS, FedBy.OUTBOX}

    @property
    def has_retry_queue(self) -> bool:
        """Whether a queue for retries belongs to this worker, too."""
        return self.has_queue and self.retries == "requeue"

    @property
    def polls(self) -> bool:
        """Whether event source mappings feed this worker."""
        return self.has_queue or self.fed_by is FedBy.DEAD_LETTER_QUEUES


WORKERS: tuple[Row, ...] = (
    Row(
        name="acquisition",
        does="reads what arrived in the uploads bucket, drops duplicates, creates sources and documents",
        fed_by=FedBy.S3_EVENTS,
        timeout=120,
        memory=2048,  # two mails of up to 40 MiB at once, each with a parser of up to 700 MiB
        reserved_concurrency=10,
        maximum_concurrency=10,
        batch_size=5,
        visibility=720,
        permits=2,
        start_margin=30,
        sends_to=("ingestion",),
        reads=("uploads/", "inbox/"),
        writes=("attachments/",),
        alarms=(Alarm.DEAD_LETTERS, Alarm.MESSAGE_AGE),
    ),
    Row(
        name="ingestion",
        does="recognises documents and extracts their structured data",
        fed_by=FedBy.OUTBOX,
        timeout=300,
        memory=2048,
        reserved_concurrency=10,
        maximum_concurrency=10,
        batch_size=4,
        visibility=1800,
        permits=2,
        start_margin=60,
        sends_to=("matching",),
        reads=("uploads/", "attachments/", "children/"),
        writes=("children/",),
        calls_out=("llm", "ocr"),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    Row(
        name="matching",
        does="finds candidates, scores and decides, writes matches and clusters",
        fed_by=FedBy.OUTBOX,
        timeout=120,
        memory=1769,
        reserved_concurrency=10,
        maximum_concurrency=10,
        batch_size=10,
        visibility=720,
        permits=10,  # a whole batch: who waits for the language model holds up nobody
        start_margin=30,
        sends_to=("diagnostics",),
        calls_out=("llm", "embeddings"),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    Row(
        name="diagnostics",
        does="holds the documents of a cluster against one another: quantities, prices, totals, duplicates",
        fed_by=FedBy.OUTBOX,
        timeout=60,
        memory=1024,
        reserved_concurrency=10,
        maximum_concurrency=10,
        batch_size=10,
        visibility=360,
        permits=2,
        start_margin=20,
        sends_to=("document_output",),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    Row(
        name="document_output",
        does="delivers results to the destinations of a tenant: signed webhooks, exports to S3",
        fed_by=FedBy.OUTBOX,
        timeout=120,
        memory=512,
        reserved_concurrency=10,
        maximum_concurrency=10,
        batch_size=10,
        visibility=720,
        permits=4,
        start_margin=30,
        reads=("exports/",),
        writes=("exports/",),
        calls_out=("webhooks",),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    Row(
        name="tasks",
        does="carries out tasks that programs hand in: conversations with a language model, calls, ...",
        fed_by=FedBy.OUTBOX,
        timeout=120,
        memory=512,
        reserved_concurrency=6,
        maximum_concurrency=3,  # of each queue: a herd of retries leaves first tries their half
        batch_size=10,
        visibility=720,
        permits=4,
        start_margin=30,
        retries="requeue",
        reads=("tasks/",),
        calls_out=("llm", "webhooks"),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    Row(
        name="offers",
        does="computes and stores a day's offers for a shard of users, and tells that they are there",
        fed_by=FedBy.OUTBOX,
        timeout=300,
        memory=3538,  # two processors; a pool of a million people takes a gigabyte
        reserved_concurrency=4,
        maximum_concurrency=2,
        batch_size=1,
        visibility=1800,
        start_margin=60,
        retries="requeue",
        retry_waits=(30, 120, 300),
        sends_to=("document_output",),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    Row(
        name="dead_letters",
        does="settles what landed in a dead-letter queue: archives it, or returns what was never attempted",
        fed_by=FedBy.DEAD_LETTER_QUEUES,
        timeout=60,
        memory=512,
        reserved_concurrency=14,  # the mappings of seven queues
        maximum_concurrency=2,
        batch_size=10,
        visibility=360,
        start_margin=25,  # PostgreSQL may take a connection's, then a lock's longest time
        sends_to=EVERY_QUEUE,
        database_user="counterfoil_keeper",
        alarms=(Alarm.ERRORS,),
    ),
    Row(
        name="watchdog",
        does="every minute: sends overdue and lost messages, and notifications; probes and measures",
        fed_by=FedBy.SCHEDULE,
        timeout=57,
        memory=512,
        reserved_concurrency=1,
        sends_to=EVERY_QUEUE,
        lists=PREFIXES,
        removes=("tasks/",),
        erases=PREFIXES,
        database_user="counterfoil_keeper",
        measures_queues=True,
        calls_out=("llm", "notifications"),
        pauses_mappings=True,
        alarms=(Alarm.ERRORS,),
    ),
    Row(
        name="bulk",
        does="every minute: runs operations on dead letters and documents",
        fed_by=FedBy.SCHEDULE,
        timeout=57,
        memory=1769,  # 500 messages a second are signed and sent
        reserved_concurrency=1,
        sends_to=EVERY_QUEUE,
        writes=("tasks/", "dead-letters/"),
        alarms=(Alarm.ERRORS,),
    ),
    Row(
        name="offers_scheduler",
        does="every hour: finds the time zones where it is 9:00 on a date not queued yet, and queues shards of users",
        fed_by=FedBy.SCHEDULE,
        every="hour",
        timeout=900,
        memory=512,
        reserved_concurrency=1,
        sends_to=("offers",),
        alarms=(Alarm.ERRORS,),
    ),
    Row(
        name="admin_api",
        does="answers the requests of people and their programs",
        fed_by=FedBy.HTTP_API,
        timeout=29,
        memory=1024,
        reserved_concurrency=10,
        database_user="counterfoil_api",
        sends_to=EVERY_QUEUE,
        reads=("tasks/", "uploads/", "attachments/", "children/", "dead-letters/"),  # the last for links to exports
        writes=("tasks/",),
        admits=ANNOUNCED,
        measures_queues=True,
        reads_alarms=True,
        invokes=("offers_scheduler",),
        pauses_mappings=True,
        manages_people=True,
        alarms=(Alarm.ERRORS,),
    ),
    Row(
        name="migrate",
        does="brings the database's schema up to date, before any other function of a deployment",
        fed_by=FedBy.DEPLOYMENT,
        timeout=600,
        memory=512,
        reserved_concurrency=1,
        database_user="master",
        extra_files=("migrations",),
    ),
)


def queue_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows that have a queue and a dead-letter queue."""
    return [row for row in rows if row.has_queue]


def mappings(rows: Sequence[Row], row: Row) -> list[Row]:
    """The workers whose queues feed `row`: itself, or for a worker fed by dead-letter queues those of every worker."""
    if row.fed_by is FedBy.DEAD_LETTER_QUEUES:
        return queue_rows(rows)
    return [row] if row.has_queue else []


def targets(rows: Sequence[Row], row: Row) -> list[Row]:
    """The workers whose queues `row` sends to, its own first: parked work returns to it."""
    every = row.sends_to == EVERY_QUEUE
    own = [row] if row.has_queue else []
    return own + [other for other in queue_rows(rows) if other is not row and (every or other.name in row.sends_to)]


def capped(rows: Sequence[Row], maximum_concurrency: int) -> tuple[Row, ...]:
    """The rows for a machine with room for fewer functions at once."""
    return tuple(replace(row, maximum_concurrency=min(row.maximum_concurrency, maximum_concurrency)) for row in rows)


def shortened(rows: Sequence[Row], timeout: int) -> tuple[Row, ...]:
    """The rows with workers that end after `timeout` seconds: for tests that end them on purpose and wait for more."""

    def short(row: Row) -> Row:
        if not row.polls or row.timeout <= timeout:
            return row
        return replace(
            row,
            timeout=timeout,
            start_margin=row.start_margin * timeout // row.timeout,
            visibility=VISIBILITY_TIMEOUTS * timeout + row.batching_window,
        )

    return tuple(short(row) for row in rows)


def dependent(rows: Sequence[Row]) -> list[Row]:
    """The rows whose mappings are paused while what all of their work needs is away."""
    return [row for row in rows if row.depends_on is not None]


class WorkerTableError(ValueError):
    """A row could lose work, or AWS would reject it. The message names row and remedy."""


def validate(rows: Sequence[Row]) -> None:
    """Refuse a table that could lose work.

    Raises:
        WorkerTableError: one sentence, with the row's name and what to change.
    """
    by_name: dict[str, Row] = {}
    for row in rows:
        if row.name in by_name:
            raise WorkerTableError(f"Worker {row.name!r} has two rows: give one of them another name.")
        by_name[row.name] = row
    for row in rows:
        for fault in (
            *_faults_of_function(row),
            *_faults_of_polling(rows, row),
            *_faults_of_sending(by_name, row),
            *_faults_of_invoking(by_name, row),
            *_faults_of_reach(row),
        ):
            raise WorkerTableError(f"Worker {row.name!r}: {fault}.")


def _faults_of_function(row: Row) -> Iterator[str]:
    if not (row.name.isascii() and row.name.replace("_", "").isalnum() and row.name == row.name.lower()):
        yield "its name must be lower-case letters, digits and underscores, for it is a folder, a module and a queue"
    if not 1 <= row.timeout <= MAX_TIMEOUT:
        yield f"set timeout between 1 and {MAX_TIMEOUT} s, it is {row.timeout}"
    if row.memory not in MEMORY_MEGABYTES:
        yield f"set memory between {MEMORY_MEGABYTES[0]} and {MEMORY_MEGABYTES[-1]} MB, it is {row.memory}"
    if not 0 <= row.start_margin < row.timeout:
        yield f"set start_margin ({row.start_margin} s) below timeout ({row.timeout} s), or no record is ever started"
    if row.reserved_concurrency < 1:
        yield f"set reserved_concurrency to 1 or more, {row.reserved_concurrency} would never let it run"
    if row.permits < 1:
        yield f"set permits to 1 or more, it is {row.permits} and no record would ever start"


def _faults_of_polling(rows: Sequence[Row], row: Row) -> Iterator[str]:
    if not row.polls:
        if row.maximum_concurrency or row.batch_size or row.batching_window or row.visibility:
            yield (
                "leave maximum_concurrency, batch_size, batching_window and visibility at 0, "
                f"for no queue feeds it ({row.fed_by})"
            )
        return
    if not MINIMUM_CONCURRENCY <= row.maximum_concurrency <= MAXIMUM_CONCURRENCY:
        yield (
            f"set maximum_concurrency between {MINIMUM_CONCURRENCY} and {MAXIMUM_CONCURRENCY}, AWS's bounds, "
            f"it is {row.maximum_concurrency}"
        )
    sources = len(mappings(rows, row)) + row.has_retry_queue
    wanted = sources * row.maximum_concurrency
    if wanted > row.reserved_concurrency:
        yield (
            f"raise reserved_concurrency from {row.reserved_concurrency} to {wanted} or lower maximum_concurrency, "
            f"for its {sources} mappings of {row.maximum_concurrency} would receive messages that there is no room for"
        )
    if not 1 <= row.batch_size <= MAX_BATCH_SIZE:
        yield f"set batch_size between 1 and {MAX_BATCH_SIZE}, it is {row.batch_size}"
    if not 0 <= row.batching_window <= MAX_BATCHING_WINDOW:
        yield f"set batching_window between 0 and {MAX_BATCHING_WINDOW} s, it is {row.batching_window}"
    if row.batch_size > MAX_BATCH_SIZE_WITHOUT_WINDOW and row.batching_window < 1:
        yield f"set batching_window to 1 s or more, for AWS refuses batches of {row.batch_size} without one"
    least = VISIBILITY_TIMEOUTS * row.timeout + row.batching_window
    if row.visibility < least:
        yield (
            f"raise visibility from {row.visibility} to {least} s ({VISIBILITY_TIMEOUTS} x timeout + batching_window), "
            "or a message comes back while it is being worked on"
        )
    if row.visibility > MAX_VISIBILITY:
        yield f"lower visibility from {row.visibility} to {MAX_VISIBILITY} s or less, SQS's bound"


def _faults_of_sending(by_name: Mapping[str, Row], row: Row) -> Iterator[str]:
    for name in row.sends_to:
        if row.sends_to == EVERY_QUEUE:
            return
        if name not in by_name:
            yield f"sends_to names {name!r}, which is no worker: correct the name or add its row"
        elif not by_name[name].has_queue:
            yield f"sends_to names {name!r}, which has no queue: take it out"
        elif name == row.name:
            yield "take its own name out of sends_to: a worker may always send to its own queue"
    if Alarm.DEAD_LETTERS in row.alarms and not row.has_queue:
        yield "take Alarm.DEAD_LETTERS out of alarms, for it has no dead-letter queue"
    if row.has_queue and Alarm.DEAD_LETTERS not in row.alarms:
        yield "add Alarm.DEAD_LETTERS to alarms, or its dead letters go unnoticed"
    if (row.fed_by is FedBy.S3_EVENTS) != (Alarm.MESSAGE_AGE in row.alarms):
        yield "put Alarm.MESSAGE_AGE into alarms if S3 feeds it, for only that work is not in PostgreSQL while it waits"


def _faults_of_invoking(by_name: Mapping[str, Row], row: Row) -> Iterator[str]:
    for name in row.invokes:
        if name not in by_name:
            yield f"invokes names {name!r}, which is not a worker: correct the name or add its row"


def _faults_of_reach(row: Row) -> Iterator[str]:
    for name in ("reads", "lists", "writes", "removes", "erases", "admits"):
        for prefix in getattr(row, name):
            if prefix.startswith("/") or not prefix.endswith("/"):
                yield f"write the prefix {prefix!r} in {name} without a leading and with a trailing slash"
    for prefix in set(row.writes) & set(ANNOUNCED):
        yield f"take {prefix} out of writes, because S3 announces every object there as an upload"
    if row.every != "minute" and row.fed_by is not FedBy.SCHEDULE:
        yield "take every out, for no schedule starts it"
    if row.retries == "requeue" and not row.has_queue:
        yield "take retries out, because it has no queue with messages to retry"
    if row.retry_waits and row.retries != "requeue":
        yield 'set retries to "requeue" or take retry_waits out, for only new messages wait that long'
    if row.depends_on is not None and not row.has_queue:
        yield "take depends_on out, for it has no queue that could be paused"
    if row.depends_on is not None and row.depends_on not in row.calls_out:
        yield f"add {row.depends_on!r} to calls_out, for all of its work depends on it"
