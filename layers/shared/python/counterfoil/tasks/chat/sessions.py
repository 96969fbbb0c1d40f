"""The SQL of conversations: begun, added to, looked at. Each function is one step in a transaction of the tenant.

A conversation is its user's alone: for anybody else of the same tenant it is not there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.errors import RejectedRequestError, StaleClaimError
from counterfoil.llm import Turn
from counterfoil.tasks.chat.tokens import OVERHEAD, estimate

Role = Literal["user", "assistant"]
PREVIEW = 100
"""Characters of a conversation's first message by which a list tells it from others."""
MOST_BYTES = 2_000_000
"""Of JSON in a transcript. Lambda answers with 6 MB at most, and may write a character of two bytes with six."""
AROUND = 300
"""Bytes of JSON around the text of a message, or somewhat more."""


class NoSessionError(RejectedRequestError):
    """There is no such conversation, or it is somebody else's."""


@dataclass(frozen=True)
class Session:
    """A conversation, as its user sees it in a list."""

    id: UUID
    created_at: datetime
    messages: int
    """Answers among them."""
    begins: str
    """The beginning of the first message."""


@dataclass(frozen=True)
class Entry:
    """One message of a conversation."""

    number: int
    role: Role
    content: str
    job_id: UUID
    """Of the task that this message began, or that answered it."""
    created_at: datetime
    status: str | None
    """Of that task, as people see it; None where it is past keeping."""


@dataclass(frozen=True)
class Transcript:
    """What was said, as far as it was asked for."""

    entries: Sequence[Entry]
    is_cut: bool
    """Whether more was said behind these."""


# -- adding ---------------------------------------------------------------------------------------------------------


def begin(connection: Connection, session_id: UUID, tenant_id: UUID, user_id: str | None, now: datetime) -> None:
    """Begin a conversation of this user."""
    connection.execute(
        "INSERT INTO chat_session (id, tenant_id, user_id, created_at, used_at) VALUES (%s, %s, %s, %s, %s)",
        [session_id, tenant_id, user_id, now, now],
    )


_TAKE = """
UPDATE chat_session SET last_number = last_number + 1, used_at = greatest(used_at, %(now)s)
WHERE id = %(session)s AND (%(anybody)s OR user_id IS NOT DISTINCT FROM %(user)s)
RETURNING tenant_id, last_number
"""

# What is ending just now lets nobody have its turn who comes after its last look at who waits.
_AWAIT_ENDS = """
SELECT FROM chat_message before JOIN task t ON t.id = before.job_id
WHERE before.session_id = %s AND before.role = 'user' AND t.status IN ('pending', 'in-progress')
ORDER BY t.id FOR SHARE OF t
"""
_ADD = """
INSERT INTO chat_message (tenant_id, session_id, number, role, content, job_id, tokens, created_at)
VALUES (%(tenant)s, %(session)s, %(number)s, %(role)s, %(content)s, %(job)s, %(tokens)s, %(now)s)
ON CONFLICT (job_id, role) DO NOTHING
"""


def ask(
    connection: Connection, session_id: UUID, user_id: str | None, job_id: UUID, content: str, now: datetime
) -> int:
    """Add a user's message, which this job is to answer. Returns its place.

    Earlier ones that are ending have ended by then: a try of this one that saw them live could wait for them in vain.

    Raises:
        NoSessionError: there is no such conversation of this user.
    """
    values = {"session": session_id, "anybody": False, "user": user_id, "now": now}
    row = connection.execute(_TAKE, values).fetchone()
    if row is None:
        raise NoSessionError("There is no such session.")
    connection.execute(_AWAIT_ENDS, [session_id])
    _add(connection, (session_id, *row), "user", job_id, content, now)
    return int(row[1])


def answer(connection: Connection, session_id: UUID, job_id: UUID, content: str, now: datetime) -> None:
    """Add the answer of a job.

    Raises:
        StaleClaimError: there is one already, or the conversation has been deleted.
    """
    row = connection.execute(_TAKE, {"session": session_id, "anybody": True, "user": None, "now": now}).fetchone()
    if row is None:
        message = f"The session of the job {job_id} has been deleted"
        raise StaleClaimError(message)
    if not _add(connection, (session_id, *row), "assistant", job_id, content, now):
        message = f"The job {job_id} has been answered by another try"
        raise StaleClaimError(message)


def _add(
    connection: Connection, place: tuple[UUID, UUID, int], role: Role, job_id: UUID, content: str, now: datetime
) -> bool:
    session_id, tenant_id, number = place
    values = {
        "tenant": tenant_id,
        "session": session_id,
        "number": number,
        "role": role,
        "content": content,
        "job": job_id,
        "tokens": estimate(content),
        "now": now,
    }
    return connection.execute(_ADD, values).rowcount == 1


# -- answering ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A user's message that is to be answered."""

    session_id: UUID
    number: int
    content: str
    must_wait: bool
    """Whether an earlier message of the conversation may still be answered."""


_WAITS = """
EXISTS (
    SELECT FROM chat_message before JOIN task t ON t.id = before.job_id
    WHERE before.session_id = mine.session_id AND before.number < mine.number AND before.role = 'user'
      AND t.status IN ('pending', 'in-progress')
)
"""
_QUESTION = f"""
SELECT mine.session_id, mine.number, mine.content, {_WAITS} FROM chat_message mine
WHERE mine.job_id = %s AND mine.role = 'user'
"""  # noqa: S608  # our own text alone
_MUST_WAIT = f"SELECT {_WAITS} FROM chat_message mine WHERE mine.job_id = %s AND mine.role = 'user'"  # noqa: S608


