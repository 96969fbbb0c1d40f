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
from tests.dead_letters.bulk_harness import LATER, KilledError, Yard, breaking
from tests.dead_letters.dead_letter_factory import NOON
from tests.delivery.harness import rows

# -- results ----------------------------------------------------------------------------------------------------------


def test_bulk_retry_enqueues_all_pending_dead_letters(yard: Yard):
    dead_letters = yard.fail(3)
    operation = yard.request()
    sends = yard.run(operation)

    ended = yard.shown(operation)
    assert (ended.state, ended.selected, ended.succeeded, ended.ended_at) == ("done", 3, 3, LATER)
    assert yard.statuses() == dict.fromkeys(dead_letters, "retried")
    assert [(row["revision"], row["send_number"]) for row in yard.owed()] == [(2, 0)] * 3
    assert {send.message.work_id for send in sends} == set(yard.works(operation))
    assert {row["status"] for row in rows(yard.admin, "task")} == {"pending"}
    assert [(item.number, item.job_id, item.result, item.version, item.revision) for item in yard.items(operation)] == [
        (number + 1, dead_letter, "succeeded", 2, 2) for number, dead_letter in enumerate(reversed(dead_letters))
    ]


@pytest.mark.parametrize("before", [32_767, 2_000_000])
def test_large_item_numbers_are_supported(yard: Yard, before: int):
    dead_letters = yard.fail(3)
    operation = yard.request()
    yard.admin.execute("UPDATE operation_item SET number = number + %s", [before])
    yard.admin.execute(
        "UPDATE operation SET selected = selected + %(before)s, processed = %(before)s, succeeded = %(before)s",
        {"before": before},
    )
    yard.run(operation)

    assert (yard.shown(operation).state, yard.shown(operation).succeeded) == ("done", before + 3)
    assert yard.statuses() == dict.fromkeys(dead_letters, "retried")


@pytest.mark.parametrize(("action", "status"), [("resolve", "resolved"), ("ignore", "ignored")])
def test_closing_stores_note_and_leaves_work_items(yard: Yard, action: Any, status: str):
    dead_letters = yard.fail(2)
    yard.run(yard.request(action, note="Paid by hand"))

    assert yard.statuses() == dict.fromkeys(dead_letters, status)
    for row in rows(yard.admin, "dead_letter"):
        assert (row["resolution"], row["resolved_by"]) == ({"action": status, "notes": "Paid by hand"}, "kim")
    assert yard.owed() == []
    assert {row["status"] for row in rows(yard.admin, "task")} == {"failed"}


def test_dead_letter_history_names_operation(yard: Yard):
    (dead_letter,) = yard.fail()
    operation = yard.request()
    yard.run(operation)

    last = rows(yard.admin, "dead_letter_audit")[-1]
    assert (last["job_id"], last["action"], last["actor"]) == (str(dead_letter), "retried", "kim")
    assert last["detail"] == {"revision": 1, "version": 2, "operation": str(operation.id)}


# -- concurrent changes -----------------------------------------------------------------------------------------------


def test_concurrently_closed_dead_letters_are_skipped(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk, "BATCH_SIZE", 2)
    first, second, third, fourth = yard.fail(4)
    operation = yard.request()
    for dead_letter in (first, fourth):
        actions.resolve(yard.database, yard.tenant_id, ChangeRequest(dead_letter, 1, "ann", LATER, "By hand"))
    yard.run(operation)
    assert yard.results(operation) == {first: "skipped", second: "succeeded", third: "succeeded", fourth: "skipped"}
    reasons = {item.job_id: (item.reason, item.version) for item in yard.items(operation)}
    assert reasons[first] == reasons[fourth] == ("It is already resolved.", 2)
    assert {row["resolved_by"] for row in rows(yard.admin, "dead_letter") if row["status"] == "resolved"} == {"ann"}
    ended = yard.shown(operation)
    assert (ended.succeeded, ended.failed, ended.skipped) == (2, 0, 2)


def test_renewed_and_deleted_dead_letters_are_skipped(yard: Yard):
    renewed, deleted, unchanged = yard.fail(3)
    operation = yard.request()
    yard.admin.execute("UPDATE dead_letter SET dlq_timestamp = %s WHERE job_id = %s", [LATER, renewed])
    yard.admin.execute("DELETE FROM dead_letter WHERE job_id = %s", [deleted])
    yard.run(operation)
    assert yard.results(operation) == {renewed: "skipped", deleted: "skipped", unchanged: "succeeded"}
    assert [item.reason for item in yard.items(operation)] == [
        None,
        "There is no such dead letter.",
        "It failed after the request.",
    ]


