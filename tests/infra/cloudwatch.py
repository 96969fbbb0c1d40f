"""Evaluate a template's alarms on synthetic series, as CloudWatch documents it.

Every missing period is treated according to TreatMissingData. CloudWatch itself ignores more gaps, because it sometimes
looks back further.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

Series = Mapping[tuple[str, str], Sequence[float | None]]
"""Samples by metric and worker ("" if the metric has no worker), one per minute. None is a missing sample."""

_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Minimum": min,
    "Maximum": max,
    "Sum": sum,
    "Average": mean,
}


def alarm_states(alarm: Mapping[str, Any], series: Series) -> list[bool]:
    """Return True for each minute at whose end the alarm is raised.

    There are no earlier samples.
    """
    minutes = max(len(samples) for samples in series.values())
    return [_state(alarm, series, minute) for minute in range(1, minutes + 1)]


def _state(alarm: Mapping[str, Any], series: Series, end: int) -> bool:
    length = _period(alarm) // 60
    values = [
        _value(alarm, series, end - length * (back + 1), end - length * back)
        for back in range(alarm["EvaluationPeriods"])
    ]
    missing = alarm["TreatMissingData"] == "breaching"
    breaching = [missing if value is None else value > alarm["Threshold"] for value in values]
    return bool(sum(breaching) >= alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"]))


def _period(alarm: Mapping[str, Any]) -> int:
    stats = [part["MetricStat"]["Period"] for part in alarm.get("Metrics", ()) if "MetricStat" in part]
    return int(stats[0] if stats else alarm["Period"])


def _value(alarm: Mapping[str, Any], series: Series, start: int, end: int) -> float | None:
    if "Metrics" not in alarm:
        return _statistic(alarm, alarm["Statistic"], series, start, end)
    values, expression = {}, ""
    for part in alarm["Metrics"]:
        if "Expression" in part:
            expression = part["Expression"]
        else:
            stat = part["MetricStat"]
            values[part["Id"]] = _statistic(stat["Metric"], stat["Stat"], series, start, end)
    try:
        result: float | None = eval(expression, {"FILL": _fill, "IF": _if, "SUM": _sum, **values})
    except (TypeError, ZeroDivisionError):  # arithmetic with a missing data point has no value
        return None
    return result


def _statistic(metric: Mapping[str, Any], statistic: str, series: Series, start: int, end: int) -> float | None:
    worker = "".join(dimension["Value"] for dimension in metric.get("Dimensions", ()))
    samples = series.get((metric["MetricName"], worker), ())[max(0, start) : max(0, end)]
    present = [sample for sample in samples if sample is not None]
    return float(_STATISTICS[statistic](present)) if present else None


def _fill(value: float | None, missing: float) -> float:
    return missing if value is None else value


def _if(condition: bool, value: float | None, otherwise: float | None) -> float | None:  # as in CloudWatch
    return value if condition else otherwise


def _sum(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) if present else None
