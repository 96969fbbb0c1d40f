"""Invariants of retries: their delays, messages and recorded attempts."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from counterfoil.errors import DeferredError, ServiceUnavailableError
from tools.simulation.ledger import Entry, work_items_in
from tools.simulation.sqs import Queue

if TYPE_CHECKING:
    from tools.simulation.world import World

BASE, FACTOR, JITTER, CAP = 1, 2, 1, 300
"""Retry policy of tasks in seconds: the n-th retry waits BASE * FACTOR ** n plus up to JITTER, at most CAP."""

_TASK = """
SELECT t.status, t.revision, t.send_number, t.next_attempt_at, (t.claimed_at IS NOT NULL)::int + (
    SELECT count(*) FROM work_attempt a WHERE a.worker = 'tasks' AND a.work_id = t.id AND a.revision = t.revision
      AND a.outcome IN ('retry', 'worker_lost')
), o.scheduled_at, o.created_at
FROM task t JOIN outbox o ON o.worker = 'tasks' AND o.work_id = t.id
WHERE t.id = %s AND o.revision = %s AND o.send_number = %s
"""
_ATTEMPTS = """
SELECT worker, work_id, revision, number, outcome,
       extract(epoch FROM next_attempt_at - ended_at)::float FROM work_attempt ORDER BY id
"""


class RetryChecker:
    """Checks every task message that the outbox sends."""

    def __init__(self, world: "World") -> None:
        self._world = world
        world.sqs.on_sent = self._check_sent

    def _check_sent(self, queue: Queue, body: str, delay: int) -> None:
        """Check a message's delay, queue and retry count."""
        if queue.worker != "tasks":
            return
        (_, work_id, revision, send_number), *_ = work_items_in(queue.worker, body)
        row = self._world.store.admin.execute(_TASK, [work_id, revision, send_number]).fetchone()
        if row is None:
            return
        status, *numbers, due, attempts, scheduled_at, created_at = row
        name, fail = f"a message of {self._world.name(work_id)}, send number {send_number},", self._world.scheduler.fail
        visible_at = self._world.scheduler.clock() + timedelta(seconds=delay)
        if visible_at < scheduled_at - timedelta(seconds=1):
            fail(f"{name} becomes visible {(scheduled_at - visible_at).total_seconds():.1f} s too early")
        if delay > (wait := max(0, (scheduled_at - created_at).total_seconds())) + 1:
            fail(f"{name} is delayed by {delay} s instead of {wait:.1f} s")
        if status != "pending" or numbers != [revision, send_number]:
            return  # the task has changed since the message was written
        if json.loads(body)["metadata"]["retry_count"] != attempts:
            fail(f"{name} has a retry count other than its {attempts} failed or lost attempts")
        is_first = not queue.name.endswith("-retry")
        if is_first and attempts:
            fail(f"{name} is a retry, but goes to the queue of first attempts")
        if is_first and due is not None and due > self._world.scheduler.clock():
            fail(f"{name} must wait, but goes to the queue of first attempts")


def violations(world: "World", entries: list[Entry]) -> Iterator[str]:
    """Yield the violations of retry invariants in a finished world."""
    yield from send_number_violations(world, entries)
    yield from _older_messages(world, entries)
    attempt_rows = world.store.admin.execute(_ATTEMPTS).fetchall()
    yield from _retry_delays(world, attempt_rows)
    yield from _recorded_once(world, entries, attempt_rows)


def send_number_violations(world: "World", entries: list[Entry]) -> Iterator[str]:
    """Check that send numbers never decrease within a revision.

    A task's retry must increase its send number.
    """
    for entry in entries:
        if entry.old is None:
            continue
        old, new = ((row["revision"], row["send_number"]) for row in (entry.old, entry.new))
        is_retry = entry.worker == "tasks" and (entry.old["status"], entry.new["status"]) == ("in-progress", "pending")
        if new < old or (new == old and is_retry):
            yield f"the send number of {entry.worker} {world.name(entry.id)} does not increase (ledger {entry.number})"


def _older_messages(world: "World", entries: list[Entry]) -> Iterator[str]:
    """Check that a work item is claimed or parked only with its latest message."""
    for entry in entries:
        if entry.old is None or entry.old["revision"] != entry.new["revision"]:
            continue
        is_incremented = entry.new["send_number"] > entry.old["send_number"]
        if not (entry.is_claim or (is_incremented and entry.old["status"] == entry.new["status"] == "pending")):
            continue
        messages = [world.sqs.delivered[handle] for handle in world.transactions.handles.get(entry.transaction, ())]
        latest = (entry.worker, entry.id, entry.old["revision"], entry.old["send_number"])
        if not any(latest in work_items_in(worker, body) for worker, body in messages):
            yield (
                f"{entry.worker} of {world.name(entry.id)} is claimed without its latest message, send "
                f"number {latest[-1]} (ledger {entry.number})"
            )


def _retry_delays(world: "World", attempt_rows: list[tuple[Any, ...]]) -> Iterator[str]:
    """Check that a task's retry waits as long as the policy and the service require."""
    retry_after = {
        (
            simulated.attempt.work_id,
            simulated.attempt.revision,
            simulated.attempt.number,
        ): simulated.exception.retry_after or 0
        for simulated in world.attempts
        if isinstance(simulated.exception, ServiceUnavailableError)
        and not isinstance(simulated.exception, DeferredError)
    }
    for worker, work_id, revision, number, outcome, delay in attempt_rows:
        if worker != "tasks" or outcome != "retry":
            continue
        required = retry_after.get((work_id, revision, number), 0)
        minimum = max(min(BASE * FACTOR**number, CAP), required)
        maximum = max(min(BASE * FACTOR**number + JITTER, CAP), required + JITTER if required else 0)
        if not minimum <= delay <= maximum:
            yield f"retry {number} of {world.name(work_id)} waits {delay:.1f} s instead of {minimum} to {maximum} s"


def _recorded_once(world: "World", entries: list[Entry], attempt_rows: list[tuple[Any, ...]]) -> Iterator[str]:
    """Check that every counted attempt is recorded once.

    Successes that a worker does not record are exempt.
    """
    recorded: dict[tuple[str, UUID, int], Counter[int]] = defaultdict(Counter)
    for worker, work_id, revision, number, outcome, _ in attempt_rows:
        if outcome != "deferred":
            recorded[worker, work_id, revision][number] += 1
    latest_rows = {(entry.worker, entry.id, entry.new["revision"]): entry.new for entry in entries}
    for key, row in latest_rows.items():
        worker, work_id, revision = key
        attempts = row["attempts"]
        settled = row["status"] == "failed" or (worker, row["status"]) == ("tasks", "succeeded")
        for number in range(1, attempts + 1):
            # The last attempt of a canceled task or of a superseded revision may still have been running.
            minimum = 1 if number < attempts or settled else 0
            if not minimum <= recorded[key][number] <= 1:
                yield (
                    f"attempt {number} of {worker} {world.name(work_id)}, revision {revision}, is recorded "
                    f"{recorded[key][number]} times"
                )
        if unexpected := [number for number in recorded[key] if not 1 <= number <= attempts]:
            yield f"attempt {unexpected[0]} of {worker} {world.name(work_id)} is recorded, but never started"
