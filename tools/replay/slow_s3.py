"""A local S3 proxy that slows down downloads (GET) and forwards uploads (PUT).

It slows down a worker without changing its code: only the function's S3 endpoint changes.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import ceil
from urllib.parse import urlsplit

HOST = "127.0.0.1"
SECONDS = 60
"""Timeout in seconds for requests to the S3 behind the proxy."""
PORTION_SECONDS = 5.0
"""Maximum pause within a download, in seconds."""
_HOP_BY_HOP = {"connection", "expect", "keep-alive", "transfer-encoding"}


@dataclass
class Downloads:
    """Counts concurrent downloads, independently of the workers' log."""

    max_concurrent: int = 0
    count: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def track(self) -> Iterator[None]:
        """Count one download."""
        with self._lock:
            self._now += 1
            self.count += 1
            self.max_concurrent = max(self.max_concurrent, self._now)
        try:
            yield
        finally:
            with self._lock:
                self._now -= 1


@dataclass(frozen=True)
class SlowS3:
    """A running proxy."""

    endpoint: str
    downloads: Downloads


@contextmanager
def slow_s3(endpoint: str, seconds: float) -> Iterator[SlowS3]:
    """Run an S3 proxy for `endpoint` that stretches each download over `seconds`."""
    downloads = Downloads()
    upstream = urlsplit(endpoint).netloc

    class Handler(_Handler):
        def do_GET(self) -> None:
            with downloads.track():
                self.forward(upstream, seconds)

        def do_PUT(self) -> None:
            self.forward(upstream)

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, name="slow S3", daemon=True).start()
        try:
            yield SlowS3(f"http://{HOST}:{server.server_address[1]}", downloads)
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """Ignore disconnects during a response, because a worker may be killed."""
        with suppress(ConnectionError):
            super().handle()

    def forward(self, upstream: str, seconds: float = 0.0) -> None:
        """Forward the request with its Host, and stretch the response over `seconds`.

        The request's signature covers the Host.
        """
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = HTTPConnection(upstream, timeout=SECONDS)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.casefold() not in _HOP_BY_HOP:
                    connection.putheader(name, value)
            connection.endheaders(content)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.casefold() not in {*_HOP_BY_HOP, "content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", response.getheader("Content-Length", "0") if not body else str(len(body)))
        self.end_headers()
        # Send portions, because the S3 client closes a connection after 20 s without data.
        portions = max(1, ceil(seconds / PORTION_SECONDS))
        size = ceil(len(body) / portions)
        for number in range(portions):
            time.sleep(seconds / portions)
            self.wfile.write(body[number * size : (number + 1) * size])
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Log nothing, because the command prints its own progress."""
