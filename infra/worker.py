"""CDK construct for a worker: function, role, logs and event source mappings."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.context import ExternalServices
from infra.data import Queues, Stage, State, output
from infra.worker_table import ExternalService, Trigger, WorkerSpec, mappings, queue_workers, targets

BATCHED = ("sqs:SendMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")
CONSUME = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"]
ERASE = ["s3:DeleteObjectVersion", "s3:AbortMultipartUpload"]
DELETE_LOCALLY = "s3:DeleteObject"
"""Permission that the local cloud requires to delete a version in a batch."""
READ = ["s3:GetObject", "s3:GetObjectVersion"]
"""Permissions to read objects. Each upload is read by version, because the same key can be uploaded again."""
TRACE = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
"""Permissions for tracing. X-Ray does not support resource-level permissions."""
MANAGE_PEOPLE = [
    "cognito-idp:AdminAddUserToGroup",
    "cognito-idp:AdminCreateUser",
    "cognito-idp:AdminDeleteUser",
    "cognito-idp:AdminDisableUser",
    "cognito-idp:AdminEnableUser",
    "cognito-idp:AdminGetUser",
    "cognito-idp:AdminListGroupsForUser",
    "cognito-idp:AdminRemoveUserFromGroup",
    "cognito-idp:AdminUserGlobalSignOut",
    "cognito-idp:CreateGroup",
    "cognito-idp:ListUsers",
    "cognito-idp:ListUsersInGroup",
]
PAUSE = ["lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping"]
LOCAL_GET_MAPPING = "lambda:ListEventSourceMappings"
"""Permission that the local cloud requires to read a single mapping."""
NETWORK_INTERFACES = [
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
]
"""Permissions that Lambda requires to place a function in subnets."""


@dataclass(frozen=True)
class WorkerResources:
    """Resources and settings that all workers of a stack share."""

    rows: tuple[WorkerSpec, ...]
    stage: Stage
    state: State
    queues: Mapping[str, Queues]
    layers: list[lambda_.LayerVersion]

    @property
    def alarm_arns(self) -> str:
        """ARN pattern for all alarms of the account.

        It is `*` in the local cloud, where alarms have no ARNs.
        """
        if not self.stage.is_aws:
            return "*"
        return f"arn:{Aws.PARTITION}:cloudwatch:{Aws.REGION}:{Aws.ACCOUNT_ID}:alarm:*"


@dataclass(frozen=True)
class Invocation:
    """Limits for a scheduled invocation.

    `retries` limits the retries after a failure. `max_event_age` limits the waiting time for a busy function.
    """

    retries: int
    max_event_age: Duration


INVOCATIONS = {
    # The next invocation follows within a minute.
    "minute": Invocation(0, Duration.minutes(1)),
    # Lambda retries after one minute, and again after two more minutes.
    "hour": Invocation(2, Duration.minutes(30)),
}


class Worker(Construct):
    """Function, role, logs and event source mappings of one worker."""

    def __init__(self, scope: Construct, row: WorkerSpec, code: lambda_.Code, shared: WorkerResources) -> None:
        """Create the worker `row`, whose function runs `code`."""
        super().__init__(scope, row.logical_name)
        self.row = row
        self._shared = shared
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
            for source in mappings(shared.rows, row)
            for name, queue in self._feeding_queues(source).items()
        ]

    def _function(self, code: lambda_.Code) -> lambda_.Function:
        row, network = self.row, self._shared.stage.network
        invocation = INVOCATIONS[row.every] if row.trigger is Trigger.SCHEDULE else None
        return lambda_.Function(
            self,
            "Function",
            function_name=row.resource_name,
            description=row.description,
            code=code,
            handler=f"functions.{row.name}.handler.handle",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64 if network else lambda_.Architecture.X86_64,
            layers=self._shared.layers,
            timeout=Duration.seconds(row.timeout),
            memory_size=row.memory,
            reserved_concurrent_executions=row.reserved_concurrency,
            # Messages of parked work items go to the same queue. Lambda would consider this a loop, and stop it after
            # 16 messages. The limits on attempts and deferrals end it instead.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if row.has_event_source_mapping else None,
            # Immutable, because the role is complete. CDK must not add permissions for tracing and the network.
            role=self._role().without_policy_updates(),
            tracing=lambda_.Tracing.ACTIVE if network else lambda_.Tracing.DISABLED,
            log_group=self.log_group,
            environment=self._environment(),
            vpc=network.vpc if network else None,
            vpc_subnets=network.subnets(row) if network else None,
            security_groups=[network.security_group(row)] if network else None,
            retry_attempts=invocation.retries if invocation else None,
            max_event_age=invocation.max_event_age if invocation else None,
        )

    def _environment(self) -> dict[str, str]:
        row, shared = self.row, self._shared
        environment = {
            **shared.stage.settings,
            "WORKER": _worker_setting(row),
            "POWERTOOLS_SERVICE_NAME": row.name,
            "QUEUE_URLS": json.dumps(
                {target.name: shared.queues[target.name].source.queue_url for target in targets(shared.rows, row)}
            ),
        }
        retry_queues = {target.name: shared.queues[target.name].retries for target in targets(shared.rows, row)}
        urls = {name: queue.queue_url for name, queue in retry_queues.items() if queue is not None}
        if urls:
            environment["RETRY_QUEUE_URLS"] = json.dumps(urls)
        retry_delays = {target.name: target.retry_delays for target in targets(shared.rows, row) if target.retry_delays}
        if retry_delays:
            environment["RETRY_DELAYS"] = json.dumps(retry_delays)
        if row.trigger is Trigger.DEAD_LETTER_QUEUES:
            sources = {
                shared.queues[worker.name].dead_letters.queue_arn: worker.name for worker in queue_workers(shared.rows)
            }
            environment["DEAD_LETTER_SOURCES"] = json.dumps(sources)
        if shared.state.secret_arn and shared.stage.external_services.needs_secret(row):
            environment["SECRETS_ARN"] = shared.state.secret_arn
        if shared.stage.external_services.notifies_slack(row):
            environment["SLACK_ENABLED"] = "true"
        if shared.stage.external_services.calls_webhooks(row):
            environment["WEBHOOKS_ENABLED"] = "true"
        if row.invokes:
            names = {worker.name: worker.resource_name for worker in shared.rows if worker.name in row.invokes}
            environment["INVOKED_FUNCTIONS"] = json.dumps(names)
        if row.uses_bucket:
            environment["UPLOADS_BUCKET"] = shared.state.uploads.bucket_name
        if row.lists and shared.state.inventory is not None:
            environment["INVENTORY_BUCKET"] = shared.state.inventory.bucket_name
        return {**environment, **shared.stage.database.environment(row)}

    def _role(self) -> iam.Role:
        """Create the worker's role with its row's permissions and no managed policies."""
        network = network_statements(self.row) if self._shared.stage.is_aws else []
        services = service_statements(self.row, self._shared.stage.external_services)
        self._policy.add_statements(*self._statements(), *services, *network)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Worker {self.row.name}",
            inline_policies={"row": self._policy},
        )
        self._shared.stage.database.grant(self.row, role)
        return role

    def grant_pause(self, pausable: Sequence[lambda_.EventSourceMapping]) -> None:
        """Allow pausing and resuming these mappings.

        Their ids are unknown until they are created.
        """
        arn_prefix = f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-source-mapping"
        local_actions = [LOCAL_GET_MAPPING] if not self._shared.stage.is_aws else []
        self._policy.add_statements(
            iam.PolicyStatement(
                actions=PAUSE + local_actions,
                resources=[f"{arn_prefix}:{mapping.event_source_mapping_id}" for mapping in pausable],
            )
        )

    def _statements(self) -> list[iam.PolicyStatement]:
        row, shared = self.row, self._shared
        people = shared.state.api.people
        feeding_queues = [self._feeding_queues(source).values() for source in mappings(shared.rows, row)]
        consumed_queues = [queue.queue_arn for queues in feeding_queues for queue in queues]
        target_queues = [
            queue.queue_arn for target in targets(shared.rows, row) for queue in shared.queues[target.name].sources
        ]
        all_queues = [
            queue.queue_arn for worker in queue_workers(shared.rows) for queue in shared.queues[worker.name].sources
        ]
        grants = [
            (["logs:CreateLogStream", "logs:PutLogEvents"], [self.log_group.log_group_arn]),
            (CONSUME, consumed_queues),
            (["sqs:SendMessage"], target_queues),
            (["sqs:GetQueueAttributes"], all_queues if row.measures_queues else []),
            # DescribeAlarms with a name prefix requires access to all alarms.
            (["cloudwatch:DescribeAlarms"], [shared.alarm_arns] if row.reads_alarms else []),
            (
                ["lambda:InvokeFunction"],
                [_function_arn(worker) for worker in shared.rows if worker.name in row.invokes],
            ),
            (MANAGE_PEOPLE, [people.pool.user_pool_arn] if people and row.manages_people else []),
            (READ, self._objects(row.reads)),
            (["s3:PutObject"], self._objects(row.writes + row.upload_prefixes)),
            (["s3:DeleteObject"], self._objects(row.removes)),
            (ERASE if shared.stage.is_aws else [*ERASE, DELETE_LOCALLY], self._objects(row.erases)),
            (["s3:ListBucketMultipartUploads"], [shared.state.uploads.bucket_arn] if row.erases else []),
            (TRACE, ["*"] if shared.stage.is_aws else []),
            (
                ["secretsmanager:GetSecretValue"],
                [shared.state.secret_arn]
                if shared.state.secret_arn and shared.stage.external_services.needs_secret(row)
                else [],
            ),
        ]
        statements = [
            iam.PolicyStatement(actions=self._with_batch_actions(actions), resources=resources)
            for actions, resources in grants
            if resources
        ]
        if row.lists:
            conditions = {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in row.lists]}}
            statements.append(
                iam.PolicyStatement(
                    actions=["s3:ListBucketVersions"],
                    resources=[shared.state.uploads.bucket_arn],
                    conditions=conditions,
                )
            )
        if row.lists and shared.state.inventory is not None:
            inventory = shared.state.inventory
            statements += [
                iam.PolicyStatement(actions=["s3:ListBucket"], resources=[inventory.bucket_arn]),
                iam.PolicyStatement(actions=["s3:GetObject"], resources=[inventory.arn_for_objects("*")]),
            ]
        return statements

    def _objects(self, prefixes: Sequence[str]) -> list[str]:
        return [self._shared.state.uploads.arn_for_objects(f"{prefix}*") for prefix in prefixes]

    def _with_batch_actions(self, actions: list[str]) -> list[str]:
        """Add batch actions for the local cloud.

        AWS checks only the action for a single message.
        """
        is_local = not self._shared.stage.is_aws
        return actions + [f"{action}Batch" for action in BATCHED if is_local and action in actions]

    def _feeding_queues(self, source: WorkerSpec) -> dict[str, sqs.Queue]:
        """Return the queues of `source` that feed this worker, by mapping name."""
        queues = self._shared.queues[source.name]
        if self.row.trigger is Trigger.DEAD_LETTER_QUEUES:
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


def network_statements(row: WorkerSpec) -> list[iam.PolicyStatement]:
    """Allow Lambda, but not the function's code, to manage network interfaces.

    Lambda needs them to place the function in its subnets.
    """
    return [
        # Lambda checks these permissions before an interface exists, so they cannot be limited to resources.
        iam.PolicyStatement(actions=NETWORK_INTERFACES, resources=["*"]),
        iam.PolicyStatement(
            effect=iam.Effect.DENY,
            actions=NETWORK_INTERFACES,
            resources=["*"],
            conditions={"ArnEquals": {"lambda:SourceFunctionArn": _function_arn(row)}},
        ),
    ]


def _worker_setting(row: WorkerSpec) -> str:
    fields: dict[str, object] = {"name": row.name, "timeout": row.timeout}
    if row.has_event_source_mapping:
        fields |= {"permits": row.permits, "start_margin": row.start_margin, "retries": row.retries}
    return json.dumps(fields)


def _function_arn(row: WorkerSpec) -> str:
    return f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function:{row.resource_name}"


def service_statements(row: WorkerSpec, external_services: ExternalServices) -> Iterator[iam.PolicyStatement]:
    """Yield `row`'s permissions for the AWS services that it calls outside the VPC."""
    model_settings: dict[ExternalService, str] = {"llm": "LLM_MODEL", "embeddings": "EMBEDDING_MODEL"}
    for kind, setting in model_settings.items():
        if external_services.models.get(kind) == "bedrock" and kind in row.external_services:
            yield _invoke_statement(external_services.settings.get(setting, "*"))
    if external_services.email and "notifications" in row.external_services:
        yield iam.PolicyStatement(
            actions=["ses:SendEmail"],
            # The verified identity can be the address or its domain, so the resource is not restricted, only the
            # sender.
            resources=[f"arn:{Aws.PARTITION}:ses:{Aws.REGION}:{Aws.ACCOUNT_ID}:identity/*"],
            conditions={"StringEquals": {"ses:FromAddress": external_services.settings["EMAIL_FROM"]}},
        )
    if external_services.textract and "ocr" in row.external_services:
        # Textract does not support resource-level permissions.
        yield iam.PolicyStatement(actions=["textract:DetectDocumentText"], resources=["*"])


def _invoke_statement(model: str) -> iam.PolicyStatement:
    profile = f"arn:{Aws.PARTITION}:bedrock:{Aws.REGION}:{Aws.ACCOUNT_ID}:inference-profile/{model}"
    # An inference profile's id is a model id with a region prefix. The profile calls that model in several regions.
    models = {model, model.partition(".")[2] or model}
    return iam.PolicyStatement(
        actions=["bedrock:InvokeModel"],
        resources=[
            *(f"arn:{Aws.PARTITION}:bedrock:*::foundation-model/{name}" for name in sorted(models)),
            profile,
        ],
    )
