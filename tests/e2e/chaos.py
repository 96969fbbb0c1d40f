"""Random SIGKILLs of a local cloud's worker processes and PostgreSQL server."""

import gc
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import psutil
import psycopg

from cli.local import processes
from cli.local.cloud import Cloud
from cli.local.paths import CloudPaths
from cli.local.postgres import PostgresServer
from tests.e2e.conftest import CommandLine
from tests.e2e.polling import wait_until
from tests.llm.server import Server

WORKERS = {"acquisition": 3, "ingestion": 4, "matching": 4, "dead_letters": 1, "watchdog": 1}
"""Relative frequency of kills by worker."""
_CLAIMED = {
    "acquisition": "SELECT count(*) FROM acquisition_job WHERE status = 'in-progress'",
    "ingestion": "SELECT count(*) FROM ingestion_job WHERE status = 'in-progress'",
    "matching": "SELECT count(*) FROM document WHERE matching_status = 'in-progress'",
    "tasks": "SELECT count(*) FROM task WHERE status = 'in-progress'",
}
_CLAIM_SHARE = 0.75
"""Share of kills that wait until the worker holds claims, for workers in `_CLAIMED`."""
_PAUSES = (0.1, 1.0)
"""Minimum and maximum seconds between two kills."""
_DOWNTIME = (0.2, 1.5)
"""Minimum and maximum downtime of PostgreSQL in seconds."""
_CLAIM_TIMEOUT = 5.0
"""Maximum seconds to wait for a process or for claims."""
_TIMEOUT = 20
"""Each function's timeout in seconds."""
_VISIBILITY = 30
"""Visibility timeout in seconds. With the deployed 120 s, the messages of killed processes would return too late."""
_EMULATOR_FAILURE = re.compile(
    r"Unexpected (ModuleNotFound|FileNotFound|Import)Error at (httpx|httpcore|h11|anyio|counterfoil\.llm)"
)


def is_emulator_failure(error: str) -> bool:
    """Return True if the emulator deleted the code of a failed work item's process.

    If a process is killed while it starts, the emulator deletes the function's code. Another starting process then
    fails when it imports its next module (tests/e2e/test_emulator_cleanup.py). The error is unclassified, so a task
    fails permanently. This is rare.
    """
    return _EMULATOR_FAILURE.match(error) is not None


@contextmanager
def separate_cloud(name: str, settings: Mapping[str, str], model: Server) -> Iterator[Cloud]:
    """Yield a separate cloud with these settings and this language model."""
    with TemporaryDirectory(prefix=f"counterfoil-{name}-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # as root, PostgreSQL runs as another user
        line = CommandLine(Path(folder).resolve() / "cloud")
        variables = {**settings, "LLM_URL": model.url_for("openai")}
        try:
            line.run(
                "up", "--timeout", str(_TIMEOUT), *(f"--setting={name}={value}" for name, value in variables.items())
            )
            cloud = Cloud.at(CloudPaths(line.folder))
            shorten_visibility(cloud)
            yield cloud
            cloud.database.close()
        finally:
            line.run("down")
            gc.collect()


def shorten_visibility(cloud: Cloud) -> None:
    """Set the visibility timeout of all queues to `_VISIBILITY`."""
    with closing(cloud.client("sqs")) as sqs:
        for name, url in cloud.outputs.items():
            if name.endswith("QueueUrl"):
                sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": str(_VISIBILITY)})


@dataclass
class Chaos:
    """Kills processes and counts the kills."""

    cloud: Cloud
    random: Random
    weights: Mapping[str, int] = field(default_factory=lambda: WORKERS)
    workers: Counter[str] = field(default_factory=Counter)
    """Number of killed processes by worker."""
    during_claims: int = 0
    """Number of kills while the worker held claims."""
    databases: int = 0

    def pause(self) -> None:
        """Wait for a random time within `_PAUSES`."""
        threading.Event().wait(self.random.uniform(*_PAUSES))

    def kill_worker(self) -> None:
        """Kill a live process of a random worker, chosen by weight."""
        while True:
            (chosen_worker,) = self.random.choices(list(self.weights), list(self.weights.values()))
            worker, process = self.random.choice(self._live_processes(chosen_worker))
            during_claims = worker in _CLAIMED and self.random.random() < _CLAIM_SHARE and self._await_claims(worker)
            if processes.is_alive(process):
                with suppress(psutil.NoSuchProcess):  # the process ended after it was listed
                    process.kill()
                    wait_until(lambda: not processes.is_alive(process))  # noqa: B023 - called within the iteration
                    self.workers[worker] += 1
                    self.during_claims += during_claims
                    return

    def _live_processes(self, worker: str) -> list[tuple[str, psutil.Process]]:
        """Return a worker's live processes, or those of all workers if it has none.

        The worker's processes are first awaited for `_CLAIM_TIMEOUT` seconds.
        """
        deadline = time.monotonic() + _CLAIM_TIMEOUT
        while True:
            all_processes = list(live_processes(self.cloud, self.weights))
            of_worker = [entry for entry in all_processes if entry[0] == worker]
            if of_worker or (all_processes and time.monotonic() > deadline):
                return of_worker or all_processes
            threading.Event().wait(0.05)

    def _await_claims(self, worker: str) -> bool:
        """Wait until this worker holds claims. Return False after `_CLAIM_TIMEOUT`."""
        deadline = time.monotonic() + _CLAIM_TIMEOUT
        with psycopg.connect(self.cloud.state.database_url, autocommit=True) as admin:
            while time.monotonic() < deadline:
                if admin.execute(_CLAIMED[worker].encode()).fetchone() != (0,):
                    return True
                threading.Event().wait(0.003)
        return False

    def kill_database(self) -> None:
        """Kill PostgreSQL with all its processes, and restart it on the same port."""
        postgres = PostgresServer(self.cloud.paths.postgres)
        server = postgres.running()
        assert server is not None
        server.kill()
        assert postgres.running() is None
        threading.Event().wait(self.random.uniform(*_DOWNTIME))
        assert postgres.start(server.port).port == server.port
        self.databases += 1


def live_processes(cloud: Cloud, workers: Iterable[str] = WORKERS) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the live processes of these workers, each with the name of its worker."""
    for process in processes.find_processes(cloud.paths.folder):
        with suppress(psutil.Error):
            command = process.cmdline()[1:]
            for worker in workers:
                if any(f"-counterfoil-{worker}-" in part for part in command):
                    yield worker, process


@contextmanager
def watchdog_running(cloud: Cloud, interval: float = 1, worker: str = "Watchdog") -> Iterator[None]:
    """Invoke a scheduled function every `interval` seconds during the block.

    The default function is the watchdog.
    """
    stop = threading.Event()
    functions, name = cloud.client("lambda"), cloud.outputs[f"{worker}FunctionName"]

    def invoke_repeatedly() -> None:
        while not stop.wait(interval):
            with suppress(functions.exceptions.TooManyRequestsException):  # a scheduled run is in progress
                functions.invoke(FunctionName=name, Payload="{}")

    thread = threading.Thread(target=invoke_repeatedly, name=worker)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
