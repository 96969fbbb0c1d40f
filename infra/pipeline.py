"""The pipeline: the uploads bucket, every worker of the table, what starts them, and migrations before all else."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from aws_cdk import Aws, Duration, RemovalPolicy, SecretValue, Stack, triggers
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra import packaging
from infra.alarm import Bell, watch_over
from infra.api import Address, Api
from infra.context import Issuer
from infra.data import Database
from infra.faults import validate
from infra.inventory import inventory_of
from infra.mail import Inbox
from infra.network import NetworkStack
from infra.outside import Outside
from infra.packaging import Package, Target
from infra.retention import lifecycle_rules
from infra.worker import RETRY_SUFFIX, Queues, Surroundings, Worker, output
from infra.workers import ANNOUNCED, FedBy, Row, dependent, queue_rows

SCHEDULES = {"minute": "rate(1 minute)", "hour": "cron(1 * * * ? *)"}
"""What is due by the hour's clock begins a minute after it: no clock is so slow that the hour has not come for it."""


@dataclass(frozen=True)
class Stage:
    """Where the pipeline is deployed to."""

    database: Database
    network: NetworkStack | None
    """None in the local cloud, which has neither network nor TLS, and forgets its data with its stack."""
    target: Target
    dependencies: Package
    outside: Outside
    settings: Mapping[str, str] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Of alarms, where they differ from the default."""
    retention: Mapping[str, int] = field(default_factory=dict)
    """Days by prefix of the uploads bucket, where they differ from the default."""
    inventory: bool = False
    """AWS: whether the watchdog reads S3 Inventory instead of listing the uploads bucket."""
    secret_arn: str | None = None
    """A secret that exists already."""
    issuer: Issuer | None = None
    """Whose tokens the API takes, where they are not those of a user pool of the deployment's own."""
    endpoint: str | None = None
    """Local: where the emulator is."""
    mail_domain: str | None = None
    """AWS: the domain whose mail is received."""

    @property
    def on_aws(self) -> bool:
        """Whether this is a real account."""
        return self.network is not None


