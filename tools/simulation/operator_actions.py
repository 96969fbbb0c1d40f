"""Operators' and users' actions: starting a new revision, canceling a task."""

from typing import TYPE_CHECKING
from uuid import UUID

from counterfoil.delivery import work as work_items
from counterfoil.errors import CounterfoilError
from counterfoil.tasks import store as tasks
from tools.simulation import scenario
from tools.simulation.database import SimulatedDatabase
from tools.simulation.scheduler import Process

if TYPE_CHECKING:
    from tools.simulation.world import World

_CAN_START = """
SELECT 'acquisition', id FROM acquisition_job WHERE status = 'failed' AND tenant_id IS NOT NULL
UNION ALL SELECT 'ingestion', id FROM ingestion_job WHERE status = 'failed'
UNION ALL SELECT 'matching', id FROM document WHERE matching_revision > 0 AND structured_data IS NOT NULL
UNION ALL SELECT 'diagnostics', id FROM cluster_diagnostics
UNION ALL SELECT 'tasks', id FROM task WHERE status = 'failed'
ORDER BY 1, 2
"""


def restart_work_item(world: "World", work: tuple[str, UUID] | None = None) -> None:
    """Start a new revision of a work item in any status, as an operator does.

    New data starts revisions in the same way. Chooses a random work item that can be restarted if `work` is None.
    """
    process = Process("operator", mortal=False)
    database = SimulatedDatabase(world.transactions, process)

    def run() -> None:
        rows = [work] if work is not None else world.store.admin.execute(_CAN_START).fetchall()
        if not rows:
            return
        worker, work_id = rows[int(world.random.random() * len(rows))]
        world.scheduler.log(f"an operator starts a new revision of {worker} {world.name(work_id)}")
        try:
            with database.tenant(scenario.TENANT) as connection:
                messages = work_items.start_revision(connection, worker, [work_id], world.scheduler.clock())
            world.outbox(database).send(messages)
        except CounterfoilError as error:
            world.scheduler.log(f"rejected: {error}")

    world.scheduler.spawn("new revision", run, process)


def cancel_task(world: "World", task_id: UUID) -> None:
    """Cancel a task in any status, as its user does."""
    process = Process("user", mortal=False)
    database = SimulatedDatabase(world.transactions, process)

    def run() -> None:
        world.scheduler.log(f"the user cancels {world.name(task_id)}")
        try:
            with database.tenant(scenario.TENANT) as connection:
                tasks.cancel(connection, task_id, world.scheduler.clock(), "its user")
        except CounterfoilError as error:
            world.scheduler.log(f"rejected: {error}")

    world.scheduler.spawn("cancellation", run, process)
