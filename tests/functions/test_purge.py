"""What is past keeping is deleted, so many rows in a round, and nothing else is."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from functions.watchdog.purge import CALL_RETENTION, OUTBOX_RETENTION, Purged, purge
from tests.delivery.harness import rows
from tests.factories import make_tenant

NOW = datetime.now(UTC)
"""The database has its own say about what is old enough, by its own clock."""
A_DAY = timedelta(days=1)


def sent(admin: Connection, at: datetime | None, number: int = 1) -> None:
    """Messages sent then, or not yet."""
    admin.execute(
        "INSERT INTO outbox (worker, work_id, revision, send_number, not_before, created_at, sent_at) "
        "SELECT 'matching', gen_random_uuid(), 1, 0, %s, %s, %s FROM generate_series(1, %s)",
        [NOW - 2 * OUTBOX_RETENTION, NOW - 2 * OUTBOX_RETENTION, at, number],
    )


def left(admin: Connection) -> set[datetime | None]:
    """When the messages that are left were sent."""
    return {at for (at,) in admin.execute("SELECT sent_at FROM outbox")}


def called(admin: Connection, at: datetime, *tenants: object) -> None:
    """Calls of the language model, for tenants or, without any, for nobody."""
    for tenant in tenants or (None,):
        admin.execute(
            "INSERT INTO llm_call (id, tenant_id, purpose, provider, model, outcome, latency_ms, created_at) "
            "VALUES (%s, %s, 'matching', 'openai', 'm', 'answered', 1, %s)",
            [uuid4(), tenant, at],
        )


def test_messages_are_kept_until_no_queue_can_hold_them_and_for_ever_while_they_are_owed(
    keeper_database: Database, admin: Connection
) -> None:
    for at in (NOW - OUTBOX_RETENTION - A_DAY, NOW - OUTBOX_RETENTION + A_DAY, None):
        sent(admin, at)

    assert purge(keeper_database, lambda: NOW) == Purged(outbox=1, llm_call=0)

    assert left(admin) == {NOW - OUTBOX_RETENTION + A_DAY, None}


def test_what_the_model_cost_is_kept_for_thirteen_months_whosever_it_was(
    keeper_database: Database, admin: Connection
) -> None:
    tenants = [make_tenant(admin, slug) for slug in ("acme", "globex")]
    called(admin, NOW - CALL_RETENTION - A_DAY, *tenants)
    called(admin, NOW - CALL_RETENTION - A_DAY)
    called(admin, NOW - CALL_RETENTION + A_DAY, *tenants)

    assert purge(keeper_database, lambda: NOW) == Purged(outbox=0, llm_call=3)

    assert len(rows(admin, "llm_call")) == 2


def test_a_watchdog_whose_clock_is_wrong_deletes_no_younger_call(keeper_database: Database, admin: Connection) -> None:
    called(admin, NOW - CALL_RETENTION + A_DAY)

    assert purge(keeper_database, lambda: NOW + 10 * CALL_RETENTION).llm_call == 0


def test_after_a_long_stop_each_round_takes_so_many_of_the_oldest(keeper_database: Database, admin: Connection) -> None:
    long_ago = NOW - 10 * CALL_RETENTION
    sent(admin, NOW - OUTBOX_RETENTION - A_DAY, 3)
    sent(admin, long_ago, 4)
    for _ in range(7):
        called(admin, long_ago)

    assert purge(keeper_database, lambda: NOW, at_once=5) == Purged(outbox=5, llm_call=5)
    assert left(admin) == {NOW - OUTBOX_RETENTION - A_DAY}
    assert purge(keeper_database, lambda: NOW, at_once=5) == Purged(outbox=2, llm_call=2)


@pytest.mark.parametrize(("table", "index"), [("outbox", "outbox_sent"), ("llm_call", "llm_call_by_age")])
def test_what_is_old_is_found_by_an_index(table: str, index: str, admin: Connection) -> None:
    column = "sent_at" if table == "outbox" else "created_at"
    admin.execute("SET enable_seqscan = off")
    plan = admin.execute(
        f"EXPLAIN SELECT id FROM {table} WHERE {column} < '2020-01-01' ORDER BY {column} LIMIT 10".encode()
    ).fetchall()

    assert index in str(plan)
