"""Runs operations, step by step.

A step is one transaction. It locks the operation's row, stores the results of the next items, starts work items,
enqueues their messages, and records the progress. A failed step is rolled back, and a locked row is skipped, so each
item is processed exactly once.

A `Schedule` spreads a step's messages over the time until LOOKAHEAD, and SQS delays each message until it is due. One
step per minute is therefore enough for an even rate. A `Definition` implements the steps of its actions.
"""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any
from uuid import UUID

from aws_lambda_powertools import Logger

from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.delivery.outbox import Outbox, TimeLeft
from counterfoil.delivery.work import OutboxMessage, start_revision
from counterfoil.errors import DatabaseUnavailableError, TransientError, safe_message
from counterfoil.notifications.digest import OPERATION, Failure
from counterfoil.notifications.store import enqueue_notification
from counterfoil.operations import store
from counterfoil.operations.store import COLUMNS, Action, Operation, Result, State

BATCH_SIZE = 500
"""Maximum items per step. The step's transaction takes a few tenths of a second."""
LOOKAHEAD = timedelta(seconds=75)
"""Maximum time from a step until its last message is due: one minute until the next step, plus 15 seconds in case that
step starts late."""
ONE_SECOND = timedelta(seconds=1)
"""Unit of due times, because SQS delays messages by whole seconds."""
ROUNDING_TOLERANCE = timedelta(milliseconds=1)
"""More than the microseconds that many steps lose to rounding."""
ACTOR = "bulk"
"""Actor of automatic changes in audit entries."""
MIN_SECONDS_LEFT = 12.0
"""Minimum seconds left to run a step and send its messages."""
MAX_SENDERS = 4
"""Number of threads that send messages. One thread is too slow, because a call to SQS takes only ten messages."""

logger = Logger()


@dataclass(frozen=True)
class StepResult:
    """Result of a step."""

    processed: int
    """Number of items that received a result."""
    messages: Sequence[OutboxMessage]
    """Messages to send after the commit."""
    is_busy: bool
    """Whether another step can follow immediately."""


@dataclass(frozen=True)
class ApplyResult:
    """Result of `Definition.apply`."""

    counts: Mapping[Result, int]
    messages: Sequence[OutboxMessage]
    is_last: bool = False
    """Whether the operation ends with this step."""
    reason: str | None = None
    """Reason why the operation ends early, for users."""
    cursor: tuple[datetime, UUID] | None = None
    """Cursor of the last item, if the operation does not list its items."""


@dataclass(frozen=True)
class CanaryStatus:
    """Status of a canary."""

    state: State
    """New state of the operation. `canary` means that it continues to wait for the canary."""
    since: datetime
    """Time when the wait for the canary started."""
    reason: str | None = None
    """Reason why the operation does not continue, and what to do, for users."""


