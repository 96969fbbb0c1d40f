"""The pipeline's template, checked for every row of the worker table."""

import json

import pytest

from counterfoil.settings import Settings
from infra.alarm_table import THRESHOLDS
from infra.worker_table import DAY, WORKERS, Alarm, Trigger, WorkerSpec, cap_concurrency, queue_workers, targets
from tests.infra.pipeline import (
    BUCKET,
    environment_of,
    function_of,
    mappings_of_queues,
    queues_feeding,
    queues_of,
    rows,
)
from tests.infra.synthesis import Synthesis, Template


@rows
def test_only_queue_workers_have_queue_and_dlq(pipeline: Template, row: WorkerSpec):
    names = {queue["QueueName"] for queue in pipeline.resources("AWS::SQS::Queue").values()}
    if not row.has_queue:
        assert row.resource_name not in names
        return

    queue = pipeline.named_resource("AWS::SQS::Queue", row.resource_name)
    dead_letters = pipeline.named_resource("AWS::SQS::Queue", f"{row.resource_name}-dlq")

    assert pipeline.resolve(queue["RedrivePolicy"]) == {
        "deadLetterTargetArn": f"{row.resource_name}-dlq",
        "maxReceiveCount": 3,
    }
    assert "RedrivePolicy" not in dead_letters
    assert queue["VisibilityTimeout"] == row.visibility
    assert (queue["MessageRetentionPeriod"], dead_letters["MessageRetentionPeriod"]) == (10 * DAY, 14 * DAY)
    assert queue["SqsManagedSseEnabled"]
    assert dead_letters["SqsManagedSseEnabled"]


@pytest.mark.parametrize("row", [row for row in WORKERS if row.has_retry_queue], ids=lambda row: row.name)
def test_retry_queue_has_main_queues_settings_and_dlq(pipeline: Template, row: WorkerSpec):
    main, retries = (pipeline.named_resource("AWS::SQS::Queue", name) for name in queues_of([row]))

    assert pipeline.resolve(retries | {"QueueName": ""}) == pipeline.resolve(main | {"QueueName": ""})


def test_only_worker_table_queues_exist(pipeline: Template):
    rows_ = queue_workers(WORKERS)
    assert len(pipeline.resources("AWS::SQS::Queue")) == len(rows_) + len(queues_of(rows_))


@rows
def test_function_settings_match_its_row(pipeline: Template, row: WorkerSpec):
    function = function_of(pipeline, row)

    assert function["Handler"] == f"functions.{row.name}.handler.handle"
    assert (function["Runtime"], function["Architectures"]) == ("python3.13", ["arm64"])
    assert (function["Timeout"], function["MemorySize"]) == (row.timeout, row.memory)
    assert function["ReservedConcurrentExecutions"] == row.reserved_concurrency
    assert len(function["Layers"]) == 2
    assert function.get("RecursiveLoop") == ("Allow" if row.has_event_source_mapping else None)


def test_cdk_trigger_is_the_only_additional_function(pipeline: Template):
    ours = {row.resource_name for row in WORKERS}
    others = [
        id_ for id_, f in pipeline.resources("AWS::Lambda::Function").items() if f.get("FunctionName") not in ours
    ]

    assert len(others) == 1
    assert others[0].startswith("AWSCDKTrigger")


@rows
def test_mappings_report_partial_failures_and_respect_concurrency(pipeline: Template, row: WorkerSpec):
    function = pipeline.id_of("AWS::Lambda::Function", row.resource_name)
    found = [
        mapping
        for mapping in pipeline.resources("AWS::Lambda::EventSourceMapping").values()
        if mapping["FunctionName"] == {"Ref": function}
    ]

    assert {pipeline.resolve(mapping["EventSourceArn"]) for mapping in found} == queues_feeding(row)
    assert len(found) == len(queues_feeding(row))
    for mapping in found:
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": row.maximum_concurrency}
        assert (mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]) == (
            row.batch_size,
            row.batching_window,
        )
        queue = pipeline.named_resource("AWS::SQS::Queue", pipeline.resolve(mapping["EventSourceArn"]))
        assert queue["VisibilityTimeout"] >= 6 * row.timeout + row.batching_window
    received = sum(mapping["ScalingConfig"]["MaximumConcurrency"] for mapping in found)
    assert received <= function_of(pipeline, row)["ReservedConcurrentExecutions"]


