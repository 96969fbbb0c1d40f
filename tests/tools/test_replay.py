"""The replay's checks detect each defect.

The replay's S3 proxy forwards requests and counts downloads.
"""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from cli.failures import CommandError
from tools.replay import setup
from tools.replay.checks import Document, ExpectedDocuments, ReplayData, run_checks
from tools.replay.log_records import Record, max_concurrent, records
from tools.replay.slow_s3 import SlowS3, slow_s3

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NUMBERS = [f"R-{number}" for number in range(1, 8)]
EXPECTED = ExpectedDocuments(
    {number: (2 * position, 2 * position + 1) for position, number in enumerate(NUMBERS, 1)}, 1
)
CONCURRENCY_LIMIT = 3
ORDER = "protected, permitted, claimed, finished in order"
CONCURRENT = "concurrent ingestions in the workers' logs"
DEAD_LETTER_QUEUE = "counterfoil-ingestion-dlq"


def time_at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def record(worker: str, position: int, **changes: Any) -> Record:
    """Return a log record.

    Records overlap in groups of CONCURRENCY_LIMIT consecutive positions.
    """
    turn = position // CONCURRENCY_LIMIT
    return replace(
        Record(
            worker,
            f"{worker}-{position}",
            UUID(int=position),
            "succeeded",
            1,
            time_at(0),
            time_at(turn),
            time_at(turn),
            time_at(turn + 1),
        ),
        **changes,
    )


def expected_data() -> ReplayData:
    """Return the data of a replay without defects."""
    children = [
        Document(UUID(int=position), True, 2 * position, 2 * position + 1, number, "succeeded", "succeeded", 2)
        for position, number in enumerate(NUMBERS, 1)
    ]
    parent = Document(UUID(int=0), False, None, None, None, "succeeded", None, 1)
    cover = Document(UUID(int=99), True, 1, 1, None, None, None, 0)
    ingested = [record("ingestion", position) for position in range(len(NUMBERS) + 1)]
    matched = [record("matching", position) for position in range(1, len(NUMBERS) + 1)]
    return ReplayData(
        [parent, *children, cover], [*ingested, *matched], 0, 0, {"counterfoil-ingestion": 0}, CONCURRENCY_LIMIT
    )


def failed_checks(found: ReplayData) -> set[str]:
    return {check.name for check in run_checks(found, EXPECTED, CONCURRENCY_LIMIT) if not check.passed}


def test_expected_results_pass_all_checks():
    assert failed_checks(expected_data()) == set()


def with_document(position: int, **changes: Any) -> ReplayData:
    found = expected_data()
    documents = list(found.documents)
    documents[position] = replace(documents[position], **changes)
    return replace(found, documents=documents)


def with_record(position: int, **changes: Any) -> ReplayData:
    found = expected_data()
    recorded = list(found.records)
    recorded[position] = replace(recorded[position], **changes)
    return replace(found, records=recorded)


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (with_document(0, ingestion="failed"), {"parent ingested"}),
        (with_document(3, matching="failed"), {"children ingested and matched"}),
        (with_document(3, number="R-2"), {"each invoice number once", "each invoice with its own pages"}),
        (with_document(3, number=None), {"each invoice number once", "each invoice with its own pages"}),
        (with_document(3, first_page=5), {"each invoice with its own pages"}),
        (with_document(3, last_page=8), {"each invoice with its own pages"}),
        (with_document(8, ingestion="succeeded"), {"documents", "each invoice number once"}),
        (with_document(3, attempts=3), {"attempts started"}),
        (with_record(2, receives=2), {"receives of each message"}),
        (with_record(2, outcome="retry"), {"outcomes"}),
        (with_record(2, work_id=UUID(int=1)), {"work items processed twice"}),
        (with_record(2, claimed=None), {ORDER}),
        (with_record(5, permitted=time_at(-1)), {ORDER}),
        (with_record(5, claimed=time_at(0.5)), {ORDER, CONCURRENT}),
        (replace(expected_data(), dead_letters=1), {"dead letters"}),
        (replace(expected_data(), notifications=1), {"failure notifications"}),
        (replace(expected_data(), queued={DEAD_LETTER_QUEUE: 1}), {"messages left in queues and dead-letter queues"}),
        (replace(expected_data(), max_concurrent_downloads=CONCURRENCY_LIMIT + 1), {"concurrent downloads in S3"}),
    ],
)
def test_each_defect_fails_its_check(found: ReplayData, names: set[str]):
    assert failed_checks(found) == names


def test_lost_document_fails_checks():
    found = expected_data()
    assert {"documents", "children ingested and matched", "each invoice number once"} <= failed_checks(
        replace(found, documents=[*found.documents[:3], *found.documents[4:]])
    )


def test_duplicate_log_record_fails_checks():
    found = expected_data()
    twice = replace(found, records=[*found.records, record("ingestion", 1)])
    assert {"work items processed twice", "messages of ingestion and matching"} <= failed_checks(twice)


def test_unreached_concurrency_limit_fails_its_check():
    found = expected_data()
    one_by_one = [
        replace(one, permitted=time_at(position), claimed=time_at(position), ended=time_at(position + 1))
        for position, one in enumerate(found.records)
    ]
    assert failed_checks(replace(found, records=one_by_one)) == {"concurrency limit reached, so messages waited"}


