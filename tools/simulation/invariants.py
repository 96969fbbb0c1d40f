"""What must hold in every history, looked at while it runs and when it has come to rest."""

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
from counterfoil.kinds import KINDS
from tools.simulation import oracle, retries
from tools.simulation.ledger import Entry, Named, ledger, match_changes, named
from tools.simulation.scheduler import ViolationError
from tools.simulation.sqs import Message, Queue
from tools.simulation.world import Try, World

MAX_ATTEMPTS = 3
MAX_RETURNS = 2
WAITS = ("pending", "in-progress")
RESEND_SLACK_SECONDS = 3600
"""How late a lost message may be resent, because a watchdog run can fail."""
SLACK_SECONDS = 30
"""What may lie between a claim and its try where nothing stands still: other records of its set are concluded."""

_OWED = """
SELECT w.*, EXISTS (SELECT FROM outbox o WHERE o.worker = w.worker AND o.work_id = w.id AND o.revision = w.revision
                    AND o.send_number = w.send_number AND o.sent_at IS NULL)
FROM (
    SELECT 'acquisition' AS worker, id, status, revision, send_number, attempts, lease_expires_at, returns
    FROM acquisition_job
    UNION ALL SELECT 'ingestion', id, status, revision, send_number, attempts, lease_expires_at, returns
    FROM ingestion_job
    UNION ALL SELECT 'matching', id, matching_status, matching_revision, matching_send_number, matching_attempts,
                     matching_lease_expires_at, matching_returns
    FROM document
    UNION ALL SELECT 'diagnostics', id, status, revision, send_number, attempts, lease_expires_at, returns
    FROM cluster_diagnostics
    UNION ALL SELECT 'tasks', id, status, revision, send_number, attempts, lease_expires_at, returns
    FROM task
) w
"""


@dataclass(frozen=True)
class State:
    """A work's row."""

    worker: str
    id: UUID
    status: str | None
    revision: int
    send_number: int
    attempts: int
    lease: Any
    returns: int
    unsent: bool


