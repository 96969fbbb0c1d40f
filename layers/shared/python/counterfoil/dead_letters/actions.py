"""Actions on single dead letters: retry, resolve, ignore, and edit the payload of a task.

Each is one transaction: compare-and-set on the version and the pending state, the effects, the letter's own history,
and one audit entry. Bulk operations use `send_again` and `settle` and record one entry for all. Locks are taken in the
order of delivery: work item, dead letter, audit trail. A tenant of None means unassigned dead letters, which are
changed as the delivery role.

An edit stores the changed fields with both values in the dead letter. The audit trail has hashes of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import Field, JsonValue

from counterfoil import audit
from counterfoil.audit import Operation
from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.dead_letters.search import Status, transaction
from counterfoil.delivery import dead_letter
from counterfoil.delivery.dead_letter import ClosedStatus
from counterfoil.delivery.work import Send, begin, enqueue_raw_body
from counterfoil.errors import ConflictError, InvalidSettingsError, RejectedRequestError, VersionError
from counterfoil.kinds import KINDS
from counterfoil.settings import Settings
from counterfoil.tasks import payloads
from counterfoil.tasks import store as tasks
from counterfoil.tasks.payloads import Payload
from counterfoil.tasks.store import Given
from counterfoil.tasks.task_type import TaskType
from counterfoil.tasks.types import TYPES

LONGEST_NOTE = 2000
"""Characters."""


class NoLetterError(RejectedRequestError):
    """The tenant has no such dead letter."""


class NotPendingError(RejectedRequestError):
    """The letter is settled already."""


class NotRetriableError(RejectedRequestError):
    """What the letter is about cannot be tried again: it is not failed any more, or is gone."""


@dataclass(frozen=True)
class Wish:
    """What somebody wants to be done to a letter that he has looked at."""

    job_id: UUID
    version: int | None
    """Version that the actor saw; None: the change does not depend on it."""
    actor: str
    now: datetime
    note: str | None = None

    def operation(self, action: str, version: int, detail: Mapping[str, Any]) -> Operation:
        """The entry of the audit trail; `version` is the letter's new one."""
        targets = [str(self.job_id)]
        return Operation(self.actor, action, targets, self.now, self.note, version - 1, version, detail)


@dataclass(frozen=True)
class Done:
    """What became of the letter."""

    version: int
    sends: Sequence[Send] = ()
    """What is owed, to be sent after the commit."""


@dataclass(frozen=True)
class Letter:
    """A letter, as changes need it."""

    worker: str
    work_id: UUID | None
    revision: int | None
    status: Status
    version: int
    payload: Mapping[str, Any]
    edited_payload: dict[str, Any] | None
    """That waits for the retry."""


_LETTER = """
SELECT worker, work_id, revision, status, version, payload, CASE WHEN NOT edit ? 'settled' THEN edited_payload END
FROM dead_letter WHERE job_id = %s AND tenant_id IS NOT DISTINCT FROM %s::uuid AND purged_at IS NULL
"""


def find(connection: Connection, tenant_id: UUID | None, job_id: UUID, *, lock: bool = False) -> Letter:
    """A letter as it is; with `lock` as it stays until the transaction ends.

    Raises:
        NoLetterError: the tenant has none of this id.
    """
    statement = f"{_LETTER} FOR NO KEY UPDATE" if lock else _LETTER
    row = connection.execute(statement.encode(), [job_id, tenant_id]).fetchone()
    if row is None:
        raise NoLetterError("There is no such dead letter.")
    return Letter(*row)


def look_at(connection: Connection, tenant_id: UUID | None, wish: Wish, *, lock: bool = False) -> Letter:
    """Return the dead letter to change; with `lock` it stays the same until the transaction ends.

    Raises:
        NoLetterError, VersionError, NotPendingError: it is not to be changed.
    """
    letter = find(connection, tenant_id, wish.job_id, lock=lock)
    if wish.version not in {None, letter.version}:
        raise VersionError(f"The dead letter was changed meanwhile: it is at version {letter.version}.")
    if letter.status != "pending":
        raise NotPendingError(f"The dead letter is {letter.status} already.")
    return letter


