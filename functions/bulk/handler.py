"""Every minute: operations on many dead letters go on."""

from functools import cache
from typing import Any

from counterfoil.db import Database
from counterfoil.outbox import Outbox
from counterfoil.settings import settings
from functions.bulk.rounds import Rounds


@cache
def function() -> Rounds:
    """What a round is done with, made at the first invocation."""
    chosen = settings()
    database = Database.from_settings(chosen, max_connections=1)
    outbox = Outbox(database, chosen.queue_urls, chosen.retry_queue_urls)
    return Rounds(database, outbox, database.now, bucket=chosen.uploads_bucket)


def handle(event: dict[str, Any], context: Any) -> dict[str, int]:  # noqa: ARG001  # Lambda passes both
    """Take one round. Returns what it did, in numbers.

    Raises:
        DatabaseUnavailableError: the next round goes on.
        RuntimeError: operations failed; the others went on, and the log says why.
    """
    return function().run(lambda: context.get_remaining_time_in_millis() / 1000)
