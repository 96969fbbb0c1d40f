"""A new document takes the place of an old one in the case that it was part of."""

from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import begin
from counterfoil.documents import removal
from counterfoil.documents.files import File
from counterfoil.documents.removal import Replacement
from tests.dead_letters.trail import recorded
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import order
from tests.documents.test_removal import CASE, match_begun

FILE = File("uploads", "uploads/acme/1/order.xml", None)


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    """An office in which the papers of CASE are matched."""
    office = Office(database, admin, CASE)
    office.match_all()
    return office


def intended(office: Office, reason: str | None = None) -> Replacement:
    """The first document is to be replaced by FILE."""
    with office.database.tenant(office.tenant_id) as connection:
        assert removal.intend(connection, office.tenant_id, office.ids[0], FILE, NOW, by="ann", reason=reason)
        found = removal.intended(connection, office.tenant_id, FILE)
    assert found is not None
    return found


def test_a_new_document_takes_the_place_of_an_old_one(office: Office, admin: Connection):
    asked = intended(office, "typing error")
    assert recorded(admin, office.tenant_id) == [("ann", "document replacement requested", [str(office.ids[0])])]
    new = office.file(order(number="4712"))
    with office.database.tenant(office.tenant_id) as connection:
        _, told = removal.appoint(connection, asked, office.ids[new], NOW, is_new=True)
        begin(connection, "matching", [office.ids[new]], NOW)
    assert told == "It replaces an earlier document, which was removed."
    trail = admin.execute("SELECT document_id, removed_by, reason, replaced_by FROM document_removal").fetchall()
    assert trail == [(office.ids[0], "ann", "typing error", office.ids[new])]
    match_begun(office)
    assert {pair for pair in office.links() if 0 in pair} == set()
    with office.database.tenant(office.tenant_id) as connection:
        assert removal.intended(connection, office.tenant_id, FILE) is None


@pytest.mark.parametrize(
    ("is_itself", "told"),
    [(False, "is not one document"), (True, "the same file")],
    ids=["an archive", "the same file"],
)
def test_what_is_no_other_document_replaces_none(is_itself: bool, told: str, office: Office, admin: Connection):
    asked = intended(office)
    became: UUID | None = office.ids[0] if is_itself else None
    with office.database.tenant(office.tenant_id) as connection:
        sends, sentence = removal.appoint(connection, asked, became, NOW, is_new=False)
    assert told in sentence
    assert (sends, admin.execute("SELECT FROM document_removal").fetchall()) == ([], [])


def test_a_document_of_another_tenant_is_none_that_can_be_replaced(office: Office, database: Database):
    other = Office(database, office.admin, CASE[:1])
    with office.database.tenant(office.tenant_id) as connection:
        for id_ in (uuid4(), other.ids[0]):
            assert not removal.intend(connection, office.tenant_id, id_, FILE, NOW, by="ann")
