"""The console benchmark reports percentiles of load times."""

import pytest

from tests.benchmarks.console import Load, report


def test_report_compares_visits_with_a_bare_page():
    visits = [Load(seen=200.0 + number, usable=300.0 + number, bytes=90_000 + number) for number in range(21)]

    head, seen, usable, bare, size = report(visits, [21.0] * 21)

    assert head.split() == ["p50", "ms", "p95", "ms", "x", "bare"]
    assert seen.split()[-3:] == ["210", "219", "10.0"]
    assert usable.split()[-3:] == ["310", "319", "14.8"]
    assert bare.split()[-3:] == ["21", "21", "1.0"]
    assert size.split()[-1] == "90020"


@pytest.mark.parametrize("slow", [1, 2])
def test_p95_is_unaffected_by_two_percent_slow_visits(slow: int):
    visits = [Load(seen=10.0, usable=20.0, bytes=1)] * (100 - slow) + [Load(seen=10.0, usable=9000.0, bytes=1)] * slow

    assert report(visits, [10.0, 10.0])[2].split()[-2] == "20"
