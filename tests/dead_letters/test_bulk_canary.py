"""Canaries: the rest of a bulk retry starts when the first items succeed."""

from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest

from counterfoil.dead_letters import actions, bulk
from counterfoil.dead_letters.actions import ChangeRequest
from counterfoil.operations import engine
from counterfoil.operations.store import Operation
from tests.dead_letters.bulk_harness import LATER, Yard, steer


def fail_again(yard: Yard, job_id: UUID) -> None:
    yard.die(worker="tasks", task_type="echo", work_id=yard.work_of(job_id), revision=2, minute=90)


def fail_once(yard: Yard, operation: Operation) -> None:
    """Record one failed attempt for the retried work items."""
    yard.admin.execute("UPDATE task SET attempts = 1 WHERE id = ANY(%s)", [yard.works(operation)])


def cancel(yard: Yard, works: list[UUID]) -> None:
    yard.admin.execute(
        "UPDATE task SET status = NULL, canceled_at = now(), ended_at = now() WHERE id = ANY(%s)",
        [works],
    )


def notified(yard: Yard) -> list[tuple[str, UUID, str]]:
    """Return the notifications about bulk operations, with their reasons."""
    return yard.admin.execute(
        "SELECT worker, job_id, payload ->> 'error' FROM failure_event WHERE worker = 'bulk' ORDER BY created_at"
    ).fetchall()


def test_each_automatic_halt_notifies_once(yard: Yard):
    dead_letters = yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    fail_once(yard, operation)
    assert notified(yard) == []
    expected = []
    for _ in range(2):
        yard.now += timedelta(hours=1)
        yard.run(operation)
        yard.run(operation)
        expected.append(("bulk", operation.id, yard.shown(operation).reason))
        assert notified(yard) == expected
        steer(yard, operation, "resume")
    fail_again(yard, dead_letters[-1])
    yard.end(yard.works(operation), "failed")
    yard.run(operation)
    expected.append(("bulk", operation.id, yard.shown(operation).reason))
    assert (yard.shown(operation).state, notified(yard)) == ("halted", expected)


def test_repeated_halt_notifies_once(yard: Yard):
    operation = yard.request(canary=2)
    for _ in range(2):
        with yard.database.tenant(yard.tenant_id) as connection:
            engine._notify(connection, operation, operation.reason or "", yard.now)
    assert [job_id for _, job_id, _ in notified(yard)] == [operation.id]


def test_finished_or_manually_paused_operation_does_not_notify(yard: Yard):
    yard.fail(2)
    operation = yard.request(canary=1)
    steer(yard, operation, "pause")
    steer(yard, operation, "resume")
    yard.run(operation)
    yard.end(yard.works(operation), "succeeded")
    yard.run(operation)
    assert (yard.shown(operation).state, notified(yard)) == ("done", [])


def test_rest_follows_successful_canary(yard: Yard):
    dead_letters = yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).succeeded) == ("canary", 2)
    assert {job_id for job_id, status in yard.statuses().items() if status == "retried"} == {*dead_letters[3:]}
    first, second = yard.works(operation)
    yard.end([first], "succeeded")
    assert (yard.run(operation), yard.shown(operation).state) == ([], "canary")
    yard.end([second], "succeeded")
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).succeeded) == ("done", 5)


def test_failed_canary_stops_operation(yard: Yard):
    dead_letters = yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    first, second = yard.works(operation)
    yard.end([first], "failed")
    yard.end([second], "succeeded")
    fail_again(yard, dead_letters[-1])
    yard.now += timedelta(hours=1)
    yard.run(operation)
    ended = yard.shown(operation)
    assert (ended.state, ended.reason) == ("halted", "1 of the first 2 retries failed again.")
    assert ended.ended_at == yard.now
    assert Counter(yard.results(operation).values()) == {"succeeded": 2, None: 3}
    assert yard.step(operation) is None
    assert (yard.trail()[-1].action, yard.trail()[-1].actor) == ("bulk-halted", "bulk")


def test_unfinished_canary_pauses_operation_after_timeout(yard: Yard):
    yard.fail(60)
    operation = yard.request(canary=5)
    yard.run(operation)
    fail_once(yard, operation)
    yard.now += bulk.TIMEOUT_SECONDS - timedelta(seconds=1)
    yard.run(operation)
    assert yard.shown(operation).state == "canary"
    yard.now += timedelta(seconds=3)
    yard.run(operation)
    paused = yard.shown(operation)
    assert (paused.state, paused.succeeded, paused.ended_at) == ("paused", 5, None)
    assert paused.reason == (
        "5 of the first 5 retries did not succeed within 45 minutes of attempts. "
        "Check the cause. Resume the operation to wait again, or cancel it."
    )
    assert (yard.trail()[-1].action, yard.trail()[-1].actor) == ("bulk-pause", "bulk")
    assert yard.step(operation) is None


