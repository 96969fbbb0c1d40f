"""Browser faults: errors, policy violations and requests to other origins."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, WebError

_EXPECTED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")
"""Message about a 4xx response, which pages handle. Only a missing asset is a fault."""


class Watch:
    """Records the faults in all tabs of one browser context."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        """Start recording. `origin` is the only origin that may receive requests."""
        self.faults: list[str] = []
        self._origin = origin
        context.on("console", self._on_message)
        context.on("weberror", self._on_error)
        context.on("request", self._on_request)

    def _on_message(self, message: ConsoleMessage) -> None:
        """Record errors, including violations of the content security policy."""
        where = message.location["url"]
        is_expected = _EXPECTED.match(message.text) and "/console/assets/" not in where
        if message.type == "error" and not is_expected:
            self.faults.append(f"Error on the browser's console: {message.text} ({where})")

    def _on_error(self, error: WebError) -> None:
        self.faults.append(f"A script failed: {error.error}")

    def _on_request(self, request: Request) -> None:
        to = urlsplit(request.url)
        if to.scheme not in {"data", "blob"} and f"{to.scheme}://{to.netloc}" != self._origin:
            self.faults.append(f"Request to another origin: {request.url}")
