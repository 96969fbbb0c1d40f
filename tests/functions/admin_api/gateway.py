"""WSGI application that passes requests to the function, like API Gateway."""

import base64
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl

from functions.admin_api import handler
from tests.delivery.harness import Context
from tests.functions.admin_api import conftest

TOKEN = "Bearer valid"
GROUPS = "[operator tenant:acme]"
_TEXTUAL = ("application/json", "text/", "application/xml", "application/javascript")


def gateway(
    environ: dict[str, Any], start_response: Callable[..., Any], *, groups: str = GROUPS, subject: str | None = None
) -> Iterable[bytes]:
    """Call the function as a caller in `groups`.

    Return 401 if the token is not valid.
    """
    if environ.get("HTTP_AUTHORIZATION") != TOKEN:
        start_response("401 Unauthorized", [("Content-Type", "application/json")])
        return [b'{"message":"Unauthorized"}']
    response = handler.handle(_event(environ, groups, subject), Context())
    text = response["body"] or ""
    body = base64.b64decode(text) if response.get("isBase64Encoded") else text.encode()
    headers = [*response["headers"].items(), ("Content-Length", str(len(body)))]
    start_response(f"{response['statusCode']} -", headers)
    return [body]


def _event(environ: dict[str, Any], groups: str, subject: str | None) -> dict[str, Any]:
    event = conftest.event()
    # WSGI decodes the bytes of a path as Latin-1.
    path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
    event["rawPath"] = event["requestContext"]["http"]["path"] = path
    event["requestContext"]["http"]["method"] = environ["REQUEST_METHOD"]
    claims = event["requestContext"]["authorizer"]["jwt"]["claims"]
    claims |= {"cognito:groups": groups} | ({} if subject is None else {"sub": subject})
    event["rawQueryString"] = environ.get("QUERY_STRING", "")
    parameters: dict[str, list[str]] = {}
    for name, value in parse_qsl(event["rawQueryString"], keep_blank_values=True):
        parameters.setdefault(name, []).append(value)
    if parameters:
        event["queryStringParameters"] = {name: ",".join(values) for name, values in parameters.items()}
    event["headers"] = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_") or (name == "CONTENT_TYPE" and value)
    }
    content = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    event |= _body(content, event["headers"].get("content-type", ""))
    return event


def _body(content: bytes, declared: str) -> dict[str, Any]:
    """Return the event's body fields: declared text unchanged, the rest in base64.

    Declared text that is not valid UTF-8 is in base64 too. An empty body is None.
    """
    if not content:
        return {"body": None, "isBase64Encoded": False}
    try:
        if declared.startswith(_TEXTUAL):
            return {"body": content.decode(), "isBase64Encoded": False}
    except UnicodeDecodeError:
        pass
    return {"body": base64.b64encode(content).decode(), "isBase64Encoded": True}
