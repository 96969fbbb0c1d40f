"""Sample receiver for Counterfoil's webhooks.

It requires only Python 3.11. Use it as a template.

    WEBHOOK_SECRET=whsec_... python webhook_receiver.py --port 8099 --database results.sqlite

It verifies each request, stores the newest revision of every cluster and document, and applies each delivery only once.
See docs/webhooks.md.
"""

import argparse
import hashlib
import hmac
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

TOLERANCE_SECONDS = 300
"""Maximum difference between a signature's time and now, so that a recorded request cannot be replayed later."""
MAX_BODY_BYTES = 16 * 1024 * 1024
READ_TIMEOUT_SECONDS = 10


def is_signature_valid(header: str, body: bytes, secrets: Sequence[str], now: float) -> bool:
    """Return whether one of `secrets` recently signed these bytes.

    The signature's time must be within TOLERANCE_SECONDS of `now`. `header` is `t=<seconds since 1970>,v1=<hex>`, with
    one v1 per active secret. Verify the raw bytes before parsing them, and compare in constant time.
    """
    parts = [part.partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdecimal() and len(times[0]) <= 12):
        return False
    if abs(now - int(times[0])) > TOLERANCE_SECONDS:
        return False
    signatures = [value.encode() for name, _, value in parts if name == "v1"]
    signed = f"{times[0]}.".encode() + body
    expected = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest().encode() for secret in secrets]
    return any(hmac.compare_digest(signature, candidate) for signature in signatures for candidate in expected)


class Inbox:
    """Received delivery ids, and the newest revision of each subject."""

    def __init__(self, path: str) -> None:
        self._lock = Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.executescript(
            """
            CREATE TABLE IF NOT EXISTS delivery (id text PRIMARY KEY);
            CREATE TABLE IF NOT EXISTS result (event text, subject_id text, revision int, body text,
                                               PRIMARY KEY (event, subject_id));
            """
        )

    def store(self, body: bytes) -> bool:
        """Store one delivery. Returns False if it is a duplicate.

        The id and the result are stored in one transaction. If the process crashes before the commit, the repeated
        delivery does not count as a duplicate.
        """
        delivery: dict[str, Any] = json.loads(body)
        with self._lock, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            is_new = self._database.execute("INSERT OR IGNORE INTO delivery VALUES (?)", [delivery["id"]]).rowcount == 1
            if is_new:
                # An older revision that arrives late changes nothing.
                self._database.execute(
                    "INSERT INTO result VALUES (?, ?, ?, ?) ON CONFLICT (event, subject_id) DO UPDATE "
                    "SET revision = excluded.revision, body = excluded.body WHERE excluded.revision > revision",
                    [delivery["event"], delivery["subject_id"], delivery["revision"], body.decode()],
                )
        return is_new

    def results(self) -> list[dict[str, Any]]:
        """Return the newest revision of every subject."""
        with self._lock:
            rows = self._database.execute("SELECT body FROM result ORDER BY event, subject_id").fetchall()
        return [json.loads(row[0]) for row in rows]

    def close(self) -> None:
        """Close the database."""
        self._database.close()


class Receiver(ThreadingHTTPServer):
    """Answers POST requests on every path."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], secrets: Sequence[str], inbox: Inbox, clock: Callable[[], float] = time.time
    ) -> None:
        self.secrets = secrets
        self.inbox = inbox
        self.clock = clock
        super().__init__(address, Handler)

    def respond(self, headers: Any, body: bytes) -> tuple[int, str]:
        """Return the status and message of a response."""
        if not is_signature_valid(headers.get("Counterfoil-Signature", ""), body, self.secrets, self.clock()):
            return 401, "invalid or expired signature"
        try:
            delivery = json.loads(body)
            is_valid = delivery["schema_version"] == 1 and delivery["id"] == headers.get("Idempotency-Key")
        except (ValueError, TypeError, KeyError):
            is_valid = False
        if not is_valid:
            return 400, "not a Counterfoil delivery"
        return 200, "stored" if self.inbox.store(body) else "duplicate"


class Handler(BaseHTTPRequestHandler):
    """One request to the receiver."""

    server: Receiver
    timeout = READ_TIMEOUT_SECONDS

    def do_POST(self) -> None:  # the name that http.server requires
        """Verify a delivery, store it and respond."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            status, text = 413, "Content-Length is missing, invalid or too large"
        else:
            status, text = self.server.respond(self.headers, self.rfile.read(int(length)))
        content = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Receive deliveries until interrupted."""
    parser = argparse.ArgumentParser(description="Receive Counterfoil's webhooks.")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--database", type=Path, default=Path("results.sqlite"), help="SQLite file for the results")
    options = parser.parse_args()
    secrets = os.environ.get("WEBHOOK_SECRET", "").split()
    if not secrets:
        sys.exit(
            "Set WEBHOOK_SECRET to the webhook's secret. During a rotation, set both secrets, separated by a space."
        )
    address = ("127.0.0.1", options.port)
    with closing(Inbox(str(options.database))) as inbox, Receiver(address, secrets, inbox) as server:
        sys.stdout.write(f"Receiving at http://127.0.0.1:{server.server_port}/\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
