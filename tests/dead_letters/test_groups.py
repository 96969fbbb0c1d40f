"""Dead letter groups and counts."""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil.db import Connection, Database, maintenance_connection
from counterfoil.dead_letters import groups, search
from counterfoil.dead_letters.groups import DeadLetterGroup
from counterfoil.dead_letters.search import STATUSES, DeadLetterFilter
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter

SetStatus = Callable[[UUID, str], None]
LATER = NOON + timedelta(hours=2)


def all_groups(database: Database, tenant_id: UUID, now: datetime = LATER) -> list[DeadLetterGroup]:
    with database.tenant(tenant_id) as connection:
        return groups.page(connection, tenant_id, STATUSES, now, limit=100)


def sum_counts(maintenance_database: Database, now: datetime = LATER) -> None:
    with maintenance_connection(maintenance_database) as connection:
        groups.roll_up(connection, now, groups=1000)


def test_numbers_and_quoted_names_do_not_split_groups(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter
):
    make_dead_letter("Reading page 3 of 'a.pdf' timed out")
    make_dead_letter("Reading page 12 of 'b.pdf' timed out", minute=70)
    make_dead_letter("The disk is full", minute=5)
    newest, other = all_groups(database, tenant_id)
    assert (newest.message, newest.count, newest.worker) == ("Reading page 12 of 'b.pdf' timed out", 2, "ingestion")
    assert (newest.first_seen, newest.last_seen) == (NOON, NOON + timedelta(minutes=70))
    assert other.count == 1
    assert newest.trend[-4:] == [0, 1, 1, 0]
    assert len(newest.trend) == groups.TREND_HOURS


def test_group_counts_dead_letters_by_status(
    database: Database,
    maintenance_database: Database,
    tenant_id: UUID,
    make_dead_letter: MakeDeadLetter,
    set_status: SetStatus,
):
    job_ids = [make_dead_letter(minute=minute) for minute in range(5)]
    set_status(job_ids[0], "resolved")
    set_status(job_ids[1], "resolved")
    set_status(job_ids[2], "ignored")
    for _ in range(2):
        [group] = all_groups(database, tenant_id)
        assert (group.pending, group.retried, group.resolved, group.ignored) == (2, 0, 2, 1)
        assert sum(group.trend) == 5
        sum_counts(maintenance_database)


def test_reopened_dead_letter_appears_in_both_hours(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter
):
    work_id = uuid4()
    make_dead_letter(work_id=work_id)
    make_dead_letter(work_id=work_id, revision=2, minute=60)
    [group] = all_groups(database, tenant_id)
    assert group.count == 1
    assert sum(group.trend) == 2


