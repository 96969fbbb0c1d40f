"""The watchdog's part in queues: what is paused stays so, and the minutes that people see of them are written."""

from collections.abc import Callable, Mapping
from datetime import datetime

from counterfoil.db import Database, keeper
from counterfoil.queues import add_up_minutes, queue_depths, reconcile_pauses, record_depths
from counterfoil.settings import Queue
from functions.watchdog.parts import run_each


def look_after_queues(
    database: Database, queues: Mapping[str, Queue], clock: Callable[[], datetime], time_left: Callable[[], float]
) -> dict[str, int]:
    """Put right what is not as a person wished, then write this minute, signed in as counterfoil_keeper.

    Returns numbers: queues put right, minutes that ends of work were added to, rows of what waits.

    Raises:
        PartsError, DatabaseUnavailableError: the next round goes on. See `run_each`.
    """

    def put_right() -> int:
        mappings = {worker: queue.mappings for worker, queue in queues.items()}
        return len(reconcile_pauses(database, mappings, clock(), time_left))

    def add_up() -> int:
        with keeper(database) as connection:
            return add_up_minutes(connection, clock())

    def look() -> int:
        found = queue_depths({worker: queue.urls for worker, queue in queues.items()})
        with keeper(database) as connection:
            return record_depths(connection, list(queues), {of: depth.all for of, depth in found.items()}, clock())

    return run_each({"queue_pause": put_right, "queue_ends": add_up, "queue_minute": look})
