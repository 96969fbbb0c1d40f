"""Alarms use emitted metrics, have reachable thresholds and link to the runbook."""

import importlib
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Outcome, Succeeded, TenantAttempt
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import RedeliverPolicy
from counterfoil.delivery.work import Message
from counterfoil.errors import InvalidDocumentError, ServiceUnavailableError
from counterfoil.settings import Settings, settings
from functions.dead_letters.archiver import Archiver
from infra.alarm_table import ALARMS, MAX_ATTEMPT_FRACTION, NAMESPACE, THRESHOLDS, AlarmSpec, alarm_targets
from infra.packaging import Package
from infra.worker_table import WORKERS, Trigger, WorkerSpec, queue_workers, shorten_timeouts
from tests.delivery.conftest import clock, sqs, tenant
from tests.delivery.harness import QUEUE_URL, Clock, Context, FakeSqs, event, make_consumer, record
from tests.delivery.message_bodies import object_created, s3_event
from tests.factories import make_destination, make_document, make_pool, make_shard, make_task
from tests.infra.conftest import LOCAL
from tests.infra.synthesis import Synthesis, Template, synthesize

__all__ = ["clock", "sqs", "tenant"]

QUEUES = queue_workers(WORKERS)
Metric = tuple[str, str, frozenset[tuple[str, str]]]
"""Namespace, name and dimensions, which identify a metric in CloudWatch."""

watches = pytest.mark.parametrize("watch", ALARMS, ids=lambda watch: watch.name)


def alarms(template: Template) -> dict[str, dict[str, Any]]:
    """Return the alarms on Counterfoil's own metrics, by name."""
    found = template.resources("AWS::CloudWatch::Alarm").values()
    return {
        alarm["AlarmName"]: alarm
        for alarm in found
        if not any(namespace.startswith("AWS/") for namespace, _, _ in watched_metrics(alarm))
        and alarm["AlarmName"].startswith("counterfoil-")
    }


def alarms_of_watch(template: Template, watch: AlarmSpec) -> dict[str, dict[str, Any]]:
    """Return the alarms of a table entry by worker.

    The alarm for all workers has the key "".
    """
    subjects = ["" if row is None else row.name for row in alarm_targets(watch, QUEUES)]
    prefix = {subject: f"counterfoil-{subject}-" if subject else "counterfoil-" for subject in subjects}
    return {subject: alarms(template)[f"{prefix[subject]}{watch.name}"] for subject in subjects}


def watched_metrics(alarm: dict[str, Any]) -> set[Metric]:
    """Return an alarm's metrics, including the metrics in its metric math."""
    found = [part["MetricStat"]["Metric"] for part in alarm.get("Metrics", []) if "MetricStat" in part] or [alarm]
    return {
        (
            one["Namespace"],
            one["MetricName"],
            frozenset((d["Name"], str(d["Value"])) for d in one.get("Dimensions", [])),  # a value may be a reference
        )
        for one in found
    }


def extract_metrics(output: str) -> set[Metric]:
    """Return the metrics that CloudWatch extracts from a function's output."""
    lines = [json.loads(line) for line in output.splitlines() if '"_aws"' in line]
    return {
        (directive["Namespace"], metric["Name"], frozenset((name, line[name]) for name in dimensions))
        for line in lines
        for directive in line["_aws"]["CloudWatchMetrics"]
        for dimensions in directive["Dimensions"]
        for metric in directive["Metrics"]
        if metric["Name"] in line
    }


def unknown(found: dict[str, dict[str, Any]], emitted_metrics: set[Metric]) -> set[str]:
    """Return the names of alarms on metrics that are never emitted."""
    return {name for name, alarm in found.items() if not watched_metrics(alarm) <= emitted_metrics}


@pytest.fixture
def emitted_metrics(worker_output: str) -> set[Metric]:
    """Metrics that the code emits in a run of all workers."""
    return extract_metrics(worker_output)


