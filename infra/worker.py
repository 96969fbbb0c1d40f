"""The construct of a worker: from its row to queue, dead-letter queue, function, logs, mappings, grants and alarms."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aws_cdk import Aws, CfnOutput, Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.alarm import Bell, Rule
from infra.alarms import THRESHOLDS, Severity
from infra.data import Database
from infra.network import NetworkStack
from infra.outside import Outside
from infra.workers import (
    DEAD_LETTER_RETENTION,
    MAX_RECEIVE_COUNT,
    SOURCE_RETENTION,
    Alarm,
    FedBy,
    Row,
    mappings,
    queue_rows,
    targets,
)

RETRY_SUFFIX = "-retry"
"""Of the name of a queue for retries, behind that of its worker's queue."""
BATCHED = ("sqs:SendMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")
CONSUME = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"]
ERASE = ["s3:DeleteObjectVersion", "s3:AbortMultipartUpload"]
DELETE_LOCALLY = "s3:DeleteObject"
"""Right that the local cloud requires to delete a version in a batch."""
READ = ["s3:GetObject", "s3:GetObjectVersion"]
"""An upload is read in the version that its event names: a later one under the same key is another upload."""
TRACE = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
"""X-Ray knows no resources to name."""
PAUSE = ["lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping"]
LOOK_LOCALLY = "lambda:ListEventSourceMappings"
"""What the local cloud calls the right to look at a single mapping."""
NETWORK_INTERFACES = [
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
]
"""What the Lambda service does with the function's role, to put the function into its subnets."""


@dataclass(frozen=True)
class Queues:
    """A worker's queue, where its messages go after the third receive, and where those of retries wait."""

    source: sqs.Queue
    dead_letters: sqs.Queue
    retries: sqs.Queue | None

    @property
    def sources(self) -> list[sqs.Queue]:
        """The queues that feed the worker."""
        return [self.source] if self.retries is None else [self.source, self.retries]

    @classmethod
    def of(cls, scope: Construct, row: Row, *, dead_letter_visibility: int, enforce_tls: bool) -> "Queues":
        """Create them. `dead_letter_visibility` is asked for by whoever consumes the dead letters, in seconds."""
        dead_letters = sqs.Queue(
            scope,
            f"{row.logical_name}DeadLetterQueue",
            queue_name=f"{row.resource_name}-dlq",
            visibility_timeout=Duration.seconds(dead_letter_visibility),
            retention_period=Duration.seconds(DEAD_LETTER_RETENTION),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=enforce_tls,
        )

        def feeding(name: str, suffix: str) -> sqs.Queue:
            return sqs.Queue(
                scope,
                f"{row.logical_name}{name}",
                queue_name=f"{row.resource_name}{suffix}",
                visibility_timeout=Duration.seconds(row.visibility),
                retention_period=Duration.seconds(SOURCE_RETENTION),
                dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=MAX_RECEIVE_COUNT, queue=dead_letters),
                encryption=sqs.QueueEncryption.SQS_MANAGED,
                enforce_ssl=enforce_tls,
            )

        retries = feeding("RetryQueue", RETRY_SUFFIX) if row.has_retry_queue else None
        return cls(feeding("Queue", ""), dead_letters, retries)


@dataclass(frozen=True)
class Surroundings:
    """What all workers of a stack share."""

    rows: tuple[Row, ...]
    queues: Mapping[str, Queues]
    uploads: s3.IBucket
    inventory: s3.IBucket | None
    """The bucket of S3 Inventory, if the deployment has it."""
    database: Database
    network: NetworkStack | None
    """None in the local cloud, where functions are processes of the same machine."""
    layers: list[lambda_.LayerVersion]
    architecture: lambda_.Architecture
    bell: Bell
    thresholds: Mapping[str, float]
    """Of alarms, where they differ from the default."""
    settings: Mapping[str, str]
    """Environment variables of every function, which the deployment chose."""
    outside: Outside
    secret_arn: str | None
    """The secret of those who call out, where there is something to keep."""

    @property
    def every_alarm(self) -> str:
        """The alarms of the account. The local cloud knows no name for them."""
        if self.network is None:
            return "*"
        return f"arn:{Aws.PARTITION}:cloudwatch:{Aws.REGION}:{Aws.ACCOUNT_ID}:alarm:*"


