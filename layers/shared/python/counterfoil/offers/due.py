"""Which dates of which time zones are due: their 9:00 has come, and nobody has queued them."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import NamedTuple

from counterfoil.offers.zones import NoSuchDateError, names, nine_oclock, zone_info

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


def clocks(zone: str) -> str:
    """The zone whose clocks count for people of `zone`: those of UTC where it is unknown."""
    return zone if zone in names() else UTC.tzname(None)
