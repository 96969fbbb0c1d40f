"""Edits: another payload for a task that has failed, kept with its dead letter until the task is tried again.

The fields that differ are kept with both values in the letter, which goes with its tenant; the audit trail holds hashes
of them. Edits stay with their letter when that is settled, the last ones of many.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import JsonValue

from counterfoil import audit
from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.dead_letters.actions import Done, Letter, Wish, find, look_at
from counterfoil.delivery import dead_letter
from counterfoil.errors import InvalidSettingsError, RejectedRequestError, VersionError
from counterfoil.settings import Settings
from counterfoil.tasks import payloads
from counterfoil.tasks import store as tasks
from counterfoil.tasks.payloads import Payload
from counterfoil.tasks.store import Given
from counterfoil.tasks.task_type import TaskType
from counterfoil.tasks.types import TYPES

MOST_EDITS = 20
"""That are kept of one letter."""


class NotEditableError(RejectedRequestError):
    """The letter has no payload that may be another one."""


@dataclass(frozen=True)
class Edited:
    """One edit of a payload: who made it, and what it changed of the payload that had failed."""

    by: str
    at: datetime
    note: str | None
    before: Mapping[str, JsonValue]
    """Of the fields that differ, those that there were."""
    after: Mapping[str, JsonValue]
    """Of the same fields, those that there are. Nothing in both takes the edits before back."""


@dataclass(frozen=True)
class Editable:
    """The payload of a task that has failed."""

    type: TaskType
    original: Payload
    """As it was tried."""
    edited: Payload | None
    """As it will be tried, where somebody has edited it."""
    version: int
    """Of the letter."""
    edits: Sequence[Edited]
    """The latest first. They stay when the letter is settled."""


def differing(before: Payload, after: Payload) -> list[str]:
    """The fields that one of them has and the other has not, or with another value."""
    return [
        name
        for name in sorted({*before, *after})
        if name not in before
        or name not in after
        or payloads.canonical(before[name]) != payloads.canonical(after[name])  # in Python, True is 1
    ]


def shown(database: Database, tenant_id: UUID, job_id: UUID, *, bucket: str | None) -> Editable:
    """The payload of a letter's task.

    Raises:
        NoLetterError: the tenant has no such letter.
        NotEditableError: it has no payload that can be edited.
        ServiceUnavailableError, DatabaseUnavailableError: ask again.
    """
    with database.tenant(tenant_id) as connection:
        letter = find(connection, tenant_id, job_id)
        given = _given(connection, letter)
        history = _history(connection, job_id)
    return _editable(letter, given, history, bucket)


def _editable(letter: Letter, given: Given | None, history: Sequence[JsonValue], bucket: str | None) -> Editable:
    type_ = None if given is None else TYPES.get(given.task_type)
    if given is None or type_ is None:
        raise NotEditableError("Only the payloads of tasks can be edited: the dead letter is about something else.")
    if type_.private or type_.on_accept is not None:
        raise NotEditableError(f"What a {type_.name} says is its user's: it cannot be edited.")
    original, edited = _payload(given, bucket), letter.edited_payload
    if edited is not None and not differing(original, edited):
        edited = None  # it was taken back
    return Editable(type_, original, edited, letter.version, [_made(one) for one in history])


_HISTORY = "SELECT edit FROM dead_letter WHERE job_id = %s AND edit IS NOT NULL"


def _history(connection: Connection, job_id: UUID) -> list[JsonValue]:
    """A letter's edits as they are stored, the latest first; they can be as large as that many payloads."""
    row = connection.execute(_HISTORY, [job_id]).fetchone()
    if row is None:
        return []
    latest = {name: value for name, value in row[0].items() if name not in {"earlier", "settled"}}
    return [latest, *row[0].get("earlier", ())]


def _made(one: Any) -> Edited:
    return Edited(**{**one, "at": datetime.fromisoformat(one["at"])})


def edit(  # an edit is this many facts
    database: Database, tenant_id: UUID, wish: Wish, payload: Payload, *, bucket: str | None, settings: Settings
) -> Done:
    """Have the task of a letter be tried with another payload. The one that it had already takes an edit back.

    Raises:
        VersionError, NotPendingError: the letter is not to be changed.
        InvalidPayloadError, TooLargeError, RejectedRequestError: the type does not take it.
        and as `shown`.
    """
    with database.tenant(tenant_id) as connection:
        letter = look_at(connection, tenant_id, wish)
        given = _given(connection, letter)
        history = _history(connection, wish.job_id)
    found = _editable(letter, given, history, bucket)
    payloads.checked(payload)
    form = found.type.read(payload)
    if found.type.check is not None:
        found.type.check(form, settings)
    fields = differing(found.original, payload)
    if not fields and found.edited is None:
        raise RejectedRequestError("The payload is what it was: there is nothing to edit.")
    kept: dict[str, JsonValue] = {
        "by": wish.actor,
        "at": wish.now.isoformat(),
        "note": wish.note,
        "before": {name: found.original[name] for name in fields if name in found.original},
        "after": {name: payload[name] for name in fields if name in payload},
        "earlier": history[: MOST_EDITS - 1],
    }

    def once() -> Done:
        with database.tenant(tenant_id) as connection:
            version = _keep(connection, tenant_id, wish, payload, kept)
            hashed = partial(_hashed, partial(audit.keyed, connection, tenant_id), found, payload)
            detail = {"changes": [hashed(name) for name in fields]}
            audit.record(connection, tenant_id, wish.operation("edited", version, detail))
            return Done(version)

    return retry_conflicts(once)


_KEEP = """
UPDATE dead_letter SET edited_payload = %(payload)s, edit = %(edit)s, version = version + 1
WHERE job_id = %(job_id)s AND version = %(version)s AND status = 'pending' AND purged_at IS NULL
RETURNING version
"""


def _keep(connection: Connection, tenant_id: UUID, wish: Wish, payload: Payload, edit_: Mapping[str, JsonValue]) -> int:
    values = {
        "job_id": wish.job_id,
        "version": wish.version,
        "payload": Jsonb(payload),
        "edit": Jsonb(edit_),
    }
    row = connection.execute(_KEEP, values).fetchone()
    if row is None:
        look_at(connection, tenant_id, wish)
        raise VersionError("The dead letter was changed meanwhile.")
    dead_letter.audit(connection, wish.job_id, tenant_id, "edited", wish.actor, {"version": row[0]}, wish.now)
    return int(row[0])


def _hashed(keyed: Callable[[bytes], bytes], found: Editable, after: Payload, name: str) -> dict[str, str | None]:
    """A field with the hashes of its values; one that the form does not have is a hash itself."""

    def of(value: JsonValue) -> str:
        return keyed(payloads.canonical(value)).hex()

    before = found.original
    return {
        "path": f"/{name}" if name in found.type.payload.model_fields else f"hmac:{of(name)}",
        "before_hash": of(before[name]) if name in before else None,
        "after_hash": of(after[name]) if name in after else None,
    }


def _given(connection: Connection, letter: Letter) -> Given | None:
    if letter.worker != tasks.WORKER or letter.work_id is None:
        return None
    return tasks.given(connection, letter.work_id)


def _payload(given: Given, bucket: str | None) -> Payload:
    if given.payload is not None:
        return given.payload
    if bucket is None:
        raise InvalidSettingsError("UPLOADS_BUCKET is not set: it names the bucket that large payloads are in.")
    assert given.payload_key is not None  # the row has one of the two
    return payloads.read(bucket, given.payload_key)
