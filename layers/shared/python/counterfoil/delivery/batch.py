"""Processes a batch of messages: attempts run concurrently and settle in the handlers of Powertools."""

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
    """A message with its claim and attempt."""

    record: ReceivedMessage
    claim: Claim
    attempt: Attempt


class Batch(BatchProcessor):
    """Processor of one invocation. It acknowledges or reports each message."""

    def __init__(self, consumer: "Consumer") -> None:
        super().__init__(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
        self._consumer = consumer
        self._started = consumer.concurrency.monotonic()
        self._lock = Lock()
        self._closed = False
        self._results: list[tuple[Any, ...]] = []
        self._decided: set[ReceivedMessage] = set()
        self._waiting: deque[ReceivedMessage] = deque()
        self._alone: deque[ReceivedMessage] = deque()
        self._running: dict[ReceivedMessage, Attempt] = {}
        self._ended: deque[ReceivedMessage] = deque()
        self.tally = BatchMetrics()
        self.has_no_permits = False
        """Whether attempts of earlier invocations held every permit until this batch ran out of time."""

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
            every=consumer.settings.heartbeat_interval_seconds,
            clock=consumer.clock,
            concurrency=consumer.concurrency,
        )
        exposed = consumer.visibility.protect(records, self._protection_seconds(), now)
        protected_at = consumer.clock()
        with self._heartbeat:
            protected = []
            for record in records:
                if record in exposed:
                    self._conclude(record, Disposition("unprotected", acknowledged=False))
                else:
                    record.stages["protected"] = protected_at
                    self._heartbeat.watch(record)
                    protected.append(record)
            self._work_through([record for record in protected if self._read(record)])
        self._close(records)
        return self._results

    def _close(self, records: Iterable[ReceivedMessage]) -> None:
        """Report every unfinished message, because SQS would delete it otherwise. Ignore later outcomes."""
        with self._lock:
            self._closed = True
            for record in records:
                if record not in self._decided:
                    logger.warning("abandoned", message_id=record.message_id)
                    self._results.append(super().failure_handler(record.record, (None, None, None)))

    # -- time ---------------------------------------------------------------------------------------------------------

    def _time_left(self) -> float:
        return self.lambda_context.get_remaining_time_in_millis() / 1000

    def _time_left_to_work(self) -> float:
        return max(0.0, self._time_left() - CANCEL_MARGIN_SECONDS)

    def _protection_seconds(self) -> int:
        return max(self._consumer.settings.min_visibility_seconds, int(self._time_left()) + 30)

    # -- before work --------------------------------------------------------------------------------------------------

    def _read(self, record: ReceivedMessage) -> bool:
        """Parse the body. Returns False if the message does not identify exactly one work item."""
        settlement = self._consumer.settlement
        try:
            record.intake = self._consumer.read(record.record.body)
        except UnsupportedSchemaError as error:
            self._conclude(record, settlement.database_unavailable(record, error))
            return False
        except Exception as error:  # noqa: BLE001  # any error of the parser means an unreadable body
            self._conclude(record, settlement.invalid_message(record, error, self._queue(record)))
            return False
        if len(record.intake.messages) == 1:
            return True
        self._conclude(record, self._fan_out(record, record.intake))
        return False

    def _fan_out(self, record: ReceivedMessage, intake: ParsedMessage) -> Disposition:
        """Drop a message without work items, and split a message that names several."""
        if not intake.messages:
            return Disposition("no_work", acknowledged=True)
        try:
            self._consumer.claims.split_message(intake)
        except CounterfoilError as error:
            return self._refused(record, error)
        return Disposition("split", acknowledged=True)

    def _refused(self, record: ReceivedMessage, error: CounterfoilError) -> Disposition:
        """Return the disposition of a message whose work item could not be claimed because of an error."""
        if isinstance(error, PermanentError):
            return self._consumer.settlement.invalid_message(record, error, self._queue(record))
        return self._consumer.settlement.database_unavailable(record, error)

    @staticmethod
    def _queue(record: ReceivedMessage) -> str:
        """Return the name of the worker's main queue, even if the message came from its retry queue."""
        return record.queue.removesuffix(RETRY_SUFFIX)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _work_through(self, records: Sequence[ReceivedMessage]) -> None:
        """Start attempts as permits allow. Work items with an unsettled last attempt run alone at the end."""
        self._waiting.extend(records)
        while (self._waiting or self._alone or self._running) and self._watch_the_clock():
            if not self._start_next() and self._running:
                self._consumer.concurrency.wait_for(self._may_go_on, self._until_next_bound())
            while self._ended:
                del self._running[self._ended.popleft()]

    def _may_go_on(self) -> bool:
        return len(self._ended) > 0 or (len(self._waiting) > 0 and self._consumer.gate.has_capacity)

    def _watch_the_clock(self) -> bool:
        """Park messages if it is too late to start them, and cancel late attempts. Returns False at the end."""
        left = self._time_left()
        if left <= self._consumer.worker.start_margin:
            self._defer([*self._waiting, *self._alone])
            self._waiting.clear()
            self._alone.clear()
        self._cancel_what_runs_late()
        return left > ABANDON_MARGIN_SECONDS

    def _cancel_what_runs_late(self) -> None:
        if self._time_left() <= CANCEL_MARGIN_SECONDS:
            for attempt in self._running.values():
                attempt.deadline.canceled.set()

    def _start_next(self) -> bool:
        """Start as many waiting messages as there are free permits. Returns False if none could start."""
        patience = max(0.0, self._time_left() - self._consumer.worker.start_margin)
        if self._waiting:
            permits = self._consumer.gate.acquire(len(self._waiting), timeout=0 if self._running else patience)
            records, take_over = [self._waiting.popleft() for _ in range(permits)], False
        elif self._alone and not self._running:
            permits = self._consumer.gate.acquire(1, timeout=patience)
            records, take_over = [self._alone.popleft() for _ in range(permits)], True
        else:
            return False
        self.has_no_permits = permits == 0 and not self._running
        before = len(self._running)
        try:
            self._start(records, take_over=take_over)
        finally:
            self._consumer.gate.release(permits - (len(self._running) - before))
        return permits > 0

    def _until_next_bound(self) -> float:
        """Return the seconds until the next deadline of the loop."""
        left = self._time_left()
        bounds = (self._consumer.worker.start_margin, CANCEL_MARGIN_SECONDS, ABANDON_MARGIN_SECONDS)
        return max(0.05, min((left - bound for bound in bounds if left > bound), default=0))

    def _start(self, records: Sequence[ReceivedMessage], *, take_over: bool) -> None:
        """Claim the work items of `records` and start their attempts."""
        claims = self._consumer.claims
        early = []
        permitted_at = self._consumer.clock()
        for record in records:
            record.stages["permitted"] = permitted_at
        for answers in self._ask(records, lambda wanted: claims.claim(wanted, take_over=take_over)):
            self._begin([(record, claim) for record, claim in answers if claim.answer is ClaimStatus.CLAIMED])
            self.tally.lost(
                sum(one.answer is ClaimStatus.CLAIMED and one.unsettled_since is not None for _, one in answers)
            )
            for record, claim in answers:
                if claim.answer is ClaimStatus.LEASE_EXPIRED:
                    self._alone.append(record)
                elif claim.answer is ClaimStatus.NOT_DUE:
                    early.append(record)
                elif claim.answer is not ClaimStatus.CLAIMED:
                    self._conclude(record, self._answered(record, claim))
        self._park(early, wait=timedelta())

    def _begin(self, claimed: Iterable[tuple[ReceivedMessage, Claim]]) -> None:
        """Run attempts concurrently. A batch worker gets all attempts of a tenant together."""
        groups: dict[object, list[ClaimedMessage]] = {}
        for record, claim in claimed:
            one = ClaimedMessage(record, claim, self._attempt(claim))
            record.stages["claimed"] = self._consumer.clock()
            self._heartbeat.running(record, one.attempt)
            self._running[record] = one.attempt
            groups.setdefault(claim.tenant_id if self._consumer.batch_worker else record, []).append(one)
        run = self._run_apart if self._consumer.batch_worker is None else self._run_together
        for group in groups.values():
            self._beside(group, run)

    def _beside(self, attempts: Sequence[ClaimedMessage], run: Callable[[Sequence[ClaimedMessage]], None]) -> None:
        """Start a thread for attempts, or defer them if that fails."""
        try:
            self._consumer.concurrency.start(self._consumer.worker.name, partial(run, attempts))
        except RuntimeError:  # Python cannot start another thread
            until = self._consumer.clock() + self._consumer.policy.wait(1)
            for one in attempts:
                error = DeferredError("No thread could be started for the attempt", until=until)
                self._ending(one, partial(self.failure_handler, one, (None, error, None)))

    def _ask(
        self, records: Sequence[ReceivedMessage], ask: Callable[[dict[Message, ParsedMessage]], Mapping[Message, A]]
    ) -> Iterator[Sequence[tuple[ReceivedMessage, A]]]:
        """Call `ask` once for `records`, and yield its results. Conclude messages without a result.

        If several messages name one work item, only the newest is used and the others are delayed. If one message makes
        the call fail permanently or wait too long for a row lock, the call is repeated for each message. Each result is
        yielded before the next call, because that call may wait.
        """
        asking: dict[Message, ReceivedMessage] = {}
        speakers = _newest(records) | {attempt.work_id: record for record, attempt in self._running.items()}
        for record in records:
            message = _intake(record).messages[0]
            speaker = speakers[message.work_id]
            if speaker is record:
                asking[message] = record
            else:
                # If the same message was delivered twice, the heartbeat of the first delivery extends its visibility
                # timeout.
                same = speaker.message_id == record.message_id
                lease = None if same else self._consumer.lease.total_seconds() + 1
                self._conclude(record, Disposition("running", acknowledged=False, visible_in=lease))
        if not asking:
            return
        try:
            answers = ask({message: _intake(record) for message, record in asking.items()})
        except CounterfoilError as error:
            if isinstance(error, PermanentError | ConflictError) and len(asking) > 1:
                yield from self._ask_one_by_one(list(asking.values()), ask, error)
                return
            for record in asking.values():
                self._conclude(record, self._refused(record, error))
            return
        yield [(record, answers[message]) for message, record in asking.items()]

    def _ask_one_by_one(
        self,
        records: Sequence[ReceivedMessage],
        ask: Callable[[dict[Message, ParsedMessage]], Mapping[Message, A]],
        error: CounterfoilError,
    ) -> Iterator[Sequence[tuple[ReceivedMessage, A]]]:
        """Repeat the call for each message while there is time, because each may wait for a lock."""
        for record in records:
            self._cancel_what_runs_late()
            if self._time_left() > CANCEL_MARGIN_SECONDS:
                yield from self._ask([record], ask)
            else:
                self._conclude(record, self._consumer.settlement.database_unavailable(record, error))

    def _attempt(self, claim: Claim) -> Attempt:
        message, consumer, deadline = claim.message, self._consumer, Deadline(self._time_left_to_work)
        rest = message.revision, claim.attempts, claim.token, consumer.database, consumer.clock, deadline
        if claim.tenant_id is None:
            return Attempt(message.work_id, None, *rest)
        return TenantAttempt(message.work_id, claim.tenant_id, *rest)

    def _defer(self, records: Sequence[ReceivedMessage]) -> None:
        """Park unclaimed work items if it is too late to start them, and conclude the others by their status.

        If no permit became free, they wait as long as after a failure, because other processes are busy as well.
        """
        self._park(records, wait=self._consumer.policy.wait(1) if self.has_no_permits else timedelta())

    def _park(self, records: Sequence[ReceivedMessage], *, wait: timedelta) -> None:
        for answers in self._ask(records, lambda wanted: self._consumer.claims.park(wanted, wait)):
            for record, claim in answers:
                self._conclude(record, PARKED if claim is None else self._answered(record, claim))

    def _answered(self, record: ReceivedMessage, claim: Claim) -> Disposition:
        """Return the disposition of a message whose work item was not claimed."""
        settlement = self._consumer.settlement
        if claim.answer is ClaimStatus.RUNNING and claim.until is not None:
            return Disposition(
                "running", acknowledged=False, visible_in=lease_remaining(claim.until, self._consumer.clock())
            )
        if claim.answer is ClaimStatus.EXHAUSTED:
            return settlement.attempts_exhausted(record, claim)
        if claim.answer is ClaimStatus.UNKNOWN:
            return settlement.unknown(record, claim.message, self._queue(record))
        if claim.answer in PARKABLE_STATUSES:
            return settlement.too_many_deferrals(record, claim)
        return SUPERSEDED if claim.is_superseded else ENDED

    # -- attempts, on threads -----------------------------------------------------------------------------------------

    def _run_together(self, attempts: Sequence[ClaimedMessage]) -> None:
        """Run attempts of one tenant together, then each unsettled attempt separately."""
        left = self._settled_together(attempts)
        if self._closed or any(one.attempt.deadline.canceled.is_set() for one in left):
            for one in left:  # no time is left
                self._ending(one, partial(self._cancel, one))
        else:
            self._run_apart(left)

    def _run_apart(self, attempts: Sequence[ClaimedMessage]) -> None:
        """Run attempts concurrently, each on a separate thread."""
        for one in attempts[1:]:
            self._beside([one], self._run_apart)
        for one in attempts[:1]:
            self._ending(one, partial(self._run_alone, one))

    def _cancel(self, one: ClaimedMessage) -> None:
        """Cancel an attempt without time left. In a closed batch, a newer attempt settles the work item."""
        if not self._closed:
            error = CancelledError("Stopped because the invocation is about to end")
            self.failure_handler(one, (None, error, None))

    def _settled_together(self, tries: Sequence[ClaimedMessage]) -> Sequence[ClaimedMessage]:
        """Run attempts together and settle them in one transaction. Returns the unsettled ones."""
        worker, attempts = (
            self._consumer.batch_worker,
            [one.attempt for one in tries if isinstance(one.attempt, TenantAttempt)],
        )
        assert worker is not None
        try:
            verdicts = self._consumer.settlement.complete_batch(
                [(one.record, one.claim) for one in tries], lambda connection: worker.run_together(connection, attempts)
            )
        except BaseException as error:  # noqa: BLE001  # nothing was settled, and each can succeed alone
            told = [_about(one.record, one.claim) for one in tries]
            logger.info("apart", tries=told, error=safe_message(error, for_log=True), error_type=type(error).__name__)
            return tries
        for one in tries:
            if verdict := verdicts.get(one.claim.message.work_id):
                self._ending(one, partial(self._conclude, one.record, verdict, one.claim))
        return [one for one in tries if one.claim.message.work_id not in verdicts]

    def _run_alone(self, one: ClaimedMessage) -> None:
        try:
            outcome = self._run(one.attempt)
        except BaseException:  # noqa: BLE001  # a SystemExit must not end the other attempts
            self.failure_handler(one, sys.exc_info())
        else:
            self.success_handler(one, outcome)

    def _run(self, attempt: Attempt) -> Outcome:
        """Run an attempt, and repeat it once if PostgreSQL was unavailable, because a new connection may work."""
        try:
            return self.handler(attempt)  # type: ignore[no-any-return]  # Powertools does not type it
        except DatabaseUnavailableError as error:
            attempt.deadline.check()
            if attempt.deadline.remaining() <= 0:
                raise
            logger.info("run again", work_id=str(attempt.work_id), error=safe_message(error))
        return self.handler(attempt)  # type: ignore[no-any-return]  # Powertools does not type it

    def _ending(self, one: ClaimedMessage, end: Callable[[], Any]) -> None:
        """Settle an attempt with `end`, and release its permit."""
        logger.thread_safe_append_keys(**_about(one.record, one.claim))
        try:
            end()
        except Exception as error:  # noqa: BLE001  # the batch reports messages without an outcome
            logger.error("unsettled", error=safe_message(error))
        finally:
            logger.thread_safe_clear_keys()
            self._ended.append(one.record)
            self._consumer.gate.release()

    def success_handler(self, record: Any, result: Outcome) -> Any:
        """Settle an attempt that returned. `record` is a `ClaimedMessage`."""
        verdict = self._consumer.settlement.complete(record.record, record.claim, result)
        return self._conclude(record.record, verdict, record.claim)

    def failure_handler(self, record: Any, exception: Any) -> Any:
        """Settle an attempt that raised. `record` is a `ClaimedMessage`."""
        verdict = self._consumer.settlement.fail(record.record, record.claim, exception[1])
        return self._conclude(record.record, verdict, record.claim)

    def _conclude(self, record: ReceivedMessage, verdict: Disposition, claim: Claim | None = None) -> Any:
        """Conclude a message: stop renewals, change its visibility timeout, add the batch result, and log it.

        After the batch has closed, it only stops renewals, because a newer attempt may own the message.
        """
        self._heartbeat.release(record)
        if verdict.visible_in is not None and not self._closed:
            self._consumer.visibility.set_delay(record, verdict.visible_in, self._consumer.clock())
        record.stages["ended"] = self._consumer.clock()
        with self._lock:
            if self._closed:
                return None
            if verdict.acknowledged:
                result = super().success_handler(record.record, verdict.outcome)
            else:
                result = super().failure_handler(record.record, (None, None, None))
            self._results.append(result)
            self._decided.add(record)
            self.tally.add(record, verdict, claim)
        logger.info(
            verdict.outcome,
            **_about(record, claim),
            receives=record.receives,
            error=verdict.error,
            stages={stage: at.isoformat() for stage, at in record.stages.items()},
            seconds=round(self._consumer.concurrency.monotonic() - self._started, 3),
        )
        return result


