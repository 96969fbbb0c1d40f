"""The watchdog's part in offers: how those that stand now have come along, and each hour that nobody has any twice."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta

from counterfoil.db import Database
from counterfoil.metrics import Metric, record
from counterfoil.offers import pool_list

EVERY = timedelta(hours=1)
"""Offers are looked through for duplicates so often, and when the process is new."""


class OffersWatch:
    """Counts, of all tenants together."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        """`database` is signed in to as counterfoil_keeper."""
        self._database = database
        self._clock = clock
        self._looked_through: datetime | None = None

    def run(self, time_left: Callable[[], float]) -> dict[str, int]:
        """Measure and record, within these seconds. Returns what was recorded.

        Raises:
            DatabaseUnavailableError: it is done by the next round; to look through offers takes too long, in an hour.
        """
        now = self._clock()
        with self._database.delivery() as connection:
            found = pool_list.standing(connection, now)
            incomplete = pool_list.incomplete_percent(connection, now)
            user_seconds = pool_list.user_seconds(connection, now)
        record(
            {
                Metric.OFFERS_INCOMPLETE_PERCENT: incomplete,
                Metric.OFFERS_COMPLETED: found.completed,
                Metric.OFFERS_PENDING: found.pending,
                Metric.OFFERS_FAILED: found.failed,
                Metric.OFFERS_LATE: found.late,
                Metric.OFFERS_USER_SECONDS: [] if user_seconds is None else user_seconds,
            }
        )
        told = {f"offers_{name}": number for name, number in asdict(found).items()}
        return told if not self._is_hour_over(now) else told | {"offers_twice": self._look_through(now, time_left())}

    def _is_hour_over(self, now: datetime) -> bool:
        return self._looked_through is None or now - self._looked_through >= EVERY

    def _look_through(self, now: datetime, seconds: float) -> int:
        with self._database.delivery() as connection:
            self._looked_through = now  # what takes too long does not take each round's time
            number = pool_list.duplicates(connection, now, seconds)
        record({Metric.DUPLICATE_OFFERS: number})
        return number
