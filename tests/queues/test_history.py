"""Queue history: finished work items per minute, and the recorded backlog."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database, maintenance_connection
from counterfoil.delivery.work import WorkKind, start_revision
from counterfoil.kinds import WORK_KINDS
from counterfoil.queues import (
    Backlog,
    QueueHistory,
    first_minute,
    last_hour,
    last_recorded_at,
    minute_stats_query,
    record_depths,
    roll_up_minutes,
    running_counts,
)
from tests.factories import make_document, make_task
from tests.migrations.tenants import Tenant

WORKERS = list(WORK_KINDS)
NOW = datetime(2026, 1, 2, 3, 4, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

RecordEnded = Callable[..., None]
RecordMinute = Callable[..., int]


@pytest.fixture
def acme(admin: Connection) -> Tenant:
    return Tenant(admin, "acme")


@pytest.fixture
def other_tenant(admin: Connection) -> Tenant:
    return Tenant(admin, "other")


@pytest.fixture
def record_minute(maintenance_database: Database) -> RecordMinute:
    """`record_minute(minute, depths)` runs the watchdog's step at this minute.

    Minutes count from NOW.
    """

    def run(minute: int = 0, depths: dict[str, int] | None = None) -> int:
        with maintenance_connection(maintenance_database) as connection:
            now = NOW + minute * MINUTE
            return roll_up_minutes(connection, now) + record_depths(connection, WORKERS, depths or {}, now)

    return run


@pytest.fixture
def record_ended(admin: Connection) -> RecordEnded:
    """`record_ended(...)` records tasks that ended `ago` minutes before NOW."""

    def end(tenant: UUID | None, outcome: str = "succeeded", *, ago: int = 1, times: int = 1) -> None:
        admin.execute(
            "INSERT INTO finished_work SELECT 'tasks', %s, %s, %s FROM generate_series(1, %s)",
            [tenant, outcome, NOW - ago * MINUTE, times],
        )

    return end


def history(
    database: Database, tenant_id: UUID | None = None, worker: str = "tasks", *, now: datetime = NOW
) -> QueueHistory:
    """Return a worker's queue history."""
    with database.delivery() as connection:
        last_recorded = last_recorded_at(connection, WORKERS, now)
        if tenant_id is None:
            return last_hour(connection, WORKERS, now, last_recorded=last_recorded, tenant_id=None)[worker]
    with database.tenant(tenant_id) as connection:
        return last_hour(connection, WORKERS, now, last_recorded=last_recorded, tenant_id=tenant_id)[worker]


def make_pending(admin: Connection, kind: WorkKind, tenant: Tenant) -> UUID:
    """Create a pending work item of this kind, and return its id."""
    if kind.table == "document":
        return make_document(admin, tenant.id, matching_status="pending")
    tenant.insert(admin, kind.table)
    row = admin.execute(kind.sql("SELECT id FROM {table} ORDER BY {created} DESC LIMIT 1")).fetchone()
    assert row is not None
    admin.execute(kind.sql("UPDATE {table} SET {status} = 'pending' WHERE id = %s"), row)
    return UUID(str(row[0]))


@pytest.mark.parametrize("kind", WORK_KINDS.values(), ids=WORK_KINDS)
@pytest.mark.parametrize(
    ("status_before", "status_after", "expected"),
    [
        ("in-progress", "succeeded", "succeeded"),
        ("in-progress", "failed", "failed"),
        ("in-progress", None, "skipped"),
        ("pending", "failed", "failed"),
        ("pending", None, None),
        ("pending", "in-progress", None),
        ("in-progress", "pending", None),
        ("failed", "pending", None),
        ("succeeded", "pending", None),
    ],
)
def test_only_ended_work_items_are_counted(
    kind: WorkKind, status_before: str, status_after: str | None, expected: str | None, admin: Connection, acme: Tenant
):
    id_ = make_pending(admin, kind, acme)
    admin.execute(kind.sql("UPDATE {table} SET {status} = %s WHERE id = %s"), [status_before, id_])
    admin.execute("DELETE FROM finished_work")
    admin.execute(kind.sql("UPDATE {table} SET {status} = %s WHERE id = %s"), [status_after, id_])
    stored = admin.execute("SELECT worker, tenant_id, outcome FROM finished_work").fetchall()
    assert stored == ([(kind.worker, acme.id, expected)] if expected else [])


def test_tenant_and_delivery_transactions_count_ended_work_items(
    database: Database, maintenance_database: Database, admin: Connection, acme: Tenant
):
    """Workers end work items in a tenant's transaction.

    The archiver ends them in a delivery transaction.
    """
    tasks = [make_task(admin, acme.id, status="in-progress") for _ in range(2)]
    end = "UPDATE task SET status = 'failed' WHERE id = %s"
    with database.tenant(acme.id) as connection:
        connection.execute(end, [tasks[0]])
    with maintenance_database.delivery() as connection:
        connection.execute(end, [tasks[1]])
    assert admin.execute("SELECT tenant_id FROM finished_work").fetchall() == [(acme.id,), (acme.id,)]


