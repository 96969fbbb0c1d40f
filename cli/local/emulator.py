"""Start and find a local cloud's AWS emulator."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import psutil

from cli.failures import CloudError
from cli.local import processes
from cli.local.paths import CloudPaths, search_path
from cli.local.processes import CloudProcess

HOST = "127.0.0.1"
ACCOUNT = "000000000000"
REGION = "eu-central-1"
ACCESS_KEY = "counterfoil-local"
"""Access key of the emulator's root user. The secret is random, so only readers of the state file can use it."""
START_SECONDS = 60
PORT_TRIES = 5
"""Number of ports to try, because a free port may be taken before the emulator binds it."""
_PROGRAM = "import sys; sys.executable = sys.argv.pop(1); from ministack.app import main; main()"
"""Runs MiniStack, and makes it run functions with the interpreter in the first argument. MiniStack's own interpreter
has all of the project's packages, so a package missing from the layers would go unnoticed."""


@dataclass(frozen=True)
class Emulator:
    """A started emulator. Times are seconds since the epoch."""

    pid: int
    started: float
    port: int
    secret: str

    @property
    def endpoint(self) -> str:
        """URL of the AWS services.

        A numeric host makes S3 clients put the bucket into the path.
        """
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for AWS clients and tools."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def is_ready(self) -> bool:
        """Return whether the emulator responds."""
        with suppress(OSError, HTTPException), closing(HTTPConnection(HOST, self.port, timeout=5)) as connection:
            connection.request("GET", "/_ministack/health")
            return connection.getresponse().status == 200
        return False

    def runs_in(self, paths: CloudPaths) -> bool:
        """Return whether this emulator is still running.

        The folder, the process id and the start time must match.
        """
        with suppress(psutil.Error):
            process = psutil.Process(self.pid)
            return (
                process in processes.find_processes(paths.folder, [CloudProcess.EMULATOR])
                and abs(process.create_time() - self.started) < 2  # the system's estimate of its boot time may drift
                and processes.is_alive(process)
            )
        return False


def start(paths: CloudPaths, port: int | None = None) -> Emulator:
    """Start a new emulator on `port` or on a free port, and wait until it responds.

    Raises:
        CloudError: the port is in use, or the emulator does not start.
    """
    if port is not None:
        check_free(port)
    _prepare(paths)
    for candidate in [port] if port is not None else _free_ports():
        emulator = _launch(paths, candidate)
        if emulator is not None:
            return emulator
    raise CloudError(f"The AWS emulator did not start: {_failure_reason(paths)} See the log: {log(paths)}.")


def log(paths: CloudPaths) -> Path:
    """Return the path of the emulator's log."""
    return paths.logs / "emulator.log"


def check_free(port: int) -> None:
    """Check whether a server can listen on a port.

    Raises:
        CloudError: the port cannot be used.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like a server, ignores closed connections
        try:
            probe.bind((HOST, port))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise CloudError(
                f"Port {port} cannot be used: {reason}. Stop the program that uses it, or set --port."
            ) from error


def _prepare(paths: CloudPaths) -> None:
    """Create the folders, and a Python environment without packages for functions."""
    paths.logs.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(paths.temporary, ignore_errors=True)
    paths.temporary.mkdir()
    venv.create(paths.runtime, symlinks=True, with_pip=False, clear=True)


def _free_ports() -> Iterator[int]:
    for _ in range(PORT_TRIES):
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port: int = probe.getsockname()[1]
        yield port


def _launch(paths: CloudPaths, port: int) -> Emulator | None:
    """Start the process and wait until it responds. Return None if it ended first."""
    secret = secrets.token_urlsafe(24)
    environment = {
        **processes.process_marker(paths.folder, CloudProcess.EMULATOR),
        "PATH": search_path(),
        "HOME": str(paths.temporary),
        "TMPDIR": str(paths.temporary),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": HOST,
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_REGION": REGION,
        "AUTH": "true",
        "IOT_MTLS_ENABLED": "0",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
    }
    with log(paths).open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(paths.runtime / "bin" / "python")],
            env=environment,
            cwd=paths.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C reaches only this process
        )
    emulator = Emulator(process.pid, psutil.Process(process.pid).create_time(), port, secret)
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None:
        if emulator.is_ready():
            return emulator
        if time.monotonic() > deadline:
            raise CloudError(f"The AWS emulator did not respond within {START_SECONDS} s. See the log: {log(paths)}.")
        time.sleep(0.05)
    return None


def _failure_reason(paths: CloudPaths) -> str:
    lines = log(paths).read_text(errors="replace").strip().splitlines()
    return f"{lines[-1].strip().rstrip('.')}." if lines else "no reason was given."
