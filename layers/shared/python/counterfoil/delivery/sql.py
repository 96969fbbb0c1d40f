"""SQL for claims, leases and settlement, for every kind of work item.

Each function is one step in the caller's transaction. Statements that change a work item require the attempt's claim
token, and change nothing if it is stale.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NoReturn
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import DeadLetter, FailureDetails, write_dead_letter
from counterfoil.delivery.work import Message, OutboxMessage, WorkKind, enqueue, wake_dependents
from counterfoil.errors import StaleClaimError


class ClaimStatus(StrEnum):
    """Status of a work item when a message claims it."""

    CLAIMED = "claimed"
    """The work item is in progress, with one more attempt, a new token and a lease."""
    ENDED = "ended"
    """The work item succeeded, failed or was skipped, or the message has an older revision or send number."""
    RUNNING = "running"
    """Another attempt holds a lease that has not expired."""
    NOT_DUE = "not_due"
    """The work item is pending, and next_attempt_at is at least a second in the future."""
    EXHAUSTED = "exhausted"
    """No attempts are left: the lease of the last one expired, or the limit was lowered."""
    LEASE_EXPIRED = "lease_expired"
    """The lease of an unsettled attempt expired. The work item must be claimed alone, with `take_over`."""
    UNKNOWN = "unknown"
    """The work item does not exist, or its row is older than the message (`enqueue_current`)."""


@dataclass(frozen=True)
class Claim:
    """Result of a claim for one message."""

    status: ClaimStatus
    message: Message
    tenant_id: UUID | None = None
    attempts: int = 0
    """Number of attempts started, including this one if the claim was granted."""
    token: int = 0
    """Token of this claim, or of the existing claim if this claim was not granted."""
    lease_expires_at: datetime | None = None
    """Set while another attempt is running."""
    next_attempt_at: datetime | None = None
    """Set if the work item is not due."""
    is_superseded: bool = False
    """Whether a newer revision than the message's exists."""
    max_attempts: int | None = None
    """Maximum number of attempts, or None for the policy's limit."""
    created_at: datetime | None = None
    unsettled_since: datetime | None = None
    """Start of the previous attempt, if it is unsettled."""


# Rows are locked in id order, so claims for overlapping batches cannot deadlock. SQS delays messages by whole seconds,
# and a message can arrive up to a second early. A work item that is due within a second therefore counts as due.
_CLAIM = """
WITH requested AS (
    SELECT * FROM unnest(%(ids)s::uuid[], %(revisions)s::int[], %(send_numbers)s::int[])
        AS r (id, revision, send_number)
), existing AS MATERIALIZED (
    SELECT t.id, t.tenant_id, t.{status} AS status, t.{revision} AS revision, t.{send_number} AS send_number,
           t.{attempts} AS attempts, t.{claim_token} AS token, t.{lease_expires_at} AS lease,
           t.{next_attempt_at} AS due, t.{claimed_at} AS claimed_at, {max_attempts} AS max_attempts,
           t.{created} AS created_at
    FROM {table} t WHERE t.id = ANY(%(ids)s::uuid[]) ORDER BY t.id FOR NO KEY UPDATE
), checked AS (
    SELECT r.id, r.revision, r.send_number, e.tenant_id, e.attempts, e.token, e.lease, e.due, e.max_attempts,
           e.created_at, e.claimed_at, CASE
        WHEN e.id IS NULL OR (r.revision, r.send_number) > (e.revision, e.send_number) THEN 'unknown'
        WHEN e.status IS NULL OR e.status IN ('succeeded', 'failed') THEN 'ended'
        WHEN (r.revision, r.send_number) < (e.revision, e.send_number) THEN 'ended'
        WHEN e.status = 'in-progress' AND e.lease > %(now)s THEN 'running'
        WHEN e.attempts >= e.max_attempts THEN 'exhausted'
        WHEN e.status = 'pending' AND e.due >= %(now)s + interval '1 second' THEN 'not_due'
        WHEN e.claimed_at IS NOT NULL AND NOT %(take_over)s THEN 'lease_expired'
        ELSE 'claimed' END AS claim_status, coalesce(r.revision < e.revision, false) AS superseded
    FROM requested r LEFT JOIN existing e USING (id)
), claimed AS (
    UPDATE {table} t SET {status} = 'in-progress', {attempts} = t.{attempts} + 1,
        {claim_token} = nextval('claim_token'), {claimed_at} = %(now)s, {lease_expires_at} = %(lease)s,
        {next_attempt_at} = NULL
    FROM checked c WHERE t.id = c.id AND c.claim_status = 'claimed' AND %(claim)s
    RETURNING t.id, t.{attempts} AS attempts, t.{claim_token} AS token
)
SELECT c.id, c.revision, c.send_number, c.claim_status, c.tenant_id, coalesce(n.attempts, c.attempts, 0),
       coalesce(n.token, c.token, 0), CASE c.claim_status WHEN 'running' THEN c.lease END,
       CASE c.claim_status WHEN 'not_due' THEN c.due END, c.superseded, coalesce(c.max_attempts, %(max_attempts)s),
       c.created_at, c.claimed_at
FROM checked c LEFT JOIN claimed n USING (id)
"""