def test_unretriable_work_items_are_reported_as_failed(yard: Yard):
    for _ in range(2):
        yard.fail()
    restarted, good = yard.fail(2, first=5)
    (deleted,) = yard.fail(first=9)
    yard.admin.execute("UPDATE task SET status = 'pending', revision = 2 WHERE id = (%s)", [yard.work_of(restarted)])
    yard.admin.execute("DELETE FROM task WHERE id = %s", [yard.work_of(deleted)])
    operation = yard.request(from_date=NOON + timedelta(minutes=5))
    yard.run(operation)
    assert yard.results(operation) == {restarted: "failed", good: "succeeded", deleted: "failed"}
    assert {item.reason for item in yard.items(operation)} == {
        None,
        "The work item was restarted and is pending.",
        "Its work item no longer exists. Resolve or ignore the dead letter.",
    }
    assert (yard.statuses()[restarted], yard.statuses()[deleted]) == ("pending", "pending")


def test_bulk_retry_uses_edited_payload(yard: Yard):
    edited, plain = yard.fail(2)
    yard.admin.execute(
        """UPDATE dead_letter SET edited_payload = '{"say": "fixed"}', edit_metadata = '{}' WHERE job_id = %s""",
        [edited],
    )
    operation = yard.request()
    yard.run(operation)
    assert yard.results(operation) == {edited: "succeeded", plain: "succeeded"}
    payloads = {row["id"]: row["payload"] for row in rows(yard.admin, "task")}
    assert payloads[str(yard.work_of(edited))] == {"say": "fixed"}


def test_invalid_edited_payload_fails_alone(yard: Yard):
    edited, plain = yard.fail(2)
    yard.admin.execute("UPDATE dead_letter SET edited_payload = '{}', edit_metadata = '{}' WHERE job_id = %s", [edited])
    yard.admin.execute("UPDATE task SET task_type = 'no_more' WHERE id = %s", [yard.work_of(edited)])
    operation = yard.request()
    yard.run(operation)
    assert yard.results(operation) == {edited: "failed", plain: "succeeded"}


class Bucket:
    """Fake S3 that stores objects, or is unavailable."""

    def __init__(self) -> None:
        self.put: dict[str, bytes] = {}
        self.is_unavailable = False

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: Any) -> None:  # noqa: N803
        if self.is_unavailable:
            raise ServiceUnavailableError("unavailable")
        self.put[Key] = Body


