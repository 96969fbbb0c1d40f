"""Search and write on PostgreSQL, with row-level security and concurrency."""

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
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import contract, delivery, invoice, line, order, pile, read
from tests.documents.matching.whole import Whole


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


def test_document_without_structured_data_is_skipped(database: Database, admin: Connection) -> None:
    tenant_id = factories.make_tenant(admin)
    unread = factories.make_document(admin, tenant_id)
    found = matching.search_and_decide(database, tenant_id, unread)
    assert isinstance(found, matching.SkipMatching)
    assert "No structured data" in found.reason


def test_unknown_document_type_is_skipped(database: Database, admin: Connection) -> None:
    tenant_id = factories.make_tenant(admin)
    letter = factories.make_document(admin, tenant_id, {"subject": "Letter"}, type="other")
    assert isinstance(matching.search_and_decide(database, tenant_id, letter), matching.SkipMatching)


def test_document_without_parties_is_skipped(database: Database, admin: Connection) -> None:
    sample = invoice(seller=None, buyer=None)
    office = Office(database, admin, [sample])
    found = office.match(0)
    assert isinstance(found, matching.SkipMatching)
    assert "counterparty" in found.reason


def test_missing_document_is_a_permanent_error(database: Database, admin: Connection) -> None:
    with pytest.raises(PermanentError):
        matching.search_and_decide(database, factories.make_tenant(admin), uuid4())


def test_other_tenants_document_is_not_found(database: Database, admin: Connection) -> None:
    office, stranger = Office(database, admin, [invoice()]), Office(database, admin)
    with pytest.raises(PermanentError):
        matching.search_and_decide(database, stranger.tenant_id, office.ids[0])


def test_rematching_writes_the_same_keys(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [invoice(po_reference="4711")])
    keys = "SELECT type, value FROM document_key ORDER BY type, value"
    office.match(0)
    before = admin.execute(keys).fetchall()
    office.match(0)
    assert admin.execute(keys).fetchall() == before != []


def test_match_stores_its_evidence(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), invoice(po_reference="PO-4711")])
    office.match_all()
    row = admin.execute(
        "SELECT score, confidence, evidence, decided_by, reasoning, decided_at, document_a_id < document_b_id"
        " FROM document_match"
    ).fetchone()
    assert row is not None
    score, confidence, evidence, decided_by, reasoning, decided_at, ordered = row
    assert (confidence, decided_by, decided_at, ordered) == ("high", "rules", NOW, True)
    assert sum(weight for _, _, weight in evidence["features"]) == pytest.approx(score)
    assert reasoning.startswith("Same ")
    assert evidence["child"] == str(office.ids[1])


def test_write_result_counts_changes(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), invoice(po_reference="4711")])
    office.match(0)
    first, second = office.ids[:2]
    both = frozenset({first, second})
    assert office.match(1) == matching.MatchResult(1, 0, 1, False, None, frozenset({first}), both)
    assert office.match(1) == matching.MatchResult(0, 0, 0, False, None, frozenset(), frozenset({second}))


def test_reason_names_missing_order_until_it_arrives(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [invoice(po_reference="4711"), order("4711")])
    office.match(0)
    assert office.reason(0) == "Names order 4711, which has not been received."
    office.match(1)
    assert office.links() == {(0, 1)}
    assert office.reason(0) is None


def test_second_order_retracts_content_match_with_reason(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), invoice(), order("4712", 1)])
    office.match(0)
    office.match(1)
    assert office.links() == {(0, 1)}
    office.match(2)
    assert office.links() == set()
    assert office.clusters() == [0, 1, 2]
    assert office.reason(1) == "Two documents fit equally: order 4711, order 4712."


def open_searches(office: Office) -> set[tuple[int, str]]:
    """Return (position, parent type) of each document that still seeks a parent."""
    rows = office.admin.execute(
        "SELECT document_id, type FROM document_key WHERE tenant_id = %s AND starts_with(type, 'seeks:')",
        [office.tenant_id],
    ).fetchall()
    return {(office.ids.index(id_), type_.removeprefix("seeks:")) for id_, type_ in rows}


def test_named_partner_ends_search_by_similarity(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [invoice(po_reference="4711"), invoice("R-2", 3), order("4711")])
    office.match(0)
    office.match(1)
    assert {(0, "purchase_order"), (1, "purchase_order")} <= open_searches(office)
    office.match(2)
    assert {position for position, _ in open_searches(office)} == {1, 2}  # the order may still match a contract
    office.decide(0, 2, "rejected")
    assert (0, "purchase_order") in open_searches(office)


def test_contract_does_not_join_clusters(database: Database, admin: Connection) -> None:
    samples = [
        contract("RV-60"),
        order("4711", contract_reference="RV-60"),
        order("4800", 40, contract_reference="RV-60"),
    ]
    office = Office(database, admin, samples)
    office.match_all()
    assert office.links() == {(0, 1), (0, 2)}
    assert office.clusters() == [0, 1, 2]


