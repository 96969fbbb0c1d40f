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
from counterfoil.documents.erasure import LONGEST_ATTEMPT, Erasure
from counterfoil.errors import ServiceUnavailableError
from counterfoil.kinds import WORK_KINDS
from functions.watchdog.erasures import erase as erase_objects
from functions.watchdog.parts import StepsFailedError
from tests.delivery.harness import rows
from tests.factories import make_destination, make_document
from tests.functions.test_children import BUNDLE
from tests.functions.test_documents import BUCKET, INVOICE, Pipeline, pipeline, s3_event
from tests.functions.test_mail import Mailbox, mailbox
from tests.mails import PDF, mail, received_mail

__all__ = ["mailbox", "pipeline"]

DONE: dict[str, Any] = {"batchItemFailures": []}
OTHER = INVOICE.replace(b"R-1", b"R-2")


class Archive:
    """Documents of acme with their files, and the watchdog that erases the files."""

    def __init__(self, pipeline: Pipeline, database: Database, maintenance: Database, admin: Connection) -> None:
        self.pipeline, self.database, self.maintenance, self.admin = pipeline, database, maintenance, admin
        pipeline.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})

    def id_of(self, name: str) -> UUID:
        ((id_,),) = self.admin.execute("SELECT id FROM document WHERE file_name = %s", [name]).fetchall()
        return UUID(str(id_))

    def erase(self, document_id: UUID, *, later: timedelta = timedelta()) -> Erasure:
        """Erase a document and its objects."""
        now = datetime.now(UTC) + timedelta(seconds=1)
        ((tenant_id,),) = self.admin.execute(
            "SELECT tenant_id FROM document WHERE id = %(id)s UNION ALL "
            "SELECT tenant_id FROM document_deletion WHERE document_id = %(id)s",
            {"id": document_id},
        ).fetchall()
        with self.database.tenant(tenant_id) as connection:
            found = erasure.erase(connection, tenant_id, document_id, now, by="ann", reason="art. 17")
        assert found is not None
        erase_objects(self.maintenance, BUCKET, lambda: now + later, lambda: 60.0)
        return found

    def stored(self) -> set[str]:
        """Keys with any version, including keys with only a delete marker."""
        listed = self.pipeline.s3.list_object_versions(Bucket=BUCKET)
        return {one["Key"] for one in [*listed.get("Versions", []), *listed.get("DeleteMarkers", [])]}

    def mentions(self, text: str) -> set[str]:
        """Tables with a row that mentions a text."""
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
def archive(pipeline: Pipeline, database: Database, maintenance_database: Database, admin: Connection) -> Archive:
    return Archive(pipeline, database, maintenance_database, admin)


@pytest.fixture
def acme(mailbox: Mailbox) -> UUID:
    return mailbox.tenant("acme", "rechnung@acme.example")


def test_erased_upload_leaves_no_file_and_no_name(archive: Archive, acme: UUID) -> None:
    archive.pipeline.upload("uploads/acme/1/secretname.xml", INVOICE)
    archive.pipeline.s3.delete_object(Bucket=BUCKET, Key="uploads/acme/1/secretname.xml")
    archive.pipeline.s3.put_object(Bucket=BUCKET, Key="uploads/acme/1/secretname.xml", Body=INVOICE)
    archive.pipeline.ingest()
    assert len(archive.mentions("secretname")) > 3

    found = archive.erase(archive.id_of("secretname.xml"), later=LONGEST_ATTEMPT)

    assert (found.files, found.retained_files) == (1, 0)
    assert archive.stored() == set()
    for text in ("secretname", "Nordwind", "R-1"):
        assert archive.mentions(text) == set()
    assert rows(archive.admin, "source") == rows(archive.admin, "document_deletion") == []
    assert rows(archive.admin, "object_erasure") == []


