"""HTTP calls: deadlines, body limits, error mapping, and protection of secrets."""

import gzip
import logging
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from itertools import chain
from threading import Event
from time import monotonic
from typing import Any

import httpx
import pytest

from counterfoil import http
from counterfoil.errors import PermanentError, RejectedRequestError, ServiceUnavailableError
from tests.llm.server import Answer, Failure, Raw, Server, Step

LIMITS: dict[str, Any] = {"connect": 2.0, "read": 2.0, "total": 5.0}
SECRET = "T0-B1-s3cr3t"


@pytest.fixture
def scripted_server() -> Iterator[Server]:
    with Server() as server:
        yield server


def call(server: Server, *script: Step, **limits: Any) -> httpx.Response:
    server.add_steps(*script)
    return http.send("POST", f"{server.url}/{SECRET}?key={SECRET}", json={"a": 1}, **LIMITS | limits)


def seconds_of(failing_call: Any, **arguments: Any) -> float:
    start = monotonic()
    with pytest.raises(ServiceUnavailableError):
        failing_call(**arguments)
    return monotonic() - start


# Requests and responses


def test_call_sends_request_and_returns_response(scripted_server: Server):
    response = call(scripted_server, Answer("yes"), headers={"x-api-key": "k"})
    assert (response.status_code, response.content, response.headers["content-type"]) == (
        200,
        b"yes",
        "application/json",
    )
    request = scripted_server.requests[0]
    assert (request.body, request.headers["x-api-key"], request.headers["accept-encoding"]) == (
        b'{"a":1}',
        "k",
        "identity",
    )


def test_bytes_are_sent_unchanged(scripted_server: Server):
    scripted_server.add_steps(Answer("yes"))
    http.send("POST", scripted_server.url, content=b"\x00\xff", **LIMITS)
    assert scripted_server.requests[0].body == b"\x00\xff"


def test_redirect_is_not_followed(scripted_server: Server):
    with pytest.raises(RejectedRequestError, match="HTTP 302"):
        call(scripted_server, Raw(302, headers={"Location": f"{scripted_server.url}/elsewhere"}), Answer("from there"))
    assert len(scripted_server.requests) == 1


def test_response_within_limit_is_read_completely(scripted_server: Server):
    assert call(scripted_server, Raw(body=b"x" * 1000), max_body_bytes=1000).content == b"x" * 1000


def test_response_beyond_limit_is_rejected(scripted_server: Server):
    with pytest.raises(RejectedRequestError, match="more than 1000 bytes"):
        call(scripted_server, Raw(body=b"x" * 1001), max_body_bytes=1000)


def test_error_status_is_reported_despite_long_body(scripted_server: Server):
    with pytest.raises(ServiceUnavailableError, match="HTTP 500"):
        call(scripted_server, Raw(500, body=b"x" * 100_000), max_body_bytes=10)


def test_truncated_response_is_a_failure(scripted_server: Server):
    with pytest.raises(ServiceUnavailableError, match="did not send a complete, valid response"):
        call(scripted_server, Raw(body=b"half", headers={"Content-Length": "8"}))


def gzip_response(body: bytes, status: int = 200, encoding: str = "gzip") -> Raw:
    return Raw(status, gzip.compress(body), {"Content-Encoding": encoding})


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b"x" * 1000)[:-5], gzip.compress(b"x") + gzip.compress(b"y")],
    ids=["plain", "cut", "two"],
)
def test_unreadable_gzip_body_is_a_failure(scripted_server: Server, body: bytes):
    with pytest.raises(ServiceUnavailableError, match="cannot be decompressed"):
        call(scripted_server, Raw(body=body, headers={"Content-Encoding": "gzip"}))


@pytest.mark.parametrize("encoding", ["gzip", "X-GZIP", "identity", ""])
def test_gzip_and_identity_bodies_are_read(scripted_server: Server, encoding: str):
    body = gzip.compress(b"x" * 1000) if "zip" in encoding.lower() else b"x" * 1000
    response = Raw(body=body, headers={"Content-Encoding": encoding})

    assert call(scripted_server, response, max_body_bytes=1000).content == b"x" * 1000


def test_content_encoding_of_empty_body_is_ignored(scripted_server: Server):
    assert call(scripted_server, Raw(headers={"Content-Encoding": "gzip"})).content == b""
    assert call(scripted_server, Raw(headers={"Content-Encoding": "br"})).content == b""


