"""A bundle of documents is split once, despite repeated messages and failures."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection
from counterfoil.documents import files
from counterfoil.documents.splitting import Boundary, Split
from counterfoil.errors import ServiceUnavailableError
from functions.ingestion.work import COVER_PAGE
from tests.delivery.harness import rows
from tests.functions.test_documents import BUCKET, Pipeline, pipeline
from tools.sample_generator.bulk import orders_with_invoices
from tools.sample_generator.bundle import bundle, write_bundle

__all__ = ["pipeline"]

INVOICES = [invoice for _, invoice in orders_with_invoices(1, 3)]
BUNDLE = write_bundle(INVOICES)
DONE: dict[str, list[Any]] = {"batchItemFailures": []}


@pytest.fixture
def tenant_id(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


def documents(admin: Connection) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the parent document and its children, ordered by page."""
    document_rows = sorted(rows(admin, "document"), key=lambda row: row["first_page"] or 0)
    (parent,) = [row for row in document_rows if row["parent_id"] is None]
    return parent, [row for row in document_rows if row["parent_id"] == parent["id"]]


def statuses(admin: Connection) -> list[str]:
    return [job["status"] for job in rows(admin, "ingestion_job")]


def test_each_part_becomes_a_document_with_ingestion(pipeline: Pipeline, admin: Connection, tenant_id: UUID):
    pipeline.upload("uploads/acme/Sammelrechnung.PDF", BUNDLE)
    assert pipeline.ingest() == DONE
    parent, children = documents(admin)
    assert (parent["type"], parent["structured_data"], parent["matching_status"]) == ("other", None, None)
    assert parent["matching_skip_reason"] == "The file was split into 3 documents."
    assert [(child["first_page"], child["last_page"]) for child in children] == [(1, 1), (2, 2), (3, 3)]
    assert [child["file_name"] for child in children] == [f"Sammelrechnung {n}-{n}.pdf" for n in (1, 2, 3)]
    assert [child["key"] for child in children] == [
        f"children/{tenant_id}/{parent['id']}/{n}-{n}.pdf" for n in (1, 2, 3)
    ]
    assert {child["source_id"] for child in children} == {parent["source_id"]}
    assert sorted(statuses(admin)) == ["pending", "pending", "pending", "succeeded"]

    assert pipeline.ingest() == DONE
    _, children = documents(admin)
    assert [child["structured_data"]["invoice_number"] for child in children] == [
        invoice.number for invoice in INVOICES
    ]
    assert {(child["type"], child["method"], child["matching_status"]) for child in children} == {
        ("invoice", "text", "pending")
    }
    assert set(statuses(admin)) == {"succeeded"}
    assert len(pipeline.sqs.sent["matching"]) == 3


@pytest.mark.usefixtures("tenant_id")
def test_repeated_split_reuses_existing_parts(pipeline: Pipeline, admin: Connection):
    pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    (message,) = pipeline.sqs.sent["ingestion"]
    pipeline.ingest()
    _, before = documents(admin)
    messages = pipeline.sqs.sent.pop("ingestion")
    admin.execute("UPDATE ingestion_job SET status = 'pending' WHERE status = 'succeeded'")
    pipeline.sqs.sent["ingestion"] = [message]
    assert pipeline.ingest() == DONE
    _, after = documents(admin)
    assert [(child["id"], child["duplicate_uploads"]) for child in after] == [(child["id"], 0) for child in before]
    assert "ingestion" not in pipeline.sqs.sent
    assert len(messages) == 3


@pytest.mark.usefixtures("tenant_id")
def test_part_of_earlier_file_counts_as_duplicate(pipeline: Pipeline, admin: Connection):
    pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    pipeline.ingest()
    pipeline.sqs.sent.pop("ingestion")
    second_bundle = write_bundle([INVOICES[0], *[invoice for _, invoice in orders_with_invoices(2, 1)]])
    pipeline.upload("uploads/acme/two of them.pdf", second_bundle, sequencer="02")
    pipeline.ingest()
    document_rows = rows(admin, "document")
    assert len(document_rows) == 1 + 3 + 1 + 1
    assert sum(row["duplicate_uploads"] for row in document_rows) == 1


