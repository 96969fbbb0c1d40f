"""The claims of a token, checked once more behind the gateway: what it lets through by mistake opens nothing.

Issuer, audience and times are checked as the gateway does. It does not ask for an end (`exp`), and does not care what a
token is for: here it has to end, and to say who somebody is (an ID token). Access tokens of Cognito, which are for its
own API and name us in `client_id`, open nothing. The signature is the gateway's: nobody else may call the function.
"""

import base64
import json
import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from counterfoil.errors import RejectedRequestError
from counterfoil.settings import SignIn

LEEWAY_SECONDS = 60
"""By which clocks may differ."""
GROUPS = "cognito:groups"
_COGNITO = re.compile(r"https://cognito-idp\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?/")
"""Issuers whose every token has a `token_use`."""
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE]\+?[0-9]{1,2})?")

_PARTS = 3
"""Of a token: its header, what it says, its signature."""


class UnauthorizedError(RejectedRequestError):
    """The request comes with no token that is taken."""


def checked(event: Mapping[str, Any], sign_in: SignIn | None, now: datetime) -> dict[str, Any]:
    """The same request of the gateway with its claims checked, lists of names among them as lists.

    Raises:
        UnauthorizedError: it has none, or they are not those of a token that is taken.
    """
    context = event["requestContext"]
    authorizer = context.get("authorizer") or {}
    claims = (authorizer.get("jwt") or {}).get("claims") or {}
    if not claims:
        raise UnauthorizedError("There is no token.")
    if sign_in is None:
        raise UnauthorizedError("This deployment does not say whose tokens it takes.")
    payload = _payload(event)
    if isinstance(payload.get("exp", 0), bool) or not isinstance(payload.get("exp", 0), int | float):
        raise UnauthorizedError("exp must be a number in the token.")
    claims = {**claims, **_lists(payload, claims)}
    _check(claims, sign_in, now.timestamp())
    return {**event, "requestContext": {**context, "authorizer": {**authorizer, "jwt": {"claims": claims}}}}


def names(claim: object) -> frozenset[str]:
    """The names in a list. The gateway hands lists on as a text in square brackets, with a blank between two names.

    Any other text is one name, whatever is in it: who may name a group must not be able to name a role with it.
    """
    if isinstance(claim, str):
        claim = claim[1:-1].split(" ") if _is_list(claim) else [claim]
    return frozenset(map(str, claim)) if isinstance(claim, list) else frozenset()


def _is_list(text: str) -> bool:
    return text.startswith("[") and text.endswith("]")


def _check(claims: Mapping[str, Any], sign_in: SignIn, now: float) -> None:
    if claims.get("iss") != sign_in.issuer:
        raise UnauthorizedError("The token is of another issuer.")
    if not names(claims.get("aud")) & {sign_in.client, *sign_in.audience}:
        raise UnauthorizedError("The token is made out to somebody else.")
    if claims.get("token_use", None if _COGNITO.match(sign_in.issuer) else "id") != "id":
        raise UnauthorizedError("The token is no ID token.")
    ends = _seconds(claims.get("exp"))
    if ends is None or now >= ends + LEEWAY_SECONDS:
        raise UnauthorizedError("The token has expired.")
    for name in ("nbf", "iat"):
        begins = _seconds(claims[name]) if name in claims else 0
        if begins is None or now < begins - LEEWAY_SECONDS:
            raise UnauthorizedError("The token is not valid yet.")


def _seconds(claim: object) -> float | None:
    """A time of a token, since 1970. The gateway hands numbers on as text, large ones maybe as 1.7e+09."""
    if isinstance(claim, str):
        return float(claim) if _NUMBER.fullmatch(claim) else None
    if isinstance(claim, bool) or not isinstance(claim, int | float):
        return None
    return float(claim) if math.isfinite(claim) else None


def _lists(payload: Mapping[str, Any], claims: Mapping[str, Any]) -> dict[str, list[str]]:
    """The lists of names as the token has them, where the gateway's text says the same.

    In that text a name with a blank looks like two: of an issuer whose groups may be called anything, the group "x
    admin" would make an admin. The token that the gateway has checked is still in its header.
    """
    found: dict[str, list[str]] = {}
    for name in (GROUPS, "aud"):
        listed = payload.get(name)
        if isinstance(listed, list) and claims.get(name) == f"[{' '.join(map(str, listed))}]":
            found[name] = [str(one) for one in listed]
    return found


def _payload(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the token of the request says; nothing where it cannot be read."""
    headers = {name.lower(): text for name, text in (event.get("headers") or {}).items()}
    parts = headers.get("authorization", "").split(".")
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "==")) if len(parts) == _PARTS else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
