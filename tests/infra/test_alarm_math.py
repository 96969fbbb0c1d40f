"""Alarms fire on the series for which they are intended, and not on others."""

from typing import Any

import pytest

from tests.infra.cloudwatch import Series, alarm_states
from tests.infra.synthesis import Template


def alarm(template: Template, name: str) -> dict[str, Any]:
    (found,) = [
        one
        for one in template.resources("AWS::CloudWatch::Alarm").values()
        if one["AlarmName"] == f"counterfoil-{name}"
    ]
    return found


def dead_letters(per_second: list[float | None]) -> Series:
    """Return watchdog samples for these dead letter rates.

    None stands for a missed run.
    """
    return {("DeadLetterRate", ""): per_second}


def test_dead_letter_rate_alarm_survives_missed_watchdog_runs(pipeline: Template):
    rates = [None if minute % 8 == 3 else 0.25 for minute in range(30)]

    assert alarm_states(alarm(pipeline, "dead-letter-rate"), dead_letters(rates))[-1]


def test_per_minute_alarm_survives_missed_watchdog_runs(pipeline: Template):
    samples: Series = {("DeadLettersPerMinute", ""): [0.0] * 10 + [None, 12.0]}

    assert alarm_states(alarm(pipeline, "dead-letter-spike"), samples)[-1]


@pytest.mark.parametrize(
    "rates",
    [[0.2] * 30, [0.0] * 10 + [5.0] * 4 + [0.0] * 16, [0.25, 0.25, 0.25, 0.1] * 6, [None] * 30],
    ids=["at the threshold", "a burst of four minutes", "interrupted", "no data"],
)
def test_dead_letter_rate_alarm_requires_sustained_excess(pipeline: Template, rates: list[float | None]):
    assert not any(alarm_states(alarm(pipeline, "dead-letter-rate"), dead_letters(rates))[10:])


@pytest.mark.parametrize("name", ["waiting-for-retry", "oldest-pending", "queue-depth"])
def test_backlog_alarms_survive_missed_watchdog_runs(pipeline: Template, name: str):
    found = alarm(pipeline, f"matching-{name}")
    samples = [None if minute % 4 == 0 else 5000.0 for minute in range(30)]

    assert alarm_states(found, {(found["MetricName"], "matching"): samples})[-1]


@pytest.mark.parametrize(
    ("failed", "succeeded", "is_raised"),
    [
        (1, 18, False),  # below the minimum volume
        (19, None, False),
        (1, 19, True),
        (20, None, True),
        (None, 500, False),
        (1, 99, False),  # exactly 1%
        (None, None, False),
    ],
)
def test_failure_rate_alarm_requires_minimum_volume_and_rate(
    pipeline: Template, failed: float | None, succeeded: float | None, *, is_raised: bool
):
    series = {("Failed", "matching"): [failed], ("Succeeded", "matching"): [succeeded]}

    assert alarm_states(alarm(pipeline, "matching-failure-rate"), series) == [is_raised]


def pages(template: Template, name: str, series: Series) -> list[bool]:
    """Return True for each minute at whose end the alarm notifies its topic."""
    composites = {one["AlarmName"]: one for one in template.resources("AWS::CloudWatch::CompositeAlarm").values()}
    raised = alarm_states(alarm(template, name), series)
    composite = composites.get(f"counterfoil-{name}-after-grace")
    if composite is None:
        return raised
    suppressor = template.document["Resources"][composite["ActionsSuppressor"]["Fn::GetAtt"][0]]["Properties"]
    return [
        is_raised and not is_off for is_raised, is_off in zip(raised, alarm_states(suppressor, series), strict=True)
    ]


SILENT = [
    ("outbox-overdue", "OutboxOverdue", 15, 4),
    ("offers-not-scheduled", "PoolsNotPinned", 120, 61),
]


@pytest.mark.parametrize(("name", "metric", "grace", "first"), SILENT)
def test_missing_data_alarm_has_grace_period_after_deployment(
    pipeline: Template, name: str, metric: str, grace: int, first: int
):
    deployed = [1.0] + [None] * (2 * grace)

    silent = pages(pipeline, name, {("Deployments", ""): deployed, (metric, ""): [None] * len(deployed)})
    assert not any(silent[:grace])
    assert all(silent[grace:])

    every = 1 if name == "outbox-overdue" else 60
    measured = [0.0 if minute >= first and (minute - first) % every == 0 else None for minute in range(len(deployed))]
    assert not any(pages(pipeline, name, {("Deployments", ""): deployed, (metric, ""): measured}))


@pytest.mark.parametrize(("name", "metric", "grace", "first"), SILENT)
def test_missing_data_without_deployment_raises_an_alarm(
    pipeline: Template,
    name: str,
    metric: str,
    grace: int,
    first: int,
):
    assert pages(pipeline, name, {(metric, ""): [0.0] + [None] * (2 * grace)})[-1]


@pytest.mark.parametrize(
    ("name", "metric", "silent", "loud"),
    [
        ("failed-offers", "OffersFailed", 0, 1),
        ("incomplete-offers", "OffersIncompletePercent", 0.1, 0.11),
        ("offers-duration", "OffersUserSeconds", 30, 31),
        ("offers-overdue", "OffersOverdue", 0, 1),
        ("uploads-without-event", "UploadsWithoutEvent", 0, 1),
    ],
)
def test_single_value_alarms_fire_above_their_threshold(
    pipeline: Template, name: str, metric: str, silent: float, loud: float
):
    assert not any(alarm_states(alarm(pipeline, name), {(metric, ""): [silent] * 10}))
    assert alarm_states(alarm(pipeline, name), {(metric, ""): [loud] * 10})[-1]


def test_outdated_upload_listing_raises_alarm_until_next_listing(pipeline: Template):
    day = 86_400.0
    ages = [0.0, day, day + 60, None, day + 180, 0.0, None, None]

    raised = alarm_states(alarm(pipeline, "upload-listing"), {("UploadListingSeconds", ""): ages})

    assert raised == [False, False, True, False, True, False, False, False]


def test_unattempted_work_item_raises_alarm_for_five_minutes(pipeline: Template):
    returns = [None] * 5 + [1.0] + [None] * 9
    attempted: Series = {("ReturnedUnattempted", "matching"): [1.0] * len(returns)}

    raised = alarm_states(alarm(pipeline, "returned-unattempted"), {("ReturnedUnattempted", ""): returns, **attempted})

    assert [minute for minute, is_raised in enumerate(raised) if is_raised] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("name", ["dead-letter-rate", "failed-offers", "incomplete-offers", "offers-overdue"])
def test_critical_alarms_notify_the_critical_topic(pipeline: Template, name: str):
    assert pipeline.resolve(alarm(pipeline, name)["AlarmActions"]) == ["counterfoil-alarms-critical"]
