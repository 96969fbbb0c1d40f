"""Bulk operations on dead letters: retry, resolve and ignore many.

The request time fixes the selection: dead letters that were pending at that time. Dead letters that were closed or
failed again after the request are skipped.

Most dead letters are processed in batches. `actions.enqueue_retry` processes dead letters with an edited payload or
without a work item one at a time. Each function requires a transaction of `Database.tenant`.
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
from counterfoil.delivery.dead_letter import ClosedStatus, settle
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
from counterfoil.operations.engine import ACTOR, Applied, CanaryStatus, Definition, Turns
from counterfoil.operations.store import NewOperation, Operation, OperationItem, Result
from counterfoil.tasks.task_type import InvalidPayloadError

_BECOMES: Mapping[str, ClosedStatus] = {"retry": "retried", "resolve": "resolved", "ignore": "ignored"}
MAX_NAMED_IDS = 1_000
"""Dead letters that a caller may list."""
COUNT_LIMIT = 10_000
"""Dead letters that the preview of a search counts, page by page."""
SAMPLE_SIZE = 10
BATCH_SIZE = 5_000
"""Dead letters selected in one transaction."""
SEARCH_BATCH_SIZE = 500
"""The same for a search."""


def request(connection: Connection, tenant_id: UUID, new: NewOperation, job_ids: Sequence[UUID] = ()) -> Operation:
    """Store an operation, select its first dead letters, and record it in the audit trail.

    `job_ids` lists the dead letters if `new` has no filter.

    Raises:
        RejectedRequestError: a required note is missing, or the rate or the canary is out of bounds.
    """
    _check(new, job_ids)
    operation = store.insert(connection, tenant_id, new)
    if new.filter is None:
        values = {"operation": operation.id, "tenant": tenant_id, "ids": list(dict.fromkeys(job_ids)), "selected": 0}
        number = connection.execute(_NAME, values).rowcount
        operation = store.add_selected(connection, operation, number, None, is_all=True)
        meant: dict[str, Any] = {"dead_letters": operation.selected}
    else:
        operation = _select(connection, operation)
        meant = {"filter_hash": audit.hmac_digest(connection, tenant_id, DeadLetterFilter(**new.filter).hash).hex()}
    detail = {"rate": new.rate, "canary": new.canary, **meant}
    store.record(connection, operation, "request", new.requested_by, new.requested_at, detail)
    return operation


def _check(new: NewOperation, job_ids: Sequence[UUID]) -> None:
    if new.note is not None and not 0 < len(new.note.strip()) <= len(new.note) <= MAX_NOTE_CHARS:
        raise RejectedRequestError(f"The note is empty, or longer than {MAX_NOTE_CHARS} characters.")
    if new.action != "retry" and new.note is None:
        raise RejectedRequestError("A note is required: give a reason.")
    if new.canary is not None and (new.action != "retry" or new.canary < 1):
        raise RejectedRequestError("The canary must be at least one dead letter.")
    if new.filter is None and not 1 <= len(set(job_ids)) <= MAX_NAMED_IDS:
        raise RejectedRequestError(f"Give 1 to {MAX_NAMED_IDS} dead letters or a filter.")


# -- selection --------------------------------------------------------------------------------------------------------

_INSERT = """
INSERT INTO operation_item (operation_id, number, tenant_id, job_id)
SELECT %(operation)s, %(selected)s + row_number() OVER (ORDER BY dlq_timestamp DESC, job_id DESC), %(tenant)s, job_id
FROM few
"""
_MORE = f"""
WITH few AS MATERIALIZED (
    SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
    WHERE d.tenant_id = %(tenant)s AND d.status = 'pending' AND d.purged_at IS NULL {{conditions}}
    ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(limit)s
), made AS ({_INSERT})
SELECT count(*), min(dlq_timestamp), (array_agg(job_id ORDER BY dlq_timestamp, job_id))[1] FROM few
"""  # noqa: S608  # the statement above
# Dead letters that were pending at the request and closed before they were selected. retain_until excludes dead letters
# that were purged and restored, because they were closed earlier.
_SETTLED_MEANWHILE = f"""
WITH few AS MATERIALIZED (
    SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
    WHERE d.status <> 'pending' AND d.resolved_at >= %(requested_at)s AND d.tenant_id = %(tenant)s
      AND d.purged_at IS NULL AND d.retain_until IS NULL {{conditions}}
      AND NOT EXISTS (
          SELECT FROM operation_item i WHERE i.operation_id = %(operation)s AND i.job_id = d.job_id)
), made AS ({_INSERT})
SELECT count(*) FROM few
"""  # noqa: S608
_NAME = """
INSERT INTO operation_item (operation_id, number, tenant_id, job_id)
SELECT %(operation)s, %(selected)s + number, %(tenant)s, id
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS named (id, number)
"""


def _select(connection: Connection, operation: Operation) -> Operation:
    """Select the next dead letters of an operation, whose row is locked. It runs once all are selected."""
    wanted = DeadLetterFilter(**operation.filter or {}).pending.before(operation.requested_at)
    at, last = operation.cursor_at, operation.cursor_id
    after = None if at is None or last is None else PageCursor(at, last)
    values = {"operation": operation.id, "tenant": operation.tenant_id, "selected": operation.selected}
    if wanted.text is not None:
        found = search.page(connection, operation.tenant_id, wanted, limit=SEARCH_BATCH_SIZE, after=after)
        connection.execute(_NAME, values | {"ids": [entry.job_id for entry in found.entries]})
        return store.add_selected(
            connection, operation, len(found.entries), found.next_cursor, is_all=found.next_cursor is None
        )
    values |= filter_values(operation.tenant_id, wanted, after) | {"limit": BATCH_SIZE}
    ((number, at, last),) = connection.execute(with_conditions(_MORE, values), values).fetchall()
    cursor = None if at is None else (at, last)
    if number == BATCH_SIZE:
        return store.add_selected(connection, operation, number, cursor, is_all=False)
    values |= {"selected": operation.selected + number, "after_at": None, "requested_at": operation.requested_at}
    ((settled,),) = connection.execute(with_conditions(_SETTLED_MEANWHILE, values), values).fetchall()
    return store.add_selected(connection, operation, number + settled, cursor, is_all=True)


# -- preview ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BulkPreview:
    """Estimate of an operation."""

    count: int
    is_exact: bool
    """False if the counts are minimums."""
    sample: Sequence[DeadLetterEntry]
    """Newest dead letters."""


def preview(
    connection: Connection, tenant_id: UUID, selection: DeadLetterFilter | None, job_ids: Sequence[UUID], now: datetime
) -> BulkPreview:
    """Estimate an operation on `selection` or on `job_ids`. Nothing is stored."""
    if selection is None:
        found = search.of_ids(connection, tenant_id, DeadLetterFilter().pending.before(now), job_ids)
        return BulkPreview(len(found), True, found[:SAMPLE_SIZE])
    wanted = selection.pending.before(now)
    if selection.text is None:
        newest = search.page(connection, tenant_id, wanted, limit=SAMPLE_SIZE)
        return BulkPreview(search.count(connection, tenant_id, wanted), True, newest.entries)
    number, sample, after = 0, list[DeadLetterEntry](), None
    while number < COUNT_LIMIT:
        part = search.page(connection, tenant_id, wanted, limit=SEARCH_BATCH_SIZE, after=after)
        number += len(part.entries)
        sample += part.entries[: SAMPLE_SIZE - len(sample)]
        after = part.next_cursor
        if after is None:
            return BulkPreview(number, True, sample)
    return BulkPreview(number, False, sample)


# -- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Letter:
    """Dead letter of an operation, without status if it no longer exists."""

    number: int
    job_id: UUID
    worker: str | None = None
    work_id: UUID | None = None
    revision: int | None = None
    status: Status | None = None
    version: int = 0
    died_at: datetime | None = None
    is_edited: bool = False

    def item(self, result: Result, reason: str | None = None) -> OperationItem:
        """Return the operation item with its result."""
        return OperationItem(
            self.number, self.job_id, result, reason, None if self.status is None else self.version, None
        )


Stored = Mapping[tuple[UUID, int], str | PermanentError | None]
"""S3 keys of edited payloads by dead letter and version, or the error if a payload cannot be stored."""


@dataclass(frozen=True)
class BulkSteps(Definition):
    """Definition of retry, resolve and ignore."""

    bucket: str | None
    """Bucket of edited payloads that are too large for a message."""
    actions = ("retry", "resolve", "ignore")

    def prepare(
        self,
        database: Database,
        operation_id: UUID,
        tenant_id: UUID,
        now: datetime,
        at_once: int,
        _time_left: TimeLeft,
    ) -> Stored:
        """Store the large edited payloads of the next items."""
        return _stored(database, operation_id, tenant_id, now, self.bucket, at_once)

    def select(self, connection: Connection, operation: Operation) -> None:
        """Select the next dead letters."""
        _select(connection, operation)

    def watch(self, connection: Connection, operation: Operation, now: datetime) -> CanaryStatus:
        """Return the status of a canary."""
        return _watch(connection, operation, now)

    def apply(
        self, connection: Connection, operation: Operation, limit: int, turns: Turns, prepared: Stored
    ) -> Applied:
        """Process the next items."""
        is_retry = operation.action == "retry"
        rows = connection.execute(_LETTERS.encode(), _behind(operation.id, operation.processed, limit))
        dead_letters, results = _not_refused(operation, [_Letter(*row) for row in rows])
        dead_letters, refused = (_lock_with_work if is_retry else _lock)(connection, operation, dead_letters)
        results += refused
        sends: list[OutboxMessage] = []
        begun = 0
        plain: list[_Letter] = []
        for dead_letter in dead_letters:
            if is_retry and (dead_letter.is_edited or dead_letter.work_id is None):
                item, owed = _retry_alone(connection, operation, dead_letter, turns, begun, prepared)
                results.append(item)
                begun += item.result == "succeeded"
                sends += owed
            else:
                plain.append(dead_letter)
        if plain:
            detail = {"operation": str(operation.id)}
            becomes, by, note = _BECOMES[operation.action], operation.requested_by, operation.note
            ids = [dead_letter.job_id for dead_letter in plain]
            versions = settle(connection, ids, becomes, turns.now, actor=by, note=note, detail=detail)
            works = [(one.worker, one.work_id) for one in plain if is_retry and one.worker and one.work_id]
            owed = turns.begin(connection, works, begun)
            revisions = {send.message.work_id: send.message.revision for send in owed}
            sends += owed
            for dead_letter in plain:
                revision = None if dead_letter.work_id is None else revisions.get(dead_letter.work_id)
                results.append(
                    replace(dead_letter.item("succeeded"), version=versions[dead_letter.job_id], revision=revision)
                )
        store.write_results(connection, operation.id, results)
        return Applied(Counter(item.result for item in results if item.result is not None), sends)

    def end(self, connection: Connection, operation: Operation) -> None:
        """Close the group, if the operation covered all of it."""
        group = (operation.filter or {}).get("fingerprint")
        if operation.action != "retry" and group is not None and len(operation.filter or {}) == 1:
            settled = {"as": _BECOMES[operation.action], "at": operation.requested_at}
            connection.execute(_SETTLE_GROUP, settled | {"tenant": operation.tenant_id, "fingerprint": group})


_SETTLE_GROUP = """
UPDATE dead_letter_group SET closed_as = %(as)s, closed_at = %(at)s
WHERE tenant_id = %(tenant)s AND fingerprint = %(fingerprint)s
"""


_IS_EDITED = "coalesce(d.edited_payload IS NOT NULL AND NOT d.edit_metadata ? 'settled', false)"
_LETTERS = f"""
SELECT i.number, i.job_id, d.worker, d.work_id, d.revision, d.status, coalesce(d.version, 0), d.dlq_timestamp,
       {_IS_EDITED}
