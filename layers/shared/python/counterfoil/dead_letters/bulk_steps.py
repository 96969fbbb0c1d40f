"""Steps of bulk operations on dead letters.

Most dead letters are processed by statements about all of them. `actions.send_again` processes those with an edited
payload, and those whose message names no work item, one by one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import actions, bulk
from counterfoil.dead_letters.actions import NoLetterError, NotPendingError, NotRetriableError, Wish
from counterfoil.dead_letters.search import Status
from counterfoil.delivery.dead_letter import ClosedStatus, settle
from counterfoil.delivery.work import Send
from counterfoil.errors import ConflictError, InvalidSettingsError, PermanentError, VersionError
from counterfoil.kinds import KINDS
from counterfoil.operations.engine import ACTOR, Applied, Definition, Outlook, Turns
from counterfoil.operations.store import Operation, Result
from counterfoil.tasks.task_type import InvalidPayloadError

_BECOMES: Mapping[str, ClosedStatus] = {"retry": "retried", "resolve": "resolved", "ignore": "ignored"}


class Verdict(NamedTuple):
    """Result of an item."""

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


@dataclass(frozen=True)
class BulkSteps(Definition):
    """Definition of retry, resolve and ignore."""

    bucket: str | None
    """Bucket of edited payloads that are too large for a message."""
    actions = ("retry", "resolve", "ignore")

    def prepare(self, database: Database, operation_id: UUID, tenant_id: UUID, now: datetime, at_once: int) -> Stored:
        """Store the large edited payloads of the next items."""
        return _stored(database, operation_id, tenant_id, now, self.bucket, at_once)

    def select(self, connection: Connection, operation: Operation) -> None:
        """Select the next dead letters."""
        bulk.select(connection, operation)

    def watch(self, connection: Connection, operation: Operation, now: datetime) -> Outlook:
        """Decide about a canary."""
        return _watch(connection, operation, now)

    def apply(
        self, connection: Connection, operation: Operation, limit: int, turns: Turns, prepared: Stored
    ) -> Applied:
        """Give the next items their results."""
        letters = _next(connection, operation, limit)
        found = {letter.number: verdict for letter in letters if (verdict := _refused(letter, operation)) is not None}
        good = [letter for letter in letters if letter.number not in found]
        is_retry = operation.action == "retry"
        good, refused = (_with_works if is_retry else _locked)(connection, operation, good)
        found |= refused
        sends: list[Send] = []
        begun = 0
        for letter in [one for one in good if is_retry and (one.is_edited or one.work_id is None)]:
            found[letter.number], owed = _one_by_one(connection, operation, letter, turns, begun, prepared)
            begun += found[letter.number].result == "done"
            sends += owed
        plain = [letter for letter in good if letter.number not in found]
        versions: dict[UUID, int] = {}
        if plain:
            versions = settle(
                connection,
                [letter.job_id for letter in plain],
                _BECOMES[operation.action],
                turns.now,
                actor=operation.requested_by,
                note=operation.note,
                detail={"operation": str(operation.id)},
            )
        revisions: dict[UUID, int] = {}
        if is_retry:
            works = [(letter.worker, letter.work_id) for letter in plain if letter.worker and letter.work_id]
            owed = turns.begin(connection, works, begun)
            revisions = {send.message.work_id: send.message.revision for send in owed}
            sends += owed
        for letter in plain:
            revision = None if letter.work_id is None else revisions.get(letter.work_id)
            found[letter.number] = Verdict("done", None, versions[letter.job_id], revision)
        _write(connection, operation, found)
        return Applied(Counter(verdict.result for verdict in found.values()), sends)

    def end(self, connection: Connection, operation: Operation) -> None:
        """Settle the group, if the operation was about all of one."""
        group = (operation.filter or {}).get("fingerprint")
        if operation.action != "retry" and group is not None and len(operation.filter or {}) == 1:
            settled = {"as": _BECOMES[operation.action], "at": operation.requested_at}
            connection.execute(_SETTLE_GROUP, settled | {"tenant": operation.tenant_id, "fingerprint": group})


_SETTLE_GROUP = """
UPDATE dead_letter_group SET settled_as = %(as)s, settled_at = %(at)s
WHERE tenant_id = %(tenant)s AND fingerprint = %(fingerprint)s
"""


_IS_EDITED = "coalesce(d.edited_payload IS NOT NULL AND NOT d.edit ? 'settled', false)"
_LETTERS = f"""
SELECT i.number, i.job_id, d.worker, d.work_id, d.revision, d.status, coalesce(d.version, 0), d.dlq_timestamp,
       {_IS_EDITED}
