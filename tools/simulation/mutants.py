"""Mutants of the engine, each with one rule removed.

The simulation must detect all of them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from typing import Any, ClassVar
from unittest import mock
from uuid import UUID, uuid4, uuid5

from counterfoil import db
from counterfoil.db import DatabaseClock
from counterfoil.delivery import batch, claims, consumer, outbox, settlement, sql, work
from counterfoil.delivery.attempt import Attempt, Outcome
from counterfoil.delivery.heartbeat import ReceivedMessage, Visibility
from counterfoil.delivery.retry import Requeue, RequeuePolicy
from counterfoil.delivery.settlement import Disposition
from counterfoil.delivery.sql import Claim, ClaimStatus
from counterfoil.delivery.work import Message, OutboxMessage, ParsedMessage, WorkKind
from counterfoil.documents import matching
from counterfoil.documents.files import Upload
from counterfoil.documents.matching import matcher
from counterfoil.errors import CounterfoilError, DeferredError, StaleClaimError
from functions.watchdog import recovery
from functions.watchdog import uploads as watchdog_uploads
from tools.simulation import scenario
from tools.simulation.database import SimulatedDatabase
from tools.simulation.faults import Fault
from tools.simulation.ledger import work_items_in
from tools.simulation.world import World


@dataclass(frozen=True)
class Mutant:
    """An engine with one rule removed."""

    name: str
    expected_violation: str
    """Regular expression for the violation that the simulation must report."""
    patch: Callable[[], Any] = ExitStack
    """Context manager that removes the rule."""
    prepare: Callable[[World], None] = lambda _world: None
    """Changes the world around the engine."""
    seed: int = 1
    """Seed of a history that detects the mutant, so that no search is needed. Update it if histories change."""


def _without(module: Any, name: str, *changes: tuple[str, str]) -> Any:
    """Patch a module's SQL statement with replacements, as pairs of old and new text.

    Raises AssertionError if an old text is missing.
    """
    statement = getattr(module, name)
    for old, new in changes:
        if old not in statement:
            message = f"{module.__name__}.{name} no longer contains {old!r}"
            raise AssertionError(message)
        statement = statement.replace(old, new)
    return mock.patch.object(module, name, statement)


@contextmanager
def _all(*contexts: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


# -- batches -----------------------------------------------------------------------------------------------------------


class _LateProtection(Visibility):
    """Does not protect messages until a record is about to start."""

    def __init__(self, real: Visibility) -> None:
        self._real = real
        self._batch = True

    def protect(self, records: Sequence[ReceivedMessage], seconds: int, now: Any) -> set[ReceivedMessage]:
        if self._batch:
            self._batch = False
            return set()
        return self._real.protect(records, seconds, now)

    def set_delay(self, record: ReceivedMessage, seconds: float, now: Any) -> None:
        self._real.set_delay(record, seconds, now)


class _PermitFirst(batch.Batch):
    """Protects a message only when a permit is free."""

    def process(self) -> list[tuple[Any, ...]]:
        real = self._consumer.visibility
        self._consumer.visibility = _LateProtection(real)
        try:
            return super().process()
        finally:
            self._consumer.visibility = real

    def _start(self, records: Sequence[ReceivedMessage], *, take_over: bool) -> None:
        if records:
            self._consumer.visibility.protect(records, self._protection_seconds(), self._consumer.clock())
        super()._start(records, take_over=take_over)


class _DeletesAll(batch.Batch):
    """Deletes every message, regardless of its outcome."""

    def _conclude(self, record: ReceivedMessage, disposition: Disposition, claim: Claim | None = None) -> Any:
        return super()._conclude(record, replace(disposition, acknowledged=True), claim)


class _AcknowledgesStale(batch.Batch):
    """Acknowledges the message of a stale attempt."""

    def _conclude(self, record: ReceivedMessage, disposition: Disposition, claim: Claim | None = None) -> Any:
        if disposition.outcome == "stale":
            disposition = replace(disposition, acknowledged=True)
        return super()._conclude(record, disposition, claim)


class _SkipsEarly(batch.Batch):
    """Drops a message that arrives early."""

    _is_starting = False

    def _start(self, records: Sequence[ReceivedMessage], *, take_over: bool) -> None:
        self._is_starting = True
        try:
            super()._start(records, take_over=take_over)
        finally:
            self._is_starting = False

    def _park(self, records: Sequence[ReceivedMessage], *, wait: timedelta) -> None:
        if not self._is_starting:
            super()._park(records, wait=wait)
            return
        for record in records:
            self._conclude(record, Disposition("early", acknowledged=True))


class _SendsLater(batch.Batch):
    """Sends retries in the next invocation, after the failed messages were deleted."""

    unsent: ClassVar[list[OutboxMessage]] = []

    def process(self) -> list[tuple[Any, ...]]:
        messages, _SendsLater.unsent = self.unsent, []
        self._consumer.settlement._outbox.send(messages)
        return super().process()

    @staticmethod
    def park_failed(
        connection: Any, kind: WorkKind, claim: Claim, *, error: str, due: datetime, **_now: datetime
    ) -> Any:
        """Update the row without enqueuing the new message."""
        values = {"id": claim.message.work_id, "token": claim.token, "error": error, "due": due}
        row = connection.execute(kind.sql(sql._PARK_FAILED), values).fetchone()
        if row is None:
            raise StaleClaimError("A newer claim exists")
        message = Message(work_id=row[0], revision=row[2], send_number=row[3])
        _SendsLater.unsent.append(OutboxMessage(uuid4(), kind.worker, row[1], message, due))
        return []


class _CountsImmediately(batch.Batch):
    """Counts an attempt that found PostgreSQL unavailable without a second run."""

    def _run(self, attempt: Attempt) -> Outcome:
        return self.handler(attempt)  # type: ignore[no-any-return]  # Powertools does not type it


def _batches(mutant_batch: type[batch.Batch]) -> Callable[[], Any]:
    return lambda: mock.patch.object(consumer, "Batch", mutant_batch)


# -- retries -----------------------------------------------------------------------------------------------------------


def _sends_later() -> Any:
    _SendsLater.unsent.clear()
    return _all(_batches(_SendsLater)(), mock.patch.object(sql, "park_failed", _SendsLater.park_failed))


class _Forks(settlement.Settlement):
    """Sends the new message before the settlement that replaces the old one."""

    def fail(self, record: ReceivedMessage, claim: Claim, error: BaseException) -> Disposition:
        now = self._clock()
        decision = self._policy.decide(error, claim.attempts, record.receives, now, max_attempts=claim.max_attempts)
        if isinstance(decision, Requeue):
            old = claim.message
            with self._database.delivery() as connection:
                row = (old.work_id, claim.tenant_id, old.revision, old.send_number + 1)
                messages = work.enqueue(connection, self._kind, [row], decision.at, now)
            self._outbox.send(messages)
        return super().fail(record, claim, error)


_CLAIM_UNCHECKED = """
UPDATE {table} SET {status} = 'in-progress', {attempts} = {attempts} + 1, {claim_token} = nextval('claim_token'),
    {claimed_at} = %(now)s, {lease_expires_at} = %(lease)s, {next_attempt_at} = NULL
