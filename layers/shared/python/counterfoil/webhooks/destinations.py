"""Destinations of a tenant's results and their secrets, and the jobs that deliver to them."""

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID, uuid5

from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import settle
from counterfoil.delivery.work import JOB_NAMESPACE, Send, begin
from counterfoil.webhooks.kinds import DOCUMENT_OUTPUT
from counterfoil.webhooks.payload import SCHEMA_VERSION, Job

WORKER = "document_output"
CHANGED = "A newer revision is delivered instead."
Subject = Literal["cluster", "document", "offers"]
BOTH_FOR = timedelta(hours=24)
"""How long after a rotation the secret before is still signed with."""
SECRET_PREFIX = "whsec_"  # noqa: S105  # what every secret begins with
LONGEST_PREFIX = 200
_PREFIX = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


@dataclass(frozen=True)
class Destination:
    """Where results are delivered to."""

    id: UUID
    name: str
    kind: Literal["webhook", "s3"]
    address: str
    """The URL of a webhook, the prefix of an export."""
    is_active: bool
    tenant_slug: str


_JOB = """
SELECT j.id, j.told_revision, j.subject, j.subject_id, j.schema_version, j.requested_at, j.payload::text,
       d.id, d.name, d.kind, coalesce(d.url, d.prefix), d.disabled_at IS NULL, t.slug
FROM output_job j JOIN destination d ON d.id = j.destination_id JOIN tenant t ON t.id = j.tenant_id
WHERE j.id = %s AND j.revision = %s
"""


def load(connection: Connection, job_id: UUID, revision: int) -> tuple[Job, Destination] | None:
    """What a revision of a job is to deliver, and where to, as it is now; None where a newer revision has begun."""
    row = connection.execute(_JOB, [job_id, revision]).fetchone()
    return None if row is None else (Job(*row[:7]), Destination(*row[7:]))


_SECRETS = """
SELECT secret FROM destination_secret WHERE destination_id = %s AND (expires_at IS NULL OR expires_at > %s)
ORDER BY created_at DESC
"""


def active_secrets(connection: Connection, destination_id: UUID, now: datetime) -> list[str]:
    """What a webhook is signed with now, the newest first: one, or two while it is rotated."""
    return [row[0] for row in connection.execute(_SECRETS, [destination_id, now])]


def is_prefix(text: str) -> bool:
    """Whether exports may be written under this prefix: names of letters, digits, `.`, `_` and `-`, divided by `/`."""
    return len(text) <= LONGEST_PREFIX and _PREFIX.fullmatch(text) is not None


def add(  # what a destination is
    connection: Connection,
    tenant_id: UUID,
    name: str,
    kind: Literal["webhook", "s3"],
    address: str,
    events: Sequence[str],
    now: datetime,
) -> tuple[UUID, str | None]:
    """Add a destination, as the owner of the tables. Returns its id, and the secret of a webhook.

    Raises:
        RejectedStatementError: there is an active one of this name or prefix, or the name cannot be one. (Mapped by the
            caller.)
    """
    column = "url" if kind == "webhook" else "prefix"
    row = connection.execute(
        f"INSERT INTO destination (tenant_id, name, kind, {column}, events, created_at) "  # noqa: S608  # one of two
        "VALUES (%s, %s, %s, %s, %s, %s) RETURNING id".encode(),
        [tenant_id, name, kind, address, list(events), now],
    ).fetchall()[0]
    return row[0], _new_secret(connection, tenant_id, row[0], now) if kind == "webhook" else None


# In the order of their ids, as claims and requests lock them.
_FORGET = """
UPDATE output_job SET payload = 'null'
WHERE id IN (SELECT id FROM output_job WHERE destination_id = %s AND payload <> 'null' ORDER BY id FOR UPDATE)
"""


def remove(connection: Connection, tenant_id: UUID, name: str, now: datetime) -> UUID | None:
    """Disable a destination, and delete its secrets and the payloads of its deliveries.

    Pending deliveries are skipped when they are due. Returns its id, or None if no active destination has this name.
    """
    row = connection.execute(
        "UPDATE destination SET disabled_at = %s "
        "WHERE tenant_id = %s AND name = %s AND disabled_at IS NULL RETURNING id",
        [now, tenant_id, name],
    ).fetchone()
    if row is None:
        return None
    connection.execute("DELETE FROM destination_secret WHERE destination_id = %s", [row[0]])
    connection.execute(_FORGET, [row[0]])
    return UUID(str(row[0]))


