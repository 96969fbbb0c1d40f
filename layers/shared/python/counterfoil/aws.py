"""AWS clients, made at first use, and the mapping of botocore's errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
from botocore import exceptions as botocore
from botocore.config import Config

from counterfoil.errors import CounterfoilError, RejectedRequestError, ServiceUnavailableError

_NO_ANSWER = (botocore.HTTPClientError, botocore.ConnectionError, botocore.IncompleteReadError)
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
    """The process's client for an AWS service, with short time-outs and botocore's standard retries.

    SQS answers in milliseconds, and whoever waits for it holds up a batch: its calls give up soonest.
    """
    make: Any = boto3.client
    return make(
        service,
        config=Config(
            connect_timeout=3,
            read_timeout=5 if service == "sqs" else 20,
            retries={"mode": "standard", "total_max_attempts": 3},
        ),
    )


def mapped(error: botocore.BotoCoreError | botocore.ClientError) -> CounterfoilError:
    """The error of our tree for one of botocore's."""
    if isinstance(error, botocore.ClientError):
        code = error.response.get("Error", {}).get("Code", "unknown")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = f"{error.operation_name} was answered with {code} (HTTP {status})"
        if code in _THROTTLING or status in _TRANSIENT_STATUS or status >= 500:
            return ServiceUnavailableError(message)
        return RejectedRequestError(message)
    if isinstance(error, _NO_ANSWER):
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
    except (botocore.BotoCoreError, botocore.ClientError) as error:
        raise mapped(error) from error
