"""`DELETE /api/admin/documents/{id}`: previewed, confirmed, and erased once."""

from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from tests.delivery.harness import rows
from tests.documents.matching.samples import invoice, order
from tests.documents.matching.tenant_harness import Office
from tests.functions.admin_api.conftest import Answer, Ask


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    office = Office(database, admin, [order(), invoice(po_reference="4711")])
    office.match_all()
    return office


def slug(office: Office) -> str:
    ((value,),) = office.admin.execute("SELECT slug FROM tenant WHERE id = %s", [office.tenant_id]).fetchall()
    return str(value)


def erase(
    ask: Ask, office: Office, id_: UUID, *, role: str = "admin", if_match: str | None = None, **query: str
) -> Answer:
    groups, headers = f"[{role} tenant:{slug(office)}]", {} if if_match is None else {"If-Match": if_match}
    return ask(
        "", method="DELETE", path=f"/api/admin/documents/{id_}", groups=groups, query=query or None, headers=headers
    )


def documents(office: Office) -> set[UUID]:
    return {id_ for (id_,) in office.admin.execute("SELECT id FROM document").fetchall()}


def test_confirmed_document_is_erased(ask: Ask, office: Office) -> None:
    order_id, invoice_id = office.ids
    preview = erase(ask, office, invoice_id)
    assert (preview.status, preview.body["documents"], preview.body["confirm"]) == (200, 1, slug(office))
    assert documents(office) == {order_id, invoice_id}

    done = erase(ask, office, invoice_id, if_match=preview.headers["ETag"], confirm=slug(office), reason="art. 17")

    assert (done.status, done.body["documents"], done.body["rematched"]) == (200, [str(invoice_id)], 1)
    assert documents(office) == {order_id}
    (entry,) = rows(office.admin, "audit_entry")
    assert (entry["action"], entry["targets"], entry["note_hash"] is None) == (
        "document erased",
        [str(invoice_id)],
        False,
    )
    assert erase(ask, office, invoice_id).status == 404


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
    ask: Ask, office: Office, query: dict[str, str], if_match: str | None, status: int
) -> None:
    sent = {name: slug(office) if value == "SLUG" else value for name, value in query.items()}

    assert erase(ask, office, office.ids[1], if_match=if_match, **sent).status == status

    assert documents(office) == {*office.ids}
    assert rows(office.admin, "audit_entry") == []


def test_operator_cannot_erase(ask: Ask, office: Office) -> None:
    assert erase(ask, office, office.ids[1], role="operator", if_match='"1"', confirm=slug(office)).status == 403
    assert documents(office) == {*office.ids}


def test_document_of_another_tenant_is_not_found(ask: Ask, office: Office, database: Database) -> None:
    other = Office(database, office.admin, [invoice()])

    for id_ in (other.ids[0], uuid4()):
        assert erase(ask, office, id_, if_match='"1"', confirm=slug(other)).status == 404

    assert other.ids[0] in documents(office)
