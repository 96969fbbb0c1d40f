"""What goes wrong in a browser without anybody seeing it: errors, broken policies, requests to strangers."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, WebError

_TOLD = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")
"""What a browser writes down of an answer that the page itself deals with, or that somebody else's page asked for."""


class Watch:
    """Hears of everything that happens in the tabs of one context."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        """Listen from now on. Only `origin` may be asked for anything: API, console and sign-in share it locally."""
        self.faults: list[str] = []
        self._origin = origin
        context.on("console", self._said)
        context.on("weberror", self._failed)
        context.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        """Violations of the content security policy are told on the console, too."""
        where = message.location["url"]
        is_told = _TOLD.match(message.text) and "/console/assets/" not in where
        if message.type == "error" and not is_told:
            self.faults.append(f"The browser's console says: {message.text} ({where})")

    def _failed(self, error: WebError) -> None:
        self.faults.append(f"A script failed: {error.error}")

    def _asked(self, request: Request) -> None:
        to = urlsplit(request.url)
        if to.scheme not in {"data", "blob"} and f"{to.scheme}://{to.netloc}" != self._origin:
            self.faults.append(f"A stranger was asked: {request.url}")
