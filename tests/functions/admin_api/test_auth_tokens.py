"""What a token says is checked again in the function, in whatever form the gateway hands it on."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from counterfoil.settings import SignIn
from functions.admin_api import auth
from functions.admin_api.auth import LEEWAY_SECONDS, Caller, Role, UnauthorizedError
from tests.functions.admin_api.conftest import CLAIMS, EVENT, SIGN_IN, Ask

POOL = SignIn.model_validate(SIGN_IN)
ELSEWHERE = POOL.model_copy(update={"issuer": "https://login.example.com/acme"})
NOW = datetime(2026, 11, 22, 5, tzinfo=UTC)
AT = int(NOW.timestamp())


def taken(sign_in: SignIn | None = POOL, now: datetime = NOW, **told: Any) -> Mapping[str, Any] | str:
    """The claims that the function goes by, or why there are none; a claim of None is not there."""
    said = {name: value for name, value in (CLAIMS | told).items() if value is not None}
    try:
        found = auth.verified(request(said), sign_in, now)
    except UnauthorizedError as error:
        return str(error)
    known: Mapping[str, Any] = found["requestContext"]["authorizer"]["jwt"]["claims"]
    return known


def request(said: Mapping[str, Any] | None, token: str = EVENT["headers"]["authorization"]) -> dict[str, Any]:
    authorizer = {} if said is None else {"authorizer": {"jwt": {"claims": said, "scopes": None}}}
    return dict(EVENT) | {"headers": {"Authorization": token}, "requestContext": authorizer}


def test_a_sound_token_of_each_client_is_taken() -> None:
    assert taken() == CLAIMS
    assert taken(aud=POOL.audience[0]) == CLAIMS | {"aud": POOL.audience[0]}


@pytest.mark.parametrize(
    ("told", "why"),
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
        ({"aud": "somebody"}, "Token audience mismatch."),
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
def test_a_token_that_is_not_ours_or_not_of_now_is_not_taken(told: dict[str, Any], why: str) -> None:
    assert taken(**told) == why


@pytest.mark.parametrize(
    "told",
    [
        {"exp": str(AT - LEEWAY_SECONDS + 1)},
        {"exp": "1.7953272e+09"},
        {"exp": "1795327200.5"},
        {"exp": 1795327200},
        {"exp": 1795327200.0},
        {"nbf": str(AT + LEEWAY_SECONDS), "iat": str(AT)},
        {"nbf": "0"},
        {"aud": f"[somebody {POOL.client}]"},
        {"aud": ["somebody", POOL.client]},
    ],
)
def test_clocks_may_differ_a_little_and_forms_are_those_of_gateways(told: dict[str, Any]) -> None:
    assert taken(**told) == CLAIMS | told


@pytest.mark.parametrize("end", [str(AT + 3600), "1.8e9", [AT + 3600], True, None, {}])
def test_end_in_the_token_must_be_a_number(end: object) -> None:
    # The gateway passes numbers and texts on in the same form.
    claimed = CLAIMS | {"exp": str(AT + 3600)}
    with pytest.raises(UnauthorizedError, match="exp must be a number"):
        auth.verified(request(claimed, token({"exp": end})), POOL, NOW)


@pytest.mark.parametrize("end", [AT + 3600, AT + 3600.5])
def test_end_in_the_token_may_be_any_number(end: float) -> None:
    claimed = CLAIMS | {"exp": str(AT + 3600)}
    assert auth.verified(request(claimed, token({"exp": end})), POOL, NOW)


def test_another_issuer_need_not_say_what_a_token_is_for() -> None:
    assert taken(ELSEWHERE, iss=ELSEWHERE.issuer, token_use=None) != "The token is not an ID token."
    assert taken(ELSEWHERE, iss=ELSEWHERE.issuer, token_use="access") == "The token is not an ID token."


def test_without_claims_or_without_an_issuer_nobody_gets_in() -> None:
    for said in (None, dict[str, Any]()):
        with pytest.raises(UnauthorizedError, match="There is no token"):
            auth.verified(request(said), POOL, NOW)
    assert taken(None) == "This deployment has no token issuer."


# Lists, which the gateway writes as a text


def token(said: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
    return f"Bearer eyJhbGciOiJSUzI1NiJ9.{payload}.c2ln"


def caller(text: str, in_token: str) -> Caller:
    event = request(CLAIMS | {"cognito:groups": text}, in_token)
    return Caller.of(auth.verified(event, POOL, NOW)["requestContext"]["authorizer"]["jwt"]["claims"])


def test_a_group_with_a_blank_in_its_name_is_one_group() -> None:
    groups = ["x admin", "tenant:a tenant:*", "viewer"]

    known = caller("[x admin tenant:a tenant:* viewer]", token({"cognito:groups": groups}))

    assert (known.role, known.tenants) == (Role.VIEWER, frozenset({"a tenant:*"}))


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
def test_where_the_header_says_another_thing_the_gateway_s_text_counts(in_token: str) -> None:
    known = caller("[operator tenant:acme]", in_token)

    assert (known.role, known.tenants) == (Role.OPERATOR, frozenset({"acme"}))


def test_an_audience_with_a_blank_in_its_name_is_one_audience() -> None:
    audience = [f"x {POOL.client}"]
    event = request(CLAIMS | {"aud": f"[{audience[0]}]"}, token({"aud": audience}))

    with pytest.raises(UnauthorizedError, match="audience mismatch"):
        auth.verified(event, POOL, NOW)


# Over HTTP


def test_who_is_not_let_in_is_told_so_as_a_problem(ask: Ask) -> None:
    refused = ask("{", claims={"aud": "somebody"})

    assert (refused.status, refused.headers["Content-Type"]) == (401, "application/problem+json")
    assert refused.body == {
        "type": "about:blank",
        "title": "Unauthorized",
        "status": 401,
        "detail": "Token audience mismatch.",
    }
    assert refused.headers["WWW-Authenticate"] == (
        'Bearer error="invalid_token", error_description="Token audience mismatch."'
    )


def test_nothing_is_answered_before_the_token_is_looked_at(ask: Ask) -> None:
    for method, path in (("GET", "/api/openapi.json"), ("GET", "/api/nothing"), ("PUT", "/api/tasks"), ("GET", "/api")):
        assert ask("", method=method, path=path, claims={"exp": "0"}).status == 401, path
