"""Serves the console's files from the function's asset.

The files contain no data, so they require no token.

`infra/pages.py` builds the files and their manifest. File names contain content hashes, so a browser requests each file
only once. The HTML page that references the files is requested each time.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from counterfoil.settings import OidcSettings, Settings

EMULATED_ROOT = "GET /console/"
"""Route that only the emulator requires. On AWS, `{path+}` also matches an empty path."""
ROUTES = frozenset({"GET /console", "GET /console/{path+}", EMULATED_ROOT})
"""Routes that require no token."""
VIEWS = frozenset(
    {
        "",
        "audit",
        "clusters",
        "dead-letters",
        "documents",
        "mail",
        "offers",
        "operations",
        "overview",
        "reviews",
        "signed-in",
        "signed-out",
        "tasks",
    }
)
"""First path segments of the console's pages."""
MAX_SEGMENTS = 4
"""Maximum number of path segments below `/console/`."""
FILES = Path(__file__).parent / "pages"
_PREFIX = "/console"
_ASSETS = "/console/assets/"
_YEAR = 365 * 24 * 60 * 60
_SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Strict-Transport-Security": f"max-age={_YEAR}",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_POLICY_TEMPLATE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'{origins}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)


@dataclass(frozen=True)
class File:
    """A file of the manifest."""

    content_type: str
    etag: str
    content: bytes
    """Compressed with gzip."""


@dataclass(frozen=True)
class Console:
    """The console's files."""

    files: Mapping[str, File]
    """Files by their name below `/console/assets/`."""
    page: str
    """HTML page in which `{root}` stands for the relative path to `/console/`."""
    etag: str
    """ETag of the page."""

    @classmethod
    def read(cls, folder: Path) -> "Console":
        """Read the files packed into `folder`."""
        manifest = json.loads((folder / "files.json").read_text())
        files = {
            name: File(entry["type"], entry["etag"], (folder / f"{name}.gz").read_bytes())
            for name, entry in manifest["assets"].items()
        }
        return cls(files, (folder / "index.html").read_text(), manifest["page"]["etag"])

    def respond(self, event: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
        """Return the response to a gateway event for one of the ROUTES."""
        path = event["rawPath"]
        headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
        if path == f"{_PREFIX}/config.json":
            return _config_response(settings.oidc)
        if path.startswith(_ASSETS):
            file = self.files.get(path.removeprefix(_ASSETS))
            return _not_found() if file is None else _file_response(file, headers)
        return self._page_response(path, headers, settings)

    def _page_response(self, path: str, headers: Mapping[str, str], settings: Settings) -> dict[str, Any]:
        segments = path.removeprefix(_PREFIX).removeprefix("/").split("/")
        is_known = segments == [""] or (segments[0] in VIEWS - {""} and len(segments) <= MAX_SEGMENTS)
        # URLs in the page are relative: they depend only on the number of path segments below `/console/`.
        root = "console/" if path == _PREFIX else "../" * (len(segments) - 1) or "./"
        etag = f'"{self.etag}-{len(root)}"'
        response_headers = {
            "Cache-Control": "no-cache",
            "Content-Security-Policy": _security_policy(settings),
        }
        if not is_known:
            return _text_response(HTTPStatus.NOT_FOUND, "text/html; charset=utf-8", self._html(root), response_headers)
        if _is_cached(headers, etag):
            return _not_modified(response_headers | {"ETag": etag})
        return _text_response(
            HTTPStatus.OK, "text/html; charset=utf-8", self._html(root), response_headers | {"ETag": etag}
        )

    def _html(self, root: str) -> str:
        return self.page.replace("{root}", root)


@cache
def console() -> Console:
    """Return the console from this function's asset."""
    return Console.read(FILES)


def _security_policy(settings: Settings) -> str:
    """Return the Content-Security-Policy of the console.

    It allows the console's files, the token issuer and the upload bucket. Images may also use `blob:` URLs, because the
    console requests page images with a token, which an image URL cannot carry.
    """
    origins = (*(settings.oidc.origins if settings.oidc else ()), *settings.upload_origins)
    return _POLICY_TEMPLATE.format(origins="".join(f" {origin}" for origin in origins))


def _config_response(sign_in: OidcSettings | None) -> dict[str, Any]:
    """Return the deployment's configuration for the page."""
    config = {"sign_in": sign_in and sign_in.model_dump(mode="json", include={"issuer", "client", "discovery"})}
    return _text_response(HTTPStatus.OK, "application/json", json.dumps(config), {"Cache-Control": "no-cache"})


def _file_response(file: File, headers: Mapping[str, str]) -> dict[str, Any]:
    response_headers = {
        "Cache-Control": f"public, max-age={_YEAR}, immutable",
        "ETag": f'"{file.etag}"',
        "Vary": "Accept-Encoding",
    }
    if _is_cached(headers, response_headers["ETag"]):
        return _not_modified(response_headers)
    content = file.content
    if _accepts_gzip(headers.get("accept-encoding", "")):
        response_headers["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return {
        "statusCode": HTTPStatus.OK,
        "headers": {**_SECURITY_HEADERS, **response_headers, "Content-Type": file.content_type},
        "body": base64.b64encode(content).decode(),
        "isBase64Encoded": True,
    }


def _not_found() -> dict[str, Any]:
    text = "There is no such file. If a new version was just deployed, reload the page."
    return _text_response(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", text, {"Cache-Control": "no-store"})


def _not_modified(headers: Mapping[str, str]) -> dict[str, Any]:
    return {"statusCode": HTTPStatus.NOT_MODIFIED, "headers": {**_SECURITY_HEADERS, **headers}, "body": ""}


def _text_response(status: HTTPStatus, content_type: str, text: str, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": {**_SECURITY_HEADERS, **headers, "Content-Type": content_type},
        "body": text,
    }


def _is_cached(headers: Mapping[str, str], etag: str) -> bool:
    """Return whether the browser has the current version.

    A gateway or proxy may have weakened the tag.
    """
    tags = headers.get("if-none-match", "").split(",")
    return any(tag.strip().removeprefix("W/") in {etag, "*"} for tag in tags)


def _accepts_gzip(accepted: str) -> bool:
    weights = {
        part.split(";")[0].strip().lower(): part.partition(";")[2].replace(" ", "") for part in accepted.split(",")
    }
    return weights.get("gzip", "q=0") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
