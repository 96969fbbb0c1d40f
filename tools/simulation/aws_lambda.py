"""Simulated Lambda functions and event source mappings.

A process survives between invocations, unless it is killed or replaced.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from counterfoil.db import SERVER_GRACE_SECONDS, SHORT_TRANSACTION_SECONDS
from tools.simulation.faults import Fault, Faults
from tools.simulation.scheduler import Process, ProcessState, Scheduler
from tools.simulation.sqs import Message, Queue, Sqs, record

CRASH_SECONDS = (600, 3 * 3600, 24 * 3600)
"""Possible durations, in seconds, during which a release's processes crash at start."""
IN_FLIGHT = "its invocation has not finished"
MAX_DATABASE_WAIT_SECONDS = SHORT_TRANSACTION_SECONDS + SERVER_GRACE_SECONDS
"""Maximum time in seconds that a batch waits for the database."""

Handler = Callable[[dict[str, Any], LambdaContext], Any]


class Context(LambdaContext):
    """Lambda context for one invocation, which ends at `deadline` (virtual seconds)."""

    def __init__(self, scheduler: Scheduler, deadline: float) -> None:
        self._scheduler = scheduler
        self._deadline = deadline

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]  # Powertools declares a static method
        """Return the milliseconds left until Lambda ends the process."""
        return max(0, int((self._deadline - self._scheduler.now) * 1000))


@dataclass(eq=False)
class Environment:
    """One process of a function, with its handler.

    Its state survives between invocations.
    """

    process: Process
    handle: Handler
    is_busy: bool = False


@dataclass(eq=False)
class Function:
    """A Lambda function with reserved concurrency."""

    scheduler: Scheduler
    faults: Faults
    name: str
    timeout: float
    reserved_concurrency: int
    start: Callable[[Process], Handler]
    """Creates the handler of a new process."""
    environments: list[Environment] = field(default_factory=list)
    started: int = 0
    crashes_until: float = -inf
    """Virtual time before which new processes crash at start."""

    @property
    def running(self) -> int:
        """Number of invocations in progress."""
        return sum(environment.is_busy for environment in self.environments)

    def invoke(self, event: dict[str, Any]) -> tuple[bool, Any]:
        """Run one invocation. Returns whether it succeeded, and the response."""
        scheduler = self.scheduler
        environment = self._environment()
        environment.is_busy = True
        try:
            if self.faults.inject(Fault.SLOW_START):
                scheduler.sleep(scheduler.random.choice((1, 9, 40, 200)))
            return self._run(environment, event)
        finally:
            environment.is_busy = False
            if environment.process.state is ProcessState.DEAD:
                self.environments.remove(environment)

    def replace_idle(self) -> None:
        """End every idle process, as a release does."""
        for idle in [environment for environment in self.environments if not environment.is_busy]:
            self.environments.remove(idle)
            self.scheduler.kill(idle.process, "a release replaces it")

    def _environment(self) -> Environment:
        for idle in [environment for environment in self.environments if not environment.is_busy]:
            if self.faults.inject(Fault.RECYCLED):
                self.environments.remove(idle)
                self.scheduler.kill(idle.process, "its environment is recycled")
            elif self.scheduler.random.random() < 0.9:
                return idle
        self.started += 1
        process = Process(f"{self.name}{self.started}", ProcessState.FROZEN)
        environment = Environment(process, self.start(process))
        self.environments.append(environment)
        return environment

    def _run(self, environment: Environment, event: dict[str, Any]) -> tuple[bool, Any]:
        scheduler, process = self.scheduler, environment.process
        deadline = scheduler.now + self.timeout
        results: list[tuple[bool, Any]] = []

        def main() -> None:
            try:
                results.append((True, environment.handle(event, Context(scheduler, deadline))))
            except Exception as error:  # noqa: BLE001  # Lambda reports whatever a handler raises
                scheduler.log(f"the invocation fails: {type(error).__name__}: {error}")
                results.append((False, None))
            process.state = ProcessState.FROZEN

        process.state = ProcessState.RUNNING
        process.handles = tuple(event_record["receiptHandle"] for event_record in event.get("Records", []))
        scheduler.spawn("main", main, process)
        scheduler.wait(lambda: bool(results) or process.state is ProcessState.DEAD, self.timeout)
        if not results:
            self._check_hung(process)
            scheduler.kill(process, "its invocation has run out of time")
        return results[0] if results else (False, None)

    def _check_hung(self, process: Process) -> None:
        """Fail the history if a process waits for the database until Lambda ends it.

        The watchdog is exempt, because it has no batch.
        """
        since, now = process.hung.get(f"{process.name}/main"), self.scheduler.now
        if (
            self.name != "watchdog"
            and since is not None
            and now > max(since, process.paused_until) + MAX_DATABASE_WAIT_SECONDS
        ):
            self.scheduler.fail(f"{process.name} waits for the database until Lambda ends it")


