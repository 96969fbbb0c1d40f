"""Documents removed during processing stay removed, and others stay complete."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message, read_message, start_revision
from counterfoil.documents import removal
from functions.ingestion.work import ingest
from functions.matching.work import match
from tests.delivery.harness import Clock, Context, event, record, rows, settings
from tests.documents.matching.samples import SampleDocument, invoice, order
from tests.factories import NOW
from tests.functions.test_documents import BUCKET, QUEUES, Pipeline, pipeline
from tests.functions.test_split_documents import BUNDLE, INVOICES
from tools.sample_generator.bulk import orders_with_invoices
from tools.sample_generator.bundle import write_bundle

__all__ = ["pipeline"]

DONE: dict[str, list[Any]] = {"batchItemFailures": []}
Hook = Callable[[], object]


@pytest.fixture
def tenant_id(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


class Worker:
    """A consumer that runs hooks before the effects of an attempt are committed."""

    def __init__(self, name: str, work: Callable[[TenantAttempt], Outcome], database: Database, clock: Clock) -> None:
        self._work, self.hooks = work, list[Hook]()
        self._consumer = Consumer(
            settings(worker={"name": name, "timeout": 120, "permits": 1, "start_margin": 30}, queue_urls=QUEUES),
            self._run,
            database=database,
            outbox=Outbox(database, QUEUES, clock=clock),
            visibility=Visibility(QUEUES[name]),
            read=read_message,
            clock=clock,
        )

    def _run(self, attempt: TenantAttempt) -> Outcome:
        outcome = self._work(attempt)
        while self.hooks:
            self.hooks.pop()()
        return outcome

    def handle(self, message: Message) -> Any:
        batch_response = self._consumer.handle(event(record(message, handle="it")), Context())
        return [failure["itemIdentifier"] for failure in batch_response["batchItemFailures"]]


def take_message(pipeline: Pipeline, worker: str) -> Message:
    """Remove and return the only message sent to a worker."""
    (entry,) = pipeline.sqs.sent.pop(worker)
    return Message.model_validate_json(entry["MessageBody"])


def remove(database: Database, tenant_id: UUID, document_id: UUID, clock: Clock) -> None:
    with database.tenant(tenant_id) as connection:
        assert removal.delete_document(connection, tenant_id, document_id, clock(), by="ann") is not None


@pytest.fixture
def make_sample(
    make_document: Callable[..., UUID], admin: Connection, tenant_id: UUID
) -> Callable[[SampleDocument], tuple[UUID, Message]]:
    """`make_sample(sample)` stores a document that awaits matching.

    Returns its id and its message.
    """

    def make(sample: SampleDocument) -> tuple[UUID, Message]:
        id_ = make_document(tenant_id, sample.data, type=sample.kind, matching_status="pending", matching_revision=1)
        return id_, Message(work_id=id_, revision=1, send_number=0)

    return make


@pytest.mark.usefixtures("pipeline")
def test_document_removed_during_matching_leaves_no_match(
    make_sample: Any, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    worker = Worker("matching", match, database, clock)
    (first, first_message), (second, second_message) = make_sample(order()), make_sample(invoice(po_reference="4711"))
    assert worker.handle(first_message) == []
    worker.hooks.append(lambda: remove(database, tenant_id, second, clock))
    assert len(worker.handle(second_message)) == 1  # reported to SQS, because a newer claim may exist
    assert rows(admin, "document_match") == rows(admin, "dead_letter") == rows(admin, "failure_event") == []
    assert worker.handle(second_message) == []  # acknowledged, because the work item is unknown
    assert [(row["id"], row["matching_status"]) for row in rows(admin, "document")] == [(str(first), "succeeded")]
    assert [entry["action"] for entry in rows(admin, "dead_letter_audit")] == ["unknown-work"]


@pytest.mark.usefixtures("pipeline")
def test_candidate_removed_during_matching_is_not_linked(
    make_sample: Any, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    worker = Worker("matching", match, database, clock)
    (first, first_message), (second, second_message) = make_sample(order()), make_sample(invoice(po_reference="4711"))
    assert worker.handle(first_message) == []
    worker.hooks.append(lambda: remove(database, tenant_id, first, clock))
    assert worker.handle(second_message) == []
    assert rows(admin, "document_match") == rows(admin, "dead_letter") == []
    (row,) = rows(admin, "document")
    assert (row["id"], row["matching_status"], row["cluster_id"]) == (str(second), "succeeded", str(second))
    assert row["matching_skip_reason"] == "Names purchase order 4711, which has not been received."


def test_bundle_removed_while_being_split_leaves_no_parts(
    pipeline: Pipeline, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    worker = Worker("ingestion", ingest, database, clock)
    pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    message = take_message(pipeline, "ingestion")
    worker.hooks.append(lambda: remove(database, tenant_id, message.work_id, clock))
    assert len(worker.handle(message)) == 1
    assert rows(admin, "document") == rows(admin, "ingestion_job") == rows(admin, "dead_letter") == []
    assert worker.handle(message) == []


def test_removed_part_is_not_restored_by_reprocessing(
    pipeline: Pipeline, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    message = take_message(pipeline, "ingestion")
    pipeline.sqs.sent["ingestion"] = [{"MessageBody": message.model_dump_json()}]
    pipeline.ingest()
    (removed_id, *remaining_ids) = [row["id"] for row in rows(admin, "document") if row["parent_id"]]
    remove(database, tenant_id, UUID(removed_id), clock)
    admin.execute("UPDATE ingestion_job SET status = 'pending' WHERE id = %s", [message.work_id])
    pipeline.sqs.sent["ingestion"] = [{"MessageBody": message.model_dump_json()}]
    assert pipeline.ingest() == DONE
    assert sorted(row["id"] for row in rows(admin, "document") if row["parent_id"]) == sorted(remaining_ids)


def test_removed_file_uploaded_again_is_a_new_document(
    pipeline: Pipeline, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    pipeline.upload("uploads/acme/1/a.pdf", BUNDLE)
    first = take_message(pipeline, "ingestion").work_id
    remove(database, tenant_id, first, clock)
    pipeline.upload("uploads/acme/2/a.pdf", BUNDLE, "02")
    (row,) = rows(admin, "document")
    assert (row["id"] != str(first), row["duplicate_uploads"]) == (True, 0)


# -- shared parts ------------------------------------------------------------------------------------------------------

CORRECTED = write_bundle([*INVOICES[:2], *(invoice for _, invoice in orders_with_invoices(2, 1))])
"""PDF file with the first two parts of BUNDLE and one additional part."""


@pytest.fixture
def overlapping_bundles(pipeline: Pipeline, admin: Connection, tenant_id: UUID) -> tuple[UUID, UUID]:
    """Ids of BUNDLE, with three parts, and of CORRECTED, which adds one part."""
    pipeline.upload("uploads/acme/bundle.pdf", BUNDLE)
    pipeline.ingest()
    pipeline.sqs.sent.pop("ingestion")
    pipeline.upload("uploads/acme/corrected.pdf", CORRECTED, sequencer="02")
    pipeline.ingest()
    pipeline.sqs.sent.pop("ingestion")
    bundles = [
        row for row in rows(admin, "document") if row["parent_id"] is None and row["tenant_id"] == str(tenant_id)
    ]
    ids_by_name = {row["file_name"]: UUID(row["id"]) for row in bundles}
    return ids_by_name["bundle.pdf"], ids_by_name["corrected.pdf"]


def parts(admin: Connection, bundle_id: UUID) -> dict[int, str]:
    """Return the ids of a file's parts, by first page."""
    children = [row for row in rows(admin, "document") if row["parent_id"] == str(bundle_id)]
    return {row["first_page"]: row["id"] for row in sorted(children, key=lambda row: int(row["first_page"]))}


