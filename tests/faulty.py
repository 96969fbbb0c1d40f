"""Servers at fault, for the real adapters to meet: one answers whatever it is told, one cuts connections short."""

import re
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

HOST = "127.0.0.1"


def outcome(action: Callable[[], object]) -> tuple[type[BaseException] | None, str]:
    """The class and the sentence of what `action` raises."""
    try:
        action()
    except BaseException as error:  # noqa: BLE001  # which it is is what the tests ask
        return type(error), str(error)
    return None, ""


def answer(status: int, body: bytes = b"", *headers: str, length: int | None = None) -> bytes:
    """One HTTP answer, byte by byte. `length` is what it claims, where that is not its length."""
    lines = [f"HTTP/1.1 {status} X", *headers, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


class Listener(ABC):
    """Accepts connections on a port of its own, each on a thread that ends with its connection."""

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
        """Everything that is said on one connection."""

    def close(self) -> None:
        """End the listener and every connection."""
        _shut(self._socket)
        for connection in self._connections:
            _shut(connection)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


class Answering(Listener):
    """An HTTP server that gives `said` to whoever asks, and closes; None resets the connection."""

    said: bytes | None = b""

    def serve(self, connection: socket.socket) -> None:
        """Read a request and answer it. What is left unread when a connection is closed would reset it."""
        request, length = b"", None
        while length is None or len(request) < length:
            more = connection.recv(65_536)
            if not more:
                return
            request += more
            if length is None and (end := request.find(b"\r\n\r\n")) >= 0:
                stated = re.search(rb"\r\ncontent-length: *(\d+)", request[: end + 4], re.IGNORECASE)
                length = end + 4 + (int(stated[1]) if stated else 0)
        if self.said is None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.sendall(self.said)


class Cutting(Listener):
    """A proxy that cuts each connection after `after` bytes of the server's. None: it only counts them."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.after: int | None = None
        self.speaks = threading.Event()
        """Cleared, the server says nothing more, and its connections stay open."""
        self.speaks.set()
        self.passed = 0
        """Bytes that the server said on the latest connection, as far as they were let through."""
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        """Pass on both directions until the cut."""
        passed = 0  # of this connection: an earlier one may still be ending
        with socket.create_connection((HOST, self._to)) as server:
            threading.Thread(target=self._pass_on, args=(connection, server), daemon=True).start()
            while said := server.recv(65_536):
                if self.after is not None:
                    said = said[: self.after - passed]
                passed += len(said)
                self.speaks.wait()
                self.passed = passed  # before the client can read the bytes and ask for it
                connection.sendall(said)
                if passed == self.after:
                    break
            _shut(connection)

    @staticmethod
    def _pass_on(connection: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while said := connection.recv(65_536):
                server.sendall(said)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)


@contextmanager
def answering() -> Iterator[Answering]:
    """An HTTP server that is told what to say."""
    server = Answering()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def cutting(port: int) -> Iterator[Cutting]:
    """A proxy before the server on `port`."""
    proxy = Cutting(port)
    try:
        yield proxy
    finally:
        proxy.speaks.set()
        proxy.close()
