"""API calls by commands: errors without secrets, retries, and connections."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import httpx
import pytest
import typer
from typer.testing import CliRunner

from cli import client as api
from cli.client import Api, By
from cli.failures import CommandError, UsageError
from cli.local.cloud import Cloud
from counterfoil.db import Connection
from tests.cli.api_connection import connect

Handler = Callable[[httpx.Request], httpx.Response]


def api_with(handler: Handler) -> Api:
    return Api(httpx.Client(base_url="https://api.example/v1", transport=httpx.MockTransport(handler)))


def api_returning(status: int, text: str = "", **headers: str) -> Api:
    return api_with(lambda _: httpx.Response(status, text=text, headers=headers))


def problem(status: int, detail: str, **headers: str) -> Api:
    body = {"type": "about:blank", "title": "No", "status": status, "detail": detail}
    all_headers = {"Content-Type": "application/problem+json", **headers}
    return api_with(lambda _: httpx.Response(status, json=body, headers=all_headers))


@pytest.mark.parametrize(
    ("failing_api", "kind", "message"),
    [
        (problem(403, "Ask an admin."), UsageError, "^Ask an admin.$"),
        (problem(429, "Too much.", **{"Retry-After": "3"}), UsageError, "^Too much. Try again in 3 s.$"),
        (problem(401, "The token has expired: eyJ"), UsageError, "^The API rejected the token"),
        (problem(503, "Not now."), CommandError, r"^The API failed \(503\): Not now.$"),
        (api_returning(404, '{"message": "Not Found"}'), UsageError, "^API Gateway returned: Not Found.$"),
        (api_returning(502, "<html>eyJ"), CommandError, "did not come from the API.$"),
        (api_returning(302, "", Location="https://elsewhere.example"), CommandError, "302"),
        (api_returning(200, '{"secret": "eyJ"}'), CommandError, "^The API response has an unknown format"),
        (api_returning(200, "eyJ"), CommandError, "^The API response has an unknown format"),
    ],
)
def test_api_error_messages_contain_no_secrets(failing_api: Api, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as refused:
        failing_api.tenants(None)
    assert "eyJ" not in str(refused.value)


@pytest.mark.parametrize(
    ("error", "message"),
    [(httpx.ConnectError, "cannot be reached"), (httpx.ReadTimeout, "The change may have been applied")],
)
def test_connection_errors_and_timeouts_are_distinguished(error: type[httpx.TransportError], message: str) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error(f"Authorization: {request.url}")

    with pytest.raises(CommandError, match=message) as raised:
        api_with(fail).tenants(None)
    assert "Authorization" not in str(raised.value)


class Clock:
    """A clock that advances only during `sleep`."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def time(self) -> float:
        return self.now


@pytest.mark.parametrize("failure", [httpx.Response(503), httpx.Response(429), httpx.ConnectError("no network")])
def test_polling_continues_while_the_api_is_unavailable(failure: httpx.Response | Exception) -> None:
    clock = Clock()

    def handler(_: httpx.Request) -> httpx.Response:
        if clock.now >= recovers_at:
            return httpx.Response(200, json={"tenants": [], "unassigned": False, "next_cursor": None})
        if isinstance(failure, Exception):
            raise failure
        return failure

    def list_tenants() -> list[str]:
        return api_with(handler).tenants(None)

    recovers_at = 60.0
    assert api.poll(2.0, list_tenants, clock.sleep, clock.time) == []
    assert clock.now == 60
    recovers_at = 1_000_000.0
    with pytest.raises((api.UnavailableError, api.RateLimitedError)):
        api.poll(2.0, list_tenants, clock.sleep, clock.time)
    assert clock.now == 60 + 2 + api.UNAVAILABLE_RETRY_SECONDS


def test_polling_stops_when_a_request_is_rejected() -> None:
    clock = Clock()
    with pytest.raises(UsageError, match="Gone"):
        api.poll(2.0, lambda: problem(404, "Gone.").tenants(None), clock.sleep, clock.time)
    assert clock.now == 2


def test_expected_version_is_sent_in_if_match() -> None:
    if_match: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        if_match.append(request.headers.get("If-Match"))
        return httpx.Response(200, json={"found": []})

    client = api_with(handler)
    client.send("POST", "/x", expected_version=0)
    client.send("POST", "/x", expected_version=12)
    client.send("GET", "/x")
    assert if_match == ['"0"', '"12"', None]


