"""Decisions change edges, clusters and reviews, and apply to concurrent matches."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents import matching, removal, review
from counterfoil.documents.matching import sql
from counterfoil.documents.review import Answer, DecisionApplied, DecisionContext, DecisionRejected
from tests.dead_letters.audit_trail import verified_changes
from tests.documents.matching.samples import credit, delivery, invoice, line, order, receipt
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.documents.matching.test_judge import TWICE, duplicate_of

CLERK = DecisionContext("clerk", "checked the original")
AMBIGUOUS = {2: [[0, 1]]}
"""Open reviews of `harness`: invoice 2 fits orders 0 and 1, which have the same number."""


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=4)
    yield database
    database.close()


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    harness = TenantHarness(database, admin, TWICE)
    harness.match_all()
    assert harness.reviews() == AMBIGUOUS
    return harness


def act(
    harness: TenantHarness, action: str, *positions: int, context: DecisionContext = CLERK, exact: bool = False
) -> Answer:
    """Apply a reviewer's action to the documents at these positions."""
    ids = [harness.ids[position] for position in positions]
    with harness.database.tenant(harness.tenant_id) as connection:
        if action == "confirm":
            return review.confirm(connection, harness.tenant_id, ids[0], ids[1], NOW, context)
        if action == "reject":
            return review.reject(connection, harness.tenant_id, ids[0], ids[1:], NOW, context)
        if action == "merge":
            return review.merge(connection, harness.tenant_id, ids[0], ids[1], NOW, context, exact=exact)
        return review.split(connection, harness.tenant_id, ids[0], NOW, context)


def state(harness: TenantHarness, position: int) -> str | None:
    row = harness.admin.execute(
        "SELECT state FROM document_review WHERE document_id = %s", [harness.ids[position]]
    ).fetchone()
    return None if row is None else str(row[0])


def decisions(harness: TenantHarness) -> list[tuple[int, int, str]]:
    query = "SELECT document_a_id, document_b_id, decision FROM match_decision ORDER BY id"
    rows = harness.admin.execute(query).fetchall()
    return [(harness.ids.index(a), harness.ids.index(b), decision) for a, b, decision in rows]


def last_decision(harness: TenantHarness) -> int:
    """Return the id of the last decision."""
    row = harness.admin.execute("SELECT max(id) FROM match_decision").fetchone()
    assert row is not None
    return int(row[0])


# The review queue


def test_ambiguous_match_is_stored_with_evidence(harness: TenantHarness) -> None:
    row = harness.admin.execute(
        "SELECT ambiguous_matches, probability, weights_version, type FROM document_review"
    ).fetchone()
    assert row is not None
    ((ambiguous_match,), probability, weights, kind) = row
    assert (kind, ambiguous_match["kinds"], ambiguous_match["number"], ambiguous_match["count"]) == (
        "invoice",
        ["purchase_order"],
        "4711",
        2,
    )
    assert ambiguous_match["reason"] == "Two purchase orders with the number 4711 match equally well."
    assert (
        probability
        == ambiguous_match["candidates"][0]["probability"]
        >= ambiguous_match["candidates"][1]["probability"]
        > 0.1
    )
    for candidate in ambiguous_match["candidates"]:
        assert candidate["bits"] == pytest.approx(sum(bits for _, _, bits in candidate["evidence"]), abs=0.02)
    assert weights


def test_resolved_ambiguity_closes_the_review(harness: TenantHarness) -> None:
    with harness.database.tenant(harness.tenant_id) as connection:
        removed = removal.delete_document(connection, harness.tenant_id, harness.ids[0], NOW, by="clerk")
    assert removed is not None
    harness.match(2)
    assert (harness.links(), harness.reviews(), state(harness, 2)) == ({(1, 2)}, {}, "resolved")


