"""Dead letter versions, and the state that each retry path stores."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import actions
from counterfoil.delivery.dead_letter import attach_message, close_pending, restart
from tests.dead_letters.bulk_harness import BulkHarness
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter
from tests.factories import make_task

LATER = NOON + timedelta(hours=1)
RetryPath = Callable[[UUID], None]


@pytest.fixture
def retry_paths(database: Database, tenant_id: UUID, harness: BulkHarness) -> dict[str, RetryPath]:
    """Functions that retry a dead letter's task, by name of the retry path."""

    def by_operator(job_id: UUID) -> None:
        change = actions.ChangeRequest(job_id, 2, "kim", LATER, "The service recovered")
        actions.retry(database, tenant_id, change, bucket=None)

    def by_operation(job_id: UUID) -> None:
        harness.run(harness.request(job_ids=[job_id], note="The service recovered"))

    def by_worker(job_id: UUID) -> None:
        with database.tenant(tenant_id) as connection:
            row = connection.execute("SELECT work_id FROM dead_letter WHERE job_id = %s", [job_id]).fetchone()
            assert row is not None
            restart(connection, "tasks", row, LATER, actor="kim", reason="The service recovered")

    return {"operator": by_operator, "operation": by_operation, "worker": by_worker}


@pytest.mark.parametrize("path", ["operator", "operation", "worker"])
def test_all_retry_paths_store_same_state(
    retry_paths: dict[str, RetryPath], path: str, make_dead_letter: MakeDeadLetter, admin: Connection, tenant_id: UUID
):
    task = make_task(admin, tenant_id, status="failed", error="It failed", attempts=6, failed_at=NOON)
    job_id = make_dead_letter(worker="tasks", task_type="echo", work_id=task)
    admin.execute(
        """
        UPDATE dead_letter SET edited_payload = '{"say": "hi"}', edit_metadata = '{"by": "kim"}', version = 2
        WHERE job_id = %s
        """,
        [job_id],
    )
    retry_paths[path](job_id)
    stored: dict[str, Any] = {}
    stored["status"], stored["version"], stored["resolution"], stored["by"], stored["edit"] = admin.execute(
        "SELECT status, version, resolution, resolved_by, edit_metadata FROM dead_letter WHERE job_id = %s", [job_id]
    ).fetchall()[0]
    [(detail,)] = admin.execute(
        "SELECT detail - 'operation' FROM dead_letter_audit WHERE job_id = %s AND action = 'retried'", [job_id]
    ).fetchall()
    assert stored == {
        "status": "retried",
        "version": 3,
        "resolution": {"action": "retried", "notes": "The service recovered"},
        "by": "kim",
        "edit": {"by": "kim", "closed_as": "retried"},
    }
    assert detail == {"revision": 1, "version": 3}


def test_closed_dead_letters_are_not_closed_again(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter
):
    first, second = make_dead_letter(), make_dead_letter()
    with database.tenant(tenant_id) as connection:
        assert close_pending(connection, [first], "ignored", NOON, actor="kim", note="Not needed") == {first: 2}
        closed = close_pending(connection, [first, second], "resolved", LATER, actor="kim", note="Done by hand")
    assert closed == {second: 2}


def test_attached_message_increments_version_once(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, admin: Connection
):
    job_id = make_dead_letter()
    with database.tenant(tenant_id) as connection:
        assert all(attach_message(connection, job_id, 1, "a", "{}") for _ in range(2))
    assert admin.execute("SELECT version FROM dead_letter").fetchall() == [(2,)]
