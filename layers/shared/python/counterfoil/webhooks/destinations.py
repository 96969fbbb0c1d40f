"""Destinations for a tenant's results, with signing secrets and delivery jobs."""

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID, uuid5

from counterfoil.audit import Change
from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import close_pending
from counterfoil.delivery.work import JOB_NAMESPACE, OutboxMessage, start_revision
from counterfoil.egress import Egress
from counterfoil.errors import RejectedRequestError
from counterfoil.validation import SLUG
from counterfoil.webhooks.kinds import DOCUMENT_OUTPUT
from counterfoil.webhooks.payload import SCHEMA_VERSION, OutputJob

WORKER = "document_output"
SUPERSEDED_REASON = "A newer revision is delivered instead."
Subject = Literal["cluster", "document", "offers"]
SECRET_OVERLAP = timedelta(hours=24)
"""Time after a rotation in which calls are also signed with the previous secret."""
SECRET_PREFIX = "whsec_"  # noqa: S105  # a prefix, not a secret
MAX_PREFIX_CHARS = 200
DEFAULT_EVENTS = ("cluster", "document")
Kind = Literal["webhook", "s3"]
_NAME = re.compile(SLUG)
_PREFIX = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


@dataclass(frozen=True)
class Destination:
    """A destination for a tenant's results."""

    id: UUID
    name: str
    kind: Kind
    address: str
    """URL of a webhook, or key prefix of an export."""
    is_active: bool
    allows_internal: bool
    """Whether a webhook's URL may be an allowlisted internal address."""
    tenant_slug: str


_JOB = """
SELECT j.id, j.payload_revision, j.subject, j.subject_id, j.schema_version, j.requested_at, j.payload::text,
       d.id, d.name, d.kind, coalesce(d.url, d.prefix), d.disabled_at IS NULL, d.allows_internal, t.slug
FROM output_job j JOIN destination d ON d.id = j.destination_id JOIN tenant t ON t.id = j.tenant_id
WHERE j.id = %s AND j.revision = %s
"""


def load_job(connection: Connection, job_id: UUID, revision: int) -> tuple[OutputJob, Destination] | None:
    """Return a job's payload and destination, or None if `revision` is superseded."""
    row = connection.execute(_JOB, [job_id, revision]).fetchone()
    return None if row is None else (OutputJob(*row[:7]), Destination(*row[7:]))


_SECRETS = """
SELECT secret FROM destination_secret WHERE destination_id = %s AND (expires_at IS NULL OR expires_at > %s)
ORDER BY created_at DESC
"""


def active_secrets(connection: Connection, destination_id: UUID, now: datetime) -> list[str]:
    """Return a webhook's active signing secrets, newest first.

    There are two secrets during a rotation, and otherwise one.
    """
    return [row[0] for row in connection.execute(_SECRETS, [destination_id, now])]


# -- setup: requires a connection as counterfoil_api or as the tables' owner ------------------------------------------


class NewDestination(NamedTuple):
    """A destination to add."""

    name: str
    kind: Kind
    address: str
    events: Sequence[str] = DEFAULT_EVENTS


@dataclass(frozen=True)
class ActiveDestination:
    """An active destination."""

    name: str
    kind: Kind
    address: str
    """URL of a webhook, or key prefix of an export."""
    events: Sequence[str]


_ACTIVE = """
SELECT name, kind, coalesce(url, prefix), events FROM destination
WHERE tenant_id = %s AND disabled_at IS NULL ORDER BY name
"""
_ADD = """
INSERT INTO destination (tenant_id, name, kind, url, prefix, events, allows_internal, created_at)
VALUES (%(tenant)s, %(name)s, %(kind)s, %(url)s, %(prefix)s, %(events)s, %(internal)s, %(at)s) RETURNING id
"""


def list_active(connection: Connection, tenant_id: UUID) -> list[ActiveDestination]:
    """Return a tenant's active destinations, sorted by name."""
    return [ActiveDestination(*row) for row in connection.execute(_ACTIVE, [tenant_id])]


def add(connection: Connection, change: Change, new: NewDestination, allowlist: Sequence[str] = ()) -> str | None:
    """Add a destination.

    For a webhook, return the signing secret, which cannot be read again.

    The URL may be an internal address only if `allowlist` contains it.

    Raises:
        RejectedRequestError: the name is invalid or taken, or results cannot be delivered to this address.
    """
    if not _NAME.fullmatch(new.name):
        raise RejectedRequestError(
            f"'{new.name}' is not a valid destination name: use at most 63 lowercase letters a-z, digits and hyphens."
        )
    _check_address(new, allowlist)
    for other in list_active(connection, change.tenant_id):
        if other.name == new.name:
            raise RejectedRequestError(f"The destination '{new.name}' exists: remove it first, or use another name.")
        if (other.kind, other.address) == ("s3", new.address):
            raise RejectedRequestError(
                f"The destination '{other.name}' exports to '{new.address}': remove it first, or use another prefix."
            )
    is_webhook = new.kind == "webhook"
    values = {
        "tenant": change.tenant_id,
        "name": new.name,
        "kind": new.kind,
        "url": new.address if is_webhook else None,
        "prefix": None if is_webhook else new.address,
        "events": list(new.events),
        "internal": bool(allowlist),
        "at": change.at,
    }
    ((id_,),) = connection.execute(_ADD, values).fetchall()
    secret = _new_secret(connection, change.tenant_id, id_, change.at) if is_webhook else None
    change.record(connection, "destination added", target=id_, detail={"kind": new.kind})
    return secret