def test_review_reopens_when_ambiguity_returns(harness: TenantHarness) -> None:
    act(harness, "confirm", 2, 0)
    assert state(harness, 2) == "decided"
    harness.file(duplicate_of(2))
    harness.match(3)
    assert state(harness, 2) == "decided"  # a reviewer's decision remains
    act(harness, "reject", 2, 0, context=DecisionContext("boss", None, [last_decision(harness)]))
    assert (set(harness.reviews()), state(harness, 2)) == ({2}, "open")


def test_any_of_many_candidates_can_be_confirmed(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "MAX_CANDIDATES", 2)
    harness = TenantHarness(database, admin, [*map(duplicate_of, range(5)), TWICE[2]])
    harness.match_all()
    row = admin.execute("SELECT ambiguous_matches FROM document_review").fetchone()
    assert row is not None
    ((ambiguous_match,),) = row
    assert (ambiguous_match["count"], len(ambiguous_match["candidates"]), len(ambiguous_match["other_candidates"])) == (
        5,
        2,
        3,
    )
    assert isinstance(
        act(harness, "confirm", 5, harness.ids.index(UUID(ambiguous_match["other_candidates"][2]))), DecisionApplied
    )
    assert harness.reviews() == {}


# Confirm and reject


def test_confirmed_candidate_is_linked_and_closes_review(harness: TenantHarness) -> None:
    decision_result = act(harness, "confirm", 2, 0)
    assert isinstance(decision_result, DecisionApplied)
    assert (harness.links(), harness.clusters()) == ({(0, 2)}, [0, 1, 0])
    assert (harness.reviews(), state(harness, 2), harness.reason(2)) == ({}, "decided", None)
    row = harness.admin.execute("SELECT decided_by, reasoning, confidence FROM document_match").fetchone()
    assert row == ("reviewer", "Confirmed by clerk: checked the original", "high")
    assert {harness.ids[0], harness.ids[2]} <= decision_result.clusters
    assert harness.admin.execute("SELECT count(*) FROM outbox WHERE worker = 'diagnostics'").fetchone() == (2,)


def test_rejecting_one_candidate_links_the_other(harness: TenantHarness) -> None:
    assert isinstance(act(harness, "reject", 2, 0), DecisionApplied)
    assert (harness.links(), harness.reviews(), state(harness, 2)) == ({(1, 2)}, {}, "decided")


def test_rejecting_all_candidates_leaves_document_unmatched(harness: TenantHarness) -> None:
    assert isinstance(act(harness, "reject", 2, 0, 1), DecisionApplied)
    harness.match_all()
    assert (harness.links(), harness.reviews(), state(harness, 2)) == (set(), {}, "decided")
    assert harness.reason(2) == "Names purchase order 4711, but a reviewer rejected the document with that number."


def test_rejecting_some_candidates_rematches_the_document(harness: TenantHarness) -> None:
    harness.match(harness.file(duplicate_of(2)))
    assert harness.reviews() == {2: [[0, 1, 3]]}
    decision_result = act(harness, "reject", 2, 1)
    assert isinstance(decision_result, DecisionApplied)
    assert (harness.reviews(), decision_result.rematched) == ({2: [[0, 3]]}, 1)
    rematched = harness.admin.execute("SELECT work_id FROM outbox WHERE worker = 'matching'").fetchall()
    assert rematched == [(harness.ids[2],)]


def test_rejected_edge_is_deleted_and_not_recreated(database: Database, admin: Connection) -> None:
    documents = [order("4711"), delivery(po_reference="4711"), invoice(po_reference="4711")]
    harness = TenantHarness(database, admin, documents)
    harness.match_all()
    assert harness.links() == {(0, 1), (0, 2), (1, 2)}
    assert isinstance(act(harness, "reject", 2, 0), DecisionApplied)
    assert harness.links() == {(0, 1)}
    before = harness.edges()
    admin.execute('UPDATE document SET structured_data = structured_data || \'{"notes": "read anew"}\'')
    harness.match_all(reversed(range(3)))
    assert harness.edges() == before


