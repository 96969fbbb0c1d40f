"""Bulk operations on dead letters: retry, resolve and ignore.

A bulk operation selects the dead letters that were pending at the time of the request. Dead letters that were closed or
failed again after the request are skipped.

Dead letters are processed in batches. A retry processes dead letters with an edited payload or without a work item one
at a time, with `actions.enqueue_retry`. Each function requires a transaction of `Database.tenant`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from counterfoil import audit
from counterfoil.db import Connection, Database, PageCursor
from counterfoil.dead_letters import actions, search
from counterfoil.dead_letters.actions import (
    MAX_NOTE_CHARS,
    ChangeRequest,
    DeadLetterNotFoundError,
    NotPendingError,
    NotRetryableError,
)
from counterfoil.dead_letters.search import (
    DeadLetterEntry,
    DeadLetterFilter,
    Status,
    filter_values,
    with_conditions,
)
from counterfoil.delivery.dead_letter import ClosedStatus, close_pending
from counterfoil.delivery.outbox import TimeLeft
from counterfoil.delivery.work import OutboxMessage
from counterfoil.errors import (
    ConflictError,
    InvalidSettingsError,
    PermanentError,
    RejectedRequestError,
    VersionConflictError,
)
from counterfoil.kinds import WORK_KINDS
from counterfoil.operations import store
from counterfoil.operations.engine import ACTOR, ApplyResult, CanaryStatus, Definition, Schedule
from counterfoil.operations.store import NewOperation, Operation, OperationItem, Result
from counterfoil.tasks.task_type import InvalidPayloadError

_CLOSED_STATUSES: Mapping[str, ClosedStatus] = {"retry": "retried", "resolve": "resolved", "ignore": "ignored"}
MAX_LISTED_IDS = 1_000
"""Maximum number of dead letters that a caller may list by id."""
COUNT_LIMIT = 10_000
"""Number of matches after which the preview of a search stops counting. It checks this after each page."""
SAMPLE_SIZE = 10
"""Maximum number of dead letters in a preview."""
BATCH_SIZE = 5_000
"""Maximum number of dead letters that are selected in one transaction, if the filter has no search text."""
SEARCH_BATCH_SIZE = 500
"""Maximum number of dead letters that are selected in one transaction for a search."""


def request(connection: Connection, tenant_id: UUID, new: NewOperation, job_ids: Sequence[UUID] = ()) -> Operation:
    """Store a bulk operation, select its first dead letters, and add an audit entry.

    If `new` has no filter, `job_ids` lists the dead letters.

    Raises:
        RejectedRequestError: the note, rate, canary or number of `job_ids` is invalid, or a required note is missing.
    """
    _check(new, job_ids)
    operation = store.insert(connection, tenant_id, new)
    if new.filter is None:
        values = {"operation": operation.id, "tenant": tenant_id, "ids": list(dict.fromkeys(job_ids)), "selected": 0}
        count = connection.execute(_INSERT_LISTED, values).rowcount
        operation = store.add_selected(connection, operation, count, None, is_complete=True)
        scope: dict[str, Any] = {"dead_letters": operation.selected}
    else:
        operation = _select(connection, operation)
        scope = {"filter_hash": audit.hmac_digest(connection, tenant_id, DeadLetterFilter(**new.filter).hash).hex()}
    detail = {"rate": new.rate, "canary": new.canary, **scope}
    store.record(connection, operation, "request", new.requested_by, new.requested_at, detail)
    return operation


def _check(new: NewOperation, job_ids: Sequence[UUID]) -> None:
    if new.note is not None and not 0 < len(new.note.strip()) <= len(new.note) <= MAX_NOTE_CHARS:
        raise RejectedRequestError(f"The note is empty, or longer than {MAX_NOTE_CHARS} characters.")
    if new.action != "retry" and new.note is None:
        raise RejectedRequestError("A note is required: give a reason.")
    if new.canary is not None and (new.action != "retry" or new.canary < 1):
        raise RejectedRequestError("A canary requires the action retry and must be at least one dead letter.")
    if new.filter is None and not 1 <= len(set(job_ids)) <= MAX_LISTED_IDS:
        raise RejectedRequestError(f"Give 1 to {MAX_LISTED_IDS} dead letters or a filter.")


# -- selection --------------------------------------------------------------------------------------------------------

_INSERT_ITEMS = """
INSERT INTO operation_item (operation_id, number, tenant_id, job_id)
SELECT %(operation)s, %(selected)s + row_number() OVER (ORDER BY dlq_timestamp DESC, job_id DESC), %(tenant)s, job_id
FROM next_items
"""
_INSERT_NEXT = f"""
WITH next_items AS MATERIALIZED (
    SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
    WHERE d.tenant_id = %(tenant)s AND d.status = 'pending' AND d.purged_at IS NULL {{conditions}}
    ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(limit)s
), inserted AS ({_INSERT_ITEMS})
SELECT count(*), min(dlq_timestamp), (array_agg(job_id ORDER BY dlq_timestamp, job_id))[1] FROM next_items
"""  # noqa: S608  # the statement above
# Selects dead letters that were pending at the time of the request, but were closed before they could be selected.
# `retain_until` excludes dead letters that were purged and restored, because they were closed before the request.
_INSERT_CLOSED = f"""
WITH next_items AS MATERIALIZED (
    SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
    WHERE d.status <> 'pending' AND d.resolved_at >= %(requested_at)s AND d.tenant_id = %(tenant)s
      AND d.purged_at IS NULL AND d.retain_until IS NULL {{conditions}}
      AND NOT EXISTS (
          SELECT FROM operation_item i WHERE i.operation_id = %(operation)s AND i.job_id = d.job_id)
), inserted AS ({_INSERT_ITEMS})
SELECT count(*) FROM next_items
"""  # noqa: S608
_INSERT_LISTED = """
INSERT INTO operation_item (operation_id, number, tenant_id, job_id)
SELECT %(operation)s, %(selected)s + number, %(tenant)s, id
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS named (id, number)
"""


def _select(connection: Connection, operation: Operation) -> Operation:
    """Select the next dead letters of an operation.

    The caller must have locked the operation's row.

    The operation starts when all dead letters are selected.
    """
    filter_ = DeadLetterFilter(**operation.filter or {}).pending.before(operation.requested_at)
    cursor_at, cursor_id = operation.cursor_at, operation.cursor_id
    after = None if cursor_at is None or cursor_id is None else PageCursor(cursor_at, cursor_id)
    values = {"operation": operation.id, "tenant": operation.tenant_id, "selected": operation.selected}
    if filter_.search is not None:
        page = search.page(connection, operation.tenant_id, filter_, limit=SEARCH_BATCH_SIZE, after=after)
        connection.execute(_INSERT_LISTED, values | {"ids": [entry.job_id for entry in page.entries]})
        return store.add_selected(
            connection, operation, len(page.entries), page.next_cursor, is_complete=page.next_cursor is None
        )
    values |= filter_values(operation.tenant_id, filter_, after) | {"limit": BATCH_SIZE}
    ((count, cursor_at, cursor_id),) = connection.execute(with_conditions(_INSERT_NEXT, values), values).fetchall()
    cursor = None if cursor_at is None else (cursor_at, cursor_id)
    if count == BATCH_SIZE:
        return store.add_selected(connection, operation, count, cursor, is_complete=False)
    values |= {"selected": operation.selected + count, "after_at": None, "requested_at": operation.requested_at}
    ((closed,),) = connection.execute(with_conditions(_INSERT_CLOSED, values), values).fetchall()
    return store.add_selected(connection, operation, count + closed, cursor, is_complete=True)


# -- preview ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BulkPreview:
    """Preview of a bulk operation."""

    count: int
    is_exact: bool
    """False if there may be more matches than `count`."""
    sample: Sequence[DeadLetterEntry]
    """The newest dead letters, at most SAMPLE_SIZE."""


def preview(
    connection: Connection, tenant_id: UUID, selection: DeadLetterFilter | None, job_ids: Sequence[UUID], now: datetime
) -> BulkPreview:
    """Preview an operation on `selection`, or on `job_ids` if `selection` is None.

    Nothing is stored.
    """
    if selection is None:
        entries = search.find_by_ids(connection, tenant_id, DeadLetterFilter().pending.before(now), job_ids)
        return BulkPreview(len(entries), True, entries[:SAMPLE_SIZE])
    filter_ = selection.pending.before(now)
    if selection.search is None:
        newest = search.page(connection, tenant_id, filter_, limit=SAMPLE_SIZE)
        return BulkPreview(search.count(connection, tenant_id, filter_), True, newest.entries)
    count, sample, after = 0, list[DeadLetterEntry](), None
    while count < COUNT_LIMIT:
        page = search.page(connection, tenant_id, filter_, limit=SEARCH_BATCH_SIZE, after=after)
        count += len(page.entries)
        sample += page.entries[: SAMPLE_SIZE - len(sample)]
        after = page.next_cursor
        if after is None:
            return BulkPreview(count, True, sample)
    return BulkPreview(count, False, sample)


# -- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _DeadLetter:
    """A dead letter in an operation. If it no longer exists, its status is None."""

    number: int
    job_id: UUID
    worker: str | None = None
    work_id: UUID | None = None
    revision: int | None = None
    status: Status | None = None
    version: int = 0
    failed_at: datetime | None = None
    is_edited: bool = False

    def item(self, result: Result, reason: str | None = None) -> OperationItem:
        """Return the operation item that records `result` for this dead letter."""
        return OperationItem(
            self.number, self.job_id, result, reason, None if self.status is None else self.version, None
        )


StoredPayloads = Mapping[tuple[UUID, int], str | PermanentError | None]
"""S3 key of each edited payload, by dead letter and version. The value is None if the payload is small, or the error if
it could not be stored."""


@dataclass(frozen=True)
class BulkSteps(Definition):
    """Steps of the operations retry, resolve and ignore."""

    bucket: str | None
    """Bucket for edited payloads that are too large for a message."""
    actions = ("retry", "resolve", "ignore")

    def prepare(
        self,
        database: Database,
        operation_id: UUID,
        tenant_id: UUID,
        now: datetime,
        batch_size: int,
        _time_left: TimeLeft,
    ) -> StoredPayloads:
        """Upload the large edited payloads of the next items."""
        return _store_payloads(database, operation_id, tenant_id, now, self.bucket, batch_size)

    def select(self, connection: Connection, operation: Operation) -> None:
        """Select the next dead letters."""
        _select(connection, operation)

    def check_canary(self, connection: Connection, operation: Operation, now: datetime) -> CanaryStatus:
        """Return the status of the operation's canary."""
        return _canary_status(connection, operation, now)

    def apply(
        self, connection: Connection, operation: Operation, limit: int, schedule: Schedule, prepared: StoredPayloads
    ) -> ApplyResult:
        """Process the next items."""
        is_retry = operation.action == "retry"
        rows = connection.execute(_NEXT_ITEMS.encode(), _item_range(operation.id, operation.processed, limit))
        dead_letters, results = _filter_processable(operation, [_DeadLetter(*row) for row in rows])
        dead_letters, skipped = (_lock_with_work_items if is_retry else _lock)(connection, operation, dead_letters)
        results += skipped
        messages: list[OutboxMessage] = []
        started = 0
        batch: list[_DeadLetter] = []
        for dead_letter in dead_letters:
            if is_retry and (dead_letter.is_edited or dead_letter.work_id is None):
                item, retry_messages = _retry_single(connection, operation, dead_letter, schedule, started, prepared)
                results.append(item)
                started += item.result == "succeeded"
                messages += retry_messages
            else:
                batch.append(dead_letter)
        if batch:
            detail = {"operation": str(operation.id)}
            status, actor, note = _CLOSED_STATUSES[operation.action], operation.requested_by, operation.note
            ids = [dead_letter.job_id for dead_letter in batch]
            versions = close_pending(connection, ids, status, schedule.now, actor=actor, note=note, detail=detail)
            work_items = [
                (dead_letter.worker, dead_letter.work_id)
                for dead_letter in batch
                if is_retry and dead_letter.worker and dead_letter.work_id
            ]
            batch_messages = schedule.start_work_items(connection, work_items, started)
            revisions = {message.message.work_id: message.message.revision for message in batch_messages}
            messages += batch_messages
            for dead_letter in batch:
                revision = None if dead_letter.work_id is None else revisions.get(dead_letter.work_id)
                results.append(
                    replace(dead_letter.item("succeeded"), version=versions[dead_letter.job_id], revision=revision)
                )
        store.write_results(connection, operation.id, results)
        return ApplyResult(Counter(item.result for item in results if item.result is not None), messages)

    def finish(self, connection: Connection, operation: Operation) -> None:
        """Close the group if the operation resolved or ignored all of its dead letters."""
        group = (operation.filter or {}).get("fingerprint")
        if operation.action != "retry" and group is not None and len(operation.filter or {}) == 1:
            values = {"as": _CLOSED_STATUSES[operation.action], "at": operation.requested_at}
            connection.execute(_CLOSE_GROUP, values | {"tenant": operation.tenant_id, "fingerprint": group})


