"""A deployment migrates the schema, and fails if the migration fails."""

import json
from collections.abc import Iterator

import boto3
import psycopg
import pytest
from moto import mock_aws
from psycopg.conninfo import conninfo_to_dict

from cli.local.postgres import Server
from counterfoil import aws
from counterfoil.errors import CounterfoilError, InvalidSettingsError, RejectedRequestError
from counterfoil.settings import Settings, settings
from functions.migrate.handler import MIGRATIONS, handle, master_conninfo

EVENT = {"RequestType": "Create", "ResourceProperties": {"Version": "1"}}


@pytest.fixture(autouse=True)
def _clear_settings_cache() -> Iterator[None]:
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Fake Secrets Manager."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    aws.client.cache_clear()
    with mock_aws():
        yield boto3.client("secretsmanager")
    aws.client.cache_clear()


def test_deployment_applies_missing_migrations_once(
    postgres: Server, empty_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("DATABASE_URL", postgres.url(empty_database))
    applied = handle(EVENT, None)["applied"]
    assert [f"{name}.sql" for name in applied] == sorted(
        path.name for path in MIGRATIONS.glob("[0-9]*.sql") if ".rollback." not in path.name
    )
    assert handle(EVENT, None) == {"applied": []}
    assert capsys.readouterr().out.count('"Deployments": [1.0]') == 2  # each deployment starts an alarm grace period
    with psycopg.connect(postgres.url(empty_database, "counterfoil_worker")) as connection:
        assert connection.execute("SELECT count(*) FROM document").fetchone() == (0,)


@pytest.mark.parametrize("user", ["counterfoil_worker", "counterfoil_delivery"])
def test_failed_migration_fails_the_deployment(
    user: str, postgres: Server, migrated_template: str, empty_database: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DATABASE_URL", postgres.url(empty_database, user))
    with pytest.raises(CounterfoilError):
        handle(EVENT, None)


def test_master_password_is_read_from_secret_over_tls(secrets):
    secret = {"username": "master", "password": "p'w \\", "host": "elsewhere", "port": 1}
    arn = secrets.create_secret(Name="master", SecretString=json.dumps(secret))["ARN"]
    conninfo = master_conninfo(Settings(database_host="db.internal", database_port=6543, database_secret_arn=arn))
    assert conninfo_to_dict(conninfo) == {
        "host": "db.internal",
        "port": "6543",
        "dbname": "counterfoil",
        "user": "master",
        "password": "p'w \\",
        "sslmode": "require",
        "require_auth": "scram-sha-256",
    }


@pytest.mark.parametrize("content", ["not JSON", "[]", '{"username": "master"}'])
def test_secret_without_credentials_is_rejected_and_not_quoted(content: str, secrets):
    arn = secrets.create_secret(Name="master", SecretString=content)["ARN"]
    with pytest.raises(InvalidSettingsError, match="contains no username and password") as error:
        master_conninfo(Settings(database_host="db.internal", database_secret_arn=arn))
    assert content not in str(error.value)


def test_missing_secret_is_rejected(secrets):
    arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:gone"
    with pytest.raises(RejectedRequestError, match="GetSecretValue failed with ResourceNotFoundException"):
        master_conninfo(Settings(database_host="db.internal", database_secret_arn=arn))


@pytest.mark.parametrize("given", [{}, {"database_host": "db.internal"}, {"database_secret_arn": "arn"}])
def test_incomplete_database_settings_are_rejected(given: dict[str, str]):
    with pytest.raises(InvalidSettingsError, match="set DATABASE_URL, or DATABASE_HOST and DATABASE_SECRET_ARN"):
        master_conninfo(Settings(**given))
