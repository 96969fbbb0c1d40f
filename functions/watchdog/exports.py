"""The watchdog's part in exports of dead letters: parts are written while there is time, what is past keeping goes."""

from collections.abc import Callable
from datetime import datetime

from aws_lambda_powertools import Logger

from counterfoil.db import Database
from counterfoil.dead_letters.export_steps import Bench
from counterfoil.errors import DatabaseUnavailableError, sentence
from functions.watchdog.parts import run_each

LEAST_SECONDS = 12.0
"""Of a step: with less, it is left to the next round."""
MOST_FAILED = 5
"""Steps that fail before a round ends: then it is not this or that export."""

logger = Logger()


def write_exports(
    database: Database, bucket: str | None, clock: Callable[[], datetime], time_left: Callable[[], float]
) -> dict[str, int]:
    """Write and remove, signed in as counterfoil_keeper. Returns how many parts, and how many exports are removed.

    Raises:
        PartsError, DatabaseUnavailableError: the next round goes on. See `run_each`.
    """
    if bucket is None:  # nobody can have asked for one
        return {}
    bench = Bench(database, bucket, clock, time_left)

    def write() -> int:
        parts = 0
        failed: list[Exception] = []
        while time_left() > LEAST_SECONDS:
            try:
                if not bench.step():
                    break
                parts += 1
            except DatabaseUnavailableError:
                raise
            except Exception as error:  # noqa: BLE001  # that export waits for the end of its lease, the others do not
                failed.append(error)
                logger.error("A part of an export was not written", error=sentence(error))
                if len(failed) == MOST_FAILED:
                    break
        if failed:
            raise failed[0]
        return parts

    return run_each({"dead_letter_export_part": write, "dead_letter_export": bench.remove})
