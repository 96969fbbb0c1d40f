"""Destinations subscribed to document events receive each final status once."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Outcome, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.dead_letter import restart
from counterfoil.delivery.work import Message
from counterfoil.documents.reprocess import REASON
from counterfoil.errors import InvalidDocumentError, RejectedRequestError, ServiceUnavailableError
from counterfoil.webhooks.payload import SCHEMA_VERSION
from functions.matching.work import match
from tests.delivery.harness import Clock, rows
from tests.documents.matching.samples import invoice
from tests.factories import make_destination
from tests.functions.output_harness import OutputHarness, running_receiver
from tests.functions.test_document_removal import Worker, remove
from tests.functions.test_documents import Pipeline, pipeline
from tests.functions.test_split_documents import BUNDLE

__all__ = ["pipeline"]


@pytest.fixture
def tenant_id(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def destination(admin: Connection, tenant_id: UUID) -> UUID:
    return make_destination(admin, tenant_id, events=["document"])


@pytest.fixture
def queued_message(make_document: Callable[..., UUID], tenant_id: UUID) -> Message:
    """Message for an invoice that awaits matching."""
    sample = invoice()
    id_ = make_document(tenant_id, sample.data, type=sample.kind, matching_status="pending", matching_revision=1)
    return Message(work_id=id_, revision=1, send_number=0)


def status_events(admin: Connection) -> list[dict[str, Any]]:
    """Return the current status events with their revisions."""
    return [json.loads(json.dumps(job["payload"])) | {"revision": job["revision"]} for job in rows(admin, "output_job")]


def states(admin: Connection) -> list[tuple[str, str, str | None, int]]:
    return [
        (status_event["stage"], status_event["state"], status_event["reason"], status_event["revision"])
        for status_event in status_events(admin)
    ]


def work_returning(outcome: Outcome | Exception) -> Callable[[TenantAttempt], Outcome]:
    def work(attempt: TenantAttempt) -> Outcome:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return work


@pytest.mark.usefixtures("destination", "sqs")
@pytest.mark.parametrize(
    ("outcome", "state", "reason"),
    [
        (Succeeded(lambda _: Effects(note="Alone.")), "succeeded", "Alone."),
        (Skipped("No counterparty."), "skipped", "No counterparty."),
        (InvalidDocumentError("It is damaged.", code="damaged_pdf"), "failed", "It is damaged."),
    ],
)
def test_final_matching_status_is_delivered_with_reason(
    outcome: Any, state: str, reason: str, queued_message: Message, database: Database, admin: Connection, clock: Clock
):
    Worker("matching", work_returning(outcome), database, clock).handle(queued_message)
    (event_,) = status_events(admin)
    assert (event_["id"], event_["state"], event_["stage"], event_["reason"]) == (
        str(queued_message.work_id),
        state,
        "matching",
        reason,
    )
    assert (event_["type"], event_["structured_data"]["invoice_number"]) == ("invoice", "R-81")
    assert event_["received_at"].endswith("Z")
    (outbox_message,) = [row for row in rows(admin, "outbox") if row["worker"] == "document_output"]
    assert (outbox_message["revision"], outbox_message["send_number"], outbox_message["sent_at"]) == (1, 0, None)


@pytest.mark.usefixtures("destination", "sqs")
def test_retried_attempt_delivers_no_status(
    queued_message: Message, database: Database, admin: Connection, clock: Clock
):
    Worker("matching", work_returning(ServiceUnavailableError("later")), database, clock).handle(queued_message)
    assert status_events(admin) == []


@pytest.mark.usefixtures("destination", "sqs")
def test_rolled_back_status_is_not_delivered(
    queued_message: Message, database: Database, admin: Connection, clock: Clock
):
    worker = Worker("matching", work_returning(Succeeded(lambda _: Effects())), database, clock)
    worker.hooks.append(lambda: admin.execute("UPDATE document SET matching_claim_token = nextval('claim_token')"))
    worker.handle(queued_message)
    assert status_events(admin) == []


@pytest.mark.usefixtures("destination")
def test_status_set_by_archiver_is_delivered(
    queued_message: Message, maintenance_database: Database, admin: Connection
):
    with maintenance_database.delivery() as connection:
        connection.execute(
            "UPDATE document SET matching_status = 'failed', matching_error = 'The worker was lost.' WHERE id = %s",
            [queued_message.work_id],
        )
        tenant_setting = connection.execute("SELECT current_setting('counterfoil.tenant', true)").fetchone()
        assert tenant_setting in {("",), (None,)}
    assert states(admin) == [("matching", "failed", "The worker was lost.", 1)]


@pytest.mark.usefixtures("destination", "sqs")
def test_only_changed_status_is_delivered_again(
    queued_message: Message, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    revision = 1
    expected = []
    for outcome, payload_revision in (
        (Succeeded(lambda _: Effects()), 1),
        (Succeeded(lambda _: Effects()), 1),
        (Skipped("No counterparty."), 2),
        (Succeeded(lambda _: Effects()), 3),
    ):
        message = Message(work_id=queued_message.work_id, revision=revision, send_number=0)
        Worker("matching", work_returning(outcome), database, clock).handle(message)
        expected.append(states(admin)[0][-1] == payload_revision)
        with database.tenant(tenant_id) as connection:
            restart(connection, "matching", [queued_message.work_id], clock(), actor="ann", reason=REASON["match"])
        revision += 1
    assert expected == [True] * 4


@pytest.mark.usefixtures("destination", "tenant_id")
def test_skipped_ingestion_status_is_delivered(pipeline: Pipeline, admin: Connection):
    pipeline.upload("uploads/acme/1/note.xml", b"<note/>")
    pipeline.ingest()
    ((stage, state, reason, revision),) = states(admin)
    assert (stage, state, revision) == ("ingestion", "skipped", 1)
    assert reason


@pytest.mark.usefixtures("destination", "tenant_id")
def test_split_file_and_its_parts_are_delivered_separately(
    pipeline: Pipeline, database: Database, admin: Connection, clock: Clock
):
    pipeline.upload("uploads/acme/all.pdf", BUNDLE)
    pipeline.ingest()
    bundle = [("ingestion", "succeeded", "The file was split into 3 documents.", 1)]
    assert states(admin) == bundle
    pipeline.ingest()
    assert states(admin) == bundle
    worker = Worker("matching", match, database, clock)
    for entry in pipeline.sqs.sent.pop("matching"):
        worker.handle(Message.model_validate_json(entry["MessageBody"]))
    assert [(stage, state) for stage, state, *_ in states(admin)].count(("matching", "succeeded")) == 3


@pytest.mark.usefixtures("sqs")
def test_only_subscribed_destinations_receive_documents(
    queued_message: Message,
    database: Database,
    admin: Connection,
    clock: Clock,
    tenant_id: UUID,
    make_tenant: Callable[..., UUID],
):
    make_destination(admin, tenant_id, "clusters", events=["cluster"])
    make_destination(admin, tenant_id, "gone", disabled_at=datetime(2026, 1, 1, tzinfo=UTC))
    make_destination(admin, make_tenant("zenith"), "theirs")
    Worker("matching", work_returning(Succeeded(lambda _: Effects())), database, clock).handle(queued_message)
    assert status_events(admin) == []


@pytest.mark.usefixtures("sqs")
def test_output_worker_delivers_the_document_status(
    queued_message: Message, database: Database, admin: Connection, tenant_id: UUID
):
    clock = Clock(datetime.now(UTC))  # the current time, because PostgreSQL sets the timestamps
    output, secrets = OutputHarness(database, admin, clock, tenant_id), list[str]()
    with running_receiver(secrets, clock) as receiver:
        secrets.append(output.webhook(f"http://127.0.0.1:{receiver.server_port}"))
        admin.execute("UPDATE destination SET events = '{document}'")
        Worker("matching", match, database, clock).handle(queued_message)
        assert output.run() == {"batchItemFailures": []}
        (body,) = receiver.inbox.results()
    assert (body["event"], body["subject_id"]) == ("document", str(queued_message.work_id))
    assert body["data"]["state"] == "succeeded"


@pytest.mark.usefixtures("destination", "sqs")
def test_document_removal_is_delivered_under_the_same_job(
    queued_message: Message, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    Worker("matching", match, database, clock).handle(queued_message)
    (before,) = rows(admin, "output_job")
    remove(database, tenant_id, queued_message.work_id, clock)
    (after,) = rows(admin, "output_job")
    assert (after["id"], after["payload"], after["revision"]) == (before["id"], None, 2)


def test_schema_version_set_by_trigger_matches_python(destination: UUID, queued_message: Message, admin: Connection):
    admin.execute("UPDATE document SET matching_status = 'succeeded'")
    (job,) = rows(admin, "output_job")
    assert job["schema_version"] == SCHEMA_VERSION


def test_workers_cannot_enqueue_an_arbitrary_status(queued_message: Message, database_url: str, tenant_id: UUID):
    with psycopg.connect(database_url, autocommit=True) as worker, pytest.raises(psycopg.errors.InsufficientPrivilege):
        worker.execute(
            "SELECT record_stage_change(%s, %s, 'matching', 'succeeded', NULL)", [tenant_id, queued_message.work_id]
        )


@pytest.mark.usefixtures("destination", "sqs")
def test_newer_status_closes_the_dead_letter(
    queued_message: Message, database: Database, admin: Connection, clock: Clock, tenant_id: UUID
):
    Worker(
        "matching", work_returning(InvalidDocumentError("It is damaged.", code="damaged_pdf")), database, clock
    ).handle(queued_message)
    (job,) = rows(admin, "output_job")
    outbox_message = Message(work_id=UUID(job["id"]), revision=1, send_number=0)
    OutputHarness(database, admin, clock, tenant_id).run(
        outbox_message, work=work_returning(RejectedRequestError("HTTP 401"))
    )
    with database.tenant(tenant_id) as connection:
        (repeated,) = restart(
            connection, "matching", [queued_message.work_id], clock(), actor="ann", reason="Once more."
        )
    Worker("matching", work_returning(Succeeded(lambda _: Effects())), database, clock).handle(repeated.message)
    statuses = {dead_letter["worker"]: dead_letter for dead_letter in rows(admin, "dead_letter")}
    assert statuses["document_output"]["status"] == "retried"
    assert statuses["document_output"]["resolved_by"] == "document_output"
    audit = [(entry["actor"], entry["action"], entry["detail"]) for entry in rows(admin, "dead_letter_audit")]
    assert audit.count(("document_output", "retried", {"revision": 1, "version": 2})) == 1
    (job,) = rows(admin, "output_job")
    assert (job["status"], job["revision"]) == ("pending", 2)
