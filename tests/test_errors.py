"""Error classes, and the messages and traceback frames that are shown."""

import json
from types import CodeType, FunctionType
from typing import Any

import pytest

from counterfoil import errors
from counterfoil.errors import InvalidDocumentError, InvalidLlmResponseError, own_frames, safe_message


def test_only_stale_claims_and_deferrals_are_unclassified() -> None:
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
    assert message.startswith("Unexpected ValueError at tests.test_errors:")
    assert "1190" not in message


def test_model_answer_is_quoted_except_in_logs() -> None:
    error = InvalidLlmResponseError("The answer is not valid JSON", preview="Total 1190.00")
    assert safe_message(error) == "The answer is not valid JSON: 'Total 1190.00'"
    assert safe_message(error, for_log=True) == "The answer is not valid JSON"
    assert safe_message(InvalidLlmResponseError("The answer is empty"), for_log=True) == "The answer is empty"


def compile_in_module(name: str, source: str, **variables: Any) -> Any:
    """Compile `source` in a module with this name, and return its only function."""
    code = compile(source, "work.py", "exec")
    (body,) = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return FunctionType(body, {"__name__": name, "__builtins__": __builtins__, **variables})


def frames(function: Any, *arguments: Any) -> str | None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # any
        function(*arguments)
    return own_frames(caught.value)


def test_traceback_lists_own_frames() -> None:
    run_reader = compile_in_module(
        "counterfoil.documents.pdf", "def run(text):\n    return loads(text)", loads=json.loads
    )
    run_work = compile_in_module("functions.ingestion.work", "def run(text):\n\n    return read(text)", read=run_reader)

    assert frames(run_work, "{secret: hunter2") == (
        "functions.ingestion.work:3 in run\ncounterfoil.documents.pdf:2 in run\nJSONDecodeError"
    )


def test_traceback_lists_causes_first() -> None:
    source = """def run(text):
    try:
        int(text)
    except ValueError as error:
        raise Invalid(text, code="damaged_pdf") from error"""
    work = compile_in_module("functions.ingestion.work", source, Invalid=InvalidDocumentError)

    assert frames(work, "hunter2") == (
        "functions.ingestion.work:3 in run\nValueError\n\nfunctions.ingestion.work:5 in run\nInvalidDocumentError"
    )


def test_traceback_omits_third_party_frames() -> None:
    assert frames(json.loads, "{") is None


def test_long_tracebacks_keep_innermost_frames() -> None:
    source = "def run(depth):\n    return run(depth - 1) if depth else 1 / 0"
    work = compile_in_module("functions.tasks.work", source)
    work.__globals__["run"] = work

    traceback = frames(work, 200)

    assert traceback is not None
    assert len(traceback.splitlines()) == 40
    assert traceback.endswith("functions.tasks.work:2 in run\nZeroDivisionError")
