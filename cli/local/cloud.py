"""Brings a local cloud up and down, and gives the other commands their way into it."""

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from cli.failures import CloudError
from cli.local import deployment, emulator, processes
from cli.local.deployment import Deployment, Progress, Tuning
from cli.local.emulator import Emulator
from cli.local.place import Place
from cli.local.postgres import PostgresServer
from cli.local.processes import Part
from cli.output import Checklist, aside
from counterfoil.db import Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Send

VERSION = 1
"""Format of the state file."""
DATABASE = "counterfoil"


@dataclass(frozen=True)
class State:
    """The state of a cloud whose emulator was started."""

    emulator: Emulator
    database_pid: int
    database_port: int
    database_url: str
    """URL of the server's superuser."""
    deployment: Deployment | None = None

    def deployed(self, fingerprint: str, seconds: float, outputs: dict[str, str], tuning: Tuning) -> "State":
        """The state after a deployment that has just ended."""
        deployment = Deployment(fingerprint, time.time(), seconds, outputs, dict(tuning.settings), tuning.timeout)
        return replace(self, deployment=deployment)

    @property
    def tuning(self) -> Tuning:
        """The settings of the last deployment."""
        return Tuning(self.deployment.settings, self.deployment.timeout) if self.deployment else Tuning()

    def save(self, place: Place) -> None:
        """Write it whole or not at all."""
        fresh = place.state.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"version": VERSION, **asdict(self)}, file, indent=1)
        fresh.replace(place.state)

    @classmethod
    def load(cls, place: Place) -> "State | None":
        """Return the saved state; None if it is missing or this version cannot read it."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            return cls._read(place.state)
        return None

    @classmethod
    def _read(cls, path: Path) -> "State | None":
        saved: dict[str, Any] = json.loads(path.read_text())
        if saved.pop("version") != VERSION:
            return None
        deployment = saved.pop("deployment")
        return cls(
            **(saved | {"emulator": Emulator(**saved["emulator"])}),
            deployment=Deployment(**deployment) if deployment else None,
        )


class Steps(Protocol):
    """Who is told what happens: the terminal, or nobody."""

    def begin(self, title: str) -> None:
        """A step begins; the one before it has ended well."""

    def progress(self, done: int, of: int) -> None:
        """The step that is under way has come so far."""

    def note(self, sentence: str) -> None:
        """Something that people should know."""


@dataclass(frozen=True)
class Up:
    """What `up` did."""

    cloud: "Cloud"
    started: bool
    """Whether processes were started; else the cloud was up before."""
    deployed: bool
    seconds: float


def up(
    place: Place,
    steps: Steps,
    *,
    port: int | None = None,
    database_port: int | None = None,
    tuning: Tuning | None = None,
) -> Up:
    """Bring the cloud up, as far as it is not: database, emulator, deployment.

    What the app is told by `tuning` holds until it is told something else; None leaves it as it is.

    Interrupted or failed, it ends what it started; a cloud that was up before stays up.

    Raises:
        CloudError, PostgresError: with the reason and the way out.
    """
    began = time.monotonic()
    waiting = "Another command is bringing this cloud up or down; waiting for it to end"
    with processes.interruptible(), place.locked(lambda: steps.note(waiting)):
        processes.end_all(place.folder, [Part.DEPLOYMENT])  # one whose command was killed
        found = State.load(place)
        whole = found if found is not None and _is_whole(place, found, steps) else None
        try:
            state = whole or _start(place, steps, port, database_port)
            if whole is not None:
                _check_ports(state, port, database_port)
            told = tuning or (found.tuning if found else Tuning())
            fingerprint = deployment.fingerprint(state.database_url, told)
            stale = state.deployment is None or state.deployment.fingerprint != fingerprint
            if stale:
                state = _deploy(place, state, told, fingerprint, steps)
        except BaseException:
            if whole is None:
                with processes.uninterrupted():
                    _end(place)
                steps.note("What had been started is ended")
            raise
    return Up(Cloud(place, state), whole is None, stale, time.monotonic() - began)


def _is_whole(place: Place, state: State, steps: Steps) -> bool:
    """Whether the saved cloud is all there and was deployed once. What is left of one that is not, is of no use."""
    server = PostgresServer(place.postgres).running()
    alive = state.emulator.runs_in(place) and state.emulator.is_ready()
    if alive and state.deployment and server and server.port == state.database_port and server.is_healthy():
        return True
    if state.deployment and not alive:
        steps.note(
            "The AWS emulator had ended, and with it went the uploaded files; the database is kept. "
            "To begin from nothing: counterfoil down"
        )
    return False


def _check_ports(state: State, port: int | None, database_port: int | None) -> None:
    for name, wanted, is_at in (("cloud", port, state.emulator.port), ("database", database_port, state.database_port)):
        if wanted not in {None, is_at}:
            raise CloudError(
                f"The {name} is up already, on port {is_at} and not {wanted}: first run 'counterfoil down'."
            )


def _start(place: Place, steps: Steps, port: int | None, database_port: int | None) -> State:
    """Start database and emulator. The state is saved before anything is deployed, for whoever looks meanwhile."""
    processes.end_all(place.folder)
    place.state.unlink(missing_ok=True)
    place.check_space()
    if port is not None:
        emulator.check_free(port)
    steps.begin("PostgreSQL 18")
    server = PostgresServer(place.postgres).start(database_port)
    url = server.create_database(DATABASE)
    steps.begin("AWS emulator")
    state = State(emulator.start(place, port), server.pid, server.port, url)
    state.save(place)
    return state


def _deploy(place: Place, state: State, tuning: Tuning, fingerprint: str, steps: Steps) -> State:
    began = time.monotonic()
    steps.begin("Packages and template (cdk synth)")
    if state.deployment is None:
        where = {"LocationConstraint": emulator.REGION}
        s3 = Cloud(place, state).client("s3")
        s3.create_bucket(Bucket=deployment.ASSETS_BUCKET, CreateBucketConfiguration=where)
    outputs = deployment.deploy(
        place, state.emulator, state.database_url, tuning, Progress(steps.begin, steps.progress)
    )
    state = state.deployed(fingerprint, time.monotonic() - began, outputs, tuning)
    state.save(place)
    return state


def _end(place: Place) -> int:
    """End every process of the cloud. Returns how many there were."""
    ended = processes.end_all(place.folder)
    server = PostgresServer(place.postgres)
    ended += server.running() is not None
    server.stop()
    place.state.unlink(missing_ok=True)
    return ended


def down(place: Place, steps: Steps) -> bool:
    """End the cloud's processes and delete what it kept. Returns whether there was anything.

    Raises:
        CloudError, PostgresError: a process does not end.
    """
    if not place.folder.exists():
        return False
    waiting = "Another command is at work on this cloud; waiting for it to end"
    with place.locked(lambda: steps.note(waiting)), processes.uninterrupted():
        steps.begin("Processes")
        ended = processes.end_all(place.folder)
        steps.begin("Database")
        there = place.postgres.exists()
        PostgresServer(place.postgres).remove()
        steps.begin("Files")
        place.clear()
    return ended > 0 or there


@dataclass(frozen=True)
class Cloud:
    """A local cloud that is up."""

    place: Place
    state: State

    @classmethod
    def at(cls, place: Place) -> "Cloud":
        """The cloud of this place.

        Raises:
            CloudError: it is not up.
        """
        state = State.load(place)
        if state is None or state.deployment is None:
            raise CloudError("The local cloud is not up: run 'counterfoil up' first.")
        if not state.emulator.runs_in(place):
            raise CloudError("The local cloud has ended: run 'counterfoil up' to bring it back.")
        return cls(place, state)

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs of the stacks."""
        return self.state.deployment.outputs if self.state.deployment else {}

    def send(self, sends: Sequence[Send]) -> None:
        """Send messages after their commit. The watchdog sends the others."""
        os.environ.update(self.state.emulator.environment)  # how the app's own code finds AWS
        names = {send.worker: "".join(word.capitalize() for word in send.worker.split("_")) for send in sends}
        urls = {worker: url for worker, name in names.items() if (url := self.outputs.get(f"{name}QueueUrl"))}
        import counterfoil.kinds  # noqa: F401  # registers the kinds of every worker

        Outbox(self.database, urls).send(sends)

    @property
    def api_url(self) -> str:
        """Where the API is: the emulator serves by path what AWS serves under a name of its own."""
        id_ = self.outputs["ApiUrl"].removeprefix("https://").split(".", 1)[0]
        return f"{self.state.emulator.endpoint}/_aws/execute-api/{id_}/$default"

    @property
    def console_url(self) -> str:
        """Where a browser finds the console."""
        return f"{self.api_url}/console"

    @cached_property
    def database(self) -> Database:
        """The database as the workers see it: one tenant for each transaction, or the life cycles of all."""
        return Database(self.database_url("counterfoil_worker"))

    def database_url(self, user: str) -> str:
        """How `user` connects to the database."""
        server = PostgresServer(self.place.postgres).running()
        if server is None:
            raise CloudError("The local cloud's database has ended: run 'counterfoil up' to bring it back.")
        return server.url(DATABASE, user)

    def client(self, service: str, *, patience: int = 60) -> Any:
        """A client for an AWS service of this cloud, which waits so many seconds for an answer."""
        import boto3
        from botocore.config import Config

        make: Any = boto3.client  # its type knows each service's name, and takes no other string
        return make(
            service,
            endpoint_url=self.state.emulator.endpoint,
            region_name=emulator.REGION,
            aws_access_key_id=emulator.ACCESS_KEY,
            aws_secret_access_key=self.state.emulator.secret,
            config=Config(
                connect_timeout=3,
                read_timeout=patience,
                retries={"mode": "standard", "total_max_attempts": 3},
                s3={"addressing_style": "path"},
            ),
        )


@contextmanager
def visited(place: Place, logs: Path, *, keep: bool) -> Iterator[Cloud]:
    """Bring a cloud up for the block, then restore its earlier state unless `keep`.

    Logs of a failure are copied to `logs`.

    Raises:
        CloudError, PostgresError: it cannot be brought up.
    """
    try:
        Cloud.at(place)
        was_up = True
    except CloudError:
        was_up = False
    shutil.rmtree(logs, ignore_errors=True)
    steps = Checklist()
    try:
        with processes.interruptible():
            with steps.shown():
                cloud = up(place, steps).cloud
            with closing(cloud.database):  # before its server ends, or it would look for it
                yield cloud
    except Exception:
        if place.logs.is_dir() and not was_up and not keep:
            shutil.copytree(place.logs, logs)
            aside().print(f"The logs are in {logs}.")
        raise
    finally:
        if not was_up and not keep:
            with processes.uninterrupted(), steps.shown():
                down(place, steps)
