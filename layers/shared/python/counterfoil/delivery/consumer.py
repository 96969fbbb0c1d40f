"""Consumer of a worker's queues.

A process uses one consumer for all its invocations.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

from counterfoil.db import Database
from counterfoil.delivery import retry
from counterfoil.delivery.attempt import Attempt, BatchWorker, Outcome, RoutingWorker, TenantAttempt, Worker
from counterfoil.delivery.batch import Batch
from counterfoil.delivery.claims import Claims
from counterfoil.delivery.concurrency import Concurrency, PermitPool, Threads
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import RetryPolicy
from counterfoil.delivery.settlement import Settlement
from counterfoil.delivery.work import WORK_KINDS, ParsedMessage, read_message
from counterfoil.settings import Settings

logger = Logger()


class Consumer:
    """Processes batches of messages.

    The order is: extend visibility timeouts, parse, acquire permits, claim, run, settle.
    """

    def __init__(
        self,
        settings: Settings,
        worker: Worker | BatchWorker | RoutingWorker,
        *,
        database: Database,
        outbox: Outbox,
        visibility: Visibility,
        read: Callable[[str], ParsedMessage] = read_message,
        clock: Callable[[], datetime] | None = None,
        concurrency: Concurrency | None = None,
    ) -> None:
        """`read` parses message bodies.

        S3 events and task messages have their own formats.
        """
        self.worker = settings.require_worker()
        self.kind = WORK_KINDS[self.worker.name]
        self.settings = settings
        self.batch_worker = worker if isinstance(worker, BatchWorker) else None
        self._run = worker.run if isinstance(worker, BatchWorker | RoutingWorker) else worker
        self._route = worker.route if isinstance(worker, RoutingWorker) else None
        self.read = read
        self.clock = clock = clock or database.clock
        self.database = database
        self.visibility = visibility
        self.concurrency = concurrency or Threads()
        self.permits = PermitPool(self.worker.permits, self.concurrency)
        self.lease = timedelta(seconds=settings.lease_seconds)
        is_requeue = self.worker.retries == "requeue"
        self.policy: RetryPolicy = (
            retry.requeue_policy(settings, self.worker.name) if is_requeue else retry.redeliver_policy(settings)
        )
        self.settlement = Settlement(self.kind, self.policy, database, outbox, clock)
        self.claims = Claims(
            self.kind, database, outbox, lease=self.lease, max_attempts=self.policy.max_attempts, clock=clock
        )

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        worker: Worker | BatchWorker | RoutingWorker,
        *,
        read: Callable[[str], ParsedMessage] = read_message,
    ) -> "Consumer":
        """Create a Lambda function's consumer.

        Its database has one connection per permit, one for the heartbeat and one for claims.
        """
        worker_settings = settings.require_worker()
        urls = [
            urls_by_worker[worker_settings.name]
            for urls_by_worker in (settings.queue_urls, settings.retry_queue_urls)
            if worker_settings.name in urls_by_worker
        ]
        visibility = Visibility(*urls)
        database = Database.from_settings(settings, max_connections=worker_settings.permits + 2)
        outbox = Outbox(database, settings.queue_urls, settings.retry_queue_urls)
        return cls(settings, worker, database=database, outbox=outbox, visibility=visibility, read=read)

    def run(self, attempt: Attempt) -> Outcome:
        """Run one attempt."""
        if isinstance(attempt, TenantAttempt):
            return self._run(attempt)
        assert self._route is not None  # only a RoutingWorker's work items may have no tenant
        return self._route(attempt)

    def handle(self, event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
        """Process one batch and return the partial batch response.

        The response lists the failed messages.
        """
        batch = Batch(self)
        response = process_partial_response(event=event, record_handler=self.run, processor=batch, context=context)
        batch.metrics.report(self.worker.name)
        if batch.has_no_permits:
            # Attempts from earlier invocations hold every permit and do not end. If the process stayed alive, it would
            # receive messages but never process any. The messages of this batch were parked or stay in the queue.
            logger.error("process_exited_no_permits", permits=self.worker.permits)
            self.concurrency.end_process()
        return response
