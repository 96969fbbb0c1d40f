"""Client for the HTTP API of the local cloud or of a deployment on AWS.

`COUNTERFOIL_URL` selects a deployment, and `COUNTERFOIL_TOKEN` contains an ID token from its issuer. If only the URL is
set, commands use the stored login for the URL. If neither is set, they use the last login (`counterfoil login`). If
there is no login, they sign in to the local cloud (`cli.local.sign_in`) as an admin of all tenants.
"""

import getpass
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import httpx
import typer

from cli import ids
from cli.failures import CommandError, UsageError

URL_VARIABLE, TOKEN_VARIABLE = "COUNTERFOIL_URL", "COUNTERFOIL_TOKEN"  # names of environment variables
TIMEOUT_SECONDS = 60.0
"""Request timeout. The local cloud's first response is the slowest, because it waits for a process to start."""
UNAVAILABLE_RETRY_SECONDS = 300.0
"""Maximum time that a waiting command retries while the API is unavailable."""
PAGE_SIZE = 100
"""Maximum number of items per page."""
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
DEFAULT_USER = "counterfoil"
"""User name for commands without `--by`, if the operating system does not know the user's name."""
UNASSIGNED = "-"
"""Slug that stands for dead letters without a tenant."""
PROBLEM = "application/problem+json"
MAX_NAME_CHARS, MAX_REASON_CHARS = 254, 2000
"""Maximum lengths in the audit trail, in characters."""
Kind = Literal["dead_letter", "operation", "group", "task", "document"]
T = TypeVar("T")
Query = Mapping[str, Any]


class ForbiddenError(UsageError):
    """The caller lacks a permission."""


class RateLimitedError(UsageError):
    """The rate limit is exceeded."""


class UnavailableError(CommandError):
    """The API is temporarily unavailable."""


