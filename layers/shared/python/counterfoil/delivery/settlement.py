"""Settlement: commits the outcome of an attempt, and then decides about its message."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid5

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import SHORT_SECONDS, CommitUnknownError, Connection, Database, retry_conflicts
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import Effects, Outcome, Skipped
from counterfoil.delivery.dead_letter import DeadLetter, Failure, audit, without_payload, write_dead_letter
from counterfoil.delivery.heartbeat import Received
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import MAX_RECEIVES, MAX_SENDS, Decision, GiveUp, Redeliver, RetryPolicy
from counterfoil.delivery.sql import WORKER_LOST, Answer, Claim, Ended
from counterfoil.delivery.work import JOB_NAMESPACE, Message, Send, WorkKind, wake
from counterfoil.errors import (
    CirclingError,
    CounterfoilError,
    DatabaseUnavailableError,
    DeferredError,
    StaleClaimError,
    code_of,
    own_frames,
    sentence,
)

LONGEST_ERROR = 2000
"""Maximum length of a stored error."""
ATTEMPTS_EXHAUSTED = "AttemptsExhausted"
"""Error type of pending work items whose attempts reach a lowered limit."""

logger = Logger()


@dataclass(frozen=True)
class Verdict:
    """Outcome of an attempt and disposition of its message."""

    outcome: str
    """Name for logs and metrics."""
    acknowledged: bool
    visible_in: float | None = None
    """New visibility timeout in seconds. None: unchanged."""
    error: str | None = None
    error_type: str | None = None
    """Set for failed attempts and unreadable messages."""


ENDED = Verdict("ended", acknowledged=True)
SUPERSEDED = Verdict("superseded", acknowledged=True)
PARKED = Verdict("parked", acknowledged=True)


class Settlement:
    """Settles attempts of one kind of work item under one retry policy."""

    def __init__(
        self, kind: WorkKind, policy: RetryPolicy, database: Database, outbox: Outbox, clock: Callable[[], datetime]
    ) -> None:
        self._kind = kind
        self._policy = policy
        self._database = database
        self._outbox = outbox
        self._clock = clock

    def finished(self, record: Received, claim: Claim, outcome: Outcome) -> Verdict:
        """Commit the effects, messages and new state of a successful or skipped attempt."""
        name = "skipped" if isinstance(outcome, Skipped) else "succeeded"

        def settle(connection: Connection) -> Sequence[Send]:
            effects = outcome.effects(connection)
            if isinstance(outcome, Skipped):
                sql.skip(connection, self._kind, claim, outcome.reason)
            else:
                sql.succeed(connection, self._kind, [(claim, effects.remark)])
            self._note_end(connection, record, claim, name)
            return effects.messages

        try:
            self._commit(record, claim, settle)
        except BaseException as error:  # noqa: BLE001  # any error of the effects fails the attempt
            return self.failed(record, claim, error)
        return Verdict(name, acknowledged=True)

    def together(
        self, tries: Sequence[tuple[Received, Claim]], run: Callable[[Connection], Mapping[UUID, Effects]]
    ) -> dict[UUID, Verdict]:
        """Run attempts of one tenant and settle those with effects, in one transaction. Return their verdicts.

        Raises:
            CounterfoilError, StaleClaimError: no attempt is settled.
            Exception: neither, because `run` raised it.
        """
        ended: list[tuple[Received, Claim]] = []

        def settle(connection: Connection) -> Sequence[Send]:
            effects = run(connection)
            ended[:] = [(record, claim) for record, claim in tries if claim.message.work_id in effects]
            if ended:
                done = [(claim, effects[claim.message.work_id].remark) for _, claim in ended]
                sql.succeed(connection, self._kind, done)
            for record, claim in ended:
                self._note_end(connection, record, claim, "succeeded")
            return [message for one in effects.values() for message in one.messages]

        try:
            self._transact(*tries[0], settle, by_index=True)
        except CommitUnknownError:
            if ended and not self._is_settled(ended[0][1]):  # one transaction for all
                raise
        return {claim.message.work_id: Verdict("succeeded", acknowledged=True) for _, claim in ended}

    def failed(self, record: Received, claim: Claim, error: BaseException) -> Verdict:
        """Commit the decision of the retry policy about a failed attempt, before the message changes."""
        if isinstance(error, StaleClaimError):
            return self._unsettled(record, error)
        if isinstance(error, DeferredError):
            return self._deferred(record, claim, error)
        now = self._clock()
        text = sentence(error, for_log=True)[:LONGEST_ERROR]
        verdict = partial(Verdict, error=text, error_type=type(error).__name__)
        decision = self._policy.decide(
            error, claim.attempts, record.receives, now, max_attempts=claim.max_attempts, chance=self._outbox.random()
        )
        try:
            self._commit(
                record, claim, lambda connection: self._record(connection, record, claim, decision, error, now)
            )
        except CounterfoilError as unsettled:
            return self._unsettled(record, unsettled)
        if isinstance(decision, Redeliver):
            return verdict("retry", acknowledged=False, visible_in=(decision.at - now).total_seconds())
        if isinstance(decision, GiveUp) and decision.to_dead_letter_queue:
            return verdict("failed", acknowledged=False, visible_in=0)
        return verdict("failed" if isinstance(decision, GiveUp) else "retry", acknowledged=True)

    def _unsettled(self, record: Received, error: CounterfoilError) -> Verdict:
        """Return the disposition if the attempt could not be settled: stale claim, or unavailable database."""
        if isinstance(error, StaleClaimError):
            return Verdict("stale", acknowledged=False, error=str(error))
        return self.away(record, error)

    def _deferred(self, record: Received, claim: Claim, error: DeferredError) -> Verdict:
        """Defer an attempt: it is not counted, and the work item is parked.

        Recursive loop detection of Lambda is off, so a work item that is deferred too often fails here.
        """
        now = self._clock()
        due = max(error.until, now)
        is_circling = claim.message.send_number >= MAX_SENDS

        def settle(connection: Connection) -> list[Send]:
            if is_circling:
                said = _circling(str(error))
                said.__cause__ = error
                return self._fail(connection, record, claim, said, "max_retries_exceeded", now)
            self._note(connection, record, claim, "deferred", now, error=error, due=due)
            sends = sql.defer(connection, self._kind, claim, due=due, now=now)
            if error.is_over is not None and error.is_over(connection):
                sends += wake(connection, self._kind.worker, [claim.message.work_id], now)
            return sends

        try:  # a batch without threads waits for it
            self._commit(record, claim, settle, seconds=SHORT_SECONDS)
        except CounterfoilError as unsettled:
            return self._unsettled(record, unsettled)
        if is_circling:
            return Verdict("failed", acknowledged=True, error=str(error), error_type=CirclingError.__name__)
        return Verdict("deferred", acknowledged=True, error=str(error))

    def _record(
        self,
        connection: Connection,
        record: Received,
        claim: Claim,
        decision: Decision,
        error: BaseException,
        now: datetime,
    ) -> list[Send]:
        """Record a failed attempt and its decision."""
        if isinstance(decision, GiveUp):
            return self._fail(connection, record, claim, error, decision.dlq_reason, now)
        text = sentence(error)[:LONGEST_ERROR]
        self._note(connection, record, claim, "retry", now, error=error, due=decision.at)
        if isinstance(decision, Redeliver):
            sql.wait(connection, self._kind, claim, text, decision.at)
            return []
        return sql.park_failed(connection, self._kind, claim, error=text, due=decision.at, now=now)

    def _fail(
        self,
        connection: Connection,
        record: Received,
        claim: Claim,
        error: BaseException,
        dlq_reason: str,
        now: datetime,
    ) -> list[Send]:
        self._note(connection, record, claim, "failed", now, error=error)
        failure = Failure(
            dlq_reason,
            type(error).__name__,
            sentence(error)[:LONGEST_ERROR],
            self._most(claim),
            self._kind.worker,
            told=sentence(error, for_log=True)[:LONGEST_ERROR],
            traceback=own_frames(error),
            code=code_of(error),
        )
        return sql.fail(connection, self._kind, claim, failure, now)

    def _most(self, claim: Claim) -> int:
        """Return the maximum number of attempts."""
        return self._policy.max_attempts if claim.max_attempts is None else claim.max_attempts

    def _note_end(self, connection: Connection, record: Received, claim: Claim, outcome: str) -> None:
        """Record a success if its kind keeps all of them, or if it follows a failure."""
        if self._kind.keeps_successes or sql.has_failed(connection, self._kind, claim):
            self._note(connection, record, claim, outcome, self._clock())

    def _note(
        self,
        connection: Connection,
        record: Received,
        claim: Claim,
        outcome: str,
        now: datetime,
        *,
        error: BaseException | None = None,
        due: datetime | None = None,
    ) -> None:
        """Record the end of an attempt for the history of the work item."""
        ended = Ended(
            outcome,
            began_at=record.stages.get("claimed", record.received_at),
            ended_at=now,
            error_type=None if error is None else type(error).__name__,
            error=None if error is None else sentence(error)[:LONGEST_ERROR],
            next_attempt_at=due,
            trace_id=record.trace_id,
        )
        sql.note(connection, self._kind, claim, ended)

    def exhausted(self, record: Received, claim: Claim) -> Verdict:
        """Fail a work item without remaining attempts: the last one was lost, or the limit was lowered."""
        now = self._clock()

        def settle(connection: Connection) -> list[Send]:
            return fail_exhausted(connection, self._kind, claim, self._most(claim), self._kind.worker, now)

        try:
            self._transact(record, claim, settle, seconds=SHORT_SECONDS)
        except CounterfoilError as unsettled:
            return self._unsettled(record, unsettled)
        error_type, error = _exhausted(claim, self._most(claim))
        return Verdict("failed", acknowledged=True, error=error, error_type=error_type)

    def circled(self, record: Received, claim: Claim) -> Verdict:
        """Fail an unclaimed work item that was parked MAX_SENDS times."""
        now = self._clock()
        error = _circling("It was early" if claim.answer is Answer.EARLY else "The invocation was about to end")

        def settle(connection: Connection) -> list[Send]:
            taken, _ = sql.take_abandoned(connection, self._kind, claim, now)
            sql.note_lost(connection, self._kind, taken, now)
            failure = Failure(
                "max_retries_exceeded", CirclingError.__name__, str(error), self._most(claim), self._kind.worker
            )
            return sql.fail(connection, self._kind, taken, failure, now)

        try:
            self._transact(record, claim, settle, seconds=SHORT_SECONDS)
        except CounterfoilError as unsettled:
            return self._unsettled(record, unsettled)
        return Verdict("failed", acknowledged=True, error=str(error), error_type=CirclingError.__name__)

    def unknown(self, record: Received, message: Message, queue: str) -> Verdict:
        """Record a message without work. If the work exists and its row is older, enqueue its current message."""
        now = self._clock()
        detail = {"queue": queue, "message_id": record.message_id, **message.named}
        sends: list[Send] = []

        def settle() -> None:
            with self._database.delivery(seconds=SHORT_SECONDS) as connection:
                sends[:] = enqueued_current(connection, self._kind, message, self._kind.worker, detail, now)
                if not sends:
                    job_id = self._kind.job_id(message.work_id)
                    audit(connection, job_id, None, "unknown-work", self._kind.worker, detail, now)

        try:
            retry_conflicts(settle)
        except CounterfoilError as away:
            return self.away(record, away)
        self._outbox.send(sends, trace=record.trace)
        return Verdict("ahead" if sends else "unknown", acknowledged=True)

    def unreadable(self, record: Received, error: BaseException, queue: str) -> Verdict:
        """Write a dead letter with the body of an unreadable message."""
        now = self._clock()
        worker = self._kind.worker
        body = record.record.body if record.intake is None else without_payload(self._kind, record.record.body)
        letter = unreadable_letter(record.record, error, body=body, worker=worker, queue=queue, actor=worker)
        try:
            with self._database.delivery(seconds=SHORT_SECONDS) as connection:
                write_dead_letter(connection, letter, now)
        except CounterfoilError as away:
            return self.away(record, away)
        return Verdict("failed", acknowledged=True, error=letter.failure.error, error_type=type(error).__name__)

    def away(self, record: Received, error: BaseException) -> Verdict:
        """Leave the message in the queue, because nothing could be committed."""
        waits = self._policy.delays
        wait = waits[min(record.receives, len(waits)) - 1] if record.receives < MAX_RECEIVES else None
        return Verdict("unsettled", acknowledged=False, visible_in=wait, error=sentence(error))

    def _commit(
        self,
        record: Received,
        claim: Claim,
        transaction: Callable[[Connection], Sequence[Send]],
        *,
        seconds: float | None = None,
    ) -> None:
        """Settle under a claim. If the outcome of the commit is unknown, check it, and repeat if necessary."""
        try:
            self._transact(record, claim, transaction, seconds=seconds)
            return
        except CommitUnknownError:
            if self._is_settled(claim):
                return  # its messages are in the outbox, and the watchdog sends them
        except DatabaseUnavailableError:
            pass  # the connection was lost before the commit: repeat with a new one
        self._transact(record, claim, transaction, seconds=seconds)

    def _transact(
        self,
        record: Received,
        claim: Claim,
        transaction: Callable[[Connection], Sequence[Send]],
        *,
        by_index: bool = False,
        seconds: float | None = None,
    ) -> None:
        database, tenant_id = self._database, claim.tenant_id

        def once() -> Sequence[Send]:
            if tenant_id is None:
                opened = database.delivery(seconds=seconds)
            else:
                opened = database.tenant(tenant_id, by_index=by_index, seconds=seconds)
            with opened as connection:
                return transaction(connection)

        self._outbox.send(retry_conflicts(once), trace=record.trace)

    def _is_settled(self, claim: Claim) -> bool:
        with self._database.delivery(seconds=SHORT_SECONDS) as connection:
            running = sql.holds(connection, self._kind, claim.message.work_id, claim.token)
        if running is None:
            message = f"A newer claim than {claim.token} exists on {claim.message.work_id}"
            raise StaleClaimError(message)
        return not running


def fail_exhausted(
    connection: Connection, kind: WorkKind, claim: Claim, max_attempts: int, actor: str, now: datetime
) -> list[Send]:
    """Fail a work item without remaining attempts. Returns the messages to send.

    Raises:
        StaleClaimError: a newer claim exists.
    """
    taken, last_error = sql.take_abandoned(connection, kind, claim, now)
    error_type, told = _exhausted(taken, max_attempts)
    code = "worker_lost" if error_type == WORKER_LOST else "attempts_exhausted"
    error = f"{told}; the last error: {last_error}" if last_error else told
    failure = Failure(
        "max_retries_exceeded", error_type, error[:LONGEST_ERROR], max_attempts, actor, told=told, code=code
    )
    if taken.unsettled_since is not None:
        sql.note(connection, kind, taken, Ended("failed", taken.unsettled_since, now, error_type, told))
    return sql.fail(connection, kind, taken, failure, now)


def _exhausted(claim: Claim, max_attempts: int) -> tuple[str, str]:
    """Return error type and message of a work item without remaining attempts."""
    if claim.unsettled_since is not None:
        return WORKER_LOST, f"The worker ended during attempt {claim.attempts} of {max_attempts} without settling it"
    told = f"{claim.attempts} attempts have failed, and the limit was lowered to {max_attempts} before the next one"
    return ATTEMPTS_EXHAUSTED, told


def enqueued_current(
    connection: Connection, kind: WorkKind, message: Message, actor: str, detail: dict[str, Any], now: datetime
) -> list[Send]:
    """Enqueue the current message of work whose row is older than `message`, with an audit entry.

    Empty if there is no such row.
    """
    send = sql.enqueue_current(connection, kind, message, now)
    if send is None:
        return []
    audit(connection, kind.job_id(message.work_id), send.tenant_id, "enqueued-current", actor, detail, now)
    return [send]


def _circling(last: str) -> CirclingError:
    return CirclingError(f"The work item was deferred {MAX_SENDS} times. The last reason: {last}")


def unreadable_letter(
    record: SQSRecord, error: BaseException, *, body: str, worker: str, queue: str, actor: str
) -> DeadLetter:
    """Return the dead letter of an unreadable message. Its id is UUIDv5 of queue and message id.

    `body` is stored: the whole body, because there is no other copy, or that of `without_payload` for our messages.
    """
    raw = body.encode(errors="surrogatepass")
    readable = b"\x00" not in raw and raw.decode(errors="ignore") == body  # PostgreSQL cannot store NUL or surrogates
    return DeadLetter(
        job_id=uuid5(JOB_NAMESPACE, f"{queue}/{record.message_id}"),
        tenant_id=None,
        worker=worker,
        message=None,
        payload={"body": body if readable else raw.hex(), "encoding": "text" if readable else "hex"},
        attempts=0,
        failure=Failure(
            "non_retriable_error",
            type(error).__name__,
            sentence(error),
            0,
            actor,
            traceback=own_frames(error),
            code=code_of(error),
        ),
        created_at=datetime.fromtimestamp(int(record.attributes.sent_timestamp) / 1000, UTC),
    )


def lease_left(until: datetime, now: datetime) -> float:
    """Return the seconds until a lease expires plus one, at least one."""
    return max(1.0, (until - now + timedelta(seconds=1)).total_seconds())
