"""The folder of a cloud, its lock and its state."""

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
from cli.local.place import CloudFolder

HOLDER = """
import sys
from pathlib import Path
from cli.local.place import CloudFolder
with CloudFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def cloud_folder(tmp_path: Path) -> CloudFolder:
    return CloudFolder(tmp_path / "cloud")


@pytest.fixture
def state() -> State:
    return State(Emulator(1, 2.0, 3, "secret"), database_pid=4, database_port=5, database_url="postgresql://x")


@pytest.fixture
def lock_holder(cloud_folder: CloudFolder) -> Iterator[IO[str]]:
    """Standard input of a process that holds the lock until it is closed."""
    command = [sys.executable, "-c", HOLDER, str(cloud_folder.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.stdin


def test_a_second_command_waits_for_the_first(cloud_folder: CloudFolder, lock_holder: IO[str]):
    with cloud_folder.locked(on_wait=lock_holder.close):
        assert lock_holder.closed


def test_lock_survives_removal_of_its_folder(cloud_folder: CloudFolder, lock_holder: IO[str]):
    def remove() -> None:
        cloud_folder.clear()
        lock_holder.close()

    with cloud_folder.locked(on_wait=remove):
        assert (cloud_folder.folder / "lock").exists()


def test_clear_deletes_only_files_of_the_cloud(cloud_folder: CloudFolder):
    cloud_folder.logs.mkdir(parents=True)
    precious = cloud_folder.folder / "precious.txt"
    precious.write_text("mine")
    cloud_folder.clear()
    assert list(cloud_folder.folder.iterdir()) == [precious]


def test_insufficient_disk_space_is_reported(cloud_folder: CloudFolder, monkeypatch: pytest.MonkeyPatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, 2**20))
    with pytest.raises(CloudError, match="has only 1 MB of free space"):
        cloud_folder.check_space()


def test_unwritable_folder_is_reported(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CloudError, match="cannot use"), CloudFolder(tmp_path / "file" / "cloud").locked():
        pass


def test_saved_state_is_loaded(cloud_folder: CloudFolder, state: State):
    cloud_folder.folder.mkdir()
    state.deployed("abc", 1.5, {"Name": "value"}, DeployOptions()).save(cloud_folder)
    loaded = State.load(cloud_folder)
    assert loaded is not None
    assert loaded.deployment is not None
    assert (loaded.emulator, loaded.deployment.outputs) == (state.emulator, {"Name": "value"})


def test_state_is_readable_by_its_owner_only(cloud_folder: CloudFolder, state: State):
    cloud_folder.folder.mkdir()
    state.save(cloud_folder)
    assert stat.S_IMODE(cloud_folder.state.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"version": 99}', '{"version": 1, "deployment": null}'])
def test_invalid_state_loads_as_none(cloud_folder: CloudFolder, content: str):
    cloud_folder.folder.mkdir()
    cloud_folder.state.write_text(content)
    assert State.load(cloud_folder) is None
