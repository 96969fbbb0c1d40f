"""Signing in to a deployment. A real HTTP server serves as its user pool."""

import base64
import hashlib
import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
import typer
from typer.testing import CliRunner

from cli import client
from cli.app import app
from cli.client import Api, By
from cli.commands import login as command
from cli.commands.login import Listener
from cli.failures import CommandError, UsageError
from cli.logins import Logins, StoredLogin

SECRET = "hush"
"""Part of every token and code."""
HOUR = 3600.0


@dataclass
class Pool:
    """A deployment with its issuer's discovery and OAuth endpoints."""

    url: str = ""
    lifetime: float = HOUR
    """Lifetime of ID tokens in seconds."""
    denies: dict[str, str] | None = None
    """Query parameters of the redirect. If None, they are a code and the request's state."""
    refuses: bool = False
    """Whether the token endpoint rejects all codes and refresh tokens."""
    status: int = 200
    """HTTP status of responses to revocations."""
    discovery: dict[str, Any] = field(default_factory=dict)
    """Fields that override the discovery document."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refreshed: int = 0
    rotates: bool = False
    revoked: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    """Issued ID tokens, oldest first."""

    def get(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        if path == "/console/config.json":
            return 200, {"sign_in": {"issuer": self.url, "client": "console", "discovery": f"{self.url}/discovery"}}
        if path == "/discovery":
            names = {"authorization": "authorize", "token": "token", "revocation": "revoke"}
            endpoints = {f"{name}_endpoint": f"{self.url}/{at}" for name, at in names.items()}
            return 200, {"issuer": self.url, "scopes_supported": ["openid"], **endpoints, **self.discovery}
        if path == "/authorize":
            code = f"{SECRET}-code-{len(self.codes)}"
            self.codes[code] = query
            answer = {"code": code, "state": query["state"]} if self.denies is None else self.denies
            return 302, f"{query['redirect_uri']}?{urlencode(answer)}"
        return 404, {}

    def post(self, path: str, form: dict[str, str]) -> tuple[int, Any]:
        if path == "/revoke":
            self.revoked.append(form["token"])
            return self.status, {}
        assert path == "/token"
        assert form["client_id"] == "console"
        refresh = f"{SECRET}-refresh-{self.refreshed}"
        if self.refuses:
            return 400, {"error": "invalid_grant", "error_description": refresh}
        if form["grant_type"] == "refresh_token":
            assert form["refresh_token"] == refresh
            self.refreshed += 1
            refresh = f"{SECRET}-refresh-{self.refreshed}"
            return 200, {"id_token": self.id_token()} | ({"refresh_token": refresh} if self.rotates else {})
        request = self.codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert request["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
        assert (request["code_challenge_method"], request["response_type"]) == ("S256", "code")
        assert request["redirect_uri"] == form["redirect_uri"]
        return 200, {"id_token": self.id_token(), "refresh_token": refresh, "access_token": SECRET}

    def id_token(self) -> str:
        claims = {"sub": "subject", "email": "ann@example.com", "exp": time.time() + self.lifetime}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        self.tokens.append(f"{SECRET}.{payload}.{len(self.tokens)}")
        return self.tokens[-1]


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self.answer(*pool.get(parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}))

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.answer(*pool.post(self.path, {name: values[0] for name, values in form.items()}))

        def answer(self, status: int, body: Any) -> None:
            self.send_response(status)
            if status == 302:
                self.send_header("Location", body)
                body = None
            self.end_headers()
            self.wfile.write(b"" if body is None else json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    pool.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield pool
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def ports(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Use free ports, because other tests or users may occupy the real ones."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        free = [first.getsockname()[1], second.getsockname()[1]]
    monkeypatch.setattr(command, "PORTS", free)
    return free


@pytest.fixture(autouse=True)
def shown_pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pages that the browser shows after a sign-in."""
    shown: list[str] = []

    def browse(address: str) -> None:
        answer = httpx.get(address, follow_redirects=True)
        assert SECRET not in answer.text
        shown.append(answer.text)

    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.delenv("COUNTERFOIL_URL", raising=False)
    monkeypatch.delenv("COUNTERFOIL_TOKEN", raising=False)
    return shown