def test_match_never_links_two_tenants(database: Database, admin: Connection) -> None:
    samples = [order("4711"), invoice(po_reference="4711")]
    here, there = Office(database, admin, samples[:1]), Office(database, admin, samples[1:])
    here.match_all()
    there.match_all()
    assert here.links() == there.links() == set()


def test_new_order_before_write_forces_new_decision(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), invoice(), order("4712", 1)])
    office.match(0)
    decided = office.search(1)  # knows only one order
    office.match(2)
    assert office.write(decided).decided_again
    assert office.links() == set()


def test_decision_during_search_wins(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), invoice(po_reference="4711")])
    office.match(0)
    decided = office.search(1)
    office.decide(0, 1, "rejected")
    assert office.write(decided).decided_again
    assert office.links() == set()


def test_new_candidate_keeps_review_age(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), order("4712", 1), invoice(), order("4713", 2)])
    for position in range(3):
        office.match(position)
    assert office.reviews() == {2: [[0, 1]]}
    opened_at = NOW - timedelta(days=3)
    admin.execute("UPDATE document_review SET opened_at = %s, changed_at = %s", [opened_at, opened_at])

    office.match(3)

    assert office.reviews() == {2: [[0, 1, 3]]}
    assert admin.execute("SELECT opened_at, changed_at FROM document_review").fetchall() == [(opened_at, NOW)]


def test_unrelated_match_forces_no_new_decision(database: Database, admin: Connection) -> None:
    office = Office(
        database, admin, [order("4711"), invoice(po_reference="4711"), order("X-9", 400, seller={"name": "Far"})]
    )
    office.match(0)
    decided = office.search(1)
    office.match(2)
    assert not office.write(decided).decided_again


def test_edge_added_during_reading_shows_from_one_end(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), invoice(po_reference="4711")])
    office.match(0)
    one, other = office.ids
    with database.tenant(office.tenant_id) as connection:
        context = Context(BatchReader(connection, office.tenant_id, reading.DocumentCache()))
        run(context.read_edges([one]))
        office.match(1)
        run(context.read_edges([other]))
    assert (context.edges(one), [edge.pair for edge in context.edges(other)]) == ([], [Pair.of(one, other)])


def test_half_seen_edge_forces_new_decision(database: Database, admin: Connection) -> None:
    far = order("X-9", 400, seller={"name": "Far"})
    office = Office(database, admin, [order("4711"), invoice(po_reference="4711"), delivery(po_reference="4711"), far])
    office.match(0)
    office.match(1)
    decided = office.search(2)
    assert Pair.of(*office.ids[:2]) in decided.edges[office.ids[0]]
    office.match(3)
    halved = dataclasses.replace(decided, edges={**decided.edges, office.ids[0]: {}})
    assert office.write(halved).decided_again
    assert office.links() == {(0, 1), (0, 2), (1, 2)}


def test_changed_number_of_candidate_forces_new_decision(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), invoice(po_reference="4711")])
    office.match(0)
    decided = office.search(1)
    corrected = order("9999", 400, seller={"name": "Far"}, lines=[line("Z-9")])
    admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [json.dumps(corrected.data), office.ids[0]])
    office.match(0)
    assert office.write(decided).decided_again
    assert office.links() == set()


def test_withdrawn_candidate_forces_new_decision(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), invoice(po_reference="4711")])
    office.match(0)
    decided = office.search(1)
    assert decided.outcome.made
    admin.execute("UPDATE document SET structured_data = NULL WHERE id = %s", [office.ids[0]])
    with database.tenant(office.tenant_id) as connection:
        assert matching.withdraw(connection, office.tenant_id, office.ids[0], NOW) is not None
    assert office.write(decided).decided_again
    assert office.links() == set()


def test_killed_attempt_leaves_document_findable(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), order("4711", 1, lines=[line("B")]), invoice(po_reference="4711")])
    office.match_all([0, 1])
    decided = office.search(2)
    with database.tenant(office.tenant_id) as connection:  # committed before an attempt calls the model
        sql.write(connection, office.tenant_id, {office.ids[2]: decided.stated})
    office.match(1)
    office.match(2)
    fresh = Office(database, admin, [order("4711"), order("4711", 1, lines=[line("B")]), invoice(po_reference="4711")])
    fresh.match_all()
    assert (office.edges(), office.clusters(), office.reviews()) == (fresh.edges(), fresh.clusters(), fresh.reviews())


@pytest.mark.parametrize("rejoined", [True, False])
def test_confirmed_match_survives_rematching(database: Database, admin: Connection, *, rejoined: bool) -> None:
    office = Office(
        database, admin, [order("4711"), invoice(po_reference="4711" if rejoined else "B-1", lines=[line("Q")])]
    )
    admin.execute(
        "INSERT INTO document_match (tenant_id, document_a_id, document_b_id, score, confidence, evidence, decided_by,"
        " reasoning, decided_at)"
        " VALUES (%s, %s, %s, 1, 'high', '{}', 'reviewer', 'I know it', %s)",
        [office.tenant_id, *office.ids, NOW],
    )
    office.match_all()
    office.match_all()
    assert office.edges() == {(0, 1): (None, 1.0)}
    assert office.clusters() == [0, 0]


