"""Carries out operations on many dead letters, step by step.

A step is one transaction that holds the operation's row: it takes the next letters in their order, gives each its
result, begins works and owes their messages, and moves the operation on. Whoever dies in a step leaves nothing of it,
and two that step the same operation take turns. What is done to all letters alike is done in statements about all of
them; those that need more (a payload that was edited, a message that names no work) go through `actions.send_again`.

The rate is kept by the messages: each is due in its turn, up to AHEAD from now, and its queue holds it until then. So
whoever steps once a minute, and quickly, sends at an even rate.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import actions, bulk_canary, bulk_selection
from counterfoil.dead_letters.actions import NoLetterError, NotPendingError, NotRetriableError, VersionError, Wish
from counterfoil.dead_letters.bulk import COLUMNS, BulkOperation, Result, State, note_selected, notify, tell
from counterfoil.dead_letters.entries import DeadLetterFilter, Status
from counterfoil.delivery.letters import ClosedStatus, settle
from counterfoil.errors import ConflictError, InvalidSettingsError, PermanentError
from counterfoil.tasks.registry import InvalidPayloadError
from counterfoil.work import KINDS, Send, begin

AT_ONCE = 500
"""Letters of a step: a transaction of some tenths of a second."""
AHEAD = timedelta(seconds=75)
"""As far ahead letters are begun: a minute, until the next round, and what that may be late."""
A_SECOND = timedelta(seconds=1)
"""Queues hold messages for whole ones."""
ROUNDED = timedelta(milliseconds=1)
"""More than what the thirds of many steps lose to whole microseconds."""
ACTOR = "bulk"
"""Who an operation is ended by, where it was no person."""
_BECOMES: Mapping[str, ClosedStatus] = {
    "retry": "retried",
    "resolve": "resolved",
    "ignore": "ignored",
}


@dataclass(frozen=True)
class Step:
    """What a step did."""

    handled: int
    """Letters that got their result."""
    sends: Sequence[Send]
    """Messages owed, to be sent after the commit."""
    is_busy: bool
    """Whether there is more to do just now."""


class Verdict(NamedTuple):
    """What becomes of a letter."""

    result: Result
    reason: str | None = None
    version: int | None = None
    revision: int | None = None


@dataclass(frozen=True)
class _Letter:
    """A letter of an operation; what is None is gone."""

    number: int
    job_id: UUID
    worker: str | None = None
    work_id: UUID | None = None
    revision: int | None = None
    status: Status | None = None
    version: int = 0
    died_at: datetime | None = None
    is_edited: bool = False


Stored = Mapping[tuple[UUID, int], str | PermanentError | None]
"""Where edited payloads lie, by letter and version; or why they cannot be stored."""


def step(
    database: Database,
    operation_id: UUID,
    tenant_id: UUID,
    now: datetime,
    *,
    bucket: str | None = None,
    at_once: int = AT_ONCE,
) -> Step | None:
    """Take an operation a step further. None: it does not go on, or somebody else is at it.

    `bucket` takes edited payloads that are too large for a message.

    Raises:
        ConflictError, DatabaseUnavailableError, ServiceUnavailableError: nothing was done; ask again.
    """
    stored = _stored(database, operation_id, tenant_id, now, bucket, at_once)
    with database.tenant(tenant_id) as connection:
        row = connection.execute(_TAKE.encode(), [operation_id]).fetchone()
        if row is None:
            return None
        operation = BulkOperation(*row)
        if not operation.is_selected:
            return _select(connection, operation)
        if operation.goes_on_as == "canary" and _is_canary_begun(operation):
            return _watch(connection, operation, now)
        return _handle(connection, operation, now, at_once, stored)


_TAKE = f"""
SELECT {COLUMNS} FROM dead_letter_operation WHERE id = %s AND state IN ('waiting', 'canary', 'running')
FOR UPDATE SKIP LOCKED
"""  # noqa: S608  # the columns of the dataclass


def _select(connection: Connection, operation: BulkOperation) -> Step:
    selection = DeadLetterFilter(**operation.filter or {})
    found = bulk_selection.more(connection, operation.tenant_id, operation.id, selection, operation.requested_at)
    note_selected(connection, operation, found)
    return Step(0, (), is_busy=True)


# -- a canary ---------------------------------------------------------------------------------------------------------


def _is_canary_begun(operation: BulkOperation) -> bool:
    return operation.done >= (operation.canary or 0) or operation.handled == operation.selected


def _watch(connection: Connection, operation: BulkOperation, now: datetime) -> Step:
    """See what became of the canary: go on, stop, pause, or wait."""
    outlook = bulk_canary.look(connection, operation, now)
    if outlook.becomes == "running":
        connection.execute(_GO_ON, {"id": operation.id, "now": now})
    elif outlook.becomes == "canary":
        connection.execute(_WAIT, {"id": operation.id, "since": outlook.since})
    else:
        _halt(connection, operation, outlook.becomes, now, outlook.reason)
    return Step(0, (), is_busy=outlook.becomes == "running")


_GO_ON = """
UPDATE dead_letter_operation SET state = 'running', version = version + 1, canary_passed_at = %(now)s,
    stepped_at = greatest(stepped_at, %(now)s)
