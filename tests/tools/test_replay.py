"""The replay must see what is wrong, and nothing where nothing is; and its slow S3 must be an S3."""

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
from tools.replay import stage
from tools.replay.evidence import Record, most_at_once, records
from tools.replay.findings import Document, Found, Truth, checks
from tools.replay.slow_s3 import SlowS3, slow_s3

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NUMBERS = [f"R-{number}" for number in range(1, 8)]
TRUTH = Truth({number: (2 * place, 2 * place + 1) for place, number in enumerate(NUMBERS, 1)}, 1)
GATE = 3
ORDER = "protected, then permitted, then claimed, then done"
AT_ONCE = "ingestions at once, by the workers' logs"
DEAD_LETTER_QUEUE = "counterfoil-ingestion-dlq"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def record(worker: str, place: int, **changes: Any) -> Record:
    """A record that waited for its permit until those three before it were done."""
    turn = place // GATE
    return replace(
        Record(worker, f"{worker}-{place}", UUID(int=place), "succeeded", 1, at(0), at(turn), at(turn), at(turn + 1)),
        **changes,
    )


def perfect() -> Found:
    """What must be found."""
    children = [
        Document(UUID(int=place), True, 2 * place, 2 * place + 1, number, "succeeded", "succeeded", 2)
        for place, number in enumerate(NUMBERS, 1)
    ]
    parent = Document(UUID(int=0), False, None, None, None, "succeeded", None, 1)
    cover = Document(UUID(int=99), True, 1, 1, None, None, None, 0)
    ingested = [record("ingestion", place) for place in range(len(NUMBERS) + 1)]
    matched = [record("matching", place) for place in range(1, len(NUMBERS) + 1)]
    return Found([parent, *children, cover], [*ingested, *matched], 0, 0, {"counterfoil-ingestion": 0}, GATE)


def broken(found: Found) -> set[str]:
    return {check.name for check in checks(found, TRUTH, GATE) if not check.holds}


def test_everything_holds_where_everything_is_right():
    assert broken(perfect()) == set()


def with_document(place: int, **changes: Any) -> Found:
    found = perfect()
    documents = list(found.documents)
    documents[place] = replace(documents[place], **changes)
    return replace(found, documents=documents)


def with_record(place: int, **changes: Any) -> Found:
    found = perfect()
    recorded = list(found.records)
    recorded[place] = replace(recorded[place], **changes)
    return replace(found, records=recorded)


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (with_document(0, ingestion="failed"), {"parent ingested"}),
        (with_document(3, matching="failed"), {"children ingested and matched"}),
        (with_document(3, number="R-2"), {"each invoice once, by its number", "each with its own pages"}),
        (with_document(3, number=None), {"each invoice once, by its number", "each with its own pages"}),
        (with_document(3, first_page=5), {"each with its own pages"}),
        (with_document(3, last_page=8), {"each with its own pages"}),
        (with_document(8, ingestion="succeeded"), {"documents", "each invoice once, by its number"}),
        (with_document(3, attempts=3), {"attempts begun"}),
        (with_record(2, receives=2), {"receives of each message"}),
        (with_record(2, outcome="retry"), {"outcomes"}),
        (with_record(2, work_id=UUID(int=1)), {"work done twice"}),
        (with_record(2, claimed=None), {ORDER}),
        (with_record(5, permitted=at(-1)), {ORDER}),
        (with_record(5, claimed=at(0.5)), {ORDER, AT_ONCE}),
        (replace(perfect(), dead_letters=1), {"dead letters"}),
        (replace(perfect(), notifications=1), {"notifications of failures"}),
        (replace(perfect(), queued={DEAD_LETTER_QUEUE: 1}), {"messages left in queues and dead-letter queues"}),
        (replace(perfect(), downloads_at_once=GATE + 1), {"downloads at once, by S3"}),
    ],
)
def test_each_thing_that_is_wrong_is_seen(found: Found, names: set[str]):
    assert broken(found) == names


def test_a_lost_document_is_seen():
    found = perfect()
    assert {"documents", "children ingested and matched", "each invoice once, by its number"} <= broken(
        replace(found, documents=[*found.documents[:3], *found.documents[4:]])
    )


def test_a_second_line_about_the_same_work_is_seen():
    found = perfect()
    twice = replace(found, records=[*found.records, record("ingestion", 1)])
    assert {"work done twice", "messages of ingestion and matching"} <= broken(twice)


