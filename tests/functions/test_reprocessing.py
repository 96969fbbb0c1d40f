"""Reprocessing replaces a document's contents and matches.

It keeps results that it cannot reproduce.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.delivery.work import start_revision
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.splitting import Boundary, Split
from counterfoil.errors import InvalidDocumentError
from counterfoil.kinds import WORK_KINDS
from functions.matching.work import match
from tests.delivery.harness import Clock, rows
from tests.documents.matching.samples import credit, invoice, order
from tests.documents.reading.samples import (
    LASKU,
    bundle,
    extraction_response,
    scanned_pdf,
    text_pdf,
    textract_responses,
)
from tests.factories import NOW, make_document
from tests.functions.ingestion_harness import DONE, Ingestion, ingestion
from tests.functions.test_diagnostics import DiagnosticsHarness as Office
from tests.functions.test_documents import Pipeline, pipeline
from tests.functions.test_split_documents import BUNDLE, INVOICES
from tools.sample_generator.bundle import write_bundle

__all__ = ["ingestion", "pipeline"]

ORDER = {
    "po_number": "PO 4711-22",
    "po_date": "2026-03-01",
    "supplier": {"name": "Kuusela Oy"},
    "buyer": {"name": "Nordwind GmbH"},
    "currency": "EUR",
    "total_net": "1200.00",
}


@pytest.fixture
def harness(database: Database, admin: Connection, clock: Clock, tenant: UUID) -> Office:
    return Office(database, admin, clock, tenant)


def match_documents(database: Database, tenant_id: UUID, clock: Clock, *ids: UUID) -> None:
    """Match documents, as the worker does."""
    for id_ in ids:
        outcome = match(TenantAttempt(id_, tenant_id, 1, 1, 1, database, clock))
        with database.tenant(tenant_id) as connection:
            outcome.effects(connection)


def set_contents(admin: Connection, id_: UUID, data: dict[str, Any] | None, kind: str) -> None:
    """Change a document's contents and type."""
    admin.execute(
        "UPDATE document SET structured_data = %s, type = %s WHERE id = %s",
        [None if data is None else Jsonb(data), kind, id_],
    )


def clusters(admin: Connection) -> dict[str, str | None]:
    return {row["id"]: row["cluster_id"] for row in rows(admin, "document")}


def keys(admin: Connection, id_: UUID) -> int:
    return sum(row["document_id"] == str(id_) for row in rows(admin, "document_key"))


HALF = (LASKU[0], "LASKU / INVOICE", "Invoice number L-2026/118", *LASKU[3:])
"""Lines of the same document as `LASKU`, but partially readable by rules."""


@pytest.fixture(params=[LASKU, HALF], ids=["rules read nothing", "rules read a little"])
def matched_cluster(ingestion: Ingestion, request: pytest.FixtureRequest) -> tuple[UUID, UUID]:
    """Ids of a matched order and invoice.

    Only the model can extract the whole invoice.
    """
    order_id = make_document(ingestion.admin, ingestion.tenant_id, ORDER, type="purchase_order", matching_revision=1)
    scanned_id = ingestion.file(text_pdf(request.param))
    ingestion.model.add_steps(extraction_response())
    ingestion.ingest()
    match_documents(ingestion.database, ingestion.tenant_id, ingestion.clock, order_id, scanned_id)
    assert len(rows(ingestion.admin, "document_match")) == 1
    ingestion.admin.execute("TRUNCATE page_reading_cache")  # no cached answer, as after a model change
    return order_id, scanned_id


def test_model_extraction_survives_reprocessing_without_a_model(
    ingestion: Ingestion, matched_cluster: tuple[UUID, UUID]
):
    _, read = matched_cluster
    before = ingestion.document(read)
    start_revision(ingestion.admin, "ingestion", [read], ingestion.clock())
    ingestion.redeliver(read)
    assert ingestion.ingest(model=False) == DONE

    after, job = ingestion.document(read), ingestion.job(read)
    changed = {name for name in after if after[name] != before[name]}
    assert {name for name in changed if not name.startswith("matching_")} == set()
    assert before["structured_data"] is not None
    assert job["status"] == "succeeded"
    assert job["skip_reason"].startswith("The previous extraction is unchanged. Reason: ")
    assert (after["matching_status"], after["matching_revision"]) == ("pending", before["matching_revision"] + 1)
    match_documents(ingestion.database, ingestion.tenant_id, ingestion.clock, read)
    assert len(rows(ingestion.admin, "document_match")) == 1


FIRST_PAGE = (
    "Kuusela Oy   Satamakatu 4   33200 Tampere",
    "Invoice",
    "Invoice number: L-2026/118",
    "Invoice date: 14.03.2026",
    "Bill to: Nordwind GmbH, Hafenstrasse 7, 20457 Hamburg",
    "Your order number: PO 4711-22",
    "The totals are stated on the page that follows, as our terms of payment are.",
    "Page 1 of 2",
)
LAST_PAGE = ("Page 2 of 2", "Net total  1,200.00 EUR", "VAT 25.5 %  306.00 EUR", "Invoice total  1,506.00 EUR")


