"""Time zones as the pinned package `tzdata` knows them, never as the system does; and 9:00 of a date in each."""

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from counterfoil.errors import PermanentError

NINE = time(9)


class UnknownZoneError(PermanentError):
    """A time zone that does not exist, or that the pinned `tzdata` does not know yet. The sentence names it."""


class NoSuchDateError(PermanentError):
    """A date on which the clocks of a zone never show 9:00 or later, for it was skipped."""


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