_CLOSE_GROUP = """
UPDATE dead_letter_group SET closed_as = %(as)s, closed_at = %(at)s
WHERE tenant_id = %(tenant)s AND fingerprint = %(fingerprint)s
"""


_IS_EDITED = "coalesce(d.edited_payload IS NOT NULL AND NOT d.edit_metadata ? 'closed_as', false)"
_NEXT_ITEMS = f"""
SELECT i.number, i.job_id, d.worker, d.work_id, d.revision, d.status, coalesce(d.version, 0), d.dlq_timestamp,
       {_IS_EDITED}
FROM operation_item i
LEFT JOIN dead_letter d ON d.job_id = i.job_id AND d.tenant_id = i.tenant_id AND d.purged_at IS NULL
WHERE i.operation_id = %(id)s AND i.number > %(after)s AND i.number <= %(last)s
ORDER BY i.number
"""  # noqa: S608  # the expression above


def _item_range(operation_id: UUID, processed: int, limit: int) -> dict[str, Any]:
    """Return the query parameters for the next items.

    `last` is computed here, because PostgreSQL would add two small parameters as smallints, which overflow at 32,767.
    """
    return {"id": operation_id, "after": processed, "last": processed + limit}


def _filter_processable(
    operation: Operation, dead_letters: Iterable[_DeadLetter]
) -> tuple[list[_DeadLetter], list[OperationItem]]:
    """Return the dead letters that can be processed, and results for all others."""
    processable: list[_DeadLetter] = []
    skipped: list[OperationItem] = []
    for dead_letter in dead_letters:
        if dead_letter.status is None or dead_letter.failed_at is None:
            skipped.append(dead_letter.item("skipped", "There is no such dead letter."))
        elif dead_letter.failed_at >= operation.requested_at:
            skipped.append(dead_letter.item("skipped", "It failed after the request."))
        elif dead_letter.status != "pending":
            skipped.append(dead_letter.item("skipped", f"It is already {dead_letter.status}."))
        else:
            processable.append(dead_letter)
    return processable, skipped


