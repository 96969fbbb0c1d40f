"""What must stay secret: in the environment, or else in one secret of AWS Secrets Manager that holds all as JSON."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal

from aws_lambda_powertools import Logger
from pydantic import SecretStr

from counterfoil import aws
from counterfoil.errors import InvalidSettingsError, ServiceUnavailableError
from counterfoil.settings import Settings

Name = Literal["EMBEDDING_API_KEY", "LLM_API_KEY", "SLACK_WEBHOOK_URL"]

REMEMBERED_SECONDS = 300.0
"""How long what was read is relied on: a person fills a secret, or changes it, while processes are running."""

logger = Logger()


@dataclass(frozen=True)
class _Read:
    """What a secret held, and when."""

    values: Mapping[str, SecretStr]
    at: float


_read: dict[str, _Read] = {}
_reading = Lock()


def secret(settings: Settings, name: Name, *, clock: Callable[[], float] = time.time) -> SecretStr | None:
    """A secret by its name; None where neither the environment nor SECRETS_ARN has it.

    A value is remembered for REMEMBERED_SECONDS by `clock` (seconds, going on while a process is frozen), one that is
    missing or empty not at all. A value that was read before is good while Secrets Manager does not answer.

    Raises:
        InvalidSettingsError: SECRETS_ARN leads to something that is not a JSON object of texts.
        ServiceUnavailableError: Secrets Manager did not answer.
        RejectedRequestError: it refused: no such secret, or no right to read it.
    """
    given: SecretStr | None = getattr(settings, name.lower())
    if given is not None or settings.secrets_arn is None:
        return given
    with _reading:
        known = _read.get(settings.secrets_arn)
        if known is None or name not in known.values or not 0 <= clock() - known.at < REMEMBERED_SECONDS:
            known = _read[settings.secrets_arn] = _Read(_fetch(settings.secrets_arn, name, known), clock())
    return known.values.get(name)


def _fetch(arn: str, name: Name, known: _Read | None) -> Mapping[str, SecretStr]:
    try:
        with aws.errors_mapped():
            answer: dict[str, Any] = aws.client("secretsmanager").get_secret_value(SecretId=arn)
    except ServiceUnavailableError as error:
        if known is None or name not in known.values:
            raise
        logger.warning("A secret cannot be read again: what it held before is used", error=str(error))
        return known.values
    try:
        found = json.loads(answer.get("SecretString") or "")
    except ValueError:
        found = None  # the error would quote the secret
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidSettingsError("SECRETS_ARN is wrong: its secret must be a JSON object of texts.")
    return {name: SecretStr(value) for name, value in found.items() if value}