FROM operation_item i
LEFT JOIN dead_letter d ON d.job_id = i.job_id AND d.tenant_id = i.tenant_id AND d.purged_at IS NULL
WHERE i.operation_id = %(id)s AND i.number > %(after)s AND i.number <= %(last)s
ORDER BY i.number
"""  # noqa: S608  # the expression above


def _next(connection: Connection, operation: Operation, limit: int) -> list[_Letter]:
    rows = connection.execute(_LETTERS.encode(), _behind(operation.id, operation.handled, limit))
    return [_Letter(*row) for row in rows]


def _behind(operation_id: UUID, handled: int, limit: int) -> dict[str, Any]:
    """The next numbers, added up here: PostgreSQL adds two small parameters as smallints, which end at 32,767."""
    return {"id": operation_id, "after": handled, "last": handled + limit}


def _refused(letter: _Letter, operation: Operation) -> Verdict | None:
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
    connection: Connection, operation: Operation, letters: Sequence[_Letter]
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
    connection: Connection, operation: Operation, letters: Sequence[_Letter]
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


def _one_by_one(  # which letter, and when
    connection: Connection, operation: Operation, letter: _Letter, turns: Turns, place: int, stored: Stored
) -> tuple[Verdict, Sequence[Send]]:
    """Try a letter again that is not like the others; its message is due in its turn, too."""
    wish = Wish(letter.job_id, letter.version, operation.requested_by, turns.now, operation.note)
    key: str | None = None
    if letter.is_edited:
        if (letter.job_id, letter.version) not in stored:
            raise ConflictError("A payload was edited just now")
        at = stored[letter.job_id, letter.version]
        if isinstance(at, PermanentError):
            return Verdict("failed", "Its edited payload cannot be stored.", letter.version), ()
        key = at
    try:
        done = actions.send_again(connection, operation.tenant_id, wish, payload_key=key, not_before=turns.due(place))
    except NotRetriableError as error:
        return Verdict("failed", str(error), letter.version), ()
    except InvalidPayloadError:
        return Verdict("failed", "The edited payload is not in the form of its type any more.", letter.version), ()
    revision = done.sends[0].message.revision if done.sends and letter.work_id is not None else None
    return Verdict("done", None, done.version, revision), done.sends


_WRITE = """
UPDATE operation_item i SET result = v.result, reason = v.reason, version = v.version, revision = v.revision
FROM unnest(%(numbers)s::int[], %(results)s::text[], %(reasons)s::text[], %(versions)s::int[], %(revisions)s::int[])
    AS v (number, result, reason, version, revision)
WHERE i.operation_id = %(id)s AND i.number = v.number
"""


def _write(connection: Connection, operation: Operation, found: Mapping[int, Verdict]) -> None:
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


# -- canary -----------------------------------------------------------------------------------------------------------

PATIENCE = timedelta(minutes=45)
"""Longest wait for attempts of a canary: longer than the 35 minutes between all attempts of a document. Time without an
attempt, such as in a paused queue, does not count."""


# A message that names no work is not known to have succeeded: it has not failed as long as its letter is not back.
_BEGUN = """
SELECT d.worker, d.work_id, coalesce(d.dlq_timestamp > %(requested_at)s, false)
FROM operation_item i LEFT JOIN dead_letter d ON d.job_id = i.job_id
WHERE i.operation_id = %(id)s AND i.result = 'done'
"""


def _watch(connection: Connection, operation: Operation, now: datetime) -> Outlook:
    """Decide about a canary by the states of its work items."""
    asked = {"id": operation.id, "requested_at": operation.requested_at}
    begun = connection.execute(_BEGUN, asked).fetchall()
    works = [(worker, id_) for worker, id_, _ in begun if id_ is not None and worker in KINDS]
    are = _states(connection, works)
    ends = Counter("failed" if is_dead else are.get((worker, id_)) for worker, id_, is_dead in begun)
    since = operation.canary_begun_at or now
    tried = sum(ends[end] for end in _TRIED)
    if ends["failed"]:
        return Outlook("stopped", since, f"{_some(ends['failed'], tried, 'tried')} died again.")
    if ends["untried"]:
        return Outlook("canary", max(since, now))
    if ends["tried"]:
        if now < since + PATIENCE:
            return Outlook("canary", since)
        which, minutes = _some(ends["tried"], tried, "tried"), PATIENCE // timedelta(minutes=1)
        told = f"{which} did not succeed within {minutes} minutes of attempts."
        return Outlook("paused", since, f"{told} See why; resume the operation to wait as long again, or cancel it.")
    if works and not ends["succeeded"]:
        which, is_one = _some("none", len(begun), "begun"), len(begun) == 1
        told = f"{which} did not succeed: it was" if is_one else f"{which} succeeded: they were"
        told += " cancelled, or there was nothing to do. Cancel the operation, and try others."
        return Outlook("paused", since, told)
    return Outlook("running", since)


_TRIED = ("failed", "tried", "succeeded", "ended")
"""States of work items with an attempt."""


def _some(number: int | Literal["none"], of: int, how: str) -> str:
    """Subject of a sentence about the first dead letters."""
    return f"The letter that was {how} first" if of == 1 else f"Of {of} letters that were {how} first, {number}"


_STATES = """
SELECT id, CASE WHEN {status} = 'pending' AND {attempts} = 0 THEN 'untried'
                WHEN {status} IN ('pending', 'in-progress') THEN 'tried'
                WHEN {status} IS NULL AND {attempts} > 0 THEN 'ended' ELSE {status} END
FROM {table} WHERE id = ANY(%(ids)s)
"""


def _states(connection: Connection, works: Iterable[tuple[str, UUID]]) -> dict[tuple[str, UUID], str | None]:
    """Return untried, tried, succeeded, failed or ended for each work item that exists.

    None: it was cancelled before any attempt. It makes no difference whether it was begun again since.
    """
    ids: dict[str, list[UUID]] = defaultdict(list)
    for worker, id_ in works:
        ids[worker].append(id_)
    return {
        (worker, id_): state
        for worker, of_worker in ids.items()
        for id_, state in connection.execute(KINDS[worker].sql(_STATES), {"ids": of_worker})
    }


# -- edited payloads --------------------------------------------------------------------------------------------------

_SO_FAR = "SELECT handled FROM operation WHERE id = %s AND action = 'retry' AND is_selected"
_EDITED = f"""
SELECT d.job_id, d.version FROM operation_item i
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
