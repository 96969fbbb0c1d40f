"""Invariants of every history, checked during the run and at its end."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid5

from counterfoil.db import IDLE_SECONDS
from counterfoil.delivery.work import JOB_NAMESPACE
from counterfoil.errors import DatabaseUnavailableError, DeferredError, PermanentError, StaleClaimError, TransientError
from counterfoil.kinds import WORK_KINDS
from tools.simulation import expected_matches, retries
from tools.simulation.ledger import Entry, WorkItemRef, ledger, match_changes, work_items_in
from tools.simulation.scheduler import ViolationError
from tools.simulation.sqs import Message, Queue
from tools.simulation.world import SimulatedAttempt, World

MAX_ATTEMPTS = 3
MAX_RETURNS = 2
UNFINISHED = ("pending", "in-progress")
RESEND_SLACK_SECONDS = 3600
"""Maximum seconds by which a resend may be overdue, because a watchdog run can fail."""
SLACK_SECONDS = 30
"""Maximum seconds between a claim and its attempt if nothing stalls. Other records in the batch may settle first."""

_WORK_ITEMS = """
SELECT w.*, EXISTS (SELECT FROM outbox o WHERE o.worker = w.worker AND o.work_id = w.id AND o.revision = w.revision
                    AND o.send_number = w.send_number AND o.sent_at IS NULL)
FROM (
    SELECT 'acquisition' AS worker, id, status, revision, send_number, attempts, lease_expires_at, dlq_returns
    FROM acquisition_job
    UNION ALL SELECT 'ingestion', id, status, revision, send_number, attempts, lease_expires_at, dlq_returns
    FROM ingestion_job
    UNION ALL SELECT 'matching', id, matching_status, matching_revision, matching_send_number, matching_attempts,
                     matching_lease_expires_at, matching_dlq_returns
    FROM document
    UNION ALL SELECT 'diagnostics', id, status, revision, send_number, attempts, lease_expires_at, dlq_returns
    FROM cluster_diagnostics
    UNION ALL SELECT 'tasks', id, status, revision, send_number, attempts, lease_expires_at, dlq_returns
    FROM task
) w
"""


@dataclass(frozen=True)
class State:
    """State of a work item."""

    worker: str
    id: UUID
    status: str | None
    revision: int
    send_number: int
    attempts: int
    lease: Any
    returns: int
    is_unsent: bool


class InvariantChecker:
    """Checks a world during its run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._checked_writes = -1
        self._cached: tuple[int, list[State]] = (-1, [])
        """Number of commits, and the states read after that many commits."""
        world.sqs.on_deleted = self._check_deletion
        world.sqs.on_dead_lettered = self._check_dead_lettering
        world.scheduler.after_time_passed += [self.check_nothing_is_lost, self.check_resends]
        for mapping in world.mappings:
            mapping.after = self._after_batch

    def _states(self) -> list[State]:
        writes = self._world.transactions.writes
        if self._cached[0] != writes:
            rows = self._world.store.admin.execute(_WORK_ITEMS.encode()).fetchall()
            self._cached = (writes, [State(*row) for row in rows])
        return self._cached[1]

    def _queued_work_items(self) -> set[WorkItemRef]:
        """Return the work items in all queued messages."""
        return {
            ref
            for queue in self._world.sqs.by_name.values()
            for message in queue.messages
            for ref in work_items_in(queue.worker, message.body)
        }

    def check_nothing_is_lost(self) -> None:
        """Check that every unfinished work item has a message in a queue or the outbox."""
        if self._checked_writes == self._world.transactions.writes:
            return
        self._checked_writes = self._world.transactions.writes
        self._check(self._states())

    def check_resends(self) -> None:
        """Check that the watchdog resends lost messages, even to busy queues."""
        if not self._world.lost:
            return
        now = self._world.scheduler.now
        for (worker, work_id, *_), due_at in self._world.resends_due().items():
            if now > due_at + RESEND_SLACK_SECONDS:
                self._world.scheduler.fail(
                    f"the lost message of {worker} {self._world.name(work_id)} "
                    f"is overdue for resending by {now - due_at:.0f} s"
                )

    def _check(self, states: list[State]) -> None:
        queued, lost = self._queued_work_items(), self._world.lost
        for state in states:
            ref = (state.worker, state.id, state.revision, state.send_number)
            if ref in queued:
                lost.discard(ref)
            elif state.is_unsent:
                continue  # the outbox sends it; a message lost before it was marked as sent stays lost
            elif ref[:2] in self._world.restored and any(
                ref < other_ref for other_ref in queued if other_ref[:2] == ref[:2]
            ):
                continue  # a newer message is queued and will enqueue the current one
            elif state.status in UNFINISHED and ref not in lost:
                for cause in retries.send_number_violations(self._world, ledger(self._world)):
                    # An earlier message with the same send number was deleted.
                    self._world.scheduler.fail(cause)
                self._world.scheduler.fail(
                    f"lost: {state.worker} of {self._world.name(state.id)} is {state.status} without a message of "
                    f"revision {state.revision}, send number {state.send_number}"
                )

    def _check_deletion(self, queue: Queue, message: Message) -> None:
        states = self._states()
        known = {(state.worker, state.id): state for state in states}
        for worker, work_id, *numbers in work_items_in(queue.worker, message.body):
            state = known.get((worker, work_id))
            if state is None:
                if (worker, work_id) not in self._world.unknown_work:
                    self._world.scheduler.fail(f"lost: {message.id} is deleted, but its work item was never registered")
            elif numbers > [state.revision, state.send_number] and (worker, work_id) not in self._world.restored:
                self._world.scheduler.fail(f"{message.id} is newer than its row, but no transaction was lost")
        self._check(states)

    def _check_dead_lettering(self, queue: Queue, message: Message) -> None:
        """Check that only attempts and faults used up a dead-lettered message's receives."""
        refs = work_items_in(queue.worker, message.body)
        if len(refs) != 1:
            return
        states = {(state.worker, state.id): state for state in self._states()}
        state = states.get(refs[0][:2])
        if state is None or state.status not in UNFINISHED or (state.revision, state.send_number) != refs[0][2:]:
            return
        wasted = [receive for receive in message.history if receive.no_attempt_reason is None]
        if len(wasted) > state.attempts:
            self._world.scheduler.fail(
                f"{message.id} wasted {len(wasted)} receives and moves to the dead-letter queue, "
                f"after {state.attempts} attempts of its work item"
            )

    def _after_batch(self, queue: Queue, messages: list[Message]) -> None:
        """Excuse a reported message's receive if another message explains it.

        The work item is running elsewhere, or the batch contained another message for it.
        """
        reported = [message for message in messages if message in queue.messages and message.receives]
        reported = [message for message in reported if message.receives[-1].no_attempt_reason is None]
        if not reported:
            return
        refs = [ref for message in messages for ref in work_items_in(queue.worker, message.body)]
        now = self._world.scheduler.clock()
        states = {(state.worker, state.id): state for state in self._states()}
        for message in reported:
            for ref in work_items_in(queue.worker, message.body):
                state = states.get(ref[:2])
                copies = sum(other_ref[:2] == ref[:2] and other_ref[2:] >= ref[2:] for other_ref in refs)
                if copies > 1 or (state is not None and state.lease is not None and state.lease > now):
                    message.receives[-1].no_attempt_reason = "another message of its work item was in the batch"


