"""Review decisions: effects on edges, clusters, reviews and concurrent matches."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents import matching, removal, review
from counterfoil.documents.matching import sql
from counterfoil.documents.review import Answer, DecisionApplied, DecisionContext, DecisionRejected
from tests.dead_letters.audit_trail import verified_changes
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import credit, delivery, invoice, line, order, receipt
from tests.documents.matching.test_judge import TWICE, again

CLERK = DecisionContext("clerk", "checked the original")
AMBIGUOUS = {2: [[0, 1]]}
"""An invoice that fits either of two orders with the same number."""


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=4)
    yield database
    database.close()


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    office = Office(database, admin, TWICE)
    office.match_all()
    assert office.reviews() == AMBIGUOUS
    return office


def act(office: Office, action: str, *positions: int, who: DecisionContext = CLERK, exact: bool = False) -> Answer:
    """Apply a reviewer's action to documents of the office."""
    ids = [office.ids[position] for position in positions]
    with office.database.tenant(office.tenant_id) as connection:
        if action == "confirm":
            return review.confirm(connection, office.tenant_id, ids[0], ids[1], NOW, who)
        if action == "reject":
            return review.reject(connection, office.tenant_id, ids[0], ids[1:], NOW, who)
        if action == "merge":
            return review.merge(connection, office.tenant_id, ids[0], ids[1], NOW, who, exact=exact)
        return review.split(connection, office.tenant_id, ids[0], NOW, who)


def state(office: Office, position: int) -> str | None:
    row = office.admin.execute(
        "SELECT state FROM document_review WHERE document_id = %s", [office.ids[position]]
    ).fetchone()
    return None if row is None else str(row[0])


def decisions(office: Office) -> list[tuple[int, int, str]]:
    query = "SELECT document_a_id, document_b_id, decision FROM match_decision ORDER BY id"
    rows = office.admin.execute(query).fetchall()
    return [(office.ids.index(a), office.ids.index(b), verdict) for a, b, verdict in rows]


def last_decision(office: Office) -> int:
    """Id of the last decision."""
    row = office.admin.execute("SELECT max(id) FROM match_decision").fetchone()
    assert row is not None
    return int(row[0])


# The queue


def test_ambiguous_match_is_stored_with_evidence(doubtful: Office) -> None:
    row = doubtful.admin.execute(
        "SELECT ambiguous_matches, probability, weights_version, type FROM document_review"
    ).fetchone()
    assert row is not None
    ((doubt,), probability, weights, kind) = row
    assert (kind, doubt["kinds"], doubt["number"], doubt["count"]) == ("invoice", ["purchase_order"], "4711", 2)
    assert doubt["reason"] == "Two documents fit equally: order 4711, order 4711."
    assert probability == doubt["candidates"][0]["probability"] >= doubt["candidates"][1]["probability"] > 0.1
    for candidate in doubt["candidates"]:
        assert candidate["bits"] == pytest.approx(sum(bits for _, _, bits in candidate["evidence"]), abs=0.02)
    assert weights


def test_resolved_ambiguity_closes_the_review(office: Office) -> None:
    with office.database.tenant(office.tenant_id) as connection:
        removed = removal.delete_document(connection, office.tenant_id, office.ids[0], NOW, by="clerk")
    assert removed is not None
    office.match(2)
    assert (office.links(), office.reviews(), state(office, 2)) == ({(1, 2)}, {}, "resolved")


def test_review_reopens_when_ambiguity_returns(office: Office) -> None:
    act(office, "confirm", 2, 0)
    assert state(office, 2) == "decided"
    office.file(again(2))
    office.match(3)
    assert state(office, 2) == "decided"  # a reviewer has decided
    act(office, "reject", 2, 0, who=DecisionContext("boss", None, [last_decision(office)]))
    assert (set(office.reviews()), state(office, 2)) == ({2}, "open")


def test_any_of_many_candidates_can_be_confirmed(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "MAX_CANDIDATES", 2)
    office = Office(database, admin, [*map(again, range(5)), TWICE[2]])
    office.match_all()
    row = admin.execute("SELECT ambiguous_matches FROM document_review").fetchone()
    assert row is not None
    ((doubt,),) = row
    assert (doubt["count"], len(doubt["candidates"]), len(doubt["others"])) == (5, 2, 3)
    assert isinstance(act(office, "confirm", 5, office.ids.index(UUID(doubt["others"][2]))), DecisionApplied)
    assert office.reviews() == {}


# Confirm and reject


