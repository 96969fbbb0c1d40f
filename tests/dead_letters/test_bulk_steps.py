"""Steps of bulk operations: one result per dead letter, at the requested rate."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil import aws
from counterfoil.dead_letters import actions, bulk
from counterfoil.dead_letters.actions import ChangeRequest
from counterfoil.delivery.dead_letter import DeadLetter, FailureDetails, write_dead_letter
from counterfoil.errors import ServiceUnavailableError
from counterfoil.operations import engine
from counterfoil.operations.store import Operation
from tests.dead_letters.bulk_harness import LATER, BulkHarness, KilledError, kill_at
from tests.dead_letters.dead_letter_factory import NOON
from tests.delivery.harness import rows

# -- results ----------------------------------------------------------------------------------------------------------


def test_bulk_retry_retries_all_pending_dead_letters(harness: BulkHarness):
    dead_letters = harness.fail(3)
    operation = harness.request()
    messages = harness.run(operation)

    finished = harness.load(operation)
    assert (finished.state, finished.selected, finished.succeeded, finished.ended_at) == ("done", 3, 3, LATER)
    assert harness.statuses() == dict.fromkeys(dead_letters, "retried")
    assert [(row["revision"], row["send_number"]) for row in harness.outbox_rows()] == [(2, 0)] * 3
    assert {send.message.work_id for send in messages} == set(harness.work_ids(operation))
    assert {row["status"] for row in rows(harness.admin, "task")} == {"pending"}
    assert [
        (item.number, item.job_id, item.result, item.version, item.revision) for item in harness.items(operation)
    ] == [(number + 1, dead_letter, "succeeded", 2, 2) for number, dead_letter in enumerate(reversed(dead_letters))]


@pytest.mark.parametrize("before", [32_767, 2_000_000])
def test_large_item_numbers_are_supported(harness: BulkHarness, before: int):
    dead_letters = harness.fail(3)
    operation = harness.request()
    harness.admin.execute("UPDATE operation_item SET number = number + %s", [before])
    harness.admin.execute(
        "UPDATE operation SET selected = selected + %(before)s, processed = %(before)s, succeeded = %(before)s",
        {"before": before},
    )
    harness.run(operation)

    assert (harness.load(operation).state, harness.load(operation).succeeded) == ("done", before + 3)
    assert harness.statuses() == dict.fromkeys(dead_letters, "retried")


@pytest.mark.parametrize(("action", "status"), [("resolve", "resolved"), ("ignore", "ignored")])
def test_closing_stores_note_and_leaves_work_items_unchanged(harness: BulkHarness, action: Any, status: str):
    dead_letters = harness.fail(2)
    harness.run(harness.request(action, note="Paid by hand"))

    assert harness.statuses() == dict.fromkeys(dead_letters, status)
    for row in rows(harness.admin, "dead_letter"):
        assert (row["resolution"], row["resolved_by"]) == ({"action": status, "notes": "Paid by hand"}, "kim")
    assert harness.outbox_rows() == []
    assert {row["status"] for row in rows(harness.admin, "task")} == {"failed"}


def test_dead_letter_history_names_operation(harness: BulkHarness):
    (dead_letter,) = harness.fail()
    operation = harness.request()
    harness.run(operation)

    last = rows(harness.admin, "dead_letter_audit")[-1]
    assert (last["job_id"], last["action"], last["actor"]) == (str(dead_letter), "retried", "kim")
    assert last["detail"] == {"revision": 1, "version": 2, "operation": str(operation.id)}


# -- concurrent changes -----------------------------------------------------------------------------------------------


def test_concurrently_closed_dead_letters_are_skipped(harness: BulkHarness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk, "BATCH_SIZE", 2)
    first, second, third, fourth = harness.fail(4)
    operation = harness.request()
    for dead_letter in (first, fourth):
        actions.resolve(harness.database, harness.tenant_id, ChangeRequest(dead_letter, 1, "ann", LATER, "By hand"))
    harness.run(operation)
    assert harness.results(operation) == {first: "skipped", second: "succeeded", third: "succeeded", fourth: "skipped"}
    reasons = {item.job_id: (item.reason, item.version) for item in harness.items(operation)}
    assert reasons[first] == reasons[fourth] == ("It is already resolved.", 2)
    assert {row["resolved_by"] for row in rows(harness.admin, "dead_letter") if row["status"] == "resolved"} == {"ann"}
    finished = harness.load(operation)
    assert (finished.succeeded, finished.failed, finished.skipped) == (2, 0, 2)


def test_reopened_and_deleted_dead_letters_are_skipped(harness: BulkHarness):
    renewed, deleted, unchanged = harness.fail(3)
    operation = harness.request()
    harness.admin.execute("UPDATE dead_letter SET dlq_timestamp = %s WHERE job_id = %s", [LATER, renewed])
    harness.admin.execute("DELETE FROM dead_letter WHERE job_id = %s", [deleted])
    harness.run(operation)
    assert harness.results(operation) == {renewed: "skipped", deleted: "skipped", unchanged: "succeeded"}
    assert [item.reason for item in harness.items(operation)] == [
        None,
        "There is no such dead letter.",
        "It failed after the request.",
    ]


def test_items_without_failed_work_item_fail(harness: BulkHarness):
    for _ in range(2):
        harness.fail()
    restarted, retriable = harness.fail(2, first=5)
    (deleted,) = harness.fail(first=9)
    harness.admin.execute(
        "UPDATE task SET status = 'pending', revision = 2 WHERE id = (%s)", [harness.work_id_of(restarted)]
    )
    harness.admin.execute("DELETE FROM task WHERE id = %s", [harness.work_id_of(deleted)])
    operation = harness.request(from_date=NOON + timedelta(minutes=5))
    harness.run(operation)
    assert harness.results(operation) == {restarted: "failed", retriable: "succeeded", deleted: "failed"}
    assert {item.reason for item in harness.items(operation)} == {
        None,
        "The work item was restarted and is pending.",
        "Its work item no longer exists. Resolve or ignore the dead letter.",
    }
    assert (harness.statuses()[restarted], harness.statuses()[deleted]) == ("pending", "pending")


def test_bulk_retry_uses_edited_payload(harness: BulkHarness):
    edited, unedited = harness.fail(2)
    harness.admin.execute(
        """UPDATE dead_letter SET edited_payload = '{"say": "fixed"}', edit_metadata = '{}' WHERE job_id = %s""",
        [edited],
    )
    operation = harness.request()
    harness.run(operation)
    assert harness.results(operation) == {edited: "succeeded", unedited: "succeeded"}
    payloads = {row["id"]: row["payload"] for row in rows(harness.admin, "task")}
    assert payloads[str(harness.work_id_of(edited))] == {"say": "fixed"}


def test_only_item_with_removed_task_type_fails(harness: BulkHarness):
    edited, unedited = harness.fail(2)
    harness.admin.execute(
        "UPDATE dead_letter SET edited_payload = '{}', edit_metadata = '{}' WHERE job_id = %s", [edited]
    )
    harness.admin.execute("UPDATE task SET task_type = 'no_more' WHERE id = %s", [harness.work_id_of(edited)])
    operation = harness.request()
    harness.run(operation)
    assert harness.results(operation) == {edited: "failed", unedited: "succeeded"}


class Bucket:
    """Fake S3 that stores objects, unless it is unavailable."""

    def __init__(self) -> None:
        self.put: dict[str, bytes] = {}
        self.is_unavailable = False

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: Any) -> None:  # noqa: N803
        if self.is_unavailable:
            raise ServiceUnavailableError("unavailable")
        self.put[Key] = Body


def test_bucket_outage_delays_retry_of_large_payload(harness: BulkHarness, monkeypatch: pytest.MonkeyPatch):
    bucket = Bucket()
    monkeypatch.setattr(aws, "client", lambda service: {"s3": bucket}[service])
    (edited,) = harness.fail()
    large = """UPDATE dead_letter SET edit_metadata = '{}',
               edited_payload = jsonb_build_object('say', repeat('x', 120000)) WHERE job_id = %s"""
    harness.admin.execute(large, [edited])
    operation = harness.request()
    bucket.is_unavailable = True
    with pytest.raises(ServiceUnavailableError):
        harness.step(operation, bucket="uploads")
    assert harness.load(operation).processed == 0
    bucket.is_unavailable = False
    harness.run(operation, bucket="uploads")
    assert harness.results(operation) == {edited: "succeeded"}
    (task,) = rows(harness.admin, "task")
    assert (task["payload"], task["payload_s3_key"]) == (None, *bucket.put)


def make_unreadable(harness: BulkHarness) -> UUID:
    """Create a dead letter for a message without a work item."""
    job_id = uuid4()
    dead_letter = DeadLetter(
        job_id=job_id,
        tenant_id=harness.tenant_id,
        worker="tasks",
        message=None,
        payload={"encoding": "text", "body": "{not json"},
        attempts=0,
        failure=FailureDetails("non_retriable_error", "InvalidMessageError", "no JSON", 3, "tasks"),
        created_at=NOON,
    )
    with harness.database.tenant(harness.tenant_id) as connection:
        write_dead_letter(connection, dead_letter, NOON)
    return job_id


def test_unreadable_message_is_retried_unchanged(harness: BulkHarness):
    job_id = make_unreadable(harness)
    operation = harness.request()
    (enqueued,) = harness.run(operation)
    assert (enqueued.body, harness.results(operation)) == ("{not json", {job_id: "succeeded"})


# -- rate -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1, 3])
def test_uneven_run_intervals_do_not_change_rate(harness: BulkHarness, rate: int):
    harness.fail(200 * rate, interval=0.01)
    operation = harness.request(rate=rate)
    due_seconds = []
    for seconds in (57, 70, 60, 61):
        due_seconds += [(send.scheduled_at - LATER).total_seconds() for send in harness.run(operation, batch_size=50)]
        harness.now += timedelta(seconds=seconds)
    assert Counter(int(second) for second in due_seconds) == dict.fromkeys(range(200), rate)


def test_individually_retried_items_share_the_rate(harness: BulkHarness):
    edited, unedited = harness.fail(20), harness.fail(20, first=30)
    harness.admin.execute(
        """UPDATE dead_letter SET edited_payload = '{"say": "fixed"}', edit_metadata = '{}' WHERE job_id = ANY(%s)""",
        [edited],
    )
    harness.admin.execute("UPDATE task SET task_type = 'no_more' WHERE id = %s", [harness.work_id_of(edited[7])])
    bodies = [make_unreadable(harness) for _ in range(20)]
    operation = harness.request(rate=1)
    messages = harness.run(operation, batch_size=25)
    results = dict.fromkeys((*edited, *unedited, *bodies), "succeeded") | {edited[7]: "failed"}
    assert harness.results(operation) == results
    assert Counter((send.scheduled_at - LATER).total_seconds() for send in messages) == dict.fromkeys(range(59), 1)
    assert {row["scheduled_at"] for row in harness.outbox_rows()} == {
        send.scheduled_at.isoformat() for send in messages
    }


def test_run_starts_only_items_due_within_lookahead(harness: BulkHarness):
    harness.fail(100, interval=0.1)
    operation = harness.request(rate=1)
    counts = []
    for _ in range(3):
        counts.append(len(harness.run(operation)))
        harness.now += timedelta(minutes=1)
    assert counts == [75, 25, 0]
    assert harness.load(operation).state == "done"


@pytest.mark.parametrize(
    ("rate", "seconds", "expected"),
    [
        pytest.param(500, 0, 37_500, id="the highest rate"),
        pytest.param(1, 75, 75, id="a late run"),
        pytest.param(1, 3600, 75, id="missed time is not caught up"),
        pytest.param(1, -75, 0, id="already ahead of schedule"),
        pytest.param(2, -60, 30, id="a run on time"),
        pytest.param(7, -3600, 0, id="clock set back"),
    ],
)
def test_number_of_due_items_follows_rate(rate: int, seconds: float, expected: int):
    now = LATER + timedelta(seconds=seconds)
    count, start = engine.permitted_items(rate, timedelta(seconds=1), LATER, now)
    assert (count, start) == (expected, max(LATER, now))


# -- failures ---------------------------------------------------------------------------------------------------------


def test_killed_step_is_completed_without_duplicates(harness: BulkHarness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk, "BATCH_SIZE", 3)
    kills = 0
    for number in range(1, 200):
        dead_letters = harness.fail(4)
        actions.ignore(harness.database, harness.tenant_id, ChangeRequest(dead_letters[0], 1, "ann", NOON, "A trial"))
        operation = harness.request(job_ids=dead_letters) if number % 2 else harness.request()
        selected = dead_letters if number % 2 else dead_letters[1:]
        try:
            with kill_at(number, monkeypatch) as statement_count:
                harness.run(operation, batch_size=2)
        except KilledError:
            kills += 1
        else:
            assert statement_count() < number
            break
        _check_sums(harness, operation)
        harness.run(operation, batch_size=2)
        _check_sums(harness, operation)
        assert harness.load(operation).state == "done"
        assert {item.job_id: item.result for item in harness.items(operation)} == {
            dead_letter: "skipped" if dead_letter == dead_letters[0] else "succeeded" for dead_letter in selected
        }
        messages = harness.outbox_rows()
        assert (len(messages), {row["revision"] for row in messages}) == (3, {2})
        for table in ("outbox", "dead_letter", "task"):
            harness.admin.execute(f"DELETE FROM {table}".encode())
    assert kills > 30


def _check_sums(harness: BulkHarness, operation: Operation) -> None:
    """Assert that the operation's counts match items, dead letters and the outbox."""
    stored, results = harness.load(operation), Counter(harness.results(operation).values())
    assert (stored.succeeded, stored.failed, stored.skipped) == (
        results["succeeded"],
        results["failed"],
        results["skipped"],
    )
    assert stored.selected == results.total()
    assert len(harness.outbox_rows()) == stored.succeeded
    assert Counter(harness.statuses().values())["retried"] == stored.succeeded


def test_concurrent_steps_process_each_dead_letter_once(harness: BulkHarness):
    dead_letters = harness.fail(60)
    operations = [harness.request(), harness.request(), harness.request("resolve", note="Mended")]

    def run_all_steps(seed: int) -> None:
        order = random.Random(seed)
        while any(harness.load(operation).ended_at is None for operation in operations):
            harness.step(order.choice(operations), batch_size=order.choice([1, 3, 7]))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run_all_steps, range(3)))
    steps = [
        dead_letter
        for operation in operations
        for dead_letter, result in harness.results(operation).items()
        if result == "succeeded"
    ]
    assert sorted(steps) == sorted(dead_letters)
    for operation in operations:
        assert set(harness.results(operation)) == set(dead_letters)
        assert None not in harness.results(operation).values()
    retried = Counter(harness.statuses().values())["retried"]
    assert len({row["work_id"] for row in harness.outbox_rows()}) == len(harness.outbox_rows()) == retried