FROM operation_item i
LEFT JOIN dead_letter d ON d.job_id = i.job_id AND d.tenant_id = i.tenant_id AND d.purged_at IS NULL
WHERE i.operation_id = %(id)s AND i.number > %(after)s AND i.number <= %(last)s
ORDER BY i.number
"""  # noqa: S608  # the expression above


def _behind(operation_id: UUID, processed: int, limit: int) -> dict[str, Any]:
    """Return the number range of the next items.

    It is computed here because PostgreSQL would add two small parameters as smallints, which overflow at 32,767.
    """
    return {"id": operation_id, "after": processed, "last": processed + limit}


def _not_refused(operation: Operation, dead_letters: Iterable[_Letter]) -> tuple[list[_Letter], list[OperationItem]]:
    """Return the dead letters that may be processed, and results for the others. Pure."""
    good: list[_Letter] = []
    skipped: list[OperationItem] = []
    for dead_letter in dead_letters:
        if dead_letter.status is None or dead_letter.died_at is None:
            skipped.append(dead_letter.item("skipped", "There is no such dead letter."))
        elif dead_letter.died_at >= operation.requested_at:
            skipped.append(dead_letter.item("skipped", "It failed after the request."))
        elif dead_letter.status != "pending":
            skipped.append(dead_letter.item("skipped", f"It is already {dead_letter.status}."))
        else:
            good.append(dead_letter)
    return good, skipped


_LOCK_WORKS = "SELECT id, {status}, {revision} FROM {table} WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE"
_LOCK_LETTERS = f"""
SELECT job_id, status, version, dlq_timestamp, revision, {_IS_EDITED}
FROM dead_letter d WHERE job_id = ANY(%(ids)s) AND tenant_id = %(tenant)s AND purged_at IS NULL
ORDER BY job_id FOR NO KEY UPDATE
"""  # noqa: S608


def _lock_with_work(
    connection: Connection, operation: Operation, dead_letters: Sequence[_Letter]
) -> tuple[list[_Letter], list[OperationItem]]:
    """Lock the work items and then their dead letters, in the order of delivery.

    Returns the dead letters whose work item is failed, and results for the others. Dead letters without a work item
    are also returned, because `_retry_alone` checks them.
    """
    works: dict[tuple[str | None, UUID | None], tuple[str | None, int]] = {}
    named: dict[str, list[UUID]] = defaultdict(list)
    for dead_letter in dead_letters:
        if dead_letter.work_id is not None and dead_letter.worker in WORK_KINDS:
            named[dead_letter.worker].append(dead_letter.work_id)
    for worker in sorted(named):
        locked = connection.execute(WORK_KINDS[worker].sql(_LOCK_WORKS), {"ids": named[worker]})
        works |= {(worker, id_): (status, revision) for id_, status, revision in locked}
    good, refused = _lock(connection, operation, dead_letters)
    failed: list[_Letter] = []
    for dead_letter in good:
        status, revision = works.get((dead_letter.worker, dead_letter.work_id), (actions.DELETED_REASON, 0))
        if dead_letter.work_id is None or (status, revision) == ("failed", dead_letter.revision):
            failed.append(dead_letter)
        else:
            refused.append(dead_letter.item("failed", actions.not_failed_reason(status)))
    return failed, refused


def _lock(
    connection: Connection, operation: Operation, dead_letters: Sequence[_Letter]
) -> tuple[list[_Letter], list[OperationItem]]:
    """Lock dead letters. Returns the pending ones, as they are now, and results for the others."""
    values = {"ids": [dead_letter.job_id for dead_letter in dead_letters], "tenant": operation.tenant_id}
    rows = {row[0]: row[1:] for row in connection.execute(_LOCK_LETTERS.encode(), values)} if dead_letters else {}
    found: list[_Letter] = []
    for dead_letter in dead_letters:
        status, version, died_at, revision, is_edited = rows.get(dead_letter.job_id, (None, 0, None, None, False))
        found.append(
            replace(
                dead_letter, revision=revision, status=status, version=version, died_at=died_at, is_edited=is_edited
            )
        )
    return _not_refused(operation, found)


def _retry_alone(
    connection: Connection, operation: Operation, dead_letter: _Letter, turns: Turns, place: int, stored: Stored
) -> tuple[OperationItem, Sequence[OutboxMessage]]:
    """Retry a dead letter with an edited payload or without a work item. Its message is due at its turn."""
    wish = ChangeRequest(dead_letter.job_id, dead_letter.version, operation.requested_by, turns.now, operation.note)
    key: str | None = None
    if dead_letter.is_edited:
        if (dead_letter.job_id, dead_letter.version) not in stored:
            raise ConflictError("A payload was edited in between")
        at = stored[dead_letter.job_id, dead_letter.version]
        if isinstance(at, PermanentError):
            return dead_letter.item("failed", "Its edited payload cannot be stored."), ()
        key = at
    try:
        done = actions.enqueue_retry(
            connection, operation.tenant_id, wish, payload_s3_key=key, scheduled_at=turns.due(place)
        )
    except NotRetryableError as error:
        return dead_letter.item("failed", str(error)), ()
    except InvalidPayloadError:
        return dead_letter.item("failed", "The edited payload no longer matches its task type."), ()
    revision = done.sends[0].message.revision if done.sends and dead_letter.work_id is not None else None
    return replace(dead_letter.item("succeeded"), version=done.version, revision=revision), done.sends


# -- canary -----------------------------------------------------------------------------------------------------------

TIMEOUT_SECONDS = timedelta(minutes=45)
"""Maximum wait for the attempts of a canary. It exceeds the 35 minutes between the first and last attempt of a
document.

