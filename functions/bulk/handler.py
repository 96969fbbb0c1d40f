"""Handler of the worker `bulk`, which runs steps of all operations every minute."""

from functools import cache
from typing import Any

from counterfoil.db import Database
from counterfoil.dead_letters.bulk import BulkSteps
from counterfoil.dead_letters.export import ExportSteps
from counterfoil.dead_letters.purges import PurgeSteps
from counterfoil.delivery.outbox import Outbox
from counterfoil.documents.reprocess import Reprocessing
from counterfoil.operations.engine import Definition, Engine
from counterfoil.settings import settings


def definitions(bucket: str | None) -> list[Definition]:
    """Return the definitions of all operations.

    `bucket` stores exports and large task payloads.
    """
    return [BulkSteps(bucket), PurgeSteps(), ExportSteps(bucket), Reprocessing()]


@cache
def function() -> Engine:
    """Return the engine, created at the first invocation."""
    config = settings()
    database = Database.from_settings(config, max_connections=1)
    outbox = Outbox(database, config.queue_urls, config.retry_queue_urls)
    return Engine(database, outbox, definitions(config.uploads_bucket), database.now)


def handle(event: dict[str, Any], context: Any) -> dict[str, int]:  # noqa: ARG001  # Lambda passes both
    """Run the engine once. Return the numbers of processed operations and items.

    Raises:
        DatabaseUnavailableError: the next run continues.
        RuntimeError: some operations failed. All others continued. The log has the reasons.
    """
    return function().run(lambda: context.get_remaining_time_in_millis() / 1000)
