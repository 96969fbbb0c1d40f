"""HTTP calls: httpx with a hard deadline, a bounded body, and mapped errors.

Error messages omit path, query, headers and body, which can contain secrets. Each call opens a new connection, because
a connection from an earlier invocation may have been lost while the function was frozen.
"""

import logging
import math
import socket
import ssl
import zlib
from collections.abc import Callable, Iterator, Mapping
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
"""Default maximum size of a response body."""
MAX_RETRY_AFTER = 86_400.0
"""Maximum delay from a Retry-After header in seconds."""
PORTS = {"http": 80, "https": 443}
"""Default port of each scheme."""

_TRANSIENT_STATUS = {408, 425, 429}
_HTTPX_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)
_UNAVAILABLE_ERRORS = (
    httpx.TimeoutException,
    httpx.NetworkError,
    httpx.RemoteProtocolError,
    httpx.ProxyError,
    httpx.DecodingError,
)
_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (socket.gaierror, "cannot be reached: the host name cannot be resolved"),
    (ssl.SSLCertVerificationError, "cannot be reached: its certificate is invalid or not trusted"),
    (ssl.SSLError, "cannot be reached: the TLS connection failed"),
    (ConnectionRefusedError, "cannot be reached: connection refused"),
    (httpx.ConnectTimeout, "cannot be reached: the connection timed out"),
    (httpx.ProxyError, "cannot be reached: the proxy failed"),
    (httpx.ConnectError, "cannot be reached"),
    (httpx.TimeoutException, "did not answer in time"),
    (httpx.NetworkError, "did not answer: the connection was interrupted"),
    (httpx.DecodingError, "sent a response that cannot be decompressed"),
    (httpx.RemoteProtocolError, "did not send a complete, valid response"),
)
"""Words for an unavailable service, by the type of the error or its cause. The first type that matches applies."""
_INVALID_REQUEST = "could not be called: the address or the request is invalid"
_SNI_HOSTNAME = "sni_hostname"
"""httpcore request extension: the host name that the certificate must match."""
_BODY_HEADERS = {"content-encoding", "content-length", "transfer-encoding"}
_IDENTITY_ENCODINGS = {"", "identity"}
_DEFLATE_ENCODINGS = {"deflate", "gzip", "x-gzip"}
_GRACE_SECONDS = 1.0
"""Maximum seconds of a call's total time that are reserved for returning a partial body."""
_TRUNCATED = "truncated"
"""Response extension: true if the body is truncated or unreadable."""

# httpx logs each call's URL at INFO, and the URL can be a secret. httpcore logs headers at DEBUG.
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("httpcore").setLevel(logging.WARNING)


def translate_error(error: httpx.HTTPError | httpx.InvalidURL | httpx.StreamError) -> CounterfoilError:
    """Map an httpx error.

    The message contains only the host, the status and the kind of failure.
    """
    if isinstance(error, httpx.HTTPStatusError):
        return _status_error(error.response)
    host = _host(error)
    if isinstance(error, _UNAVAILABLE_ERRORS):
        causes = list(_causes(error))
        failure = next(text for kind, text in _FAILURES if any(isinstance(cause, kind) for cause in causes))
        return ServiceUnavailableError(f"{host} {failure}")
    return RejectedRequestError(f"{host} {_INVALID_REQUEST}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and the errors that caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__  # httpcore raises some errors `from None`


def check_status(response: httpx.Response) -> None:
    """Raise an error unless the status is 2xx.

    Raises:
        ServiceUnavailableError: 408, 425, 429 or any 5xx, with Retry-After if present.
        RejectedRequestError: any other status, including redirects.
    """
    if not response.is_success:
        raise _status_error(response)


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
    max_body_bytes: int | None = MAX_BODY_BYTES,
    truncate: bool = False,
    check_response: Callable[[httpx.Response], None] = check_status,
    connect_to: Callable[[str, str, int], str] | None = None,
) -> httpx.Response:
    """Send a request and return the response with its body.

    Redirects are not followed.

    `connect` and `read` limit the seconds without progress, and `total` limits the whole call including DNS.
    `check_response` raises an error if the response is not acceptable. If `max_body_bytes` is None, the body is not
    read. A body that is too long, incomplete or impossible to decompress is an error. If `truncate` is True, the
    beginning of the body is returned instead (see `is_truncated`), because the server has already processed the
    request. For a compressed body, the limit applies to the decompressed bytes, and decompression stops there.
    Certificates must be trusted by the system or by SSL_CERT_FILE.

    `connect_to(scheme, host, port)` returns the IP address to connect to. `send` raises its errors unchanged. The Host
    header, SNI and the certificate check still use the host name. No proxy is used in this case, because a proxy would
    resolve the name again.

    Raises:
        ServiceUnavailableError: timeout, no connection, an incomplete or unreadable body, or a transient status.
        RejectedRequestError: a permanent status, an invalid request, a body of more than `max_body_bytes` bytes, or an
            unsupported encoding.
    """
    call_socket = _CallSocket()

    def call() -> httpx.Response:
        timeout = httpx.Timeout(read, connect=connect, pool=connect)
        with httpx.Client(
            verify=_ssl_context(), timeout=timeout, follow_redirects=False, trust_env=connect_to is None
        ) as client:
            request = client.build_request(
                method,
                url,
                headers={**(headers or {}), "accept-encoding": "identity"},
                json=json,
                content=content,
                extensions={"trace": call_socket.watch},
            )
            if connect_to is not None:
                _pin(request, connect_to)
            return _read(client.send(request, stream=True), max_body_bytes, truncate=truncate)

    grace = min(_GRACE_SECONDS, total / 10) if truncate else 0.0
    response = _run_call(call, url, call_socket, total, grace)
    check_response(response)
    return response