# -- at the end --------------------------------------------------------------------------------------------------------


def check(world: World) -> None:
    """Check a finished world.

    Raises:
        ViolationError: the first violated invariant.
    """
    entries = ledger(world)
    for violation in _violations(world, entries):
        raise ViolationError(violation)


def _violations(world: World, entries: list[Entry]) -> Iterator[str]:
    yield from _unfinished(world)
    yield from _attempts(world, entries)
    yield from _stale_writes(world, entries)
    yield from retries.violations(world, entries)
    yield from _effects(world, entries)
    yield from _permanent_failures(world, entries)
    yield from _claims_start(world, entries)
    yield from _dead_letters(world, entries)
    yield from _error_types(world)
    yield from _second_runs(world)
    yield from _leases(world, entries)
    yield from _unknown_work(world)
    yield from _uploads(world)
    yield from _clusters(world)
    yield from _matches(world, entries)  # before the expected matches, which write matches as well
    yield from expected_matches.check(world)


def _unfinished(world: World) -> Iterator[str]:
    for row in world.store.admin.execute(_WORK_ITEMS.encode()).fetchall():
        state = State(*row)
        if state.status in UNFINISHED:
            yield f"{state.worker} of {world.name(state.id)} is unfinished: {state.status}"
    for queue in world.sqs.by_name.values():
        for message in queue.messages:
            yield f"{message.id} stays in {queue.name}"
    (unsent,) = world.store.admin.execute("SELECT count(*) FROM outbox WHERE sent_at IS NULL").fetchall()[0]
    if unsent:
        yield f"{unsent} outbox rows are never sent"


