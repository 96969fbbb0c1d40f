"""The same documents in any order, concurrently, again: the same edges and the same clusters."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents.matching import sql
from tests.documents.matching.office import Office
from tests.documents.matching.papers import (
    Paper,
    confirmation,
    contract,
    credit,
    delivery,
    invoice,
    line,
    order,
    pile,
    read,
    receipt,
)
from tests.documents.matching.whole import Whole

ORDERS = int(os.environ.get("COUNTERFOIL_ORDERS") or 8)
"""Orders of arrival of the case; `make soak` sets more."""
HANDS = (1, 2, 8)

CASE = [
    order("4711", 0),
    order("4711", 3, lines=[line("A-100", "20")]),  # its change
    confirmation("AB-1", 1, po_reference="4711"),
    delivery("LS-1", 6, po_reference="PO 4711", lines=[line("A-100")]),
    delivery("LS-2", 8, po_reference="4711", lines=[line("A-200", "5", "12.50")]),
    receipt("WE-1", 7, po_reference="4711", lines=[line("A-100")]),
    receipt("WE-2", 9, delivery_note_reference="LS 2", lines=[line("A-200", "5", "12.50")]),
    invoice("R-1", 12, po_reference="004711"),
    invoice("R-1", 12, po_reference="004711", received=11),  # it came twice, the copy is filed later
    credit("G-1", 20, invoice_reference="R-1"),
    order("5000", 30),  # the same again, and an invoice that may be for either of two
    order("5001", 30),
    invoice("R-2", 35),
    order("6000", 60, lines=[line("B-7", "3", "99.00")]),
    invoice("R-3", 66, lines=[line("B-7", "3", "99.00")]),  # names nothing, and there is one order only
    contract("RV-60", -30, lines=[line("C-1", "1", "250.00")]),
    invoice("R-4", 31, lines=[line("C-1", "1", "250.00")]),
]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=max(HANDS) + 1)
    yield database
    database.close()


@pytest.mark.parametrize("hands", HANDS)
def test_a_case_comes_out_the_same_in_any_order(database: Database, admin: Connection, hands: int) -> None:
    expected = Office(database, admin, CASE)
    expected.match_all()
    assert expected.links() == {
        (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (0, 8), (3, 5), (4, 6), (3, 8), (4, 8),
        (7, 8), (8, 9), (13, 14), (15, 16),
    }  # fmt: skip
    for seed in range(ORDERS):
        office = Office(database, admin, CASE)
        office.match_all(Random(seed).sample(range(len(CASE)), len(CASE)), hands)
        assert (seed, office.edges(), office.clusters()) == (seed, expected.edges(), expected.clusters())


@pytest.mark.parametrize("hands", HANDS)
@pytest.mark.parametrize("seed", range(2))
def test_whatever_the_documents_are_the_order_makes_no_difference(
    database: Database, admin: Connection, seed: int, hands: int
) -> None:
    papers = pile(seed, 30)
    expected = Office(database, admin, papers)
    expected.match_all()
    for number in range(ORDERS // 4):
        office = Office(database, admin, papers)
        office.match_all(Random(number).sample(range(len(papers)), len(papers)), hands)
        assert (number, office.edges(), office.clusters()) == (number, expected.edges(), expected.clusters())


@pytest.mark.parametrize("hands", HANDS)
def test_matching_everything_again_changes_nothing(database: Database, admin: Connection, hands: int) -> None:
    papers = pile(99, 30)
    office = Office(database, admin, papers)
    office.match_all()
    edges, clusters = office.edges(), office.clusters()
    office.match_all(Random(1).sample(range(len(papers)), len(papers)), hands)
    assert (office.edges(), office.clusters()) == (edges, clusters)


Said = tuple[int, int, sql.Verdict]


def said(papers: Sequence[Paper], seed: int, count: int) -> list[Said]:
    """What a person might decide: likely pairs and unlikely ones, each decided once."""
    random = Random(seed)
    read_ = [read(paper, position + 1) for position, paper in enumerate(papers)]
    links = [(link.child.int - 1, link.parent.int - 1) for link in Whole(read_).links()]
    doubts = [
        (id_.int - 1, other.int - 1) for id_, found in Whole(read_).reviews().items() for one in found for other in one
    ]
    pairs = {tuple(sorted(pair)) for pair in random.sample(links, min(count, len(links)))}
    pairs |= {tuple(sorted(pair)) for pair in random.sample(doubts, min(count, len(doubts)))}
    pairs |= {tuple(sorted(random.sample(range(len(papers)), 2))) for _ in range(count)}
    return [(a, b, random.choice(("confirmed", "rejected"))) for a, b in sorted(pairs)]


def carry_out(office: Office, decided: Sequence[Said], order: Sequence[int], hands: int) -> None:
    """Match and decide in this order; numbers beyond the documents are decisions."""

    def one(number: int) -> None:
        if number < len(office.ids):
            office.match(number)
        else:
            office.decide(*decided[number - len(office.ids)])

    with ThreadPoolExecutor(hands) as pool:
        list(pool.map(one, order))


def whole(papers: Sequence[Paper], decided: Sequence[Said]) -> Whole:
    def pairs(verdict: str) -> list[frozenset[UUID]]:
        return [frozenset((UUID(int=a + 1), UUID(int=b + 1))) for a, b, found in decided if found == verdict]

    documents = [read(paper, position + 1) for position, paper in enumerate(papers)]
    return Whole(documents, pairs("confirmed"), pairs("rejected"))


@pytest.mark.parametrize("hands", HANDS)
@pytest.mark.parametrize("seed", range(300, 303))
def test_what_a_person_decides_at_any_moment_holds_in_the_end(
    database: Database, admin: Connection, seed: int, hands: int
) -> None:
    papers = pile(seed, 30)
    decided = said(papers, seed, 8)
    expected = whole(papers, decided)
    edges = {
        (min(link.child.int, link.parent.int) - 1, max(link.child.int, link.parent.int) - 1): (
            link.by,
            round(link.score.total, 6),
        )
        for link in expected.links()
    }
    waiting = {
        id_.int - 1: [[other.int - 1 for other in found] for found in doubts]
        for id_, doubts in expected.reviews().items()
    }
    for number in range(ORDERS // 4):
        office = Office(database, admin, papers)
        everything = range(len(papers) + len(decided))
        carry_out(office, decided, Random(number).sample(everything, len(everything)), hands)
        assert (number, office.edges()) == (number, edges)
        assert (number, office.reviews()) == (number, waiting)
