"""Error classes: whether a retry can help, and which messages are shown."""

from counterfoil import errors
from counterfoil.errors import (
    InvalidDocumentError,
    InvalidLlmResponseError,
    safe_message,
)


def test_every_error_is_transient_or_permanent() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    unclassified = {
        cls.__name__
        for cls in classes
        if not issubclass(cls, errors.TransientError | errors.PermanentError) and cls is not errors.CounterfoilError
    }
    assert unclassified == {"StaleClaimError", "DeferredError", "BreakerOpenError"}


def test_only_own_error_messages_are_shown() -> None:
    assert safe_message(InvalidDocumentError("The file is empty.", code="damaged_pdf")) == "The file is empty."
    try:
        int("Total 1190.00")
    except ValueError as error:
        message = safe_message(error)
    assert message.startswith("Unexpected ValueError at tests.counterfoil.test_errors:")
    assert "1190" not in message


def test_model_answer_is_quoted_except_in_logs() -> None:
    error = InvalidLlmResponseError("The answer is not valid JSON", preview="Total 1190.00")
    assert safe_message(error) == "The answer is not valid JSON: 'Total 1190.00'"
    assert safe_message(error, for_log=True) == "The answer is not valid JSON"
    assert safe_message(InvalidLlmResponseError("The answer is empty"), for_log=True) == "The answer is empty"