class Worker(Construct):
    """One worker, as its row says."""

    def __init__(self, scope: Construct, row: Row, code: lambda_.Code, around: Surroundings) -> None:
        """Create the worker `row`, whose function runs `code`."""
        super().__init__(scope, row.logical_name)
        self.row = row
        self._around = around
        self._policy = iam.PolicyDocument()
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{row.resource_name}",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.function = self._function(code)
        self.mappings = [
            self._mapping(name, queue)
            for source in mappings(around.rows, row)
            for name, queue in self._feeding_queues(source).items()
        ]
        for alarm in row.alarms:
            self._alarm(alarm)

    def _function(self, code: lambda_.Code) -> lambda_.Function:
        row, network = self.row, self._around.network
        placed: dict[str, Any] = (
            {"vpc": network.vpc, "vpc_subnets": network.subnets(row), "security_groups": [network.security_group(row)]}
            if network
            else {}
        )
        # A scheduled call that failed is not repeated where the next one is due within the minute. That of an hour is
        # called again after a minute, and once more after two; while it is busy, for half an hour.
        again = {
            "minute": {"retry_attempts": 0, "max_event_age": Duration.minutes(1)},
            "hour": {"retry_attempts": 2, "max_event_age": Duration.minutes(30)},
        }
        once: dict[str, Any] = again[row.every] if row.fed_by is FedBy.SCHEDULE else {}
        return lambda_.Function(
            self,
            "Function",
            function_name=row.resource_name,
            description=row.does,
            code=code,
            handler=f"functions.{row.name}.handler.handle",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=self._around.architecture,
            layers=self._around.layers,
            timeout=Duration.seconds(row.timeout),
            memory_size=row.memory,
            reserved_concurrent_executions=row.reserved_concurrency,
            # Parked work goes to the queue that it came from, and returned work may come back to the dead letters.
            # Lambda takes that for a loop and stops it after 16 rounds; our own bounds are attempts and returns.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if row.polls else None,
            # The role is complete, and CDK need not add what tracing takes.
            role=self._role().without_policy_updates(),
            tracing=lambda_.Tracing.ACTIVE if network else lambda_.Tracing.DISABLED,
            log_group=self.log_group,
            environment=self._environment(),
            **placed,
            **once,
        )

    def _environment(self) -> dict[str, str]:
        row, around = self.row, self._around
        told = {
            "name": row.name,
            "timeout": row.timeout,
            "permits": row.permits,
            "start_margin": row.start_margin,
            "retries": row.retries,
        }
        environment = {
            **around.settings,
            "WORKER": json.dumps(told),
            "POWERTOOLS_SERVICE_NAME": row.name,
            "QUEUE_URLS": json.dumps(
                {to.name: around.queues[to.name].source.queue_url for to in targets(around.rows, row)}
            ),
        }
        for_retries = {to.name: around.queues[to.name].retries for to in targets(around.rows, row)}
        urls = {name: queue.queue_url for name, queue in for_retries.items() if queue is not None}
        if urls:
            environment["RETRY_QUEUE_URLS"] = json.dumps(urls)
        waits = {to.name: to.retry_waits for to in targets(around.rows, row) if to.retry_waits}
        if waits:
            environment["RETRY_WAITS"] = json.dumps(waits)
        if row.fed_by is FedBy.DEAD_LETTER_QUEUES:
            sources = {around.queues[of.name].dead_letters.queue_arn: of.name for of in queue_rows(around.rows)}
            environment["DEAD_LETTER_SOURCES"] = json.dumps(sources)
        if around.secret_arn and around.outside.needs_secret(row):
            environment["SECRETS_ARN"] = around.secret_arn
        if around.outside.tells_slack(row):
            environment["SLACK"] = "true"
        if around.outside.calls_webhooks(row):
            environment["WEBHOOKS"] = "true"
        if row.uses_bucket:
            environment["UPLOADS_BUCKET"] = around.uploads.bucket_name
        if row.lists and around.inventory is not None:
            environment["INVENTORY_BUCKET"] = around.inventory.bucket_name
        return {**environment, **around.database.environment(row)}

    def _role(self) -> iam.Role:
        """A role of the worker's own: what the row names, and no managed policy."""
        network = network_statements(self.row) if self._around.network else []
        statements = [
            *self._statements(),
            *self._around.outside.statements(self.row),
            *self._around.database.statements(self.row),
            *network,
        ]
        self._policy.add_statements(*statements)
        return iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Worker {self.row.name}",
            inline_policies={"row": self._policy},
        )

    def let_pause(self, paused: Sequence[lambda_.EventSourceMapping]) -> None:
        """Leave to pause and resume these mappings and no others, whose ids nobody knows before they exist."""
        place = f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-source-mapping"
        local = [LOOK_LOCALLY] if self._around.network is None else []
        self._policy.add_statements(
            iam.PolicyStatement(
                actions=PAUSE + local,
                resources=[f"{place}:{mapping.event_source_mapping_id}" for mapping in paused],
            )
        )

    def _statements(self) -> list[iam.PolicyStatement]:
        row, around = self.row, self._around
        feeding = [self._feeding_queues(source).values() for source in mappings(around.rows, row)]
        consumed = [queue.queue_arn for queues in feeding for queue in queues]
        sent_to = [queue.queue_arn for to in targets(around.rows, row) for queue in around.queues[to.name].sources]
        every = [queue.queue_arn for of in queue_rows(around.rows) for queue in around.queues[of.name].sources]
        granted = [
            (["logs:CreateLogStream", "logs:PutLogEvents"], [self.log_group.log_group_arn]),
            (CONSUME, consumed),
            (["sqs:SendMessage"], sent_to),
            (["sqs:GetQueueAttributes"], every if row.measures_queues else []),
            # CloudWatch knows a narrower scope for what names its alarm alone.
            (["cloudwatch:DescribeAlarms"], [around.every_alarm] if row.reads_alarms else []),
            (READ, [around.uploads.arn_for_objects(f"{prefix}*") for prefix in row.reads]),
            (["s3:PutObject"], [around.uploads.arn_for_objects(f"{prefix}*") for prefix in row.writes + row.admits]),
            (["s3:DeleteObject"], [around.uploads.arn_for_objects(f"{prefix}*") for prefix in row.removes]),
            (
                ["s3:AbortMultipartUpload"],
                [around.uploads.arn_for_objects(f"{prefix}*") for prefix in row.writes if prefix in row.removes],
            ),
            (
                ERASE if around.network else [*ERASE, DELETE_LOCALLY],
                [around.uploads.arn_for_objects(f"{prefix}*") for prefix in row.erases],
            ),
            (["s3:ListBucketMultipartUploads"], [around.uploads.bucket_arn] if row.erases else []),
            (TRACE, ["*"] if around.network else []),
            (
                ["secretsmanager:GetSecretValue"],
                [around.secret_arn] if around.secret_arn and around.outside.needs_secret(row) else [],
            ),
        ]
        statements = [
            iam.PolicyStatement(actions=self._as_asked_for(actions), resources=resources)
            for actions, resources in granted
            if resources
        ]
        if row.lists:
            listed = {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in row.lists]}}
            statements.append(
                iam.PolicyStatement(
                    actions=["s3:ListBucketVersions"], resources=[around.uploads.bucket_arn], conditions=listed
                )
            )
        if row.lists and around.inventory is not None:
            inventory = around.inventory
            statements += [
                iam.PolicyStatement(actions=["s3:ListBucket"], resources=[inventory.bucket_arn]),
                iam.PolicyStatement(actions=["s3:GetObject"], resources=[inventory.arn_for_objects("*")]),
            ]
        return statements

    def _as_asked_for(self, actions: list[str]) -> list[str]:
        """The local cloud asks for the right to a batch call by the call's own name, AWS by that of the single call."""
        local = self._around.network is None
        return actions + [f"{action}Batch" for action in BATCHED if local and action in actions]

    def _feeding_queues(self, source: Row) -> dict[str, sqs.Queue]:
        """The queues of `source` that feed this worker, by the names of their mappings."""
        queues = self._around.queues[source.name]
        if self.row.fed_by is FedBy.DEAD_LETTER_QUEUES:
            return {f"{source.logical_name}Mapping": queues.dead_letters}
        return dict(zip(("Mapping", "RetryMapping"), queues.sources, strict=False))

    def _mapping(self, name: str, queue: sqs.Queue) -> lambda_.EventSourceMapping:
        row = self.row
        mapping = lambda_.EventSourceMapping(
            self,
            name,
            target=self.function,
            event_source_arn=queue.queue_arn,
            batch_size=row.batch_size,
            max_batching_window=Duration.seconds(row.batching_window),
            max_concurrency=row.maximum_concurrency,
            report_batch_item_failures=True,
        )
        output(self, f"{row.logical_name}{name}Id", mapping.event_source_mapping_id)
        return mapping

    def _alarm(self, alarm: Alarm) -> None:
        row, around = self.row, self._around
        name = f"{row.name}-{alarm}"
        rule = Rule(name=name, page=name, says="", severity=Severity.WARNING, periods=5, datapoints=3)
        each_minute: dict[str, Any] = {"period": Duration.minutes(1), "statistic": "Maximum"}
        metric: cloudwatch.IMetric
        if alarm is Alarm.DEAD_LETTERS:
            queue = around.queues[row.name].dead_letters
            # Whoever tries to settle a message hides it first, for minutes: one that stays is hardly ever in sight.
            parts: dict[str, cloudwatch.IMetric] = {
                "visible": queue.metric_approximate_number_of_messages_visible(**each_minute),
                "hidden": queue.metric_approximate_number_of_messages_not_visible(**each_minute),
            }
            metric = cloudwatch.MathExpression(
                expression="visible + hidden", using_metrics=parts, period=Duration.minutes(1), label=name
            )
            says = f"Dead letters of {row.name} wait in {row.resource_name}-dlq, and nothing settles them."
            rule = replace(rule, periods=15, datapoints=12)
        elif alarm is Alarm.MESSAGE_AGE:
            threshold = around.thresholds.get("oldest-pending", THRESHOLDS["oldest-pending"])
            metric = around.queues[row.name].source.metric_approximate_age_of_oldest_message(**each_minute)
            says = f"A message is in the queue of {row.name} for more than {threshold:g} s."
            rule = replace(rule, threshold=threshold)
        else:
            metric = self.function.metric_errors(**each_minute | {"statistic": "Sum"})
            says = f"Invocations of {row.resource_name} fail."
            rule = replace(rule, severity=Severity.CRITICAL)
            if row.every == "hour":  # one that fails is one too many
                rule = replace(rule, periods=1, datapoints=1)
        id_ = "".join(word.capitalize() for word in alarm.split("-"))
        around.bell.alarm(self, f"{id_}Alarm", metric, replace(rule, says=says))


def network_statements(row: Row) -> list[iam.PolicyStatement]:
    """Leave for the Lambda service to place the function into its subnets; the function's own code gets none of it."""
    function = f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function:{row.resource_name}"
    return [
        # Lambda checks these before any interface exists, and refuses a role that names resources.
        iam.PolicyStatement(actions=NETWORK_INTERFACES, resources=["*"]),
        iam.PolicyStatement(
            effect=iam.Effect.DENY,
            actions=NETWORK_INTERFACES,
            resources=["*"],
            conditions={"ArnEquals": {"lambda:SourceFunctionArn": function}},
        ),
    ]


def output(scope: Construct, name: str, value: str) -> None:
    """An output of the stack under exactly this name, for the command line to find."""
    CfnOutput(scope, f"{name}Output", value=value).override_logical_id(name)
