"""The pipeline's template, walked row by row of the table: a new row is tested by what is here."""

import json

import pytest

from counterfoil.settings import Settings
from infra.alarm_table import THRESHOLDS
from infra.worker_table import DAY, WORKERS, Alarm, FedBy, Row, capped, queue_rows, targets
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
def test_a_worker_has_a_queue_and_a_dead_letter_queue_if_messages_feed_it(pipeline: Template, row: Row):
    names = {queue["QueueName"] for queue in pipeline.resources("AWS::SQS::Queue").values()}
    if not row.has_queue:
        assert row.resource_name not in names
        return

    queue = pipeline.named("AWS::SQS::Queue", row.resource_name)
    dead_letters = pipeline.named("AWS::SQS::Queue", f"{row.resource_name}-dlq")

    assert pipeline.resolved(queue["RedrivePolicy"]) == {
        "deadLetterTargetArn": f"{row.resource_name}-dlq",
        "maxReceiveCount": 3,
    }
    assert "RedrivePolicy" not in dead_letters
    assert queue["VisibilityTimeout"] == row.visibility
    assert (queue["MessageRetentionPeriod"], dead_letters["MessageRetentionPeriod"]) == (10 * DAY, 14 * DAY)
    assert queue["SqsManagedSseEnabled"]
    assert dead_letters["SqsManagedSseEnabled"]


@pytest.mark.parametrize("row", [row for row in WORKERS if row.has_retry_queue], ids=lambda row: row.name)
def test_a_queue_for_retries_is_like_the_first_and_has_the_same_dead_letters(pipeline: Template, row: Row):
    first, retries = (pipeline.named("AWS::SQS::Queue", name) for name in queues_of([row]))

    assert pipeline.resolved(retries | {"QueueName": ""}) == pipeline.resolved(first | {"QueueName": ""})


def test_there_are_no_queues_but_those_of_the_table(pipeline: Template):
    rows_ = queue_rows(WORKERS)
    assert len(pipeline.resources("AWS::SQS::Queue")) == len(rows_) + len(queues_of(rows_))


@rows
def test_a_function_is_what_its_row_says(pipeline: Template, row: Row):
    function = function_of(pipeline, row)

    assert function["Handler"] == f"functions.{row.name}.handler.handle"
    assert (function["Runtime"], function["Architectures"]) == ("python3.13", ["arm64"])
    assert (function["Timeout"], function["MemorySize"]) == (row.timeout, row.memory)
    assert function["ReservedConcurrentExecutions"] == row.reserved_concurrency
    assert len(function["Layers"]) == 2
    assert function.get("RecursiveLoop") == ("Allow" if row.polls else None)


def test_the_only_other_function_is_the_one_that_cdk_runs_migrations_with(pipeline: Template):
    ours = {row.resource_name for row in WORKERS}
    others = [
        id_ for id_, f in pipeline.resources("AWS::Lambda::Function").items() if f.get("FunctionName") not in ours
    ]

    assert len(others) == 1
    assert others[0].startswith("AWSCDKTrigger")


@rows
def test_mappings_report_partial_failures_and_receive_no_more_than_there_is_room_for(pipeline: Template, row: Row):
    function = pipeline.id_of("AWS::Lambda::Function", row.resource_name)
    found = [
        mapping
        for mapping in pipeline.resources("AWS::Lambda::EventSourceMapping").values()
        if mapping["FunctionName"] == {"Ref": function}
    ]

    assert {pipeline.resolved(mapping["EventSourceArn"]) for mapping in found} == queues_feeding(row)
    assert len(found) == len(queues_feeding(row))
    for mapping in found:
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": row.maximum_concurrency}
        assert (mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]) == (
            row.batch_size,
            row.batching_window,
        )
        queue = pipeline.named("AWS::SQS::Queue", pipeline.resolved(mapping["EventSourceArn"]))
        assert queue["VisibilityTimeout"] >= 6 * row.timeout + row.batching_window
    received = sum(mapping["ScalingConfig"]["MaximumConcurrency"] for mapping in found)
    assert received <= function_of(pipeline, row)["ReservedConcurrentExecutions"]


@rows
def test_who_pauses_queues_is_told_of_each_its_mappings_its_addresses_and_its_gate(pipeline: Template, row: Row):
    variables = function_of(pipeline, row)["Environment"]["Variables"]
    if not row.pauses_mappings:
        assert "QUEUES" not in variables
        return
    parts = variables["QUEUES"]["Fn::Join"][1]
    told = json.loads("".join(part if isinstance(part, str) else part["Ref"] for part in parts))
    ids = mappings_of_queues(pipeline)

    assert told == {
        of.name: {
            "urls": [pipeline.id_of("AWS::SQS::Queue", name) for name in queues_of([of])],
            "mappings": [ids[name] for name in queues_of([of])],
            "gate": of.reserved_concurrency * of.permits,
        }
        for of in queue_rows(WORKERS)
    }


