"""Canaries: a bulk retry continues only after its first items succeed."""

from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest

from counterfoil.dead_letters import actions, bulk
from counterfoil.dead_letters.actions import ChangeRequest
from counterfoil.operations import engine
from counterfoil.operations.store import Operation
from tests.dead_letters.bulk_harness import LATER, BulkHarness, control


def fail_again(harness: BulkHarness, job_id: UUID) -> None:
    harness.make_dead_letter(
        worker="tasks", task_type="echo", work_id=harness.work_id_of(job_id), revision=2, minute=90
    )


def fail_once(harness: BulkHarness, operation: Operation) -> None:
    """Count one attempt at each retried work item, which stays pending."""
    harness.admin.execute("UPDATE task SET attempts = 1 WHERE id = ANY(%s)", [harness.work_ids(operation)])


def cancel(harness: BulkHarness, work_ids: list[UUID]) -> None:
    harness.admin.execute(
        "UPDATE task SET status = NULL, canceled_at = now(), ended_at = now() WHERE id = ANY(%s)",
        [work_ids],
    )


def notifications(harness: BulkHarness) -> list[tuple[str, UUID, str]]:
    """Return the notifications about bulk operations, with their reasons."""
    return harness.admin.execute(
        "SELECT worker, job_id, payload ->> 'error' FROM failure_event WHERE worker = 'bulk' ORDER BY created_at"
    ).fetchall()


def test_each_automatic_halt_notifies_once(harness: BulkHarness):
    dead_letters = harness.fail(5)
    operation = harness.request(canary=2)
    harness.run(operation)
    fail_once(harness, operation)
    assert notifications(harness) == []
    expected = []
    for _ in range(2):
        harness.now += timedelta(hours=1)
        harness.run(operation)
        harness.run(operation)
        expected.append(("bulk", operation.id, harness.load(operation).reason))
        assert notifications(harness) == expected
        control(harness, operation, "resume")
    fail_again(harness, dead_letters[-1])
    harness.set_status(harness.work_ids(operation), "failed")
    harness.run(operation)
    expected.append(("bulk", operation.id, harness.load(operation).reason))
    assert (harness.load(operation).state, notifications(harness)) == ("halted", expected)


def test_repeated_notification_of_one_halt_is_dropped(harness: BulkHarness):
    operation = harness.request(canary=2)
    for _ in range(2):
        with harness.database.tenant(harness.tenant_id) as connection:
            engine._notify(connection, operation, operation.reason or "", harness.now)
    assert [job_id for _, job_id, _ in notifications(harness)] == [operation.id]


def test_completion_and_manual_pause_do_not_notify(harness: BulkHarness):
    harness.fail(2)
    operation = harness.request(canary=1)
    control(harness, operation, "pause")
    control(harness, operation, "resume")
    harness.run(operation)
    harness.set_status(harness.work_ids(operation), "succeeded")
    harness.run(operation)
    assert (harness.load(operation).state, notifications(harness)) == ("done", [])


def test_remaining_items_follow_successful_canary(harness: BulkHarness):
    dead_letters = harness.fail(5)
    operation = harness.request(canary=2)
    harness.run(operation)
    assert (harness.load(operation).state, harness.load(operation).succeeded) == ("canary", 2)
    assert {job_id for job_id, status in harness.statuses().items() if status == "retried"} == {*dead_letters[3:]}
    first, second = harness.work_ids(operation)
    harness.set_status([first], "succeeded")
    assert (harness.run(operation), harness.load(operation).state) == ([], "canary")
    harness.set_status([second], "succeeded")
    harness.run(operation)
    assert (harness.load(operation).state, harness.load(operation).succeeded) == ("done", 5)


def test_failed_canary_halts_operation(harness: BulkHarness):
    dead_letters = harness.fail(5)
    operation = harness.request(canary=2)
    harness.run(operation)
    first, second = harness.work_ids(operation)
    harness.set_status([first], "failed")
    harness.set_status([second], "succeeded")
    fail_again(harness, dead_letters[-1])
    harness.now += timedelta(hours=1)
    harness.run(operation)
    stopped = harness.load(operation)
    assert (stopped.state, stopped.reason) == ("halted", "1 of the first 2 retries failed again.")
    assert stopped.ended_at == harness.now
    assert Counter(harness.results(operation).values()) == {"failed": 1, "succeeded": 1, None: 3}
    assert (stopped.failed, stopped.succeeded, stopped.processed) == (1, 1, 2)
    assert harness.step(operation) is None
    assert (harness.audit_entries()[-1].action, harness.audit_entries()[-1].actor) == ("bulk-halted", "bulk")


def test_unfinished_canary_pauses_operation_after_timeout(harness: BulkHarness):
    harness.fail(60)
    operation = harness.request(canary=5)
    harness.run(operation)
    fail_once(harness, operation)
    harness.now += bulk.CANARY_TIMEOUT - timedelta(seconds=1)
    harness.run(operation)
    assert harness.load(operation).state == "canary"
    harness.now += timedelta(seconds=3)
    harness.run(operation)
    paused = harness.load(operation)
    assert (paused.state, paused.succeeded, paused.ended_at) == ("paused", 5, None)
    assert paused.reason == (
        "5 of the first 5 retries did not succeed within 45 minutes of attempts. "
        "Check the cause. Resume the operation to wait again, or cancel it."
    )
    assert (harness.audit_entries()[-1].action, harness.audit_entries()[-1].actor) == ("bulk-pause", "bulk")
    assert harness.step(operation) is None


