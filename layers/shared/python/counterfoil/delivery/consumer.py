"""The consumer of one queue: protects, reads, permits, claims, works and settles each batch, in this order."""

import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from threading import Lock
from time import monotonic
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from counterfoil.db import CommitUnknownError, Connection, Database, retry_conflicts
from counterfoil.delivery import store
from counterfoil.delivery.attempt import Attempt, Outcome
from counterfoil.delivery.gate import Gate
from counterfoil.delivery.heartbeat import Heartbeat
from counterfoil.delivery.received import Received
from counterfoil.delivery.settlement import ENDED, Settlement, Verdict, lease_left
from counterfoil.delivery.store import Answer, Claim
from counterfoil.delivery.visibility import PROTECTION_SECONDS, Visibility
from counterfoil.errors import CounterfoilError, NewerSchemaError, StaleClaimError
from counterfoil.messages import Intake, Message, read_message
from counterfoil.outbox import Outbox
from counterfoil.retry import RedeliverPolicy
from counterfoil.settings import Settings
from counterfoil.work import KINDS, owe

CANCEL_SECONDS = 10
"""Before the end of the invocation: what still runs is asked to stop."""
ABANDON_SECONDS = 4
"""Before the end of the invocation: what has not stopped is left behind; its lease will lapse."""

logger = Logger()

Work = Callable[[Attempt], Outcome]


