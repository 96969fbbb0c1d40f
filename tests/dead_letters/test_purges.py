"""Purges of dead letters, their restoration, and permanent deletion."""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database, maintenance_connection
from counterfoil.dead_letters import groups, purges, search
from counterfoil.dead_letters.purges import PurgeSteps
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.errors import RejectedStatementError
from counterfoil.operations import engine, store
from counterfoil.operations.store import Operation, OperationStateError
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter

SetStatus = Callable[[UUID, str], None]
NOW = NOON + timedelta(days=1)
CLOSED = ("retried", "resolved", "ignored")


@pytest.fixture
def job_ids(make_dead_letter: MakeDeadLetter, set_status: SetStatus) -> list[UUID]:
    """Job ids of five dead letters, oldest first.

    There is one in each status, and a second resolved one.
    """
    ids = [make_dead_letter(minute=minute) for minute in range(5)]
    for job_id, status in zip(ids, [*CLOSED, "pending", "resolved"], strict=True):
        set_status(job_id, status)
    return ids


def visible_dead_letters(database: Database, tenant_id: UUID) -> set[UUID]:
    with database.tenant(tenant_id) as connection:
        return {entry.job_id for entry in search.page(connection, tenant_id, DeadLetterFilter(), limit=100).entries}


def count_purgeable(database: Database, tenant_id: UUID) -> int:
    with database.tenant(tenant_id) as connection:
        return sum(number for counts in groups.stats(connection, tenant_id).values() for number in counts.values())


def request(database: Database, tenant_id: UUID, *, minute: float = 4, statuses: tuple[str, ...] = CLOSED) -> Operation:
    before = NOON + timedelta(minutes=minute)
    with database.tenant(tenant_id) as connection:
        return purges.request(connection, tenant_id, before, statuses, by="anna", now=NOW)  # type: ignore[arg-type]


def step(database: Database, operation: Operation, batch_size: int = 2) -> engine.StepResult | None:
    return engine.run_step(database, PurgeSteps(), operation.id, operation.tenant_id, NOW, batch_size=batch_size)


def steps(database: Database, tenant_id: UUID, batch_size: int = 2) -> int:
    count = 0
    with database.tenant(tenant_id) as connection:
        operations = store.page(connection, tenant_id, limit=10)
    for operation in operations:
        while step(database, operation, batch_size):
            count += 1
    return count


def restore(database: Database, purge: Operation, *, version: int = 1, now: datetime = NOW) -> Operation:
    with database.tenant(purge.tenant_id) as connection:
        return purges.restore(connection, purge.id, version=version, by="bert", now=now)


def for_tenant(database: Database, tenant_id: UUID) -> Operation:
    with database.tenant(tenant_id) as connection:
        [purge] = store.page(connection, tenant_id, limit=10, actions=["purge"])
    return purge


def test_purge_hides_old_closed_dead_letters(
    database: Database, maintenance_database: Database, tenant_id: UUID, job_ids: list[UUID]
):
    request(database, tenant_id)
    assert steps(database, tenant_id) == 2
    assert visible_dead_letters(database, tenant_id) == {job_ids[3], job_ids[4]}
    assert count_purgeable(database, tenant_id) == 2
    purge = for_tenant(database, tenant_id)
    assert (purge.succeeded, purge.state) == (3, "done")


def test_purge_is_limited_to_requested_statuses(
    database: Database, maintenance_database: Database, tenant_id: UUID, job_ids: list[UUID]
):
    request(database, tenant_id, statuses=("ignored",))
    steps(database, tenant_id)
    assert visible_dead_letters(database, tenant_id) == {job_ids[0], job_ids[1], job_ids[3], job_ids[4]}


def test_purge_of_pending_dead_letters_is_rejected(database: Database, tenant_id: UUID, job_ids: list[UUID]):
    with pytest.raises(RejectedStatementError):
        request(database, tenant_id, statuses=("pending",))