@pytest.mark.usefixtures("api")
def test_tenants_are_read_page_by_page(make_tenant: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        make_tenant(f"t{number}")
    monkeypatch.setattr(api, "PAGE_SIZE", 2)
    assert call_in_command(lambda client: client.tenants(None)) == [f"t{number}" for number in range(5)]
    with pytest.raises(UsageError, match="Choose a tenant with --tenant: t0, t1"):
        call_in_command(lambda client: client.single_tenant(None))


@pytest.mark.usefixtures("api")
def test_error_without_tenants_suggests_adding_one() -> None:
    with pytest.raises(UsageError, match="counterfoil tenants add"):
        call_in_command(lambda client: client.single_tenant(None))


def call_in_command(do: Callable[[Api], Any], groups: str = "[admin tenant:*]") -> Any:
    """Call `do` while a command runs, and return its result."""
    results: list[Any] = []
    command = typer.Typer()

    @command.command()
    def invoke(context: typer.Context) -> None:
        results.append(do(connect(context, groups=groups)))

    result = CliRunner().invoke(command, [])
    if result.exception is not None:
        raise result.exception
    return results[0]


# -- connections ----------------------------------------------------------------------------------------------------

URL = "https://abc123.execute-api.eu-central-1.amazonaws.com"


def command_client(*words: str, local: Path | None = None) -> httpx.Client:
    """Return the HTTP client of a command that accepts --by."""
    clients: list[httpx.Client] = []
    command = typer.Typer()

    @command.command()
    def invoke(context: typer.Context, *, by: By) -> None:
        context.obj = local
        clients.append(api.connect(context, by).client)

    result = CliRunner().invoke(command, [*words])
    if result.exception is not None:
        raise result.exception
    return clients[0]


@pytest.fixture
def deployment_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_URL", URL)
    monkeypatch.setenv("COUNTERFOIL_TOKEN", "eyJ.abc.def")


@pytest.mark.usefixtures("deployment_settings")
def test_deployment_receives_the_token_from_the_environment() -> None:
    client = command_client()
    assert client.base_url == URL
    assert client.auth is not None
    request = next(client.auth.sync_auth_flow(client.build_request("GET", "/api/admin/dlq")))
    assert (str(request.url), request.headers["Authorization"]) == (f"{URL}/api/admin/dlq", "Bearer eyJ.abc.def")
    assert client.is_closed


@pytest.mark.usefixtures("deployment_settings")
def test_deployment_rejects_the_by_and_local_options(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Remove --by"):
        command_client("--by", "kim")
    with pytest.raises(UsageError, match="mutually exclusive"):
        command_client(local=tmp_path)


@pytest.mark.usefixtures("deployment_settings")
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *[
            ("COUNTERFOIL_URL", url, "URL of the API")
            for url in ("", "http://api.example", "https://", "api.example", "https://kim:x@api.example", f"{URL}?a=b")
        ],
        *[("COUNTERFOIL_TOKEN", token, "ID token") for token in ("", "a b", "ä", "a\nb")],
    ],
)
def test_invalid_environment_is_refused(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message):
        command_client()


def test_local_cloud_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COUNTERFOIL_URL", raising=False)
    cloud: Any = SimpleNamespace(api_url="http://127.0.0.1:1/_aws/execute-api/abc/$default")
    monkeypatch.setattr(Cloud, "at", lambda _: cloud)
    client = command_client("--by", "kim")
    url = client.build_request("GET", "/api/admin/dlq").url
    assert str(url) == "http://127.0.0.1:1/_aws/execute-api/abc/$default/api/admin/dlq"


@pytest.mark.usefixtures("api")
def test_missing_role_is_rejected_by_the_api(make_tenant: Callable[..., UUID], admin: Connection) -> None:
    make_tenant("acme")
    path = "/api/admin/dlq/bulk-ignore"
    body = {"filter": {"tenant": "acme"}, "reason": "A trial"}
    with pytest.raises(UsageError, match="requires the operator role"):
        call_in_command(lambda client: client.send("POST", path, body=body), "[viewer tenant:acme]")
    assert admin.execute("SELECT count(*) FROM operation").fetchone() == (0,)
