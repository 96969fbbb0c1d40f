"""Measure a tenant's reads while another tenant floods the API.

Run `python -m tests.benchmarks.noisy_neighbor`. Ten processes run the real handler, like ten concurrent invocations. A
request is refused if it exceeds the gateway's limit or no process is free. After a refusal, patient flood clients wait
a second, and impatient ones 10 ms.
"""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event, Lock
from time import monotonic, sleep
from typing import Annotated

import typer

from cli.local.postgres import PostgresServer
from functions.admin_api import handler
from tests.benchmarks import dead_letters
from tests.benchmarks.console import p95
from tests.benchmarks.console_polling import deploy, request
from tests.benchmarks.scale import database
from tests.delivery.harness import Context

INVOCATIONS = 10
"""Maximum number of concurrent API invocations."""
CLIENTS = 20
"""Number of flood clients. Each sends its next request as soon as it receives a successful response."""
PAUSE_SECONDS = 0.5
"""Pause between two requests from the other tenant."""
PATIENT_SECONDS, IMPATIENT_SECONDS = 1.0, 0.01
GATEWAY_PER_SECOND, GATEWAY_BURST = 50, 100
"""The gateway's rate limit and burst, shared by all tenants."""
OK, GATEWAY, NO_FREE_INVOCATION = "answered", "refused by the gateway", "without a free invocation"
PATH = "/api/admin/dlq"
FLOODS = (
    ("no flood", 0, PATIENT_SECONDS),
    (f"{CLIENTS} patient clients", CLIENTS, PATIENT_SECONDS),
    (f"{CLIENTS} impatient clients", CLIENTS, IMPATIENT_SECONDS),
)


@dataclass
class ResponseStats:
    """Responses to one tenant's requests."""

    statuses: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Durations of the requests answered with 200."""

    def add(self, status: str, seconds: float) -> None:
        """Add a response and its duration."""
        self.statuses.append(status)
        if status == OK:
            self.seconds.append(seconds)

    def __str__(self) -> str:
        """Format the count of each status, and the p50 and p95 in milliseconds."""
        counts = ", ".join(f"{self.statuses.count(status)} {status}" for status in sorted(set(self.statuses)))
        if not self.seconds:
            return counts
        took = f"p50 {median(self.seconds) * 1000:.0f} ms, p95 {p95(self.seconds) * 1000:.0f} ms"
        return f"{len(self.statuses)} requests: {counts}; {took}"


class Api:
    """Ten execution environments of the API function."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        context = get_context("spawn")
        self.free: SimpleQueue[Connection] = SimpleQueue()
        for _ in range(INVOCATIONS):
            here, there = context.Pipe()
            process = context.Process(target=answer, args=(url, there), daemon=True)
            process.start()
            stack.callback(process.join)
            stack.callback(here.send, None)
            here.send((PATH, {"tenant": "tenant-2"}, "tenant-2", "warm"))  # cold start, before the measurement
            self.free.put(here)
        for _ in range(INVOCATIONS):
            environment = self.free.get()
            environment.recv()
            self.free.put(environment)
        self.tokens, self.refilled_at, self.lock = float(GATEWAY_BURST), monotonic(), Lock()
        self.busy_since: float | None = None
        self.busiest = 0.0
        """Longest period during which no environment was free, in seconds."""

    def ask(self, tenant: str, user: str) -> str:
        """Request a page of dead letters.

        Return `OK`, or the reason why the request failed.
        """
        if not self._is_admitted():
            return GATEWAY
        try:
            environment = self.free.get_nowait()
        except Empty:
            return NO_FREE_INVOCATION
        if self.free.empty():
            self.busy_since = monotonic()
        environment.send((PATH, {"tenant": tenant}, tenant, user))
        status: int = environment.recv()
        if self.busy_since is not None:
            self.busiest = max(self.busiest, monotonic() - self.busy_since)
            self.busy_since = None
        self.free.put(environment)
        return OK if status == HTTPStatus.OK else f"answered with {status}"

    def _is_admitted(self) -> bool:
        with self.lock:
            now = monotonic()
            self.tokens = min(GATEWAY_BURST, self.tokens + (now - self.refilled_at) * GATEWAY_PER_SECOND)
            self.refilled_at = now
            if self.tokens < 1:
                return False
            self.tokens -= 1
            return True


def answer(url: str, pipe: Connection) -> None:
    """Answer requests from the pipe until None arrives."""
    deploy(url)
    while (received := pipe.recv()) is not None:
        path, query, tenant, user = received
        pipe.send(handler.handle(request(path, query, None, tenant=tenant, user=user), Context())["statusCode"])


def measure(api: Api, seconds: float, *, clients: int, pause: float) -> Mapping[str, ResponseStats]:
    """Run the flood for `seconds`, and read as the other tenant.

    Return the responses by tenant.
    """
    flood, other, stop = ResponseStats(), ResponseStats(), Event()
    api.busiest = 0.0

    def keep_asking(number: int) -> None:
        while not stop.is_set():
            began = monotonic()
            status = api.ask("tenant-0", f"user {number}")
            flood.add(status, monotonic() - began)
            if status != OK:
                sleep(pause)

    with ThreadPoolExecutor(max(1, clients)) as pool:
        for number in range(clients):
            pool.submit(keep_asking, number)
        until = monotonic() + seconds
        while monotonic() < until:
            began = monotonic()
            other.add(api.ask("tenant-1", "occasional user"), monotonic() - began)
            sleep(PAUSE_SECONDS)
        stop.set()
    return {"flood": flood, "other tenant": other}


def run(
    total: Annotated[int, typer.Option("--dead-letters", help="Number of dead letters.")] = 20_000,
    seconds: Annotated[float, typer.Option(help="Duration of each run.")] = 30,
) -> None:
    """Measure reads without and with a flood, and print the response statistics."""
    os.environ["POWERTOOLS_LOG_LEVEL"] = "CRITICAL"  # the API logs each refusal
    with TemporaryDirectory(prefix="counterfoil-reads-") as directory:
        Path(directory).chmod(0o711)
        embedded = PostgresServer(Path(directory) / "postgres")
        try:
            server = embedded.start(durable=False)
            url = database.prepare(server, "dead_letters", dead_letters.TENANTS)
            dead_letters.load(url, total, datetime.now(UTC))
            with ExitStack() as stack:
                api = Api(server.url("dead_letters", "counterfoil_worker"), stack)
                for name, clients, pause in FLOODS:
                    answers_by_tenant = measure(api, seconds, clients=clients, pause=pause)
                    print(f"{name}:")  # noqa: T201
                    for tenant, answers in answers_by_tenant.items():
                        print(f"  {tenant}: {answers}")  # noqa: T201
                    print(f"  all {INVOCATIONS} invocations busy for at most {api.busiest:.2f} s")  # noqa: T201
        finally:
            embedded.remove()


if __name__ == "__main__":
    typer.run(run)