class Watch:
    """Looks at a world while it runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen = -1
        self._known: tuple[int, list[State]] = (-1, [])
        """What was read after so many commits."""
        world.sqs.on_deleted = self._deleted
        world.sqs.on_dead = self._dead
        world.scheduler.after_time_passed += [self.nothing_is_lost, self.lost_messages_are_resent]
        for mapping in world.mappings:
            mapping.after = self._answered

    def _states(self) -> list[State]:
        writes = self._world.transactions.writes
        if self._known[0] != writes:
            rows = self._world.store.admin.execute(_OWED.encode()).fetchall()
            self._known = (writes, [State(*row) for row in rows])
        return self._known[1]

    def _held(self) -> set[Named]:
        """What the queues hold."""
        return {
            one
            for queue in self._world.sqs.by_name.values()
            for message in queue.messages
            for one in named(queue.worker, message.body)
        }

    def nothing_is_lost(self) -> None:
        """Every work that has not ended is owed a delivery: its message is in a queue, or in the outbox."""
        if self._seen == self._world.transactions.writes:
            return
        self._seen = self._world.transactions.writes
        self._check(self._states())

    def lost_messages_are_resent(self) -> None:
        """The watchdog resends a message that a queue has lost, even if its queues are busy."""
        if not self._world.lost:
            return
        now = self._world.scheduler.now
        for (worker, work_id, *_), due in self._world.resends_due().items():
            if now > due + RESEND_SLACK_SECONDS:
                self._world.scheduler.fail(
                    f"the lost message of {worker} {self._world.name(work_id)} is not resent for {now - due:.0f} s"
                )

    def _check(self, states: list[State]) -> None:
        held, lost = self._held(), self._world.lost
        for state in states:
            name = (state.worker, state.id, state.revision, state.send_number)
            if name in held:
                lost.discard(name)
            elif state.unsent:
                continue  # the outbox owes it; a message that was lost before it was marked as sent stays lost
            elif name[:2] in self._world.restored and any(name < other for other in held if other[:2] == name[:2]):
                continue  # its newer message will enqueue the current one
            elif state.status in WAITS and name not in lost:
                for cause in retries.numbers_rise(self._world, ledger(self._world)):
                    self._world.scheduler.fail(cause)  # for its message was sent before, and is gone
                self._world.scheduler.fail(
                    f"lost: {state.worker} of {self._world.name(state.id)} is {state.status}, and no message of "
                    f"revision {state.revision}, send number {state.send_number} is anywhere"
                )

    def _deleted(self, queue: Queue, message: Message) -> None:
        states = self._states()
        known = {(state.worker, state.id): state for state in states}
        for worker, work_id, *numbers in named(queue.worker, message.body):
            state = known.get((worker, work_id))
            if state is None:
                if (worker, work_id) not in self._world.strays:
                    self._world.scheduler.fail(f"lost: {message.id} is deleted, and its work was never registered")
            elif numbers > [state.revision, state.send_number] and (worker, work_id) not in self._world.restored:
                self._world.scheduler.fail(f"{message.id} is newer than its row, and no transaction was lost")
        self._check(states)

    def _dead(self, queue: Queue, message: Message) -> None:
        """No message gets to a dead-letter queue by receives that were neither tries nor the world's fault."""
        names = named(queue.worker, message.body)
        if len(names) != 1:
            return
        states = {(state.worker, state.id): state for state in self._states()}
        state = states.get(names[0][:2])
        if state is None or state.status not in WAITS or (state.revision, state.send_number) != names[0][2:]:
            return
        vain = [receive for receive in message.history if receive.excuse is None]
        if len(vain) > state.attempts:
            self._world.scheduler.fail(
                f"{message.id} was received {len(vain)} times for nothing and moves to the dead-letter queue, "
                f"its work having been tried {state.attempts} times"
            )

    def _answered(self, queue: Queue, messages: list[Message]) -> None:
        """A message that was kept since its work runs elsewhere was not received in vain."""
        kept = [message for message in messages if message in queue.messages and message.receives]
        kept = [message for message in kept if message.receives[-1].excuse is None]
        if not kept:
            return
        names = [name for message in messages for name in named(queue.worker, message.body)]
        now = self._world.scheduler.clock()
        states = {(state.worker, state.id): state for state in self._states()}
        for message in kept:
            for name in named(queue.worker, message.body):
                state = states.get(name[:2])
                others = sum(other[:2] == name[:2] and other[2:] >= name[2:] for other in names)
                if others > 1 or (state is not None and state.lease is not None and state.lease > now):
                    message.receives[-1].excuse = "another message of its work was in hand"


# -- at rest ----------------------------------------------------------------------------------------------------------


def check(world: World) -> None:
    """Check a world at rest.

    Raises:
        ViolationError: the first invariant that does not hold.
    """
    entries = ledger(world)
    for finding in _findings(world, entries):
        raise ViolationError(finding)


def _findings(world: World, entries: list[Entry]) -> Iterator[str]:
    yield from _at_rest(world)
    yield from _attempts(world, entries)
    yield from _nobody_overwrites(world, entries)
    yield from retries.findings(world, entries)
    yield from _effects(world, entries)
    yield from _permanent(world, entries)
    yield from _claims_start(world, entries)
    yield from _dead_letters(world, entries)
    yield from _error_types(world)
    yield from _second_runs(world)
    yield from _leases(world, entries)
    yield from _strays(world)
    yield from _uploads(world)
    yield from _clusters(world)
    yield from _matches(world, entries)  # before the oracle, which matches as well
    yield from oracle.check(world)


def _at_rest(world: World) -> Iterator[str]:
    for row in world.store.admin.execute(_OWED.encode()).fetchall():
        state = State(*row)
        if state.status in WAITS:
            yield f"{state.worker} of {world.name(state.id)} never ends: it is {state.status}"
    for queue in world.sqs.by_name.values():
        for message in queue.messages:
            yield f"{message.id} stays in {queue.name} for ever"
    (unsent,) = world.store.admin.execute("SELECT count(*) FROM outbox WHERE sent_at IS NULL").fetchall()[0]
    if unsent:
        yield f"{unsent} rows of the outbox are never sent"


