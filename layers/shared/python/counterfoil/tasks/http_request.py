"""`http_request` tasks: one call to a URL on the internet, and its response.

This type is disabled unless HTTP_REQUEST_TASKS_ENABLED is set. The same egress rules apply as for webhooks: only public
addresses and those on HTTP_REQUEST_ALLOWLIST are called, and redirects are not followed. A call that fails temporarily
is repeated by the task's next attempt, with the same `Idempotency-Key`. A successful call is never repeated: parts of
the response that cannot be stored are omitted.
"""

import re
from codecs import getincrementaldecoder
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.egress import MAX_URL_CHARS, Egress, EgressResponse
from counterfoil.errors import CancelledError, InvalidSettingsError, RejectedRequestError
from counterfoil.settings import Settings
from counterfoil.tasks.payloads import MAX_PAYLOAD_BYTES, to_canonical_json
from counterfoil.tasks.task_type import Services, TaskType

MAX_BODY_BYTES = 64 * 1024
"""Maximum bytes of a stored response body, and maximum characters of a request body."""
MAX_RESULT_BYTES = MAX_PAYLOAD_BYTES - 4096
"""Maximum bytes of JSON for the response body, which encodes a control character as six bytes. The remaining 4096 bytes
are reserved for the other fields."""
MAX_CONTENT_TYPE_CHARS = 255
MAX_HEADERS = 32
MIN_SECONDS_LEFT = 2.0
"""Minimum seconds left in an attempt to make the call."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]{0,2046}[\x21-\x7e])?|")
_CLIENT_HEADERS = {
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",  # codespell:ignore te
    "trailer",
    "transfer-encoding",
    "upgrade",
}
"""Headers that callers cannot set, because the HTTP client sets them."""


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("each header must occur only once")
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError("header names and values must contain only ASCII characters that HTTP allows")
        if name.lower() in _CLIENT_HEADERS or name.lower().startswith("proxy-"):
            raise ValueError(f"the header {name.lower()} cannot be set")
    return headers


class HttpRequest(BaseModel):
    """Payload of a task: the call to make."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    url: str = Field(max_length=MAX_URL_CHARS, pattern="^https?://")
    headers: Annotated[dict[str, str], AfterValidator(_check_headers)] = Field(default={}, max_length=MAX_HEADERS)
    body: str | None = Field(default=None, max_length=MAX_BODY_BYTES)
    """Body, encoded as UTF-8. The caller sets the header `content-type`."""


def check(payload: HttpRequest, settings: Settings) -> None:
    """Reject a URL that can never be called. The host name is not resolved.

    Raises:
        RejectedRequestError: the URL is not permitted. The message states the reason and a remedy.
    """
    _check_address(build_egress(settings), payload.url)


def build_egress(settings: Settings) -> Egress:
    """Return the client for these tasks.

    Its allowlist differs from the allowlist for webhooks.
    """
    return Egress(settings.http_request_allowlist)


def _check_address(egress: Egress, url: str) -> None:
    reason = egress.rejection_reason(url)
    if reason is not None:
        raise RejectedRequestError(
            f"payload.url is not permitted. {reason}. Use a public HTTPS address, or one on the deployment's "
            "HTTP_REQUEST_ALLOWLIST."
        )


def http_request(attempt: TenantAttempt, payload: HttpRequest, services: Services) -> JsonValue:
    """Make the call.

    Returns `status`, `content_type`, `body` as text, and the flag `truncated`.

    Raises:
        RejectedRequestError: the address is not permitted, or the server rejected the call.
        ServiceUnavailableError: the server is temporarily unavailable.
        InvalidSettingsError: the deployment has no internet access.
        CancelledError: too little time is left.
    """
    if services.egress is None:
        raise InvalidSettingsError(
            "WEBHOOKS_ENABLED is not set, so functions have no internet access. "
            "Deploy with -c enableWebhooks=true, then retry."
        )
    _check_address(services.egress, payload.url)
    seconds = attempt.deadline.remaining()
    if seconds < MIN_SECONDS_LEFT:
        raise CancelledError("Stopped before the call because the invocation is about to end")
    headers = {name.lower(): value for name, value in payload.headers.items()}
    response = services.egress.call(
        payload.method,
        payload.url,
        None if payload.body is None else payload.body.encode(),
        {"user-agent": "Counterfoil", "idempotency-key": str(attempt.work_id), **headers},
        seconds=seconds,
        max_body_bytes=MAX_BODY_BYTES,
    )
    return _to_result(response)


HTTP_REQUEST = TaskType("http_request", HttpRequest, http_request, check=check, enabled_by="http_request_tasks_enabled")


def _to_result(response: EgressResponse) -> dict[str, JsonValue]:
    """Return the fields of a response to store.

    The body is truncated, and contains no NUL.
    """
    decoder = getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(response.body, final=not response.is_truncated).replace("\x00", "\ufffd")
    content_type = response.headers.get("content-type")
    body = _truncate(text, MAX_RESULT_BYTES)
    return {
        "status": response.status,
        "content_type": None if content_type is None else content_type[:MAX_CONTENT_TYPE_CHARS],
        "body": body,
        "truncated": response.is_truncated or len(body) < len(text),
    }


def _truncate(text: str, max_bytes: int) -> str:
    """Return the longest prefix of a text that takes at most `max_bytes` as JSON."""
    low, high = 0, len(text) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if len(to_canonical_json(text[:middle])) <= max_bytes:
            low = middle
        else:
            high = middle
    return text[:low]
