"""Seeded scheduler for simulated processes, which are greenlets in one thread.

Time is virtual.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import inf
from random import Random
from typing import Any

from greenlet import greenlet  # type: ignore[import-untyped]  # its stubs are in a separate package

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
"""Virtual start time of every history."""
MAX_STEPS = 60_000
"""Maximum number of steps in a history. A longer history is considered endless."""
MAX_SECONDS = 9 * 24 * 3600.0
"""Maximum length of a history in virtual seconds. It is below the SQS retention, so that no messages expire."""


class ProcessKilledError(BaseException):
    """Raised in the tasks of a killed process, so that unwinding has no effects."""


class ViolationError(Exception):
    """An invariant is violated."""


class ProcessState(StrEnum):
    """State of a simulated process."""

    RUNNING = "running"
    FROZEN = "frozen"
    """Between two invocations. None of the process's tasks run."""
    DEAD = "dead"


@dataclass(eq=False)
class Process:
    """A simulated process, such as a Lambda environment or an operator's shell."""

    name: str
    state: ProcessState = ProcessState.RUNNING
    mortal: bool = True
    """Whether faults may kill the process."""
    on_death: list[Callable[[], None]] = field(default_factory=list)
    handles: tuple[str, ...] = ()
    """Receipt handles of the messages in its current invocation."""
    paused_until: float = -inf
    clock_ahead: timedelta = timedelta()
    """Offset of the process's clock from the virtual time."""
    hung: dict[str, float] = field(default_factory=dict)
    """Virtual time at which each task started to wait for a hung database, by task name."""


@dataclass(eq=False)
class Task:
    """A thread of a process, or of the world if `process` is None."""

    number: int
    name: str
    process: Process | None
    thread: greenlet
    predicate: Callable[[], bool] | None = None
    """Condition that the task waits for, or None if it is ready to run."""
    deadline: float = inf
    """Virtual time at which the task stops waiting."""
    priority: float = 0

    def can_run(self, now: float) -> bool:
        """Return whether the task can run now."""
        process = self.process
        if process is not None and (process.state is not ProcessState.RUNNING or process.paused_until > now):
            return False
        return self.predicate is None or self.deadline <= now or self.predicate()

    def next_wake(self) -> float:
        """Return the virtual time by which the task can run.

        The task can run then even if its condition is still false.
        """
        if self.process is None:
            return self.deadline
        if self.process.state is not ProcessState.RUNNING:
            return inf
        ready = self.predicate is None or self.predicate()
        return max(-inf if ready else self.deadline, self.process.paused_until)


class Order(StrEnum):
    """Strategy for choosing the next task."""

    FAIR = "fair"
    """Choose any ready task."""
    STICKY = "sticky"
    """Usually choose the same task again."""
    RANKED = "ranked"
    """Choose by ranks that occasionally change. Some tasks finish while others stall, as on a loaded machine."""


@dataclass(frozen=True)
class Event:
    """An event in a history."""

    at: float
    actor: str
    text: str


