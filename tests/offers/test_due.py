"""A date is due from 9:00 local time for one day, or until its offers are queued."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from counterfoil.offers import schedule as due_module
from counterfoil.offers.schedule import CATCH_UP_WINDOW, Due, NoSuchDateError, current_due, due, due_on


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def dates(now: datetime, *zones: str, queued: frozenset[tuple[str, date]] = frozenset()) -> list[tuple[str, str]]:
    return [(item.zone, str(item.date)) for item in due(now, zones, queued)]


def test_date_is_due_from_nine_oclock():
    assert dates(utc("2026-01-05T07:59:59"), "Europe/Berlin") == [("Europe/Berlin", "2026-01-04")]
    assert dates(utc("2026-01-05T08:00:00"), "Europe/Berlin") == [("Europe/Berlin", "2026-01-05")]


def test_due_date_follows_the_local_calendar():
    zones = ("Pacific/Kiritimati", "UTC", "Pacific/Pago_Pago")
    assert dates(utc("2026-01-05T19:30:00"), *zones) == [
        ("Pacific/Kiritimati", "2026-01-06"),
        ("UTC", "2026-01-05"),
        ("Pacific/Pago_Pago", "2026-01-04"),
    ]


def test_queued_date_is_not_due_again():
    queued = frozenset({("UTC", date(2026, 1, 5)), ("Asia/Kolkata", date(2026, 1, 4))})
    assert dates(utc("2026-01-05T12:00:00"), "UTC", "Asia/Kolkata", queued=queued) == [("Asia/Kolkata", "2026-01-05")]


def test_missed_date_is_due_for_one_day():
    queued = frozenset({("UTC", date(2026, 1, 4))})
    assert dates(utc("2026-01-06T08:59:59"), "UTC", queued=queued) == [("UTC", "2026-01-05")]
    assert dates(utc("2026-01-06T09:00:00"), "UTC", queued=queued) == [("UTC", "2026-01-06")]
    longest = due_on("Europe/Berlin", date(2026, 10, 24))  # 25 hours
    assert dates(longest.offered_at + CATCH_UP_WINDOW, "Europe/Berlin") == [("Europe/Berlin", "2026-10-24")]
    assert dates(longest.offered_at + CATCH_UP_WINDOW + timedelta(seconds=1), "Europe/Berlin") == []


def test_skipped_date_is_never_due():
    before, after = due_on("Pacific/Apia", date(2011, 12, 29)), due_on("Pacific/Apia", date(2011, 12, 31))
    assert before.expires_at == after.offered_at == utc("2011-12-30T19:00:00")
    with pytest.raises(NoSuchDateError):
        due_on("Pacific/Apia", date(2011, 12, 30))
    hours = [utc("2011-12-29T00:00:00") + timedelta(hours=hour) for hour in range(67)]
    days = {current_due("Pacific/Apia", hour).date.day for hour in hours}
    assert days == {28, 29, 31}


def test_repeated_date_is_due_once():
    """Kwajalein set its clocks back by 23 hours at the end of September 30, 1969."""
    hours = [utc("1969-09-28T00:00:00") + timedelta(hours=hour) for hour in range(120)]
    result = [current_due("Kwajalein", hour) for hour in hours]
    days = [record.date for record in result]
    assert days == sorted(days)
    twice = due_on("Kwajalein", date(1969, 9, 30))
    assert (twice.offered_at, twice.expires_at) == (utc("1969-09-29T22:00:00"), utc("1969-10-01T21:00:00"))
    assert result.count(twice) == 47


def test_unknown_zone_dates_are_due_at_nine_utc():
    now = utc("2026-01-05T09:00:00")
    assert due(now, ["Mars/Olympus"], set()) == [Due("Mars/Olympus", date(2026, 1, 5), now, now + timedelta(days=1))]


def test_due_dates_do_not_depend_on_query_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(due_module, "_latest", {})
    hours = [utc("2026-03-01T00:00:00") + timedelta(hours=hour) for hour in range(24 * 60)]
    forward = [current_due("America/New_York", hour) for hour in hours]
    backward = [current_due("America/New_York", hour) for hour in hours[::-1]]
    assert forward == backward[::-1]
    assert all(first.expires_at == second.offered_at for first, second in pairwise(dict.fromkeys(forward)))
    assert all(first.offered_at <= hour < first.expires_at for first, hour in zip(forward, hours, strict=True))
