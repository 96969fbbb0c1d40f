"""What is wrong with a table of workers: rows that could lose work, or that AWS would refuse."""

from collections.abc import Iterator, Mapping, Sequence

from infra.workers import (
    ANNOUNCED,
    EVERY_QUEUE,
    MAX_BATCH_SIZE,
    MAX_BATCH_SIZE_WITHOUT_WINDOW,
    MAX_BATCHING_WINDOW,
    MAX_TIMEOUT,
    MAX_VISIBILITY,
    MAXIMUM_CONCURRENCY,
    MEMORY_MEGABYTES,
    MINIMUM_CONCURRENCY,
    VISIBILITY_TIMEOUTS,
    Alarm,
    FedBy,
    Row,
    mappings,
)


class WorkerTableError(ValueError):
    """A row of the table could lose work, or AWS would refuse it. The message names the row and the way out."""


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


def _faults_of_reach(row: Row) -> Iterator[str]:
    for name in ("reads", "lists", "writes", "removes", "erases", "admits"):
        for prefix in getattr(row, name):
            if prefix.startswith("/") or not prefix.endswith("/"):
                yield f"write the prefix {prefix!r} in {name} without a leading and with a trailing slash"
    for prefix in set(row.writes) & set(ANNOUNCED):
        yield f"take {prefix} out of writes, for what is written there is announced as an upload"
    if row.every != "minute" and row.fed_by is not FedBy.SCHEDULE:
        yield "take every out, for no schedule starts it"
    if row.retries == "requeue" and not row.has_queue:
        yield "take retries out, for it has no queue whose messages could be tried again"
    if row.retry_waits and row.retries != "requeue":
        yield 'set retries to "requeue" or take retry_waits out, for only new messages wait that long'
    if row.depends_on is not None and not row.has_queue:
        yield "take depends_on out, for it has no queue that could be paused"
    if row.depends_on is not None and row.depends_on not in row.calls_out:
        yield f"add {row.depends_on!r} to calls_out, for all of its work depends on it"