def _attempts(world: World, entries: list[Entry]) -> Iterator[str]:
    """Check that attempts equal committed claims and do not exceed the limit.

    Returned claims do not count.
    """
    expected: dict[tuple[str, UUID, int], int] = defaultdict(int)
    attempts = {
        (simulated.task, simulated.worker, simulated.attempt.work_id): simulated for simulated in world.attempts
    }
    for entry in entries:
        key = (entry.worker, entry.id, entry.new["revision"])
        if entry.is_claim:
            expected[key] += 1
        simulated = attempts.get((entry.task, entry.worker, entry.id))
        same_revision = entry.old is not None and entry.old["revision"] == entry.new["revision"]
        previous_attempts = entry.old["attempts"] if entry.old is not None and same_revision else 0
        if (
            entry.changed_to("pending")
            and 0 < entry.new["attempts"] + 1 == previous_attempts
            and (simulated is None or not simulated.is_alone or isinstance(simulated.exception, DeferredError))
        ):
            expected[key] -= 1
        if entry.new["attempts"] != expected[key]:
            yield (
                f"{entry.worker} of {world.name(entry.id)} counts {entry.new['attempts']} attempts in revision "
                f"{key[2]}, but {expected[key]} claims were committed and not returned (ledger {entry.number})"
            )
        if entry.new["attempts"] > _max_attempts(world, entry):
            yield f"{entry.worker} of {world.name(entry.id)} had {entry.new['attempts']} attempts"


def _max_attempts(world: World, entry: Entry) -> int:
    """Return the attempt limit for an entry's work item."""
    return world.attempt_limits.get(entry.id, MAX_ATTEMPTS)


def _claims_of_attempts(world: World, entries: list[Entry]) -> dict[SimulatedAttempt, Entry]:
    """Map each attempt to the ledger entry of its claim.

    It is the latest entry before the attempt started.
    """
    claims = {}
    for simulated in world.attempts:
        attempt = simulated.attempt
        for entry in entries:
            if (
                entry.is_claim
                and (entry.worker, entry.id) == (simulated.worker, attempt.work_id)
                and entry.transaction <= simulated.started_after
                and (entry.new["revision"], entry.new["attempts"], entry.new["claim_token"])
                == (attempt.revision, attempt.number, attempt.token)
            ):
                claims[simulated] = entry
    return claims


def _stale_writes(world: World, entries: list[Entry]) -> Iterator[str]:
    """Check that only a work item's latest claim writes.

    No claim may replace a live lease.
    """
    claims = _claims_of_attempts(world, entries)
    by_work: dict[tuple[str, UUID], list[Entry]] = defaultdict(list)
    for entry in entries:
        by_work[entry.worker, entry.id].append(entry)
    for simulated in world.attempts:
        own_entries = by_work[simulated.worker, simulated.attempt.work_id]
        claim = claims.get(simulated)
        if claim is None:
            name = world.name(simulated.attempt.work_id)
            yield f"an attempt of {simulated.worker} {name} runs without a committed claim"
            continue
        for entry in own_entries:
            if entry.task != simulated.task:
                continue
            newer_claims = [
                other for other in own_entries if claim.number < other.number < entry.number and other.ends_claim
            ]
            if newer_claims:
                yield (
                    f"a stale attempt of {simulated.worker} {world.name(simulated.attempt.work_id)} overwrites a newer "
                    f"attempt (ledger {entry.number}, claimed by {newer_claims[0].number})"
                )
    for entries_of_item in by_work.values():
        for before, entry in pairwise(entries_of_item):
            if entry.is_claim and before.new["status"] == "in-progress" and _is_lease_live(world, before, entry):
                yield f"{entry.worker} of {world.name(entry.id)} is claimed over a live lease (ledger {entry.number})"


def _is_lease_live(world: World, before: Entry, entry: Entry) -> bool:
    if before.new["revision"] != entry.new["revision"] or before.new["lease_expires_at"] is None:
        return False
    time = world.transactions.statement_times[entry.transaction]
    return datetime.fromisoformat(before.new["lease_expires_at"]) > time


def _effects(world: World, entries: list[Entry]) -> Iterator[str]:
    """Check that effects were committed once per succeeded or skipped revision.

    No other revision may have committed effects.
    """
    rows = world.store.admin.execute(
        "SELECT worker, work_id, revision, count(*) FROM simulation_effect GROUP BY 1, 2, 3"
    ).fetchall()
    committed = {(worker, work_id, revision): count for worker, work_id, revision, count in rows}
    settled = Counter((entry.worker, entry.id, entry.new["revision"]) for entry in entries if entry.commits_effects)
    for key in committed.keys() | settled.keys():
        if committed.get(key, 0) != 1 or settled[key] != 1:
            yield (
                f"the effects of {key[0]} {world.name(key[1])}, revision {key[2]}, were committed "
                f"{committed.get(key, 0)} times, but it succeeded or was skipped {settled[key]} times"
            )


