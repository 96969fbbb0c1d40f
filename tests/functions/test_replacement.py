"""A replaced document is removed once data has been extracted from the new file."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import Message, start_revision
from counterfoil.documents import removal
from counterfoil.documents.files import File
from counterfoil.errors import InvalidDocumentError
from functions.ingestion.work import ingest
from tests.delivery.harness import Clock, rows
from tests.functions.test_document_removal import CORRECTED, Worker
from tests.functions.test_documents import BUCKET, INVOICE, Pipeline, pipeline
from tests.functions.test_split_documents import BUNDLE, INVOICES
from tools.sample_generator.bundle import write_bundle

__all__ = ["pipeline"]

INVOICE_1, OTHER = (write_bundle([paper]) for paper in INVOICES[:2])
DAMAGED = b"%PDF-1.4\n%%EOF"
NO_DOCUMENT = b"\x89PNG\r\n\x1a\n" + bytes(64)


class ReplacementHarness:
    """Uploads of named files by a tenant, and the resulting documents."""

    def __init__(
        self, pipeline: Pipeline, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
    ) -> None:
        self.pipeline, self.database = pipeline, database
        self.admin, self.clock, self.tenant_id = admin, clock, tenant_id

    def upload(self, name: str, content: bytes, *, process: bool = True) -> UUID | None:
        """Upload a file, and extract its data if `process` is set.

        Returns the id of the new document, or None if none was created.
        """
        before = {row["id"] for row in rows(self.admin, "document")}
        self.pipeline.upload(self.key(name), content, name)
        new_ids = [row["id"] for row in rows(self.admin, "document") if row["id"] not in before]
        while process and self.pipeline.sqs.sent.get("ingestion"):
            self.pipeline.ingest()
        return UUID(new_ids[0]) if new_ids else None

    def replace(self, original: UUID, name: str, content: bytes, *, process: bool = True) -> UUID | None:
        """Upload a file as a document's replacement."""
        with self.database.tenant(self.tenant_id) as connection:
            file = File(BUCKET, self.key(name), None)
            assert removal.request_replacement(connection, self.tenant_id, original, file, self.clock(), by="ann")
        return self.upload(name, content, process=process)

    def reprocess(self, id_: UUID) -> None:
        self.pipeline.sqs.sent["ingestion"] = [{"MessageBody": self.start_revision(id_).model_dump_json()}]
        self.pipeline.ingest()

    def start_revision(self, id_: UUID) -> Message:
        (outbox_message,) = start_revision(self.admin, "ingestion", [id_], self.clock())
        return outbox_message.message

    def document_names(self) -> set[str]:
        """Return the upload names of all documents that are not parts."""
        return {row["key"].split("/")[2] for row in rows(self.admin, "document") if row["parent_id"] is None}

    def reason(self, name: str) -> str | None:
        (job,) = [job for job in rows(self.admin, "acquisition_job") if job["key"] == self.key(name)]
        return None if job["skip_reason"] is None else str(job["skip_reason"])

    def ingestion(self, id_: UUID) -> dict[str, Any]:
        (job,) = [job for job in rows(self.admin, "ingestion_job") if job["id"] == str(id_)]
        return job

    @staticmethod
    def key(name: str) -> str:
        return f"uploads/acme/{name}/a.pdf"


@pytest.fixture
def harness(
    pipeline: Pipeline, database: Database, admin: Connection, clock: Clock, make_tenant: Callable[..., UUID]
) -> ReplacementHarness:
    return ReplacementHarness(pipeline, database, admin, clock, make_tenant("acme"))


def test_old_document_is_removed_when_replacement_is_extracted(harness: ReplacementHarness):
    original = harness.upload("old", INVOICE_1)
    assert original is not None
    new = harness.replace(original, "new", OTHER, process=False)
    assert new is not None
    assert harness.document_names() == {"old", "new"}
    assert harness.reason("new") == "It replaces an earlier document, which stays until this one has been extracted."

    harness.pipeline.ingest()

    (trail,) = rows(harness.admin, "document_deletion")
    assert harness.document_names() == {"new"}
    assert (trail["document_id"], trail["replaced_by"], trail["deleted_by"]) == (str(original), str(new), "ann")
    assert harness.ingestion(new)["skip_reason"].endswith("It replaces an earlier document, which was removed.")


@pytest.mark.parametrize("content", [DAMAGED, NO_DOCUMENT], ids=["damaged", "nothing to read"])
def test_unreadable_replacement_keeps_the_old_document(harness: ReplacementHarness, content: bytes):
    original = harness.upload("old", INVOICE_1)
    assert original is not None
    new = harness.replace(original, "new", content)
    assert new is not None
    assert harness.ingestion(new)["status"] in {"failed", None}
    assert harness.document_names() == {"old", "new"}
    assert rows(harness.admin, "document_deletion") == []


def test_replacement_extracted_on_retry_removes_old_document(
    harness: ReplacementHarness, monkeypatch: pytest.MonkeyPatch
):
    original = harness.upload("old", INVOICE_1)
    assert original is not None
    with monkeypatch.context() as patched:

        def fail(*_: object, **_options: object) -> None:
            message = "It is damaged."
            raise InvalidDocumentError(message, code="damaged_pdf")

        patched.setattr("counterfoil.documents.sandbox.parsers.read", fail)
        new = harness.replace(original, "new", OTHER)
    assert new is not None
    assert (harness.ingestion(new)["status"], harness.document_names()) == ("failed", {"old", "new"})
    harness.reprocess(new)
    assert harness.document_names() == {"new"}


