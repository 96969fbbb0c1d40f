"""Chaos for a local cloud: worker processes and PostgreSQL end by SIGKILL, at random moments of a seed."""

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
from cli.local.place import Place
from cli.local.postgres import PostgresServer
from tests.e2e.conftest import CommandLine
from tests.e2e.waiting import until
from tests.llm.server import Server

WORKERS = {"acquisition": 3, "ingestion": 4, "matching": 4, "dead_letters": 1, "watchdog": 1}
"""Who is killed how often while documents come in, in proportion, as far as it is there."""
_CLAIMED = {
    "acquisition": "SELECT count(*) FROM acquisition_job WHERE status = 'in-progress'",
    "ingestion": "SELECT count(*) FROM ingestion_job WHERE status = 'in-progress'",
    "matching": "SELECT count(*) FROM document WHERE matching_status = 'in-progress'",
    "tasks": "SELECT count(*) FROM task WHERE status = 'in-progress'",
}
_AMID = 0.75
"""How often a kill waits for a moment at which the worker holds claims; else it comes at any moment."""
_PAUSES = (0.1, 1.0)
"""Seconds between two kills, at least and at most."""
_DOWN = (0.2, 1.5)
"""Seconds for which PostgreSQL stays away."""
_PATIENCE = 5.0
"""Seconds to wait for a process, and for such a moment."""
_TIMEOUT = 20
"""Seconds of each function."""
_VISIBILITY = 30
"""Seconds until a message returns whose process was killed before it extended the visibility. Deployed: 120."""
_SPOILT = re.compile(
    r"Unexpected (ModuleNotFound|FileNotFound|Import)Error at (httpx|httpcore|h11|anyio|counterfoil\.llm)"
)


def is_spoilt(error: str) -> bool:
    """Whether work failed since the emulator took the code away from the process that did it.

    A process that is killed while it starts has the emulator clear up after all of its function, and one that is just
    starting beside it lives on without the code that it has not loaded yet (tests/e2e/test_spoilt.py). Such an error is
    unknown, and so final for a task. Usually there is none.
    """
    return _SPOILT.match(error) is not None


@contextmanager
def own_cloud(name: str, settings: Mapping[str, str], model: Server) -> Iterator[Cloud]:
    """A cloud that nobody else uses, with these settings, whose language model this is."""
    with TemporaryDirectory(prefix=f"counterfoil-{name}-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # root's PostgreSQL runs as nobody
        line = CommandLine(Path(folder).resolve() / "cloud")
        told = {**settings, "LLM_URL": model.url_for("openai")}
        try:
            line.run("up", "--timeout", str(_TIMEOUT), *(f"--setting={name}={value}" for name, value in told.items()))
            cloud = Cloud.at(Place(line.folder))
            shorten_visibility(cloud)
            yield cloud
            cloud.database.close()
        finally:
            line.run("down")
            gc.collect()


def shorten_visibility(cloud: Cloud) -> None:
    """Let messages return sooner."""
    with closing(cloud.client("sqs")) as sqs:
        for name, url in cloud.outputs.items():
            if name.endswith("QueueUrl"):
                sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": str(_VISIBILITY)})


@dataclass
class Chaos:
    """What kills, and what it has killed."""

    cloud: Cloud
    random: Random
    wanted: Mapping[str, int] = field(default_factory=lambda: WORKERS)
    workers: Counter[str] = field(default_factory=Counter)
    """Processes killed while they were alive, by worker."""
    amid: int = 0
    """Of these: while the worker held claims."""
    databases: int = 0

    def pause(self) -> None:
        """Let some time pass."""
        threading.Event().wait(self.random.uniform(*_PAUSES))

    def kill_worker(self) -> None:
        """End one live process of a worker, drawn from those that there are, by its number."""
        while True:
            (wanted,) = self.random.choices(list(self.wanted), list(self.wanted.values()))
            worker, process = self.random.choice(self._there(wanted))
            amid = worker in _CLAIMED and self.random.random() < _AMID and self._await_claims(worker)
            if processes.is_alive(process):
                with suppress(psutil.NoSuchProcess):  # it ended after it was listed
                    process.kill()
                    until(lambda: not processes.is_alive(process))  # noqa: B023 - looked at before the loop goes on
                    self.workers[worker] += 1
                    self.amid += amid
                    return

    def _there(self, worker: str) -> list[tuple[str, psutil.Process]]:
        """The live processes of a worker, waited for a little; else those that there are."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            found = list(live(self.cloud, self.wanted))
            wanted = [one for one in found if one[0] == worker]
            if wanted or (found and time.monotonic() > deadline):
                return wanted or found
            threading.Event().wait(0.05)

    def _await_claims(self, worker: str) -> bool:
        """Wait a little until this worker holds claims. Returns whether it does, at this moment."""
        deadline = time.monotonic() + _PATIENCE
        with psycopg.connect(self.cloud.state.database_url, autocommit=True) as admin:
            while time.monotonic() < deadline:
                if admin.execute(_CLAIMED[worker].encode()).fetchone() != (0,):
                    return True
                threading.Event().wait(0.003)
        return False

    def kill_database(self) -> None:
        """End PostgreSQL with all its processes, and start it again on the same port."""
        place = PostgresServer(self.cloud.place.postgres)
        server = place.running()
        assert server is not None
        server.kill()
        assert place.running() is None
        threading.Event().wait(self.random.uniform(*_DOWN))
        assert place.start(server.port).port == server.port
        self.databases += 1


def live(cloud: Cloud, workers: Iterable[str] = WORKERS) -> Iterator[tuple[str, psutil.Process]]:
    """The processes that are these functions of this cloud, each with its worker's name."""
    for process in processes.belonging_to(cloud.place.folder):
        with suppress(psutil.Error):
            command = process.cmdline()[1:]
            for worker in workers:
                if any(f"-counterfoil-{worker}-" in part for part in command):
                    yield worker, process


@contextmanager
def watched(cloud: Cloud, every: float = 1, worker: str = "Watchdog") -> Iterator[None]:
    """Invoke the watchdog, or another scheduled function, every second instead of every minute."""
    ended = threading.Event()
    functions, name = cloud.client("lambda"), cloud.outputs[f"{worker}FunctionName"]

    def rounds() -> None:
        while not ended.wait(every):
            with suppress(functions.exceptions.TooManyRequestsException):  # the schedule's own round goes on
                functions.invoke(FunctionName=name, Payload="{}")

    thread = threading.Thread(target=rounds, name=worker)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