class Mapping:
    """An event source mapping, which polls a queue and invokes a function."""

    def __init__(  # connected resources and limits
        self, sqs: Sqs, faults: Faults, queue: Queue, function: Function, *, batch_size: int, maximum_concurrency: int
    ) -> None:
        self.scheduler = sqs.scheduler
        self.queue = queue
        self.function = function
        self.in_flight = 0
        self.after: Callable[[Queue, list[Message]], None] = lambda _queue, _messages: None
        """Called with the queue and the messages after each invocation."""
        self._sqs = sqs
        self._faults = faults
        self.batch_size = batch_size
        self.maximum_concurrency = maximum_concurrency

    def can_poll(self) -> bool:
        """Return whether a message is visible and a poller is free."""
        if self.in_flight >= self.maximum_concurrency:
            return False
        now = self.scheduler.now
        return any(message.visible_at <= now for message in self.queue.messages)

    def poll(self) -> None:
        """Receive a batch and deliver it in a new task."""
        random = self.scheduler.random
        limit = self.batch_size if random.random() < 0.5 else random.randint(1, self.batch_size)
        messages = self._sqs.receive(self.queue, limit)
        if not messages:
            return
        self.in_flight += 1
        received = [(message, message.receives[-1]) for message in messages]
        names = ", ".join(f"{message.id} (receive {len(message.receives)})" for message in messages)
        self.scheduler.log(f"{self.queue.name} delivers {names}")
        event = {"Records": [record(self.queue, message) for message in messages]}

        def deliver() -> None:
            try:
                self._deliver(event, received)
            finally:
                self.in_flight -= 1

        self.scheduler.spawn(f"mapping {self.queue.name}", deliver)

    def _crashes(self) -> bool:
        """Return whether the function crashes at start.

        The archiver never crashes at start.
        """
        if self.queue.dlq is not None and self._faults.inject(Fault.CRASHES_AT_START):
            self.function.crashes_until = self.scheduler.now + self.scheduler.random.choice(CRASH_SECONDS)
        return self.scheduler.now < self.function.crashes_until

    def _deliver(self, event: dict[str, Any], received: list[tuple[Message, Any]]) -> None:
        messages = [message for message, _ in received]
        has_capacity = self.function.running < self.function.reserved_concurrency
        is_wasted = self._crashes() or self._faults.inject(Fault.WASTED_RECEIVE)
        if is_wasted or (has_capacity and self._faults.inject(Fault.THROTTLED)):
            for _, receive in received:
                receive.no_attempt_reason = "never reached the function"
            return
        if self.function.running >= self.function.reserved_concurrency:
            self.scheduler.log(f"{self.function.name} is throttled: the batch waits for its visibility timeout")
            return
        started, faults_before = self.scheduler.now, self._faults.injected.total()
        for _, receive in received:
            receive.no_attempt_reason = receive.no_attempt_reason or IN_FLIGHT
        succeeded, response = self.function.invoke(event)
        disturbed_until = max(self._faults.failover_until, self._faults.locked_until)
        is_disturbed = not succeeded or self._faults.injected.total() != faults_before or disturbed_until > started
        for _, receive in received:
            if receive.no_attempt_reason == IN_FLIGHT:
                receive.no_attempt_reason = "something went wrong" if is_disturbed else None
        self.scheduler.point("the function's response")
        failed_ids = (
            {item["itemIdentifier"] for item in (response or {}).get("batchItemFailures", [])} if succeeded else None
        )
        is_deletion_lost = self._faults.inject(Fault.NOT_DELETED)
        for message, receive in received:
            if failed_ids is None or message.id in failed_ids:
                continue
            if is_deletion_lost:
                receive.no_attempt_reason = "acknowledged and not deleted"
            else:
                self._sqs.delete(self.queue, message, receive.handle)
        self.after(self.queue, messages)


class Schedule:
    """Invokes a function on the minute if it has work, and sometimes without work."""

    def __init__(self, scheduler: Scheduler, function: Function, due: Callable[[], float]) -> None:
        """Create a schedule.

        `due` returns the earliest virtual time at which an invocation has work.
        """
        self._scheduler = scheduler
        self._function = function
        self._due = due
        self._next = inf
        self._last = -60.0

    def pass_time(self, nearest: float) -> float:
        """Schedule the next due invocation, and sometimes an earlier one without work.

        Returns the earlier of `nearest` and the invocation's time.
        """
        random = self._scheduler.random
        next_minute = 60.0 * (self._scheduler.now // 60 + 1)
        due = max(self._due(), next_minute)
        if due != inf:
            due = 60.0 * -(-due // 60)
        if random.random() < 0.05 and next_minute < nearest:
            due = min(due, next_minute)
        self._next = due
        return min(nearest, due)

    def time_passed(self) -> None:
        """Invoke the function if it is due."""
        if self._scheduler.now >= self._next and self._function.running < self._function.reserved_concurrency:
            self._next = inf
            self._scheduler.spawn("schedule", self._invoke)

    def _invoke(self) -> None:
        self._function.invoke({})
