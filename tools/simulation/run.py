"""Parallel histories.

Each process has its own PostgreSQL, so a seed always gives the same history.
"""

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
from tools.simulation.mutants import MUTANTS

MAX_VIOLATIONS = 5
"""Number of violations after which no more histories start. The violations probably share one cause."""


@dataclass
class Summary:
    """Totals over many histories."""

    histories: int = 0
    violations: list[History] = field(default_factory=list)
    steps: int = 0
    attempts: int = 0
    virtual_seconds: float = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, result: History) -> None:
        """Add one history."""
        self.histories += 1
        self.steps += result.steps
        self.attempts += result.attempts
        self.virtual_seconds += result.virtual_seconds
        self.faults.update({str(fault): count for fault, count in result.faults.items()})
        if result.violation is not None:
            self.violations.append(result)


@contextmanager
def open_store() -> Iterator[Store]:
    """Start a temporary PostgreSQL, and create the database for histories."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the history replaces the product's log
    try:
        with temporary_server() as server, closing(Store(server)) as store:
            yield store
    finally:
        logging.disable(disabled)


def run_parallel(
    seeds: Sequence[int],
    processes: int,
    *,
    with_log: bool = False,
    mutant: str | None = None,
    on_result: Callable[[History], None] = lambda _result: None,
) -> Summary:
    """Run the histories of `seeds` in several processes.

    Calls `on_result` with every result. Stops after MAX_VIOLATIONS violations, or after one if there is a mutant.

    Raises:
        CommandError: the simulation itself failed, or all processes exited early.
    """
    context = multiprocessing.get_context("spawn")
    results: Queue[History | BaseException] = context.Queue()
    stop = context.Event()
    workers = [
        context.Process(
            target=_run_worker, args=(list(seeds[number::processes]), with_log, mutant, results, stop), daemon=True
        )
        for number in range(min(processes, len(seeds)))
    ]
    summary = Summary()
    with _fixed_hashes():
        for worker in workers:
            worker.start()
    try:
        while summary.histories < len(seeds) and not stop.is_set():
            for result in _receive_results(results, workers):
                if isinstance(result, BaseException):
                    raise CommandError(f"The simulation itself failed: {type(result).__name__}: {result}") from result
                summary.add(result)
                on_result(result)
            if len(summary.violations) >= MAX_VIOLATIONS or (mutant is not None and summary.violations):
                stop.set()
    finally:
        stop.set()
        for worker in workers:
            worker.join(30)
    return summary


def _receive_results(
    results: "Queue[History | BaseException]", workers: Sequence[Any]
) -> Iterator[History | BaseException]:
    try:
        yield results.get(timeout=1)
        while True:
            yield results.get_nowait()
    except Empty:
        if not any(worker.is_alive() for worker in workers) and results.empty():
            raise CommandError("The processes of the simulation exited early.") from None


@contextmanager
def _fixed_hashes() -> Iterator[None]:
    """Fix the hash seed for child processes.

    Otherwise, set order could differ between processes.
    """
    previous = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        yield
    finally:
        if previous is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = previous


def _run_worker(
    seeds: list[int],
    with_log: bool,
    mutant: str | None,
    results: "Queue[History | BaseException]",
    stop: Any,
) -> None:
    """Run the histories of one process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles the signal and stops this process
    try:
        with open_store() as store:
            if mutant is None:
                _run_histories(seeds, store, results, stop, with_log=with_log)
            else:
                (selected,) = [candidate for candidate in MUTANTS if candidate.name == mutant]
                with selected.patch():
                    _run_histories(seeds, store, results, stop, with_log=with_log, prepare=selected.prepare)
    except BaseException as error:  # noqa: BLE001  # raised again by the parent
        results.put(RuntimeError(f"{type(error).__name__}: {error}"))


def _run_histories(
    seeds: list[int], store: Store, results: "Queue[History | BaseException]", stop: Any, **options: Any
) -> None:
    parent = multiprocessing.parent_process()
    for seed in seeds:
        if stop.is_set() or (parent is not None and not parent.is_alive()):
            return
        results.put(history.run(seed, store, **options))
