"""The table of workers: one row per Lambda function.

Does not import CDK, so any module can import it.

To add a worker, add a row here and a folder `functions/<name>/` with a `handler.py`. The CDK constructs create its
queues, function, logs, event source mappings, permissions and alarms from the row. `validate` rejects rows that could
lose work items.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

DAY = 24 * 60 * 60

MAX_RECEIVE_COUNT = 3
"""Number of receives after which SQS moves a message to the DLQ. The retry policy requires one value for all queues."""
SOURCE_RETENTION = 10 * DAY
"""Message retention of the workers' queues, in seconds."""
DEAD_LETTER_RETENTION = 14 * DAY
"""Message retention of dead-letter queues, in seconds: the maximum that SQS permits. A move to the DLQ preserves the
enqueue time, so a message stays there for at least four days."""

MINIMUM_CONCURRENCY = 2
"""AWS limits for an event source mapping's MaximumConcurrency: this minimum, and MAXIMUM_CONCURRENCY."""
MAXIMUM_CONCURRENCY = 1000
VISIBILITY_TIMEOUT_MULTIPLE = 6
"""The visibility timeout is this multiple of the function's timeout plus the batching window, as AWS recommends."""
MAX_VISIBILITY = 12 * 60 * 60
MAX_TIMEOUT = 900
MEMORY_MEGABYTES = range(128, 10_240 + 1)
MAX_BATCH_SIZE = 10_000
MAX_BATCH_SIZE_WITHOUT_WINDOW = 10
MAX_BATCHING_WINDOW = 300

NOTIFIED_PREFIXES = ("uploads/", "inbox/")
"""Prefixes in the uploads bucket under which S3 sends a message for each new object."""
SOURCE_PREFIXES = (*NOTIFIED_PREFIXES, "attachments/", "children/")
"""Prefixes of source files, which are stored permanently unless the deployment sets a retention."""
ALL_PREFIXES = (*SOURCE_PREFIXES, "tasks/", "dead-letters/", "exports/")
"""Every prefix in the uploads bucket."""
ALL_QUEUES = ("*",)
"""Value of `sends_to` for every worker with a queue."""

DatabaseUser = Literal["counterfoil_worker", "counterfoil_api", "counterfoil_maintenance", "master"]
ExternalService = Literal["llm", "embeddings", "ocr", "notifications", "webhooks"]
"""External services of a worker: language model, embedding model, OCR, notification channels, tenants' webhooks."""


class Trigger(StrEnum):
    """Trigger of a worker."""

    S3_EVENTS = "S3 events"
    OUTBOX = "outbox"
    SCHEDULE = "schedule"
    DEAD_LETTER_QUEUES = "dead-letter queues"
    DEPLOYMENT = "deployment"
    HTTP_API = "HTTP API"