@pytest.mark.usefixtures("tenant_id")
def test_failed_storage_leaves_no_rows_and_is_retried(
    pipeline: Pipeline, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    message = pipeline.sqs.sent["ingestion"]
    write, stored = files.write, list[files.File]()

    def failing(*arguments: Any) -> files.File:
        if len(stored) == 1:
            message = "S3 is unavailable"
            raise ServiceUnavailableError(message)
        stored.append(write(*arguments))
        return stored[-1]

    with monkeypatch.context() as patched:
        patched.setattr(files, "write", failing)
        assert len(pipeline.ingest()["batchItemFailures"]) == 1
    _, children = documents(admin)
    assert (len(stored), children) == (1, [])
    admin.execute("UPDATE ingestion_job SET next_attempt_at = NULL")
    pipeline.sqs.sent["ingestion"] = message
    assert pipeline.ingest() == DONE
    _, children = documents(admin)
    assert len(children) == 3
    assert statuses(admin).count("pending") == 3


@pytest.mark.usefixtures("tenant_id")
def test_file_with_one_invoice_is_not_split(pipeline: Pipeline, admin: Connection):
    pipeline.upload("uploads/acme/one.pdf", write_bundle(INVOICES[:1]))
    assert pipeline.ingest() == DONE
    _, children = documents(admin)
    assert children == []
    assert statuses(admin) == ["succeeded"]


def parts_in_s3(keys: Sequence[str]) -> list[bytes]:
    return [aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys]


@pytest.mark.usefixtures("tenant_id")
def test_stored_files_match_their_rows(pipeline: Pipeline, admin: Connection):
    pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    pipeline.ingest()
    _, children = documents(admin)
    stored = parts_in_s3([child["key"] for child in children])
    assert [len(content) for content in stored] == [child["size"] for child in children]
    assert all(content.startswith(b"%PDF-") for content in stored)


@pytest.mark.usefixtures("tenant_id")
def test_cover_page_is_stored_without_a_model_call(pipeline: Pipeline, admin: Connection):
    bundle_ = bundle(INVOICES, sender=INVOICES[0].issuer)
    pipeline.upload("uploads/acme/all.pdf", bundle_.content)
    assert pipeline.ingest() == DONE
    parent, children = documents(admin)
    assert parent["matching_skip_reason"] == "The file was split into 3 documents and a cover page."
    assert [(child["first_page"], child["last_page"]) for child in children] == [(1, 1), *bundle_.ranges]
    cover = children[0]
    assert (cover["type"], cover["method"], cover["structured_data"]) == ("other", "none", None)
    (job,) = [job for job in rows(admin, "ingestion_job") if job["id"] == cover["id"]]
    assert (job["status"], job["attempts"], job["skip_reason"]) == (None, 0, COVER_PAGE)
    assert len(pipeline.sqs.sent["ingestion"]) == 3


@pytest.mark.usefixtures("tenant_id")
def test_earlier_split_is_reused_despite_new_boundaries(
    pipeline: Pipeline, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    (message,) = pipeline.sqs.sent["ingestion"]
    pipeline.ingest()
    _, before = documents(admin)
    pipeline.sqs.sent.pop("ingestion")
    admin.execute("UPDATE ingestion_job SET status = 'pending' WHERE status = 'succeeded'")
    pipeline.sqs.sent["ingestion"] = [message]
    otherwise = Split(3, (Boundary(2, True, 1.0), Boundary(3, False, 1.0)))
    monkeypatch.setattr("counterfoil.documents.sandbox.parsers.split_pages", lambda *_: otherwise)
    assert pipeline.ingest() == DONE
    _, after = documents(admin)
    assert [(child["id"], child["key"]) for child in after] == [(child["id"], child["key"]) for child in before]
    assert "ingestion" not in pipeline.sqs.sent
    stored = parts_in_s3([child["key"] for child in after])
    assert [len(content) for content in stored] == [child["size"] for child in after]
    reasons = [job["skip_reason"] for job in rows(admin, "ingestion_job") if job["status"] == "succeeded"]
    assert len(reasons) == 1
    assert reasons[0].startswith("The file was split before, and would be split differently now")


@pytest.mark.usefixtures("tenant_id")
def test_ambiguous_file_is_not_split_and_has_reason(pipeline: Pipeline, admin: Connection):
    pipeline.upload("uploads/acme/twice.pdf", write_bundle([INVOICES[0], INVOICES[0]]))
    assert pipeline.ingest() == DONE
    parent, children = documents(admin)
    assert (children, parent["structured_data"], parent["type"]) == ([], None, "other")
    (job,) = rows(admin, "ingestion_job")
    assert job["status"] is None
    assert job["skip_reason"].startswith("The file may contain several documents, and it is unclear whether one starts")
