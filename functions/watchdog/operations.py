"""The watchdog's step for operations: each one that runs begins what its rate allows."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from aws_lambda_powertools import Logger

from counterfoil.db import Database, retry_conflicts
from counterfoil.documents import operations
from counterfoil.documents.operations import Step
from counterfoil.errors import ConflictError
from counterfoil.outbox import Outbox, TimeLeft

LEAST_SECONDS = 2.0
"""Of a step: with less, it is left to the next round."""
LOCK_SECONDS = 1
"""Longest wait for a document that somebody is at: a round has little time."""

logger = Logger()


@dataclass(frozen=True)
class Stepped:
    """What one round did."""

    running: int
    """Operations that there were."""
    begun: int
    """Documents."""
    done: int
    """Operations that have come to their end."""


class Operations:
    """Takes the steps."""

    def __init__(self, database: Database, outbox: Outbox, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._outbox = outbox
        self._clock = clock

    def run(self, time_left: TimeLeft) -> Stepped:
        """One round: a step of each operation, the oldest first, while there is time.

        Raises:
            DatabaseUnavailableError: the next round goes on.
        """
        with self._database.delivery() as connection:
            ids = operations.running(connection)
        begun = done = 0
        for id_ in ids:
            if time_left() < LEAST_SECONDS:
                logger.warning("No time is left for all operations: the next round goes on", running=len(ids))
                break
            taken = self._step(id_)
            if taken is not None:
                self._outbox.send(taken.sends, time_left=time_left)
                begun, done = begun + taken.begun, done + taken.is_done
        return Stepped(len(ids), begun, done)

    def _step(self, id_: UUID) -> Step | None:
        def once() -> Step | None:
            with self._database.delivery(lock_seconds=LOCK_SECONDS) as connection:
                return operations.step(connection, id_, self._clock())

        try:
            return retry_conflicts(once)
        except ConflictError as error:  # its documents are in use just now; the others' are not
            logger.warning("An operation waits for the next round", operation=str(id_), error=str(error))
            return None
