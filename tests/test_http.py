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
def scripted() -> Iterator[Server]:
    with Server() as server:
        yield server


def call(server: Server, *script: Step, **changed: Any) -> httpx.Response:
    server.then(*script)
    return http.send("POST", f"{server.url}/{SECRET}?key={SECRET}", json={"a": 1}, **LIMITS | changed)


def seconds_of(refused: Any, **arguments: Any) -> float:
    began = monotonic()
    with pytest.raises(ServiceUnavailableError):
        refused(**arguments)
    return monotonic() - began


# Requests and responses


def test_call_sends_request_and_returns_response(scripted: Server):
    response = call(scripted, Answer("yes"), headers={"x-api-key": "k"})
    assert (response.status_code, response.content, response.headers["content-type"]) == (
        200,
        b"yes",
        "application/json",
    )
    request = scripted.requests[0]
    assert (request.body, request.headers["x-api-key"], request.headers["accept-encoding"]) == (
        b'{"a":1}',
        "k",
        "identity",
    )


def test_bytes_are_sent_unchanged(scripted: Server):
    scripted.then(Answer("yes"))
    http.send("POST", scripted.url, content=b"\x00\xff", **LIMITS)
    assert scripted.requests[0].body == b"\x00\xff"


def test_redirect_is_not_followed(scripted: Server):
    with pytest.raises(RejectedRequestError, match="HTTP 302"):
        call(scripted, Raw(302, headers={"Location": f"{scripted.url}/elsewhere"}), Answer("from there"))
    assert len(scripted.requests) == 1


def test_response_within_limit_is_read_completely(scripted: Server):
    assert call(scripted, Raw(body=b"x" * 1000), max_body_bytes=1000).content == b"x" * 1000


def test_response_beyond_limit_is_rejected(scripted: Server):
    with pytest.raises(RejectedRequestError, match="more than 1000 bytes"):
        call(scripted, Raw(body=b"x" * 1001), max_body_bytes=1000)


def test_error_status_is_reported_despite_long_body(scripted: Server):
    with pytest.raises(ServiceUnavailableError, match="HTTP 500"):
        call(scripted, Raw(500, body=b"x" * 100_000), max_body_bytes=10)


def test_truncated_response_is_a_failure(scripted: Server):
    with pytest.raises(ServiceUnavailableError, match="RemoteProtocolError"):
        call(scripted, Raw(body=b"half", headers={"Content-Length": "8"}))


def packed(body: bytes, status: int = 200, encoding: str = "gzip") -> Raw:
    return Raw(status, gzip.compress(body), {"Content-Encoding": encoding})


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b"x" * 1000)[:-5], gzip.compress(b"x") + gzip.compress(b"y")],
    ids=["plain", "cut", "two"],
)
def test_invalid_encoding_is_a_failure(scripted: Server, body: bytes):
    with pytest.raises(ServiceUnavailableError, match="DecodingError"):
        call(scripted, Raw(body=body, headers={"Content-Encoding": "gzip"}))


@pytest.mark.parametrize("encoding", ["gzip", "X-GZIP", "identity", ""])
def test_unrequested_gzip_response_is_read(scripted: Server, encoding: str):
    body = gzip.compress(b"x" * 1000) if "zip" in encoding.lower() else b"x" * 1000
    answer = Raw(body=body, headers={"Content-Encoding": encoding})

    assert call(scripted, answer, max_body_bytes=1000).content == b"x" * 1000


def test_empty_body_ignores_content_encoding(scripted: Server):
    assert call(scripted, Raw(headers={"Content-Encoding": "gzip"})).content == b""
    assert call(scripted, Raw(headers={"Content-Encoding": "br"})).content == b""


@pytest.mark.parametrize("cut", [True, False])
def test_decompression_is_bounded(scripted: Server, cut: bool):
    bomb = gzip.compress(b"x" * 50_000_000)  # about 50 KB
    scripted.then(*(Raw(status, bomb, {"Content-Encoding": "gzip"}) for status in (200, 400)))
    tracemalloc.start()
    try:
        for _ in range(2):
            with suppress(RejectedRequestError):
                http.send("GET", scripted.url, **LIMITS, max_body_bytes=1000, truncate=cut)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(scripted.requests) == 2
    assert peak < 5_000_000


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "compress"])
def test_unknown_encoding_is_rejected_after_error_status(scripted: Server, encoding: str):
    with pytest.raises(RejectedRequestError, match="in an encoding that was not requested"):
        call(scripted, packed(b"x", encoding=encoding))
    with pytest.raises(ServiceUnavailableError, match="HTTP 503"):
        call(scripted, packed(b"x", 503, encoding))
    with pytest.raises(RejectedRequestError, match="HTTP 404"):
        call(scripted, Raw(404, b"no gzip", {"Content-Encoding": "gzip"}))