def test_confirmed_candidate_is_linked_and_closes_review(office: Office) -> None:
    answer = act(office, "confirm", 2, 0)
    assert isinstance(answer, DecisionApplied)
    assert (office.links(), office.clusters()) == ({(0, 2)}, [0, 1, 0])
    assert (office.reviews(), state(office, 2), office.reason(2)) == ({}, "decided", None)
    row = office.admin.execute("SELECT decided_by, reasoning, confidence FROM document_match").fetchone()
    assert row == ("reviewer", "Confirmed by clerk: looked at the paper", "high")
    assert {office.ids[0], office.ids[2]} <= answer.clusters
    assert office.admin.execute("SELECT count(*) FROM outbox WHERE worker = 'diagnostics'").fetchone() == (2,)


def test_rejecting_one_candidate_links_the_other(office: Office) -> None:
    assert isinstance(act(office, "reject", 2, 0), DecisionApplied)
    assert (office.links(), office.reviews(), state(office, 2)) == ({(1, 2)}, {}, "decided")


def test_rejecting_all_candidates_leaves_document_unmatched(office: Office) -> None:
    assert isinstance(act(office, "reject", 2, 0, 1), DecisionApplied)
    office.match_all()
    assert (office.links(), office.reviews(), state(office, 2)) == (set(), {}, "decided")
    assert office.reason(2) == "Names order 4711, but a reviewer rejected the document with that number."


def test_changed_ambiguity_rematches_the_document(office: Office) -> None:
    office.match(office.file(again(2)))
    assert office.reviews() == {2: [[0, 1, 3]]}
    answer = act(office, "reject", 2, 1)
    assert isinstance(answer, DecisionApplied)
    assert (office.reviews(), answer.rematched) == ({2: [[0, 3]]}, 1)
    rematched = office.admin.execute("SELECT work_id FROM outbox WHERE worker = 'matching'").fetchall()
    assert rematched == [(office.ids[2],)]


def test_rejected_edge_is_deleted_and_not_recreated(database: Database, admin: Connection) -> None:
    documents = [order("4711"), delivery(po_reference="4711"), invoice(po_reference="4711")]
    office = Office(database, admin, documents)
    office.match_all()
    assert office.links() == {(0, 1), (0, 2), (1, 2)}
    assert isinstance(act(office, "reject", 2, 0), DecisionApplied)
    assert office.links() == {(0, 1)}
    before = office.edges()
    admin.execute('UPDATE document SET structured_data = structured_data || \'{"notes": "read anew"}\'')
    office.match_all(reversed(range(3)))
    assert office.edges() == before


def test_rejected_indirect_link_is_not_recreated(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), delivery(po_reference="4711"), invoice(po_reference="4711")])
    office.match_all()
    assert isinstance(act(office, "reject", 2, 1), DecisionApplied)
    office.match_all()
    assert (office.links(), office.clusters()) == ({(0, 1), (0, 2)}, [0, 0, 0])


def test_confirmed_link_keeps_links_made_by_rules(database: Database, admin: Connection) -> None:
    documents = [
        order("4711"),
        delivery("LS-1", 6, po_reference="4711", lines=[line("A-100")]),
        delivery("LS-2", 8, po_reference="4711", lines=[line("A-200", "5", "12.50")]),
        invoice(po_reference="4711"),
    ]
    office = Office(database, admin, documents)
    office.match_all()
    before = office.links()
    assert before == {(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)}
    for parent in (0, 1):
        assert isinstance(act(office, "confirm", 3, parent), DecisionApplied)
        assert office.links() == before
    office.match_all()
    assert office.links() == before


def test_rejected_duplicate_gets_its_own_matches(database: Database, admin: Connection) -> None:
    documents = [
        order("4711"),
        invoice("R-1", 12, po_reference="4711"),
        invoice("R-1", 12, po_reference="4711", received=13),
    ]
    office = Office(database, admin, documents)
    office.match_all()
    assert office.links() == {(0, 1), (1, 2)}
    assert isinstance(act(office, "reject", 1, 2), DecisionApplied)
    assert office.links() == {(0, 1), (0, 2)}
    office.match_all([2, 1, 0])
    assert office.links() == {(0, 1), (0, 2)}


def test_confirmed_edge_survives_duplicate_detection(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [*TWICE, TWICE[2]._replace(received_at=TWICE[2].received_at.replace(year=2025))])
    office.match_all([0, 1, 2])
    act(office, "confirm", 2, 0)
    office.match(3)
    assert {(0, 2), (2, 3)} <= office.links()


def test_removed_document_deletes_its_decisions(office: Office) -> None:
    act(office, "reject", 2, 0)
    with office.database.tenant(office.tenant_id) as connection:
        removal.delete_document(connection, office.tenant_id, office.ids[0], NOW, by="clerk")
    assert decisions(office) == []


# Merge and split