def test_resume_restarts_canary_timeout(harness: BulkHarness):
    harness.fail(5)
    operation = harness.request(canary=2)
    harness.run(operation)
    fail_once(harness, operation)
    harness.now += timedelta(hours=1)
    harness.run(operation)
    resumed = control(harness, operation, "resume")
    assert (resumed.state, resumed.reason) == ("canary", None)
    harness.now += bulk.CANARY_TIMEOUT - timedelta(seconds=1)
    harness.run(operation)
    assert harness.load(operation).state == "canary"
    harness.now += timedelta(seconds=3)
    harness.run(operation)
    assert harness.load(operation).state == "paused"
    harness.set_status(harness.work_ids(operation), "succeeded")
    control(harness, operation, "resume")
    harness.run(operation)
    assert (harness.load(operation).state, harness.load(operation).succeeded) == ("done", 5)


def test_canary_timeout_starts_with_first_attempt(harness: BulkHarness):
    """Before the first attempt, the queue may be paused or a service unavailable."""
    harness.fail(3)
    operation = harness.request(canary=1)
    harness.run(operation)
    harness.now += timedelta(days=2)
    harness.run(operation)
    assert (harness.load(operation).state, harness.load(operation).succeeded) == ("canary", 1)
    fail_once(harness, operation)
    harness.now += bulk.CANARY_TIMEOUT - timedelta(seconds=1)
    harness.run(operation)
    assert (harness.load(operation).state, harness.load(operation).succeeded) == ("canary", 1)
    harness.set_status(harness.work_ids(operation), "succeeded")
    harness.run(operation)
    assert (harness.load(operation).state, harness.load(operation).succeeded) == ("done", 3)


def test_canceled_canary_items_are_ignored(harness: BulkHarness):
    harness.fail(5)
    operation = harness.request(canary=2)
    harness.run(operation)
    first, second = harness.work_ids(operation)
    cancel(harness, [first])
    harness.set_status([second], "succeeded")
    harness.run(operation)
    assert (harness.load(operation).state, harness.load(operation).succeeded) == ("done", 5)


def test_fully_canceled_canary_pauses_operation(harness: BulkHarness):
    harness.fail(5)
    operation = harness.request(canary=2)
    harness.run(operation)
    cancel(harness, harness.work_ids(operation))
    harness.run(operation)
    paused = harness.load(operation)
    assert (paused.state, paused.succeeded) == ("paused", 2)
    assert paused.reason == (
        "None of the first 2 retries succeeded: they were canceled or had nothing to do. "
        "Cancel the operation and retry other dead letters."
    )
    assert control(harness, operation, "cancel").reason is None


def test_canary_counts_only_attempted_items(harness: BulkHarness):
    dead_letters = harness.fail(7)
    operation = harness.request(canary=5)
    actions.ignore(harness.database, harness.tenant_id, ChangeRequest(dead_letters[6], 1, "ann", LATER, "A trial"))
    harness.run(operation)
    last, canceled, _untried, succeeded, deleted = harness.work_ids(operation)
    cancel(harness, [canceled])
    harness.set_status([succeeded], "succeeded")
    harness.admin.execute("DELETE FROM task WHERE id = %s", [deleted])
    harness.set_status([last], "failed")
    fail_again(harness, dead_letters[5])
    harness.run(operation)
    ended = harness.load(operation)
    assert (ended.succeeded, ended.failed, ended.skipped) == (4, 1, 1)
    assert (ended.state, ended.reason) == ("halted", "1 of the first 2 retries failed again.")


ONE_ITEM_REASONS = {
    "failed": "The first retry failed again.",
    "pending": "The first retry did not succeed within 45 minutes of attempts. "
    "Check the cause. Resume the operation to wait again, or cancel it.",
    "canceled": "The first retry did not succeed: it was canceled or had nothing to do. "
    "Cancel the operation and retry other dead letters.",
}


@pytest.mark.parametrize(("ending", "reason"), ONE_ITEM_REASONS.items(), ids=ONE_ITEM_REASONS)
def test_canary_with_one_item_has_singular_reason(harness: BulkHarness, ending: str, reason: str):
    harness.fail(2)
    operation = harness.request(canary=1)
    harness.run(operation)
    fail_once(harness, operation)
    if ending == "canceled":
        cancel(harness, harness.work_ids(operation))
    else:
        harness.set_status(harness.work_ids(operation), ending)
    harness.now += bulk.CANARY_TIMEOUT + timedelta(seconds=1)
    harness.run(operation)
    assert harness.load(operation).reason == reason


def test_skipped_dead_letters_do_not_count_as_canary(harness: BulkHarness):
    dead_letters = harness.fail(4)
    operation = harness.request(canary=2)
    for dead_letter in dead_letters[2:]:
        actions.ignore(harness.database, harness.tenant_id, ChangeRequest(dead_letter, 1, "ann", LATER, "A trial"))
    harness.run(operation)
    assert harness.results(operation) == dict(
        zip(dead_letters, ["succeeded", "succeeded", "skipped", "skipped"], strict=True)
    )
    assert harness.load(operation).state == "canary"