def test_names_are_deleted_after_the_objects(archive: Archive, acme: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.pipeline.upload("uploads/acme/1/secretname.xml", INVOICE)
    (job,) = rows(archive.admin, "acquisition_job")
    with monkeypatch.context() as patch:
        patch.setattr("tests.functions.test_document_erasure.erase_objects", lambda *_: None)
        archive.erase(archive.id_of("secretname.xml"))
    assert archive.mentions("secretname") == {"acquisition_job", "object_erasure"}

    erase_objects(archive.maintenance, BUCKET, lambda: datetime.now(UTC) + LONGEST_ATTEMPT * 2, lambda: 60.0)

    assert archive.mentions("secretname") == set()
    (erased,) = rows(archive.admin, "acquisition_job")
    assert (erased["id"], erased["key"], erased["status"]) == (job["id"], f"(erased)/{job['id']}", None)


def test_repeated_event_recreates_nothing(archive: Archive, acme: UUID) -> None:
    archive.pipeline.upload("uploads/acme/1/secretname.xml", INVOICE)
    archive.erase(archive.id_of("secretname.xml"), later=LONGEST_ATTEMPT)

    assert archive.pipeline.acquire(s3_event("uploads/acme/1/secretname.xml")) == DONE

    assert archive.mentions("secretname") == set()
    assert rows(archive.admin, "document") == rows(archive.admin, "dead_letter") == []


def test_every_upload_of_the_content_is_erased(archive: Archive, acme: UUID) -> None:
    for number in ("1", "2"):
        archive.pipeline.upload(f"uploads/acme/{number}/secretname.xml", INVOICE, number)
    assert archive.erase(archive.id_of("secretname.xml")).files == 2
    assert archive.stored() == set()
    assert archive.mentions("secretname") <= {"object_erasure"}


def test_mail_is_erased_with_its_last_document(archive: Archive, mailbox: Mailbox, acme: UUID) -> None:
    mailbox.receive(received_mail(mail(("one.pdf", PDF), ("two.xml", INVOICE))))
    first, second = archive.id_of("one.pdf"), archive.id_of("two.xml")

    found = archive.erase(first)

    assert (found.files, found.retained_files) == (0, 1)
    assert {key.split("/")[0] for key in archive.stored()} == {"attachments", "inbox"}
    assert len(archive.stored()) == 2
    assert archive.mentions("one.pdf") == set()
    (trail,) = rows(archive.admin, "document_deletion")
    assert (trail["file_name"], trail["key"]) == ("(erased)", "(erased)")
    assert archive.erase(second).files == 1
    assert archive.stored() == set()
    assert archive.mentions("Ihre Rechnung") == archive.mentions("two.xml") == set()


def test_mail_of_another_tenant_stays(archive: Archive, mailbox: Mailbox, acme: UUID) -> None:
    mailbox.tenant("zenith", "in@zenith.example")
    mailbox.receive(received_mail(mail(("a.xml", INVOICE), to="rechnung@acme.example, in@zenith.example")))
    ((ours,),) = archive.admin.execute("SELECT id FROM document WHERE tenant_id = %s", [acme]).fetchall()

    archive.erase(ours)

    assert sorted(key.split("/")[0] for key in archive.stored()) == ["attachments", "inbox"]
    assert not any(str(acme) in key for key in archive.stored())


def test_archive_is_erased_with_its_last_document(archive: Archive, acme: UUID) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("one.xml", INVOICE)
        made.writestr("two.xml", OTHER)
    archive.pipeline.upload("uploads/acme/all.zip", buffer.getvalue())
    assert archive.erase(archive.id_of("one.xml")).retained_files == 1
    assert "uploads/acme/all.zip" in archive.stored()
    archive.erase(archive.id_of("two.xml"))
    assert archive.stored() == set()


def test_other_file_under_the_same_key_stays(archive: Archive, acme: UUID) -> None:
    for number, content in (("1", INVOICE), ("2", OTHER)):
        key = "uploads/acme/same.xml"
        version = archive.pipeline.s3.put_object(Bucket=BUCKET, Key=key, Body=content)["VersionId"]
        event = json.loads(s3_event(key, number))
        event["Records"][0]["s3"]["object"]["versionId"] = version
        archive.pipeline.acquire(json.dumps(event))
    (first, second) = sorted(rows(archive.admin, "document"), key=lambda row: str(row["id"]))

    archive.erase(UUID(first["id"]))

    listed = archive.pipeline.s3.list_object_versions(Bucket=BUCKET)["Versions"]
    assert [one["VersionId"] for one in listed] == [second["version"]]


def test_bundle_is_erased_with_its_parts(archive: Archive, acme: UUID) -> None:
    archive.pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    archive.pipeline.ingest()
    whole = archive.id_of("all.pdf")
    parts = archive.admin.execute("SELECT id, key FROM document WHERE parent_id = %s ORDER BY id", [whole]).fetchall()

    found = archive.erase(parts[0][0])

    assert (found.files, found.retained_files) == (0, 1)
    assert archive.stored() == {"uploads/acme/all.pdf", *[key for _, key in parts[1:]]}
    assert archive.erase(whole).files == 1
    assert archive.stored() == set()
    assert archive.mentions("all.pdf") <= {"object_erasure"}


def test_objects_of_a_stale_attempt_are_erased(archive: Archive, acme: UUID) -> None:
    archive.pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    whole = archive.id_of("all.pdf")
    archive.erase(whole)
    late = f"children/{acme}/{whole}/1-1.pdf"
    archive.pipeline.s3.put_object(Bucket=BUCKET, Key=late, Body=b"%PDF")

    erase_objects(archive.maintenance, BUCKET, lambda: datetime.now(UTC) + LONGEST_ATTEMPT * 2, lambda: 60.0)

    assert archive.stored() == set()
    assert rows(archive.admin, "object_erasure") == []


def test_later_upload_under_the_key_stays(archive: Archive, acme: UUID) -> None:
    archive.pipeline.upload("uploads/acme/a.xml", INVOICE)
    with archive.database.tenant(acme) as connection:
        before = datetime.now(UTC) - timedelta(hours=1)  # S3 dates the object by its own clock
        assert erasure.erase(connection, acme, archive.id_of("a.xml"), before, by="ann") is not None
    erase_objects(archive.maintenance, BUCKET, lambda: datetime.now(UTC), lambda: 60.0)
    assert archive.stored() == {"uploads/acme/a.xml"}


def test_deleted_document_is_erased_later(archive: Archive, acme: UUID) -> None:
    archive.pipeline.upload("uploads/acme/secretname.xml", INVOICE)
    id_ = archive.id_of("secretname.xml")
    with archive.database.tenant(acme) as connection:
        removal.delete_document(connection, acme, id_, datetime.now(UTC), by="ann")
    archive.erase(id_, later=LONGEST_ATTEMPT)
    assert archive.stored() == archive.mentions("secretname") == set()
    with archive.database.tenant(acme) as connection:
        assert erasure.erase(connection, acme, id_, datetime.now(UTC), by="ann") is None


def test_dead_letters_attempts_and_answers_are_erased(archive: Archive, acme: UUID) -> None:
    admin = archive.admin
    id_, other = (make_document(admin, acme, {"number": "N"}, type="invoice") for _ in range(2))
    letters = [WORK_KINDS[worker].job_id(id_) for worker in ("ingestion", "matching")]
    for worker, job_id in zip(("ingestion", "matching"), letters, strict=True):
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

    archive.erase(id_)

    assert archive.mentions("secretname") == set()
    assert [row["id"] for row in rows(admin, "document")] == [str(other)]
    (entry,) = rows(admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["targets"]) == ("ann", "document erased", [str(id_)])
    assert entry["note_hash"] is not None
    assert "art. 17" not in str(rows(admin, "audit_entry"))


def test_document_of_another_tenant_stays(archive: Archive, acme: UUID, make_tenant: Callable[..., UUID]) -> None:
    theirs = make_document(archive.admin, make_tenant("other"))
    with archive.database.tenant(acme) as connection:
        assert erasure.erase(connection, acme, theirs, datetime.now(UTC), by="eve") is None
        connection.execute("SELECT erase_documents(%s, now(), now())", [[theirs]])
        connection.execute("SELECT erase_llm_judgments(%s)", [[theirs]])
    assert archive.admin.execute("SELECT count(*) FROM document").fetchone() == (1,)


def test_attachment_of_a_later_document_stays(archive: Archive, mailbox: Mailbox, acme: UUID) -> None:
    mailbox.receive(received_mail(mail(("a.xml", INVOICE))))
    first = archive.id_of("a.xml")
    with archive.database.tenant(acme) as connection:
        removal.delete_document(connection, acme, first, datetime.now(UTC), by="ann")
    mailbox.receive(received_mail(mail(("a.xml", INVOICE), message_id="<2@nordwind.example>")))
    later = archive.id_of("a.xml")
    ((key,),) = archive.admin.execute("SELECT key FROM document WHERE id = %s", [later]).fetchall()
    assert later != first

    archive.erase(first, later=LONGEST_ATTEMPT * 2)

    assert key in archive.stored()
    archive.erase(later, later=LONGEST_ATTEMPT * 2)
    assert archive.stored() == set()


def test_attachment_committed_after_the_erasure_stays(
    archive: Archive, mailbox: Mailbox, acme: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox.receive(received_mail(mail(("a.xml", INVOICE))))
    with monkeypatch.context() as patch:
        patch.setattr("tests.functions.test_document_erasure.erase_objects", lambda *_: None)
        archive.erase(archive.id_of("a.xml"))
    mailbox.receive(
        received_mail(mail(("a.xml", INVOICE), message_id="<2@nordwind.example>"))
    )  # S3 dates the file before the erasure
    ((key,),) = archive.admin.execute("SELECT key FROM document").fetchall()

    erase_objects(archive.maintenance, BUCKET, lambda: datetime.now(UTC) + LONGEST_ATTEMPT * 2, lambda: 60.0)

    assert key in archive.stored()
    assert rows(archive.admin, "object_erasure") == []


def test_attachment_waits_for_attempts_in_progress(archive: Archive, mailbox: Mailbox, acme: UUID) -> None:
    mailbox.receive(received_mail(mail(("a.xml", INVOICE))))
    archive.admin.execute(
        """INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status, claimed_at)
           VALUES (gen_random_uuid(), %s, %s, 'inbox/other', '00', 1, now(), 'in-progress', now())""",
        [acme, BUCKET],
    )

    archive.erase(archive.id_of("a.xml"))

    assert [key.split("/")[0] for key in archive.stored()] == ["attachments"]
    archive.admin.execute("UPDATE acquisition_job SET status = 'failed' WHERE key = 'inbox/other'")
    erase_objects(archive.maintenance, BUCKET, lambda: datetime.now(UTC) + timedelta(minutes=2), lambda: 60.0)
    assert archive.stored() == set()


def test_attachment_of_a_stale_attempt_is_erased(archive: Archive, mailbox: Mailbox, acme: UUID) -> None:
    mailbox.receive(received_mail(mail(("a.xml", INVOICE))))
    ((key,),) = archive.admin.execute("SELECT key FROM document").fetchall()
    archive.erase(archive.id_of("a.xml"))
    assert archive.stored() == set()
    archive.pipeline.s3.put_object(Bucket=BUCKET, Key=key, Body=INVOICE)

    erase_objects(archive.maintenance, BUCKET, lambda: datetime.now(UTC) + LONGEST_ATTEMPT * 2, lambda: 60.0)

    assert archive.stored() == set()
    assert rows(archive.admin, "object_erasure") == []


def test_failed_erasure_blocks_no_other(archive: Archive, acme: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.pipeline.upload("uploads/acme/1/a.xml", INVOICE, "1")
    archive.pipeline.upload("uploads/acme/2/b.xml", OTHER, "2")
    first, second = archive.id_of("a.xml"), archive.id_of("b.xml")
    erase = objects.erase

    def refuse(bucket: str, key: str, *args: Any, **options: Any) -> int:
        if key == "uploads/acme/1/a.xml":
            raise ServiceUnavailableError("S3 refused it.")
        return erase(bucket, key, *args, **options)

    monkeypatch.setattr(objects, "erase", refuse)
    with pytest.raises(StepsFailedError):
        archive.erase(first)
    archive.erase(second)
    assert archive.stored() == {"uploads/acme/1/a.xml"}
    monkeypatch.undo()
    (waiting,) = (row for row in rows(archive.admin, "object_erasure") if row["key"] == "uploads/acme/1/a.xml")
    assert waiting["failures"] == 1
    erase_objects(archive.maintenance, BUCKET, lambda: datetime.now(UTC) + timedelta(minutes=2), lambda: 60.0)
    assert archive.stored() == set()


def test_erasure_without_time_left_does_not_fail(archive: Archive, acme: UUID) -> None:
    archive.pipeline.upload("uploads/acme/1/a.xml", INVOICE)
    now = datetime.now(UTC) + timedelta(seconds=1)
    with archive.database.tenant(acme) as connection:
        erasure.erase(connection, acme, archive.id_of("a.xml"), now, by="ann")
    left = iter([60.0] * 3)
    assert erase_objects(archive.maintenance, BUCKET, lambda: now, lambda: next(left, 0.0))["object_erasure"] == 0
    assert archive.stored() == {"uploads/acme/1/a.xml"}
    erase_objects(archive.maintenance, BUCKET, lambda: now, lambda: 60.0)
    assert archive.stored() == set()