@pytest.fixture
def login_file(config: Path) -> Path:
    return config / "counterfoil" / "logins.json"


def run(*words: str) -> str:
    """Run a command. No output may contain a token."""
    result = CliRunner().invoke(app, [*words])
    assert SECRET not in result.output
    assert SECRET not in str(result.exception)
    if result.exception is not None:
        raise result.exception
    return result.output


def command_api(*words: str) -> Api:
    apis: list[Api] = []
    command_app = typer.Typer()

    @command_app.command()
    def invoke(context: typer.Context, *, by: By) -> None:
        apis.append(client.connect(context, by))

    result = CliRunner().invoke(command_app, [*words])
    if result.exception is not None:
        raise result.exception
    return apis[0]


def sent_token(api: Api, now: float | None = None) -> str:
    """Return the token that a request sends."""
    auth = api.client.auth
    assert isinstance(auth, StoredLogin)
    if now is not None:
        auth._now = lambda: now
    request = next(auth.sync_auth_flow(api.client.build_request("GET", "/api/admin/dlq")))
    return request.headers["Authorization"].removeprefix("Bearer ")


def test_login_signs_in_and_later_commands_use_it(pool: Pool, shown_pages: list[str]) -> None:
    output = run("login", "--url", f"{pool.url}/console/")
    assert f"Signed in to {pool.url} as ann@example.com." in output
    assert "You can close this page." in shown_pages[0]
    api = command_api()
    assert str(api.client.base_url).rstrip("/") == pool.url
    assert sent_token(api) == pool.tokens[0]
    assert pool.refreshed == 0


