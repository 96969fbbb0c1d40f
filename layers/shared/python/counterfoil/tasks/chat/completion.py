"""`chat_completion`: a user's message is answered by the language model, in the order of its conversation, once."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from counterfoil import llm
from counterfoil.db import Connection
from counterfoil.delivery.work import Send, wake_waiting
from counterfoil.errors import DeferredError, InvalidSettingsError, PermanentError
from counterfoil.llm import Turn
from counterfoil.tasks.chat import sessions
from counterfoil.tasks.chat.tokens import estimate
from counterfoil.tasks.kinds import TASKS
from counterfoil.tasks.registry import Accepted, NotBeforeError, TaskContext, TaskResult, task

NAME = "chat_completion"
LOOK_AGAIN = timedelta(minutes=20)
"""How long a message that waits for its turn is put off, should nothing wake it. Longer than SQS delays a message: that
one stays in the outbox, and the queue for retries is not full of what nobody will need."""


class Message(BaseModel):
    """What a user says. Without a session it begins one, which has the id of its job."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    message: Annotated[str, StringConstraints(min_length=1, max_length=100_000, pattern=r"\S")]
    session_id: UUID | None = Field(default=None, description="Left out: a new session, whose id is the job's.")


def accept(connection: Connection, accepted: Accepted, payload: Message) -> None:
    """Give the message its place, where today's budget of the model lets it be answered.

    The budget may still be used up by the time of the answer. But whoever goes on asking makes no dead letters.

    Raises:
        NotBeforeError: the budget is used up.
        NoSessionError: there is no such session of this user.
    """
    try:
        llm.refuse_spent_chats(connection, accepted.tenant_id, accepted.settings, accepted.now)
    except llm.BudgetSpentError as error:
        wait = ceil((error.until - accepted.now).total_seconds())
        raise NotBeforeError(_till_tomorrow(error), retry_after=wait) from error
    session_id = payload.session_id
    if session_id is None:
        session_id = accepted.job_id
        sessions.begin(connection, session_id, accepted.tenant_id, accepted.user_id, accepted.now)
    sessions.ask(connection, session_id, accepted.user_id, accepted.job_id, payload.message, accepted.now)


def cancelled(connection: Connection, job_id: UUID, now: datetime) -> Sequence[Send]:
    """Let the next message have its turn."""
    return wake_waiting(connection, TASKS, job_id, now)


@task(NAME, Message, on_accept=accept, on_cancel=cancelled, enabled_by="llm_provider", private=True)
def complete(context: TaskContext, _payload: Message) -> TaskResult:
    """Answer one message.

    Raises:
        DeferredError: it is not its turn.
        InvalidSettingsError: there is no language model.
        PermanentError: the message is not there, or today's budget of the model is used up.
        CounterfoilError: as `Llm.converse`.
    """
    with context.database.tenant(context.tenant_id) as connection:
        asked = sessions.question(connection, context.job_id)
        if asked is None:
            raise PermanentError("The message is not there any more.")
        history = () if asked.must_wait else _history(context, connection, asked)
    if asked.must_wait:
        raise _not_yet(context)
    if context.llm is None:
        raise InvalidSettingsError("There is no language model: set LLM_PROVIDER and LLM_MODEL.")
    context.deadline.check()
    question = llm.Question(
        context.settings.chat_system_prompt,
        asked.content,
        llm.CHAT,
        context.tenant_id,
        context.job_id,
        history,
    )
    try:
        said = context.llm().converse(question, context.deadline)
    except llm.BudgetSpentError as error:  # who waits for an answer is told so today, and the next message has its turn
        raise PermanentError(_till_tomorrow(error)) from error

    def effects(connection: Connection) -> Sequence[Send]:
        sessions.answer(connection, asked.session_id, context.job_id, said.said, context.now())
        if sessions.must_wait(connection, context.job_id):  # an earlier one was begun anew meanwhile
            raise _not_yet(context)
        return wake_waiting(connection, TASKS, context.job_id, context.now())

    return TaskResult({"session_id": str(asked.session_id), "message": said.said}, effects)


def _history(context: TaskContext, connection: Connection, asked: sessions.Question) -> Sequence[Turn]:
    system, room = context.settings.chat_system_prompt, context.settings.chat_history_tokens
    budget = room - estimate(system) - estimate(asked.content)
    return sessions.history(connection, asked.session_id, asked.number, budget)


def _till_tomorrow(error: llm.BudgetSpentError) -> str:
    return f"{error} Send the message again after midnight UTC."


def _not_yet(context: TaskContext) -> DeferredError:
    return DeferredError(
        "An earlier message of the session is not answered yet.",
        until=context.now() + LOOK_AGAIN,
        is_over=lambda connection: not sessions.must_wait(connection, context.job_id),
    )
