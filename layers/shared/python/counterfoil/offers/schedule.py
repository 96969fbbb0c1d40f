"""Schedule of daily offers: rules, time zones and due dates. Pure.

Time zones follow the pinned package `tzdata`, never the system. A date is due when its 9:00 has come and no pool is
pinned.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from importlib.resources import files
from itertools import count
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from counterfoil.errors import PermanentError

VERSION = 1
"""Of the algorithm that computes offers: another one is another version."""


@dataclass(frozen=True)
class Rules:
    """How many are offered, among how many, how often, and after how many days again."""

    offers: int
    """Offers for each user, at most."""
    candidates: int
    """People that are looked at for each user, at most."""
    most_offered: int | None
    """To how many users one may be offered on a date; None: to any number."""
    repeat_days: int
    """For so many days nobody is offered to the same user again."""

    def as_json(self) -> dict[str, int | None]:
        """As the pool keeps them."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Rules":
        """What a pool keeps."""
        return cls(**kept)


NINE = time(9)


class UnknownZoneError(PermanentError):
    """A time zone that does not exist, or that the pinned `tzdata` does not know yet. The sentence names it."""

    code = "unknown_time_zone"


LONGEST_AGO = timedelta(days=7)
"""A person can request offers whose date is at most this long ago."""


class NotDueError(PermanentError):
    """The 9:00 of requested offers is in the future or more than LONGEST_AGO ago. The message says which."""

    code = "offers_not_due"


class NoSuchDateError(PermanentError):
    """A date on which the clocks of a zone never show 9:00 or later, for it was skipped."""

    code = "skipped_date"


@cache
def names() -> frozenset[str]:
    """Every name of a zone, older names among them."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


def zone_info(zone: str) -> ZoneInfo:
    """The zone of this name, whose case counts.

    Raises:
        UnknownZoneError: there is none.
    """
    if zone not in names():
        raise UnknownZoneError(f"There is no time zone '{zone}'")
    return _read(zone)


@cache
def _read(zone: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=zone)


def nine_oclock(zone: str, day: date) -> datetime:
    """The first instant of `day` at which the clocks of `zone` show 9:00 or later, in UTC.

    Where clocks show 9:00 twice, it is the first time; where they jump over it, the moment of the jump.

    Raises:
        UnknownZoneError: there is no such zone.
        NoSuchDateError: there is no such instant.
        OverflowError: the day is the first or last of all that Python knows.
    """
    info = zone_info(zone)
    shown = datetime.combine(day, NINE, info)  # fold 0: the first of two
    instant = shown.astimezone(UTC)
    if instant.astimezone(info).replace(tzinfo=None) != shown.replace(tzinfo=None):
        instant = _jump(info, shown.replace(fold=1).astimezone(UTC), instant)
        if instant.astimezone(info).date() != day:
            raise NoSuchDateError(f"There is no {day} in the time zone '{zone}', or no 9:00 of it")
    return instant


def _jump(info: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The moment between these two, whole seconds in UTC, from which on the zone has another offset than `before`."""
    offset = before.astimezone(info).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if middle.astimezone(info).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


CATCH_UP = timedelta(hours=24)
"""What was missed is caught up on for this long."""


class Due(NamedTuple):
    """The offers of one date in one time zone."""

    zone: str
    date: date
    """Of the zone's own calendar."""
    offered_at: datetime
    """9:00 of the date, in UTC as all times are."""
    expires_at: datetime
    """9:00 of the next date that there is in the zone."""


_latest: dict[str, Due] = {}
"""The last answer of `current` about each zone, which stands for a day."""


def due(now: datetime, zones: Iterable[str], already_queued: AbstractSet[tuple[str, date]]) -> list[Due]:
    """What is to be queued now: of each zone the date whose offers stand now, if its 9:00 was within CATCH_UP.

    `already_queued` holds zones with dates. A zone that is unknown has the clocks of UTC, so that it does not go
    unnoticed: whoever carries its work out finds that there is none of this name.
    """
    oldest = now - CATCH_UP
    found = (current(zone, now) for zone in zones)
    return [one for one in found if one.offered_at >= oldest and (one.zone, one.date) not in already_queued]


def current(zone: str, now: datetime) -> Due:
    """The date of a zone whose offers stand at `now`: its 9:00 was, and that of the next date was not."""
    latest = _latest.get(zone)
    if latest is None or not latest.offered_at <= now < latest.expires_at:
        latest = _latest[zone] = _current(zone, now)
    return latest


def _current(zone: str, now: datetime) -> Due:
    # A clock that was put back by a day has seen 9:00 of the date to come.
    tomorrow = now.astimezone(zone_info(clocks(zone))).date() + timedelta(days=1)
    for days in count():
        try:
            found = of_date(zone, tomorrow - timedelta(days=days))
        except NoSuchDateError:
            continue
        if found.offered_at <= now:
            return found
    raise AssertionError("count() has no end")


def of_date(zone: str, day: date) -> Due:
    """The offers of `day` in a zone, due or not.

    Raises:
        NoSuchDateError: the zone skips this date.
    """
    offered_at = nine_oclock(clocks(zone), day)
    for days in count(1):
        try:
            return Due(zone, day, offered_at, nine_oclock(clocks(zone), day + timedelta(days=days)))
        except NoSuchDateError:
            continue
    raise AssertionError("count() has no end")


def requested(zone: str, day: date | None, now: datetime) -> Due:
    """Return the offers that a person requests. Without `day`, their date is the last due one.

    Raises:
        UnknownZoneError: there is no such zone.
        NoSuchDateError: the zone skips this date.
        NotDueError: the date is not due yet, or is more than LONGEST_AGO ago.
    """
    today = now.astimezone(zone_info(zone)).date()
    if day is None:
        return current(zone, now)
    if abs(day - today) > LONGEST_AGO:  # the difference of two valid dates cannot overflow
        limit = "in the future" if day > today else f"more than {LONGEST_AGO.days} days ago"
        raise NotDueError(f"{day} is {limit} in {zone}: it is {today} there")
    found = of_date(zone, day)
    if found.offered_at > now:
        raise NotDueError(
            f"{day} is not due yet in {zone}: "
            f"its 9:00 is at {found.offered_at:%Y-%m-%d %H:%M} UTC, and it is {now:%Y-%m-%d %H:%M} UTC"
        )
    return found


def clocks(zone: str) -> str:
    """The zone whose clocks count for people of `zone`: those of UTC where it is unknown."""
    return zone if zone in names() else UTC.tzname(None)
