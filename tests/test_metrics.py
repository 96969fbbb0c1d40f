"""Metrics are written in CloudWatch's embedded metric format, in complete lines."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from counterfoil.metrics import Metric, emit

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    """`lines()` returns the parsed lines written since the last call."""
    return lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_metrics_from_one_call_share_a_line(lines: Lines):
    emit({Metric.SUCCEEDED: 3, Metric.ATTEMPT_SECONDS: [0.5, 2]}, worker="matching")

    (line,) = lines()
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Counterfoil"
    assert directive["Metrics"] == [
        {"Name": "Succeeded", "Unit": "Count"},
        {"Name": "AttemptSeconds", "Unit": "Seconds"},
    ]
    assert (line["Succeeded"], line["AttemptSeconds"]) == ([3.0], [0.5, 2.0])


def test_metric_is_recorded_with_and_without_its_dimension(lines: Lines, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "watchdog")  # Powertools would turn this variable into a dimension

    emit({Metric.NOTIFICATION_FAILURES: 1}, channel="slack")

    (line,) = lines()
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["channel"], []]
    assert line["channel"] == "slack"
    assert "service" not in line


def test_metric_without_dimension_is_counted_once(lines: Lines):
    emit({Metric.NOTIFICATIONS_SENT: 1})

    (line,) = lines()
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [[]]


def test_many_values_are_split_into_lines(lines: Lines):
    durations = [float(n) for n in range(250)]

    emit({Metric.SUCCEEDED: 250, Metric.ATTEMPT_SECONDS: durations}, worker="matching")

    metric_lines = lines()
    assert [len(line["AttemptSeconds"]) for line in metric_lines] == [100, 100, 50]
    assert [value for line in metric_lines for value in line["AttemptSeconds"]] == durations
    assert [line.get("Succeeded") for line in metric_lines] == [[250.0], None, None]
    metric_names = [
        [metric["Name"] for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]] for line in metric_lines
    ]
    assert metric_names == [["Succeeded", "AttemptSeconds"], ["AttemptSeconds"], ["AttemptSeconds"]]


def test_empty_metrics_are_omitted_but_zero_is_recorded(lines: Lines):
    emit({Metric.ATTEMPT_SECONDS: [], Metric.FAILED: 0}, worker="matching")
    (line,) = lines()
    assert "AttemptSeconds" not in line
    assert line["Failed"] == [0.0]

    emit({Metric.ATTEMPT_SECONDS: []}, worker="matching")
    emit({}, worker="matching")
    assert lines() == []


def test_concurrent_lines_stay_complete(lines: Lines):
    def write(number: int) -> None:
        emit({Metric.ATTEMPT_SECONDS: [float(number)] * 100}, worker=f"w{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(200)))

    assert sorted(line["worker"] for line in lines()) == sorted(f"w{number}" for number in range(200))


@pytest.mark.parametrize("metric", Metric)
def test_metric_names_and_units_follow_cloudwatch_style(metric: Metric):
    assert re.fullmatch(r"([A-Z][a-z]+)+", metric)
    assert metric.unit.value in {"Count", "Seconds", "Count/Second", "Percent"}
