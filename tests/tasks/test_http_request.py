"""`http_request` tasks make one bounded call through the egress guard."""

import gzip
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from counterfoil.db import Database
from counterfoil.deadline import Deadline
from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.egress import Egress
from counterfoil.errors import CancelledError, InvalidSettingsError, RejectedRequestError, ServiceUnavailableError
from counterfoil.settings import Settings
from counterfoil.tasks.http_request import HTTP_REQUEST, MAX_BODY_BYTES, MAX_RESULT_BYTES
from counterfoil.tasks.payloads import MAX_PAYLOAD_BYTES, validate_size
from counterfoil.tasks.store import build_request
from counterfoil.tasks.task_type import InvalidPayloadError, Services
from counterfoil.tasks.types import enabled_types
from tests.factories import NOW
from tests.llm.server import Raw, Server

JOB = UUID("0b9a2b0e-6c5e-4f43-9d9a-0f6f9f3c1a11")


@pytest.fixture
def http_server() -> Iterator[Server]:
    with Server() as server:
        yield server


def run(payload: dict[str, Any], *, egress: Egress | None = None, seconds: float = 60) -> Any:
    attempt = TenantAttempt(JOB, JOB, 1, 1, 1, Mock(spec=Database), lambda: NOW, deadline=Deadline(lambda: seconds))
    return HTTP_REQUEST.run(attempt, HTTP_REQUEST.read(payload), Services(egress=egress))


def local_egress() -> Egress:
    return Egress(("127.0.0.0/8",))


def test_http_request_is_off_by_default() -> None:
    assert "http_request" not in enabled_types(Settings())
    assert "http_request" in enabled_types(Settings(http_request_tasks_enabled=True))


