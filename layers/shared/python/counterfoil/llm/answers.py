"""From a model's words to the form that was asked for. Pure."""

import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from counterfoil.errors import InvalidAnswerError

M = TypeVar("M", bound=BaseModel)

PREVIEW = 200
"""Characters of an answer that its error quotes."""

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)```", re.DOTALL | re.IGNORECASE)


def read(text: str, form: type[M]) -> M:
    """An answer in its form. A fenced block is taken out of the talk around it.

    Raises:
        InvalidAnswerError: the answer is empty, not valid JSON, or fails schema validation. The message quotes its
            first PREVIEW characters.
    """
    stripped = text.strip()
    if not stripped:
        raise InvalidAnswerError("The answer is empty")
    fenced = None if stripped.startswith(("{", "[")) else _FENCED.search(stripped)
    try:
        return form.model_validate_json(fenced.group(1) if fenced else stripped)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # Outside of the handler: pydantic's error, in the context of ours, would hold all of the answer.
    if problem["type"] == "json_invalid":
        raise InvalidAnswerError("The answer is not valid JSON", preview=preview(stripped))
    message = f"The answer failed schema validation ({problem['type']})"
    raise InvalidAnswerError(message, preview=preview(stripped))


def preview(text: str) -> str:
    """The beginning of a text in one line, without what cannot be seen and without the quotation mark around it."""
    seen = "".join(character if character.isprintable() else " " for character in text[:PREVIEW])
    return seen.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")
