"""The watchdog's part in dead letters: steps of purges, what is deleted for good, and the adding up of counts."""

from collections.abc import Callable
from datetime import datetime, timedelta

from counterfoil.db import Database, keeper
from counterfoil.dead_letters import bulk, groups, keeping
from functions.watchdog.parts import run_each

GROUPS_AT_ONCE = 2_000
"""Groups whose counts are added up in a round."""
LEAST_SECONDS = 3.0
"""Of a step: with less, it is left to the next round."""


def keep_dead_letters(
    database: Database, clock: Callable[[], datetime], retention: timedelta, time_left: Callable[[], float]
) -> dict[str, int]:
    """Take steps of purges while there is time, then delete and add up, signed in as counterfoil_keeper.

    Returns numbers: steps, letters and operations deleted, rows of counts.

    Raises:
        PartsError, DatabaseUnavailableError: the next round goes on. See `run_each`.
    """

    def hide() -> int:
        steps = 0
        while time_left() > LEAST_SECONDS:
            with database.delivery() as connection:
                if not keeping.step(connection, clock()):
                    break
            steps += 1
        return steps

    def delete() -> int:
        with keeper(database) as connection:
            return keeping.delete(connection, clock(), retention)

    def forget() -> int:
        with keeper(database) as connection:
            return bulk.forget(connection, clock())

    def add_up() -> int:
        with keeper(database) as connection:
            return groups.add_up(connection, clock(), groups=GROUPS_AT_ONCE)

    return run_each(
        {
            "dead_letter_purge": hide,
            "dead_letter": delete,
            "dead_letter_operation": forget,
            "dead_letter_count": add_up,
        }
    )