def _attempts(world: World, entries: list[Entry]) -> Iterator[str]:
    """Attempts equal the claims that were committed and not given back, and never exceed their bound."""
    counted: dict[tuple[str, UUID, int], int] = defaultdict(int)
    tries = {(one.task, one.worker, one.attempt.work_id): one for one in world.tries}
    for entry in entries:
        key = (entry.worker, entry.id, entry.new["revision"])
        if entry.claims:
            counted[key] += 1
        one = tries.get((entry.task, entry.worker, entry.id))
        same_revision = entry.old is not None and entry.old["revision"] == entry.new["revision"]
        was = entry.old["attempts"] if entry.old is not None and same_revision else 0
        if (
            entry.became("pending")
            and 0 < entry.new["attempts"] + 1 == was
            and (one is None or not one.by_itself or isinstance(one.raised, DeferredError))
        ):
            counted[key] -= 1
        if entry.new["attempts"] != counted[key]:
            yield (
                f"{entry.worker} of {world.name(entry.id)} counts {entry.new['attempts']} attempts in revision "
                f"{key[2]}, and {counted[key]} claims were committed and not given back (ledger {entry.number})"
            )
        if entry.new["attempts"] > _most(world, entry):
            yield f"{entry.worker} of {world.name(entry.id)} was tried {entry.new['attempts']} times"


def _most(world: World, entry: Entry) -> int:
    """How often a work may be tried in one revision."""
    return world.bounds.get(entry.id, MAX_ATTEMPTS)


def _claims_of_tries(world: World, entries: list[Entry]) -> dict[Try, Entry]:
    """The ledger's line of each try's claim: the latest before the try began."""
    found = {}
    for one in world.tries:
        attempt = one.attempt
        for entry in entries:
            if (
                entry.claims
                and (entry.worker, entry.id) == (one.worker, attempt.work_id)
                and entry.transaction <= one.begun_after
                and (entry.new["revision"], entry.new["attempts"], entry.new["claim_token"])
                == (attempt.revision, attempt.number, attempt.token)
            ):
                found[one] = entry
    return found


def _nobody_overwrites(world: World, entries: list[Entry]) -> Iterator[str]:
    """A try changes its work only while its claim is the latest; a claim is never made over a live lease."""
    claims = _claims_of_tries(world, entries)
    by_work: dict[tuple[str, UUID], list[Entry]] = defaultdict(list)
    for entry in entries:
        by_work[entry.worker, entry.id].append(entry)
    for one in world.tries:
        own = by_work[one.worker, one.attempt.work_id]
        claim = claims.get(one)
        if claim is None:
            yield f"a try of {one.worker} {world.name(one.attempt.work_id)} runs without a committed claim"
            continue
        for entry in own:
            if entry.task != one.task:
                continue
            taken = [other for other in own if claim.number < other.number < entry.number and other.takes]
            if taken:
                yield (
                    f"a stale try of {one.worker} {world.name(one.attempt.work_id)} overwrites a newer one "
                    f"(ledger {entry.number}, taken by {taken[0].number})"
                )
    for own in by_work.values():
        for before, entry in pairwise(own):
            if entry.claims and before.new["status"] == "in-progress" and _live(world, before, entry):
                yield f"{entry.worker} of {world.name(entry.id)} is claimed over a live lease (ledger {entry.number})"


def _live(world: World, before: Entry, entry: Entry) -> bool:
    if before.new["revision"] != entry.new["revision"] or before.new["lease_expires_at"] is None:
        return False
    at = world.transactions.at[entry.transaction]
    return datetime.fromisoformat(before.new["lease_expires_at"]) > at


def _effects(world: World, entries: list[Entry]) -> Iterator[str]:
    """No effect is committed twice: one for each revision that succeeded or was skipped, and none for others."""
    rows = world.store.admin.execute(
        "SELECT worker, work_id, revision, count(*) FROM simulation_effect GROUP BY 1, 2, 3"
    ).fetchall()
    committed = {(worker, work_id, revision): count for worker, work_id, revision, count in rows}
    ended = Counter((entry.worker, entry.id, entry.new["revision"]) for entry in entries if entry.commits_effects)
    for key in committed.keys() | ended.keys():
        if committed.get(key, 0) != 1 or ended[key] != 1:
            yield (
                f"the effects of {key[0]} {world.name(key[1])}, revision {key[2]}, were committed "
                f"{committed.get(key, 0)} times, and it ended well {ended[key]} times"
            )


