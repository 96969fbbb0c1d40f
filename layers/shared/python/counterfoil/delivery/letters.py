"""Dead letters: what is written when work ends in failure, with its audit trail and the notification that it owes."""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection
from counterfoil.messages import Message


@dataclass(frozen=True)
class Failure:
    """Why work failed for good."""

    dlq_reason: str
    error_type: str
    error: str
    max_attempts: int
    actor: str
    """Who writes it down: the worker itself, or dead_letters."""
    told: str | None = None
    """The error as it may leave the tenant, where that is less than `error`: it quotes no answer of a model."""


@dataclass(frozen=True)
class DeadLetter:
    """A piece of work, or a message that names none, that ended in failure."""

    job_id: UUID
    tenant_id: UUID | None
    worker: str
    message: Message | None
    payload: dict[str, Any]
    attempts: int
    failure: Failure
    created_at: datetime
    """When the work began to exist; for a message that names none, when it was sent."""
    task_type: str | None = None
    """What sort of work it is, where its worker does several."""

    @property
    def fingerprint(self) -> str:
        """Groups errors of one kind: worker, error type, and the sentence without its numbers and quoted names."""
        plain = re.sub(
            r"'[^']*'|\"[^\"]*\"|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\d+", "#", self.failure.told or self.failure.error
        )
        return hashlib.sha256(f"{self.worker}\n{self.failure.error_type}\n{plain}".encode()).hexdigest()[:16]


_DEAD_LETTER = """
INSERT INTO dead_letter AS d (job_id, tenant_id, worker, work_id, revision, task_type, payload, metadata, attempts,
                              fingerprint, dlq_reason, dlq_timestamp)
VALUES (%(job_id)s, %(tenant_id)s, %(worker)s, %(work_id)s, %(revision)s, %(task_type)s, %(payload)s, %(metadata)s,
        %(attempts)s, %(fingerprint)s, %(dlq_reason)s, %(now)s)
ON CONFLICT (job_id) DO UPDATE SET revision = excluded.revision, payload = excluded.payload,
    metadata = excluded.metadata, attempts = excluded.attempts, fingerprint = excluded.fingerprint,
    dlq_reason = excluded.dlq_reason, dlq_timestamp = excluded.dlq_timestamp, status = 'pending', resolution = NULL,
    resolved_at = NULL, resolved_by = NULL,
    lineage = d.lineage || jsonb_build_object('revision', d.revision, 'dlq_reason', d.dlq_reason, 'status', d.status,
                                              'dlq_timestamp', d.dlq_timestamp, 'resolution', d.resolution,
                                              'attempts', d.attempts, 'last_error', d.metadata -> 'last_error')
    WHERE d.revision IS DISTINCT FROM excluded.revision
"""


def write_dead_letter(connection: Connection, letter: DeadLetter, now: datetime) -> None:
    """Write the dead letter, or open it again with its history kept; its audit entry; one notification.

    A revision dies once, and a message that names no work too: what is written of it already stays as it is, for a
    person may have settled it meanwhile.
    """
    failure = letter.failure
    metadata = {
        "created_at": letter.created_at.isoformat(),
        "retry_count": max(letter.attempts - 1, 0),
        "max_retry": max(failure.max_attempts - 1, 0),
        "last_error": {
            "type": failure.error_type,
            "message": failure.error,
            "timestamp": now.isoformat(),
            "context": {"worker": letter.worker, "attempt": letter.attempts},
        },
    }
    written = connection.execute(
        _DEAD_LETTER,
        {
            "job_id": letter.job_id,
            "tenant_id": letter.tenant_id,
            "worker": letter.worker,
            "task_type": letter.task_type or letter.worker,
            "work_id": letter.message.work_id if letter.message else None,
            "revision": letter.message.revision if letter.message else None,
            "payload": Jsonb(letter.payload),
            "metadata": Jsonb(metadata),
            "attempts": letter.attempts,
            "fingerprint": letter.fingerprint,
            "dlq_reason": failure.dlq_reason,
            "now": now,
        },
    )
    if written.rowcount == 0:
        return
    audit(connection, letter.job_id, letter.tenant_id, "dead", failure.actor, {"dlq_reason": failure.dlq_reason}, now)
    connection.execute(
        _NOTIFY,
        {
            "tenant_id": letter.tenant_id,
            "worker": letter.worker,
            "job_id": letter.job_id,
            "revision": letter.message.revision if letter.message else 0,
            "fingerprint": letter.fingerprint,
            "payload": Jsonb(
                {
                    "work_id": str(letter.message.work_id) if letter.message else None,
                    "error": failure.told or failure.error,
                    "attempts": letter.attempts,
                }
            ),
            "now": now,
        },
    )


_NOTIFY = """
INSERT INTO notification (tenant_id, worker, job_id, revision, fingerprint, payload, created_at)
VALUES (%(tenant_id)s, %(worker)s, %(job_id)s, %(revision)s, %(fingerprint)s, %(payload)s, %(now)s)
ON CONFLICT (job_id, revision) DO NOTHING
"""


_JOIN = """
UPDATE dead_letter SET payload = payload || jsonb_build_object('dead_letter_queue_message', %(message_id)s::text,
                                                               'dead_letter_queue_body', %(body)s::text)
WHERE job_id = %(job_id)s AND revision = %(revision)s AND status = 'pending'
"""


def join_message(connection: Connection, job_id: UUID, revision: int, message_id: str, body: str) -> bool:
    """Preserve, in the dead letter of failed work, the message that followed it. False when none is open.

    The body must be one that could be read: such a one holds nothing that PostgreSQL cannot store.
    """
    cursor = connection.execute(_JOIN, {"job_id": job_id, "revision": revision, "message_id": message_id, "body": body})
    return cursor.rowcount == 1


def audit(  # who, what, about what, when
    connection: Connection,
    job_id: UUID,
    tenant_id: UUID | None,
    action: str,
    actor: str,
    detail: dict[str, Any],
    now: datetime,
) -> None:
    """Add an entry to the audit trail: ids and short words only."""
    connection.execute(
        """
        INSERT INTO dead_letter_audit (tenant_id, job_id, action, actor, detail, recorded_at)
        VALUES (%s, %s, %s, %s, %s, %s)
        """,
        [tenant_id, job_id, action, actor, Jsonb(detail), now],
    )