def test_stored_tokens_are_readable_only_by_their_owner(pool: Pool, login_file: Path) -> None:
    before = os.umask(0)
    try:
        run("login", "--url", pool.url)
    finally:
        os.umask(before)
    assert stat.S_IMODE(login_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(login_file.parent.stat().st_mode) == 0o700
    assert {file.name for file in login_file.parent.iterdir()} == {"logins.json", "logins.lock"}
    assert pool.tokens[0] in login_file.read_text()


def test_repr_hides_tokens(pool: Pool) -> None:
    run("login", "--url", pool.url)
    assert SECRET not in repr(Logins.read())


def test_offline_access_is_requested_where_supported(pool: Pool) -> None:
    pool.discovery = {"scopes_supported": ["openid", "offline_access"]}
    pool.denies = {"error": "access_denied"}
    with pytest.raises(CommandError, match="denied or canceled"):
        run("login", "--url", pool.url)
    assert [request["scope"] for request in pool.codes.values()] == ["openid email offline_access"]


@pytest.mark.parametrize(
    ("redirect", "message"),
    [
        ({"error": "access_denied", "state": "x"}, "denied or canceled"),
        ({"error": "invalid_scope", "error_description": SECRET}, "rejected the sign-in: invalid_scope"),
        ({"error": f"{SECRET}.{SECRET}"}, "rejected the sign-in: unknown error"),
        ({"code": f"{SECRET}-code-0", "state": "wrong"}, "belongs to another sign-in"),
        ({"code": f"{SECRET}-code-0"}, "belongs to another sign-in"),
    ],
)
def test_a_failed_sign_in_stores_nothing(pool: Pool, redirect: dict[str, str], message: str) -> None:
    pool.denies = redirect
    with pytest.raises(CommandError, match=message):
        run("login", "--url", pool.url)
    assert not Logins.read().by_url
    assert not pool.tokens


def test_an_expired_code_is_refused(pool: Pool) -> None:
    pool.refuses = True
    with pytest.raises(CommandError, match=r"rejected the request: invalid_grant\. The code may have expired"):
        run("login", "--url", pool.url)


def test_unanswered_login_times_out(pool: Pool) -> None:
    with pytest.raises(CommandError, match="more than 1 second"):
        run("login", "--url", pool.url, "--no-browser", "--wait", "1")


def test_next_free_port_is_used(pool: Pool, ports: list[int]) -> None:
    with Listener(ports[0]):
        run("login", "--url", pool.url)
        with Listener(ports[1]), pytest.raises(CommandError, match=r"ports .* must be free: Address already in use"):
            run("login", "--url", pool.url)


def test_unwritable_folder_fails_before_the_sign_in(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(CommandError, match=r"cannot be stored in .*/file/counterfoil: Not a directory"):
        run("login", "--url", pool.url)
    assert not pool.codes


def test_full_disk_keeps_the_stored_login(pool: Pool, login_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("login", "--url", pool.url)
    before = login_file.read_text()

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        with pytest.raises(CommandError, match="No space left"):
            run("login", "--url", pool.url)
    assert login_file.read_text() == before
    assert len(list(login_file.parent.iterdir())) == 2


@pytest.mark.parametrize(
    "url", ["http://console.example", "console.example", "https://a:b@console.example", "https://example:port"]
)
def test_invalid_or_unencrypted_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--url must be the URL"):
        run("login", "--url", url)


def test_login_requires_a_deployment(pool: Pool) -> None:
    with pytest.raises(UsageError, match="--url is required"):
        run("login")
    with pytest.raises(UsageError, match=r"does not belong to a Counterfoil deployment \(404\)"):
        run("login", "--url", f"{pool.url}/elsewhere")


@pytest.mark.parametrize(
    "discovery", [{"issuer": "https://elsewhere.example"}, {"token_endpoint": "http://elsewhere.example/token"}]
)
def test_an_invalid_discovery_document_is_refused(pool: Pool, discovery: dict[str, str]) -> None:
    pool.discovery = discovery
    with pytest.raises(CommandError, match="another issuer, or endpoints without https"):
        run("login", "--url", pool.url)


def test_pasted_address_replaces_the_redirect(ports: list[int]) -> None:
    reading, writing = os.pipe()
    with Listener(ports[0]) as listener, os.fdopen(reading) as pasted, os.fdopen(writing, "w") as user:
        print(f"\nnothing\n{listener.redirect}?code=1&state=2", file=user, flush=True)
        user.close()
        assert listener.wait(5, pasted) == "code=1&state=2"


def test_closed_stdin_does_not_end_the_wait(ports: list[int]) -> None:
    with (
        Listener(ports[0]) as listener,
        Path(os.devnull).open() as pasted,
        pytest.raises(CommandError, match="more than"),
    ):
        listener.wait(0.1, pasted)


def test_connections_without_a_redirect_are_ignored(ports: list[int]) -> None:
    def browse() -> None:
        idle = socket.create_connection(("127.0.0.1", ports[0]))
        statuses.append(httpx.get(f"http://localhost:{ports[0]}/favicon.ico").status_code)
        statuses.append(httpx.get(f"http://localhost:{ports[0]}/callback?code=1").status_code)
        idle.close()

    statuses: list[int] = []
    with Listener(ports[0]) as listener, Path(os.devnull).open() as pasted:
        thread = Thread(target=browse)
        thread.start()
        assert listener.wait(10, pasted) == "code=1"
        thread.join()
    assert statuses == [404, 200]


# -- refresh --------------------------------------------------------------------------------------------------------


def test_expiring_token_is_refreshed_once(pool: Pool) -> None:
    run("login", "--url", pool.url)
    first, second = command_api(), command_api()
    late = time.time() + HOUR - 30
    pool.lifetime = 2 * HOUR
    assert (
        sent_token(first, late)
        == sent_token(second, late)
        == sent_token(first, late)
        == sent_token(command_api())
        == pool.tokens[1]
    )
    assert pool.refreshed == 1


def test_a_rotated_refresh_token_replaces_the_previous_one(pool: Pool) -> None:
    pool.rotates = True
    run("login", "--url", pool.url)
    late = time.time() + HOUR
    assert [sent_token(command_api(), late), sent_token(command_api(), late)] == pool.tokens[1:3]
    assert Logins.read().by_url[pool.url].refresh_token == f"{SECRET}-refresh-2"


def test_a_refused_refresh_requires_a_new_login(pool: Pool) -> None:
    run("login", "--url", pool.url)
    api = command_api()
    pool.refuses = True
    with pytest.raises(
        UsageError, match=rf"has expired. Run 'counterfoil login --url {pool.url}'.*invalid_grant"
    ) as raised:
        sent_token(api, time.time() + HOUR)
    assert SECRET not in str(raised.value)
    pool.refuses = False
    run("logout")
    with pytest.raises(UsageError, match="has expired"):
        sent_token(api, time.time() + HOUR)


# -- precedence -----------------------------------------------------------------------------------------------------


def test_environment_overrides_a_login(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    run("login", "--url", pool.url)
    monkeypatch.setenv("COUNTERFOIL_URL", f"{pool.url}/")
    assert sent_token(command_api()) == pool.tokens[0]
    with pytest.raises(UsageError, match="Remove --by"):
        command_api("--by", "kim")
    monkeypatch.setenv("COUNTERFOIL_TOKEN", "a.b.c")
    assert isinstance(command_api().client.auth, client.BearerAuth)
    monkeypatch.delenv("COUNTERFOIL_TOKEN")
    monkeypatch.setenv("COUNTERFOIL_URL", "https://other.example")
    with pytest.raises(UsageError, match=r"not signed in to https://other\.example"):
        command_api()


def test_last_login_is_the_default(pool: Pool) -> None:
    run("login", "--url", pool.url)
    other = pool.url.replace("127.0.0.1", "localhost")
    run("login", "--url", other)
    run("login")
    assert str(command_api().client.base_url).rstrip("/") == other
    output = run("logout")
    assert f"Other logins: {pool.url}." in output
    assert list(Logins.read().by_url) == [pool.url]
    assert Logins.read().default is None


def test_damaged_login_file_is_reported(login_file: Path) -> None:
    login_file.parent.mkdir(parents=True)
    login_file.write_text(f'{{"by_url": "{SECRET}"}}')
    with pytest.raises(CommandError, match=r"logins\.json is damaged") as raised:
        command_api()
    assert SECRET not in str(raised.value)


def test_unknown_home_folder_means_signed_out(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setattr(Path, "home", fail)
    assert Logins.read() == Logins()
    with pytest.raises(UsageError, match="XDG_CONFIG_HOME must be set"):
        run("login", "--url", pool.url)


# -- logout ---------------------------------------------------------------------------------------------------------


def test_logout_revokes_token_and_deletes_login(pool: Pool, login_file: Path) -> None:
    run("login", "--url", pool.url)
    assert "and revoked its refresh token" in run("logout", "--url", pool.url)
    assert pool.revoked == [f"{SECRET}-refresh-0"]
    assert SECRET not in login_file.read_text()
    assert f"not signed in to {pool.url}" in run("logout", "--url", pool.url)
    assert "You are not signed in." in run("logout")


@pytest.mark.parametrize("status", [400, 503])
def test_failed_revocation_still_deletes_the_login(pool: Pool, login_file: Path, status: int) -> None:
    run("login", "--url", pool.url)
    pool.status = status
    with pytest.raises(CommandError, match="could not revoke its refresh token"):
        run("logout")
    assert SECRET not in login_file.read_text()


def test_logout_works_with_an_issuer_without_revocation(pool: Pool, login_file: Path) -> None:
    pool.discovery = {"revocation_endpoint": None}
    run("login", "--url", pool.url)
    assert "no token to revoke" in run("logout")
    assert SECRET not in login_file.read_text()


def test_logout_without_a_login_writes_nothing(login_file: Path) -> None:
    assert "You are not signed in." in run("logout")
    assert not login_file.parent.exists()
