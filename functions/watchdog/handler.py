"""The watchdog: one round of recovery each minute."""

from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from counterfoil.db import Database
from counterfoil.outbox import Outbox
from counterfoil.settings import settings
from functions.watchdog.recovery import Watchdog

logger = Logger()


@cache
def watchdog() -> Watchdog:
    """This function's watchdog, made at the first invocation."""
    database = Database.from_settings(settings(), max_connections=1)
    return Watchdog(settings(), database, Outbox(database, settings().queue_urls), lambda: datetime.now(UTC))


def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001  # Lambda passes both
    """Run one round; returns what it did."""
    recovered = asdict(watchdog().run())
    logger.info("recovered", **recovered)
    return recovered
