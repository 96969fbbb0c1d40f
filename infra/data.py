"""State that outlives the functions: network, database, files, users, addresses.

| stack | contents |
|---|---|
| `counterfoil-network` | the VPC: separate, because external services in the settings change its endpoints |
| `counterfoil-data` | the database and `State` |
| `counterfoil-pipeline` | functions, queues, schedules, alarms: can be deleted and redeployed without data loss |

The local cloud has the same constructs in one stack, because its emulator loses all state when it stops.

No worker has a password: functions authenticate to RDS Proxy with an IAM token, and the proxy authenticates to
PostgreSQL with its own token. The migrations grant `rds_iam` to the workers' roles. These roles do not exist before the
first migration, so `migrate` connects directly to the instance as the master user, whose password is a secret.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, get_args
from urllib.parse import urlsplit, urlunsplit

from aws_cdk import Aws, CfnOutput, Duration, RemovalPolicy, SecretValue, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_rds as rds
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.api import Address, Api
from infra.context import NONCURRENT, Deployment, ExternalServices
from infra.packaging import Package, Target
from infra.worker_table import (
    DEAD_LETTER_RETENTION,
    MAX_RECEIVE_COUNT,
    NOTIFIED_PREFIXES,
    SOURCE_PREFIXES,
    SOURCE_RETENTION,
    DatabaseUser,
    Trigger,
    WorkerSpec,
    queue_workers,
)

NAME = "counterfoil"
MASTER = "counterfoil_master"
RETRY_SUFFIX = "-retry"
"""Suffix of a retry queue's name."""
INBOX = "inbox/"
RULE_SET = "counterfoil"
RULE = "inbox"
"""SES receipt rule that stores mail under INBOX. `infra/pipeline.py` creates it."""
LOCAL_SETTINGS = {"WEBHOOK_ALLOWLIST": '["127.0.0.0/8", "::1/128"]'}
"""Default settings in the local cloud, where webhooks may run on the same machine."""
NONCURRENT_DAYS = 30
INVENTORY_DAYS = 7
"""Retention of inventories in days. Reading a large inventory can take more than a day."""
INVENTORY_THRESHOLDS = {"upload-listing": 3 * 86_400}
"""Alarm thresholds with S3 Inventory, which delivers the first inventory within 48 hours and then one each day."""

SUBNETS = ec2.SubnetSelection(subnet_group_name="private")
EGRESS = ec2.SubnetSelection(subnet_group_name="egress")


class NetworkStack(Stack):
    """VPC, subnets in two availability zones, endpoints and security groups.

    Internet access exists only if the settings name a service on the internet, and only for functions that call it.
    Logs and traces require no endpoint, because the Lambda service sends them to CloudWatch and X-Ray.
    """

    def __init__(
        self, scope: Construct, id_: str, *, external_services: ExternalServices, has_user_pool: bool = True
    ) -> None:
        """Create the stack for functions that call `external_services`.

        With `has_user_pool`, functions can also call the built-in user pool.
        """
        super().__init__(scope, id_, termination_protection=True)
        self._external_services = external_services
        subnets = [
            ec2.SubnetConfiguration(name="private", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20),
        ]
        if external_services.internet:
            # Must be last, because adding them later must not change the addresses of the private subnets.
            subnets += [
                ec2.SubnetConfiguration(name="egress", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=20),
                ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=28),
            ]
        self.vpc = ec2.Vpc(
            self, "Vpc", max_azs=2, nat_gateways=1 if external_services.internet else 0, subnet_configuration=subnets
        )
        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        for name, (is_needed, service) in {
            "Sqs": (True, ec2.InterfaceVpcEndpointAwsService.SQS),
            "SecretsManager": (True, ec2.InterfaceVpcEndpointAwsService.SECRETS_MANAGER),
            "Bedrock": (external_services.bedrock, ec2.InterfaceVpcEndpointAwsService.BEDROCK_RUNTIME),
            "Email": (external_services.email, ec2.InterfaceVpcEndpointAwsService.EMAIL),
            "Textract": (external_services.textract, ec2.InterfaceVpcEndpointAwsService.TEXTRACT),
            "Cognito": (has_user_pool, ec2.InterfaceVpcEndpointAwsService.COGNITO_IDP),  # for the people API
            "Lambda": (True, ec2.InterfaceVpcEndpointAwsService.LAMBDA_),  # to pause queues
            "Monitoring": (True, ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING),  # for alarms in the console
        }.items():
            if is_needed:
                self.vpc.add_interface_endpoint(name, service=service, subnets=SUBNETS)
        self.functions = ec2.SecurityGroup(
            self, "Functions", vpc=self.vpc, description="Functions that connect to PostgreSQL through RDS Proxy"
        )
        self.migrations = ec2.SecurityGroup(
            self, "Migrations", vpc=self.vpc, description="Migration function that connects to PostgreSQL directly"
        )

    def security_group(self, row: WorkerSpec) -> ec2.SecurityGroup:
        """Return the security group of `row`'s function."""
        return self.migrations if row.database_user == "master" else self.functions

    def subnets(self, row: WorkerSpec) -> ec2.SubnetSelection:
        """Return the subnets of `row`'s function."""
        return EGRESS if self._external_services.needs_internet(row) else SUBNETS


