"""Writes a dead letter, an audit entry and a notification when a work item fails.

Closes dead letters.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic_core import from_json

from counterfoil.db import Connection
from counterfoil.delivery.work import WORK_KINDS, Message, OutboxMessage, WorkKind, start_revision
from counterfoil.notifications import digest
from counterfoil.notifications.store import enqueue_notification

ClosedStatus = Literal["retried", "resolved", "ignored"]
MAX_EXTRA_WORDS = 40
"""Maximum number of search words per dead letter, excluding its group's words."""
MAX_WORD_CHARS = 64
_VARIABLE_PART = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\d+")
_WORD = re.compile(r"[^\W_]+")


def search_words(text: str) -> set[str]:
    """Return a text's search words in lower case.

    A word consists of letters and digits, and is truncated to MAX_WORD_CHARS.
    """
    return {word[:MAX_WORD_CHARS] for word in _WORD.findall(text.casefold())}


@dataclass(frozen=True)
class FailureDetails:
    """Reason for a permanent failure."""

    dlq_reason: str
    error_type: str
    error: str
    max_attempts: int
    actor: str
    """Name of the worker, or `dead_letters` if the archiver recorded the failure."""
    public_error: str | None = None
    """Error message for notifications, which does not quote model output. If None, `error` is used."""
    traceback: str | None = None
    """Frames of Counterfoil's code (`errors.own_frames`), for admins."""
    code: str | None = None
    """Stable name of the failure (`CounterfoilError.code`)."""


@dataclass(frozen=True)
class DeadLetter:
    """A failed work item, or an unreadable message."""

    job_id: UUID
    tenant_id: UUID | None
    worker: str
    message: Message | None
    payload: dict[str, Any]
    attempts: int
    failure: FailureDetails
    created_at: datetime
    """Time when the work item was created, or when the unreadable message was sent."""
    task_type: str | None = None
    """Task type, if the worker is `tasks`."""

    @property
    def group_message(self) -> str:
        """Error message with `#` for numbers, ids and quoted names.

        These parts differ within a group.
        """
        return _VARIABLE_PART.sub("#", self.failure.public_error or self.failure.error)

    @property
    def fingerprint(self) -> str:
        """Hash of the worker and the code, if the failure has a code.

        Otherwise, it is the hash of the worker, the error type and `group_message`.
        """
        reason = self.failure.code or f"{self.failure.error_type}\n{self.group_message}"
        identity = f"{self.worker}\n{reason}"
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    @property
    def group_words(self) -> list[str]:
        """Search words that all dead letters with this fingerprint share."""
        return sorted(search_words(f"{self.worker} {self.failure.error_type} {self.group_message}"))

    @property
    def search_words(self) -> list[str]:
        """Search words from the file name and the variable parts of the error message.

        The variable parts are numbers, ids and quoted names.
        """
        file = self.payload.get("file") or {}
        variable_parts = _VARIABLE_PART.findall(self.failure.public_error or self.failure.error)
        return sorted(search_words(" ".join([file.get("file_name") or "", *variable_parts])))[:MAX_EXTRA_WORDS]


_UPSERT_DEAD_LETTER = """
INSERT INTO dead_letter AS d (job_id, tenant_id, worker, work_id, revision, task_type, payload, metadata, attempts,
                              fingerprint, dlq_reason, dlq_timestamp)
VALUES (%(job_id)s, %(tenant_id)s, %(worker)s, %(work_id)s, %(revision)s, %(task_type)s, %(payload)s, %(metadata)s,
        %(attempts)s, %(fingerprint)s, %(dlq_reason)s, %(now)s)
ON CONFLICT (job_id) DO UPDATE SET revision = excluded.revision, payload = excluded.payload,
    metadata = excluded.metadata, attempts = excluded.attempts, fingerprint = excluded.fingerprint,
    dlq_reason = excluded.dlq_reason, dlq_timestamp = excluded.dlq_timestamp, status = 'pending', resolution = NULL,
    resolved_at = NULL, resolved_by = NULL, retain_until = NULL,
    version = d.version + 1, purged_at = NULL, purge_id = NULL,
    previous_failures = d.previous_failures || jsonb_build_object(
        'revision', d.revision, 'dlq_reason', d.dlq_reason, 'status', d.status,
                                              'dlq_timestamp', d.dlq_timestamp, 'resolution', d.resolution,
                                              'attempts', d.attempts, 'last_error', d.metadata -> 'last_error')
    WHERE d.revision IS DISTINCT FROM excluded.revision
"""


