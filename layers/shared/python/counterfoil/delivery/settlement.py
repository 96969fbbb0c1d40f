"""Commits an attempt's outcome, then decides the disposition of its message."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid5

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import SHORT_TRANSACTION_SECONDS, CommitUnknownError, Connection, Database, retry_on_conflict
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import Effects, Outcome, Skipped
from counterfoil.delivery.dead_letter import DeadLetter, FailureDetails, audit, strip_payload, write_dead_letter
from counterfoil.delivery.heartbeat import ReceivedMessage
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import MAX_MESSAGES_PER_REVISION, MAX_RECEIVES, Decision, GiveUp, Redeliver, RetryPolicy
from counterfoil.delivery.sql import WORKER_LOST_ERROR_TYPE, AttemptRecord, Claim, ClaimStatus
from counterfoil.delivery.work import JOB_NAMESPACE, Message, OutboxMessage, WorkKind, wake
from counterfoil.errors import (
    CounterfoilError,
    DatabaseUnavailableError,
    DeferredError,
    StaleClaimError,
    TooManyDeferralsError,
    code_of,
    own_frames,
    safe_message,
)

MAX_ERROR_CHARS = 2000
"""Maximum length of a stored error."""
ATTEMPTS_EXHAUSTED = "AttemptsExhausted"
"""Error type of pending work items that have used all attempts because the limit was lowered."""

logger = Logger()


@dataclass(frozen=True)
class Disposition:
    """Disposition of a message, with the outcome that led to it."""

    outcome: str
    """Outcome for logs and metrics."""
    acknowledged: bool
    visible_in: float | None = None
    """New visibility timeout in seconds, or None to leave it unchanged."""
    error: str | None = None
    error_type: str | None = None
    """Set for failed attempts and unreadable messages."""


ENDED = Disposition("ended", acknowledged=True)
SUPERSEDED = Disposition("superseded", acknowledged=True)
PARKED = Disposition("parked", acknowledged=True)


class Settlement:
    """Settles attempts at one kind of work item under one retry policy."""

    def __init__(
        self, kind: WorkKind, policy: RetryPolicy, database: Database, outbox: Outbox, clock: Callable[[], datetime]
    ) -> None:
        self._kind = kind
        self._policy = policy
        self._database = database
        self._outbox = outbox
        self._clock = clock

    def complete(self, record: ReceivedMessage, claim: Claim, outcome: Outcome) -> Disposition:
        """Commit the effects, messages and new state of a successful or skipped attempt."""
        name = "skipped" if isinstance(outcome, Skipped) else "succeeded"

        def settle(connection: Connection) -> Sequence[OutboxMessage]:
            effects = outcome.effects(connection)
            if isinstance(outcome, Skipped):
                sql.skip(connection, self._kind, claim, outcome.reason)
            else:
                sql.succeed(connection, self._kind, [(claim, effects.note)])
            self._record_success(connection, record, claim, name)
            return effects.messages

        try:
            self._commit(record, claim, settle)
        except BaseException as error:  # noqa: BLE001  # any error while writing the effects fails the attempt
            return self.fail(record, claim, error)
        return Disposition(name, acknowledged=True)

    def complete_batch(
        self, attempts: Sequence[tuple[ReceivedMessage, Claim]], run: Callable[[Connection], Mapping[UUID, Effects]]
    ) -> dict[UUID, Disposition]:
        """Run one tenant's attempts, and settle those with effects in one transaction.

        Returns the dispositions of the settled attempts by work id.

        Raises:
            CounterfoilError: no attempt was settled, or it is unknown whether the attempts were settled.
            Exception: `run` raised it, and no attempt was settled.
        """
        settled: list[tuple[ReceivedMessage, Claim]] = []

        def settle(connection: Connection) -> Sequence[OutboxMessage]:
            effects = run(connection)
            settled[:] = [(record, claim) for record, claim in attempts if claim.message.work_id in effects]
            if settled:
                remarks = [(claim, effects[claim.message.work_id].note) for _, claim in settled]
                sql.succeed(connection, self._kind, remarks)
            for record, claim in settled:
                self._record_success(connection, record, claim, "succeeded")
            return [message for result in effects.values() for message in result.messages]

        try:
            self._transact(*attempts[0], settle, by_index=True)
        except CommitUnknownError:
            if settled and not self._is_settled(settled[0][1]):  # one transaction for all
                raise
        return {claim.message.work_id: Disposition("succeeded", acknowledged=True) for _, claim in settled}

    def fail(self, record: ReceivedMessage, claim: Claim, error: BaseException) -> Disposition:
        """Settle an attempt that raised `error`, and return the message's disposition.

        The retry policy decides about the work item, unless the claim is stale or the attempt is deferred.
        """
        if isinstance(error, StaleClaimError):
            return self._handle_unsettled(record, error)
        if isinstance(error, DeferredError):
            return self._defer(record, claim, error)
        now = self._clock()
        text = safe_message(error, for_log=True)[:MAX_ERROR_CHARS]
        disposition = partial(Disposition, error=text, error_type=type(error).__name__)
        decision = self._policy.decide(
            error,
            claim.attempts,
            record.receives,
            now,
            max_attempts=claim.max_attempts,
            spread=self._outbox.random(),
        )
        try:
            self._commit(
                record, claim, lambda connection: self._record_failure(connection, record, claim, decision, error, now)
            )
        except CounterfoilError as settle_error:
            return self._handle_unsettled(record, settle_error)
        if isinstance(decision, Redeliver):
            return disposition("retry", acknowledged=False, visible_in=(decision.at - now).total_seconds())
        if isinstance(decision, GiveUp) and decision.to_dead_letter_queue:
            return disposition("failed", acknowledged=False, visible_in=0)
        return disposition("failed" if isinstance(decision, GiveUp) else "retry", acknowledged=True)

    def _handle_unsettled(self, record: ReceivedMessage, error: CounterfoilError) -> Disposition:
        """Return the disposition for an attempt that could not be settled.

        Its claim is stale, or the database is unavailable.
        """
        if isinstance(error, StaleClaimError):
            return Disposition("stale", acknowledged=False, error=str(error))
        return self.handle_database_unavailable(record, error)

    def _defer(self, record: ReceivedMessage, claim: Claim, error: DeferredError) -> Disposition:
        """Defer an attempt: it is not counted, and the work item is parked.

        A work item that was deferred too many times fails instead, because Lambda's recursive loop detection is turned
        off.
        """
        now = self._clock()
        due = max(error.until, now)
        exceeds_limit = claim.message.send_number >= MAX_MESSAGES_PER_REVISION

        def settle(connection: Connection) -> list[OutboxMessage]:
            if exceeds_limit:
                limit_error = _too_many_deferrals(str(error))
                limit_error.__cause__ = error
                return self._fail(connection, record, claim, limit_error, "max_retries_exceeded", now)
            self._record_attempt(connection, record, claim, "deferred", now, error=error, due=due)
            messages = sql.release_attempt(connection, self._kind, claim, due=due, now=now)
            if error.is_over is not None and error.is_over(connection):
                messages += wake(connection, self._kind.worker, [claim.message.work_id], now)
            return messages

        try:  # a short transaction, because a batch that cannot start threads waits for it
            self._commit(record, claim, settle, seconds=SHORT_TRANSACTION_SECONDS)
        except CounterfoilError as settle_error:
            return self._handle_unsettled(record, settle_error)
        if exceeds_limit:
            return Disposition("failed", acknowledged=True, error=str(error), error_type=TooManyDeferralsError.__name__)
        return Disposition("deferred", acknowledged=True, error=str(error))

    def _record_failure(
        self,
        connection: Connection,
        record: ReceivedMessage,
        claim: Claim,
        decision: Decision,
        error: BaseException,
        now: datetime,
    ) -> list[OutboxMessage]:
        """Record a failed attempt, and apply `decision` to its work item."""
        if isinstance(decision, GiveUp):
            return self._fail(connection, record, claim, error, decision.dlq_reason, now)
        text = safe_message(error)[:MAX_ERROR_CHARS]
        self._record_attempt(connection, record, claim, "retry", now, error=error, due=decision.at)
        if isinstance(decision, Redeliver):
            sql.schedule_retry(connection, self._kind, claim, text, decision.at)
            return []
        return sql.park_failed(connection, self._kind, claim, error=text, due=decision.at, now=now)

    def _fail(
        self,
        connection: Connection,
        record: ReceivedMessage,
        claim: Claim,
        error: BaseException,
        dlq_reason: str,
        now: datetime,
    ) -> list[OutboxMessage]:
        self._record_attempt(connection, record, claim, "failed", now, error=error)
        failure = FailureDetails(
            dlq_reason,
            type(error).__name__,
            safe_message(error)[:MAX_ERROR_CHARS],
            self._max_attempts(claim),
            self._kind.worker,
            public_error=safe_message(error, for_log=True)[:MAX_ERROR_CHARS],
            traceback=own_frames(error),
            code=code_of(error),
        )
        return sql.fail(connection, self._kind, claim, failure, now)

    def _max_attempts(self, claim: Claim) -> int:
        """Return the work item's maximum number of attempts, or else the policy's."""
        return self._policy.max_attempts if claim.max_attempts is None else claim.max_attempts

    def _record_success(self, connection: Connection, record: ReceivedMessage, claim: Claim, outcome: str) -> None:
        """Record a successful or skipped attempt if it follows a failure.

        If the kind records all successes, the attempt is always recorded.
        """
        if self._kind.records_successes or sql.has_failed(connection, self._kind, claim):
            self._record_attempt(connection, record, claim, outcome, self._clock())

    def _record_attempt(
        self,
        connection: Connection,
        record: ReceivedMessage,
        claim: Claim,
        outcome: str,
        now: datetime,
        *,
        error: BaseException | None = None,
        due: datetime | None = None,
    ) -> None:
        """Record the end of an attempt for the work item's history."""
        attempt = AttemptRecord(
            outcome,
            started_at=record.stages.get("claimed", record.received_at),
            ended_at=now,
            error_type=None if error is None else type(error).__name__,
            error=None if error is None else safe_message(error)[:MAX_ERROR_CHARS],
            next_attempt_at=due,
            trace_id=record.trace_id,
        )
        sql.record_attempt(connection, self._kind, claim, attempt)

    def handle_exhausted(self, record: ReceivedMessage, claim: Claim) -> Disposition:
        """Fail a work item that has no attempts left.

        Either the last attempt was lost, or the limit was lowered.
        """
        now = self._clock()

        def settle(connection: Connection) -> list[OutboxMessage]:
            return fail_exhausted(connection, self._kind, claim, self._max_attempts(claim), self._kind.worker, now)

        try:
            self._transact(record, claim, settle, seconds=SHORT_TRANSACTION_SECONDS)
        except CounterfoilError as settle_error:
            return self._handle_unsettled(record, settle_error)
        error_type, error = _describe_exhaustion(claim, self._max_attempts(claim))
        return Disposition("failed", acknowledged=True, error=error, error_type=error_type)

    def handle_too_many_deferrals(self, record: ReceivedMessage, claim: Claim) -> Disposition:
        """Fail an unclaimed work item whose revision has had too many new messages.

        The limit is MAX_MESSAGES_PER_REVISION.
        """
        now = self._clock()
        error = _too_many_deferrals(
            "It was not due yet" if claim.status is ClaimStatus.NOT_DUE else "The invocation was about to end"
        )

        def settle(connection: Connection) -> list[OutboxMessage]:
            new_claim, _ = sql.claim_abandoned(connection, self._kind, claim, now)
            sql.record_lost_attempt(connection, self._kind, new_claim, now)
            failure = FailureDetails(
                "max_retries_exceeded",
                TooManyDeferralsError.__name__,
                str(error),
                self._max_attempts(claim),
                self._kind.worker,
            )
            return sql.fail(connection, self._kind, new_claim, failure, now)

        try:
            self._transact(record, claim, settle, seconds=SHORT_TRANSACTION_SECONDS)
        except CounterfoilError as settle_error:
            return self._handle_unsettled(record, settle_error)
        return Disposition("failed", acknowledged=True, error=str(error), error_type=TooManyDeferralsError.__name__)

    def handle_unknown(self, record: ReceivedMessage, message: Message, queue: str) -> Disposition:
        """Record a message whose work item is unknown.

        If the work item's row is older than the message, enqueue the row's current message instead.
        """
        now = self._clock()
        detail = {"queue": queue, "message_id": record.message_id, **message.log_fields}
        messages: list[OutboxMessage] = []

        def settle() -> None:
            with self._database.delivery(seconds=SHORT_TRANSACTION_SECONDS) as connection:
                messages[:] = enqueue_current_with_audit(
                    connection, self._kind, message, self._kind.worker, detail, now
                )
                if not messages:
                    job_id = self._kind.job_id(message.work_id)
                    audit(connection, job_id, None, "unknown-work", self._kind.worker, detail, now)

        try:
            retry_on_conflict(settle)
        except CounterfoilError as error:
            return self.handle_database_unavailable(record, error)
        self._outbox.send(messages, trace=record.trace)
        return Disposition("ahead" if messages else "unknown", acknowledged=True)

    def handle_invalid_message(self, record: ReceivedMessage, error: BaseException, queue: str) -> Disposition:
        """Write a dead letter that contains the body of an unreadable message."""
        now = self._clock()
        worker = self._kind.worker
        body = record.record.body if record.parsed is None else strip_payload(self._kind, record.record.body)
        dead_letter = invalid_message_dead_letter(
            record.record, error, body=body, worker=worker, queue=queue, actor=worker
        )
        try:
            with self._database.delivery(seconds=SHORT_TRANSACTION_SECONDS) as connection:
                write_dead_letter(connection, dead_letter, now)
        except CounterfoilError as write_error:
            return self.handle_database_unavailable(record, write_error)
        return Disposition(
            "failed", acknowledged=True, error=dead_letter.failure.error, error_type=type(error).__name__
        )

    def handle_database_unavailable(self, record: ReceivedMessage, error: BaseException) -> Disposition:
        """Leave a message in the queue if its work item cannot be claimed or settled.

        The policy's delay applies, except at the last receive.
        """
        delays = self._policy.delays
        delay = delays[min(record.receives, len(delays)) - 1] if record.receives < MAX_RECEIVES else None
        return Disposition("unsettled", acknowledged=False, visible_in=delay, error=safe_message(error))

    def _commit(
        self,
        record: ReceivedMessage,
        claim: Claim,
        transaction: Callable[[Connection], Sequence[OutboxMessage]],
        *,
        seconds: float | None = None,
    ) -> None:
        """Settle an attempt.

        If it is unknown whether the commit succeeded, check, and repeat if necessary.
        """
        try:
            self._transact(record, claim, transaction, seconds=seconds)
            return
        except CommitUnknownError:
            if self._is_settled(claim):
                return  # the watchdog sends the attempt's messages from the outbox
        except DatabaseUnavailableError:
            pass  # the connection was lost before the commit: repeat with a new connection
        self._transact(record, claim, transaction, seconds=seconds)

    def _transact(
        self,
        record: ReceivedMessage,
        claim: Claim,
        transaction: Callable[[Connection], Sequence[OutboxMessage]],
        *,
        by_index: bool = False,
        seconds: float | None = None,
    ) -> None:
        database, tenant_id = self._database, claim.tenant_id

        def run_once() -> Sequence[OutboxMessage]:
            if tenant_id is None:
                context = database.delivery(seconds=seconds)
            else:
                context = database.tenant(tenant_id, by_index=by_index, seconds=seconds)
            with context as connection:
                return transaction(connection)

        self._outbox.send(retry_on_conflict(run_once), trace=record.trace)

    def _is_settled(self, claim: Claim) -> bool:
        with self._database.delivery(seconds=SHORT_TRANSACTION_SECONDS) as connection:
            running = sql.is_current_claim(connection, self._kind, claim.message.work_id, claim.token)
        if running is None:
            message = f"A newer claim than {claim.token} exists on {claim.message.work_id}"
            raise StaleClaimError(message)
        return not running