def _about(record: ReceivedMessage, claim: Claim | None) -> dict[str, Any]:
    """Return the log fields of a message."""
    about: dict[str, Any] = {"message_id": record.message_id, "trace_id": record.trace}
    if claim is not None:
        return about | claim.message.log_fields | {"tenant_id": str(claim.tenant_id), "attempt": claim.attempts}
    if record.intake is not None and len(record.intake.messages) == 1:
        about |= record.intake.messages[0].log_fields
    return about


def _newest(records: Iterable[ReceivedMessage]) -> dict[UUID, ReceivedMessage]:
    """Return the newest message of each work item. Claiming with an older one would waste a receive."""
    newest: dict[UUID, ReceivedMessage] = {}
    for record in records:
        message = _intake(record).messages[0]
        other = newest.get(message.work_id)
        if other is None or message.sort_key > _intake(other).messages[0].sort_key:
            newest[message.work_id] = record
    return newest


def _intake(record: ReceivedMessage) -> ParsedMessage:
    """Return the parsed body of a message."""
    if record.intake is None:
        raise AssertionError("A message was started before it was parsed")
    return record.intake


COUNTED = {
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
"""Metrics by outcome. Other outcomes, such as those of duplicate messages, are not counted."""


class BatchMetrics:
    """Counts of one batch."""

    def __init__(self) -> None:
        self._outcomes: Counter[Metric] = Counter()
        self._seconds: list[float] = []
        self._attempts: list[float] = []
        self._end_to_end: list[float] = []
        self._errors: Counter[str] = Counter()

    def add(self, record: ReceivedMessage, verdict: Disposition, claim: Claim | None) -> None:
        """Count a concluded message, with the claim of its attempt if there was one."""
        if verdict.outcome in COUNTED:
            self._outcomes[COUNTED[verdict.outcome]] += 1
        if verdict.error_type is not None:
            self._errors[verdict.error_type] += 1
        if claim is not None and "claimed" in record.stages:
            self._seconds.append((record.stages["ended"] - record.stages["claimed"]).total_seconds())
            if verdict.outcome == "succeeded":
                self._attempts.append(claim.attempts)
                if claim.created_at is not None and claim.message.revision == 1:
                    # The clock of another machine set `created_at`, and may be ahead.
                    self._end_to_end.append(max(0.0, (record.stages["ended"] - claim.created_at).total_seconds()))

    def lost(self, attempts: int) -> None:
        """Count lost attempts that later claims found."""
        self._errors[WORKER_LOST_ERROR_TYPE] += attempts

    def report(self, worker: str) -> None:
        """Record the counts as metrics."""
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
