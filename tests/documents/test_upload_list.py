"""Each upload has one state, which is derived from its work items."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents import upload_list
from counterfoil.documents.upload_list import Stage, State, Upload

NOW = datetime(2026, 1, 2, tzinfo=UTC)


ListUploads = Callable[[], list[Upload]]


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def list_uploads(database: Database, tenant: UUID) -> ListUploads:
    """`list_uploads()` returns all uploads of the tenant."""

    def list_uploads() -> list[Upload]:
        with database.tenant(tenant) as connection:
            return list(upload_list.page(connection, tenant, "acme", limit=10).uploads)

    return list_uploads


def upload(admin: Connection, tenant_id: UUID | None, name: str = "Rechnung 1.xml", **columns: Any) -> UUID:
    job_id = uuid4()
    values = {
        "id": job_id,
        "tenant_id": tenant_id,
        "bucket": "b",
        "key": f"uploads/acme/{job_id}/{name}",
        "sequencer": "0",
        "size": 1,
        "created_at": NOW,
        **columns,
    }
    places = ", ".join(f"%({column})s" for column in values)
    admin.execute(f"INSERT INTO acquisition_job ({', '.join(values)}) VALUES ({places})".encode(), values)
    return job_id


def make_acquired_document(admin: Connection, make_document: Callable[..., UUID], tenant: UUID, **columns: Any) -> UUID:
    """Create an upload and its document, whose ingestion is pending."""
    document_id = make_document(tenant, **columns)
    admin.execute(
        "INSERT INTO ingestion_job (id, tenant_id, created_at) VALUES (%s, %s, %s)", [document_id, tenant, NOW]
    )
    return document_id


@pytest.mark.parametrize(
    ("columns", "state", "note"),
    [
        ({"status": "pending"}, State.WAITING, None),
        ({"status": "pending", "error": "S3 is unavailable"}, State.WAITING, "S3 is unavailable"),
        ({"status": "in-progress"}, State.WORKING, None),
        ({"status": "failed", "error": "The file is empty"}, State.FAILED, "The file is empty"),
        ({"status": None, "skip_reason": "A folder, not a file"}, State.IGNORED, "A folder, not a file"),
        ({"status": "succeeded", "skip_reason": "The tenant has it"}, State.DUPLICATE, "The tenant has it"),
    ],
)
def test_upload_without_document_shows_acquisition_state(
    admin: Connection,
    tenant: UUID,
    list_uploads: ListUploads,
    columns: dict[str, Any],
    state: State,
    note: str | None,
):
    upload(admin, tenant, **columns)
    (entry,) = list_uploads()
    assert (entry.state, entry.stage, entry.note, entry.file) == (state, Stage.ACQUISITION, note, "Rechnung 1.xml")


@pytest.mark.parametrize(
    ("status", "reason", "state"),
    [
        ("pending", None, State.WAITING),
        ("in-progress", None, State.WORKING),
        ("failed", None, State.FAILED),
        (None, "An unknown kind", State.IGNORED),
    ],
)
def test_unextracted_document_shows_ingestion_state(
    admin: Connection,
    tenant: UUID,
    make_document: Callable[..., UUID],
    list_uploads: ListUploads,
    status: str | None,
    reason: str | None,
    state: State,
):
    document_id = make_acquired_document(admin, make_document, tenant)
    admin.execute("UPDATE ingestion_job SET status = %s, skip_reason = %s", [status, reason])
    (entry,) = list_uploads()
    assert (entry.state, entry.stage, entry.document_id) == (state, Stage.INGESTION, document_id)
    assert entry.note == reason


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("pending", State.WAITING),
        ("in-progress", State.WORKING),
        ("succeeded", State.SUCCEEDED),
        ("failed", State.FAILED),
        (None, State.IGNORED),
    ],
)
def test_extracted_document_shows_matching_state(
    admin: Connection,
    tenant: UUID,
    make_document: Callable[..., UUID],
    list_uploads: ListUploads,
    status: str | None,
    state: State,
):
    make_acquired_document(
        admin, make_document, tenant, type="invoice", structured_data={"invoice_number": "RE-7"}, matching_status=status
    )
    admin.execute("UPDATE ingestion_job SET status = 'succeeded'")
    (entry,) = list_uploads()
    assert (entry.state, entry.stage, entry.type, entry.number) == (state, Stage.MATCHING, "invoice", "RE-7")


def test_other_tenants_uploads_are_hidden(
    admin: Connection, make_tenant: Callable[..., UUID], list_uploads: ListUploads
):
    upload(admin, make_tenant("other"))
    assert list_uploads() == []


def test_upload_without_a_tenant_is_unassigned(admin: Connection, database: Database):
    upload(admin, None, status="failed", error="The key contains no existing tenant")
    with database.delivery() as connection:
        ((record,), after) = upload_list.list_unassigned(connection, limit=1)
    assert (record.tenant, record.state, record.note) == (None, State.FAILED, "The key contains no existing tenant")
    assert after is None


def test_mail_is_found_by_key_for_every_tenant(
    admin: Connection, database: Database, tenant: UUID, make_tenant: Callable[..., UUID]
):
    key = "inbox/1/mail.eml"
    upload(admin, None, key=key, status="pending")
    with database.delivery() as connection:
        assert upload_list.find_owners(connection, "b", [key]) == []
        assert [entry.state for entry in upload_list.list_unassigned(connection, limit=2, key=key).uploads] == [
            State.WAITING
        ]

    admin.execute("UPDATE acquisition_job SET status = 'succeeded', skip_reason = 'Passed on to 2 tenants'")
    other = make_tenant("other")
    own, foreign = upload(admin, tenant, key=key), upload(admin, other, key=key)
    upload(admin, tenant, key="uploads/acme/1/other.xml")

    with database.delivery() as connection:
        owners_ = upload_list.find_owners(connection, "b", [key])
        assert owners_ == [(tenant, "acme", [own]), (other, "other", [foreign])]
        assert upload_list.list_unassigned(connection, limit=2).uploads == []


def test_erased_upload_is_neither_listed_nor_found(
    admin: Connection, database: Database, tenant: UUID, list_uploads: ListUploads
):
    erased = "The file was erased."
    upload(admin, tenant, key="uploads/acme/1/a.xml", status=None, skip_reason=erased)
    upload(admin, None, key="uploads/acme/1/a.xml", status=None, skip_reason=erased)
    assert list_uploads() == []
    with database.delivery() as connection:
        assert upload_list.find_owners(connection, "b", ["uploads/acme/1/a.xml"]) == []
        assert upload_list.list_unassigned(connection, limit=1).uploads == []


def test_uploads_are_listed_in_arrival_order(admin: Connection, database: Database, tenant: UUID):
    first, second = (upload(admin, tenant, created_at=NOW + timedelta(days=days)) for days in (0, 1))
    with database.tenant(tenant) as connection:
        (uploads, after) = upload_list.page(connection, tenant, "acme", limit=1)
        assert [upload.id for upload in uploads] == [first]
        (rest, end) = upload_list.page(connection, tenant, "acme", limit=1, after=after)
    assert ([upload.id for upload in rest], end) == ([second], None)


def test_failed_replacement_explains_that_original_remains(
    list_uploads: ListUploads, admin: Connection, make_document: Callable[..., UUID], tenant: UUID
):
    old, new = make_document(tenant), make_acquired_document(admin, make_document, tenant)
    admin.execute("UPDATE ingestion_job SET status = 'failed', error = 'It is damaged.' WHERE id = %s", [new])
    admin.execute(
        "INSERT INTO document_replacement "
        "(tenant_id, bucket, key, document_id, requested_by, requested_at, replacement_id) "
        "VALUES (%s, 'b', 'k', %s, 'ann', %s, %s)",
        [tenant, old, NOW, new],
    )
    notes = {entry.document_id: entry.note for entry in list_uploads()}
    assert notes == {
        old: None,
        new: "It is damaged. The document to be replaced stays until this one has been extracted.",
    }
