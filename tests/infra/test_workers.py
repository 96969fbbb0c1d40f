"""Validation of the worker table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.worker_table import (
    ALL_QUEUES,
    WORKERS,
    Alarm,
    Trigger,
    WorkerSpec,
    WorkerTableError,
    cap_concurrency,
    mappings,
    queue_workers,
    shorten_timeouts,
    targets,
    validate,
)

ROOT = Path(__file__).parents[2]
SOURCE = WorkerSpec(
    name="source",
    description="feeds another worker",
    trigger=Trigger.OUTBOX,
    timeout=60,
    memory=512,
    reserved_concurrency=4,
    maximum_concurrency=4,
    batch_size=10,
    visibility=360,
    alarms=(Alarm.DEAD_LETTERS,),
)
SINK = replace(SOURCE, name="sink")
CLOCK = WorkerSpec(
    name="clock", description="ticks", trigger=Trigger.SCHEDULE, timeout=30, memory=256, reserved_concurrency=1
)
DLQ_CONSUMER = replace(
    SOURCE,
    name="dlq_consumer",
    trigger=Trigger.DEAD_LETTER_QUEUES,
    maximum_concurrency=2,
    alarms=(),
    sends_to=ALL_QUEUES,
)


def validation_error(rows: Sequence[WorkerSpec]) -> str | None:
    """Return the error that validation raises for a table, or None if it is valid."""
    try:
        validate(rows)
    except WorkerTableError as error:
        return str(error)
    return None


def test_project_table_is_valid():
    assert validation_error(WORKERS) is None


def test_rows_match_handler_folders():
    assert {path.parent.name for path in ROOT.glob("functions/*/handler.py")} == {row.name for row in WORKERS}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"maximum_concurrency": 2, "reserved_concurrency": 2},
        {"maximum_concurrency": 1000, "reserved_concurrency": 1000},
        {"visibility": 43_200},
        {"batch_size": 1},
        {"batch_size": 10_000, "batching_window": 1, "visibility": 361},
        {"batching_window": 300, "visibility": 660},
        {"start_margin": 0},
        {"start_margin": 59},
        {"timeout": 900, "visibility": 5400},
        {"timeout": 1, "start_margin": 0},
        {"memory": 128},
        {"memory": 10_240},
        {"sends_to": ("sink",)},
    ],
)
def test_values_at_every_bound_are_valid(changes: dict[str, Any]):
    assert validation_error([replace(SOURCE, **changes), SINK, CLOCK, DLQ_CONSUMER]) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reserved_concurrency": 3}, r"raise reserved_concurrency from 3 to 4 or lower maximum_concurrency"),
        ({"maximum_concurrency": 1}, r"set maximum_concurrency between 2 and 1000 \(AWS limits\), not 1"),
        ({"maximum_concurrency": 1001, "reserved_concurrency": 1001}, r"2 and 1000 \(AWS limits\), not 1001"),
        ({"visibility": 359}, r"raise visibility from 359 to 360 s \(6 x timeout \+ batching_window\)"),
        ({"batching_window": 5}, r"raise visibility from 360 to 365 s"),
        ({"visibility": 43_201}, r"lower visibility from 43201 to 43200 s or less"),
        ({"batch_size": 0}, r"set batch_size between 1 and 10000, not 0"),
        ({"batch_size": 10_001, "batching_window": 1, "visibility": 400}, r"between 1 and 10000, not 10001"),
        ({"batch_size": 11}, r"set batching_window to 1 s or more, because AWS rejects batches of 11"),
        ({"batching_window": 301, "visibility": 700}, r"set batching_window between 0 and 300 s, not 301"),
        ({"batching_window": -1}, r"set batching_window between 0 and 300 s, not -1"),
        ({"start_margin": 60}, r"set start_margin \(60 s\) below timeout \(60 s\)"),
        ({"start_margin": -1}, r"set start_margin"),
        ({"timeout": 901, "visibility": 5500}, r"set timeout between 1 and 900 s, not 901"),
        ({"timeout": 0, "start_margin": 0}, r"set timeout between 1 and 900 s, not 0"),
        ({"memory": 64}, r"set memory between 128 and 10240 MB, not 64"),
        ({"reserved_concurrency": 0}, r"set reserved_concurrency to 1 or more"),
        ({"permits": 0}, r"set permits to 1 or more"),
        ({"name": "Source"}, r"its name must be lower-case"),
        ({"name": "so-urce"}, r"its name must be lower-case"),
        ({"sends_to": ("missing",)}, r"sends_to names 'missing', which is not a worker"),
        ({"invokes": ("missing",)}, r"invokes names 'missing', which is not a worker"),
        ({"sends_to": ("clock",)}, r"sends_to names 'clock', which has no queue: remove it"),
        ({"sends_to": ("source",)}, r"remove its own name from sends_to"),
        ({"reads": ("uploads",)}, r"write the prefix 'uploads' in reads with a trailing slash and no leading slash"),
        ({"reads": ("/uploads/",)}, r"write the prefix '/uploads/' in reads"),
        ({"writes": ("children",)}, r"write the prefix 'children' in writes with a trailing slash"),
        ({"writes": ("uploads/",)}, r"remove uploads/ from writes, because S3 sends"),
        ({"writes": ("inbox/",)}, r"remove inbox/ from writes, because S3 sends"),
        ({"depends_on": "llm"}, r"add 'llm' to external_services, because depends_on requires it"),
        ({"trigger": Trigger.S3_EVENTS}, r"set Alarm\.MESSAGE_AGE if and only if S3 feeds it"),
        ({"alarms": (Alarm.DEAD_LETTERS, Alarm.MESSAGE_AGE)}, r"set Alarm\.MESSAGE_AGE if and only if S3 feeds it"),
        ({"alarms": ()}, r"add Alarm\.DEAD_LETTERS to alarms, or its dead letters go unnoticed"),
    ],
)
def test_unsafe_row_is_rejected_with_a_fix(changes: dict[str, Any], message: str):
    row = replace(SOURCE, **changes)

    with pytest.raises(WorkerTableError, match=rf"^Worker {row.name!r}: .*{message}.*\.$"):
        validate([row, SINK, CLOCK])


def test_retry_queue_counts_against_reserved_concurrency():
    requeueing = replace(SOURCE, retries="requeue")
    assert validation_error([replace(requeueing, maximum_concurrency=2)]) is None
    with pytest.raises(WorkerTableError, match=r"raise reserved_concurrency from 4 to 8 .* its 2 mappings of 4"):
        validate([requeueing])


def test_retry_queue_requires_a_queue():
    assert not replace(CLOCK, retries="requeue").has_retry_queue
    with pytest.raises(WorkerTableError, match=r"^Worker 'clock': remove retries"):
        validate([replace(CLOCK, retries="requeue")])


def test_only_scheduled_workers_have_an_interval():
    assert validation_error([replace(CLOCK, every="hour")]) is None
    sentence = "Worker 'source': remove every, because no schedule starts it."
    assert validation_error([replace(SOURCE, every="hour"), SINK]) == sentence


def test_retry_delays_require_the_requeue_policy():
    with pytest.raises(WorkerTableError, match=r"set retries to \"requeue\" or remove retry_delays"):
        validate([replace(SOURCE, retry_delays=(30,)), SINK])


def test_duplicate_row_name_is_rejected():
    with pytest.raises(WorkerTableError, match=r"^Worker 'sink' has two rows: give one of them another name\.$"):
        validate([SOURCE, SINK, SINK])


def test_every_dlq_counts_against_consumer_concurrency():
    third = replace(SOURCE, name="third")
    assert validation_error([SOURCE, SINK, DLQ_CONSUMER]) is None

    with pytest.raises(
        WorkerTableError, match=r"'dlq_consumer': raise reserved_concurrency from 4 to 6 .* its 3 mappings of 2"
    ):
        validate([SOURCE, SINK, third, DLQ_CONSUMER])


@pytest.mark.parametrize(
    "changes", [{"maximum_concurrency": 2}, {"batch_size": 1}, {"batching_window": 1}, {"visibility": 30}]
)
def test_worker_without_queue_rejects_mapping_settings(changes: dict[str, Any]):
    with pytest.raises(
        WorkerTableError, match=r"^Worker 'clock': leave maximum_concurrency, .* no queue feeds it \(schedule\)"
    ):
        validate([replace(CLOCK, **changes)])


def test_worker_without_queue_rejects_dead_letter_alarm():
    with pytest.raises(WorkerTableError, match=r"^Worker 'clock': remove Alarm\.DEAD_LETTERS from alarms"):
        validate([replace(CLOCK, alarms=(Alarm.DEAD_LETTERS,))])


def test_worker_may_always_send_to_its_own_queue():
    assert [row.name for row in targets([SOURCE, SINK], replace(SOURCE, sends_to=("sink",)))] == ["source", "sink"]


def test_all_queues_include_queues_of_later_rows():
    rows = [SOURCE, DLQ_CONSUMER, CLOCK, SINK]

    assert targets(rows, DLQ_CONSUMER) == mappings(rows, DLQ_CONSUMER) == queue_workers(rows) == [SOURCE, SINK]


def test_capped_table_is_valid_with_lower_concurrency():
    rows = cap_concurrency(WORKERS, 2)

    assert validation_error(rows) is None
    assert {row.maximum_concurrency for row in rows if row.has_event_source_mapping} == {2}
    assert {row.maximum_concurrency for row in rows if not row.has_event_source_mapping} == {0}


def test_worker_without_queue_rejects_depends_on():
    with pytest.raises(WorkerTableError, match=r"^Worker 'clock': remove depends_on, because it has no queue"):
        validate([replace(CLOCK, external_services=("llm",), depends_on="llm")])


def test_shortened_timeouts_keep_the_table_valid():
    rows = {row.name: row for row in shorten_timeouts(WORKERS, 20)}

    assert validation_error(tuple(rows.values())) is None
    assert (rows["matching"].timeout, rows["matching"].start_margin, rows["matching"].visibility) == (20, 5, 120)
    assert rows["dead_letters"].visibility == 120
    assert rows["watchdog"] == next(row for row in WORKERS if row.name == "watchdog")


def test_shortening_never_extends_a_timeout():
    assert shorten_timeouts(WORKERS, 900) == WORKERS


def test_matching_has_a_permit_per_batch_message():
    matching = next(row for row in WORKERS if row.name == "matching")
    assert matching.permits == matching.batch_size


@pytest.mark.parametrize(("row", "expected"), [(SOURCE, 12), (DLQ_CONSUMER, 4), (CLOCK, 1)])
def test_connections_per_invocation_depend_on_queue(row: WorkerSpec, expected: int):
    assert row.connections == expected
