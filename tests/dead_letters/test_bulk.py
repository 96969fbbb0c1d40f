"""Bulk operations: request, control, preview and retention."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Database, maintenance_connection
from counterfoil.dead_letters import bulk, groups
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.errors import RejectedRequestError, VersionConflictError
from counterfoil.operations import store
from counterfoil.operations.engine import LOOKAHEAD
from counterfoil.operations.store import Operation, OperationNotFoundError, OperationStateError
from tests.dead_letters.bulk_harness import LATER, BulkHarness, control
from tests.dead_letters.dead_letter_factory import NOON
from tests.delivery.harness import rows

# -- request and control ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("canary", [None, 3])
def test_resumed_operation_processes_remaining_items(harness: BulkHarness, canary: int | None):
    dead_letters = harness.fail(5)
    operation = harness.request(canary=canary)
    harness.step(operation, batch_size=2)
    assert control(harness, operation, "pause").state == "paused"
    assert harness.step(operation) is None
    assert harness.load(operation).succeeded == 2
    assert control(harness, operation, "resume").state == ("running" if canary is None else "canary")
    harness.run(operation)
    harness.set_status(harness.work_ids(operation), "succeeded")
    harness.run(operation)
    assert harness.results(operation) == dict.fromkeys(dead_letters, "succeeded")


def test_canceled_operation_processes_no_more_items(harness: BulkHarness):
    harness.fail(5)
    operation = harness.request()
    harness.step(operation, batch_size=2)
    control(harness, operation, "pause")
    canceled = control(harness, operation, "cancel")
    assert (canceled.state, canceled.ended_at, harness.step(operation)) == ("canceled", harness.now, None)
    assert Counter(harness.results(operation).values()) == {"succeeded": 2, None: 3}
    for command in ("pause", "resume", "cancel"):
        with pytest.raises(OperationStateError, match="canceled"):
            control(harness, operation, command)
    with pytest.raises(OperationStateError, match="canceled"):
        change_rate(harness, operation, 7)


def change_rate(harness: BulkHarness, operation: Operation, rate: int, version: int | None = None) -> Operation:
    with harness.database.tenant(harness.tenant_id) as connection:
        current = store.show(connection, operation.id).version if version is None else version
        return store.change_rate(connection, operation.id, rate, version=current, actor="ann", now=harness.now)


def test_next_steps_use_changed_rate(harness: BulkHarness):
    harness.fail(400, interval=0.1)
    operation = harness.request(rate=1)
    harness.step(operation)
    processed = harness.load(operation).processed
    assert processed == LOOKAHEAD.total_seconds()

    operation_after = change_rate(harness, operation, 5)

    assert (operation_after.rate, operation_after.version, operation_after.state) == (
        5,
        operation.version + 1,
        "running",
    )
    assert harness.audit_entries()[-1].action == "bulk-rate"
    assert harness.audit_entries()[-1].detail == {"rate": 5, "rate_before": 1}
    harness.step(operation)
    assert harness.load(operation).processed == processed  # the next items are not due yet
    harness.now += timedelta(minutes=1)
    harness.step(operation)
    assert harness.load(operation).processed - processed == 5 * 60


@pytest.mark.parametrize("rate", [0, 501])
def test_rate_change_is_validated(harness: BulkHarness, rate: int):
    harness.fail()
    operation = harness.request(rate=3)
    with pytest.raises(RejectedRequestError, match="between 1 and 500 dead letters per second"):
        change_rate(harness, operation, rate)
    with pytest.raises(VersionConflictError):
        change_rate(harness, operation, 4, operation.version + 1)
    assert harness.load(operation).rate == 3


def test_control_requires_current_version_and_valid_state(harness: BulkHarness, make_tenant: Callable[..., UUID]):
    harness.fail()
    operation = harness.request()
    with pytest.raises(OperationStateError, match="running"):
        control(harness, operation, "resume")
    control(harness, operation, "pause")
    with pytest.raises(VersionConflictError):
        control(harness, operation, "cancel", operation.version)
    with pytest.raises(OperationStateError, match="paused"):
        control(harness, operation, "pause")
    with harness.database.tenant(make_tenant("zenith")) as connection, pytest.raises(OperationNotFoundError):
        store.change_state(connection, operation.id, "cancel", version=1, actor="eve", now=LATER)


def test_each_change_has_one_audit_entry(harness: BulkHarness):
    harness.fail(9)
    operation = harness.request(rate=5, canary=None, note="The cause is fixed")
    control(harness, operation, "pause")
    control(harness, operation, "resume")
    harness.run(operation)
    entries = harness.audit_entries()
    assert [(entry.action, entry.actor) for entry in entries] == [
        ("bulk-retry", "kim"),
        ("bulk-pause", "ann"),
        ("bulk-resume", "ann"),
        ("bulk-done", "bulk"),
    ]
    assert {tuple(entry.targets) for entry in entries} == {(str(operation.id),)}
    assert entries[0].note_hash is not None
    assert set(entries[0].detail) == {"rate", "canary", "filter_hash"}
    assert entries[-1].detail == {"succeeded": 9, "failed": 0, "skipped": 0}
    versions_before = [entry.version_before for entry in entries]
    assert versions_before[1:] == [entry.version_after for entry in entries][:-1]


@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "resolve", "note": None},
        {"action": "ignore", "note": "  "},
        {"note": "x" * 2001},
        {"rate": 0},
        {"rate": 501},
        {"canary": 0},
        {"action": "resolve", "canary": 1},
        {"job_ids": [uuid4() for _ in range(1001)]},
    ],
)
def test_invalid_request_is_rejected(harness: BulkHarness, arguments: dict[str, Any]):
    with pytest.raises(RejectedRequestError):
        harness.request(**arguments)
    assert rows(harness.admin, "operation") == []


# -- groups -----------------------------------------------------------------------------------------------------------


def state(harness: BulkHarness) -> str:
    with harness.database.tenant(harness.tenant_id) as connection:
        (group,) = groups.page(connection, harness.tenant_id, ["pending", "resolved", "ignored"], harness.now, limit=9)
    return group.state


@pytest.mark.parametrize(("action", "status"), [("resolve", "resolved"), ("ignore", "ignored")])
def test_closed_group_reopens_with_new_dead_letter(harness: BulkHarness, action: Any, status: str):
    harness.fail(3)
    [(fingerprint,)] = harness.admin.execute("SELECT DISTINCT fingerprint FROM dead_letter").fetchall()
    operation = harness.request(action, fingerprint=fingerprint)
    assert state(harness) == "open"
    harness.run(operation)
    assert state(harness) == status
    harness.fail(first=90)
    assert state(harness) == "open"


def test_partially_closed_group_stays_open(harness: BulkHarness):
    harness.fail(3)
    [(fingerprint,)] = harness.admin.execute("SELECT DISTINCT fingerprint FROM dead_letter").fetchall()
    harness.run(harness.request("resolve", fingerprint=fingerprint, from_date=NOON + timedelta(minutes=1)))
    assert state(harness) == "open"
    harness.run(harness.request("retry", fingerprint=fingerprint))
    harness.run(harness.request("resolve"))
    assert "resolved" not in {row["closed_as"] for row in rows(harness.admin, "dead_letter_group")}


# -- previews and retention -------------------------------------------------------------------------------------------


def test_preview_counts_and_samples_newest_dead_letters(harness: BulkHarness, monkeypatch: pytest.MonkeyPatch):
    dead_letters = harness.fail(12, error="Step a")
    newest = dead_letters[::-1][: bulk.SAMPLE_SIZE]
    monkeypatch.setattr(bulk, "SEARCH_BATCH_SIZE", 5)

    def preview(selection: DeadLetterFilter | None, ids: Any = ()) -> tuple[int, bool, list[UUID]]:
        with harness.database.tenant(harness.tenant_id) as connection:
            result = bulk.preview(connection, harness.tenant_id, selection, ids, LATER)
        return result.count, result.is_exact, [entry.job_id for entry in result.sample]

    assert preview(DeadLetterFilter()) == (12, True, newest)
    assert preview(DeadLetterFilter(search="step")) == (12, True, newest)
    assert preview(DeadLetterFilter(search="nowhere")) == (0, True, [])
    assert preview(None, [*dead_letters[:2], uuid4()]) == (2, True, dead_letters[1::-1])
    monkeypatch.setattr(bulk, "COUNT_LIMIT", 10)
    assert preview(DeadLetterFilter(search="step")) == (10, False, newest)
    assert rows(harness.admin, "operation") == []


def test_operation_pages_are_newest_first(harness: BulkHarness):
    arguments = []
    for _ in range(3):
        arguments.append(harness.request().id)
        harness.now += timedelta(minutes=1)
    with harness.database.tenant(harness.tenant_id) as connection:
        first_page = store.page(connection, harness.tenant_id, limit=2)
        last_listed = first_page[-1]
        second_page = store.page(
            connection, harness.tenant_id, limit=2, after=(last_listed.requested_at, last_listed.id)
        )
    assert [operation.id for operation in (*first_page, *second_page)] == arguments[::-1]


def test_operation_is_deleted_after_retention(harness: BulkHarness, maintenance_database: Database):
    harness.fail(2)
    harness.run(harness.request())
    assert _delete_expired(maintenance_database, LATER + store.RETENTION) == 0
    now = _expire(harness)
    assert _delete_expired(maintenance_database, now) == 1
    assert rows(harness.admin, "operation_item") == []
    assert _delete_expired(maintenance_database, LATER + timedelta(days=9999)) == 0


def test_large_operation_is_deleted_in_batches(harness: BulkHarness, maintenance_database: Database):
    harness.fail(5)
    harness.run(harness.request())
    now = _expire(harness)
    current = harness.request(job_ids=harness.fail(1, first=10))
    remaining = []
    while _delete_expired(maintenance_database, now, batch_size=2) == 0:
        remaining.append(len(rows(harness.admin, "operation_item")) - 1)
    assert remaining == [3, 1]
    assert [row["operation_id"] for row in rows(harness.admin, "operation_item")] == [str(current.id)]


def test_database_protects_results_until_retention_ends(harness: BulkHarness, maintenance_database: Database):
    harness.fail(2)
    harness.run(harness.request())
    harness.admin.execute("UPDATE operation SET ended_at = now() - interval '89 days'")
    with maintenance_connection(maintenance_database) as connection:
        assert connection.execute("DELETE FROM operation_item").rowcount == 0
        assert connection.execute("SELECT number FROM operation_item").fetchall() == []


def _expire(harness: BulkHarness) -> datetime:
    """Set the end of all operations to 91 days ago. Return the server's current time."""
    harness.admin.execute("UPDATE operation SET ended_at = now() - interval '91 days'")
    return harness.admin.execute("SELECT now()").fetchall()[0][0]  # type: ignore[no-any-return]


def _delete_expired(maintenance_database: Database, now: datetime, **bound: int) -> int:
    with maintenance_connection(maintenance_database) as connection:
        return store.delete_expired(connection, now, **bound)
