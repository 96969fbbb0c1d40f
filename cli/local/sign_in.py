"""Sign people in to the local cloud, and cache their tokens in its folder."""

import hashlib
import hmac
import json
import re
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import httpx

from cli.failures import CloudError
from cli.local.cloud import Cloud
from cli.local.console import ALL_TENANTS, make_person
from cli.logins import MIN_SECONDS_LEFT, Claims, write_private

HOST = "cli.counterfoil.example"
"""Domain of the email addresses of people that commands create."""
_NO_LOCAL_PART = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True)
class Session:
    """A signed-in person."""

    subject: str
    """The person's subject in ID tokens."""
    token: str
    expires_at: float
    """Seconds since the epoch."""

    @classmethod
    def of(cls, token: str) -> "Session":
        """Create the session for a new ID token."""
        claims = Claims.of(token)
        return cls(claims.sub, token, claims.exp)


class LocalSignIn(httpx.Auth):
    """Authenticates with the local cloud as an admin of all tenants.

    The admin is created on first use. Until the token expires, it is cached in the cloud's folder, in a file that only
    its owner can read.
    """

    def __init__(self, cloud: Cloud, name: str) -> None:
        self._cloud, self._name = cloud, name

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the request with a cached token, and sign in again if it is rejected."""
        cached = self._sessions.get(self._name)
        is_valid = cached is not None and cached.expires_at - time.time() > MIN_SECONDS_LEFT
        session = cached if cached is not None and is_valid else self._sign_in()
        request.headers["Authorization"] = f"Bearer {session.token}"
        response = yield request
        if response.status_code == 401 and is_valid:  # the emulator was restarted with other keys
            request.headers["Authorization"] = f"Bearer {self._sign_in().token}"
            yield request

    def name_of(self, subject: str) -> str | None:
        """Return the name of a person signed in by a command; None for other actors."""
        return next((name for name, session in self._sessions.items() if session.subject == subject), None)

    def _sign_in(self) -> Session:
        email = address_of(self._name)
        # The password is derived, so that concurrent commands do not change each other's password.
        digest = hmac.new(self._cloud.state.emulator.secret.encode(), email.encode(), hashlib.sha256).hexdigest()
        person = make_person(self._cloud, email, ["admin", f"tenant:{ALL_TENANTS}"], password=f"Aa1!{digest}")
        response = self._cloud.client("cognito-idp").admin_initiate_auth(
            UserPoolId=self._cloud.outputs["UserPoolId"],
            ClientId=self._cloud.outputs["UserPoolClientId"],
            AuthFlow="ADMIN_USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": person.email, "PASSWORD": person.password},
        )
        session = Session.of(response["AuthenticationResult"]["IdToken"])
        self._sessions[self._name] = session
        self._save_sessions()
        return session

    @cached_property
    def _sessions(self) -> dict[str, Session]:
        with suppress(OSError, ValueError, TypeError, AttributeError):
            stored: dict[str, Any] = json.loads(self._cloud.paths.sessions.read_text())
            return {name: Session(**session) for name, session in stored.items()}
        return {}

    def _save_sessions(self) -> None:
        path = self._cloud.paths.sessions
        try:
            write_private(path, json.dumps({name: asdict(session) for name, session in self._sessions.items()}))
        except OSError as error:
            raise CloudError(f"The local cloud cannot use {path.parent}: {error.strerror or error}.") from None


def address_of(name: str) -> str:
    """Return a distinct email address for each name."""
    local_part = _NO_LOCAL_PART.sub("-", name.lower()).strip(".-")[:40]
    suffix = "" if local_part == name else f".{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"{local_part or 'user'}{suffix}@{HOST}"
