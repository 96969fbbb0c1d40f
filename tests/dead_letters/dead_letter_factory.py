"""Factory for dead letters, which are written in the same way as by workers."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from counterfoil.db import Database
from counterfoil.delivery.dead_letter import DeadLetter, FailureDetails, write_dead_letter
from counterfoil.delivery.work import Message
from counterfoil.kinds import WORK_KINDS

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MakeDeadLetter = Callable[..., UUID]


def dead_letter_factory(database: Database, tenant_id: UUID) -> MakeDeadLetter:
    """Return a function that creates a dead letter and returns its job id.

    The dead letter is created `minute` minutes after noon.
    """

    def write(
        error: str = "Reading timed out after 30 s",
        *,
        minute: float = 0,
        worker: str = "ingestion",
        file_name: str = "invoice.pdf",
        error_type: str = "TimeoutError",
        task_type: str | None = None,
        work_id: UUID | None = None,
        revision: int = 1,
        tenant: UUID | None = None,
    ) -> UUID:
        message = Message(work_id=work_id or uuid4(), revision=revision, send_number=0)
        now = NOON + timedelta(minutes=minute)
        dead_letter = DeadLetter(
            job_id=WORK_KINDS[worker].job_id(message.work_id),
            tenant_id=tenant or tenant_id,
            worker=worker,
            message=message,
            payload={"message": message.model_dump(mode="json"), "file": {"file_name": file_name}},
            attempts=3,
            failure=FailureDetails("max_retries_exceeded", error_type, error, 3, worker),
            created_at=now - timedelta(minutes=5),
            task_type=task_type,
        )
        with database.tenant(tenant or tenant_id) as connection:
            write_dead_letter(connection, dead_letter, now)
        return dead_letter.job_id

    return write
