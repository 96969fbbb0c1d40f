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
from tests.documents.matching.tenant_harness import NOW, TenantHarness

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
def harness(database: Database, admin: Connection) -> TenantHarness:
    """A tenant with an order and an invoice without parties, after matching."""
    harness = TenantHarness(database, admin, [order(), invoice(seller=None, buyer=None)])
    match_document(harness, 0)
    match_document(harness, 1)
    return harness


def match_document(harness: TenantHarness, position: int) -> None:
    """Match a document as the worker does, then clear its matching status."""
    outcome = match(TenantAttempt(harness.ids[position], harness.tenant_id, 1, 1, 1, harness.database, lambda: NOW))
    with harness.database.tenant(harness.tenant_id) as connection:
        outcome.effects(connection)
    harness.admin.execute("UPDATE document SET matching_status = NULL WHERE id = %s", [harness.ids[position]])


def state_of(harness: TenantHarness, id_: UUID) -> str | None:
    with harness.database.tenant(harness.tenant_id) as connection:
        result = sql.reviews(connection, [id_])
    return result[id_].state if id_ in result else None


def test_document_without_parties_needs_review(harness: TenantHarness) -> None:
    with harness.database.tenant(harness.tenant_id) as connection:
        first, second = document_list.page(
            connection, harness.tenant_id, document_list.DocumentFilter(), limit=5
        ).documents

    incomplete = first if first.id == harness.ids[1] else second
    assert (incomplete.cluster_status, incomplete.missing) == ("needs-review", ("supplier", "buyer"))
    assert state_of(harness, harness.ids[1]) == "open"
    assert state_of(harness, harness.ids[0]) is None


def test_merge_closes_the_review(harness: TenantHarness) -> None:
    with harness.database.tenant(harness.tenant_id) as connection:
        result = review.merge(connection, harness.tenant_id, harness.ids[1], harness.ids[0], NOW, ANN)

    assert isinstance(result, DecisionApplied)
    assert state_of(harness, harness.ids[1]) == "decided"


def test_decided_review_stays_closed_after_another_match(harness: TenantHarness) -> None:
    with harness.database.tenant(harness.tenant_id) as connection:
        review.merge(connection, harness.tenant_id, harness.ids[1], harness.ids[0], NOW, ANN)

    match_document(harness, 1)

    assert state_of(harness, harness.ids[1]) == "decided"


def test_review_reopens_when_matched_document_is_deleted(harness: TenantHarness) -> None:
    with harness.database.tenant(harness.tenant_id) as connection:
        review.merge(connection, harness.tenant_id, harness.ids[1], harness.ids[0], NOW, ANN)
    harness.admin.execute("DELETE FROM document WHERE id = %s", [harness.ids[0]])

    match_document(harness, 1)

    assert state_of(harness, harness.ids[1]) == "open"


@pytest.mark.parametrize("by_split", [False, True])
def test_review_reopens_when_its_match_is_rejected(harness: TenantHarness, by_split: bool) -> None:
    first, second = harness.ids
    with harness.database.tenant(harness.tenant_id) as connection:
        review.merge(connection, harness.tenant_id, second, first, NOW, ANN)

    with harness.database.tenant(harness.tenant_id) as connection:
        (decision,) = sql.decisions(connection, [second])
        known = DecisionContext("ann", None, frozenset({decision.id}))
        if by_split:
            result = review.split(connection, harness.tenant_id, second, NOW, known)
        else:
            result = review.reject(connection, harness.tenant_id, second, [first], NOW, known)

    assert isinstance(result, DecisionApplied)
    assert (state_of(harness, second), state_of(harness, first)) == ("open", None)


def test_review_closes_when_a_party_is_extracted(harness: TenantHarness) -> None:
    harness.admin.execute(
        "UPDATE document SET structured_data = jsonb_set(structured_data, '{issuer}', %s::jsonb) WHERE id = %s",
        [f'{{"name": "{SELLER["name"]}"}}', harness.ids[1]],
    )

    match_document(harness, 1)

    assert state_of(harness, harness.ids[1]) == "resolved"
