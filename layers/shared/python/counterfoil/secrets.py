"""What must stay secret: in the environment, or else in one secret of AWS Secrets Manager that holds all as JSON."""

import json
from functools import cache
from threading import Lock
from typing import Any, Literal

from pydantic import SecretStr

from counterfoil import aws
from counterfoil.errors import InvalidSettingsError
from counterfoil.settings import Settings

Name = Literal["LLM_API_KEY", "SLACK_WEBHOOK_URL"]

_fetching = Lock()


def secret(settings: Settings, name: Name) -> SecretStr | None:
    """A secret by its name; None where neither the environment nor SECRETS_ARN has it.

    Secrets Manager is asked once in the life of a process: a new value is used by the processes started after it.

    Raises:
        InvalidSettingsError: SECRETS_ARN leads to something that is not a JSON object of texts.
        ServiceUnavailableError: Secrets Manager did not answer.
        RejectedRequestError: it refused: no such secret, or no right to read it.
    """
    given: SecretStr | None = getattr(settings, name.lower())
    if given is not None or settings.secrets_arn is None:
        return given
    with _fetching:
        stored = _fetch(settings.secrets_arn)
    return stored.get(name)


@cache
def _fetch(arn: str) -> dict[str, SecretStr]:
    with aws.errors_mapped():
        answer: dict[str, Any] = aws.client("secretsmanager").get_secret_value(SecretId=arn)
    try:
        found = json.loads(answer.get("SecretString") or "")
    except ValueError:
        found = None  # the error would quote the secret
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidSettingsError("SECRETS_ARN is wrong: its secret must be a JSON object of texts.")
    return {name: SecretStr(value) for name, value in found.items() if value}
