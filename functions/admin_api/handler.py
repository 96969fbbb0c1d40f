"""The HTTP API: requests in, JSON out. The gateway has checked the token before anything comes here."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response, content_types
from aws_lambda_powertools.utilities.typing import LambdaContext

from counterfoil.db import Database
from counterfoil.errors import CounterfoilError, PermanentError, RejectedRequestError, TransientError, sentence
from counterfoil.settings import settings
from functions.admin_api import reviews
from functions.admin_api.caller import Caller
from functions.admin_api.reviews import ConflictError
from functions.admin_api.uploads import ForbiddenError, NotFoundError, admit

RETRY_AFTER_SECONDS = 5

api = APIGatewayHttpResolver()
logger = Logger()


@cache
def database() -> Database:
    """The process's connections: one request at a time needs one."""
    return Database.from_settings(settings(), max_connections=1)


@api.post("/api/uploads")
def create_upload() -> Response[str]:
    """Leave to upload a file: a form to be posted to S3 (201)."""
    bucket = settings().uploads_bucket
    assert bucket is not None  # the row lets files be uploaded, and the stack tells where
    found = admit(_body(), _caller(), database(), bucket, datetime.now(UTC))
    return _json(201, found)


@api.get("/api/admin/reviews")
def list_reviews() -> Response[str]:
    """A page of the documents that are in doubt."""
    return _json(200, reviews.listed(api.current_event.query_string_parameters or {}, _caller(), database()))


@api.get("/api/admin/reviews/<document_id>")
def show_review(document_id: str) -> Response[str]:
    """One document in doubt, with its candidates and their evidence."""
    return _json(200, reviews.shown(document_id, _caller(), database()))


@api.post("/api/admin/reviews/merge")
def merge() -> Response[str]:
    """Two clusters are one."""
    return _json(200, reviews.merge(_body(), _caller(), database(), datetime.now(UTC)))


@api.post("/api/admin/reviews/split")
def split() -> Response[str]:
    """A document does not belong to its cluster."""
    return _json(200, reviews.split(_body(), _caller(), database(), datetime.now(UTC)))


@api.post("/api/admin/reviews/accept")
def accept() -> Response[str]:
    """A difference may be."""
    return _json(200, reviews.say("accepted", _body(), _caller(), database(), datetime.now(UTC)))


@api.post("/api/admin/reviews/dispute")
def dispute() -> Response[str]:
    """A difference may not be."""
    return _json(200, reviews.say("disputed", _body(), _caller(), database(), datetime.now(UTC)))


@api.post("/api/admin/reviews/<document_id>/confirm")
def confirm(document_id: str) -> Response[str]:
    """A document belongs to another one."""
    return _json(200, reviews.confirm(document_id, _body(), _caller(), database(), datetime.now(UTC)))


@api.post("/api/admin/reviews/<document_id>/reject")
def reject(document_id: str) -> Response[str]:
    """A document does not belong to others."""
    return _json(200, reviews.reject(document_id, _body(), _caller(), database(), datetime.now(UTC)))


def handle(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return api.resolve(event, context)


def _caller() -> Caller:
    authorizer = api.current_event.request_context.authorizer
    return Caller.of((authorizer.jwt_claim if authorizer else None) or {})


def _body() -> str:
    """What was sent; empty where it is no text. The gateway encodes what is not declared as JSON or text (base64)."""
    try:
        return api.current_event.decoded_body or ""
    except ValueError:
        return ""


def _json(status: int, body: Any, **headers: str) -> Response[str]:
    return Response(status, content_types.APPLICATION_JSON, json.dumps(body, default=str), headers=headers)


def _told(status: int) -> Callable[[CounterfoilError], Response[str]]:
    def tell(error: CounterfoilError) -> Response[str]:
        logger.info("refused", status=status, error=sentence(error, for_log=True))
        return _json(status, {"error": sentence(error)})

    return tell


def _later(error: TransientError) -> Response[str]:
    logger.warning("unavailable", error=sentence(error, for_log=True))
    return _json(
        503, {"error": "This cannot be answered just now; ask again."}, **{"Retry-After": str(RETRY_AFTER_SECONDS)}
    )


def _broken(error: PermanentError) -> Response[str]:
    logger.error("failed", error=sentence(error, for_log=True))
    return _json(500, {"error": "This failed on our side."})


# The nearest class of an error decides.
api.exception_handler(ForbiddenError)(_told(403))
api.exception_handler(NotFoundError)(_told(404))
api.exception_handler(ConflictError)(_told(409))
api.exception_handler(RejectedRequestError)(_told(400))
api.exception_handler(TransientError)(_later)
api.exception_handler(PermanentError)(_broken)