WHERE id = %(id)s RETURNING {attempts}, {claim_token}
"""


class _ChecksThenActs(claims.Claims):
    """Checks whether the work item is free, and claims it in the next transaction."""

    def claim(self, messages: Mapping[Message, ParsedMessage], *, take_over: bool) -> dict[Message, Claim]:
        with self._database.delivery() as connection:
            now = self._register(connection, messages.values())
            statuses = sql.claim(
                connection,
                self._kind,
                list(messages),
                now=now,
                lease=now,
                max_attempts=self._max_attempts,
                take_over=take_over,
                read_only=True,
            )
        with self._database.delivery() as connection:
            now = self._clock()
            for message, claim in statuses.items():
                if claim.status is ClaimStatus.CLAIMED:
                    if take_over:
                        sql.record_lost_attempt(connection, self._kind, claim, now)
                    values = {"id": message.work_id, "now": now, "lease": now + self._lease}
                    attempts, token = connection.execute(self._kind.sql(_CLAIM_UNCHECKED), values).fetchall()[0]
                    statuses[message] = replace(claim, attempts=attempts, token=token)
        return statuses


def _one_step_short() -> Any:
    """Use an incorrect exponent: the n-th retry waits base * factor ** (n - 1)."""
    real = RequeuePolicy.wait
    return mock.patch.object(RequeuePolicy, "wait", lambda self, attempts, *options: real(self, attempts - 1, *options))


def _other_delay(factor: float) -> Any:
    real = outbox.Outbox._round_to_seconds
    return mock.patch.object(outbox.Outbox, "_round_to_seconds", lambda self, wait: min(900, real(self, wait * factor)))


def _one_queue() -> Any:
    def by_queue(self: outbox.Outbox, by_worker: Mapping[str, list[OutboxMessage]], _now: datetime) -> Any:
        return [(self._queue_urls[worker], messages) for worker, messages in by_worker.items()]

    return mock.patch.object(outbox.Outbox, "_by_queue", by_queue)


def _counts_messages() -> Any:
    """Count every new message as a retry, including messages after a deferral."""
    counted = "jsonb_set(m.body, '{metadata,retry_count}', to_jsonb(t.send_number))"
    body_query = f"SELECT m.id, {counted} FROM task_messages(%(ids)s) m JOIN task t USING (id)"  # constants only
    return mock.patch.dict(work.WORK_KINDS, tasks=replace(work.WORK_KINDS["tasks"], body_query=body_query))


def _numbered_by_attempts() -> Any:
    """Use the attempt number as the send number, regardless of other sends."""
    return _without(sql, "_PARK_FAILED", ("{send_number} = {send_number} + 1", "{send_number} = {attempts}"))


def _older_copies() -> Any:
    """Accept any message of the current revision."""
    condition = "WHEN (r.revision, r.send_number) < (e.revision, e.send_number) THEN 'ended'"
    return _without(sql, "_CLAIM", (condition, "WHEN r.revision < e.revision THEN 'ended'"))


def _many_failures(world: World) -> None:
    """Make nearly every attempt fail or defer."""
    world.scripts.failure_rate = 0.9


def _pauses_and_duplicates(world: World) -> None:
    world.faults.ensure(Fault.PAUSE, 8)
    world.faults.ensure(Fault.DELIVERED_TWICE, 8)


def _blames_the_worker() -> Any:
    """Report an exhausted work item's worker as lost, despite the last outcome."""
    return mock.patch.object(
        settlement, "_describe_exhaustion", return_value=(sql.WORKER_LOST_ERROR_TYPE, "The worker ended")
    )