def _matches(world: World, entries: list[Entry]) -> Iterator[str]:
    """Check that only transactions that settle a matching work item change matches.

    A simulated world has no reviewers.
    """
    settling = {entry.transaction for entry in entries if entry.worker == "matching" and entry.commits_effects}
    for change in match_changes(world):
        if change.transaction not in settling:
            yield (
                f"the match of {world.name(change.a)} and {world.name(change.b)} changed in transaction "
                f"{change.transaction}, which settles no work item of matching"
            )


def _permanent_failures(world: World, entries: list[Entry]) -> Iterator[str]:
    """Check that permanent failures are not retried."""
    failed: set[tuple[str, UUID, int]] = set()
    permanent = {
        (simulated.task, simulated.worker, simulated.attempt.work_id)
        for simulated in world.attempts
        if _is_permanent(simulated)
    }
    for entry in entries:
        key = (entry.worker, entry.id, entry.new["revision"])
        if entry.is_claim and key in failed:
            yield f"{entry.worker} of {world.name(entry.id)} is retried after its failure (ledger {entry.number})"
        if entry.changed_to("failed"):
            failed.add(key)
        if (entry.task, entry.worker, entry.id) in permanent and entry.changed_to("pending"):
            yield f"a permanent failure of {entry.worker} {world.name(entry.id)} is retried (ledger {entry.number})"


def _is_permanent(simulated: SimulatedAttempt) -> bool:
    """Return whether the error forbids a retry.

    For tasks, this includes unmapped errors.
    """
    if isinstance(simulated.exception, PermanentError) or simulated.exception is None:
        return simulated.exception is not None
    return simulated.worker == "tasks" and not isinstance(
        simulated.exception, TransientError | DeferredError | StaleClaimError
    )


def _claims_start(world: World, entries: list[Entry]) -> Iterator[str]:
    """Check that an attempt starts soon after its claim is committed.

    A stalled process or thread excuses a delay.
    """
    claims = _claims_of_attempts(world, entries)
    for simulated in world.attempts:
        entry = claims.get(simulated)
        committed_at = world.transactions.committed_at.get(entry.transaction) if entry is not None else None
        if entry is None or committed_at is None or simulated.started_at <= committed_at + SLACK_SECONDS:
            continue
        if not any(committed_at <= stall <= simulated.started_at for stall in world.stalls):
            wait = simulated.started_at - committed_at
            yield f"a claim on {entry.worker} {world.name(entry.id)} waited {wait:.1f} s (ledger {entry.number})"


def _dead_letters(world: World, entries: list[Entry]) -> Iterator[str]:
    """Check that every failure has one notification and one dead letter.

    The dead letter's reason must be correct.
    """
    admin = world.store.admin
    rows = admin.execute("SELECT job_id, revision, count(*) FROM failure_event GROUP BY 1, 2").fetchall()
    notified = {(job, revision): count for job, revision, count in rows}
    rows = admin.execute("SELECT job_id, revision, dlq_reason FROM dead_letter").fetchall()
    dead_letters = {job: (revision, reason) for job, revision, reason in rows}
    failures = Counter((_job(entry), entry.new["revision"]) for entry in entries if entry.changed_to("failed"))
    failures.update((uuid5(JOB_NAMESPACE, f"{queue.name}/{message.id}"), 0) for queue, message in world.unreadable)
    for key in notified.keys() | failures.keys():
        if notified.get(key, 0) != 1 or failures[key] != 1:
            yield f"{notified.get(key, 0)} notifications of {failures[key]} failures, job {key[0]}, revision {key[1]}"
    for job in dead_letters.keys() - {job for job, _ in failures}:
        yield f"a dead letter without a failure: job {job}"
    for entry in {(entry.worker, entry.id): entry for entry in entries}.values():
        if entry.new["status"] == "failed" and dead_letters.get(_job(entry), (0,))[0] != entry.new["revision"]:
            yield f"failed {entry.worker} of {world.name(entry.id)} has no dead letter for its revision"
    for entry in entries:
        exhaustion = (entry.new["revision"], "max_retries_exceeded")
        is_exhausted = entry.changed_to("failed") and dead_letters.get(_job(entry)) == exhaustion
        if is_exhausted and entry.new["attempts"] == 0:
            yield f"{entry.worker} of {world.name(entry.id)} failed without any attempt"
        limit = world.attempt_limits.get(entry.id, world.max_attempts)
        if is_exhausted and entry.new["attempts"] < limit and entry.new["dlq_returns"] < MAX_RETURNS:
            yield (
                f"{entry.worker} of {world.name(entry.id)} was dead-lettered after "
                f"{entry.new['attempts']} attempts and {entry.new['dlq_returns']} returns"
            )


