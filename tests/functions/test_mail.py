"""Mail stored in S3 becomes documents of each recipient's tenant."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import start_revision
from counterfoil.documents.mail.message import REFUSALS, Refusal
from counterfoil.documents.removal import delete_document
from functions.acquisition.store import REMOVED, OtherFilesError
from tests.delivery.harness import Context, rows
from tests.factories import NOW
from tests.functions.test_documents import BUCKET, INVOICE, Pipeline, pipeline, s3_event
from tests.mail_factory import LOGO, PDF, SCAN, XML, mail, received_mail

__all__ = ["pipeline"]

EVENTS = Path(__file__).parent.parent / "events"


class Mailbox:
    """A mailbox whose mail is processed by the pipeline."""

    def __init__(self, pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]) -> None:
        self.pipeline, self.admin, self._make_tenant = pipeline, admin, make_tenant
        self._number = 0

    def tenant(self, slug: str, *addresses: str) -> UUID:
        tenant_id = self._make_tenant(slug)
        for address in addresses:
            self.write_to(tenant_id, address)
        return tenant_id

    def write_to(self, tenant_id: UUID, address: str) -> None:
        self.admin.execute("INSERT INTO tenant_address (tenant_id, address) VALUES (%s, %s)", [tenant_id, address])

    def receive(self, content: bytes, key: str | None = None) -> None:
        """Store an email and process all resulting SQS messages."""
        self._number += 1
        assert self.pipeline.upload(key or f"inbox/{self._number}", content, f"{self._number:02}") == ALL_ACKNOWLEDGED
        self.work()

    def work(self) -> None:
        while queued := self.pipeline.sqs.sent.pop("acquisition", []):
            for entry in queued:
                assert self.pipeline.acquire(entry["MessageBody"]) == ALL_ACKNOWLEDGED

    def retry_dead_letter(self, maintenance_database: Database) -> None:
        """Retry the only dead letter, as an operator does."""
        (dead_letter,) = rows(self.admin, "dead_letter")
        with maintenance_database.delivery() as connection:
            (outbox_message,) = start_revision(
                connection, "acquisition", [dead_letter["work_id"]], self.pipeline.consumers["acquisition"].clock()
            )
        self.pipeline.acquire(outbox_message.message.model_dump_json())

    def reprocess(self, maintenance_database: Database) -> None:
        """Start and process a new revision of every job."""
        jobs = [job["id"] for job in rows(self.admin, "acquisition_job")]
        with maintenance_database.delivery() as connection:
            outbox_messages = start_revision(
                connection, "acquisition", jobs, self.pipeline.consumers["acquisition"].clock()
            )
        for outbox_message in outbox_messages:
            self.pipeline.acquire(outbox_message.message.model_dump_json())
        self.work()

    def objects(self) -> dict[str, bytes]:
        s3 = self.pipeline.s3
        listing = s3.list_objects_v2(Bucket=BUCKET, Prefix="attachments/").get("Contents", [])
        return {entry["Key"]: s3.get_object(Bucket=BUCKET, Key=entry["Key"])["Body"].read() for entry in listing}


ALL_ACKNOWLEDGED: dict[str, Any] = {"batchItemFailures": []}


@pytest.fixture
def mailbox(pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]) -> Mailbox:
    return Mailbox(pipeline, admin, make_tenant)


@pytest.fixture
def acme(mailbox: Mailbox) -> UUID:
    return mailbox.tenant("acme", "rechnung@acme.example")


def files_of(admin: Connection, tenant_id: UUID) -> list[str]:
    records = admin.execute("SELECT file_name FROM document WHERE tenant_id = %s ORDER BY id", [tenant_id]).fetchall()
    return [name for (name,) in records]


def zip_of(*files: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return buffer.getvalue()


def test_mail_becomes_one_source_with_documents(mailbox: Mailbox, admin: Connection, acme: UUID):
    mailbox.receive(received_mail(mail(("Rechnung Müller € 17.pdf", PDF), ("invoice.xml", INVOICE))))

    (source,) = rows(admin, "source")
    assert (source["kind"], source["tenant_id"], source["key"]) == ("mail", str(acme), "inbox/1")
    assert (source["sender"], source["subject"], source["message_id"]) == (
        "Nordwind GmbH <buchhaltung@nordwind.example>",
        "Ihre Rechnung 2026-17",
        "17@nordwind.example",
    )
    assert files_of(admin, acme) == ["Rechnung Müller € 17.pdf", "invoice.xml"]
    assert mailbox.objects() == {
        f"attachments/{acme}/{hashlib.sha256(content).hexdigest()}": content for content in (PDF, INVOICE)
    }
    assert len(mailbox.pipeline.sqs.sent["ingestion"]) == 2
    assert mailbox.pipeline.ingest() == ALL_ACKNOWLEDGED
    assert {row["type"] for row in rows(admin, "document")} >= {"invoice"}


def test_mail_has_an_unassigned_job_and_tenant_jobs(mailbox: Mailbox, admin: Connection, acme: UUID):
    zenith = mailbox.tenant("zenith", "in@zenith.example")
    message = mail(("a.pdf", PDF), to="rechnung@acme.example, someone@else.example, IN@Zenith.example")

    mailbox.receive(received_mail(message))

    jobs = {job["tenant_id"]: job for job in rows(admin, "acquisition_job")}
    assert set(jobs) == {None, str(acme), str(zenith)}
    assert {job["status"] for job in jobs.values()} == {"succeeded"}
    assert jobs[None]["skip_reason"] == "Forwarded to 2 tenants"
    assert files_of(admin, acme) == files_of(admin, zenith) == ["a.pdf"]
    assert {key.split("/")[1] for key in mailbox.objects()} == {str(acme), str(zenith)}
    assert {(row["tenant_id"], row["key"].split("/")[1]) for row in rows(admin, "document")} == {
        (str(acme), str(acme)),
        (str(zenith), str(zenith)),
    }


def test_blind_copy_reaches_the_envelope_recipients_tenant(mailbox: Mailbox, admin: Connection, acme: UUID):
    mailbox.receive(received_mail(mail(("a.pdf", PDF), to="undisclosed-recipients:;")))

    assert files_of(admin, acme) == ["a.pdf"]


def test_display_name_with_an_address_reaches_no_tenant(mailbox: Mailbox, admin: Connection, acme: UUID):
    zenith = mailbox.tenant("zenith", "in@zenith.example")

    mailbox.receive(received_mail(mail(("a.pdf", PDF), to='"in@zenith.example" <rechnung@acme.example>')))

    assert (files_of(admin, acme), files_of(admin, zenith)) == (["a.pdf"], [])


def test_mail_to_unknown_recipient_becomes_retryable_dead_letter(
    mailbox: Mailbox, admin: Connection, maintenance_database: Database
):
    late_tenant = mailbox.tenant("late")
    content = received_mail(mail(("a.pdf", PDF), to="neu@late.example"), delivered_to="neu@late.example")

    mailbox.receive(content)

    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["dlq_reason"], dead_letter["tenant_id"]) == ("non_retriable_error", None)
    assert dead_letter["payload"]["file"] == {"bucket": BUCKET, "key": "inbox/1"}
    error = dead_letter["metadata"]["last_error"]["message"]
    assert "counterfoil tenants addresses TENANT --add ADDRESS" in error
    assert "'neu@late.example'" in error
    (event,) = rows(admin, "failure_event")
    assert "late.example" not in event["payload"]["error"]

    mailbox.write_to(late_tenant, "neu@late.example")
    with maintenance_database.delivery() as connection:
        (outbox_message,) = start_revision(
            connection, "acquisition", [dead_letter["work_id"]], mailbox.pipeline.consumers["acquisition"].clock()
        )
    mailbox.pipeline.acquire(outbox_message.message.model_dump_json())
    mailbox.work()

    assert files_of(admin, late_tenant) == ["a.pdf"]


def test_repeated_mail_is_counted_as_duplicate(mailbox: Mailbox, admin: Connection, acme: UUID):
    first = mail(("a.pdf", PDF))
    mailbox.receive(received_mail(first))
    mailbox.receive(received_mail(first))  # as if SES stored the mail twice

    assert files_of(admin, acme) == ["a.pdf"]
    (document,) = rows(admin, "document")
    assert document["duplicate_uploads"] == 1
    assert {source["rejection_reason"] for source in rows(admin, "source")} == {None, "duplicate"}
    reasons = {job["key"]: job["skip_reason"] for job in rows(admin, "acquisition_job") if job["tenant_id"]}
    assert (reasons["inbox/1"], reasons["inbox/2"]) == (None, REFUSALS[Refusal.DUPLICATE])
    assert rows(admin, "dead_letter") == []


CHANGED = PDF + b"scanned by a gateway\n"


def test_repeated_message_id_with_other_files_fails(mailbox: Mailbox, admin: Connection, acme: UUID):
    mailbox.receive(received_mail(mail(("a.pdf", PDF))))
    mailbox.receive(received_mail(mail(("a.pdf", PDF), ("b.pdf", CHANGED))))

    assert files_of(admin, acme) == ["a.pdf"]
    (document,) = rows(admin, "document")
    assert document["duplicate_uploads"] == 1
    (dead_letter,), (notification,) = rows(admin, "dead_letter"), rows(admin, "failure_event")
    assert (dead_letter["tenant_id"], dead_letter["payload"]["file"]["key"]) == (str(acme), "inbox/2")
    assert dead_letter["metadata"]["last_error"]["code"] == OtherFilesError.code
    assert notification["payload"]["error"] == str(OtherFilesError())
    (second_source,) = (source for source in rows(admin, "source") if source["rejection_reason"] is not None)
    assert second_source["rejection_reason"] == "duplicate"
    assert [(attachment["name"], attachment["document"]) for attachment in second_source["attachments"]] == [
        ("a.pdf", None),
        ("b.pdf", None),
    ]


def test_mail_with_repeated_id_is_acquired_on_retry(
    mailbox: Mailbox, admin: Connection, acme: UUID, maintenance_database: Database
):
    mailbox.receive(received_mail(mail(("a.pdf", PDF))))
    mailbox.receive(received_mail(mail(("a.pdf", PDF), ("b.pdf", CHANGED))))
    mailbox.retry_dead_letter(maintenance_database)

    assert files_of(admin, acme) == ["a.pdf", "b.pdf"]
    assert [document["duplicate_uploads"] for document in rows(admin, "document")] == [1, 0]
    assert [source["rejection_reason"] for source in rows(admin, "source")] == [None, None]
    before = rows(admin, "source"), rows(admin, "document")
    mailbox.reprocess(maintenance_database)
    assert (rows(admin, "source"), rows(admin, "document")) == before


def test_only_retry_after_conflict_acquires_repeated_id(
    mailbox: Mailbox, admin: Connection, acme: UUID, maintenance_database: Database
):
    mailbox.receive(received_mail(mail(("a.pdf", PDF))))
    changed = received_mail(mail(("a.pdf", PDF), ("b.pdf", CHANGED)))
    mailbox.pipeline.upload("inbox/late", changed, "99")
    mailbox.pipeline.s3.delete_object(Bucket=BUCKET, Key="inbox/late")
    mailbox.work()
    mailbox.pipeline.s3.put_object(Bucket=BUCKET, Key="inbox/late", Body=changed)

    mailbox.retry_dead_letter(maintenance_database)
    assert files_of(admin, acme) == ["a.pdf"]
    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["metadata"]["last_error"]["code"] == OtherFilesError.code

    mailbox.retry_dead_letter(maintenance_database)
    assert files_of(admin, acme) == ["a.pdf", "b.pdf"]


def test_mail_with_reused_message_id_is_dead_lettered(mailbox: Mailbox, admin: Connection, acme: UUID):
    for number in range(3):
        mailbox.receive(received_mail(mail(("scan.pdf", PDF + bytes([number])))))

    assert len(rows(admin, "document")) == 1
    assert len(rows(admin, "dead_letter")) == len(rows(admin, "failure_event")) == 2


def test_duplicate_mail_restores_no_removed_document(
    mailbox: Mailbox, admin: Connection, acme: UUID, database: Database
):
    mailbox.receive(received_mail(mail(("a.pdf", PDF), ("b.xml", XML))))
    (removed, _) = rows(admin, "document")
    with database.tenant(acme) as connection:
        assert delete_document(connection, acme, UUID(removed["id"]), NOW, by="ann") is not None
    mailbox.receive(received_mail(mail(("a.pdf", PDF), ("b.xml", XML))))

    assert files_of(admin, acme) == ["b.xml"]
    assert rows(admin, "dead_letter") == []
    (reason,) = [
        job["skip_reason"] for job in rows(admin, "acquisition_job") if job["key"] == "inbox/2" and job["tenant_id"]
    ]
    assert reason == f"{REFUSALS[Refusal.DUPLICATE]} {REMOVED}"


def test_same_message_id_from_another_sender_is_acquired(mailbox: Mailbox, admin: Connection, acme: UUID):
    forged = mail(("b.xml", XML), sender="Somebody Else <billing@elsewhere.example>")
    mailbox.receive(received_mail(mail(("a.pdf", PDF))))
    mailbox.receive(received_mail(forged))

    assert files_of(admin, acme) == ["a.pdf", "b.xml"]


def test_mail_with_long_id_and_sender_is_acquired(mailbox: Mailbox, admin: Connection, acme: UUID):
    unlike = Random(1)  # PostgreSQL would compress repeated bytes
    words = ["".join(unlike.choices("abcdefghijklmnopqrstuvwxyz0123456789äöü", k=60)) for _ in range(16)]
    mailbox.receive(
        received_mail(
            mail(("a.pdf", PDF), sender=f"{' '.join(words)} <a@b.example>")
            .as_bytes()
            .replace(b"<17@nordwind.example>", f"<{'.'.join(words)}@x.example>".encode())
        )
    )

    assert files_of(admin, acme) == ["a.pdf"]


def test_same_file_in_another_mail_is_a_duplicate(mailbox: Mailbox, admin: Connection, acme: UUID):
    mailbox.receive(received_mail(mail(("a.pdf", PDF))))
    mailbox.receive(received_mail(mail(("copy.pdf", PDF), ("b.xml", XML), message_id="<18@nordwind.example>")))
    mailbox.receive(received_mail(mail(("c.xml", XML), message_id=None)))

    assert files_of(admin, acme) == ["a.pdf", "b.xml"]
    assert [row["duplicate_uploads"] for row in rows(admin, "document")] == [1, 1]
    attached_documents = [
        [attachment["document"] for attachment in row["attachments"]] for row in rows(admin, "source")
    ]
    a, b = (row["id"] for row in rows(admin, "document"))
    assert attached_documents == [[a], [a, b], [b]]


@pytest.mark.parametrize(
    ("content", "refusal", "expected"),
    [
        (received_mail(mail()), "no_files", "contains no file"),
        (
            received_mail(mail(inline=[("logo.png", LOGO)])),
            "no_documents",
            "'logo.png': It is a small image in the text",
        ),
        (
            received_mail(mail(("note.txt", b"Dear all"), ("empty.pdf", b""))),
            "no_documents",
            "'note.txt': The file type is not supported",
        ),
        (received_mail(mail(("a.pdf", PDF)), spam="FAIL"), "spam", "classified the email as spam"),
        (received_mail(mail(("a.pdf", PDF)), virus="FAIL"), "virus", "found a virus"),
    ],
)
def test_rejected_mail_has_a_reason_and_no_document(
    mailbox: Mailbox, admin: Connection, acme: UUID, content: bytes, refusal: str, expected: str
):
    mailbox.receive(content)

    (source,) = rows(admin, "source")
    (job,) = (job for job in rows(admin, "acquisition_job") if job["tenant_id"])
    assert (job["status"], source["rejection_reason"]) == (None, refusal)
    assert expected in job["skip_reason"]
    assert source["sender"] == "Nordwind GmbH <buchhaltung@nordwind.example>"
    assert rows(admin, "document") == rows(admin, "dead_letter") == []
    assert mailbox.objects() == {}


def test_rejected_mail_does_not_reserve_its_message_id(mailbox: Mailbox, admin: Connection, acme: UUID):
    mailbox.receive(received_mail(mail(("a.pdf", PDF)), spam="FAIL"))
    mailbox.receive(received_mail(mail(("a.pdf", PDF))))

    assert files_of(admin, acme) == ["a.pdf"]


def test_only_small_inline_images_are_skipped(mailbox: Mailbox, admin: Connection, acme: UUID):
    mailbox.receive(
        received_mail(mail(("a.pdf", PDF), ("logo.png", LOGO + b"attached"), inline=[("s.png", SCAN), (None, LOGO)]))
    )

    assert files_of(admin, acme) == ["s.png", "a.pdf", "logo.png"]
    (source,) = rows(admin, "source")
    assert [attachment["reason"] for attachment in source["attachments"]] == [
        *[None] * 3,
        "It is a small image in the text of the email.",
    ]


def test_archive_and_nested_mail_are_unpacked(mailbox: Mailbox, admin: Connection, acme: UUID):
    forwarded = mail((None, PDF), message_id="<inner@nordwind.example>")
    outer = mail(("Rechnungen.zip", zip_of(("2026/a.xml", XML), ("b.zip", zip_of(("c.xml", INVOICE))))))
    outer.add_attachment(forwarded)

    mailbox.receive(received_mail(outer))

    assert files_of(admin, acme) == ["a.xml", "attachment 3.pdf"]
    (source,) = rows(admin, "source")
    assert source["message_id"] == "17@nordwind.example"
    (remaining,) = (attachment for attachment in source["attachments"] if attachment["reason"])
    assert (remaining["name"], remaining["reason"][:30]) == ("b.zip", "It is an archive inside an arc")


@pytest.mark.parametrize("name", ["upload.zip", "mail.eml"])
def test_uploaded_archive_or_mail_is_unpacked(mailbox: Mailbox, admin: Connection, acme: UUID, name: str):
    content = (
        zip_of(("a.pdf", PDF), ("b.xml", XML))
        if name == "upload.zip"
        else mail(("a.pdf", PDF), ("b.xml", XML)).as_bytes()
    )

    mailbox.receive(content, f"uploads/acme/1/{name}")

    assert files_of(admin, acme) == ["a.pdf", "b.xml"]
    (source,) = rows(admin, "source")
    assert source["kind"] == ("upload" if name == "upload.zip" else "mail")


def test_office_document_is_not_unpacked(mailbox: Mailbox, admin: Connection, acme: UUID):
    mailbox.receive(zip_of(("[Content_Types].xml", b"<Types/>"), ("word/document.xml", XML)), "uploads/acme/1/a.docx")

    (document,) = rows(admin, "document")
    assert (document["key"], document["file_name"]) == ("uploads/acme/1/a.docx", "a.docx")


@pytest.mark.parametrize(
    ("content", "status", "expected"),
    [
        (zip_of(("a.txt", b"nothing")), None, "no file that could be a document"),
        (zip_of(), None, "It contains no files."),
        (zip_of(("a.pdf", PDF))[:-30], "failed", "damaged"),
        (zip_of(*[(f"{n}.xml", XML) for n in range(501)]), "failed", "more than 500 files"),
        (zip_of(("bomb.pdf", bytes(2_000_000))), None, "compression ratio exceeds 200"),
    ],
)
def test_rejected_archive_has_an_error_or_skip_reason(
    mailbox: Mailbox, admin: Connection, acme: UUID, content: bytes, status: str | None, expected: str
):
    mailbox.receive(content, "uploads/acme/1/a.zip")

    (job,) = rows(admin, "acquisition_job")
    assert job["status"] == status
    assert expected in (job["error"] or job["skip_reason"])


def test_ses_setup_notification_is_ignored(mailbox: Mailbox, admin: Connection):
    mailbox.receive(b"From: no-reply@amazon.com\r\n\r\nhello", "inbox/AMAZON_SES_SETUP_NOTIFICATION")

    (job,) = rows(admin, "acquisition_job")
    assert (job["status"], rows(admin, "dead_letter")) == (None, [])
    assert "Amazon SES" in job["skip_reason"]


def test_reprocessed_mail_changes_no_documents_or_reasons(
    mailbox: Mailbox, admin: Connection, acme: UUID, maintenance_database: Database
):
    mailbox.receive(received_mail(mail(("a.pdf", PDF))))
    mailbox.receive(received_mail(mail(("a.pdf", PDF), message_id="<18@nordwind.example>")))
    mailbox.receive(received_mail(mail(("a.pdf", PDF))))
    before = {table: rows(admin, table) for table in ("source", "document", "ingestion_job")}
    reasons = {job["id"]: job["skip_reason"] for job in rows(admin, "acquisition_job")}

    mailbox.reprocess(maintenance_database)

    assert {job["status"] for job in rows(admin, "acquisition_job")} == {"succeeded"}
    assert {job["id"]: job["skip_reason"] for job in rows(admin, "acquisition_job")} == reasons
    assert {table: rows(admin, table) for table in before} == before


@pytest.mark.parametrize("by_mail", [True, False])
def test_removed_document_is_not_restored_by_reprocessing(
    mailbox: Mailbox, database: Database, admin: Connection, acme: UUID, maintenance_database: Database, by_mail: bool
):
    if by_mail:
        mailbox.receive(received_mail(mail(("a.pdf", PDF), ("b.xml", XML))))
    else:
        mailbox.receive(PDF, "uploads/acme/1/a.pdf")
    (document_id,) = (row["id"] for row in rows(admin, "document") if row["file_name"] == "a.pdf")
    with database.tenant(acme) as connection:
        delete_document(connection, acme, document_id, mailbox.pipeline.consumers["acquisition"].clock(), by="ann")

    mailbox.reprocess(maintenance_database)

    assert files_of(admin, acme) == (["b.xml"] if by_mail else [])
    (job,) = (job for job in rows(admin, "acquisition_job") if job["tenant_id"])
    (source,) = rows(admin, "source")
    assert (job["status"], job["skip_reason"]) == ("succeeded", None if by_mail else REMOVED)
    assert source["attachments"] is None or [attachment["reason"] for attachment in source["attachments"]] == [
        REMOVED,
        None,
    ]

    mailbox.receive(PDF, "uploads/acme/2/a.pdf")  # as if a user uploaded the file again

    assert "a.pdf" in files_of(admin, acme)


def test_repeated_mail_event_creates_no_new_jobs(mailbox: Mailbox, admin: Connection, acme: UUID):
    mailbox.receive(received_mail(mail(("a.pdf", PDF))))
    mailbox.pipeline.acquire(s3_event("inbox/1", "01"))
    mailbox.work()

    assert len(rows(admin, "acquisition_job")) == 2
    assert rows(admin, "document")[0]["duplicate_uploads"] == 0


def test_mail_stored_by_ses_is_acquired(mailbox: Mailbox, admin: Connection, acme: UUID):
    event = json.loads((EVENTS / "acquisition_mail.json").read_text())
    ((entity, thing),) = (
        (s3_record["s3"]["bucket"]["name"], s3_record["s3"]["object"])
        for s3_record in json.loads(event["Records"][0]["body"])["Records"]
    )
    s3, content = mailbox.pipeline.s3, (EVENTS / "mail.eml").read_bytes()
    s3.create_bucket(Bucket=entity)
    s3.put_bucket_versioning(Bucket=entity, VersioningConfiguration={"Status": "Enabled"})
    stored = s3.put_object(Bucket=entity, Key=thing["key"], Body=content)
    event["Records"][0]["body"] = event["Records"][0]["body"].replace(thing["versionId"], stored["VersionId"])
    s3.put_object(Bucket=entity, Key=thing["key"], Body=b"written there later")

    assert mailbox.pipeline.consumers["acquisition"].handle(event, Context()) == ALL_ACKNOWLEDGED
    mailbox.work()

    assert thing["size"] == len(content)
    assert files_of(admin, acme) == ["Rechnung_2026-17.xml"]
    (source,) = rows(admin, "source")
    assert source["subject"] == "Rechnung 2026-17 für Ihre Bestellung Nr. 4711 \u2013 Größe M"
    assert [attachment["name"] for attachment in source["attachments"] if attachment["reason"]] == ["image001.png"]
