"""Schedule of daily offers: rules, time zones and due dates. Without I/O.

Time zones come from the pinned package `tzdata`, never from the system. A date is due in a time zone from 9:00 local
time until its pool is pinned, for at most a day.
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
"""Version of the algorithm that computes offers."""


@dataclass(frozen=True)
class Rules:
    """Parameters for computing offers."""

    max_offers: int
    """Maximum offers per user."""
    max_candidates: int
    """Maximum number of candidates compared for each user."""
    max_exposure: int | None
    """Exposure cap: maximum number of users per candidate and date, or None if there is no cap."""
    repeat_interval_days: int
    """Minimum days before a candidate is offered to the same user again."""

    def as_json(self) -> dict[str, int | None]:
        """Return the rules in the JSON form that is stored with a pool."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Rules":
        """Return the rules from their stored JSON."""
        return cls(**stored)


DELIVERY_HOUR = time(9)


class UnknownZoneError(PermanentError):
    """The pinned `tzdata` does not contain the time zone. The message names the zone."""

    code = "unknown_time_zone"


MAX_AGE = timedelta(days=7)
"""Maximum age of a date whose offers an operator can request."""


class NotDueError(PermanentError):
    """The requested date is not due yet, or is more than MAX_AGE ago.

    The message gives the reason.
    """

    code = "offers_not_due"


class NoSuchDateError(PermanentError):
    """The time zone skips this date, so its clocks never show 9:00 or later on it."""

    code = "skipped_date"


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all time zones, including former names."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


def zone_info(zone: str) -> ZoneInfo:
    """Return a zone by its case-sensitive name.

    Raises:
        UnknownZoneError: the zone is unknown.
    """
    if zone not in zone_names():
        raise UnknownZoneError(f"Unknown time zone '{zone}'")
    return _load_zone(zone)


@cache
def _load_zone(zone: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=zone)


def nine_am(zone: str, day: date) -> datetime:
    """Return when clocks in `zone` first show 9:00 or later on `day`, in UTC.

    If the clocks show 9:00 twice, this is the first time. If they skip 9:00, this is the moment of the jump.

    Raises:
        UnknownZoneError: the zone is unknown.
        NoSuchDateError: the zone skips this date.
        OverflowError: the day is the first or last that Python supports.
    """
    info = zone_info(zone)
    local_time = datetime.combine(day, DELIVERY_HOUR, info)  # fold 0: the first 9:00 if there are two
    instant = local_time.astimezone(UTC)
    if instant.astimezone(info).replace(tzinfo=None) != local_time.replace(tzinfo=None):
        instant = _jump(info, local_time.replace(fold=1).astimezone(UTC), instant)
        if instant.astimezone(info).date() != day:
            raise NoSuchDateError(f"There is no {day} in the time zone '{zone}', or no 9:00 on it")
    return instant


def _jump(info: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Return the second at which a zone's UTC offset changes.

    It is between `before` and `after`. All times are in UTC.
    """
    offset = before.astimezone(info).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if middle.astimezone(info).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


CATCH_UP_WINDOW = timedelta(hours=24)
"""Maximum delay after 9:00 with which missed offers are computed."""


class Due(NamedTuple):
    """The offers for one date in one time zone."""

    zone: str
    date: date
    """Local date in the zone."""
    offered_at: datetime
    """9:00 on this date, in UTC."""
    expires_at: datetime
    """9:00 on the zone's next date, in UTC."""


_latest: dict[str, Due] = {}
"""Latest result of `current_due` by zone. An entry is valid until its `expires_at`."""


def due(now: datetime, zones: Iterable[str], already_queued: AbstractSet[tuple[str, date]]) -> list[Due]:
    """Return the offers to queue now, which are for each zone's current date.

    A date is skipped after CATCH_UP_WINDOW has passed. `already_queued` contains pairs of zone and date to skip. An
    unknown zone is treated like UTC. Its offers are queued and fail visibly.
    """
    oldest = now - CATCH_UP_WINDOW
    candidates = (current_due(zone, now) for zone in zones)
    return [
        candidate
        for candidate in candidates
        if candidate.offered_at >= oldest and (candidate.zone, candidate.date) not in already_queued
    ]


def current_due(zone: str, now: datetime) -> Due:
    """Return a zone's current offers.

    They are valid from 9:00 on their date to 9:00 on the next date.
    """
    latest = _latest.get(zone)
    if latest is None or not latest.offered_at <= now < latest.expires_at:
        latest = _latest[zone] = _current(zone, now)
    return latest


def _current(zone: str, now: datetime) -> Due:
    # If the zone set its calendar back by a day, the next date's 9:00 has already passed.
    tomorrow = now.astimezone(zone_info(clock_changes(zone))).date() + timedelta(days=1)
    for days in count():
        try:
            result = due_on(zone, tomorrow - timedelta(days=days))
        except NoSuchDateError:
            continue
        if result.offered_at <= now:
            return result
    raise AssertionError("count() has no end")


def due_on(zone: str, day: date) -> Due:
    """Return the offers for `day` in a zone, even if they are not due.

    Raises:
        NoSuchDateError: the zone skips this date.
    """
    offered_at = nine_am(clock_changes(zone), day)
    for days in count(1):
        try:
            return Due(zone, day, offered_at, nine_am(clock_changes(zone), day + timedelta(days=days)))
        except NoSuchDateError:
            continue
    raise AssertionError("count() has no end")


def due_by_request(zone: str, day: date | None, now: datetime) -> Due:
    """Return the offers that an operator requests, by default for the last due date.

    Raises:
        UnknownZoneError: the zone is unknown.
        NoSuchDateError: the zone skips this date.
        NotDueError: the date is not due yet, or is more than MAX_AGE ago.
    """
    today = now.astimezone(zone_info(zone)).date()
    if day is None:
        return current_due(zone, now)
    if abs(day - today) > MAX_AGE:  # the difference of two valid dates cannot overflow
        limit = "in the future" if day > today else f"more than {MAX_AGE.days} days ago"
        raise NotDueError(f"{day} is {limit} in {zone}: it is {today} there")
    result = due_on(zone, day)
    if result.offered_at > now:
        raise NotDueError(
            f"{day} is not due yet in {zone}: "
            f"its 9:00 is at {result.offered_at:%Y-%m-%d %H:%M} UTC, and it is {now:%Y-%m-%d %H:%M} UTC"
        )
    return result


def clock_changes(zone: str) -> str:
    """Return the zone whose clocks apply to users in `zone`.

    This is `zone` itself, or UTC if it is unknown.
    """
    return zone if zone in zone_names() else UTC.tzname(None)
