"""A replaced document is removed once the new file has been read."""

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

ONE, OTHER = (write_bundle([paper]) for paper in INVOICES[:2])
DAMAGED = b"%PDF-1.4\n%%EOF"
NO_DOCUMENT = b"\x89PNG\r\n\x1a\n" + bytes(64)


class Shelf:
    """Uploads of a tenant by name, and their documents."""

    def __init__(
        self, pipeline: Pipeline, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
    ) -> None:
        self.pipeline, self.database = pipeline, database
        self.admin, self.clock, self.tenant_id = admin, clock, tenant_id

    def upload(self, name: str, content: bytes, *, read: bool = True) -> UUID | None:
        """Upload a file and read it. Return its document if it is new."""
        before = {row["id"] for row in rows(self.admin, "document")}
        self.pipeline.upload(self.key(name), content, name)
        new = [row["id"] for row in rows(self.admin, "document") if row["id"] not in before]
        while read and self.pipeline.sqs.sent.get("ingestion"):
            self.pipeline.ingest()
        return UUID(new[0]) if new else None

    def replace(self, old: UUID, name: str, content: bytes, *, read: bool = True) -> UUID | None:
        """Upload a file as the replacement of a document."""
        with self.database.tenant(self.tenant_id) as connection:
            file = File(BUCKET, self.key(name), None)
            assert removal.request_replacement(connection, self.tenant_id, old, file, self.clock(), by="ann")
        return self.upload(name, content, read=read)

    def reprocess(self, id_: UUID) -> None:
        self.pipeline.sqs.sent["ingestion"] = [{"MessageBody": self.start_revision(id_).model_dump_json()}]
        self.pipeline.ingest()

    def start_revision(self, id_: UUID) -> Message:
        (due,) = start_revision(self.admin, "ingestion", [id_], self.clock())
        return due.message

    def document_names(self) -> set[str]:
        """Return the names of files that are documents, without parts."""
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
def shelf(
    pipeline: Pipeline, database: Database, admin: Connection, clock: Clock, make_tenant: Callable[..., UUID]
) -> Shelf:
    return Shelf(pipeline, database, admin, clock, make_tenant("acme"))


def test_old_document_is_removed_when_replacement_is_read(shelf: Shelf):
    old = shelf.upload("old", ONE)
    assert old is not None
    new = shelf.replace(old, "new", OTHER, read=False)
    assert new is not None
    assert shelf.document_names() == {"old", "new"}
    assert shelf.reason("new") == "It replaces an earlier document, which stays until this one has been read."

    shelf.pipeline.ingest()

    (trail,) = rows(shelf.admin, "document_deletion")
    assert shelf.document_names() == {"new"}
    assert (trail["document_id"], trail["replaced_by"], trail["deleted_by"]) == (str(old), str(new), "ann")
    assert shelf.ingestion(new)["skip_reason"].endswith("It replaces an earlier document, which was removed.")


@pytest.mark.parametrize("content", [DAMAGED, NO_DOCUMENT], ids=["damaged", "nothing to read"])
def test_unreadable_replacement_keeps_the_old_document(shelf: Shelf, content: bytes):
    old = shelf.upload("old", ONE)
    assert old is not None
    new = shelf.replace(old, "new", content)
    assert new is not None
    assert shelf.ingestion(new)["status"] in {"failed", None}
    assert shelf.document_names() == {"old", "new"}
    assert rows(shelf.admin, "document_deletion") == []


def test_replacement_read_later_removes_the_old_document(shelf: Shelf, monkeypatch: pytest.MonkeyPatch):
    old = shelf.upload("old", ONE)
    assert old is not None
    with monkeypatch.context() as patched:

        def refuse(*_: object, **_options: object) -> None:
            message = "It is damaged."
            raise InvalidDocumentError(message, code="damaged_pdf")

        patched.setattr("counterfoil.documents.sandbox.parsers.read", refuse)
        new = shelf.replace(old, "new", OTHER)
    assert new is not None
    assert (shelf.ingestion(new)["status"], shelf.document_names()) == ("failed", {"old", "new"})
    shelf.reprocess(new)
    assert shelf.document_names() == {"new"}


def test_replacing_an_unreadable_replacement_removes_the_original(shelf: Shelf):
    old = shelf.upload("old", ONE)
    assert old is not None
    damaged = shelf.replace(old, "damaged", DAMAGED)
    assert damaged is not None
    shelf.replace(damaged, "good", OTHER)
    assert shelf.document_names() == {"good"}
    assert {trail["document_id"] for trail in rows(shelf.admin, "document_deletion")} == {str(old), str(damaged)}


