"""The watchdog keeps dead letters: purges go on while there is time, what is past keeping goes, counts are added up."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import keeping
from functions.watchdog.retention import keep_dead_letters
from tests.dead_letters.conftest import NOON, Die

NOW = NOON + timedelta(days=1)
MONTH = timedelta(days=30)


def settled(admin: Connection, letters: int, die: Die) -> None:
    for minute in range(letters):
        die(minute=minute)
    admin.execute("UPDATE dead_letter SET status = 'resolved', resolved_at = %s", [NOON])


def ask(database: Database, tenant_id: UUID) -> None:
    with database.tenant(tenant_id) as connection:
        keeping.request(connection, tenant_id, NOW, ["resolved"], by="anna", now=NOW)


def test_a_round_takes_a_purge_to_its_end(
    database: Database, keeper_database: Database, tenant_id: UUID, die: Die, admin: Connection
):
    settled(admin, 3, die)
    ask(database, tenant_id)
    done = keep_dead_letters(keeper_database, lambda: NOW, MONTH, lambda: 30.0)
    assert done == {"dead_letter_purge": 1, "dead_letter": 0, "operation": 0, "dead_letter_count": 1}
    assert admin.execute("SELECT count(*) FROM dead_letter WHERE purged_at IS NULL").fetchone() == (0,)
    again = keep_dead_letters(keeper_database, lambda: NOW, MONTH, lambda: 30.0)
    assert again == {"dead_letter_purge": 0, "dead_letter": 0, "operation": 0, "dead_letter_count": 0}


def test_what_there_is_no_time_for_is_left_to_the_next_round(
    database: Database,
    keeper_database: Database,
    tenant_id: UUID,
    die: Die,
    admin: Connection,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(keeping.step, "__kwdefaults__", {"at_once": 2})
    settled(admin, 5, die)
    ask(database, tenant_id)
    seconds: Iterator[float] = chain([30.0, 20.0], repeat(1.0))
    done = keep_dead_letters(keeper_database, lambda: NOW, MONTH, lambda: next(seconds))
    assert done["dead_letter_purge"] == 2
    assert admin.execute("SELECT count(*) FROM dead_letter WHERE purged_at IS NULL").fetchone() == (1,)


def test_settled_letters_go_after_the_days_that_are_set(
    keeper_database: Database, tenant_id: UUID, die: Die, admin: Connection
):
    settled(admin, 2, die)
    later = NOON + timedelta(days=10)
    assert keep_dead_letters(keeper_database, lambda: later, timedelta(days=10), lambda: 30.0)["dead_letter"] == 0
    late = later + timedelta(seconds=1)
    assert keep_dead_letters(keeper_database, lambda: late, timedelta(days=10), lambda: 30.0)["dead_letter"] == 2
    assert datetime.now(UTC) > late  # the database's own bound is by its clock