def _process_clocks() -> Any:
    """Make each process use its own clock."""
    return mock.patch.object(DatabaseClock, "set")


def _lowers_the_limit(world: World) -> None:
    world.scripts.failure_rate = 0.9
    world.lower_limit(world.random.uniform(0, 2000))


def _no_lost_record() -> Any:
    return mock.patch.object(sql, "record_lost_attempt")


# -- statements --------------------------------------------------------------------------------------------------------

_IF_LATEST = " AND {claim_token} = %(token)s"
_NEXT_VALUE = "nextval('claim_token')"


def _no_claim_token() -> Any:
    statements = ("_SCHEDULE_RETRY", "_PARK_FAILED", "_RELEASE_ATTEMPT", "_FAIL")
    return _all(
        _without(sql, "_END", ("t.{claim_token} = outcomes.token AND ", "")),
        *(_without(sql, name, (_IF_LATEST, "")) for name in statements),
    )


def _no_lease() -> Any:
    return _without(sql, "_CLAIM", ("WHEN e.status = 'in-progress' AND e.lease > %(now)s THEN 'running'", ""))


def _attempts_as_token() -> Any:
    statements = ("_PARK_UNCLAIMED", "_CLAIM_ABANDONED", "_RETURN_TO_QUEUE")
    return _all(
        _without(sql, "_CLAIM", (_NEXT_VALUE, "t.{attempts} + 1")),
        *(_without(sql, name, (_NEXT_VALUE, "{attempts}")) for name in statements),
        _without(work, "_START_REVISION", (_NEXT_VALUE, "0")),
    )


def _no_send_number() -> Any:
    """Keep the send number when a new message replaces the sent one."""
    increment = ("{send_number} = {send_number} + 1", "{send_number} = {send_number}")
    return _all(
        *(
            _without(sql, name, increment)
            for name in ("_PARK_FAILED", "_RELEASE_ATTEMPT", "_PARK_UNCLAIMED", "_RETURN_TO_QUEUE")
        )
    )