_LOCK_WORK_ITEMS = "SELECT id, {status}, {revision} FROM {table} WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE"
_LOCK_DEAD_LETTERS = f"""
SELECT job_id, status, version, dlq_timestamp, revision, {_IS_EDITED}
FROM dead_letter d WHERE job_id = ANY(%(ids)s) AND tenant_id = %(tenant)s AND purged_at IS NULL
ORDER BY job_id FOR NO KEY UPDATE
"""  # noqa: S608


def _lock_with_work_items(
    connection: Connection, operation: Operation, dead_letters: Sequence[_DeadLetter]
) -> tuple[list[_DeadLetter], list[OperationItem]]:
    """Lock the work items and then their dead letters, as in delivery.

    Returns the dead letters whose work item is failed, and results for all others. Dead letters without a work item are
    also returned, because `_retry_single` checks them.
    """
    work_items: dict[tuple[str | None, UUID | None], tuple[str | None, int]] = {}
    ids_by_worker: dict[str, list[UUID]] = defaultdict(list)
    for dead_letter in dead_letters:
        if dead_letter.work_id is not None and dead_letter.worker in WORK_KINDS:
            ids_by_worker[dead_letter.worker].append(dead_letter.work_id)
    for worker in sorted(ids_by_worker):
        rows = connection.execute(WORK_KINDS[worker].sql(_LOCK_WORK_ITEMS), {"ids": ids_by_worker[worker]})
        work_items |= {(worker, id_): (status, revision) for id_, status, revision in rows}
    pending, results = _lock(connection, operation, dead_letters)
    failed: list[_DeadLetter] = []
    for dead_letter in pending:
        status, revision = work_items.get((dead_letter.worker, dead_letter.work_id), (actions.DELETED_REASON, 0))
        if dead_letter.work_id is None or (status, revision) == ("failed", dead_letter.revision):
            failed.append(dead_letter)
        else:
            results.append(dead_letter.item("failed", actions.not_failed_reason(status)))
    return failed, results