@rows
def test_pausing_worker_gets_urls_mappings_and_limits(pipeline: Template, row: WorkerSpec):
    variables = function_of(pipeline, row)["Environment"]["Variables"]
    if not row.pauses_mappings:
        assert "QUEUES" not in variables
        return
    parts = variables["QUEUES"]["Fn::Join"][1]
    configured = json.loads("".join(part if isinstance(part, str) else part["Ref"] for part in parts))
    ids = mappings_of_queues(pipeline)

    assert configured == {
        of.name: {
            "urls": [pipeline.id_of("AWS::SQS::Queue", name) for name in queues_of([of])],
            "mappings": [ids[name] for name in queues_of([of])],
            "limit": of.reserved_concurrency * of.permits,
        }
        for of in queue_workers(WORKERS)
    }


def test_template_does_not_enable_or_disable_mappings(pipeline: Template):
    """If the template set the state of a mapping, a deployment would undo a pause."""
    for mapping in pipeline.resources("AWS::Lambda::EventSourceMapping").values():
        assert "Enabled" not in mapping


@rows
def test_environment_fits_the_lambda_limit(pipeline: Template, row: WorkerSpec):
    """Lambda allows 4 KB.

    The ids and URLs of a real deployment are longer than the names in this test.
    """
    values = environment_of(pipeline, row)
    urls = sum(value.count("counterfoil-") for value in values.values())

    assert len(json.dumps(values)) + urls * len("https://sqs.eu-central-1.amazonaws.com/123456789012/") < 4096


@rows
def test_environment_has_row_settings_and_target_queues(pipeline: Template, row: WorkerSpec):
    environment = environment_of(pipeline, row)
    settings = Settings.from_environment({**environment, "QUEUES": ""})  # the queues' ids are not resolved here

    assert environment["POWERTOOLS_SERVICE_NAME"] == row.name
    worker = settings.require_worker()
    assert (worker.name, worker.timeout, worker.permits, worker.start_margin, worker.retries) == (
        row.name,
        row.timeout,
        row.permits,
        row.start_margin,
        row.retries,
    )
    assert settings.queue_urls == {to.name: to.resource_name for to in targets(WORKERS, row)}
    assert settings.retry_queue_urls == {
        to.name: f"{to.resource_name}-retry" for to in targets(WORKERS, row) if to.has_retry_queue
    }
    assert settings.retry_delays == {to.name: to.retry_delays for to in targets(WORKERS, row) if to.retry_delays}
    consumes = row.trigger is Trigger.DEAD_LETTER_QUEUES
    assert settings.dead_letter_sources == (
        {f"{source.resource_name}-dlq": source.name for source in queue_workers(WORKERS)} if consumes else {}
    )


@rows
def test_function_signs_in_to_proxy_as_its_user(pipeline: Template, row: WorkerSpec):
    environment = environment_of(pipeline, row)

    assert "DATABASE_URL" not in environment
    assert (environment["DATABASE_PORT"], environment["DATABASE_NAME"]) == ("5432", "counterfoil")
    assert environment["SSL_CERT_FILE"].startswith("/etc/pki/")
    if row.database_user == "master":
        assert "Instance" in environment["DATABASE_HOST"]
        assert "Secret" in environment["DATABASE_SECRET_ARN"]
    else:
        assert "Proxy" in environment["DATABASE_HOST"]
        assert environment["DATABASE_USER"] == row.database_user


@rows
def test_local_function_signs_in_as_its_user(local_pipeline: Template, row: WorkerSpec):
    user = "postgres" if row.database_user == "master" else row.database_user

    assert environment_of(local_pipeline, row)["DATABASE_URL"] == f"postgresql://{user}@127.0.0.1:5432/counterfoil"


