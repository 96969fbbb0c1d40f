"""Actions on dead letters: each takes effect once and is audited."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil import audit, aws
from counterfoil.audit import AuditEntry
from counterfoil.db import Connection, Database
from counterfoil.dead_letters import actions, search
from counterfoil.dead_letters.actions import (
    ChangeRequest,
    ChangeResult,
    DeadLetterNotFoundError,
    NotPendingError,
    NotRetryableError,
)
from counterfoil.dead_letters.search import DeadLetterDetails
from counterfoil.delivery.dead_letter import DeadLetter, FailureDetails, write_dead_letter
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message
from counterfoil.errors import DatabaseUnavailableError, RejectedRequestError, VersionConflictError
from counterfoil.kinds import WORK_KINDS
from tests.dead_letters.audit_trail import first_broken_entry
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter
from tests.delivery.harness import FakeSqs, rows
from tests.delivery.requeue_harness import QUEUE, RETRY_QUEUE
from tests.factories import make_destination, make_document, make_shard, make_task

Fail = Callable[..., UUID]


@pytest.fixture
def fail(admin: Connection, tenant_id: UUID, make_dead_letter: MakeDeadLetter) -> Fail:
    """`fail(**columns)` creates a failed task with a dead letter."""

    def make_failed_task(**columns: Any) -> UUID:
        values = {"status": "failed", "error": "It failed", "attempts": 6, "failed_at": NOON} | columns
        return make_dead_letter(worker="tasks", task_type="echo", work_id=make_task(admin, tenant_id, **values))

    return make_failed_task


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> FakeSqs:
    fake_sqs = FakeSqs()
    monkeypatch.setattr(aws, "client", lambda service: {"sqs": fake_sqs}[service])
    return fake_sqs


def change(job_id: UUID, version: int = 1, note: str | None = "The service is back") -> ChangeRequest:
    return ChangeRequest(job_id, version, "kim", NOON, note)


def load(database: Database, tenant_id: UUID, job_id: UUID) -> DeadLetterDetails:
    with database.tenant(tenant_id) as connection:
        details = search.show(connection, tenant_id, job_id)
    assert details is not None
    return details


def audit_entries(database: Database, tenant_id: UUID) -> list[AuditEntry]:
    with database.tenant(tenant_id) as connection:
        assert first_broken_entry(connection, tenant_id) is None
        return audit.page(connection, tenant_id, limit=100)


# -- retry ------------------------------------------------------------------------------------------------------------


def test_retry_starts_new_revision_and_enqueues_message(
    fail: Fail, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail()

    result = actions.retry(database, tenant_id, change(job_id), bucket=None)

    dead_letter = load(database, tenant_id, job_id)
    assert (dead_letter.status, dead_letter.version, result.version) == ("retried", 2, 2)
    assert dead_letter.resolution == {"action": "retried", "notes": "The service is back"}
    assert (dead_letter.resolved_by, dead_letter.resolved_at) == ("kim", NOON)
    [task] = rows(admin, "task")
    assert (task["status"], task["revision"], task["attempts"], task["error"]) == ("pending", 2, 0, None)
    [outbox_row] = rows(admin, "outbox")
    assert (outbox_row["work_id"], outbox_row["revision"], outbox_row["send_number"]) == (task["id"], 2, 0)
    assert [send.message for send in result.messages] == [Message(work_id=UUID(task["id"]), revision=2, send_number=0)]
    [entry] = audit_entries(database, tenant_id)
    assert (entry.actor, entry.action, entry.targets) == ("kim", "retried", [str(job_id)])
    assert (entry.version_before, entry.version_after, entry.detail) == (1, 2, {"revision": 2})
    assert [item["action"] for item in rows(admin, "dead_letter_audit")] == ["dead-lettered", "retried"]


def test_concurrent_retries_start_one_revision(
    fail: Fail, database_url: str, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail()
    pooled_database = Database(database_url, max_connections=8)

    def retry(_: int) -> ChangeResult | VersionConflictError:
        try:
            return actions.retry(pooled_database, tenant_id, change(job_id), bucket=None)
        except VersionConflictError as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(retry, range(16)))
    pooled_database.close()
    assert sum(isinstance(item, ChangeResult) for item in results) == 1
    assert len(rows(admin, "outbox")) == 1
    assert [task["revision"] for task in rows(admin, "task")] == [2]
    assert len(audit_entries(database, tenant_id)) == 1


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"status": "succeeded"}, "succeeded"),
        ({"status": "in-progress", "claimed_at": NOON}, "in progress"),
        ({"status": "pending"}, "pending"),
        ({"status": None}, "canceled or skipped"),
        ({"revision": 2}, "was restarted"),
    ],
)
def test_retry_rejects_other_status_or_revision(
    columns: dict[str, Any], reason: str, fail: Fail, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail(**columns)
    tasks_before = rows(admin, "task")
    with pytest.raises(NotRetryableError, match=reason):
        actions.retry(database, tenant_id, change(job_id), bucket=None)
    assert (rows(admin, "task"), rows(admin, "outbox"), audit_entries(database, tenant_id)) == (tasks_before, [], [])
    assert load(database, tenant_id, job_id).status == "pending"


def test_retry_rejects_deleted_work_item(fail: Fail, database: Database, tenant_id: UUID, admin: Connection):
    job_id = fail()
    admin.execute("DELETE FROM task")
    with pytest.raises(NotRetryableError, match="no longer exists"):
        actions.retry(database, tenant_id, change(job_id), bucket=None)


@pytest.mark.parametrize("worker", WORK_KINDS)
def test_every_worker_supports_retry(
    worker: str, make_dead_letter: MakeDeadLetter, database: Database, tenant_id: UUID, admin: Connection
):
    work_id = uuid4()
    kind = WORK_KINDS[worker]
    make = {
        "acquisition": """INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at)
                          VALUES (%(id)s, %(tenant)s, 'b', 'k', '0', 1, now())""",
        "diagnostics": "INSERT INTO cluster_diagnostics (id, tenant_id, created_at) VALUES (%(id)s, %(tenant)s, now())",
    }
    if worker == "tasks":
        make_task(admin, tenant_id, id=work_id)
    elif worker in {"ingestion", "matching"}:
        make_document_of(admin, tenant_id, work_id, worker)
    elif worker == "document_output":
        make_output(admin, tenant_id, work_id)
    elif worker == "offers":
        make_shard(admin, tenant_id, id=work_id)
    else:
        admin.execute(make[worker].encode(), {"id": work_id, "tenant": tenant_id})
    admin.execute(kind.sql("UPDATE {table} SET {status} = 'failed', {revision} = 1 WHERE id = %s"), [work_id])
    admin.execute("DELETE FROM outbox")
    job_id = make_dead_letter(worker=worker, work_id=work_id)

    [send] = actions.retry(database, tenant_id, change(job_id), bucket=None).messages

    assert (send.worker, send.message.work_id, send.message.revision) == (worker, work_id, 2)
    assert admin.execute(kind.sql("SELECT {status} FROM {table} WHERE id = %s"), [work_id]).fetchone() == ("pending",)


def make_document_of(admin: Connection, tenant_id: UUID, id_: UUID, worker: str) -> None:
    make_document(admin, tenant_id, {"number": "1"}, id=id_)
    if worker == "ingestion":
        insert = "INSERT INTO ingestion_job (id, tenant_id, created_at) VALUES (%s, %s, now())"
        admin.execute(insert, [id_, tenant_id])


def make_output(admin: Connection, tenant_id: UUID, id_: UUID) -> None:
    admin.execute(
        """INSERT INTO output_job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                                   requested_at, created_at)
           VALUES (%s, %s, %s, 'cluster', gen_random_uuid(), 1, '{}', now(), now())""",
        [id_, tenant_id, make_destination(admin, tenant_id)],
    )


@pytest.mark.parametrize("step", ["start_revision", "record"])
def test_connection_loss_before_commit_changes_nothing(
    step: str,
    fail: Fail,
    database: Database,
    tenant_id: UUID,
    admin: Connection,
    monkeypatch: pytest.MonkeyPatch,
):
    job_id = fail()
    rows_before = [rows(admin, table) for table in ("task", "dead_letter", "dead_letter_audit")]

    def disconnect_after(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(connection: Connection, *args: Any, **keywords: Any) -> Any:
            original(connection, *args, **keywords)
            admin.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
            return connection.execute("SELECT 1")

        return wrapper

    module = actions if step == "start_revision" else audit
    with monkeypatch.context() as patch:
        patch.setattr(module, step, disconnect_after(getattr(module, step)))
        with pytest.raises(DatabaseUnavailableError):
            actions.retry(database, tenant_id, change(job_id), bucket=None)
    assert [rows(admin, table) for table in ("task", "dead_letter", "dead_letter_audit")] == rows_before
    assert (rows(admin, "outbox"), rows(admin, "audit_entry")) == ([], [])

    assert actions.retry(database, tenant_id, change(job_id), bucket=None).version == 2


# -- messages without a work item -------------------------------------------------------------------------------------


@pytest.fixture
def make_unreadable(database: Database) -> Callable[..., UUID]:
    """`make_unreadable(...)` creates a dead letter for an unreadable message."""

    def make(body: str = '{"hello": 1}', encoding: str = "text", worker: str = "tasks") -> UUID:
        dead_letter = DeadLetter(
            job_id=uuid4(),
            tenant_id=None,
            worker=worker,
            message=None,
            payload={"body": body, "encoding": encoding},
            attempts=0,
            failure=FailureDetails(
                "non_retriable_error", "InvalidMessageError", "The message is not a task", 0, worker
            ),
            created_at=NOON,
        )
        with database.delivery() as connection:
            write_dead_letter(connection, dead_letter, NOON)
        return dead_letter.job_id

    return make


@pytest.mark.parametrize("worker", ["tasks", "ingestion"])
def test_unreadable_message_is_retried_unchanged(
    worker: str, make_unreadable: Callable[..., UUID], database: Database, sqs: FakeSqs, admin: Connection
):
    job_id = make_unreadable(worker=worker)
    outbox = Outbox(database, {"tasks": QUEUE, "ingestion": QUEUE}, {"tasks": RETRY_QUEUE}, clock=lambda: NOON)

    result = actions.retry(database, None, change(job_id), bucket=None)
    assert outbox.send(result.messages) == 1

    assert [entry["MessageBody"] for entry in sqs.sent[QUEUE]] == ['{"hello": 1}']
    assert admin.execute("SELECT status, version FROM dead_letter").fetchall() == [("retried", 2)]
    with database.delivery() as connection:
        assert first_broken_entry(connection, None) is None
        assert [entry.action for entry in audit.page(connection, None, limit=2)] == ["retried"]


def test_outbox_sends_unsent_retry_messages(
    make_unreadable: Callable[..., UUID], fail: Fail, database: Database, tenant_id: UUID, sqs: FakeSqs
):
    actions.retry(database, None, change(make_unreadable()), bucket=None)
    actions.retry(database, tenant_id, change(fail()), bucket=None)
    outbox = Outbox(database, {"tasks": QUEUE}, {"tasks": RETRY_QUEUE}, clock=lambda: NOON)

    assert outbox.send_unsent(created_before=NOON) == 2
    assert outbox.send_unsent(created_before=NOON) == 0

    bodies = [entry["MessageBody"] for entry in sqs.sent[QUEUE]]
    assert '{"hello": 1}' in bodies
    assert len(bodies) == 2


def test_retry_rejects_message_invalid_for_sqs(make_unreadable: Callable[..., UUID], database: Database):
    job_id = make_unreadable("ff00", "hex")
    with pytest.raises(NotRetryableError, match="cannot be sent to SQS"):
        actions.retry(database, None, change(job_id), bucket=None)


def test_unassigned_dead_letter_is_hidden_from_tenants(
    make_unreadable: Callable[..., UUID], database: Database, tenant_id: UUID
):
    job_id = make_unreadable()
    with pytest.raises(DeadLetterNotFoundError):
        actions.resolve(database, tenant_id, change(job_id))
    assert actions.resolve(database, None, change(job_id)).version == 2


# -- closing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("close", "status"), [(actions.resolve, "resolved"), (actions.ignore, "ignored")])
def test_dead_letter_is_closed_with_note(
    close: Callable[..., ChangeResult], status: str, fail: Fail, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail()
    close(database, tenant_id, change(job_id, note="Booked by hand"))
    dead_letter = load(database, tenant_id, job_id)
    assert (dead_letter.status, dead_letter.version, dead_letter.resolved_by) == (status, 2, "kim")
    assert dead_letter.resolution == {"action": status, "notes": "Booked by hand"}
    assert [entry.action for entry in audit_entries(database, tenant_id)] == [status]
    assert rows(admin, "outbox") == []
    assert rows(admin, "task")[0]["status"] == "failed"


@pytest.mark.parametrize("note", [None, "", "  ", "x" * (actions.MAX_NOTE_CHARS + 1)])
@pytest.mark.parametrize("close", [actions.resolve, actions.ignore])
def test_closing_requires_valid_note(
    close: Callable[..., ChangeResult], note: str | None, fail: Fail, database: Database, tenant_id: UUID
):
    job_id = fail()
    with pytest.raises(RejectedRequestError, match="note"):
        close(database, tenant_id, change(job_id, note=note))
    assert load(database, tenant_id, job_id).status == "pending"


def test_retry_requires_no_note(fail: Fail, database: Database, tenant_id: UUID):
    job_id = fail()
    actions.retry(database, tenant_id, change(job_id, note=None), bucket=None)
    [entry] = audit_entries(database, tenant_id)
    assert entry.note_hash is None


ACTIONS = {
    "retry": lambda database, tenant_id, wanted: actions.retry(database, tenant_id, wanted, bucket=None),
    "resolve": actions.resolve,
    "ignore": actions.ignore,
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_action_rejects_outdated_version(
    action: Callable[..., ChangeResult], fail: Fail, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail()
    admin.execute("UPDATE dead_letter SET metadata = '{}', version = version + 1")
    with pytest.raises(VersionConflictError, match="version 2"):
        action(database, tenant_id, change(job_id))
    assert audit_entries(database, tenant_id) == []


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("status", ["retried", "resolved", "ignored"])
def test_action_rejects_closed_dead_letter(
    status: str, action: Callable[..., ChangeResult], fail: Fail, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail()
    admin.execute("UPDATE dead_letter SET status = %s, version = 2", [status])
    with pytest.raises(NotPendingError, match=status):
        action(database, tenant_id, change(job_id, version=2))
    assert audit_entries(database, tenant_id) == []


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_action_rejects_other_tenants_and_purged_dead_letters(
    action: Callable[..., ChangeResult],
    fail: Fail,
    database: Database,
    tenant_id: UUID,
    admin: Connection,
    make_tenant: Callable[..., UUID],
):
    job_id = fail()
    with pytest.raises(DeadLetterNotFoundError):
        action(database, make_tenant("other"), change(job_id))
    admin.execute("UPDATE dead_letter SET purged_at = now()")
    with pytest.raises(DeadLetterNotFoundError):
        action(database, tenant_id, change(job_id, version=2))