@pytest.mark.parametrize("cut", [True, False])
def test_decompression_is_bounded(scripted_server: Server, cut: bool):
    bomb = gzip.compress(b"x" * 50_000_000)  # about 50 KB
    scripted_server.add_steps(*(Raw(status, bomb, {"Content-Encoding": "gzip"}) for status in (200, 400)))
    tracemalloc.start()
    try:
        for _ in range(2):
            with suppress(RejectedRequestError):
                http.send("GET", scripted_server.url, **LIMITS, max_body_bytes=1000, truncate=cut)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(scripted_server.requests) == 2
    assert peak < 5_000_000


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "compress"])
def test_unsupported_encoding_is_rejected_unless_status_is_error(scripted_server: Server, encoding: str):
    with pytest.raises(RejectedRequestError, match="in an encoding that was not requested"):
        call(scripted_server, gzip_response(b"x", encoding=encoding))
    with pytest.raises(ServiceUnavailableError, match="HTTP 503"):
        call(scripted_server, gzip_response(b"x", 503, encoding))
    with pytest.raises(RejectedRequestError, match="HTTP 404"):
        call(scripted_server, Raw(404, b"no gzip", {"Content-Encoding": "gzip"}))


def test_accept_encoding_cannot_be_overridden(scripted_server: Server):
    call(scripted_server, Answer("yes"), headers={"accept-encoding": "gzip"})
    assert scripted_server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("raw", [Raw(body=b"x" * 1001), gzip_response(b"x" * 1001)])
def test_truncate_cuts_longer_response(scripted_server: Server, raw: Raw):
    longer_response, complete_response = (
        call(scripted_server, item, max_body_bytes=1000, truncate=True) for item in (raw, Raw(body=b"x" * 1000))
    )

    assert (longer_response.content, http.is_truncated(longer_response)) == (b"x" * 1000, True)
    assert (complete_response.content, http.is_truncated(complete_response)) == (b"x" * 1000, False)


def test_caller_can_replace_status_check(scripted_server: Server):
    checked: list[tuple[int, bytes]] = []
    call(
        scripted_server,
        Raw(404, b"gone"),
        check_response=lambda response: checked.append((response.status_code, response.content)),
    )
    assert checked == [(404, b"gone")]


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (Raw(body=gzip.compress(b"x" * 1000)[:-5], headers={"Content-Encoding": "gzip"}), b"x" * 1000),
        (Raw(body=b"no gzip", headers={"Content-Encoding": "gzip"}), b""),
        (Raw(body=b"x", headers={"Content-Encoding": "br"}), b""),
    ],
)
def test_truncate_returns_readable_part_of_response(scripted_server: Server, answer: Raw, read: bytes):
    response = call(scripted_server, answer, truncate=True)

    assert (response.status_code, response.content, http.is_truncated(response)) == (200, read, True)


@pytest.mark.parametrize(
    "answer",
    [
        Raw(201, b"half", {"Content-Length": "8"}),
        Raw(201, b"half", behavior="reset"),
        Raw(201, gzip.compress(b"half")[:-8], {"Content-Encoding": "gzip", "Content-Length": "99"}),
    ],
)
def test_truncate_accepts_interrupted_body(scripted_server: Server, answer: Raw):
    response = call(scripted_server, answer, truncate=True)

    assert (response.status_code, http.is_truncated(response)) == (201, True)
    assert b"half".startswith(response.content)


@pytest.mark.parametrize("limits", [{"read": 30.0, "total": 0.5}, {"read": 0.2, "total": 30.0}])
def test_truncate_ends_unfinished_body_at_timeout(limits: dict[str, float], scripted_server: Server):
    start = monotonic()
    response = call(
        scripted_server,
        Raw(201, b"a" * 50, behavior="slow_body" if limits["total"] < 1 else "stalled"),
        truncate=True,
        **limits,
    )

    assert (response.status_code, http.is_truncated(response)) == (201, True)
    assert monotonic() - start < 2.0


def test_truncate_does_not_accept_incomplete_headers(scripted_server: Server):
    seconds = seconds_of(
        partial(call, scripted_server, Raw(behavior="slow_headers"), truncate=True), read=30.0, total=0.3
    )
    assert seconds < 1.5


def test_error_status_is_reported_despite_interrupted_body(scripted_server: Server):
    with pytest.raises(RejectedRequestError, match="404"):
        call(scripted_server, Raw(404, b"half", {"Content-Length": "8"}))