# -- other rules -------------------------------------------------------------------------------------------------------

_SHORT_SECONDS = 30


class _ShortVisibility(settlement.Settlement):
    """Defers with a short visibility timeout instead of a new message."""

    def _defer(self, record: ReceivedMessage, claim: Claim, error: DeferredError) -> Disposition:
        if self._kind.worker == "tasks":
            return super()._defer(record, claim, error)  # tasks always use new messages
        due = self._clock() + timedelta(seconds=_SHORT_SECONDS)

        def write_wait(connection: Any) -> Sequence[Any]:
            row = {"id": claim.message.work_id, "token": claim.token, "error": str(error), "due": due}
            returned = sql._SCHEDULE_RETRY.replace("{error} =", "{attempts} = {attempts} - 1, {error} =")
            if connection.execute(self._kind.sql(returned), row).rowcount == 0:
                raise StaleClaimError("A newer claim exists")
            return ()

        try:
            self._commit(record, claim, write_wait)
        except StaleClaimError as stale:
            return Disposition("stale", acknowledged=False, error=str(stale))
        except CounterfoilError as outage:
            return self.handle_database_unavailable(record, outage)
        return Disposition("deferred", acknowledged=False, visible_in=_SHORT_SECONDS, error=str(error))


def _throttles(world: World) -> None:
    """Limit only the reserved concurrency, which throttles excess receives."""
    for worker, function in world.functions.items():
        if worker in world.workers:
            function.reserved_concurrency = 1
    for mapping in world.mappings:
        mapping.maximum_concurrency = 8
        mapping.batch_size = 1


def _no_second_search() -> Any:
    real = matcher._still_valid

    def keep_decisions(connection: Any, pending: Any) -> Any:
        _, writers = real(connection, pending)
        return pending, writers

    return mock.patch.object(matcher, "_still_valid", keep_decisions)


def _no_second_search_in_batch() -> Any:
    real = matcher._still_valid

    def keep_decisions(connection: Any, pending: Any) -> Any:
        valid, writers = real(connection, pending)
        is_together = sys._getframe(1).f_code is matcher.write_batch.__code__
        return (pending if is_together else valid), writers

    return mock.patch.object(matcher, "_still_valid", keep_decisions)


def _no_comparison() -> Any:
    return mock.patch.object(matcher, "_invalidates", return_value=False)


def _separate_matches() -> Any:
    """Commit matches in their own transaction before the settlement."""

    def separate(name: str) -> Any:
        real = getattr(matching, name)

        def write(connection: Any, pending: Any, now: datetime) -> Any:
            database = SimulatedDatabase(connection._transactions, connection._process)
            with database.tenant(scenario.TENANT) as own_connection:
                return real(own_connection, pending, now)

        return mock.patch.object(matching, name, write)

    return _all(separate("write"), separate("write_batch"))


@contextmanager
def _named_by_sequencer() -> Iterator[None]:
    def job_id(upload: Upload) -> UUID:
        return uuid5(work.JOB_NAMESPACE, f"acquisition/{upload.bucket}/{upload.key}/{upload.sequencer}")

    work_items_in.cache_clear()  # otherwise the cache would mix both kinds of ids
    try:
        with mock.patch.object(Upload, "job_id", property(job_id)):
            yield
    finally:
        work_items_in.cache_clear()


def _ignores_cursor() -> Any:
    return _without(
        watchdog_uploads, "_LISTING", ("key_marker, version_marker", "NULL AS key_marker, NULL AS version_marker")
    )


