"""Document output on the real engine, with local receivers and a test clock.

The harness has a tenant with results.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from counterfoil.audit import Change
from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.work import Message
from counterfoil.documents.clusters import cluster_data
from counterfoil.egress import Egress
from counterfoil.webhooks import destinations
from counterfoil.webhooks.destinations import NewDestination, enqueue
from functions.document_output.work import OutputDependencies, deliver
from tests.delivery.harness import Clock, Context, event, make_consumer, record, rows
from tests.factories import make_document
from tools.demo.webhook_receiver import Inbox, Receiver

FAILURES = 3
NAME = "hooks.example.com"
BUCKET = "uploads"
QUEUES = {"document_output": "output"}
WORKER = {"name": "document_output", "timeout": 120, "permits": 4, "start_margin": 30}


class Resolver:
    """Resolver that returns `answers` for every name.

    The default is the loopback address.
    """

    def __init__(self) -> None:
        self.answers: Sequence[str] = ["127.0.0.1"]

    def __call__(self, host: str, port: int) -> Sequence[str]:
        return self.answers


class OutputHarness:
    """The output worker with its dependencies, and helpers that enqueue deliveries."""

    def __init__(self, database: Database, admin: Connection, clock: Clock, tenant_id: UUID) -> None:
        self.admin, self.clock, self.tenant_id = admin, clock, tenant_id
        self.database = database
        self.resolver = Resolver()
        breakers = Breakers(database, clock, failures=FAILURES, open_seconds=30, probe_seconds=90, spread=lambda: 0.0)
        self.dependencies = OutputDependencies(breakers, Egress(("127.0.0.0/8",), self.resolver), BUCKET)

    def webhook(self, url: str, name: str = "office", path: str = "/hook?token=t0ken") -> str:
        """Add a webhook for a local server. Return the webhook's secret."""
        address = f"{url.replace('127.0.0.1', NAME)}{path}"
        destination = NewDestination(name, "webhook", address, ["cluster"])
        secret = destinations.add(
            self.admin, self.change(), destination, ["127.0.0.0/8", f"{NAME}:{urlsplit(address).port}"]
        )
        assert secret is not None
        return secret

    def change(self) -> Change:
        """Return an audited change by the tenant's admin at the current time."""
        return Change(self.tenant_id, "kim", self.clock())

    def export(self, prefix: str = "erp/in", name: str = "erp") -> None:
        destinations.add(self.admin, self.change(), NewDestination(name, "s3", prefix, ["cluster"]))

    def result(self, outcome: str = "matched", cluster: UUID | None = None) -> UUID:
        """Enqueue deliveries of a cluster's result. Return the cluster's id.

        A new cluster with one invoice is stored unless `cluster` is set.
        """
        if cluster is None:
            cluster = make_document(self.admin, self.tenant_id, {"invoice_number": "R-1"}, type="invoice")
            self.admin.execute("UPDATE document SET cluster_id = id WHERE id = %s", [cluster])
        with self.database.tenant(self.tenant_id) as connection:
            data = partial(cluster_data, connection, self.tenant_id, cluster, {"outcome": outcome})
            enqueue(connection, self.tenant_id, "cluster", cluster, data, self.clock())
        return cluster

    def offers(self) -> UUID:
        """Enqueue deliveries of a shard's offers event. Return the shard's id."""
        shard = uuid4()
        with self.database.tenant(self.tenant_id) as connection:
            enqueue(connection, self.tenant_id, "offers", shard, lambda: '{"completed": 3}', self.clock())
        return shard

    def due_messages(self) -> list[Message]:
        """Return the messages of all due deliveries, oldest first."""
        outbox_rows = self.admin.execute(
            """SELECT o.work_id, o.revision, o.send_number FROM output_job j JOIN outbox o
               ON o.work_id = j.id AND o.revision = j.revision AND o.send_number = j.send_number
               WHERE j.status IN ('pending', 'in-progress') AND coalesce(j.next_attempt_at, %(now)s) <= %(now)s
               ORDER BY o.created_at, o.id""",
            {"now": self.clock()},
        ).fetchall()
        return [
            Message(work_id=id_, revision=revision, send_number=send_number)
            for id_, revision, send_number in outbox_rows
        ]

    def run(self, *messages: Message, receives: int = 1, work: Any = None, seconds_left: float = 120) -> Any:
        """Process messages in one batch, by default all due messages.

        An empty batch is not processed.
        """
        batch = [record(message, receives=receives) for message in messages or self.due_messages()]
        if not batch:
            return {"batchItemFailures": []}
        consumer = make_consumer(self.database, work or self.deliver, self.clock, worker=WORKER, queue_urls=QUEUES)
        return consumer.handle(event(*batch), Context(seconds_left))

    def deliver(self, attempt: TenantAttempt) -> Outcome:
        return deliver(attempt, self.dependencies)

    def jobs(self) -> list[dict[str, Any]]:
        return sorted(rows(self.admin, "output_job"), key=lambda job: str(job["requested_at"]))

    def job(self) -> dict[str, Any]:
        (only,) = self.jobs()
        return only


@contextmanager
def running_receiver(secrets: Sequence[str], clock: Clock) -> Iterator[Receiver]:
    """Run the sample receiver with the test clock, and yield it."""
    inbox = Inbox(":memory:")
    receiver = Receiver(("127.0.0.1", 0), secrets, inbox, lambda: clock().timestamp())
    thread = Thread(target=receiver.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        thread.join()
        receiver.server_close()
        inbox.close()
