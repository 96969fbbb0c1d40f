"""A corrected document replaces an earlier one in its cluster."""

from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import start_revision
from counterfoil.documents import removal
from counterfoil.documents.files import File
from counterfoil.documents.removal import Replacement
from tests.dead_letters.audit_trail import verified_changes
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import order
from tests.documents.test_removal import CASE, match_pending

FILE = File("uploads", "uploads/acme/1/order.xml", None)


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    """Office with the matched documents of CASE."""
    office = Office(database, admin, CASE)
    office.match_all()
    return office


def intended(office: Office, reason: str | None = None) -> Replacement:
    """Request the replacement of the first document by FILE."""
    with office.database.tenant(office.tenant_id) as connection:
        assert removal.request_replacement(
            connection, office.tenant_id, office.ids[0], FILE, NOW, by="ann", reason=reason
        )
        found = removal.find_requested(connection, office.tenant_id, FILE)
    assert found is not None
    return found


def test_new_document_replaces_an_old_one(office: Office, admin: Connection):
    replacement = intended(office, "typing error")
    assert verified_changes(admin, office.tenant_id) == [
        ("ann", "document replacement requested", [str(office.ids[0])])
    ]
    new = office.file(order(number="4712"))
    with office.database.tenant(office.tenant_id) as connection:
        _, note = removal.link_successor(connection, replacement, office.ids[new], NOW, is_new=True)
        start_revision(connection, "matching", [office.ids[new]], NOW)
    assert note == "It replaces an earlier document, which was removed."
    records = admin.execute("SELECT document_id, deleted_by, reason, replaced_by FROM document_deletion").fetchall()
    assert records == [(office.ids[0], "ann", "typing error", office.ids[new])]
    match_pending(office)
    assert {pair for pair in office.links() if 0 in pair} == set()
    with office.database.tenant(office.tenant_id) as connection:
        assert removal.find_requested(connection, office.tenant_id, FILE) is None


@pytest.mark.parametrize(
    ("is_itself", "reason"),
    [(False, "is not one document"), (True, "the same file")],
    ids=["an archive", "the same file"],
)
def test_archive_or_same_file_replaces_nothing(is_itself: bool, reason: str, office: Office, admin: Connection):
    replacement = intended(office)
    successor: UUID | None = office.ids[0] if is_itself else None
    with office.database.tenant(office.tenant_id) as connection:
        sends, note = removal.link_successor(connection, replacement, successor, NOW, is_new=False)
    assert reason in note
    assert (sends, admin.execute("SELECT FROM document_deletion").fetchall()) == ([], [])


def test_other_tenants_document_cannot_be_replaced(office: Office, database: Database):
    other = Office(database, office.admin, CASE[:1])
    with office.database.tenant(office.tenant_id) as connection:
        for id_ in (uuid4(), other.ids[0]):
            assert not removal.request_replacement(connection, office.tenant_id, id_, FILE, NOW, by="ann")
