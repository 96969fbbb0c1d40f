"""Creates histories from seeds, runs and checks them, and formats their logs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from counterfoil.documents import files
from tools.simulation import invariants, operator_actions, retries, scenario
from tools.simulation.database import Store
from tools.simulation.faults import Fault
from tools.simulation.ledger import ledger
from tools.simulation.scheduler import START, ViolationError
from tools.simulation.world import World

COPY = "copy of the invoice"
READABLE = (
    "order", "confirmation", "delivery", "invoice", COPY, "second invoice", "second order", "order again",
    "unnumbered invoice", "lone invoice",
)  # fmt: skip
FAMILIES = (
    ("order", "invoice", COPY),
    ("order", "order again", "unnumbered invoice"),
    ("order", "order again", "unnumbered invoice", "delivery"),
    ("order", "confirmation", "delivery", "invoice"),
)
"""Documents whose match decisions depend on each other."""
TASKS_SHARE = 0.3
"""Probability that a history has tasks."""
BAD_BODIES = ("", "not JSON", "[1]", '{"schema_version": 1}', '{"work_id": "00000000-0000-0000-0000-000000000000"}')


@dataclass(frozen=True)
class History:
    """Result of one history."""

    seed: int
    violation: str | None
    steps: int
    virtual_seconds: float
    faults: dict[Fault, int]
    attempts: int
    seconds: float
    log: list[str]
    """Formatted log. Empty unless it was requested or an invariant is violated."""


def run(
    seed: int, store: Store, *, with_log: bool = False, prepare: Callable[[World], None] = lambda _world: None
) -> History:
    """Run a seed's history. `prepare` may change the world first."""
    started = time.perf_counter()
    world = prepare_world(seed, store, prepare)
    violation = None
    try:
        world.run()
        log = _format_log(world) if with_log else []  # before the checks, which write to the same database
        invariants.check(world)
    except ViolationError as error:
        violation = str(error)
        log = _format_log(world)
    return History(
        seed,
        violation,
        world.scheduler.steps,
        world.scheduler.now,
        dict(world.faults.injected),
        len(world.attempts),
        time.perf_counter() - started,
        log,
    )


def prepare_world(seed: int, store: Store, prepare: Callable[[World], None] = lambda _world: None) -> World:
    """Create a seed's world with all input and checks, before the first step."""
    store.reset()
    scenario.make_tenant(store)
    world = World(seed, store)
    prepare(world)
    _add_input(world)
    invariants.InvariantChecker(world)
    retries.RetryChecker(world)
    return world


def _add_input(world: World) -> None:
    random = world.random
    if random.random() < TASKS_SHARE:
        _submit_tasks(world)
        if random.random() < 0.8:
            _add_events(world)
            return
    names = list(random.choice(FAMILIES)) if random.random() < 0.5 else random.sample(READABLE, random.randint(1, 4))
    if random.random() < 0.6:
        for name in names:
            document_id = scenario.make_document(world.store, random, name, 0)
            world.names[document_id] = name
    else:
        _upload(world, names[: random.randint(1, 3)])
    _add_events(world)


def _submit_tasks(world: World) -> None:
    """Submit tasks, and sometimes cancel some of them."""
    random = world.random
    for number in range(random.randint(1, 4)):
        max_retry = random.choice((0, 1, 2, 5))
        task_id = scenario.make_task(world.store, random, max_retry, 0)
        world.names[task_id] = f"task {number + 1}"
        world.attempt_limits[task_id] = max_retry + 1
        if random.random() < 0.1:
            _at(world, random.uniform(0, 60), partial(operator_actions.cancel_task, world, task_id))


def _add_events(world: World) -> None:
    """Add unreadable messages, messages for unknown work items, and operator actions."""
    random = world.random
    if random.random() < 0.2:
        _at(world, random.uniform(0, 600), lambda: _put_unreadable(world))
    if random.random() < 0.05:
        queue = world.sqs.queues[random.choice(tuple(world.sqs.queues))]
        _at(world, random.uniform(0, 600), partial(world.put_unknown_work, queue))
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        _at(
            world,
            random.choice((random.uniform(0, 60), random.uniform(0, 4000))),
            partial(operator_actions.restart_work_item, world),
        )


def _upload(world: World, names: list[str]) -> None:
    random = world.random
    if random.random() < 0.2:
        names.append(random.choice(("no document", "damaged", names[0])))
    keys = [(f"uploads/{scenario.SLUG}/{number}/{name}.xml", name) for number, name in enumerate(names)]
    if random.random() < 0.1:
        keys[-1] = (f"uploads/nobody/{names[-1]}.xml", names[-1])
    for key, name in keys:
        world.storage.objects[key] = scenario.document_files()[name]
    uploads = [(key, len(world.storage.objects[key])) for key, _ in keys]
    events = (
        [scenario.event(uploads, "01")]
        if random.random() < 0.2
        else [scenario.event([upload], "01") for upload in uploads]
    )
    work_ids = [message.work_id for body in events for message in files.read_event(body).messages]
    world.names |= {work_id: f"upload of {name}" for work_id, (_, name) in zip(work_ids, keys, strict=True)}
    for body in events:
        if world.is_event_lost():
            continue
        for _ in range(2 if random.random() < 0.1 else 1):
            _at(world, random.choice((0, random.uniform(0, 400))), partial(_deliver_event, world, body))


def _deliver_event(world: World, body: str) -> None:
    world.sqs.put(world.sqs.queues["acquisition"], body)


def _put_unreadable(world: World) -> None:
    random = world.random
    queue = world.sqs.queues[random.choice(tuple(world.sqs.queues))]
    body = random.choice(BAD_BODIES)
    world.unreadable.append((queue, world.sqs.put(queue, body)))


def _at(world: World, seconds: float, action: Callable[[], None]) -> None:
    def run_later() -> None:
        world.scheduler.sleep(seconds)
        action()

    world.scheduler.spawn("outside", run_later)


def _format_log(world: World) -> list[str]:
    """Format the history's events, and the changes in each commit.

    Each event has its virtual time and actor.
    """
    changes_by_transaction: dict[int, list[str]] = {}
    for entry in ledger(world):
        old = entry.old or {}
        changes = ", ".join(
            f"{name} {old.get(name)} -> {value}" for name, value in sorted(entry.new.items()) if old.get(name) != value
        )
        changes_by_transaction.setdefault(entry.transaction, []).append(
            f"    ledger {entry.number}: {entry.worker} of {world.name(entry.id)}: {changes}"
        )
    lines = []
    for event in world.scheduler.events[: world.ended_at]:
        time = (START + timedelta(seconds=event.at)).strftime("%d %H:%M:%S.%f")[:-4]
        lines.append(f"{time}  {event.actor:<28} {event.text}")
        if event.text.startswith("COMMITTED #"):
            lines += changes_by_transaction.get(int(event.text.rpartition("#")[2]), [])
    return lines