Time without an attempt, such as in a paused queue, does not count.
"""


# Success is unknown for a message that names no work item. It counts as failed if it is dead-lettered again.
_BEGUN = """
SELECT d.worker, d.work_id, coalesce(d.dlq_timestamp > %(requested_at)s, false)
FROM operation_item i LEFT JOIN dead_letter d ON d.job_id = i.job_id
WHERE i.operation_id = %(id)s AND i.result = 'succeeded'
"""


def _watch(connection: Connection, operation: Operation, now: datetime) -> CanaryStatus:
    """Return the status of a canary from the states of its work items."""
    asked = {"id": operation.id, "requested_at": operation.requested_at}
    begun = connection.execute(_BEGUN, asked).fetchall()
    works = [(worker, id_) for worker, id_, _ in begun if id_ is not None and worker in WORK_KINDS]
    are = _states(connection, works)
    ends = Counter("failed" if is_dead else are.get((worker, id_)) for worker, id_, is_dead in begun)
    since = operation.canary_begun_at or now
    tried = sum(ends[end] for end in _TRIED)
    if ends["failed"]:
        return CanaryStatus("halted", since, f"{_some(ends['failed'], tried)} failed again.")
    if ends["untried"]:
        return CanaryStatus("canary", max(since, now))
    if ends["tried"]:
        if now < since + TIMEOUT_SECONDS:
            return CanaryStatus("canary", since)
        which, minutes = _some(ends["tried"], tried), TIMEOUT_SECONDS // timedelta(minutes=1)
        told = f"{which} did not succeed within {minutes} minutes of attempts."
        return CanaryStatus(
            "paused", since, f"{told} Check the cause. Resume the operation to wait again, or cancel it."
        )
    if works and not ends["succeeded"]:
        which, is_one = _some("None", len(begun)), len(begun) == 1
        told = f"{which} did not succeed: it was" if is_one else f"{which} succeeded: they were"
        told += " canceled or had nothing to do. Cancel the operation and retry other dead letters."
        return CanaryStatus("paused", since, told)
    return CanaryStatus("running", since)


_TRIED = ("failed", "tried", "succeeded", "ended")
"""States of work items with an attempt."""


def _some(number: int | Literal["None"], of: int) -> str:
    """Return the subject of a sentence about the retries of a canary."""
    return "The first retry" if of == 1 else f"{number} of the first {of} retries"


_STATES = """
SELECT id, CASE WHEN {status} = 'pending' AND {attempts} = 0 THEN 'untried'
                WHEN {status} IN ('pending', 'in-progress') THEN 'tried'
                WHEN {status} IS NULL AND {attempts} > 0 THEN 'ended' ELSE {status} END
