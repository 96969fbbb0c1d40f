"""Queue pauses: requests, their application to mappings, and reconciliation."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from counterfoil import audit, aws
from counterfoil.db import Connection, Database
from counterfoil.queues import (
    PauseConflictError,
    PauseRequest,
    QueuePause,
    apply_pause,
    list_pauses,
    reconcile_pauses,
    request_pause,
)
from tests.dead_letters.audit_trail import first_broken_entry
from tests.factories import NOW
from tests.queues.conftest import Account

LATER = NOW + timedelta(hours=1)


def pause_request(*, paused: bool = True, version: int = 0, by: str = "kim", worker: str = "tasks") -> PauseRequest:
    return PauseRequest(worker, paused, "The model is being exchanged", by, NOW, version)


def stored_pauses(database: Database) -> dict[str, QueuePause]:
    with database.delivery() as connection:
        return list_pauses(connection)


def pause_tasks(database: Database, account: Account) -> QueuePause:
    """Pause the tasks queue and apply the pause in Lambda."""
    pause = request_pause(database, pause_request())
    assert apply_pause(database, "tasks", account.mappings["tasks"])
    assert pause is not None
    return pause


def reconcile(database: Database, account: Account) -> list[str]:
    """Run the watchdog's reconciliation as of an hour later."""
    return reconcile_pauses(database, account.mappings, LATER)


def test_pause_disables_only_the_paused_queues_mappings(database: Database, account: Account):
    pause_tasks(database, account)
    assert account.states("tasks") == ["Disabled", "Disabled"]
    assert account.states("matching") == ["Enabled"]
    stored = stored_pauses(database)["tasks"]
    assert stored == QueuePause("tasks", True, "The model is being exchanged", "kim", NOW, True, 1)


def test_resume_enables_mappings(database: Database, account: Account):
    pause_tasks(database, account)
    request_pause(database, pause_request(paused=False, version=1, by="ann"))
    assert apply_pause(database, "tasks", account.mappings["tasks"])
    assert account.states("tasks") == ["Enabled", "Enabled"]
    stored = stored_pauses(database)["tasks"]
    assert (stored.is_paused, stored.changed_by, stored.is_applied, stored.version) == (False, "ann", True, 2)


def test_repeated_pause_changes_nothing(database: Database, account: Account):
    first = pause_tasks(database, account)
    repeated = request_pause(database, pause_request(by="ann", version=0))
    assert repeated is not None
    assert (repeated.changed_by, repeated.version) == (first.changed_by, first.version)
    with database.delivery() as connection:
        assert len(audit.page(connection, None, limit=10)) == 1


def test_resume_without_pause_stores_nothing(database: Database):
    assert request_pause(database, pause_request(paused=False)) is None
    assert stored_pauses(database) == {}


@pytest.mark.parametrize("version", [0, 1, 3])
def test_outdated_version_raises_conflict(version: int, database: Database, account: Account):
    pause_tasks(database, account)
    request_pause(database, pause_request(paused=False, version=1))
    with pytest.raises(PauseConflictError):
        request_pause(database, pause_request(version=version))
    assert not stored_pauses(database)["tasks"].is_paused


def test_pauses_are_audited_as_unassigned(database: Database, account: Account):
    pause_tasks(database, account)
    request_pause(database, pause_request(paused=False, version=1, by="ann"))
    with database.delivery() as connection:
        entries = audit.page(connection, None, limit=10)
        assert first_broken_entry(connection, None) is None
    recorded = [
        (entry.action, entry.actor, list(entry.targets), entry.version_before, entry.version_after) for entry in entries
    ]
    assert recorded == [("queue-resumed", "ann", ["tasks"], 1, 2), ("queue-paused", "kim", ["tasks"], 0, 1)]
    assert all(entry.note_hash for entry in entries)


def test_unapplied_request_is_reconciled(database: Database, account: Account):
    request_pause(database, pause_request())
    assert account.states("tasks") == ["Enabled", "Enabled"]
    assert reconcile(database, account) == ["tasks"]
    assert account.states("tasks") == ["Disabled", "Disabled"]
    assert stored_pauses(database)["tasks"].is_applied
    request_pause(database, pause_request(paused=False, version=1))
    assert reconcile(database, account) == ["tasks"]
    assert account.states("tasks") == ["Enabled", "Enabled"]
    assert reconcile(database, account) == []


