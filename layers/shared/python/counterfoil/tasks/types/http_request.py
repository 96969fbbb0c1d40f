"""`http_request`: one call to an address on the internet, and its answer. Off unless HTTP_REQUESTS says otherwise.

The address goes through the guard of webhooks: only what is public, or on WEBHOOK_ALLOWLIST, is called, and no redirect
is followed. A call that got no answer is made again with the task's next try, under the same `Idempotency-Key`.
"""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from counterfoil.egress import LONGEST_URL
from counterfoil.errors import CancelledError, InvalidSettingsError, RejectedRequestError
from counterfoil.tasks.registry import TaskContext, task

LONGEST_BODY = 64 * 1024
"""Bytes of an answer, and characters of what is sent."""
MOST_HEADERS = 32
LEAST_SECONDS = 2.0
"""Of a call: with less than this left of the try, none is made."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]{0,2046}[\x21-\x7e])?|")
_OURS = {
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
"""Headers that the call itself is made of."""


def _headers(given: dict[str, str]) -> dict[str, str]:
    if len({name.lower() for name in given}) < len(given):
        raise ValueError("no header may be given twice")
    for name, value in given.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError("a header has a name and a value that HTTP allows, in ASCII")
        if name.lower() in _OURS or name.lower().startswith("proxy-"):
            raise ValueError(f"{name.lower()} cannot be given")
    return given


class HttpRequest(BaseModel):
    """What is to be called."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    url: str = Field(max_length=LONGEST_URL, pattern="^https?://")
    headers: Annotated[dict[str, str], AfterValidator(_headers)] = Field(default={}, max_length=MOST_HEADERS)
    body: str | None = Field(default=None, max_length=LONGEST_BODY)
    """Sent in UTF-8. Its type is what the header `content-type` says."""


@task("http_request", HttpRequest, enabled_by="http_requests")
def http_request(context: TaskContext, payload: HttpRequest) -> JsonValue:
    """Make the call: `status`, `content_type` and `body` of the answer, as text.

    Raises:
        RejectedRequestError: the address may not be called, it refuses, or it answers with too much.
        ServiceUnavailableError: it was away, and may be there later.
        InvalidSettingsError: the deployment has no way to the internet.
        CancelledError: no time is left.
    """
    if context.egress is None:
        raise InvalidSettingsError(
            "WEBHOOKS is not set: functions have no way to the internet. Deploy with -c webhooks=true, then send again."
        )
    objection = context.egress.objection(payload.url)
    if objection is not None:
        raise RejectedRequestError(f"The address may not be called. {objection}.")
    seconds = context.time_left()
    if seconds < LEAST_SECONDS:
        raise CancelledError("Stopped before the call, since the invocation is about to end")
    given = {name.lower(): value for name, value in payload.headers.items()}
    answer = context.egress.call(
        payload.method,
        payload.url,
        None if payload.body is None else payload.body.encode(),
        {"user-agent": "Counterfoil", "idempotency-key": str(context.job_id), **given},
        seconds=seconds,
        longest_body=LONGEST_BODY,
    )
    # A text that PostgreSQL can hold; what is no UTF-8 cannot be told in JSON anyway.
    return {
        "status": answer.status,
        "content_type": answer.headers.get("content-type"),
        "body": answer.body.decode(errors="replace").replace("\x00", "\ufffd"),
    }