def test_replacing_an_unreadable_replacement_removes_the_original(harness: ReplacementHarness):
    original = harness.upload("old", INVOICE_1)
    assert original is not None
    damaged = harness.replace(original, "damaged", DAMAGED)
    assert damaged is not None
    harness.replace(damaged, "good", OTHER)
    assert harness.document_names() == {"good"}
    assert {trail["document_id"] for trail in rows(harness.admin, "document_deletion")} == {str(original), str(damaged)}


def test_mutual_replacements_do_not_remove_both(harness: ReplacementHarness):
    original = harness.upload("old", INVOICE_1)
    assert original is not None
    damaged = harness.replace(original, "damaged", DAMAGED)
    assert damaged is not None
    harness.replace(damaged, "old again", INVOICE_1)
    assert harness.document_names() == {"old"}


def test_already_uploaded_file_replaces_immediately(harness: ReplacementHarness):
    known_id = harness.upload("known", OTHER)
    original = harness.upload("old", INVOICE_1)
    assert original is not None
    harness.replace(original, "new", OTHER, process=False)
    assert harness.document_names() == {"known"}
    assert rows(harness.admin, "document_deletion")[0]["replaced_by"] == str(known_id)
    assert harness.reason("new") == (
        "The tenant already has this file; it was counted as a duplicate. "
        "It replaces an earlier document, which was removed."
    )


def test_already_uploaded_unreadable_file_is_reprocessed(harness: ReplacementHarness, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:

        def fail(*_: object, **_options: object) -> None:
            message = "It is damaged."
            raise InvalidDocumentError(message, code="damaged_pdf")

        patched.setattr("counterfoil.documents.sandbox.parsers.read", fail)
        harness.upload("known", OTHER)
    original = harness.upload("old", INVOICE_1)
    assert original is not None
    harness.replace(original, "new", OTHER, process=False)
    assert harness.document_names() == {"known", "old"}
    assert [dead_letter["status"] for dead_letter in rows(harness.admin, "dead_letter")] == ["retried"]
    harness.pipeline.ingest()
    assert harness.document_names() == {"known"}


def test_ingestion_concurrent_with_replacement_request_is_repeated(
    harness: ReplacementHarness, database: Database, clock: Clock
):
    worker = Worker("ingestion", ingest, database, clock)
    original = harness.upload("old", INVOICE_1)
    known_id = harness.upload("known", OTHER, process=False)
    assert original is not None
    assert known_id is not None
    first = Message.model_validate_json(harness.pipeline.sqs.sent.pop("ingestion")[0]["MessageBody"])
    worker.hooks.append(lambda: harness.replace(original, "new", OTHER, process=False))
    assert len(worker.handle(first)) == 1  # the attempt has become stale
    assert harness.document_names() == {"known", "old"}
    harness.pipeline.ingest()
    assert harness.document_names() == {"known"}


def test_corrected_bundle_replaces_bundle_and_keeps_parts(harness: ReplacementHarness):
    original = harness.upload("old", BUNDLE)
    assert original is not None
    before = {row["first_page"]: row["id"] for row in rows(harness.admin, "document") if row["parent_id"]}
    harness.replace(original, "new", CORRECTED)
    after = {row["first_page"]: row["id"] for row in rows(harness.admin, "document") if row["parent_id"]}
    assert harness.document_names() == {"new"}
    assert len(after) == 3
    assert {id_ for id_ in after.values() if id_ in before.values()} == {before[1], before[2]}


def test_identical_file_replaces_nothing(harness: ReplacementHarness):
    original = harness.upload("old", INVOICE_1)
    assert original is not None
    harness.replace(original, "new", INVOICE_1)
    assert (harness.document_names(), rows(harness.admin, "document_deletion")) == ({"old"}, [])
    assert "The earlier document stays: this is the same file" in str(harness.reason("new"))


def test_empty_file_keeps_the_old_document(harness: ReplacementHarness):
    original = harness.upload("old", INVOICE_1)
    assert original is not None
    harness.replace(original, "new", b"")
    assert harness.document_names() == {"old"}
    (dead_letter,) = rows(harness.admin, "dead_letter")
    assert "empty" in json.dumps(dead_letter["metadata"])


def test_replacement_of_already_removed_document_removes_nothing(harness: ReplacementHarness):
    original = harness.upload("old", INVOICE)
    assert original is not None
    new = harness.replace(original, "new", OTHER, process=False)
    assert new is not None
    with harness.database.tenant(harness.tenant_id) as connection:
        assert removal.delete_document(connection, harness.tenant_id, original, harness.clock(), by="bob") is not None
    harness.pipeline.ingest()
    assert harness.document_names() == {"new"}
    assert [trail["deleted_by"] for trail in rows(harness.admin, "document_deletion")] == ["bob"]
    assert harness.ingestion(new)["skip_reason"].endswith("The document that this file replaces was already removed.")