def test_mutual_replacements_do_not_remove_both(shelf: Shelf):
    old = shelf.upload("old", ONE)
    assert old is not None
    damaged = shelf.replace(old, "damaged", DAMAGED)
    assert damaged is not None
    shelf.replace(damaged, "old again", ONE)
    assert shelf.document_names() == {"old"}


def test_known_file_replaces_immediately(shelf: Shelf):
    known = shelf.upload("known", OTHER)
    old = shelf.upload("old", ONE)
    assert old is not None
    shelf.replace(old, "new", OTHER, read=False)
    assert shelf.document_names() == {"known"}
    assert rows(shelf.admin, "document_deletion")[0]["replaced_by"] == str(known)
    assert shelf.reason("new") == (
        "The tenant already has this file; it was counted as seen again. "
        "It replaces an earlier document, which was removed."
    )


def test_known_unreadable_file_is_reprocessed(shelf: Shelf, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:

        def refuse(*_: object, **_options: object) -> None:
            message = "It is damaged."
            raise InvalidDocumentError(message, code="damaged_pdf")

        patched.setattr("counterfoil.documents.sandbox.parsers.read", refuse)
        shelf.upload("known", OTHER)
    old = shelf.upload("old", ONE)
    assert old is not None
    shelf.replace(old, "new", OTHER, read=False)
    assert shelf.document_names() == {"known", "old"}
    assert [letter["status"] for letter in rows(shelf.admin, "dead_letter")] == ["retried"]
    shelf.pipeline.ingest()
    assert shelf.document_names() == {"known"}


def test_ingestion_during_the_request_is_repeated(shelf: Shelf, database: Database, clock: Clock):
    worker = Worker("ingestion", ingest, database, clock)
    old = shelf.upload("old", ONE)
    known = shelf.upload("known", OTHER, read=False)
    assert old is not None
    assert known is not None
    first = Message.model_validate_json(shelf.pipeline.sqs.sent.pop("ingestion")[0]["MessageBody"])
    worker.meanwhile.append(lambda: shelf.replace(old, "new", OTHER, read=False))
    assert len(worker.handle(first)) == 1  # stale
    assert shelf.document_names() == {"known", "old"}
    shelf.pipeline.ingest()
    assert shelf.document_names() == {"known"}


def test_corrected_bundle_replaces_bundle_and_keeps_parts(shelf: Shelf):
    old = shelf.upload("old", BUNDLE)
    assert old is not None
    before = {row["first_page"]: row["id"] for row in rows(shelf.admin, "document") if row["parent_id"]}
    shelf.replace(old, "new", CORRECTED)
    after = {row["first_page"]: row["id"] for row in rows(shelf.admin, "document") if row["parent_id"]}
    assert shelf.document_names() == {"new"}
    assert len(after) == 3
    assert {id_ for id_ in after.values() if id_ in before.values()} == {before[1], before[2]}


def test_identical_file_replaces_nothing(shelf: Shelf):
    old = shelf.upload("old", ONE)
    assert old is not None
    shelf.replace(old, "new", ONE)
    assert (shelf.document_names(), rows(shelf.admin, "document_deletion")) == ({"old"}, [])
    assert "The earlier document stays: this is the same file" in str(shelf.reason("new"))


def test_empty_file_keeps_the_old_document(shelf: Shelf):
    old = shelf.upload("old", ONE)
    assert old is not None
    shelf.replace(old, "new", b"")
    assert shelf.document_names() == {"old"}
    (letter,) = rows(shelf.admin, "dead_letter")
    assert "empty" in json.dumps(letter["metadata"])


def test_document_removed_before_its_replacement_is_ignored(shelf: Shelf):
    old = shelf.upload("old", INVOICE)
    assert old is not None
    new = shelf.replace(old, "new", OTHER, read=False)
    assert new is not None
    with shelf.database.tenant(shelf.tenant_id) as connection:
        assert removal.delete_document(connection, shelf.tenant_id, old, shelf.clock(), by="bob") is not None
    shelf.pipeline.ingest()
    assert shelf.document_names() == {"new"}
    assert [trail["deleted_by"] for trail in rows(shelf.admin, "document_deletion")] == ["bob"]
    assert shelf.ingestion(new)["skip_reason"].endswith("The document that this file replaces was already removed.")