# -- trying again ----------------------------------------------------------------------------------------------------


def retry(database: Database, tenant_id: UUID | None, wish: Wish, *, bucket: str | None) -> Done:
    """Try the work of a letter again, in a transaction of its own; what is owed is to be sent then.

    `bucket` takes an edited payload that is too large for a message.

    Raises:
        NoLetterError, VersionError, NotPendingError, NotRetriableError: nothing was done.
        InvalidPayloadError: the edited payload is not in the form of its type any more.
        InvalidSettingsError: there is no bucket, and one is needed.
        ConflictError, DatabaseUnavailableError, ServiceUnavailableError: ask again.
    """

    def once() -> Done:
        with transaction(database, tenant_id) as connection:
            letter = look_at(connection, tenant_id, wish)
        payload_key = _store_edit(database, tenant_id, letter, bucket)
        seen = replace(wish, version=letter.version)
        try:
            with transaction(database, tenant_id) as connection:
                done = send_again(connection, tenant_id, seen, letter, payload_key=payload_key)
                revisions = {"revision": done.sends[0].message.revision}
                audit.record(connection, tenant_id, seen.operation("retried", done.version, revisions))
                return done
        except VersionError as error:
            if wish.version is not None:
                raise
            raise ConflictError("The dead letter changed at the same time") from error

    return retry_conflicts(once)


def store_large(database: Database, tenant_id: UUID | None, wish: Wish, bucket: str | None) -> str | None:
    """Where the letter's edited payload lies, which is about to be its task's; None: there is none, or it is not large.

    Raises as `retry`.
    """
    with transaction(database, tenant_id) as connection:
        letter = look_at(connection, tenant_id, wish)
    return _store_edit(database, tenant_id, letter, bucket)


def _store_edit(database: Database, tenant_id: UUID | None, letter: Letter, bucket: str | None) -> str | None:
    if letter.edited_payload is None or letter.work_id is None or tenant_id is None:
        return None
    return tasks.store_large(database, tenant_id, letter.work_id, letter.edited_payload, bucket)


def send_again(
    connection: Connection,
    tenant_id: UUID | None,
    wish: Wish,
    letter: Letter | None = None,
    *,
    payload_key: str | None = None,
    not_before: datetime | None = None,
) -> Done:
    """Settle a letter as retried and begin its work anew, or send its message again, in the caller's transaction.

    The caller writes the audit entry. `letter`: as read before, if it was. `payload_key` comes from `store_large`.
    `not_before`: when the message is due; None: at once. Raises as `retry`.
    """
    if letter is None:
        letter = look_at(connection, tenant_id, wish)
    if letter.work_id is None:
        body = _body(letter)
        version = settle(connection, tenant_id, wish, "retried")
        to = (letter.worker, tenant_id, wish.job_id, version)
        return Done(version, [enqueue_raw_body(connection, *to, body, wish.now, not_before=not_before)])
    work_id = letter.work_id
    state, revision = _locked(connection, letter.worker, work_id)
    letter = look_at(connection, tenant_id, wish, lock=True)
    if (state, revision) != ("failed", letter.revision):
        raise NotRetriableError(why_not_failed(state))
    if letter.edited_payload is not None:
        _check_form(connection, work_id, letter.edited_payload)
    version = settle(connection, tenant_id, wish, "retried")
    if letter.edited_payload is not None:
        tasks.replace_payload(connection, work_id, letter.edited_payload, payload_key)
    return Done(version, begin(connection, letter.worker, [work_id], wish.now, not_before=not_before))


