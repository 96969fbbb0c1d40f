"""Matching gives the same result in any arrival order.

This includes concurrent and repeated matching.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents.matching import sql
from tests.documents.matching.reference_matching import ReferenceMatching
from tests.documents.matching.samples import (
    SampleDocument,
    confirmation,
    contract,
    credit,
    delivery,
    invoice,
    line,
    order,
    random_samples,
    read,
    receipt,
)
from tests.documents.matching.tenant_harness import TenantHarness

ORDERS = int(os.environ.get("COUNTERFOIL_ORDERS") or 8)
"""Number of arrival orders to test. `make soak` increases it."""
CONCURRENCY = (1, 2, 8)

CASE = [
    order("4711", 0),
    order("4711", 3, lines=[line("A-100", "20")]),  # an amendment of the first order
    confirmation("AB-1", 1, po_reference="4711"),
    delivery("LS-1", 6, po_reference="PO 4711", lines=[line("A-100")]),
    delivery("LS-2", 8, po_reference="4711", lines=[line("A-200", "5", "12.50")]),
    receipt("WE-1", 7, po_reference="4711", lines=[line("A-100")]),
    receipt("WE-2", 9, delivery_note_reference="LS 2", lines=[line("A-200", "5", "12.50")]),
    invoice("R-1", 12, po_reference="004711"),
    invoice("R-1", 12, po_reference="004711", received=11),  # received twice; the duplicate is stored later
    credit("G-1", 20, invoice_reference="R-1"),
    order("5000", 30),  # the same goods again; invoice R-2 fits both orders
    order("5001", 30),
    invoice("R-2", 35),
    order("6000", 60, lines=[line("B-7", "3", "99.00")]),
    invoice("R-3", 66, lines=[line("B-7", "3", "99.00")]),  # has no reference, and only order 6000 fits
    contract("RV-60", -30, lines=[line("C-1", "1", "250.00")]),
    invoice("R-4", 31, lines=[line("C-1", "1", "250.00")]),
]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=max(CONCURRENCY) + 1)
    yield database
    database.close()


@pytest.mark.parametrize("concurrency", CONCURRENCY)
def test_matching_does_not_depend_on_arrival_order(database: Database, admin: Connection, concurrency: int) -> None:
    expected = TenantHarness(database, admin, CASE)
    expected.match_all()
    assert expected.links() == {
        (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (0, 8), (3, 5), (4, 6), (3, 8), (4, 8),
        (7, 8), (8, 9), (13, 14), (15, 16),
    }  # fmt: skip
    for seed in range(ORDERS):
        harness = TenantHarness(database, admin, CASE)
        harness.match_all(Random(seed).sample(range(len(CASE)), len(CASE)), concurrency)
        assert (seed, harness.edges(), harness.clusters()) == (seed, expected.edges(), expected.clusters())


@pytest.mark.parametrize("concurrency", CONCURRENCY)
@pytest.mark.parametrize("seed", range(2))
def test_random_documents_match_alike_in_any_order(
    database: Database, admin: Connection, seed: int, concurrency: int
) -> None:
    samples = random_samples(seed, 30)
    expected = TenantHarness(database, admin, samples)
    expected.match_all()
    for number in range(ORDERS // 4):
        harness = TenantHarness(database, admin, samples)
        harness.match_all(Random(number).sample(range(len(samples)), len(samples)), concurrency)
        assert (number, harness.edges(), harness.clusters()) == (number, expected.edges(), expected.clusters())


@pytest.mark.parametrize("concurrency", CONCURRENCY)
def test_rematching_everything_changes_nothing(database: Database, admin: Connection, concurrency: int) -> None:
    samples = random_samples(99, 30)
    harness = TenantHarness(database, admin, samples)
    harness.match_all()
    edges, clusters = harness.edges(), harness.clusters()
    harness.match_all(Random(1).sample(range(len(samples)), len(samples)), concurrency)
    assert (harness.edges(), harness.clusters()) == (edges, clusters)


Decision = tuple[int, int, sql.Verdict]


def random_decisions(samples: Sequence[SampleDocument], seed: int, count: int) -> list[Decision]:
    """Return random decisions about links, ambiguous matches and arbitrary pairs.

    There is one decision per pair.
    """
    random = Random(seed)
    documents = [read(sample, position + 1) for position, sample in enumerate(samples)]
    links = [(link.child.int - 1, link.parent.int - 1) for link in ReferenceMatching(documents).links()]
    ambiguous_matches = [
        (id_.int - 1, candidate.int - 1)
        for id_, candidate_groups in ReferenceMatching(documents).reviews().items()
        for group in candidate_groups
        for candidate in group
    ]
    pairs = {tuple(sorted(pair)) for pair in random.sample(links, min(count, len(links)))}
    pairs |= {tuple(sorted(pair)) for pair in random.sample(ambiguous_matches, min(count, len(ambiguous_matches)))}
    pairs |= {tuple(sorted(random.sample(range(len(samples)), 2))) for _ in range(count)}
    return [(a, b, random.choice(("confirmed", "rejected"))) for a, b in sorted(pairs)]


def carry_out(harness: TenantHarness, decisions_: Sequence[Decision], order: Sequence[int], concurrency: int) -> None:
    """Run steps in this order.

    Step numbers from the document count up are decisions, others are matches.
    """

    def run_step(number: int) -> None:
        if number < len(harness.ids):
            harness.match(number)
        else:
            harness.decide(*decisions_[number - len(harness.ids)])

    with ThreadPoolExecutor(concurrency) as pool:
        list(pool.map(run_step, order))


def expected_matching(samples: Sequence[SampleDocument], decisions_: Sequence[Decision]) -> ReferenceMatching:
    def pairs(decision: str) -> list[frozenset[UUID]]:
        return [frozenset((UUID(int=a + 1), UUID(int=b + 1))) for a, b, value in decisions_ if value == decision]

    documents = [read(sample, position + 1) for position, sample in enumerate(samples)]
    return ReferenceMatching(documents, pairs("confirmed"), pairs("rejected"))


@pytest.mark.parametrize("concurrency", CONCURRENCY)
@pytest.mark.parametrize("seed", range(300, 303))
def test_decisions_apply_regardless_of_their_timing(
    database: Database, admin: Connection, seed: int, concurrency: int
) -> None:
    samples = random_samples(seed, 30)
    decisions_ = random_decisions(samples, seed, 8)
    expected = expected_matching(samples, decisions_)
    edges = {
        (min(link.child.int, link.parent.int) - 1, max(link.child.int, link.parent.int) - 1): (
            link.by,
            round(link.score.total, 6),
        )
        for link in expected.links()
    }
    waiting = {
        id_.int - 1: [[other.int - 1 for other in groups] for groups in ambiguous_matches]
        for id_, ambiguous_matches in expected.reviews().items()
    }
    for number in range(ORDERS // 4):
        harness = TenantHarness(database, admin, samples)
        all_steps = range(len(samples) + len(decisions_))
        carry_out(harness, decisions_, Random(number).sample(all_steps, len(all_steps)), concurrency)
        assert (number, harness.edges()) == (number, edges)
        assert (number, harness.reviews()) == (number, waiting)