def test_ocr_text_survives_reprocessing_without_ocr(ingestion: Ingestion):
    read = ingestion.file(bundle([text_pdf(FIRST_PAGE), scanned_pdf()]))
    ingestion.textract.add_steps(*textract_responses(text_pdf(LAST_PAGE)))
    ingestion.ingest(model=False)
    before = ingestion.document(read)
    assert (before["method"], before["structured_data"]["total_gross"]) == ("ocr", "1506.00")
    ingestion.admin.execute("TRUNCATE page_reading_cache")

    for _ in range(2):
        start_revision(ingestion.admin, "ingestion", [read], ingestion.clock())
        ingestion.redeliver(read)
        assert ingestion.ingest(model=False, ocr=False) == DONE
        assert ingestion.document(read)["structured_data"] == before["structured_data"]
        assert ingestion.job(read)["skip_reason"].startswith("The previous extraction is unchanged. Reason: ")


def test_document_reprocessed_as_unmatched_type_leaves_its_cluster(
    ingestion: Ingestion, matched_cluster: tuple[UUID, UUID]
):
    order_id, document_id = matched_cluster
    before = {row["id"]: row["revision"] for row in rows(ingestion.admin, "cluster_diagnostics")}
    start_revision(ingestion.admin, "ingestion", [document_id], ingestion.clock())
    ingestion.redeliver(document_id)
    ingestion.model.add_steps(extraction_response(type="other"))
    assert ingestion.ingest() == DONE

    assert (
        ingestion.document(document_id)["matching_status"],
        ingestion.document(document_id)["matching_revision"],
    ) == ("pending", 2)
    ingestion.admin.execute("UPDATE cluster_diagnostics SET status = 'succeeded'")
    match_documents(ingestion.database, ingestion.tenant_id, ingestion.clock, document_id)
    assert rows(ingestion.admin, "document_match") == []
    assert (keys(ingestion.admin, document_id), clusters(ingestion.admin)) == (
        0,
        {str(document_id): None, str(order_id): str(order_id)},
    )
    after = {
        row["id"]: row["revision"] for row in rows(ingestion.admin, "cluster_diagnostics") if row["status"] == "pending"
    }
    assert all(after[id_] > revision for id_, revision in before.items())
    assert str(order_id) in after


def test_ingestion_without_data_does_not_start_matching(ingestion: Ingestion):
    id_ = ingestion.file(text_pdf(LASKU))
    assert ingestion.ingest(model=False) == DONE
    assert (ingestion.document(id_)["matching_status"], ingestion.document(id_)["matching_revision"]) == (None, 0)


def test_removed_issuer_of_order_rematches_invoice(harness: Office):
    order_id, invoice_id = harness.file(order()), harness.file(invoice(po_reference="4711"))
    harness.match(order_id, invoice_id)
    set_contents(harness.admin, order_id, {"po_number": "4711"}, "purchase_order")
    harness.match(order_id)
    assert (rows(harness.admin, "document_match"), keys(harness.admin, order_id)) == ([], 0)
    assert clusters(harness.admin) == {str(order_id): None, str(invoice_id): str(invoice_id)}
    (row,) = [row for row in rows(harness.admin, "document") if row["id"] == str(invoice_id)]
    assert (row["matching_status"], row["matching_revision"]) == ("pending", 2)


def test_reclassified_order_rematches_referencing_invoice(harness: Office):
    first, second = harness.file(order()), harness.file(order(supplier={"name": "Somebody Else"}, when=1))
    invoice_id = harness.file(invoice(po_reference="4711"))
    harness.match(first, second, invoice_id)
    set_contents(harness.admin, second, None, "other")
    harness.match(second)
    pending = {row["id"] for row in rows(harness.admin, "document") if row["matching_status"] == "pending"}
    assert str(invoice_id) in pending


def test_confirmed_match_survives_reprocessing(harness: Office):
    order_id, invoice_id = harness.file(order()), harness.file(invoice(po_reference="4711"))
    harness.match(order_id, invoice_id)
    harness.admin.execute("UPDATE document_match SET decided_by = 'reviewer'")
    set_contents(harness.admin, invoice_id, None, "other")
    harness.match(invoice_id)
    assert len(rows(harness.admin, "document_match")) == 1
    assert (keys(harness.admin, invoice_id), set(clusters(harness.admin).values())) == (0, {str(order_id)})