@rows
def test_log_group_has_worker_name_and_retention(pipeline: Template, row: WorkerSpec):
    group = pipeline.named_resource("AWS::Logs::LogGroup", f"/aws/lambda/{row.resource_name}")

    assert group["RetentionInDays"] == 90
    assert pipeline.resolve(function_of(pipeline, row)["LoggingConfig"]) == {
        "LogGroup": f"/aws/lambda/{row.resource_name}"
    }


@rows
def test_row_alarms_notify_and_link_to_runbook(pipeline: Template, row: WorkerSpec):
    alarms = {alarm["AlarmName"]: alarm for alarm in pipeline.resources("AWS::CloudWatch::Alarm").values()}
    ours = {name for name in alarms if name.removeprefix(f"{row.resource_name}-") in set(Alarm)}

    assert ours == {f"{row.resource_name}-{alarm}" for alarm in row.alarms}
    for alarm in row.alarms:
        found = alarms[f"{row.resource_name}-{alarm}"]
        assert found["AlarmDescription"].endswith(f"docs/runbook/{row.runbook_page(alarm)}.md")
        severity = "critical" if alarm is Alarm.ERRORS else "warning"
        assert pipeline.resolve(found["AlarmActions"]) == [f"counterfoil-alarms-{severity}"]
        threshold = THRESHOLDS["oldest-pending"] if alarm is Alarm.MESSAGE_AGE else 0
        assert (found["Threshold"], found["ComparisonOperator"]) == (threshold, "GreaterThanThreshold")
        if row.every == "hour":  # a single failed hourly run must raise the alarm
            assert (found["EvaluationPeriods"], found["DatapointsToAlarm"]) == (1, 1)


def test_upload_queue_alarm_watches_oldest_message_age(pipeline: Template):
    (row,) = [row for row in WORKERS if row.trigger is Trigger.S3_EVENTS]
    (alarm,) = [
        found
        for found in pipeline.resources("AWS::CloudWatch::Alarm").values()
        if found["AlarmName"] == f"{row.resource_name}-message-age"
    ]

    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/SQS", "ApproximateAgeOfOldestMessage")
    assert pipeline.resolve(alarm["Dimensions"]) == [{"Name": "QueueName", "Value": f"{row.resource_name}.QueueName"}]


@rows
def test_unarchived_dlq_messages_raise_the_worker_alarm(pipeline: Template, row: WorkerSpec):
    if not row.has_queue:
        return
    (alarm,) = [
        found
        for found in pipeline.resources("AWS::CloudWatch::Alarm").values()
        if found["AlarmName"] == f"{row.resource_name}-dead-letters"
    ]

    total, *parts = alarm["Metrics"]
    assert total["Expression"] == "visible + hidden"
    assert {part["Id"]: part["MetricStat"]["Metric"]["MetricName"] for part in parts} == {
        "visible": "ApproximateNumberOfMessagesVisible",
        "hidden": "ApproximateNumberOfMessagesNotVisible",
    }
    for part in parts:
        assert pipeline.resolve(part["MetricStat"]["Metric"]["Dimensions"]) == [
            {"Name": "QueueName", "Value": f"{row.resource_name}-dlq.QueueName"}
        ]
    # Longer than a worker or the archiver can hide a message.
    assert alarm["DatapointsToAlarm"] * 60 > 2 * Settings.model_fields["min_visibility_seconds"].default
    assert alarm["DatapointsToAlarm"] <= alarm["EvaluationPeriods"]


