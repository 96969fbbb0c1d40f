"""Changes by commands carry the database's time, as those of workers and of the API do."""

from datetime import datetime
from pathlib import Path

import pytest

import cli
from cli.documents import delete_document
from cli.tenants import Tenant
from counterfoil.db import Connection, Database, DatabaseClock
from tests.cli.test_documents import CloudOf
from tests.delivery.harness import rows
from tests.documents.matching.office import Office
from tests.documents.matching.papers import invoice
from tests.factories import NOW

PROCESS_CLOCK = {"dlq.py", "offers.py"}
"""Modules that show an age or choose a date."""


def test_commands_take_the_time_from_the_database() -> None:
    modules = Path(cli.__file__).parent.glob("*.py")

    assert {module.name for module in modules if "datetime.now(" in module.read_text()} == PROCESS_CLOCK


def test_deletion_is_recorded_by_the_database_clock(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(database, admin, [invoice()])
    monkeypatch.setattr(DatabaseClock, "__call__", lambda _: NOW)

    delete_document(CloudOf(database), Tenant(office.tenant_id, "acme"), office.ids[0], by="ann")  # type: ignore[arg-type]

    (entry,) = rows(admin, "audit_entry")
    assert datetime.fromisoformat(entry["recorded_at"]) == NOW