FROM {table} WHERE id = ANY(%(ids)s)
"""


def _states(connection: Connection, works: Iterable[tuple[str, UUID]]) -> dict[tuple[str, UUID], str | None]:
    """Return untried, tried, succeeded, failed or ended for each existing work item.

    None: it was canceled before any attempt. Later revisions make no difference.
    """
    ids: dict[str, list[UUID]] = defaultdict(list)
    for worker, id_ in works:
        ids[worker].append(id_)
    return {
        (worker, id_): state
        for worker, of_worker in ids.items()
        for id_, state in connection.execute(WORK_KINDS[worker].sql(_STATES), {"ids": of_worker})
    }


# -- edited payloads --------------------------------------------------------------------------------------------------

_SO_FAR = "SELECT processed FROM operation WHERE id = %s AND action = 'retry' AND selection_complete"
_EDITED = f"""
SELECT d.job_id, d.version FROM operation_item i
JOIN dead_letter d ON d.job_id = i.job_id AND d.tenant_id = i.tenant_id AND d.purged_at IS NULL
WHERE i.operation_id = %(id)s AND i.number > %(after)s AND i.number <= %(last)s
  AND d.status = 'pending' AND {_IS_EDITED}
"""  # noqa: S608


def _stored(
    database: Database, operation_id: UUID, tenant_id: UUID, now: datetime, bucket: str | None, at_once: int
) -> Stored:
    """Store the large edited payloads of the next items."""
    with database.tenant(tenant_id) as connection:
        row = connection.execute(_SO_FAR, [operation_id]).fetchone()
        if row is None:
            return {}
        edited = connection.execute(_EDITED.encode(), _behind(operation_id, row[0], at_once)).fetchall()
    stored: dict[tuple[UUID, int], str | PermanentError | None] = {}
    for job_id, version in edited:
        try:
            stored[job_id, version] = actions.store_large(
                database, tenant_id, ChangeRequest(job_id, version, ACTOR, now), bucket
            )
        except (DeadLetterNotFoundError, NotPendingError, VersionConflictError):
            continue  # it has changed, and `apply` determines how
        except InvalidSettingsError:
            raise
        except PermanentError as error:
            stored[job_id, version] = error
    return stored