def test_rejected_indirect_link_is_not_recreated(database: Database, admin: Connection) -> None:
    harness = TenantHarness(
        database, admin, [order("4711"), delivery(po_reference="4711"), invoice(po_reference="4711")]
    )
    harness.match_all()
    assert isinstance(act(harness, "reject", 2, 1), DecisionApplied)
    harness.match_all()
    assert (harness.links(), harness.clusters()) == ({(0, 1), (0, 2)}, [0, 0, 0])


def test_confirming_a_pair_keeps_links_from_rules(database: Database, admin: Connection) -> None:
    documents = [
        order("4711"),
        delivery("LS-1", 6, po_reference="4711", lines=[line("A-100")]),
        delivery("LS-2", 8, po_reference="4711", lines=[line("A-200", "5", "12.50")]),
        invoice(po_reference="4711"),
    ]
    harness = TenantHarness(database, admin, documents)
    harness.match_all()
    before = harness.links()
    assert before == {(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)}
    for parent in (0, 1):
        assert isinstance(act(harness, "confirm", 3, parent), DecisionApplied)
        assert harness.links() == before
    harness.match_all()
    assert harness.links() == before


def test_rejected_duplicate_is_matched_like_an_original(database: Database, admin: Connection) -> None:
    documents = [
        order("4711"),
        invoice("R-1", 12, po_reference="4711"),
        invoice("R-1", 12, po_reference="4711", received=13),
    ]
    harness = TenantHarness(database, admin, documents)
    harness.match_all()
    assert harness.links() == {(0, 1), (1, 2)}
    assert isinstance(act(harness, "reject", 1, 2), DecisionApplied)
    assert harness.links() == {(0, 1), (0, 2)}
    harness.match_all([2, 1, 0])
    assert harness.links() == {(0, 1), (0, 2)}


def test_confirmed_edge_survives_duplicate_detection(database: Database, admin: Connection) -> None:
    harness = TenantHarness(
        database, admin, [*TWICE, TWICE[2]._replace(received_at=TWICE[2].received_at.replace(year=2025))]
    )
    harness.match_all([0, 1, 2])
    act(harness, "confirm", 2, 0)
    harness.match(3)
    assert {(0, 2), (2, 3)} <= harness.links()


def test_removing_a_document_deletes_its_decisions(harness: TenantHarness) -> None:
    act(harness, "reject", 2, 0)
    with harness.database.tenant(harness.tenant_id) as connection:
        removal.delete_document(connection, harness.tenant_id, harness.ids[0], NOW, by="clerk")
    assert decisions(harness) == []


# Merge and split


def test_clusters_are_merged_at_the_best_pair(database: Database, admin: Connection) -> None:
    documents = [
        order("4711"),
        delivery(po_reference="4711"),
        invoice("R-9", po_reference="B-1", lines=[line("Q-1")]),
        credit(invoice_reference="R-9", lines=[line("Q-1")]),
    ]
    harness = TenantHarness(database, admin, documents)
    harness.match_all()
    assert harness.clusters() == [0, 0, 2, 2]
    decision_result = act(harness, "merge", 1, 3)
    assert isinstance(decision_result, DecisionApplied)
    assert decision_result.pairs[0] in {matching.Pair.of(harness.ids[a], harness.ids[2]) for a in (0, 1)}
    assert harness.clusters() == [0, 0, 0, 0]
    assert isinstance(act(harness, "merge", 1, 3), DecisionRejected)
    assert isinstance(act(harness, "merge", 1, 3, exact=True), DecisionApplied)
    harness.match_all()
    assert (harness.clusters(), (1, 3) in harness.links()) == ([0, 0, 0, 0], True)


def test_split_document_remains_separate(database: Database, admin: Connection) -> None:
    documents = [
        order("4711"),
        delivery("LS-1", po_reference="4711"),
        receipt(delivery_note_reference="LS-1"),
        invoice(po_reference="4711"),
    ]
    harness = TenantHarness(database, admin, documents)
    harness.match_all()
    assert harness.clusters() == [0, 0, 0, 0]
    assert isinstance(act(harness, "split", 3), DecisionApplied)
    assert harness.clusters() == [0, 0, 0, 3]
    harness.match_all([3, 2, 1, 0])
    assert harness.clusters() == [0, 0, 0, 3]
    repeated = act(harness, "split", 3)
    assert repeated == DecisionRejected("changed", "The document is already alone in its cluster.")