class Scheduler:
    """Runs tasks one at a time until all have finished.

    The seed determines the order.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  # a seed has to give the same history each time
        self.now = 0.0
        """Virtual seconds since START."""
        self.steps = 0
        self.events: list[Event] = []
        self.actions: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        """Actions of the world, besides the tasks, as pairs of a condition and an action."""
        self.before_time_passes: list[Callable[[float], float]] = []
        """Callbacks that receive the next wake-up time, and may return an earlier time."""
        self.after_time_passed: list[Callable[[], None]] = []
        self.at_point: Callable[[str], None] = lambda _point: None
        """Callback that injects faults into processes at named points."""
        self._order = self.random.choice(tuple(Order))
        self._change = self.random.choice((0.01, 0.05, 0.2))
        self._tasks: list[Task] = []
        self._count = 0
        self._hub = greenlet.getcurrent()
        self._current: Task | None = None
        self._last: Any = None
        self._failure: BaseException | None = None

    # -- for tasks -----------------------------------------------------------------------------------------------------

    @property
    def current(self) -> Task | None:
        """Return the running task."""
        return self._current

    def clock(self) -> datetime:
        """Return the virtual time as a datetime."""
        return START + timedelta(seconds=self.now)

    def log(self, message: str) -> None:
        """Add an event to the history."""
        task = self._current
        self.events.append(Event(self.now, f"{task.name}" if task is not None else "world", message))

    def spawn(self, name: str, function: Callable[[], None], process: Process | None = None) -> Task:
        """Start a task.

        An error in `function` ends the history, unless its process is dead.
        """
        self._count += 1
        task = Task(self._count, name if process is None else f"{process.name}/{name}", process, greenlet())
        task.priority = self.random.random()

        def run() -> None:
            try:
                function()
            except ProcessKilledError:
                if process is None or process.state is not ProcessState.DEAD:
                    raise
            except BaseException as error:  # noqa: BLE001  # raised again by the loop
                if process is None or process.state is not ProcessState.DEAD:
                    self._failure = self._failure or error

        task.thread = greenlet(run, self._hub)
        self._tasks.append(task)
        return task

    def point(self, name: str) -> None:
        """Switch to another task at a named point.

        The caller's process may be killed here.
        """
        task = self._alive()
        if task is None:
            return
        self.log(name)
        self.at_point(name)
        self._switch()

    def wait(self, predicate: Callable[[], bool], timeout: float = inf) -> bool:
        """Let other tasks run until `predicate` is true or time is up.

        Returns the last value of `predicate`.
        """
        task = self._alive()
        assert task is not None, "only a task can wait"
        task.predicate, task.deadline = predicate, self.now + timeout
        self._switch()
        return predicate()

    def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        self.wait(lambda: False, seconds)

    def _alive(self) -> Task | None:
        task = self._current
        if task is not None and task.process is not None and task.process.state is ProcessState.DEAD:
            raise ProcessKilledError
        return task

    def _switch(self) -> None:
        self._hub.switch()
        self._alive()

    def fail(self, reason: str) -> None:
        """End the history with a violation, even if the caller handles errors."""
        self._failure = self._failure or ViolationError(reason)
        self.log(f"VIOLATION: {reason}")

    # -- killing processes ---------------------------------------------------------------------------------------------

    def kill(self, process: Process, reason: str) -> None:
        """Kill a process. Its tasks stop, and their unwinding has no effects."""
        if process.state is ProcessState.DEAD:
            return
        self.events.append(Event(self.now, process.name, f"KILLED: {reason}"))
        process.state = ProcessState.DEAD
        for callback in process.on_death:
            callback()
        for task in [task for task in self._tasks if task.process is process and task is not self._current]:
            self._unwind(task)
        if self._current is not None and self._current.process is process:
            raise ProcessKilledError

    def _unwind(self, task: Task) -> None:
        previous, self._current = self._current, task
        thread = task.thread
        parent, thread.parent = thread.parent, greenlet.getcurrent()
        try:
            thread.throw(ProcessKilledError)
        except ProcessKilledError:
            pass  # the task had not started
        finally:
            self._current = previous
            if not thread.dead:
                thread.parent = parent
        if task in self._tasks:
            self._tasks.remove(task)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Run until all tasks have finished or `stop` returns True.

        Raises:
            ViolationError: the history does not end, or a check failed.
        """
        while not stop():
            ready: list[Any] = [task for task in self._tasks if task.can_run(self.now)]
            ready += [action for is_ready, action in self.actions if is_ready()]
            if not ready:
                if not self._pass_time():
                    return
                continue
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise ViolationError(f"The history does not end within {MAX_STEPS} steps")
            selected = self._choose(ready)
            if isinstance(selected, Task):
                self._resume(selected)
            else:
                selected()
            if self._failure is not None:
                raise self._failure

    def _choose(self, ready: list[Any]) -> Any:
        random = self.random
        if self._order is not Order.FAIR and random.random() >= self._change:
            if self._order is Order.RANKED:
                return max(
                    ready, key=lambda candidate: candidate.priority if isinstance(candidate, Task) else self._change
                )
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
        """Advance to the next time at which something can happen.

        Returns False if nothing can happen.
        """
        nearest = min((task.next_wake() for task in self._tasks), default=inf)
        for adjust in self.before_time_passes:
            nearest = min(nearest, adjust(nearest))
        if nearest == inf:
            return False
        if nearest > MAX_SECONDS:
            raise ViolationError(f"The history does not end within {MAX_SECONDS / 3600:.0f} hours")
        self.now = max(self.now, nearest)
        for callback in self.after_time_passed:
            callback()
        return True

    def close(self) -> None:
        """Unwind the remaining tasks without effects."""
        for task in list(self._tasks):
            if task.process is None:
                task.process = Process("the end")
            task.process.state = ProcessState.DEAD
        for task in list(self._tasks):
            self._unwind(task)


class Greenlets:
    """`counterfoil.delivery.concurrency.Concurrency` for one simulated process."""

    def __init__(self, scheduler: Scheduler, process: Process) -> None:
        self._scheduler = scheduler
        self._process = process

    def start(self, name: str, function: Callable[[], None]) -> None:
        """Start a task of the process."""
        self._scheduler.spawn(name, function, self._process)

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Wait in virtual time."""
        if predicate():
            return True
        return self._scheduler.wait(predicate, max(0.0, timeout)) if timeout > 0 else predicate()

    def notify(self) -> None:
        """Do nothing, because the scheduler evaluates every predicate at every step."""

    def monotonic(self) -> float:
        """Return the virtual time in seconds."""
        return self._scheduler.now

    def end_process(self) -> None:
        """Kill the caller's process."""
        self._scheduler.kill(self._process, "it exits")
