"""Adapters classify third-party errors.

Policies define defaults for all other errors.
"""

import json
import re
import string
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import psycopg_pool
import pytest
from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError

import counterfoil
from counterfoil import aws, db, http
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Succeeded, TenantAttempt
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import GiveUp, Redeliver, RedeliverPolicy, RequeuePolicy
from counterfoil.delivery.settlement import Settlement
from counterfoil.delivery.work import Message, read_message
from counterfoil.errors import (
    ConflictError,
    DatabaseUnavailableError,
    InvalidMessageError,
    InvalidSettingsError,
    RejectedRequestError,
    RejectedStatementError,
    ServiceUnavailableError,
    UnsupportedSchemaError,
)
from counterfoil.settings import Settings
from tests.delivery.conftest import clock, pending, sqs, tenant
from tests.delivery.harness import QUEUE_URL, Clock, Context, FakeSqs, event, life_cycle, make_consumer, record, rows
from tests.factories import NOW
from tests.faulty_servers import outcome

__all__ = ["clock", "pending", "sqs", "tenant"]

# -- PostgreSQL -------------------------------------------------------------------------------------------------------

CONFLICT = {"40P01", "40001", "55P03", "25P02", "26000"}
UNAVAILABLE = {
    *("08000", "08001", "08003", "08004", "08006", "08007", "08P01"),  # connection
    *("25006", "25P03", "25P04"),  # read-only, transaction timeouts
    *("28000", "28P01", "3D000"),  # sign-in
    *("40000", "40002", "40003"),  # rolled back for other reasons
    *("53000", "53100", "53200", "53300", "53400"),  # resources
    *("55000", "55006", "55P04"),  # in use, not ready
    *("57000", "57014", "57P01", "57P02", "57P03", "57P04", "57P05"),  # shut down, canceled
    *("58000", "58030", "58P01", "58P02", "58P03"),  # operating system
    *("XX000", "XX001", "XX002"),  # internal errors
}
"""All other SQLSTATEs are rejections."""


def descendants(cls: Any) -> set[Any]:
    return {cls, *(descendant for child in cls.__subclasses__() for descendant in descendants(child))}


def sqlstates() -> list[str]:
    """Return every SQLSTATE that psycopg knows."""
    return sorted(
        {cls.sqlstate for cls in descendants(psycopg.Error) if isinstance(getattr(cls, "sqlstate", None), str)}
    )


def test_every_server_sqlstate_is_classified(database: Database) -> None:
    def translate(state: str) -> None:
        with database.delivery() as connection:
            connection.execute(f"DO $$BEGIN RAISE EXCEPTION 'DE02 is taken' USING ERRCODE = '{state}'; END$$".encode())

    states = sqlstates()
    outcomes = {state: outcome(lambda state=state: translate(state)) for state in states}  # type: ignore[misc]

    assert len(states) > 240
    assert {state for state, (cls, _) in outcomes.items() if cls is ConflictError} == CONFLICT
    assert {state for state, (cls, _) in outcomes.items() if cls is DatabaseUnavailableError} == UNAVAILABLE
    other_errors = {cls for state, (cls, _) in outcomes.items() if state not in CONFLICT | UNAVAILABLE}
    assert other_errors == {RejectedStatementError}
    assert all(state in text and "DE02" not in text for state, (_, text) in outcomes.items())


def test_every_client_side_psycopg_error_is_classified() -> None:
    assert psycopg_pool.PoolTimeout in descendants(psycopg.Error)
    rejected = {
        *(psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.IntegrityError),
        psycopg.transaction.OutOfOrderTransactionNesting,
    }
    client_side = {cls for cls in descendants(psycopg.Error) if not getattr(cls, "sqlstate", None)}

    assert len(client_side) >= 16
    for cls in client_side:
        expected = RejectedStatementError if cls in rejected else DatabaseUnavailableError
        assert type(db.translate_error(cls("DE02"))) is expected, cls
        assert "DE02" not in str(db.translate_error(cls("DE02")))


# -- AWS --------------------------------------------------------------------------------------------------------------

TRANSIENT = {
    *("HTTPClientError", "ConnectionClosedError", "ReadTimeoutError", "ResponseStreamingError"),
    *("ConnectionError", "ConnectTimeoutError", "EndpointConnectionError", "ProxyConnectionError", "SSLError"),
    *("IncompleteReadError", "ChecksumError", "FlexibleChecksumError", "CapacityNotAvailableError"),
    *("NoCredentialsError", "CredentialRetrievalError", "MetadataRetrievalError", "TokenRetrievalError"),
    *("UndefinedModelAttributeError", "MissingServiceIdError", "ResponseParserError"),  # outside botocore's hierarchy
}
"""All other botocore classes are rejections."""