def test_rolled_back_end_is_not_counted(database: Database, admin: Connection, acme: Tenant):
    task = make_task(admin, acme.id, status="in-progress")
    with suppress(ZeroDivisionError), database.tenant(acme.id) as connection:
        connection.execute("UPDATE task SET status = 'succeeded' WHERE id = %s", [task])
        raise ZeroDivisionError
    assert admin.execute("SELECT count(*) FROM finished_work").fetchone() == (0,)


def test_history_is_counted_per_tenant_and_overall(
    database: Database, record_ended: RecordEnded, record_minute: RecordMinute, acme: Tenant, other_tenant: Tenant
):
    record_ended(acme.id, ago=60)
    record_ended(acme.id, ago=2, times=3)
    record_ended(acme.id, "failed", ago=2)
    record_ended(other_tenant.id, ago=2, times=4)
    record_ended(None, "skipped", ago=1)  # unassigned, so counted only in the total
    record_minute()
    tenant_series, overall_series = history(database, acme.id).series, history(database).series
    assert (
        tenant_series.succeeded[0],
        tenant_series.succeeded[58:],
        tenant_series.failed[58:],
        tenant_series.skipped[58:],
    ) == (1, [3, 0], [1, 0], [0, 0])
    assert (
        overall_series.succeeded[0],
        overall_series.succeeded[58:],
        overall_series.failed[58:],
        overall_series.skipped[58:],
    ) == (1, [7, 0], [1, 0], [0, 1])
    assert {len(series) for series in vars(overall_series).values()} == {60}
    assert sum(history(database, other_tenant.id).series.succeeded) == 4


def test_history_covers_last_sixty_complete_minutes(
    database: Database, record_ended: RecordEnded, record_minute: RecordMinute, acme: Tenant
):
    record_ended(acme.id, ago=0)
    record_ended(acme.id, ago=61)
    record_minute()
    assert sum(history(database).series.succeeded) == 0
    assert sum(history(database, now=NOW + MINUTE).series.succeeded) == 1


def test_runs_add_up_within_a_minute(
    database: Database, record_ended: RecordEnded, record_minute: RecordMinute, acme: Tenant
):
    record_ended(acme.id, times=2)
    record_minute()
    record_ended(acme.id, times=3)
    record_minute()
    record_minute()
    assert history(database).series.succeeded[59] == history(database, acme.id).series.succeeded[59] == 5


