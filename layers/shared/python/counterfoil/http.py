"""Calls over HTTP: httpx with a deadline that holds, a bounded body, and the mapping of its errors.

No message of an error has an address's path or query, a header or a body: they may hold secrets. Each call has a
connection of its own: one kept from an earlier invocation may have died while the function was frozen.
"""

import logging
import math
import socket
import ssl
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from threading import Lock, Thread
from typing import Any, TypeVar

import httpx

from counterfoil.errors import CounterfoilError, RejectedRequestError, ServiceUnavailableError

T = TypeVar("T")

LONGEST_BODY = 1_048_576
"""Bytes of an answer."""
LONGEST_RETRY_AFTER = 86_400.0
"""Seconds: who asks to be left alone for longer than a day is asked again after a day."""
PORTS = {"http": 80, "https": 443}
"""Where each scheme is spoken, unless an address says otherwise."""

_TRANSIENT_STATUS = {408, 425, 429}
_FOREIGN = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)
_NO_ANSWER = (
    httpx.TimeoutException,
    httpx.NetworkError,
    httpx.RemoteProtocolError,
    httpx.ProxyError,
    httpx.DecodingError,
)
_NAME = "sni_hostname"
"""The extension of a request by which httpcore is told of the name that a server must have a certificate for."""
_OF_THE_BODY = {"content-encoding", "content-length", "transfer-encoding"}
_AS_IT_IS = {"", "identity"}
_DEFLATED = {"deflate", "gzip", "x-gzip"}
_PARTING_SECONDS = 1.0
"""Of a call's time: for giving what has come of an answer when its line is cut."""
_CUT = "cut"
"""The extension of a response that says whether its body is less than all of it."""

# At INFO, httpx logs the whole address of each call, and some addresses are secrets; httpcore, at DEBUG, headers.
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("httpcore").setLevel(logging.WARNING)


def mapped(error: httpx.HTTPError | httpx.InvalidURL | httpx.StreamError) -> CounterfoilError:
    """The error of our tree for one of httpx's. Only its type, the host and the status are told."""
    if isinstance(error, httpx.HTTPStatusError):
        return _refusal(error.response)
    host = _host(error)
    if isinstance(error, _NO_ANSWER):
        return ServiceUnavailableError(f"{host} did not answer: {type(error).__name__}")
    return RejectedRequestError(f"{host} could not be called: {type(error).__name__}")


def check(response: httpx.Response) -> None:
    """Accept an answer with a status of 2xx.

    Raises:
        ServiceUnavailableError: 408, 425, 429 or any 5xx; with Retry-After, where it was sent.
        RejectedRequestError: any other status, redirects among them.
    """
    if not response.is_success:
        raise _refusal(response)


def send(  # noqa: PLR0913  # an interface between several pieces
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    json: Any = None,
    content: bytes | None = None,
    connect: float,
    read: float,
    total: float,
    longest_body: int | None = LONGEST_BODY,
    cut: bool = False,
    checked_by: Callable[[httpx.Response], None] = check,
    connect_to: Callable[[str, str, int], str] | None = None,
) -> httpx.Response:
    """Make one call and read its whole answer. No redirect is followed.

    `connect` and `read` are seconds without progress, `total` bounds all of it, the look-up of the name included.
    `checked_by` says what is an acceptable answer. Where `longest_body` is None, the body of the answer is left unread;
    one that is longer, cannot be inflated or does not come to its end is refused; or, with `cut`, as much is given as
    has come (see `is_cut`), for what the call was made for has happened. A body is asked for as it is; one that is
    compressed all the same is measured while it is inflated. The certificates trusted are the system's, or those of
    SSL_CERT_FILE.

    `connect_to` is given scheme, host and port, and returns the IP address to connect to, in the place of any that
    the name is resolved to; what it raises is raised. The call is still made to the name: Host, SNI and certificate.
    No proxy is used then, for it would resolve the name by itself.

    Raises:
        ServiceUnavailableError: no answer in time, no connection, or a transient status.
        RejectedRequestError: refused, impossible to send, an answer of more than `longest_body` bytes, or one in an
            encoding that was not asked for.
    """
    line = _Line()

    def call() -> httpx.Response:
        timeout = httpx.Timeout(read, connect=connect, pool=connect)
        with httpx.Client(
            verify=_trust(), timeout=timeout, follow_redirects=False, trust_env=connect_to is None
        ) as client:
            request = client.build_request(
                method,
                url,
                headers={**(headers or {}), "accept-encoding": "identity"},
                json=json,
                content=content,
                extensions={"trace": line.watch},
            )
            if connect_to is not None:
                _pin(request, connect_to)
            return _read(client.send(request, stream=True), longest_body, cut=cut)

    parting = min(_PARTING_SECONDS, total / 10) if cut else 0.0
    response = _in_time(call, url, line, total, parting)
    checked_by(response)
    return response