MUTANTS = (
    Mutant("permit before protection", "waits before protecting", _batches(_PermitFirst)),
    Mutant("delete in finally", "lost", _batches(_DeletesAll), seed=4),
    Mutant("no claim token", "overwrites a newer attempt", _no_claim_token, seed=62),
    Mutant("no lease", "claimed over a live lease", _no_lease, seed=4),
    Mutant("attempts used as the token and reset", "overwrites a newer attempt", _attempts_as_token, seed=16),
    Mutant("throttling limit", "wasted", prepare=_throttles, seed=8),
    Mutant(
        "breaker by short visibility",
        "wasted",
        lambda: mock.patch.object(consumer, "Settlement", _ShortVisibility),
        seed=36,
    ),
    Mutant("edge deletion without a second search", "linked", _no_second_search, seed=56),
    Mutant("batch written without a second search", "linked", _no_second_search_in_batch, seed=200),
    Mutant("batch written without a comparison", "linked", _no_comparison, seed=18),
    Mutant("matches committed apart from settlement", "settles no work item of matching", _separate_matches, seed=3),
    Mutant(
        "stale attempt acknowledged",
        "lost",
        _batches(_AcknowledgesStale),
        lambda world: world.faults.ensure(Fault.PAUSE, 8),
        seed=319,
    ),
    Mutant("no send number", "does not increase|lost", _no_send_number, seed=14),
    Mutant("send after acknowledge", "lost", _sends_later, seed=39),
    Mutant(
        "requeue that forks",
        "is newer than its row",
        lambda: mock.patch.object(consumer, "Settlement", _Forks),
        lambda world: world.faults.ensure(Fault.LOST_BEFORE_COMMIT, 8),
        seed=347,
    ),
    Mutant(
        "check-then-act guard",
        "were committed 2 times",
        lambda: mock.patch.object(consumer, "Claims", _ChecksThenActs),
        _pauses_and_duplicates,
        seed=80,
    ),
    Mutant(
        "lost connection counted immediately",
        "without a second run",
        _batches(_CountsImmediately),
        _many_failures,
        seed=4,
    ),
    Mutant("early message skipped", "lost", _batches(_SkipsEarly), seed=35),
    Mutant("older copy claimed", "claimed without its latest message", _older_copies, seed=17),
    Mutant(
        "send number from the count of attempts",
        "does not increase",
        _numbered_by_attempts,
        _many_failures,
        seed=8,
    ),
    Mutant("waits one step short", "instead of", _one_step_short, seed=39),
    Mutant("sent after half of its delay", "too early", lambda: _other_delay(0.5), seed=30),
    Mutant("sent after twice its delay", "s instead of", lambda: _other_delay(2), seed=39),
    Mutant("retries among first attempts", "goes to the queue of first attempts", _one_queue, seed=30),
    Mutant(
        "deferrals counted as retries",
        "has a retry count other than",
        _counts_messages,
        _many_failures,
        seed=8,
    ),
    Mutant("settled attempt reported as lost", "reports a lost worker", _blames_the_worker, _lowers_the_limit, seed=2),
    Mutant("uploads named by the sequencer", "its work item was never registered", _named_by_sequencer, seed=2),
    Mutant("listing that ignores its cursor", "has 0 acquisition jobs", _ignores_cursor, seed=54),
    Mutant(
        "queued events counted as lost",
        "were counted as lacking an event",
        lambda: mock.patch.object(watchdog_uploads, "QUEUE_RETENTION", timedelta(0)),
        seed=2,
    ),
    Mutant("leases by process clocks", "the lease of", _process_clocks, seed=2),
    Mutant(
        "no deadline for the database",
        "waits for the database until Lambda ends it",
        lambda: mock.patch.object(db, "SERVER_GRACE_SECONDS", inf),
        lambda world: world.faults.ensure(Fault.HUNG, 8),
        seed=11,
    ),
    Mutant("lost attempt not recorded", "is recorded 0 times", _no_lost_record, seed=4),
    Mutant(
        "returns without an attempt counted",
        "failed without any attempt",
        lambda: _without(sql, "_RETURN_TO_QUEUE", ("({attempts} > 0)::int", "1"), ("{attempts} = 0 OR ", "")),
        lambda world: world.faults.ensure(Fault.CRASHES_AT_START, 8),
        seed=52,
    ),
    Mutant(
        "newer message acknowledged as unknown",
        "lost",
        lambda: mock.patch.object(sql, "enqueue_current", return_value=None),
        lambda world: world.faults.ensure(Fault.TRANSACTION_LOST, 8),
        seed=22,
    ),
    Mutant(
        "lost message not resent to a busy queue",
        "is overdue for resending",
        lambda: mock.patch.object(recovery, "VISIBILITY_TIMEOUT_MULTIPLE", 1200),
        lambda world: world.faults.ensure(Fault.MESSAGE_LOST, 4),
        seed=25,
    ),
)
