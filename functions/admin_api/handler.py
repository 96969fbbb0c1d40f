"""The HTTP API: requests in, JSON out, and the console. Nothing but the console is answered without a token."""

import json
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response, content_types
from aws_lambda_powertools.utilities.typing import LambdaContext

from counterfoil.settings import settings
from functions.admin_api import refusals
from functions.admin_api.api import chat, mail, offers, operations, queues, reviews, users
from functions.admin_api.claims import UnauthorizedError, checked
from functions.admin_api.console import ROUTES, console
from functions.admin_api.description import described, methods
from functions.admin_api.etags import conditional
from functions.admin_api.problems import responses
from functions.admin_api.request import UnreadableError, read_json, readable
from functions.admin_api.routes import (
    dead_letters,
    documents,
    erasing,
    exporting,
    letter_changes,
    lookup,
    tasks,
    uploads,
)
from functions.admin_api.routes.common import DESCRIPTION, Routes, count_reads

api = APIGatewayHttpResolver(
    enable_validation=True,
    response_validation_error_http_code=500,
    json_body_deserializer=read_json,
    serializer=partial(json.dumps, separators=(",", ":"), ensure_ascii=False),  # Lambda bounds the bytes of an answer
)

api.use(middlewares=[count_reads])


about = Routes()


@about.get(
    DESCRIPTION,
    summary="This document",
    tags=["about"],
    responses=responses({200: (dict[str, Any], "OpenAPI 3.1.")}, 422),
)
def openapi() -> Response[dict[str, Any]]:
    """What can be asked, and what is answered."""
    return Response(200, content_types.APPLICATION_JSON, document())


ROOMS = (
    *(uploads, tasks, chat, reviews, dead_letters, letter_changes, exporting, queues, operations, documents),
    *(users, offers, lookup, mail, erasing),
)
for routes in (about, *(room.routes for room in ROOMS)):
    api.include_router(routes)


_YEAR = 365 * 24 * 60 * 60
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": f"max-age={_YEAR}",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every answer of the API, where its route says nothing else: it is for whoever asked, and no page."""


def handle(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request. By its route, not its path: what comes without a token never comes to the API."""
    if event["routeKey"] in ROUTES:
        return console().answer(event, settings())
    try:
        asked = readable(checked(event, settings().sign_in, datetime.now(UTC)))
        answer = conditional(asked, api.resolve(asked, context))
    except UnauthorizedError as error:
        answer = _plain(refusals.unauthorized(error))
    except UnreadableError as error:
        answer = _plain(refusals.refused(error.status, error))
    body = answer["body"] or ""  # the local gateway fails over none, as of 204 and 304
    return {**answer, "headers": {**_HEADERS, **answer["headers"]}, "body": body}


def _plain(refused: Response[str]) -> dict[str, Any]:
    return {"statusCode": refused.status_code, "headers": refused.headers, "body": refused.body}


@cache
def document() -> dict[str, Any]:
    """The description of the API, OpenAPI 3.1."""
    return described(api)


forms = [
    form for room in (uploads, tasks, reviews, letter_changes, queues, operations, users, mail) for form in room.FORMS
]
refusals.register(api, forms, lambda: methods(document(), api.current_event))