WHERE id = %(id)s
"""
_WAIT = "UPDATE dead_letter_operation SET canary_begun_at = %(since)s WHERE id = %(id)s"


# -- letters ----------------------------------------------------------------------------------------------------------


def allowance(rate: int, stepped_at: datetime, now: datetime) -> tuple[int, datetime]:
    """How many letters may be begun now at `rate` a second, and when the first of them is due. Pure.

    What was missed is not made up for.
    """
    start = max(stepped_at, now)
    return max(0, int((now + AHEAD - start) / A_SECOND * rate)), start


def _handle(connection: Connection, operation: BulkOperation, now: datetime, at_once: int, stored: Stored) -> Step:
    allowed, start = allowance(operation.rate, operation.stepped_at, now)
    limit = min(allowed, at_once)
    if operation.goes_on_as == "canary":
        limit = min(limit, (operation.canary or 0) - operation.done)
    if operation.handled == operation.selected:
        _end(connection, operation, now)
        return Step(0, (), is_busy=False)
    if limit == 0:
        return Step(0, (), is_busy=False)
    letters = _next(connection, operation, limit)
    found = {letter.number: verdict for letter in letters if (verdict := _refused(letter, operation)) is not None}
    good = [letter for letter in letters if letter.number not in found]
    if operation.action == "retry":
        good, refused = _with_works(connection, operation, good)
    else:
        good, refused = _locked(connection, operation, good)
    found |= refused
    sends: list[Send] = []
    special = [one for one in good if operation.action == "retry" and (one.is_edited or one.work_id is None)]
    begun = 0
    for letter in special:
        turn = _turn(operation, start, begun, now)
        found[letter.number], owed = _one_by_one(connection, operation, letter, now, turn, stored)
        begun += found[letter.number].result == "done"
        sends += owed
    plain = [letter for letter in good if letter not in special]
    versions: dict[UUID, int] = {}
    if plain:
        versions = settle(
            connection,
            [letter.job_id for letter in plain],
            _BECOMES[operation.action],
            now,
            actor=operation.requested_by,
            note=operation.note,
            detail={"operation": str(operation.id)},
        )
    revisions: dict[UUID, int] = {}
    if operation.action == "retry":
        owed = _begin(connection, operation, plain, now, start, begun)
        revisions = {send.message.work_id: send.message.revision for send in owed}
        sends += owed
    for letter in plain:
        revision = None if letter.work_id is None else revisions.get(letter.work_id)
        found[letter.number] = Verdict("done", None, versions[letter.job_id], revision)
    _write(connection, operation, found)
    done = sum(verdict.result == "done" for verdict in found.values())
    stepped = start + timedelta(seconds=done / operation.rate)
    _move(connection, operation, found.values(), stepped, now)
    return Step(len(found), sends, is_busy=True)


_IS_EDITED = "coalesce(d.edited_payload IS NOT NULL AND NOT d.edit ? 'settled', false)"
_LETTERS = f"""
SELECT i.number, i.job_id, d.worker, d.work_id, d.revision, d.status, coalesce(d.version, 0), d.dlq_timestamp,
       {_IS_EDITED}