def _lock(
    connection: Connection, operation: Operation, dead_letters: Sequence[_DeadLetter]
) -> tuple[list[_DeadLetter], list[OperationItem]]:
    """Lock dead letters.

    Returns pending dead letters with their current fields, and results for all others.
    """
    values = {"ids": [dead_letter.job_id for dead_letter in dead_letters], "tenant": operation.tenant_id}
    rows = {row[0]: row[1:] for row in connection.execute(_LOCK_DEAD_LETTERS.encode(), values)} if dead_letters else {}
    locked: list[_DeadLetter] = []
    for dead_letter in dead_letters:
        status, version, failed_at, revision, is_edited = rows.get(dead_letter.job_id, (None, 0, None, None, False))
        locked.append(
            replace(
                dead_letter, revision=revision, status=status, version=version, failed_at=failed_at, is_edited=is_edited
            )
        )
    return _filter_processable(operation, locked)


def _retry_single(
    connection: Connection,
    operation: Operation,
    dead_letter: _DeadLetter,
    schedule: Schedule,
    index: int,
    stored: StoredPayloads,
) -> tuple[OperationItem, Sequence[OutboxMessage]]:
    """Retry a dead letter that has an edited payload or no work item.

    `index` is its position in the schedule.
    """
    change = ChangeRequest(
        dead_letter.job_id, dead_letter.version, operation.requested_by, schedule.now, operation.note
    )
    key: str | None = None
    if dead_letter.is_edited:
        if (dead_letter.job_id, dead_letter.version) not in stored:
            raise ConflictError("The payload was edited during the step")
        stored_key = stored[dead_letter.job_id, dead_letter.version]
        if isinstance(stored_key, PermanentError):
            return dead_letter.item("failed", "Its edited payload cannot be stored."), ()
        key = stored_key
    try:
        result = actions.enqueue_retry(
            connection, operation.tenant_id, change, payload_s3_key=key, scheduled_at=schedule.due_at(index)
        )
    except NotRetryableError as error:
        return dead_letter.item("failed", str(error)), ()
    except InvalidPayloadError:
        return dead_letter.item("failed", "The edited payload no longer matches its task type."), ()
    revision = result.messages[0].message.revision if result.messages and dead_letter.work_id is not None else None
    return replace(dead_letter.item("succeeded"), version=result.version, revision=revision), result.messages


