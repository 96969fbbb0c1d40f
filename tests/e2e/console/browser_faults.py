"""Browser faults: errors, policy violations and requests to other origins."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, WebError

_EXPECTED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")
"""Message about a 4xx response. Pages handle such responses, so only a missing asset is a fault."""


class FaultRecorder:
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
        url = message.location["url"]
        is_expected = _EXPECTED.match(message.text) and "/console/assets/" not in url
        if message.type == "error" and not is_expected:
            self.faults.append(f"Error on the browser's console: {message.text} ({url})")

    def _on_error(self, error: WebError) -> None:
        self.faults.append(f"A script failed: {error.error}")

    def _on_request(self, request: Request) -> None:
        target = urlsplit(request.url)
        if target.scheme not in {"data", "blob"} and f"{target.scheme}://{target.netloc}" != self._origin:
            self.faults.append(f"Request to another origin: {request.url}")