def test_request_is_sent_with_an_idempotency_key(http_server: Server) -> None:
    http_server.add_steps(Raw(201, "grüß\x00".encode()))

    response = run(
        {"method": "POST", "url": f"{http_server.url}/path?x=1", "headers": {"X-Key": "k"}, "body": "grüß"},
        egress=local_egress(),
    )

    assert response == {"status": 201, "content_type": "application/json", "body": "grüß\ufffd", "truncated": False}
    (request,) = http_server.requests
    assert (request.path, request.body, request.headers["x-key"]) == ("/path?x=1", "grüß".encode(), "k")
    assert request.headers["idempotency-key"] == str(JOB)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (Raw(302, headers={"Location": "http://169.254.169.254/"}), RejectedRequestError),
        (Raw(404), RejectedRequestError),
        (Raw(503), ServiceUnavailableError),
        (Raw(429), ServiceUnavailableError),
    ],
)
def test_error_status_determines_the_error_type(http_server: Server, response: Raw, error: type[Exception]) -> None:
    http_server.add_steps(response)
    with pytest.raises(error):
        run({"url": http_server.url}, egress=local_egress())
    assert len(http_server.requests) == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"x" * (MAX_BODY_BYTES + 1), "x" * MAX_BODY_BYTES),
        ("ü".encode() * MAX_BODY_BYTES, "ü" * (MAX_BODY_BYTES // 2)),
        (b"x" + "ü".encode() * MAX_BODY_BYTES, "x" + "ü" * (MAX_BODY_BYTES // 2 - 1)),
        (b"\x01" * MAX_BODY_BYTES, "\x01" * ((MAX_RESULT_BYTES - 2) // 6)),
        (b'"' * MAX_BODY_BYTES, None),
        (b"\xff" * MAX_BODY_BYTES, None),
        (b"\x00" * MAX_BODY_BYTES, None),
        (b"\xed\xa0\x80" * 100, None),
    ],
    ids=["long", "two bytes each", "half a character", "control characters", "quotes", "bytes", "NUL", "surrogates"],
)
def test_result_with_any_body_stays_within_limit(http_server: Server, body: bytes, expected: str | None) -> None:
    http_server.add_steps(Raw(200, body, {"X-Other": "y", "Content-Type": "text/plain; x=" + "y" * 1000}))

    response = run({"url": http_server.url}, egress=local_egress())

    assert len(validate_size(response, "result")) <= MAX_PAYLOAD_BYTES
    assert response["truncated"] == (expected is not None)
    assert expected in {None, response["body"]}


def test_compressed_response_is_truncated_during_decompression(http_server: Server) -> None:
    http_server.add_steps(Raw(200, gzip.compress(b"x" * 10_000_000), {"Content-Encoding": "gzip"}))

    response = run({"url": http_server.url}, egress=local_egress())

    assert (response["body"], response["truncated"]) == ("x" * MAX_BODY_BYTES, True)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://example.com/", "only https is"),
        ("https://10.0.0.1/", "no public address"),
        ("https://169.254.169.254/latest/", "no public address"),
        ("https://2130706433/", "no public address"),
        ("https://localhost/", "no public address"),
        ("https://example.com:22/", "on port 22"),
        ("https://ann:hunter2@example.com/", "must not have a user"),
    ],
)
def test_forbidden_url_is_rejected_on_submission(url: str, message: str) -> None:
    # The webhook allowlist does not apply to tasks.
    settings = Settings(
        http_request_tasks_enabled=True, webhooks_enabled=True, webhook_allowlist=("10.0.0.0/8", "127.0.0.0/8")
    )

    with pytest.raises(RejectedRequestError, match="HTTP_REQUEST_ALLOWLIST") as error:
        build_request(HTTP_REQUEST, {"url": url}, settings=settings)
    assert message in str(error.value)
    assert "hunter2" not in str(error.value)


def test_allowed_url_passes_validation() -> None:
    enabled = Settings(http_request_tasks_enabled=True, http_request_allowlist=("10.0.0.0/8", "inside:80"))

    for url in ("https://10.0.0.1/", "http://inside/", "http://inside:80/", "https://example.com:8443/"):
        assert build_request(HTTP_REQUEST, {"url": url}, settings=enabled).payload == {"url": url}


@pytest.mark.parametrize("url", ["{}", "http://user:hunter2@127.0.0.1/", "https://169.254.169.254/latest/"])
def test_forbidden_url_receives_no_request(http_server: Server, url: str) -> None:
    with pytest.raises(RejectedRequestError) as error:
        run({"url": url.format(http_server.url)}, egress=Egress())
    assert http_server.requests == []
    assert "hunter2" not in str(error.value)


def test_missing_egress_error_names_the_setting() -> None:
    with pytest.raises(InvalidSettingsError, match="enableWebhooks=true"):
        run({"url": "https://example.com"})


def test_request_is_not_sent_without_enough_time(http_server: Server) -> None:
    with pytest.raises(CancelledError):
        run({"url": http_server.url}, egress=local_egress(), seconds=1)
    assert http_server.requests == []


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"url": "ftp://example.com"},
        {"url": "https://example.com/" + "x" * 2048},
        {"url": "https://example.com", "method": "CONNECT"},
        {"url": "https://example.com", "headers": {"Host": "internal"}},
        {"url": "https://example.com", "headers": {"Transfer-Encoding": "chunked"}},
        {"url": "https://example.com", "headers": {"Accept-Encoding": "gzip"}},
        {"url": "https://example.com", "headers": {"Content-Length": "5"}},
        {"url": "https://example.com", "headers": {"TE": "trailers"}},  # codespell:ignore TE,te
        {"url": "https://example.com", "headers": {"Proxy-Authorization": "x"}},
        {"url": "https://example.com", "headers": {"x": "a\r\nHost: internal"}},
        {"url": "https://example.com", "headers": {"x y": "a"}},
        {"url": "https://example.com", "headers": {"X": "a", "x": "b"}},
        {"url": "https://example.com", "headers": {str(number): "" for number in range(33)}},
        {"url": "https://example.com", "body": "x" * (MAX_BODY_BYTES + 1)},
        {"url": "https://example.com", "follow_redirects": True},
    ],
)
def test_invalid_payload_is_rejected(payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidPayloadError):
        run(payload, egress=local_egress())