def test_decisions_reach_the_audit_trail(harness: TenantHarness) -> None:
    first, second, invoice_id = (str(id_) for id_ in harness.ids)
    act(harness, "reject", 2, 1)
    act(harness, "split", 2)
    act(harness, "split", 2)  # rejected, because the document is already alone

    assert verified_changes(harness.admin, harness.tenant_id) == [
        ("clerk", "match rejected", sorted([second, invoice_id])),
        ("clerk", "match rejected", sorted([first, invoice_id])),
    ]


# Concurrency


def test_decided_pair_requires_superseding_the_decision(harness: TenantHarness) -> None:
    act(harness, "confirm", 2, 0)
    late = act(harness, "reject", 2, 0)
    assert isinstance(late, DecisionRejected)
    assert (late.reason, late.message[:35]) == ("changed", "clerk confirmed this pair on 2026-0")
    assert isinstance(act(harness, "confirm", 2, 0), DecisionRejected)
    assert decisions(harness) == [(0, 2, "confirmed")]
    assert isinstance(
        act(harness, "reject", 2, 0, context=DecisionContext("boss", None, [last_decision(harness)])), DecisionApplied
    )
    assert (harness.links(), decisions(harness)) == ({(1, 2)}, [(0, 2, "confirmed"), (0, 2, "rejected")])


def test_decision_about_unrelated_pair_is_rejected(harness: TenantHarness) -> None:
    harness.file(order("9", 300, seller={"name": "Far"}))
    harness.match(3)
    for action in ("confirm", "reject"):
        assert act(harness, action, 2, 3) == DecisionRejected(
            "changed", "The two documents are not linked, and neither is a candidate in the other's review."
        )
    with harness.database.tenant(harness.tenant_id) as connection:
        rejection = review.confirm(connection, harness.tenant_id, harness.ids[2], UUID(int=7), NOW, CLERK)
    assert isinstance(rejection, DecisionRejected)
    assert rejection.reason == "gone"
    assert decisions(harness) == []


def test_one_invalid_rejection_rejects_the_request(harness: TenantHarness) -> None:
    harness.file(order("9", 300, seller={"name": "Far"}))
    harness.match(3)
    assert isinstance(act(harness, "reject", 2, 0, 3), DecisionRejected)
    assert (harness.reviews(), decisions(harness)) == (AMBIGUOUS, [])


def test_concurrent_decision_applies_to_a_running_match(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [*TWICE, duplicate_of(2)])
    harness.match_all([0, 1, 3])
    pending_match = harness.search(2)
    harness.decide(0, 2, "rejected")
    assert harness.write(pending_match).was_repeated
    assert (harness.links(), harness.reviews()) == (set(), {2: [[1, 3]]})


def test_decision_about_unmatched_document_is_applied(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, TWICE)
    harness.match(0)
    assert isinstance(act(harness, "merge", 2, 0, exact=True), DecisionApplied)
    assert harness.links() == {(0, 2)}
    harness.match(1)
    harness.match(2)
    assert (harness.links(), harness.clusters(), harness.reviews()) == ({(0, 2)}, [0, 1, 0], {})


def test_merge_with_another_tenants_document_is_rejected(database: Database, admin: Connection) -> None:
    own, foreign = TenantHarness(database, admin, TWICE), TenantHarness(database, admin, TWICE)
    own.match_all()
    foreign.match_all()
    with database.tenant(own.tenant_id) as connection:
        decision_result = review.merge(connection, own.tenant_id, own.ids[2], foreign.ids[0], NOW, CLERK, exact=True)
    assert isinstance(decision_result, DecisionRejected)
    assert decision_result.reason == "gone"
    assert foreign.links() == set()
