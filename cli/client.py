"""Client of the HTTP API of the local cloud or of a deployment on AWS.

`COUNTERFOIL_URL` selects a deployment, and `COUNTERFOIL_TOKEN` contains an ID token of its issuer. Without a token, the
stored login for the URL is used; without a URL, the last login (`counterfoil login`). Without any of these, commands
sign in to the local cloud (`cli.local.sign_in`) as an admin of all tenants.
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

URL, TOKEN = "COUNTERFOIL_URL", "COUNTERFOIL_TOKEN"  # names of environment variables
TIMEOUT_SECONDS = 60.0
"""Long enough for the first response of the local cloud, which waits for a process to start."""
UNAVAILABLE_RETRY_SECONDS = 300.0
"""Retry period of a waiting command while the API is unavailable."""
PAGE = 100
"""Maximum items per page."""
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
READER = "counterfoil"
"""User name for reads if the system user is unknown."""
UNASSIGNED = "-"
"""Slug of dead letters without a tenant."""
PROBLEM = "application/problem+json"
LONGEST_NAME, LONGEST_REASON = 254, 2000
"""Maximum lengths in the audit trail, in characters."""
Kind = Literal["dead_letter", "operation", "group", "task", "document"]
T = TypeVar("T")
Query = Mapping[str, Any]


class NotAllowedError(UsageError):
    """The caller lacks a permission."""


class TooOftenError(UsageError):
    """The rate limit is exceeded."""


class NotNowError(CommandError):
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
    """API of one deployment, used as one user."""

    client: httpx.Client
    local_name_of: Callable[[str], str | None] = lambda _subject: None
    """Returns the name with which a person signed in to the local cloud; None for others."""
    emails: dict[str, str | None] = field(default_factory=dict)
    """Known e-mail addresses by subject; None for workers and people without a known address."""

    def name_of(self, actor: str) -> str:
        """Return the name or e-mail address of a person, and the name of a worker. Raises the same errors as `send`."""
        name = self.local_name_of(actor) if actor else ""
        if name is not None:
            return name
        if actor not in self.emails:
            response = self.send("GET", "/api/admin/people/emails", query={"subject": actor})
            self.emails[actor] = read(response, "emails")["emails"].get(actor)
        return self.emails[actor] or actor

    def send(
        self, method: str, path: str, *, query: Query | None = None, body: object = None, seen: int = -1
    ) -> httpx.Response:
        """Send a request and return its response. `seen` is the expected version, sent as `If-Match`.

        Raises:
            UsageError: the API rejects the request; the message states the reason.
            CommandError: the API is unavailable.
        """
        given = {name: _written(value) for name, value in (query or {}).items() if value is not None}
        headers = {} if seen < 0 else {"If-Match": f'"{seen}"'}
        try:
            answer = self.client.request(method, path, params=given, json=body, headers=headers)
        except httpx.TimeoutException:
            raise NotNowError("The API timed out. The change may have been applied; check before retrying.") from None
        except httpx.HTTPError as error:
            raise NotNowError(f"The API cannot be reached: {type(error).__name__}.") from None
        _check(answer)
        return answer

    def pages(self, path: str, name: str, *, limit: int | None = None, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield pages until they contain `limit` items in the field `name`. Raises the same errors as `send`."""
        cursor, left = None, limit
        while left is None or left > 0:
            asked = {**query, "limit": PAGE if left is None else min(left, PAGE), "cursor": cursor}
            page = read(self.send("GET", path, query=asked), name, "next_cursor")
            yield page
            cursor = page["next_cursor"]
            if cursor is None:
                return
            left = None if left is None else left - len(page[name])

    def items(self, path: str, name: str, *, limit: int | None = None, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield up to `limit` items from the field `name` of the pages. Raises the same errors as `send`."""
        for page in self.pages(path, name, limit=limit, **query):
            yield from page[name]

    def latest(
        self, path: str, name: str, key: str, slugs: Iterable[str], *, limit: int, **query: Any
    ) -> list[dict[str, Any]]:
        """Return the latest `limit` items of these tenants, sorted by `key`, each with its `tenant`.

        Raises the same errors as `send`.
        """
        found = [
            {"tenant": slug, **item}
            for slug in slugs
            for item in self.items(path, name, limit=limit, tenant=slug, **query)
        ]
        return sorted(found, key=lambda item: str(item[key]), reverse=True)[:limit]

    def tenants(self, slug: str | None, *, unassigned: bool = False) -> list[str]:
        """Return the given slug, or the slugs of all visible tenants.

        With `unassigned`, also return `-` if the caller may see unassigned dead letters.
        """
        if slug is not None:
            return [slug]
        pages = list(self.pages("/api/admin/tenants", "tenants"))
        found = [tenant["slug"] for page in pages for tenant in page["tenants"]]
        return [*found, UNASSIGNED] if unassigned and pages[0]["unassigned"] else found

    def single_tenant(self, slug: str | None) -> str:
        """Return the given tenant, or the only one.

        Raises:
            UsageError: no tenant exists, or several do.
        """
        found = self.tenants(slug)
        if not found:
            raise UsageError("No tenant exists. To add one: counterfoil tenants add acme")
        if len(found) > 1:
            shown = ", ".join(found[:10]) + (", ..." if len(found) > 10 else "")
            raise UsageError(f"Choose a tenant with --tenant: {shown}")
        return found[0]

    def find_by_id_suffix(self, kind: Kind, text: str, list_: str) -> str:
        """Return the full id for an id or its last characters.

        A group is found by the beginning of its fingerprint. `list_` is the command that lists valid ids.

        Raises:
            UsageError: no id matches, or several do.
        """
        part = text.strip().lower()
        if ids.WHOLE.fullmatch(part) and kind != "group":
            return part
        found = []
        if ids.PART.fullmatch(part):
            answer = self.send("GET", "/api/admin/dlq/lookup", query={"kind": kind, "part": part})
            found = read(answer, "found")["found"]
        if len(found) != 1:
            name = kind.replace("_", " ")
            has = "fingerprint begins" if kind == "group" else "id ends"
            count = "No" if not found else "More than one"
            raise UsageError(f"{count} {name} {has} with '{text}'. Run 'counterfoil {list_}' to list them.")
        return str(found[0]["id"])


def connect(context: typer.Context, by: str | None = None) -> Api:
    """Return the API for a command. In the local cloud, sign in as `by` or as the system user.

    Raises:
        CloudError: the local cloud is not running.
        UsageError: the environment's settings for a deployment are invalid or incomplete.
    """
    url, local = os.environ.get(URL), context.obj
    if url is not None and local is not None:
        raise UsageError(f"{URL} and --local (or COUNTERFOIL_LOCAL) are mutually exclusive.")
    found = _deployment(url) if local is None else None
    if found is None:
        from cli.local.cloud import Cloud  # slow to import
        from cli.local.place import cloud_folder
        from cli.local.sign_in import LocalSignIn

        cloud = Cloud.at(cloud_folder(local))
        auth = LocalSignIn(cloud, by or _reader())
        client = httpx.Client(base_url=cloud.api_url, auth=auth, timeout=TIMEOUT_SECONDS)
        return Api(context.with_resource(client), auth.name_of)
    given = context.get_parameter_source("by")
    if given is not None and given.name == "COMMANDLINE":
        raise UsageError(f"Remove --by: {found[0]} takes the user's name from the token.")
    client = httpx.Client(base_url=found[0], auth=found[1], timeout=TIMEOUT_SECONDS)
    return Api(context.with_resource(client))


def _deployment(url: str | None) -> tuple[str, httpx.Auth] | None:
    """Return address and authentication for `url` or for the last login; None without a login."""
    from cli.logins import Logins, StoredLogin  # imports this module

    if url is not None:
        url = address(url, URL)
        if TOKEN in os.environ:
            return url, BearerAuth(_token())
    logins = Logins.read()
    chosen = url or logins.default
    if chosen in logins.by_url:
        return chosen, StoredLogin(chosen, logins.by_url[chosen])
    if url is not None:
        raise UsageError(f"You are not signed in to {url}. Run 'counterfoil login --url {url}', or set {TOKEN}.")
    return None


def poll(
    seconds: float,
    look: Callable[[], T],
    sleep: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Wait, then return the first result of `look`.

    While the API is unavailable or the rate limit is exceeded, retry for up to UNAVAILABLE_RETRY_SECONDS.

    Raises:
        NotNowError, TooOftenError: the last retry failed.
        Other errors of `look`.
    """
    sleep(seconds)
    began = clock()
    while True:
        try:
            return look()
        except (NotNowError, TooOftenError):
            if clock() - began >= UNAVAILABLE_RETRY_SECONDS:
                raise
        sleep(seconds)


def read(answer: httpx.Response, *names: str) -> dict[str, Any]:
    """Return the JSON object of a response, which must contain these fields.

    Raises:
        CommandError: the response has another format.
    """
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() >= set(names):
        raise CommandError("The API response has an unknown format. Use a command line of the same version as the API.")
    return found


def _check(answer: httpx.Response) -> None:
    if answer.status_code == 401:  # the message must not contain the token
        raise UsageError(
            "The API rejected the token: it has expired, or is not an ID token of the API's issuer. "
            f"Run 'counterfoil login', or renew {TOKEN}."
        )
    if answer.is_success:
        return
    sentence = _sentence(answer)
    if answer.status_code == httpx.codes.FORBIDDEN:
        raise NotAllowedError(sentence)
    if answer.is_client_error:
        wait = answer.headers.get("Retry-After", "")
        kind = TooOftenError if answer.status_code == httpx.codes.TOO_MANY_REQUESTS else UsageError
        raise kind(f"{sentence} Try again in {wait} s." if wait.isdigit() else sentence)
    failure = NotNowError if answer.is_server_error else CommandError
    raise failure(f"The API failed ({answer.status_code}): {sentence}")


def _sentence(answer: httpx.Response) -> str:
    """Return the reason of a rejection by the API or by its gateway."""
    try:
        if answer.headers.get("Content-Type", "").startswith(PROBLEM):
            return str(read(answer, "detail")["detail"])
        return f"API Gateway returned: {read(answer, 'message')['message']}."
    except CommandError:
        return f"The response {answer.status_code} {answer.reason_phrase} did not come from the API."


def _reader() -> str:
    try:
        return user()
    except UsageError:
        return READER


def _written(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def address(url: str, name: str) -> str:
    """Return the normalized address of an API for the address of the API or its console.

    Raises:
        UsageError: a token must not be sent to this address. `name` is the option or variable that contains it.
    """
    parts = httpx.URL(url.strip()) if is_private(url.strip()) else None
    if parts is None or parts.userinfo or parts.query or parts.fragment:
        raise UsageError(
            f"{name} must be the address of the API, such as https://abc123.execute-api.eu-central-1.amazonaws.com"
        )
    return str(parts).removesuffix("/").removesuffix("/console")


def is_private(url: str) -> bool:
    """Return True if requests are encrypted, or do not leave this machine."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return bool(parts.host) and (parts.scheme == "https" or (parts.scheme == "http" and parts.host in LOOPBACK))


def _token() -> str:
    token = os.environ.get(TOKEN, "").strip()
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise UsageError(f"{TOKEN} must be an ID token from the issuer of {URL}.")
    return token


def user() -> str:
    """Return the name of the system user.

    Raises:
        UsageError: it is unknown.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a passwd entry
        raise UsageError("Your user name is unknown on this system: give it with --by NAME.") from None


def _name(given: str) -> str:
    return _checked_text("--by", given, LONGEST_NAME)


def _reason(given: str | None) -> str | None:
    return None if given is None else _checked_text("--reason", given, LONGEST_REASON)


def _checked_text(option: str, given: str, longest: int) -> str:
    if not given.strip() or len(given) > longest or not given.isprintable():
        raise UsageError(f"{option} takes 1 to {longest} printable characters on one line.")
    return given


By = Annotated[
    str,
    typer.Option(
        "--by",
        help="Your name, for the audit trail.",
        default_factory=user,
        show_default="your user name",
        callback=_name,
    ),
]
Reason = Annotated[
    str | None, typer.Option("--reason", help="Reason, for the audit trail.", show_default=False, callback=_reason)
]