def write_dead_letter(connection: Connection, dead_letter: DeadLetter, now: datetime) -> None:
    """Write a dead letter, or reopen an existing one with its history.

    Also writes an audit entry and a notification. A second call for the same revision or unreadable message has no
    effect. Otherwise it could reopen a dead letter that an operator has closed.
    """
    failure = dead_letter.failure
    context = {"worker": dead_letter.worker, "attempt": dead_letter.attempts}
    metadata = {
        "created_at": dead_letter.created_at.isoformat(),
        "retry_count": max(dead_letter.attempts - 1, 0),
        "max_retry": max(failure.max_attempts - 1, 0),
        "last_error": {
            "type": failure.error_type,
            "code": failure.code,
            "message": failure.error,
            "timestamp": now.isoformat(),
            "context": context | ({"traceback": failure.traceback} if failure.traceback else {}),
        },
    }
    cursor = connection.execute(
        _UPSERT_DEAD_LETTER,
        {
            "job_id": dead_letter.job_id,
            "tenant_id": dead_letter.tenant_id,
            "worker": dead_letter.worker,
            "task_type": dead_letter.task_type or dead_letter.worker,
            "work_id": dead_letter.message.work_id if dead_letter.message else None,
            "revision": dead_letter.message.revision if dead_letter.message else None,
            "payload": Jsonb(dead_letter.payload),
            "metadata": Jsonb(metadata),
            "attempts": dead_letter.attempts,
            "fingerprint": dead_letter.fingerprint,
            "dlq_reason": failure.dlq_reason,
            "now": now,
        },
    )
    if cursor.rowcount == 0:
        return
    _write_search_data(connection, dead_letter, now)
    audit(
        connection,
        dead_letter.job_id,
        dead_letter.tenant_id,
        "dead-lettered",
        failure.actor,
        {"dlq_reason": failure.dlq_reason},
        now,
    )
    work_id, revision = (
        (dead_letter.message.work_id, dead_letter.message.revision) if dead_letter.message else (None, 0)
    )
    reported = digest.Failure(
        work_id, dead_letter.job_id, dead_letter.worker, failure.public_error or failure.error, dead_letter.attempts
    )
    enqueue_notification(
        connection,
        reported,
        now,
        tenant_id=dead_letter.tenant_id,
        revision=revision,
        fingerprint=dead_letter.fingerprint,
    )


_INSERT_GROUP = """
INSERT INTO dead_letter_group (tenant_id, fingerprint, worker, error_type, message, words, first_seen)
VALUES (%(tenant_id)s, %(fingerprint)s, %(worker)s, %(error_type)s, %(message)s, %(words)s, %(now)s)
ON CONFLICT (tenant_id, fingerprint) DO NOTHING
"""
_DELETE_WORDS = "DELETE FROM dead_letter_word WHERE job_id = %s"
_INSERT_WORDS = """
INSERT INTO dead_letter_word (job_id, tenant_id, word, dlq_timestamp)
SELECT %(job_id)s, %(tenant_id)s, word, %(now)s FROM unnest(%(words)s::text[]) AS word
"""


def _write_search_data(connection: Connection, dead_letter: DeadLetter, now: datetime) -> None:
    """Write a dead letter's group, and replace its search words."""
    connection.execute(
        _INSERT_GROUP,
        {
            "tenant_id": dead_letter.tenant_id,
            "fingerprint": dead_letter.fingerprint,
            "worker": dead_letter.worker,
            "error_type": dead_letter.failure.error_type,
            "message": dead_letter.group_message,
            "words": dead_letter.group_words,
            "now": now,
        },
    )
    connection.execute(_DELETE_WORDS, [dead_letter.job_id])
    values = {
        "job_id": dead_letter.job_id,
        "tenant_id": dead_letter.tenant_id,
        "words": dead_letter.search_words,
        "now": now,
    }
    connection.execute(_INSERT_WORDS, values)