def question(connection: Connection, job_id: UUID) -> Question | None:
    """What a job is to answer; None where its message is not there."""
    row = connection.execute(_QUESTION.encode(), [job_id]).fetchone()
    return None if row is None else Question(*row)


def must_wait(connection: Connection, job_id: UUID) -> bool:
    """Whether a message that is earlier in the conversation may still be answered."""
    row = connection.execute(_MUST_WAIT.encode(), [job_id]).fetchone()
    return row is not None and bool(row[0])


# A message that has no answer is left out: it may be why there is none.
_HISTORY = """
SELECT asked, said FROM (
    SELECT number, asked, said, sum(tokens) OVER (ORDER BY number DESC) AS tokens FROM (
        SELECT q.number, q.content AS asked, a.content AS said, q.tokens + a.tokens AS tokens
        FROM chat_message q JOIN chat_message a ON a.job_id = q.job_id AND a.role = 'assistant'
        WHERE q.session_id = %(session)s AND q.role = 'user' AND q.number < %(number)s
        ORDER BY q.number DESC LIMIT %(limit)s
    ) newest
) counted
WHERE tokens <= %(budget)s ORDER BY number
"""


def history(connection: Connection, session_id: UUID, number: int, budget: int) -> list[Turn]:
    """What was asked before the message `number`, and answered, oldest first: the newest turns that fit into `budget`.

    Turns are whole, and without a gap: one that does not fit ends the window, though an older one would.
    """
    limit = max(0, budget) // (2 * (OVERHEAD + 1))  # no turn takes less
    values = {"session": session_id, "number": number, "limit": limit, "budget": budget}
    return [Turn(*row) for row in connection.execute(_HISTORY, values)]


# -- deleting -------------------------------------------------------------------------------------------------------


def lock(connection: Connection, session_id: UUID, user_id: str | None) -> list[UUID]:
    """Keep everybody from adding to a conversation until the transaction's end. Returns the jobs of its messages.

    Raises:
        NoSessionError: there is no such conversation of this user.
    """
    mine = "SELECT FROM chat_session WHERE id = %s AND user_id IS NOT DISTINCT FROM %s FOR UPDATE"
    if connection.execute(mine, [session_id, user_id]).fetchone() is None:
        raise NoSessionError("There is no such session.")
    jobs = "SELECT job_id FROM chat_message WHERE session_id = %s AND role = 'user' ORDER BY number"
    return [job_id for (job_id,) in connection.execute(jobs, [session_id])]


# -- looking --------------------------------------------------------------------------------------------------------


def owner(connection: Connection, session_id: UUID) -> tuple[UUID, str] | None:
    """The tenant of a conversation, by id and slug; as the delivery role. None where there is no such conversation."""
    row = connection.execute(
        """
        SELECT t.id, t.slug FROM chat_message m JOIN tenant t ON t.id = m.tenant_id
        WHERE m.session_id = %s AND m.number = 1
        """,
        [session_id],
    ).fetchone()
    return None if row is None else (row[0], row[1])


# A text is at least as long in JSON: so most of what does not fit is never written out to be measured.
_TRANSCRIPT = """
SELECT m.number, m.role, m.content, m.job_id, m.created_at,
       CASE WHEN t.id IS NOT NULL THEN coalesce(t.status, 'cancelled') END
FROM (
    SELECT *, sum(octet_length(to_json(content)::text) + %(around)s) OVER (ORDER BY number) AS written FROM (
        SELECT *, sum(octet_length(content)) OVER (ORDER BY number) AS held FROM (
            SELECT * FROM chat_message WHERE session_id = %(session)s AND number >= %(first)s
            ORDER BY number LIMIT %(limit)s
        ) behind
    ) shorter WHERE held <= %(most)s OR number = %(first)s
) m LEFT JOIN task t ON t.id = m.job_id
WHERE m.written <= %(most)s OR m.number = %(first)s ORDER BY m.number
"""


def transcript(
    connection: Connection,
    session_id: UUID,
    user_id: str | None,
    *,
    after: int = 0,
    limit: int = 1000,
    most_bytes: int = MOST_BYTES,
) -> Transcript:
    """The messages of a conversation behind the place `after`, in their order.

    They are `limit` at most, and have `most_bytes` of JSON (UTF-8) at most, together; the first one is always there.

    Raises:
        NoSessionError: there is no such conversation of this user.
    """
    found = connection.execute(
        "SELECT last_number FROM chat_session WHERE id = %s AND user_id IS NOT DISTINCT FROM %s", [session_id, user_id]
    ).fetchone()
    if found is None:
        raise NoSessionError("There is no such session.")
    values = {"session": session_id, "first": after + 1, "limit": limit, "most": most_bytes, "around": AROUND}
    entries = [Entry(*row) for row in connection.execute(_TRANSCRIPT, values)]
    return Transcript(entries, bool(entries) and entries[-1].number < found[0])


_LISTED = """
SELECT s.id, s.created_at, s.last_number, left(m.content, %(preview)s)
FROM chat_session s JOIN chat_message m ON m.session_id = s.id AND m.number = 1
WHERE s.user_id IS NOT DISTINCT FROM %(user)s
  AND (%(after_at)s::timestamptz IS NULL OR (s.created_at, s.id) < (%(after_at)s, %(after_id)s::uuid))
ORDER BY s.created_at DESC, s.id DESC LIMIT %(limit)s
"""


def listed(
    connection: Connection, user_id: str | None, *, after: tuple[datetime, UUID] | None = None, limit: int
) -> Sequence[Session]:
    """A user's conversations, the newest first, from the one behind `after` (when it was begun, and its id)."""
    at, id_ = after or (None, None)
    values = {"preview": PREVIEW, "user": user_id, "after_at": at, "after_id": id_, "limit": limit}
    return [Session(*row) for row in connection.execute(_LISTED, values)]