@pytest.mark.parametrize("row", [row for row in WORKERS if row.trigger is Trigger.SCHEDULE], ids=lambda row: row.name)
def test_schedule_and_retries_match_the_row(pipeline: Template, row: WorkerSpec):
    expression, retries = {"minute": ("rate(1 minute)", 0), "hour": ("cron(1 * * * ? *)", 2)}[row.every]
    schedules = pipeline.resources("AWS::Scheduler::Schedule").values()
    (schedule,) = [one for one in schedules if one["Name"] == row.resource_name]

    assert schedule["ScheduleExpression"] == expression
    assert pipeline.resolve(schedule["Target"]["Arn"]) == row.resource_name
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
    configs = pipeline.resources("AWS::Lambda::EventInvokeConfig").values()
    (config,) = [one for one in configs if pipeline.resolve(one["FunctionName"]) == row.resource_name]
    assert config["MaximumRetryAttempts"] == retries
    granted = list(pipeline.statements(pipeline.role(schedule["Target"]["RoleArn"])))
    assert granted == [
        ("Allow", "lambda:InvokeFunction", name) for name in (row.resource_name, f"{row.resource_name}:*")
    ]


def test_migrations_run_before_functions_are_updated(pipeline: Template):
    (row,) = [row for row in WORKERS if row.trigger is Trigger.DEPLOYMENT]
    (trigger,) = pipeline.resources("Custom::Trigger")
    functions = {other.name: pipeline.id_of("AWS::Lambda::Function", other.resource_name) for other in WORKERS}

    for name, id_ in functions.items():
        waits_for = pipeline.document["Resources"][id_].get("DependsOn", [])
        assert (trigger in waits_for) == (name != row.name)


def test_queues_bucket_and_topics_reject_plain_http(pipeline: Template, local_pipeline: Template):
    def refusing(template: Template) -> list[str]:
        return [
            resource["Type"]
            for resource in template.document["Resources"].values()
            if '"aws:SecureTransport": "false"' in json.dumps(resource)
        ]

    queues = len(queue_workers(WORKERS)) + len(queues_of(queue_workers(WORKERS)))
    assert sorted(refusing(pipeline)) == sorted(
        ["AWS::SQS::QueuePolicy"] * queues + ["AWS::S3::BucketPolicy"] + ["AWS::SNS::TopicPolicy"] * 2
    )
    assert not refusing(local_pipeline)


@rows
def test_outputs_name_the_resources_for_the_cli(pipeline: Template, row: WorkerSpec):
    outputs = {name: pipeline.resolve(output["Value"]) for name, output in pipeline.document["Outputs"].items()}

    assert outputs["UploadsBucketName"] == BUCKET
    assert outputs[f"{row.logical_name}FunctionName"] == row.resource_name
    if row.has_queue:
        assert outputs[f"{row.logical_name}QueueUrl"] == row.resource_name
        assert outputs[f"{row.logical_name}DeadLetterQueueUrl"] == f"{row.resource_name}-dlq"
        assert f"{row.logical_name}MappingId" in outputs
    if row.has_retry_queue:
        assert outputs[f"{row.logical_name}RetryQueueUrl"] == f"{row.resource_name}-retry"
        assert f"{row.logical_name}RetryMappingId" in outputs
    if row.trigger is Trigger.DEAD_LETTER_QUEUES:
        assert {f"{row.logical_name}{source.logical_name}MappingId" for source in queue_workers(WORKERS)} <= set(
            outputs
        )


def test_local_cloud_has_same_workers_with_less_concurrency(
    local: Synthesis, local_pipeline: Template, pipeline: Template
):
    kinds = ("AWS::Lambda::Function", "AWS::SQS::Queue", "AWS::Lambda::EventSourceMapping")

    assert local.stacks == {"counterfoil-pipeline"}
    for kind in kinds:
        assert len(local_pipeline.resources(kind)) == len(pipeline.resources(kind))
    concurrency = {
        m["ScalingConfig"]["MaximumConcurrency"]
        for m in local_pipeline.resources("AWS::Lambda::EventSourceMapping").values()
    }
    assert concurrency == {
        row.maximum_concurrency for row in cap_concurrency(WORKERS, 2) if row.has_event_source_mapping
    }
    assert not [f for f in local_pipeline.resources("AWS::Lambda::Function").values() if "VpcConfig" in f]