def test_reclassified_document_is_matched_as_its_new_type(harness: Office):
    order_id, invoice_id = harness.file(order()), harness.file(invoice("R-81", po_reference="4711"))
    paid = harness.file(credit(invoice_reference="X-990"))
    harness.match(order_id, invoice_id, paid)
    assert clusters(harness.admin) == {
        str(order_id): str(order_id),
        str(invoice_id): str(order_id),
        str(paid): str(paid),
    }
    set_contents(harness.admin, order_id, invoice("X-990", when=12).data, "invoice")
    harness.match(order_id)
    (match,) = rows(harness.admin, "document_match")
    assert (match["document_a_id"], match["document_b_id"]) == (str(order_id), str(paid))
    assert clusters(harness.admin) == {
        str(order_id): str(order_id),
        str(paid): str(order_id),
        str(invoice_id): str(invoice_id),
    }


def ingest_without_splitting(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingest a file without splitting it."""
    with monkeypatch.context() as patched:
        undivided = Split(3, (Boundary(2, False, 1.0), Boundary(3, False, 1.0)))
        patched.setattr(parsers, "split_pages", lambda *_: undivided)
        assert pipeline.ingest() == DONE


def start_ingestion(pipeline: Pipeline, admin: Connection, id_: UUID, clock: Clock) -> None:
    (outbox_message,) = start_revision(admin, "ingestion", [id_], clock())
    pipeline.sqs.sent["ingestion"] = [{"MessageBody": outbox_message.message.model_dump_json()}]


def read_bundle(admin: Connection) -> dict[str, Any]:
    (file_row,) = [row for row in rows(admin, "document") if row["parent_id"] is None]
    return file_row


def test_file_split_on_reprocessing_leaves_its_cluster(
    pipeline: Pipeline,
    admin: Connection,
    database: Database,
    clock: Clock,
    make_tenant: Callable[..., UUID],
    monkeypatch: pytest.MonkeyPatch,
):
    tenant_id = make_tenant("acme")
    pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    ingest_without_splitting(pipeline, monkeypatch)
    bundle_id = UUID(read_bundle(admin)["id"])
    match_documents(database, tenant_id, clock, bundle_id)
    assert keys(admin, bundle_id) > 0
    start_ingestion(pipeline, admin, bundle_id, clock)
    assert pipeline.ingest() == DONE
    match_documents(database, tenant_id, clock, bundle_id)
    assert (read_bundle(admin)["type"], read_bundle(admin)["cluster_id"], keys(admin, bundle_id)) == ("other", None, 0)
    assert len(rows(admin, "document")) == 4


def test_split_file_stays_split_on_reprocessing(
    pipeline: Pipeline,
    admin: Connection,
    clock: Clock,
    make_tenant: Callable[..., UUID],
    monkeypatch: pytest.MonkeyPatch,
):
    make_tenant("acme")
    pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    assert pipeline.ingest() == DONE
    before = read_bundle(admin)
    start_ingestion(pipeline, admin, UUID(before["id"]), clock)
    ingest_without_splitting(pipeline, monkeypatch)
    assert read_bundle(admin) == before
    (job,) = [job for job in rows(admin, "ingestion_job") if job["id"] == before["id"]]
    assert job["skip_reason"].startswith("The file was split before")


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize("readable", [True, False])
def test_dead_letter_closes_when_rematching_starts(
    readable: bool, pipeline: Pipeline, admin: Connection, tenant: UUID, monkeypatch: pytest.MonkeyPatch
):
    pipeline.upload("uploads/acme/1/one.pdf", write_bundle(INVOICES[:1]))
    pipeline.ingest()
    (document,) = rows(admin, "document")
    id_ = UUID(document["id"])
    admin.execute("UPDATE document SET matching_status = 'failed', matching_error = 'x'")
    admin.execute(
        """
        INSERT INTO dead_letter (job_id, tenant_id, worker, work_id, revision, task_type, payload, metadata, attempts,
                                 fingerprint, dlq_reason, dlq_timestamp)
        VALUES (%s, %s, 'matching', %s, 1, 'matching', '{}', '{}', 3, 'f', 'max_retries_exceeded', now())
        """,
        [WORK_KINDS["matching"].job_id(id_), tenant, id_],
    )
    if not readable:

        def damaged(*_: object, **_options: object) -> None:
            message = "It is damaged."
            raise InvalidDocumentError(message, code="damaged_pdf")

        monkeypatch.setattr(parsers, "read", damaged)
    (repeated,) = start_revision(admin, "ingestion", [id_], NOW)
    pipeline.sqs.sent["ingestion"] = [{"MessageBody": repeated.message.model_dump_json()}]
    assert pipeline.ingest() == DONE
    (row,) = rows(admin, "document")
    statuses = {dead_letter["worker"]: dead_letter["status"] for dead_letter in rows(admin, "dead_letter")}
    assert (row["matching_status"], statuses["matching"]) == (
        ("pending", "retried") if readable else ("failed", "pending")
    )
