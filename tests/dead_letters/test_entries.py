"""Pages of dead letters."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import entries
from counterfoil.dead_letters.entries import DeadLetterFilter, Entry, Place
from tests.dead_letters.conftest import NOON, Die

Settle = Callable[[UUID, str], None]


def page(
    database: Database,
    tenant_id: UUID,
    wanted: DeadLetterFilter | None = None,
    *,
    limit: int = 20,
    after: Place | None = None,
) -> list[Entry]:
    with database.tenant(tenant_id) as connection:
        return entries.page(connection, tenant_id, wanted or DeadLetterFilter(), limit=limit, after=after)


def ids(found: Sequence[Entry]) -> list[UUID]:
    return [entry.job_id for entry in found]


def test_the_newest_come_first_whatever_their_state(database: Database, tenant_id: UUID, die: Die, settle: Settle):
    died = [die(minute=minute) for minute in (3, 1, 4, 2)]
    settle(died[0], "resolved")
    settle(died[1], "ignored")
    assert ids(page(database, tenant_id)) == [died[2], died[0], died[3], died[1]]


def test_pages_follow_one_another_and_leave_nothing_out(database: Database, tenant_id: UUID, die: Die, settle: Settle):
    died = [die(minute=minute // 2) for minute in range(11)]  # two at each time
    for job_id in died[::3]:
        settle(job_id, "retried")
    seen: list[Entry] = []
    while found := page(
        database, tenant_id, limit=3, after=Place(seen[-1].dlq_timestamp, seen[-1].job_id) if seen else None
    ):
        seen += found
    assert sorted(ids(seen)) == sorted(died)
    assert [entry.dlq_timestamp for entry in seen] == sorted((entry.dlq_timestamp for entry in seen), reverse=True)


def test_a_page_may_begin_further_behind(database: Database, tenant_id: UUID, die: Die):
    died = [die(minute=minute) for minute in range(6)]
    with database.tenant(tenant_id) as connection:
        found = entries.page(connection, tenant_id, DeadLetterFilter(), limit=2, offset=3)
    assert ids(found) == [died[2], died[1]]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (DeadLetterFilter(status=("pending",)), {1, 2, 3}),
        (DeadLetterFilter(status=("resolved", "ignored")), {0}),
        (DeadLetterFilter(task_type="echo"), {2}),
        (DeadLetterFilter(from_date=NOON + timedelta(minutes=1)), {1, 2, 3}),
        (DeadLetterFilter(to_date=NOON + timedelta(minutes=2)), {0, 1}),
        (DeadLetterFilter(from_date=NOON + timedelta(minutes=1), to_date=NOON + timedelta(minutes=3)), {1, 2}),
        (DeadLetterFilter(task_type="echo", status=("ignored",)), set()),
    ],
)
def test_a_page_has_what_is_wanted(
    wanted: DeadLetterFilter, expected: set[int], database: Database, tenant_id: UUID, die: Die, settle: Settle
):
    died = [die(minute=minute, worker="tasks", task_type="echo" if minute == 2 else "call") for minute in range(4)]
    settle(died[0], "resolved")
    assert {died.index(job_id) for job_id in ids(page(database, tenant_id, wanted))} == expected


def test_letters_of_one_fingerprint_make_a_page(database: Database, tenant_id: UUID, die: Die):
    first = die("Reading page 3 timed out")
    second = die("Reading page 4 timed out", minute=1)
    die("The disk is full", minute=2)
    [letter] = page(database, tenant_id, limit=1, after=Place(NOON + timedelta(minutes=2), UUID(int=0)))
    alike = DeadLetterFilter(fingerprint=letter.fingerprint)
    assert ids(page(database, tenant_id, alike)) == [second, first]


def test_a_letter_is_shown_with_its_payload_and_its_earlier_deaths(database: Database, tenant_id: UUID, die: Die):
    work_id = uuid4()
    die("The disk is full", work_id=work_id)
    job_id = die("Reading timed out", work_id=work_id, revision=2, minute=5)
    with database.tenant(tenant_id) as connection:
        shown = entries.show(connection, job_id)
    assert shown is not None
    assert (shown.revision, shown.status, shown.version) == (2, "pending", 2)
    assert shown.metadata["last_error"]["message"] == "Reading timed out"
    assert [death["last_error"]["message"] for death in shown.lineage] == ["The disk is full"]
    assert shown.payload["file"]["file_name"] == "invoice.pdf"


def test_nobody_sees_another_tenants_letters(
    database: Database, tenant_id: UUID, die: Die, make_tenant: Callable[..., UUID]
):
    theirs = make_tenant("globex")
    job_id = die(tenant=theirs)
    assert page(database, tenant_id) == []
    with database.tenant(tenant_id) as connection:
        assert entries.page(connection, theirs, DeadLetterFilter(), limit=20) == []
        assert entries.show(connection, job_id) is None
    assert ids(page(database, theirs)) == [job_id]


def test_a_letter_that_was_purged_is_out_of_sight(database: Database, tenant_id: UUID, die: Die, admin: Connection):
    job_id = die()
    admin.execute("UPDATE dead_letter SET purged_at = now() WHERE job_id = %s", [job_id])
    assert page(database, tenant_id) == []
    with database.tenant(tenant_id) as connection:
        assert entries.show(connection, job_id) is None