def test_bucket_outage_delays_large_edited_payload(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    bucket = Bucket()
    monkeypatch.setattr(aws, "client", lambda service: {"s3": bucket}[service])
    (edited,) = yard.fail()
    large = """UPDATE dead_letter SET edit_metadata = '{}',
               edited_payload = jsonb_build_object('say', repeat('x', 120000)) WHERE job_id = %s"""
    yard.admin.execute(large, [edited])
    operation = yard.request()
    bucket.is_unavailable = True
    with pytest.raises(ServiceUnavailableError):
        yard.step(operation, bucket="uploads")
    assert yard.shown(operation).processed == 0
    bucket.is_unavailable = False
    yard.run(operation, bucket="uploads")
    assert yard.results(operation) == {edited: "succeeded"}
    (task,) = rows(yard.admin, "task")
    assert (task["payload"], task["payload_s3_key"]) == (None, *bucket.put)


def make_unreadable(yard: Yard) -> UUID:
    """Create a dead letter of a message without a work item."""
    job_id = uuid4()
    dead_letter = DeadLetter(
        job_id=job_id,
        tenant_id=yard.tenant_id,
        worker="tasks",
        message=None,
        payload={"encoding": "text", "body": "{not json"},
        attempts=0,
        failure=FailureDetails("non_retriable_error", "InvalidMessageError", "no JSON", 3, "tasks"),
        created_at=NOON,
    )
    with yard.database.tenant(yard.tenant_id) as connection:
        write_dead_letter(connection, dead_letter, NOON)
    return job_id


def test_unreadable_message_is_retried_unchanged(yard: Yard):
    job_id = make_unreadable(yard)
    operation = yard.request()
    (enqueued,) = yard.run(operation)
    assert (enqueued.body, yard.results(operation)) == ("{not json", {job_id: "succeeded"})


# -- rate -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1, 3])
def test_rate_holds_over_uneven_runs(yard: Yard, rate: int):
    yard.fail(200 * rate, every=0.01)
    operation = yard.request(rate=rate)
    due = []
    for seconds in (57, 70, 60, 61):
        due += [(send.scheduled_at - LATER).total_seconds() for send in yard.run(operation, at_once=50)]
        yard.now += timedelta(seconds=seconds)
    assert Counter(int(moment) for moment in due) == dict.fromkeys(range(200), rate)


def test_individually_retried_items_share_the_rate(yard: Yard):
    edited, plain = yard.fail(20), yard.fail(20, first=30)
    yard.admin.execute(
        """UPDATE dead_letter SET edited_payload = '{"say": "fixed"}', edit_metadata = '{}' WHERE job_id = ANY(%s)""",
        [edited],
    )
    yard.admin.execute("UPDATE task SET task_type = 'no_more' WHERE id = %s", [yard.work_of(edited[7])])
    bodies = [make_unreadable(yard) for _ in range(20)]
    operation = yard.request(rate=1)
    sends = yard.run(operation, at_once=25)
    results = dict.fromkeys((*edited, *plain, *bodies), "succeeded") | {edited[7]: "failed"}
    assert yard.results(operation) == results
    assert Counter((send.scheduled_at - LATER).total_seconds() for send in sends) == dict.fromkeys(range(59), 1)
    assert {row["scheduled_at"] for row in yard.owed()} == {send.scheduled_at.isoformat() for send in sends}


def test_run_starts_only_items_due_before_next(yard: Yard):
    yard.fail(100, every=0.1)
    operation = yard.request(rate=1)
    counts = []
    for _ in range(3):
        counts.append(len(yard.run(operation)))
        yard.now += timedelta(minutes=1)
    assert counts == [75, 25, 0]
    assert yard.shown(operation).state == "done"


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
    count, start = engine.allowance(rate, timedelta(seconds=1), LATER, now)
    assert (count, start) == (expected, max(LATER, now))


# -- failures ---------------------------------------------------------------------------------------------------------


def test_killed_step_leaves_one_result_per_item(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk, "BATCH_SIZE", 3)
    killed = 0
    for at in range(1, 200):
        dead_letters = yard.fail(4)
        actions.ignore(yard.database, yard.tenant_id, ChangeRequest(dead_letters[0], 1, "ann", NOON, "A trial"))
        operation = yard.request(job_ids=dead_letters) if at % 2 else yard.request()
        selected = dead_letters if at % 2 else dead_letters[1:]
        try:
            with breaking(at, monkeypatch) as seen:
                yard.run(operation, at_once=2)
        except KilledError:
            killed += 1
        else:
            assert seen() < at
            break
        _check_sums(yard, operation)
        yard.run(operation, at_once=2)
        _check_sums(yard, operation)
        assert yard.shown(operation).state == "done"
        assert {item.job_id: item.result for item in yard.items(operation)} == {
            dead_letter: "skipped" if dead_letter == dead_letters[0] else "succeeded" for dead_letter in selected
        }
        enqueued = yard.owed()
        assert (len(enqueued), {row["revision"] for row in enqueued}) == (3, {2})
        for table in ("outbox", "dead_letter", "task"):
            yard.admin.execute(f"DELETE FROM {table}".encode())
    assert killed > 30


def _check_sums(yard: Yard, operation: Operation) -> None:
    """Check that the operation matches its items, dead letters and the outbox."""
    shown, results = yard.shown(operation), Counter(yard.results(operation).values())
    assert (shown.succeeded, shown.failed, shown.skipped) == (
        results["succeeded"],
        results["failed"],
        results["skipped"],
    )
    assert shown.selected == results.total()
    assert len(yard.owed()) == shown.succeeded
    assert Counter(yard.statuses().values())["retried"] == shown.succeeded


def test_concurrent_steps_share_dead_letters(yard: Yard):
    dead_letters = yard.fail(60)
    operations = [yard.request(), yard.request(), yard.request("resolve", note="Mended")]

    def step_all(seed: int) -> None:
        order = random.Random(seed)
        while any(yard.shown(operation).ended_at is None for operation in operations):
            yard.step(order.choice(operations), at_once=order.choice([1, 3, 7]))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(step_all, range(3)))
    done = [
        dead_letter
        for operation in operations
        for dead_letter, result in yard.results(operation).items()
        if result == "succeeded"
    ]
    assert sorted(done) == sorted(dead_letters)
    for operation in operations:
        assert set(yard.results(operation)) == set(dead_letters)
        assert None not in yard.results(operation).values()
    retried = Counter(yard.statuses().values())["retried"]
    assert len({row["work_id"] for row in yard.owed()}) == len(yard.owed()) == retried
