"""Matching documents in groups gives the same result as matching one by one."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from threading import Event
from typing import Any

import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents import matching
from counterfoil.documents.matching import matcher, reading, sql
from tests.documents.matching.samples import SampleDocument, delivery, invoice, line, order, receipt
from tests.documents.matching.tenant_harness import NOW, TenantHarness

WORDS = ("Ahlen", "Bonn", "Coburg", "Dessau", "Emden", "Fulda", "Gera", "Halle", "Ingolstadt", "Jena")
NUMBERS = [str(number) for number in range(4711, 4717)]


def cases() -> list[SampleDocument]:
    """Return one supplier's documents, including a second order with a reused number."""
    samples = [sample for number in NUMBERS for sample in (order(number), invoice(po_reference=number))]
    return [*samples, order(NUMBERS[0], 1), delivery(po_reference=NUMBERS[1]), invoice(po_reference="9999")]


def unrelated_documents(kind: Callable[..., SampleDocument], **fields: str) -> list[SampleDocument]:
    """Return ten documents from ten suppliers that share no numbers or articles."""
    return [
        kind(
            seller={"name": f"{word} KG", "city": word, "country": "DE"},
            lines=[line(f"{word}-1", price=str(10 + location)), line(f"{word}-2")],
            **{name: value.format(f"{word}-{4700 + location}") for name, value in fields.items()},
        )
        for location, word in enumerate(WORDS)
    ]


def outcome(harness: TenantHarness) -> object:
    return harness.edges(), harness.clusters(), harness.reviews()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("most", [sql.MAX_DOCUMENTS_PER_KEY, 3])
def test_grouped_matching_equals_single_matching(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch, seed: int, concurrency: int, most: int
) -> None:
    monkeypatch.setattr(sql, "MAX_DOCUMENTS_PER_KEY", most)
    one_by_one = TenantHarness(database, admin, cases())
    one_by_one.match_all()

    grouped = TenantHarness(database, admin, cases())
    positions = list(range(len(grouped.ids)))
    Random(seed).shuffle(positions)
    grouped.match_in_groups(positions, size=seed + 2, concurrency=concurrency)

    assert outcome(grouped) == outcome(one_by_one)


def test_unrelated_documents_are_written_together(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, unrelated_documents(order, number="{}"))

    assert harness.match_together(range(10)) == set(range(10))


def test_invoices_of_one_supplier_are_written_together(database: Database, admin: Connection) -> None:
    numbers = [str(number) for number in range(4711, 4721)]
    harness = TenantHarness(
        database, admin, [*map(order, numbers), *(invoice(f"R-{number}", po_reference=number) for number in numbers)]
    )
    assert harness.match_together(range(10)) == set(range(10))

    assert harness.match_together(range(10, 20)) == set(range(10, 20))
    assert harness.links() == {(location, location + 10) for location in range(10)}


def test_documents_over_a_key_limit_are_omitted(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "MAX_DOCUMENTS_PER_KEY", 3)
    harness = TenantHarness(database, admin, [order(str(number)) for number in range(4711, 4716)])

    assert harness.match_together(range(5)) == {0, 1, 2}


def test_group_exceeding_a_key_limit_removes_existing_match(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "MAX_DOCUMENTS_PER_KEY", 2)
    unnumbered = [{name: value for name, value in line("A").items() if name != "article_number"}]
    other_orders = [order(f"B-{n}", 30, lines=[line(f"Q-{n}", "3", "990.00")], currency="USD") for n in range(2)]
    harness = TenantHarness(
        database, admin, [order("4711", lines=unnumbered), invoice(lines=unnumbered), *other_orders]
    )
    harness.match(0)
    harness.match(1)
    assert harness.links() == {(0, 1)}

    unmatched = {2, 3} - harness.match_together([2, 3])
    harness.match_all(unmatched)

    assert harness.links() == set()