def test_mapping_enabled_by_deployment_is_disabled_again(database: Database, account: Account):
    pause_tasks(database, account)
    account.switch_directly("tasks", enabled=True)
    assert reconcile(database, account) == ["tasks"]
    assert account.states("tasks") == ["Disabled", "Disabled"]
    assert reconcile(database, account) == []


def test_externally_disabled_mapping_stays_disabled(database: Database, account: Account):
    account.switch_directly("matching", enabled=False)
    pause_tasks(database, account)
    request_pause(database, pause_request(paused=False, version=1))
    apply_pause(database, "tasks", account.mappings["tasks"])
    account.switch_directly("tasks", enabled=False)
    assert reconcile(database, account) == []
    assert (account.states("matching"), account.states("tasks")) == (["Disabled"], ["Disabled", "Disabled"])


def test_recently_resumed_queue_is_reconciled(database: Database, account: Account):
    """A delayed call from a crashed process may still disable the queue's mappings."""
    pause_tasks(database, account)
    request_pause(database, pause_request(paused=False, version=1))
    apply_pause(database, "tasks", account.mappings["tasks"])
    account.switch_directly("tasks", enabled=False)
    assert reconcile_pauses(database, account.mappings, NOW + timedelta(minutes=1)) == ["tasks"]
    assert account.states("tasks") == ["Enabled", "Enabled"]


def test_removed_queue_is_skipped(database: Database, account: Account):
    request_pause(database, pause_request(worker="retired"))
    assert reconcile(database, account) == []


def test_reconciliation_without_enough_time_is_postponed(database: Database, account: Account):
    request_pause(database, pause_request())
    assert reconcile_pauses(database, account.mappings, LATER, lambda: 20.0) == []  # too little time for two mappings
    assert account.states("tasks") == ["Enabled", "Enabled"]


class FlakyLambda:
    """Lambda API that rejects the first `failures_left` mapping updates."""

    def __init__(self, lambda_: Any, failures_left: int) -> None:
        self.lambda_, self.left = lambda_, failures_left

    def get_event_source_mapping(self, **arguments: Any) -> Any:
        return self.lambda_.get_event_source_mapping(**arguments)

    def update_event_source_mapping(self, **arguments: Any) -> Any:
        self.left -= 1
        if self.left >= 0:
            raise ClientError(
                {"Error": {"Code": "ResourceInUseException"}, "ResponseMetadata": {"HTTPStatusCode": 400}},  # type: ignore[typeddict-item]
                "UpdateEventSourceMapping",
            )
        return self.lambda_.update_event_source_mapping(**arguments)


@pytest.fixture
def flaky_lambda(account: Account, monkeypatch: pytest.MonkeyPatch) -> FlakyLambda:
    flaky_lambda = FlakyLambda(account.lambda_, 1)
    monkeypatch.setattr(aws, "client", lambda _: flaky_lambda)
    return flaky_lambda


@pytest.mark.usefixtures("flaky_lambda")
def test_rejected_mapping_update_is_retried(database: Database, account: Account):
    request_pause(database, pause_request())
    assert not apply_pause(database, "tasks", account.mappings["tasks"])
    assert account.states("tasks") == ["Enabled", "Disabled"]
    assert not stored_pauses(database)["tasks"].is_applied
    assert reconcile(database, account) == ["tasks"]
    assert account.states("tasks") == ["Disabled", "Disabled"]
    assert stored_pauses(database)["tasks"].is_applied


def test_concurrent_requests_end_in_last_requested_state(database: Database, account: Account, admin: Connection):
    start = threading.Barrier(4)

    def change_repeatedly(number: int) -> None:
        start.wait(10)
        for _ in range(5):
            row = stored_pauses(database).get("tasks")
            is_paused, version = (row.is_paused, row.version) if row else (False, 0)
            try:
                request_pause(database, pause_request(paused=not is_paused, version=version, by=f"person {number}"))
            except PauseConflictError:
                continue
            apply_pause(database, "tasks", account.mappings["tasks"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(change_repeatedly, range(4)))

    stored = stored_pauses(database)["tasks"]
    assert stored.is_applied
    assert set(account.states("tasks")) == {"Disabled" if stored.is_paused else "Enabled"}
    (changes,) = admin.execute("SELECT count(*) FROM audit_entry").fetchone() or (0,)
    assert changes == stored.version
