"""Fixtures that call the API with API Gateway events."""

import base64
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import boto3
import pytest
from botocore.config import Config

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.settings import settings
from functions.admin_api import auth, endpoint, handler
from functions.admin_api.emails import EmailStore
from tests.dead_letters.dead_letter_factory import MakeDeadLetter, dead_letter_factory
from tests.delivery.harness import Context, FakeSqs
from tests.factories import NOW
from tests.functions.admin_api.user_pool import PEOPLE, POOL

EVENT = json.loads((Path(__file__).parents[2] / "events" / "admin_api.json").read_text())
BUCKET = "counterfoil-uploads"
CLAIMS = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]
SIGN_IN = {
    "pool": POOL,
    "issuer": CLAIMS["iss"],
    "client": CLAIMS["aud"],
    "audience": ["3programs2with1a0token"],
    "discovery": f"{CLAIMS['iss']}/.well-known/openid-configuration",
    "origins": ["https://cognito-idp.eu-central-1.amazonaws.com"],
}
"""Token issuer that the API trusts."""


def event() -> dict[str, Any]:
    """Return an API Gateway event with a token that is valid for an hour."""
    event: dict[str, Any] = copy.deepcopy(EVENT)
    event["requestContext"]["authorizer"]["jwt"]["claims"]["exp"] = str(int(time()) + 3600)
    return event


@dataclass(frozen=True)
class ApiResponse:
    """Response from the API."""

    status: int
    body: Any
    """Parsed JSON, the text of a file, or the bytes of an image."""
    headers: dict[str, str]
    text: str = ""
    """Body before parsing."""


CallApi = Callable[..., ApiResponse]

_SESSION = """
WITH begun AS (
    INSERT INTO chat_session (id, tenant_id, user_id, created_at, last_number)
    SELECT %(id)s, id, %(user)s, %(now)s, 1 FROM tenant WHERE slug = %(slug)s RETURNING id, tenant_id
)
INSERT INTO chat_message (tenant_id, session_id, number, role, content, job_id, tokens, created_at)
SELECT tenant_id, id, 1, 'user', 'Hello', gen_random_uuid(), 1, %(now)s FROM begun
"""


def begin_session(admin: Connection, slug: str = "acme") -> str:
    """Insert a conversation of the default caller, without a task. Return its id."""
    id_ = str(uuid4())
    user = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
    admin.execute(_SESSION, {"id": id_, "user": user, "now": NOW, "slug": slug})
    return id_


@pytest.fixture
def queue() -> FakeSqs:
    """Fake SQS that records sent messages."""
    return FakeSqs()


@cache
def s3() -> Any:
    """S3 client that only signs URLs. Creating a client takes longer than most tests."""
    return boto3.client(
        "s3",
        region_name="eu-central-1",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="example",
        config=Config(signature_version="s3v4"),
    )


@pytest.fixture
def call_api(api_database_url: str, queue: FakeSqs, monkeypatch: pytest.MonkeyPatch) -> Iterator[CallApi]:
    """`call_api(body, groups=..., ...)` calls the API with a verified token.

    A body of bytes is sent in base64, as the gateway does with a body that is not declared as JSON or text. `claims`
    override the claims of a valid token, and None removes a claim.
    """
    monkeypatch.setattr(aws, "client", lambda service: {"s3": s3(), "sqs": queue, "cognito-idp": PEOPLE}[service])
    monkeypatch.setenv("DATABASE_URL", api_database_url)
    workers = ("acquisition", "tasks", "matching", "diagnostics")
    monkeypatch.setenv("QUEUE_URLS", json.dumps({worker: f"counterfoil-{worker}" for worker in workers}))
    monkeypatch.setenv("UPLOADS_BUCKET", BUCKET)
    monkeypatch.setenv("READS_AT_ONCE", "1000000")  # tests of the read limit set a lower value
    monkeypatch.setenv("OIDC", json.dumps(SIGN_IN))
    settings.cache_clear()
    endpoint.database.cache_clear()
    monkeypatch.setattr(auth, "email_store", EmailStore())

    def call_api(
        body: object,
        *,
        groups: object = "[operator tenant:acme]",
        method: str = "POST",
        path: str = "/api/uploads",
        query: dict[str, str] | None = None,
        subject: str | None = None,
        headers: dict[str, str] | None = None,
        claims: Mapping[str, Any] | None = None,
    ) -> ApiResponse:
        request = event()
        if isinstance(body, bytes):
            request["body"], request["isBase64Encoded"] = base64.b64encode(body).decode(), True
        else:
            request["body"] = body if isinstance(body, str) else json.dumps(body)
        request["rawPath"] = request["requestContext"]["http"]["path"] = path
        request["requestContext"]["http"]["method"] = method
        if query:
            request["rawQueryString"], request["queryStringParameters"] = urlencode(query, errors="replace"), query
        token_claims = request["requestContext"]["authorizer"]["jwt"]["claims"]
        token_claims |= {"cognito:groups": groups} | ({} if subject is None else {"sub": subject}) | dict(claims or {})
        for name in [name for name, value in token_claims.items() if value is None]:
            del token_claims[name]
        request["headers"] |= headers or {}
        response = handler.handle(request, Context())
        text = response["body"]
        if response.get("isBase64Encoded"):  # a file
            content = base64.b64decode(text)
            is_image = response["headers"]["Content-Type"].startswith("image/")
            parsed = content if is_image else content.decode()
            return ApiResponse(
                response["statusCode"], parsed, response["headers"], text if is_image else content.decode()
            )
        return ApiResponse(response["statusCode"], json.loads(text or "null"), response["headers"], text)

    yield call_api
    endpoint.database().close()
    endpoint.database.cache_clear()
    settings.cache_clear()


@pytest.fixture
def acme(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def add_dead_letter(database: Database, acme: UUID) -> MakeDeadLetter:
    """`add_dead_letter(minute=...)` returns the job id of a new dead letter for acme."""
    return dead_letter_factory(database, acme)


@pytest.fixture
def set_status(admin: Connection) -> Callable[[UUID, str], None]:
    """`set_status(job_id, status)` sets the status of a dead letter."""

    def change(job_id: UUID, status: str) -> None:
        admin.execute("UPDATE dead_letter SET status = %s WHERE job_id = %s", [status, job_id])

    return change