def fail_exhausted(
    connection: Connection, kind: WorkKind, claim: Claim, max_attempts: int, actor: str, now: datetime
) -> list[OutboxMessage]:
    """Fail a work item that has no attempts left. Returns the messages to send.

    Raises:
        StaleClaimError: the work item has changed since the claim was read.
    """
    new_claim, last_error = sql.claim_abandoned(connection, kind, claim, now)
    error_type, message = _describe_exhaustion(new_claim, max_attempts)
    code = "worker_lost" if error_type == WORKER_LOST_ERROR_TYPE else "attempts_exhausted"
    error = f"{message}; the last error: {last_error}" if last_error else message
    failure = FailureDetails(
        "max_retries_exceeded",
        error_type,
        error[:MAX_ERROR_CHARS],
        max_attempts,
        actor,
        public_error=message,
        code=code,
    )
    if new_claim.unsettled_since is not None:
        sql.record_attempt(
            connection, kind, new_claim, AttemptRecord("failed", new_claim.unsettled_since, now, error_type, message)
        )
    return sql.fail(connection, kind, new_claim, failure, now)


def _describe_exhaustion(claim: Claim, max_attempts: int) -> tuple[str, str]:
    """Return the error type and message for a work item that has no attempts left."""
    if claim.unsettled_since is not None:
        return (
            WORKER_LOST_ERROR_TYPE,
            f"The worker ended during attempt {claim.attempts} of {max_attempts} without settling it",
        )
    message = f"{claim.attempts} attempts have failed, and the limit was lowered to {max_attempts} before the next one"
    return ATTEMPTS_EXHAUSTED, message


