"""Runs independent parts of a step: each part runs, even if earlier ones fail."""

from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Logger

from counterfoil.errors import DatabaseUnavailableError, TransientError, safe_message

MAX_DATABASE_FAILURES = 2
"""Skip the rest after this many consecutive parts without a database connection."""

logger = Logger()


class StepsFailedError(TransientError):
    """Some parts failed. The others ran.

    The message names the failed parts, and the log has the reasons.
    """


def run_all(parts: Mapping[str, Callable[[], int | Mapping[str, int]]]) -> dict[str, int]:
    """Run all parts. Return the count of each, or the counts of its subparts.

    Raises:
        StepsFailedError: some parts failed.
        DatabaseUnavailableError: the database is unavailable, so the remaining parts did not run.
    """
    results: dict[str, Any] = {}
    failed: list[str] = []
    database_failures = 0
    for name, part in parts.items():
        try:
            counts = part()
            results |= {name: counts} if isinstance(counts, int) else counts
            database_failures = 0
        except Exception as error:  # no error may stop the other parts
            failed.append(name)
            logger.error("A part of a step failed", part=name, error=safe_message(error))
            database_failures = database_failures + 1 if isinstance(error, DatabaseUnavailableError) else 0
            if database_failures == MAX_DATABASE_FAILURES:
                raise
    if failed:
        logger.info("The other parts of the step ran", **results)
        raise StepsFailedError(f"Failed parts: {', '.join(failed)}")
    return results
