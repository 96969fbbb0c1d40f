"""Processes a batch of messages.

Attempts run concurrently, and Powertools handlers settle them.
"""

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil import metrics
from counterfoil.deadline import Deadline
from counterfoil.delivery.attempt import Attempt, Outcome, TenantAttempt
from counterfoil.delivery.claims import PARKABLE_STATUSES
from counterfoil.delivery.heartbeat import Heartbeat, ReceivedMessage
from counterfoil.delivery.settlement import ENDED, PARKED, SUPERSEDED, Disposition, lease_remaining
from counterfoil.delivery.sql import WORKER_LOST_ERROR_TYPE, Claim, ClaimStatus
from counterfoil.delivery.work import Message, ParsedMessage
from counterfoil.errors import (
    CancelledError,
    ConflictError,
    CounterfoilError,
    DatabaseUnavailableError,
    DeferredError,
    PermanentError,
    UnsupportedSchemaError,
    safe_message,
)
from counterfoil.metrics import Metric

if TYPE_CHECKING:
    from counterfoil.delivery.consumer import Consumer

CANCEL_MARGIN_SECONDS = 10
"""Running attempts are canceled this long before the invocation ends."""
ABANDON_MARGIN_SECONDS = 4
"""Running attempts are abandoned this long before the invocation ends. Their leases expire."""

RETRY_SUFFIX = "-retry"
"""Name suffix of retry queues."""

A = TypeVar("A")
logger = Logger()


@dataclass(frozen=True)
class ClaimedMessage:
    """A message whose work item was claimed, with its attempt."""

    record: ReceivedMessage
    claim: Claim
    attempt: Attempt


