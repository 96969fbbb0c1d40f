"""Stored logins to deployments, refreshed before their tokens expire.

The tokens come from an OpenID Connect issuer, such as the deployment's user pool. The API requires the ID token.
"""

import base64
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
from pydantic import BaseModel, Field, ValidationError

from cli.client import TIMEOUT_SECONDS, UnavailableError
from cli.failures import CommandError, UsageError

MIN_SECONDS_LEFT = 60
"""A token with a shorter remaining lifetime is refreshed."""
_JWT = re.compile(r"[\w-]+\.([\w-]+)\.[\w-]+", re.ASCII)
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")


class Claims(BaseModel):
    """Claims of an ID token."""

    sub: str
    exp: float
    """Seconds since the epoch."""
    email: str | None = None

    @classmethod
    def of(cls, token: str) -> "Claims":
        """Decode a token that came directly from its issuer.

        The API checks the signature.

        Raises:
            CommandError: the token is not an ID token.
        """
        try:
            match = _JWT.fullmatch(token)
            payload = match[1] if match else ""
            return cls.model_validate_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        except ValueError:
            raise CommandError("The issuer did not return an ID token.") from None


class Tokens(BaseModel):
    """Response of the token endpoint."""

    id_token: str = Field(repr=False)
    refresh_token: str | None = Field(default=None, repr=False)


class Login(Tokens):
    """A login, with the data needed to refresh it."""

    client: str
    token_endpoint: str
    revocation_endpoint: str | None

    def expires_soon(self, now: float) -> bool:
        """Return True if the ID token must be refreshed before its next use."""
        return Claims.of(self.id_token).exp - now < MIN_SECONDS_LEFT


class Logins(BaseModel):
    """All logins of this user."""

    default: str | None = None
    """URL of the last login."""
    by_url: dict[str, Login] = {}

    @classmethod
    def read(cls) -> "Logins":
        """Read the stored logins. Returns an empty object if the file is missing.

        Raises:
            CommandError: the file is damaged.
        """
        try:
            return cls.model_validate_json(_path().read_bytes())
        except (FileNotFoundError, RuntimeError):  # RuntimeError: the home folder is unknown
            return cls()
        except ValidationError:
            raise CommandError(f"{_path()} is damaged. Delete it, and run 'counterfoil login'.") from None


class IssuerRejectedError(CommandError):
    """The issuer rejected a request."""


class StoredLogin(httpx.Auth):
    """Authenticates requests with a stored login, and refreshes its token."""

    def __init__(self, url: str, login: Login, now: Callable[[], float] = time.time) -> None:
        self._url, self._login, self._now = url, login, now

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add a valid token to the request.

        Raises:
            UsageError: the user must log in again.
            CommandError: the issuer is unavailable, or the new token cannot be stored.
        """
        if self._login.expires_soon(self._now()):
            self._login = _refresh(self._url, self._now())
        request.headers["Authorization"] = f"Bearer {self._login.id_token}"
        yield request


@contextmanager
def edit_logins() -> Iterator[Logins]:
    """Yield the stored logins under a lock, and save them at the end of the block.

    Raises:
        CommandError: the file is damaged, or cannot be written.
    """
    try:
        path = _path()
    except RuntimeError:
        raise UsageError("XDG_CONFIG_HOME must be set, because your home folder is unknown.") from None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _storage_error(path, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        logins = Logins.read()
        yield logins
        try:
            write_private(path, logins.model_dump_json(indent=1))
        except OSError as error:
            raise _storage_error(path, error) from None
    finally:
        os.close(lock)


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically. Only its owner can read it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # creates the file with mode 0600
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def request_tokens(endpoint: str, form: Mapping[str, str]) -> Tokens:
    """Request tokens from a token endpoint.

    Raises:
        IssuerRejectedError: the issuer rejected the code or the refresh token.
        CommandError: the issuer is unavailable, or returned no ID token.
    """
    response = post(endpoint, form)
    try:
        tokens = Tokens.model_validate_json(response.content)
    except ValidationError:
        raise CommandError("The issuer did not return an ID token.") from None
    Claims.of(tokens.id_token)
    return tokens


def post(endpoint: str, form: Mapping[str, str]) -> httpx.Response:
    """Post a form to an issuer and return the successful response.

    Raises:
        IssuerRejectedError: the issuer rejected the request.
        UnavailableError: the issuer is unavailable.
    """
    host = httpx.URL(endpoint).host
    try:
        response = httpx.post(
            endpoint, data=dict(form), headers={"Accept": "application/json"}, timeout=TIMEOUT_SECONDS
        )
    except httpx.HTTPError as error:
        raise UnavailableError(f"The issuer {host} cannot be reached: {type(error).__name__}.") from None
    if response.is_success:
        return response
    if response.is_client_error and response.status_code != httpx.codes.TOO_MANY_REQUESTS:
        raise IssuerRejectedError(f"The issuer {host} rejected the request: {_error_code(response)}.")
    raise UnavailableError(f"The issuer {host} returned status {response.status_code}.")


def error_code(text: str) -> str:
    """Return `text` if it is an OAuth error code.

    Other text is hidden, because it could contain a token.
    """
    return text if _ERROR_CODE.fullmatch(text) else "unknown error"


def _error_code(response: httpx.Response) -> str:
    try:
        return error_code(str(response.json()["error"]))
    except (ValueError, LookupError, TypeError):
        return f"status {response.status_code}"


def _refresh(url: str, now: float) -> Login:
    """Return the login with a valid token.

    The lock lets only one of several commands refresh the token.
    """
    expired = f"The login to {url} has expired. Run 'counterfoil login --url {url}'."
    with edit_logins() as logins:
        login = logins.by_url.get(url)
        if login is None:
            raise UsageError(expired)
        if login.expires_soon(now):
            if login.refresh_token is None:
                raise UsageError(expired)
            form = {"grant_type": "refresh_token", "client_id": login.client, "refresh_token": login.refresh_token}
            try:
                tokens = request_tokens(login.token_endpoint, form)
            except IssuerRejectedError as error:
                raise UsageError(f"{expired} {error}") from None
            login = login.model_copy(update=tokens.model_dump(exclude_none=True))
            logins.by_url[url] = login
        return login


def _path() -> Path:
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():  # invalid according to the XDG specification
        base = Path.home() / ".config"
    return base / "counterfoil" / "logins.json"


def _storage_error(path: Path, error: OSError) -> CommandError:
    return CommandError(f"The login cannot be stored in {path.parent}: {error.strerror or error}.")