def test_data_after_compressed_stream_is_discarded(scripted_server: Server):
    flood = Raw(body=gzip.compress(b"x") + bytes(30_000_000), headers={"Content-Encoding": "gzip"})
    tracemalloc.start()
    try:
        response = call(scripted_server, flood, truncate=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (response.content, http.is_truncated(response)) == (b"x", True)
    assert peak < 40_000_000  # including the server's copy of 30 MB


# Deadlines


@pytest.mark.parametrize("pace", ["slow_headers", "slow_body", "silent"])
def test_slow_response_fails_at_total_deadline(pace: Any, scripted_server: Server):
    # `read` is long enough never to expire, so only `total` ends the call.
    seconds = seconds_of(partial(call, scripted_server, Raw(body=b"ab", behavior=pace)), read=30.0, total=0.3)
    assert 0.3 <= seconds < 1.5


def test_unresponsive_server_ends_call_at_read_timeout(scripted_server: Server):
    seconds = seconds_of(partial(call, scripted_server, Raw(behavior="silent")), read=0.1, total=30.0)
    assert seconds < 1.5


def test_timed_out_call_closes_its_connection(scripted_server: Server):
    disconnected = Event()

    class NotifyingServer(Server):
        def on_request_end(self) -> None:
            super().on_request_end()
            disconnected.set()

    with NotifyingServer(Raw(behavior="slow_body")) as server:
        seconds_of(partial(call, server), read=30.0, total=0.1)
        assert disconnected.wait(5)


def test_hanging_dns_lookup_does_not_block_caller(monkeypatch: pytest.MonkeyPatch):
    finished = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: finished.wait(30) and [])
    try:
        assert seconds_of(partial(http.send, "GET", "http://slow.example/", **LIMITS | {"total": 0.1})) < 1.5
    finally:
        finished.set()


def test_hanging_tls_handshake_does_not_block_caller():
    with socket.create_server(("127.0.0.1", 0)) as silent_server:  # accepts connections, but never starts TLS
        url = f"https://127.0.0.1:{silent_server.getsockname()[1]}/"
        assert seconds_of(partial(http.send, "GET", url, connect=30.0, read=30.0, total=0.2)) < 1.5
        assert seconds_of(partial(http.send, "GET", url, connect=0.1, read=30.0, total=30.0)) < 1.5


def test_call_after_deadline_fails(scripted_server: Server):
    with pytest.raises(ServiceUnavailableError):
        call(scripted_server, Raw(behavior="silent"), total=-1.0)


def test_refused_connection_is_a_service_failure():
    with socket.create_server(("127.0.0.1", 0)) as unused_socket:
        port = unused_socket.getsockname()[1]
    with pytest.raises(ServiceUnavailableError, match=r"127\.0\.0\.1 cannot be reached: connection refused"):
        http.send("GET", f"http://127.0.0.1:{port}/", **LIMITS)


def test_connection_reset_is_a_service_failure(scripted_server: Server):
    with pytest.raises(ServiceUnavailableError, match="the connection was interrupted"):
        call(scripted_server, Raw(body=b"x" * 1000, behavior="reset"))


# Classification


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 502, 503, 504, 529, 599])
def test_throttling_and_server_errors_are_transient(status: int, scripted_server: Server):
    with pytest.raises(ServiceUnavailableError, match=f"127.0.0.1 answered with HTTP {status}"):
        call(scripted_server, Failure(status))


@pytest.mark.parametrize("status", [301, 304, 400, 401, 403, 404, 409, 410, 413, 422, 424, 451, 499])
def test_redirects_and_client_errors_are_permanent(status: int, scripted_server: Server):
    with pytest.raises(RejectedRequestError, match=f"127.0.0.1 answered with HTTP {status}"):
        call(scripted_server, Raw(status))


EXPECTED_ERRORS = {
    httpx.RequestError: RejectedRequestError,
    httpx.TransportError: RejectedRequestError,
    httpx.TimeoutException: ServiceUnavailableError,
    httpx.ConnectTimeout: ServiceUnavailableError,
    httpx.ReadTimeout: ServiceUnavailableError,
    httpx.WriteTimeout: ServiceUnavailableError,
    httpx.PoolTimeout: ServiceUnavailableError,
    httpx.NetworkError: ServiceUnavailableError,
    httpx.ReadError: ServiceUnavailableError,
    httpx.WriteError: ServiceUnavailableError,
    httpx.ConnectError: ServiceUnavailableError,
    httpx.CloseError: ServiceUnavailableError,
    httpx.ProxyError: ServiceUnavailableError,
    httpx.ProtocolError: RejectedRequestError,
    httpx.RemoteProtocolError: ServiceUnavailableError,
    httpx.LocalProtocolError: RejectedRequestError,
    httpx.UnsupportedProtocol: RejectedRequestError,
    httpx.DecodingError: ServiceUnavailableError,
    httpx.TooManyRedirects: RejectedRequestError,
    httpx.InvalidURL: RejectedRequestError,
    httpx.StreamError: RejectedRequestError,
    httpx.StreamConsumed: RejectedRequestError,
    httpx.StreamClosed: RejectedRequestError,
    httpx.ResponseNotRead: RejectedRequestError,
    httpx.RequestNotRead: RejectedRequestError,
}
"""Counterfoil error class for each httpx error. For HTTPStatusError, the class depends on the status."""