def make_error(cls: Any) -> Any:
    """Create a botocore error with a value for every placeholder in its message."""
    if issubclass(cls, botocore.ClientError):
        return cls({"Error": {"Code": "ValidationException"}}, "Call")
    names = {name for _, name, _, _ in string.Formatter().parse(getattr(cls, "fmt", "")) if name}
    if issubclass(cls, botocore.WaiterError):
        names = {"name", "reason", "last_response"}
    if issubclass(cls, botocore.MissingServiceIdError):
        names = {"service_name"}
    return cls(**dict.fromkeys(names, "secret")) if names else cls()


def test_every_botocore_error_is_classified() -> None:
    classes = {
        cls
        for cls in [*vars(botocore).values(), ResponseParserError]
        if isinstance(cls, type) and issubclass(cls, Exception) and not issubclass(cls, Warning)
    }
    translated = {
        cls.__name__: aws.translate_error(make_error(cls)) for cls in classes if cls.__module__.startswith("botocore")
    }

    assert len(translated) > 80
    assert {name for name, error in translated.items() if type(error) is ServiceUnavailableError} == TRANSIENT
    assert {type(error) for error in translated.values()} == {ServiceUnavailableError, RejectedRequestError}
    assert not any("secret" in str(error) for error in translated.values())


CODES = {
    ServiceUnavailableError: [
        *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException"),
        *("EC2ThrottledException", "KmsThrottled", "KMS.ThrottlingException", "AWS.SimpleQueueService.KmsThrottled"),
        *("TooManyRequestsException", "ProvisionedThroughputExceededException", "RequestLimitExceeded"),
        *("BandwidthLimitExceeded", "LimitExceededException", "ServiceQuotaExceededException", "SlowDown", "OverLimit"),
        *("PriorRequestNotComplete", "TransactionInProgressException"),
        *("InternalError", "InternalFailure", "InternalServerError", "InternalServerException"),
        *("ServiceUnavailable", "ServiceUnavailableException"),
        *("RequestTimeout", "RequestTimeoutException", "RequestTimeTooSkewed", "RequestExpired"),
        *("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"),
    ],
    RejectedRequestError: [
        *("AccessDenied", "AccessDeniedException", "UnrecognizedClientException", "InvalidClientTokenId"),
        *("SignatureDoesNotMatch", "NoSuchKey", "NoSuchBucket", "NoSuchVersion", "ValidationException"),
        *("InvalidParameterValue", "AWS.SimpleQueueService.NonExistentQueue", "ReceiptHandleIsInvalid"),
        *("MessageRejected", "MailFromDomainNotVerifiedException", "OperationAborted"),
    ],
}


