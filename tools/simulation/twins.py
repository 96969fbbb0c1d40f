"""Broken twins of the engine, each without one of its rules: a simulation that is worth its name catches every one."""

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
from counterfoil.delivery.heartbeat import Received, Visibility
from counterfoil.delivery.retry import Requeue, RequeuePolicy
from counterfoil.delivery.settlement import Verdict
from counterfoil.delivery.sql import Answer, Claim
from counterfoil.delivery.work import Intake, Message, Send, WorkKind
from counterfoil.documents import matching
from counterfoil.documents.files import Upload
from counterfoil.documents.matching import matcher
from counterfoil.errors import CounterfoilError, DeferredError, StaleClaimError
from functions.watchdog import recovery
from functions.watchdog import uploads as watchdog_uploads
from tools.simulation import scenario
from tools.simulation.database import SimulatedDatabase
from tools.simulation.faults import Fault
from tools.simulation.ledger import named
from tools.simulation.world import World


@dataclass(frozen=True)
class Twin:
    """One rule broken."""

    name: str
    caught_by: str
    """The violation that the simulation reports, as a regular expression."""
    broken: Callable[[], Any] = ExitStack
    """A context in which the engine is broken."""
    prepare: Callable[[World], None] = lambda _world: None
    """What is broken about the world around it."""
    caught_at: int = 1
    """Seed of a history that catches it, as long as the simulation draws the same histories. Saves a search for one."""


def _without(module: Any, name: str, *changes: tuple[str, str]) -> Any:
    """A statement of a module, changed; every change must find its text."""
    statement = getattr(module, name)
    for old, new in changes:
        if old not in statement:
            message = f"{module.__name__}.{name} does not say {old!r} any more"
            raise AssertionError(message)
        statement = statement.replace(old, new)
    return mock.patch.object(module, name, statement)


