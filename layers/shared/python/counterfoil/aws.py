"""AWS clients, made at first use, and the mapping of botocore's errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
from botocore import exceptions as botocore
from botocore.config import Config

from counterfoil.errors import CounterfoilError, RejectedRequestError, ServiceUnavailableError

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
