"""Start, stop and access a local cloud."""

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
from cli.local.deployment import Deployment, DeployOptions, Progress
from cli.local.emulator import Emulator
from cli.local.paths import CloudPaths
from cli.local.postgres import PostgresServer
from cli.local.processes import CloudProcess
from cli.output import Checklist, stderr
from counterfoil.db import Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import OutboxMessage

VERSION = 1
"""Version of the state file's format."""
DATABASE = "counterfoil"


@dataclass(frozen=True)
class State:
    """State of a cloud with a running emulator."""

    emulator: Emulator
    database_pid: int
    database_port: int
    database_url: str
    """Database URL with the server's superuser."""
    deployment: Deployment | None = None

    def deployed(self, fingerprint: str, seconds: float, outputs: dict[str, str], tuning: DeployOptions) -> "State":
        """Return the state after a deployment."""
        deployment = Deployment(fingerprint, time.time(), seconds, outputs, dict(tuning.settings), tuning.timeout)
        return replace(self, deployment=deployment)

    @property
    def tuning(self) -> DeployOptions:
        """The settings of the last deployment."""
        return DeployOptions(self.deployment.settings, self.deployment.timeout) if self.deployment else DeployOptions()

    def save(self, paths: CloudPaths) -> None:
        """Write the state file atomically."""
        temporary = paths.state.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"version": VERSION, **asdict(self)}, file, indent=1)
        temporary.replace(paths.state)

    @classmethod
    def load(cls, paths: CloudPaths) -> "State | None":
        """Return the saved state, or None if it is missing or cannot be read.

        State saved by another version may be unreadable.
        """
        with suppress(OSError, ValueError, TypeError, KeyError):
            return cls._read(paths.state)
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
    """Receiver of progress, such as the terminal."""

    def begin(self, title: str) -> None:
        """Start a step, and mark the previous one as succeeded."""

    def progress(self, completed: int, total: int) -> None:
        """Update the progress of the current step."""

    def note(self, sentence: str) -> None:
        """Print a note. `sentence` has no final period."""


@dataclass(frozen=True)
class UpResult:
    """Result of `up`."""

    cloud: "Cloud"
    started: bool
    """Whether processes were started. If false, the cloud was already running."""
    deployed: bool
    seconds: float


def up(
    paths: CloudPaths,
    steps: Steps,
    *,
    port: int | None = None,
    database_port: int | None = None,
    tuning: DeployOptions | None = None,
) -> UpResult:
    """Start the cloud unless it is running, and deploy the app if it is out of date.

    If the database or the emulator is not running, both are restarted. Settings in `tuning` replace the last
    deployment's settings. None keeps them. After a failure or interruption, all processes are ended, unless the cloud
    was already running.

    Raises:
        CloudError, PostgresError: a part did not start. The message states the reason and what to do next.
    """
    started = time.monotonic()
    wait_note = "Waiting for another command that is starting or stopping this cloud"
    with processes.interruptible(), paths.lock(lambda: steps.note(wait_note)):
        processes.terminate_all(paths.folder, [CloudProcess.DEPLOYMENT])  # left behind by a killed command
        saved = State.load(paths)
        running = saved if saved is not None and _is_running(paths, saved, steps) else None
        try:
            state = running or _start(paths, steps, port, database_port)
            if running is not None:
                _check_ports(state, port, database_port)
            options = tuning or (saved.tuning if saved else DeployOptions())
            fingerprint = deployment.fingerprint(state.database_url, options)
            is_stale = state.deployment is None or state.deployment.fingerprint != fingerprint
            if is_stale:
                state = _deploy(paths, state, options, fingerprint, steps)
        except BaseException:
            if running is None:
                with processes.ignore_interrupts():
                    _terminate(paths)
                steps.note("All processes of the cloud were ended")
            raise
    return UpResult(Cloud(paths, state), running is None, is_stale, time.monotonic() - started)


def _is_running(paths: CloudPaths, state: State, steps: Steps) -> bool:
    """Return whether every part of the saved cloud is running, with the app deployed.

    An incomplete cloud must be restarted.
    """
    server = PostgresServer(paths.postgres).running()
    has_emulator = state.emulator.runs_in(paths) and state.emulator.is_ready()
    if has_emulator and state.deployment and server and server.port == state.database_port and server.is_healthy():
        return True
    if state.deployment and not has_emulator:
        steps.note(
            "The AWS emulator has stopped, so the uploaded files are lost. The database is unchanged. "
            "To start over: counterfoil down"
        )
    return False


def _check_ports(state: State, port: int | None, database_port: int | None) -> None:
    for name, requested, actual in (
        ("cloud", port, state.emulator.port),
        ("database", database_port, state.database_port),
    ):
        if requested not in {None, actual}:
            raise CloudError(
                f"The {name} is already running on port {actual}, not {requested}. Run 'counterfoil down' first."
            )


def _start(paths: CloudPaths, steps: Steps, port: int | None, database_port: int | None) -> State:
    """Start the database and the emulator.

    The state is saved before the deployment, because other commands read it.
    """
    processes.terminate_all(paths.folder)
    paths.state.unlink(missing_ok=True)
    paths.check_space()
    if port is not None:
        emulator.check_free(port)
    steps.begin("PostgreSQL 18")
    server = PostgresServer(paths.postgres).start(database_port)
    url = server.create_database(DATABASE)
    steps.begin("AWS emulator")
    state = State(emulator.start(paths, port), server.pid, server.port, url)
    state.save(paths)
    return state


