"""One word for what became of an upload, from the life cycles of its work."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from cli import outcomes
from cli.outcomes import Stage, State
from cli.tenants import Tenant
from counterfoil.db import Connection, Database

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class CloudOf:
    """As much of a cloud as reading needs."""

    database: Database


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> Tenant:
    return Tenant(make_tenant("acme"), "acme")


@pytest.fixture
def look(database: Database, tenant: Tenant) -> Callable[[], list[outcomes.Outcome]]:
    cloud: Any = CloudOf(database)
    return lambda: list(outcomes.of_tenant(cloud, tenant))


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


def acquired(admin: Connection, make_document: Callable[..., UUID], tenant: Tenant, **columns: Any) -> UUID:
    """A document whose ingestion is begun."""
    document_id = make_document(tenant.id, **columns)
    admin.execute(
        "INSERT INTO ingestion_job (id, tenant_id, created_at) VALUES (%s, %s, %s)", [document_id, tenant.id, NOW]
    )
    return document_id


@pytest.mark.parametrize(
    ("columns", "state", "note"),
    [
        ({"status": "pending"}, State.WAITING, ""),
        ({"status": "pending", "error": "S3 is away"}, State.WAITING, "S3 is away"),
        ({"status": "in-progress"}, State.WORKING, ""),
        ({"status": "failed", "error": "The file is empty"}, State.FAILED, "The file is empty"),
        ({"status": None, "reason": "A folder, not a file"}, State.KEPT, "A folder, not a file"),
        ({"status": "succeeded", "reason": "The tenant has it"}, State.SEEN_AGAIN, "The tenant has it"),
    ],
)
def test_an_upload_without_a_document(
    admin: Connection,
    tenant: Tenant,
    look: Callable[[], list[outcomes.Outcome]],
    columns: dict[str, Any],
    state: State,
    note: str,
):
    upload(admin, tenant.id, **columns)
    (found,) = look()
    assert (found.state, found.stage, found.note, found.file) == (state, Stage.ACQUISITION, note, "Rechnung 1.xml")


@pytest.mark.parametrize(
    ("status", "reason", "state"),
    [
        ("pending", None, State.WAITING),
        ("in-progress", None, State.WORKING),
        ("failed", None, State.FAILED),
        (None, "An unknown kind", State.KEPT),
    ],
)
def test_a_document_that_is_being_read(
    admin: Connection,
    tenant: Tenant,
    make_document: Callable[..., UUID],
    look: Callable[[], list[outcomes.Outcome]],
    status: str | None,
    reason: str | None,
    state: State,
):
    document_id = acquired(admin, make_document, tenant)
    admin.execute("UPDATE ingestion_job SET status = %s, reason = %s", [status, reason])
    (found,) = look()
    assert (found.state, found.stage, found.document_id) == (state, Stage.INGESTION, document_id)
    assert found.note == (reason or "")


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("pending", State.WAITING),
        ("in-progress", State.WORKING),
        ("succeeded", State.SUCCEEDED),
        ("failed", State.FAILED),
        (None, State.KEPT),
    ],
)
def test_a_document_that_was_read(
    admin: Connection,
    tenant: Tenant,
    make_document: Callable[..., UUID],
    look: Callable[[], list[outcomes.Outcome]],
    status: str | None,
    state: State,
):
    acquired(
        admin, make_document, tenant, type="invoice", structured_data={"invoice_number": "RE-7"}, matching_status=status
    )
    admin.execute("UPDATE ingestion_job SET status = 'succeeded'")
    (found,) = look()
    assert (found.state, found.stage, found.type, found.number) == (state, Stage.MATCHING, "invoice", "RE-7")


def test_another_tenant_s_uploads_are_not_seen(
    admin: Connection, make_tenant: Callable[..., UUID], look: Callable[[], list[outcomes.Outcome]]
):
    upload(admin, make_tenant("other"))
    assert look() == []


def test_an_upload_that_names_no_tenant_is_seen_by_who_looks_after_delivery(admin: Connection, database: Database):
    upload(admin, None, status="failed", error="The key names no tenant")
    cloud: Any = CloudOf(database)
    (found,) = outcomes.of_nobody(cloud)
    assert (found.tenant, found.state, found.note) == ("", State.FAILED, "The key names no tenant")


def test_a_mail_is_waited_for_wherever_it_went(
    admin: Connection, database: Database, tenant: Tenant, make_tenant: Callable[..., UUID]
):
    cloud: Any = CloudOf(database)
    key = "inbox/1/mail.eml"
    upload(admin, None, key=key, status="pending")
    assert [(one.tenant, one.state) for one in outcomes.of_keys(cloud, {key})] == [("", State.WAITING)]

    admin.execute("UPDATE acquisition_job SET status = 'succeeded', reason = 'Passed on to 2 tenants'")
    upload(admin, tenant.id, key=key, status="pending")
    upload(admin, make_tenant("other"), key=key, status=None, reason="The mail holds no file.")
    upload(admin, tenant.id, key="uploads/acme/1/other.xml")

    found = list(outcomes.of_keys(cloud, {key}))
    assert [(one.tenant, one.state, one.file) for one in found] == [
        ("acme", State.WAITING, "mail.eml"),
        ("other", State.KEPT, "mail.eml"),
    ]
    assert list(outcomes.of_nobody(cloud)) == []


def test_a_document_that_cannot_be_read_says_that_what_it_is_to_replace_stays(
    look: Callable[[], list[outcomes.Outcome]], admin: Connection, make_document: Callable[..., UUID], tenant: Tenant
):
    old, new = make_document(tenant.id), acquired(admin, make_document, tenant)
    admin.execute("UPDATE ingestion_job SET status = 'failed', error = 'It is damaged.' WHERE id = %s", [new])
    admin.execute(
        "INSERT INTO document_replacement (tenant_id, bucket, key, document_id, requested_by, requested_at, successor) "
        "VALUES (%s, 'b', 'k', %s, 'ann', %s, %s)",
        [tenant.id, old, NOW, new],
    )
    notes = {outcome.document_id: outcome.note for outcome in look()}
    assert notes == {old: "", new: "It is damaged. The document that it is to replace stays until it has been read."}
