"""AWS clients, made at first use, the mapping of botocore's errors, and secrets from AWS Secrets Manager.

A secret comes from the environment, or from one secret of Secrets Manager that holds all of them as JSON.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, Literal

import boto3
from aws_lambda_powertools import Logger
from botocore import exceptions as botocore
from botocore.config import Config
from pydantic import SecretStr

from counterfoil.errors import CounterfoilError, InvalidSettingsError, RejectedRequestError, ServiceUnavailableError
from counterfoil.settings import Settings

_CURABLE = (
    botocore.HTTPClientError,
    botocore.ConnectionError,
    botocore.IncompleteReadError,
    botocore.ChecksumError,
    botocore.FlexibleChecksumError,
    botocore.CapacityNotAvailableError,
    # The function's credentials are nothing that its work could be wrong about.
    botocore.NoCredentialsError,
    botocore.CredentialRetrievalError,
    botocore.MetadataRetrievalError,
    botocore.TokenRetrievalError,
)
_CURABLE_STATUS = {408, 425, 429}
_CURABLE_CODES = {
    # Too much at once, besides every code that speaks of throttling.
    "TooManyRequestsException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "ServiceQuotaExceededException",
    "SlowDown",
    "OverLimit",
    "PriorRequestNotComplete",
    "TransactionInProgressException",
    # The service's own failures, where an answer inside a batch or a stream has no status.
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "InternalServerException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    # Too late, though with a status of 400 or 403.
    "RequestTimeout",
    "RequestTimeoutException",
    "RequestTimeTooSkewed",
    "RequestExpired",
    # A token that the next try has renewed.
    "ExpiredToken",
    "ExpiredTokenException",
    "TokenRefreshRequired",
}


@cache
def client(service: str) -> Any:
    """The process's client for an AWS service, with short time-outs and botocore's standard retries.

    SQS answers in milliseconds, and whoever waits for it holds up a batch: its calls give up soon. Those to Lambda are
    the watchdog's, which comes again in a minute. A language model takes its time, and who asks one has tries and a
    bound of his own. The recognition of a page takes seconds, and botocore's tries.
    """
    once = service in {"bedrock-runtime", "lambda"}
    make: Any = boto3.client
    return make(
        service,
        config=Config(
            connect_timeout=3,
            read_timeout={"lambda": 4, "sqs": 5, "bedrock-runtime": 120, "textract": 30}.get(service, 20),
            retries={"mode": "standard", "total_max_attempts": 1 if once else 3},
            # Forms for uploads would else be signed in a way that most regions refuse.
            signature_version="s3v4" if service == "s3" else None,
        ),
    )


def mapped(error: Exception) -> CounterfoilError:
    """The error of our tree for whatever a call to AWS raised.

    Only names that AWS chose are told, never what a call was about. Beside its own tree, botocore lets through what it
    stumbles over in an answer that is none of the service's (a ValueError, a TypeError, a redirect without end), and
    what urllib3 raises when the encryption of a connection breaks while a file is read.
    """
    if isinstance(error, botocore.ClientError):
        code = str(error.response.get("Error", {}).get("Code", "unknown"))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = f"{error.operation_name} was answered with {code} (HTTP {status})"
        if code in _CURABLE_CODES or "Throttl" in code or status in _CURABLE_STATUS or status >= 500:
            return ServiceUnavailableError(message)
        return RejectedRequestError(message)
    if isinstance(error, botocore.BotoCoreError) and not isinstance(error, _CURABLE):
        return RejectedRequestError(f"An AWS call could not be made: {type(error).__name__}")
    return ServiceUnavailableError(f"An AWS service did not answer as it should: {type(error).__name__}")


@contextmanager
def errors_mapped() -> Iterator[None]:
    """Around a call to AWS and nothing else: raise our errors in the place of foreign ones.

    Raises:
        ServiceUnavailableError: throttled, timed out, no connection, or failed on the service's side.
        RejectedRequestError: refused for good.
    """
    try:
        yield
    except CounterfoilError:
        raise
    except Exception as error:
        raise mapped(error) from error


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
        with errors_mapped():
            answer: dict[str, Any] = client("secretsmanager").get_secret_value(SecretId=arn)
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