def _deploy(paths: CloudPaths, state: State, tuning: DeployOptions, fingerprint: str, steps: Steps) -> State:
    started = time.monotonic()
    steps.begin("Packages and template (cdk synth)")
    if state.deployment is None:
        location = {"LocationConstraint": emulator.REGION}
        s3 = Cloud(paths, state).client("s3")
        s3.create_bucket(Bucket=deployment.ASSETS_BUCKET, CreateBucketConfiguration=location)
    outputs = deployment.deploy(
        paths, state.emulator, state.database_url, tuning, Progress(steps.begin, steps.progress)
    )
    state = state.deployed(fingerprint, time.monotonic() - started, outputs, tuning)
    state.save(paths)
    return state


def _terminate(paths: CloudPaths) -> int:
    """End all processes of the cloud, and return their number."""
    ended = processes.terminate_all(paths.folder)
    server = PostgresServer(paths.postgres)
    ended += server.running() is not None
    server.stop()
    paths.state.unlink(missing_ok=True)
    return ended


def down(paths: CloudPaths, steps: Steps) -> bool:
    """End the cloud's processes and delete its data.

    Return whether the cloud existed.

    Raises:
        CloudError, PostgresError: a process did not end.
    """
    if not paths.folder.exists():
        return False
    wait_note = "Waiting for another command that is using this cloud"
    with paths.lock(lambda: steps.note(wait_note)), processes.ignore_interrupts():
        steps.begin("Processes")
        ended = processes.terminate_all(paths.folder)
        steps.begin("Database")
        had_database = paths.postgres.exists()
        PostgresServer(paths.postgres).remove()
        steps.begin("Files")
        paths.clear()
    return ended > 0 or had_database


@dataclass(frozen=True)
class Cloud:
    """A running local cloud."""

    paths: CloudPaths
    state: State

    @classmethod
    def at(cls, paths: CloudPaths) -> "Cloud":
        """Return the cloud in this folder.

        Raises:
            CloudError: the cloud is not running.
        """
        state = State.load(paths)
        if state is None or state.deployment is None:
            raise CloudError("The local cloud is not running. Run 'counterfoil up' first.")
        if not state.emulator.runs_in(paths):
            raise CloudError("The local cloud has stopped. Run 'counterfoil up' to restart it.")
        return cls(paths, state)

    @property
    def outputs(self) -> dict[str, str]:
        """The stacks' outputs."""
        return self.state.deployment.outputs if self.state.deployment else {}

    def send(self, messages: Sequence[OutboxMessage]) -> None:
        """Send messages after their commit.

        The watchdog sends messages that could not be sent.
        """
        os.environ.update(self.state.emulator.environment)  # configures the app's AWS clients
        names = {send.worker: "".join(word.capitalize() for word in send.worker.split("_")) for send in messages}
        urls = {worker: url for worker, name in names.items() if (url := self.outputs.get(f"{name}QueueUrl"))}
        import counterfoil.kinds  # noqa: F401  # registers the kinds of every worker

        Outbox(self.database, urls).send(messages)

    @property
    def api_url(self) -> str:
        """URL of the API. The emulator distinguishes APIs by path, and AWS by host name."""
        id_ = self.outputs["ApiUrl"].removeprefix("https://").split(".", 1)[0]
        return f"{self.state.emulator.endpoint}/_aws/execute-api/{id_}/$default"

    @property
    def console_url(self) -> str:
        """URL of the console, for a browser."""
        return f"{self.api_url}/console"

    @cached_property
    def database(self) -> Database:
        """Database pool with the workers' role.

        A transaction has access to one tenant, or to the lifecycle columns of all tenants.
        """
        return Database(self.database_url("counterfoil_worker"))

    def database_url(self, user: str) -> str:
        """Return the database URL for the role `user`."""
        server = PostgresServer(self.paths.postgres).running()
        if server is None:
            raise CloudError("The local cloud's database has stopped. Run 'counterfoil up' to restart it.")
        return server.url(DATABASE, user)

    def client(self, service: str, *, read_timeout: int = 60) -> Any:
        """Return a client for one of this cloud's AWS services.

        `read_timeout` is in seconds.
        """
        import boto3
        from botocore.config import Config

        new_client: Any = boto3.client  # its type accepts only literal names
        return new_client(
            service,
            endpoint_url=self.state.emulator.endpoint,
            region_name=emulator.REGION,
            aws_access_key_id=emulator.ACCESS_KEY,
            aws_secret_access_key=self.state.emulator.secret,
            config=Config(
                connect_timeout=3,
                read_timeout=read_timeout,
                retries={"mode": "standard", "total_max_attempts": 3},
                s3={"addressing_style": "path"},
            ),
        )


@contextmanager
def running_cloud(paths: CloudPaths, logs: Path, *, keep: bool) -> Iterator[Cloud]:
    """Start a cloud for the block.

    Stop it afterward, unless `keep` is set or it was already running.

    If the block fails, the logs are copied to `logs` before the cloud is stopped.

    Raises:
        CloudError, PostgresError: the cloud cannot start.
    """
    try:
        Cloud.at(paths)
        was_running = True
    except CloudError:
        was_running = False
    shutil.rmtree(logs, ignore_errors=True)
    steps = Checklist()
    try:
        with processes.interruptible():
            with steps.live():
                cloud = up(paths, steps).cloud
            with closing(cloud.database):  # before its server stops, because the pool would try to reconnect
                yield cloud
    except Exception:
        if paths.logs.is_dir() and not was_running and not keep:
            shutil.copytree(paths.logs, logs)
            stderr().print(f"The logs are in {logs}.")
        raise
    finally:
        if not was_running and not keep:
            with processes.ignore_interrupts(), steps.live():
                down(paths, steps)
