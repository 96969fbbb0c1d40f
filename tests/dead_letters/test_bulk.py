"""Operations on many dead letters: they are asked for, steered, told of and forgotten."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Database, keeper
from counterfoil.dead_letters import bulk, groups
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.errors import RejectedRequestError, VersionError
from counterfoil.operations import store
from counterfoil.operations.engine import AHEAD
from counterfoil.operations.store import NoOperationError, Operation, OperationStateError
from tests.dead_letters.bulking import LATER, Yard, steer
from tests.dead_letters.letters import NOON
from tests.delivery.harness import rows

# -- asking, and steering ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("canary", [None, 3])
def test_a_paused_operation_goes_on_where_it_was(yard: Yard, canary: int | None):
    letters = yard.fail(5)
    operation = yard.request(canary=canary)
    yard.step(operation, at_once=2)
    assert steer(yard, operation, "pause").state == "paused"
    assert yard.step(operation) is None
    assert yard.shown(operation).done == 2
    assert steer(yard, operation, "resume").state == ("running" if canary is None else "canary")
    yard.run(operation)
    yard.end(yard.works(operation), "succeeded")
    yard.run(operation)
    assert yard.results(operation) == dict.fromkeys(letters, "done")


def test_a_cancelled_operation_does_nothing_more(yard: Yard):
    yard.fail(5)
    operation = yard.request()
    yard.step(operation, at_once=2)
    steer(yard, operation, "pause")
    ended = steer(yard, operation, "cancel")
    assert (ended.state, ended.ended_at, yard.step(operation)) == ("cancelled", yard.now, None)
    assert Counter(yard.results(operation).values()) == {"done": 2, None: 3}
    for how in ("pause", "resume", "cancel"):
        with pytest.raises(OperationStateError, match="cancelled"):
            steer(yard, operation, how)
    with pytest.raises(OperationStateError, match="cancelled"):
        change_rate(yard, operation, 7)


def change_rate(yard: Yard, operation: Operation, rate: int, version: int | None = None) -> Operation:
    with yard.database.tenant(yard.tenant_id) as connection:
        seen = store.show(connection, operation.id).version if version is None else version
        return store.change_rate(connection, operation.id, rate, version=seen, actor="ann", now=yard.now)


def test_the_next_steps_keep_a_changed_rate(yard: Yard):
    yard.fail(400, every=0.1)
    operation = yard.request(rate=1)
    yard.step(operation)
    slow = yard.shown(operation).handled
    assert slow == AHEAD.total_seconds()

    changed = change_rate(yard, operation, 5)

    assert (changed.rate, changed.version, changed.state) == (5, operation.version + 1, "running")
    assert yard.trail()[-1].action == "bulk-rate"
    assert yard.trail()[-1].detail == {"rate": 5, "rate_before": 1}
    yard.step(operation)
    assert yard.shown(operation).handled == slow  # their turns are still to come
    yard.now += timedelta(minutes=1)
    yard.step(operation)
    assert yard.shown(operation).handled - slow == 5 * 60


@pytest.mark.parametrize("rate", [0, 501])
def test_a_rate_is_not_changed_beyond_its_bounds(yard: Yard, rate: int):
    yard.fail()
    operation = yard.request(rate=3)
    with pytest.raises(RejectedRequestError, match="between 1 and 500 dead letters per second"):
        change_rate(yard, operation, rate)
    with pytest.raises(VersionError):
        change_rate(yard, operation, 4, operation.version + 1)
    assert yard.shown(operation).rate == 3


def test_who_has_not_seen_the_operation_as_it_is_does_not_steer_it(yard: Yard, make_tenant: Callable[..., UUID]):
    yard.fail()
    operation = yard.request()
    with pytest.raises(OperationStateError, match="running"):
        steer(yard, operation, "resume")
    steer(yard, operation, "pause")
    with pytest.raises(VersionError):
        steer(yard, operation, "cancel", operation.version)
    with pytest.raises(OperationStateError, match="paused"):
        steer(yard, operation, "pause")
    with yard.database.tenant(make_tenant("zenith")) as connection, pytest.raises(NoOperationError):
        store.steer(connection, operation.id, "cancel", version=1, actor="eve", now=LATER)


def test_the_trail_has_one_entry_for_each_thing_done_to_an_operation(yard: Yard):
    yard.fail(9)
    operation = yard.request(rate=5, canary=None, note="It is mended")
    steer(yard, operation, "pause")
    steer(yard, operation, "resume")
    yard.run(operation)
    told = yard.trail()
    assert [(entry.action, entry.actor) for entry in told] == [
        ("bulk-retry", "kim"),
        ("bulk-pause", "ann"),
        ("bulk-resume", "ann"),
        ("bulk-done", "bulk"),
    ]
    assert {tuple(entry.targets) for entry in told} == {(str(operation.id),)}
    assert told[0].note_hash is not None
    assert set(told[0].detail) == {"rate", "canary", "filter_hash"}
    assert told[-1].detail == {"done": 9, "failed": 0, "skipped": 0}
    before = [entry.version_before for entry in told]
    assert before[1:] == [entry.version_after for entry in told][:-1]


@pytest.mark.parametrize(
    "asked",
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
def test_what_cannot_be_is_refused(yard: Yard, asked: dict[str, Any]):
    with pytest.raises(RejectedRequestError):
        yard.request(**asked)
    assert rows(yard.admin, "operation") == []


# -- groups -----------------------------------------------------------------------------------------------------------


def state(yard: Yard) -> str:
    with yard.database.tenant(yard.tenant_id) as connection:
        (group,) = groups.page(connection, yard.tenant_id, ["pending", "resolved", "ignored"], yard.now, limit=9)
    return group.state


@pytest.mark.parametrize(("action", "status"), [("resolve", "resolved"), ("ignore", "ignored")])
def test_a_group_that_is_settled_as_a_whole_is_so_until_a_letter_of_it_dies_later(yard: Yard, action: Any, status: str):
    yard.fail(3)
    [(fingerprint,)] = yard.admin.execute("SELECT DISTINCT fingerprint FROM dead_letter").fetchall()
    operation = yard.request(action, fingerprint=fingerprint)
    assert state(yard) == "open"
    yard.run(operation)
    assert state(yard) == status
    yard.fail(first=90)
    assert state(yard) == "open"


def test_a_group_of_which_only_a_part_was_settled_stays_open(yard: Yard):
    yard.fail(3)
    [(fingerprint,)] = yard.admin.execute("SELECT DISTINCT fingerprint FROM dead_letter").fetchall()
    yard.run(yard.request("resolve", fingerprint=fingerprint, from_date=NOON + timedelta(minutes=1)))
    assert state(yard) == "open"
    yard.run(yard.request("retry", fingerprint=fingerprint))
    yard.run(yard.request("resolve"))
    assert "resolved" not in {row["settled_as"] for row in rows(yard.admin, "dead_letter_group")}


# -- previews and keeping ---------------------------------------------------------------------------------------------


def test_a_preview_tells_how_many_and_shows_the_newest(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    letters = yard.fail(12, error="Step a")
    newest = letters[::-1][: bulk.SAMPLE]
    monkeypatch.setattr(bulk, "SEARCHED", 5)

    def preview(selection: DeadLetterFilter | None, ids: Any = ()) -> tuple[int, bool, list[UUID]]:
        with yard.database.tenant(yard.tenant_id) as connection:
            found = bulk.preview(connection, yard.tenant_id, selection, ids, LATER)
        return found.count, found.is_exact, [entry.job_id for entry in found.sample]

    assert preview(DeadLetterFilter()) == (12, True, newest)
    assert preview(DeadLetterFilter(text="step")) == (12, True, newest)
    assert preview(DeadLetterFilter(text="nowhere")) == (0, True, [])
    assert preview(None, [*letters[:2], uuid4()]) == (2, True, letters[1::-1])
    monkeypatch.setattr(bulk, "COUNTED", 10)
    assert preview(DeadLetterFilter(text="step")) == (10, False, newest)
    assert rows(yard.admin, "operation") == []


def test_operations_are_listed_the_newest_first(yard: Yard):
    asked = []
    for _ in range(3):
        asked.append(yard.request().id)
        yard.now += timedelta(minutes=1)
    with yard.database.tenant(yard.tenant_id) as connection:
        first = store.page(connection, yard.tenant_id, limit=2)
        last = first[-1]
        rest = store.page(connection, yard.tenant_id, limit=2, after=(last.requested_at, last.id))
    assert [one.id for one in (*first, *rest)] == asked[::-1]


def test_an_operation_is_forgotten_with_its_results_long_after_its_end(yard: Yard, keeper_database: Database):
    yard.fail(2)
    yard.run(yard.request())
    assert _forget(keeper_database, LATER + store.KEPT) == 0
    now = _long_ago(yard)
    assert _forget(keeper_database, now) == 1
    assert rows(yard.admin, "operation_item") == []
    assert _forget(keeper_database, LATER + timedelta(days=9999)) == 0


def test_an_operation_on_more_letters_than_go_in_one_transaction_is_forgotten_bit_by_bit(
    yard: Yard, keeper_database: Database
):
    yard.fail(5)
    yard.run(yard.request())
    now = _long_ago(yard)
    lasting = yard.request(job_ids=yard.fail(1, first=10))
    left = []
    while _forget(keeper_database, now, at_once=2) == 0:
        left.append(len(rows(yard.admin, "operation_item")) - 1)
    assert left == [3, 1]
    assert [row["operation_id"] for row in rows(yard.admin, "operation_item")] == [str(lasting.id)]


def test_the_database_lets_no_result_be_deleted_before_its_time(yard: Yard, keeper_database: Database):
    yard.fail(2)
    yard.run(yard.request())
    yard.admin.execute("UPDATE operation SET ended_at = now() - interval '89 days'")
    with keeper(keeper_database) as connection:
        assert connection.execute("DELETE FROM operation_item").rowcount == 0
        assert connection.execute("SELECT number FROM operation_item").fetchall() == []


def _long_ago(yard: Yard) -> datetime:
    """What has ended did so 91 days before what is returned."""
    yard.admin.execute("UPDATE operation SET ended_at = now() - interval '91 days'")
    return yard.admin.execute("SELECT now()").fetchall()[0][0]  # type: ignore[no-any-return]


def _forget(keeper_database: Database, now: datetime, **bound: int) -> int:
    with keeper(keeper_database) as connection:
        return store.forget(connection, now, **bound)