def subclasses(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield from chain([kind], *(subclasses(subclass) for subclass in kind.__subclasses__()))


def test_every_httpx_error_is_classified():
    kinds = {kind for root in (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) for kind in subclasses(root)}
    assert kinds - {httpx.HTTPError, httpx.HTTPStatusError} == EXPECTED_ERRORS.keys()


@pytest.mark.parametrize("kind", EXPECTED_ERRORS, ids=lambda kind: kind.__name__)
def test_httpx_error_is_mapped_without_secrets(kind: type[Exception]):
    has_message = not issubclass(kind, httpx.StreamError) or kind is httpx.StreamError
    error: Any = kind(SECRET) if has_message else kind()
    for request in (None, httpx.Request("POST", f"https://hooks.example/{SECRET}?k={SECRET}")):
        if request is not None and isinstance(error, httpx.RequestError):
            error.request = request
        translated = http.translate_error(error)
        assert type(translated) is EXPECTED_ERRORS[kind]
        assert kind.__name__ not in str(translated)
        assert SECRET not in str(translated)


def test_httpx_status_error_is_mapped_by_status():
    request = httpx.Request("POST", "https://example.com/")
    for status, expected in ((429, ServiceUnavailableError), (404, RejectedRequestError)):
        error = httpx.HTTPStatusError(SECRET, request=request, response=httpx.Response(status, request=request))
        assert type(http.translate_error(error)) is expected


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        (f"ftp://example.com/{SECRET}", {}),
        (SECRET, {}),
        ("", {}),
        (f"http://example.com:port/{SECRET}", {}),
        (f"http://ex\x00ample/{SECRET}", {}),
        ("http://127.0.0.1/", {"x-api-key": f"{SECRET}\n"}),
        ("http://127.0.0.1/", {"x-api-key": f"{SECRET}ü"}),
    ],
)
def test_invalid_request_is_permanent_and_not_quoted(url: str, headers: dict[str, str]):
    with socket.create_server(("127.0.0.1", 0)) as server:
        invalid_url = url.replace("127.0.0.1", f"127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(PermanentError, match="could not be called") as caught:
            http.send("GET", invalid_url, headers=headers, **LIMITS)
    assert SECRET not in str(caught.value)


# Retry-After

EXTREME_TIME_ZONE = f"Thu, 01 Jan 2026 00:00:00 +{10**20}"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0", 0.0), (" 12 ", 12.0), ("0.5", 0.5), ("99999999999", 86400.0), ("1e999", 86400.0)]
    + [(text, None) for text in ("", "soon", "-1", "nan", "inf", "5 minutes", "Wed, 99 Foo 2026", EXTREME_TIME_ZONE)],
)
def test_retry_after_is_parsed_capped_or_ignored(header: str, seconds: float | None, scripted_server: Server):
    with pytest.raises(ServiceUnavailableError) as caught:
        call(scripted_server, Failure(429, retry_after=header))
    assert caught.value.retry_after == seconds


def test_retry_after_date_uses_server_clock(scripted_server: Server):
    server_time = datetime(2020, 1, 1, 12, tzinfo=UTC)
    date_header, retry_header = (
        format_datetime(at, usegmt=True) for at in (server_time, server_time + timedelta(seconds=90))
    )
    with pytest.raises(ServiceUnavailableError) as caught:
        call(scripted_server, Raw(503, headers={"Date": date_header, "Retry-After": retry_header}))
    assert caught.value.retry_after == 90


def test_past_retry_after_date_means_zero(scripted_server: Server):
    with pytest.raises(ServiceUnavailableError) as caught:
        call(scripted_server, Failure(503, retry_after="Wed, 01 Jan 2020 12:00:00 GMT"))
    assert caught.value.retry_after == 0


# Secrets


@pytest.mark.parametrize(
    "step", [Failure(500), Failure(403), Raw(302), Raw(body=b"x" * 9, behavior="reset"), Raw(body=b"x" * 2_000_000)]
)
def test_errors_do_not_quote_url(step: Step, scripted_server: Server):
    with pytest.raises((ServiceUnavailableError, RejectedRequestError)) as caught:
        call(scripted_server, step)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None  # otherwise tracebacks would quote it


def test_logs_do_not_contain_url(scripted_server: Server, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    call(scripted_server, Answer("yes"))
    assert SECRET not in caplog.text