def test_simultaneous_end_and_start_do_not_overlap():
    assert max_concurrent([record("ingestion", position) for position in range(7)]) == CONCURRENCY_LIMIT
    assert max_concurrent([record("ingestion", position, claimed=time_at(0)) for position in range(7)]) == 7
    assert max_concurrent([record("ingestion", 0, claimed=None)]) == 0


def test_outcomes_are_parsed_from_log():
    line = {
        "level": "INFO",
        "message": "succeeded",
        "service": "ingestion",
        "message_id": "m-1",
        "work_id": str(UUID(int=1)),
        "receives": 1,
        "stages": {
            "protected": "2026-01-02T03:04:05+00:00",
            "permitted": "2026-01-02T03:04:06+00:00",
            "claimed": "2026-01-02T03:04:06.5+00:00",
            "ended": "2026-01-02T03:04:09+00:00",
        },
    }
    unclaimed = {**line, "message": "ended", "work_id": None, "stages": {"ended": line["stages"]["ended"]}}  # type: ignore[index]
    log = [
        "START RequestId: 1",
        json.dumps(line),
        '{"message": "process_exited_no_permits"}',
        "[1]",
        json.dumps(unclaimed),
        "",
    ]
    first, second = records(log)
    assert first == Record(
        "ingestion", "m-1", UUID(int=1), "succeeded", 1, time_at(0), time_at(1), time_at(1.5), time_at(4)
    )
    assert (first.permit_wait, first.is_in_order) == (1, True)
    assert (second.work_id, second.claimed, second.is_in_order) == (None, None, False)


class Bucket(BaseHTTPRequestHandler):
    """A minimal S3 that stores objects and returns the Host header of the request."""

    kept: dict[str, bytes]

    def do_PUT(self) -> None:
        self.kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, b"")

    def do_GET(self) -> None:
        found = self.kept.get(self.path)
        self._answer(200 if found is not None else 404, found or b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("x-request-host", self.headers["Host"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def s3() -> Iterator[SlowS3]:
    kept = type("Kept", (Bucket,), {"kept": {}})
    with HTTPServer(("127.0.0.1", 0), kept) as behind:
        thread = threading.Thread(target=behind.serve_forever, args=(0.01,))
        thread.start()
        with slow_s3(f"http://127.0.0.1:{behind.server_address[1]}", 0.2) as slow:
            yield slow
        behind.shutdown()
        thread.join()


def request(s3: SlowS3, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes, str | None]:
    connection = HTTPConnection(urlsplit(s3.endpoint).netloc, timeout=10)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.getheader("x-request-host")
    finally:
        connection.close()


def test_slow_s3_forwards_requests_with_original_host(s3: SlowS3):
    assert request(s3, "PUT", "/bucket/a%20b.pdf", b"%PDF-")[0] == 200
    host = urlsplit(s3.endpoint).netloc
    assert request(s3, "GET", "/bucket/a%20b.pdf") == (200, b"%PDF-", host)
    assert request(s3, "GET", "/bucket/other.pdf") == (404, b"", host)


def test_slow_s3_ignores_disconnected_clients(s3: SlowS3, capfd: pytest.CaptureFixture[str]):
    request(s3, "PUT", "/bucket/a.pdf", b"%PDF-" * 1_000_000)
    with socket.create_connection((urlsplit(s3.endpoint).hostname, urlsplit(s3.endpoint).port)) as gone:
        gone.sendall(b"GET /bucket/a.pdf HTTP/1.1\r\nHost: s3\r\n\r\n")
        gone.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )  # resets the connection instead of closing it gracefully
    assert request(s3, "GET", "/bucket/a.pdf")[0] == 200

    assert s3.downloads.count == 2
    assert capfd.readouterr().err == ""


def test_slow_s3_counts_concurrent_downloads(s3: SlowS3):
    request(s3, "PUT", "/bucket/a.pdf", b"%PDF-")
    assert (s3.downloads.count, s3.downloads.max_concurrent) == (0, 0)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: request(s3, "GET", "/bucket/a.pdf"), range(3)))
    assert (s3.downloads.count, s3.downloads.max_concurrent) == (3, 3)
    request(s3, "GET", "/bucket/a.pdf")
    assert (s3.downloads.count, s3.downloads.max_concurrent) == (4, 3)


def test_both_modes_have_the_same_concurrency_limit():
    for gate in (2, 3, 10):
        assert [mode.invocations * mode.permits for mode in setup.replay_modes(gate)] == [gate, gate]
        assert all(mode.maximum_concurrency >= 2 for mode in setup.replay_modes(gate))


def test_queue_outside_local_cloud_is_rejected():
    url = "https://sqs.eu-central-1.amazonaws.com/123456789012/counterfoil-ingestion"
    cloud: Any = SimpleNamespace(
        outputs={"IngestionQueueUrl": url},
        state=SimpleNamespace(emulator=SimpleNamespace(endpoint="http://127.0.0.1:4566")),
    )
    with pytest.raises(CommandError, match="not in the local cloud"):
        setup.queue_url(cloud)