@contextmanager
def _all(*contexts: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


# -- batches ----------------------------------------------------------------------------------------------------------


class _NotYet(Visibility):
    """Protects nothing until a record is about to start."""

    def __init__(self, real: Visibility) -> None:
        self._real = real
        self._batch = True

    def protect(self, records: Sequence[Received], seconds: int, now: Any) -> set[Received]:
        if self._batch:
            self._batch = False
            return set()
        return self._real.protect(records, seconds, now)

    def back_off(self, record: Received, seconds: float, now: Any) -> None:
        self._real.back_off(record, seconds, now)


class _PermitFirst(batch.Batch):
    """A message is protected when its permit has come."""

    def process(self) -> list[tuple[Any, ...]]:
        real = self._consumer.visibility
        self._consumer.visibility = _NotYet(real)
        try:
            return super().process()
        finally:
            self._consumer.visibility = real

    def _start(self, records: Sequence[Received], *, take_over: bool) -> None:
        if records:
            self._consumer.visibility.protect(records, self._protection_seconds(), self._consumer.clock())
        super()._start(records, take_over=take_over)


class _DeletesAll(batch.Batch):
    """Whatever became of a message, it is deleted in the end."""

    def _conclude(self, record: Received, verdict: Verdict, claim: Claim | None = None) -> Any:
        return super()._conclude(record, replace(verdict, acknowledged=True), claim)


class _AcknowledgesStale(batch.Batch):
    """A stale try takes its message along."""

    def _conclude(self, record: Received, verdict: Verdict, claim: Claim | None = None) -> Any:
        if verdict.outcome == "stale":
            verdict = replace(verdict, acknowledged=True)
        return super()._conclude(record, verdict, claim)


class _SkipsEarly(batch.Batch):
    """What comes before its time is not for this consumer, and is gone."""

    _is_starting = False

    def _start(self, records: Sequence[Received], *, take_over: bool) -> None:
        self._is_starting = True
        try:
            super()._start(records, take_over=take_over)
        finally:
            self._is_starting = False

    def _park(self, records: Sequence[Received], *, wait: timedelta) -> None:
        if not self._is_starting:
            super()._park(records, wait=wait)
            return
        for record in records:
            self._conclude(record, Verdict("early", acknowledged=True))


class _SendsLater(batch.Batch):
    """Retries are sent when the messages that failed are known to be gone: at the next invocation."""

    unsent: ClassVar[list[Send]] = []

    def process(self) -> list[tuple[Any, ...]]:
        sends, _SendsLater.unsent = self.unsent, []
        self._consumer.settlement._outbox.send(sends)
        return super().process()

    @staticmethod
    def park_failed(
        connection: Any, kind: WorkKind, claim: Claim, *, error: str, due: datetime, **_now: datetime
    ) -> Any:
        """The state without its message."""
        values = {"id": claim.message.work_id, "token": claim.token, "error": error, "due": due}
        row = connection.execute(kind.sql(sql._PARK_FAILED), values).fetchone()
        if row is None:
            raise StaleClaimError("A newer claim exists")
        message = Message(work_id=row[0], revision=row[2], send_number=row[3])
        _SendsLater.unsent.append(Send(uuid4(), kind.worker, row[1], message, due))
        return []


class _ChargesAtOnce(batch.Batch):
    """An attempt that found PostgreSQL unavailable is charged at once."""

    def _run(self, attempt: Attempt) -> Outcome:
        return self.handler(attempt)  # type: ignore[no-any-return]  # Powertools does not type it


def _batches(broken: type[batch.Batch]) -> Callable[[], Any]:
    return lambda: mock.patch.object(consumer, "Batch", broken)


# -- retries ----------------------------------------------------------------------------------------------------------


def _sends_later() -> Any:
    _SendsLater.unsent.clear()
    return _all(_batches(_SendsLater)(), mock.patch.object(sql, "park_failed", _SendsLater.park_failed))


class _Forks(settlement.Settlement):
    """The new message is on its way before anything says that the old one is not needed any more."""

    def failed(self, record: Received, claim: Claim, error: BaseException) -> Verdict:
        now = self._clock()
        decision = self._policy.decide(error, claim.attempts, record.receives, now, max_attempts=claim.max_attempts)
        if isinstance(decision, Requeue):
            old = claim.message
            with self._database.delivery() as connection:
                row = (old.work_id, claim.tenant_id, old.revision, old.send_number + 1)
                sends = work.enqueue(connection, self._kind, [row], decision.at, now)
            self._outbox.send(sends)
        return super().failed(record, claim, error)


_ACT = """
UPDATE {table} SET {status} = 'in-progress', {attempts} = {attempts} + 1, {claim_token} = nextval('claim_token'),
    {claimed_at} = %(now)s, {lease_expires_at} = %(lease)s, {next_attempt_at} = NULL
WHERE id = %(id)s RETURNING {attempts}, {claim_token}
"""


class _ChecksThenActs(claims.Claims):
    """Whether work is free is asked first; that it is taken is written down afterwards."""

    def claim(self, wanted: Mapping[Message, Intake], *, take_over: bool) -> dict[Message, Claim]:
        with self._database.delivery() as connection:
            now = self._register(connection, wanted.values())
            found = sql.claim(
                connection,
                self._kind,
                list(wanted),
                now=now,
                lease=now,
                max_attempts=self._max_attempts,
                take_over=take_over,
                look_only=True,
            )
        with self._database.delivery() as connection:
            now = self._clock()
            for message, claim in found.items():
                if claim.answer is Answer.MINE:
                    if take_over:
                        sql.note_lost(connection, self._kind, claim, now)
                    values = {"id": message.work_id, "now": now, "lease": now + self._lease}
                    attempts, token = connection.execute(self._kind.sql(_ACT), values).fetchall()[0]
                    found[message] = replace(claim, attempts=attempts, token=token)
        return found


def _one_step_short() -> Any:
    """The seed's formula, read with a count that starts at 0: the n-th retry waits base * factor ** (n - 1)."""
    real = RequeuePolicy.wait
    return mock.patch.object(RequeuePolicy, "wait", lambda self, attempts, *how: real(self, attempts - 1, *how))


def _other_delay(factor: float) -> Any:
    real = outbox.Outbox._whole_seconds
    return mock.patch.object(outbox.Outbox, "_whole_seconds", lambda self, wait: min(900, real(self, wait * factor)))


def _one_queue() -> Any:
    def by_queue(self: outbox.Outbox, by_worker: Mapping[str, list[Send]], _now: datetime) -> Any:
        return [(self._queue_urls[worker], owed) for worker, owed in by_worker.items()]

    return mock.patch.object(outbox.Outbox, "_by_queue", by_queue)


def _counts_messages() -> Any:
    """Every new message is taken for a retry, those for which work was only put off as well."""
    counted = "jsonb_set(m.body, '{metadata,retry_count}', to_jsonb(t.send_number))"
    envelope = f"SELECT m.id, {counted} FROM task_messages(%(ids)s) m JOIN task t USING (id)"  # our own
    return mock.patch.dict(work.KINDS, tasks=replace(work.KINDS["tasks"], envelope=envelope))


def _numbered_by_attempts() -> Any:
    """A retry's message has the number of its attempt, whatever else was sent."""
    return _without(sql, "_PARK_FAILED", ("{send_number} = {send_number} + 1", "{send_number} = {attempts}"))


def _older_copies() -> Any:
    """Of two messages of one revision, the one that comes first is as good as the other."""
    is_older = "WHEN (w.revision, w.send_number) < (f.revision, f.send_number) THEN 'ended'"
    return _without(sql, "_CLAIM", (is_older, "WHEN w.revision < f.revision THEN 'ended'"))


def _much_trouble(world: World) -> None:
    """Nearly every try fails or is put off."""
    world.script.trouble = 0.9


def _stands_still_and_is_delivered_twice(world: World) -> None:
    world.faults.ensure(Fault.PAUSE, 8)
    world.faults.ensure(Fault.DELIVERED_TWICE, 8)


def _blames_the_worker() -> Any:
    """Work without attempts left was lost with its worker, however its last attempt ended."""
    return mock.patch.object(settlement, "_exhausted", return_value=(sql.WORKER_LOST, "The worker ended"))


def _process_clocks() -> Any:
    """Each process uses its own clock."""
    return mock.patch.object(DatabaseClock, "set")


def _lowers_the_limit(world: World) -> None:
    world.script.trouble = 0.9
    world.lower_limit(world.random.uniform(0, 2000))


def _forgets_the_lost() -> Any:
    return mock.patch.object(sql, "note_lost")


# -- statements -------------------------------------------------------------------------------------------------------

_IF_OURS = " AND {claim_token} = %(token)s"
_DRAWN = "nextval('claim_token')"


def _no_claim_token() -> Any:
    statements = ("_WAIT", "_PARK_FAILED", "_DEFER", "_FAIL")
    return _all(
        _without(sql, "_END", ("t.{claim_token} = ended.token AND ", "")),
        *(_without(sql, name, (_IF_OURS, "")) for name in statements),
    )


def _no_lease() -> Any:
    return _without(sql, "_CLAIM", ("WHEN f.status = 'in-progress' AND f.lease > %(now)s THEN 'running'", ""))


def _attempts_as_token() -> Any:
    others = ("_PARK_UNCLAIMED", "_TAKE_ABANDONED", "_RETURN")
    return _all(
        _without(sql, "_CLAIM", (_DRAWN, "t.{attempts} + 1")),
        *(_without(sql, name, (_DRAWN, "{attempts}")) for name in others),
        _without(work, "_BEGIN", (_DRAWN, "0")),
    )


def _no_send_number() -> Any:
    """A message names its work and revision: whatever puts work behind a new message owes the one that was sent."""
    raised = ("{send_number} = {send_number} + 1", "{send_number} = {send_number}")
    return _all(*(_without(sql, name, raised) for name in ("_PARK_FAILED", "_DEFER", "_PARK_UNCLAIMED", "_RETURN")))


# -- the rest ---------------------------------------------------------------------------------------------------------

_SHORT_SECONDS = 30


class _ShortVisibility(settlement.Settlement):
    """While a breaker is open, the same message comes again and again."""

    def _deferred(self, record: Received, claim: Claim, error: DeferredError) -> Verdict:
        if self._kind.worker == "tasks":
            return super()._deferred(record, claim, error)  # whose messages are new ones in any case
        due = self._clock() + timedelta(seconds=_SHORT_SECONDS)

        def wait(connection: Any) -> Sequence[Any]:
            row = {"id": claim.message.work_id, "token": claim.token, "error": str(error), "due": due}
            given_back = sql._WAIT.replace("{error} =", "{attempts} = {attempts} - 1, {error} =")
            if connection.execute(self._kind.sql(given_back), row).rowcount == 0:
                raise StaleClaimError("A newer claim exists")
            return ()

        try:
            self._commit(record, claim, wait)
        except StaleClaimError as stale:
            return Verdict("stale", acknowledged=False, error=str(stale))
        except CounterfoilError as away:
            return self.away(record, away)
        return Verdict("deferred", acknowledged=False, visible_in=_SHORT_SECONDS, error=str(error))


def _throttles(world: World) -> None:
    """The gate is the reserved concurrency, and what is received beyond it is thrown back."""
    for worker, function in world.functions.items():
        if worker in world.rows:
            function.reserved = 1
    for mapping in world.mappings:
        mapping.maximum_concurrency = 8
        mapping.batch_size = 1


def _no_second_search() -> Any:
    real = matcher._standing

    def blind(connection: Any, decided: Any) -> Any:
        _, more = real(connection, decided)
        return decided, more

    return mock.patch.object(matcher, "_standing", blind)


def _no_second_search_together() -> Any:
    real = matcher._standing

    def blind(connection: Any, decided: Any) -> Any:
        standing, more = real(connection, decided)
        is_together = sys._getframe(1).f_code is matcher.write_together.__code__
        return (decided if is_together else standing), more

    return mock.patch.object(matcher, "_standing", blind)


def _no_look_at_one_another() -> Any:
    return mock.patch.object(matcher, "_disturbs", return_value=False)


def _matches_apart() -> Any:
    """Matches are committed in their own transaction before the settlement."""

    def apart(name: str) -> Any:
        real = getattr(matching, name)

        def write(connection: Any, decided: Any, now: datetime) -> Any:
            database = SimulatedDatabase(connection._world, connection._process)
            with database.tenant(scenario.TENANT) as own:
                return real(own, decided, now)

        return mock.patch.object(matching, name, write)

    return _all(apart("write"), apart("write_together"))


@contextmanager
def _named_by_sequencer() -> Iterator[None]:
    def job_id(upload: Upload) -> UUID:
        return uuid5(work.JOB_NAMESPACE, f"acquisition/{upload.bucket}/{upload.key}/{upload.sequencer}")

    named.cache_clear()  # it holds ids of both kinds of events otherwise
    try:
        with mock.patch.object(Upload, "job_id", property(job_id)):
            yield
    finally:
        named.cache_clear()


def _ignores_cursor() -> Any:
    return _without(
        watchdog_uploads, "_LISTING", ("key_marker, version_marker", "NULL AS key_marker, NULL AS version_marker")
    )


TWINS = (
    Twin("permit before protection", "waits before it has protected", _batches(_PermitFirst)),
    Twin("delete in finally", "lost", _batches(_DeletesAll), caught_at=4),
    Twin("no claim token", "overwrites a newer one", _no_claim_token, caught_at=62),
    Twin("no lease", "claimed over a live lease", _no_lease, caught_at=4),
    Twin("attempts used as the token and reset", "overwrites a newer one", _attempts_as_token, caught_at=16),
    Twin("throttling gate", "for nothing", prepare=_throttles, caught_at=8),
    Twin(
        "breaker by short visibility",
        "for nothing",
        lambda: mock.patch.object(consumer, "Settlement", _ShortVisibility),
        caught_at=36,
    ),
    Twin("edge deletion without the search again", "linked", _no_second_search, caught_at=56),
    Twin("written together without the search again", "linked", _no_second_search_together, caught_at=200),
    Twin("written together without comparing them", "linked", _no_look_at_one_another, caught_at=18),
    Twin("matches committed apart from settlement", "settles no work item of matching", _matches_apart, caught_at=3),
    Twin(
        "stale try acknowledged",
        "lost",
        _batches(_AcknowledgesStale),
        lambda world: world.faults.ensure(Fault.PAUSE, 8),
        caught_at=319,
    ),
    Twin("no send number", "does not rise|lost", _no_send_number, caught_at=14),
    Twin("send after acknowledge", "lost", _sends_later, caught_at=39),
    Twin(
        "requeue that forks",
        "is newer than its row",
        lambda: mock.patch.object(consumer, "Settlement", _Forks),
        lambda world: world.faults.ensure(Fault.LOST_BEFORE_COMMIT, 8),
        caught_at=347,
    ),
    Twin(
        "check-then-act guard",
        "were committed 2 times",
        lambda: mock.patch.object(consumer, "Claims", _ChecksThenActs),
        _stands_still_and_is_delivered_twice,
        caught_at=80,
    ),
    Twin(
        "lost connection charged at once", "without a second run", _batches(_ChargesAtOnce), _much_trouble, caught_at=4
    ),
    Twin("early message skipped", "lost", _batches(_SkipsEarly), caught_at=35),
    Twin("older copy claimed", "taken for another message than its latest", _older_copies, caught_at=17),
    Twin("send number from the count of attempts", "does not rise", _numbered_by_attempts, _much_trouble, caught_at=8),
    Twin("waits one step short", "and not from", _one_step_short, caught_at=39),
    Twin("sent after half of its wait", "too early", lambda: _other_delay(0.5), caught_at=30),
    Twin("sent after twice its wait", "and was to wait", lambda: _other_delay(2), caught_at=39),
    Twin("retries among first attempts", "goes to the queue of first attempts", _one_queue, caught_at=30),
    Twin(
        "puttings off counted as retries",
        "says another number of attempts",
        _counts_messages,
        _much_trouble,
        caught_at=8,
    ),
    Twin(
        "settled attempt reported as lost", "blames a lost worker", _blames_the_worker, _lowers_the_limit, caught_at=2
    ),
    Twin("uploads named by the sequencer", "its work was never registered", _named_by_sequencer, caught_at=2),
    Twin("listing that ignores its cursor", "has 0 acquisition jobs", _ignores_cursor, caught_at=54),
    Twin(
        "queued events counted as lost",
        "count as without an event",
        lambda: mock.patch.object(watchdog_uploads, "QUEUE_RETENTION", timedelta(0)),
        caught_at=2,
    ),
    Twin("leases by process clocks", "the lease of", _process_clocks, caught_at=2),
    Twin(
        "no deadline for the database",
        "waits for the database until Lambda ends it",
        lambda: mock.patch.object(db, "ANSWER_SECONDS", inf),
        lambda world: world.faults.ensure(Fault.HUNG, 8),
        caught_at=11,
    ),
    Twin("lost try not told", "is written down 0 times", _forgets_the_lost, caught_at=4),
    Twin(
        "returns without an attempt counted",
        "failed without any attempt",
        lambda: _without(sql, "_RETURN", ("({attempts} > 0)::int", "1"), ("{attempts} = 0 OR ", "")),
        lambda world: world.faults.ensure(Fault.CRASHES_AT_START, 8),
        caught_at=52,
    ),
    Twin(
        "newer message acknowledged as unknown",
        "lost",
        lambda: mock.patch.object(sql, "enqueue_current", return_value=None),
        lambda world: world.faults.ensure(Fault.TRANSACTION_LOST, 8),
        caught_at=22,
    ),
    Twin(
        "lost message not resent to a busy queue",
        "is not resent",
        lambda: mock.patch.object(recovery, "VISIBILITY_TIMEOUTS", 1200),
        lambda world: world.faults.ensure(Fault.MESSAGE_LOST, 4),
        caught_at=25,
    ),
)
