"""A round of operations on many dead letters: each goes on as far as its rate allows, in turns, while there is time."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from uuid import UUID

from aws_lambda_powertools import Logger

from counterfoil.db import Database, retry_conflicts
from counterfoil.dead_letters import bulk, bulk_steps
from counterfoil.dead_letters.bulk_steps import Step
from counterfoil.errors import DatabaseUnavailableError, TransientError, sentence
from counterfoil.outbox import Outbox, TimeLeft
from counterfoil.work import Send

LEAST_SECONDS = 12.0
"""Of a step with the sending of its messages: with less, it is left to the next round."""
SENDERS = 4
"""Threads that send at once: SQS takes ten messages a call, and each call is waited for."""

logger = Logger()


class Rounds:
    """Takes the steps."""

    def __init__(
        self, database: Database, outbox: Outbox, clock: Callable[[], datetime], *, bucket: str | None
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._clock = clock
        self._bucket = bucket

    def run(self, time_left: TimeLeft) -> dict[str, int]:
        """One round. Returns operations that there were, and letters that got their result.

        Raises:
            DatabaseUnavailableError: the next round goes on.
            RuntimeError: operations failed; the others went on, and the log says why.
        """
        with self._database.delivery() as connection:
            found = bulk.going_on(connection)
        turns, failed, handled = deque(found), 0, 0
        with ThreadPoolExecutor(SENDERS) as senders:
            while turns and time_left() >= LEAST_SECONDS:
                operation_id, tenant_id = turns.popleft()
                try:
                    taken = self._step(operation_id, tenant_id)
                except DatabaseUnavailableError:
                    raise
                except Exception as error:  # noqa: BLE001  # whatever it is, it is no reason for the others
                    failed += not isinstance(error, TransientError)
                    logger.error("An operation waits", operation=str(operation_id), error=sentence(error))
                    continue
                if taken is None:
                    continue
                self._send(taken.sends, senders, time_left)
                handled += taken.handled
                if taken.is_busy:
                    turns.append((operation_id, tenant_id))
        logger.info("round", operations=len(found), letters=handled)
        if failed:
            raise RuntimeError(f"{failed} operations on dead letters failed")
        return {"operations": len(found), "letters": handled}

    def _step(self, operation_id: UUID, tenant_id: UUID) -> Step | None:
        return retry_conflicts(
            lambda: bulk_steps.step(self._database, operation_id, tenant_id, self._clock(), bucket=self._bucket)
        )

    def _send(self, sends: Sequence[Send], senders: ThreadPoolExecutor, time_left: TimeLeft) -> None:
        """Send messages on several threads; what fails stays in the outbox."""
        each = -(-len(sends) // SENDERS)
        parts = [sends[first : first + each] for first in range(0, len(sends), each or 1)]
        list(senders.map(lambda part: self._outbox.send(part, time_left=time_left), parts))