def test_accept_encoding_cannot_be_overridden(scripted: Server):
    call(scripted, Answer("yes"), headers={"accept-encoding": "gzip"})
    assert scripted.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("answer", [Raw(body=b"x" * 1001), packed(b"x" * 1001)])
def test_cut_truncates_longer_response(scripted: Server, answer: Raw):
    longer, whole = (
        call(scripted, item, max_body_bytes=1000, truncate=True) for item in (answer, Raw(body=b"x" * 1000))
    )

    assert (longer.content, http.is_truncated(longer)) == (b"x" * 1000, True)
    assert (whole.content, http.is_truncated(whole)) == (b"x" * 1000, False)


def test_caller_can_replace_status_check(scripted: Server):
    seen: list[tuple[int, bytes]] = []
    call(
        scripted,
        Raw(404, b"gone"),
        check_response=lambda response: seen.append((response.status_code, response.content)),
    )
    assert seen == [(404, b"gone")]


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (Raw(body=gzip.compress(b"x" * 1000)[:-5], headers={"Content-Encoding": "gzip"}), b"x" * 1000),
        (Raw(body=b"no gzip", headers={"Content-Encoding": "gzip"}), b""),
        (Raw(body=b"x", headers={"Content-Encoding": "br"}), b""),
    ],
)
def test_cut_returns_readable_part_of_response(scripted: Server, answer: Raw, read: bytes):
    response = call(scripted, answer, truncate=True)

    assert (response.status_code, response.content, http.is_truncated(response)) == (200, read, True)


@pytest.mark.parametrize(
    "answer",
    [
        Raw(201, b"half", {"Content-Length": "8"}),
        Raw(201, b"half", how="reset"),
        Raw(201, gzip.compress(b"half")[:-8], {"Content-Encoding": "gzip", "Content-Length": "99"}),
    ],
)
def test_cut_accepts_interrupted_body(scripted: Server, answer: Raw):
    response = call(scripted, answer, truncate=True)

    assert (response.status_code, http.is_truncated(response)) == (201, True)
    assert b"half".startswith(response.content)


@pytest.mark.parametrize("limits", [{"read": 30.0, "total": 0.5}, {"read": 0.2, "total": 30.0}])
def test_cut_ends_endless_body_in_time(limits: dict[str, float], scripted: Server):
    began = monotonic()
    response = call(
        scripted, Raw(201, b"a" * 50, how="slow_body" if limits["total"] < 1 else "stalled"), truncate=True, **limits
    )

    assert (response.status_code, http.is_truncated(response)) == (201, True)
    assert monotonic() - began < 2.0


def test_cut_requires_response_headers(scripted: Server):
    took = seconds_of(partial(call, scripted, Raw(how="slow_headers"), truncate=True), read=30.0, total=0.3)
    assert took < 1.5


def test_error_status_is_reported_despite_interrupted_body(scripted: Server):
    with pytest.raises(RejectedRequestError, match="404"):
        call(scripted, Raw(404, b"half", {"Content-Length": "8"}))


def test_data_after_compressed_stream_is_discarded(scripted: Server):
    flood = Raw(body=gzip.compress(b"x") + bytes(30_000_000), headers={"Content-Encoding": "gzip"})
    tracemalloc.start()
    try:
        response = call(scripted, flood, truncate=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (response.content, http.is_truncated(response)) == (b"x", True)
    assert peak < 40_000_000  # includes the server's copy of 30 MB


# Deadlines


@pytest.mark.parametrize("how", ["slow_headers", "slow_body", "silent"])
def test_slow_response_ends_at_total_deadline(how: Any, scripted: Server):
    # Each byte arrives within `read`, so only `total` ends the call.
    took = seconds_of(partial(call, scripted, Raw(body=b"ab", how=how)), read=30.0, total=0.3)
    assert 0.3 <= took < 1.5


def test_silence_ends_call_at_read_timeout(scripted: Server):
    took = seconds_of(partial(call, scripted, Raw(how="silent")), read=0.1, total=30.0)
    assert took < 1.5


def test_late_call_closes_its_connection(scripted: Server):
    hung_up = Event()

    class Noticing(Server):
        def done(self) -> None:
            super().done()
            hung_up.set()

    with Noticing(Raw(how="slow_body")) as server:
        seconds_of(partial(call, server), read=30.0, total=0.1)
        assert hung_up.wait(5)


def test_hanging_dns_lookup_does_not_block_caller(monkeypatch: pytest.MonkeyPatch):
    ended = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.wait(30) and [])
    try:
        assert seconds_of(partial(http.send, "GET", "http://slow.example/", **LIMITS | {"total": 0.1})) < 1.5
    finally:
        ended.set()


