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
from counterfoil.operations.store import NoOperationError, Operation, OperationStateError
from tests.dead_letters.bulk_harness import LATER, Yard, steer
from tests.dead_letters.dead_letter_factory import NOON
from tests.delivery.harness import rows

# -- request and control ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("canary", [None, 3])
def test_resumed_operation_continues(yard: Yard, canary: int | None):
    dead_letters = yard.fail(5)
    operation = yard.request(canary=canary)
    yard.step(operation, at_once=2)
    assert steer(yard, operation, "pause").state == "paused"
    assert yard.step(operation) is None
    assert yard.shown(operation).succeeded == 2
    assert steer(yard, operation, "resume").state == ("running" if canary is None else "canary")
    yard.run(operation)
    yard.end(yard.works(operation), "succeeded")
    yard.run(operation)
    assert yard.results(operation) == dict.fromkeys(dead_letters, "succeeded")


def test_canceled_operation_stops(yard: Yard):
    yard.fail(5)
    operation = yard.request()
    yard.step(operation, at_once=2)
    steer(yard, operation, "pause")
    ended = steer(yard, operation, "cancel")
    assert (ended.state, ended.ended_at, yard.step(operation)) == ("canceled", yard.now, None)
    assert Counter(yard.results(operation).values()) == {"succeeded": 2, None: 3}
    for how in ("pause", "resume", "cancel"):
        with pytest.raises(OperationStateError, match="canceled"):
            steer(yard, operation, how)
    with pytest.raises(OperationStateError, match="canceled"):
        change_rate(yard, operation, 7)


def change_rate(yard: Yard, operation: Operation, rate: int, version: int | None = None) -> Operation:
    with yard.database.tenant(yard.tenant_id) as connection:
        seen = store.show(connection, operation.id).version if version is None else version
        return store.change_rate(connection, operation.id, rate, version=seen, actor="ann", now=yard.now)


def test_next_steps_use_changed_rate(yard: Yard):
    yard.fail(400, every=0.1)
    operation = yard.request(rate=1)
    yard.step(operation)
    slow = yard.shown(operation).processed
    assert slow == LOOKAHEAD.total_seconds()

    changed = change_rate(yard, operation, 5)

    assert (changed.rate, changed.version, changed.state) == (5, operation.version + 1, "running")
    assert yard.trail()[-1].action == "bulk-rate"
    assert yard.trail()[-1].detail == {"rate": 5, "rate_before": 1}
    yard.step(operation)
    assert yard.shown(operation).processed == slow  # they are not due yet
    yard.now += timedelta(minutes=1)
    yard.step(operation)
    assert yard.shown(operation).processed - slow == 5 * 60


@pytest.mark.parametrize("rate", [0, 501])
def test_rate_change_is_bounded(yard: Yard, rate: int):
    yard.fail()
    operation = yard.request(rate=3)
    with pytest.raises(RejectedRequestError, match="between 1 and 500 dead letters per second"):
        change_rate(yard, operation, rate)
    with pytest.raises(VersionConflictError):
        change_rate(yard, operation, 4, operation.version + 1)
    assert yard.shown(operation).rate == 3


def test_control_requires_current_version_and_state(yard: Yard, make_tenant: Callable[..., UUID]):
    yard.fail()
    operation = yard.request()
    with pytest.raises(OperationStateError, match="running"):
        steer(yard, operation, "resume")
    steer(yard, operation, "pause")
    with pytest.raises(VersionConflictError):
        steer(yard, operation, "cancel", operation.version)
    with pytest.raises(OperationStateError, match="paused"):
        steer(yard, operation, "pause")
    with yard.database.tenant(make_tenant("zenith")) as connection, pytest.raises(NoOperationError):
        store.change_state(connection, operation.id, "cancel", version=1, actor="eve", now=LATER)


def test_each_change_has_one_audit_entry(yard: Yard):
    yard.fail(9)
    operation = yard.request(rate=5, canary=None, note="The cause is fixed")
    steer(yard, operation, "pause")
    steer(yard, operation, "resume")
    yard.run(operation)
    entries = yard.trail()
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
    before = [entry.version_before for entry in entries]
    assert before[1:] == [entry.version_after for entry in entries][:-1]


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
def test_invalid_request_is_rejected(yard: Yard, arguments: dict[str, Any]):
    with pytest.raises(RejectedRequestError):
        yard.request(**arguments)
    assert rows(yard.admin, "operation") == []


# -- groups -----------------------------------------------------------------------------------------------------------


def state(yard: Yard) -> str:
    with yard.database.tenant(yard.tenant_id) as connection:
        (group,) = groups.page(connection, yard.tenant_id, ["pending", "resolved", "ignored"], yard.now, limit=9)
    return group.state