# An unapplied payload edit becomes part of the history.
_CLOSE = """
WITH closed AS (
    UPDATE dead_letter SET status = %(status)s, resolved_at = %(now)s, resolved_by = %(actor)s, version = version + 1,
        resolution = %(resolution)s, edit_metadata = edit_metadata || jsonb_build_object('closed_as', %(status)s::text)
    WHERE job_id = ANY(%(job_ids)s) AND status = 'pending' AND purged_at IS NULL
    RETURNING job_id, tenant_id, version, revision
), audited AS (
    INSERT INTO dead_letter_audit (tenant_id, job_id, action, actor, detail, recorded_at)
    SELECT tenant_id, job_id, %(status)s, %(actor)s,
           jsonb_build_object('revision', revision, 'version', version) || %(detail)s, %(now)s
    FROM closed
)
SELECT job_id, version FROM closed
"""


def close_pending(
    connection: Connection,
    job_ids: Collection[UUID],
    status: ClosedStatus,
    now: datetime,
    *,
    actor: str,
    note: str | None,
    detail: Mapping[str, str] = MappingProxyType({}),
) -> dict[UUID, int]:
    """Close the pending dead letters in `job_ids`, each with an audit entry.

    Each audit entry includes `detail`. Returns the dead letters' new versions by id. A caller that expects a version
    locks the dead letter and checks the version first.
    """
    values = {
        "job_ids": list(job_ids),
        "status": status,
        "now": now,
        "actor": actor,
        "resolution": Jsonb({"action": status, "notes": note}),
        "detail": Jsonb(dict(detail)),
    }
    return dict(connection.execute(_CLOSE, values).fetchall())


def restart(
    connection: Connection, worker: str, ids: Collection[UUID], now: datetime, *, actor: str, reason: str
) -> list[OutboxMessage]:
    """Start a new revision of each work item and enqueue its message.

    Runs in the caller's transaction. Pending dead letters of these work items are closed as retried, as if an operator
    had retried them.
    """
    messages = start_revision(connection, worker, sorted(ids), now)
    if ids:
        close_pending(
            connection, [WORK_KINDS[worker].job_id(id_) for id_ in ids], "retried", now, actor=actor, note=reason
        )
    return messages


OMITTED_PAYLOAD = {"$omitted": "The task contains the payload."}
"""Placeholder for the payload in a stored message body. The body remains valid JSON that can be sent again."""


def strip_payload(kind: WorkKind, body: str) -> str:
    """Return the JSON body of one of Counterfoil's messages without the payload.

    The payload is stored only in the task's row, because only the task's user may see it, and deleting the task must
    delete it.
    """
    if kind.body_query is None:
        return body
    return json.dumps(from_json(body) | {"payload": OMITTED_PAYLOAD})


_ATTACH_MESSAGE = """
UPDATE dead_letter SET payload = payload || jsonb_build_object('dead_letter_queue_message', %(message_id)s::text,
                                                               'dead_letter_queue_body', %(body)s::text),
    version = version + (payload ->> 'dead_letter_queue_message' IS DISTINCT FROM %(message_id)s)::int
WHERE job_id = %(job_id)s AND revision = %(revision)s AND status = 'pending'
"""


def attach_message(connection: Connection, job_id: UUID, revision: int, message_id: str, body: str) -> bool:
    """Store a failed work item's message in its pending dead letter.

    Returns False if there is no such dead letter. `body` must be the result of `strip_payload` for a readable message,
    because PostgreSQL cannot store every character.
    """
    cursor = connection.execute(
        _ATTACH_MESSAGE, {"job_id": job_id, "revision": revision, "message_id": message_id, "body": body}
    )
    return cursor.rowcount == 1


def audit(
    connection: Connection,
    job_id: UUID,
    tenant_id: UUID | None,
    action: str,
    actor: str,
    detail: dict[str, Any],
    now: datetime,
) -> None:
    """Add an audit entry about a dead letter.

    `detail` must contain only ids and short words.
    """
    connection.execute(
        """
        INSERT INTO dead_letter_audit (tenant_id, job_id, action, actor, detail, recorded_at)
        VALUES (%s, %s, %s, %s, %s, %s)
        """,
        [tenant_id, job_id, action, actor, Jsonb(detail), now],
    )
