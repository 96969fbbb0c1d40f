"""A sample receiver of Counterfoil's webhooks. It needs Python 3.11 and nothing else: take it as a start for your own.

    WEBHOOK_SECRET=whsec_... python receiver.py --port 8099 --database results.sqlite

It verifies each call, keeps the newest revision of every cluster and document, and takes each delivery effectively once
however often it comes. See docs/webhooks.md.
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
"""A signature older than this is refused: a call that somebody recorded cannot be made again later."""
LONGEST_BODY = 16 * 1024 * 1024
SILENCE_SECONDS = 10


def is_genuine(header: str, body: bytes, secrets: Sequence[str], now: float) -> bool:
    """Whether one of `secrets` has signed exactly these bytes, at most TOLERANCE_SECONDS from `now`.

    `header` is `t=<seconds since 1970>,v1=<hex>`, with one v1 for each secret that is active. Verify the bytes as they
    came, before they are parsed; compare in constant time.
    """
    parts = [part.partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdecimal() and len(times[0]) <= 12):
        return False
    if abs(now - int(times[0])) > TOLERANCE_SECONDS:
        return False
    given = [value.encode() for name, _, value in parts if name == "v1"]
    signed = f"{times[0]}.".encode() + body
    expected = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest().encode() for secret in secrets]
    return any(hmac.compare_digest(one, other) for one in given for other in expected)


class Inbox:
    """What was received: each delivery's id once, and of every subject the newest revision."""

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

    def take(self, body: bytes) -> bool:
        """Take one delivery. False where it was taken before.

        That it was taken and what it changed are one transaction: after a crash in between, it comes again and is new.
        """
        told: dict[str, Any] = json.loads(body)
        with self._lock, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            is_new = self._database.execute("INSERT OR IGNORE INTO delivery VALUES (?)", [told["id"]]).rowcount == 1
            if is_new:
                # An older revision that comes late changes nothing.
                self._database.execute(
                    "INSERT INTO result VALUES (?, ?, ?, ?) ON CONFLICT (event, subject_id) DO UPDATE "
                    "SET revision = excluded.revision, body = excluded.body WHERE excluded.revision > revision",
                    [told["event"], told["subject_id"], told["revision"], body.decode()],
                )
        return is_new

    def results(self) -> list[dict[str, Any]]:
        """The newest revision of everything."""
        with self._lock:
            rows = self._database.execute("SELECT body FROM result ORDER BY event, subject_id").fetchall()
        return [json.loads(row[0]) for row in rows]

    def close(self) -> None:
        """Close the database."""
        self._database.close()


class Receiver(ThreadingHTTPServer):
    """Answers POST at every path."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], secrets: Sequence[str], inbox: Inbox, clock: Callable[[], float] = time.time
    ) -> None:
        self.secrets = secrets
        self.inbox = inbox
        self.clock = clock
        super().__init__(address, Handler)

    def answer(self, headers: Any, body: bytes) -> tuple[int, str]:
        """The status for a call, and a word about it."""
        if not is_genuine(headers.get("Counterfoil-Signature", ""), body, self.secrets, self.clock()):
            return 401, "not signed with a secret of mine, or too long ago"
        try:
            told = json.loads(body)
            known = told["schema_version"] == 1 and told["id"] == headers.get("Idempotency-Key")
        except (ValueError, TypeError, KeyError):
            known = False
        if not known:
            return 400, "not a delivery that I know"
        return 200, "taken" if self.inbox.take(body) else "taken before"


class Handler(BaseHTTPRequestHandler):
    """One request to the receiver."""

    server: Receiver
    timeout = SILENCE_SECONDS

    def do_POST(self) -> None:  # the name is http.server's
        """Take one delivery: verify it, keep it once, and answer."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_BODY:
            status, word = 413, "a body with a length, please, and not so long"
        else:
            status, word = self.server.answer(self.headers, self.rfile.read(int(length)))
        said = f"{word}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


def main() -> None:
    """Receive until interrupted."""
    parser = argparse.ArgumentParser(description="Receive Counterfoil's webhooks.")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--database", type=Path, default=Path("results.sqlite"), help="where what comes is kept")
    options = parser.parse_args()
    secrets = os.environ.get("WEBHOOK_SECRET", "").split()
    if not secrets:
        sys.exit("Set WEBHOOK_SECRET to the secret of the webhook; while you change it, to both, with a blank between.")
    address = ("127.0.0.1", options.port)
    with closing(Inbox(str(options.database))) as inbox, Receiver(address, secrets, inbox) as server:
        sys.stdout.write(f"Receiving at http://127.0.0.1:{server.server_port}/\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
