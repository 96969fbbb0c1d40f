"""Pydantic's adapter: what comes from outside is put into its form here, or becomes an error of ours."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from counterfoil.errors import CounterfoilError

M = TypeVar("M", bound=BaseModel)


class Problem(NamedTuple):
    """The first thing that is wrong with a value. Its place may be the sender's text; the rest is pydantic's."""

    place: tuple[int | str, ...]
    """The names and indexes that lead to it; empty for the whole."""
    type: str
    """Pydantic's name of the check that failed, such as `missing` or `json_invalid`."""
    message: str


def validate(form: type[M], value: Any, wrong: Callable[[Problem], CounterfoilError]) -> M:
    """A value in its form.

    Raises:
        CounterfoilError: what `wrong` makes of the first problem.
    """
    return _checked(form.model_validate, value, wrong)


def validate_json(form: type[M], text: str, wrong: Callable[[Problem], CounterfoilError]) -> M:
    """A JSON text in its form. Raises as `validate`."""
    return _checked(form.model_validate_json, text, wrong)


def _checked(check: Callable[[Any], M], value: Any, wrong: Callable[[Problem], CounterfoilError]) -> M:
    try:
        return check(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # Outside of the handler: pydantic's error, in the context of ours, would hold the whole value.
    raise wrong(Problem(first["loc"], first["type"], first["msg"]))
