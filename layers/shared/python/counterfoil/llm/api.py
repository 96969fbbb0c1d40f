"""What the providers' APIs over HTTP have in common."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from counterfoil import http
from counterfoil.errors import ContextWindowError
from counterfoil.llm.answers import read
from counterfoil.llm.provider import (
    FixedTemperatureError,
    RefusedQuestionError,
    is_about_the_settings,
    is_about_the_temperature,
    is_too_long,
)

M = TypeVar("M", bound=BaseModel)

_ABOUT_THE_QUESTION = (400, 413, 422)
"""Any other refusal (a key, a bill, an address) would meet every question."""


@dataclass(frozen=True)
class Api:
    """An API over HTTP."""

    url: str
    headers: dict[str, str] = field(repr=False)
    """With the key."""
    connect: float
    read: float
    """Seconds, both; see Settings."""

    def post(self, body: Mapping[str, Any], form: type[M], *, total: float) -> M:
        """One call, and its answer in the API's own form. Raises as `Provider.reply`, and FixedTemperatureError.

        What is None in `body` is left out.
        """
        response = http.send(
            "POST",
            self.url,
            headers=self.headers,
            json={name: value for name, value in body.items() if value is not None},
            connect=min(self.connect, total),
            read=min(self.read, total),
            total=total,
            checked_by=_check,
        )
        return read(response.content.decode(errors="replace"), form)


def _check(response: httpx.Response) -> None:
    if response.status_code in _ABOUT_THE_QUESTION:
        text = response.content.decode(errors="replace")
        message = f"{response.request.url.host} answered with HTTP {response.status_code}"
        if is_too_long(text):
            told = f"{message}: the prompt is longer than the model reads"
            raise ContextWindowError(told)
        if is_about_the_temperature(text):
            raise FixedTemperatureError(message)
        if not is_about_the_settings(text):
            raise RefusedQuestionError(message)
    http.check(response)