GONE = "gone"
"""In the place of the state of a work that is no more."""
_IS_NOW = {
    GONE: "What the dead letter is about is gone: resolve or ignore it.",
    None: "The work was cancelled, or there was nothing to do for it: resolve or ignore the dead letter.",
    "pending": "The work was begun anew meanwhile, and waits to be tried.",
    "in-progress": "The work was begun anew meanwhile, and is being done.",
    "succeeded": "The work has succeeded meanwhile: resolve the dead letter.",
}


def why_not_failed(state: str | None) -> str:
    """Why work in this state is not tried again, for people."""
    return _IS_NOW.get(state, "The work was begun anew meanwhile.")


_LOCK = "SELECT {status}, {revision} FROM {table} WHERE id = %(id)s FOR NO KEY UPDATE"


def _locked(connection: Connection, worker: str, work_id: UUID) -> tuple[str | None, int]:
    """State and revision of a work, which nobody else changes until the transaction ends."""
    kind = KINDS.get(worker)
    row = None if kind is None else connection.execute(kind.sql(_LOCK), {"id": work_id}).fetchone()
    return (GONE, 0) if row is None else (row[0], row[1])


def _check_form(connection: Connection, task_id: UUID, payload: dict[str, Any]) -> None:
    """Whether the task's type, as it is by now, takes the payload."""
    given = tasks.given(connection, task_id)
    type_ = None if given is None else TYPES.get(given.task_type)
    if type_ is None:
        raise NotRetriableError("There is no such task_type any more: resolve or ignore the dead letter.")
    type_.read(payload)


def _body(letter: Letter) -> str:
    """The message that the letter is, as a queue takes it."""
    body = letter.payload.get("body")
    if letter.worker not in KINDS or not isinstance(body, str) or letter.payload.get("encoding") != "text":
        raise NotRetriableError("The message holds what no queue takes: resolve or ignore the dead letter.")
    return body


# -- settling --------------------------------------------------------------------------------------------------------


def resolve(database: Database, tenant_id: UUID | None, wish: Wish) -> Done:
    """Settle a letter whose failure was dealt with in another way; it takes a note.

    Raises:
        NoLetterError, VersionError, NotPendingError: nothing was done.
        RejectedRequestError: there is no note, or too long a one.
        ConflictError, DatabaseUnavailableError: ask again.
    """
    return _settled(database, tenant_id, wish, "resolved")


def ignore(database: Database, tenant_id: UUID | None, wish: Wish) -> Done:
    """Settle a letter that nothing is done about; it takes a note. Raises as `resolve`."""
    return _settled(database, tenant_id, wish, "ignored")


def _settled(database: Database, tenant_id: UUID | None, wish: Wish, status: Literal["resolved", "ignored"]) -> Done:
    def once() -> Done:
        with transaction(database, tenant_id) as connection:
            version = settle(connection, tenant_id, wish, status)
            audit.record(connection, tenant_id, wish.operation(status, version, {}))
            return Done(version)

    return retry_conflicts(once)


def settle(connection: Connection, tenant_id: UUID | None, wish: Wish, status: ClosedStatus) -> int:
    """Give a letter its end, and write it into its history, in the caller's transaction. Returns its new version.

    No entry of the audit trail is written. Raises as `resolve`.
    """
    _check_note(wish.note, is_needed=status != "retried")
    look_at(connection, tenant_id, wish, lock=True)
    settled = dead_letter.settle(connection, [wish.job_id], status, wish.now, actor=wish.actor, note=wish.note)
    return settled[wish.job_id]


def _check_note(note: str | None, *, is_needed: bool) -> None:
    if note is None and not is_needed:
        return
    if note is None or not note.strip():
        raise RejectedRequestError("A note is needed: say why.")
    if len(note) > LONGEST_NOTE:
        raise RejectedRequestError(f"The note is longer than {LONGEST_NOTE} characters.")


MOST_EDITS = 20
"""Number of edits stored per dead letter."""


class NotEditableError(RejectedRequestError):
    """The dead letter has no payload that can be edited."""