_REPORTED_AS_LOST = """
SELECT worker, work_id FROM dead_letter d WHERE metadata #>> '{last_error,type}' = 'WorkerLost' AND NOT EXISTS (
    SELECT FROM work_attempt a WHERE (a.worker, a.work_id, a.revision, a.number) = (d.worker, d.work_id, d.revision,
        d.attempts) AND a.error_type = 'WorkerLost')
"""


def _error_types(world: World) -> Iterator[str]:
    """Check that no dead letter reports a lost worker after a settled last attempt."""
    for worker, work_id in world.store.admin.execute(_REPORTED_AS_LOST).fetchall():
        name = world.name(work_id)
        yield f"the dead letter of {worker} {name} reports a lost worker, but its last attempt was settled"


def _leases(world: World, entries: list[Entry]) -> Iterator[str]:
    """Check that leases have the configured length despite the processes' clocks."""
    for entry in entries:
        if not entry.is_claim:
            continue
        claimed_at = world.transactions.statement_times[entry.transaction]
        seconds = (datetime.fromisoformat(entry.new["lease_expires_at"]) - claimed_at).total_seconds()
        if not world.lease - IDLE_SECONDS <= seconds <= world.lease + 1:
            yield f"the lease of {entry.worker} {world.name(entry.id)} lasts {seconds:.0f} s (ledger {entry.number})"


def _second_runs(world: World) -> Iterator[str]:
    """Check that an attempt is repeated once if PostgreSQL is unavailable.

    The attempt counts only after the second run.
    """
    for simulated in world.attempts:
        if isinstance(simulated.exception, DatabaseUnavailableError) and simulated.runs == 1 and simulated.could_run:
            name = world.name(simulated.attempt.work_id)
            yield f"an attempt of {simulated.worker} {name} counts without a second run"


def _job(entry: Entry) -> UUID:
    return WORK_KINDS[entry.worker].job_id(entry.id)


def _unknown_work(world: World) -> Iterator[str]:
    """Check that exactly the messages for unknown work items are recorded as unknown."""
    rows = world.store.admin.execute(
        "SELECT job_id FROM dead_letter_audit WHERE action IN ('unknown-work', 'dropped-unknown')"
    ).fetchall()
    for worker, work_id in world.unknown_work:
        if (WORK_KINDS[worker].job_id(work_id),) not in rows:
            yield f"a {worker} message for unknown work item {work_id} was deleted without a record"
    unknown = {WORK_KINDS[worker].job_id(work_id) for worker, work_id in (*world.unknown_work, *world.restored)}
    for (job,) in rows:
        if job not in unknown:
            yield f"a message of job {job} was recorded as a message for an unknown work item"


def _uploads(world: World) -> Iterator[str]:
    """Check that every stored object has one acquisition job.

    The object's S3 event may be lost or late. The watchdog must not count an upload as lacking an event if the event
    arrives later.
    """
    rows = world.store.admin.execute("SELECT key, sequencer FROM acquisition_job").fetchall()
    jobs = Counter(key for key, _ in rows)
    for key in world.storage.objects:
        if jobs[key] != 1:
            yield f"the upload {key} has {jobs[key]} acquisition jobs"
    without_event = sum(sequencer is None for _, sequencer in rows)
    if world.uploads_without_event > without_event:
        yield f"{world.uploads_without_event} uploads were counted as lacking an event, but {without_event} do"


def _clusters(world: World) -> Iterator[str]:
    """Check that clusters are the connected components of the edges.

    Edges to contracts are ignored.
    """
    admin = world.store.admin
    documents = admin.execute("SELECT id, type, cluster_id, matching_status FROM document ORDER BY id").fetchall()
    types = {row[0]: row[1] for row in documents}
    parent = {row[0]: row[0] for row in documents}
    linked = set()

    def find_root(id_: UUID) -> UUID:
        while parent[id_] != id_:
            id_ = parent[id_]
        return id_

    for a, b in admin.execute("SELECT document_a_id, document_b_id FROM document_match").fetchall():
        linked |= {a, b}
        if "contract" not in (types[a], types[b]):
            root, merged = sorted((find_root(a), find_root(b)))
            parent[merged] = root
    for id_, _, cluster, status in documents:
        if (cluster is not None or status == "succeeded" or id_ in linked) and cluster != find_root(id_):
            yield f"{world.name(id_)} is in cluster {cluster}, but its edges belong to {find_root(id_)}"
