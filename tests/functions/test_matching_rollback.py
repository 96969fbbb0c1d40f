"""A failure in the write phase of matching rolls back all changes.

This holds for single items and batches.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery import sql as delivery_store
from counterfoil.delivery.attempt import BatchWorker, Outcome, TenantAttempt
from counterfoil.delivery.work import Message
from counterfoil.documents import diagnostics
from counterfoil.documents.matching import sql as matching_store
from functions.matching.work import match, match_together
from tests.delivery.harness import QUEUE_URL, Clock, Context, FakeSqs, event, life_cycle, make_consumer, record, rows
from tests.documents.matching.samples import invoice, order
from tests.documents.matching.tenant_harness import TenantHarness

NUMBERS = ("4711", "4712")
PAPERS = [*map(order, NUMBERS), *(invoice(f"R-{number}", po_reference=number) for number in NUMBERS)]
ORDERS, INVOICES = (0, 1), (2, 3)
WORKER = {"name": "matching", "timeout": 120, "permits": 4, "start_margin": 30}
QUEUES = {"matching": QUEUE_URL, "diagnostics": "http://127.0.0.1:1/000000000000/counterfoil-diagnostics"}
WRITTEN = ("document_match", "document_key", "document_review", "cluster_diagnostics", "outbox")
STEPS = {
    "cluster update": (matching_store, "rename_clusters"),
    "diagnostics request": (diagnostics, "enqueue_diagnostics"),
    "settlement": (delivery_store, "succeed"),
}


class Pending(TenantHarness):
    """Tenant whose new documents are pending until the worker matches them."""

    def file(self, sample: Any) -> int:
        position = super().file(sample)
        self.admin.execute("UPDATE document SET matching_status = 'pending' WHERE id = %s", [self.ids[position]])
        return position

    def deliver(
        self,
        clock: Clock,
        work_functions: BatchWorker | Callable[[TenantAttempt], Outcome],
        positions: Sequence[int],
        receives: int = 1,
    ) -> None:
        """Deliver the documents' messages to the worker in one batch."""
        consumer = make_consumer(self.database, work_functions, clock, worker=WORKER, queue_urls=QUEUES)
        messages = [Message(work_id=self.ids[position], revision=1, send_number=0) for position in positions]
        consumer.handle(event(*(record(message, receives=receives) for message in messages)), Context())

    def states(self, positions: Sequence[int]) -> list[tuple[str, int]]:
        """Return the status and attempt count of each document at these positions."""
        life_cycles = [life_cycle(self.admin, self.ids[position]) for position in positions]
        return [(row["status"], row["attempts"]) for row in life_cycles]

    def transactions(self, positions: Sequence[int]) -> int:
        """Return the number of transactions that last changed the documents.

        `positions` selects the documents.
        """
        ids = [self.ids[position] for position in positions]
        return len(self.admin.execute("SELECT DISTINCT xmin::text FROM document WHERE id = ANY(%s)", [ids]).fetchall())


def stored_state(admin: Connection) -> dict[str, Any]:
    """Return every row that the write phase may add or change."""
    clusters = admin.execute("SELECT id, cluster_id FROM document ORDER BY id").fetchall()
    return {table: sorted(rows(admin, table), key=str) for table in WRITTEN} | {"clusters": clusters}


def fail_at(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Make PostgreSQL abort every transaction that reaches `step`."""
    module, name = STEPS[step]
    original = getattr(module, name)

    def fail(connection: Connection, *args: Any, **options: Any) -> Any:
        connection.execute("DO $$ BEGIN RAISE disk_full; END $$")
        return original(connection, *args, **options)

    monkeypatch.setattr(module, name, fail)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("work_functions", "transactions"),
    [pytest.param(match, 2, id="single"), pytest.param(BatchWorker(match, match_together), 1, id="batch")],
)
def test_failed_write_changes_nothing(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    work_functions: BatchWorker | Callable[[TenantAttempt], Outcome],
    transactions: int,
    step: str,
) -> None:
    undisturbed = TenantHarness(database, admin, PAPERS)
    undisturbed.match_all()
    harness = Pending(database, admin, PAPERS)
    harness.deliver(clock, work_functions, ORDERS)
    before = stored_state(admin)

    with monkeypatch.context() as failure:
        fail_at(failure, step)
        harness.deliver(clock, work_functions, INVOICES)

    assert harness.links() == set()
    assert stored_state(admin) == before
    assert harness.states(INVOICES) == [("pending", 1)] * 2

    clock.advance(hours=1)
    harness.deliver(clock, work_functions, INVOICES, receives=2)

    assert harness.states(INVOICES) == [("succeeded", 2)] * 2
    assert harness.transactions(INVOICES) == transactions
    assert (harness.edges(), harness.clusters()) == (undisturbed.edges(), undisturbed.clusters())
    assert harness.links() == {(0, 2), (1, 3)}