def test_rows_over_the_limit_wait_for_next_run(
    database: Database,
    record_ended: RecordEnded,
    record_minute: RecordMinute,
    acme: Tenant,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("counterfoil.queues.MAX_FINISHED_ROWS", 2)
    record_ended(acme.id, times=5)
    record_minute()
    assert sum(history(database).series.succeeded) == 2
    record_minute()
    record_minute()
    assert sum(history(database).series.succeeded) == 5


def test_deleted_tenant_does_not_stop_the_run(
    database: Database, record_ended: RecordEnded, record_minute: RecordMinute, acme: Tenant, other_tenant: Tenant
):
    record_ended(acme.id)
    record_ended(uuid4())  # a deleted tenant
    record_minute()
    assert (sum(history(database).series.succeeded), sum(history(database, acme.id).series.succeeded)) == (2, 1)


def test_old_minutes_are_deleted(
    record_ended: RecordEnded, record_minute: RecordMinute, acme: Tenant, admin: Connection
):
    record_ended(acme.id)
    record_minute()
    record_minute(200)
    assert admin.execute("SELECT min(minute) FROM queue_minute_stats").fetchone() == (
        datetime(2026, 1, 2, 6, 24, tzinfo=UTC),
    )


def test_backlog_is_reported_as_recorded(
    database: Database, record_minute: RecordMinute, admin: Connection, acme: Tenant
):
    pending_tasks = [make_task(admin, acme.id) for _ in range(3)]
    start_revision(admin, "tasks", pending_tasks[:1], NOW - timedelta(seconds=200))
    start_revision(admin, "tasks", pending_tasks[1:], NOW - timedelta(seconds=90))
    record_minute(depths={"tasks": 7})
    assert history(database, acme.id).backlog == Backlog(pending=3, oldest_seconds=200, dead_letters=0)
    assert history(database).backlog == Backlog(pending=3, oldest_seconds=200, dead_letters=0)
    admin.execute("UPDATE task SET status = 'failed'")
    record_minute(1)
    later = NOW + MINUTE
    assert history(database, acme.id, now=later).backlog == Backlog()
    assert (history(database, now=later).series.depth[59], history(database, acme.id, now=later).series.depth[59]) == (
        7,
        None,
    )


def test_scheduled_work_item_is_pending_but_not_due(
    database: Database, record_minute: RecordMinute, admin: Connection, acme: Tenant
):
    (task,) = tasks = [make_task(admin, acme.id)]
    start_revision(admin, "tasks", tasks, NOW - timedelta(seconds=200))
    admin.execute("UPDATE task SET next_attempt_at = %s WHERE id = %s", [NOW + MINUTE, task])
    record_minute()
    assert history(database).backlog == Backlog(pending=1, oldest_seconds=None)


def test_pending_dead_letters_count_for_their_worker(
    database: Database, record_minute: RecordMinute, admin: Connection, acme: Tenant
):
    count = """INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, status, delta, last_at)
                VALUES (%s, 'f', 'echo', %s, %s, now())"""
    group = """INSERT INTO dead_letter_group (tenant_id, fingerprint, worker, error_type, message, words, first_seen)
               VALUES (%s, 'f', 'tasks', 'Error', '', '{}', now())"""
    for tenant, number in ((acme.id, 5), (None, 2)):
        admin.execute(group, [tenant])
        admin.execute(count, [tenant, "pending", number])
        admin.execute(count, [tenant, "resolved", 9])
    admin.execute(count, [acme.id, "pending", -1])
    record_minute()
    assert (history(database, acme.id).backlog, history(database).backlog) == (
        Backlog(dead_letters=4),
        Backlog(dead_letters=6),
    )


def test_backlog_is_unknown_without_watchdog_runs(
    database: Database, record_minute: RecordMinute, admin: Connection, acme: Tenant
):
    make_task(admin, acme.id)
    record_minute()
    with database.delivery() as connection:
        assert last_recorded_at(connection, WORKERS, NOW) == NOW.replace(second=0)
        later = NOW + timedelta(hours=2)
        assert last_recorded_at(connection, WORKERS, later) is None
        assert last_hour(connection, WORKERS, later, last_recorded=None, tenant_id=None)["tasks"].backlog is None


def test_work_items_in_progress_are_counted_directly(
    database: Database, admin: Connection, acme: Tenant, other_tenant: Tenant
):
    for tenant in (acme, acme, other_tenant):
        make_task(admin, tenant.id, status="in-progress")
    make_document(admin, acme.id, matching_status="in-progress")
    with database.delivery() as connection:
        overall_counts = running_counts(connection, WORKERS)
    with database.tenant(acme.id) as connection:
        tenant_counts = running_counts(connection, WORKERS)
    assert (overall_counts["tasks"], overall_counts["matching"], overall_counts["ingestion"]) == (3, 1, 0)
    assert (tenant_counts["tasks"], tenant_counts["matching"]) == (2, 1)


@pytest.mark.parametrize("kind", WORK_KINDS.values(), ids=WORK_KINDS)
@pytest.mark.parametrize("scope", ["counterfoil_delivery", "counterfoil_worker"])
def test_work_items_in_progress_are_counted_by_index(kind: WorkKind, scope: str, admin: Connection, acme: Tenant):
    with admin.transaction():
        admin.execute(f"SET LOCAL ROLE {scope}".encode())
        admin.execute("SELECT set_config('counterfoil.tenant', %s, true)", [str(acme.id)])
        admin.execute("SET LOCAL enable_seqscan = off")
        query = kind.sql("SELECT count(*) FROM {table} WHERE {status} = 'in-progress'")
        plan = str(admin.execute(b"EXPLAIN " + query).fetchall())
    assert "status" in plan
    assert "Index Cond" in plan
    assert "Seq Scan" not in plan


def test_history_query_uses_index_with_many_tenants(database: Database, admin: Connection, acme: Tenant):
    admin.execute(
        """WITH made AS (INSERT INTO organization (name) VALUES ('many') RETURNING id), tenants AS (
               INSERT INTO tenant (organization_id, slug, name)
               SELECT id, 't' || n, 'n' FROM made, generate_series(1, 300) n RETURNING id)
           INSERT INTO queue_minute_stats (tenant_id, worker, minute, pending)
           SELECT t.id, w, %s - m * interval '1 minute', 1 FROM (SELECT id FROM tenants UNION ALL SELECT NULL) t,
                  unnest(ARRAY['tasks', 'matching']) w, generate_series(1, 60) m""",
        [NOW.replace(second=0)],
    )
    admin.execute("ANALYZE queue_minute_stats")
    for tenant_id in (None, acme.id):
        with admin.transaction():
            admin.execute(f"SET LOCAL ROLE {'counterfoil_worker' if tenant_id else 'counterfoil_delivery'}".encode())
            admin.execute("SELECT set_config('counterfoil.tenant', %s, true)", [str(tenant_id or "")])
            statement = minute_stats_query(tenant_id).as_bytes()
            values = {"workers": WORKERS, "from": first_minute(NOW), "tenant": tenant_id}
            plan = str(admin.execute(b"EXPLAIN " + statement, values).fetchall())
        assert "queue_minute_stats_tenant_id_worker_minute_key" in plan
        assert "Seq Scan" not in plan
