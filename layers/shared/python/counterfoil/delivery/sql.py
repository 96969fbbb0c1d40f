"""The SQL of delivery: claims, leases and settlements, in one form for every kind of work.

Each function is one step inside the caller's transaction. Times are passed in. A statement that changes work names the
claim token it acts for, and changes nothing when the token is no longer the latest.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NoReturn
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import DeadLetter, Failure, write_dead_letter
from counterfoil.delivery.work import Message, Send, WorkKind, owe, wake_waiting
from counterfoil.errors import StaleClaimError


class Answer(StrEnum):
    """What a claim is told about the work that a message names."""

    MINE = "mine"
    """Claimed: in-progress, one more attempt, a new token, a lease."""
    ENDED = "ended"
    """Succeeded, failed, skipped, or the message is of an older revision or send number."""
    RUNNING = "running"
    """A live lease elsewhere."""
    EARLY = "early"
    """Before next_attempt_at."""
    EXHAUSTED = "exhausted"
    """No attempts are left: the last one's lease expired, or the limit was lowered while the work was pending."""
    UNSETTLED = "unsettled"
    """The last try never settled, as `claimed_at` shows, and its lease is over: to be claimed alone (`take_over`)."""
    UNKNOWN = "unknown"
    """The work does not exist, or its row is older than the message (`enqueue_current`)."""


@dataclass(frozen=True)
class Claim:
    """The answer for one message, and what the row said."""

    answer: Answer
    message: Message
    tenant_id: UUID | None = None
    attempts: int = 0
    """Attempts begun, this claim's own included."""
    token: int = 0
    """The token of this claim, or the one found."""
    until: datetime | None = None
    """The end of the lease (running) or the time of the next attempt (early)."""
    is_superseded: bool = False
    """Whether a newer revision than the message's exists."""
    max_attempts: int | None = None
    """How often the work is tried at most; None: as its policy says."""
    created_at: datetime | None = None
    unsettled_since: datetime | None = None
    """When the latest try that was found began, if it has not settled."""


# The rows are locked in the order of their ids, so that two claims of overlapping batches cannot deadlock. A queue's
# waits are whole seconds: what is due within less than one is not early, or half of all would be put off once more.
_CLAIM = """
WITH wanted AS (
    SELECT * FROM unnest(%(ids)s::uuid[], %(revisions)s::int[], %(sends)s::int[]) AS w (id, revision, send_number)
), found AS MATERIALIZED (
    SELECT t.id, t.tenant_id, t.{status} AS status, t.{revision} AS revision, t.{send_number} AS send_number,
           t.{attempts} AS attempts, t.{claim_token} AS token, t.{lease_expires_at} AS lease,
           t.{next_attempt_at} AS due, t.{claimed_at} AS claimed_at, {max_attempts} AS max_attempts,
           t.{created} AS created_at
    FROM {table} t WHERE t.id = ANY(%(ids)s::uuid[]) ORDER BY t.id FOR NO KEY UPDATE
), answered AS (
    SELECT w.id, w.revision, w.send_number, f.tenant_id, f.attempts, f.token, f.lease, f.due, f.max_attempts,
           f.created_at, f.claimed_at, CASE
        WHEN f.id IS NULL OR (w.revision, w.send_number) > (f.revision, f.send_number) THEN 'unknown'
        WHEN f.status IS NULL OR f.status IN ('succeeded', 'failed') THEN 'ended'
        WHEN (w.revision, w.send_number) < (f.revision, f.send_number) THEN 'ended'
        WHEN f.status = 'in-progress' AND f.lease > %(now)s THEN 'running'
        WHEN f.attempts >= f.max_attempts THEN 'exhausted'
        WHEN f.status = 'pending' AND f.due >= %(now)s + interval '1 second' THEN 'early'
        WHEN f.claimed_at IS NOT NULL AND NOT %(take_over)s THEN 'unsettled'
        ELSE 'mine' END AS answer, coalesce(w.revision < f.revision, false) AS superseded
    FROM wanted w LEFT JOIN found f USING (id)
), claimed AS (
    UPDATE {table} t SET {status} = 'in-progress', {attempts} = t.{attempts} + 1,
        {claim_token} = nextval('claim_token'), {claimed_at} = %(now)s, {lease_expires_at} = %(lease)s,
        {next_attempt_at} = NULL
    FROM answered a WHERE t.id = a.id AND a.answer = 'mine' AND %(claim)s
    RETURNING t.id, t.{attempts} AS attempts, t.{claim_token} AS token
)
SELECT a.id, a.revision, a.send_number, a.answer, a.tenant_id, coalesce(c.attempts, a.attempts, 0),
       coalesce(c.token, a.token, 0),
       CASE a.answer WHEN 'running' THEN a.lease WHEN 'early' THEN a.due END, a.superseded,
       coalesce(a.max_attempts, %(max_attempts)s), a.created_at, a.claimed_at
FROM answered a LEFT JOIN claimed c USING (id)
"""


