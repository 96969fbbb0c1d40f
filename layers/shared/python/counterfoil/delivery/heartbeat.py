"""The heartbeat: renews the visibility of unfinished messages, then the leases of running tries."""

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock
from types import TracebackType
from uuid import UUID

from aws_lambda_powertools import Logger

from counterfoil.db import SHORT_SECONDS, Database
from counterfoil.delivery import store
from counterfoil.delivery.attempt import Attempt
from counterfoil.delivery.concurrency import Concurrency
from counterfoil.delivery.received import Received
from counterfoil.delivery.visibility import Visibility
from counterfoil.errors import CounterfoilError, sentence
from counterfoil.work import Kind

PATIENCE_SECONDS = 2
"""Longest wait of others for a renewal under way: it must never hold up the end of an invocation."""

logger = Logger()


class Heartbeat:
    """Beats beside a batch while it is being worked on."""

    def __init__(  # one collaborator for each thing it renews, and when
        self,
        *,
        kind: Kind,
        database: Database,
        visibility: Visibility,
        protection_seconds: Callable[[], int],
        lease: timedelta,
        every: float,
        clock: Callable[[], datetime],
        concurrency: Concurrency,
    ) -> None:
        self._kind = kind
        self._database = database
        self._visibility = visibility
        self._protection_seconds = protection_seconds
        self._lease = lease
        self._every = every
        self._clock = clock
        self._concurrency = concurrency
        self._unfinished: set[Received] = set()
        self._running: dict[Received, Attempt] = {}
        self._renewing: set[Received] = set()
        self._lock = Lock()
        self._stopping = False
        self._beating = True

    def __enter__(self) -> "Heartbeat":
        self._concurrency.begin("heartbeat", self._beat_until_stopped)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        self._concurrency.changed()
        self._concurrency.wait_for(lambda: not self._beating, PATIENCE_SECONDS)

    def watch(self, record: Received) -> None:
        """Keep this message hidden until it is released."""
        with self._lock:
            self._unfinished.add(record)

    def running(self, record: Received, attempt: Attempt) -> None:
        """Keep this try's lease alive, too."""
        with self._lock:
            self._running[record] = attempt

    def release(self, record: Received) -> None:
        """Touch this message no more, and wait a little for a renewal of it that is under way."""
        with self._lock:
            self._unfinished.discard(record)
            self._running.pop(record, None)
        self._concurrency.wait_for(lambda: record not in self._renewing, PATIENCE_SECONDS)

    def _beat_until_stopped(self) -> None:
        try:
            while not self._concurrency.wait_for(lambda: self._stopping, self._every):
                try:
                    self.beat()
                except Exception as error:  # noqa: BLE001  # the next beat must come, or every lease runs out
                    logger.error("A heartbeat failed", error=sentence(error))
        finally:
            self._beating = False
            self._concurrency.changed()

    def beat(self) -> None:
        """Renew everything once: visibility first, so that a lease never outlives its message's protection."""
        with self._lock:
            records = list(self._unfinished)
            self._renewing = set(self._unfinished)
        try:
            exposed = self._visibility.protect(records, self._protection_seconds(), self._clock())
        finally:
            with self._lock:
                self._renewing = set()
                running = {record: attempt for record, attempt in self._running.items() if record in self._unfinished}
            self._concurrency.changed()
        running = {record: attempt for record, attempt in running.items() if record not in exposed}
        by_work: dict[UUID, Attempt] = {attempt.work_id: attempt for attempt in running.values()}
        if not by_work:
            return
        tokens = {work_id: attempt.token for work_id, attempt in by_work.items()}
        try:
            with self._database.delivery(seconds=SHORT_SECONDS) as connection:
                lost = store.renew(connection, self._kind, tokens, self._clock() + self._lease)
        except CounterfoilError as error:
            logger.warning("Leases were not renewed: %s", error)
            return
        for work_id in lost:
            by_work[work_id].deadline.superseded.set()
