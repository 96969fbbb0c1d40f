"""Erasure of documents and of files that no other document needs."""

import io
import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from counterfoil import objects
from counterfoil.db import Connection, Database
from counterfoil.documents import erasure, removal
from counterfoil.documents.erasure import MAX_ATTEMPT_DURATION, Erasure
from counterfoil.errors import ServiceUnavailableError
from counterfoil.kinds import WORK_KINDS
from functions.watchdog.erasures import erase as erase_objects
from functions.watchdog.steps import StepsFailedError
from tests.delivery.harness import rows
from tests.factories import make_destination, make_document
from tests.functions.test_documents import BUCKET, INVOICE, Pipeline, pipeline, s3_event
from tests.functions.test_mail import Mailbox, mailbox
from tests.functions.test_split_documents import BUNDLE
from tests.mail_factory import PDF, mail, received_mail

__all__ = ["mailbox", "pipeline"]

DONE: dict[str, Any] = {"batchItemFailures": []}
OTHER = INVOICE.replace(b"R-1", b"R-2")


class ErasureHarness:
    """Helpers that upload and erase acme's documents, and inspect what remains."""

    def __init__(self, pipeline: Pipeline, database: Database, maintenance: Database, admin: Connection) -> None:
        self.pipeline, self.database, self.maintenance, self.admin = pipeline, database, maintenance, admin
        pipeline.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})

    def id_of(self, name: str) -> UUID:
        ((id_,),) = self.admin.execute("SELECT id FROM document WHERE file_name = %s", [name]).fetchall()
        return UUID(str(id_))

    def erase(self, document_id: UUID, *, later: timedelta = timedelta()) -> Erasure:
        """Erase a document, then its objects with the clock advanced by `later`."""
        now = datetime.now(UTC) + timedelta(seconds=1)
        ((tenant_id,),) = self.admin.execute(
            "SELECT tenant_id FROM document WHERE id = %(id)s UNION ALL "
            "SELECT tenant_id FROM document_deletion WHERE document_id = %(id)s",
            {"id": document_id},
        ).fetchall()
        with self.database.tenant(tenant_id) as connection:
            erasure_ = erasure.erase(connection, tenant_id, document_id, now, by="ann", reason="art. 17")
        assert erasure_ is not None
        erase_objects(self.maintenance, BUCKET, lambda: now + later, lambda: 60.0)
        return erasure_

    def stored_keys(self) -> set[str]:
        """Return the keys of all versions and delete markers."""
        listing = self.pipeline.s3.list_object_versions(Bucket=BUCKET)
        return {entry["Key"] for entry in [*listing.get("Versions", []), *listing.get("DeleteMarkers", [])]}

    def tables_mentioning(self, text: str) -> set[str]:
        """Return the tables with a row that contains `text`, ignoring case."""
        tables = self.admin.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
        ).fetchall()
        return {
            table
            for (table,) in tables
            if self.admin.execute(
                f'SELECT FROM "{table}" t WHERE t::text ILIKE %s LIMIT 1'.encode(), [f"%{text}%"]
            ).fetchone()
            is not None
        }


@pytest.fixture
def harness(
    pipeline: Pipeline, database: Database, maintenance_database: Database, admin: Connection
) -> ErasureHarness:
    return ErasureHarness(pipeline, database, maintenance_database, admin)


@pytest.fixture
def acme(mailbox: Mailbox) -> UUID:
    return mailbox.tenant("acme", "rechnung@acme.example")


def test_erased_upload_leaves_no_file_or_name(harness: ErasureHarness, acme: UUID) -> None:
    harness.pipeline.upload("uploads/acme/1/secretname.xml", INVOICE)
    harness.pipeline.s3.delete_object(Bucket=BUCKET, Key="uploads/acme/1/secretname.xml")
    harness.pipeline.s3.put_object(Bucket=BUCKET, Key="uploads/acme/1/secretname.xml", Body=INVOICE)
    harness.pipeline.ingest()
    assert len(harness.tables_mentioning("secretname")) > 3

    found = harness.erase(harness.id_of("secretname.xml"), later=MAX_ATTEMPT_DURATION)

    assert (found.files, found.retained_files) == (1, 0)
    assert harness.stored_keys() == set()
    for text in ("secretname", "Nordwind", "R-1"):
        assert harness.tables_mentioning(text) == set()
    assert rows(harness.admin, "source") == rows(harness.admin, "document_deletion") == []
    assert rows(harness.admin, "object_erasure") == []


