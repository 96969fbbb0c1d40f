"""What must hold of tries that are made again: when, by which message, and what is told of them."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from counterfoil.errors import DeferredError, ServiceUnavailableError
from tools.simulation.ledger import Entry, named
from tools.simulation.sqs import Queue

if TYPE_CHECKING:
    from tools.simulation.world import World

BASE, FACTOR, JITTER, CAP = 1, 2, 1, 300
"""Seconds, of the policy of tasks: the n-th retry waits BASE * FACTOR ** n and some of JITTER, CAP at most."""

_TASK = """
SELECT t.status, t.revision, t.send_number, t.next_attempt_at, (t.claimed_at IS NOT NULL)::int + (
    SELECT count(*) FROM work_attempt a WHERE a.worker = 'tasks' AND a.work_id = t.id AND a.revision = t.revision
      AND a.outcome IN ('retry', 'lost')
), o.not_before, o.created_at
FROM task t JOIN outbox o ON o.worker = 'tasks' AND o.work_id = t.id
WHERE t.id = %s AND o.revision = %s AND o.send_number = %s
"""
_TRIES = """
SELECT worker, work_id, revision, number, outcome,
       extract(epoch FROM next_attempt_at - ended_at)::float FROM work_attempt ORDER BY id
"""


class Watch:
    """Looks at every message of a task that is sent."""

    def __init__(self, world: "World") -> None:
        self._world = world
        world.sqs.on_sent = self._sent

    def _sent(self, queue: Queue, body: str, delay: int) -> None:
        """It comes when it is due, over the queue of its like, and says how often its task was tried."""
        if queue.worker != "tasks":
            return
        (_, work_id, revision, send_number), *_ = named(queue.worker, body)
        row = self._world.store.admin.execute(_TASK, [work_id, revision, send_number]).fetchone()
        if row is None:
            return
        status, *order, due, tries, not_before, owed_at = row
        name, fail = f"a message of {self._world.name(work_id)}, send number {send_number},", self._world.scheduler.fail
        shows = self._world.scheduler.clock() + timedelta(seconds=delay)
        if shows < not_before - timedelta(seconds=1):
            fail(f"{name} shows {(not_before - shows).total_seconds():.1f} s too early")
        if delay > (wait := max(0, (not_before - owed_at).total_seconds())) + 1:
            fail(f"{name} is delayed by {delay} s, and was to wait {wait:.1f} s")
        if status != "pending" or order != [revision, send_number]:
            return  # somebody has changed its task since it was composed
        if json.loads(body)["metadata"]["retry_count"] != tries:
            fail(f"{name} says another number of attempts than the {tries} that failed or were lost")
        is_first = not queue.name.endswith("-retry")
        if is_first and tries:
            fail(f"{name} is a retry, and goes to the queue of first attempts")
        if is_first and due is not None and due > self._world.scheduler.clock():
            fail(f"{name} is to wait, and goes to the queue of first attempts")


def findings(world: "World", entries: list[Entry]) -> Iterator[str]:
    """What does not hold in a world at rest."""
    yield from numbers_rise(world, entries)
    yield from _older_copies_change_nothing(world, entries)
    tries = world.store.admin.execute(_TRIES).fetchall()
    yield from _waits(world, tries)
    yield from _told_once(world, entries, tries)


def numbers_rise(world: "World", entries: list[Entry]) -> Iterator[str]:
    """Send numbers never fall within a revision, and a task that is put back waits for a message of a higher one."""
    for entry in entries:
        if entry.old is None:
            continue
        old, new = ((row["revision"], row["send_number"]) for row in (entry.old, entry.new))
        is_back = entry.worker == "tasks" and (entry.old["status"], entry.new["status"]) == ("in-progress", "pending")
        if new < old or (new == old and is_back):
            yield f"the send number of {entry.worker} {world.name(entry.id)} does not rise (ledger {entry.number})"


def _older_copies_change_nothing(world: "World", entries: list[Entry]) -> Iterator[str]:
    """Work is claimed, or parked unclaimed, by whoever has the latest message of it in hand."""
    for entry in entries:
        if entry.old is None or entry.old["revision"] != entry.new["revision"]:
            continue
        raised = entry.new["send_number"] > entry.old["send_number"]
        if not (entry.claims or (raised and entry.old["status"] == entry.new["status"] == "pending")):
            continue
        given = [world.sqs.given[handle] for handle in world.transactions.handles.get(entry.transaction, ())]
        latest = (entry.worker, entry.id, entry.old["revision"], entry.old["send_number"])
        if not any(latest in named(worker, body) for worker, body in given):
            yield (
                f"{entry.worker} of {world.name(entry.id)} is taken for another message than its latest, of send "
                f"number {latest[-1]} (ledger {entry.number})"
            )


def _waits(world: "World", tries: list[tuple[Any, ...]]) -> Iterator[str]:
    """The n-th retry of a task waits as long as its policy says, or as the service that failed has asked for."""
    asked = {
        (one.attempt.work_id, one.attempt.revision, one.attempt.number): one.raised.retry_after or 0
        for one in world.tries
        if isinstance(one.raised, ServiceUnavailableError) and not isinstance(one.raised, DeferredError)
    }
    for worker, work_id, revision, number, outcome, waits in tries:
        if worker != "tasks" or outcome != "retry":
            continue
        wanted = asked.get((work_id, revision, number), 0)
        least = max(min(BASE * FACTOR**number, CAP), wanted)
        most = max(min(BASE * FACTOR**number + JITTER, CAP), wanted + JITTER if wanted else 0)
        if not least <= waits <= most:
            yield f"retry {number} of {world.name(work_id)} waits {waits:.1f} s, and not from {least} to {most}"


def _told_once(world: "World", entries: list[Entry], tries: list[tuple[Any, ...]]) -> Iterator[str]:
    """Every try that counts is written down once, but for successes of those that keep none."""
    told: dict[tuple[str, UUID, int], Counter[int]] = defaultdict(Counter)
    for worker, work_id, revision, number, outcome, _ in tries:
        if outcome != "deferred":
            told[worker, work_id, revision][number] += 1
    last = {(entry.worker, entry.id, entry.new["revision"]): entry.new for entry in entries}
    for key, row in last.items():
        worker, work_id, revision = key
        attempts = row["attempts"]
        settled = row["status"] == "failed" or (worker, row["status"]) == ("tasks", "succeeded")
        for number in range(1, attempts + 1):
            # The last one of a task that was cancelled, or of work that was begun anew, may still have been under way.
            least = 1 if number < attempts or settled else 0
            if not least <= told[key][number] <= 1:
                yield (
                    f"try {number} of {worker} {world.name(work_id)}, revision {revision}, is written down "
                    f"{told[key][number]} times"
                )
        if beyond := [number for number in told[key] if not 1 <= number <= attempts]:
            yield f"try {beyond[0]} of {worker} {world.name(work_id)} is written down, and never began"