def test_a_deployment_says_nothing_of_whether_a_mapping_is_enabled(pipeline: Template):
    """Or it would undo a pause."""
    for mapping in pipeline.resources("AWS::Lambda::EventSourceMapping").values():
        assert "Enabled" not in mapping


@rows
def test_what_a_function_is_told_has_room_in_its_environment(pipeline: Template, row: Row):
    """Lambda takes 4 KB; ids and addresses are longer than the names that stand for them here."""
    values = environment_of(pipeline, row)
    urls = sum(value.count("counterfoil-") for value in values.values())

    assert len(json.dumps(values)) + urls * len("https://sqs.eu-central-1.amazonaws.com/123456789012/") < 4096


@rows
def test_a_function_is_told_its_row_and_the_queues_that_it_may_send_to(pipeline: Template, row: Row):
    environment = environment_of(pipeline, row)
    settings = Settings.from_environment({**environment, "QUEUES": ""})  # whose ids are told as what they stand for

    assert environment["POWERTOOLS_SERVICE_NAME"] == row.name
    told = settings.require_worker()
    assert (told.name, told.timeout, told.permits, told.start_margin, told.retries) == (
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
    assert settings.retry_waits == {to.name: to.retry_waits for to in targets(WORKERS, row) if to.retry_waits}
    consumes = row.fed_by is FedBy.DEAD_LETTER_QUEUES
    assert settings.dead_letter_sources == (
        {f"{source.resource_name}-dlq": source.name for source in queue_rows(WORKERS)} if consumes else {}
    )


@rows
def test_a_function_signs_in_to_the_proxy_as_the_user_of_its_row(pipeline: Template, row: Row):
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
def test_a_local_function_signs_in_to_the_embedded_server_as_the_user_of_its_row(emulated: Template, row: Row):
    user = "postgres" if row.database_user == "master" else row.database_user

    assert environment_of(emulated, row)["DATABASE_URL"] == f"postgresql://{user}@127.0.0.1:5432/counterfoil"


@rows
def test_logs_are_kept_for_a_while_under_the_name_of_the_worker(pipeline: Template, row: Row):
    group = pipeline.named("AWS::Logs::LogGroup", f"/aws/lambda/{row.resource_name}")

    assert group["RetentionInDays"] == 90
    assert pipeline.resolved(function_of(pipeline, row)["LoggingConfig"]) == {
        "LogGroup": f"/aws/lambda/{row.resource_name}"
    }


@rows
def test_alarms_are_those_of_the_row_tell_somebody_and_link_to_their_page_of_the_runbook(pipeline: Template, row: Row):
    alarms = {alarm["AlarmName"]: alarm for alarm in pipeline.resources("AWS::CloudWatch::Alarm").values()}
    ours = {name for name in alarms if name.removeprefix(f"{row.resource_name}-") in set(Alarm)}

    assert ours == {f"{row.resource_name}-{alarm}" for alarm in row.alarms}
    for alarm in row.alarms:
        found = alarms[f"{row.resource_name}-{alarm}"]
        assert found["AlarmDescription"].endswith(f"docs/operations.md#{row.name}-{alarm}")
        severity = "critical" if alarm is Alarm.ERRORS else "warning"
        assert pipeline.resolved(found["AlarmActions"]) == [f"counterfoil-alarms-{severity}"]
        threshold = THRESHOLDS["oldest-pending"] if alarm is Alarm.MESSAGE_AGE else 0
        assert (found["Threshold"], found["ComparisonOperator"]) == (threshold, "GreaterThanThreshold")
        if row.every == "hour":  # a call that fails has no other one beside it
            assert (found["EvaluationPeriods"], found["DatapointsToAlarm"]) == (1, 1)


def test_an_upload_whose_message_nobody_takes_raises_an_alarm_though_postgresql_knows_nothing_of_it(pipeline: Template):
    (row,) = [row for row in WORKERS if row.fed_by is FedBy.S3_EVENTS]
    (alarm,) = [
        found
        for found in pipeline.resources("AWS::CloudWatch::Alarm").values()
        if found["AlarmName"] == f"{row.resource_name}-message-age"
    ]

    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/SQS", "ApproximateAgeOfOldestMessage")
    assert pipeline.resolved(alarm["Dimensions"]) == [{"Name": "QueueName", "Value": f"{row.resource_name}.QueueName"}]


@rows
def test_dead_letters_that_stay_raise_the_alarm_of_their_worker(pipeline: Template, row: Row):
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
        assert pipeline.resolved(part["MetricStat"]["Metric"]["Dimensions"]) == [
            {"Name": "QueueName", "Value": f"{row.resource_name}-dlq.QueueName"}
        ]
    # Longer than anything that is alive keeps one: a worker's lease, or a try of the archiver.
    assert alarm["DatapointsToAlarm"] * 60 > 2 * Settings.model_fields["protection_seconds"].default
    assert alarm["DatapointsToAlarm"] <= alarm["EvaluationPeriods"]


@pytest.mark.parametrize("row", [row for row in WORKERS if row.fed_by is FedBy.SCHEDULE], ids=lambda row: row.name)
def test_a_scheduled_worker_runs_as_often_as_its_row_says_and_a_failed_minute_is_not_repeated(
    pipeline: Template, row: Row
):
    expression, again = {"minute": ("rate(1 minute)", 0), "hour": ("cron(1 * * * ? *)", 2)}[row.every]
    schedules = pipeline.resources("AWS::Scheduler::Schedule").values()
    (schedule,) = [one for one in schedules if one["Name"] == row.resource_name]

    assert schedule["ScheduleExpression"] == expression
    assert pipeline.resolved(schedule["Target"]["Arn"]) == row.resource_name
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
    configs = pipeline.resources("AWS::Lambda::EventInvokeConfig").values()
    (config,) = [one for one in configs if pipeline.resolved(one["FunctionName"]) == row.resource_name]
    assert config["MaximumRetryAttempts"] == again
    granted = list(pipeline.statements(pipeline.role(schedule["Target"]["RoleArn"])))
    assert granted == [
        ("Allow", "lambda:InvokeFunction", name) for name in (row.resource_name, f"{row.resource_name}:*")
    ]


def test_migrations_run_before_any_other_function_gets_its_new_code(pipeline: Template):
    (row,) = [row for row in WORKERS if row.fed_by is FedBy.DEPLOYMENT]
    (trigger,) = pipeline.resources("Custom::Trigger")
    functions = {other.name: pipeline.id_of("AWS::Lambda::Function", other.resource_name) for other in WORKERS}

    for name, id_ in functions.items():
        waits_for = pipeline.document["Resources"][id_].get("DependsOn", [])
        assert (trigger in waits_for) == (name != row.name)


def test_queues_bucket_and_topics_refuse_plain_http_on_aws_alone(pipeline: Template, emulated: Template):
    def refusing(template: Template) -> list[str]:
        return [
            resource["Type"]
            for resource in template.document["Resources"].values()
            if '"aws:SecureTransport": "false"' in json.dumps(resource)
        ]

    queues = len(queue_rows(WORKERS)) + len(queues_of(queue_rows(WORKERS)))
    assert sorted(refusing(pipeline)) == sorted(
        ["AWS::SQS::QueuePolicy"] * queues + ["AWS::S3::BucketPolicy"] + ["AWS::SNS::TopicPolicy"] * 2
    )
    assert not refusing(emulated)


@rows
def test_the_command_line_finds_what_it_needs_among_the_outputs(pipeline: Template, row: Row):
    outputs = {name: pipeline.resolved(output["Value"]) for name, output in pipeline.document["Outputs"].items()}

    assert outputs["UploadsBucketName"] == BUCKET
    assert outputs[f"{row.logical_name}FunctionName"] == row.resource_name
    if row.has_queue:
        assert outputs[f"{row.logical_name}QueueUrl"] == row.resource_name
        assert outputs[f"{row.logical_name}DeadLetterQueueUrl"] == f"{row.resource_name}-dlq"
        assert f"{row.logical_name}MappingId" in outputs
    if row.has_retry_queue:
        assert outputs[f"{row.logical_name}RetryQueueUrl"] == f"{row.resource_name}-retry"
        assert f"{row.logical_name}RetryMappingId" in outputs
    if row.fed_by is FedBy.DEAD_LETTER_QUEUES:
        assert {f"{row.logical_name}{source.logical_name}MappingId" for source in queue_rows(WORKERS)} <= set(outputs)


def test_the_local_cloud_gets_the_same_workers_with_fewer_at_once(
    local: Synthesis, emulated: Template, pipeline: Template
):
    kinds = ("AWS::Lambda::Function", "AWS::SQS::Queue", "AWS::Lambda::EventSourceMapping")

    assert local.stacks == {"counterfoil-pipeline"}
    for kind in kinds:
        assert len(emulated.resources(kind)) == len(pipeline.resources(kind))
    at_once = {
        m["ScalingConfig"]["MaximumConcurrency"] for m in emulated.resources("AWS::Lambda::EventSourceMapping").values()
    }
    assert at_once == {row.maximum_concurrency for row in capped(WORKERS, 2) if row.polls}
    assert not [f for f in emulated.resources("AWS::Lambda::Function").values() if "VpcConfig" in f]