def claim(
    connection: Connection,
    kind: WorkKind,
    messages: Sequence[Message],
    *,
    now: datetime,
    lease: datetime,
    max_attempts: int,
    take_over: bool = False,
    read_only: bool = False,
) -> dict[Message, Claim]:
    """Claim the work items of `messages` in one statement, as the delivery role.

    `messages` must not name a work item twice. `max_attempts` is the default limit. With `take_over`, work items whose
    lease expired are also claimed, and their lost attempts are recorded. With `read_only`, nothing is claimed: CLAIMED
    then means that a claim would succeed.
    """
    rows = connection.execute(
        kind.sql(_CLAIM),
        {
            "ids": [message.work_id for message in messages],
            "revisions": [message.revision for message in messages],
            "send_numbers": [message.send_number for message in messages],
            "now": now,
            "lease": lease,
            "max_attempts": max_attempts,
            "take_over": take_over,
            "claim": not read_only,
        },
    ).fetchall()
    claims = {}
    for id_, revision, send_number, status, *fields in rows:
        message = Message(work_id=id_, revision=revision, send_number=send_number)
        claims[message] = Claim(ClaimStatus(status), message, *fields)
    if take_over and not read_only:
        for claimed in claims.values():
            if claimed.status is ClaimStatus.CLAIMED:
                record_lost_attempt(connection, kind, replace(claimed, attempts=claimed.attempts - 1), now)
    return claims


_ENQUEUE_CURRENT = """
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at)
SELECT t.tenant_id, %(worker)s, t.id, t.{revision}, t.{send_number},
       greatest(t.{next_attempt_at}, t.{lease_expires_at}, %(now)s), %(now)s
FROM {table} t
WHERE t.id = %(id)s AND t.{status} IN ('pending', 'in-progress')
  AND (t.{revision}, t.{send_number}) <= (%(revision)s, %(send_number)s)
FOR NO KEY UPDATE
ON CONFLICT (worker, work_id, revision, send_number)
    DO UPDATE SET sent_at = NULL, scheduled_at = excluded.scheduled_at
RETURNING tenant_id, id, scheduled_at, revision, send_number
"""


def enqueue_current(connection: Connection, kind: WorkKind, message: Message, now: datetime) -> OutboxMessage | None:
    """Enqueue a work item's current message if its row is older than `message`.

    The work item must be unfinished. Its row is older if the database lost transactions in a restore or failover. Its
    current message no longer exists, because it was acknowledged after a transaction that is now lost. Returns None if
    there is no such row. In both cases the caller can acknowledge `message`: if the row has changed since the claim,
    the transaction that changed it also enqueued a message.
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
    return OutboxMessage(id_, kind.worker, tenant_id, current, due)


_IS_CURRENT_CLAIM = "SELECT {status} = 'in-progress' FROM {table} WHERE id = %(id)s AND {claim_token} = %(token)s"


def is_current_claim(connection: Connection, kind: WorkKind, work_id: UUID, token: int) -> bool | None:
    """Return True if the attempt with this token is running.

    Returns False if the attempt is settled, and None if the token is stale.
    """
    row = connection.execute(kind.sql(_IS_CURRENT_CLAIM), {"id": work_id, "token": token}).fetchone()
    return None if row is None else bool(row[0])


# A locked row is being settled, so it needs no lease. Waiting for its lock would delay the other renewals.
_RENEW_LEASES = """
WITH leases AS (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS l (id, token)),
unlocked AS (
    SELECT t.id FROM {table} t JOIN leases l ON l.id = t.id AND l.token = t.{claim_token}
    WHERE t.{status} = 'in-progress' ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
), renewed AS (
    UPDATE {table} t SET {lease_expires_at} = %(lease)s FROM unlocked WHERE t.id = unlocked.id RETURNING t.id
)
SELECT l.id FROM leases l JOIN {table} t ON t.id = l.id WHERE t.{claim_token} <> l.token
"""


def renew(connection: Connection, kind: WorkKind, tokens: dict[UUID, int], lease: datetime) -> set[UUID]:
    """Extend the leases of running attempts. `tokens` maps work ids to claim tokens.

    Returns the ids of the work items that have a newer token.
    """
    rows = connection.execute(
        kind.sql(_RENEW_LEASES), {"ids": list(tokens), "tokens": list(tokens.values()), "lease": lease}
    ).fetchall()
    return {row[0] for row in rows}


# Rows are locked in id order, as in `_CLAIM`.
_END = """
WITH locked AS (
    SELECT t.id, outcomes.reason
    FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(reasons)s::text[]) AS outcomes (id, token, reason)
    JOIN {table} t ON t.id = outcomes.id
    WHERE t.{claim_token} = outcomes.token AND t.{status} = 'in-progress'
    ORDER BY t.id FOR NO KEY UPDATE OF t
)
UPDATE {table} SET {status} = %(status)s, {skip_reason} = locked.reason, {error} = NULL, {failed_at} = NULL,
    {claimed_at} = NULL, {lease_expires_at} = NULL, {next_attempt_at} = NULL
