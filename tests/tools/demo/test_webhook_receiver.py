"""The sample webhook receiver stores each authentic delivery once."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from uuid import UUID

import pytest

from counterfoil.webhooks.payload import SCHEMA_VERSION, SIGNATURE_HEADER, OutputJob, render_body, sign
from tools.demo import webhook_receiver
from tools.demo.webhook_receiver import Inbox

SECRET = "whsec_" + "s" * 43


def delivery(revision: int = 1, outcome: str = "matched") -> tuple[str, bytes]:
    payload = json.dumps({"outcome": outcome, "documents": []})
    at = datetime(2026, 1, 2, tzinfo=UTC)
    job = OutputJob(UUID(int=1), revision, "cluster", UUID(int=2), SCHEMA_VERSION, at, payload)
    return job.key, render_body(job)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[HTTPConnection]:
    """Run the receiver, and yield a connection to it.

    Python's -I and -S exclude third-party packages.
    """
    process = subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            webhook_receiver.__file__,
            "--port",
            "0",
            "--database",
            str(tmp_path / "results.sqlite"),
        ],
        env={**os.environ, "WEBHOOK_SECRET": f"whsec_other {SECRET}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    port = int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    yield connection
    connection.close()
    process.terminate()
    process.wait(10)
    process.stdout.close()


def post(connection: HTTPConnection, key: str, content: bytes, signed: str | None = None) -> tuple[int, str]:
    header = signed or sign(content, [SECRET], int(time.time()))
    connection.request("POST", "/hook", content, {"Idempotency-Key": key, SIGNATURE_HEADER: header})
    response = connection.getresponse()
    return response.status, response.read().decode().strip()


def test_valid_deliveries_are_stored_once_and_others_rejected(connection: HTTPConnection, tmp_path: Path):
    key, content = delivery()
    assert post(connection, key, content) == (200, "stored")
    assert post(connection, key, content) == (200, "duplicate")
    assert post(connection, key, content, sign(content, ["whsec_wrong"], int(time.time())))[0] == 401
    assert post(connection, key, content, sign(content, [SECRET], int(time.time()) - 301))[0] == 401
    assert post(connection, "another", content)[0] == 400
    for nonsense in (b"", b"no JSON", b"[]", b'"text"', b'{"schema_version": 2}', b"\xff"):
        assert post(connection, key, nonsense)[0] == 400
    assert post(connection, *delivery(2, "exception")) == (200, "stored")
    inbox = Inbox(str(tmp_path / "results.sqlite"))
    assert [result["data"]["outcome"] for result in inbox.results()] == ["exception"]
    inbox.close()


def test_invalid_or_large_content_length_is_rejected(connection: HTTPConnection):
    for length in ("17000000", "-1", "many"):
        connection.putrequest("POST", "/hook")
        connection.putheader("Content-Length", length)
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()


def test_missing_secret_exits_with_hint(tmp_path: Path):
    environment = {name: value for name, value in os.environ.items() if name != "WEBHOOK_SECRET"}
    ended = subprocess.run(
        [sys.executable, "-I", webhook_receiver.__file__],
        check=False,
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("Set WEBHOOK_SECRET")
    assert list(tmp_path.iterdir()) == []


def test_delivery_is_new_after_crash_during_storage(tmp_path: Path):
    inbox = Inbox(str(tmp_path / "results.sqlite"))
    _, content = delivery()
    broken = json.loads(content)
    del broken["subject_id"]  # read only after the id was inserted
    with pytest.raises(KeyError):
        inbox.store(json.dumps(broken).encode())
    assert inbox.store(content)
    inbox.close()