def reprocess(pipeline: Pipeline, admin: Connection, document_id: UUID) -> None:
    (message,) = start_revision(admin, "ingestion", [document_id], NOW)
    pipeline.sqs.sent["ingestion"] = [{"MessageBody": message.message.model_dump_json()}]
    assert pipeline.ingest() == DONE


def test_shared_parts_are_reassigned_to_the_later_file(
    overlapping_bundles: tuple[UUID, UUID], database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    first_bundle, corrected = overlapping_bundles
    before, own = parts(admin, first_bundle), parts(admin, corrected)
    assert (list(before), list(own)) == ([1, 2, 3], [3])
    with database.tenant(tenant_id) as connection:
        removed = removal.delete_document(connection, tenant_id, first_bundle, clock(), by="ann")
    assert removed is not None
    assert (set(removed.documents), set(removed.reassigned)) == (
        {first_bundle, UUID(before[3])},
        {UUID(before[1]), UUID(before[2])},
    )
    assert parts(admin, corrected) == {1: before[1], 2: before[2], **own}
    (bundle_id,) = [row for row in rows(admin, "document") if row["id"] == str(corrected)]
    for row in rows(admin, "document"):
        assert row["source_id"] == bundle_id["source_id"]
        if row["parent_id"]:
            pages = f"{row['first_page']}-{row['last_page']}.pdf"
            assert row["key"] == f"children/{tenant_id}/{corrected}/{pages}"
            assert row["file_name"] == f"corrected {pages}"
    assert rows(admin, "document_duplicate_file") == []


def test_parts_are_removed_with_their_last_file(
    overlapping_bundles: tuple[UUID, UUID], database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    first_bundle, corrected = overlapping_bundles
    before = parts(admin, first_bundle)
    remove(database, tenant_id, corrected, clock)
    assert parts(admin, first_bundle) == before
    remove(database, tenant_id, first_bundle, clock)
    assert rows(admin, "document") == rows(admin, "document_duplicate_file") == []


def test_reprocessing_neither_adds_nor_loses_shared_parts(
    pipeline: Pipeline,
    overlapping_bundles: tuple[UUID, UUID],
    database: Database,
    admin: Connection,
    clock: Clock,
    tenant_id: UUID,
):
    first_bundle, corrected = overlapping_bundles
    reprocess(pipeline, admin, corrected)
    assert sorted(row["duplicate_uploads"] for row in rows(admin, "document")) == [0, 0, 0, 0, 1, 1]
    remove(database, tenant_id, first_bundle, clock)
    remaining_parts = parts(admin, corrected)
    reprocess(pipeline, admin, corrected)
    assert parts(admin, corrected) == remaining_parts
    assert len(remaining_parts) == 3


def test_removed_part_is_not_restored_by_any_file(
    pipeline: Pipeline,
    overlapping_bundles: tuple[UUID, UUID],
    database: Database,
    admin: Connection,
    clock: Clock,
    tenant_id: UUID,
):
    first_bundle, corrected = overlapping_bundles
    removed_id = parts(admin, first_bundle)[1]
    remove(database, tenant_id, UUID(removed_id), clock)
    reprocess(pipeline, admin, corrected)
    reprocess(pipeline, admin, first_bundle)
    assert (list(parts(admin, first_bundle)), list(parts(admin, corrected))) == ([2, 3], [3])


def test_file_split_during_another_removal_has_all_parts(
    pipeline: Pipeline, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    pipeline.upload("uploads/acme/bundle.pdf", BUNDLE)
    pipeline.ingest()
    (first_bundle,) = [UUID(row["id"]) for row in rows(admin, "document") if row["parent_id"] is None]
    pipeline.sqs.sent.pop("ingestion")
    pipeline.upload("uploads/acme/corrected.pdf", CORRECTED, sequencer="02")
    message = take_message(pipeline, "ingestion")
    worker = Worker("ingestion", ingest, database, clock)
    worker.hooks.append(lambda: remove(database, tenant_id, first_bundle, clock))
    assert worker.handle(message) == []
    assert list(parts(admin, message.work_id)) == [1, 2, 3]


def test_removal_waits_for_a_split_in_progress(
    pipeline: Pipeline, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    pipeline.upload("uploads/acme/bundle.pdf", BUNDLE)
    pipeline.ingest()
    (first_bundle,) = [UUID(row["id"]) for row in rows(admin, "document") if row["parent_id"] is None]
    before = parts(admin, first_bundle)
    pipeline.sqs.sent.pop("ingestion")
    pipeline.upload("uploads/acme/corrected.pdf", CORRECTED, sequencer="02")
    corrected = take_message(pipeline, "ingestion").work_id
    outcome = ingest(TenantAttempt(corrected, tenant_id, 1, 1, 1, database, clock))
    with ThreadPoolExecutor(1) as pool:
        with database.tenant(tenant_id) as connection:
            outcome.effects(connection)
            removed = pool.submit(remove, database, tenant_id, first_bundle, clock)
            while admin.execute("SELECT FROM pg_locks WHERE NOT granted").fetchone() is None:
                assert not removed.done()
        removed.result()
    remaining_parts = parts(admin, corrected)
    assert (remaining_parts[1], remaining_parts[2], list(remaining_parts)) == (before[1], before[2], [1, 2, 3])


def test_separately_uploaded_part_remains_without_its_bundle(
    pipeline: Pipeline, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    pipeline.upload("uploads/acme/bundle.pdf", BUNDLE)
    pipeline.ingest()
    (first_bundle,) = [UUID(row["id"]) for row in rows(admin, "document") if row["parent_id"] is None]
    uploaded_part = next(row for row in rows(admin, "document") if row["first_page"] == 2)
    file = aws.client("s3").get_object(Bucket=BUCKET, Key=uploaded_part["key"])["Body"].read()
    pipeline.upload("uploads/acme/alone.pdf", file, sequencer="02")
    remove(database, tenant_id, first_bundle, clock)
    (remaining,) = rows(admin, "document")
    assert (remaining["id"], remaining["parent_id"], remaining["first_page"]) == (uploaded_part["id"], None, None)
    assert (remaining["key"], remaining["file_name"]) == ("uploads/acme/alone.pdf", "alone.pdf")
