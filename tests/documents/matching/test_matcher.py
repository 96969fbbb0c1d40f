"""The matcher is correct with row-level security and concurrent transactions."""

import dataclasses
import json
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents import matching
from counterfoil.documents.matching import matcher, reading, sql
from counterfoil.documents.matching.reading import BatchReader, Context, run
from counterfoil.documents.matching.sql import Pair
from counterfoil.errors import PermanentError
from tests import factories
from tests.documents.matching.reference_matching import ReferenceMatching
from tests.documents.matching.samples import contract, delivery, invoice, line, order, random_samples, read
from tests.documents.matching.tenant_harness import NOW, TenantHarness


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


def test_document_without_structured_data_is_skipped(database: Database, admin: Connection) -> None:
    tenant_id = factories.make_tenant(admin)
    unextracted_id = factories.make_document(admin, tenant_id)
    decision = matching.search_and_decide(database, tenant_id, unextracted_id)
    assert isinstance(decision, matching.SkipMatching)
    assert "No structured data" in decision.reason


def test_document_of_type_other_is_skipped(database: Database, admin: Connection) -> None:
    tenant_id = factories.make_tenant(admin)
    letter = factories.make_document(admin, tenant_id, {"subject": "Letter"}, type="other")
    assert isinstance(matching.search_and_decide(database, tenant_id, letter), matching.SkipMatching)


def test_document_without_parties_is_skipped(database: Database, admin: Connection) -> None:
    sample = invoice(seller=None, buyer=None)
    harness = TenantHarness(database, admin, [sample])
    match_result = harness.match(0)
    assert isinstance(match_result, matching.SkipMatching)
    assert "counterparty" in match_result.reason


def test_missing_document_is_a_permanent_error(database: Database, admin: Connection) -> None:
    with pytest.raises(PermanentError):
        matching.search_and_decide(database, factories.make_tenant(admin), uuid4())


def test_other_tenants_document_is_not_found(database: Database, admin: Connection) -> None:
    harness, other_harness = TenantHarness(database, admin, [invoice()]), TenantHarness(database, admin)
    with pytest.raises(PermanentError):
        matching.search_and_decide(database, other_harness.tenant_id, harness.ids[0])


def test_rematching_writes_the_same_keys(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [invoice(po_reference="4711")])
    keys = "SELECT type, value FROM document_key ORDER BY type, value"
    harness.match(0)
    before = admin.execute(keys).fetchall()
    harness.match(0)
    assert admin.execute(keys).fetchall() == before != []


def test_match_stores_its_evidence(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="PO-4711")])
    harness.match_all()
    row = admin.execute(
        "SELECT score, confidence, evidence, decided_by, reasoning, decided_at, document_a_id < document_b_id"
        " FROM document_match"
    ).fetchone()
    assert row is not None
    score, confidence, evidence, decided_by, reasoning, decided_at, ordered = row
    assert (confidence, decided_by, decided_at, ordered) == ("high", "rules", NOW, True)
    assert sum(weight for _, _, weight in evidence["features"]) == pytest.approx(score)
    assert reasoning.startswith("Same ")
    assert evidence["child"] == str(harness.ids[1])


def test_write_result_counts_changes(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="4711")])
    harness.match(0)
    first, second = harness.ids[:2]
    both = frozenset({first, second})
    assert harness.match(1) == matching.MatchResult(1, 0, 1, False, None, frozenset({first}), both)
    assert harness.match(1) == matching.MatchResult(0, 0, 0, False, None, frozenset(), frozenset({second}))


def test_reason_names_missing_order_until_it_arrives(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [invoice(po_reference="4711"), order("4711")])
    harness.match(0)
    assert harness.reason(0) == "Names purchase order 4711, which has not been received."
    harness.match(1)
    assert harness.links() == {(0, 1)}
    assert harness.reason(0) is None


def test_second_equal_order_removes_content_match_with_reason(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(), order("4712", 1)])
    harness.match(0)
    harness.match(1)
    assert harness.links() == {(0, 1)}
    harness.match(2)
    assert harness.links() == set()
    assert harness.clusters() == [0, 1, 2]
    assert harness.reason(1) == "Two documents match equally well: purchase order 4711, purchase order 4712."


