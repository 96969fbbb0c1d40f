"""An acquisition stores the same rows and objects despite a crash after any call.

A process ends after a call to S3, SQS or PostgreSQL, including commits, and has no further effects. SQS redelivers the
message to a new process. At the end the watchdog sends messages that a crash left in the outbox.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any
from uuid import UUID

import psycopg
import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.documents import files
from functions.acquisition.work import WORKER
from tests.delivery.harness import Clock, Context, FakeSqs, event, record, settings
from tests.functions.test_documents import BUCKET, QUEUES, Pipeline, pipeline, s3_event
from tests.functions.test_mail import zip_of
from tests.mail_factory import LOGO, PDF, XML, mail, received_mail

__all__ = ["pipeline"]

MAX_PROCESSES = 20


class ProcessEnded(BaseException):
    """Raised to simulate a killed process."""


@dataclass
class Process:
    """Process that is killed after call number `end_at`."""

    end_at: int | None = None
    calls: list[str] = field(default_factory=list)
    has_ended: bool = False

    def point(self, name: str) -> None:
        if self.has_ended:
            raise ProcessEnded(name)
        self.calls.append(name)
        if len(self.calls) == self.end_at:
            self.has_ended = True
            raise ProcessEnded(name)

    def call(self, name: str, action: Callable[[], Any]) -> Any:
        if self.has_ended:
            raise ProcessEnded(name)
        result = action()
        self.point(name)
        return result


class InterruptibleClient:
    """An AWS client whose calls may end the process."""

    def __init__(self, current: Callable[[], Process], client: Any) -> None:
        self._life, self._client = current, client

    def __getattr__(self, name: str) -> Any:
        return lambda **arguments: self._life().call(name, lambda: getattr(self._client, name)(**arguments))


class Inline:
    """Concurrency that runs all functions in sequence and omits the heartbeat."""

    def start(self, name: str, function: Callable[[], None]) -> None:
        if name != "heartbeat":
            with suppress(ProcessEnded):
                function()

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        return predicate()

    def notify(self) -> None: ...

    def monotonic(self) -> float:
        return 0

    def end_process(self) -> None: ...


class CrashHarness:
    """A queue, a bucket and a database that outlive every process."""

    def __init__(
        self, pipeline: Pipeline, url: str, admin: Connection, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.s3, self.sqs, self.url, self.admin, self.clock = pipeline.s3, FakeSqs(), url, admin, clock
        self.process_state = Process()
        clients = {
            name: InterruptibleClient(lambda: self.process_state, client)
            for name, client in (("s3", self.s3), ("sqs", self.sqs))
        }
        monkeypatch.setattr(aws, "client", clients.__getitem__)
        for name in ("execute", "commit"):
            self._tap(monkeypatch, name)

    def _tap(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        untapped = getattr(psycopg.Connection, name)

        def tapped(connection: Connection, *arguments: Any, **named: Any) -> Any:
            first = arguments[0] if arguments else None
            is_opening = isinstance(first, bytes) and first.lstrip().startswith(b"BEGIN")
            if connection is self.admin or is_opening or first in {b"", ""}:  # including the connection pool's checks
                return untapped(connection, *arguments, **named)
            return self.process_state.call(name, lambda: untapped(connection, *arguments, **named))

        monkeypatch.setattr(psycopg.Connection, name, tapped)

    @contextmanager
    def process(self) -> Iterator[tuple[Consumer, Outbox]]:
        """Yield the consumer and outbox of a new process, with separate connections."""
        database = Database(self.url)
        outbox = Outbox(database, QUEUES, clock=self.clock)
        row = {"name": "acquisition", "timeout": 120, "permits": 2, "start_margin": 30}
        try:
            yield (
                Consumer(
                    settings(worker=row, queue_urls=QUEUES),
                    WORKER,
                    database=database,
                    outbox=outbox,
                    visibility=Visibility("acquisition"),
                    read=files.read_event,
                    clock=self.clock,
                    concurrency=Inline(),
                ),
                outbox,
            )
        finally:
            database.close()

    def run_until_idle(self, body: str, end_at: int | None) -> list[str]:
        """Deliver a message until nothing is due.

        The first process ends after call number `end_at`.

        Returns the first process's calls, or all calls of the run if it did not end.
        """
        self.process_state = current = Process(end_at)
        queue = [body]
        for _ in range(MAX_PROCESSES):
            with self.process() as (consumer, outbox), suppress(ProcessEnded):
                self._process_queue(queue, consumer)
                if not outbox.send_unsent(created_before=self.clock()):
                    return current.calls
            queue += [entry["MessageBody"] for entry in self.sqs.sent.pop("acquisition", [])]
            if self.process_state.has_ended:
                self.process_state = Process()
            self.clock.advance(minutes=10)  # leases and visibility timeouts expire
        raise AssertionError("The run does not end")

    def _process_queue(self, queue: list[str], consumer: Consumer) -> None:
        while queue:
            batch_response = consumer.handle(event(record(queue[0])), Context())
            if not batch_response["batchItemFailures"]:
                queue.pop(0)
            queue += [entry["MessageBody"] for entry in self.sqs.sent.pop("acquisition", [])]


@dataclass
class MailScenario:
    """Two tenants of one run, with their data."""

    harness: CrashHarness
    slugs: dict[str, UUID]
    run: int

    def put(self, name: str, content: bytes) -> str:
        """Store an object and return its S3 event."""
        key = name.replace("*", str(self.run))
        self.harness.s3.put_object(Bucket=BUCKET, Key=key, Body=content)
        return s3_event(key)

    def normalize(self, value: Any) -> str:
        """Return a value without the parts that differ between runs."""
        text = str(value)
        for slug, id_ in self.slugs.items():
            text = text.replace(str(id_), slug.removesuffix(str(self.run)))
        return re.sub(rf"(acme|zenith){self.run}\b", r"\1", text.replace(f"/{self.run}/", "/*/"))

    def rows(self, statement: str) -> list[str]:
        result_rows = self.harness.admin.execute(statement.encode(), {"tenants": list(self.slugs.values())}).fetchall()
        return sorted(self.normalize(row) for row in result_rows)

    def snapshot(self) -> dict[str, Any]:
        """Return all of a run's rows, objects and messages."""
        contents: dict[str, Any] = {name: self.rows(statement) for name, statement in QUERIES.items()}
        prefixes = [f"attachments/{id_}/" for id_ in self.slugs.values()]
        for prefix in prefixes:
            for item in self.harness.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", []):
                content = self.harness.s3.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read()
                contents[self.normalize(item["Key"])] = content
        return contents