FROM locked WHERE {table}.id = locked.id
RETURNING {table}.id
"""


def succeed(connection: Connection, kind: WorkKind, outcomes: Sequence[tuple[Claim, str | None]]) -> None:
    """Settle successful attempts, each with an optional note for users.

    Raises:
        StaleClaimError: one of the tokens is stale. The caller's transaction must not be committed.
    """
    _end(connection, kind, outcomes, status="succeeded")


def skip(connection: Connection, kind: WorkKind, claim_: Claim, reason: str) -> None:
    """Settle a skipped attempt, and store its reason.

    The work item's status becomes NULL.

    Raises the same errors as `succeed`.
    """
    _end(connection, kind, [(claim_, reason)], status=None)


def _end(
    connection: Connection, kind: WorkKind, outcomes: Sequence[tuple[Claim, str | None]], *, status: str | None
) -> None:
    rows = connection.execute(
        kind.sql(_END),
        {
            "ids": [claim_.message.work_id for claim_, _ in outcomes],
            "tokens": [claim_.token for claim_, _ in outcomes],
            "reasons": [reason for _, reason in outcomes],
            "status": status,
        },
    ).fetchall()
    settled = {id_ for (id_,) in rows}
    for claim_, _ in outcomes:
        if claim_.message.work_id not in settled:
            _raise_stale(claim_)


def _raise_stale(claim_: Claim) -> NoReturn:
    message = f"A newer claim than {claim_.token} exists on {claim_.message.work_id}"
    raise StaleClaimError(message)


_SCHEDULE_RETRY = """
UPDATE {table} SET {status} = 'pending', {error} = %(error)s, {next_attempt_at} = %(due)s, {claimed_at} = NULL,
    {lease_expires_at} = NULL
WHERE id = %(id)s AND {claim_token} = %(token)s AND {status} = 'in-progress'
"""


def schedule_retry(connection: Connection, kind: WorkKind, claim_: Claim, error: str, due: datetime) -> None:
    """Settle a failed attempt whose message SQS redelivers at `due`.

    Raises the same errors as `succeed`.
    """
    cursor = connection.execute(
        kind.sql(_SCHEDULE_RETRY), {"id": claim_.message.work_id, "token": claim_.token, "error": error, "due": due}
    )
    if cursor.rowcount == 0:
        _raise_stale(claim_)


_PARK_FAILED = """
UPDATE {table} SET {status} = 'pending', {error} = %(error)s, {next_attempt_at} = %(due)s, {claimed_at} = NULL,
    {lease_expires_at} = NULL, {send_number} = {send_number} + 1
WHERE id = %(id)s AND {claim_token} = %(token)s AND {status} = 'in-progress'
RETURNING id, tenant_id, {revision}, {send_number}
"""


def park_failed(
    connection: Connection, kind: WorkKind, claim_: Claim, *, error: str, due: datetime, now: datetime
) -> list[OutboxMessage]:
    """Settle a failed attempt and enqueue a new message for `due`.

    Raises the same errors as `succeed`.
    """
    row = connection.execute(
        kind.sql(_PARK_FAILED), {"id": claim_.message.work_id, "token": claim_.token, "error": error, "due": due}
    ).fetchone()
    if row is None:
        _raise_stale(claim_)
    return enqueue(connection, kind, [row], due, now)


_RELEASE_ATTEMPT = """
UPDATE {table} SET {status} = 'pending', {attempts} = {attempts} - 1, {next_attempt_at} = %(due)s,
    {claimed_at} = NULL, {lease_expires_at} = NULL, {send_number} = {send_number} + 1
