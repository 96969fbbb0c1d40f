"""AWS clients, made at first use, and the mapping of botocore's errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError, IncompleteReadError

from counterfoil.errors import CounterfoilError, RejectedRequestError, ServiceUnavailableError

_TRANSIENT_STATUS = {408, 425, 429}
_THROTTLING = {
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "SlowDown",
    "PriorRequestNotComplete",
    "TransactionInProgressException",
    "EC2ThrottledException",
}


@cache
def client(service: str) -> Any:
    """The process's client for an AWS service, with short time-outs and botocore's standard retries."""
    return boto3.client(
        service,
        config=Config(connect_timeout=3, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 3}),
    )


def mapped(error: BotoCoreError | ClientError) -> CounterfoilError:
    """The error of our tree for one of botocore's."""
    if isinstance(error, ClientError):
        code = error.response.get("Error", {}).get("Code", "unknown")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = f"{error.operation_name} was answered with {code} (HTTP {status})"
        if code in _THROTTLING or status in _TRANSIENT_STATUS or status >= 500:
            return ServiceUnavailableError(message)
        return RejectedRequestError(message)
    if isinstance(error, (HTTPClientError, ConnectionError, IncompleteReadError)):  # none, too slow, or cut
        return ServiceUnavailableError(f"An AWS service did not answer: {type(error).__name__}")
    return RejectedRequestError(f"An AWS call could not be made: {type(error).__name__}")


@contextmanager
def errors_mapped() -> Iterator[None]:
    """Raise our errors in the place of botocore's.

    Raises:
        ServiceUnavailableError: throttled, timed out, no connection, or failed on the service's side.
        RejectedRequestError: refused for good.
    """
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise mapped(error) from error
