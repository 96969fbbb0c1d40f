"""One thread, one seed: simulated processes as greenlets, chosen at random at named points, in virtual time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import inf
from random import Random
from typing import Any

from greenlet import greenlet  # type: ignore[import-untyped]  # its stubs are a package of their own

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
"""When every history begins."""
MAX_STEPS = 60_000
"""A history that takes more steps will never come to rest."""
MAX_SECONDS = 9 * 24 * 3600.0
"""Longest history, in virtual time: under the retention of a queue, so that SQS never drops a message by itself."""


class DeadError(BaseException):
    """Raised inside whatever still unwinds in a process that has been killed: no effect may come of it."""


class ViolationError(Exception):
    """An invariant does not hold."""


class Life(StrEnum):
    """What a simulated process can be."""

    RUNNING = "running"
    FROZEN = "frozen"
    """Between two invocations: nothing in it runs."""
    DEAD = "dead"


@dataclass(eq=False)
class Process:
    """One simulated process: a Lambda environment, the operator's shell."""

    name: str
    life: Life = Life.RUNNING
    mortal: bool = True
    """Whether faults may kill it."""
    on_death: list[Callable[[], None]] = field(default_factory=list)
    handles: tuple[str, ...] = ()
    """Of the messages of its invocation."""
    paused_until: float = -inf
    clock_ahead: timedelta = timedelta()
    """Error of its clock."""
    hung: dict[str, float] = field(default_factory=dict)
    """Tasks that wait for a database that does not answer, and since when."""


@dataclass(eq=False)
class Task:
    """One thread of a process, or of the world itself where `process` is None."""

    number: int
    name: str
    process: Process | None
    thread: greenlet
    predicate: Callable[[], bool] | None = None
    """What it waits for; None: it is ready to run."""
    deadline: float = inf
    """When it stops waiting."""
    priority: float = 0

    def can_run(self, now: float) -> bool:
        """Whether it would do something now."""
        process = self.process
        if process is not None and (process.life is not Life.RUNNING or process.paused_until > now):
            return False
        return self.predicate is None or self.deadline <= now or self.predicate()

    def next_wake(self) -> float:
        """When it can run at the latest, whatever others do."""
        if self.process is None:
            return self.deadline
        if self.process.life is not Life.RUNNING:
            return inf
        ready = self.predicate is None or self.predicate()
        return max(-inf if ready else self.deadline, self.process.paused_until)


class Order(StrEnum):
    """How the next task is chosen."""

    FAIR = "fair"
    """Any that is ready."""
    STICKY = "sticky"
    """The same again, as a rule."""
    RANKED = "ranked"
    """By ranks that change now and then: some run to their end while others stand still, as on a loaded machine."""


@dataclass(frozen=True)
class Event:
    """One line of a history."""

    at: float
    who: str
    what: str


