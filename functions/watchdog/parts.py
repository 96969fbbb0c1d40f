"""Runs what belongs together but not upon one another: each part runs, whatever became of those before it."""

from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Logger

from counterfoil.errors import DatabaseUnavailableError, TransientError, sentence

AWAY_AFTER = 2
"""Parts in a row for which the database was not there: then it is away, and the others need it as well."""

logger = Logger()


class PartsError(TransientError):
    """Parts failed; the others ran. The sentence names those that failed, and the log says why."""


def run_each(parts: Mapping[str, Callable[[], int | Mapping[str, int]]]) -> dict[str, int]:
    """Run all parts. Returns what each did, a number; or where it has parts itself, what each of these did.

    Raises:
        PartsError: some of them failed.
        DatabaseUnavailableError: the database is away. The parts behind did not run.
    """
    done: dict[str, Any] = {}
    failed: list[str] = []
    away = 0
    for name, part in parts.items():
        try:
            did = part()
            done |= {name: did} if isinstance(did, int) else did
            away = 0
        except Exception as error:  # whatever it is, it is no reason for the others
            failed.append(name)
            logger.error("A part of a step failed", part=name, error=sentence(error))
            away = away + 1 if isinstance(error, DatabaseUnavailableError) else 0
            if away == AWAY_AFTER:
                raise
    if failed:
        logger.info("The other parts of the step ran", **done)
        raise PartsError(f"Parts of it failed: {', '.join(failed)}")
    return done