TENANT_FILTER = "tenant_id = ANY (%(tenants)s)"
QUERIES = {
    "jobs": f"SELECT tenant_id, key, status, revision, error, skip_reason FROM acquisition_job WHERE {TENANT_FILTER}",
    "sources": f"""SELECT tenant_id, kind, key, sender, subject, message_id, rejection_reason,
                          (SELECT string_agg(p ->> 'name' || coalesce(d.file_name, p ->> 'reason'), ',' ORDER BY n)
                           FROM jsonb_array_elements(attachments) WITH ORDINALITY e (p, n)
                                LEFT JOIN document d ON d.id::text = p ->> 'document')
                   FROM source WHERE {TENANT_FILTER}""",
    "documents": f"""SELECT tenant_id, key, version IS NULL, file_name, size, content_hash, duplicate_uploads,
                            (SELECT key FROM source s WHERE s.id = source_id)
                     FROM document WHERE {TENANT_FILTER}""",
    "ingestion": f"""SELECT tenant_id, (SELECT file_name FROM document d WHERE d.id = i.id), status, revision,
                            send_number FROM ingestion_job i WHERE {TENANT_FILTER}""",
    "outbox": f"""SELECT tenant_id, worker, revision, send_number, sent_at IS NOT NULL,
                       (SELECT file_name FROM document d WHERE d.id = work_id) FROM outbox WHERE {TENANT_FILTER}""",
    "dead": f"""SELECT tenant_id, worker, revision, dlq_reason, status FROM dead_letter
                WHERE {TENANT_FILTER} OR tenant_id IS NULL""",
    "failure_event": f"""SELECT tenant_id, worker, revision FROM failure_event
                         WHERE {TENANT_FILTER} OR tenant_id IS NULL""",
    "unassigned jobs": "SELECT DISTINCT status FROM acquisition_job WHERE tenant_id IS NULL",
}