def test_clusters_are_merged_at_the_best_pair(database: Database, admin: Connection) -> None:
    documents = [
        order("4711"),
        delivery(po_reference="4711"),
        invoice("R-9", po_reference="B-1", lines=[line("Q-1")]),
        credit(invoice_reference="R-9", lines=[line("Q-1")]),
    ]
    office = Office(database, admin, documents)
    office.match_all()
    assert office.clusters() == [0, 0, 2, 2]
    answer = act(office, "merge", 1, 3)
    assert isinstance(answer, DecisionApplied)
    assert answer.decided[0] in {matching.Pair.of(office.ids[a], office.ids[2]) for a in (0, 1)}
    assert office.clusters() == [0, 0, 0, 0]
    assert isinstance(act(office, "merge", 1, 3), DecisionRejected)
    assert isinstance(act(office, "merge", 1, 3, exact=True), DecisionApplied)
    office.match_all()
    assert (office.clusters(), (1, 3) in office.links()) == ([0, 0, 0, 0], True)


def test_split_document_stays_separate(database: Database, admin: Connection) -> None:
    documents = [
        order("4711"),
        delivery("LS-1", po_reference="4711"),
        receipt(delivery_note_reference="LS-1"),
        invoice(po_reference="4711"),
    ]
    office = Office(database, admin, documents)
    office.match_all()
    assert office.clusters() == [0, 0, 0, 0]
    assert isinstance(act(office, "split", 3), DecisionApplied)
    assert office.clusters() == [0, 0, 0, 3]
    office.match_all([3, 2, 1, 0])
    assert office.clusters() == [0, 0, 0, 3]
    again = act(office, "split", 3)
    assert again == DecisionRejected("changed", "The document is already alone in its cluster.")


def test_decisions_reach_the_audit_trail(office: Office) -> None:
    first, second, invoice_id = (str(id_) for id_ in office.ids)
    act(office, "reject", 2, 1)
    act(office, "split", 2)
    act(office, "split", 2)  # refused: it is alone now

    assert verified_changes(office.admin, office.tenant_id) == [
        ("clerk", "match rejected", sorted([second, invoice_id])),
        ("clerk", "match rejected", sorted([first, invoice_id])),
    ]


# Concurrency


def test_decided_pair_requires_superseding_the_decision(office: Office) -> None:
    act(office, "confirm", 2, 0)
    late = act(office, "reject", 2, 0)
    assert isinstance(late, DecisionRejected)
    assert (late.why, late.message[:35]) == ("changed", "clerk confirmed this pair on 2026-0")
    assert isinstance(act(office, "confirm", 2, 0), DecisionRejected)
    assert decisions(office) == [(0, 2, "confirmed")]
    assert isinstance(
        act(office, "reject", 2, 0, who=DecisionContext("boss", None, [last_decision(office)])), DecisionApplied
    )
    assert (office.links(), decisions(office)) == ({(1, 2)}, [(0, 2, "confirmed"), (0, 2, "rejected")])


def test_unrelated_pair_is_refused(office: Office) -> None:
    office.file(order("9", 300, seller={"name": "Far"}))
    office.match(3)
    for action in ("confirm", "reject"):
        assert act(office, action, 2, 3) == DecisionRejected(
            "changed", "The two documents are not linked, and neither needs review because of the other."
        )
    with office.database.tenant(office.tenant_id) as connection:
        gone = review.confirm(connection, office.tenant_id, office.ids[2], UUID(int=7), NOW, CLERK)
    assert isinstance(gone, DecisionRejected)
    assert gone.why == "gone"
    assert decisions(office) == []


def test_one_invalid_rejection_refuses_all(office: Office) -> None:
    office.file(order("9", 300, seller={"name": "Far"}))
    office.match(3)
    assert isinstance(act(office, "reject", 2, 0, 3), DecisionRejected)
    assert (office.reviews(), decisions(office)) == (AMBIGUOUS, [])


def test_running_match_sees_concurrent_decision(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [*TWICE, again(2)])
    office.match_all([0, 1, 3])
    decided = office.search(2)
    office.decide(0, 2, "rejected")
    assert office.write(decided).decided_again
    assert (office.links(), office.reviews()) == (set(), {2: [[1, 3]]})


def test_unmatched_document_can_be_decided(database: Database, admin: Connection) -> None:
    office = Office(database, admin, TWICE)
    office.match(0)
    assert isinstance(act(office, "merge", 2, 0, exact=True), DecisionApplied)
    assert office.links() == {(0, 2)}
    office.match(1)
    office.match(2)
    assert (office.links(), office.clusters(), office.reviews()) == ({(0, 2)}, [0, 1, 0], {})


def test_decision_cannot_reach_other_tenants_documents(database: Database, admin: Connection) -> None:
    ours, theirs = Office(database, admin, TWICE), Office(database, admin, TWICE)
    ours.match_all()
    theirs.match_all()
    with database.tenant(ours.tenant_id) as connection:
        answer = review.merge(connection, ours.tenant_id, ours.ids[2], theirs.ids[0], NOW, CLERK, exact=True)
    assert isinstance(answer, DecisionRejected)
    assert answer.why == "gone"
    assert theirs.links() == set()