def enqueue_current_with_audit(
    connection: Connection, kind: WorkKind, message: Message, actor: str, detail: dict[str, Any], now: datetime
) -> list[OutboxMessage]:
    """Enqueue a work item's current message if its row is older than `message`.

    Also writes an audit entry. Returns an empty list if there is no such row.
    """
    send = sql.enqueue_current(connection, kind, message, now)
    if send is None:
        return []
    audit(connection, kind.job_id(message.work_id), send.tenant_id, "enqueued-current", actor, detail, now)
    return [send]


def _too_many_deferrals(reason: str) -> TooManyDeferralsError:
    return TooManyDeferralsError(
        f"The work item was deferred {MAX_MESSAGES_PER_REVISION} times. The last reason: {reason}"
    )


def invalid_message_dead_letter(
    record: SQSRecord, error: BaseException, *, body: str, worker: str, queue: str, actor: str
) -> DeadLetter:
    """Return the dead letter for an unreadable message.

    Its id is the UUIDv5 of queue and message id.

    `body` is the body to store. For Counterfoil's own messages, it is the result of `strip_payload`. For all other
    messages, it is the whole body, because there is no other copy.
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
        failure=FailureDetails(
            "non_retriable_error",
            type(error).__name__,
            safe_message(error),
            0,
            actor,
            traceback=own_frames(error),
            code=code_of(error),
        ),
        created_at=datetime.fromtimestamp(int(record.attributes.sent_timestamp) / 1000, UTC),
    )


def lease_remaining(expires_at: datetime, now: datetime) -> float:
    """Return the seconds until a lease expires, plus one. Returns at least one."""
    return max(1.0, (expires_at - now + timedelta(seconds=1)).total_seconds())
