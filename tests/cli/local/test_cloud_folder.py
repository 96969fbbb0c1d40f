"""A cloud's folder, with its lock and state files."""

import shutil
import stat
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from cli.failures import CloudError
from cli.local.cloud import State
from cli.local.deployment import DeployOptions
from cli.local.emulator import Emulator
from cli.local.paths import CloudPaths

HOLDER = """
import sys
from pathlib import Path
from cli.local.paths import CloudPaths
with CloudPaths(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def paths(tmp_path: Path) -> CloudPaths:
    return CloudPaths(tmp_path / "cloud")


@pytest.fixture
def state() -> State:
    return State(Emulator(1, 2.0, 3, "secret"), database_pid=4, database_port=5, database_url="postgresql://x")


@pytest.fixture
def lock_holder(paths: CloudPaths) -> Iterator[IO[str]]:
    """Yield the input of a process that holds the lock until the input is closed."""
    command = [sys.executable, "-c", HOLDER, str(paths.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.stdin


def test_a_second_command_waits_for_the_first(paths: CloudPaths, lock_holder: IO[str]):
    with paths.lock(on_wait=lock_holder.close):
        assert lock_holder.closed


def test_waiting_command_recreates_a_deleted_lock_file(paths: CloudPaths, lock_holder: IO[str]):
    def remove() -> None:
        paths.clear()
        lock_holder.close()

    with paths.lock(on_wait=remove):
        assert (paths.folder / "lock").exists()


def test_clear_deletes_only_the_clouds_files(paths: CloudPaths):
    paths.logs.mkdir(parents=True)
    precious = paths.folder / "precious.txt"
    precious.write_text("mine")
    paths.clear()
    assert list(paths.folder.iterdir()) == [precious]


def test_insufficient_disk_space_is_reported(paths: CloudPaths, monkeypatch: pytest.MonkeyPatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, 2**20))
    with pytest.raises(CloudError, match="has only 1 MB of free space"):
        paths.check_space()


def test_unwritable_folder_is_reported(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CloudError, match="cannot use"), CloudPaths(tmp_path / "file" / "cloud").lock():
        pass


def test_saved_state_is_loaded(paths: CloudPaths, state: State):
    paths.folder.mkdir()
    state.deployed("abc", 1.5, {"Name": "value"}, DeployOptions()).save(paths)
    loaded = State.load(paths)
    assert loaded is not None
    assert loaded.deployment is not None
    assert (loaded.emulator, loaded.deployment.outputs) == (state.emulator, {"Name": "value"})


def test_state_is_readable_only_by_its_owner(paths: CloudPaths, state: State):
    paths.folder.mkdir()
    state.save(paths)
    assert stat.S_IMODE(paths.state.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"version": 99}', '{"version": 1, "deployment": null}'])
def test_invalid_state_loads_as_none(paths: CloudPaths, content: str):
    paths.folder.mkdir()
    paths.state.write_text(content)
    assert State.load(paths) is None
