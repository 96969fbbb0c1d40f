"""Conversations with a language model, and the task type that answers messages.

A task of the type `chat_completion` answers each message. The message gets its number when the task is accepted, and
messages are answered in the order of their numbers. While an earlier message in the conversation may still be answered,
the task is deferred. It is woken when the earlier task ends, regardless of the outcome. The reply is written once per
task, in the transaction that marks the task as succeeded. If a message's task failed or was canceled, the message has
no reply, and later messages do not wait for it.

A conversation belongs to one user, and is not visible to anyone else. The user can delete it, and the watchdog deletes
it three months after its last use. Messages and replies in a conversation are numbered from 1, without gaps. Taking a
number locks the conversation, so a transaction that sees one message also sees all earlier ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from counterfoil import audit, llm
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection
from counterfoil.delivery.attempt import Effects, TenantAttempt
from counterfoil.delivery.work import wake_dependents
from counterfoil.errors import (
    DeferredError,
    InvalidSettingsError,
    PermanentError,
    RejectedRequestError,
    StaleClaimError,
)
from counterfoil.llm import ChatTurn
from counterfoil.tasks import store
from counterfoil.tasks.kinds import TASKS
from counterfoil.tasks.task_type import AcceptedTask, RetryLaterError, Services, TaskResult, TaskType

Role = Literal["user", "assistant"]
PREVIEW_CHARS = 100
"""Number of characters of the first message that a list of conversations shows."""
MAX_TRANSCRIPT_BYTES = 2_000_000
"""Maximum bytes of JSON in a transcript. Lambda's limit for a response is 6 MB, and Lambda can encode a two-byte
character as six bytes."""
MESSAGE_OVERHEAD_BYTES = 300
"""Upper bound for the bytes of JSON around a message's text."""
MESSAGE_OVERHEAD_TOKENS = 4
"""Tokens per message for the markers that name the speaker."""
RECHECK_DELAY = timedelta(minutes=20)
"""Delay of a blocked message if nothing wakes it. It exceeds SQS's maximum delay, so the SQS message stays in the
outbox and does not fill the retry queue."""

_LETTERS = b"abcdefghijklmnopqrstuvwxyz "


class SessionNotFoundError(RejectedRequestError):
    """The conversation does not exist or belongs to another user."""

    def __init__(self) -> None:
        super().__init__("There is no such conversation.")