class Database(Protocol):
    """A deployment's database: connection settings and permissions for workers."""

    def environment(self, row: WorkerSpec) -> dict[str, str]:
        """Return environment variables with the database's address and the row's user."""

    def grant(self, row: WorkerSpec, role: iam.IRole) -> None:
        """Allow `role`, the role of `row`'s function, to sign in."""


@dataclass(frozen=True)
class LocalDatabase:
    """The local cloud's embedded server, whose users have no passwords."""

    url: str
    """URL for the superuser, which is the master user."""

    def environment(self, row: WorkerSpec) -> dict[str, str]:
        """Return DATABASE_URL for the row's user."""
        return {"DATABASE_URL": self.url if row.database_user == "master" else with_user(self.url, row.database_user)}

    def grant(self, row: WorkerSpec, role: iam.IRole) -> None:
        """Do nothing: the embedded server has no IAM."""


def with_user(url: str, user: str) -> str:
    """Return a PostgreSQL URL for another user, without the previous user's password."""
    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{address}"))


PORT = 5432
TRUSTED_CERTIFICATES = "/etc/pki/tls/certs/ca-bundle.crt"
"""Path of the CA certificates on Lambda. By default, OpenSSL in psycopg's wheel looks elsewhere."""


class RdsDatabase(Construct):
    """RDS PostgreSQL 18 with a proxy, and the master user's secret."""

    def __init__(self, scope: Construct, id_: str, *, network: NetworkStack) -> None:
        """Create the instance and the proxy in `network`."""
        super().__init__(scope, id_)
        self._secret = rds.DatabaseSecret(self, "Secret", username=MASTER)
        self._secret.apply_removal_policy(RemovalPolicy.RETAIN)  # the retained instance has no other password
        self.instance = rds.DatabaseInstance(
            self,
            "Instance",
            engine=rds.DatabaseInstanceEngine.postgres(version=rds.PostgresEngineVersion.VER_18),
            # 8 GB of memory. At full load, the functions' 376 connections use half of it.
            instance_type=ec2.InstanceType.of(ec2.InstanceClass.T4G, ec2.InstanceSize.LARGE),
            vpc=network.vpc,
            vpc_subnets=SUBNETS,
            multi_az=True,
            database_name=NAME,
            credentials=rds.Credentials.from_secret(self._secret, MASTER),
            iam_authentication=True,
            allocated_storage=50,
            max_allocated_storage=1000,
            storage_type=rds.StorageType.GP3,
            storage_encrypted=True,
            backup_retention=Duration.days(14),
            copy_tags_to_snapshot=True,
            deletion_protection=True,
            removal_policy=RemovalPolicy.RETAIN,
        )
        users = [user for user in get_args(DatabaseUser) if user != "master"]
        role = iam.Role(
            self,
            "ProxyRole",
            description="RDS Proxy signs in to PostgreSQL as the workers' users",
            assumed_by=iam.ServicePrincipal(
                "rds.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
        )
        for user in users:
            self.instance.grant_connect(role, user)
        self.proxy = rds.DatabaseProxy(
            self,
            "Proxy",
            proxy_target=rds.ProxyTarget.from_instance(self.instance),
            vpc=network.vpc,
            vpc_subnets=SUBNETS,
            role=role,
            default_auth_scheme=rds.DefaultAuthScheme.IAM_AUTH,
            require_tls=True,
            borrow_timeout=Duration.seconds(10),
            max_connections_percent=90,
        )
        self.proxy.connections.allow_from(network.functions, ec2.Port.tcp(PORT))
        self.instance.connections.allow_from(network.migrations, ec2.Port.tcp(PORT))

    def environment(self, row: WorkerSpec) -> dict[str, str]:
        """Return variables to connect to the proxy as the row's user.

        The master user connects to the instance with the master user's secret instead.
        """
        connection = {"DATABASE_PORT": str(PORT), "DATABASE_NAME": NAME, "SSL_CERT_FILE": TRUSTED_CERTIFICATES}
        if row.database_user == "master":
            host = self.instance.instance_endpoint.hostname
            return {**connection, "DATABASE_HOST": host, "DATABASE_SECRET_ARN": self._secret.secret_arn}
        return {**connection, "DATABASE_HOST": self.proxy.endpoint, "DATABASE_USER": row.database_user}

    def grant(self, row: WorkerSpec, role: iam.IRole) -> None:
        """Allow `role` to sign in to the proxy as the row's user.

        For the master user, it may read the master user's secret instead.
        """
        if row.database_user == "master":
            # Secret.grant_read would also allow describing it.
            role.add_to_principal_policy(
                iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[self._secret.secret_arn])
            )
        else:
            self.proxy.grant_connect(role, row.database_user)


