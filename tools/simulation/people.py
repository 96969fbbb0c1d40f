"""What people do to work while a history runs: they want it done anew, or not any more."""

from typing import TYPE_CHECKING
from uuid import UUID

from counterfoil.delivery.work import begin
from counterfoil.errors import CounterfoilError
from counterfoil.tasks import store as tasks
from tools.simulation import scenario
from tools.simulation.database import SimulatedDatabase
from tools.simulation.scheduler import Process

if TYPE_CHECKING:
    from tools.simulation.world import World

_REDRIVABLE = """
SELECT 'acquisition', id FROM acquisition_job WHERE status = 'failed' AND tenant_id IS NOT NULL
UNION ALL SELECT 'ingestion', id FROM ingestion_job WHERE status = 'failed'
UNION ALL SELECT 'matching', id FROM document WHERE matching_revision > 0 AND structured_data IS NOT NULL
UNION ALL SELECT 'diagnostics', id FROM cluster_diagnostics
UNION ALL SELECT 'tasks', id FROM task WHERE status = 'failed'
ORDER BY 1, 2
"""


def redrive(world: "World", work: tuple[str, UUID] | None = None) -> None:
    """A new revision of a work, by a person or by new data: whatever its state."""
    process = Process("operator", mortal=False)
    database = SimulatedDatabase(world.transactions, process)

    def act() -> None:
        rows = [work] if work is not None else world.store.admin.execute(_REDRIVABLE).fetchall()
        if not rows:
            return
        worker, work_id = rows[int(world.random.random() * len(rows))]
        world.scheduler.say(f"a new revision of {worker} {world.name(work_id)} is wanted")
        try:
            with database.tenant(scenario.TENANT) as connection:
                sends = begin(connection, worker, [work_id], world.scheduler.clock())
            world.outbox(database).send(sends)
        except CounterfoilError as error:
            world.scheduler.say(f"it is refused: {error}")

    world.scheduler.spawn("redrive", act, process)


def cancel(world: "World", task_id: UUID) -> None:
    """Somebody does not want a task any more, whatever its state."""
    process = Process("user", mortal=False)
    database = SimulatedDatabase(world.transactions, process)

    def act() -> None:
        world.scheduler.say(f"{world.name(task_id)} is not wanted any more")
        try:
            with database.tenant(scenario.TENANT) as connection:
                tasks.cancel(connection, task_id, world.scheduler.clock(), "its user")
        except CounterfoilError as error:
            world.scheduler.say(f"it is refused: {error}")

    world.scheduler.spawn("cancellation", act, process)
