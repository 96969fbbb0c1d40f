"""The console's public files, with their headers, caching and content policy."""

import copy
import gzip
import json
import re
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil.settings import OidcSettings, Settings, settings
from functions.admin_api import console, handler
from functions.admin_api.console import Console
from infra import pages
from tests.delivery.harness import Context
from tests.functions.admin_api.conftest import EVENT

ROOT = Path(__file__).parents[3]
SIGN_IN = OidcSettings(
    issuer="https://login.example.com/acme",
    client="counterfoil",
    discovery="https://login.example.com/acme/.well-known/openid-configuration",
    origins=("https://login.example.com",),
)
UPLOADS = "https://counterfoil-uploads.s3.amazonaws.com"
SETTINGS = Settings(oidc=SIGN_IN, upload_origins=(UPLOADS,))
FIRST_LOAD_BYTES = 200 * 1024

Get = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Console:
    """The console as deployed."""
    files = pages.write(
        pages.build_assets(ROOT / "functions" / "admin_api" / "pages", ROOT / "node_modules"),
        tmp_path_factory.mktemp("build"),
    )
    return Console.read(files["files.json"].parent)


@pytest.fixture
def get(server: Console) -> Get:
    """`get(path, headers)` requests a path as the gateway does."""

    def get(path: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        return server.respond({"rawPath": path, "headers": headers or {}}, SETTINGS)

    return get


def assets(html: str) -> list[str]:
    return [href for href in re.findall(r'(?:href|src)="([^"]+)"', html) if not href.endswith("config.json")]


def test_page_preloads_its_config(get: Get) -> None:
    assert (
        '<link rel="preload" href="../config.json" as="fetch" crossorigin>' in get("/console/dead-letters/4f0d")["body"]
    )


def test_every_view_links_assets_by_relative_path(get: Get) -> None:
    for path, root in (
        ("/console", "console/"),
        ("/console/", "./"),
        ("/console/dead-letters", "./"),
        ("/console/dead-letters/", "../"),
        ("/console/dead-letters/4f0d", "../"),
        ("/console/signed-in", "./"),
    ):
        response = get(path)
        assert (response["statusCode"], response["headers"]["Content-Type"]) == (200, "text/html; charset=utf-8"), path
        assert all(href.startswith(f"{root}assets/") for href in assets(response["body"])), path


def test_unknown_view_returns_404(get: Get) -> None:
    for path in ("/console/nowhere", "/console/dead-letters/1/2/3/4", "/console/index.html", "/console/files.json"):
        assert get(path)["statusCode"] == 404, path


def test_assets_are_compressed_and_immutable(get: Get) -> None:
    types = {}
    for href in assets(get("/console/dead-letters")["body"]):
        response = get(f"/console/{href.removeprefix('./')}", {"accept-encoding": "gzip, br"})
        assert response["statusCode"] == 200
        assert response["headers"]["Cache-Control"] == "public, max-age=31536000, immutable"
        assert response["headers"]["Content-Encoding"] == "gzip"
        types[Path(href).suffix] = response["headers"]["Content-Type"]

    assert types == {suffix: pages.TYPES[suffix] for suffix in (".svg", ".css", ".txt", ".js")}


def test_first_load_stays_within_size_limit(get: Get) -> None:
    page = get("/console/dead-letters")
    loaded = [
        b64decode(get(f"/console/{href.removeprefix('./')}", {"accept-encoding": "gzip"})["body"])
        for href in assets(page["body"])
    ]

    assert len(page["body"]) + sum(map(len, loaded)) < FIRST_LOAD_BYTES


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0", "gzip; q=0.0"])
def test_client_without_gzip_gets_uncompressed_files(get: Get, accepted: str) -> None:
    (script,) = [href for href in assets(get("/console")["body"]) if href.endswith(".js")]
    compressed = get(f"/{script}", {"accept-encoding": "gzip"})
    uncompressed = get(f"/{script}", {"accept-encoding": accepted})

    assert "Content-Encoding" not in uncompressed["headers"]
    assert b64decode(uncompressed["body"]) == gzip.decompress(b64decode(compressed["body"]))
    assert uncompressed["headers"]["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../files.json",
        "../../handler.py",
        "..%2fhandler.py",
        "..\\handler.py",
        "/etc/passwd",
        "//etc/passwd",
        "app.js",
        "index.html",
        "files.json",
        "app.js\0",
        "__proto__",
    ],
)
def test_unlisted_asset_returns_404(get: Get, name: str) -> None:
    response = get(f"/console/assets/{name}")

    assert (response["statusCode"], response["headers"]["Cache-Control"]) == (404, "no-store")


