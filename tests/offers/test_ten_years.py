"""Users get one timely job per date in every time zone over ten years.

The simulated years include outages and users who move. The expected local time is computed independently of the code,
from UTC in steps of a quarter of an hour.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from counterfoil.offers.schedule import CATCH_UP_WINDOW, Due, current_due, due, nine_am, zone_info, zone_names

pytestmark = pytest.mark.slow

BEGIN, END = datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
QUARTERS_PER_DAY, NINE = 96, 36
HOURS = int((END - BEGIN) / timedelta(hours=1))
EPOCH = date(1970, 1, 1)

Changes = tuple[tuple[int, int], ...]
"""Pairs of a time and the UTC offset from then on, both in quarter hours.

Times count from BEGIN.
"""


@dataclass(frozen=True)
class LocalDays:
    """All dates in a time zone, and the quarter hour of 9:00 on each date.

    Dates are days since 1970. Quarter hours count from BEGIN. If clocks skip 9:00, the next quarter hour
    is used.
    """

    dates: Any
    nines: Any

    @classmethod
    def of(cls, changes: Changes) -> "LocalDays":
        quarters = np.arange(int((END - BEGIN) / timedelta(minutes=15)))
        starts, offsets = (np.array(column) for column in zip(*changes, strict=True))
        started_at = int(BEGIN.timestamp()) // 900
        local_quarters = quarters + started_at + offsets[np.searchsorted(starts, quarters, "right") - 1]
        day, of_day = np.divmod(local_quarters, QUARTERS_PER_DAY)
        late = of_day >= NINE
        dates, first = np.unique(day[late], return_index=True)
        return cls(dates[1:], quarters[late][first][1:])  # on the first date, 9:00 may have been before BEGIN

    def at(self, hour: int) -> int | None:
        """Return the latest date whose 9:00 is not after this hour, or None."""
        location = int(np.searchsorted(self.nines, hour * 4, "right")) - 1
        return None if location < 0 else int(self.dates[location])


def changes_of(zone: str) -> Changes:
    """Return a zone's clock changes.

    They are found in steps of five days, and then by bisection.
    """

    def ahead(quarter: int) -> int:
        offset = (BEGIN + timedelta(minutes=15 * quarter)).astimezone(info).utcoffset()
        assert offset is not None
        assert offset % timedelta(minutes=15) == timedelta(0)
        return int(offset / timedelta(minutes=15))

    info = zone_info(zone)
    changes = [(0, ahead(0))]
    for day in range(0, HOURS // 24, 5):
        low, high = day * QUARTERS_PER_DAY, (day + 5) * QUARTERS_PER_DAY
        if ahead(high) == changes[-1][1]:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if ahead(middle) == changes[-1][1] else (low, middle)
        changes.append((high, ahead(high)))
    return tuple(changes)


@pytest.fixture(scope="module")
def zones_by_changes() -> dict[Changes, list[str]]:
    """Time zones by clock changes.

    Zones with equal clock changes always have the same local time.
    """
    result = defaultdict(list)
    for zone in sorted(zone_names()):
        result[changes_of(zone)].append(zone)
    return dict(result)


def test_nine_oclock_is_correct_in_every_zone(
    zones_by_changes: dict[Changes, list[str]],
):
    assert sum(map(len, zones_by_changes.values())) == len(zone_names())
    for changes, zones in zones_by_changes.items():
        years = LocalDays.of(changes)
        days = [EPOCH + timedelta(days=int(day)) for day in years.dates]
        expected = [BEGIN + timedelta(minutes=15 * int(quarter)) for quarter in years.nines]
        for number, zone in enumerate(zones):
            # Check all dates of the first zone, and every seventh date of each other zone.
            sampled = slice(number % 7, None, 7 if number else 1)
            assert [nine_am(zone, day) for day in days[sampled]] == expected[sampled], zone


class Simulation:
    """Users in time zones, and an hourly scheduler with outages."""

    def __init__(self, years: dict[str, LocalDays], rng: random.Random) -> None:
        self.years = years
        self.rng = rng
        self.zones = sorted(years)
        self.homes = [zone for zone in self.zones for _ in range(3)]
        """Current time zone of each user. Every third user moves occasionally."""
        self.moved: set[int] = set()
        self.queued: set[tuple[str, date]] = set()
        self.jobs = [bytearray(HOURS // 24 + 4) for _ in self.homes]
        """Each user's number of jobs by date. Index 1 is the date of BEGIN."""
        self.is_alive = np.array(list(self._outages()))

    def _outages(self) -> Iterator[bool]:
        hour = 0
        while hour < HOURS:
            up, down = self.rng.randint(1, 400), self.rng.choice([1, 1, 2, 5, 23, 24, 25, 60])
            yield from ([True] * up + [False] * down)[: HOURS - hour]
            hour += up + down

    def run(self) -> None:
        at_home = defaultdict(set)
        for user, zone in enumerate(self.homes):
            at_home[zone].add(user)
        for hour in range(HOURS):
            for _ in range(self.rng.random() < 0.3):
                user = self.rng.randrange(0, len(self.homes), 3)
                at_home[self.homes[user]].discard(user)
                self.homes[user] = self.rng.choice(self.zones)
                at_home[self.homes[user]].add(user)
                self.moved.add(user)
            if self.is_alive[hour]:
                self.tick(hour, at_home)

    def tick(self, hour: int, at_home: dict[str, set[int]]) -> None:
        now = BEGIN + timedelta(hours=hour)
        for due_pool in due(now, self.zones, self.queued):
            waiting = [user for user in at_home[due_pool.zone] if not self.jobs[user][self._day(due_pool)]]
            for user in waiting:
                self.queue(user, due_pool, hour)
            if waiting:
                self.queued.add((due_pool.zone, due_pool.date))
        for user in self.moved:
            due_pool = current_due(self.homes[user], now)
            if not self.jobs[user][self._day(due_pool)] and (due_pool.zone, due_pool.date) in self.queued:
                self.queue(user, due_pool, hour)
            assert self.years[due_pool.zone].at(hour) in {None, (due_pool.date - EPOCH).days}
            assert self.jobs[user][self._day(due_pool)] == 1 or now - due_pool.offered_at > CATCH_UP_WINDOW
        self.moved.clear()

    @staticmethod
    def _day(due_pool: Due) -> int:
        return (due_pool.date - BEGIN.date()).days + 1

    def queue(self, user: int, due_pool: Due, hour: int) -> None:
        self.jobs[user][self._day(due_pool)] += 1
        assert self.years[due_pool.zone].at(hour) in {None, (due_pool.date - EPOCH).days}
        stays, nothing_was_missed = user % 3 != 0, hour > 24 and bool(self.is_alive[hour - 1])
        if stays and nothing_was_missed:
            assert BEGIN + timedelta(hours=hour) - due_pool.offered_at < timedelta(hours=1)


def test_each_user_gets_one_timely_job_per_date(zones_by_changes: dict[Changes, list[str]]):
    """Simulates one random zone from each group of zones with equal clock changes."""
    rng = random.Random(random.getrandbits(32))  # pytest-randomly sets and reports the seed
    world = Simulation({rng.choice(zones): LocalDays.of(changes) for changes, zones in zones_by_changes.items()}, rng)

    world.run()

    ticks = np.concatenate([[0], np.cumsum(world.is_alive)])
    for user, zone in enumerate(world.homes):
        assert max(world.jobs[user]) == 1
        if user % 3 == 0:
            continue
        years = world.years[zone]
        first, last = -(-years.nines // 4), years.nines // 4 + 24  # hours in which a tick may queue the date
        behind = np.minimum(last + 1, np.append(-(-years.nines[1:] // 4), HOURS))
        served = ticks[np.minimum(behind, HOURS)] > ticks[np.minimum(first, HOURS)]
        days = years.dates + (EPOCH - BEGIN.date()).days + 1
        received = np.frombuffer(world.jobs[user], dtype=np.uint8)[days]
        assert received.tolist() == served.astype(int).tolist(), zone
