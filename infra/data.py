"""The database on AWS, RDS PostgreSQL 18 behind its proxy, and how functions connect to it.

Functions sign in to the proxy with an IAM token, and the proxy signs in to PostgreSQL with its own: no worker has a
password. That relies on `GRANT rds_iam` for the workers' roles, which the migrations make. The first migration finds no
such roles: `migrate` goes past the proxy, as the master user, whose password is a secret.
"""

from dataclasses import dataclass
from typing import Any, Protocol, get_args
from urllib.parse import urlsplit, urlunsplit

from aws_cdk import Aws, Duration, Fn, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_rds as rds
from constructs import Construct

from infra.network import SUBNETS, NetworkStack
from infra.workers import DatabaseUser, Row

NAME = "counterfoil"


class Database(Protocol):
    """What the construct of a worker asks of a database."""

    def environment(self, row: Row) -> dict[str, str]:
        """The environment variables that tell `row`'s function where the database is, and as whom to sign in."""

    def statements(self, row: Row) -> list[iam.PolicyStatement]:
        """What `row`'s function must be allowed in order to sign in."""


@dataclass(frozen=True)
class LocalDatabase:
    """The embedded server of the local cloud: each function signs in as the user of its row, without a password."""

    url: str
    """As the server's superuser, which is the master user."""

    def environment(self, row: Row) -> dict[str, str]:
        """DATABASE_URL, with the row's user put in."""
        return {"DATABASE_URL": self.url if row.database_user == "master" else with_user(self.url, row.database_user)}

    def statements(self, row: Row) -> list[iam.PolicyStatement]:  # noqa: ARG002 - the embedded server knows no IAM
        """Nothing: IAM has no part in it."""
        return []


def with_user(url: str, user: str) -> str:
    """The same PostgreSQL URL for another user. A password in it belonged to the user who was there, and is dropped."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{place}"))


PORT = 5432
TRUSTED_CERTIFICATES = "/etc/pki/tls/certs/ca-bundle.crt"
"""Where Lambda's image keeps them. The OpenSSL inside psycopg's wheel looks elsewhere unless SSL_CERT_FILE says so."""


@dataclass(frozen=True)
class RdsDatabase:
    """How functions reach the instance: by way of the proxy, but for the master user."""

    instance: rds.DatabaseInstance
    proxy: rds.DatabaseProxy

    def environment(self, row: Row) -> dict[str, str]:
        """The proxy and the row's user; for the master user the instance itself and the secret."""
        place = {"DATABASE_PORT": str(PORT), "DATABASE_NAME": NAME, "SSL_CERT_FILE": TRUSTED_CERTIFICATES}
        if row.database_user == "master":
            direct = {
                "DATABASE_HOST": self.instance.instance_endpoint.hostname,
                "DATABASE_SECRET_ARN": self._secret_arn,
            }
            return {**place, **direct}
        return {**place, "DATABASE_HOST": self.proxy.endpoint, "DATABASE_USER": row.database_user}

    def statements(self, row: Row) -> list[iam.PolicyStatement]:
        """To sign in to the proxy as the row's user and no other; for the master user, to read its secret."""
        if row.database_user == "master":
            return [iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[self._secret_arn])]
        # The id that IAM knows a proxy by is the last part of its ARN: arn:aws:rds:region:account:db-proxy:prx-...
        proxy_id = Fn.select(6, Fn.split(":", self.proxy.db_proxy_arn))
        return [connect(proxy_id, row.database_user)]

    @property
    def _secret_arn(self) -> str:
        secret = self.instance.secret
        assert secret is not None  # credentials from a generated secret always make one
        return secret.secret_arn


def connect(resource_id: str, *users: str) -> iam.PolicyStatement:
    """Leave to sign in with an IAM token as one of `users`, to an instance or a proxy of that resource id."""
    place = f"arn:{Aws.PARTITION}:rds-db:{Aws.REGION}:{Aws.ACCOUNT_ID}:dbuser:{resource_id}"
    return iam.PolicyStatement(actions=["rds-db:connect"], resources=[f"{place}/{user}" for user in users])


class DataStack(Stack):
    """The database instance, its proxy and the master user's secret."""

    def __init__(self, scope: Construct, id_: str, *, network: NetworkStack, **stack: Any) -> None:
        """Create the stack in `network`; `stack` is what aws_cdk.Stack takes."""
        super().__init__(scope, id_, **stack)
        self.instance = rds.DatabaseInstance(
            self,
            "Instance",
            engine=rds.DatabaseInstanceEngine.postgres(version=rds.PostgresEngineVersion.VER_18),
            # With 8 GB. Half of that has room for 369 connections through the proxy: all that the functions may open
            # at full load, and none for a further worker or for people.
            instance_type=ec2.InstanceType.of(ec2.InstanceClass.T4G, ec2.InstanceSize.LARGE),
            vpc=network.vpc,
            vpc_subnets=SUBNETS,
            multi_az=True,
            database_name=NAME,
            credentials=rds.Credentials.from_generated_secret("counterfoil_master"),
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
        self.proxy = rds.DatabaseProxy(
            self,
            "Proxy",
            proxy_target=rds.ProxyTarget.from_instance(self.instance),
            vpc=network.vpc,
            vpc_subnets=SUBNETS,
            role=self._proxy_role(),
            default_auth_scheme=rds.DefaultAuthScheme.IAM_AUTH,
            require_tls=True,
            borrow_timeout=Duration.seconds(10),
            max_connections_percent=90,
        )
        self.proxy.connections.allow_from(network.functions, ec2.Port.tcp(PORT))
        self.instance.connections.allow_from(network.migrations, ec2.Port.tcp(PORT))
        self.database = RdsDatabase(self.instance, self.proxy)

    def _proxy_role(self) -> iam.Role:
        """What the proxy signs in to the instance with: as the workers' users, never as the master."""
        users = [user for user in get_args(DatabaseUser) if user != "master"]
        return iam.Role(
            self,
            "ProxyRole",
            description="RDS Proxy signs in to PostgreSQL as the workers' users",
            assumed_by=iam.ServicePrincipal(
                "rds.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
            inline_policies={
                "connect": iam.PolicyDocument(statements=[connect(self.instance.instance_resource_id or "", *users)])
            },
        )