def rotate(connection: Connection, tenant_id: UUID, name: str, now: datetime) -> tuple[UUID, str] | None:
    """Give a webhook a new secret. Return its id and the secret.

    Returns None if no active webhook has this name.

    Calls are signed with the previous secret too, for BOTH_FOR. A webhook has at most two secrets.
    """
    row = connection.execute(
        "SELECT id FROM destination WHERE tenant_id = %s AND name = %s AND kind = 'webhook' AND disabled_at IS NULL "
        "FOR UPDATE",
        [tenant_id, name],
    ).fetchone()
    if row is None:
        return None
    connection.execute("DELETE FROM destination_secret WHERE destination_id = %s AND expires_at IS NOT NULL", [row[0]])
    connection.execute(
        "UPDATE destination_secret SET expires_at = %s WHERE destination_id = %s", [now + BOTH_FOR, row[0]]
    )
    return row[0], _new_secret(connection, tenant_id, row[0], now)


def _new_secret(connection: Connection, tenant_id: UUID, destination_id: UUID, now: datetime) -> str:
    secret = SECRET_PREFIX + secrets.token_urlsafe(32)
    connection.execute(
        "INSERT INTO destination_secret (tenant_id, destination_id, secret, created_at) VALUES (%s, %s, %s, %s)",
        [tenant_id, destination_id, secret, now],
    )
    return secret


_DESTINATIONS = "SELECT id FROM destination WHERE tenant_id = %s AND disabled_at IS NULL AND %s = ANY(events)"

# Jobs are locked in the order of their ids, as claims lock them. A job with an unchanged payload stays as it is.
_REQUEST = """
INSERT INTO output_job AS job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                               requested_at, created_at)
SELECT wanted.id, %(tenant)s, wanted.destination_id, %(subject)s, %(subject_id)s, %(version)s, %(payload)s::jsonb,
       %(now)s, %(now)s
FROM unnest(%(ids)s::uuid[], %(destinations)s::uuid[]) AS wanted (id, destination_id)
WHERE %(payload)s::jsonb <> 'null' OR EXISTS (
    SELECT FROM output_job told WHERE (told.destination_id, told.subject, told.subject_id)
        = (wanted.destination_id, %(subject)s, %(subject_id)s)
)
ORDER BY wanted.id
ON CONFLICT (destination_id, subject, subject_id) DO UPDATE SET schema_version = excluded.schema_version,
    payload = excluded.payload, requested_at = excluded.requested_at, delivered_at = NULL, response_status = NULL
WHERE job.payload <> excluded.payload
RETURNING id, coalesce(old.status = 'failed', false)
"""


def job_id(destination_id: UUID, subject: Subject, subject_id: UUID) -> UUID:
    """Return the id of the job that delivers a subject to a destination, the same for all revisions.

    A trigger inserts jobs of documents with other ids (migrations/0013.webhooks.sql).
    """
    return uuid5(JOB_NAMESPACE, f"{WORKER}/{destination_id}/{subject}/{subject_id}")


def enqueue(  # subject, data and time of one event
    connection: Connection,
    tenant_id: UUID,
    subject: Subject,
    subject_id: UUID,
    data: Callable[[], str | None],
    now: datetime,
) -> list[Send]:
    """Enqueue deliveries of an event to the destinations that want it, in the caller's transaction.

    `data` returns the JSON of the body's `data`, or None if the subject no longer exists. It is called only if a
    destination wants the event. A destination gets no new delivery for unchanged data, so a call may be repeated. Only
    destinations that heard of a subject learn of its end. Returns the messages to send.
    """
    found = connection.execute(_DESTINATIONS, [tenant_id, subject]).fetchall()
    destinations: list[UUID] = [row[0] for row in found]
    if not destinations:
        return []
    changed = connection.execute(
        _REQUEST,
        {
            "tenant": tenant_id,
            "subject": subject,
            "subject_id": subject_id,
            "version": SCHEMA_VERSION,
            "payload": data() or "null",
            "now": now,
            "ids": [job_id(destination, subject, subject_id) for destination in destinations],
            "destinations": destinations,
        },
    ).fetchall()
    failed = [id_ for id_, had_failed in changed if had_failed]
    if failed:
        settle(connection, [DOCUMENT_OUTPUT.job_id(id_) for id_ in failed], "retried", now, actor=WORKER, note=CHANGED)
    return begin(connection, WORKER, [row[0] for row in changed], now) if changed else []
