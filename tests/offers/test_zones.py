"""Local 9:00 is correct in every zone despite clock changes and skipped dates."""

from datetime import UTC, date, datetime

import pytest

from counterfoil.errors import PermanentError
from counterfoil.offers import schedule
from counterfoil.offers.schedule import NoSuchDateError, UnknownZoneError, nine_am


@pytest.mark.parametrize(
    ("zone", "day", "instant"),
    [
        ("UTC", "2026-01-05", "2026-01-05T09:00:00"),
        ("Europe/Berlin", "2026-01-05", "2026-01-05T08:00:00"),
        ("Europe/Berlin", "2026-07-05", "2026-07-05T07:00:00"),
        ("Europe/Berlin", "2026-03-29", "2026-03-29T07:00:00"),  # the day has 23 hours
        ("Europe/Berlin", "2026-10-25", "2026-10-25T08:00:00"),  # the day has 25 hours
        ("Asia/Kolkata", "2026-01-05", "2026-01-05T03:30:00"),
        ("Asia/Kathmandu", "2026-01-05", "2026-01-05T03:15:00"),
        ("Australia/Eucla", "2026-01-05", "2026-01-05T00:15:00"),
        ("Pacific/Chatham", "2026-01-05", "2026-01-04T19:15:00"),
        ("Australia/Lord_Howe", "2026-04-05", "2026-04-04T22:30:00"),  # clocks are set back by half an hour
        ("Pacific/Kiritimati", "2026-01-05", "2026-01-04T19:00:00"),
        ("Etc/GMT+12", "2026-01-05", "2026-01-05T21:00:00"),
        ("Africa/Monrovia", "1971-06-01", "1971-06-01T09:44:30"),
        ("Pacific/Apia", "2011-12-29", "2011-12-29T19:00:00"),
        ("Pacific/Apia", "2011-12-31", "2011-12-30T19:00:00"),
    ],
)
def test_nine_oclock_follows_local_clocks(zone: str, day: str, instant: str):
    assert nine_am(zone, date.fromisoformat(day)) == datetime.fromisoformat(instant).replace(tzinfo=UTC)


def test_skipped_nine_oclock_is_replaced_by_clock_change():
    assert nine_am("EET", date(1979, 4, 1)) == datetime(1979, 4, 1, 7, tzinfo=UTC)  # clocks jump from 9:00 to 10:00
    assert nine_am("Antarctica/Macquarie", date(1948, 3, 25)) == datetime(1948, 3, 25, tzinfo=UTC)


def test_first_of_two_nine_oclocks_is_used():
    """Kwajalein set its clocks back by 23 hours at the end of this date."""
    assert nine_am("Kwajalein", date(1969, 9, 30)) == datetime(1969, 9, 29, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "day"),
    [("Pacific/Apia", date(2011, 12, 30)), ("Kwajalein", date(1993, 8, 21)), ("Pacific/Enderbury", date(1994, 12, 31))],
)
def test_skipped_date_raises_an_error(zone: str, day: date):
    with pytest.raises(NoSuchDateError, match=f"^There is no {day} in the time zone '{zone}', or no 9:00 on it$"):
        nine_am(zone, day)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "europe/berlin", "", "../zones", "Europe", "/etc/passwd", "UTC\n"])
def test_unknown_zone_name_is_rejected(zone: str):
    with pytest.raises(UnknownZoneError) as raised:
        nine_am(zone, date(2026, 1, 5))
    assert str(raised.value) == f"Unknown time zone '{zone}'"
    assert isinstance(raised.value, PermanentError)


def test_zones_come_from_the_pinned_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zoneinfo.TZPATH", ())
    schedule._load_zone.cache_clear()
    assert len(schedule.zone_names()) > 590
    assert {schedule.zone_info(name).key for name in schedule.zone_names()} == schedule.zone_names()
