"""Circuit breakers in several processes that share one database."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from typing import Any

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection, Database

LLM = "llm:anthropic"
FAILURES = 3
OPEN_SECONDS = 30
PROBE_SECONDS = 90


class Process(Database):
    """Database of one process, which counts transactions and fails on demand."""

    failure: Exception | None = None
    transactions = 0

    @contextmanager
    def delivery(self, **options: Any) -> Iterator[Connection]:
        if self.failure is not None:
            raise self.failure
        self.transactions += 1
        with super().delivery(**options) as connection:
            yield connection


class ProcessBreakers(Breakers):
    """Circuit breakers of one process."""

    process: Process


Start = Callable[..., ProcessBreakers]
"""`start(spread, max_connections, failures)` creates a process's breakers."""


@contextmanager
def processes(database_url: str, clock: Callable[[], datetime]) -> Iterator[Start]:
    """Yield a function that starts processes. Close their databases at the end."""
    with ExitStack() as stack:

        def start(spread: float = 0.0, max_connections: int = 1, failures: int = FAILURES) -> ProcessBreakers:
            process = Process(database_url, max_connections=max_connections)
            stack.callback(process.close)
            breakers = ProcessBreakers(
                process,
                clock,
                failures=failures,
                open_seconds=OPEN_SECONDS,
                probe_seconds=PROBE_SECONDS,
                spread=lambda: spread,
            )
            breakers.process = process
            return breakers

        yield start


def end(guard: AbstractContextManager[None], error: BaseException | None = None) -> None:
    """Exit a manually entered guard with the call's error.

    Assert that the guard does not suppress it.
    """
    assert not guard.__exit__(type(error) if error else None, error, None)