class Consumer:
    """Everything about one queue that outlives an invocation."""

    def __init__(  # the parts that a worker is composed of
        self,
        settings: Settings,
        work: Work,
        *,
        database: Database,
        outbox: Outbox,
        visibility: Visibility,
        read: Callable[[str], Intake] = read_message,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`work` does one attempt; `read` says what a body names, where messages come from outside."""
        self.worker = settings.require_worker()
        self.kind = KINDS[self.worker.name]
        self.settings = settings
        self.work = work
        self.read = read
        self.clock = clock
        self.database = database
        self.outbox = outbox
        self.visibility = visibility
        self.gate = Gate(self.worker.permits)
        self.lease = timedelta(seconds=settings.lease_seconds)
        self.policy = RedeliverPolicy(settings.retry_redeliver_delays_seconds, settings.retry_max_attempts)
        self.settlement = Settlement(self.kind, self.policy, database, outbox, clock)

    @classmethod
    def from_settings(
        cls, settings: Settings, work: Work, *, read: Callable[[str], Intake] = read_message
    ) -> "Consumer":
        """The consumer as a function runs it: connections for every permit, the heartbeat and the claims."""
        worker = settings.require_worker()
        database = Database.from_settings(settings, max_connections=worker.permits + 2)
        return cls(
            settings,
            work,
            database=database,
            outbox=Outbox(database, settings.queue_urls),
            visibility=Visibility(settings.queue_urls[worker.name]),
            read=read,
        )

    def handle(self, event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
        """Process one batch. Returns the messages that SQS is to keep (partial batch response)."""
        return process_partial_response(event=event, record_handler=self.work, processor=_Batch(self), context=context)


class _Batch(BatchProcessor):
    """One batch. Its records run on a bounded pool of threads and settle in the success and failure handlers."""

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
        self._consumer = consumer
        self._started = monotonic()
        self._lock = Lock()
        self._results: list[tuple[Any, ...]] = []

    def process(self) -> list[tuple[Any, ...]]:
        """Take every record to its verdict."""
        consumer = self._consumer
        now = consumer.clock()
        records = [Received(SQSRecord(record), now) for record in self.records]
        self._heartbeat = Heartbeat(
            kind=consumer.kind,
            database=consumer.database,
            visibility=consumer.visibility,
            protection_seconds=self._protection_seconds,
            lease=consumer.lease,
            every=consumer.settings.heartbeat_seconds,
            clock=consumer.clock,
        )
        exposed = consumer.visibility.protect(records, self._protection_seconds(), now)
        with self._heartbeat:
            protected = []
            for record in records:
                if record.message_id in exposed:
                    self._conclude(record, Verdict("unprotected", acknowledged=False))
                else:
                    self._heartbeat.watch(record)
                    protected.append(record)
            self._work_through([record for record in protected if self._read(record)])
            for record in records:
                # What is not reported is deleted: a record without a verdict, for whatever reason, must be reported.
                self._conclude(record, Verdict("unfinished", acknowledged=False))
        return self._results

    # -- time ---------------------------------------------------------------------------------------------------------

    def _time_left(self) -> float:
        return self.lambda_context.get_remaining_time_in_millis() / 1000

    def _protection_seconds(self) -> int:
        return max(PROTECTION_SECONDS, int(self._time_left()) + 30)

    # -- before work --------------------------------------------------------------------------------------------------

    def _read(self, record: Received) -> bool:
        """Read the body. False when the record is concluded, since it names no one piece of work to claim."""
        settlement = self._consumer.settlement
        try:
            record.intake = self._consumer.read(record.record.body)
        except NewerSchemaError as error:
            self._conclude(record, settlement.away(record, error))
            return False
        except Exception as error:  # noqa: BLE001  # a body that breaks its reader can never be read
            self._conclude(record, settlement.unreadable(record, error, self._queue(record)))
            return False
        if len(record.intake.messages) == 1:
            return True
        self._conclude(record, self._fan_out(record, record.intake))
        return False

    def _fan_out(self, record: Received, intake: Intake) -> Verdict:
        """A message that names no work is over; one that names several becomes a message for each."""
        consumer = self._consumer
        if not intake.messages:
            return Verdict("ignored", acknowledged=True)
        now = consumer.clock()
        try:
            with consumer.database.delivery() as connection:
                if intake.register is not None:
                    intake.register(connection, now)
                looked_up = self._look(connection, intake.messages)
                rows = [
                    (message.work_id, claim.tenant_id, message.revision, message.send_number)
                    for message, claim in looked_up.items()
                    if claim.answer is Answer.MINE
                ]
                sends = owe(connection, consumer.kind, rows, now, now) if rows else []
        except CounterfoilError as error:
            return consumer.settlement.away(record, error)
        consumer.outbox.send(sends)
        return Verdict("fanned-out", acknowledged=True)

    @staticmethod
    def _queue(record: Received) -> str:
        return record.record.queue_url.rsplit("/", 1)[-1]

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _work_through(self, records: Sequence[Received]) -> None:
        """Start records as permits come free; those whose last try never settled run alone, after all others."""
        worker = self._consumer.worker
        self._waiting, self._alone = deque(records), deque[Received]()
        self._running: dict[Future[None], tuple[Received, Attempt]] = {}
        self._pool = ThreadPoolExecutor(max_workers=worker.permits, thread_name_prefix=worker.name)
        try:
            while (self._waiting or self._alone or self._running) and self._watch_the_clock():
                if not self._start_next() and self._running:
                    done, _ = wait(self._running, timeout=self._until_next_bound(), return_when=FIRST_COMPLETED)
                    for future in done:
                        del self._running[future]
            for record, _ in self._running.values():
                self._conclude(record, Verdict("abandoned", acknowledged=False))
        finally:
            self._pool.shutdown(wait=False)

    def _watch_the_clock(self) -> bool:
        """Start nothing that cannot end in time, cancel what runs too long. False when the time is up."""
        left = self._time_left()
        if left <= self._consumer.worker.start_margin:
            self._defer([*self._waiting, *self._alone])
            self._waiting.clear()
            self._alone.clear()
        if left <= CANCEL_SECONDS:
            for _, attempt in self._running.values():
                attempt.cancelled.set()
        return left > ABANDON_SECONDS

    def _start_next(self) -> bool:
        """Start as many waiting records as there are permits. False when nothing could be started now."""
        patience = max(0.0, self._time_left() - self._consumer.worker.start_margin)
        if self._waiting:
            permits = self._consumer.gate.take(len(self._waiting), timeout=0 if self._running else patience)
            records, take_over = [self._waiting.popleft() for _ in range(permits)], False
        elif self._alone and not self._running:
            permits = self._consumer.gate.take(1, timeout=patience)
            records, take_over = [self._alone.popleft() for _ in range(permits)], True
        else:
            return False
        before = len(self._running)
        try:
            self._alone.extend(self._start(records, take_over=take_over))
        finally:
            self._consumer.gate.give_back(permits - (len(self._running) - before))
        return permits > 0

    def _until_next_bound(self) -> float:
        """Seconds until the loop has something to decide by the clock alone."""
        left = self._time_left()
        bounds = (self._consumer.worker.start_margin, CANCEL_SECONDS, ABANDON_SECONDS)
        return max(0.05, min((left - bound for bound in bounds if left > bound), default=0))

    def _start(self, records: Sequence[Received], *, take_over: bool) -> list[Received]:
        """Claim the work of `records` and start what was claimed. Returns those that are to run alone."""
        consumer = self._consumer
        here = {attempt.work_id for _, attempt in self._running.values()}
        wanted: dict[Message, Received] = {}
        for record in records:
            message = _named(record)
            if message.work_id in here:
                self._conclude(
                    record, Verdict("running", acknowledged=False, visible_in=consumer.lease.total_seconds() + 1)
                )
            else:
                here.add(message.work_id)
                wanted[message] = record
        if not wanted:
            return []
        try:
            claims = self._claim(wanted, take_over=take_over)
        except CounterfoilError as error:
            for record in wanted.values():
                self._conclude(record, consumer.settlement.away(record, error))
            return []
        unsettled = []
        for message, record in wanted.items():
            claim = claims[message]
            if claim.answer is Answer.UNSETTLED:
                unsettled.append(record)
            elif claim.answer is not Answer.MINE:
                self._conclude(record, self._answered(record, claim))
            else:
                attempt = self._attempt(claim)
                self._heartbeat.running(record, attempt)
                self._running[self._pool.submit(self._run, record, claim, attempt)] = (record, attempt)
        return unsettled

    def _attempt(self, claim: Claim) -> Attempt:
        return Attempt(
            work_id=claim.message.work_id,
            tenant_id=claim.tenant_id,
            revision=claim.message.revision,
            number=claim.attempts,
            token=claim.token,
            database=self._consumer.database,
            now=self._consumer.clock,
            time_left=lambda: self._time_left() - CANCEL_SECONDS,
        )

    def _claim(self, wanted: dict[Message, Received], *, take_over: bool) -> dict[Message, Claim]:
        consumer = self._consumer
        claims: dict[Message, Claim] = {}

        def once() -> None:
            now = consumer.clock()
            with consumer.database.delivery() as connection:
                self._register(connection, wanted.values(), now)
                claims.update(
                    store.claim(
                        connection,
                        consumer.kind,
                        list(wanted),
                        now=now,
                        lease=now + consumer.lease,
                        max_attempts=consumer.policy.max_attempts,
                        take_over=take_over,
                    )
                )

        try:
            retry_conflicts(once)
        except CommitUnknownError:
            # The tokens were read before the commit: a row that has ours was claimed by it.
            with consumer.database.delivery() as connection:
                for message, claim in claims.items():
                    if claim.answer is Answer.MINE and not store.holds(
                        connection, consumer.kind, message.work_id, claim.token
                    ):
                        raise
        return claims

    def _register(self, connection: Connection, records: Any, now: datetime) -> None:
        for record in records:
            if record.intake is not None and record.intake.register is not None:
                record.intake.register(connection, now)

    def _look(self, connection: Connection, messages: Sequence[Message]) -> dict[Message, Claim]:
        consumer = self._consumer
        now = consumer.clock()
        return store.claim(
            connection,
            consumer.kind,
            messages,
            now=now,
            lease=now,
            max_attempts=consumer.policy.max_attempts,
            look_only=True,
        )

    def _defer(self, records: Sequence[Received]) -> None:
        """No time is left to start these: park what is pending, and give the others the claim's answer."""
        consumer = self._consumer
        for record in records:
            message = _named(record)
            try:
                with consumer.database.delivery() as connection:
                    self._register(connection, [record], consumer.clock())
                    claim = self._look(connection, [message])[message]
            except CounterfoilError as error:
                verdict = consumer.settlement.away(record, error)
            else:
                if claim.answer is Answer.MINE:
                    verdict = consumer.settlement.park(record, claim, consumer.clock())
                elif claim.answer is Answer.UNSETTLED:
                    verdict = Verdict("deferred", acknowledged=False, visible_in=1)
                else:
                    verdict = self._answered(record, claim)
            self._conclude(record, verdict)

    def _answered(self, record: Received, claim: Claim) -> Verdict:
        """What becomes of a message whose work was not claimed."""
        settlement, now = self._consumer.settlement, self._consumer.clock()
        if claim.answer is Answer.RUNNING and claim.until is not None:
            return Verdict("running", acknowledged=False, visible_in=lease_left(claim.until, now))
        if claim.answer is Answer.EARLY and claim.until is not None:
            return settlement.park(record, claim, claim.until)
        if claim.answer is Answer.EXHAUSTED:
            return settlement.exhausted(record, claim)
        if claim.answer is Answer.UNKNOWN:
            return settlement.unknown(record, claim.message, self._queue(record))
        return ENDED

    # -- one record, on a thread of the pool --------------------------------------------------------------------------

    def _run(self, record: Received, claim: Claim, attempt: Attempt) -> None:
        try:
            try:
                outcome = self.handler(attempt)
            except BaseException:  # noqa: BLE001  # a SystemExit in one record must not take its neighbours along
                self.failure_handler((record, claim), sys.exc_info())
            else:
                self.success_handler((record, claim), outcome)
        except Exception:
            logger.exception("Settling failed", message_id=record.message_id)
            self._conclude(record, Verdict("unsettled", acknowledged=False))
        finally:
            self._consumer.gate.give_back()

    def success_handler(self, record: Any, result: Outcome) -> Any:
        """Settle work whose code returned. `record` is the pair of received message and claim."""
        received, claim = record
        return self._conclude(received, self._consumer.settlement.finished(received, claim, result), claim)

    def failure_handler(self, record: Any, exception: Any) -> Any:
        """Settle work whose code raised. `record` is the pair of received message and claim."""
        received, claim = record
        return self._conclude(received, self._consumer.settlement.failed(received, claim, exception[1]), claim)

    def _conclude(self, record: Received, verdict: Verdict, claim: Claim | None = None) -> Any:
        """Carry out a record's first verdict: end renewals, then visibility, the batch's answer, a log line."""
        with self._lock:
            if record.concluded:
                return None
            record.concluded = True
        self._heartbeat.release(record)
        if verdict.visible_in is not None:
            self._consumer.visibility.back_off(record, verdict.visible_in, self._consumer.clock())
        if verdict.acknowledged:
            result = super().success_handler(record.record, verdict.outcome)
        else:
            error = StaleClaimError(verdict.error or verdict.outcome)
            result = super().failure_handler(record.record, (type(error), error, None))
        self._results.append(result)
        logger.info(
            verdict.outcome,
            message_id=record.message_id,
            receives=record.receives,
            work_id=str(claim.message.work_id) if claim else None,
            tenant_id=str(claim.tenant_id) if claim else None,
            attempt=claim.attempts if claim else None,
            error=verdict.error,
            seconds=round(monotonic() - self._started, 3),
        )
        return result


def _named(record: Received) -> Message:
    """The one work that a record in the loop names."""
    if record.intake is None:
        raise AssertionError("A record was started before it was read")
    return record.intake.messages[0]
