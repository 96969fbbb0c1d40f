"""Acquisition and ingestion turn an S3 event into structured data. S3 is mocked."""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import boto3
import pytest
from moto import mock_aws

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message, read_message, start_revision
from counterfoil.documents import files
from functions.acquisition.store import SEEN_BEFORE
from functions.acquisition.work import WORKER
from functions.ingestion.work import ingest
from tests.delivery import message_bodies
from tests.delivery.harness import Clock, Context, FakeSqs, event, record, rows, settings

BUCKET = "uploads"
QUEUES = {"acquisition": "acquisition", "ingestion": "ingestion", "matching": "matching"}


def s3_event(key: str, sequencer: str = "01") -> str:
    return message_bodies.s3_event(message_bodies.object_created(key, bucket=BUCKET, sequencer=sequencer))


class Pipeline:
    """Acquisition and ingestion with one database, a mocked S3 and a fake SQS.

    The fake SQS records messages.
    """

    def __init__(self, database: Database, s3: Any, sqs: FakeSqs, clock: Clock) -> None:
        self.s3, self.sqs = s3, sqs
        outbox = Outbox(database, QUEUES, clock=clock)
        parts: dict[str, tuple[Any, Any]] = {
            "acquisition": (WORKER, files.read_event),
            "ingestion": (ingest, read_message),
        }
        self.consumers = {
            name: Consumer(
                settings(worker={"name": name, "timeout": 120, "permits": 2, "start_margin": 30}, queue_urls=QUEUES),
                work,
                database=database,
                outbox=outbox,
                visibility=Visibility(QUEUES[name]),
                read=read,
                clock=clock,
            )
            for name, (work, read) in parts.items()
        }

    def upload(self, key: str, content: bytes, sequencer: str = "01") -> Any:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=content)
        return self.acquire(s3_event(key, sequencer))

    def acquire(self, body: str) -> Any:
        return self.consumers["acquisition"].handle(event(record(body)), Context())

    def ingest(self) -> Any:
        messages_ = [
            record(Message.model_validate_json(entry["MessageBody"])) for entry in self.sqs.sent.pop("ingestion", [])
        ]
        return self.consumers["ingestion"].handle(event(*messages_), Context())


