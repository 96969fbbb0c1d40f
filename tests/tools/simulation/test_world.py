"""The simulated world behaves like AWS.

A killed process leaves nothing but its commits.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tools.simulation.faults import Faults
from tools.simulation.scheduler import Greenlets, Process, ProcessKilledError, ProcessState, Scheduler, ViolationError
from tools.simulation.sqs import Message, Queue, Sqs


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler(1)


@pytest.fixture
def sqs(scheduler: Scheduler) -> Sqs:
    """SQS with the matching worker's queue and no faults."""
    faults = Faults(scheduler)
    faults.end()
    return Sqs(scheduler, faults, {"matching": Queue(scheduler, "matching", 60, Queue(scheduler, "matching", 60))})


@pytest.fixture
def queue(sqs: Sqs) -> Queue:
    return sqs.queues["matching"]


@pytest.fixture
def change(sqs: Sqs, queue: Queue) -> Callable[[str, int], Any]:
    """Return a function that sets a visibility timeout and returns the error codes."""

    def change_it(handle: str, seconds: int) -> Any:
        entry = {"Id": "0", "ReceiptHandle": handle, "VisibilityTimeout": seconds}
        answer = sqs.change_message_visibility_batch(QueueUrl=f"https://{queue.name}/{queue.name}", Entries=[entry])
        return [failure["Code"] for failure in answer["Failed"]]

    return change_it


def receive(sqs: Sqs, queue: Queue) -> Message:
    (message,) = sqs.receive(queue, 10)
    return message


def test_received_message_is_hidden_until_visibility_timeout_expires(
    sqs: Sqs, queue: Queue, scheduler: Scheduler
) -> None:
    sqs.put(queue, "{}")
    receive(sqs, queue)

    assert sqs.receive(queue, 10) == []
    scheduler.now = 60
    assert len(receive(sqs, queue).receives) == 2


def test_fourth_receive_moves_message_to_dead_letter_queue(sqs: Sqs, queue: Queue, scheduler: Scheduler) -> None:
    sqs.put(queue, "{}")
    for _ in range(3):
        receive(sqs, queue)
        scheduler.now += 60

    assert sqs.receive(queue, 10) == []
    assert queue.dlq is not None
    assert [len(message.history) for message in queue.dlq.messages] == [3]


def test_outdated_receipt_handle_may_be_rejected(
    sqs: Sqs, queue: Queue, scheduler: Scheduler, change: Callable[[str, int], Any]
) -> None:
    sqs.put(queue, "{}")
    stale = receive(sqs, queue).receives[-1].handle
    scheduler.now = 60
    receive(sqs, queue)

    assert {tuple(change(stale, 60)) for _ in range(50)} == {(), ("ReceiptHandleIsInvalid",)}


def test_visibility_timeout_of_visible_message_cannot_be_changed(
    sqs: Sqs, queue: Queue, scheduler: Scheduler, change: Callable[[str, int], Any]
) -> None:
    sqs.put(queue, "{}")
    handle = receive(sqs, queue).receives[-1].handle
    scheduler.now = 60

    assert change(handle, 60) == ["MessageNotInflight"]


def test_total_visibility_timeout_is_limited_to_twelve_hours(
    sqs: Sqs, queue: Queue, scheduler: Scheduler, change: Callable[[str, int], Any]
) -> None:
    sqs.put(queue, "{}")
    handle = receive(sqs, queue).receives[-1].handle
    scheduler.now = 30

    assert change(handle, 43_200) == ["InvalidParameterValue"]
    assert change(handle, 43_170) == []


def test_invalid_sqs_call_fails_the_history(
    sqs: Sqs, queue: Queue, scheduler: Scheduler, change: Callable[[str, int], Any]
) -> None:
    sqs.put(queue, "{}")
    handle = receive(sqs, queue).receives[-1].handle
    scheduler.spawn("wrong", lambda: change(handle, 43_201))

    with pytest.raises(ViolationError, match="43201"):
        scheduler.run()


def test_waiting_uses_virtual_time(scheduler: Scheduler) -> None:
    woken = []

    def wait() -> None:
        scheduler.sleep(1800)
        woken.append(scheduler.now)

    scheduler.spawn("patient", wait)
    scheduler.run()

    assert woken == [1800]


def test_unwinding_a_killed_process_changes_nothing(scheduler: Scheduler) -> None:
    process, effects, ended = Process("victim"), [], []

    def work() -> None:
        try:
            scheduler.point("before the effect")
            effects.append("done")
        finally:
            ended.append("unwound")
            with pytest.raises(ProcessKilledError):
                scheduler.point("an effect while unwinding")

    def kill() -> None:
        scheduler.kill(process, "by the test")

    scheduler.spawn("work", work, process)
    scheduler.at_point = lambda _point: None
    scheduler.run(stop=lambda: scheduler.steps == 1)
    kill()
    scheduler.run()

    assert (effects, ended) == ([], ["unwound"])


def test_frozen_process_resumes_after_thaw(scheduler: Scheduler) -> None:
    process, done = Process("frozen"), []
    concurrency = Greenlets(scheduler, process)

    def work() -> None:
        concurrency.wait_for(lambda: False, 10)
        done.append(scheduler.now)

    def freeze_and_thaw() -> None:
        process.state = ProcessState.FROZEN
        scheduler.sleep(500)
        process.state = ProcessState.RUNNING

    concurrency.start("work", work)
    scheduler.spawn("lambda", freeze_and_thaw)
    scheduler.run()

    assert done == [500]