def _check_address(new: NewDestination, allowlist: Sequence[str]) -> None:
    if new.kind == "webhook":
        reason = Egress(allowlist).rejection_reason(new.address)
        if reason is not None:
            raise RejectedRequestError(f"'{new.address}' cannot be a webhook: {reason}.")
    elif len(new.address) > MAX_PREFIX_CHARS or not _PREFIX.fullmatch(new.address):
        raise RejectedRequestError(
            f"'{new.address}' cannot be a prefix for exports: use A-Z, a-z, 0-9, '.', '_' and '-', separated by '/'."
        )


# Rows are locked in id order, as in claims and `_UPSERT_JOBS`.
_CLEAR_PAYLOADS = """
UPDATE output_job SET payload = 'null'
WHERE id IN (SELECT id FROM output_job WHERE destination_id = %s AND payload <> 'null' ORDER BY id FOR UPDATE)
"""


def remove(connection: Connection, change: Change, name: str) -> bool:
    """Disable a destination, and delete its secrets and its deliveries' payloads.

    Pending deliveries are skipped when they become due. Returns False if no active destination has this name.
    """
    row = connection.execute(
        "UPDATE destination SET disabled_at = %s "
        "WHERE tenant_id = %s AND name = %s AND disabled_at IS NULL RETURNING id",
        [change.at, change.tenant_id, name],
    ).fetchone()
    if row is None:
        return False
    connection.execute("DELETE FROM destination_secret WHERE destination_id = %s", [row[0]])
    connection.execute(_CLEAR_PAYLOADS, [row[0]])
    change.record(connection, "destination removed", target=row[0])
    return True


def rotate_secret(connection: Connection, change: Change, name: str) -> str | None:
    """Create and return a new signing secret for a webhook.

    Returns None if no active webhook has this name. For SECRET_OVERLAP, calls are also signed with the previous secret.
    Older secrets are deleted.
    """
    row = connection.execute(
        "SELECT id FROM destination WHERE tenant_id = %s AND name = %s AND kind = 'webhook' AND disabled_at IS NULL "
        "FOR UPDATE",
        [change.tenant_id, name],
    ).fetchone()
    if row is None:
        return None
    connection.execute("DELETE FROM destination_secret WHERE destination_id = %s AND expires_at IS NOT NULL", [row[0]])
    connection.execute(
        "UPDATE destination_secret SET expires_at = %s WHERE destination_id = %s", [change.at + SECRET_OVERLAP, row[0]]
    )
    secret = _new_secret(connection, change.tenant_id, row[0], change.at)
    change.record(connection, "webhook secret rotated", target=row[0])
    return secret


def _new_secret(connection: Connection, tenant_id: UUID, destination_id: UUID, now: datetime) -> str:
    secret = SECRET_PREFIX + secrets.token_urlsafe(32)
    connection.execute(
        "INSERT INTO destination_secret (tenant_id, destination_id, secret, created_at) VALUES (%s, %s, %s, %s)",
        [tenant_id, destination_id, secret, now],
    )
    return secret


_DESTINATIONS = "SELECT id FROM destination WHERE tenant_id = %s AND disabled_at IS NULL AND %s = ANY(events)"

# Jobs are locked in id order, as in claims. A job with an unchanged payload is not updated.
_UPSERT_JOBS = """
INSERT INTO output_job AS job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                               requested_at, created_at)
SELECT requested.id, %(tenant)s, requested.destination_id, %(subject)s, %(subject_id)s, %(version)s, %(payload)s::jsonb,
       %(now)s, %(now)s
FROM unnest(%(ids)s::uuid[], %(destinations)s::uuid[]) AS requested (id, destination_id)
WHERE %(payload)s::jsonb <> 'null' OR EXISTS (
    SELECT FROM output_job existing WHERE (existing.destination_id, existing.subject, existing.subject_id)
        = (requested.destination_id, %(subject)s, %(subject_id)s)
)
ORDER BY requested.id
ON CONFLICT (destination_id, subject, subject_id) DO UPDATE SET schema_version = excluded.schema_version,
    payload = excluded.payload, requested_at = excluded.requested_at, delivered_at = NULL, response_status = NULL
WHERE job.payload <> excluded.payload
RETURNING id, coalesce(old.status = 'failed', false)
"""


def job_id(destination_id: UUID, subject: Subject, subject_id: UUID) -> UUID:
    """Return the id of the job that delivers a subject to a destination.

    All revisions have the same id.

    Jobs for documents have other ids, because a trigger inserts them (migrations/0013.webhooks.sql).
    """
    return uuid5(JOB_NAMESPACE, f"{WORKER}/{destination_id}/{subject}/{subject_id}")


def enqueue(
    connection: Connection,
    tenant_id: UUID,
    subject: Subject,
    subject_id: UUID,
    data: Callable[[], str | None],
    now: datetime,
) -> list[OutboxMessage]:
    """Enqueue deliveries of an event to the subscribed destinations.

    Runs in the caller's transaction. `data` returns the JSON text for `data` in the body, or None if the subject no
    longer exists. It is called only if a destination subscribes to the event. Unchanged data is not delivered again, so
    the call is idempotent. The deletion of a subject is delivered only to destinations that have a job for it. Returns
    the messages to send.
    """
    rows = connection.execute(_DESTINATIONS, [tenant_id, subject]).fetchall()
    destinations: list[UUID] = [row[0] for row in rows]
    if not destinations:
        return []
    changed = connection.execute(
        _UPSERT_JOBS,
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
        close_pending(
            connection,
            [DOCUMENT_OUTPUT.job_id(id_) for id_ in failed],
            "retried",
            now,
            actor=WORKER,
            note=SUPERSEDED_REASON,
        )
    return start_revision(connection, WORKER, [row[0] for row in changed], now) if changed else []
