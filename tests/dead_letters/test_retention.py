"""The watchdog deletes closed dead letters when their retention ends."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from counterfoil.db import Connection, Database
from functions.watchdog.retention import maintain_dead_letters
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter

NOW = NOON + timedelta(days=1)
MONTH = timedelta(days=30)


def make_resolved(admin: Connection, number: int, make_dead_letter: MakeDeadLetter) -> None:
    for minute in range(number):
        make_dead_letter(minute=minute)
    admin.execute("UPDATE dead_letter SET status = 'resolved', resolved_at = %s", [NOON])


def test_closed_dead_letters_are_deleted_after_configured_retention(
    maintenance_database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, admin: Connection
):
    make_resolved(admin, 2, make_dead_letter)
    retention_end = NOON + timedelta(days=10)
    assert maintain_dead_letters(maintenance_database, lambda: retention_end, timedelta(days=10))["dead_letter"] == 0
    after_retention = retention_end + timedelta(seconds=1)
    assert maintain_dead_letters(maintenance_database, lambda: after_retention, timedelta(days=10))["dead_letter"] == 2
    assert datetime.now(UTC) > after_retention  # the database enforces retention by its own clock