def test_group_pages_list_every_group_once(database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter):
    for number, name in enumerate(("one", "two", "three", "four", "five")):
        make_dead_letter(f"Cannot do {name}", minute=number // 2)
    listed: list[DeadLetterGroup] = []
    while True:
        after = (listed[-1].last_seen, listed[-1].fingerprint) if listed else None
        with database.tenant(tenant_id) as connection:
            page = groups.page(connection, tenant_id, STATUSES, LATER, limit=2, after=after)
        if not page:
            break
        listed += page
    assert sorted(group.message.split()[-1] for group in listed) == ["five", "four", "one", "three", "two"]


def test_groups_without_requested_status_are_omitted(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, set_status: SetStatus
):
    set_status(make_dead_letter("One"), "resolved")
    make_dead_letter("Two")
    with database.tenant(tenant_id) as connection:
        page = groups.page(connection, tenant_id, ["pending"], LATER, limit=10)
    assert [group.message for group in page] == ["Two"]


def test_group_shows_latest_message_of_requested_status(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, set_status: SetStatus
):
    make_dead_letter("Page 1 timed out")
    set_status(make_dead_letter("Page 2 timed out", minute=1), "resolved")
    purged = make_dead_letter("Page 3 timed out", minute=2)
    with database.tenant(tenant_id) as connection:
        connection.execute("UPDATE dead_letter SET purged_at = now() WHERE job_id = %s", [purged])
        pages = [groups.page(connection, tenant_id, [status], LATER, limit=10) for status in ("pending", "resolved")]
    assert [group.message for page in pages for group in page] == ["Page 1 timed out", "Page 2 timed out"]
    assert [group.message for group in all_groups(database, tenant_id)] == ["Page 2 timed out"]


def test_rollup_compacts_counts_and_drops_old_hours(
    maintenance_database: Database, make_dead_letter: MakeDeadLetter, set_status: SetStatus, admin: Connection
):
    job_ids = [make_dead_letter(minute=minute) for minute in range(10)]
    for job_id in job_ids:
        set_status(job_id, "resolved")
    sum_counts(maintenance_database)
    rows = admin.execute("SELECT status, delta, is_rollup FROM dead_letter_count ORDER BY status").fetchall()
    assert rows == [("resolved", 10, True), (None, 10, True)]
    sum_counts(maintenance_database, NOON + timedelta(days=8))
    assert admin.execute("SELECT status, delta FROM dead_letter_count").fetchall() == [("resolved", 10)]


def test_assigning_tenant_later_updates_groups_and_search(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, admin: Connection
):
    job_id = make_dead_letter("Reading page 3 of 'a.pdf' timed out", file_name="late-4711.pdf")
    admin.execute("UPDATE dead_letter SET tenant_id = NULL")  # as if written without a tenant
    admin.execute("DELETE FROM dead_letter_group WHERE tenant_id IS NOT NULL")
    assert admin.execute("SELECT DISTINCT tenant_id FROM dead_letter_word").fetchall() == [(None,)]
    assert all_groups(database, tenant_id) == []

    with database.delivery() as connection:
        connection.execute("UPDATE dead_letter SET tenant_id = %s WHERE job_id = %s", [tenant_id, job_id])

    [group] = all_groups(database, tenant_id)
    assert (group.message, group.pending) == ("Reading page 3 of 'a.pdf' timed out", 1)
    with database.tenant(tenant_id) as connection:
        page = search.page(connection, tenant_id, DeadLetterFilter(search="late 4711"), limit=10)
    assert [entry.job_id for entry in page.entries] == [job_id]


def test_deleting_tenant_deletes_its_dead_letters(
    database: Database,
    maintenance_database: Database,
    tenant_id: UUID,
    make_dead_letter: MakeDeadLetter,
    admin: Connection,
):
    make_dead_letter()
    admin.execute("DELETE FROM tenant WHERE id = %s", [tenant_id])
    sum_counts(maintenance_database)
    for table in ("dead_letter", "dead_letter_group", "dead_letter_word", "dead_letter_count"):
        assert admin.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(STATUSES), st.booleans()), max_size=20))
def test_counts_match_dead_letters_after_any_changes(
    changes: list[tuple[int, str, bool]],
    database: Database,
    maintenance_database: Database,
    tenant_id: UUID,
    make_dead_letter: MakeDeadLetter,
    admin: Connection,
):
    admin.execute("DELETE FROM dead_letter WHERE tenant_id = %s", [tenant_id])
    job_ids = [make_dead_letter(worker=("ingestion", "matching")[number % 2], minute=number) for number in range(6)]
    for number, status, is_purged in changes:
        admin.execute(
            "UPDATE dead_letter SET status = %s, purged_at = CASE WHEN %s THEN now() END WHERE job_id = %s",
            [status, is_purged, job_ids[number]],
        )
        if is_purged and number % 2:
            sum_counts(maintenance_database)
    row_counts = admin.execute(
        "SELECT task_type, status, count(*) FROM dead_letter WHERE purged_at IS NULL AND tenant_id = %s GROUP BY 1, 2",
        [tenant_id],
    ).fetchall()
    expected: dict[str, dict[str, int]] = {}
    for task_type, status, number in row_counts:
        expected.setdefault(task_type, {})[status] = number
    with database.tenant(tenant_id) as connection:
        assert groups.stats(connection, tenant_id) == expected
