"""`DELETE /api/admin/documents/{id}`: preview, confirmation and single erasure."""

from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from tests.delivery.harness import rows
from tests.documents.matching.samples import invoice, order
from tests.documents.matching.tenant_harness import TenantHarness
from tests.functions.admin_api.conftest import ApiResponse, CallApi


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    harness = TenantHarness(database, admin, [order(), invoice(po_reference="4711")])
    harness.match_all()
    return harness


def slug(harness: TenantHarness) -> str:
    ((value,),) = harness.admin.execute("SELECT slug FROM tenant WHERE id = %s", [harness.tenant_id]).fetchall()
    return str(value)


def erase(
    call_api: CallApi,
    harness: TenantHarness,
    id_: UUID,
    *,
    role: str = "admin",
    if_match: str | None = None,
    **query: str,
) -> ApiResponse:
    groups, headers = f"[{role} tenant:{slug(harness)}]", {} if if_match is None else {"If-Match": if_match}
    return call_api(
        "", method="DELETE", path=f"/api/admin/documents/{id_}", groups=groups, query=query or None, headers=headers
    )


def documents(harness: TenantHarness) -> set[UUID]:
    return {id_ for (id_,) in harness.admin.execute("SELECT id FROM document").fetchall()}


def test_confirmed_document_is_erased(call_api: CallApi, harness: TenantHarness) -> None:
    order_id, invoice_id = harness.ids
    preview = erase(call_api, harness, invoice_id)
    assert (preview.status, preview.body["documents"], preview.body["confirm"]) == (200, 1, slug(harness))
    assert documents(harness) == {order_id, invoice_id}

    response = erase(
        call_api, harness, invoice_id, if_match=preview.headers["ETag"], confirm=slug(harness), reason="art. 17"
    )

    assert (response.status, response.body["documents"], response.body["rematched"]) == (200, [str(invoice_id)], 1)
    assert documents(harness) == {order_id}
    (entry,) = rows(harness.admin, "audit_entry")
    assert (entry["action"], entry["targets"], entry["note_hash"] is None) == (
        "document erased",
        [str(invoice_id)],
        False,
    )
    assert erase(call_api, harness, invoice_id).status == 404


@pytest.mark.parametrize(
    ("query", "if_match", "status"),
    [
        ({"confirm": "SLUG"}, None, 428),
        ({"confirm": "SLUG"}, '"2"', 412),
        ({"confirm": "another"}, '"1"', 422),
        ({"confirm": "SLUG", "cascade": "true"}, '"1"', 422),
    ],
    ids=["without a preview", "another number of documents", "another tenant", "unknown parameter"],
)
def test_unconfirmed_document_is_not_erased(
    call_api: CallApi, harness: TenantHarness, query: dict[str, str], if_match: str | None, status: int
) -> None:
    parameters = {name: slug(harness) if value == "SLUG" else value for name, value in query.items()}

    assert erase(call_api, harness, harness.ids[1], if_match=if_match, **parameters).status == status

    assert documents(harness) == {*harness.ids}
    assert rows(harness.admin, "audit_entry") == []


def test_operator_cannot_erase(call_api: CallApi, harness: TenantHarness) -> None:
    assert (
        erase(call_api, harness, harness.ids[1], role="operator", if_match='"1"', confirm=slug(harness)).status == 403
    )
    assert documents(harness) == {*harness.ids}


def test_other_tenants_document_is_not_found(call_api: CallApi, harness: TenantHarness, database: Database) -> None:
    other_tenant = TenantHarness(database, harness.admin, [invoice()])

    for id_ in (other_tenant.ids[0], uuid4()):
        assert erase(call_api, harness, id_, if_match='"1"', confirm=slug(other_tenant)).status == 404

    assert other_tenant.ids[0] in documents(harness)