@pytest.mark.parametrize(("other_count", "needs_new_decision"), [(2, False), (3, True)])
def test_write_repeats_decision_if_key_limit_was_exceeded(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch, other_count: int, needs_new_decision: bool
) -> None:
    monkeypatch.setattr(sql, "MAX_DOCUMENTS_PER_KEY", 3)
    harness = TenantHarness(database, admin, [order(str(number)) for number in range(4711, 4711 + other_count + 1)])
    pending_match = harness.search(other_count)
    harness.match_all(range(other_count))

    assert harness.write(pending_match).was_repeated is needs_new_decision


def test_invoice_grouped_with_referenced_order_is_omitted(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="4711")])

    assert harness.match_together([0, 1]) == {0}
    harness.match(1)

    assert harness.links() == {(0, 1)}


def test_document_with_partner_matched_before_write_is_omitted(database: Database, admin: Connection) -> None:
    other = unrelated_documents(order, number="{}")[0]
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="4711"), other])

    assert harness.match_together([1, 2], between=lambda: harness.match(0)) == {2}
    harness.match(1)

    assert harness.links() == {(0, 1)}


def test_document_with_partner_matched_while_waiting_is_omitted(database: Database, admin: Connection) -> None:
    other = unrelated_documents(order, number="{}")[0]
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="4711"), other])
    locked = Event()

    def write_during_wait() -> None:
        pending_match = harness.search(0)
        with database.tenant(harness.tenant_id) as connection:
            matching.lock_tenant_blocking(connection, harness.tenant_id)
            locked.set()
            waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            assert any(admin.execute(waiting).fetchall() for _ in range(50_000))
            matching.write(connection, pending_match, NOW)

    with ThreadPoolExecutor(1) as pool:

        def start_writer() -> None:
            writing.append(pool.submit(write_during_wait))
            locked.wait()

        writing: list[Future[None]] = []
        assert harness.match_together([1, 2], between=start_writer) == {2}
        writing[0].result()
    harness.match(1)

    assert harness.links() == {(0, 1)}


def test_document_decided_about_before_write_is_omitted(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="4711")])
    harness.match_all()

    assert harness.match_together([1], between=lambda: harness.decide(0, 1, "rejected")) == set()
    harness.match(1)

    assert harness.links() == set()


def test_sequential_groups_match_each_other(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order("4711"), invoice(po_reference="4711")])

    assert harness.match_together([0]) == {0}
    assert harness.match_together([1]) == {1}

    assert harness.links() == {(0, 1)}


def test_group_search_runs_at_most_two_extra_statements(
    database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, invoices = (
        unrelated_documents(order, number="{}"),
        unrelated_documents(invoice, number="R-{}", po_reference="{}"),
    )
    harness = TenantHarness(database, admin, [*orders, *invoices])
    harness.match_all(range(10))

    def statements(positions: Sequence[int]) -> int:
        executed: list[object] = []
        original = psycopg.Cursor.execute

        def execute(self: Any, *args: Any, **options: Any) -> Any:
            executed.append(args[0])
            return original(self, *args, **options)

        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Cursor, "execute", execute)
            patch.setattr(matcher, "CACHE", reading.DocumentCache())
            with database.tenant(harness.tenant_id, by_index=True) as connection:
                matching.search(connection, harness.tenant_id, [harness.ids[position] for position in positions])
        return len(executed)

    assert statements(range(10, 20)) <= statements([10]) + 2
    assert harness.match_together(range(10, 20)) == set(range(10, 20))
    assert harness.links() == {(location, location + 10) for location in range(10)}


@pytest.mark.parametrize("samples", [[delivery(), receipt()], [receipt(), delivery()], [delivery(), invoice()]])
def test_documents_of_confirmed_pair_match_later_order(
    database: Database, admin: Connection, samples: list[SampleDocument]
) -> None:
    grouped, separate = TenantHarness(database, admin, samples), TenantHarness(database, admin, samples)
    for harness in (grouped, separate):
        harness.decide(0, 1, "confirmed")
    grouped.match_in_groups([0, 1], 2)
    separate.match_all()
    for harness in (grouped, separate):
        harness.match(harness.file(order()))
        assert harness.links() == {(0, 1), (0, 2), (1, 2)}