@pytest.fixture
def pipeline(database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        s3, sqs = boto3.client("s3", region_name="us-east-1"), FakeSqs()
        s3.create_bucket(Bucket=BUCKET)
        monkeypatch.setattr(aws, "client", lambda service: {"s3": s3, "sqs": sqs}[service])
        yield Pipeline(database, s3, sqs, clock)


INVOICE = b"""<?xml version="1.0" encoding="UTF-8"?>
<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"
  xmlns:cac="urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2"
  xmlns:cbc="urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2">
  <cbc:ID>R-1</cbc:ID><cbc:IssueDate>2026-01-02</cbc:IssueDate><cbc:DocumentCurrencyCode>EUR</cbc:DocumentCurrencyCode>
  <cac:AccountingSupplierParty><cac:Party><cac:PartyName><cbc:Name>Nordwind GmbH</cbc:Name></cac:PartyName></cac:Party>
  </cac:AccountingSupplierParty>
  <cac:AccountingCustomerParty><cac:Party><cac:PartyName><cbc:Name>Acme</cbc:Name></cac:PartyName></cac:Party>
  </cac:AccountingCustomerParty>
  <cac:LegalMonetaryTotal><cbc:TaxExclusiveAmount currencyID="EUR">10.00</cbc:TaxExclusiveAmount>
  </cac:LegalMonetaryTotal>
  <cac:InvoiceLine><cbc:ID>1</cbc:ID><cbc:InvoicedQuantity unitCode="C62">1</cbc:InvoicedQuantity>
    <cbc:LineExtensionAmount currencyID="EUR">10.00</cbc:LineExtensionAmount>
    <cac:Item><cbc:Name>Bolt</cbc:Name></cac:Item>
    <cac:Price><cbc:PriceAmount currencyID="EUR">10.00</cbc:PriceAmount></cac:Price></cac:InvoiceLine>
</Invoice>"""


def test_deceptive_upload_name_is_neutralized(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("acme")
    key = "uploads/acme/invoice_\u202elmx.xml"

    assert pipeline.upload(key, INVOICE) == {"batchItemFailures": []}
    (document,) = rows(admin, "document")
    assert (document["key"], document["file_name"]) == (key, "invoice_\ufffdlmx.xml")


def test_upload_creates_source_document_and_matching_message(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    tenant_id = make_tenant("acme")

    assert pipeline.upload("uploads/acme/Rechnung Müller €.xml", INVOICE) == {"batchItemFailures": []}
    (document,) = rows(admin, "document")
    assert (document["tenant_id"], document["file_name"]) == (str(tenant_id), "Rechnung Müller €.xml")
    assert document["content_hash"] == f"\\x{hashlib.sha256(INVOICE).hexdigest()}"
    assert [source["key"] for source in rows(admin, "source")] == ["uploads/acme/Rechnung Müller €.xml"]

    assert pipeline.ingest() == {"batchItemFailures": []}
    (document,) = rows(admin, "document")
    assert (document["type"], document["method"], document["matching_status"]) == ("invoice", "xml", "pending")
    assert document["structured_data"]["invoice_number"] == "R-1"
    assert [json.loads(entry["MessageBody"])["work_id"] for entry in pipeline.sqs.sent["matching"]] == [document["id"]]


def test_repeated_event_creates_one_document(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("acme")

    pipeline.upload("uploads/acme/a.xml", INVOICE)
    pipeline.acquire(s3_event("uploads/acme/a.xml", "01"))

    (document,) = rows(admin, "document")
    assert (
        document["duplicate_uploads"] == 0
    )  # the repeated event has the same work item, so it is not counted as a duplicate


def test_duplicate_content_creates_no_second_document(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("acme"), make_tenant("other")

    pipeline.upload("uploads/acme/a.xml", INVOICE)
    pipeline.upload("uploads/acme/copy of a.xml", INVOICE)
    pipeline.upload("uploads/other/a.xml", INVOICE)

    assert sorted((document["file_name"], document["duplicate_uploads"]) for document in rows(admin, "document")) == [
        ("a.xml", 0),
        ("a.xml", 1),
    ]
    assert sorted(str(job["skip_reason"]) for job in rows(admin, "acquisition_job")) == ["None", "None", SEEN_BEFORE]
    assert len(pipeline.sqs.sent["ingestion"]) == 2


@pytest.mark.parametrize("key", ["uploads/missing/a.xml", "uploads/a.xml"])
def test_key_without_a_tenant_becomes_a_dead_letter(pipeline: Pipeline, admin: Connection, key: str) -> None:
    assert pipeline.upload(key, INVOICE) == {"batchItemFailures": []}

    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["payload"]["file"] == {"bucket": BUCKET, "key": key}
    assert "contains no existing tenant" in dead_letter["metadata"]["last_error"]["message"]


def test_too_large_file_is_rejected_before_download(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("acme")
    large = json.loads(s3_event("uploads/acme/large.pdf"))
    large["Records"][0]["s3"]["object"]["size"] = 200 * 1024 * 1024  # the object does not exist

    pipeline.acquire(json.dumps(large))

    (dead_letter,) = rows(admin, "dead_letter")
    assert "larger than" in dead_letter["metadata"]["last_error"]["message"]


def test_missing_file_becomes_a_dead_letter(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("acme")

    pipeline.acquire(s3_event("uploads/acme/gone.pdf"))

    (dead_letter,) = rows(admin, "dead_letter")
    assert "NoSuchKey" in dead_letter["metadata"]["last_error"]["message"]


def test_event_with_several_objects_is_split(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("acme")
    event_ = json.loads(s3_event("uploads/acme/a.xml", "01"))
    event_["Records"] += json.loads(s3_event("uploads/acme/b.xml", "02"))["Records"]

    assert pipeline.acquire(json.dumps(event_)) == {"batchItemFailures": []}

    assert {job["status"] for job in rows(admin, "acquisition_job")} == {"pending"}
    assert pipeline.acquire(json.dumps(event_)) == {"batchItemFailures": []}  # as if SQS redelivered it
    assert len(pipeline.sqs.sent["acquisition"]) == 2
    work_ids = {json.loads(entry["MessageBody"])["work_id"] for entry in pipeline.sqs.sent["acquisition"]}
    assert work_ids == {job["id"] for job in rows(admin, "acquisition_job")}


def test_unsupported_file_type_is_skipped_with_reason(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("acme")
    pipeline.upload("uploads/acme/note.txt", b"Dear all,\nplease find nothing attached.\n")

    assert pipeline.ingest() == {"batchItemFailures": []}

    (document,) = rows(admin, "document")
    (job,) = rows(admin, "ingestion_job")
    assert (document["type"], document["structured_data"], document["matching_status"]) == ("other", None, None)
    assert job["status"] is None
    assert job["skip_reason"]


def test_damaged_file_does_not_affect_others(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("acme")
    pipeline.upload("uploads/acme/good.xml", INVOICE, "01")
    pipeline.upload("uploads/acme/bad.xml", b"<!DOCTYPE x SYSTEM 'file:///etc/passwd'>" + INVOICE[38:], "02")

    assert pipeline.ingest() == {"batchItemFailures": []}

    assert sorted(job["status"] for job in rows(admin, "ingestion_job")) == ["failed", "succeeded"]
    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["payload"]["file"] == {"bucket": BUCKET, "key": "uploads/acme/bad.xml", "file_name": "bad.xml"}


def test_upload_before_tenant_creation_is_acquired_on_retry(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID], maintenance_database: Database
) -> None:
    pipeline.upload("uploads/late/invoice.xml", INVOICE)
    (job,) = rows(admin, "acquisition_job")
    assert (job["status"], job["tenant_id"]) == ("failed", None)
    late_tenant = make_tenant("late")

    with maintenance_database.delivery() as connection:
        (outbox_message,) = start_revision(
            connection, "acquisition", [UUID(job["id"])], pipeline.consumers["acquisition"].clock()
        )
    pipeline.acquire(outbox_message.message.model_dump_json())

    (job,) = rows(admin, "acquisition_job")
    assert (job["status"], job["tenant_id"]) == ("succeeded", str(late_tenant))
    assert len(rows(admin, "document")) == 1


def test_upload_of_reenabled_tenant_is_acquired_on_retry(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID], maintenance_database: Database
) -> None:
    acme = make_tenant("acme")
    admin.execute("UPDATE tenant SET disabled_at = now()")
    pipeline.upload("uploads/acme/invoice.xml", INVOICE)
    ((job, dead_letter),) = zip(rows(admin, "acquisition_job"), rows(admin, "dead_letter"), strict=True)
    assert (job["status"], job["tenant_id"], dead_letter["tenant_id"]) == ("failed", None, None)
    admin.execute("UPDATE tenant SET disabled_at = NULL")

    with maintenance_database.delivery() as connection:
        (outbox_message,) = start_revision(
            connection, "acquisition", [UUID(job["id"])], pipeline.consumers["acquisition"].clock()
        )
    pipeline.acquire(outbox_message.message.model_dump_json())

    (job,), (document,) = rows(admin, "acquisition_job"), rows(admin, "document")
    assert (job["status"], job["tenant_id"], document["tenant_id"]) == ("succeeded", str(acme), str(acme))


def test_repeated_event_assigns_upload_to_new_tenant(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    pipeline.upload("uploads/late/invoice.xml", INVOICE)
    late_tenant = make_tenant("late")

    pipeline.acquire(s3_event("uploads/late/invoice.xml", "01"))

    (job,) = rows(admin, "acquisition_job")
    assert (job["status"], job["tenant_id"]) == ("failed", str(late_tenant))  # the job stays failed until a retry


def test_second_failure_assigns_dead_letter_to_new_tenant(
    pipeline: Pipeline, admin: Connection, make_tenant: Callable[..., UUID], maintenance_database: Database
) -> None:
    pipeline.upload("uploads/late/empty.xml", b"")
    late_tenant = make_tenant("late")
    (job,) = rows(admin, "acquisition_job")
    with maintenance_database.delivery() as connection:
        (outbox_message,) = start_revision(
            connection, "acquisition", [UUID(job["id"])], pipeline.consumers["acquisition"].clock()
        )

    batch_response = pipeline.acquire(outbox_message.message.model_dump_json())

    (dead_letter,) = rows(admin, "dead_letter")
    assert batch_response == {"batchItemFailures": []}
    assert (dead_letter["tenant_id"], dead_letter["revision"]) == (str(late_tenant), 2)
    assert dead_letter["metadata"]["last_error"]["type"] == "InvalidDocumentError"
    assert [failure["revision"] for failure in dead_letter["previous_failures"]] == [1]