class Scheduler:
    """Runs tasks one at a time until nothing is left to do. Everything random in a history comes from `random`."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  # a seed has to give the same history each time
        self.now = 0.0
        """Virtual seconds since START."""
        self.steps = 0
        self.events: list[Event] = []
        self.actions: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        """What the world may do beside the tasks: whether it can, and how."""
        self.before_time_passes: list[Callable[[float], float]] = []
        """Each is told until when time would pass, and may ask for an earlier moment."""
        self.after_time_passed: list[Callable[[], None]] = []
        self.at_point: Callable[[str], None] = lambda _point: None
        """Faults of processes strike here."""
        self._order = self.random.choice(tuple(Order))
        self._change = self.random.choice((0.01, 0.05, 0.2))
        self._tasks: list[Task] = []
        self._count = 0
        self._hub = greenlet.getcurrent()
        self._current: Task | None = None
        self._last: Any = None
        self._failure: BaseException | None = None

    # -- for whoever is scheduled -------------------------------------------------------------------------------------

    @property
    def current(self) -> Task | None:
        """The task that runs now."""
        return self._current

    def clock(self) -> datetime:
        """The virtual time, as the product's code is given it."""
        return START + timedelta(seconds=self.now)

    def say(self, what: str) -> None:
        """Note something in the history."""
        task = self._current
        self.events.append(Event(self.now, f"{task.name}" if task is not None else "world", what))

    def spawn(self, name: str, function: Callable[[], None], process: Process | None = None) -> Task:
        """Start a task. What `function` raises ends the history, unless its process is dead."""
        self._count += 1
        task = Task(self._count, name if process is None else f"{process.name}/{name}", process, greenlet())
        task.priority = self.random.random()

        def run() -> None:
            try:
                function()
            except DeadError:
                if process is None or process.life is not Life.DEAD:
                    raise
            except BaseException as error:  # noqa: BLE001  # raised again by the loop
                if process is None or process.life is not Life.DEAD:
                    self._failure = self._failure or error

        task.thread = greenlet(run, self._hub)
        self._tasks.append(task)
        return task

    def point(self, what: str) -> None:
        """A named point: anything may happen before the caller goes on, its death among them."""
        task = self._alive()
        if task is None:
            return
        self.say(what)
        self.at_point(what)
        self._switch()

    def wait(self, predicate: Callable[[], bool], timeout: float = inf) -> bool:
        """Let others run until `predicate` holds, `timeout` virtual seconds at most. Returns whether it does."""
        task = self._alive()
        assert task is not None, "only a task can wait"
        task.predicate, task.deadline = predicate, self.now + timeout
        self._switch()
        return predicate()

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.wait(lambda: False, seconds)

    def _alive(self) -> Task | None:
        task = self._current
        if task is not None and task.process is not None and task.process.life is Life.DEAD:
            raise DeadError
        return task

    def _switch(self) -> None:
        self._hub.switch()
        self._alive()

    def fail(self, why: str) -> None:
        """An invariant is broken: the history ends here, whatever the caller makes of it."""
        self._failure = self._failure or ViolationError(why)
        self.say(f"VIOLATION: {why}")

    # -- death --------------------------------------------------------------------------------------------------------

    def kill(self, process: Process, why: str) -> None:
        """End a process at once: none of its tasks goes on, and what unwinds in them has no effect."""
        if process.life is Life.DEAD:
            return
        self.events.append(Event(self.now, process.name, f"KILLED: {why}"))
        process.life = Life.DEAD
        for end in process.on_death:
            end()
        for task in [task for task in self._tasks if task.process is process and task is not self._current]:
            self._unwind(task)
        if self._current is not None and self._current.process is process:
            raise DeadError

    def _unwind(self, task: Task) -> None:
        before, self._current = self._current, task
        thread = task.thread
        parent, thread.parent = thread.parent, greenlet.getcurrent()
        try:
            thread.throw(DeadError)
        except DeadError:
            pass  # it had not begun
        finally:
            self._current = before
            if not thread.dead:
                thread.parent = parent
        if task in self._tasks:
            self._tasks.remove(task)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Run until nothing is left to do, or `stop` says so.

        Raises:
            ViolationError: the history does not come to rest, or a check failed.
        """
        while not stop():
            ready: list[Any] = [task for task in self._tasks if task.can_run(self.now)]
            ready += [act for can, act in self.actions if can()]
            if not ready:
                if not self._pass_time():
                    return
                continue
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise ViolationError(f"The history does not come to rest in {MAX_STEPS} steps")
            chosen = self._choose(ready)
            if isinstance(chosen, Task):
                self._resume(chosen)
            else:
                chosen()
            if self._failure is not None:
                raise self._failure

    def _choose(self, ready: list[Any]) -> Any:
        random = self.random
        if self._order is not Order.FAIR and random.random() >= self._change:
            if self._order is Order.RANKED:
                return max(ready, key=lambda one: one.priority if isinstance(one, Task) else self._change)
            if self._last in ready:
                return self._last
        self._last = ready[int(random.random() * len(ready))]
        if isinstance(self._last, Task):
            self._last.priority = random.random()
        return self._last

    def _resume(self, task: Task) -> None:
        task.predicate, task.deadline = None, inf
        self._current = task
        try:
            task.thread.switch()
        finally:
            self._current = None
        if task.thread.dead and task in self._tasks:
            self._tasks.remove(task)

    def _pass_time(self) -> bool:
        """Go to the next moment at which something can happen. False when there is none."""
        nearest = min((task.next_wake() for task in self._tasks), default=inf)
        for ask in self.before_time_passes:
            nearest = min(nearest, ask(nearest))
        if nearest == inf:
            return False
        if nearest > MAX_SECONDS:
            raise ViolationError(f"The history does not come to rest in {MAX_SECONDS / 3600:.0f} hours")
        self.now = max(self.now, nearest)
        for tell in self.after_time_passed:
            tell()
        return True

    def close(self) -> None:
        """Unwind whatever has not ended, without effects."""
        for task in list(self._tasks):
            if task.process is None:
                task.process = Process("the end")
            task.process.life = Life.DEAD
        for task in list(self._tasks):
            self._unwind(task)


class Greenlets:
    """`counterfoil.delivery.concurrency.Concurrency` for one simulated process."""

    def __init__(self, scheduler: Scheduler, process: Process) -> None:
        self._scheduler = scheduler
        self._process = process

    def begin(self, name: str, function: Callable[[], None]) -> None:
        """Start a task of the process."""
        self._scheduler.spawn(name, function, self._process)

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Wait in virtual time."""
        if predicate():
            return True
        return self._scheduler.wait(predicate, max(0.0, timeout)) if timeout > 0 else predicate()

    def changed(self) -> None:
        """Nothing to do: the scheduler looks at every predicate at every step."""

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self._scheduler.now

    def end_process(self) -> None:
        """End the process of the caller."""
        self._scheduler.kill(self._process, "it ends itself")
