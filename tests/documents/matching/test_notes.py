"""Notes of documents follow their cluster: only one without a match says "No partner found."."""

from itertools import permutations

import pytest

from counterfoil.db import Connection, Database
from tests.documents.matching.samples import delivery, invoice, line, order
from tests.documents.matching.tenant_harness import Office

ALONE = "No partner found."
LINES = [line("A-100", "10", "100.00")]
SAMPLES = [
    order(lines=LINES),
    delivery(po_reference="4711", lines=LINES),
    invoice(po_reference="4711", delivery_note_reference="LS-500", lines=LINES),
]


def notes(office: Office) -> list[str | None]:
    return [office.reason(position) for position in range(len(office.ids))]


@pytest.mark.parametrize("order_of_arrival", list(permutations(range(3))))
def test_connected_documents_have_no_note(
    database: Database, admin: Connection, order_of_arrival: tuple[int, ...]
) -> None:
    office = Office(database, admin, SAMPLES)

    office.match_all(order_of_arrival)

    assert len(set(office.clusters())) == 1
    assert notes(office) == [None, None, None]


def test_documents_matched_together_have_no_note(database: Database, admin: Connection) -> None:
    office = Office(database, admin, SAMPLES)

    office.match_in_groups(range(3), 3)

    assert notes(office) == [None, None, None]


def test_matching_again_adds_no_note(database: Database, admin: Connection) -> None:
    office = Office(database, admin, SAMPLES)
    office.match_all()

    office.match_all()

    assert notes(office) == [None, None, None]


def test_removed_match_adds_the_note(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [SAMPLES[0], SAMPLES[1]])
    office.match_all()

    office.decide(0, 1, "rejected")

    assert office.reason(0) == ALONE
    office.decide(0, 1, "confirmed")
    assert notes(office) == [None, None]


def test_order_gets_the_note_after_invoice_moves(database: Database, admin: Connection) -> None:
    office = Office(database, admin, [order(lines=LINES), invoice(po_reference="4711", lines=LINES)])
    office.match_all()
    assert notes(office) == [None, None]
    admin.execute(
        'UPDATE document SET structured_data = structured_data || \'{"po_reference": "9999", "line_items": []}\''
        " WHERE id = %s",
        [office.ids[1]],
    )

    office.match(1)

    assert office.links() == set()
    assert office.reason(0) == ALONE
