"""From a model's words to the form that was asked for. Pure."""

import re
from typing import TypeVar

from pydantic import BaseModel

from counterfoil.errors import InvalidAnswerError
from counterfoil.validation import Problem, validate_json

M = TypeVar("M", bound=BaseModel)

PREVIEW = 200
"""Characters of an answer that its error quotes."""

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)```", re.DOTALL | re.IGNORECASE)

_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
"""A character beyond U+FFFF in two halves; U+0000 or half a character, which PostgreSQL cannot hold; any other."""


def read(text: str, form: type[M]) -> M:
    """An answer in its form. A fenced block is taken out of the talk around it.

    Characters that PostgreSQL cannot hold become U+FFFD: a page may ask a model for them, and its document would never
    be stored.

    Raises:
        InvalidAnswerError: the answer is empty, not valid JSON, or fails schema validation. The message quotes its
            first PREVIEW characters.
    """
    stripped = _storable(text).strip()
    if not stripped:
        raise InvalidAnswerError("The answer is empty")
    fenced = None if stripped.startswith(("{", "[")) else _FENCED.search(stripped)

    def wrong(problem: Problem) -> InvalidAnswerError:
        fails = "is not valid JSON" if problem.type == "json_invalid" else f"failed schema validation ({problem.type})"
        return InvalidAnswerError(f"The answer {fails}", preview=preview(stripped))

    return validate_json(form, fenced.group(1) if fenced else stripped, wrong)


def words(text: str) -> str:
    """An answer that is asked for in no form: what the model said, as it is. Characters as in `read`.

    Raises:
        InvalidAnswerError: the answer is empty.
    """
    said = _characters(text).strip()
    if not said:
        raise InvalidAnswerError("The answer is empty")
    return said


def _characters(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def _storable(text: str) -> str:
    return _ESCAPES.sub(lambda found: "\\ufffd" if found[1] else found[0], _characters(text))


def preview(text: str) -> str:
    """The beginning of a text in one line, without what cannot be seen and without the quotation mark around it."""
    seen = "".join(character if character.isprintable() else " " for character in text[:PREVIEW])
    return seen.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")