def test_dead_letters_created_after_request_are_not_purged(
    database: Database,
    maintenance_database: Database,
    tenant_id: UUID,
    make_dead_letter: MakeDeadLetter,
    set_status: SetStatus,
):
    request(database, tenant_id, minute=60 * 24 * 30)
    later = make_dead_letter(minute=60 * 24 + 1)
    set_status(later, "resolved")
    steps(database, tenant_id)
    assert visible_dead_letters(database, tenant_id) == {later}


def test_dead_letters_closed_after_request_are_not_purged(
    database: Database, maintenance_database: Database, tenant_id: UUID, job_ids: list[UUID], admin: Connection
):
    purge = request(database, tenant_id, minute=5)
    step(database, purge, batch_size=1)
    resolve_query = "UPDATE dead_letter SET status = 'resolved', resolved_at = %s WHERE job_id = %s"
    admin.execute(resolve_query, [NOW + timedelta(seconds=1), job_ids[3]])
    admin.execute(resolve_query, [NOW, job_ids[4]])
    steps(database, tenant_id)
    assert visible_dead_letters(database, tenant_id) == {job_ids[3]}
    assert for_tenant(database, tenant_id).succeeded == 4


def test_restore_undoes_purge(
    database: Database, maintenance_database: Database, tenant_id: UUID, job_ids: list[UUID], admin: Connection
):
    query = "SELECT job_id, status, purged_at, purge_id FROM dead_letter ORDER BY 1"
    rows_before = admin.execute(query).fetchall()
    purge = request(database, tenant_id)
    steps(database, tenant_id)
    restoration = restore(database, purge, now=NOW + timedelta(days=6))
    assert (restoration.action, restoration.requested_by) == ("restore", "bert")
    steps(database, tenant_id)
    assert admin.execute(query).fetchall() == rows_before
    assert count_purgeable(database, tenant_id) == 5
    with pytest.raises(OperationStateError, match="already undone"):
        restore(database, purge, version=2)


def test_restore_undoes_unfinished_purge(
    database: Database, maintenance_database: Database, tenant_id: UUID, job_ids: list[UUID]
):
    purge = request(database, tenant_id)
    step(database, purge)
    restore(database, purge)
    steps(database, tenant_id)
    assert visible_dead_letters(database, tenant_id) == set(job_ids)


def test_purge_cannot_be_restored_after_seven_days(
    database: Database, maintenance_database: Database, tenant_id: UUID, job_ids: list[UUID]
):
    purge = request(database, tenant_id)
    with pytest.raises(OperationStateError, match="7 days"):
        restore(database, purge, now=NOW + timedelta(days=7))


def test_reopened_dead_letter_is_visible_again(
    database: Database,
    maintenance_database: Database,
    tenant_id: UUID,
    make_dead_letter: MakeDeadLetter,
    set_status: SetStatus,
):
    work_id = uuid4()
    job_id = make_dead_letter(work_id=work_id)
    set_status(job_id, "retried")
    request(database, tenant_id)
    steps(database, tenant_id)
    assert visible_dead_letters(database, tenant_id) == set()
    make_dead_letter(work_id=work_id, revision=2, minute=60)
    assert visible_dead_letters(database, tenant_id) == {job_id}


def delete(maintenance_database: Database, now: datetime) -> int:
    with maintenance_connection(maintenance_database) as connection:
        return purges.delete(connection, now, timedelta(days=30))


def test_purged_dead_letters_are_deleted_after_seven_days(
    database: Database, maintenance_database: Database, tenant_id: UUID, job_ids: list[UUID], admin: Connection
):
    request(database, tenant_id)
    steps(database, tenant_id)
    assert delete(maintenance_database, NOW + timedelta(days=6)) == 0
    admin.execute("UPDATE dead_letter SET purged_at = now() - interval '7 days 1 minute' WHERE purged_at IS NOT NULL")
    assert delete(maintenance_database, datetime.now(UTC)) == 3
    remaining = {id_ for (id_,) in admin.execute("SELECT job_id FROM dead_letter").fetchall()}
    assert remaining == {job_ids[3], job_ids[4]}
    assert {id_ for (id_,) in admin.execute("SELECT DISTINCT job_id FROM dead_letter_word").fetchall()} <= remaining
    assert count_purgeable(database, tenant_id) == 2


