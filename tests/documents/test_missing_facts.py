"""Missing facts are listed, and a document without parties needs review."""

from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.documents import document_list, review
from counterfoil.documents.matching import sql
from counterfoil.documents.review import DecisionApplied, DecisionContext
from functions.matching.work import match
from tests.documents.matching.samples import SELLER, invoice, order
from tests.documents.matching.tenant_harness import NOW, Office

ANN = DecisionContext("ann", None)


@pytest.mark.parametrize(
    ("kind", "omitted", "missing"),
    [
        ("invoice", (), ()),
        ("invoice", ("issuer",), ("supplier",)),
        ("invoice", ("invoice_number", "recipient", "total_gross", "total_net"), ("number", "buyer", "total")),
        ("delivery_note", ("supplier", "delivery_date"), ("date", "supplier")),
        ("other", (), ()),
        (None, (), ()),
    ],
)
def test_missing_facts_are_listed(kind: str | None, omitted: tuple[str, ...], missing: tuple[str, ...]) -> None:
    party = {"name": "Firm"}
    data: dict[str, Any] = {
        "invoice_number": "1",
        "invoice_date": "2026-01-01",
        "delivery_note_number": "1",
        "delivery_date": "2026-01-01",
        "issuer": party,
        "recipient": party,
        "supplier": {"vat_id": "DE1"},
        "buyer": party,
        "total_gross": "1.00",
        "total_net": "1.00",
    }
    assert document_list.missing(kind, {name: value for name, value in data.items() if name not in omitted}) == missing


def test_document_without_data_lists_no_missing_facts() -> None:
    assert document_list.missing("invoice", None) == ()


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    """One order, and one invoice without parties."""
    office = Office(database, admin, [order(), invoice(seller=None, buyer=None)])
    match_document(office, 0)
    match_document(office, 1)
    return office


def match_document(office: Office, position: int) -> None:
    """Match a document like the worker."""
    outcome = match(TenantAttempt(office.ids[position], office.tenant_id, 1, 1, 1, office.database, lambda: NOW))
    with office.database.tenant(office.tenant_id) as connection:
        outcome.effects(connection)
    office.admin.execute("UPDATE document SET matching_status = NULL WHERE id = %s", [office.ids[position]])


def state_of(office: Office, id_: UUID) -> str | None:
    with office.database.tenant(office.tenant_id) as connection:
        found = sql.reviews(connection, [id_])
    return found[id_].state if id_ in found else None


def test_document_without_a_party_needs_review(office: Office) -> None:
    with office.database.tenant(office.tenant_id) as connection:
        first, second = document_list.page(
            connection, office.tenant_id, document_list.DocumentFilter(), limit=5
        ).documents

    incomplete = first if first.id == office.ids[1] else second
    assert (incomplete.cluster_status, incomplete.missing) == ("needs-review", ("supplier", "buyer"))
    assert state_of(office, office.ids[1]) == "open"
    assert state_of(office, office.ids[0]) is None


def test_merge_closes_the_review(office: Office) -> None:
    with office.database.tenant(office.tenant_id) as connection:
        done = review.merge(connection, office.tenant_id, office.ids[1], office.ids[0], NOW, ANN)

    assert isinstance(done, DecisionApplied)
    assert state_of(office, office.ids[1]) == "decided"


def test_decided_review_stays_closed_after_another_match(office: Office) -> None:
    with office.database.tenant(office.tenant_id) as connection:
        review.merge(connection, office.tenant_id, office.ids[1], office.ids[0], NOW, ANN)

    match_document(office, 1)

    assert state_of(office, office.ids[1]) == "decided"


def test_review_reopens_without_its_match(office: Office) -> None:
    with office.database.tenant(office.tenant_id) as connection:
        review.merge(connection, office.tenant_id, office.ids[1], office.ids[0], NOW, ANN)
    office.admin.execute("DELETE FROM document WHERE id = %s", [office.ids[0]])

    match_document(office, 1)

    assert state_of(office, office.ids[1]) == "open"


@pytest.mark.parametrize("by_split", [False, True])
def test_review_reopens_when_its_match_is_rejected(office: Office, by_split: bool) -> None:
    first, second = office.ids
    with office.database.tenant(office.tenant_id) as connection:
        review.merge(connection, office.tenant_id, second, first, NOW, ANN)

    with office.database.tenant(office.tenant_id) as connection:
        (decision,) = sql.decisions(connection, [second])
        known = DecisionContext("ann", None, frozenset({decision.id}))
        if by_split:
            done = review.split(connection, office.tenant_id, second, NOW, known)
        else:
            done = review.reject(connection, office.tenant_id, second, [first], NOW, known)

    assert isinstance(done, DecisionApplied)
    assert (state_of(office, second), state_of(office, first)) == ("open", None)


def test_review_closes_when_the_party_is_read(office: Office) -> None:
    office.admin.execute(
        "UPDATE document SET structured_data = jsonb_set(structured_data, '{issuer}', %s::jsonb) WHERE id = %s",
        [f'{{"name": "{SELLER["name"]}"}}', office.ids[1]],
    )

    match_document(office, 1)

    assert state_of(office, office.ids[1]) == "resolved"
