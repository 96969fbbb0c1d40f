"""What people do to a dead letter: try its work again, resolve it, ignore it.

Each is one transaction: compare-and-set on the letter's version and on its being pending, what follows from it, a line
in the letter's own history, and one entry of the audit trail. Whoever does the same to many letters under one entry
uses `send_again` and `settle`, and records the entry himself.

Locks are taken in the order in which delivery takes them, work, then letter, and the trail's last. A tenant of None
means the letters of nobody, which are changed as the delivery role.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import Operation
from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.dead_letters.entries import Status, transaction
from counterfoil.delivery import dead_letter
from counterfoil.delivery.dead_letter import ClosedStatus
from counterfoil.delivery.work import Send, begin, owe_body
from counterfoil.errors import ConflictError, RejectedRequestError, VersionError
from counterfoil.kinds import KINDS
from counterfoil.tasks import store as tasks
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
        return Done(version, [owe_body(connection, *to, body, wish.now, not_before=not_before)])
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
