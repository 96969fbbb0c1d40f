"""`counterfoil login` and `logout`: sign in to a deployment with the browser.

OAuth 2.0 authorization code flow with PKCE (RFC 7636) and a loopback redirect (RFC 8252).
"""

import base64
import hashlib
import secrets
import selectors
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import Annotated, Any, TextIO, TypeVar
from urllib.parse import parse_qs

import httpx
import typer
from pydantic import BaseModel, ValidationError

from cli.client import TIMEOUT_SECONDS, URL_VARIABLE, UnavailableError, is_private, normalize_url
from cli.failures import CommandError, UsageError
from cli.logins import Claims, IssuerRejectedError, Login, Logins, edit_logins, error_code, post, request_tokens
from cli.output import stderr, stdout

PORTS = (18400, 18401, 18402)
"""Local ports for the redirect. `infra/api.py` registers them, because an issuer compares the complete URL."""
SCOPES = ("openid", "email")
WAIT_SECONDS = 300
_IDLE_SECONDS = 1
"""Timeout for connections that browsers open but do not use."""
_PAGE = b"""<!doctype html><html lang="en"><title>Counterfoil</title>
<p>Return to the command line. You can close this page.</p></html>"""
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Length": str(len(_PAGE)),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}
M = TypeVar("M", bound=BaseModel)
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar=URL_VARIABLE,
        help="URL of the deployment's API or console.",
        show_default="the last login's URL",
    ),
]


class _SignIn(BaseModel):
    issuer: str
    client: str
    discovery: str


class _Config(BaseModel):
    sign_in: _SignIn | None


class _Issuer(BaseModel):
    """OpenID Connect discovery document."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    revocation_endpoint: str | None = None
    scopes_supported: list[str] = []


class Listener(TCPServer):
    """Loopback server that receives one redirect from the browser."""

    allow_reuse_address = True
    timeout = 0

    def __init__(self, port: int) -> None:
        """Listen on a port of the loopback address.

        Raises:
            OSError: the port is in use.
        """
        super().__init__(("127.0.0.1", port), _Callback)
        self.redirect = f"http://localhost:{port}/callback"
        self.query: str | None = None

    def wait(self, seconds: float, pasted: TextIO, clock: Callable[[], float] = time.monotonic) -> str:
        """Return the redirect's query, from the browser or an address in `pasted`.

        Raises:
            CommandError: no redirect arrived within `seconds`.
        """
        deadline = clock() + seconds
        with selectors.SelectSelector() as ready:
            ready.register(self, selectors.EVENT_READ)
            with suppress(ValueError):  # `pasted` is closed or has no file descriptor
                ready.register(pasted, selectors.EVENT_READ)
            while self.query is None:
                remaining = deadline - clock()
                if remaining <= 0:
                    limit = "1 second" if seconds == 1 else f"{seconds:g} seconds"
                    raise CommandError(f"The sign-in took more than {limit}. Run 'counterfoil login' again.")
                for key, _ in ready.select(remaining):
                    if key.fileobj is self:
                        self.handle_request()
                    elif line := pasted.readline():
                        self._paste(line)
                    else:
                        ready.unregister(pasted)
        return self.query

    def _paste(self, line: str) -> None:
        query = line.strip().partition("?")[2].partition("#")[0]
        if query:
            self.query = query
        elif line.strip():
            stderr().print(f"Paste the complete address. It starts with {self.redirect}?")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that the browser closes early."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Callback(BaseHTTPRequestHandler):
    timeout = _IDLE_SECONDS
    server: Listener

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path != "/callback" or self.server.query is not None:
            self.send_error(404)
            return
        self.server.query = query
        self.send_response(200)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(_PAGE)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        """Log nothing, because the address contains the code."""


def login(
    *,
    url: Url = None,
    browse: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    wait: Annotated[
        float, typer.Option(min=1, help="Maximum number of seconds to wait for the sign-in.")
    ] = WAIT_SECONDS,
) -> None:
    """Sign in to a deployment with the browser.

    Commands then use this deployment until `counterfoil logout`. If this machine has no browser, open the printed
    address on another machine, and paste the address that its browser shows after the sign-in.
    """
    base_url = _choose_url(url)
    if base_url is None:
        raise UsageError("--url is required: counterfoil login --url https://counterfoil.example.com")
    with edit_logins():
        pass  # fail before the sign-in if logins cannot be stored
    client, issuer = _discover(base_url)
    with _open_listener() as listener:
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
        sign_in = _sign_in_address(issuer, client, listener.redirect, state, verifier)
        stderr().print(f"Sign in with the browser:\n\n{sign_in}\n", soft_wrap=True)
        stderr().print("If the browser cannot reach this machine, paste the address that it shows after the sign-in.")
        if browse:
            threading.Thread(
                target=webbrowser.open, args=(sign_in,), daemon=True
            ).start()  # some browsers block the call
        query = listener.wait(wait, sys.stdin)
    form = {"grant_type": "authorization_code", "client_id": client, "code": _code(query, state)}
    try:
        tokens = request_tokens(
            issuer.token_endpoint, form | {"redirect_uri": listener.redirect, "code_verifier": verifier}
        )
    except IssuerRejectedError as error:
        raise CommandError(f"{error} The code may have expired: run 'counterfoil login' again.") from None
    with edit_logins() as logins:
        logins.by_url[base_url] = Login(
            **tokens.model_dump(),
            client=client,
            token_endpoint=issuer.token_endpoint,
            revocation_endpoint=issuer.revocation_endpoint,
        )
        logins.default = base_url
    claims = Claims.of(tokens.id_token)
    stdout().print(f"Signed in to {base_url} as {claims.email or claims.sub}.", soft_wrap=True)


def logout(*, url: Url = None) -> None:
    """Revoke and delete a stored login.

    The current ID token stays valid for up to an hour. The browser stays signed in.
    """
    base_url = _choose_url(url)
    if base_url is None or base_url not in Logins.read().by_url:
        stdout().print(
            "You are not signed in." if base_url is None else f"You are not signed in to {base_url}.", soft_wrap=True
        )
        return
    with edit_logins() as logins:
        removed = logins.by_url.pop(base_url, None)
        if logins.default == base_url:
            logins.default = None
    if others := ", ".join(logins.by_url):
        stderr().print(f"Other logins: {others}. To use one, set {URL_VARIABLE}.", soft_wrap=True)
    if removed is None or removed.refresh_token is None or removed.revocation_endpoint is None:
        stdout().print(f"Deleted the login to {base_url}. It had no token to revoke.", soft_wrap=True)
        return
    try:
        post(removed.revocation_endpoint, {"token": removed.refresh_token, "client_id": removed.client})
    except CommandError as error:
        raise CommandError(
            f"Deleted the login to {base_url}, but could not revoke its refresh token. {error}"
        ) from None
    stdout().print(f"Deleted the login to {base_url}, and revoked its refresh token.", soft_wrap=True)


def _choose_url(url: str | None) -> str | None:
    return Logins.read().default if url is None else normalize_url(url, "--url")


def _discover(url: str) -> tuple[str, _Issuer]:
    """Return the deployment's OAuth client id and its issuer."""
    sign_in = _fetch(f"{url}/console/config.json", _Config, "a Counterfoil deployment").sign_in
    if sign_in is None:
        raise UsageError(f"The deployment at {url} has no user sign-in.")
    issuer = _fetch(sign_in.discovery, _Issuer, "an OpenID Connect issuer")
    endpoints = (issuer.authorization_endpoint, issuer.token_endpoint, issuer.revocation_endpoint)
    if issuer.issuer != sign_in.issuer or not all(
        is_private(endpoint) for endpoint in endpoints if endpoint is not None
    ):
        raise CommandError(
            f"The discovery document of {sign_in.issuer} contains another issuer, or endpoints without https."
        )
    return sign_in.client, issuer