INVOICES = mail(
    ("Rechnung.pdf", PDF),
    ("more.zip", zip_of(("a.xml", XML), ("b.txt", b"nothing"))),
    ("known.xml", b"<known/>"),
    to="rechnung@acme*.example, in@zenith*.example",
    inline=[("logo.png", LOGO)],
)


CHANGED = mail(("Rechnung.pdf", PDF + b"changed on the way"), ("a.xml", XML), to="rechnung@acme*.example")


def mail_of(tenants: MailScenario, template: EmailMessage = INVOICES, **results: str) -> bytes:
    return received_mail(template.as_bytes().replace(b"*.example", b"%d.example" % tenants.run), **results)


def two_tenants(tenants: MailScenario) -> str:
    tenants.harness.run_until_idle(tenants.put(f"uploads/acme{tenants.run}/*/known.xml", b"<known/>"), None)
    return tenants.put("inbox/*/1", mail_of(tenants))


def repeated_mail(tenants: MailScenario) -> str:
    tenants.harness.run_until_idle(two_tenants(tenants), None)
    return tenants.put("inbox/*/2", mail_of(tenants))


def repeated_mail_with_another_file(tenants: MailScenario) -> str:
    tenants.harness.run_until_idle(two_tenants(tenants), None)
    return tenants.put("inbox/*/2", mail_of(tenants, CHANGED))


def spam(tenants: MailScenario) -> str:
    return tenants.put("inbox/*/1", mail_of(tenants, spam="FAIL"))


def archive(tenants: MailScenario) -> str:
    return tenants.put(f"uploads/acme{tenants.run}/*/a.zip", zip_of(("a.pdf", PDF), ("b.xml", XML), ("c.txt", b"c")))


def repeated_file(tenants: MailScenario) -> str:
    tenants.harness.run_until_idle(tenants.put(f"uploads/acme{tenants.run}/*/a.xml", XML), None)
    return tenants.put(f"uploads/acme{tenants.run}/*/b.xml", XML)


SCENARIOS: list[Callable[[MailScenario], str]] = [
    two_tenants,
    repeated_mail,
    repeated_mail_with_another_file,
    spam,
    archive,
    repeated_file,
]
STEP = 1 if "COUNTERFOIL_SOAK_SECONDS" in os.environ else 5
"""Number of calls between two tested crash points. `make soak` tests a crash after every call."""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_crash_after_any_call_has_same_outcome(
    scenario: Callable[[MailScenario], str],
    pipeline: Pipeline,
    database_url: str,
    admin: Connection,
    make_tenant: Callable[..., UUID],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
):
    harness = CrashHarness(pipeline, database_url, admin, clock, monkeypatch)

    def run(number: int, end_at: int | None) -> tuple[list[str], dict[str, Any]]:
        tenants = MailScenario(
            harness, {f"{name}{number}": make_tenant(f"{name}{number}") for name in ("acme", "zenith")}, number
        )
        for slug, tenant_id in tenants.slugs.items():
            address = f"{'rechnung' if slug.startswith('acme') else 'in'}@{slug}.example"
            admin.execute("INSERT INTO tenant_address (tenant_id, address) VALUES (%s, %s)", [tenant_id, address])
        calls = harness.run_until_idle(scenario(tenants), end_at)
        return calls, tenants.snapshot()

    calls, undisturbed = run(100, None)

    assert {"get_object", "execute", "commit", "change_message_visibility_batch"} <= set(calls)
    assert ("put_object" in calls) == (scenario not in {spam, repeated_file})
    assert len(undisturbed["dead"]) == (scenario is repeated_mail_with_another_file)
    for end_at in range(1 + SCENARIOS.index(scenario) % STEP, len(calls) + 1, STEP):
        ended, found = run(100 + end_at, end_at)
        assert len(ended) == end_at, "the process did not end after the expected call"
        assert found == undisturbed, f"ended after call {end_at}, {ended[-1]}"