def _matches(world: World, entries: list[Entry]) -> Iterator[str]:
    """Matches change only in transactions that settle a work item of matching.

    Reviewers decide about no match in a simulated world.
    """
    settling = {entry.transaction for entry in entries if entry.worker == "matching" and entry.commits_effects}
    for change in match_changes(world):
        if change.transaction not in settling:
            yield (
                f"the match of {world.name(change.a)} and {world.name(change.b)} changed in transaction "
                f"{change.transaction}, which settles no work item of matching"
            )


def _permanent(world: World, entries: list[Entry]) -> Iterator[str]:
    """What failed for good, and what was written down as such, is not tried again."""
    failed: set[tuple[str, UUID, int]] = set()
    permanent = {(one.task, one.worker, one.attempt.work_id) for one in world.tries if _is_permanent(one)}
    for entry in entries:
        key = (entry.worker, entry.id, entry.new["revision"])
        if entry.claims and key in failed:
            yield f"{entry.worker} of {world.name(entry.id)} is tried again after it has failed (ledger {entry.number})"
        if entry.became("failed"):
            failed.add(key)
        if (entry.task, entry.worker, entry.id) in permanent and entry.became("pending"):
            yield f"a permanent failure of {entry.worker} {world.name(entry.id)} is retried (ledger {entry.number})"


def _is_permanent(one: Try) -> bool:
    """Whether nothing may be tried again after this: of tasks, an error that nobody mapped is nothing to repeat."""
    if isinstance(one.raised, PermanentError) or one.raised is None:
        return one.raised is not None
    return one.worker == "tasks" and not isinstance(one.raised, TransientError | DeferredError | StaleClaimError)


def _claims_start(world: World, entries: list[Entry]) -> Iterator[str]:
    """A claim never waits for a permit: the try begins at the instant of its claim, unless something stands still."""
    claims = _claims_of_tries(world, entries)
    for one in world.tries:
        entry = claims.get(one)
        at = world.transactions.committed_at.get(entry.transaction) if entry is not None else None
        if entry is None or at is None or one.at <= at + SLACK_SECONDS:
            continue
        if not any(at <= stall <= one.at for stall in world.stalls):
            yield f"a claim on {entry.worker} {world.name(entry.id)} waited {one.at - at:.1f} s (ledger {entry.number})"


def _dead_letters(world: World, entries: list[Entry]) -> Iterator[str]:
    """Every failure has one notification, every failed work one dead letter, with a reason that holds."""
    admin = world.store.admin
    rows = admin.execute("SELECT job_id, revision, count(*) FROM notification GROUP BY 1, 2").fetchall()
    told = {(job, revision): count for job, revision, count in rows}
    rows = admin.execute("SELECT job_id, revision, dlq_reason FROM dead_letter").fetchall()
    letters = {job: (revision, reason) for job, revision, reason in rows}
    deaths = Counter((_job(entry), entry.new["revision"]) for entry in entries if entry.became("failed"))
    deaths.update((uuid5(JOB_NAMESPACE, f"{queue.name}/{message.id}"), 0) for queue, message in world.bad)
    for key in told.keys() | deaths.keys():
        if told.get(key, 0) != 1 or deaths[key] != 1:
            yield f"{told.get(key, 0)} notifications of {deaths[key]} failures, job {key[0]}, revision {key[1]}"
    for job in letters.keys() - {job for job, _ in deaths}:
        yield f"a dead letter of nothing: job {job}"
    for entry in {(entry.worker, entry.id): entry for entry in entries}.values():
        if entry.new["status"] == "failed" and letters.get(_job(entry), (0,))[0] != entry.new["revision"]:
            yield f"failed {entry.worker} of {world.name(entry.id)} has no dead letter of its revision"
    for entry in entries:
        exhausted = letters.get(_job(entry)) == (entry.new["revision"], "max_retries_exceeded")
        if entry.became("failed") and exhausted and entry.new["attempts"] == 0:
            yield f"{entry.worker} of {world.name(entry.id)} failed without any attempt"
        died = entry.became("failed") and letters.get(_job(entry)) == (entry.new["revision"], "max_retries_exceeded")
        limit = world.bounds.get(entry.id, world.max_attempts)
        if died and entry.new["attempts"] < limit and entry.new["returns"] < MAX_RETURNS:
            yield (
                f"{entry.worker} of {world.name(entry.id)} is dead with {entry.new['attempts']} attempts and "
                f"{entry.new['returns']} returns"
            )


