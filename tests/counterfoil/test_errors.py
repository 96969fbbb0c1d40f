"""The tree of errors: what each says about another try, and what may be told of it."""

from counterfoil import errors
from counterfoil.errors import (
    InvalidAnswerError,
    InvalidDocumentError,
    sentence,
)


def test_every_error_of_the_tree_says_whether_a_retry_can_help() -> None:
    classes = [thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, Exception)]
    undecided = {
        cls.__name__
        for cls in classes
        if not issubclass(cls, errors.TransientError | errors.PermanentError) and cls is not errors.CounterfoilError
    }
    assert undecided == {"StaleClaimError", "DeferredError", "BreakerOpenError"}


def test_our_sentence_is_told_and_a_foreign_message_is_not() -> None:
    assert sentence(InvalidDocumentError("The file is empty.", code="damaged_pdf")) == "The file is empty."
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
