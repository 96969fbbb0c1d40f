"""Many histories at once: each process has a PostgreSQL of its own, so that a seed means the same everywhere."""

import logging
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from queue import Empty
from typing import Any

from cli.failures import CommandError
from cli.local.postgres import temporary_server
from tools.simulation import history
from tools.simulation.database import Store
from tools.simulation.history import History
from tools.simulation.twins import TWINS

ENOUGH_VIOLATIONS = 5
"""After so many broken histories no more are begun: they are most likely one defect."""


@dataclass
class Summary:
    """What many histories came to."""

    histories: int = 0
    violations: list[History] = field(default_factory=list)
    steps: int = 0
    tries: int = 0
    virtual_seconds: float = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, one: History) -> None:
        """Count one history."""
        self.histories += 1
        self.steps += one.steps
        self.tries += one.tries
        self.virtual_seconds += one.virtual_seconds
        self.faults.update({str(fault): count for fault, count in one.faults.items()})
        if one.violation is not None:
            self.violations.append(one)


@contextmanager
def store() -> Iterator[Store]:
    """A database for histories, in a PostgreSQL of its own."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the product's log of a simulated world is nobody's; its history tells more
    try:
        with temporary_server() as server, closing(Store(server)) as made:
            yield made
    finally:
        logging.disable(disabled)


def in_processes(
    seeds: Sequence[int],
    processes: int,
    *,
    tell: bool = False,
    twin: str | None = None,
    each: Callable[[History], None] = lambda _one: None,
) -> Summary:
    """Run the histories of `seeds`, in processes of their own; `each` is told of them as they end.

    Stops early when too many are broken.

    Raises:
        CommandError: a process ended before its histories did.
    """
    context = multiprocessing.get_context("spawn")
    done: Queue[History | BaseException] = context.Queue()
    enough = context.Event()
    workers = [
        context.Process(target=_work, args=(list(seeds[number::processes]), tell, twin, done, enough), daemon=True)
        for number in range(min(processes, len(seeds)))
    ]
    summary = Summary()
    with _fixed_hashes():
        for worker in workers:
            worker.start()
    try:
        while summary.histories < len(seeds) and not enough.is_set():
            for one in _arriving(done, workers):
                if isinstance(one, BaseException):
                    raise CommandError(f"The simulation itself has failed: {type(one).__name__}: {one}") from one
                summary.add(one)
                each(one)
            if len(summary.violations) >= ENOUGH_VIOLATIONS or (twin is not None and summary.violations):
                enough.set()
    finally:
        enough.set()
        for worker in workers:
            worker.join(30)
    return summary


def _arriving(done: "Queue[History | BaseException]", workers: Sequence[Any]) -> Iterator[History | BaseException]:
    try:
        yield done.get(timeout=1)
        while True:
            yield done.get_nowait()
    except Empty:
        if not any(worker.is_alive() for worker in workers) and done.empty():
            raise CommandError("A process of the simulation has ended before its time.") from None


@contextmanager
def _fixed_hashes() -> Iterator[None]:
    """Children hash texts as any other run does: the order of a set must not depend on the process."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before


def _work(
    seeds: list[int],
    tell: bool,
    twin: str | None,
    done: "Queue[History | BaseException]",
    enough: Any,
) -> None:
    """What one process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and says when it is enough
    try:
        with store() as made:
            if twin is None:
                _run(seeds, made, done, enough, tell=tell)
            else:
                (broken,) = [one for one in TWINS if one.name == twin]
                with broken.broken():
                    _run(seeds, made, done, enough, tell=tell, prepare=broken.prepare)
    except BaseException as error:  # noqa: BLE001  # the parent has to know
        done.put(RuntimeError(f"{type(error).__name__}: {error}"))


def _run(seeds: list[int], made: Store, done: "Queue[History | BaseException]", enough: Any, **options: Any) -> None:
    parent = multiprocessing.parent_process()
    for seed in seeds:
        if enough.is_set() or (parent is not None and not parent.is_alive()):
            return
        done.put(history.run(seed, made, **options))