WHERE id = %(id)s AND {claim_token} = %(token)s AND {status} = 'in-progress'
RETURNING id, tenant_id, {revision}, {send_number}
"""


def release_attempt(
    connection: Connection, kind: WorkKind, claim_: Claim, *, due: datetime, now: datetime
) -> list[OutboxMessage]:
    """Settle a deferred attempt without counting it, and enqueue a message for `due`.

    Raises the same errors as `succeed`.
    """
    row = connection.execute(
        kind.sql(_RELEASE_ATTEMPT), {"id": claim_.message.work_id, "token": claim_.token, "due": due}
    ).fetchone()
    if row is None:
        _raise_stale(claim_)
    return enqueue(connection, kind, [row], due, now)


_PARK_UNCLAIMED = """
UPDATE {table} SET {status} = 'pending', {claim_token} = nextval('claim_token'), {lease_expires_at} = NULL,
    {next_attempt_at} = greatest({next_attempt_at}, %(due)s), {send_number} = {send_number} + 1
WHERE id = %(id)s AND {claim_token} = %(token)s
RETURNING id, tenant_id, {revision}, {send_number}
"""


def park_unclaimed(
    connection: Connection, kind: WorkKind, claim_: Claim, *, due: datetime, now: datetime
) -> list[OutboxMessage]:
    """Park a work item whose status `claim` read in this transaction (`read_only`).

    A new message is enqueued for `due`. `claimed_at` is unchanged, because it marks an unsettled attempt. Raises the
    same errors as `succeed`.
    """
    row = connection.execute(
        kind.sql(_PARK_UNCLAIMED), {"id": claim_.message.work_id, "token": claim_.token, "due": due}
    ).fetchone()
    if row is None:
        _raise_stale(claim_)
    return enqueue(connection, kind, [row], due, now)


_CLAIM_ABANDONED = """
UPDATE {table} SET {claim_token} = nextval('claim_token'), {lease_expires_at} = NULL
WHERE id = %(id)s AND {claim_token} = %(token)s AND {attempts} = %(attempts)s
  AND ({status} = 'pending' OR ({status} = 'in-progress' AND {lease_expires_at} <= %(now)s))
RETURNING {claim_token}, {claimed_at}, {error}
"""


def claim_abandoned(connection: Connection, kind: WorkKind, claim_: Claim, now: datetime) -> tuple[Claim, str | None]:
    """Claim a work item without starting another attempt.

    Raises the same errors as `succeed`.

    The claim is also stale if a slow attempt has since renewed its lease or been deferred. The work item is then
    running, or has an attempt left. Returns the new claim, and the last settled attempt's error.
    """
    row = connection.execute(
        kind.sql(_CLAIM_ABANDONED),
        {"id": claim_.message.work_id, "token": claim_.token, "attempts": claim_.attempts, "now": now},
    ).fetchone()
    if row is None:
        _raise_stale(claim_)
    return replace(claim_, status=ClaimStatus.CLAIMED, token=row[0], unsettled_since=row[1]), row[2]


_FAIL = """
UPDATE {table} SET {status} = 'failed', {error} = %(error)s, {failed_at} = %(now)s, {claimed_at} = NULL,
    {lease_expires_at} = NULL, {next_attempt_at} = NULL
WHERE id = %(id)s AND {claim_token} = %(token)s AND {status} IN ('in-progress', 'pending')
"""


def fail(
    connection: Connection, kind: WorkKind, claim_: Claim, failure: FailureDetails, now: datetime
) -> list[OutboxMessage]:
    """Fail a work item: write its status, dead letter, audit entry and notification.

    Returns the messages for work items that waited for its end. Raises the same errors as `succeed`.
    """
    message = claim_.message
    cursor = connection.execute(
        kind.sql(_FAIL), {"id": message.work_id, "token": claim_.token, "error": failure.error, "now": now}
    )
    if cursor.rowcount == 0:
        _raise_stale(claim_)
    description, created_at = connection.execute(kind.description_query.encode(), {"id": message.work_id}).fetchall()[0]
    dead_letter = DeadLetter(
        job_id=kind.job_id(message.work_id),
        tenant_id=claim_.tenant_id,
        worker=kind.worker,
        message=message,
        payload={"message": message.model_dump(mode="json"), "file": description},
        attempts=claim_.attempts,
        failure=failure,
        created_at=created_at,
        task_type=description.get("task_type"),
    )
    write_dead_letter(connection, dead_letter, now)
    return wake_dependents(connection, kind, message.work_id, now)


@dataclass(frozen=True)
class AttemptRecord:
    """Entry in a work item's history for an attempt that has ended."""

    outcome: str
    started_at: datetime
    ended_at: datetime
    error_type: str | None = None
    error: str | None = None
    next_attempt_at: datetime | None = None
    trace_id: str | None = None
    """X-Ray trace id."""


