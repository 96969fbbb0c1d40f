"""Settles messages in dead-letter queues.

A message is returned to the worker's queue if attempts are left. Otherwise, it becomes a dead letter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil import metrics
from counterfoil.db import SHORT_TRANSACTION_SECONDS, Connection, Database, retry_on_conflict
from counterfoil.delivery import sql
from counterfoil.delivery.dead_letter import FailureDetails, attach_message, audit, strip_payload, write_dead_letter
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import RedeliverPolicy, RetryPolicy
from counterfoil.delivery.settlement import (
    enqueue_current_with_audit,
    fail_exhausted,
    invalid_message_dead_letter,
    lease_remaining,
)
from counterfoil.delivery.sql import WORKER_LOST_ERROR_TYPE, Claim, ClaimStatus
from counterfoil.delivery.work import Message, OutboxMessage, ParsedMessage, WorkKind, read_message
from counterfoil.documents import files
from counterfoil.errors import PermanentError, UnsupportedSchemaError
from counterfoil.kinds import WORK_KINDS
from counterfoil.metrics import Metric
from counterfoil.tasks.store import read_task_message

ACTOR = "dead_letters"
MAX_RETURNS = 2
"""Maximum number of times that a revision is returned from a dead-letter queue after its first attempt."""
UNATTEMPTED_WAIT, MAX_UNATTEMPTED_WAIT = timedelta(minutes=5), timedelta(hours=1)
"""Initial and maximum delay of work items that are returned without an attempt. Each return doubles the delay.