@pytest.fixture
def worker_output(
    database: Database,
    database_url: str,
    maintenance_database_url: str,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    tenant: UUID,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[str]:
    """Output of the workers, archiver, watchdog, migrations and offers scheduler.

    Each worker processes a batch, and the archiver is called twice.
    """
    for row in QUEUES:
        deliver(row, admin, tenant, database, clock)
    archiver = Archiver(database, Outbox(database, {}), RedeliverPolicy(), clock)
    archiver.process("acquisition", SQSRecord(record(s3_event(object_created("uploads/acme/a.xml")))))
    s3 = Mock()
    s3.list_object_versions.return_value = {"IsTruncated": False}
    monkeypatch.setattr(aws, "client", lambda service: {"s3": s3, "sqs": sqs}[service])
    environment = {
        "DATABASE_URL": maintenance_database_url,
        "QUEUE_URLS": json.dumps({row.name: QUEUE_URL for row in QUEUES}),
        "RETRY_QUEUE_URLS": json.dumps({row.name: QUEUE_URL for row in QUEUES if row.has_retry_queue}),
        "SLACK_WEBHOOK_URL": "http://127.0.0.1:1/hook",
        "BREAKER_FAILURE_THRESHOLD": "1",
        "UPLOADS_BUCKET": "uploads",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    watchdog = importlib.import_module("functions.watchdog.handler")
    dead_letters = importlib.import_module("functions.dead_letters.handler")
    migrate = importlib.import_module("functions.migrate.handler")
    scheduler = importlib.import_module("functions.offers_scheduler.handler")
    cached = (settings, watchdog.watchdog, dead_letters.function, scheduler.function)
    for function in cached:
        function.cache_clear()
    watchdog.handle({}, Context(seconds_left=55))
    dead_letters.handle(event(record("{}")), Context(seconds_left=60))
    monkeypatch.setattr(migrate, "apply", lambda *_: [])
    migrate.handle({}, Context(seconds_left=60))
    monkeypatch.setenv("DATABASE_URL", database_url)
    settings.cache_clear()
    scheduler.handle({}, Context(seconds_left=60))
    yield capsys.readouterr().out
    for function in cached:
        function.cache_clear()


def deliver(row: WorkerSpec, admin: Connection, tenant: UUID, database: Database, clock: Clock) -> None:
    """Deliver three work items to a worker.

    One succeeds, one fails and one is retried.
    """
    outcomes: Sequence[Exception | None] = (
        None,
        InvalidDocumentError("no", code="damaged_pdf"),
        ServiceUnavailableError("later"),
    )
    outcome_by_id = dict(zip([make_pending(row, admin, tenant) for _ in outcomes], outcomes, strict=True))

    def work(attempt: TenantAttempt) -> Outcome:
        error = outcome_by_id[attempt.work_id]
        if error is not None:
            raise error
        return Succeeded(lambda _: Effects())

    worker = {"name": row.name, "timeout": row.timeout, "permits": row.permits, "start_margin": row.start_margin}
    consumer = make_consumer(database, work, clock, worker=worker, queue_urls={row.name: QUEUE_URL})
    messages = [Message(work_id=work_id, revision=1, send_number=0) for work_id in outcome_by_id]
    consumer.handle(event(*map(record, messages)), Context(seconds_left=row.timeout))


def make_pending(row: WorkerSpec, admin: Connection, tenant: UUID) -> UUID:
    """Create a pending work item for a worker, and return its id."""
    if row.name == "acquisition":
        work_id = uuid4()
        admin.execute(
            """
            INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at)
            VALUES (%s, %s, 'uploads', %s, '00', 1, now())
            """,
            [work_id, tenant, str(work_id)],
        )
        return work_id
    if row.name == "matching":
        return make_document(admin, tenant, matching_status="pending", matching_revision=1)
    if row.name == "diagnostics":
        work_id = uuid4()
        admin.execute(
            "INSERT INTO cluster_diagnostics (id, tenant_id, created_at, revision) VALUES (%s, %s, now(), 1)",
            [work_id, tenant],
        )
        return work_id
    if row.name in {"tasks", "offers"}:
        today = datetime.now(UTC).date()  # older pools are past their retention period
        pool = None if row.name == "tasks" else make_pool(admin, tenant, date=today)
        return make_task(admin, tenant) if pool is None else make_shard(admin, tenant, pool_id=pool)
    if row.name == "document_output":
        work_id = uuid4()
        destination = make_destination(admin, tenant, f"to-{work_id}")
        admin.execute(
            """
            INSERT INTO output_job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                                    requested_at, created_at, revision)
            VALUES (%s, %s, %s, 'cluster', %s, 1, '{}', now(), now(), 1)
            """,
            [work_id, tenant, destination, work_id],
        )
        return work_id
    work_id = make_document(admin, tenant)
    admin.execute(
        "INSERT INTO ingestion_job (id, tenant_id, created_at, revision) VALUES (%s, %s, now(), 1)", [work_id, tenant]
    )
    return work_id


def test_every_alarm_watches_emitted_metrics(aws: Synthesis, emitted_metrics: set[Metric]):
    found = alarms(aws.app)

    assert len(found) == sum(len(alarm_targets(watch, QUEUES)) for watch in ALARMS)
    assert unknown(found, emitted_metrics) == set()


@pytest.mark.parametrize(
    ("name", "unit", "by"),
    [
        ("RetryQueueDepth", "Count", {"worker"}),
        ("Retries", "Count", {"worker"}),
        ("AttemptsBeforeSuccess", "Count", {"worker"}),
        ("Errors", "Count", {"worker", "error_type"}),
        ("EndToEndSeconds", "Seconds", {"worker"}),
    ],
)
def test_task_metrics_have_their_unit_and_dimensions(worker_output: str, name: str, unit: str, by: set[str]) -> None:
    lines = [json.loads(line) for line in worker_output.splitlines() if f'"{name}"' in line]
    found = [
        (metric["Unit"], *map(frozenset, directive["Dimensions"]))
        for line in lines
        if line["worker"] == "tasks"
        for directive in line["_aws"]["CloudWatchMetrics"]
        for metric in directive["Metrics"]
        if metric["Name"] == name
    ]

    assert set(found) == {(unit, frozenset(by), frozenset())}


def test_metric_dimensions_match_the_operations_page(emitted_metrics: set[Metric]):
    table = (Path(__file__).parents[2] / "docs" / "operations.md").read_text().split("## Metrics")[1].split("\n## ")[0]
    documented = {
        name: frozenset(re.findall(r"`(\w+)`", by))
        for names, by in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }

    by = {(name, frozenset(name for name, _ in dimensions)) for _, name, dimensions in emitted_metrics}
    assert by
    assert by == {(name, documented[name]) for name, _ in by} | {(name, frozenset()) for name, _ in by}


def test_local_cloud_omits_only_metric_math_alarms(aws: Synthesis, local: Synthesis):
    found = {name: alarm for name, alarm in alarms(aws.app).items() if "Metrics" not in alarm}

    assert {name: watched_metrics(alarm) for name, alarm in alarms(local.app).items()} == {
        name: watched_metrics(alarm) for name, alarm in found.items()
    }


def test_alarm_on_unknown_metric_is_detected(aws: Synthesis, emitted_metrics: set[Metric]):
    good = alarms(aws.app)["counterfoil-matching-queue-depth"]
    (dimension,) = good["Dimensions"]
    mutants = {
        "namespace": good | {"Namespace": "Counterfoils"},
        "name": good | {"MetricName": "QueueDepths"},
        "dimension": good | {"Dimensions": [dimension | {"Name": "service"}]},
        "value": good | {"Dimensions": [dimension | {"Value": "matchings"}]},
        "further dimension": good | {"Dimensions": [dimension, {"Name": "service", "Value": "watchdog"}]},
    }

    assert unknown({"good": good, **mutants}, emitted_metrics) == set(mutants)


@watches
def test_alarm_links_runbook_and_notifies_its_severity_topic(aws: Synthesis, watch: AlarmSpec):
    pipeline = aws.app
    for worker, alarm in alarms_of_watch(pipeline, watch).items():
        sentence, link = alarm["AlarmDescription"].split(" What to do: ")
        assert link == f"docs/runbook/{watch.name}.md"
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert "{" not in sentence
        assert worker in sentence
        graced = {one["AlarmName"]: one for one in pipeline.resources("AWS::CloudWatch::CompositeAlarm").values()}
        notifying = graced.get(f"{alarm['AlarmName']}-after-grace", alarm)
        assert ("AlarmActions" in alarm) == (not watch.grace_minutes)
        assert notifying["AlarmDescription"] == alarm["AlarmDescription"]
        assert pipeline.resolve(notifying["AlarmActions"]) == [f"counterfoil-alarms-{watch.severity}"]


def test_deployment_starts_grace_period_of_missing_data_alarms(aws: Synthesis, emitted_metrics: set[Metric]):
    graces = [one for one in aws.app.resources("AWS::CloudWatch::Alarm").values() if "grace-" in one["AlarmName"]]

    assert {one["AlarmName"] for one in graces} == {
        f"grace-counterfoil-{watch.name}" for watch in ALARMS if watch.silence_counts
    }
    assert all(watched_metrics(one) <= emitted_metrics for one in graces)
    created = [
        one for one in aws.app.document["Resources"].values() if one["Type"] == "AWS::CloudWatch::CompositeAlarm"
    ]
    assert all(any("MigrateTrigger" in id_ for id_ in one["DependsOn"]) for one in created)
    assert len(created) == len(graces)


@watches
def test_alarm_settings_match_the_alarm_table(aws: Synthesis, watch: AlarmSpec):
    for worker, alarm in alarms_of_watch(aws.app, watch).items():
        row = next((row for row in QUEUES if row.name == worker), None)
        assert alarm["ComparisonOperator"] == "GreaterThanThreshold"
        assert alarm["Threshold"] == watch.threshold_for(row, None)
        assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (watch.periods, watch.periods)
        assert alarm["TreatMissingData"] == ("breaching" if watch.silence_counts else "notBreaching")
        assert all(part["MetricStat"]["Metric"]["Namespace"] == NAMESPACE for part in alarm.get("Metrics", [])[1:])


def test_default_thresholds_are_unchanged():
    assert THRESHOLDS == {
        "stuck-in-progress": 0,
        "waiting-for-retry": 1000,
        "oldest-pending": 3600,
        "queue-depth": 1000,
        "retry-queue-depth": 1000,
        "failure-rate": 1,
        "job-duration": 300,
        "attempts-before-success": 2,
        "retry-rate": 500,
        "pending-dead-letters": 100,
        "pending-dead-letters-sustained": 500,
        "dead-letter-spike": 10,
        "dead-letter-rate": 0.2,
        "dlq-consumer-failing": 0,
        "returned-unattempted": 0,
        "outbox-overdue": 0,
        "uploads-without-event": 0,
        "upload-listing": 86_400,
        "notification-failures": 0,
        "breaker-open": 0,
        "failed-offers": 0,
        "incomplete-offers": 0.1,
        "offers-duration": 30,
        "offers-overdue": 0,
        "offers-not-scheduled": 0,
        "duplicate-offers": 0,
    }


@pytest.mark.parametrize("row", QUEUES, ids=lambda row: row.name)
def test_thresholds_are_reachable(aws: Synthesis, row: WorkerSpec):
    found = alarms(aws.app)

    assert found[f"counterfoil-{row.name}-job-duration"]["Threshold"] < row.timeout
    redelivered = Settings.model_fields["redelivery_max_attempts"].default
    requeued = len(row.retry_delays) or Settings.model_fields["retry_max_attempts"].default
    attempts = requeued + 1 if row.has_retry_queue else redelivered
    assert found[f"counterfoil-{row.name}-attempts-before-success"]["Threshold"] < attempts


def test_alarm_period_covers_retries_of_failed_archiver(aws: Synthesis):
    alarm = alarms(aws.app)["counterfoil-dlq-consumer-failing"]
    hidden_for = Settings.model_fields["min_visibility_seconds"].default
    (row,) = (row for row in WORKERS if row.trigger is Trigger.DEAD_LETTER_QUEUES)

    assert alarm["Period"] >= max(hidden_for, row.visibility) + row.timeout + row.batching_window


def test_deployment_overrides_thresholds(dependencies: Package, tmp_path: Path):
    chosen = {"queue-depth": 5000, "retry-rate": 1.5, "job-duration": 10}
    context = {**LOCAL, "alarms": json.dumps(chosen), "timeout": "10"}

    found = alarms(synthesize(tmp_path, context, dependencies).app)

    assert found["counterfoil-retry-rate"]["Threshold"] == 1.5
    assert "1.5" in found["counterfoil-retry-rate"]["AlarmDescription"]
    for row in queue_workers(shorten_timeouts(WORKERS, 10)):
        assert found[f"counterfoil-{row.name}-queue-depth"]["Threshold"] == 5000
        assert found[f"counterfoil-{row.name}-job-duration"]["Threshold"] == MAX_ATTEMPT_FRACTION * 10


def test_pending_dead_letters_alarm_sums_all_workers(aws: Synthesis):
    metrics = alarms(aws.app)["counterfoil-pending-dead-letters"]["Metrics"]

    assert metrics[0]["Expression"] == f"SUM([{', '.join(row.name for row in QUEUES)}])"
    assert {part["Id"] for part in metrics[1:]} == {row.name for row in QUEUES}
    assert all(
        part["MetricStat"]["Metric"]["Dimensions"] == [{"Name": "worker", "Value": part["Id"]}] for part in metrics[1:]
    )