def _in_time(
    call: Callable[[], httpx.Response], url: str, line: "_Line", total: float, parting: float
) -> httpx.Response:
    """What `call` returns within `total` seconds, of which it has `parting` to give what has come when its line is cut.

    Raises as `send`.
    """
    failure: CounterfoilError
    try:
        return within(total - parting, call, abandon=line.cut, parting=parting)
    except TimeoutError:
        failure = ServiceUnavailableError(f"{_host_of(url)} did not answer within {total:g} seconds")
    except _FOREIGN as error:
        failure = mapped(error)
    except ValueError as error:  # what cannot be put into a request; the error would quote it
        failure = RejectedRequestError(f"{_host_of(url)} could not be called: {type(error).__name__}")
    raise failure  # outside of the handlers: a foreign error in its context may hold what must not be told


def within(
    seconds: float, function: Callable[[], T], *, abandon: Callable[[], None] = lambda: None, parting: float = 0.0
) -> T:
    """What `function` returns or raises, if it does so in time.

    It runs on a thread of its own, and one that is late is left to itself, after `abandon` has done what makes it end;
    within `parting` seconds from then on it may still return.

    Raises:
        TimeoutError: it did not end within `seconds`.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001  # raised again where the result is waited for
            future.set_exception(error)

    Thread(target=copy_context().run, args=(run,), name="call", daemon=True).start()
    try:
        return future.result(max(0.0, seconds))
    except TimeoutError:
        if future.done() or not parting:
            raise
        abandon()
        with suppress(Exception):  # what being abandoned makes of it
            return future.result(parting)
        raise
    finally:
        if not future.done():
            abandon()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from now that Retry-After asks for, by lower-case name of the header; None where it does not.

    It has seconds or a date, which is held against the server's own clock.
    """
    stated = headers.get("retry-after", "").strip()
    try:
        if stated[:1].isdigit():
            seconds = float(stated)
        else:
            now = _date(headers["date"]) if "date" in headers else datetime.now(UTC)
            seconds = (_date(stated) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(seconds) else min(max(0.0, seconds), LONGEST_RETRY_AFTER)


def is_cut(response: httpx.Response) -> bool:
    """Whether the body of an answer to `send` is a beginning only, or could not be read."""
    return bool(response.extensions.get(_CUT))


class _Line:
    """The socket of a call, to be cut from another thread: no read waits on a line that is dead."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False

    def watch(self, event: str, about: Mapping[str, Any]) -> None:
        """Take note of the connection: httpcore tells when it is there, and again when it is encrypted."""
        stream = about.get("return_value")
        if not event.endswith((".connect_tcp.complete", ".start_tls.complete")) or stream is None:
            return
        with self._lock:
            self._socket = stream.get_extra_info("socket")
            if self._is_cut:
                self._shut()

    def cut(self) -> None:
        """End the connection, or the one that is being made."""
        with self._lock:
            self._is_cut = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # it has ended by itself
                # Not SSLSocket's own: that one takes away what the reading thread is reading with.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _pin(request: httpx.Request, connect_to: Callable[[str, str, int], str]) -> None:
    """Lead a request to one address. Its header Host was made from the name, and TLS is told of that, too."""
    url = request.url
    host = url.raw_host.decode("ascii")
    address = connect_to(url.scheme, host, url.port or PORTS.get(url.scheme, 0))
    request.extensions[_NAME] = host
    request.url = url.copy_with(host=address)


def _read(response: httpx.Response, longest_body: int | None, *, cut: bool) -> httpx.Response:
    """The same answer with its body. Of a refusal, the beginning of the body is enough."""
    if longest_body is None:
        response.close()
        return httpx.Response(response.status_code, headers=response.headers, request=response.request)
    try:
        # The status of a refusal is told whatever becomes of its body.
        body, is_whole = _body(response, longest_body + 1, may_break_off=cut or not response.is_success)
    finally:
        response.close()
    if response.is_success and not is_whole and not cut:
        raise _unread(response, len(body), longest_body)
    return httpx.Response(
        response.status_code,
        headers=[(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_BODY],
        content=body[:longest_body],
        request=response.request,
        extensions={_CUT: not is_whole},
    )


def _body(response: httpx.Response, most: int, *, may_break_off: bool) -> tuple[bytes, bool]:
    """As much of an answer's body as can be read, `most` bytes at most, and whether that is all of it.

    httpx would inflate each chunk whole before anybody could measure it: 64 KiB become 64 MiB, and with one encoding
    around another what no memory holds. What follows the end of what is compressed is not read: it would be collected.
    """
    encoding = _encoding(response)
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in _DEFLATED else None
    body = bytearray()
    is_whole = True
    try:
        for chunk in response.iter_raw():
            if inflater is not None:
                body += inflater.decompress(chunk, most - len(body))
                is_whole = inflater.eof and not inflater.unused_data
            elif encoding in _AS_IT_IS:
                body += chunk
            else:
                return b"", False
            if len(body) >= most:
                return bytes(body[:most]), False
            if inflater is not None and inflater.eof:
                break
    except zlib.error:
        return bytes(body), False
    except _FOREIGN:
        if not may_break_off:
            raise
        return bytes(body), False
    return bytes(body), is_whole


def _unread(response: httpx.Response, size: int, longest_body: int) -> Exception:
    """Why a body is not read whole."""
    if size > longest_body:
        return RejectedRequestError(f"{_host(response)} answered with more than {longest_body} bytes")
    if _encoding(response) not in _DEFLATED:
        return RejectedRequestError(f"{_host(response)} answered in an encoding that was not asked for")
    return httpx.DecodingError("Not in its encoding", request=response.request)


def _encoding(response: httpx.Response) -> str:
    return str(response.headers.get("content-encoding", "")).strip().lower()


def _refusal(response: httpx.Response) -> CounterfoilError:
    message = f"{_host(response)} answered with HTTP {response.status_code}"
    if response.status_code in _TRANSIENT_STATUS or response.status_code >= 500:
        return ServiceUnavailableError(message, retry_after=retry_after(response.headers))
    return RejectedRequestError(message)


def _date(text: str) -> datetime:
    found = parsedate_to_datetime(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _host(source: object) -> str:
    """The host of whatever knows its request."""
    try:
        request: httpx.Request = source.request  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # httpx's way to say that there is none
        return "An address"
    return request.extensions.get(_NAME) or request.url.host or "An address"


def _host_of(url: str) -> str:
    try:
        return httpx.URL(url).host or "An address"
    except httpx.InvalidURL:
        return "An address"


@cache
def _trust() -> ssl.SSLContext:
    """OpenSSL's own choice of certificates: the system's, or those of SSL_CERT_FILE and SSL_CERT_DIR."""
    return ssl.create_default_context()