class BearerAuth(httpx.Auth):
    """Authenticates requests with a token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token to the request."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


@dataclass(frozen=True)
class Api:
    """Client for one deployment's API, signed in as one user."""

    client: httpx.Client
    local_name_of: Callable[[str], str | None] = lambda _subject: None
    """Returns the name that a person used to sign in to the local cloud; None for other actors."""
    emails: dict[str, str | None] = field(default_factory=dict)
    """Known email addresses by subject; None for workers and for people whose address is unknown."""

    def name_of(self, actor: str) -> str:
        """Return a person's name or email address, or a worker's name.

        Raises the same errors as `send`.
        """
        name = self.local_name_of(actor) if actor else ""
        if name is not None:
            return name
        if actor not in self.emails:
            response = self.send("GET", "/api/admin/people/emails", query={"subject": actor})
            self.emails[actor] = read(response, "emails")["emails"].get(actor)
        return self.emails[actor] or actor

    def send(
        self, method: str, path: str, *, query: Query | None = None, body: object = None, expected_version: int = -1
    ) -> httpx.Response:
        """Send a request and return its response.

        A non-negative `expected_version` is sent as `If-Match`.

        Raises:
            UsageError: the API rejects the request; the message states the reason.
            CommandError: the API is unavailable.
        """
        params = {name: _query_value(value) for name, value in (query or {}).items() if value is not None}
        headers = {} if expected_version < 0 else {"If-Match": f'"{expected_version}"'}
        try:
            response = self.client.request(method, path, params=params, json=body, headers=headers)
        except httpx.TimeoutException:
            raise UnavailableError(
                "The API timed out. The change may have been applied; check before retrying."
            ) from None
        except httpx.HTTPError as error:
            raise UnavailableError(f"The API cannot be reached: {type(error).__name__}.") from None
        _raise_for_status(response)
        return response

    def pages(self, path: str, name: str, *, limit: int | None = None, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield pages whose `name` fields have up to `limit` items in total.

        Raises like `send`.
        """
        cursor, remaining = None, limit
        while remaining is None or remaining > 0:
            parameters = {
                **query,
                "limit": PAGE_SIZE if remaining is None else min(remaining, PAGE_SIZE),
                "cursor": cursor,
            }
            page = read(self.send("GET", path, query=parameters), name, "next_cursor")
            yield page
            cursor = page["next_cursor"]
            if cursor is None:
                return
            remaining = None if remaining is None else remaining - len(page[name])

    def items(self, path: str, name: str, *, limit: int | None = None, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield up to `limit` items from the `name` field of each page.

        Raises the same errors as `send`.
        """
        for page in self.pages(path, name, limit=limit, **query):
            yield from page[name]

    def latest(
        self, path: str, name: str, key: str, slugs: Iterable[str], *, limit: int, **query: Any
    ) -> list[dict[str, Any]]:
        """Return the `limit` items with the latest `key` across tenants, newest first.

        Each item gets a `tenant` field. Raises the same errors as `send`.
        """
        items = [
            {"tenant": slug, **item}
            for slug in slugs
            for item in self.items(path, name, limit=limit, tenant=slug, **query)
        ]
        return sorted(items, key=lambda item: str(item[key]), reverse=True)[:limit]

    def tenants(self, slug: str | None, *, unassigned: bool = False) -> list[str]:
        """Return the given slug, or the slugs of all visible tenants.

        If `unassigned` is set, also return `-` if the caller may see unassigned dead letters.
        """
        if slug is not None:
            return [slug]
        pages = list(self.pages("/api/admin/tenants", "tenants"))
        slugs = [tenant["slug"] for page in pages for tenant in page["tenants"]]
        return [*slugs, UNASSIGNED] if unassigned and pages[0]["unassigned"] else slugs

    def single_tenant(self, slug: str | None) -> str:
        """Return the given slug, or the slug of the only visible tenant.

        Raises:
            UsageError: no slug is given, and there is not exactly one visible tenant.
        """
        slugs = self.tenants(slug)
        if not slugs:
            raise UsageError("No tenant exists. To add one: counterfoil tenants add acme")
        if len(slugs) > 1:
            names = ", ".join(slugs[:10]) + (", ..." if len(slugs) > 10 else "")
            raise UsageError(f"Choose a tenant with --tenant: {names}")
        return slugs[0]

    def find_by_id_suffix(self, kind: Kind, text: str, list_: str) -> str:
        """Return the full id for an id or its last characters.

        A group is found by the beginning of its fingerprint. `list_` is the command that lists valid ids.

        Raises:
            UsageError: no id matches, or several do.
        """
        part = text.strip().lower()
        if ids.FULL_ID.fullmatch(part) and kind != "group":
            return part
        matches = []
        if ids.PARTIAL_ID.fullmatch(part):
            response = self.send("GET", "/api/admin/dlq/lookup", query={"kind": kind, "part": part})
            matches = read(response, "found")["found"]
        if len(matches) != 1:
            name = kind.replace("_", " ")
            criterion = "fingerprint begins" if kind == "group" else "id ends"
            count = "No" if not matches else "More than one"
            raise UsageError(f"{count} {name} {criterion} with '{text}'. Run 'counterfoil {list_}' for a list.")
        return str(matches[0]["id"])


def connect(context: typer.Context, by: str | None = None) -> Api:
    """Return the API for a command.

    In the local cloud, sign in as `by` or as the operating system's user.

    Raises:
        CloudError: the local cloud is not running.
        UsageError: the deployment settings in the environment are invalid, incomplete, or contradict an option.
    """
    url, local = os.environ.get(URL_VARIABLE), context.obj
    if url is not None and local is not None:
        raise UsageError(f"{URL_VARIABLE} and --local (or COUNTERFOIL_LOCAL) are mutually exclusive.")
    deployment = _deployment(url) if local is None else None
    if deployment is None:
        from cli.local.cloud import Cloud  # slow to import
        from cli.local.paths import cloud_paths
        from cli.local.sign_in import LocalSignIn

        cloud = Cloud.at(cloud_paths(local))
        auth = LocalSignIn(cloud, by or _user_or_default())
        client = httpx.Client(base_url=cloud.api_url, auth=auth, timeout=TIMEOUT_SECONDS)
        return Api(context.with_resource(client), auth.name_of)
    source = context.get_parameter_source("by")
    if source is not None and source.name == "COMMANDLINE":
        raise UsageError(f"Remove --by: {deployment[0]} takes the user's name from the token.")
    client = httpx.Client(base_url=deployment[0], auth=deployment[1], timeout=TIMEOUT_SECONDS)
    return Api(context.with_resource(client))


def _deployment(url: str | None) -> tuple[str, httpx.Auth] | None:
    """Return the URL and authentication for `url`, or for the last login by default.

    Returns None if `url` is None and there is no login.
    """
    from cli.logins import Logins, StoredLogin  # imports this module

    if url is not None:
        url = normalize_url(url, URL_VARIABLE)
        if TOKEN_VARIABLE in os.environ:
            return url, BearerAuth(_token())
    logins = Logins.read()
    chosen = url or logins.default
    if chosen in logins.by_url:
        return chosen, StoredLogin(chosen, logins.by_url[chosen])
    if url is not None:
        raise UsageError(
            f"You are not signed in to {url}. Run 'counterfoil login --url {url}', or set {TOKEN_VARIABLE}."
        )
    return None


def poll(
    seconds: float,
    request: Callable[[], T],
    sleep: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Wait for `seconds`, then call `request` and return its result.

    While the API is unavailable or the rate limit is exceeded, retry for up to UNAVAILABLE_RETRY_SECONDS.

    Raises:
        UnavailableError, RateLimitedError: the last retry failed.
        Other errors from `request`.
    """
    sleep(seconds)
    started = clock()
    while True:
        try:
            return request()
        except (UnavailableError, RateLimitedError):
            if clock() - started >= UNAVAILABLE_RETRY_SECONDS:
                raise
        sleep(seconds)


def read(response: httpx.Response, *names: str) -> dict[str, Any]:
    """Return a response's JSON object, which must contain these fields.

    Raises:
        CommandError: the response is not a JSON object, or a field is missing.
    """
    try:
        content = response.json()
    except ValueError:
        content = None
    if not isinstance(content, dict) or not content.keys() >= set(names):
        raise CommandError("The API response has an unknown format. Install the CLI version that matches the API.")
    return content


def _raise_for_status(response: httpx.Response) -> None:
    if response.status_code == 401:  # the message must not contain the token
        raise UsageError(
            "The API rejected the token: it has expired, or is not an ID token from the API's issuer. "
            f"Run 'counterfoil login', or renew {TOKEN_VARIABLE}."
        )
    if response.is_success:
        return
    sentence = _rejection_reason(response)
    if response.status_code == httpx.codes.FORBIDDEN:
        raise ForbiddenError(sentence)
    if response.is_client_error:
        wait = response.headers.get("Retry-After", "")
        kind = RateLimitedError if response.status_code == httpx.codes.TOO_MANY_REQUESTS else UsageError
        raise kind(f"{sentence} Try again in {wait} s." if wait.isdigit() else sentence)
    failure = UnavailableError if response.is_server_error else CommandError
    raise failure(f"The API failed ({response.status_code}): {sentence}")


def _rejection_reason(response: httpx.Response) -> str:
    """Return why the API or its gateway rejected a request."""
    try:
        if response.headers.get("Content-Type", "").startswith(PROBLEM):
            return str(read(response, "detail")["detail"])
        return f"API Gateway returned: {read(response, 'message')['message']}."
    except CommandError:
        return f"The response {response.status_code} {response.reason_phrase} did not come from the API."


def _user_or_default() -> str:
    try:
        return system_user()
    except UsageError:
        return DEFAULT_USER


def _query_value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def normalize_url(url: str, name: str) -> str:
    """Return an API's normalized URL, given the URL of the API or of its console.

    Raises:
        UsageError: the URL is invalid, or sending a token to it would be unsafe. The message contains `name`, the
            option or variable with the URL.
    """
    parts = httpx.URL(url.strip()) if is_private(url.strip()) else None
    if parts is None or parts.userinfo or parts.query or parts.fragment:
        raise UsageError(
            f"{name} must be the URL of the API, such as https://abc123.execute-api.eu-central-1.amazonaws.com"
        )
    return str(parts).removesuffix("/").removesuffix("/console")


def is_private(url: str) -> bool:
    """Return whether requests to this URL are encrypted or stay on this machine."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return bool(parts.host) and (parts.scheme == "https" or (parts.scheme == "http" and parts.host in LOOPBACK))


def _token() -> str:
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise UsageError(f"{TOKEN_VARIABLE} must be an ID token from the issuer of {URL_VARIABLE}.")
    return token


def system_user() -> str:
    """Return the operating system's name for the current user.

    Raises:
        UsageError: the name is unknown.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a passwd entry
        raise UsageError("Your user name is unknown on this system. Set it with --by NAME.") from None


def _name(value: str) -> str:
    return _checked_text("--by", value, MAX_NAME_CHARS)


def _reason(value: str | None) -> str | None:
    return None if value is None else _checked_text("--reason", value, MAX_REASON_CHARS)


def _checked_text(option: str, text: str, max_length: int) -> str:
    if not text.strip() or len(text) > max_length or not text.isprintable():
        raise UsageError(f"{option} must be 1 to {max_length} printable characters on one line.")
    return text


By = Annotated[
    str,
    typer.Option(
        "--by",
        help="Your name, for the audit trail.",
        default_factory=system_user,
        show_default="your user name",
        callback=_name,
    ),
]
Reason = Annotated[
    str | None, typer.Option("--reason", help="Reason, for the audit trail.", show_default=False, callback=_reason)
]