def test_current_etag_returns_304(get: Get) -> None:
    for path in ("/console/dead-letters", "/" + assets(get("/console")["body"])[0]):
        etag = get(path)["headers"]["ETag"]
        for if_none_match in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            assert get(path, {"If-None-Match": if_none_match})["statusCode"] == 304
        assert get(path, {"If-None-Match": '"other"'})["statusCode"] == 200


def test_page_etag_depends_on_path_depth(get: Get) -> None:
    etag = get("/console/dead-letters")["headers"]["ETag"]

    assert get("/console/dead-letters/4f0d", {"if-none-match": etag})["statusCode"] == 200


def test_every_response_has_security_headers(get: Get) -> None:
    script = "/" + assets(get("/console")["body"])[0]
    for path in ("/console", "/console/nowhere", "/console/config.json", script, "/console/assets/none.js"):
        headers = get(path)["headers"]
        assert headers["X-Content-Type-Options"] == "nosniff", path
        assert headers["X-Frame-Options"] == "DENY", path
        assert headers["Referrer-Policy"] == "no-referrer", path
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin", path
        assert "max-age=" in headers["Strict-Transport-Security"], path


def test_content_policy_allows_only_required_origins(get: Get) -> None:
    for path in ("/console", "/console/nowhere"):
        directives = get(path)["headers"]["Content-Security-Policy"].split("; ")
        policy = {directive.split()[0]: directive.split()[1:] for directive in directives}

        assert policy["default-src"] == ["'none'"]
        assert policy["script-src"] == policy["style-src"] == ["'self'"]
        assert policy["connect-src"] == ["'self'", "https://login.example.com", UPLOADS]
        assert policy["img-src"] == ["'self'", "blob:"]
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == ["'none'"]


def test_page_omits_inline_scripts_and_styles(get: Get) -> None:
    html = get("/console")["body"]

    assert re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL) == [""]
    assert "<style" not in html
    assert not re.search(r"\s(?:style|on\w+)=", html)


def test_config_names_the_token_issuer(get: Get, server: Console) -> None:
    response = get("/console/config.json")

    assert json.loads(response["body"]) == {
        "sign_in": {"issuer": SIGN_IN.issuer, "client": "counterfoil", "discovery": SIGN_IN.discovery}
    }
    unconfigured = server.respond({"rawPath": "/console/config.json"}, Settings())
    assert json.loads(unconfigured["body"]) == {"sign_in": None}


def test_request_without_token_never_reaches_the_api(server: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "console", lambda: server)
    settings.cache_clear()
    event = copy.deepcopy(EVENT)
    event["routeKey"] = "GET /console/{path+}"
    del event["requestContext"]["authorizer"]
    try:
        for path in ("/api/tasks", "/console/../api/tasks", "//api/tasks", "/console/..%2fapi/openapi.json"):
            event["rawPath"] = event["requestContext"]["http"]["path"] = path
            response = handler.handle(event, Context())
            assert (response["statusCode"], response["headers"]["Content-Type"]) == (404, "text/html; charset=utf-8")
    finally:
        settings.cache_clear()


def test_server_and_page_define_the_same_views() -> None:
    source = (ROOT / "functions" / "admin_api" / "pages" / "views.ts").read_text()
    (table,) = re.findall(r"const VIEWS: Views = \{(.*?)\n\};", source, re.DOTALL)
    page_views = set(re.findall(r'^  "?([\w-]+)"?:', table, re.MULTILINE))

    assert page_views | {"", "signed-in", "signed-out"} == console.VIEWS