class PipelineStack(Stack):
    """Everything that `rows` describe."""

    def __init__(self, scope: Construct, id_: str, *, rows: Sequence[Row], stage: Stage, **of_stack: Any) -> None:
        """Create the stack; `of_stack` is what aws_cdk.Stack takes.

        Raises:
            WorkerTableError: a row could lose work.
            PackagingError: a function's code is missing.
        """
        super().__init__(scope, id_, **of_stack)
        validate(rows)
        self._stage = stage
        self.queues = self._queues(rows)
        self.uploads = self._uploads([self.queues[row.name] for row in rows if row.fed_by is FedBy.S3_EVENTS])
        around = Surroundings(
            rows=tuple(rows),
            queues=self.queues,
            uploads=self.uploads,
            inventory=inventory_of(self, self.uploads) if stage.inventory else None,
            database=stage.database,
            network=stage.network,
            layers=self._layers(),
            architecture=lambda_.Architecture.ARM_64 if stage.on_aws else lambda_.Architecture.X86_64,
            bell=self._bell(),
            thresholds=stage.thresholds,
            settings=stage.settings,
            outside=stage.outside,
            secret_arn=self._secret_arn(),
        )
        self.workers = {row.name: Worker(self, row, self._code(row), around) for row in rows}
        self._tell_mappings(rows)
        watch_over(self, queue_rows(rows), around.bell, stage.thresholds)
        self._schedule()
        self._serve()
        self._migrate_first(around.bell)
        self._receive_mail()
        self._outputs(rows)

    def _queues(self, rows: Sequence[Row]) -> dict[str, Queues]:
        visibility = max((row.visibility for row in rows if row.fed_by is FedBy.DEAD_LETTER_QUEUES), default=30)
        return {
            row.name: Queues.of(self, row, dead_letter_visibility=visibility, enforce_tls=self._stage.on_aws)
            for row in queue_rows(rows)
        }

    def _uploads(self, notified: Sequence[Queues]) -> s3.Bucket:
        """The bucket, whose every new object under what is ANNOUNCED becomes a message.

        It has a name of its own choosing: a queue's policy names the bucket, and the bucket its queues, so that neither
        could otherwise be created first. CDK's own way around that is a function that may change every bucket.
        """
        on_aws = self._stage.on_aws
        name = f"counterfoil-uploads-{Aws.ACCOUNT_ID}-{Aws.REGION}"
        bucket = s3.Bucket(
            self,
            "Uploads",
            bucket_name=name,
            versioned=True,
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=on_aws,
            removal_policy=RemovalPolicy.RETAIN if on_aws else RemovalPolicy.DESTROY,
            lifecycle_rules=lifecycle_rules(self._stage.retention) if on_aws else None,
        )
        resource = bucket.node.default_child
        assert isinstance(resource, s3.CfnBucket)
        configurations = []
        for queues in notified:
            allowed = queues.source.add_to_resource_policy(
                iam.PolicyStatement(
                    principals=[iam.ServicePrincipal("s3.amazonaws.com")],
                    actions=["sqs:SendMessage"],
                    resources=[queues.source.queue_arn],
                    conditions={
                        "ArnEquals": {"aws:SourceArn": f"arn:{Aws.PARTITION}:s3:::{name}"},
                        "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                    },
                )
            )
            if allowed.policy_dependable is not None:
                resource.node.add_dependency(allowed.policy_dependable)
            configurations += [announced(queues, prefix) for prefix in ANNOUNCED]
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            queue_configurations=configurations
        )
        return bucket

    def _bell(self) -> Bell:
        bell = Bell(self, enforce_tls=self._stage.on_aws, metric_math=self._stage.on_aws)
        for severity, topic in bell.topics.items():
            output(self, f"{severity.title()}AlarmsTopicArn", topic.topic_arn)
        return bell

    def _secret_arn(self) -> str | None:
        """The secret of what is called by way of the internet: a given one, or a new one for a person to fill."""
        if not self._stage.on_aws or not self._stage.outside.secret:
            return None
        arn = self._stage.secret_arn
        if arn is None:
            secret = secretsmanager.Secret(
                self,
                "Secret",
                secret_name="counterfoil",  # noqa: S106 - its name
                description="LLM_API_KEY, EMBEDDING_API_KEY and SLACK_WEBHOOK_URL, as a JSON object",
                secret_string_value=SecretValue.unsafe_plain_text("{}"),
                removal_policy=RemovalPolicy.RETAIN,
            )
            arn = secret.secret_arn
        output(self, "SecretArn", arn)
        return arn

    def _tell_mappings(self, rows: Sequence[Row]) -> None:
        """Tell whoever pauses mappings which they are, now that they exist, and what else there is to a queue."""
        queues = {
            row.name: {
                "urls": [queue.queue_url for queue in self.queues[row.name].sources],
                "mappings": [mapping.event_source_mapping_id for mapping in self.workers[row.name].mappings],
                "gate": row.gate,
            }
            for row in queue_rows(rows)
        }
        ids = {
            f"{row.name}{suffix}": mapping.event_source_mapping_id
            for row in dependent(rows)
            for suffix, mapping in zip(("", RETRY_SUFFIX), self.workers[row.name].mappings, strict=False)
        }
        for worker in self.workers.values():
            if not worker.row.pauses_mappings:
                continue
            worker.let_pause([mapping for row in queue_rows(rows) for mapping in self.workers[row.name].mappings])
            worker.function.add_environment("QUEUES", self.to_json_string(queues))
            if ids and worker.row.fed_by is FedBy.SCHEDULE:
                worker.function.add_environment("MAPPINGS", self.to_json_string(ids))

    def _layers(self) -> list[lambda_.LayerVersion]:
        packages = {"Dependencies": self._stage.dependencies, "Code": packaging.code_layer(self._stage.target)}
        return [
            lambda_.LayerVersion(
                self,
                f"{name}Layer",
                layer_version_name=f"counterfoil-{name.lower()}",
                code=as_code(package),
                compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            )
            for name, package in packages.items()
        ]

    def _code(self, row: Row) -> lambda_.Code:
        return as_code(packaging.function(row.name, row.extra_files, self._stage.target))

    def _schedule(self) -> None:
        for name, worker in self.workers.items():
            if worker.row.fed_by is not FedBy.SCHEDULE:
                continue
            function = worker.function.function_arn
            role = iam.Role(
                self,
                f"{worker.row.logical_name}ScheduleRole",
                description=f"Starts worker {name}",
                assumed_by=iam.ServicePrincipal(
                    "scheduler.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
                ),
                inline_policies={
                    "invoke": iam.PolicyDocument(
                        statements=[iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function])]
                    )
                },
            )
            scheduler.CfnSchedule(
                self,
                f"{worker.row.logical_name}Schedule",
                name=worker.row.resource_name,
                description=worker.row.does,
                schedule_expression=SCHEDULES[worker.row.every],
                flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
                target=scheduler.CfnSchedule.TargetProperty(
                    arn=function,
                    role_arn=role.role_arn,
                    retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(maximum_retry_attempts=0),
                ),
            )

    def _serve(self) -> None:
        """Put the gateway in front of whoever answers requests."""
        for worker in self.workers.values():
            if worker.row.fed_by is FedBy.HTTP_API:
                at = Address(emulator=self._stage.endpoint, console=self._stage.settings.get("CONSOLE_URL"))
                api = Api(self, "Api", worker.function, issuer=self._stage.issuer, at=at, keep=self._stage.on_aws)
                output(self, "ApiUrl", api.url)
                if api.people is not None:
                    output(self, "UserPoolId", api.people.pool.user_pool_id)
                    output(self, "UserPoolClientId", api.people.programs.user_pool_client_id)
                    output(self, "ConsoleClientId", api.people.browsers.user_pool_client_id)
                worker.function.add_environment("SIGN_IN", self.to_json_string(asdict(api.sign_in)))
                self._lead_to(api.console)
                if self._stage.on_aws:
                    self._let_browsers_upload(worker.function, api.origins)

    def _lead_to(self, console: str) -> None:
        """Let notices lead to the console."""
        for worker in self.workers.values():
            if "notifications" in worker.row.calls_out:
                worker.function.add_environment("CONSOLE_URL", console)

    def _let_browsers_upload(self, function: lambda_.Function, consoles: Sequence[str]) -> None:
        """Let pages of these origins post files to the bucket. The local cloud serves both at one place.

        S3 takes forms at its one address for the world, and sends those for a new bucket on to its region's.
        """
        self.uploads.add_cors_rule(
            allowed_methods=[s3.HttpMethods.POST], allowed_origins=list(consoles), allowed_headers=["*"], max_age=3600
        )
        names = (self.uploads.bucket_domain_name, self.uploads.bucket_regional_domain_name)
        function.add_environment("UPLOAD_ORIGINS", self.to_json_string([f"https://{name}" for name in names]))

    def _receive_mail(self) -> None:
        if self._stage.mail_domain is not None:
            inbox = Inbox(self, "Inbox", domain=self._stage.mail_domain, bucket=self.uploads)
            output(self, "MailExchanger", inbox.exchanger)

    def _migrate_first(self, bell: Bell) -> None:
        """Run migrations before any other function gets its new code.

        Alarms with a grace period are created after it, because it counts the deployment.
        """
        first = [worker for worker in self.workers.values() if worker.row.fed_by is FedBy.DEPLOYMENT]
        others = [worker.function for worker in self.workers.values() if worker not in first]
        for worker in first:
            triggers.Trigger(
                self,
                f"{worker.row.logical_name}Trigger",
                handler=worker.function,
                timeout=Duration.seconds(worker.row.timeout),
                execute_before=[*others, *bell.graced],
            )

    def _outputs(self, rows: Sequence[Row]) -> None:
        output(self, "UploadsBucketName", self.uploads.bucket_name)
        for row in rows:
            output(self, f"{row.logical_name}FunctionName", self.workers[row.name].function.function_name)
            if row.has_queue:
                output(self, f"{row.logical_name}QueueUrl", self.queues[row.name].source.queue_url)
                if (retries := self.queues[row.name].retries) is not None:
                    output(self, f"{row.logical_name}RetryQueueUrl", retries.queue_url)
                output(self, f"{row.logical_name}DeadLetterQueueUrl", self.queues[row.name].dead_letters.queue_url)


def announced(queues: Queues, prefix: str) -> s3.CfnBucket.QueueConfigurationProperty:
    """That each new object under `prefix` becomes a message."""
    rule = s3.CfnBucket.FilterRuleProperty(name="prefix", value=prefix)
    return s3.CfnBucket.QueueConfigurationProperty(
        event="s3:ObjectCreated:*",
        queue=queues.source.queue_arn,
        filter=s3.CfnBucket.NotificationFilterProperty(s3_key=s3.CfnBucket.S3KeyFilterProperty(rules=[rule])),
    )


def as_code(package: Package) -> lambda_.Code:
    """A package as CDK wants it; its hash is that of its input, so that zip and compiler versions do not matter."""
    return lambda_.Code.from_asset(str(package.path), asset_hash=package.hash)
