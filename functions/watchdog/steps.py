"""Runs independent steps: each step runs, even if earlier steps fail."""

from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Logger

from counterfoil.errors import DatabaseUnavailableError, TransientError, safe_message

MAX_DATABASE_FAILURES = 2
"""Number of consecutive steps without a database connection after which the remaining steps are skipped."""

logger = Logger()


class StepsFailedError(TransientError):
    """Some steps failed. All other steps ran.

    The message names the failed steps, and the log has the reasons.
    """


def run_all(steps: Mapping[str, Callable[[], int | Mapping[str, int]]]) -> dict[str, int]:
    """Run all steps.

    Return the count of each step, or the counts of its nested steps.

    Raises:
        StepsFailedError: some steps failed.
        DatabaseUnavailableError: the database is unavailable, so the remaining steps did not run.
    """
    results: dict[str, Any] = {}
    failed: list[str] = []
    database_failures = 0
    for name, step in steps.items():
        try:
            counts = step()
            results |= {name: counts} if isinstance(counts, int) else counts
            database_failures = 0
        except Exception as error:  # no error may stop the other steps
            failed.append(name)
            logger.error("A step failed", step=name, error=safe_message(error))
            database_failures = database_failures + 1 if isinstance(error, DatabaseUnavailableError) else 0
            if database_failures == MAX_DATABASE_FAILURES:
                raise
    if failed:
        logger.info("The other steps ran", **results)
        raise StepsFailedError(f"Failed steps: {', '.join(failed)}")
    return results
