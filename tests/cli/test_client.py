"""Commands ask the API: what it refuses is a sentence, and nothing that is secret is told."""

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
from tests.cli.reaching import reach

Answering = Callable[[httpx.Request], httpx.Response]


def asking(answering: Answering) -> Api:
    return Api(httpx.Client(base_url="https://api.example/v1", transport=httpx.MockTransport(answering)))


def saying(status: int, text: str = "", **headers: str) -> Api:
    return asking(lambda _: httpx.Response(status, text=text, headers=headers))


def problem(status: int, detail: str, **headers: str) -> Api:
    body = {"type": "about:blank", "title": "No", "status": status, "detail": detail}
    told = {"Content-Type": "application/problem+json", **headers}
    return asking(lambda _: httpx.Response(status, json=body, headers=told))


@pytest.mark.parametrize(
    ("asked", "kind", "says"),
    [
        (problem(403, "Ask an admin."), UsageError, "^Ask an admin.$"),
        (problem(429, "Too much.", **{"Retry-After": "3"}), UsageError, "^Too much. Ask again in 3 s.$"),
        (problem(401, "The token has expired: eyJ"), UsageError, "^The API does not take the token"),
        (problem(503, "Not now."), CommandError, r"^The API fails \(503\): Not now.$"),
        (saying(404, '{"message": "Not Found"}'), UsageError, "^The gateway says: Not Found.$"),
        (saying(502, "<html>eyJ"), CommandError, "is not the API's.$"),
        (saying(302, "", Location="https://elsewhere.example"), CommandError, "302"),
        (saying(200, '{"secret": "eyJ"}'), CommandError, "^The API answers in a form"),
        (saying(200, "eyJ"), CommandError, "^The API answers in a form"),
    ],
)
def test_what_the_api_does_not_do_is_a_sentence_without_secrets(asked: Api, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says) as refused:
        asked.tenants(None)
    assert "eyJ" not in str(refused.value)


@pytest.mark.parametrize(
    ("error", "says"), [(httpx.ConnectError, "does not answer"), (httpx.ReadTimeout, "may have done it all the same")]
)
def test_an_api_that_does_not_answer_is_told_apart(error: type[httpx.TransportError], says: str) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error(f"Authorization: {request.url}")

    with pytest.raises(CommandError, match=says) as told:
        asking(fail).tenants(None)
    assert "Authorization" not in str(told.value)


