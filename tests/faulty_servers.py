"""Faulty servers for adapter tests: scripted HTTP responses and cut connections."""

import re
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

HOST = "127.0.0.1"


def outcome(action: Callable[[], object]) -> tuple[type[BaseException] | None, str]:
    """Return the class and message of the exception that `action` raises.

    Without an exception, return None and an empty text.
    """
    try:
        action()
    except BaseException as error:  # noqa: BLE001  # tests compare the class
        return type(error), str(error)
    return None, ""


def http_response(status: int, body: bytes = b"", *headers: str, length: int | None = None) -> bytes:
    """Return a raw HTTP response. `length` overrides the Content-Length."""
    lines = [f"HTTP/1.1 {status} X", *headers, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


class Listener(ABC):
    """Accept connections on a free port, each on its own thread."""

    def __init__(self) -> None:
        self._socket = socket.create_server((HOST, 0))
        self.port: int = self._socket.getsockname()[1]
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            self.serve(connection)

    @abstractmethod
    def serve(self, connection: socket.socket) -> None:
        """Serve one connection."""

    def close(self) -> None:
        """Close the listener and every connection."""
        _shut(self._socket)
        for connection in self._connections:
            _shut(connection)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class ScriptedServer(Listener):
    """HTTP server that sends `response` and closes the connection.

    If `response` is None, it resets the connection.
    """

    response: bytes | None = b""

    def serve(self, connection: socket.socket) -> None:
        """Read the whole request and respond.

        Closing with unread data would reset the connection.
        """
        request, length = b"", None
        while length is None or len(request) < length:
            chunk = connection.recv(65_536)
            if not chunk:
                return
            request += chunk
            if length is None and (end := request.find(b"\r\n\r\n")) >= 0:
                content_length = re.search(rb"\r\ncontent-length: *(\d+)", request[: end + 4], re.IGNORECASE)
                length = end + 4 + (int(content_length[1]) if content_length else 0)
        if self.response is None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.sendall(self.response)


class CuttingProxy(Listener):
    """Proxy that cuts each connection after `cut_after` bytes from the server.

    None means no cut.
    """

    def __init__(self, port: int) -> None:
        self._target_port = port
        self.cut_after: int | None = None
        self.responding = threading.Event()
        """When cleared, the proxy forwards no responses but keeps its connections open."""
        self.responding.set()
        self.forwarded = 0
        """Number of bytes forwarded from the server on the latest connection."""
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        """Forward data in both directions until the cut."""
        forwarded = 0  # per connection, because an earlier connection may still be closing
        with socket.create_connection((HOST, self._target_port)) as server:
            threading.Thread(target=self._forward, args=(connection, server), daemon=True).start()
            while data := server.recv(65_536):
                if self.cut_after is not None:
                    data = data[: self.cut_after - forwarded]
                forwarded += len(data)
                self.responding.wait()
                self.forwarded = forwarded  # set before the client receives the bytes and reads this counter
                connection.sendall(data)
                if forwarded == self.cut_after:
                    break
            _shut(connection)

    @staticmethod
    def _forward(connection: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := connection.recv(65_536):
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Run an HTTP server with a scripted response."""
    server = ScriptedServer()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def cutting_proxy(port: int) -> Iterator[CuttingProxy]:
    """Run a proxy in front of the server on `port`."""
    proxy = CuttingProxy(port)
    try:
        yield proxy
    finally:
        proxy.responding.set()
        proxy.close()
