"""Updates the database schema.

A deployment runs it before it changes any other function.
"""

import json
from pathlib import Path
from typing import Any

from aws_lambda_powertools import Logger
from psycopg.conninfo import make_conninfo

from counterfoil import aws
from counterfoil.errors import InvalidSettingsError
from counterfoil.metrics import Metric, emit
from counterfoil.settings import Settings, settings
from functions.migrate.runner import apply

MIGRATIONS = Path(__file__).parents[2] / "migrations"
"""Folder of the migrations in this function's asset."""

logger = Logger()


def handle(event: dict[str, Any], context: Any) -> dict[str, list[str]]:  # noqa: ARG001  # Lambda passes both
    """Apply pending migrations and return their names. An error fails the deployment."""
    applied = apply(master_conninfo(settings()), MIGRATIONS)
    logger.info("migrated", applied=applied)
    emit({Metric.DEPLOYMENTS: 1})
    return {"applied": applied}


def master_conninfo(settings: Settings) -> str:
    """Return the connection string for a user who may create roles.

    It is DATABASE_URL, or is built from DATABASE_HOST and the user's secret.

    Raises:
        InvalidSettingsError: neither is set, or the secret has no user and password.
        ServiceUnavailableError, RejectedRequestError: Secrets Manager did not return the secret.
    """
    if settings.database_url is not None:
        return settings.database_url
    if settings.database_host is None or settings.database_secret_arn is None:
        raise InvalidSettingsError("No database is set: set DATABASE_URL, or DATABASE_HOST and DATABASE_SECRET_ARN.")
    with aws.translate_errors():
        secret = aws.client("secretsmanager").get_secret_value(SecretId=settings.database_secret_arn)
    try:
        fields = json.loads(secret["SecretString"])
        user, password = fields["username"], fields["password"]
    except (ValueError, KeyError, TypeError):
        raise InvalidSettingsError("The secret in DATABASE_SECRET_ARN contains no username and password.") from None
    return make_conninfo(
        host=settings.database_host,
        port=settings.database_port,
        dbname=settings.database_name,
        user=user,
        password=password,
        # RDS certificates are issued by Amazon's private authority, which no trust store contains. SCRAM authenticates
        # the server instead: the server must also know the password, and channel binding ties this proof to the TLS
        # connection.
        sslmode="require",
        require_auth="scram-sha-256",
    )
