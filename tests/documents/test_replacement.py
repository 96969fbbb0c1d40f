"""A corrected document replaces an earlier one in its cluster."""

from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import start_revision
from counterfoil.documents import removal
from counterfoil.documents.files import File
from counterfoil.documents.removal import Replacement
from tests.dead_letters.audit_trail import verified_changes
from tests.documents.matching.samples import order
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.documents.test_removal import CASE, match_pending

FILE = File("uploads", "uploads/acme/1/order.xml", None)


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    """A tenant with the matched documents of CASE."""
    harness = TenantHarness(database, admin, CASE)
    harness.match_all()
    return harness


def requested_replacement(harness: TenantHarness, reason: str | None = None) -> Replacement:
    """Request that FILE replaces the first document. Return the stored request."""
    with harness.database.tenant(harness.tenant_id) as connection:
        assert removal.request_replacement(
            connection, harness.tenant_id, harness.ids[0], FILE, NOW, by="ann", reason=reason
        )
        replacement = removal.find_replacement(connection, harness.tenant_id, FILE)
    assert replacement is not None
    return replacement


def test_new_document_replaces_an_earlier_document(harness: TenantHarness, admin: Connection):
    replacement = requested_replacement(harness, "typing error")
    assert verified_changes(admin, harness.tenant_id) == [
        ("ann", "document replacement requested", [str(harness.ids[0])])
    ]
    new = harness.file(order(number="4712"))
    with harness.database.tenant(harness.tenant_id) as connection:
        _, note = removal.link_successor(connection, replacement, harness.ids[new], NOW, is_new=True)
        start_revision(connection, "matching", [harness.ids[new]], NOW)
    assert note == "It replaces an earlier document, which was removed."
    records = admin.execute("SELECT document_id, deleted_by, reason, replaced_by FROM document_deletion").fetchall()
    assert records == [(harness.ids[0], "ann", "typing error", harness.ids[new])]
    match_pending(harness)
    assert {pair for pair in harness.links() if 0 in pair} == set()
    with harness.database.tenant(harness.tenant_id) as connection:
        assert removal.find_replacement(connection, harness.tenant_id, FILE) is None


@pytest.mark.parametrize(
    ("is_itself", "reason"),
    [(False, "is not one document"), (True, "the same file")],
    ids=["an archive", "the same file"],
)
def test_archive_or_same_file_replaces_nothing(is_itself: bool, reason: str, harness: TenantHarness, admin: Connection):
    replacement = requested_replacement(harness)
    successor: UUID | None = harness.ids[0] if is_itself else None
    with harness.database.tenant(harness.tenant_id) as connection:
        messages, note = removal.link_successor(connection, replacement, successor, NOW, is_new=False)
    assert reason in note
    assert (messages, admin.execute("SELECT FROM document_deletion").fetchall()) == ([], [])


def test_missing_or_foreign_document_cannot_be_replaced(harness: TenantHarness, database: Database):
    other = TenantHarness(database, harness.admin, CASE[:1])
    with harness.database.tenant(harness.tenant_id) as connection:
        for id_ in (uuid4(), other.ids[0]):
            assert not removal.request_replacement(connection, harness.tenant_id, id_, FILE, NOW, by="ann")