# -- canary -----------------------------------------------------------------------------------------------------------

CANARY_TIMEOUT = timedelta(minutes=45)
"""Maximum time for a canary's attempts. It exceeds the 35 minutes between a document's first and last attempt.

The time before the first attempts, such as the time in a paused queue, does not count.
"""


# If a message names no work item, its success is unknown. It counts as failed if it was dead-lettered again.
_CANARY_ITEMS = """
SELECT i.number, d.worker, d.work_id, coalesce(d.dlq_timestamp > %(requested_at)s, false)
FROM operation_item i LEFT JOIN dead_letter d ON d.job_id = i.job_id
WHERE i.operation_id = %(id)s AND i.result = 'succeeded'
"""


def _canary_status(connection: Connection, operation: Operation, now: datetime) -> CanaryStatus:
    """Return a canary's status, based on the states of its work items.

    Items whose retry failed again are stored as failed.
    """
    values = {"id": operation.id, "requested_at": operation.requested_at}
    items = connection.execute(_CANARY_ITEMS, values).fetchall()
    work_items = [(worker, id_) for _, worker, id_, _ in items if id_ is not None and worker in WORK_KINDS]
    states = _load_states(connection, work_items)
    outcome_by_number = {
        number: "failed" if failed_again else states.get((worker, id_)) for number, worker, id_, failed_again in items
    }
    outcomes = Counter(outcome_by_number.values())
    since = operation.canary_started_at or now
    attempted = sum(outcomes[state] for state in _ATTEMPTED_STATES)
    if outcomes["failed"]:
        failed = [number for number, outcome in outcome_by_number.items() if outcome == "failed"]
        store.mark_failed(connection, operation.id, failed, "It failed again.")
        return CanaryStatus("halted", since, f"{_subject(outcomes['failed'], attempted)} failed again.")
    if outcomes["unattempted"]:
        return CanaryStatus("canary", max(since, now))
    if outcomes["attempted"]:
        if now < since + CANARY_TIMEOUT:
            return CanaryStatus("canary", since)
        subject, minutes = _subject(outcomes["attempted"], attempted), CANARY_TIMEOUT // timedelta(minutes=1)
        message = f"{subject} did not succeed within {minutes} minutes of attempts."
        return CanaryStatus(
            "paused", since, f"{message} Check the cause. Resume the operation to wait again, or cancel it."
        )
    if work_items and not outcomes["succeeded"]:
        subject, is_one = _subject("None", len(items)), len(items) == 1
        message = f"{subject} did not succeed: it was" if is_one else f"{subject} succeeded: they were"
        message += " canceled or had nothing to do. Cancel the operation and retry other dead letters."
        return CanaryStatus("paused", since, message)
    return CanaryStatus("running", since)