_INSERT_ATTEMPT = """
INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome, error_type,
                          error, next_attempt_at, trace_id)
VALUES (%(tenant_id)s, %(worker)s, %(work_id)s, %(revision)s, %(number)s, %(started_at)s, %(ended_at)s, %(outcome)s,
        %(error_type)s, %(error)s, %(next_attempt_at)s, %(trace_id)s)
"""


def record_attempt(connection: Connection, kind: WorkKind, claim_: Claim, attempt: AttemptRecord) -> None:
    """Record the attempt of `claim_`, in the transaction that settles it."""
    message = claim_.message
    connection.execute(
        _INSERT_ATTEMPT,
        {
            "tenant_id": claim_.tenant_id,
            "worker": kind.worker,
            "work_id": message.work_id,
            "revision": message.revision,
            "number": claim_.attempts,
            **asdict(attempt),
        },
    )


# Falls back to the dead letter if no attempts were recorded or their records were deleted.
_HAS_FAILED = """
SELECT coalesce(
    (SELECT outcome FROM work_attempt WHERE worker = %(worker)s AND work_id = %(work_id)s AND outcome <> 'deferred'
     ORDER BY id DESC LIMIT 1),
    (SELECT 'failed' FROM dead_letter WHERE job_id = %(job_id)s)
) IN ('retry', 'failed', 'worker_lost')
"""


def has_failed(connection: Connection, kind: WorkKind, claim_: Claim) -> bool:
    """Return True if the latest recorded outcome before this attempt is a failure.

    Deferrals are ignored. The first attempt at a new work item needs no query.
    """
    message = claim_.message
    if claim_.attempts <= 1 and message.revision <= 1:
        return False
    values = {"worker": kind.worker, "work_id": message.work_id, "job_id": kind.job_id(message.work_id)}
    ((failed,),) = connection.execute(_HAS_FAILED, values).fetchall()
    return bool(failed)


WORKER_LOST_ERROR_TYPE = "WorkerLost"
"""Error type of an attempt whose worker ended without settling it."""


def record_lost_attempt(connection: Connection, kind: WorkKind, claim_: Claim, now: datetime) -> None:
    """Record the previous attempt as lost if `claim_` shows that it was not settled."""
    if claim_.unsettled_since is not None:
        error = f"The worker ended during attempt {claim_.attempts} of {claim_.max_attempts} without settling it"
        record_attempt(
            connection,
            kind,
            claim_,
            AttemptRecord("worker_lost", claim_.unsettled_since, now, WORKER_LOST_ERROR_TYPE, error),
        )


_RETURN_TO_QUEUE = """
UPDATE {table} SET {status} = 'pending', {claim_token} = nextval('claim_token'),
    {dlq_returns} = {dlq_returns} + ({attempts} > 0)::int, {send_number} = {send_number} + 1,
    {next_attempt_at} = %(due)s, {lease_expires_at} = NULL
WHERE id = %(id)s AND {claim_token} = %(token)s AND ({attempts} = 0 OR {dlq_returns} < %(max_returns)s)
RETURNING id, tenant_id, {revision}, {send_number}
"""


def return_to_queue(
    connection: Connection, kind: WorkKind, claim_: Claim, *, due: datetime, max_returns: int, now: datetime
) -> list[OutboxMessage]:
    """Return a work item from the dead-letter queue to its own queue.

    The new message is scheduled for `due`. The result is empty if the claim is stale, or if this revision was already
    returned `max_returns` times. Returns before the first attempt do not count.
    """
    row = connection.execute(
        kind.sql(_RETURN_TO_QUEUE),
        {"id": claim_.message.work_id, "token": claim_.token, "due": due, "max_returns": max_returns},
    ).fetchone()
    return [] if row is None else enqueue(connection, kind, [row], due, now)
