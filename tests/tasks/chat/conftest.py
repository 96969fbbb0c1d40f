"""Chat messages as tasks, a scripted model, and attempts without delivery."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.delivery.work import OutboxMessage
from counterfoil.llm import LlmRequest
from counterfoil.llm.client import LlmResponse
from counterfoil.settings import Settings
from counterfoil.tasks import store
from counterfoil.tasks.chat import CHAT_COMPLETION, ChatMessage, transcript
from counterfoil.tasks.task_type import Services, TaskResult
from tests.factories import NOW

USER = "ada"


@dataclass
class Model:
    """Scripted model: `respond` returns the reply or raises.

    `questions` collects all requests.
    """

    respond: Callable[[LlmRequest], str] = lambda question: f"Re: {question.user}"
    questions: list[LlmRequest] = field(default_factory=list)

    def chat(self, question: LlmRequest, _deadline: Deadline) -> LlmResponse[str]:
        self.questions.append(question)
        return LlmResponse(self.respond(question))


@dataclass
class Chat:
    """Operations of a chat client and a worker, one step at a time."""

    database: Database
    tenant: UUID
    model: Model = field(default_factory=Model)
    settings: Settings = field(default_factory=Settings)

    def submit(
        self, text: str, session: UUID | None = None, user: str | None = USER, tenant: UUID | None = None
    ) -> UUID:
        """Submit a message. Return its job id."""
        payload: dict[str, Any] = {"message": text} | ({} if session is None else {"session_id": str(session)})
        order = store.build_request(CHAT_COMPLETION, payload, user_id=user)
        return store.submit(self.database, tenant or self.tenant, order, NOW, bucket=None).task.job_id

    def run(self, job_id: UUID) -> TaskResult:
        """Run one attempt without applying its effects."""
        attempt = TenantAttempt(job_id, self.tenant, 1, 1, 1, self.database, lambda: NOW)
        services = Services(lambda: self.model, settings=self.settings)  # type: ignore[arg-type, return-value]
        result = CHAT_COMPLETION.run(attempt, None, services)
        assert isinstance(result, TaskResult)
        return result

    def settle(self, job_id: UUID, result: TaskResult) -> Sequence[OutboxMessage]:
        """Apply an attempt's effects and mark its task as succeeded."""
        with self.database.tenant(self.tenant) as connection:
            messages = result.effects(connection).messages
            connection.execute("UPDATE task SET status = 'succeeded' WHERE id = %s", [job_id])
        return messages

    def answer(self, job_id: UUID) -> Sequence[OutboxMessage]:
        """Run and settle one attempt."""
        return self.settle(job_id, self.run(job_id))

    def transcript(self, session: UUID, user: str | None = USER) -> Sequence[ChatMessage]:
        with self.database.tenant(self.tenant) as connection:
            return transcript(connection, session, user).entries

    def entries(self, session: UUID) -> list[tuple[int, str, str]]:
        return [(entry.number, entry.role, entry.content) for entry in self.transcript(session)]


@pytest.fixture
def chat(database: Database, tenant: UUID) -> Chat:
    return Chat(database, tenant)


@pytest.fixture
def set_status(admin: Connection) -> Callable[[UUID, str | None], None]:
    """`set_status(job_id, status)` sets a task's status without adding a reply."""

    def end(job_id: UUID, status: str | None) -> None:
        admin.execute("UPDATE task SET status = %s WHERE id = %s", [status, job_id])

    return end