@pytest.mark.parametrize(("expected", "code"), [(cls, code) for cls, codes in CODES.items() for code in codes])
@pytest.mark.parametrize("status", [400, 403, 409])
def test_aws_error_codes_are_classified(expected: type[Exception], code: str, status: int) -> None:
    error_response: Any = {"Error": {"Code": code, "Message": "secret"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error = aws.translate_error(botocore.ClientError(error_response, "Call"))

    assert type(error) is expected
    assert "secret" not in str(error)
    if status == 400:  # an error inside a stream has no status
        del error_response["ResponseMetadata"]
        assert type(aws.translate_error(botocore.EventStreamError(error_response, "Call"))) is expected


def status_of_aws(status: int) -> None:
    error_response: Any = {"Error": {"Code": str(status)}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with aws.translate_errors():
        raise botocore.ClientError(error_response, "Call")


def status_of_http(status: int) -> None:
    http.check_status(httpx.Response(status, request=httpx.Request("POST", "https://example.com/")))


@pytest.mark.parametrize("translate", [status_of_aws, status_of_http])
def test_every_unsuccessful_http_status_is_classified(translate: Callable[[int], None]) -> None:
    outcomes = {status: outcome(lambda status=status: translate(status))[0] for status in range(300, 600)}  # type: ignore[misc]

    assert {status for status, cls in outcomes.items() if cls is ServiceUnavailableError} == {
        *(408, 425, 429),
        *range(500, 600),
    }
    assert set(outcomes.values()) == {ServiceUnavailableError, RejectedRequestError}


# -- pydantic ---------------------------------------------------------------------------------------------------------

HOSTILE = [
    *("x", "[", "]", "{}", "[]", "null", "true", "-1", "0", "1e400", "NaN", "[NaN]", "[-1]", '["x"]', '{"a": 1}'),
    *('{"name": 1}', "\x00", "\ud800", "9" * 5000, "[" * 5000, '{"a":' * 5000, " ", "1.5", "Ä"),
]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_invalid_setting_error_names_the_setting(name: str) -> None:
    for value in HOSTILE:
        cls, text = outcome(lambda value=value: Settings.from_environment({name.upper(): value}))  # type: ignore[misc]
        assert cls in {None, InvalidSettingsError}, (name, value[:20])
        assert cls is None or name.upper() in text or "must be JSON" in text
        assert len(text) < 300


@pytest.mark.parametrize("field", Message.model_fields)
def test_invalid_message_error_names_the_field(field: str) -> None:
    valid_fields = {
        "schema_version": "1",
        "work_id": '"0190b2a4-7b1c-7000-8000-000000000001"',
        "revision": "1",
        "send_number": "0",
    }
    values = [*HOSTILE, "1.0", '"1"', "9" * 4300, "1e3", '"\\u0000"', '"\\ud800"', '"urn:uuid:0"']
    for value in values:
        fields = valid_fields | {field: value}
        body = "{" + ", ".join(f'"{name}": {text}' for name, text in fields.items()) + "}"
        cls, text = outcome(lambda body=body: read_message(body))  # type: ignore[misc]
        assert cls in {None, InvalidMessageError, UnsupportedSchemaError}, value[:20]
        assert cls is not InvalidMessageError or field in text or "not JSON" in text
        assert len(text) < 200


def test_only_validation_module_catches_pydantic_errors() -> None:
    package = Path(counterfoil.__file__).parent
    modules = {path.name for path in package.rglob("*.py") if re.search(r"\bValidationError\b", path.read_text())}

    assert modules == {"validation.py"}


def test_invalid_value_is_not_quoted_in_error() -> None:
    body = Message(work_id=uuid4(), revision=1, send_number=0).model_dump(mode="json") | {"secret": "hunter2"}
    with pytest.raises(InvalidMessageError) as caught:
        read_message(json.dumps(body))

    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


# -- policy defaults --------------------------------------------------------------------------------------------------


class ForeignError(Exception):
    """An error that no adapter translates."""


def test_unmapped_error_follows_policy_default() -> None:
    documents, tasks = RedeliverPolicy(), RequeuePolicy()

    assert documents.decide(ForeignError(), 1, 1, NOW) == Redeliver(NOW + timedelta(seconds=300))
    assert documents.decide(ForeignError(), 3, 1, NOW) == GiveUp("max_retries_exceeded", to_dead_letter_queue=True)
    assert tasks.decide(ForeignError(), 1, 1, NOW) == GiveUp("non_retriable_error", to_dead_letter_queue=False)


@pytest.mark.parametrize(
    ("unknown_is_transient", "status", "failure_count", "dlq_reasons"),
    [(True, "pending", 1, []), (False, "failed", 0, ["non_retriable_error"])],
)
@pytest.mark.parametrize("error", [ForeignError, SystemExit, MemoryError, RecursionError])
def test_unmapped_error_in_attempt_follows_policy_default(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Callable[..., Message],
    unknown_is_transient: bool,
    status: str,
    failure_count: int,
    dlq_reasons: list[str],
    error: type[BaseException],
) -> None:
    failing, succeeding = pending(), pending()

    def work(attempt: TenantAttempt) -> Succeeded:
        if attempt.work_id == failing.work_id:
            raise error("DE02120300000000202051")
        return Succeeded(lambda connection: Effects())

    consumer = make_consumer(database, work, clock)
    policy = RedeliverPolicy(unknown_is_transient=unknown_is_transient)
    outbox = Outbox(database, {"matching": QUEUE_URL}, clock=clock)
    consumer.settlement = Settlement(consumer.kind, policy, database, outbox, clock)

    response = consumer.handle(event(record(failing), record(succeeding)), Context())

    assert len(response["batchItemFailures"]) == failure_count
    row = life_cycle(admin, failing.work_id)
    assert row["status"] == status
    assert error.__name__ in row["error"]
    assert "DE02" not in row["error"]
    assert [dead_letter["dlq_reason"] for dead_letter in rows(admin, "dead_letter")] == dlq_reasons
    assert life_cycle(admin, succeeding.work_id)["status"] == "succeeded"
