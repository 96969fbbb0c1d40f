"""`http_request`: one call to an address on the internet, and its answer. Off unless HTTP_REQUESTS says otherwise.

The address goes through the guard of webhooks: only what is public, or on HTTP_REQUEST_ALLOWLIST, is called, and no
redirect is followed. A call that got no answer is made again with the task's next try, under the same
`Idempotency-Key`. One that was answered is never made again for what the answer looks like: whatever cannot be kept of
it is left out.
"""

import re
from codecs import getincrementaldecoder
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.egress import LONGEST_URL, Answer, Egress
from counterfoil.errors import CancelledError, InvalidSettingsError, RejectedRequestError
from counterfoil.settings import Settings
from counterfoil.tasks.payloads import MAX_PAYLOAD_BYTES, canonical
from counterfoil.tasks.task_type import Services, TaskType

LONGEST_BODY = 64 * 1024
"""Bytes of an answer that are kept, and characters of what is sent."""
ROOM = MAX_PAYLOAD_BYTES - 4096
"""Bytes of JSON for an answer's body: a control character takes six. The rest is for what stands beside it."""
LONGEST_CONTENT_TYPE = 255
MOST_HEADERS = 32
LEAST_SECONDS = 2.0
"""Of a call: with less than this left of the try, none is made."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]{0,2046}[\x21-\x7e])?|")
_OURS = {
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


def check(payload: HttpRequest, settings: Settings) -> None:
    """Refuse an address that can never be called, as far as it shows before its name is resolved.

    Raises:
        RejectedRequestError: says why, and what to do.
    """
    _refuse(build_egress(settings), payload.url)


def build_egress(settings: Settings) -> Egress:
    """The way to the internet that these tasks have: not that of webhooks, whose inside places are opened to none."""
    return Egress(settings.http_request_allowlist)


def _refuse(egress: Egress, url: str) -> None:
    objection = egress.objection(url)
    if objection is not None:
        raise RejectedRequestError(
            f"The task is wrong at payload.url. {objection}. What can be called are public addresses over https, and "
            "the places that whoever deploys has put on HTTP_REQUEST_ALLOWLIST."
        )


def http_request(attempt: TenantAttempt, payload: HttpRequest, services: Services) -> JsonValue:
    """Make the call: `status`, `content_type` and `body` of the answer, as text, and whether it is `truncated`.

    Raises:
        RejectedRequestError: the address may not be called, or it refuses.
        ServiceUnavailableError: it was away, and may be there later.
        InvalidSettingsError: the deployment has no way to the internet.
        CancelledError: no time is left.
    """
    if services.egress is None:
        raise InvalidSettingsError(
            "WEBHOOKS is not set: functions have no way to the internet. Deploy with -c webhooks=true, then send again."
        )
    _refuse(services.egress, payload.url)
    seconds = attempt.deadline.remaining()
    if seconds < LEAST_SECONDS:
        raise CancelledError("Stopped before the call because the invocation is about to end")
    given = {name.lower(): value for name, value in payload.headers.items()}
    answer = services.egress.call(
        payload.method,
        payload.url,
        None if payload.body is None else payload.body.encode(),
        {"user-agent": "Counterfoil", "idempotency-key": str(attempt.work_id), **given},
        seconds=seconds,
        longest_body=LONGEST_BODY,
    )
    return _kept(answer)


HTTP_REQUEST = TaskType("http_request", HttpRequest, http_request, check=check, enabled_by="http_requests")


def _kept(answer: Answer) -> dict[str, JsonValue]:
    """What is kept of an answer: as much as there is room for, as a text that PostgreSQL can hold."""
    decoder = getincrementaldecoder("utf-8")("replace")
    said = decoder.decode(answer.body, final=not answer.is_cut).replace("\x00", "\ufffd")
    content_type = answer.headers.get("content-type")
    body = _beginning(said, ROOM)
    return {
        "status": answer.status,
        "content_type": None if content_type is None else content_type[:LONGEST_CONTENT_TYPE],
        "body": body,
        "truncated": answer.is_cut or len(body) < len(said),
    }


def _beginning(text: str, room: int) -> str:
    """The longest beginning of a text that takes at most `room` bytes of JSON."""
    fits, too_long = 0, len(text) + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if len(canonical(text[:middle])) <= room:
            fits = middle
        else:
            too_long = middle
    return text[:fits]
