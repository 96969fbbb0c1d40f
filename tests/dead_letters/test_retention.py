"""The watchdog deletes closed dead letters when their retention ends."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from counterfoil.db import Connection, Database
from functions.watchdog.retention import maintain_dead_letters
from tests.dead_letters.conftest import NOON, Die

NOW = NOON + timedelta(days=1)
MONTH = timedelta(days=30)


def make_resolved(admin: Connection, number: int, die: Die) -> None:
    for minute in range(number):
        die(minute=minute)
    admin.execute("UPDATE dead_letter SET status = 'resolved', resolved_at = %s", [NOON])


def test_closed_dead_letters_are_deleted_after_configured_retention(
    maintenance_database: Database, tenant_id: UUID, die: Die, admin: Connection
):
    make_resolved(admin, 2, die)
    later = NOON + timedelta(days=10)
    assert maintain_dead_letters(maintenance_database, lambda: later, timedelta(days=10))["dead_letter"] == 0
    late = later + timedelta(seconds=1)
    assert maintain_dead_letters(maintenance_database, lambda: late, timedelta(days=10))["dead_letter"] == 2
    assert datetime.now(UTC) > late  # the database enforces retention by its own clock