def estimate_tokens(text: str) -> int:
    """Return a high estimate of a text's tokens, without the model's tokenizer.

    The estimate is 2 tokens per 5 lowercase ASCII letters and spaces, 4 tokens per 5 other bytes of UTF-8, plus
    MESSAGE_OVERHEAD_TOKENS. It was compared with three public tokenizers (OpenAI's cl100k and o200k, Anthropic's from
    2023). For prose in twelve languages, code, JSON, tables of numbers, UUIDs and emoji, it was 1.0 to 2.6 times the
    largest of their counts. For random base64 and rare ideographs, it was 0.8 to 0.9 times that count. A window of N
    estimated tokens therefore holds about N/2 actual tokens or more.
    """
    content = text.encode(errors="replace")
    other_bytes = len(content.translate(None, _LETTERS))
    return MESSAGE_OVERHEAD_TOKENS - (-(2 * (len(content) - other_bytes) + 4 * other_bytes) // 5)


# -- writing --------------------------------------------------------------------------------------------------------


def begin_session(
    connection: Connection, session_id: UUID, tenant_id: UUID, user_id: str | None, now: datetime
) -> None:
    """Start a conversation for a user."""
    connection.execute(
        "INSERT INTO chat_session (id, tenant_id, user_id, created_at, last_used_at) VALUES (%s, %s, %s, %s, %s)",
        [session_id, tenant_id, user_id, now, now],
    )


_TAKE_NUMBER = """
UPDATE chat_session SET last_number = last_number + 1, last_used_at = greatest(last_used_at, %(now)s)
WHERE id = %(session)s AND (%(any_user)s OR user_id IS NOT DISTINCT FROM %(user)s)
RETURNING tenant_id, last_number
"""

# Waits for tasks that are ending, because each of them wakes only messages that existed when it ended.
_LOCK_PENDING_TASKS = """
SELECT FROM chat_message earlier JOIN task t ON t.id = earlier.job_id
WHERE earlier.session_id = %s AND earlier.role = 'user' AND t.status IN ('pending', 'in-progress')
ORDER BY t.id FOR SHARE OF t
"""
_INSERT_MESSAGE = """
INSERT INTO chat_message (tenant_id, session_id, number, role, content, job_id, tokens, created_at)
VALUES (%(tenant)s, %(session)s, %(number)s, %(role)s, %(content)s, %(job)s, %(tokens)s, %(now)s)
ON CONFLICT (job_id, role) DO NOTHING
"""


def append_user_message(
    connection: Connection, session_id: UUID, user_id: str | None, job_id: UUID, content: str, now: datetime
) -> int:
    """Append a user's message, which the task `job_id` answers.

    Returns the message's number.

    Waits for earlier tasks that are ending. Otherwise an attempt at the new task could see an earlier task as
    unfinished after that task had already woken its dependents.

    Raises:
        SessionNotFoundError: the conversation does not exist or belongs to another user.
    """
    values = {"session": session_id, "any_user": False, "user": user_id, "now": now}
    row = connection.execute(_TAKE_NUMBER, values).fetchone()
    if row is None:
        raise SessionNotFoundError
    connection.execute(_LOCK_PENDING_TASKS, [session_id])
    _insert_message(connection, (session_id, *row), "user", job_id, content, now)
    return int(row[1])


def append_reply(connection: Connection, session_id: UUID, job_id: UUID, content: str, now: datetime) -> None:
    """Append a task's reply.

    Raises:
        StaleClaimError: the task already has a reply, or the conversation was deleted.
    """
    row = connection.execute(
        _TAKE_NUMBER, {"session": session_id, "any_user": True, "user": None, "now": now}
    ).fetchone()
    if row is None:
        message = f"The session of the job {job_id} has been deleted"
        raise StaleClaimError(message)
    if not _insert_message(connection, (session_id, *row), "assistant", job_id, content, now):
        message = f"Another attempt has answered the job {job_id}"
        raise StaleClaimError(message)


def _insert_message(
    connection: Connection, position: tuple[UUID, UUID, int], role: Role, job_id: UUID, content: str, now: datetime
) -> bool:
    session_id, tenant_id, number = position
    values = {
        "tenant": tenant_id,
        "session": session_id,
        "number": number,
        "role": role,
        "content": content,
        "job": job_id,
        "tokens": estimate_tokens(content),
        "now": now,
    }
    return connection.execute(_INSERT_MESSAGE, values).rowcount == 1


def lock_session(connection: Connection, session_id: UUID, user_id: str | None) -> None:
    """Lock a user's conversation against new messages until the transaction ends.

    Raises:
        SessionNotFoundError: the conversation does not exist or belongs to another user.
    """
    statement = "SELECT FROM chat_session WHERE id = %s AND user_id IS NOT DISTINCT FROM %s FOR UPDATE"
    if connection.execute(statement, [session_id, user_id]).fetchone() is None:
        raise SessionNotFoundError


def delete_session(connection: Connection, session_id: UUID, user_id: str | None, now: datetime, *, by: str) -> None:
    """Delete a user's conversation, in a transaction of its tenant.

    Its unfinished tasks are canceled, so an attempt in progress loses its claim. A trigger on chat_session deletes
    the tasks' payloads and results (migrations/0012.tasks.sql).

    Raises:
        SessionNotFoundError: the conversation does not exist or belongs to another user.
    """
    lock_session(connection, session_id, user_id)
    statement = "SELECT job_id FROM chat_message WHERE session_id = %s AND role = 'user' ORDER BY number"
    job_ids = [job_id for (job_id,) in connection.execute(statement, [session_id])]
    store.cancel_all(connection, job_ids, now, "Its session was deleted.")
    # The foreign key deletes the conversation's messages.
    row = connection.execute("DELETE FROM chat_session WHERE id = %s RETURNING tenant_id", [session_id]).fetchone()
    if row is not None:
        audit.record(connection, row[0], AuditRecord(by, "conversation deleted", [str(session_id)], now))


# -- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """A conversation in a user's list."""

    id: UUID
    created_at: datetime
    messages: int
    """Number of messages, including replies."""
    preview: str
    """First PREVIEW_CHARS characters of the first message."""


@dataclass(frozen=True)
class ChatMessage:
    """A message or reply in a conversation."""

    number: Annotated[int, Field(description="Position in the session.")]
    role: Role
    content: str
    job_id: Annotated[UUID, Field(description="Task that the message started, or that wrote the reply.")]
    created_at: datetime
    status: Annotated[str | None, Field(description="Status of that task; null if it was deleted.")]


@dataclass(frozen=True)
class Transcript:
    """Consecutive messages of a conversation."""

    entries: Sequence[ChatMessage]
    is_truncated: bool
    """Whether the conversation has more messages after these."""


# A text is never longer than its JSON. Most texts that exceed the limit are excluded before the conversion to JSON.
_TRANSCRIPT = """
SELECT m.number, m.role, m.content, m.job_id, m.created_at,
       CASE WHEN t.id IS NOT NULL THEN coalesce(t.status, 'canceled') END
FROM (
    SELECT *, sum(octet_length(to_json(content)::text) + %(around)s) OVER (ORDER BY number) AS json_bytes FROM (
        SELECT *, sum(octet_length(content)) OVER (ORDER BY number) AS text_bytes FROM (
            SELECT * FROM chat_message WHERE session_id = %(session)s AND number >= %(first)s
            ORDER BY number LIMIT %(limit)s
        ) page
    ) candidates WHERE text_bytes <= %(max_bytes)s OR number = %(first)s
) m LEFT JOIN task t ON t.id = m.job_id
WHERE m.json_bytes <= %(max_bytes)s OR m.number = %(first)s ORDER BY m.number
"""


def transcript(
    connection: Connection,
    session_id: UUID,
    user_id: str | None,
    *,
    after: int = 0,
    limit: int = 1000,
    max_bytes: int = MAX_TRANSCRIPT_BYTES,
) -> Transcript:
    """Return the messages with numbers greater than `after`, in order.

    Returns at most `limit` messages, with a total of at most `max_bytes` bytes of JSON. The first message is always
    included.

    Raises:
        SessionNotFoundError: the conversation does not exist or belongs to another user.
    """
    row = connection.execute(
        "SELECT last_number FROM chat_session WHERE id = %s AND user_id IS NOT DISTINCT FROM %s", [session_id, user_id]
    ).fetchone()
    if row is None:
        raise SessionNotFoundError
    values = {
        "session": session_id,
        "first": after + 1,
        "limit": limit,
        "max_bytes": max_bytes,
        "around": MESSAGE_OVERHEAD_BYTES,
    }
    entries = [ChatMessage(*entry) for entry in connection.execute(_TRANSCRIPT, values)]
    return Transcript(entries, bool(entries) and entries[-1].number < row[0])


_LIST_SESSIONS = """
SELECT s.id, s.created_at, s.last_number, left(m.content, %(preview)s)
FROM chat_session s JOIN chat_message m ON m.session_id = s.id AND m.number = 1
WHERE s.user_id IS NOT DISTINCT FROM %(user)s
  AND (%(after_at)s::timestamptz IS NULL OR (s.created_at, s.id) < (%(after_at)s, %(after_id)s::uuid))
ORDER BY s.created_at DESC, s.id DESC LIMIT %(limit)s
"""


def list_sessions(
    connection: Connection, user_id: str | None, *, after: tuple[datetime, UUID] | None = None, limit: int
) -> Sequence[Session]:
    """Return a user's conversations, newest first.

    `after` contains creation time and id of the last conversation on the previous page.
    """
    at, id_ = after or (None, None)
    values = {"preview": PREVIEW_CHARS, "user": user_id, "after_at": at, "after_id": id_, "limit": limit}
    return [Session(*row) for row in connection.execute(_LIST_SESSIONS, values)]


# -- the task type --------------------------------------------------------------------------------------------------


class Message(BaseModel):
    """A user's message.

    If `session_id` is omitted, the message starts a new session with the job's id.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)

    message: Annotated[str, StringConstraints(min_length=1, max_length=100_000, pattern=r"\S")]
    session_id: UUID | None = Field(default=None, description="If omitted, a new session starts with the job's id.")


@dataclass(frozen=True)
class PendingMessage:
    """A user's message that has no reply yet."""

    session_id: UUID
    number: int
    content: str
    is_blocked: bool
    """Whether an earlier message of the conversation may still be answered."""


_EARLIER_PENDING = """
EXISTS (
    SELECT FROM chat_message earlier JOIN task t ON t.id = earlier.job_id
    WHERE earlier.session_id = m.session_id AND earlier.number < m.number AND earlier.role = 'user'
      AND t.status IN ('pending', 'in-progress')
)
"""
_PENDING = f"""
SELECT m.session_id, m.number, m.content, {_EARLIER_PENDING} FROM chat_message m
WHERE m.job_id = %s AND m.role = 'user'
"""  # noqa: S608  # the expression above
_IS_BLOCKED = f"SELECT {_EARLIER_PENDING} FROM chat_message m WHERE m.job_id = %s AND m.role = 'user'"  # noqa: S608

# Messages without a reply are skipped, because one of them may have caused the model's failure.
_HISTORY = """
SELECT question, reply FROM (
    SELECT number, question, reply, sum(tokens) OVER (ORDER BY number DESC) AS tokens FROM (
        SELECT q.number, q.content AS question, r.content AS reply, q.tokens + r.tokens AS tokens
        FROM chat_message q JOIN chat_message r ON r.job_id = q.job_id AND r.role = 'assistant'
        WHERE q.session_id = %(session)s AND q.role = 'user' AND q.number < %(number)s
        ORDER BY q.number DESC LIMIT %(limit)s
    ) newest
) counted
WHERE tokens <= %(budget)s ORDER BY number
"""


def pending_message(connection: Connection, job_id: UUID) -> PendingMessage | None:
    """Return the message that a task answers, or None if the message was deleted."""
    row = connection.execute(_PENDING.encode(), [job_id]).fetchone()
    return None if row is None else PendingMessage(*row)


def is_blocked(connection: Connection, job_id: UUID) -> bool:
    """Return True if an earlier message of the conversation may still be answered."""
    row = connection.execute(_IS_BLOCKED.encode(), [job_id]).fetchone()
    return row is not None and bool(row[0])


def history(connection: Connection, session_id: UUID, number: int, budget: int) -> list[ChatTurn]:
    """Return the newest answered messages before `number` that fit into `budget`.

    The budget is in tokens, and the oldest message comes first. Each message is returned with its reply. There are no
    gaps: a message that does not fit ends the window, even if an older message would fit.
    """
    limit = max(0, budget) // (2 * (MESSAGE_OVERHEAD_TOKENS + 1))  # minimum tokens per turn
    values = {"session": session_id, "number": number, "limit": limit, "budget": budget}
    return [ChatTurn(*row) for row in connection.execute(_HISTORY, values)]


def accept(connection: Connection, task: AcceptedTask, payload: Message) -> None:
    """Append the message to its conversation if today's model budget permits a reply.

    This check prevents users without budget from creating dead letters. The budget may still be used up before the
    message is answered.

    Raises:
        RetryLaterError: the budget is used up.
        SessionNotFoundError: the conversation does not exist or belongs to another user.
    """
    try:
        llm.check_chat_budget(connection, task.tenant_id, task.settings, task.now)
    except llm.BudgetExceededError as error:
        wait = ceil((error.until - task.now).total_seconds())
        raise RetryLaterError(_until_tomorrow(error), retry_after=wait) from error
    session_id = payload.session_id
    if session_id is None:
        session_id = task.job_id
        begin_session(connection, session_id, task.tenant_id, task.user_id, task.now)
    append_user_message(connection, session_id, task.user_id, task.job_id, payload.message, task.now)


def complete(attempt: TenantAttempt, _payload: Message, services: Services) -> TaskResult:
    """Answer one message.

    Raises:
        DeferredError: an earlier message may still be answered.
        InvalidSettingsError: no language model is configured.
        PermanentError: the message was deleted, or today's model budget is used up.
        CounterfoilError: see `Llm.chat`.
    """
    settings, job_id = services.settings, attempt.work_id
    with attempt.database.tenant(attempt.tenant_id) as connection:
        pending = pending_message(connection, job_id)
        if pending is None:
            raise PermanentError("The message no longer exists.")
        if pending.is_blocked:
            raise _deferred_error(attempt)
        prompt_tokens = estimate_tokens(settings.chat_system_prompt) + estimate_tokens(pending.content)
        budget = settings.chat_history_tokens - prompt_tokens
        turns = history(connection, pending.session_id, pending.number, budget)
    if services.llm is None:
        raise InvalidSettingsError("No language model is configured. Set LLM_PROVIDER and LLM_MODEL.")
    attempt.deadline.check()
    request = llm.LlmRequest(settings.chat_system_prompt, pending.content, llm.CHAT, attempt.tenant_id, job_id, turns)
    try:
        reply = services.llm().chat(request, attempt.deadline).content
    except llm.BudgetExceededError as error:  # fails instead of deferring, so the user is informed today
        raise PermanentError(_until_tomorrow(error)) from error

    def effects(connection: Connection) -> Effects:
        append_reply(connection, pending.session_id, job_id, reply, attempt.now())
        if is_blocked(connection, job_id):  # an operator has retried an earlier message
            raise _deferred_error(attempt)
        return Effects(wake_dependents(connection, TASKS, job_id, attempt.now()))

    return TaskResult({"session_id": str(pending.session_id), "message": reply}, effects)


CHAT_COMPLETION = TaskType(
    "chat_completion", Message, complete, on_accept=accept, enabled_by="llm_provider", is_private=True
)


def _until_tomorrow(error: llm.BudgetExceededError) -> str:
    return f"{error} Send the message again after midnight UTC."


def _deferred_error(attempt: TenantAttempt) -> DeferredError:
    return DeferredError(
        "An earlier message in the session is not answered yet.",
        until=attempt.now() + RECHECK_DELAY,
        is_over=lambda connection: not is_blocked(connection, attempt.work_id),
    )
