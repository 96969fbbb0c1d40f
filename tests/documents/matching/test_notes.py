"""A document has the note "No match found." only as long as no match links it."""

from itertools import permutations

import pytest

from counterfoil.db import Connection, Database
from tests.documents.matching.samples import delivery, invoice, line, order
from tests.documents.matching.tenant_harness import TenantHarness

ALONE = "No match found."
LINES = [line("A-100", "10", "100.00")]
SAMPLES = [
    order(lines=LINES),
    delivery(po_reference="4711", lines=LINES),
    invoice(po_reference="4711", delivery_note_reference="LS-500", lines=LINES),
]


def notes(harness: TenantHarness) -> list[str | None]:
    return [harness.reason(position) for position in range(len(harness.ids))]


@pytest.mark.parametrize("arrival_order", list(permutations(range(3))))
def test_connected_documents_have_no_note(
    database: Database, admin: Connection, arrival_order: tuple[int, ...]
) -> None:
    harness = TenantHarness(database, admin, SAMPLES)

    harness.match_all(arrival_order)

    assert len(set(harness.clusters())) == 1
    assert notes(harness) == [None, None, None]


def test_documents_matched_together_have_no_note(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, SAMPLES)

    harness.match_in_groups(range(3), 3)

    assert notes(harness) == [None, None, None]


def test_matching_again_adds_no_note(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, SAMPLES)
    harness.match_all()

    harness.match_all()

    assert notes(harness) == [None, None, None]


def test_rejected_match_adds_the_note(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [SAMPLES[0], SAMPLES[1]])
    harness.match_all()

    harness.decide(0, 1, "rejected")

    assert harness.reason(0) == ALONE
    harness.decide(0, 1, "confirmed")
    assert notes(harness) == [None, None]


def test_order_gets_the_note_after_losing_its_invoice(database: Database, admin: Connection) -> None:
    harness = TenantHarness(database, admin, [order(lines=LINES), invoice(po_reference="4711", lines=LINES)])
    harness.match_all()
    assert notes(harness) == [None, None]
    admin.execute(
        'UPDATE document SET structured_data = structured_data || \'{"po_reference": "9999", "line_items": []}\''
        " WHERE id = %s",
        [harness.ids[1]],
    )

    harness.match(1)

    assert harness.links() == set()
    assert harness.reason(0) == ALONE
