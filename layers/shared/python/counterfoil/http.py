"""HTTP calls: httpx with a hard deadline, a bounded body, and mapped errors.

Error messages have no path, query, header or body, because they can contain secrets. Each call opens a new connection,
because a connection of an earlier invocation may have been lost while the function was frozen.
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

MAX_BODY_BYTES = 1_048_576
"""Maximum size of a response body in bytes."""
MAX_RETRY_AFTER = 86_400.0
"""Maximum delay from a Retry-After header in seconds."""
PORTS = {"http": 80, "https": 443}
"""Default port of each scheme."""

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
"""Request extension of httpcore with the host name that the certificate must have."""
_OF_THE_BODY = {"content-encoding", "content-length", "transfer-encoding"}
_AS_IT_IS = {"", "identity"}
_DEFLATED = {"deflate", "gzip", "x-gzip"}
_PARTING_SECONDS = 1.0
"""Part of the call's time that is reserved for returning a truncated body."""
_CUT = "cut"
"""Response extension: whether the body is truncated."""

# httpx logs the URL of each call at INFO, which can be a secret; httpcore logs headers at DEBUG.
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("httpcore").setLevel(logging.WARNING)


def translate_error(error: httpx.HTTPError | httpx.InvalidURL | httpx.StreamError) -> CounterfoilError:
    """Map an error of httpx. The message has only its type, the host and the status."""
    if isinstance(error, httpx.HTTPStatusError):
        return _refusal(error.response)
    host = _host(error)
    if isinstance(error, _NO_ANSWER):
        return ServiceUnavailableError(f"{host} did not answer: {type(error).__name__}")
    return RejectedRequestError(f"{host} could not be called: {type(error).__name__}")


def check(response: httpx.Response) -> None:
    """Accept a response with a 2xx status.

    Raises:
        ServiceUnavailableError: 408, 425, 429 or any 5xx, with Retry-After if present.
        RejectedRequestError: any other status, including redirects.
    """
    if not response.is_success:
        raise _refusal(response)


def send(  # noqa: PLR0913
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    json: Any = None,
    content: bytes | None = None,
    connect: float,
    read: float,
    total: float,
    longest_body: int | None = MAX_BODY_BYTES,
    cut: bool = False,
    checked_by: Callable[[httpx.Response], None] = check,
    connect_to: Callable[[str, str, int], str] | None = None,
) -> httpx.Response:
    """Make a call and return its response with the body. Redirects are not followed.

    `connect` and `read` limit the seconds without progress, and `total` limits the whole call including DNS.
    `checked_by` raises an error if the response is not acceptable. If `longest_body` is None, the body is not read. A
    body that is too long, incomplete or cannot be decompressed is an error. With `cut`, its beginning is returned
    instead (see `is_truncated`), because the call has had its effect. The size of a compressed body is limited during
    decompression. Trusted certificates are those of the system or of SSL_CERT_FILE.

    `connect_to` gets scheme, host and port, and returns the IP address to connect to. Its errors are raised. Host
    header, SNI and certificate still use the host name. Proxies are not used then, because they resolve names.

    Raises:
        ServiceUnavailableError: timeout, no connection, or a transient status.
        RejectedRequestError: a permanent status, an invalid request, a body of more than `longest_body` bytes, or an
            unsupported encoding.
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
    """Return the result of `call` within `total` seconds, including `parting` for a truncated body.

    Raises the same errors as `send`.
    """
    failure: CounterfoilError
    try:
        return run_with_deadline(total - parting, call, abandon=line.cut, parting=parting)
    except TimeoutError:
        failure = ServiceUnavailableError(f"{_host_of(url)} did not answer within {total:g} seconds")
    except _FOREIGN as error:
        failure = translate_error(error)
    except ValueError as error:  # an invalid value in the request, which the error quotes
        failure = RejectedRequestError(f"{_host_of(url)} could not be called: {type(error).__name__}")
    raise failure  # outside the handlers, because the context of the error could contain secrets


def run_with_deadline(
    seconds: float, function: Callable[[], T], *, abandon: Callable[[], None] = lambda: None, parting: float = 0.0
) -> T:
    """Run `function` in a new thread and return its result within `seconds`.

    After that, `abandon` must make the function end. It can still return within `parting` seconds. Its
    errors are raised.

    Raises:
        TimeoutError: it did not end within `seconds`.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001  # raised by `future.result`
            future.set_exception(error)

    Thread(target=copy_context().run, args=(run,), name="call", daemon=True).start()
    try:
        return future.result(max(0.0, seconds))
    except TimeoutError:
        if future.done() or not parting:
            raise
        abandon()
        with suppress(Exception):  # the function may fail when it is abandoned
            return future.result(parting)
        raise
    finally:
        if not future.done():
            abandon()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the delay of the Retry-After header in seconds, or None without a valid header.

    Header names must be in lower case. A date in the header is compared with the server's clock.
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
    return None if math.isnan(seconds) else min(max(0.0, seconds), MAX_RETRY_AFTER)


def is_truncated(response: httpx.Response) -> bool:
    """Return True if the body of a response of `send` is truncated or unreadable."""
    return bool(response.extensions.get(_CUT))


class _Line:
    """The socket of a call, which another thread can close to end a blocked read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False

    def watch(self, event: str, about: Mapping[str, Any]) -> None:
        """Store the socket. httpcore calls this after connecting and after the TLS handshake."""
        stream = about.get("return_value")
        if not event.endswith((".connect_tcp.complete", ".start_tls.complete")) or stream is None:
            return
        with self._lock:
            self._socket = stream.get_extra_info("socket")
            if self._is_cut:
                self._shut()

    def cut(self) -> None:
        """Close the connection, even if it opens later."""
        with self._lock:
            self._is_cut = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # already closed
                # SSLSocket.shutdown would remove the TLS object that the reading thread uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _pin(request: httpx.Request, connect_to: Callable[[str, str, int], str]) -> None:
    """Send a request to one address. Its Host header and TLS use the host name."""
    url = request.url
    host = url.raw_host.decode("ascii")
    address = connect_to(url.scheme, host, url.port or PORTS.get(url.scheme, 0))
    request.extensions[_NAME] = host
    request.url = url.copy_with(host=address)


def _read(response: httpx.Response, longest_body: int | None, *, cut: bool) -> httpx.Response:
    """Return the response with its body, which may be truncated if the status is an error."""
    if longest_body is None:
        response.close()
        return httpx.Response(response.status_code, headers=response.headers, request=response.request)
    try:
        # The status of an error counts even if its body is unreadable.
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
    """Read at most `most` bytes of a body. Returns them and whether the body is complete.

    httpx decompresses each chunk without a limit: 64 KiB become 64 MiB, and nested encodings exceed any memory. Data
    after the end of the compressed stream is not read, because zlib would collect it.
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
    """Return the reason why a body is incomplete."""
    if size > longest_body:
        return RejectedRequestError(f"{_host(response)} answered with more than {longest_body} bytes")
    if _encoding(response) not in _DEFLATED:
        return RejectedRequestError(f"{_host(response)} answered in an encoding that was not requested")
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
    """Return the host of the request of a response or an error."""
    try:
        request: httpx.Request = source.request  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # httpx raises these without a request
        return "An address"
    return request.extensions.get(_NAME) or request.url.host or "An address"


def _host_of(url: str) -> str:
    try:
        return httpx.URL(url).host or "An address"
    except httpx.InvalidURL:
        return "An address"


@cache
def _trust() -> ssl.SSLContext:
    """Return the certificates of the system, or of SSL_CERT_FILE and SSL_CERT_DIR."""
    return ssl.create_default_context()