def test_names_are_deleted_with_the_objects(
    harness: ErasureHarness, acme: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.pipeline.upload("uploads/acme/1/secretname.xml", INVOICE)
    (job,) = rows(harness.admin, "acquisition_job")
    with monkeypatch.context() as patch:
        patch.setattr("tests.functions.test_document_erasure.erase_objects", lambda *_: None)
        harness.erase(harness.id_of("secretname.xml"))
    assert harness.tables_mentioning("secretname") == {"acquisition_job", "object_erasure"}

    erase_objects(harness.maintenance, BUCKET, lambda: datetime.now(UTC) + MAX_ATTEMPT_DURATION * 2, lambda: 60.0)

    assert harness.tables_mentioning("secretname") == set()
    (erased,) = rows(harness.admin, "acquisition_job")
    assert (erased["id"], erased["key"], erased["status"]) == (job["id"], f"(erased)/{job['id']}", None)


def test_repeated_event_recreates_nothing(harness: ErasureHarness, acme: UUID) -> None:
    harness.pipeline.upload("uploads/acme/1/secretname.xml", INVOICE)
    harness.erase(harness.id_of("secretname.xml"), later=MAX_ATTEMPT_DURATION)

    assert harness.pipeline.acquire(s3_event("uploads/acme/1/secretname.xml")) == DONE

    assert harness.tables_mentioning("secretname") == set()
    assert rows(harness.admin, "document") == rows(harness.admin, "dead_letter") == []


def test_every_upload_of_the_content_is_erased(harness: ErasureHarness, acme: UUID) -> None:
    for number in ("1", "2"):
        harness.pipeline.upload(f"uploads/acme/{number}/secretname.xml", INVOICE, number)
    assert harness.erase(harness.id_of("secretname.xml")).files == 2
    assert harness.stored_keys() == set()
    assert harness.tables_mentioning("secretname") <= {"object_erasure"}


def test_mail_is_erased_with_its_last_document(harness: ErasureHarness, mailbox: Mailbox, acme: UUID) -> None:
    mailbox.receive(received_mail(mail(("one.pdf", PDF), ("two.xml", INVOICE))))
    first, second = harness.id_of("one.pdf"), harness.id_of("two.xml")

    found = harness.erase(first)

    assert (found.files, found.retained_files) == (0, 1)
    assert {key.split("/")[0] for key in harness.stored_keys()} == {"attachments", "inbox"}
    assert len(harness.stored_keys()) == 2
    assert harness.tables_mentioning("one.pdf") == set()
    (trail,) = rows(harness.admin, "document_deletion")
    assert (trail["file_name"], trail["key"]) == ("(erased)", "(erased)")
    assert harness.erase(second).files == 1
    assert harness.stored_keys() == set()
    assert harness.tables_mentioning("Ihre Rechnung") == harness.tables_mentioning("two.xml") == set()


def test_mail_shared_with_another_tenant_remains(harness: ErasureHarness, mailbox: Mailbox, acme: UUID) -> None:
    mailbox.tenant("zenith", "in@zenith.example")
    mailbox.receive(received_mail(mail(("a.xml", INVOICE), to="rechnung@acme.example, in@zenith.example")))
    ((document_id,),) = harness.admin.execute("SELECT id FROM document WHERE tenant_id = %s", [acme]).fetchall()

    harness.erase(document_id)

    assert sorted(key.split("/")[0] for key in harness.stored_keys()) == ["attachments", "inbox"]
    assert not any(str(acme) in key for key in harness.stored_keys())


def test_archive_is_erased_with_its_last_document(harness: ErasureHarness, acme: UUID) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("one.xml", INVOICE)
        archive.writestr("two.xml", OTHER)
    harness.pipeline.upload("uploads/acme/all.zip", buffer.getvalue())
    assert harness.erase(harness.id_of("one.xml")).retained_files == 1
    assert "uploads/acme/all.zip" in harness.stored_keys()
    harness.erase(harness.id_of("two.xml"))
    assert harness.stored_keys() == set()


def test_other_version_under_same_key_remains(harness: ErasureHarness, acme: UUID) -> None:
    for number, content in (("1", INVOICE), ("2", OTHER)):
        key = "uploads/acme/same.xml"
        version = harness.pipeline.s3.put_object(Bucket=BUCKET, Key=key, Body=content)["VersionId"]
        event = json.loads(s3_event(key, number))
        event["Records"][0]["s3"]["object"]["versionId"] = version
        harness.pipeline.acquire(json.dumps(event))
    (first, second) = sorted(rows(harness.admin, "document"), key=lambda row: str(row["id"]))

    harness.erase(UUID(first["id"]))

    versions = harness.pipeline.s3.list_object_versions(Bucket=BUCKET)["Versions"]
    assert [stored_version["VersionId"] for stored_version in versions] == [second["version"]]


def test_bundle_is_erased_with_its_parts(harness: ErasureHarness, acme: UUID) -> None:
    harness.pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    harness.pipeline.ingest()
    bundle_id = harness.id_of("all.pdf")
    parts = harness.admin.execute(
        "SELECT id, key FROM document WHERE parent_id = %s ORDER BY id", [bundle_id]
    ).fetchall()

    found = harness.erase(parts[0][0])

    assert (found.files, found.retained_files) == (0, 1)
    assert harness.stored_keys() == {"uploads/acme/all.pdf", *[key for _, key in parts[1:]]}
    assert harness.erase(bundle_id).files == 1
    assert harness.stored_keys() == set()
    assert harness.tables_mentioning("all.pdf") <= {"object_erasure"}


def test_objects_written_by_late_attempt_are_erased(harness: ErasureHarness, acme: UUID) -> None:
    harness.pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    bundle_id = harness.id_of("all.pdf")
    harness.erase(bundle_id)
    late = f"children/{acme}/{bundle_id}/1-1.pdf"
    harness.pipeline.s3.put_object(Bucket=BUCKET, Key=late, Body=b"%PDF")

    erase_objects(harness.maintenance, BUCKET, lambda: datetime.now(UTC) + MAX_ATTEMPT_DURATION * 2, lambda: 60.0)

    assert harness.stored_keys() == set()
    assert rows(harness.admin, "object_erasure") == []


def test_later_upload_under_same_key_remains(harness: ErasureHarness, acme: UUID) -> None:
    harness.pipeline.upload("uploads/acme/a.xml", INVOICE)
    with harness.database.tenant(acme) as connection:
        before = datetime.now(UTC) - timedelta(hours=1)  # earlier than the object's time, which S3 sets
        assert erasure.erase(connection, acme, harness.id_of("a.xml"), before, by="ann") is not None
    erase_objects(harness.maintenance, BUCKET, lambda: datetime.now(UTC), lambda: 60.0)
    assert harness.stored_keys() == {"uploads/acme/a.xml"}


def test_deleted_document_can_be_erased_once(harness: ErasureHarness, acme: UUID) -> None:
    harness.pipeline.upload("uploads/acme/secretname.xml", INVOICE)
    id_ = harness.id_of("secretname.xml")
    with harness.database.tenant(acme) as connection:
        removal.delete_document(connection, acme, id_, datetime.now(UTC), by="ann")
    harness.erase(id_, later=MAX_ATTEMPT_DURATION)
    assert harness.stored_keys() == harness.tables_mentioning("secretname") == set()
    with harness.database.tenant(acme) as connection:
        assert erasure.erase(connection, acme, id_, datetime.now(UTC), by="ann") is None


def test_dead_letters_attempts_and_judgments_are_erased(harness: ErasureHarness, acme: UUID) -> None:
    admin = harness.admin
    id_, other = (make_document(admin, acme, {"number": "N"}, type="invoice") for _ in range(2))
    job_ids = [WORK_KINDS[worker].job_id(id_) for worker in ("ingestion", "matching")]
    for worker, job_id in zip(("ingestion", "matching"), job_ids, strict=True):
        admin.execute(
            """INSERT INTO dead_letter (job_id, tenant_id, worker, work_id, revision, task_type, payload, metadata,
                                        attempts, fingerprint, dlq_reason, dlq_timestamp)
               VALUES (%s, %s, %s, %s, 1, %s, '{"file": {"file_name": "secretname"}}', '{}', 3, 'f',
                       'max_retries_exceeded', now())""",
            [job_id, acme, worker, id_, worker],
        )
        admin.execute(
            """INSERT INTO failure_event (tenant_id, worker, job_id, revision, fingerprint, payload, created_at)
               VALUES (%s, %s, %s, 1, 'f', '{"error": "secretname"}', now())""",
            [acme, worker, job_id],
        )
    admin.execute(
        """INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome, error)
           VALUES (%s, 'ingestion', %s, 1, 1, now(), now(), 'failed', 'secretname')""",
        [acme, id_],
    )
    admin.execute(
        """INSERT INTO llm_judgment (tenant_id, document_id, question, answer, model, answered_at)
           VALUES (%s, %s, 'q', '{"reasoning": "secretname"}', 'm', now())""",
        [acme, other],
    )
    admin.execute("INSERT INTO llm_judgment_candidate VALUES (%s, %s, 'q', 'A1', %s, 'secretname')", [acme, other, id_])
    disabled = make_destination(admin, acme, "gone", disabled_at=datetime.now(UTC))
    for subject, payload in (("document", {}), ("cluster", {"documents": [{"id": str(id_)}]})):
        admin.execute(
            """INSERT INTO output_job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                                       requested_at, created_at)
               VALUES (gen_random_uuid(), %s, %s, %s, %s, 1, %s, now(), now())""",
            [acme, disabled, subject, id_, json.dumps({**payload, "text": "secretname"})],
        )

    harness.erase(id_)

    assert harness.tables_mentioning("secretname") == set()
    assert [row["id"] for row in rows(admin, "document")] == [str(other)]
    (entry,) = rows(admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["targets"]) == ("ann", "document erased", [str(id_)])
    assert entry["note_hash"] is not None
    assert "art. 17" not in str(rows(admin, "audit_entry"))


def test_other_tenants_document_remains(harness: ErasureHarness, acme: UUID, make_tenant: Callable[..., UUID]) -> None:
    foreign = make_document(harness.admin, make_tenant("other"))
    with harness.database.tenant(acme) as connection:
        assert erasure.erase(connection, acme, foreign, datetime.now(UTC), by="eve") is None
        connection.execute("SELECT erase_documents(%s, now(), now())", [[foreign]])
        connection.execute("SELECT erase_llm_judgments(%s)", [[foreign]])
    assert harness.admin.execute("SELECT count(*) FROM document").fetchone() == (1,)


def test_attachment_reused_by_later_document_remains(harness: ErasureHarness, mailbox: Mailbox, acme: UUID) -> None:
    mailbox.receive(received_mail(mail(("a.xml", INVOICE))))
    first = harness.id_of("a.xml")
    with harness.database.tenant(acme) as connection:
        removal.delete_document(connection, acme, first, datetime.now(UTC), by="ann")
    mailbox.receive(received_mail(mail(("a.xml", INVOICE), message_id="<2@nordwind.example>")))
    later_document = harness.id_of("a.xml")
    ((key,),) = harness.admin.execute("SELECT key FROM document WHERE id = %s", [later_document]).fetchall()
    assert later_document != first

    harness.erase(first, later=MAX_ATTEMPT_DURATION * 2)

    assert key in harness.stored_keys()
    harness.erase(later_document, later=MAX_ATTEMPT_DURATION * 2)
    assert harness.stored_keys() == set()


def test_attachment_received_again_after_erasure_remains(
    harness: ErasureHarness, mailbox: Mailbox, acme: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox.receive(received_mail(mail(("a.xml", INVOICE))))
    with monkeypatch.context() as patch:
        patch.setattr("tests.functions.test_document_erasure.erase_objects", lambda *_: None)
        harness.erase(harness.id_of("a.xml"))
    # By S3's clock, this file is older than the erasure.
    mailbox.receive(received_mail(mail(("a.xml", INVOICE), message_id="<2@nordwind.example>")))
    ((key,),) = harness.admin.execute("SELECT key FROM document").fetchall()

    erase_objects(harness.maintenance, BUCKET, lambda: datetime.now(UTC) + MAX_ATTEMPT_DURATION * 2, lambda: 60.0)

    assert key in harness.stored_keys()
    assert rows(harness.admin, "object_erasure") == []


def test_attachment_erasure_waits_for_attempts_in_progress(
    harness: ErasureHarness, mailbox: Mailbox, acme: UUID
) -> None:
    mailbox.receive(received_mail(mail(("a.xml", INVOICE))))
    harness.admin.execute(
        """INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status, claimed_at)
           VALUES (gen_random_uuid(), %s, %s, 'inbox/other', '00', 1, now(), 'in-progress', now())""",
        [acme, BUCKET],
    )

    harness.erase(harness.id_of("a.xml"))

    assert [key.split("/")[0] for key in harness.stored_keys()] == ["attachments"]
    harness.admin.execute("UPDATE acquisition_job SET status = 'failed' WHERE key = 'inbox/other'")
    erase_objects(harness.maintenance, BUCKET, lambda: datetime.now(UTC) + timedelta(minutes=2), lambda: 60.0)
    assert harness.stored_keys() == set()


def test_waiting_erasure_restores_the_tenant_setting(harness: ErasureHarness, mailbox: Mailbox, acme: UUID) -> None:
    mailbox.receive(received_mail(mail(("a.xml", INVOICE))))
    harness.admin.execute(
        """INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status, claimed_at)
           VALUES (gen_random_uuid(), %s, %s, 'inbox/other', '00', 1, now(), 'in-progress', now())""",
        [acme, BUCKET],
    )
    harness.erase(harness.id_of("a.xml"))

    with harness.admin.transaction():
        harness.admin.execute("SELECT set_config('counterfoil.tenant', 'before', true)")
        limits = harness.admin.execute(
            "SELECT begin_object_erasure(id, now()) FROM object_erasure WHERE starts_with(key, 'attachments/')"
        ).fetchall()
        tenant_setting = harness.admin.execute("SELECT current_setting('counterfoil.tenant')").fetchone()

    assert (limits, tenant_setting) == ([], ("before",))


def test_attachment_written_by_late_attempt_is_erased(harness: ErasureHarness, mailbox: Mailbox, acme: UUID) -> None:
    mailbox.receive(received_mail(mail(("a.xml", INVOICE))))
    ((key,),) = harness.admin.execute("SELECT key FROM document").fetchall()
    harness.erase(harness.id_of("a.xml"))
    assert harness.stored_keys() == set()
    harness.pipeline.s3.put_object(Bucket=BUCKET, Key=key, Body=INVOICE)

    erase_objects(harness.maintenance, BUCKET, lambda: datetime.now(UTC) + MAX_ATTEMPT_DURATION * 2, lambda: 60.0)

    assert harness.stored_keys() == set()
    assert rows(harness.admin, "object_erasure") == []


def test_failed_erasure_does_not_block_others(
    harness: ErasureHarness, acme: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.pipeline.upload("uploads/acme/1/a.xml", INVOICE, "1")
    harness.pipeline.upload("uploads/acme/2/b.xml", OTHER, "2")
    first, second = harness.id_of("a.xml"), harness.id_of("b.xml")
    erase = objects.erase

    def fail(bucket: str, key: str, *args: Any, **options: Any) -> int:
        if key == "uploads/acme/1/a.xml":
            raise ServiceUnavailableError("S3 refused it.")
        return erase(bucket, key, *args, **options)

    monkeypatch.setattr(objects, "erase", fail)
    with pytest.raises(StepsFailedError):
        harness.erase(first)
    harness.erase(second)
    assert harness.stored_keys() == {"uploads/acme/1/a.xml"}
    monkeypatch.undo()
    (pending_erasure,) = (row for row in rows(harness.admin, "object_erasure") if row["key"] == "uploads/acme/1/a.xml")
    assert pending_erasure["failures"] == 1
    erase_objects(harness.maintenance, BUCKET, lambda: datetime.now(UTC) + timedelta(minutes=2), lambda: 60.0)
    assert harness.stored_keys() == set()


def test_erasure_without_time_left_does_not_fail(harness: ErasureHarness, acme: UUID) -> None:
    harness.pipeline.upload("uploads/acme/1/a.xml", INVOICE)
    now = datetime.now(UTC) + timedelta(seconds=1)
    with harness.database.tenant(acme) as connection:
        erasure.erase(connection, acme, harness.id_of("a.xml"), now, by="ann")
    seconds_left = iter([60.0] * 3)
    assert (
        erase_objects(harness.maintenance, BUCKET, lambda: now, lambda: next(seconds_left, 0.0))["object_erasure"] == 0
    )
    assert harness.stored_keys() == {"uploads/acme/1/a.xml"}
    erase_objects(harness.maintenance, BUCKET, lambda: now, lambda: 60.0)
    assert harness.stored_keys() == set()