def claim(  # a claim is this many facts
    connection: Connection,
    kind: WorkKind,
    messages: Sequence[Message],
    *,
    now: datetime,
    lease: datetime,
    max_attempts: int,
    take_over: bool = False,
    look_only: bool = False,
) -> dict[Message, Claim]:
    """Claim the work of `messages` (each work at most once) in one statement, as the delivery role.

    A try that was lost is written down by the claim that follows it.

    `max_attempts` is the bound of work whose kind knows no other.
    `look_only` answers without claiming: MINE then means that a claim would have succeeded.
    """
    rows = connection.execute(
        kind.sql(_CLAIM),
        {
            "ids": [message.work_id for message in messages],
            "revisions": [message.revision for message in messages],
            "sends": [message.send_number for message in messages],
            "now": now,
            "lease": lease,
            "max_attempts": max_attempts,
            "take_over": take_over,
            "claim": not look_only,
        },
    ).fetchall()
    claims = {}
    for id_, revision, send_number, answer, *found in rows:
        message = Message(work_id=id_, revision=revision, send_number=send_number)
        claims[message] = Claim(Answer(answer), message, *found)
    if take_over and not look_only:
        for taken in claims.values():
            if taken.answer is Answer.MINE:
                note_lost(connection, kind, replace(taken, attempts=taken.attempts - 1), now)
    return claims


_ENQUEUE_CURRENT = """
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, not_before, created_at)
SELECT t.tenant_id, %(worker)s, t.id, t.{revision}, t.{send_number},
       greatest(t.{next_attempt_at}, t.{lease_expires_at}, %(now)s), %(now)s
FROM {table} t
WHERE t.id = %(id)s AND t.{status} IN ('pending', 'in-progress')
  AND (t.{revision}, t.{send_number}) <= (%(revision)s, %(send_number)s)
FOR NO KEY UPDATE
ON CONFLICT (worker, work_id, revision, send_number)
    DO UPDATE SET sent_at = NULL, not_before = excluded.not_before
RETURNING tenant_id, id, not_before, revision, send_number
"""


def enqueue_current(connection: Connection, kind: WorkKind, message: Message, now: datetime) -> Send | None:
    """Enqueue the current message of work that has not ended and whose row is older than `message`.

    That is so after a restore or a fail-over in which the database lost transactions: the one that wrote `message`
    acknowledged the row's current message, so no other message is left. Returns None if there is no such row. The
    caller may then acknowledge `message`: a row that has changed since the claim has enqueued its own.
    """
    row = connection.execute(
        kind.sql(_ENQUEUE_CURRENT),
        {
            "worker": kind.worker,
            "id": message.work_id,
            "revision": message.revision,
            "send_number": message.send_number,
            "now": now,
        },
    ).fetchone()
    if row is None:
        return None
    tenant_id, id_, due, revision, send_number = row
    current = Message(work_id=message.work_id, revision=revision, send_number=send_number)
    return Send(id_, kind.worker, tenant_id, current, due)


_HOLDS = "SELECT {status} = 'in-progress' FROM {table} WHERE id = %(id)s AND {claim_token} = %(token)s"


def holds(connection: Connection, kind: WorkKind, work_id: UUID, token: int) -> bool | None:
    """Whether the try with this token is still running; None when a newer token exists, or this one never committed."""
    row = connection.execute(kind.sql(_HOLDS), {"id": work_id, "token": token}).fetchone()
    return None if row is None else bool(row[0])