def open_searches(harness: TenantHarness) -> set[tuple[int, str]]:
    """Return each document that seeks a parent, by position, with the parent's type."""
    rows = harness.admin.execute(
        "SELECT document_id, type FROM document_key WHERE tenant_id = %s AND starts_with(type, 'seeks:')",
        [harness.tenant_id],
    ).fetchall()
    return {(harness.ids.index(id_), type_.removeprefix("seeks:")) for id_, type_ in rows}


def test_referenced_order_ends_search_by_similarity(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [invoice(po_reference="4711"), invoice("R-2", 3), order("4711")])
    harness.match(0)
    harness.match(1)
    assert {(0, "purchase_order"), (1, "purchase_order")} <= open_searches(harness)
    harness.match(2)
    assert {position for position, _ in open_searches(harness)} == {1, 2}  # order 2 still seeks a contract
    harness.decide(0, 2, "rejected")
    assert (0, "purchase_order") in open_searches(harness)


def test_contract_does_not_join_clusters(database: Database, admin: Connection) -> None:
    samples = [
        contract("RV-60"),
        order("4711", contract_reference="RV-60"),
        order("4800", 40, contract_reference="RV-60"),
    ]
    harness = TenantHarness(database, admin, samples)
    harness.match_all()
    assert harness.links() == {(0, 1), (0, 2)}
    assert harness.clusters() == [0, 1, 2]


def test_match_never_links_two_tenants(database: Database, admin: Connection) -> None:
    samples = [order("4711"), invoice(po_reference="4711")]
    harness, other_harness = TenantHarness(database, admin, samples[:1]), TenantHarness(database, admin, samples[1:])
    harness.match_all()
    other_harness.match_all()
    assert harness.links() == other_harness.links() == set()


def test_new_order_before_write_forces_new_decision(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(), order("4712", 1)])
    harness.match(0)
    pending_match = harness.search(1)  # finds only the first order
    harness.match(2)
    assert harness.write(pending_match).was_repeated
    assert harness.links() == set()


def test_reviewers_decision_before_write_applies(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="4711")])
    harness.match(0)
    pending_match = harness.search(1)
    harness.decide(0, 1, "rejected")
    assert harness.write(pending_match).was_repeated
    assert harness.links() == set()


def test_new_candidate_does_not_reset_review_age(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), order("4712", 1), invoice(), order("4713", 2)])
    for position in range(3):
        harness.match(position)
    assert harness.reviews() == {2: [[0, 1]]}
    opened_at = NOW - timedelta(days=3)
    admin.execute("UPDATE document_review SET opened_at = %s, changed_at = %s", [opened_at, opened_at])

    harness.match(3)

    assert harness.reviews() == {2: [[0, 1, 3]]}
    assert admin.execute("SELECT opened_at, changed_at FROM document_review").fetchall() == [(opened_at, NOW)]


def test_unrelated_match_forces_no_new_decision(database: Database, admin: Connection) -> None:
    harness = TenantHarness(
        database, admin, [order("4711"), invoice(po_reference="4711"), order("X-9", 400, seller={"name": "Far"})]
    )
    harness.match(0)
    pending_match = harness.search(1)
    harness.match(2)
    assert not harness.write(pending_match).was_repeated


def test_edge_added_between_reads_appears_at_one_end(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="4711")])
    harness.match(0)
    first, second = harness.ids
    with database.tenant(harness.tenant_id) as connection:
        context = Context(BatchReader(connection, harness.tenant_id, reading.DocumentCache()))
        run(context.read_edges([first]))
        harness.match(1)
        run(context.read_edges([second]))
    assert (context.edges(first), [edge.pair for edge in context.edges(second)]) == ([], [Pair.of(first, second)])


def test_edge_seen_from_one_end_forces_new_decision(database: Database, admin: Connection) -> None:
    far = order("X-9", 400, seller={"name": "Far"})
    harness = TenantHarness(
        database, admin, [order("4711"), invoice(po_reference="4711"), delivery(po_reference="4711"), far]
    )
    harness.match(0)
    harness.match(1)
    pending_match = harness.search(2)
    assert Pair.of(*harness.ids[:2]) in pending_match.edges[harness.ids[0]]
    harness.match(3)
    halved = dataclasses.replace(pending_match, edges={**pending_match.edges, harness.ids[0]: {}})
    assert harness.write(halved).was_repeated
    assert harness.links() == {(0, 1), (0, 2), (1, 2)}


