"""Tokens that are not sound, sent to the gateway itself: it opens no route to them, and nothing is done."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from cli.local.cloud import Cloud
from cli.local.console import Person, make_person
from cli.local.tenants import Tenant
from counterfoil.db import Connection
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

PATIENCE = 60
"""Seconds for an answer: the first one waits for a process to start."""
GONE = str(uuid4())
Names = Mapping[str, Any]
Make = Callable[[Names, Names, str], str]
"""Makes a token of a sound one's header, claims and text."""


def requests(slug: str) -> list[tuple[str, str, Any]]:
    """Method, path and body: looking and changing, sound but for the token."""
    return [
        ("GET", "/api/openapi.json", None),
        ("GET", f"/api/tasks?tenant={slug}", None),
        ("GET", f"/api/admin/dlq?tenant={slug}", None),
        ("GET", f"/api/admin/dlq/export?format=csv&tenant={slug}", None),
        ("GET", "/api/admin/queues/paused", None),
        ("POST", "/api/tasks", {"tenant": slug, "task_type": "echo", "payload": {}}),
        ("POST", "/api/uploads", {"tenant": slug, "file_name": "a.xml"}),
        ("POST", "/api/admin/dlq/bulk-ignore", {"filter": {"tenant": slug}, "reason": "A trial"}),
        ("PATCH", f"/api/admin/dlq/{GONE}/payload", {"payload": {}}),
        ("DELETE", f"/api/admin/dlq/purge?tenant={slug}&before_date=2020-01-01T00:00:00Z&status=ignored", None),
    ]


@pytest.fixture
def admin_of_all(cloud: Cloud) -> Person:
    """Somebody who may do everything."""
    return make_person(cloud, f"{uuid4().hex}@example.com", ["admin", "tenant:*"])


def token_of(cloud: Cloud, person: Person) -> str:
    answer = cloud.client("cognito-idp").admin_initiate_auth(
        UserPoolId=cloud.outputs["UserPoolId"],
        ClientId=cloud.outputs["UserPoolClientId"],
        AuthFlow="ADMIN_USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": person.email, "PASSWORD": person.password},
    )
    return str(answer["AuthenticationResult"]["IdToken"])


def statuses(cloud: Cloud, slug: str, token: str) -> dict[tuple[str, str], int]:
    """How each request is answered under a token."""
    headers = {"Authorization": f"Bearer {token}", "If-Match": '"1"'}
    with httpx.Client(base_url=cloud.api_url, headers=headers, timeout=PATIENCE) as client:
        return {
            (method, path): client.request(method, path, json=body).status_code for method, path, body in requests(slug)
        }


def made(admin: Connection, tenant: Tenant) -> object:
    """What there would be of the requests."""
    counts = (
        "SELECT (SELECT count(*) FROM task WHERE tenant_id = %(id)s),"
        " (SELECT count(*) FROM operation WHERE tenant_id = %(id)s),"
        " (SELECT count(*) FROM audit_entry WHERE tenant_id = %(id)s)"
    )
    return admin.execute(counts, {"id": tenant.id}).fetchone()


def encoded(part: Names | bytes) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def decoded(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=="))


def signed(header: Names, claims: Names, sign: Callable[[bytes], bytes]) -> str:
    told = f"{encoded(header)}.{encoded(claims)}"
    return f"{told}.{encoded(sign(told.encode()))}"


STRANGER = rsa.generate_private_key(65537, 2048)
MODULUS = STRANGER.public_key().public_numbers().n.to_bytes(256)


def by_stranger(text: bytes) -> bytes:
    return STRANGER.sign(text, padding.PKCS1v15(), hashes.SHA256())


def without_signature(_: bytes) -> bytes:
    return b""


def by_secret(text: bytes) -> bytes:
    return hmac.digest(b"secret", text, hashlib.sha256)


FORGED: dict[str, Make] = {
    "signed by another key": lambda header, claims, _: signed(header, claims, by_stranger),
    "signed by another key under another name": lambda header, claims, _: signed(
        {**header, "kid": "ours"}, claims, by_stranger
    ),
    "signed by a key that it brings along": lambda header, claims, _: signed(
        {**header, "jwk": {"kty": "RSA", "n": encoded(MODULUS), "e": "AQAB"}},
        claims,
        by_stranger,
    ),
    "of alg none": lambda _, claims, __: signed({"alg": "none", "typ": "JWT"}, claims, without_signature),
    "of alg none with the key's name": lambda header, claims, _: signed(
        {**header, "alg": "none"}, claims, without_signature
    ),
    "of alg none with a sound one's signature": lambda header, claims, sound: (
        f"{encoded({**header, 'alg': 'none'})}.{encoded(claims)}.{sound.rpartition('.')[2]}"
    ),
    "signed with a secret": lambda header, claims, _: signed({**header, "alg": "HS256"}, claims, by_secret),
    "said for longer than it was signed for": lambda header, claims, sound: (
        f"{encoded(header)}.{encoded({**claims, 'exp': claims['exp'] + 3600})}.{sound.rpartition('.')[2]}"
    ),
    "cut off": lambda _, __, sound: sound.rpartition(".")[0],
    "none at all": lambda _, __, ___: "x",
}


def test_forged_tokens_open_nothing(cloud: Cloud, admin: Connection, tenant: Tenant, admin_of_all: Person) -> None:
    sound = token_of(cloud, admin_of_all)
    header, claims = (decoded(part) for part in sound.split(".")[:2])
    before = made(admin, tenant)

    opened = {
        (forged, *request): status
        for forged, make in FORGED.items()
        for request, status in statuses(cloud, tenant.slug, make(header, claims, sound)).items()
        if status != 401
    }

    assert opened == {}
    assert made(admin, tenant) == before
    allowed = statuses(cloud, tenant.slug, sound)  # the requests are those of somebody who may
    assert {status for (_, path), status in allowed.items() if GONE not in path} <= {200, 201, 202}, allowed
    assert [status for (_, path), status in allowed.items() if GONE in path] == [404]
    assert made(admin, tenant) != before


@pytest.fixture
def short_lived(cloud: Cloud) -> Iterator[None]:
    """Tokens that hold for some seconds; after the test for an hour, as before."""
    client = {"UserPoolId": cloud.outputs["UserPoolId"], "ClientId": cloud.outputs["UserPoolClientId"]}
    validity = partial(
        cloud.client("cognito-idp").update_user_pool_client, **client, TokenValidityUnits={"IdToken": "seconds"}
    )
    validity(IdTokenValidity=5)
    yield
    validity(IdTokenValidity=60 * 60)


@pytest.mark.usefixtures("short_lived")
def test_a_sound_token_opens_nothing_once_it_has_expired(
    cloud: Cloud, admin: Connection, tenant: Tenant, admin_of_all: Person
) -> None:
    token = token_of(cloud, admin_of_all)
    url, headers = f"{cloud.api_url}/api/admin/queues/paused", {"Authorization": f"Bearer {token}"}
    before = made(admin, tenant)

    def status() -> int:
        return httpx.get(url, headers=headers, timeout=PATIENCE).status_code

    assert status() == 200
    until(lambda: status() == 401)
    assert set(statuses(cloud, tenant.slug, token).values()) == {401}
    assert made(admin, tenant) == before