def test_rejected_invoice_frees_order_for_another(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), invoice("R-1", 8, po_reference="4711"), invoice("R-2", 16)])
    office.match_all()
    assert office.links() == {(0, 1)}

    office.decide(0, 1, "rejected")
    office.match(2)

    assert office.links() == {(0, 2)}


def test_changed_data_moves_document_to_new_partner(database: Database, admin: Connection) -> None:
    office = Office(
        database,
        admin,
        [
            order("4711", lines=[line("A")]),
            order("4800", lines=[line("B")]),
            invoice(po_reference="4711", lines=[line("A")]),
        ],
    )
    office.match_all()
    assert office.links() == {(0, 2)}
    corrected = invoice(po_reference="4800", lines=[line("B")])
    admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [json.dumps(corrected.data), office.ids[2]])
    office.match(2)
    assert office.links() == {(1, 2)}
    assert office.clusters() == [0, 1, 1]
    assert admin.execute(
        "SELECT count(*) FROM document_key WHERE value = '4711' AND type = 'names:purchase_order'"
    ).fetchone() == (0,)


@pytest.mark.parametrize("seed", range(100, 104))
def test_changed_data_leaves_no_stale_edges(database: Database, admin: Connection, seed: int) -> None:
    samples, other = pile(seed, 20), pile(seed + 50, 20)
    office = Office(database, admin, samples)
    office.match_all()
    changed = [
        sample._replace(received_at=samples[n].received_at) if n % 4 == 0 else samples[n]
        for n, sample in enumerate(other)
    ]
    for position in range(0, len(samples), 4):
        admin.execute(
            "UPDATE document SET structured_data = %s, type = %s WHERE id = %s",
            [json.dumps(changed[position].data), changed[position].kind, office.ids[position]],
        )
        office.match(position)
    fresh = Office(database, admin, changed)
    fresh.match_all()
    assert (office.edges(), office.clusters()) == (fresh.edges(), fresh.clusters())


@pytest.mark.parametrize("seed", range(200, 205))
def test_incremental_matching_equals_matching_at_once(database: Database, admin: Connection, seed: int) -> None:
    samples = pile(seed, 30)
    office = Office(database, admin, samples)
    office.match_all()
    whole = Whole([read(sample, position + 1) for position, sample in enumerate(samples)])
    expected = {
        (min(link.child.int, link.parent.int) - 1, max(link.child.int, link.parent.int) - 1): (
            link.by,
            round(link.score.total, 6),
        )
        for link in whole.links()
    }
    assert office.edges() == expected


def test_crowded_key_finds_no_document(database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "MAX_DOCUMENTS_PER_KEY", 2)
    unnamed = [{name: value for name, value in line("A").items() if name != "article_number"}]  # no keys by article
    samples = [order("4711", lines=unnamed), invoice(lines=unnamed)]
    samples += [order(f"B-{n}", lines=[line(f"Q-{n}")]) for n in range(2)]
    office = Office(database, admin, samples)
    office.match(0)
    office.match(1)
    assert office.links() == {(0, 1)}
    office.match(2)
    office.match(3)
    assert office.links() == set()


def test_other_supplier_orders_are_counted_but_not_read(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(database, admin, [order(str(number)) for number in range(4711, 4715)])
    office.match_all(range(3))
    monkeypatch.setattr(matcher, "CACHE", reading.DocumentCache())

    decided = office.search(3)

    assert set(decided.room.values()) == {sql.MAX_DOCUMENTS_PER_KEY - 4}
    assert not matcher.CACHE._entries


@pytest.mark.parametrize("most", [2, 5])
def test_crowded_keys_keep_results_independent_of_order(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(sql, "MAX_DOCUMENTS_PER_KEY", most)
    samples = pile(11, 25)
    office, backwards = Office(database, admin, samples), Office(database, admin, samples)
    office.match_all()
    backwards.match_all(reversed(range(len(samples))))
    assert (office.edges(), office.clusters()) == (backwards.edges(), backwards.clusters())


@pytest.mark.parametrize(("most", "longest"), [(0, 4_000), (1, 4_000), (50, 0), (50, 400)])
def test_contents_read_separately_give_same_edges(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch, most: int, longest: int
) -> None:
    samples = pile(11, 25)
    along, apart = Office(database, admin, samples), Office(database, admin, samples)
    along.match_all()
    monkeypatch.setattr(matcher, "CACHE", reading.DocumentCache())
    monkeypatch.setattr(reading, "MAX_CACHED_DOCUMENTS", most)
    monkeypatch.setattr(reading, "MAX_CACHED_BYTES", longest)
    apart.match_all()
    assert along.links()
    assert (along.edges(), along.clusters()) == (apart.edges(), apart.clusters())


def test_late_delivery_joins_invoice_and_order(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order("4711"), invoice(po_reference="4711"), delivery(po_reference="4711")])
    office.match_all()
    assert office.links() == {(0, 1), (0, 2), (1, 2)}