@dataclass(frozen=True)
class Schedule:
    """Due times of a step's messages, at an even rate and in whole seconds."""

    start: datetime
    requested_at: datetime
    interval: timedelta
    """Time between two messages."""
    now: datetime

    def due_at(self, index: int) -> datetime:
        """Return the due time of the message at `index`, which starts at 0 in each step."""
        offset = self.start - self.requested_at + index * self.interval + ROUNDING_TOLERANCE
        return max(self.requested_at + offset // ONE_SECOND * ONE_SECOND, self.now)

    def start_work_items(
        self, connection: Connection, work_items: Iterable[tuple[str, UUID]], offset: int = 0
    ) -> list[OutboxMessage]:
        """Start a new revision of each work item (worker, id), and enqueue its message.

        The first message has the index `offset` in the schedule. Returns the messages to send.
        """
        due: dict[tuple[str, datetime], list[UUID]] = defaultdict(list)
        for index, (worker, id_) in enumerate(work_items, offset):
            due[worker, self.due_at(index)].append(id_)
        return [
            message
            for (worker, due_at), ids in due.items()
            for message in start_revision(connection, worker, ids, self.now, scheduled_at=due_at)
        ]


class Definition(ABC):
    """Implements the steps of one or more actions.

    All methods except `prepare` run in the step's transaction. Actions on listed items (`LISTED_ACTIONS`) must also
    implement `select`, `check_canary` and `finish`.
    """

    actions: tuple[Action, ...]
    rate_unit = timedelta(seconds=1)
    """Time unit of an operation's rate."""
    batch_size = BATCH_SIZE
    """Maximum items per step."""

    def prepare(
        self,
        database: Database,  # noqa: ARG002
        operation_id: UUID,  # noqa: ARG002
        tenant_id: UUID,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
        batch_size: int,  # noqa: ARG002
        time_left: TimeLeft,  # noqa: ARG002
    ) -> Any:
        """Do work that must not be part of the step's transaction.

        Returns the `prepared` argument of `apply`.
        """
        return None

    def select(self, connection: Connection, operation: Operation) -> None:
        """Select the next items of an operation whose selection is not complete."""
        raise NotImplementedError

    def check_canary(self, connection: Connection, operation: Operation, now: datetime) -> CanaryStatus:
        """Return the status of a canary whose items have all started."""
        raise NotImplementedError

    @abstractmethod
    def apply(
        self, connection: Connection, operation: Operation, limit: int, schedule: Schedule, prepared: Any
    ) -> ApplyResult | None:
        """Process up to `limit` of the next items. Returns None to wait for the next run."""

    def finish(self, connection: Connection, operation: Operation) -> None:
        """Complete an operation after all its items have results."""
        raise NotImplementedError


def run_step(
    database: Database,
    definition: Definition,
    operation_id: UUID,
    tenant_id: UUID,
    now: datetime,
    *,
    batch_size: int | None = None,
    time_left: TimeLeft = lambda: inf,
) -> StepResult | None:
    """Run one step of an operation.

    Returns None if the operation is inactive, or another process is running one of its steps.

    Raises:
        ConflictError, DatabaseUnavailableError, ServiceUnavailableError: the step was rolled back; retry.
    """
    limit = definition.batch_size if batch_size is None else batch_size
    prepared = definition.prepare(database, operation_id, tenant_id, now, limit, time_left)
    with database.tenant(tenant_id) as connection:
        row = connection.execute(_LOCK_OPERATION.encode(), [operation_id]).fetchone()
        if row is None:
            return None
        operation = Operation(*row)
        if operation.active_state == "selecting":
            definition.select(connection, operation)
            return StepResult(0, (), is_busy=True)
        if operation.active_state == "canary" and _is_canary_started(operation):
            return _check_canary(connection, definition, operation, now)
        return _apply(connection, definition, operation, now, limit, prepared)


_LOCK_OPERATION = f"""
SELECT {COLUMNS} FROM operation WHERE id = %s AND state IN ('selecting', 'canary', 'running') FOR UPDATE SKIP LOCKED
"""  # noqa: S608  # the columns of the dataclass


def permitted_items(rate: int, rate_unit: timedelta, last_step_at: datetime, now: datetime) -> tuple[int, datetime]:
    """Return the number of items that may start now, and when the first one is due.

    If no items were started for some time, the rate is not exceeded later to catch up.
    """
    start = max(last_step_at, now)
    return max(0, int((now + LOOKAHEAD - start) / rate_unit * rate)), start


def _is_canary_started(operation: Operation) -> bool:
    return operation.succeeded >= (operation.canary or 0) or operation.processed == operation.selected


_START_REST = """
UPDATE operation SET state = 'running', version = version + 1, canary_passed_at = %(now)s,
    last_step_at = greatest(last_step_at, %(now)s)
WHERE id = %(id)s
"""
_EXTEND_CANARY = "UPDATE operation SET canary_started_at = %(since)s WHERE id = %(id)s"


def _check_canary(connection: Connection, definition: Definition, operation: Operation, now: datetime) -> StepResult:
    status = definition.check_canary(connection, operation, now)
    if status.state == "running":
        connection.execute(_START_REST, {"id": operation.id, "now": now})
    elif status.state == "canary":
        connection.execute(_EXTEND_CANARY, {"id": operation.id, "since": status.since})
    else:
        _halt(connection, operation, status.state, now, status.reason)
    return StepResult(0, (), is_busy=status.state == "running")


_ADVANCE = """
UPDATE operation SET selected = greatest(selected, processed + %(processed)s), processed = processed + %(processed)s,
    succeeded = succeeded + %(succeeded)s, failed = failed + %(failed)s, skipped = skipped + %(skipped)s,
    last_step_at = %(last_step_at)s,
    canary_started_at = coalesce(%(canary)s, canary_started_at),
    cursor_at = coalesce(%(cursor_at)s, cursor_at), cursor_id = coalesce(%(cursor_id)s, cursor_id)
WHERE id = %(id)s
"""


def _apply(
    connection: Connection, definition: Definition, operation: Operation, now: datetime, batch_size: int, prepared: Any
) -> StepResult:
    if operation.selection_complete and operation.processed == operation.selected:
        definition.finish(connection, operation)
        _halt(connection, operation, "done", now)
        return StepResult(0, (), is_busy=False)
    interval, start, limit = timedelta(), now, batch_size
    if operation.rate is not None:
        interval = definition.rate_unit / operation.rate
        budget, start = permitted_items(operation.rate, definition.rate_unit, operation.last_step_at, now)
        limit = min(budget, batch_size)
    if operation.active_state == "canary":
        limit = min(limit, (operation.canary or 0) - operation.succeeded)
    if limit == 0:
        return StepResult(0, (), is_busy=False)
    schedule = Schedule(start, operation.requested_at, interval, now)
    applied = definition.apply(connection, operation, limit, schedule, prepared)
    if applied is None:
        return StepResult(0, (), is_busy=False)
    counts = Counter(applied.counts)
    last_step_at = start + counts["succeeded"] * interval
    cursor_at, cursor_id = applied.cursor or (None, None)
    values: dict[str, Any] = {
        "id": operation.id,
        "processed": counts.total(),
        **{result: counts[result] for result in store.RESULTS},
        "last_step_at": last_step_at,
        "canary": max(last_step_at, now) if operation.active_state == "canary" else None,
        "cursor_at": cursor_at,
        "cursor_id": cursor_id,
    }
    connection.execute(_ADVANCE, values)
    if applied.is_last:
        _halt(connection, operation, "done" if applied.reason is None else "halted", now, applied.reason)
    return StepResult(counts.total(), applied.messages, is_busy=not applied.is_last)


_HALT = f"""
UPDATE operation SET state = %(state)s, version = version + %(is_new_version)s::int, ended_at = %(ended)s,
    reason = %(reason)s,
    selection_complete = selection_complete OR %(ended)s::timestamptz IS NOT NULL
WHERE id = %(id)s RETURNING {COLUMNS}
"""  # noqa: S608


def _halt(connection: Connection, operation: Operation, state: State, now: datetime, reason: str | None = None) -> None:
    """End or pause an operation. Users are notified if `reason` is set."""
    is_paused = state == "paused"
    # Completing a purge does not change its version, so a caller who read it during the purge can restore the purge
    # later.
    is_new_version = (operation.action, state) != ("purge", "done")
    ended = None if is_paused else now
    values = {"id": operation.id, "state": state, "ended": ended, "reason": reason, "is_new_version": is_new_version}
    (row,) = connection.execute(_HALT.encode(), values).fetchall()
    halted = Operation(*row)
    if reason is not None:
        _notify(connection, halted, reason, now)
    detail = {"succeeded": halted.succeeded, "failed": halted.failed, "skipped": halted.skipped}
    store.record(connection, halted, "pause" if is_paused else state, ACTOR, now, detail)


def _notify(connection: Connection, operation: Operation, reason: str, now: datetime) -> None:
    """Enqueue a notification for users, once per halt.

    The operation's version identifies the halt.
    """
    halt = Failure(operation.id, operation.id, OPERATION, reason, attempts=0)
    fingerprint = f"{OPERATION}/{operation.id}"
    enqueue_notification(
        connection, halt, now, tenant_id=operation.tenant_id, revision=operation.version, fingerprint=fingerprint
    )


class Engine:
    """Runs steps of all active operations, in turn, while time is left."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        definitions: Iterable[Definition],
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._definitions = {action: definition for definition in definitions for action in definition.actions}
        self._clock = clock

    def run(self, time_left: TimeLeft) -> dict[str, int]:
        """Run all operations as far as their rates allow.

        Returns the number of operations and items.

        Raises:
            DatabaseUnavailableError: this run ends. The next run continues the operations.
            RuntimeError: steps of some operations failed permanently, and the log contains the reasons. All other
                operations continued.
        """
        with self._database.delivery() as connection:
            operations = store.unfinished(connection)
        queue, failed, processed = deque(operations), 0, 0
        with ThreadPoolExecutor(MAX_SENDERS) as senders:
            while queue and time_left() >= MIN_SECONDS_LEFT:
                operation_id, tenant_id, action = queue.popleft()
                try:
                    result = self._step(operation_id, tenant_id, action, time_left)
                except DatabaseUnavailableError:
                    raise
                except Exception as error:  # noqa: BLE001  # other operations do not depend on it
                    failed += not isinstance(error, TransientError)
                    logger.error("An operation step failed", operation=str(operation_id), error=safe_message(error))
                    continue
                if result is None:
                    continue
                self._send(result.messages, senders, time_left)
                processed += result.processed
                if result.is_busy:
                    queue.append((operation_id, tenant_id, action))
        logger.info("The operations run ended", operations=len(operations), items=processed)
        if failed:
            raise RuntimeError(f"{failed} operations failed")
        return {"operations": len(operations), "items": processed}

    def _step(self, operation_id: UUID, tenant_id: UUID, action: Action, time_left: TimeLeft) -> StepResult | None:
        definition = self._definitions[action]

        def run_once() -> StepResult | None:
            return run_step(self._database, definition, operation_id, tenant_id, self._clock(), time_left=time_left)

        return retry_on_conflict(run_once)

    def _send(self, messages: Sequence[OutboxMessage], senders: ThreadPoolExecutor, time_left: TimeLeft) -> None:
        """Send messages on several threads.

        Messages that cannot be sent stay in the outbox.
        """
        chunk_size = -(-len(messages) // MAX_SENDERS)
        chunks = [messages[start : start + chunk_size] for start in range(0, len(messages), chunk_size or 1)]
        list(senders.map(lambda chunk: self._outbox.send(chunk, time_left=time_left), chunks))