# A row that is locked is being settled just now; it needs no lease any more and must not be waited for.
_RENEW = """
WITH held AS (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS h (id, token)),
free AS (
    SELECT t.id FROM {table} t JOIN held h ON h.id = t.id AND h.token = t.{claim_token}
    WHERE t.{status} = 'in-progress' ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
), renewed AS (
    UPDATE {table} t SET {lease_expires_at} = %(lease)s FROM free WHERE t.id = free.id RETURNING t.id
)
SELECT h.id FROM held h JOIN {table} t ON t.id = h.id WHERE t.{claim_token} <> h.token
"""


def renew(connection: Connection, kind: WorkKind, tokens: dict[UUID, int], lease: datetime) -> set[UUID]:
    """Extend the leases of running tries, by work id and token. Returns the works on which a newer token was found."""
    rows = connection.execute(
        kind.sql(_RENEW), {"ids": list(tokens), "tokens": list(tokens.values()), "lease": lease}
    ).fetchall()
    return {row[0] for row in rows}


# The rows are locked in the order of their ids, as claims lock them.
_END = """
WITH held AS (
    SELECT t.id, ended.reason
    FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(reasons)s::text[]) AS ended (id, token, reason)
    JOIN {table} t ON t.id = ended.id
    WHERE t.{claim_token} = ended.token AND t.{status} = 'in-progress'
    ORDER BY t.id FOR NO KEY UPDATE OF t
)
UPDATE {table} SET {status} = %(status)s, {reason} = held.reason, {error} = NULL, {failed_at} = NULL,
    {claimed_at} = NULL, {lease_expires_at} = NULL, {next_attempt_at} = NULL
FROM held WHERE {table}.id = held.id
RETURNING {table}.id
"""


def succeed(connection: Connection, kind: WorkKind, ended: Sequence[tuple[Claim, str | None]]) -> None:
    """Tries succeeded, each with a remark for people.

    Raises:
        StaleClaimError: a newer token exists on one of them; the caller's transaction must not be committed.
    """
    _end(connection, kind, ended, status="succeeded")


def skip(connection: Connection, kind: WorkKind, claim_: Claim, reason: str) -> None:
    """There is nothing to do for this work until a new revision: state NULL, with the reason. Raises as `succeed`."""
    _end(connection, kind, [(claim_, reason)], status=None)


def _end(
    connection: Connection, kind: WorkKind, ended: Sequence[tuple[Claim, str | None]], *, status: str | None
) -> None:
    rows = connection.execute(
        kind.sql(_END),
        {
            "ids": [claim_.message.work_id for claim_, _ in ended],
            "tokens": [claim_.token for claim_, _ in ended],
            "reasons": [reason for _, reason in ended],
            "status": status,
        },
    ).fetchall()
    done = {id_ for (id_,) in rows}
    for claim_, _ in ended:
        if claim_.message.work_id not in done:
            _stale(claim_)


def _stale(claim_: Claim) -> NoReturn:
    message = f"A newer claim than {claim_.token} exists on {claim_.message.work_id}"
    raise StaleClaimError(message)


_WAIT = """
UPDATE {table} SET {status} = 'pending', {error} = %(error)s, {next_attempt_at} = %(due)s, {claimed_at} = NULL,
    {lease_expires_at} = NULL
WHERE id = %(id)s AND {claim_token} = %(token)s AND {status} = 'in-progress'
"""


def wait(connection: Connection, kind: WorkKind, claim_: Claim, error: str, due: datetime) -> None:
    """The try failed and the same message comes again at `due`. Raises as `succeed`."""
    cursor = connection.execute(
        kind.sql(_WAIT), {"id": claim_.message.work_id, "token": claim_.token, "error": error, "due": due}
    )
    if cursor.rowcount == 0:
        _stale(claim_)


_PARK_FAILED = """
UPDATE {table} SET {status} = 'pending', {error} = %(error)s, {next_attempt_at} = %(due)s, {claimed_at} = NULL,
    {lease_expires_at} = NULL, {send_number} = {send_number} + 1
WHERE id = %(id)s AND {claim_token} = %(token)s AND {status} = 'in-progress'
RETURNING id, tenant_id, {revision}, {send_number}
"""