FROM dead_letter_operation_item i
LEFT JOIN dead_letter d ON d.job_id = i.job_id AND d.tenant_id = i.tenant_id AND d.purged_at IS NULL
WHERE i.operation_id = %(id)s AND i.number > %(after)s AND i.number <= %(last)s
ORDER BY i.number
"""  # noqa: S608  # the expression above


def _next(connection: Connection, operation: BulkOperation, limit: int) -> list[_Letter]:
    rows = connection.execute(_LETTERS.encode(), _behind(operation.id, operation.handled, limit))
    return [_Letter(*row) for row in rows]


def _behind(operation_id: UUID, handled: int, limit: int) -> dict[str, Any]:
    """The next numbers, added up here: PostgreSQL adds two small parameters as smallints, which end at 32,767."""
    return {"id": operation_id, "after": handled, "last": handled + limit}


def _refused(letter: _Letter, operation: BulkOperation) -> Verdict | None:
    """Why nothing is done to a letter. Pure."""
    if letter.status is None or letter.died_at is None:
        return Verdict("skipped", "There is no such dead letter.")
    if letter.died_at >= operation.requested_at:
        return Verdict("skipped", "It died after the request.", letter.version)
    if letter.status != "pending":
        return Verdict("skipped", f"It is {letter.status} already.", letter.version)
    return None


_LOCK_WORKS = "SELECT id, {status}, {revision} FROM {table} WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE"
_LOCK_LETTERS = f"""
SELECT job_id, status, version, dlq_timestamp, revision, {_IS_EDITED}
FROM dead_letter d WHERE job_id = ANY(%(ids)s) AND tenant_id = %(tenant)s AND purged_at IS NULL
ORDER BY job_id FOR NO KEY UPDATE
"""  # noqa: S608


def _with_works(
    connection: Connection, operation: BulkOperation, letters: Sequence[_Letter]
) -> tuple[list[_Letter], dict[int, Verdict]]:
    """Lock the works and then the letters, as delivery does: those whose work has failed, and why the others are not.

    A letter with a message that names no work, or of a worker that is no more, is none of these: it is judged alone.
    """
    works: dict[tuple[str | None, UUID | None], tuple[str | None, int]] = {}
    named: dict[str, list[UUID]] = defaultdict(list)
    for letter in letters:
        if letter.work_id is not None and letter.worker in KINDS:
            named[letter.worker].append(letter.work_id)
    for worker in sorted(named):
        locked = connection.execute(KINDS[worker].sql(_LOCK_WORKS), {"ids": named[worker]})
        works |= {(worker, id_): (status, revision) for id_, status, revision in locked}
    good, refused = _locked(connection, operation, letters)
    failed: list[_Letter] = []
    for letter in good:
        status, revision = works.get((letter.worker, letter.work_id), (actions.GONE, 0))
        if letter.work_id is None or (status, revision) == ("failed", letter.revision):
            failed.append(letter)
        else:
            refused[letter.number] = Verdict("failed", actions.why_not_failed(status), letter.version)
    return failed, refused


def _locked(
    connection: Connection, operation: BulkOperation, letters: Sequence[_Letter]
) -> tuple[list[_Letter], dict[int, Verdict]]:
    """Lock letters: those that are pending still, as they are then, and why the others are not done."""
    values = {"ids": [letter.job_id for letter in letters], "tenant": operation.tenant_id}
    now_are = {row[0]: row[1:] for row in connection.execute(_LOCK_LETTERS.encode(), values)} if letters else {}
    good: list[_Letter] = []
    refused: dict[int, Verdict] = {}
    for letter in letters:
        status, version, died_at, revision, is_edited = now_are.get(letter.job_id, (None, 0, None, None, False))
        as_it_is = replace(
            letter, revision=revision, status=status, version=version, died_at=died_at, is_edited=is_edited
        )
        verdict = _refused(as_it_is, operation)
        if verdict is None:
            good.append(as_it_is)
        else:
            refused[letter.number] = verdict
    return good, refused


def _turn(operation: BulkOperation, start: datetime, place: int, now: datetime) -> datetime:
    """When the message is due that has the `place`-th turn from `start` on: so many in each whole second. Pure."""
    turn = start - operation.requested_at + timedelta(seconds=place / operation.rate) + ROUNDED
    return max(operation.requested_at + turn // A_SECOND * A_SECOND, now)


def _begin(  # which works, and when
    connection: Connection,
    operation: BulkOperation,
    letters: Iterable[_Letter],
    now: datetime,
    start: datetime,
    before: int,
) -> list[Send]:
    """Begin the works of letters anew, each to be sent in its turn from `start` on, behind `before` others."""
    due: dict[tuple[str, datetime], list[UUID]] = defaultdict(list)
    for place, letter in enumerate(letters, before):
        assert letter.worker is not None  # it has a work
        assert letter.work_id is not None
        due[letter.worker, _turn(operation, start, place, now)].append(letter.work_id)
    return [
        send for (worker, turn), ids in due.items() for send in begin(connection, worker, ids, now, not_before=turn)
    ]


def _one_by_one(  # which letter, and when
    connection: Connection, operation: BulkOperation, letter: _Letter, now: datetime, turn: datetime, stored: Stored
) -> tuple[Verdict, Sequence[Send]]:
    """Try a letter again that is not like the others; its message is due in its turn, too."""
    wish = Wish(letter.job_id, letter.version, operation.requested_by, now, operation.note)
    key: str | None = None
    if letter.is_edited:
        if (letter.job_id, letter.version) not in stored:
            raise ConflictError("A payload was edited just now")
        at = stored[letter.job_id, letter.version]
        if isinstance(at, PermanentError):
            return Verdict("failed", "Its edited payload cannot be stored.", letter.version), ()
        key = at
    try:
        done = actions.send_again(connection, operation.tenant_id, wish, payload_key=key, not_before=turn)
    except NotRetriableError as error:
        return Verdict("failed", str(error), letter.version), ()
    except InvalidPayloadError:
        return Verdict("failed", "The edited payload is not in the form of its type any more.", letter.version), ()
    revision = done.sends[0].message.revision if done.sends and letter.work_id is not None else None
    return Verdict("done", None, done.version, revision), done.sends


_WRITE = """
UPDATE dead_letter_operation_item i SET result = v.result, reason = v.reason, version = v.version, revision = v.revision
FROM unnest(%(numbers)s::int[], %(results)s::text[], %(reasons)s::text[], %(versions)s::int[], %(revisions)s::int[])
    AS v (number, result, reason, version, revision)
