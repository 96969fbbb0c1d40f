"""Diagnostics and output on the real engine: changed clusters reach the receiver."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import Message
from counterfoil.documents import diagnostics
from functions.admin_api.api.clusters import ClusterVariance
from functions.diagnostics.work import diagnose
from tests.delivery.harness import Clock, Context, FakeSqs, event, make_consumer, record
from tests.factories import make_document
from tests.functions.output_harness import OutputHarness, running_receiver
from tools.demo.webhook_receiver import Receiver

PAGE = Path(__file__).parents[2] / "docs" / "webhooks.md"
DIAGNOSTICS = {"name": "diagnostics", "timeout": 60, "permits": 2, "start_margin": 20}
QUEUES = {"diagnostics": "diagnostics", "document_output": "output"}
LINE = {"position": "1", "article_number": "A-1", "description": "Bolt", "quantity": "10", "unit": "C62"}
ORDER = {
    "po_number": "B-1",
    "order_date": "2025-12-01",
    "supplier": {"name": "Nordwind GmbH"},
    "buyer": {"name": "Acme"},
    "currency": "EUR",
    "total_net": "100.00",
    "line_items": [LINE | {"unit_price": "10.00", "net_amount": "100.00"}],
}
DELIVERY = {
    "delivery_note_number": "L-1",
    "delivery_date": "2025-12-10",
    "supplier": {"name": "Nordwind GmbH"},
    "buyer": {"name": "Acme"},
    "po_reference": "B-1",
    "line_items": [LINE],
}
INVOICE = {
    "invoice_number": "R-1",
    "invoice_date": "2025-12-20",
    "issuer": {"name": "Nordwind GmbH"},
    "recipient": {"name": "Acme"},
    "po_reference": "B-1",
    "currency": "EUR",
    "total_net": "100.00",
    "total_tax": "19.00",
    "total_gross": "119.00",
    "line_items": [LINE | {"unit_price": "10.00", "net_amount": "100.00", "tax_rate": "19"}],
}
KINDS = (("purchase_order", ORDER), ("delivery_note", DELIVERY), ("invoice", INVOICE))


class Clusters(OutputHarness):
    """Output harness that changes a tenant's clusters and runs diagnostics."""

    def documents(self) -> list[UUID]:
        """Store an order, its delivery note and its invoice in one cluster.

        Return their ids.
        """
        ids = [
            make_document(self.admin, self.tenant_id, data, type=kind, id=UUID(int=number))
            for number, (kind, data) in enumerate(KINDS, 1)
        ]
        self.link(ids[0], ids[1])
        self.link(ids[0], ids[2])
        self.put(ids[0], *ids)
        return ids

    def link(self, a: UUID, b: UUID) -> None:
        self.admin.execute(
            """INSERT INTO document_match
                   (tenant_id, document_a_id, document_b_id, score, confidence, evidence, decided_by, reasoning,
                    decided_at)
               VALUES (%s, %s, %s, 1, 'high', '{}', 'rules', '', now())""",
            [self.tenant_id, a, b],
        )

    def put(self, cluster: UUID, *documents: UUID) -> None:
        """Assign documents to a cluster and request diagnostics as matching does."""
        previous_rows = self.admin.execute(
            "SELECT cluster_id FROM document WHERE id = ANY(%s)", [list(documents)]
        ).fetchall()
        self.admin.execute("UPDATE document SET cluster_id = %s WHERE id = ANY(%s)", [cluster, list(documents)])
        with self.database.tenant(self.tenant_id) as connection:
            previous_clusters = {row[0] for row in previous_rows if row[0] is not None}
            diagnostics.enqueue_diagnostics(connection, self.tenant_id, previous_clusters | {cluster}, self.clock())

    def settle(self) -> None:
        """Process all pending diagnostics, then all due deliveries."""
        self.clock.advance(seconds=6)
        rows = self.admin.execute(
            "SELECT id, revision, send_number FROM cluster_diagnostics WHERE status = 'pending' ORDER BY id"
        ).fetchall()
        batch = [
            record(Message(work_id=id_, revision=revision, send_number=send_number))
            for id_, revision, send_number in rows
        ]
        consumer = make_consumer(self.database, diagnose, self.clock, worker=DIAGNOSTICS, queue_urls=QUEUES)
        assert consumer.handle(event(*batch), Context()) == {"batchItemFailures": []}
        assert self.run() == {"batchItemFailures": []}


@pytest.fixture
def clusters(database: Database, admin: Connection, clock: Clock, tenant: UUID, sqs: FakeSqs) -> Clusters:
    return Clusters(database, admin, clock, tenant)


def received_clusters(receiver: Receiver) -> dict[str, Any]:
    """Return the outcome and document types of each received cluster.

    A removed cluster has None.
    """
    return {
        result["subject_id"]: result["data"]
        and (result["data"]["outcome"], [document["type"] for document in result["data"]["documents"]])
        for result in receiver.inbox.results()
    }


def test_receiver_has_the_latest_state_of_clusters(clusters: Clusters):
    secrets: list[str] = []
    with running_receiver(secrets, clusters.clock) as receiver:
        secrets.append(clusters.webhook(f"http://127.0.0.1:{receiver.server_port}"))
        order, delivery, invoice = clusters.documents()
        clusters.settle()
        assert received_clusters(receiver) == {str(order): ("matched", ["purchase_order", "delivery_note", "invoice"])}

        clusters.admin.execute("DELETE FROM document_match WHERE document_b_id = %s", [invoice])
        clusters.put(invoice, invoice)  # in a new cluster; the previous cluster shrinks
        clusters.settle()
        expected_clusters = received_clusters(receiver)
        assert expected_clusters[str(order)][1] == ["purchase_order", "delivery_note"]
        assert expected_clusters[str(invoice)][1] == ["invoice"]

        clusters.link(order, invoice)
        clusters.put(order, order, delivery, invoice)
        clusters.settle()
        expected_clusters = received_clusters(receiver)
        assert expected_clusters[str(order)] == ("matched", ["purchase_order", "delivery_note", "invoice"])
        assert expected_clusters[str(invoice)] is None
    assert {job["status"] for job in clusters.jobs()} == {"succeeded"}


def test_unchanged_recomputed_result_is_not_delivered_again(clusters: Clusters):
    secrets: list[str] = []
    with running_receiver(secrets, clusters.clock) as receiver:
        secrets.append(clusters.webhook(f"http://127.0.0.1:{receiver.server_port}"))
        order, *_ = clusters.documents()
        clusters.settle()
        clusters.put(order, order)
        clusters.settle()
        assert [result["revision"] for result in receiver.inbox.results()] == [1]
    assert [job["revision"] for job in clusters.jobs()] == [1]


def test_delivered_fields_match_the_documentation(clusters: Clusters):
    secrets: list[str] = []
    with running_receiver(secrets, clusters.clock) as receiver:
        secrets.append(clusters.webhook(f"http://127.0.0.1:{receiver.server_port}"))
        clusters.documents()
        clusters.settle()
        (result,) = receiver.inbox.results()
    _, cluster_section = PAGE.read_text().split("\n`data` of a cluster has")
    section, _ = cluster_section.split("\n`data` of a document has")
    documented_fields = {"outcome", "reasons", "variances", "lines", "warnings", "documents", "matches"}
    assert result["data"].keys() == documented_fields
    document, match = result["data"]["documents"][0], result["data"]["matches"][0]
    for name in (*documented_fields, *document, *match, *ClusterVariance.model_fields):
        assert f"`{name}`" in section