_BLAMED = """
SELECT worker, work_id FROM dead_letter d WHERE metadata #>> '{last_error,type}' = 'WorkerLost' AND NOT EXISTS (
    SELECT FROM work_attempt a WHERE (a.worker, a.work_id, a.revision, a.number) = (d.worker, d.work_id, d.revision,
        d.attempts) AND a.error_type = 'WorkerLost')
"""


def _error_types(world: World) -> Iterator[str]:
    """A dead letter blames a lost worker only where the last attempt never settled."""
    for worker, work_id in world.store.admin.execute(_BLAMED).fetchall():
        yield f"the dead letter of {worker} {world.name(work_id)} blames a lost worker, and its last attempt settled"


def _leases(world: World, entries: list[Entry]) -> Iterator[str]:
    """A claim's lease is as long as the settings say, whatever the clock of its process."""
    for entry in entries:
        if not entry.claims:
            continue
        at = world.transactions.at[entry.transaction]
        seconds = (datetime.fromisoformat(entry.new["lease_expires_at"]) - at).total_seconds()
        if not world.lease - IDLE_SECONDS <= seconds <= world.lease + 1:
            yield f"the lease of {entry.worker} {world.name(entry.id)} lasts {seconds:.0f} s (ledger {entry.number})"


def _second_runs(world: World) -> Iterator[str]:
    """An attempt that finds PostgreSQL unavailable runs once more before it is charged."""
    for one in world.tries:
        if isinstance(one.raised, DatabaseUnavailableError) and one.runs == 1 and one.could_run:
            yield f"an attempt of {one.worker} {world.name(one.attempt.work_id)} is charged without a second run"


def _job(entry: Entry) -> UUID:
    return KINDS[entry.worker].job_id(entry.id)


def _strays(world: World) -> Iterator[str]:
    """A message about work that does not exist is on record, and none about work that does."""
    rows = world.store.admin.execute(
        "SELECT job_id FROM dead_letter_audit WHERE action IN ('unknown-work', 'dropped-unknown')"
    ).fetchall()
    for worker, work_id in world.strays:
        if (KINDS[worker].job_id(work_id),) not in rows:
            yield f"a message of {worker} about unknown work {work_id} is gone without a record"
    unknown = {KINDS[worker].job_id(work_id) for worker, work_id in (*world.strays, *world.restored)}
    for (job,) in rows:
        if job not in unknown:
            yield f"a message of job {job} was taken for one of work that does not exist"


def _uploads(world: World) -> Iterator[str]:
    """Every stored object has exactly one acquisition job, also if its S3 event was lost or late.

    The watchdog counts no upload as without an event whose event arrives later.
    """
    rows = world.store.admin.execute("SELECT key, sequencer FROM acquisition_job").fetchall()
    jobs = Counter(key for key, _ in rows)
    for key in world.storage.objects:
        if jobs[key] != 1:
            yield f"the upload {key} has {jobs[key]} acquisition jobs"
    without_event = sum(sequencer is None for _, sequencer in rows)
    if world.uploads_without_event > without_event:
        yield f"{world.uploads_without_event} uploads count as without an event, and {without_event} are"


def _clusters(world: World) -> Iterator[str]:
    """Clusters are the connected components of the edges, those to contracts left out."""
    admin = world.store.admin
    documents = admin.execute("SELECT id, type, cluster_id, matching_status FROM document ORDER BY id").fetchall()
    kinds = {row[0]: row[1] for row in documents}
    leader = {row[0]: row[0] for row in documents}
    linked = set()

    def find(id_: UUID) -> UUID:
        while leader[id_] != id_:
            id_ = leader[id_]
        return id_

    for a, b in admin.execute("SELECT document_a_id, document_b_id FROM document_match").fetchall():
        linked |= {a, b}
        if "contract" not in (kinds[a], kinds[b]):
            one, other = sorted((find(a), find(b)))
            leader[other] = one
    for id_, _, cluster, status in documents:
        if (cluster is not None or status == "succeeded" or id_ in linked) and cluster != find(id_):
            yield f"{world.name(id_)} is in cluster {cluster}, and the edges put it into {find(id_)}"
