"""The same documents in any order, concurrently, again: the same edges and the same clusters."""

from collections.abc import Iterator
from random import Random

import pytest

from counterfoil.db import Connection, Database
from tests.documents.matching.office import Office
from tests.documents.matching.papers import (
    confirmation,
    contract,
    credit,
    delivery,
    invoice,
    line,
    order,
    pile,
    receipt,
)

ORDERS = 20
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