class Alarm(StrEnum):
    """Alarm about a worker.

    The alarm's name is the worker's name followed by this value.
    """

    DEAD_LETTERS = "dead-letters"
    ERRORS = "errors"
    MESSAGE_AGE = "message-age"


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """A worker. Durations are in seconds."""

    name: str
    """Name of the worker and its folder. With the prefix `counterfoil-`, name of its queue, function, log group and
    alarms."""
    description: str
    trigger: Trigger
    timeout: int
    memory: int
    """Memory in megabytes. With 1,769 MB, a function has one full vCPU."""
    reserved_concurrency: int
    """Maximum concurrent invocations. At least the sum of the mappings' MaximumConcurrency."""
    maximum_concurrency: int = 0
    """Maximum concurrent invocations for each queue that feeds this worker, including its retry queue."""
    batch_size: int = 0
    batching_window: int = 0
    visibility: int = 0
    """Visibility timeout of the queues that feed this worker: its own, or for `dead_letters` all dead-letter queues."""
    permits: int = 1
    """Maximum concurrent records per invocation. Other records wait unclaimed, and their visibility timeout is
    extended."""
    start_margin: int = 10
    """Minimum remaining time of an invocation to start a record."""
    retries: Literal["redeliver", "requeue"] = "redeliver"
    """Retry policy: SQS redelivers the same message, or a new message is sent to a separate retry queue. With a retry
    queue, retries do not delay first attempts. Both queues share a dead-letter queue, and each has its own mapping."""
    retry_delays: tuple[int, ...] = ()
    """Delay before each retry in the retry queue. The number of delays limits the retries. If empty, the configured
    delays apply."""
    sends_to: tuple[str, ...] = ()
    """Workers to whose queues the worker sends messages. Its own queue, for parked work items, is implied."""
    reads: tuple[str, ...] = ()
    """Prefixes in the uploads bucket that the worker may read."""
    lists: tuple[str, ...] = ()
    """Prefixes in the uploads bucket whose object versions the worker may list."""
    writes: tuple[str, ...] = ()
    """Prefixes in the uploads bucket that the worker may write. S3 sends no events for these objects."""
    removes: tuple[str, ...] = ()
    """Prefixes in the uploads bucket where the worker may delete objects, but not their versions."""
    erases: tuple[str, ...] = ()
    """Prefixes in the uploads bucket where the worker may delete object versions and abort multipart uploads."""
    upload_prefixes: tuple[str, ...] = ()
    """Prefixes in the uploads bucket for which the worker may create upload forms."""
    database_user: DatabaseUser = "counterfoil_worker"
    measures_queues: bool = False
    """Whether the worker may read the depths of all workers' queues."""
    manages_people: bool = False
    """Whether the worker may manage the users of the built-in user pool."""
    reads_alarms: bool = False
    """Whether the worker may read which alarms have fired."""
    invokes: tuple[str, ...] = ()
    """Workers whose functions the worker may invoke."""
    external_services: tuple[ExternalService, ...] = ()
    depends_on: Literal["llm"] | None = None
    """Service that all work items of the worker require. Its queue is paused while the circuit breaker stays open."""
    pauses_mappings: bool = False
    """Whether the worker may pause and resume the mappings of every worker with a queue."""
    extra_files: tuple[str, ...] = ()
    """Files and folders in the worker's asset besides its own folder, relative to the project root."""
    alarms: tuple[Alarm, ...] = ()
    every: Literal["minute", "hour"] = "minute"
    """Interval of the worker's schedule. Lambda retries failed invocations only if it is an hour."""

    @property
    def resource_name(self) -> str:
        """Name of the queue and of the function."""
        return f"counterfoil-{self.name}"

    def runbook_page(self, alarm: Alarm) -> str:
        """Return the name of an alarm's runbook page.

        `ERRORS` has a page per worker, other alarms have one.
        """
        return f"{self.name}-{alarm}" if alarm is Alarm.ERRORS else alarm

    @property
    def logical_name(self) -> str:
        """Prefix of construct ids and outputs: `DocumentOutput` for `document_output`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def concurrency_limit(self) -> int:
        """Maximum concurrent records across all invocations.

        It is 0 for a worker without event source mappings.
        """
        return self.reserved_concurrency * self.permits if self.has_event_source_mapping else 0

    @property
    def connections(self) -> int:
        """Maximum number of connections to PostgreSQL.

        An invocation of a worker with a queue uses one connection per permit and two more. Other invocations use one.
        RDS Proxy pins each of them to a PostgreSQL connection.
        """
        return self.reserved_concurrency * (self.permits + 2 if self.has_queue else 1)

    @property
    def uses_bucket(self) -> bool:
        """True if the worker uses the uploads bucket."""
        return any((self.reads, self.lists, self.writes, self.removes, self.erases, self.upload_prefixes))

    @property
    def has_queue(self) -> bool:
        """True if the worker has a queue and a dead-letter queue."""
        return self.trigger in {Trigger.S3_EVENTS, Trigger.OUTBOX}

    @property
    def has_retry_queue(self) -> bool:
        """True if the worker has a retry queue."""
        return self.has_queue and self.retries == "requeue"

    @property
    def has_event_source_mapping(self) -> bool:
        """True if event source mappings feed the worker."""
        return self.has_queue or self.trigger is Trigger.DEAD_LETTER_QUEUES


WORKERS: tuple[WorkerSpec, ...] = (
    WorkerSpec(
        name="acquisition",
        description="reads new objects in the uploads bucket, drops duplicates, creates sources and documents",
        trigger=Trigger.S3_EVENTS,
        timeout=120,
        memory=2048,  # two concurrent emails of up to 40 MiB, each with a parser of up to 700 MiB
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
    WorkerSpec(
        name="ingestion",
        description="recognizes documents and extracts their structured data",
        trigger=Trigger.OUTBOX,
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
        external_services=("llm", "ocr"),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    WorkerSpec(
        name="matching",
        description="finds candidates, scores and decides, writes matches and clusters",
        trigger=Trigger.OUTBOX,
        timeout=120,
        memory=1769,
        reserved_concurrency=10,
        maximum_concurrency=10,
        batch_size=10,
        visibility=720,
        permits=10,  # a whole batch, because a wait for the language model must not block other records
        start_margin=30,
        sends_to=("diagnostics",),
        external_services=("llm", "embeddings"),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    WorkerSpec(
        name="diagnostics",
        description="compares a cluster's documents: quantities, prices, totals, duplicates",
        trigger=Trigger.OUTBOX,
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
    WorkerSpec(
        name="document_output",
        description="delivers results to a tenant's destinations: signed webhooks, exports to S3",
        trigger=Trigger.OUTBOX,
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
        external_services=("webhooks",),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    WorkerSpec(
        name="tasks",
        description="runs submitted tasks: conversations with a language model, HTTP calls, ...",
        trigger=Trigger.OUTBOX,
        timeout=120,
        memory=512,
        reserved_concurrency=6,
        maximum_concurrency=3,  # per queue: retries never use more than half of the concurrency
        batch_size=10,
        visibility=720,
        permits=4,
        start_margin=30,
        retries="requeue",
        reads=("tasks/",),
        external_services=("llm", "webhooks"),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    WorkerSpec(
        name="offers",
        description="computes and stores a day's offers for a shard of users, and notifies destinations",
        trigger=Trigger.OUTBOX,
        timeout=300,
        memory=3538,  # two vCPUs; a pool of a million users needs a gigabyte
        reserved_concurrency=4,
        maximum_concurrency=2,
        batch_size=1,
        visibility=1800,
        start_margin=60,
        retries="requeue",
        retry_delays=(30, 120, 300),
        sends_to=("document_output",),
        alarms=(Alarm.DEAD_LETTERS,),
    ),
    WorkerSpec(
        name="dead_letters",
        description="settles messages in dead-letter queues: returns them while attempts are left, or archives them",
        trigger=Trigger.DEAD_LETTER_QUEUES,
        timeout=60,
        memory=512,
        reserved_concurrency=14,  # the mappings of seven queues
        maximum_concurrency=2,
        batch_size=10,
        visibility=360,
        start_margin=25,  # covers the connect timeout plus the lock timeout of PostgreSQL
        sends_to=ALL_QUEUES,
        database_user="counterfoil_maintenance",
        alarms=(Alarm.ERRORS,),
    ),
    WorkerSpec(
        name="watchdog",
        description=(
            "every minute: sends overdue and lost messages and notifications, emits metrics, deletes expired data"
        ),
        trigger=Trigger.SCHEDULE,
        timeout=57,
        memory=512,
        reserved_concurrency=1,
        sends_to=ALL_QUEUES,
        lists=ALL_PREFIXES,
        removes=("tasks/",),
        erases=ALL_PREFIXES,
        database_user="counterfoil_maintenance",
        measures_queues=True,
        external_services=("llm", "notifications"),
        pauses_mappings=True,
        alarms=(Alarm.ERRORS,),
    ),
    WorkerSpec(
        name="bulk",
        description="every minute: runs operations on dead letters and documents",
        trigger=Trigger.SCHEDULE,
        timeout=57,
        memory=1769,  # signs and sends 500 messages per second
        reserved_concurrency=1,
        sends_to=ALL_QUEUES,
        writes=("tasks/", "dead-letters/"),
        alarms=(Alarm.ERRORS,),
    ),
    WorkerSpec(
        name="offers_scheduler",
        description="every hour: queues the day's offers for each time zone where it is past 9:00, in shards of users",
        trigger=Trigger.SCHEDULE,
        every="hour",
        timeout=900,
        memory=512,
        reserved_concurrency=1,
        sends_to=("offers",),
        alarms=(Alarm.ERRORS,),
    ),
    WorkerSpec(
        name="admin_api",
        description="serves the HTTP API and the console",
        trigger=Trigger.HTTP_API,
        timeout=29,
        memory=1024,
        reserved_concurrency=10,
        database_user="counterfoil_api",
        sends_to=ALL_QUEUES,
        reads=("tasks/", "uploads/", "attachments/", "children/", "dead-letters/"),  # the last for links to exports
        writes=("tasks/",),
        upload_prefixes=NOTIFIED_PREFIXES,
        measures_queues=True,
        reads_alarms=True,
        invokes=("offers_scheduler",),
        pauses_mappings=True,
        manages_people=True,
        alarms=(Alarm.ERRORS,),
    ),
    WorkerSpec(
        name="migrate",
        description="migrates the database schema before a deployment updates any other function",
        trigger=Trigger.DEPLOYMENT,
        timeout=600,
        memory=512,
        reserved_concurrency=1,
        database_user="master",
        extra_files=("migrations",),
    ),
)


def queue_workers(rows: Sequence[WorkerSpec]) -> list[WorkerSpec]:
    """Return the rows with a queue and a dead-letter queue."""
    return [row for row in rows if row.has_queue]


def mappings(rows: Sequence[WorkerSpec], row: WorkerSpec) -> list[WorkerSpec]:
    """Return the workers whose queues feed `row`.

    The DLQ consumer is fed by all workers with a queue. Every other worker is fed only by its own queue, if it has one.
    """
    if row.trigger is Trigger.DEAD_LETTER_QUEUES:
        return queue_workers(rows)
    return [row] if row.has_queue else []


def targets(rows: Sequence[WorkerSpec], row: WorkerSpec) -> list[WorkerSpec]:
    """Return the workers to whose queues `row` sends messages, itself first.

    A worker sends to its own queue to park work items.
    """
    sends_to_all = row.sends_to == ALL_QUEUES
    own = [row] if row.has_queue else []
    return own + [
        other for other in queue_workers(rows) if other is not row and (sends_to_all or other.name in row.sends_to)
    ]


def cap_concurrency(rows: Sequence[WorkerSpec], maximum_concurrency: int) -> tuple[WorkerSpec, ...]:
    """Return the rows with their maximum concurrency limited, for small machines."""
    return tuple(replace(row, maximum_concurrency=min(row.maximum_concurrency, maximum_concurrency)) for row in rows)


def shorten_timeouts(rows: Sequence[WorkerSpec], timeout: int) -> tuple[WorkerSpec, ...]:
    """Return the rows with the timeouts of queue-fed workers limited.

    Tests exceed these timeouts on purpose.
    """

    def shorten(row: WorkerSpec) -> WorkerSpec:
        if not row.has_event_source_mapping or row.timeout <= timeout:
            return row
        return replace(
            row,
            timeout=timeout,
            start_margin=row.start_margin * timeout // row.timeout,
            visibility=VISIBILITY_TIMEOUT_MULTIPLE * timeout + row.batching_window,
        )

    return tuple(shorten(row) for row in rows)


def workers_with_dependency(rows: Sequence[WorkerSpec]) -> list[WorkerSpec]:
    """Return the workers that depend on a service.

    Their mappings are paused while the service is unavailable.
    """
    return [row for row in rows if row.depends_on is not None]


class WorkerTableError(ValueError):
    """A row could lose work items, or AWS would reject it.

    The message names the row and the fix.
    """


def validate(rows: Sequence[WorkerSpec]) -> None:
    """Reject a table that could lose work items.

    Raises:
        WorkerTableError: the message names the row and the required change.
    """
    by_name: dict[str, WorkerSpec] = {}
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
            *_faults_of_access(row),
        ):
            raise WorkerTableError(f"Worker {row.name!r}: {fault}.")


def _faults_of_function(row: WorkerSpec) -> Iterator[str]:
    if not (row.name.isascii() and row.name.replace("_", "").isalnum() and row.name == row.name.lower()):
        yield "its name must be lower-case letters, digits and underscores, because it names a folder and a queue"
    if not 1 <= row.timeout <= MAX_TIMEOUT:
        yield f"set timeout between 1 and {MAX_TIMEOUT} s, not {row.timeout}"
    if row.memory not in MEMORY_MEGABYTES:
        yield f"set memory between {MEMORY_MEGABYTES[0]} and {MEMORY_MEGABYTES[-1]} MB, not {row.memory}"
    if not 0 <= row.start_margin < row.timeout:
        yield f"set start_margin ({row.start_margin} s) below timeout ({row.timeout} s), or no record ever starts"
    if row.reserved_concurrency < 1:
        yield f"set reserved_concurrency to 1 or more, because with {row.reserved_concurrency} it never runs"
    if row.permits < 1:
        yield f"set permits to 1 or more, because with {row.permits} no record ever starts"


def _faults_of_polling(rows: Sequence[WorkerSpec], row: WorkerSpec) -> Iterator[str]:
    if not row.has_event_source_mapping:
        if row.maximum_concurrency or row.batch_size or row.batching_window or row.visibility:
            yield (
                "leave maximum_concurrency, batch_size, batching_window and visibility at 0, "
                f"because no queue feeds it ({row.trigger})"
            )
        return
    if not MINIMUM_CONCURRENCY <= row.maximum_concurrency <= MAXIMUM_CONCURRENCY:
        yield (
            f"set maximum_concurrency between {MINIMUM_CONCURRENCY} and {MAXIMUM_CONCURRENCY} (AWS limits), "
            f"not {row.maximum_concurrency}"
        )
    sources = len(mappings(rows, row)) + row.has_retry_queue
    required = sources * row.maximum_concurrency
    if required > row.reserved_concurrency:
        yield (
            f"raise reserved_concurrency from {row.reserved_concurrency} to {required} or lower maximum_concurrency, "
            f"because its {sources} mappings of {row.maximum_concurrency} would be throttled"
        )
    if not 1 <= row.batch_size <= MAX_BATCH_SIZE:
        yield f"set batch_size between 1 and {MAX_BATCH_SIZE}, not {row.batch_size}"
    if not 0 <= row.batching_window <= MAX_BATCHING_WINDOW:
        yield f"set batching_window between 0 and {MAX_BATCHING_WINDOW} s, not {row.batching_window}"
    if row.batch_size > MAX_BATCH_SIZE_WITHOUT_WINDOW and row.batching_window < 1:
        yield f"set batching_window to 1 s or more, because AWS rejects batches of {row.batch_size} without a window"
    minimum = VISIBILITY_TIMEOUT_MULTIPLE * row.timeout + row.batching_window
    if row.visibility < minimum:
        yield (
            f"raise visibility from {row.visibility} to {minimum} s ({VISIBILITY_TIMEOUT_MULTIPLE} x timeout + "
            "batching_window), or SQS redelivers a message that is still in progress"
        )
    if row.visibility > MAX_VISIBILITY:
        yield f"lower visibility from {row.visibility} to {MAX_VISIBILITY} s or less, the SQS limit"


def _faults_of_sending(by_name: Mapping[str, WorkerSpec], row: WorkerSpec) -> Iterator[str]:
    for name in row.sends_to:
        if row.sends_to == ALL_QUEUES:
            return
        if name not in by_name:
            yield f"sends_to names {name!r}, which is not a worker: correct the name or add its row"
        elif not by_name[name].has_queue:
            yield f"sends_to names {name!r}, which has no queue: remove it"
        elif name == row.name:
            yield "remove its own name from sends_to: a worker may always send to its own queue"
    if Alarm.DEAD_LETTERS in row.alarms and not row.has_queue:
        yield "remove Alarm.DEAD_LETTERS from alarms, because it has no dead-letter queue"
    if row.has_queue and Alarm.DEAD_LETTERS not in row.alarms:
        yield "add Alarm.DEAD_LETTERS to alarms, or its dead letters go unnoticed"
    if (row.trigger is Trigger.S3_EVENTS) != (Alarm.MESSAGE_AGE in row.alarms):
        yield "set Alarm.MESSAGE_AGE if and only if S3 feeds it, because other work items are also in PostgreSQL"


def _faults_of_invoking(by_name: Mapping[str, WorkerSpec], row: WorkerSpec) -> Iterator[str]:
    for name in row.invokes:
        if name not in by_name:
            yield f"invokes names {name!r}, which is not a worker: correct the name or add its row"


def _faults_of_access(row: WorkerSpec) -> Iterator[str]:
    for name in ("reads", "lists", "writes", "removes", "erases", "upload_prefixes"):
        for prefix in getattr(row, name):
            if prefix.startswith("/") or not prefix.endswith("/"):
                yield f"write the prefix {prefix!r} in {name} with a trailing slash and no leading slash"
    for prefix in set(row.writes) & set(NOTIFIED_PREFIXES):
        yield f"remove {prefix} from writes, because S3 sends an upload event for every object there"
    if row.every != "minute" and row.trigger is not Trigger.SCHEDULE:
        yield "remove every, because no schedule starts it"
    if row.retries == "requeue" and not row.has_queue:
        yield "remove retries, because it has no queue with messages to retry"
    if row.retry_delays and row.retries != "requeue":
        yield 'set retries to "requeue" or remove retry_delays, because they apply only to requeued messages'
    if row.depends_on is not None and not row.has_queue:
        yield "remove depends_on, because it has no queue to pause"
    if row.depends_on is not None and row.depends_on not in row.external_services:
        yield f"add {row.depends_on!r} to external_services, because depends_on requires it"