def test_dead_letters_being_restored_are_not_deleted(
    database: Database, maintenance_database: Database, tenant_id: UUID, job_ids: list[UUID], admin: Connection
):
    purge = request(database, tenant_id)
    steps(database, tenant_id)
    restore(database, purge)
    admin.execute("UPDATE dead_letter SET purged_at = now() - interval '8 days' WHERE purged_at IS NOT NULL")
    assert delete(maintenance_database, datetime.now(UTC)) == 0
    steps(database, tenant_id)
    assert visible_dead_letters(database, tenant_id) == set(job_ids)


def test_only_closed_dead_letters_are_deleted_after_retention(
    maintenance_database: Database, job_ids: list[UUID], admin: Connection
):
    admin.execute("UPDATE dead_letter SET resolved_at = %s WHERE job_id = ANY(%s)", [NOON, [job_ids[0], job_ids[3]]])
    assert delete(maintenance_database, NOON + timedelta(days=30)) == 0
    assert delete(maintenance_database, NOON + timedelta(days=30, seconds=1)) == 1
    assert {id_ for (id_,) in admin.execute("SELECT job_id FROM dead_letter").fetchall()} == set(job_ids[1:])


def test_restored_dead_letters_are_retained_seven_more_days(
    database: Database, maintenance_database: Database, tenant_id: UUID, job_ids: list[UUID], admin: Connection
):
    """Their retention has ended, so they would otherwise be deleted immediately."""
    closed_at = NOW - timedelta(days=29)
    admin.execute("UPDATE dead_letter SET resolved_at = %s WHERE status <> 'pending'", [closed_at])
    purge = request(database, tenant_id, statuses=("resolved", "ignored"))
    steps(database, tenant_id)
    restored_at = NOW + timedelta(days=6)
    restore(database, purge, now=restored_at)
    steps(database, tenant_id)
    assert delete(maintenance_database, restored_at) == 2
    assert visible_dead_letters(database, tenant_id) == {job_ids[1], job_ids[2], job_ids[3]}
    assert delete(maintenance_database, restored_at + timedelta(days=7)) == 0
    assert delete(maintenance_database, restored_at + timedelta(days=7, seconds=1)) == 2
    assert visible_dead_letters(database, tenant_id) == {job_ids[3]}


class RecordingConnection:
    """Fake connection that records a statement and its values."""

    def execute(self, statement: str, values: dict[str, Any]) -> "RecordingConnection":
        self.statement, self.values = statement, values
        return self

    def fetchall(self) -> list[tuple[int]]:
        return [(0,)]