@dataclass(frozen=True)
class PayloadEdit:
    """One edit of a payload."""

    by: str
    at: datetime
    note: str | None
    before: Annotated[Mapping[str, JsonValue], Field(description="Original values of the fields that differ.")]
    after: Annotated[
        Mapping[str, JsonValue],
        Field(description="Edited values of the same fields. Empty in both: the edit takes earlier ones back."),
    ]


@dataclass(frozen=True)
class Editable:
    """The payload of a task that has failed."""

    type: TaskType
    original: Payload
    """Payload of the failed attempt."""
    edited: Payload | None
    """Payload of the next attempt, if an operator has edited it."""
    version: int
    """Version of the dead letter."""
    edits: Sequence[PayloadEdit]
    """Newest first. They are stored after the dead letter is closed, too."""


def changed_fields(before: Payload, after: Payload) -> list[str]:
    """Return the names of fields that were added, removed or changed."""
    return [
        name
        for name in sorted({*before, *after})
        if name not in before
        or name not in after
        or payloads.canonical(before[name]) != payloads.canonical(after[name])  # in Python, True is 1
    ]


def show_payload(database: Database, tenant_id: UUID, job_id: UUID, *, bucket: str | None) -> Editable:
    """Return the payload of a dead letter's task with its edits.

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
        raise NotEditableError(f"The payload of a {type_.name} belongs to its user and cannot be edited.")
    original, edited = _payload(given, bucket), letter.edited_payload
    if edited is not None and not changed_fields(original, edited):
        edited = None  # it was undone
    return Editable(type_, original, edited, letter.version, [_made(one) for one in history])


_HISTORY = "SELECT edit FROM dead_letter WHERE job_id = %s AND edit IS NOT NULL"


def _history(connection: Connection, job_id: UUID) -> list[JsonValue]:
    """Return the stored edits of a dead letter, newest first. Each can be as large as a payload."""
    row = connection.execute(_HISTORY, [job_id]).fetchone()
    if row is None:
        return []
    latest = {name: value for name, value in row[0].items() if name not in {"earlier", "settled"}}
    return [latest, *row[0].get("earlier", ())]


def _made(one: Any) -> PayloadEdit:
    return PayloadEdit(**{**one, "at": datetime.fromisoformat(one["at"])})


def edit_payload(  # an edit is this many facts
    database: Database, tenant_id: UUID, wish: Wish, payload: Payload, *, bucket: str | None, settings: Settings
) -> Done:
    """Replace the payload for the next attempt at a task. The payload that failed undoes an edit.

    Raises:
        VersionError, NotPendingError: the dead letter has changed, or is closed.
        InvalidPayloadError, TooLargeError, RejectedRequestError: the type rejects the payload.
        NotEditableError: see `show_payload`.
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
    fields = changed_fields(found.original, payload)
    if not fields and found.edited is None:
        raise RejectedRequestError("The payload has no changes.")
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
            version = _store_payload_edit(connection, tenant_id, wish, payload, kept)
            hashed = partial(_hashed, partial(audit.keyed, connection, tenant_id), found, payload)
            detail = {"changes": [hashed(name) for name in fields]}
            audit.record(connection, tenant_id, wish.operation("edited", version, detail))
            return Done(version)

    return retry_conflicts(once)


_STORE_EDIT = """
UPDATE dead_letter SET edited_payload = %(payload)s, edit = %(edit)s, version = version + 1
WHERE job_id = %(job_id)s AND version = %(version)s AND status = 'pending' AND purged_at IS NULL
RETURNING version
"""


def _store_payload_edit(
    connection: Connection, tenant_id: UUID, wish: Wish, payload: Payload, edit_: Mapping[str, JsonValue]
) -> int:
    values = {
        "job_id": wish.job_id,
        "version": wish.version,
        "payload": Jsonb(payload),
        "edit": Jsonb(edit_),
    }
    row = connection.execute(_STORE_EDIT, values).fetchone()
    if row is None:
        look_at(connection, tenant_id, wish)
        raise VersionError("The dead letter has changed since it was read.")
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