def park_failed(
    connection: Connection, kind: WorkKind, claim_: Claim, *, error: str, due: datetime, now: datetime
) -> list[Send]:
    """The try failed and its message has no receive left: owe a new message, due then. Raises as `succeed`."""
    row = connection.execute(
        kind.sql(_PARK_FAILED), {"id": claim_.message.work_id, "token": claim_.token, "error": error, "due": due}
    ).fetchone()
    if row is None:
        _stale(claim_)
    return owe(connection, kind, [row], due, now)


_DEFER = """
UPDATE {table} SET {status} = 'pending', {attempts} = {attempts} - 1, {next_attempt_at} = %(due)s,
    {claimed_at} = NULL, {lease_expires_at} = NULL, {send_number} = {send_number} + 1
WHERE id = %(id)s AND {claim_token} = %(token)s AND {status} = 'in-progress'
RETURNING id, tenant_id, {revision}, {send_number}
"""


def defer(connection: Connection, kind: WorkKind, claim_: Claim, *, due: datetime, now: datetime) -> list[Send]:
    """The try was none: give its attempt back, and owe a new message, due then. Raises as `succeed`."""
    row = connection.execute(
        kind.sql(_DEFER), {"id": claim_.message.work_id, "token": claim_.token, "due": due}
    ).fetchone()
    if row is None:
        _stale(claim_)
    return owe(connection, kind, [row], due, now)


_PARK_UNCLAIMED = """
UPDATE {table} SET {status} = 'pending', {claim_token} = nextval('claim_token'), {lease_expires_at} = NULL,
    {next_attempt_at} = greatest({next_attempt_at}, %(due)s), {send_number} = {send_number} + 1
WHERE id = %(id)s AND {claim_token} = %(token)s
RETURNING id, tenant_id, {revision}, {send_number}
"""


def park_unclaimed(
    connection: Connection, kind: WorkKind, claim_: Claim, *, due: datetime, now: datetime
) -> list[Send]:
    """Put work that `claim` only looked at, in this transaction, behind a new message due then. Raises as `succeed`.

    Work whose last try never settled keeps that mark.
    """
    row = connection.execute(
        kind.sql(_PARK_UNCLAIMED), {"id": claim_.message.work_id, "token": claim_.token, "due": due}
    ).fetchone()
    if row is None:
        _stale(claim_)
    return owe(connection, kind, [row], due, now)


_TAKE_ABANDONED = """
UPDATE {table} SET {claim_token} = nextval('claim_token'), {lease_expires_at} = NULL
WHERE id = %(id)s AND {claim_token} = %(token)s AND {attempts} = %(attempts)s
  AND ({status} = 'pending' OR ({status} = 'in-progress' AND {lease_expires_at} <= %(now)s))
RETURNING {claim_token}, {claimed_at}, {error}
"""


def take_abandoned(connection: Connection, kind: WorkKind, claim_: Claim, now: datetime) -> tuple[Claim, str | None]:
    """Take work from a try that ended without settling, without beginning another. Raises as `succeed`.

    A try that was slow, not dead, may meanwhile have given its attempt back; then there is one left to begin.

    Returns the claim, and the error of the last try that did settle.
    """
    row = connection.execute(
        kind.sql(_TAKE_ABANDONED),
        {"id": claim_.message.work_id, "token": claim_.token, "attempts": claim_.attempts, "now": now},
    ).fetchone()
    if row is None:
        _stale(claim_)
    return replace(claim_, answer=Answer.MINE, token=row[0], unsettled_since=row[1]), row[2]


_FAIL = """
UPDATE {table} SET {status} = 'failed', {error} = %(error)s, {failed_at} = %(now)s, {claimed_at} = NULL,
    {lease_expires_at} = NULL, {next_attempt_at} = NULL
WHERE id = %(id)s AND {claim_token} = %(token)s AND {status} IN ('in-progress', 'pending')
"""


def fail(connection: Connection, kind: WorkKind, claim_: Claim, failure: Failure, now: datetime) -> list[Send]:
    """The work has failed: its state, its dead letter, the audit entry and the notification. Raises as `succeed`.

    Returns the messages of the work that waited for its end.
    """
    message = claim_.message
    cursor = connection.execute(
        kind.sql(_FAIL), {"id": message.work_id, "token": claim_.token, "error": failure.error, "now": now}
    )
    if cursor.rowcount == 0:
        _stale(claim_)
    file, created_at = connection.execute(kind.about.encode(), {"id": message.work_id}).fetchall()[0]
    letter = DeadLetter(
        job_id=kind.job_id(message.work_id),
        tenant_id=claim_.tenant_id,
        worker=kind.worker,
        message=message,
        payload={"message": message.model_dump(mode="json"), "file": file},
        attempts=claim_.attempts,
        failure=failure,
        created_at=created_at,
        task_type=file.get("task_type"),
    )
    write_dead_letter(connection, letter, now)
    return wake_waiting(connection, kind, message.work_id, now)


