"""The function repeats the gateway's verification of a token's claims."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from counterfoil.settings import OidcSettings
from functions.admin_api import auth
from functions.admin_api.auth import LEEWAY_SECONDS, Caller, Role, UnauthorizedError
from tests.functions.admin_api.conftest import CLAIMS, EVENT, SIGN_IN, CallApi

POOL = OidcSettings.model_validate(SIGN_IN)
OTHER_ISSUER = POOL.model_copy(update={"issuer": "https://login.example.com/acme"})
NOW = datetime(2026, 11, 22, 5, tzinfo=UTC)
AT = int(NOW.timestamp())


def verify(sign_in: OidcSettings | None = POOL, now: datetime = NOW, **overrides: Any) -> Mapping[str, Any] | str:
    """Return the accepted claims, or the error message. None removes a claim."""
    claims = {name: value for name, value in (CLAIMS | overrides).items() if value is not None}
    try:
        event = auth.verify_token(request(claims), sign_in, now)
    except UnauthorizedError as error:
        return str(error)
    accepted: Mapping[str, Any] = event["requestContext"]["authorizer"]["jwt"]["claims"]
    return accepted


def request(claims: Mapping[str, Any] | None, token: str = EVENT["headers"]["authorization"]) -> dict[str, Any]:
    authorizer = {} if claims is None else {"authorizer": {"jwt": {"claims": claims, "scopes": None}}}
    return dict(EVENT) | {"headers": {"Authorization": token}, "requestContext": authorizer}


def test_valid_token_of_each_client_is_accepted() -> None:
    assert verify() == CLAIMS
    assert verify(aud=POOL.audience[0]) == CLAIMS | {"aud": POOL.audience[0]}


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"iss": None}, "Token issuer mismatch."),
        ({"iss": ""}, "Token issuer mismatch."),
        ({"iss": f"{POOL.issuer}/"}, "Token issuer mismatch."),
        (
            {"iss": "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Other"},
            "Token issuer mismatch.",
        ),
        ({"iss": [POOL.issuer]}, "Token issuer mismatch."),
        ({"aud": None}, "Token audience mismatch."),
        ({"aud": ""}, "Token audience mismatch."),
        ({"aud": "another-client"}, "Token audience mismatch."),
        ({"aud": f"{POOL.client} "}, "Token audience mismatch."),
        ({"aud": "[]"}, "Token audience mismatch."),
        ({"aud": {POOL.client: True}}, "Token audience mismatch."),
        ({"aud": None, "client_id": POOL.client}, "Token audience mismatch."),
        ({"token_use": None}, "The token is not an ID token."),
        ({"token_use": "access"}, "The token is not an ID token."),
        ({"token_use": "refresh"}, "The token is not an ID token."),
        ({"token_use": "ID"}, "The token is not an ID token."),
        ({"exp": None}, "The token has expired."),
        ({"exp": ""}, "The token has expired."),
        ({"exp": "never"}, "The token has expired."),
        ({"exp": "inf"}, "The token has expired."),
        ({"exp": float("inf")}, "The token has expired."),
        ({"exp": float("nan")}, "The token has expired."),
        ({"exp": "1e999"}, "The token has expired."),
        ({"exp": "-1"}, "The token has expired."),
        ({"exp": True}, "The token has expired."),
        ({"exp": "\u0661" * 10}, "The token has expired."),
        ({"exp": [AT + 60]}, "The token has expired."),
        ({"exp": str(AT - LEEWAY_SECONDS)}, "The token has expired."),
        ({"nbf": str(AT + LEEWAY_SECONDS + 1)}, "The token is not valid yet."),
        ({"nbf": "soon"}, "The token is not valid yet."),
        ({"nbf": ""}, "The token is not valid yet."),
        ({"iat": str(AT + LEEWAY_SECONDS + 1)}, "The token is not valid yet."),
    ],
)
def test_token_with_invalid_claims_is_rejected(overrides: dict[str, Any], reason: str) -> None:
    assert verify(**overrides) == reason


@pytest.mark.parametrize(
    "overrides",
    [
        {"exp": str(AT - LEEWAY_SECONDS + 1)},
        {"exp": "1.7953272e+09"},
        {"exp": "1795327200.5"},
        {"exp": 1795327200},
        {"exp": 1795327200.0},
        {"nbf": str(AT + LEEWAY_SECONDS), "iat": str(AT)},
        {"nbf": "0"},
        {"aud": f"[another-client {POOL.client}]"},
        {"aud": ["another-client", POOL.client]},
    ],
)
def test_clock_skew_and_gateway_formats_are_accepted(overrides: dict[str, Any]) -> None:
    assert verify(**overrides) == CLAIMS | overrides


@pytest.mark.parametrize("expiry", [str(AT + 3600), "1.8e9", [AT + 3600], True, None, {}])
def test_expiry_in_token_must_be_a_number(expiry: object) -> None:
    # The gateway passes every claim as a string, so the type is read from the token.
    claimed = CLAIMS | {"exp": str(AT + 3600)}
    with pytest.raises(UnauthorizedError, match="exp must be a number"):
        auth.verify_token(request(claimed, token({"exp": expiry})), POOL, NOW)


@pytest.mark.parametrize("expiry", [AT + 3600, AT + 3600.5])
def test_expiry_in_token_may_be_fractional(expiry: float) -> None:
    claimed = CLAIMS | {"exp": str(AT + 3600)}
    assert auth.verify_token(request(claimed, token({"exp": expiry})), POOL, NOW)


def test_other_issuers_may_omit_token_use() -> None:
    claims = {name: value for name, value in CLAIMS.items() if name != "token_use"}
    assert verify(OTHER_ISSUER, iss=OTHER_ISSUER.issuer, token_use=None) == claims | {"iss": OTHER_ISSUER.issuer}
    assert verify(OTHER_ISSUER, iss=OTHER_ISSUER.issuer, token_use="access") == "The token is not an ID token."


def test_request_without_claims_or_issuer_is_unauthorized() -> None:
    for claims in (None, dict[str, Any]()):
        with pytest.raises(UnauthorizedError, match="The request has no token"):
            auth.verify_token(request(claims), POOL, NOW)
    assert verify(None) == "This deployment has no token issuer."


# Lists, which the gateway passes as text


def token(claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"Bearer eyJhbGciOiJSUzI1NiJ9.{payload}.c2ln"


def caller(text: str, in_token: str) -> Caller:
    event = request(CLAIMS | {"cognito:groups": text}, in_token)
    return Caller.from_claims(auth.verify_token(event, POOL, NOW)["requestContext"]["authorizer"]["jwt"]["claims"])


def test_group_name_with_space_is_one_group() -> None:
    groups = ["x admin", "tenant:a tenant:*", "viewer"]

    parsed = caller("[x admin tenant:a tenant:* viewer]", token({"cognito:groups": groups}))

    assert (parsed.role, parsed.tenants) == (Role.VIEWER, frozenset({"a tenant:*"}))


@pytest.mark.parametrize(
    "in_token",
    [
        token({"cognito:groups": ["admin", "tenant:*"]}),
        token({"cognito:groups": "operator tenant:acme"}),
        token({}),
        token([]),
        token(None),
        "Bearer",
        "Bearer a.b",
        "Bearer a.!.c",
        "Bearer a.gA.c",
        "",
    ],
)
def test_gateway_groups_override_a_conflicting_header(in_token: str) -> None:
    parsed = caller("[operator tenant:acme]", in_token)

    assert (parsed.role, parsed.tenants) == (Role.OPERATOR, frozenset({"acme"}))


def test_audience_with_space_is_one_audience() -> None:
    audience = [f"x {POOL.client}"]
    event = request(CLAIMS | {"aud": f"[{audience[0]}]"}, token({"aud": audience}))

    with pytest.raises(UnauthorizedError, match="audience mismatch"):
        auth.verify_token(event, POOL, NOW)


# Over HTTP


def test_rejected_token_returns_problem_details(call_api: CallApi) -> None:
    response = call_api("{", claims={"aud": "another-client"})

    assert (response.status, response.headers["Content-Type"]) == (401, "application/problem+json")
    assert response.body == {
        "type": "about:blank",
        "title": "Unauthorized",
        "status": 401,
        "detail": "Token audience mismatch.",
    }
    assert response.headers["WWW-Authenticate"] == (
        'Bearer error="invalid_token", error_description="Token audience mismatch."'
    )


def test_token_is_verified_before_routing(call_api: CallApi) -> None:
    for method, path in (("GET", "/api/openapi.json"), ("GET", "/api/nothing"), ("PUT", "/api/tasks"), ("GET", "/api")):
        assert call_api("", method=method, path=path, claims={"exp": "0"}).status == 401, path
