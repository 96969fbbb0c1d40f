"""A canary: some letters are tried first, and the others as that goes well."""

from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest

from counterfoil.dead_letters import actions, bulk
from counterfoil.dead_letters.actions import Wish
from counterfoil.operations import engine
from counterfoil.operations.store import Operation
from tests.dead_letters.bulking import LATER, Yard, steer


def die_again(yard: Yard, job_id: UUID) -> None:
    yard.die(worker="tasks", task_type="echo", work_id=yard.work_of(job_id), revision=2, minute=90)


def tried(yard: Yard, operation: Operation) -> None:
    """The works of the letters that were begun have failed once, and wait to be tried again."""
    yard.admin.execute("UPDATE task SET attempts = 1 WHERE id = ANY(%s)", [yard.works(operation)])


def cancel(yard: Yard, works: list[UUID]) -> None:
    yard.admin.execute(
        "UPDATE task SET status = NULL, cancelled_at = now(), ended_at = now() WHERE id = ANY(%s)",
        [works],
    )


def notified(yard: Yard) -> list[tuple[str, UUID, str]]:
    """What people are to be told of operations: which, and why."""
    return yard.admin.execute(
        "SELECT worker, job_id, payload ->> 'error' FROM notification WHERE worker = 'bulk' ORDER BY created_at"
    ).fetchall()


def test_people_are_told_once_of_each_time_that_an_operation_halts_itself(yard: Yard):
    letters = yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    tried(yard, operation)
    assert notified(yard) == []
    told = []
    for _ in range(2):
        yard.now += timedelta(hours=1)
        yard.run(operation)
        yard.run(operation)
        told.append(("bulk", operation.id, yard.shown(operation).reason))
        assert notified(yard) == told
        steer(yard, operation, "resume")
    die_again(yard, letters[-1])
    yard.end(yard.works(operation), "failed")
    yard.run(operation)
    told.append(("bulk", operation.id, yard.shown(operation).reason))
    assert (yard.shown(operation).state, notified(yard)) == ("stopped", told)


def test_a_halt_that_is_written_down_again_is_told_of_once(yard: Yard):
    operation = yard.request(canary=2)
    for _ in range(2):
        with yard.database.tenant(yard.tenant_id) as connection:
            engine._notify(connection, operation, operation.reason or "", yard.now)
    assert [told for _, told, _ in notified(yard)] == [operation.id]


def test_nobody_is_told_of_an_operation_that_comes_to_its_end_or_is_paused_by_somebody(yard: Yard):
    yard.fail(2)
    operation = yard.request(canary=1)
    steer(yard, operation, "pause")
    steer(yard, operation, "resume")
    yard.run(operation)
    yard.end(yard.works(operation), "succeeded")
    yard.run(operation)
    assert (yard.shown(operation).state, notified(yard)) == ("done", [])


def test_a_canary_is_tried_first_and_the_others_follow_when_it_has_succeeded(yard: Yard):
    letters = yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).done) == ("canary", 2)
    assert {job_id for job_id, status in yard.statuses().items() if status == "retried"} == {*letters[3:]}
    first, second = yard.works(operation)
    yard.end([first], "succeeded")
    assert (yard.run(operation), yard.shown(operation).state) == ([], "canary")
    yard.end([second], "succeeded")
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).done) == ("done", 5)


def test_a_canary_that_fails_again_stops_the_operation(yard: Yard):
    letters = yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    first, second = yard.works(operation)
    yard.end([first], "failed")
    yard.end([second], "succeeded")
    die_again(yard, letters[-1])
    yard.now += timedelta(hours=1)
    yard.run(operation)
    ended = yard.shown(operation)
    assert (ended.state, ended.reason) == ("stopped", "Of 2 letters that were tried first, 1 died again.")
    assert ended.ended_at == yard.now
    assert Counter(yard.results(operation).values()) == {"done": 2, None: 3}
    assert yard.step(operation) is None
    assert (yard.trail()[-1].action, yard.trail()[-1].actor) == ("bulk-stopped", "bulk")


def test_a_canary_that_does_not_succeed_is_waited_for_so_long_and_then_the_operation_is_paused(yard: Yard):
    yard.fail(60)
    operation = yard.request(canary=5)
    yard.run(operation)
    tried(yard, operation)
    yard.now += bulk.PATIENCE - timedelta(seconds=1)
    yard.run(operation)
    assert yard.shown(operation).state == "canary"
    yard.now += timedelta(seconds=3)
    yard.run(operation)
    paused = yard.shown(operation)
    assert (paused.state, paused.done, paused.ended_at) == ("paused", 5, None)
    assert paused.reason == (
        "Of 5 letters that were tried first, 5 did not succeed within 45 minutes of attempts. "
        "See why; resume the operation to wait as long again, or cancel it."
    )
    assert (yard.trail()[-1].action, yard.trail()[-1].actor) == ("bulk-pause", "bulk")
    assert yard.step(operation) is None