@dataclass(frozen=True)
class Ended:
    """How a try ended: the same word as the verdict on its message."""

    outcome: str
    began_at: datetime
    ended_at: datetime
    error_type: str | None = None
    error: str | None = None
    next_attempt_at: datetime | None = None
    trace_id: str | None = None
    """Of X-Ray."""


_NOTE = """
INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, began_at, ended_at, outcome, error_type, error,
                          next_attempt_at, trace_id)
VALUES (%(tenant_id)s, %(worker)s, %(work_id)s, %(revision)s, %(number)s, %(began_at)s, %(ended_at)s, %(outcome)s,
        %(error_type)s, %(error)s, %(next_attempt_at)s, %(trace_id)s)
"""


def note(connection: Connection, kind: WorkKind, claim_: Claim, ended: Ended) -> None:
    """Write down the try of a claim, in the transaction that settles it."""
    message = claim_.message
    connection.execute(
        _NOTE,
        {
            "tenant_id": claim_.tenant_id,
            "worker": kind.worker,
            "work_id": message.work_id,
            "revision": message.revision,
            "number": claim_.attempts,
            **asdict(ended),
        },
    )


# A dead letter tells of work whose tries never began to be written down, or are forgotten by now.
_HAS_FAILED = """
SELECT coalesce(
    (SELECT outcome FROM work_attempt WHERE worker = %(worker)s AND work_id = %(work_id)s AND outcome <> 'deferred'
     ORDER BY id DESC LIMIT 1),
    (SELECT 'failed' FROM dead_letter WHERE job_id = %(job_id)s)
) IN ('retry', 'failed', 'lost')
"""


def has_failed(connection: Connection, kind: WorkKind, claim_: Claim) -> bool:
    """Whether the last that is known of the work before this try is a failure.

    Nothing is asked about the first try at work that is new, as most are.
    """
    message = claim_.message
    if claim_.attempts <= 1 and message.revision <= 1:
        return False
    values = {"worker": kind.worker, "work_id": message.work_id, "job_id": kind.job_id(message.work_id)}
    ((failed,),) = connection.execute(_HAS_FAILED, values).fetchall()
    return bool(failed)


WORKER_LOST = "WorkerLost"
"""What is named as the error of a try whose worker ended before it could say how it ended."""


def note_lost(connection: Connection, kind: WorkKind, claim_: Claim, now: datetime) -> None:
    """Write down the try that `claim_` counts, if it began and never settled: who takes its work over calls it lost."""
    if claim_.unsettled_since is not None:
        error = f"The worker ended during attempt {claim_.attempts} of {claim_.max_attempts} without settling it"
        note(connection, kind, claim_, Ended("lost", claim_.unsettled_since, now, WORKER_LOST, error))


_RETURN = """
UPDATE {table} SET {status} = 'pending', {claim_token} = nextval('claim_token'),
    {returns} = {returns} + ({attempts} > 0)::int, {send_number} = {send_number} + 1, {next_attempt_at} = %(due)s,
    {lease_expires_at} = NULL
WHERE id = %(id)s AND {claim_token} = %(token)s AND ({attempts} = 0 OR {returns} < %(max_returns)s)
RETURNING id, tenant_id, {revision}, {send_number}
"""


def give_back(
    connection: Connection, kind: WorkKind, claim_: Claim, *, due: datetime, max_returns: int, now: datetime
) -> list[Send]:
    """Return work from a dead-letter queue to its own.

    Empty if this revision was returned `max_returns` times. Returns before the first attempt do not count.
    """
    row = connection.execute(
        kind.sql(_RETURN),
        {"id": claim_.message.work_id, "token": claim_.token, "due": due, "max_returns": max_returns},
    ).fetchone()
    return [] if row is None else owe(connection, kind, [row], due, now)