A release that crashes at startup sends all queued messages to the dead-letter queue. The work items are not the cause,
so the number of returns is not limited.
"""
DEAD_LETTER_SUFFIX = "-dlq"
"""Suffix of dead-letter queue names."""
TIMEOUT = timedelta(days=13)
"""Maximum age of an unsettled message. SQS deletes it a day later."""
READERS: dict[str, Callable[[str], ParsedMessage]] = {"acquisition": files.read_event, "tasks": read_task_message}
"""Parsers of messages that contain more than a reference to a work item."""


@dataclass(frozen=True)
class RetryAfter:
    """The work item is in progress in another process.

    Its message stays hidden for `seconds`.
    """

    seconds: float


class Archiver:
    """Settles messages in dead-letter queues.

    A message may be deleted only when `process` has returned None.
    """

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        policy: RedeliverPolicy,
        clock: Callable[[], datetime],
        worker_policies: Mapping[str, RetryPolicy] = MappingProxyType({}),
    ) -> None:
        """`policy` applies to every worker except those in `worker_policies`."""
        self._database = database
        self._outbox = outbox
        self._policy = policy
        self._clock = clock
        self._worker_policies = worker_policies

    def process(self, worker: str, record: SQSRecord) -> RetryAfter | None:
        """Settle one message from the dead-letter queue of `worker`.

        The result is committed on return.

        Raises:
            UnsupportedSchemaError: the message requires a newer release.
            DatabaseUnavailableError, ConflictError: retry later.
        """
        kind = WORK_KINDS[worker]
        try:
            parsed = READERS.get(worker, read_message)(record.body)
        except Exception as error:  # a body that breaks its parser is permanently invalid
            is_ours = isinstance(error, UnsupportedSchemaError)
            if is_ours and not self._is_about_to_expire(record):
                raise
            self._record_invalid(kind, record, error, is_ours=is_ours)
            return None
        try:
            return self._settle(kind, parsed, record)
        except Exception as error:
            # A permanent error (for example, a value that PostgreSQL cannot store) or a message that is about to expire
            # in its queue. The message becomes a dead letter, because there is no other copy.
            if not isinstance(error, PermanentError) and not self._is_about_to_expire(record):
                raise
            self._record_invalid(kind, record, error, is_ours=True)
            return None

    def _record_invalid(self, kind: WorkKind, record: SQSRecord, error: BaseException, *, is_ours: bool) -> None:
        """Record a dead letter with the message itself.

        The message's work item is unknown or cannot be settled. The payload of a valid task message is omitted, because
        the task's row contains it.
        """
        worker, body = kind.worker, strip_payload(kind, record.body) if is_ours else record.body
        # A message keeps its id when SQS moves it, and the worker may have recorded the same failure.
        queue = record.event_source_arn.rsplit(":", 1)[-1].removesuffix(DEAD_LETTER_SUFFIX)
        dead_letter = invalid_message_dead_letter(record, error, body=body, worker=worker, queue=queue, actor=ACTOR)
        with self._database.delivery(seconds=SHORT_TRANSACTION_SECONDS) as connection:
            write_dead_letter(connection, dead_letter, self._clock())

    def _is_about_to_expire(self, record: SQSRecord) -> bool:
        sent_at = datetime.fromtimestamp(int(record.attributes.sent_timestamp) / 1000, UTC)
        return self._clock() - sent_at >= TIMEOUT

    def _settle(self, kind: WorkKind, parsed: ParsedMessage, record: SQSRecord) -> RetryAfter | None:
        running: list[RetryAfter] = []
        lost: list[Claim] = []
        unattempted: list[Claim] = []

        def settle() -> list[OutboxMessage]:
            now = self._clock()
            running.clear()
            lost.clear()
            unattempted.clear()
            messages: list[OutboxMessage] = []
            with self._database.delivery(seconds=SHORT_TRANSACTION_SECONDS) as connection:
                if parsed.register is not None:
                    parsed.register(connection, now)
                # Settle each work item once, in the order in which claims lock rows.
                for message in sorted(set(parsed.messages), key=lambda message: message.work_id):
                    outcome = self._settle_work(connection, kind, message, record, now, lost, unattempted)
                    if isinstance(outcome, RetryAfter):
                        running.append(outcome)
                    else:
                        messages += outcome
            return messages

        self._outbox.send(retry_on_conflict(settle))
        if unattempted:
            metrics.emit({Metric.RETURNED_UNATTEMPTED: len(unattempted)}, worker=kind.worker)
        if lost:
            metrics.emit({Metric.ERRORS: len(lost)}, worker=kind.worker, error_type=WORKER_LOST_ERROR_TYPE)
        return max(running, key=lambda retry: retry.seconds, default=None)

    def _settle_work(  # `lost` and `unattempted` collect claims
        self,
        connection: Connection,
        kind: WorkKind,
        message: Message,
        record: SQSRecord,
        now: datetime,
        lost: list[Claim],
        unattempted: list[Claim],
    ) -> list[OutboxMessage] | RetryAfter:
        policy = self._worker_policies.get(kind.worker, self._policy)
        claim = sql.claim(
            connection, kind, [message], now=now, lease=now, max_attempts=policy.max_attempts, read_only=True
        )[message]
        max_attempts = policy.max_attempts if claim.max_attempts is None else claim.max_attempts
        job_id = kind.job_id(message.work_id)
        detail = {"message_id": record.message_id, **message.log_fields}
        if claim.status is ClaimStatus.RUNNING and claim.lease_expires_at is not None:
            return RetryAfter(lease_remaining(claim.lease_expires_at, now))
        if claim.status is ClaimStatus.UNKNOWN:
            messages = enqueue_current_with_audit(connection, kind, message, ACTOR, detail, now)
            if not messages:
                audit(connection, job_id, None, "dropped-unknown", ACTOR, detail, now)
            return messages
        messages = []
        if claim.status is not ClaimStatus.ENDED:
            if claim.status is ClaimStatus.EXHAUSTED:
                messages = fail_exhausted(connection, kind, claim, max_attempts, ACTOR, now)
            else:
                due = now + _return_delay(policy, claim)
                messages = sql.return_to_queue(connection, kind, claim, due=due, max_returns=MAX_RETURNS, now=now)
                if messages:
                    if claim.attempts == 0:
                        unattempted.append(claim)
                    audit(connection, job_id, claim.tenant_id, "returned", ACTOR, detail, now)
                    return messages
                messages = self._fail_returned(connection, kind, claim, max_attempts, now)
            if claim.unsettled_since is not None:
                lost.append(claim)
        body = strip_payload(kind, record.body)
        is_attached = attach_message(connection, job_id, message.revision, record.message_id, body)
        audit(connection, job_id, claim.tenant_id, "message-attached" if is_attached else "dropped", ACTOR, detail, now)
        return messages

    @staticmethod
    def _fail_returned(
        connection: Connection, kind: WorkKind, claim: Claim, max_attempts: int, now: datetime
    ) -> list[OutboxMessage]:
        """Fail a work item that was returned too often from the dead-letter queue."""
        reclaimed, _ = sql.claim_abandoned(connection, kind, claim, now)
        sql.record_lost_attempt(connection, kind, reclaimed, now)
        error = f"Returned {MAX_RETURNS} times from the dead-letter queue and never settled"
        failure = FailureDetails(
            "max_retries_exceeded", "NeverSettled", error, max_attempts, ACTOR, code="never_settled"
        )
        return sql.fail(connection, kind, reclaimed, failure, now)


def _return_delay(policy: RetryPolicy, claim: Claim) -> timedelta:
    """Return the delay before a returned work item is due."""
    if claim.attempts > 0:
        return policy.wait(claim.attempts)
    doublings = min(claim.message.send_number, 10)  # later doublings exceed the maximum
    return min(UNATTEMPTED_WAIT * (1 << doublings), MAX_UNATTEMPTED_WAIT)