class Clock:
    """Seconds that pass while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def time(self) -> float:
        return self.now


@pytest.mark.parametrize("unwell", [httpx.Response(503), httpx.Response(429), httpx.ConnectError("no network")])
def test_what_goes_on_by_itself_is_asked_for_again_while_the_api_is_away(unwell: httpx.Response | Exception) -> None:
    clock = Clock()

    def answering(_: httpx.Request) -> httpx.Response:
        if clock.now >= well_at:
            return httpx.Response(200, json={"tenants": [], "unassigned": False, "next": None})
        if isinstance(unwell, Exception):
            raise unwell
        return unwell

    def look() -> list[str]:
        return asking(answering).tenants(None)

    well_at = 60.0
    assert api.after(2.0, look, clock.sleep, clock.time) == []
    assert clock.now == 60
    well_at = 1_000_000.0
    with pytest.raises((api.NotNowError, api.TooOftenError)):
        api.after(2.0, look, clock.sleep, clock.time)
    assert clock.now == 60 + 2 + api.AWAY_SECONDS


def test_what_is_refused_is_not_asked_for_again() -> None:
    clock = Clock()
    with pytest.raises(UsageError, match="Gone"):
        api.after(2.0, lambda: problem(404, "Gone.").tenants(None), clock.sleep, clock.time)
    assert clock.now == 2


def test_a_change_names_the_version_that_was_seen() -> None:
    seen: list[str | None] = []

    def answering(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("If-Match"))
        return httpx.Response(200, json={"found": []})

    asked = asking(answering)
    asked.send("POST", "/x", seen=0)
    asked.send("POST", "/x", seen=12)
    asked.send("GET", "/x")
    assert seen == ['"0"', '"12"', None]


@pytest.mark.usefixtures("api")
def test_all_tenants_are_found_page_by_page(make_tenant: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        make_tenant(f"t{number}")
    monkeypatch.setattr(api, "PAGE", 2)
    assert within(lambda asked: asked.tenants(None)) == [f"t{number}" for number in range(5)]
    with pytest.raises(UsageError, match="Say for whom, with --tenant: t0, t1"):
        within(lambda asked: asked.one_tenant(None))


@pytest.mark.usefixtures("api")
def test_who_has_no_tenant_is_told_how_to_add_one() -> None:
    with pytest.raises(UsageError, match="counterfoil tenants add"):
        within(lambda asked: asked.one_tenant(None))


def within(do: Callable[[Api], Any], groups: str = "[admin tenant:*]") -> Any:
    """What comes of it while a command runs."""
    found: list[Any] = []
    command = typer.Typer()

    @command.command()
    def ask(context: typer.Context) -> None:
        found.append(do(reach(context, groups=groups)))

    result = CliRunner().invoke(command, [])
    if result.exception is not None:
        raise result.exception
    return found[0]


# -- how it is reached ----------------------------------------------------------------------------------------------

URL = "https://abc123.execute-api.eu-central-1.amazonaws.com"


def reached(*words: str, local: Path | None = None) -> httpx.Client:
    """The client of a command that may say --by."""
    found: list[httpx.Client] = []
    command = typer.Typer()

    @command.command()
    def ask(context: typer.Context, *, by: By) -> None:
        context.obj = local
        found.append(api.reach(context, by).client)

    result = CliRunner().invoke(command, [*words])
    if result.exception is not None:
        raise result.exception
    return found[0]


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_URL", URL)
    monkeypatch.setenv("COUNTERFOIL_TOKEN", "eyJ.abc.def")


@pytest.mark.usefixtures("deployed")
def test_a_deployment_is_asked_with_the_token_of_the_environment() -> None:
    client = reached()
    assert client.base_url == URL
    assert client.auth is not None
    request = next(client.auth.sync_auth_flow(client.build_request("GET", "/api/admin/dlq")))
    assert (str(request.url), request.headers["Authorization"]) == (f"{URL}/api/admin/dlq", "Bearer eyJ.abc.def")
    assert client.is_closed


@pytest.mark.usefixtures("deployed")
def test_in_a_deployment_the_token_says_who_does_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave --by out"):
        reached("--by", "kim")
    with pytest.raises(UsageError, match="two clouds"):
        reached(local=tmp_path)


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        *[
            ("COUNTERFOIL_URL", url, "address of the API")
            for url in ("", "http://api.example", "https://", "api.example", "https://kim:x@api.example", f"{URL}?a=b")
        ],
        *[("COUNTERFOIL_TOKEN", token, "ID token") for token in ("", "a b", "ä", "a\nb")],
    ],
)
def test_an_environment_that_cannot_be_used_is_told(
    name: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=says):
        reached()


def test_without_an_address_the_local_cloud_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COUNTERFOIL_URL", raising=False)
    cloud: Any = SimpleNamespace(api_url="http://127.0.0.1:1/_aws/execute-api/abc/$default")
    monkeypatch.setattr(Cloud, "at", lambda _: cloud)
    client = reached("--by", "kim")
    url = client.build_request("GET", "/api/admin/dlq").url
    assert str(url) == "http://127.0.0.1:1/_aws/execute-api/abc/$default/api/admin/dlq"


@pytest.mark.usefixtures("api")
def test_what_a_viewer_may_not_do_is_told_as_the_api_tells_it(
    make_tenant: Callable[..., UUID], admin: Connection
) -> None:
    make_tenant("acme")
    path = "/api/admin/dlq/bulk-ignore"
    body = {"filter": {"tenant": "acme"}, "reason": "A trial"}
    with pytest.raises(UsageError, match="requires the operator role"):
        within(lambda asked: asked.send("POST", path, body=body), "[viewer tenant:acme]")
    assert admin.execute("SELECT count(*) FROM operation").fetchone() == (0,)