def test_a_gate_that_was_never_full_proves_nothing():
    found = perfect()
    one_by_one = [
        replace(one, permitted=at(place), claimed=at(place), ended=at(place + 1))
        for place, one in enumerate(found.records)
    ]
    assert broken(replace(found, records=one_by_one)) == {"the gate was full, so that messages had to wait"}


def test_what_ends_makes_room_for_what_begins_at_the_same_moment():
    assert most_at_once([record("ingestion", place) for place in range(7)]) == GATE
    assert most_at_once([record("ingestion", place, claimed=at(0)) for place in range(7)]) == 7
    assert most_at_once([record("ingestion", 0, claimed=None)]) == 0


def test_the_lines_about_messages_are_read_from_a_log():
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
    log = ["START RequestId: 1", json.dumps(line), '{"message": "starved"}', "[1]", json.dumps(unclaimed), ""]
    first, second = records(log)
    assert first == Record("ingestion", "m-1", UUID(int=1), "succeeded", 1, at(0), at(1), at(1.5), at(4))
    assert (first.waited, first.is_in_order) == (1, True)
    assert (second.work_id, second.claimed, second.is_in_order) == (None, None, False)


class Bucket(BaseHTTPRequestHandler):
    """Something like S3: it keeps what is put, and says as whom it was asked."""

    kept: dict[str, bytes]

    def do_PUT(self) -> None:
        self.kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, b"")

    def do_GET(self) -> None:
        found = self.kept.get(self.path)
        self._answer(200 if found is not None else 404, found or b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("x-asked-as", self.headers["Host"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


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


def ask(s3: SlowS3, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes, str | None]:
    connection = HTTPConnection(urlsplit(s3.endpoint).netloc, timeout=10)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.getheader("x-asked-as")
    finally:
        connection.close()


def test_the_slow_s3_passes_everything_on_as_it_was_signed(s3: SlowS3):
    assert ask(s3, "PUT", "/bucket/a%20b.pdf", b"%PDF-")[0] == 200
    host = urlsplit(s3.endpoint).netloc
    assert ask(s3, "GET", "/bucket/a%20b.pdf") == (200, b"%PDF-", host)
    assert ask(s3, "GET", "/bucket/other.pdf") == (404, b"", host)


def test_it_says_nothing_of_whoever_went_before_his_answer_came(s3: SlowS3, capfd: pytest.CaptureFixture[str]):
    ask(s3, "PUT", "/bucket/a.pdf", b"%PDF-" * 1_000_000)
    with socket.create_connection((urlsplit(s3.endpoint).hostname, urlsplit(s3.endpoint).port)) as gone:
        gone.sendall(b"GET /bucket/a.pdf HTTP/1.1\r\nHost: s3\r\n\r\n")
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it is reset, not just closed
    assert ask(s3, "GET", "/bucket/a.pdf")[0] == 200

    assert s3.downloads.count == 2
    assert capfd.readouterr().err == ""


def test_it_knows_how_many_downloads_it_held_back_at_once(s3: SlowS3):
    ask(s3, "PUT", "/bucket/a.pdf", b"%PDF-")
    assert (s3.downloads.count, s3.downloads.most) == (0, 0)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: ask(s3, "GET", "/bucket/a.pdf"), range(3)))
    assert (s3.downloads.count, s3.downloads.most) == (3, 3)
    ask(s3, "GET", "/bucket/a.pdf")
    assert (s3.downloads.count, s3.downloads.most) == (4, 3)


def test_both_ways_let_as_much_through_as_the_gate_is_wide():
    for gate in (2, 3, 10):
        assert [way.invocations * way.permits for way in stage.ways(gate)] == [gate, gate]
        assert all(way.maximum_concurrency >= 2 for way in stage.ways(gate))


def test_no_queue_but_the_local_clouds_is_touched():
    url = "https://sqs.eu-central-1.amazonaws.com/123456789012/counterfoil-ingestion"
    cloud: Any = SimpleNamespace(
        outputs={"IngestionQueueUrl": url},
        state=SimpleNamespace(emulator=SimpleNamespace(endpoint="http://127.0.0.1:4566")),
    )
    with pytest.raises(CommandError, match="not one of the local cloud"):
        stage.queue_url(cloud)