@pytest.mark.parametrize(("action", "status"), [("resolve", "resolved"), ("ignore", "ignored")])
def test_closed_group_reopens_with_new_dead_letter(yard: Yard, action: Any, status: str):
    yard.fail(3)
    [(fingerprint,)] = yard.admin.execute("SELECT DISTINCT fingerprint FROM dead_letter").fetchall()
    operation = yard.request(action, fingerprint=fingerprint)
    assert state(yard) == "open"
    yard.run(operation)
    assert state(yard) == status
    yard.fail(first=90)
    assert state(yard) == "open"


def test_partially_closed_group_stays_open(yard: Yard):
    yard.fail(3)
    [(fingerprint,)] = yard.admin.execute("SELECT DISTINCT fingerprint FROM dead_letter").fetchall()
    yard.run(yard.request("resolve", fingerprint=fingerprint, from_date=NOON + timedelta(minutes=1)))
    assert state(yard) == "open"
    yard.run(yard.request("retry", fingerprint=fingerprint))
    yard.run(yard.request("resolve"))
    assert "resolved" not in {row["closed_as"] for row in rows(yard.admin, "dead_letter_group")}


# -- previews and retention -------------------------------------------------------------------------------------------


def test_preview_counts_and_samples_newest_dead_letters(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    dead_letters = yard.fail(12, error="Step a")
    newest = dead_letters[::-1][: bulk.SAMPLE_SIZE]
    monkeypatch.setattr(bulk, "SEARCH_BATCH_SIZE", 5)

    def preview(selection: DeadLetterFilter | None, ids: Any = ()) -> tuple[int, bool, list[UUID]]:
        with yard.database.tenant(yard.tenant_id) as connection:
            result = bulk.preview(connection, yard.tenant_id, selection, ids, LATER)
        return result.count, result.is_exact, [entry.job_id for entry in result.sample]

    assert preview(DeadLetterFilter()) == (12, True, newest)
    assert preview(DeadLetterFilter(text="step")) == (12, True, newest)
    assert preview(DeadLetterFilter(text="nowhere")) == (0, True, [])
    assert preview(None, [*dead_letters[:2], uuid4()]) == (2, True, dead_letters[1::-1])
    monkeypatch.setattr(bulk, "COUNT_LIMIT", 10)
    assert preview(DeadLetterFilter(text="step")) == (10, False, newest)
    assert rows(yard.admin, "operation") == []


def test_operations_are_listed_newest_first(yard: Yard):
    arguments = []
    for _ in range(3):
        arguments.append(yard.request().id)
        yard.now += timedelta(minutes=1)
    with yard.database.tenant(yard.tenant_id) as connection:
        first = store.page(connection, yard.tenant_id, limit=2)
        last = first[-1]
        rest = store.page(connection, yard.tenant_id, limit=2, after=(last.requested_at, last.id))
    assert [operation.id for operation in (*first, *rest)] == arguments[::-1]


def test_operation_is_deleted_after_retention(yard: Yard, maintenance_database: Database):
    yard.fail(2)
    yard.run(yard.request())
    assert _delete_expired(maintenance_database, LATER + store.KEPT) == 0
    now = _expire(yard)
    assert _delete_expired(maintenance_database, now) == 1
    assert rows(yard.admin, "operation_item") == []
    assert _delete_expired(maintenance_database, LATER + timedelta(days=9999)) == 0


def test_large_operation_is_deleted_in_batches(yard: Yard, maintenance_database: Database):
    yard.fail(5)
    yard.run(yard.request())
    now = _expire(yard)
    current = yard.request(job_ids=yard.fail(1, first=10))
    remaining = []
    while _delete_expired(maintenance_database, now, at_once=2) == 0:
        remaining.append(len(rows(yard.admin, "operation_item")) - 1)
    assert remaining == [3, 1]
    assert [row["operation_id"] for row in rows(yard.admin, "operation_item")] == [str(current.id)]


def test_database_protects_results_until_retention_ends(yard: Yard, maintenance_database: Database):
    yard.fail(2)
    yard.run(yard.request())
    yard.admin.execute("UPDATE operation SET ended_at = now() - interval '89 days'")
    with maintenance_connection(maintenance_database) as connection:
        assert connection.execute("DELETE FROM operation_item").rowcount == 0
        assert connection.execute("SELECT number FROM operation_item").fetchall() == []


def _expire(yard: Yard) -> datetime:
    """Move the end of operations back by 91 days and return the current time."""
    yard.admin.execute("UPDATE operation SET ended_at = now() - interval '91 days'")
    return yard.admin.execute("SELECT now()").fetchall()[0][0]  # type: ignore[no-any-return]


def _delete_expired(maintenance_database: Database, now: datetime, **bound: int) -> int:
    with maintenance_connection(maintenance_database) as connection:
        return store.delete_expired(connection, now, **bound)
