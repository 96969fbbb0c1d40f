"""Steps of an operation on many dead letters: each letter gets one result, whatever happens, and none too soon."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil import aws
from counterfoil.dead_letters import actions, bulk
from counterfoil.dead_letters.actions import Wish
from counterfoil.delivery.dead_letter import DeadLetter, Failure, write_dead_letter
from counterfoil.errors import ServiceUnavailableError
from counterfoil.operations import engine
from counterfoil.operations.store import Operation
from tests.dead_letters.bulking import LATER, KilledError, Yard, breaking
from tests.dead_letters.letters import NOON
from tests.delivery.harness import rows

# -- what is done -----------------------------------------------------------------------------------------------------


def test_all_pending_letters_are_tried_again_and_their_messages_owed(yard: Yard):
    letters = yard.fail(3)
    operation = yard.request()
    sends = yard.run(operation)

    ended = yard.shown(operation)
    assert (ended.state, ended.selected, ended.done, ended.ended_at) == ("done", 3, 3, LATER)
    assert yard.statuses() == dict.fromkeys(letters, "retried")
    assert [(row["revision"], row["send_number"]) for row in yard.owed()] == [(2, 0)] * 3
    assert {send.message.work_id for send in sends} == set(yard.works(operation))
    assert {row["status"] for row in rows(yard.admin, "task")} == {"pending"}
    assert [(item.number, item.job_id, item.result, item.version, item.revision) for item in yard.items(operation)] == [
        (number + 1, letter, "done", 2, 2) for number, letter in enumerate(reversed(letters))
    ]


@pytest.mark.parametrize("before", [32_767, 2_000_000])
def test_an_operation_is_as_long_as_it_is(yard: Yard, before: int):
    letters = yard.fail(3)
    operation = yard.request()
    yard.admin.execute("UPDATE operation_item SET number = number + %s", [before])
    yard.admin.execute(
        "UPDATE operation SET selected = selected + %(before)s, handled = %(before)s, done = %(before)s",
        {"before": before},
    )
    yard.run(operation)

    assert (yard.shown(operation).state, yard.shown(operation).done) == ("done", before + 3)
    assert yard.statuses() == dict.fromkeys(letters, "retried")


@pytest.mark.parametrize(("action", "status"), [("resolve", "resolved"), ("ignore", "ignored")])
def test_letters_are_settled_with_the_note_and_their_work_is_left(yard: Yard, action: Any, status: str):
    letters = yard.fail(2)
    yard.run(yard.request(action, note="Paid by hand"))

    assert yard.statuses() == dict.fromkeys(letters, status)
    for row in rows(yard.admin, "dead_letter"):
        assert (row["resolution"], row["resolved_by"]) == ({"action": status, "notes": "Paid by hand"}, "kim")
    assert yard.owed() == []
    assert {row["status"] for row in rows(yard.admin, "task")} == {"failed"}


def test_a_letter_s_own_history_names_the_operation(yard: Yard):
    (letter,) = yard.fail()
    operation = yard.request()
    yard.run(operation)

    last = rows(yard.admin, "dead_letter_audit")[-1]
    assert (last["job_id"], last["action"], last["actor"]) == (str(letter), "retried", "kim")
    assert last["detail"] == {"revision": 1, "version": 2, "operation": str(operation.id)}


# -- what happens meanwhile -------------------------------------------------------------------------------------------


def test_what_a_person_settles_meanwhile_is_skipped_even_before_it_was_selected(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "AT_ONCE", 2)
    first, second, third, fourth = yard.fail(4)
    operation = yard.request()
    for letter in (first, fourth):
        actions.resolve(yard.database, yard.tenant_id, Wish(letter, 1, "ann", LATER, "By hand"))
    yard.run(operation)
    assert yard.results(operation) == {first: "skipped", second: "done", third: "done", fourth: "skipped"}
    told = {item.job_id: (item.reason, item.version) for item in yard.items(operation)}
    assert told[first] == told[fourth] == ("It is resolved already.", 2)
    assert {row["resolved_by"] for row in rows(yard.admin, "dead_letter") if row["status"] == "resolved"} == {"ann"}
    ended = yard.shown(operation)
    assert (ended.done, ended.failed, ended.skipped) == (2, 0, 2)


def test_what_died_again_meanwhile_or_is_gone_is_skipped(yard: Yard):
    again, gone, there = yard.fail(3)
    operation = yard.request()
    yard.admin.execute("UPDATE dead_letter SET dlq_timestamp = %s WHERE job_id = %s", [LATER, again])
    yard.admin.execute("DELETE FROM dead_letter WHERE job_id = %s", [gone])
    yard.run(operation)
    assert yard.results(operation) == {again: "skipped", gone: "skipped", there: "done"}
    assert [item.reason for item in yard.items(operation)] == [
        None,
        "There is no such dead letter.",
        "It died after the request.",
    ]


def test_work_that_has_not_failed_any_more_is_told_as_failed_and_left(yard: Yard):
    for _ in range(2):
        yard.fail()
    begun, good = yard.fail(2, first=5)
    (gone,) = yard.fail(first=9)
    yard.admin.execute("UPDATE task SET status = 'pending', revision = 2 WHERE id = (%s)", [yard.work_of(begun)])
    yard.admin.execute("DELETE FROM task WHERE id = %s", [yard.work_of(gone)])
    operation = yard.request(from_date=NOON + timedelta(minutes=5))
    yard.run(operation)
    assert yard.results(operation) == {begun: "failed", good: "done", gone: "failed"}
    assert {item.reason for item in yard.items(operation)} == {
        None,
        "The work was begun anew meanwhile, and waits to be tried.",
        "What the dead letter is about is gone: resolve or ignore it.",
    }
    assert (yard.statuses()[begun], yard.statuses()[gone]) == ("pending", "pending")


def test_an_edited_payload_is_what_its_task_gets(yard: Yard):
    edited, plain = yard.fail(2)
    yard.admin.execute(
        """UPDATE dead_letter SET edited_payload = '{"say": "mended"}', edit = '{}' WHERE job_id = %s""", [edited]
    )
    operation = yard.request()
    yard.run(operation)
    assert yard.results(operation) == {edited: "done", plain: "done"}
    payloads = {row["id"]: row["payload"] for row in rows(yard.admin, "task")}
    assert payloads[str(yard.work_of(edited))] == {"say": "mended"}


def test_an_edited_payload_that_its_type_does_not_take_any_more_fails_alone(yard: Yard):
    edited, plain = yard.fail(2)
    yard.admin.execute("UPDATE dead_letter SET edited_payload = '{}', edit = '{}' WHERE job_id = %s", [edited])
    yard.admin.execute("UPDATE task SET task_type = 'no_more' WHERE id = %s", [yard.work_of(edited)])
    operation = yard.request()
    yard.run(operation)
    assert yard.results(operation) == {edited: "failed", plain: "done"}


class Bucket:
    """S3 that keeps what is put, or is away."""

    def __init__(self) -> None:
        self.put: dict[str, bytes] = {}
        self.is_away = False

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: Any) -> None:  # noqa: N803
        if self.is_away:
            raise ServiceUnavailableError("away")
        self.put[Key] = Body


def test_a_large_edited_payload_lies_in_the_bucket_and_nothing_happens_while_that_is_away(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    bucket = Bucket()
    monkeypatch.setattr(aws, "client", lambda service: {"s3": bucket}[service])
    (edited,) = yard.fail()
    large = """UPDATE dead_letter SET edit = '{}',
               edited_payload = jsonb_build_object('say', repeat('x', 120000)) WHERE job_id = %s"""
    yard.admin.execute(large, [edited])
    operation = yard.request()
    bucket.is_away = True
    with pytest.raises(ServiceUnavailableError):
        yard.step(operation, bucket="uploads")
    assert yard.shown(operation).handled == 0
    bucket.is_away = False
    yard.run(operation, bucket="uploads")
    assert yard.results(operation) == {edited: "done"}
    (task,) = rows(yard.admin, "task")
    assert (task["payload"], task["payload_key"]) == (None, *bucket.put)


def of_no_work(yard: Yard) -> UUID:
    """The letter of a message that named no work."""
    job_id = uuid4()
    letter = DeadLetter(
        job_id=job_id,
        tenant_id=yard.tenant_id,
        worker="tasks",
        message=None,
        payload={"encoding": "text", "body": "{not json"},
        attempts=0,
        failure=Failure("non_retriable_error", "InvalidMessageError", "no JSON", 3, "tasks"),
        created_at=NOON,
    )
    with yard.database.tenant(yard.tenant_id) as connection:
        write_dead_letter(connection, letter, NOON)
    return job_id


def test_a_message_that_named_no_work_is_sent_again_as_it_was(yard: Yard):
    job_id = of_no_work(yard)
    operation = yard.request()
    (owed,) = yard.run(operation)
    assert (owed.body, yard.results(operation)) == ("{not json", {job_id: "done"})


# -- the rate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1, 3])
def test_over_many_uneven_rounds_no_second_has_more_than_the_rate_and_no_time_is_lost(yard: Yard, rate: int):
    yard.fail(200 * rate, every=0.01)
    operation = yard.request(rate=rate)
    due = []
    for seconds in (57, 70, 60, 61):
        due += [(send.not_before - LATER).total_seconds() for send in yard.run(operation, at_once=50)]
        yard.now += timedelta(seconds=seconds)
    assert Counter(int(moment) for moment in due) == dict.fromkeys(range(200), rate)


def test_what_is_done_one_by_one_has_its_turn_as_the_others_have(yard: Yard):
    edited, plain = yard.fail(20), yard.fail(20, first=30)
    yard.admin.execute(
        """UPDATE dead_letter SET edited_payload = '{"say": "mended"}', edit = '{}' WHERE job_id = ANY(%s)""", [edited]
    )
    yard.admin.execute("UPDATE task SET task_type = 'no_more' WHERE id = %s", [yard.work_of(edited[7])])
    bodies = [of_no_work(yard) for _ in range(20)]
    operation = yard.request(rate=1)
    sends = yard.run(operation, at_once=25)
    results = dict.fromkeys((*edited, *plain, *bodies), "done") | {edited[7]: "failed"}
    assert yard.results(operation) == results
    assert Counter((send.not_before - LATER).total_seconds() for send in sends) == dict.fromkeys(range(59), 1)
    assert {row["not_before"] for row in yard.owed()} == {send.not_before.isoformat() for send in sends}


def test_a_round_begins_no_more_than_is_due_until_the_next_one(yard: Yard):
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
        pytest.param(1, 75, 75, id="a round that is late"),
        pytest.param(1, 3600, 75, id="what was missed is not made up for"),
        pytest.param(1, -75, 0, id="what is begun ahead is enough"),
        pytest.param(2, -60, 30, id="a round in its time"),
        pytest.param(7, -3600, 0, id="a clock that goes back"),
    ],
)
def test_the_rate_allows(rate: int, seconds: float, expected: int):
    now = LATER + timedelta(seconds=seconds)
    count, start = engine.allowance(rate, timedelta(seconds=1), LATER, now)
    assert (count, start) == (expected, max(LATER, now))


# -- whatever dies ----------------------------------------------------------------------------------------------------


def test_at_whatever_statement_or_commit_a_step_is_killed_every_letter_gets_one_result(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "AT_ONCE", 3)
    killed = 0
    for at in range(1, 200):
        letters = yard.fail(4)
        actions.ignore(yard.database, yard.tenant_id, Wish(letters[0], 1, "ann", NOON, "A trial"))
        operation = yard.request(job_ids=letters) if at % 2 else yard.request()
        meant = letters if at % 2 else letters[1:]
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
            letter: "skipped" if letter == letters[0] else "done" for letter in meant
        }
        owed = yard.owed()
        assert (len(owed), {row["revision"] for row in owed}) == (3, {2})
        for table in ("outbox", "dead_letter", "task"):
            yard.admin.execute(f"DELETE FROM {table}".encode())
    assert killed > 30


def _check_sums(yard: Yard, operation: Operation) -> None:
    """What the operation says is what its letters, its works and the outbox say."""
    shown, results = yard.shown(operation), Counter(yard.results(operation).values())
    assert (shown.done, shown.failed, shown.skipped) == (results["done"], results["failed"], results["skipped"])
    assert shown.selected == results.total()
    assert len(yard.owed()) == shown.done
    assert Counter(yard.statuses().values())["retried"] == shown.done


def test_many_who_step_at_once_share_the_letters(yard: Yard):
    letters = yard.fail(60)
    operations = [yard.request(), yard.request(), yard.request("resolve", note="Mended")]

    def step_all(seed: int) -> None:
        order = random.Random(seed)
        while any(yard.shown(one).ended_at is None for one in operations):
            yard.step(order.choice(operations), at_once=order.choice([1, 3, 7]))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(step_all, range(3)))
    done = [letter for one in operations for letter, result in yard.results(one).items() if result == "done"]
    assert sorted(done) == sorted(letters)
    for one in operations:
        assert set(yard.results(one)) == set(letters)
        assert None not in yard.results(one).values()
    retried = Counter(yard.statuses().values())["retried"]
    assert len({row["work_id"] for row in yard.owed()}) == len(yard.owed()) == retried