_ATTEMPTED_STATES = ("failed", "attempted", "succeeded", "ended")
"""States of work items that had an attempt."""


def _subject(count: int | Literal["None"], total: int) -> str:
    """Return the subject of a sentence about a canary's retries."""
    return "The first retry" if total == 1 else f"{count} of the first {total} retries"


_WORK_ITEM_STATES = """
SELECT id, CASE WHEN {status} = 'pending' AND {attempts} = 0 THEN 'unattempted'
                WHEN {status} IN ('pending', 'in-progress') THEN 'attempted'
                WHEN {status} IS NULL AND {attempts} > 0 THEN 'ended' ELSE {status} END
FROM {table} WHERE id = ANY(%(ids)s)
"""


def _load_states(connection: Connection, work_items: Iterable[tuple[str, UUID]]) -> dict[tuple[str, UUID], str | None]:
    """Return the state of each existing work item.

    The states are unattempted, attempted, succeeded, failed and ended. The state is None if the work item was canceled
    before any attempt. It is the state of the work item's current revision, even if that is newer than the canary's.
    """
    ids: dict[str, list[UUID]] = defaultdict(list)
    for worker, id_ in work_items:
        ids[worker].append(id_)
    return {
        (worker, id_): state
        for worker, worker_ids in ids.items()
        for id_, state in connection.execute(WORK_KINDS[worker].sql(_WORK_ITEM_STATES), {"ids": worker_ids})
    }


# -- edited payloads --------------------------------------------------------------------------------------------------

_PROCESSED = "SELECT processed FROM operation WHERE id = %s AND action = 'retry' AND selection_complete"
_EDITED_ITEMS = f"""
SELECT d.job_id, d.version FROM operation_item i
JOIN dead_letter d ON d.job_id = i.job_id AND d.tenant_id = i.tenant_id AND d.purged_at IS NULL
WHERE i.operation_id = %(id)s AND i.number > %(after)s AND i.number <= %(last)s
  AND d.status = 'pending' AND {_IS_EDITED}
"""  # noqa: S608


def _store_payloads(
    database: Database, operation_id: UUID, tenant_id: UUID, now: datetime, bucket: str | None, limit: int
) -> StoredPayloads:
    """Upload the next items' large edited payloads, and return their keys or errors."""
    with database.tenant(tenant_id) as connection:
        row = connection.execute(_PROCESSED, [operation_id]).fetchone()
        if row is None:
            return {}
        edited = connection.execute(_EDITED_ITEMS.encode(), _item_range(operation_id, row[0], limit)).fetchall()
    stored: dict[tuple[UUID, int], str | PermanentError | None] = {}
    for job_id, version in edited:
        try:
            stored[job_id, version] = actions.store_large_payload(
                database, tenant_id, ChangeRequest(job_id, version, ACTOR, now), bucket
            )
        except (DeadLetterNotFoundError, NotPendingError, VersionConflictError):
            continue  # the dead letter has changed, and `apply` reads it again
        except InvalidSettingsError:
            raise
        except PermanentError as error:
            stored[job_id, version] = error
    return stored
