"""AWS clients, mapping of botocore's errors, and secrets from Secrets Manager.

Clients are created on first use. Secrets come from the environment, or from a single JSON object in Secrets Manager.
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

_TRANSIENT_ERRORS = (
    botocore.HTTPClientError,
    botocore.ConnectionError,
    botocore.IncompleteReadError,
    botocore.ChecksumError,
    botocore.FlexibleChecksumError,
    botocore.CapacityNotAvailableError,
    # Transient, because missing credentials are not the work item's fault.
    botocore.NoCredentialsError,
    botocore.CredentialRetrievalError,
    botocore.MetadataRetrievalError,
    botocore.TokenRetrievalError,
)
_TRANSIENT_STATUSES = {408, 425, 429}
_TRANSIENT_CODES = {
    # Too many requests, in addition to all codes that contain "Throttl".
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
    # Service failures inside a batch or stream response, which have no HTTP status.
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "InternalServerException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    # Timeouts that are reported with status 400 or 403.
    "RequestTimeout",
    "RequestTimeoutException",
    "RequestTimeTooSkewed",
    "RequestExpired",
    # Expired tokens, which the next attempt renews.
    "ExpiredToken",
    "ExpiredTokenException",
    "TokenRefreshRequired",
}


@cache
def client(service: str) -> Any:
    """Return this process's client for an AWS service.

    Timeouts and retries depend on the service.

    Calls to SQS time out quickly, because SQS answers in milliseconds and a waiting call blocks a batch. Calls to
    Lambda are not retried, because the watchdog makes them and runs again in a minute. Calls to language models are
    slow and not retried here, because their callers have their own retries and limits. OCR takes seconds per page, and
    botocore retries it.
    """
    is_single_attempt = service in {"bedrock-runtime", "lambda"}
    create_client: Any = boto3.client
    return create_client(
        service,
        config=Config(
            connect_timeout=3,
            read_timeout={"lambda": 4, "sqs": 5, "bedrock-runtime": 120, "textract": 30}.get(service, 20),
            retries={"mode": "standard", "total_max_attempts": 1 if is_single_attempt else 3},
            # The default is a signature for upload forms that most regions reject.
            signature_version="s3v4" if service == "s3" else None,
        ),
    )


def translate_error(error: Exception) -> CounterfoilError:
    """Map any error from an AWS call to a `CounterfoilError`.

    The message contains only names chosen by AWS, and never the content of a call. If a response does not come from the
    service, botocore also raises built-in errors, such as ValueError or TypeError, or follows redirects endlessly. If
    the TLS connection breaks while a file is being read, urllib3's own errors are raised.
    """
    if isinstance(error, botocore.ClientError):
        code = str(error.response.get("Error", {}).get("Code", "unknown"))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = f"{error.operation_name} failed with {code} (HTTP {status})"
        if code in _TRANSIENT_CODES or "Throttl" in code or status in _TRANSIENT_STATUSES or status >= 500:
            return ServiceUnavailableError(message)
        return RejectedRequestError(message)
    if isinstance(error, botocore.BotoCoreError) and not isinstance(error, _TRANSIENT_ERRORS):
        return RejectedRequestError(f"An AWS call could not be made: {type(error).__name__}")
    return ServiceUnavailableError(f"An AWS service did not respond correctly: {type(error).__name__}")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Map the errors raised in a block. The block must contain only calls to AWS.

    Raises:
        ServiceUnavailableError: the call was throttled or timed out, there was no connection, or the service failed.
        RejectedRequestError: the service rejected the call permanently.
    """
    try:
        yield
    except CounterfoilError:
        raise
    except Exception as error:
        raise translate_error(error) from error


Name = Literal["EMBEDDING_API_KEY", "LLM_API_KEY", "SLACK_WEBHOOK_URL"]

SECRET_CACHE_SECONDS = 300.0
"""Cache TTL of secrets. A secret can change while processes are running."""

logger = Logger()


@dataclass(frozen=True)
class _CachedSecret:
    """A secret's values and the time when they were read."""

    values: Mapping[str, SecretStr]
    at: float


_secret_cache: dict[str, _CachedSecret] = {}
_secret_cache_lock = Lock()


def get_secret(settings: Settings, name: Name, *, clock: Callable[[], float] = time.time) -> SecretStr | None:
    """Return a secret by name, from the environment or from SECRETS_ARN.

    Returns None if neither contains it. A value is cached for SECRET_CACHE_SECONDS according to `clock`, which must
    advance while the process is frozen. A missing or empty value is not cached. While Secrets Manager is unavailable,
    the previous value is used.

    Raises:
        InvalidSettingsError: the secret at SECRETS_ARN is not a JSON object with string values.
        ServiceUnavailableError: Secrets Manager is unavailable, and no previous value is cached.
        RejectedRequestError: the secret does not exist or cannot be read.
    """
    configured: SecretStr | None = getattr(settings, name.lower())
    if configured is not None or settings.secrets_arn is None:
        return configured
    with _secret_cache_lock:
        cached = _secret_cache.get(settings.secrets_arn)
        if cached is None or name not in cached.values or not 0 <= clock() - cached.at < SECRET_CACHE_SECONDS:
            cached = _secret_cache[settings.secrets_arn] = _CachedSecret(
                _fetch(settings.secrets_arn, name, cached), clock()
            )
    return cached.values.get(name)


def _fetch(arn: str, name: Name, cached: _CachedSecret | None) -> Mapping[str, SecretStr]:
    try:
        with translate_errors():
            response: dict[str, Any] = client("secretsmanager").get_secret_value(SecretId=arn)
    except ServiceUnavailableError as error:
        if cached is None or name not in cached.values:
            raise
        logger.warning("A secret could not be read: its previous value is used", error=str(error))
        return cached.values
    try:
        values = json.loads(response.get("SecretString") or "")
    except ValueError:
        values = None  # the error would quote the secret
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise InvalidSettingsError("SECRETS_ARN is invalid: its secret must be a JSON object with string values.")
    return {name: SecretStr(value) for name, value in values.items() if value}