def test_a_paused_canary_that_is_resumed_is_waited_for_as_long_again(yard: Yard):
    yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    tried(yard, operation)
    yard.now += timedelta(hours=1)
    yard.run(operation)
    resumed = steer(yard, operation, "resume")
    assert (resumed.state, resumed.reason) == ("canary", None)
    yard.now += bulk.PATIENCE - timedelta(seconds=1)
    yard.run(operation)
    assert yard.shown(operation).state == "canary"
    yard.now += timedelta(seconds=3)
    yard.run(operation)
    assert yard.shown(operation).state == "paused"
    yard.end(yard.works(operation), "succeeded")
    steer(yard, operation, "resume")
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).done) == ("done", 5)


def test_a_canary_that_nobody_has_tried_is_waited_for_however_long_that_takes(yard: Yard):
    """For its queue is paused, or a service is away that it needs. Patience begins with the tries."""
    yard.fail(3)
    operation = yard.request(canary=1)
    yard.run(operation)
    yard.now += timedelta(days=2)
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).done) == ("canary", 1)
    tried(yard, operation)
    yard.now += bulk.PATIENCE - timedelta(seconds=1)
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).done) == ("canary", 1)
    yard.end(yard.works(operation), "succeeded")
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).done) == ("done", 3)


def test_what_was_cancelled_of_a_canary_tells_nothing(yard: Yard):
    yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    first, second = yard.works(operation)
    cancel(yard, [first])
    yard.end([second], "succeeded")
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).done) == ("done", 5)


def test_a_canary_all_of_whose_work_was_cancelled_pauses_the_operation(yard: Yard):
    yard.fail(5)
    operation = yard.request(canary=2)
    yard.run(operation)
    cancel(yard, yard.works(operation))
    yard.run(operation)
    paused = yard.shown(operation)
    assert (paused.state, paused.done) == ("paused", 2)
    assert paused.reason == (
        "Of 2 letters that were begun first, none succeeded: they were cancelled, or there was nothing to do. "
        "Cancel the operation, and try others."
    )
    assert steer(yard, operation, "cancel").reason is None


def test_of_a_canary_those_are_counted_that_were_tried(yard: Yard):
    letters = yard.fail(7)
    operation = yard.request(canary=5)
    actions.ignore(yard.database, yard.tenant_id, Wish(letters[6], 1, "ann", LATER, "A trial"))
    yard.run(operation)
    last, cancelled, _untried, succeeded, gone = yard.works(operation)
    cancel(yard, [cancelled])
    yard.end([succeeded], "succeeded")
    yard.admin.execute("DELETE FROM task WHERE id = %s", [gone])
    yard.end([last], "failed")
    die_again(yard, letters[5])
    yard.run(operation)
    ended = yard.shown(operation)
    assert (ended.done, ended.skipped) == (5, 1)
    assert (ended.state, ended.reason) == ("stopped", "Of 2 letters that were tried first, 1 died again.")


ONE = {
    "failed": "The letter that was tried first died again.",
    "pending": "The letter that was tried first did not succeed within 45 minutes of attempts. "
    "See why; resume the operation to wait as long again, or cancel it.",
    "cancelled": "The letter that was begun first did not succeed: it was cancelled, or there was nothing to do. "
    "Cancel the operation, and try others.",
}


@pytest.mark.parametrize(("ending", "says"), ONE.items(), ids=ONE)
def test_a_canary_of_one_letter_is_told_of_as_one(yard: Yard, ending: str, says: str):
    yard.fail(2)
    operation = yard.request(canary=1)
    yard.run(operation)
    tried(yard, operation)
    if ending == "cancelled":
        cancel(yard, yard.works(operation))
    else:
        yard.end(yard.works(operation), ending)
    yard.now += bulk.PATIENCE + timedelta(seconds=1)
    yard.run(operation)
    assert yard.shown(operation).reason == says


def test_letters_that_are_skipped_are_no_canary(yard: Yard):
    letters = yard.fail(4)
    operation = yard.request(canary=2)
    for letter in letters[2:]:
        actions.ignore(yard.database, yard.tenant_id, Wish(letter, 1, "ann", LATER, "A trial"))
    yard.run(operation)
    assert yard.results(operation) == dict(zip(letters, ["done", "done", "skipped", "skipped"], strict=True))
    assert yard.shown(operation).state == "canary"