def test_changed_candidate_forces_new_decision(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="4711")])
    harness.match(0)
    pending_match = harness.search(1)
    corrected = order("9999", 400, seller={"name": "Far"}, lines=[line("Z-9")])
    admin.execute(
        "UPDATE document SET structured_data = %s WHERE id = %s", [json.dumps(corrected.data), harness.ids[0]]
    )
    harness.match(0)
    assert harness.write(pending_match).was_repeated
    assert harness.links() == set()


def test_withdrawn_candidate_forces_new_decision(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="4711")])
    harness.match(0)
    pending_match = harness.search(1)
    assert pending_match.outcome.added
    admin.execute("UPDATE document SET structured_data = NULL WHERE id = %s", [harness.ids[0]])
    with database.tenant(harness.tenant_id) as connection:
        assert matching.withdraw(connection, harness.tenant_id, harness.ids[0], NOW) is not None
    assert harness.write(pending_match).was_repeated
    assert harness.links() == set()


def test_keys_of_killed_attempt_do_not_change_matches(database: Database, admin: Connection) -> None:
    harness = TenantHarness(
        database, admin, [order("4711"), order("4711", 1, lines=[line("B")]), invoice(po_reference="4711")]
    )
    harness.match_all([0, 1])
    pending_match = harness.search(2)
    with database.tenant(harness.tenant_id) as connection:  # an attempt commits its keys before it calls the model
        sql.write(connection, harness.tenant_id, {harness.ids[2]: pending_match.keys})
    harness.match(1)
    harness.match(2)
    reference = TenantHarness(
        database, admin, [order("4711"), order("4711", 1, lines=[line("B")]), invoice(po_reference="4711")]
    )
    reference.match_all()
    assert (harness.edges(), harness.clusters(), harness.reviews()) == (
        reference.edges(),
        reference.clusters(),
        reference.reviews(),
    )


@pytest.mark.parametrize("rejoined", [True, False])
def test_confirmed_match_survives_rematching(database: Database, admin: Connection, *, rejoined: bool) -> None:
    harness = TenantHarness(
        database, admin, [order("4711"), invoice(po_reference="4711" if rejoined else "B-1", lines=[line("Q")])]
    )
    admin.execute(
        "INSERT INTO document_match (tenant_id, document_a_id, document_b_id, score, confidence, evidence, decided_by,"
        " reasoning, decided_at)"
        " VALUES (%s, %s, %s, 1, 'high', '{}', 'reviewer', 'I know it', %s)",
        [harness.tenant_id, *harness.ids, NOW],
    )
    harness.match_all()
    harness.match_all()
    assert harness.edges() == {(0, 1): (None, 1.0)}
    assert harness.clusters() == [0, 0]


def test_rejected_invoice_frees_order_for_another_invoice(database: Database, admin: Connection) -> None:
    harness = TenantHarness(
        database, admin, [order("4711"), invoice("R-1", 8, po_reference="4711"), invoice("R-2", 16)]
    )
    harness.match_all()
    assert harness.links() == {(0, 1)}

    harness.decide(0, 1, "rejected")
    harness.match(2)

    assert harness.links() == {(0, 2)}


def test_changed_data_moves_document_to_new_partner(database: Database, admin: Connection) -> None:
    harness = TenantHarness(
        database,
        admin,
        [
            order("4711", lines=[line("A")]),
            order("4800", lines=[line("B")]),
            invoice(po_reference="4711", lines=[line("A")]),
        ],
    )
    harness.match_all()
    assert harness.links() == {(0, 2)}
    corrected = invoice(po_reference="4800", lines=[line("B")])
    admin.execute(
        "UPDATE document SET structured_data = %s WHERE id = %s", [json.dumps(corrected.data), harness.ids[2]]
    )
    harness.match(2)
    assert harness.links() == {(1, 2)}
    assert harness.clusters() == [0, 1, 1]
    assert admin.execute(
        "SELECT count(*) FROM document_key WHERE value = '4711' AND type = 'names:purchase_order'"
    ).fetchone() == (0,)