@dataclass(frozen=True)
class Stage:
    """Settings and platform of a deployment."""

    deployment: Deployment
    database: Database
    network: NetworkStack | None
    """None in the local cloud, which has no VPC and no TLS, and deletes its data with the stack."""
    target: Target
    dependencies: Package

    @property
    def is_aws(self) -> bool:
        """True for an AWS account, False for the local cloud."""
        return self.network is not None

    @property
    def external_services(self) -> ExternalServices:
        """External services that functions call."""
        return external_services_of(self.deployment)

    @property
    def settings(self) -> Mapping[str, str]:
        """Environment variables of every function."""
        return {**({} if self.is_aws else LOCAL_SETTINGS), **self.deployment.settings}

    @property
    def thresholds(self) -> Mapping[str, float]:
        """Alarm thresholds that differ from the defaults."""
        return {**(INVENTORY_THRESHOLDS if self.deployment.inventory else {}), **self.deployment.alarms}

    @property
    def removal_policy(self) -> RemovalPolicy:
        """Removal policy for files and users."""
        return RemovalPolicy.RETAIN if self.is_aws else RemovalPolicy.DESTROY


def external_services_of(deployment: Deployment) -> ExternalServices:
    """Return the deployment's external services.

    In the local cloud, webhooks are always enabled.
    """
    return ExternalServices(
        deployment.settings, slack=deployment.slack, webhooks=deployment.webhooks or deployment.stage == "local"
    )


class Queues(Construct):
    """A worker's queue, its dead-letter queue, and its retry queue, if any."""

    def __init__(self, scope: Construct, row: WorkerSpec, *, rows: Sequence[WorkerSpec], enforce_tls: bool) -> None:
        """Create the queues of `row` in the table `rows`."""
        super().__init__(scope, f"{row.logical_name}Queues")
        self._row = row
        self._enforce_tls = enforce_tls
        # The visibility timeout of the DLQs is set in the row of the worker that consumes them.
        visibility = max(
            (worker.visibility for worker in rows if worker.trigger is Trigger.DEAD_LETTER_QUEUES), default=30
        )
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetterQueue",
            queue_name=f"{row.resource_name}-dlq",
            visibility_timeout=Duration.seconds(visibility),
            retention_period=Duration.seconds(DEAD_LETTER_RETENTION),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=enforce_tls,
        )
        self.retries = self._source("RetryQueue", RETRY_SUFFIX) if row.has_retry_queue else None
        self.source = self._source("Queue", "")
        output(self, f"{row.logical_name}QueueUrl", self.source.queue_url)
        output(self, f"{row.logical_name}DeadLetterQueueUrl", self.dead_letters.queue_url)
        if self.retries is not None:
            output(self, f"{row.logical_name}RetryQueueUrl", self.retries.queue_url)

    def _source(self, id_: str, suffix: str) -> sqs.Queue:
        row = self._row
        return sqs.Queue(
            self,
            id_,
            queue_name=f"{row.resource_name}{suffix}",
            visibility_timeout=Duration.seconds(row.visibility),
            retention_period=Duration.seconds(SOURCE_RETENTION),
            dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=MAX_RECEIVE_COUNT, queue=self.dead_letters),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=self._enforce_tls,
        )

    @property
    def sources(self) -> list[sqs.Queue]:
        """The queues that feed the worker."""
        return [self.source] if self.retries is None else [self.source, self.retries]


