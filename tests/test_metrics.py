"""Metrics are written as CloudWatch's embedded format asks for, whole lines from however many threads."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from counterfoil.metrics import Metric, record

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    """What was written since the last look, line by line."""
    return lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_metrics_of_a_call_share_a_line_that_says_their_units(lines: Lines):
    record({Metric.SUCCEEDED: 3, Metric.JOB_SECONDS: [0.5, 2]}, worker="matching")

    (line,) = lines()
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Counterfoil"
    assert directive["Metrics"] == [
        {"Name": "Succeeded", "Unit": "Count"},
        {"Name": "JobSeconds", "Unit": "Seconds"},
    ]
    assert (line["Succeeded"], line["JobSeconds"]) == ([3.0], [0.5, 2.0])


def test_each_metric_is_found_under_its_dimension_and_under_none(lines: Lines, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(
        "POWERTOOLS_SERVICE_NAME", "watchdog"
    )  # what Powertools makes a dimension of, unless kept from it

    record({Metric.NOTIFICATION_FAILURES: 1}, channel="slack")

    (line,) = lines()
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["channel"], []]
    assert line["channel"] == "slack"
    assert "service" not in line


def test_what_has_no_dimension_is_counted_once(lines: Lines):
    record({Metric.NOTIFICATIONS_SENT: 1})

    (line,) = lines()
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [[]]


def test_more_values_than_a_line_takes_go_into_further_lines_and_single_ones_are_not_repeated(lines: Lines):
    durations = [float(n) for n in range(250)]

    record({Metric.SUCCEEDED: 250, Metric.JOB_SECONDS: durations}, worker="matching")

    written = lines()
    assert [len(line["JobSeconds"]) for line in written] == [100, 100, 50]
    assert [value for line in written for value in line["JobSeconds"]] == durations
    assert [line.get("Succeeded") for line in written] == [[250.0], None, None]
    named = [[metric["Name"] for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]] for line in written]
    assert named == [["Succeeded", "JobSeconds"], ["JobSeconds"], ["JobSeconds"]]


def test_a_list_without_values_is_left_out_and_zero_is_a_value(lines: Lines):
    record({Metric.JOB_SECONDS: [], Metric.FAILED: 0}, worker="matching")
    (line,) = lines()
    assert "JobSeconds" not in line
    assert line["Failed"] == [0.0]

    record({Metric.JOB_SECONDS: []}, worker="matching")
    record({}, worker="matching")
    assert lines() == []


def test_lines_of_many_threads_stay_whole(lines: Lines):
    def write(number: int) -> None:
        record({Metric.JOB_SECONDS: [float(number)] * 100}, worker=f"w{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(200)))

    assert sorted(line["worker"] for line in lines()) == sorted(f"w{number}" for number in range(200))


@pytest.mark.parametrize("metric", Metric)
def test_a_metric_is_named_as_cloudwatch_names_its_own(metric: Metric):
    assert re.fullmatch(r"([A-Z][a-z]+)+", metric)
    assert metric.unit.value in {"Count", "Seconds", "Count/Second", "Percent"}