@pytest.mark.parametrize("seed", range(100, 104))
def test_changed_data_leaves_no_outdated_edges(database: Database, admin: Connection, seed: int) -> None:
    samples, other = random_samples(seed, 20), random_samples(seed + 50, 20)
    harness = TenantHarness(database, admin, samples)
    harness.match_all()
    changed = [
        sample._replace(received_at=samples[n].received_at) if n % 4 == 0 else samples[n]
        for n, sample in enumerate(other)
    ]
    for position in range(0, len(samples), 4):
        admin.execute(
            "UPDATE document SET structured_data = %s, type = %s WHERE id = %s",
            [json.dumps(changed[position].data), changed[position].kind, harness.ids[position]],
        )
        harness.match(position)
    reference = TenantHarness(database, admin, changed)
    reference.match_all()
    assert (harness.edges(), harness.clusters()) == (reference.edges(), reference.clusters())


@pytest.mark.parametrize("seed", range(200, 205))
def test_incremental_matching_equals_reference_matching(database: Database, admin: Connection, seed: int) -> None:
    samples = random_samples(seed, 30)
    harness = TenantHarness(database, admin, samples)
    harness.match_all()
    reference = ReferenceMatching([read(sample, position + 1) for position, sample in enumerate(samples)])
    expected = {
        (min(link.child.int, link.parent.int) - 1, max(link.child.int, link.parent.int) - 1): (
            link.by,
            round(link.score.total, 6),
        )
        for link in reference.links()
    }
    assert harness.edges() == expected


def test_key_over_its_document_limit_finds_nothing(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "MAX_DOCUMENTS_PER_KEY", 2)
    unnamed = [
        {name: value for name, value in line("A").items() if name != "article_number"}
    ]  # without article numbers, no article keys
    samples = [order("4711", lines=unnamed), invoice(lines=unnamed)]
    samples += [order(f"B-{n}", lines=[line(f"Q-{n}")]) for n in range(2)]
    harness = TenantHarness(database, admin, samples)
    harness.match(0)
    harness.match(1)
    assert harness.links() == {(0, 1)}
    harness.match(2)
    harness.match(3)
    assert harness.links() == set()


def test_orders_sharing_keys_are_counted_but_not_read(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = TenantHarness(database, admin, [order(str(number)) for number in range(4711, 4715)])
    harness.match_all(range(3))
    monkeypatch.setattr(matcher, "CACHE", reading.DocumentCache())

    pending_match = harness.search(3)

    assert set(pending_match.remaining_capacity.values()) == {sql.MAX_DOCUMENTS_PER_KEY - 4}
    assert not matcher.CACHE._entries


@pytest.mark.parametrize("most", [2, 5])
def test_arrival_order_is_irrelevant_despite_key_limits(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(sql, "MAX_DOCUMENTS_PER_KEY", most)
    samples = random_samples(11, 25)
    harness, backwards = TenantHarness(database, admin, samples), TenantHarness(database, admin, samples)
    harness.match_all()
    backwards.match_all(reversed(range(len(samples))))
    assert (harness.edges(), harness.clusters()) == (backwards.edges(), backwards.clusters())


@pytest.mark.parametrize(("most", "longest"), [(0, 4_000), (1, 4_000), (50, 0), (50, 400)])
def test_cache_and_read_limits_do_not_change_edges(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch, most: int, longest: int
) -> None:
    samples = random_samples(11, 25)
    combined, separate = TenantHarness(database, admin, samples), TenantHarness(database, admin, samples)
    combined.match_all()
    monkeypatch.setattr(matcher, "CACHE", reading.DocumentCache())
    monkeypatch.setattr(reading, "MAX_CACHED_DOCUMENTS", most)
    monkeypatch.setattr(reading, "MAX_CACHED_BYTES", longest)
    separate.match_all()
    assert combined.links()
    assert (combined.edges(), combined.clusters()) == (separate.edges(), separate.clusters())


def test_later_delivery_is_linked_to_invoice_and_order(database: Database, admin: Connection) -> None:
    harness = TenantHarness(
        database, admin, [order("4711"), invoice(po_reference="4711"), delivery(po_reference="4711")]
    )
    harness.match_all()
    assert harness.links() == {(0, 1), (0, 2), (1, 2)}
