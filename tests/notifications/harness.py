"""Recorded failures, a channel that records digests, and a scripted webhook."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from uuid import UUID, uuid4

from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import DeadLetter, FailureDetails, write_dead_letter
from counterfoil.delivery.work import Message
from counterfoil.kinds import WORK_KINDS
from counterfoil.notifications.digest import RenderedNotification
from tests.delivery.harness import Clock


@dataclass
class Sent:
    """A sent digest with its recipient and idempotency key."""

    text: RenderedNotification
    recipient: str
    key: str


@dataclass
class FakeChannel:
    """Fake channel that records sent digests.

    `on_send` runs during each send and may raise.
    """

    addresses: Sequence[str] = ("on-call",)
    sent: list[Sent] = field(default_factory=list)
    on_send: Callable[[], None] = lambda: None

    def recipients(self, admins: Sequence[str]) -> Sequence[str]:
        return [*self.addresses, *admins]

    def send(self, text: RenderedNotification, recipient: str, key: str) -> None:
        self.on_send()
        self.sent.append(Sent(text, recipient, key))

    @property
    def headlines(self) -> list[str]:
        return [sent.text.headline for sent in self.sent]


class RaiseErrors:
    """Callable that raises the given errors, one per call, and then returns."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, *_: object) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)


def fail(
    admin: Connection,
    clock: Clock,
    tenant_id: UUID | None,
    *,
    times: int = 1,
    error: str = "The sum of the lines is not the total",
    worker: str = "matching",
    with_work_item: bool = True,
) -> list[UUID]:
    """Record failures as delivery does.

    Return their work ids, or their job ids if they have no work item.
    """
    ids = []
    with admin.transaction():
        for _ in range(times):
            work_id = uuid4()
            message = Message(work_id=work_id, revision=1, send_number=0) if with_work_item else None
            dead_letter = DeadLetter(
                job_id=WORK_KINDS[worker].job_id(work_id),
                tenant_id=tenant_id,
                worker=worker,
                message=message,
                payload={},
                attempts=3 if with_work_item else 0,
                failure=FailureDetails("max_retries_exceeded", "InvalidDocumentError", error, 3, worker),
                created_at=clock(),
            )
            write_dead_letter(admin, dead_letter, clock())
            ids.append(work_id if with_work_item else dead_letter.job_id)
    return ids


def deliveries(admin: Connection, *columns: str) -> list[tuple[Any, ...]]:
    """Return every delivery's values in these columns, ordered by digest."""
    names = ", ".join(columns)
    return admin.execute(
        f"SELECT {names} FROM notification_delivery d JOIN notification_digest n ON n.id = d.digest_id "
        f"ORDER BY n.created_at, n.id, channel, recipient".encode()
    ).fetchall()


def metrics(output: str) -> list[tuple[str, str, float]]:
    """Return (metric, channel, value) for each metric in embedded metric format."""
    lines = [json.loads(line) for line in output.splitlines() if '"_aws"' in line]
    return [
        (metric["Name"], line["channel"], sum(line[metric["Name"]]))
        for line in lines
        for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]
    ]


ScriptedResponse = tuple[int, dict[str, str]] | None
"""Status and headers of a response, or None to close the connection."""


class Webhook:
    """Local HTTP server in place of Slack. Sends scripted responses, then 200."""

    def __init__(self) -> None:
        self.script: list[ScriptedResponse] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.content_types: list[str | None] = []
        self.may_answer = Event()
        self.may_answer.set()
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # name required by http.server
                body = self.rfile.read(int(self.headers["Content-Length"]))
                webhook.requests.append(json.loads(body))
                webhook.keys.append(self.headers["Idempotency-Key"])
                webhook.content_types.append(self.headers["Content-Type"])
                response = webhook.script.pop(0) if webhook.script else (200, {})
                webhook.may_answer.wait(10)
                if response is None:
                    self.connection.close()
                    return
                status, headers = response
                self.send_response(status)
                for name, value in {"Content-Length": "2", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # http.server's name
                pass

            def handle(self) -> None:
                with suppress(OSError):  # the client has disconnected
                    super().handle()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/services/T0/B0/secret"

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