def test_hanging_tls_handshake_does_not_block_caller():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, but never starts TLS
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        assert seconds_of(partial(http.send, "GET", url, connect=30.0, read=30.0, total=0.2)) < 1.5
        assert seconds_of(partial(http.send, "GET", url, connect=0.1, read=30.0, total=30.0)) < 1.5


def test_call_without_time_left_fails_immediately(scripted: Server):
    with pytest.raises(ServiceUnavailableError):
        call(scripted, Raw(how="silent"), total=-1.0)


def test_refused_connection_is_a_service_failure():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ServiceUnavailableError, match=r"127\.0\.0\.1 did not answer: ConnectError"):
        http.send("GET", f"http://127.0.0.1:{port}/", **LIMITS)


def test_connection_reset_is_a_service_failure(scripted: Server):
    with pytest.raises(ServiceUnavailableError, match="ReadError"):
        call(scripted, Raw(body=b"x" * 1000, how="reset"))


# Classification


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 502, 503, 504, 529, 599])
def test_throttling_and_server_errors_are_transient(status: int, scripted: Server):
    with pytest.raises(ServiceUnavailableError, match=f"127.0.0.1 answered with HTTP {status}"):
        call(scripted, Failure(status))


@pytest.mark.parametrize("status", [301, 304, 400, 401, 403, 404, 409, 410, 413, 422, 424, 451, 499])
def test_client_errors_are_permanent(status: int, scripted: Server):
    with pytest.raises(RejectedRequestError, match=f"127.0.0.1 answered with HTTP {status}"):
        call(scripted, Raw(status))


TREE = {
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
"""Counterfoil class of each httpx error. HTTPStatusError depends on its status."""


def subclasses(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield from chain([kind], *(subclasses(below) for below in kind.__subclasses__()))


def test_every_httpx_error_is_classified():
    kinds = {kind for root in (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) for kind in subclasses(root)}
    assert kinds - {httpx.HTTPError, httpx.HTTPStatusError} == TREE.keys()


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_httpx_error_is_mapped_without_secrets(kind: type[Exception]):
    takes_text = not issubclass(kind, httpx.StreamError) or kind is httpx.StreamError
    error: Any = kind(SECRET) if takes_text else kind()
    for request in (None, httpx.Request("POST", f"https://hooks.example/{SECRET}?k={SECRET}")):
        if request is not None and isinstance(error, httpx.RequestError):
            error.request = request
        ours = http.translate_error(error)
        assert type(ours) is TREE[kind]
        assert kind.__name__ in str(ours)
        assert SECRET not in str(ours)


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
        at = url.replace("127.0.0.1", f"127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(PermanentError, match="could not be called") as caught:
            http.send("GET", at, headers=headers, **LIMITS)
    assert SECRET not in str(caught.value)


# Retry-After

FAR_EAST = f"Thu, 01 Jan 2026 00:00:00 +{10**20}"


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [("7", 7.0), ("0", 0.0), (" 12 ", 12.0), ("0.5", 0.5), ("99999999999", 86400.0), ("1e999", 86400.0)]
    + [(text, None) for text in ("", "soon", "-1", "nan", "inf", "5 minutes", "Wed, 99 Foo 2026", FAR_EAST)],
)
def test_retry_after_is_parsed_in_seconds(stated: str, seconds: float | None, scripted: Server):
    with pytest.raises(ServiceUnavailableError) as caught:
        call(scripted, Failure(429, retry_after=stated))
    assert caught.value.retry_after == seconds


def test_retry_after_date_uses_server_clock(scripted: Server):
    theirs = datetime(2020, 1, 1, 12, tzinfo=UTC)
    stamp, later = (format_datetime(at, usegmt=True) for at in (theirs, theirs + timedelta(seconds=90)))
    with pytest.raises(ServiceUnavailableError) as caught:
        call(scripted, Raw(503, headers={"Date": stamp, "Retry-After": later}))
    assert caught.value.retry_after == 90


def test_past_retry_after_date_means_zero(scripted: Server):
    with pytest.raises(ServiceUnavailableError) as caught:
        call(scripted, Failure(503, retry_after="Wed, 01 Jan 2020 12:00:00 GMT"))
    assert caught.value.retry_after == 0


# Secrets


@pytest.mark.parametrize(
    "step", [Failure(500), Failure(403), Raw(302), Raw(body=b"x" * 9, how="reset"), Raw(body=b"x" * 2_000_000)]
)
def test_errors_do_not_quote_url_or_body(step: Step, scripted: Server):
    with pytest.raises((ServiceUnavailableError, RejectedRequestError)) as caught:
        call(scripted, step)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None  # so that tracebacks do not quote it either


def test_logs_do_not_contain_url(scripted: Server, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    call(scripted, Answer("yes"))
    assert SECRET not in caplog.text