def test_resumed_canary_gets_full_timeout_again(yard: Yard):
    yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    fail_once(yard, operation)
    yard.now += timedelta(hours=1)
    yard.run(operation)
    resumed = steer(yard, operation, "resume")
    assert (resumed.state, resumed.reason) == ("canary", None)
    yard.now += bulk.TIMEOUT_SECONDS - timedelta(seconds=1)
    yard.run(operation)
    assert yard.shown(operation).state == "canary"
    yard.now += timedelta(seconds=3)
    yard.run(operation)
    assert yard.shown(operation).state == "paused"
    yard.end(yard.works(operation), "succeeded")
    steer(yard, operation, "resume")
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).succeeded) == ("done", 5)


def test_canary_timeout_starts_with_first_attempt(yard: Yard):
    """The queue may be paused, or a required service unavailable."""
    yard.fail(3)
    operation = yard.request(canary=1)
    yard.run(operation)
    yard.now += timedelta(days=2)
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).succeeded) == ("canary", 1)
    fail_once(yard, operation)
    yard.now += bulk.TIMEOUT_SECONDS - timedelta(seconds=1)
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).succeeded) == ("canary", 1)
    yard.end(yard.works(operation), "succeeded")
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).succeeded) == ("done", 3)


def test_canceled_canary_items_are_ignored(yard: Yard):
    yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    first, second = yard.works(operation)
    cancel(yard, [first])
    yard.end([second], "succeeded")
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).succeeded) == ("done", 5)


def test_fully_canceled_canary_pauses_operation(yard: Yard):
    yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    cancel(yard, yard.works(operation))
    yard.run(operation)
    paused = yard.shown(operation)
    assert (paused.state, paused.succeeded) == ("paused", 2)
    assert paused.reason == (
        "None of the first 2 retries succeeded: they were canceled or had nothing to do. "
        "Cancel the operation and retry other dead letters."
    )
    assert steer(yard, operation, "cancel").reason is None


def test_canary_counts_only_attempted_items(yard: Yard):
    dead_letters = yard.fail(7)
    operation = yard.request(canary=5)
    actions.ignore(yard.database, yard.tenant_id, ChangeRequest(dead_letters[6], 1, "ann", LATER, "A trial"))
    yard.run(operation)
    last, canceled, _untried, succeeded, deleted = yard.works(operation)
    cancel(yard, [canceled])
    yard.end([succeeded], "succeeded")
    yard.admin.execute("DELETE FROM task WHERE id = %s", [deleted])
    yard.end([last], "failed")
    fail_again(yard, dead_letters[5])
    yard.run(operation)
    ended = yard.shown(operation)
    assert (ended.succeeded, ended.skipped) == (5, 1)
    assert (ended.state, ended.reason) == ("halted", "1 of the first 2 retries failed again.")


ONE = {
    "failed": "The first retry failed again.",
    "pending": "The first retry did not succeed within 45 minutes of attempts. "
    "Check the cause. Resume the operation to wait again, or cancel it.",
    "canceled": "The first retry did not succeed: it was canceled or had nothing to do. "
    "Cancel the operation and retry other dead letters.",
}


@pytest.mark.parametrize(("ending", "reason"), ONE.items(), ids=ONE)
def test_single_item_canary_has_singular_reason(yard: Yard, ending: str, reason: str):
    yard.fail(2)
    operation = yard.request(canary=1)
    yard.run(operation)
    fail_once(yard, operation)
    if ending == "canceled":
        cancel(yard, yard.works(operation))
    else:
        yard.end(yard.works(operation), ending)
    yard.now += bulk.TIMEOUT_SECONDS + timedelta(seconds=1)
    yard.run(operation)
    assert yard.shown(operation).reason == reason


def test_skipped_dead_letters_do_not_count_as_canary(yard: Yard):
    dead_letters = yard.fail(4)
    operation = yard.request(canary=2)
    for dead_letter in dead_letters[2:]:
        actions.ignore(yard.database, yard.tenant_id, ChangeRequest(dead_letter, 1, "ann", LATER, "A trial"))
    yard.run(operation)
    assert yard.results(operation) == dict(
        zip(dead_letters, ["succeeded", "succeeded", "skipped", "skipped"], strict=True)
    )
    assert yard.shown(operation).state == "canary"