def _fetch(address: str, model: type[M], owner: str) -> M:
    try:
        response = httpx.get(address, headers={"Accept": "application/json"}, timeout=TIMEOUT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnavailableError(f"{address} cannot be reached: {type(error).__name__}.") from None
    if response.is_server_error:
        raise UnavailableError(f"{address} returned status {response.status_code}.")
    try:
        return model.model_validate_json(response.content)
    except ValidationError:
        raise UsageError(f"{address} does not belong to {owner} ({response.status_code}).") from None


def _open_listener() -> Listener:
    for port in PORTS:
        try:
            return Listener(port)
        except OSError as error:
            reason = error.strerror
    raise CommandError(f"One of the local ports {', '.join(map(str, PORTS))} must be free: {reason}.")


def _sign_in_address(issuer: _Issuer, client: str, redirect: str, state: str, verifier: str) -> str:
    offline = ("offline_access",) if "offline_access" in issuer.scopes_supported else ()
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    query = {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": redirect,
        "scope": " ".join((*SCOPES, *offline)),
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return str(httpx.URL(issuer.authorization_endpoint).copy_merge_params(query))


def _code(query: str, state: str) -> str:
    """Return the authorization code from a redirect's query.

    Raises:
        CommandError: the sign-in failed, or the redirect belongs to another sign-in.
    """
    parameters = {name: values[0] for name, values in parse_qs(query).items()}
    if parameters.get("error") == "access_denied":
        raise CommandError("The sign-in was denied or canceled.")
    if "error" in parameters:
        raise CommandError(f"The issuer rejected the sign-in: {error_code(parameters['error'])}.")
    if parameters.get("state") != state or "code" not in parameters:
        raise CommandError("The redirect belongs to another sign-in. Run 'counterfoil login' again.")
    return parameters["code"]
