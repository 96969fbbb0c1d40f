"""Every foreign error that an adapter maps, and the class it becomes."""

import psycopg
import pytest
from botocore import exceptions as botocore
from psycopg import errors as pg
from psycopg_pool import PoolTimeout

from counterfoil import aws, db, errors
from counterfoil.errors import (
    ConflictError,
    DatabaseUnavailableError,
    InvalidAnswerError,
    InvalidDocumentError,
    RejectedRequestError,
    RejectedStatementError,
    ServiceUnavailableError,
    sentence,
)

POSTGRES = {
    pg.DeadlockDetected: ConflictError,
    pg.SerializationFailure: ConflictError,
    pg.LockNotAvailable: ConflictError,
    pg.AdminShutdown: DatabaseUnavailableError,
    pg.CrashShutdown: DatabaseUnavailableError,
    pg.CannotConnectNow: DatabaseUnavailableError,
    pg.ReadOnlySqlTransaction: DatabaseUnavailableError,
    pg.TooManyConnections: DatabaseUnavailableError,
    pg.ConnectionFailure: DatabaseUnavailableError,
    pg.IdleInTransactionSessionTimeout: DatabaseUnavailableError,
    psycopg.OperationalError: DatabaseUnavailableError,
    psycopg.InterfaceError: DatabaseUnavailableError,
    PoolTimeout: DatabaseUnavailableError,
    pg.UniqueViolation: RejectedStatementError,
    pg.ForeignKeyViolation: RejectedStatementError,
    pg.CheckViolation: RejectedStatementError,
    pg.InsufficientPrivilege: RejectedStatementError,
    pg.InvalidTextRepresentation: RejectedStatementError,
    pg.UndefinedTable: RejectedStatementError,
    psycopg.DataError: RejectedStatementError,
    psycopg.ProgrammingError: RejectedStatementError,
}


@pytest.mark.parametrize(("foreign", "ours"), POSTGRES.items())
def test_postgres_errors(foreign: type[psycopg.Error], ours: type[Exception]) -> None:
    assert type(db.mapped(foreign("DETAIL: Key (iban)=(DE02) already exists"))) is ours
    assert "DE02" not in str(db.mapped(foreign("DETAIL: Key (iban)=(DE02) already exists")))


def answered(code: str, status: int) -> botocore.ClientError:
    return botocore.ClientError(
        {"Error": {"Code": code, "Message": "secret"}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "GetObject",
    )


AWS = [
    (answered("ThrottlingException", 400), ServiceUnavailableError),
    (answered("SlowDown", 503), ServiceUnavailableError),
    (answered("InternalError", 500), ServiceUnavailableError),
    (answered("RequestTimeout", 408), ServiceUnavailableError),
    (answered("TooEarly", 425), ServiceUnavailableError),
    (answered("TooMany", 429), ServiceUnavailableError),
    (answered("NoSuchKey", 404), RejectedRequestError),
    (answered("AccessDenied", 403), RejectedRequestError),
    (answered("ValidationError", 400), RejectedRequestError),
    (botocore.EndpointConnectionError(endpoint_url="http://x"), ServiceUnavailableError),
    (botocore.ConnectTimeoutError(endpoint_url="http://x"), ServiceUnavailableError),
    (botocore.ReadTimeoutError(endpoint_url="http://x"), ServiceUnavailableError),
    (botocore.ConnectionClosedError(endpoint_url="http://x"), ServiceUnavailableError),
    (botocore.ResponseStreamingError(error="x"), ServiceUnavailableError),
    (botocore.IncompleteReadError(actual_bytes=1, expected_bytes=2), ServiceUnavailableError),
    (botocore.ParamValidationError(report="secret"), RejectedRequestError),
]


@pytest.mark.parametrize(("foreign", "ours"), AWS, ids=lambda value: getattr(value, "__name__", str(value))[:40])
def test_aws_errors(foreign: botocore.BotoCoreError, ours: type[Exception]) -> None:
    with pytest.raises(ours) as caught, aws.errors_mapped():
        raise foreign
    assert "secret" not in str(caught.value)


def test_every_error_of_the_tree_says_whether_a_retry_can_help() -> None:
    classes = [thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, Exception)]
    undecided = {
        cls.__name__
        for cls in classes
        if not issubclass(cls, errors.TransientError | errors.PermanentError) and cls is not errors.CounterfoilError
    }
    assert undecided == {"StaleClaimError", "DeferredError", "BreakerOpenError"}


def test_our_sentence_is_told_and_a_foreign_message_is_not() -> None:
    assert sentence(InvalidDocumentError("The file is empty.")) == "The file is empty."
    try:
        int("Total 1190.00")
    except ValueError as error:
        told = sentence(error)
    assert told.startswith("Unexpected ValueError at tests.counterfoil.test_errors:")
    assert "1190" not in told


def test_a_model_s_answer_is_quoted_to_its_tenant_and_not_in_a_log() -> None:
    error = InvalidAnswerError("The answer is not valid JSON", preview="Total 1190.00")
    assert sentence(error) == "The answer is not valid JSON: 'Total 1190.00'"
    assert sentence(error, for_log=True) == "The answer is not valid JSON"
    assert sentence(InvalidAnswerError("The answer is empty"), for_log=True) == "The answer is empty"