class Batch(BatchProcessor):
    """The messages of one invocation.

    Each is processed, then acknowledged or reported as failed.
    """

    def __init__(self, consumer: "Consumer") -> None:
        super().__init__(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
        self._consumer = consumer
        self._started = consumer.concurrency.monotonic()
        self._lock = Lock()
        self._closed = False
        self._results: list[tuple[Any, ...]] = []
        self._concluded: set[ReceivedMessage] = set()
        self._waiting: deque[ReceivedMessage] = deque()
        self._takeovers: deque[ReceivedMessage] = deque()
        self._running: dict[ReceivedMessage, Attempt] = {}
        self._ended: deque[ReceivedMessage] = deque()
        self.metrics = BatchMetrics()
        self.has_no_permits = False
        """Whether attempts from earlier invocations held every permit until this batch ran out of time."""

    def process(self) -> list[tuple[Any, ...]]:
        """Process all messages and return the results for Powertools."""
        consumer = self._consumer
        now = consumer.clock()
        records = [ReceivedMessage(SQSRecord(record), now) for record in self.records]
        self._heartbeat = Heartbeat(
            kind=consumer.kind,
            database=consumer.database,
            visibility=consumer.visibility,
            min_visibility_seconds=self._protection_seconds,
            lease=consumer.lease,
            interval=consumer.settings.heartbeat_interval_seconds,
            clock=consumer.clock,
            concurrency=consumer.concurrency,
        )
        unprotected = consumer.visibility.protect(records, self._protection_seconds(), now)
        protected_at = consumer.clock()
        with self._heartbeat:
            protected = []
            for record in records:
                if record in unprotected:
                    self._conclude(record, Disposition("unprotected", acknowledged=False))
                else:
                    record.stages["protected"] = protected_at
                    self._heartbeat.watch(record)
                    protected.append(record)
            self._run_loop([record for record in protected if self._read(record)])
        self._close(records)
        return self._results

    def _close(self, records: Iterable[ReceivedMessage]) -> None:
        """Report unfinished messages, because Lambda would delete them otherwise.

        Later outcomes are ignored.
        """
        with self._lock:
            self._closed = True
            for record in records:
                if record not in self._concluded:
                    logger.warning("abandoned", message_id=record.message_id)
                    self._results.append(super().failure_handler(record.record, (None, None, None)))

    # -- time ---------------------------------------------------------------------------------------------------------

    def _remaining_seconds(self) -> float:
        return self.lambda_context.get_remaining_time_in_millis() / 1000

    def _remaining_work_seconds(self) -> float:
        return max(0.0, self._remaining_seconds() - CANCEL_MARGIN_SECONDS)

    def _protection_seconds(self) -> int:
        return max(self._consumer.settings.min_visibility_seconds, int(self._remaining_seconds()) + 30)

    # -- before work --------------------------------------------------------------------------------------------------

    def _read(self, record: ReceivedMessage) -> bool:
        """Parse the body.

        Returns False if the message does not identify exactly one work item.
        """
        settlement = self._consumer.settlement
        try:
            record.parsed = self._consumer.read(record.record.body)
        except UnsupportedSchemaError as error:
            self._conclude(record, settlement.handle_database_unavailable(record, error))
            return False
        except Exception as error:  # noqa: BLE001  # any parser error means an unreadable body
            self._conclude(record, settlement.handle_invalid_message(record, error, self._main_queue(record)))
            return False
        if len(record.parsed.messages) == 1:
            return True
        self._conclude(record, self._fan_out(record, record.parsed))
        return False

    def _fan_out(self, record: ReceivedMessage, parsed: ParsedMessage) -> Disposition:
        """Drop a message without work items, and split a message that names several."""
        if not parsed.messages:
            return Disposition("no_work", acknowledged=True)
        try:
            self._consumer.claims.split_message(parsed)
        except CounterfoilError as error:
            return self._handle_claim_error(record, error)
        return Disposition("split", acknowledged=True)

    def _handle_claim_error(self, record: ReceivedMessage, error: CounterfoilError) -> Disposition:
        """Return the disposition of a message whose claim failed with `error`."""
        if isinstance(error, PermanentError):
            return self._consumer.settlement.handle_invalid_message(record, error, self._main_queue(record))
        return self._consumer.settlement.handle_database_unavailable(record, error)

    @staticmethod
    def _main_queue(record: ReceivedMessage) -> str:
        """Return the worker's main queue, even for a message from its retry queue."""
        return record.queue.removesuffix(RETRY_SUFFIX)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _run_loop(self, records: Sequence[ReceivedMessage]) -> None:
        """Start attempts as permits become free.

        Work items whose last attempt is unsettled start one at a time, after all other attempts have ended.
        """
        self._waiting.extend(records)
        while (self._waiting or self._takeovers or self._running) and self._check_deadlines():
            if not self._start_next() and self._running:
                self._consumer.concurrency.wait_for(self._can_continue, self._seconds_until_next_deadline())
            while self._ended:
                del self._running[self._ended.popleft()]

    def _can_continue(self) -> bool:
        return len(self._ended) > 0 or (len(self._waiting) > 0 and self._consumer.permits.has_capacity)

    def _check_deadlines(self) -> bool:
        """Park messages that can no longer start, and cancel late attempts.

        Returns False if the loop must end and abandon running attempts.
        """
        remaining = self._remaining_seconds()
        if remaining <= self._consumer.worker.start_margin:
            self._defer([*self._waiting, *self._takeovers])
            self._waiting.clear()
            self._takeovers.clear()
        self._cancel_late_attempts()
        return remaining > ABANDON_MARGIN_SECONDS

    def _cancel_late_attempts(self) -> None:
        if self._remaining_seconds() <= CANCEL_MARGIN_SECONDS:
            for attempt in self._running.values():
                attempt.deadline.canceled.set()

    def _start_next(self) -> bool:
        """Start one waiting message per free permit, or else the next takeover.

        Returns False if no permit was free, or if nothing can start yet.
        """
        timeout = max(0.0, self._remaining_seconds() - self._consumer.worker.start_margin)
        if self._waiting:
            permits = self._consumer.permits.acquire(len(self._waiting), timeout=0 if self._running else timeout)
            records, take_over = [self._waiting.popleft() for _ in range(permits)], False
        elif self._takeovers and not self._running:
            permits = self._consumer.permits.acquire(1, timeout=timeout)
            records, take_over = [self._takeovers.popleft() for _ in range(permits)], True
        else:
            return False
        self.has_no_permits = permits == 0 and not self._running
        running_before = len(self._running)
        try:
            self._start(records, take_over=take_over)
        finally:
            self._consumer.permits.release(permits - (len(self._running) - running_before))
        return permits > 0

    def _seconds_until_next_deadline(self) -> float:
        """Return the seconds until the next start, cancel or abandon deadline.

        The result is at least 0.05.
        """
        remaining = self._remaining_seconds()
        margins = (self._consumer.worker.start_margin, CANCEL_MARGIN_SECONDS, ABANDON_MARGIN_SECONDS)
        return max(0.05, min((remaining - margin for margin in margins if remaining > margin), default=0))

    def _start(self, records: Sequence[ReceivedMessage], *, take_over: bool) -> None:
        """Claim the work items of `records` and start their attempts."""
        claims = self._consumer.claims
        not_due = []
        permitted_at = self._consumer.clock()
        for record in records:
            record.stages["permitted"] = permitted_at
        for results in self._call_claims(records, lambda messages: claims.claim(messages, take_over=take_over)):
            self._start_attempts([(record, claim) for record, claim in results if claim.status is ClaimStatus.CLAIMED])
            self.metrics.add_lost(
                sum(claim.status is ClaimStatus.CLAIMED and claim.unsettled_since is not None for _, claim in results)
            )
            for record, claim in results:
                if claim.status is ClaimStatus.LEASE_EXPIRED:
                    self._takeovers.append(record)
                elif claim.status is ClaimStatus.NOT_DUE:
                    not_due.append(record)
                elif claim.status is not ClaimStatus.CLAIMED:
                    self._conclude(record, self._handle_unclaimed(record, claim))
        self._park(not_due, wait=timedelta())

    def _start_attempts(self, claims: Iterable[tuple[ReceivedMessage, Claim]]) -> None:
        """Run attempts concurrently.

        A batch worker receives all of a tenant's attempts together.
        """
        groups: dict[object, list[ClaimedMessage]] = {}
        for record, claim in claims:
            message = ClaimedMessage(record, claim, self._build_attempt(claim))
            record.stages["claimed"] = self._consumer.clock()
            self._heartbeat.watch_attempt(record, message.attempt)
            self._running[record] = message.attempt
            groups.setdefault(claim.tenant_id if self._consumer.batch_worker else record, []).append(message)
        run = self._run_separately if self._consumer.batch_worker is None else self._run_together
        for group in groups.values():
            self._start_thread(group, run)

    def _start_thread(
        self, messages: Sequence[ClaimedMessage], run: Callable[[Sequence[ClaimedMessage]], None]
    ) -> None:
        """Start a thread for attempts, or defer them if that fails."""
        try:
            self._consumer.concurrency.start(self._consumer.worker.name, partial(run, messages))
        except RuntimeError:  # Python cannot start another thread
            until = self._consumer.clock() + self._consumer.policy.wait(1)
            for message in messages:
                error = DeferredError("No thread could be started for the attempt", until=until)
                self._settle_and_release(message, partial(self.failure_handler, message, (None, error, None)))

    def _call_claims(
        self, records: Sequence[ReceivedMessage], call: Callable[[dict[Message, ParsedMessage]], Mapping[Message, A]]
    ) -> Iterator[Sequence[tuple[ReceivedMessage, A]]]:
        """Call `call` once for all `records`, and yield its results.

        Messages without a result are concluded. If several messages name one work item, only the newest message is
        used, and older messages are delayed. A message whose work item is running in this batch is not used either. If
        one message makes the call fail permanently or wait too long for a row lock, the call is repeated for each
        message. Each result is yielded before the next call, because that call may block.
        """
        records_by_message: dict[Message, ReceivedMessage] = {}
        selected_records = _newest(records) | {attempt.work_id: record for record, attempt in self._running.items()}
        for record in records:
            message = _require_parsed(record).messages[0]
            selected = selected_records[message.work_id]
            if selected is record:
                records_by_message[message] = record
            else:
                # If the same message was delivered twice, the heartbeat of the first delivery extends its visibility
                # timeout.
                is_same_message = selected.message_id == record.message_id
                delay = None if is_same_message else self._consumer.lease.total_seconds() + 1
                self._conclude(record, Disposition("running", acknowledged=False, visible_in=delay))
        if not records_by_message:
            return
        try:
            results = call({message: _require_parsed(record) for message, record in records_by_message.items()})
        except CounterfoilError as error:
            if isinstance(error, PermanentError | ConflictError) and len(records_by_message) > 1:
                yield from self._call_claims_separately(list(records_by_message.values()), call, error)
                return
            for record in records_by_message.values():
                self._conclude(record, self._handle_claim_error(record, error))
            return
        yield [(record, results[message]) for message, record in records_by_message.items()]

    def _call_claims_separately(
        self,
        records: Sequence[ReceivedMessage],
        call: Callable[[dict[Message, ParsedMessage]], Mapping[Message, A]],
        error: CounterfoilError,
    ) -> Iterator[Sequence[tuple[ReceivedMessage, A]]]:
        """Call `call` for each message, until little time is left.

        Each call may wait for a lock.
        """
        for record in records:
            self._cancel_late_attempts()
            if self._remaining_seconds() > CANCEL_MARGIN_SECONDS:
                yield from self._call_claims([record], call)
            else:
                self._conclude(record, self._consumer.settlement.handle_database_unavailable(record, error))

    def _build_attempt(self, claim: Claim) -> Attempt:
        message, consumer, deadline = claim.message, self._consumer, Deadline(self._remaining_work_seconds)
        common = message.revision, claim.attempts, claim.token, consumer.database, consumer.clock, deadline
        if claim.tenant_id is None:
            return Attempt(message.work_id, None, *common)
        return TenantAttempt(message.work_id, claim.tenant_id, *common)

    def _defer(self, records: Sequence[ReceivedMessage]) -> None:
        """Park work items that can no longer start in this invocation.

        If no permit became free, they are delayed as after a first failed attempt, because other processes are probably
        busy too. If a work item cannot be parked, its status decides the disposition of its message.
        """
        self._park(records, wait=self._consumer.policy.wait(1) if self.has_no_permits else timedelta())

    def _park(self, records: Sequence[ReceivedMessage], *, wait: timedelta) -> None:
        for results in self._call_claims(records, lambda messages: self._consumer.claims.park(messages, wait)):
            for record, claim in results:
                self._conclude(record, PARKED if claim is None else self._handle_unclaimed(record, claim))

    def _handle_unclaimed(self, record: ReceivedMessage, claim: Claim) -> Disposition:
        """Return the disposition of a message whose work item was not claimed."""
        settlement = self._consumer.settlement
        if claim.status is ClaimStatus.RUNNING and claim.lease_expires_at is not None:
            return Disposition(
                "running",
                acknowledged=False,
                visible_in=lease_remaining(claim.lease_expires_at, self._consumer.clock()),
            )
        if claim.status is ClaimStatus.EXHAUSTED:
            return settlement.handle_exhausted(record, claim)
        if claim.status is ClaimStatus.UNKNOWN:
            return settlement.handle_unknown(record, claim.message, self._main_queue(record))
        if claim.status in PARKABLE_STATUSES:
            return settlement.handle_too_many_deferrals(record, claim)
        return SUPERSEDED if claim.is_superseded else ENDED

    # -- attempts, on threads -----------------------------------------------------------------------------------------

    def _run_together(self, messages: Sequence[ClaimedMessage]) -> None:
        """Run one tenant's attempts together, then run each unsettled attempt separately.

        If the batch has closed or an attempt was canceled, the unsettled attempts are canceled instead.
        """
        unsettled = self._settle_together(messages)
        if self._closed or any(message.attempt.deadline.canceled.is_set() for message in unsettled):
            for message in unsettled:
                self._settle_and_release(message, partial(self._cancel, message))
        else:
            self._run_separately(unsettled)

    def _run_separately(self, messages: Sequence[ClaimedMessage]) -> None:
        """Run attempts concurrently, the first of them on this thread.

        Every other attempt runs on its own thread.
        """
        for message in messages[1:]:
            self._start_thread([message], self._run_separately)
        for message in messages[:1]:
            self._settle_and_release(message, partial(self._run_alone, message))

    def _cancel(self, message: ClaimedMessage) -> None:
        """Cancel an attempt that has no time left.

        If the batch is closed, the attempt is not settled, and its lease expires.
        """
        if not self._closed:
            error = CancelledError("Stopped because the invocation is about to end")
            self.failure_handler(message, (None, error, None))

    def _settle_together(self, messages: Sequence[ClaimedMessage]) -> Sequence[ClaimedMessage]:
        """Run attempts together and settle them in one transaction.

        Returns messages with unsettled attempts.
        """
        worker, attempts = (
            self._consumer.batch_worker,
            [message.attempt for message in messages if isinstance(message.attempt, TenantAttempt)],
        )
        assert worker is not None
        try:
            dispositions = self._consumer.settlement.complete_batch(
                [(message.record, message.claim) for message in messages],
                lambda connection: worker.run_together(connection, attempts),
            )
        except BaseException as error:  # noqa: BLE001  # nothing was settled, and each attempt can succeed alone
            log_fields = [_log_fields(message.record, message.claim) for message in messages]
            logger.info(
                "A batch was not settled",
                attempts=log_fields,
                error=safe_message(error, for_log=True),
                error_type=type(error).__name__,
            )
            return messages
        for message in messages:
            if disposition := dispositions.get(message.claim.message.work_id):
                self._settle_and_release(message, partial(self._conclude, message.record, disposition, message.claim))
        return [message for message in messages if message.claim.message.work_id not in dispositions]

    def _run_alone(self, message: ClaimedMessage) -> None:
        try:
            outcome = self._run(message.attempt)
        except BaseException:  # noqa: BLE001  # a SystemExit must not end the other attempts
            self.failure_handler(message, sys.exc_info())
        else:
            self.success_handler(message, outcome)

    def _run(self, attempt: Attempt) -> Outcome:
        """Run an attempt.

        Run it once more if PostgreSQL was unavailable and time remains.

        A new connection may work.
        """
        try:
            return self.handler(attempt)  # type: ignore[no-any-return]  # Powertools does not type it
        except DatabaseUnavailableError as error:
            attempt.deadline.check()
            if attempt.deadline.remaining() <= 0:
                raise
            logger.info("An attempt was repeated", work_id=str(attempt.work_id), error=safe_message(error))
        return self.handler(attempt)  # type: ignore[no-any-return]  # Powertools does not type it

    def _settle_and_release(self, message: ClaimedMessage, settle: Callable[[], Any]) -> None:
        """Settle an attempt with `settle`, and release its permit."""
        logger.thread_safe_append_keys(**_log_fields(message.record, message.claim))
        try:
            settle()
        except Exception as error:  # noqa: BLE001  # the batch reports messages without an outcome
            logger.error("unsettled", error=safe_message(error))
        finally:
            logger.thread_safe_clear_keys()
            self._ended.append(message.record)
            self._consumer.permits.release()

    def success_handler(self, record: Any, result: Outcome) -> Any:
        """Settle an attempt that returned an outcome. `record` is a `ClaimedMessage`."""
        disposition = self._consumer.settlement.complete(record.record, record.claim, result)
        return self._conclude(record.record, disposition, record.claim)

    def failure_handler(self, record: Any, exception: Any) -> Any:
        """Settle an attempt that raised an error. `record` is a `ClaimedMessage`."""
        disposition = self._consumer.settlement.fail(record.record, record.claim, exception[1])
        return self._conclude(record.record, disposition, record.claim)

    def _conclude(self, record: ReceivedMessage, disposition: Disposition, claim: Claim | None = None) -> Any:
        """Stop a message's renewals, set its visibility timeout, and record its result.

        The result is added to the batch and logged. After the batch has closed, only the renewals are stopped, because
        a newer attempt may own the message.
        """
        self._heartbeat.release(record)
        if disposition.visible_in is not None and not self._closed:
            self._consumer.visibility.set_delay(record, disposition.visible_in, self._consumer.clock())
        record.stages["ended"] = self._consumer.clock()
        with self._lock:
            if self._closed:
                return None
            if disposition.acknowledged:
                result = super().success_handler(record.record, disposition.outcome)
            else:
                result = super().failure_handler(record.record, (None, None, None))
            self._results.append(result)
            self._concluded.add(record)
            self.metrics.add(record, disposition, claim)
        logger.info(
            disposition.outcome,
            **_log_fields(record, claim),
            receives=record.receives,
            error=disposition.error,
            stages={stage: time.isoformat() for stage, time in record.stages.items()},
            seconds=round(self._consumer.concurrency.monotonic() - self._started, 3),
        )
        return result


def _log_fields(record: ReceivedMessage, claim: Claim | None) -> dict[str, Any]:
    """Return a message's log fields, with its work item and attempt if known."""
    fields: dict[str, Any] = {"message_id": record.message_id, "trace_id": record.trace}
    if claim is not None:
        return fields | claim.message.log_fields | {"tenant_id": str(claim.tenant_id), "attempt": claim.attempts}
    if record.parsed is not None and len(record.parsed.messages) == 1:
        fields |= record.parsed.messages[0].log_fields
    return fields


def _newest(records: Iterable[ReceivedMessage]) -> dict[UUID, ReceivedMessage]:
    """Return the newest message for each work item."""
    newest: dict[UUID, ReceivedMessage] = {}
    for record in records:
        message = _require_parsed(record).messages[0]
        other = newest.get(message.work_id)
        if other is None or message.sort_key > _require_parsed(other).messages[0].sort_key:
            newest[message.work_id] = record
    return newest


def _require_parsed(record: ReceivedMessage) -> ParsedMessage:
    """Return the parsed body of a message."""
    if record.parsed is None:
        raise AssertionError("A message was started before it was parsed")
    return record.parsed


METRICS_BY_OUTCOME = {
    "succeeded": Metric.SUCCEEDED,
    "skipped": Metric.SKIPPED,
    "failed": Metric.FAILED,
    "retry": Metric.RETRIES,
    "deferred": Metric.DEFERRED,
    "parked": Metric.DEFERRED,
    "stale": Metric.STALE_CLAIMS,
    "superseded": Metric.SUPERSEDED,
    "unsettled": Metric.OUTCOME_NOT_WRITTEN,
    "unprotected": Metric.VISIBILITY_NOT_EXTENDED,
}
"""Metrics by outcome. Other outcomes, such as `running` for a duplicate message, are not counted."""


class BatchMetrics:
    """Collects the outcomes, errors, attempt counts and durations of one batch."""

    def __init__(self) -> None:
        self._outcomes: Counter[Metric] = Counter()
        self._seconds: list[float] = []
        self._attempts: list[float] = []
        self._end_to_end: list[float] = []
        self._errors: Counter[str] = Counter()

    def add(self, record: ReceivedMessage, disposition: Disposition, claim: Claim | None) -> None:
        """Count a concluded message, with the claim of its attempt if there was one."""
        if disposition.outcome in METRICS_BY_OUTCOME:
            self._outcomes[METRICS_BY_OUTCOME[disposition.outcome]] += 1
        if disposition.error_type is not None:
            self._errors[disposition.error_type] += 1
        if claim is not None and "claimed" in record.stages:
            self._seconds.append((record.stages["ended"] - record.stages["claimed"]).total_seconds())
            if disposition.outcome == "succeeded":
                self._attempts.append(claim.attempts)
                if claim.created_at is not None and claim.message.revision == 1:
                    # `created_at` comes from another machine's clock, which may be ahead.
                    self._end_to_end.append(max(0.0, (record.stages["ended"] - claim.created_at).total_seconds()))

    def add_lost(self, attempts: int) -> None:
        """Count lost attempts that were detected by later claims."""
        self._errors[WORKER_LOST_ERROR_TYPE] += attempts

    def report(self, worker: str) -> None:
        """Emit the collected values as metrics."""
        values: dict[Metric, float | list[float]] = dict(self._outcomes)
        values |= {
            Metric.ATTEMPT_SECONDS: self._seconds,
            Metric.ATTEMPTS_BEFORE_SUCCESS: self._attempts,
            Metric.END_TO_END_SECONDS: self._end_to_end,
        }
        if self._outcomes:
            metrics.emit(values, worker=worker)
        for error_type, count in (+self._errors).items():
            metrics.emit({Metric.ERRORS: count}, worker=worker, error_type=error_type)