WHERE i.operation_id = %(id)s AND i.number = v.number
"""


def _write(connection: Connection, operation: BulkOperation, found: Mapping[int, Verdict]) -> None:
    verdicts = found.values()
    values = {
        "id": operation.id,
        "numbers": list(found),
        "results": [verdict.result for verdict in verdicts],
        "reasons": [verdict.reason for verdict in verdicts],
        "versions": [verdict.version for verdict in verdicts],
        "revisions": [verdict.revision for verdict in verdicts],
    }
    connection.execute(_WRITE, values)


_MOVE = """
UPDATE dead_letter_operation SET handled = handled + %(handled)s, done = done + %(done)s, failed = failed + %(failed)s,
    skipped = skipped + %(skipped)s, stepped_at = %(stepped)s, canary_begun_at = coalesce(%(canary)s, canary_begun_at)
WHERE id = %(id)s
"""


def _move(
    connection: Connection, operation: BulkOperation, verdicts: Iterable[Verdict], stepped: datetime, now: datetime
) -> None:
    counted: Counter[str] = Counter(verdict.result for verdict in verdicts)
    values = {
        "id": operation.id,
        "handled": counted.total(),
        **{result: counted[result] for result in ("done", "failed", "skipped")},
        "stepped": stepped,
        "canary": max(stepped, now) if operation.goes_on_as == "canary" else None,
    }
    connection.execute(_MOVE, values)


_HALT = f"""
UPDATE dead_letter_operation SET state = %(state)s, version = version + 1, ended_at = %(ended)s, reason = %(reason)s
WHERE id = %(id)s RETURNING {COLUMNS}
"""  # noqa: S608
_SETTLE_GROUP = """
UPDATE dead_letter_group SET settled_as = %(as)s, settled_at = %(at)s
WHERE tenant_id = %(tenant)s AND fingerprint = %(fingerprint)s
"""


def _end(connection: Connection, operation: BulkOperation, now: datetime) -> None:
    """End an operation whose letters all have their result. If it was about all of a group, the group is settled."""
    group = (operation.filter or {}).get("fingerprint")
    if operation.action != "retry" and group is not None and len(operation.filter or {}) == 1:
        settled = {"as": _BECOMES[operation.action], "at": operation.requested_at}
        connection.execute(_SETTLE_GROUP, settled | {"tenant": operation.tenant_id, "fingerprint": group})
    _halt(connection, operation, "done", now)


def _halt(
    connection: Connection, operation: BulkOperation, state: State, now: datetime, reason: str | None = None
) -> None:
    """End or pause an operation, and tell of it in the trail; and people, where it had more to do."""
    is_paused = state == "paused"
    values = {"id": operation.id, "state": state, "ended": None if is_paused else now, "reason": reason}
    (row,) = connection.execute(_HALT.encode(), values).fetchall()
    halted = BulkOperation(*row)
    if reason is not None:
        notify(connection, halted, now)
    detail = {"done": halted.done, "failed": halted.failed, "skipped": halted.skipped}
    action = "bulk-pause" if is_paused else f"bulk-{state}"
    tell(connection, halted, action, ACTOR, now, detail=detail, version_before=operation.version)


# -- edited payloads --------------------------------------------------------------------------------------------------

_SO_FAR = "SELECT handled FROM dead_letter_operation WHERE id = %s AND action = 'retry' AND is_selected"
_EDITED = f"""
SELECT d.job_id, d.version FROM dead_letter_operation_item i
JOIN dead_letter d ON d.job_id = i.job_id AND d.tenant_id = i.tenant_id AND d.purged_at IS NULL
WHERE i.operation_id = %(id)s AND i.number > %(after)s AND i.number <= %(last)s
  AND d.status = 'pending' AND {_IS_EDITED}
"""  # noqa: S608


def _stored(
    database: Database, operation_id: UUID, tenant_id: UUID, now: datetime, bucket: str | None, at_once: int
) -> Stored:
    """Store the edited payloads of the next letters where they are large, before the transaction that needs them."""
    with database.tenant(tenant_id) as connection:
        row = connection.execute(_SO_FAR, [operation_id]).fetchone()
        if row is None:
            return {}
        edited = connection.execute(_EDITED.encode(), _behind(operation_id, row[0], at_once)).fetchall()
    stored: dict[tuple[UUID, int], str | PermanentError | None] = {}
    for job_id, version in edited:
        try:
            stored[job_id, version] = actions.store_large(
                database, tenant_id, Wish(job_id, version, ACTOR, now), bucket
            )
        except (NoLetterError, NotPendingError, VersionError):
            continue  # somebody changed it just now: that is found out when its turn comes
        except InvalidSettingsError:
            raise
        except PermanentError as error:
            stored[job_id, version] = error
    return stored