def rows_read(node: dict[str, Any]) -> int:
    """Return the number of dead letters that the scans of a query plan read."""
    count = 0
    if node.get("Relation Name") == "dead_letter" and "Scan" in node["Node Type"]:
        count = round((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
    return count + sum(rows_read(child) for child in node.get("Plans", ()))


def rows_read_by_deletion(maintenance_database: Database, admin: Connection, now: datetime) -> int:
    admin.execute("ANALYZE dead_letter")
    recorded = RecordingConnection()
    purges.delete(recorded, now, timedelta(days=30))  # type: ignore[arg-type]  # a partial fake
    with maintenance_connection(maintenance_database) as connection:
        connection.execute("SAVEPOINT before")
        explain_query = f"EXPLAIN (ANALYZE, FORMAT JSON) {recorded.statement}"
        ((plan,),) = connection.execute(explain_query.encode(), recorded.values).fetchall()
        connection.execute("ROLLBACK TO before")  # EXPLAIN ANALYZE executed the statement
    return rows_read(plan[0]["Plan"])


def test_deletion_reads_no_purged_or_restored_dead_letters(
    database: Database, maintenance_database: Database, tenant_id: UUID, admin: Connection
):
    admin.execute(
        """
        INSERT INTO dead_letter (job_id, tenant_id, worker, task_type, payload, metadata, attempts, fingerprint,
                                 dlq_reason, dlq_timestamp, status, resolved_at)
        SELECT gen_random_uuid(), %s, 'ingestion', 'ingestion', '{}', '{}', 3, 'f', 'max_retries_exceeded', %s,
               'resolved', %s
        FROM generate_series(1, 500)
        """,
        [tenant_id, NOON, NOW - timedelta(days=60)],
    )
    assert rows_read_by_deletion(maintenance_database, admin, NOW) >= 500
    purge = request(database, tenant_id)
    steps(database, tenant_id, batch_size=1000)
    assert rows_read_by_deletion(maintenance_database, admin, NOW) == 0
    restore(database, purge)
    steps(database, tenant_id, batch_size=1000)
    assert rows_read_by_deletion(maintenance_database, admin, NOW + timedelta(days=7)) == 0
    assert delete(maintenance_database, NOW + timedelta(days=7, seconds=1)) == 500


def test_restored_and_reopened_dead_letter_has_normal_retention(
    database: Database,
    maintenance_database: Database,
    tenant_id: UUID,
    make_dead_letter: MakeDeadLetter,
    set_status: SetStatus,
    admin: Connection,
):
    work_id = uuid4()
    job_id = make_dead_letter(work_id=work_id)
    set_status(job_id, "retried")
    purge = request(database, tenant_id)
    steps(database, tenant_id)
    restore(database, purge)
    steps(database, tenant_id)
    make_dead_letter(work_id=work_id, revision=2, minute=60)
    admin.execute("UPDATE dead_letter SET status = 'resolved', resolved_at = %s", [NOW - timedelta(days=31)])
    assert delete(maintenance_database, NOW) == 1


def test_only_failed_task_is_deleted_with_dead_letter(
    maintenance_database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, admin: Connection
):
    tasks = {"failed": uuid4(), "pending": uuid4()}
    for status, id_ in tasks.items():
        admin.execute(
            "INSERT INTO task (id, tenant_id, task_type, payload, payload_hash, max_retry, idempotency_key, created_at,"
            " status) VALUES (%s, %s, 'echo', '{}', sha256(''), 5, %s, now(), %s)",
            [id_, tenant_id, str(id_), status],
        )
        make_dead_letter(worker="tasks", work_id=id_)
    admin.execute("UPDATE dead_letter SET status = 'ignored', resolved_at = %s", [NOON])
    assert delete(maintenance_database, NOON + timedelta(days=31)) == 2
    assert admin.execute("SELECT id FROM task").fetchall() == [(tasks["pending"],)]


def test_database_protects_pending_and_recently_purged_dead_letters(
    database: Database, maintenance_database: Database, tenant_id: UUID, job_ids: list[UUID], admin: Connection
):
    admin.execute("UPDATE dead_letter SET purged_at = now() - interval '6 days' WHERE job_id <> %s", [job_ids[3]])
    with maintenance_connection(maintenance_database) as connection:
        assert connection.execute("DELETE FROM dead_letter").rowcount == 0


def test_batch_size_holds_for_unusual_query_plan(
    database_url: str, tenant_id: UUID, job_ids: list[UUID], admin: Connection
) -> None:
    for method in ("hashagg", "hashjoin", "material", "memoize", "mergejoin", "sort"):
        admin.execute(f"ALTER DATABASE {admin.info.dbname} SET enable_{method} = off".encode())
    with closing(Database(database_url)) as database:
        purge = request(database, tenant_id)
        assert step(database, purge) is not None
        assert for_tenant(database, tenant_id).succeeded == 2

        restore(database, purge)
        with database.tenant(tenant_id) as connection:
            [restored] = store.page(connection, tenant_id, limit=1, actions=["restore"])
        step(database, restored, batch_size=1)
        assert len(visible_dead_letters(database, tenant_id)) == 5 - 2 + 1
