"""Settlement: what the end of a record means, for its work in one transaction, for its message afterwards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID, uuid5

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import CommitUnknownError, Connection, Database, retry_conflicts
from counterfoil.delivery import store
from counterfoil.delivery.attempt import Outcome, Settled, Skip
from counterfoil.delivery.letters import DeadLetter, Failure, audit, without_payload, write_dead_letter
from counterfoil.delivery.received import Received
from counterfoil.delivery.store import WORKER_LOST, Answer, Claim, Ended
from counterfoil.errors import (
    CirclingError,
    CounterfoilError,
    DatabaseUnavailableError,
    DeferredError,
    StaleClaimError,
    sentence,
)
from counterfoil.messages import Message
from counterfoil.outbox import Outbox
from counterfoil.retry import MAX_RECEIVES, MAX_SENDS, Decision, GiveUp, Redeliver, RetryPolicy
from counterfoil.work import JOB_NAMESPACE, Kind, Send, wake

LONGEST_ERROR = 2000
"""Characters of an error that are kept."""

logger = Logger()


@dataclass(frozen=True)
class Verdict:
    """What happens to a message."""

    outcome: str
    """One word for the log and the metrics."""
    acknowledged: bool
    visible_in: float | None = None
    """Seconds until SQS gives it out again; None leaves its visibility as it is."""
    error: str | None = None
    error_type: str | None = None
    """Of a try that failed, or of a message that cannot be read."""


ENDED = Verdict("ended", acknowledged=True)
SUPERSEDED = Verdict("superseded", acknowledged=True)
PARKED = Verdict("parked", acknowledged=True)


class Settlement:
    """Settles one kind of work under one policy."""

    def __init__(
        self, kind: Kind, policy: RetryPolicy, database: Database, outbox: Outbox, clock: Callable[[], datetime]
    ) -> None:
        self._kind = kind
        self._policy = policy
        self._database = database
        self._outbox = outbox
        self._clock = clock

    def finished(self, record: Received, claim: Claim, outcome: Outcome) -> Verdict:
        """The work's code returned: effects, messages owed and the new state, in one transaction."""

        def settle(connection: Connection) -> Sequence[Send]:
            sends = outcome.effects(connection)
            if isinstance(outcome, Skip):
                store.skip(connection, self._kind, claim, outcome.reason)
            else:
                store.succeed(connection, self._kind, [(claim, outcome.reason())])
            self._note_end(connection, record, claim, "skipped" if isinstance(outcome, Skip) else "succeeded")
            return sends

        try:
            self._commit(record, claim, settle)
        except BaseException as error:  # noqa: BLE001  # whatever stopped the effects is a failure of this try
            return self.failed(record, claim, error)
        return Verdict("skipped" if isinstance(outcome, Skip) else "succeeded", acknowledged=True)

    def together(
        self, tries: Sequence[tuple[Received, Claim]], work: Callable[[Connection], Settled]
    ) -> dict[UUID, Verdict]:
        """Work on tries of one tenant and settle them, in one transaction. Returns the verdicts of those it settled.

        Raises:
            CounterfoilError, StaleClaimError: none of them is settled.
            Exception: neither, since `work` raised it.
        """
        ended: list[tuple[Received, Claim]] = []

        def settle(connection: Connection) -> Sequence[Send]:
            reasons, sends = work(connection)
            ended[:] = [(record, claim) for record, claim in tries if claim.message.work_id in reasons]
            if ended:
                done = [(claim, reasons[claim.message.work_id]) for _, claim in ended]
                store.succeed(connection, self._kind, done)
            for record, claim in ended:
                self._note_end(connection, record, claim, "succeeded")
            return sends

        try:
            self._transact(*tries[0], settle, by_index=True)
        except CommitUnknownError:
            if ended and not self._is_settled(ended[0][1]):  # all of them are, or none
                raise
        return {claim.message.work_id: Verdict("succeeded", acknowledged=True) for _, claim in ended}

    def failed(self, record: Received, claim: Claim, error: BaseException) -> Verdict:
        """The try ended in an error: what the policy decides, written down before the message is touched."""
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
        """A claimed record could not be settled: the work is a newer try's, or the database is away."""
        if isinstance(error, StaleClaimError):
            return Verdict("stale", acknowledged=False, error=str(error))
        return self.away(record, error)

    def _deferred(self, record: Received, claim: Claim, error: DeferredError) -> Verdict:
        """The work could not go on, through no fault of its own: the attempt is given back and the work parked.

        Lambda is told not to stop functions that send to their own queues; what goes in circles is stopped here.
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
            sends = store.defer(connection, self._kind, claim, due=due, now=now)
            if error.is_over is not None and error.is_over(connection):
                sends += wake(connection, self._kind.worker, [claim.message.work_id], now)
            return sends

        try:
            self._commit(record, claim, settle)
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
        """Write down a failed try as decided."""
        if isinstance(decision, GiveUp):
            return self._fail(connection, record, claim, error, decision.dlq_reason, now)
        text = sentence(error)[:LONGEST_ERROR]
        self._note(connection, record, claim, "retry", now, error=error, due=decision.at)
        if isinstance(decision, Redeliver):
            store.wait(connection, self._kind, claim, text, decision.at)
            return []
        return store.park_failed(connection, self._kind, claim, error=text, due=decision.at, now=now)

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
        )
        return store.fail(connection, self._kind, claim, failure, now)

    def _most(self, claim: Claim) -> int:
        """How often this work is tried at most."""
        return self._policy.max_attempts if claim.max_attempts is None else claim.max_attempts

    def _note_end(self, connection: Connection, record: Received, claim: Claim, outcome: str) -> None:
        """Write down a try that did not fail, where its kind keeps them, or it is the one that ended a failure."""
        if self._kind.keeps_successes or store.has_failed(connection, self._kind, claim):
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
        """Write down how this try ended, for people who follow what became of the work."""
        ended = Ended(
            outcome,
            began_at=record.stages.get("claimed", record.received_at),
            ended_at=now,
            error_type=None if error is None else type(error).__name__,
            error=None if error is None else sentence(error)[:LONGEST_ERROR],
            next_attempt_at=due,
            trace_id=record.trace_id,
        )
        store.note(connection, self._kind, claim, ended)

    def exhausted(self, record: Received, claim: Claim) -> Verdict:
        """The last try was killed before it could settle: settle for it."""
        now = self._clock()

        def settle(connection: Connection) -> list[Send]:
            return fail_abandoned(connection, self._kind, claim, self._most(claim), self._kind.worker, now)

        try:
            self._transact(record, claim, settle)
        except CounterfoilError as unsettled:
            return self._unsettled(record, unsettled)
        told = "The worker was lost during the last attempt"
        return Verdict("failed", acknowledged=True, error=told, error_type=WORKER_LOST)

    def circled(self, record: Received, claim: Claim) -> Verdict:
        """Work that nobody holds, looked at and put off as often as it may be: no further message is sent for it."""
        now = self._clock()
        error = _circling("It came before its time" if claim.answer is Answer.EARLY else "No time was left to begin it")

        def settle(connection: Connection) -> list[Send]:
            taken, _ = store.take_abandoned(connection, self._kind, claim, now)
            store.note_lost(connection, self._kind, taken, now)
            failure = Failure(
                "max_retries_exceeded", CirclingError.__name__, str(error), self._most(claim), self._kind.worker
            )
            return store.fail(connection, self._kind, taken, failure, now)

        try:
            self._transact(record, claim, settle)
        except CounterfoilError as unsettled:
            return self._unsettled(record, unsettled)
        return Verdict("failed", acknowledged=True, error=str(error), error_type=CirclingError.__name__)

    def unknown(self, record: Received, message: Message, queue: str) -> Verdict:
        """The message names no work that exists: recorded, and over."""
        now = self._clock()
        try:
            with self._database.delivery() as connection:
                job_id = self._kind.job_id(message.work_id)
                detail = {"queue": queue, "message_id": record.message_id, **message.named}
                audit(connection, job_id, None, "unknown-work", self._kind.worker, detail, now)
        except CounterfoilError as away:
            return self.away(record, away)
        return Verdict("unknown", acknowledged=True)

    def unreadable(self, record: Received, error: BaseException, queue: str) -> Verdict:
        """The message cannot be read, or what it names cannot be asked for: a dead letter with its body."""
        now = self._clock()
        worker = self._kind.worker
        body = record.record.body if record.intake is None else without_payload(self._kind, record.record.body)
        letter = unreadable_letter(record.record, error, body=body, worker=worker, queue=queue, actor=worker)
        try:
            with self._database.delivery() as connection:
                write_dead_letter(connection, letter, now)
        except CounterfoilError as away:
            return self.away(record, away)
        return Verdict("failed", acknowledged=True, error=letter.failure.error, error_type=type(error).__name__)

    def away(self, record: Received, error: BaseException) -> Verdict:
        """Nothing could be written down: the message comes again later; after the last receive the archiver decides."""
        waits = self._policy.delays
        wait = waits[min(record.receives, len(waits)) - 1] if record.receives < MAX_RECEIVES else None
        return Verdict("unsettled", acknowledged=False, visible_in=wait, error=sentence(error))

    def _commit(self, record: Received, claim: Claim, transaction: Callable[[Connection], Sequence[Send]]) -> None:
        """Settle under a claim; look up what became of a commit whose outcome is unknown, and try once more."""
        try:
            self._transact(record, claim, transaction)
            return
        except CommitUnknownError:
            if self._is_settled(claim):
                return  # what it owes is in the outbox, and the watchdog sends it
        except DatabaseUnavailableError:
            pass  # the connection broke before the commit: a fresh one may do
        self._transact(record, claim, transaction)

    def _transact(
        self,
        record: Received,
        claim: Claim,
        transaction: Callable[[Connection], Sequence[Send]],
        *,
        by_index: bool = False,
    ) -> None:
        database, tenant_id = self._database, claim.tenant_id

        def once() -> Sequence[Send]:
            opened = database.delivery() if tenant_id is None else database.tenant(tenant_id, by_index=by_index)
            with opened as connection:
                return transaction(connection)

        self._outbox.send(retry_conflicts(once), trace=record.trace)

    def _is_settled(self, claim: Claim) -> bool:
        with self._database.delivery() as connection:
            running = store.holds(connection, self._kind, claim.message.work_id, claim.token)
        if running is None:
            message = f"A newer claim than {claim.token} exists on {claim.message.work_id}"
            raise StaleClaimError(message)
        return not running


def fail_abandoned(  # what failed, by which bound, and who says so
    connection: Connection, kind: Kind, claim: Claim, max_attempts: int, actor: str, now: datetime
) -> list[Send]:
    """Fail work whose last try ended without settling. Returns the messages that are owed now.

    Raises:
        StaleClaimError: somebody else has it.
    """
    taken, last_error = store.take_abandoned(connection, kind, claim, now)
    told = f"The worker ended during attempt {claim.attempts} of {max_attempts} without settling it"
    error = f"{told}; the error before that: {last_error}" if last_error else told
    failure = Failure("max_retries_exceeded", WORKER_LOST, error[:LONGEST_ERROR], max_attempts, actor, told=told)
    if taken.unsettled_since is not None:
        store.note(connection, kind, taken, Ended("failed", taken.unsettled_since, now, failure.error_type, told))
    return store.fail(connection, kind, taken, failure, now)


def _circling(last: str) -> CirclingError:
    return CirclingError(f"It was put off {MAX_SENDS} times without coming to an end. The last time: {last}")


def unreadable_letter(  # a message, what is wrong with it, and who found out where
    record: SQSRecord, error: BaseException, *, body: str, worker: str, queue: str, actor: str
) -> DeadLetter:
    """The dead letter of a message that names no work; its id is UUIDv5 of queue and message id.

    `body` is what is kept of it: all, for nobody else has it, unless it is of our own (`without_payload`).
    """
    raw = body.encode(errors="surrogatepass")
    readable = (
        b"\x00" not in raw and raw.decode(errors="ignore") == body
    )  # PostgreSQL's text has no NUL and no surrogates
    return DeadLetter(
        job_id=uuid5(JOB_NAMESPACE, f"{queue}/{record.message_id}"),
        tenant_id=None,
        worker=worker,
        message=None,
        payload={"body": body if readable else raw.hex(), "encoding": "text" if readable else "hex"},
        attempts=0,
        failure=Failure("non_retriable_error", type(error).__name__, sentence(error), 0, actor),
        created_at=datetime.fromtimestamp(int(record.attributes.sent_timestamp) / 1000, UTC),
    )


def lease_left(until: datetime, now: datetime) -> float:
    """Whole seconds until a lease is over, and one more."""
    return max(1.0, (until - now + timedelta(seconds=1)).total_seconds())