class State(Construct):
    """Uploads bucket, users, the API's address, and the queues that S3 notifies."""

    def __init__(self, scope: Construct, id_: str, *, rows: Sequence[WorkerSpec], stage: Stage) -> None:
        """Create the state for the workers `rows`."""
        super().__init__(scope, id_)
        self._stage = stage
        # Queues for S3 events are state, because PostgreSQL does not know an upload until a worker has read its event.
        # S3 also validates these queues. Messages in other queues can be restored from PostgreSQL.
        self.queues = {
            row.name: Queues(self, row, rows=rows, enforce_tls=stage.is_aws)
            for row in queue_workers(rows)
            if row.trigger is Trigger.S3_EVENTS
        }
        self.api = Api(
            self,
            "Api",
            issuer=stage.deployment.issuer,
            address=Address(emulator=stage.deployment.endpoint, console=stage.deployment.settings.get("CONSOLE_URL")),
            removal_policy=stage.removal_policy,
        )
        self.uploads = self._uploads()
        self.inventory = self._inventory() if stage.deployment.inventory else None
        self.secret_arn = self._secret_arn()
        self._outputs()

    def _uploads(self) -> s3.Bucket:
        """Create the uploads bucket.

        S3 sends a message for every new object under NOTIFIED_PREFIXES.

        The bucket's name is fixed, because the bucket and the queue's policy refer to each other.
        """
        stage, api = self._stage, self.api
        name = f"counterfoil-uploads-{Aws.ACCOUNT_ID}-{Aws.REGION}"
        # Not needed in the local cloud, which serves the console and the bucket from one origin.
        cors_rule = s3.CorsRule(
            allowed_methods=[s3.HttpMethods.POST],
            allowed_origins=list(api.origins),
            allowed_headers=["*"],
            max_age=3600,
        )
        bucket = s3.Bucket(
            self,
            "Uploads",
            bucket_name=name,
            versioned=True,
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=stage.is_aws,
            removal_policy=stage.removal_policy,
            cors=[cors_rule] if stage.is_aws else None,
            lifecycle_rules=lifecycle_rules(stage.deployment.retention) if stage.is_aws else None,
        )
        # L1 construct, because add_event_notification would create a function with permissions for every bucket.
        resource = bucket.node.default_child
        assert isinstance(resource, s3.CfnBucket)
        configurations = []
        for queues in self.queues.values():
            permission = queues.source.add_to_resource_policy(
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
            if permission.policy_dependable is not None:
                resource.node.add_dependency(permission.policy_dependable)
            configurations += [notification(queues, prefix) for prefix in NOTIFIED_PREFIXES]
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            queue_configurations=configurations
        )
        if stage.deployment.mail_domain is not None:
            rule = f"receipt-rule-set/{RULE_SET}:receipt-rule/{RULE}"
            arn = f"arn:{Aws.PARTITION}:ses:{Aws.REGION}:{Aws.ACCOUNT_ID}:{rule}"
            bucket.add_to_resource_policy(
                iam.PolicyStatement(
                    principals=[iam.ServicePrincipal("ses.amazonaws.com")],
                    actions=["s3:PutObject"],
                    resources=[bucket.arn_for_objects(f"{INBOX}*")],
                    conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID, "aws:SourceArn": arn}},
                )
            )
        return bucket

    def _inventory(self) -> s3.Bucket:
        """Create a bucket, and a daily inventory in it for each of NOTIFIED_PREFIXES."""
        bucket = s3.Bucket(
            self,
            "Inventory",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.RETAIN,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="inventories",
                    expiration=Duration.days(INVENTORY_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(2),
                )
            ],
        )
        for prefix in NOTIFIED_PREFIXES:
            self.uploads.add_inventory(
                destination=s3.InventoryDestination(bucket=bucket),
                inventory_id=prefix.rstrip("/"),
                objects_prefix=prefix,
                frequency=s3.InventoryFrequency.DAILY,
                format=s3.InventoryFormat.CSV,
                include_object_versions=s3.InventoryObjectVersion.ALL,
                optional_fields=["Size", "LastModifiedDate"],
            )
        return bucket

    def _secret_arn(self) -> str | None:
        """Return the ARN of the secret for external services.

        An operator must fill a new secret.
        """
        if not self._stage.is_aws or not self._stage.external_services.secret:
            return None
        if self._stage.deployment.secret_arn is not None:
            return self._stage.deployment.secret_arn
        secret = secretsmanager.Secret(
            self,
            "Secret",
            secret_name="counterfoil",  # noqa: S106 - its name
            description="LLM_API_KEY, EMBEDDING_API_KEY and SLACK_WEBHOOK_URL, as a JSON object",
            secret_string_value=SecretValue.unsafe_plain_text("{}"),
            removal_policy=RemovalPolicy.RETAIN,
        )
        return secret.secret_arn

    def _outputs(self) -> None:
        output(self, "UploadsBucketName", self.uploads.bucket_name)
        output(self, "ApiUrl", self.api.url)
        if self.api.people is not None:
            output(self, "UserPoolId", self.api.people.pool.user_pool_id)
            output(self, "UserPoolClientId", self.api.people.programs.user_pool_client_id)
            output(self, "ConsoleClientId", self.api.people.browsers.user_pool_client_id)
        if self.secret_arn is not None:
            output(self, "SecretArn", self.secret_arn)