def _run_call(
    call: Callable[[], httpx.Response], url: str, call_socket: "_CallSocket", total: float, grace: float
) -> httpx.Response:
    """Return the result of `call` within `total` seconds.

    This time includes `grace` seconds for a partial body. Raises the same errors as `send`.
    """
    failure: CounterfoilError
    try:
        return run_with_deadline(total - grace, call, abandon=call_socket.close, grace=grace)
    except TimeoutError:
        failure = ServiceUnavailableError(f"{_url_host(url)} did not answer within {total:g} seconds")
    except _HTTPX_ERRORS as error:
        failure = translate_error(error)
    except ValueError:  # an invalid value in the request; the error quotes it
        failure = RejectedRequestError(f"{_url_host(url)} {_INVALID_REQUEST}")
    # Raised outside the handlers, because the original error would become the context and can contain secrets.
    raise failure


def run_with_deadline(
    seconds: float, function: Callable[[], T], *, abandon: Callable[[], None] = lambda: None, grace: float = 0.0
) -> T:
    """Run `function` in a new thread and return its result within `seconds`.

    When the time is up, `abandon` is called and must make the function end. A result within another `grace` seconds is
    still returned. The function's errors are raised unchanged.

    Raises:
        TimeoutError: the function did not return in time.
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
        if future.done() or not grace:
            raise
        abandon()
        with suppress(Exception):  # a failure after `abandon` is expected
            return future.result(grace)
        raise
    finally:
        if not future.done():
            abandon()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the delay of a valid Retry-After header in seconds, or None.

    The delay is from 0 to MAX_RETRY_AFTER. Header names must be in lower case. If the header is a date, the delay
    counts from the response's Date header, or from the local time if that header is missing.
    """
    value = headers.get("retry-after", "").strip()
    try:
        if value[:1].isdigit():
            seconds = float(value)
        else:
            now = _parse_date(headers["date"]) if "date" in headers else datetime.now(UTC)
            seconds = (_parse_date(value) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(seconds) else min(max(0.0, seconds), MAX_RETRY_AFTER)


def is_truncated(response: httpx.Response) -> bool:
    """Return True if the body of a response from `send` is truncated or unreadable."""
    return bool(response.extensions.get(_TRUNCATED))


class _CallSocket:
    """A call's socket, which another thread can close to end a blocked read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self._is_closed = False

    def watch(self, event: str, info: Mapping[str, Any]) -> None:
        """Store the socket of the call.

        httpcore calls this method after connecting and after the TLS handshake.
        """
        stream = info.get("return_value")
        if not event.endswith((".connect_tcp.complete", ".start_tls.complete")) or stream is None:
            return
        with self._lock:
            self._socket = stream.get_extra_info("socket")
            if self._is_closed:
                self._shut_down()

    def close(self) -> None:
        """Close the socket now, or as soon as it is opened."""
        with self._lock:
            self._is_closed = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # already closed
                # SSLSocket.shutdown would remove the TLS object that the reading thread uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _pin(request: httpx.Request, connect_to: Callable[[str, str, int], str]) -> None:
    """Point a request at one IP address.

    The Host header and TLS still use the host name.
    """
    url = request.url
    host = url.raw_host.decode("ascii")
    address = connect_to(url.scheme, host, url.port or PORTS.get(url.scheme, 0))
    request.extensions[_SNI_HOSTNAME] = host
    request.url = url.copy_with(host=address)


def _read(response: httpx.Response, max_body_bytes: int | None, *, truncate: bool) -> httpx.Response:
    """Return the response with its body.

    The body may be truncated if `truncate` is True or the status is an error.
    """
    if max_body_bytes is None:
        response.close()
        return httpx.Response(response.status_code, headers=response.headers, request=response.request)
    try:
        # An error status is reported even if the body is unreadable.
        body, is_complete = _read_body(response, max_body_bytes + 1, allow_partial=truncate or not response.is_success)
    finally:
        response.close()
    if response.is_success and not is_complete and not truncate:
        raise _body_error(response, len(body), max_body_bytes)
    return httpx.Response(
        response.status_code,
        headers=[(name, value) for name, value in response.headers.multi_items() if name not in _BODY_HEADERS],
        content=body[:max_body_bytes],
        request=response.request,
        extensions={_TRUNCATED: not is_complete},
    )


def _read_body(response: httpx.Response, max_bytes: int, *, allow_partial: bool) -> tuple[bytes, bool]:
    """Read up to `max_bytes` bytes of a body.

    Return them, and whether the body is complete.

    httpx decompresses each chunk without a limit: 64 KiB can become 64 MiB, and nested encodings can exhaust memory.
    Data after the end of the compressed stream is not read, because zlib would buffer it.
    """
    encoding = _content_encoding(response)
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in _DEFLATE_ENCODINGS else None
    body = bytearray()
    is_complete = True
    try:
        for chunk in response.iter_raw():
            if decompressor is not None:
                body += decompressor.decompress(chunk, max_bytes - len(body))
                is_complete = decompressor.eof and not decompressor.unused_data
            elif encoding in _IDENTITY_ENCODINGS:
                body += chunk
            else:
                return b"", False
            if len(body) >= max_bytes:
                return bytes(body[:max_bytes]), False
            if decompressor is not None and decompressor.eof:
                break
    except zlib.error:
        return bytes(body), False
    except _HTTPX_ERRORS:
        if not allow_partial:
            raise
        return bytes(body), False
    return bytes(body), is_complete


def _body_error(response: httpx.Response, size: int, max_body_bytes: int) -> Exception:
    """Return the error for an unreadable body.

    The body is incomplete, too long or in an unsupported encoding.
    """
    if size > max_body_bytes:
        return RejectedRequestError(f"{_host(response)} answered with more than {max_body_bytes} bytes")
    if _content_encoding(response) not in _DEFLATE_ENCODINGS:
        return RejectedRequestError(f"{_host(response)} answered in an encoding that was not requested")
    return httpx.DecodingError("The body is not in its declared encoding", request=response.request)


def _content_encoding(response: httpx.Response) -> str:
    return str(response.headers.get("content-encoding", "")).strip().lower()


def _status_error(response: httpx.Response) -> CounterfoilError:
    message = f"{_host(response)} answered with HTTP {response.status_code}"
    if response.status_code in _TRANSIENT_STATUS or response.status_code >= 500:
        return ServiceUnavailableError(message, retry_after=retry_after(response.headers))
    return RejectedRequestError(message)


def _parse_date(text: str) -> datetime:
    date = parsedate_to_datetime(text)
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _host(source: object) -> str:
    """Return the request's host for a response or an error."""
    try:
        request: httpx.Request = source.request  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # raised if there is no request
        return "An address"
    return request.extensions.get(_SNI_HOSTNAME) or request.url.host or "An address"


def _url_host(url: str) -> str:
    try:
        return httpx.URL(url).host or "An address"
    except httpx.InvalidURL:
        return "An address"


@cache
def _ssl_context() -> ssl.SSLContext:
    """Return a TLS context that trusts the system's certificates.

    SSL_CERT_FILE and SSL_CERT_DIR can replace them.
    """
    return ssl.create_default_context()