def notification(queues: Queues, prefix: str) -> s3.CfnBucket.QueueConfigurationProperty:
    """Return the S3 configuration for a message per new object under `prefix`."""
    rule = s3.CfnBucket.FilterRuleProperty(name="prefix", value=prefix)
    return s3.CfnBucket.QueueConfigurationProperty(
        event="s3:ObjectCreated:*",
        queue=queues.source.queue_arn,
        filter=s3.CfnBucket.NotificationFilterProperty(s3_key=s3.CfnBucket.S3KeyFilterProperty(rules=[rule])),
    )


def lifecycle_rules(days: Mapping[str, int]) -> list[s3.LifecycleRule]:
    """Return the uploads bucket's lifecycle rules.

    `days` is the retention by prefix or NONCURRENT.

    | prefix | current objects | noncurrent versions |
    |---|---|---|
    | SOURCE_PREFIXES | permanent, or `days` | 30 days, or `days[NONCURRENT]` |
    | `tasks/` | until the watchdog deletes them with their task | 1 day |
    | `dead-letters/` | 7 days | 1 day |
    | `exports/` | until the tenant deletes them | 1 day |
    """
    one_day = Duration.days(1)
    noncurrent = Duration.days(days.get(NONCURRENT, NONCURRENT_DAYS))
    return [
        s3.LifecycleRule(
            id="payloads-of-tasks",
            prefix="tasks/",
            noncurrent_version_expiration=one_day,
            expired_object_delete_marker=True,
        ),
        s3.LifecycleRule(
            id="exports-of-dead-letters",
            prefix="dead-letters/",
            expiration=Duration.days(7),
            noncurrent_version_expiration=one_day,
            abort_incomplete_multipart_upload_after=Duration.days(2),
        ),
        s3.LifecycleRule(
            id="exports-of-results",
            prefix="exports/",
            noncurrent_version_expiration=one_day,
            expired_object_delete_marker=True,
        ),
        *(
            s3.LifecycleRule(
                id=f"files-in-{prefix.rstrip('/')}",
                prefix=prefix,
                expiration=Duration.days(days[prefix]) if prefix in days else None,
                noncurrent_version_expiration=noncurrent,
                # If a rule expires current objects, S3 deletes their markers automatically and rejects this setting.
                expired_object_delete_marker=None if prefix in days else True,
                abort_incomplete_multipart_upload_after=Duration.days(2),
            )
            for prefix in SOURCE_PREFIXES
        ),
    ]


def output(scope: Construct, name: str, value: str) -> None:
    """Add a stack output with exactly this name, by which the CLI reads it."""
    CfnOutput(scope, f"{name}Output", value=value).override_logical_id(name)
