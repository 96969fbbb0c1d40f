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
def place(tmp_path: Path) -> CloudFolder:
    return CloudFolder(tmp_path / "cloud")


@pytest.fixture
def state() -> State:
    return State(Emulator(1, 2.0, 3, "secret"), database_pid=4, database_port=5, database_url="postgresql://x")


@pytest.fixture
def holder(place: CloudFolder) -> Iterator[IO[str]]:
    """Standard input of a process that holds the lock until it is closed."""
    command = [sys.executable, "-c", HOLDER, str(place.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.stdin


def test_a_second_command_waits_for_the_first(place: CloudFolder, holder: IO[str]):
    with place.locked(on_wait=holder.close):
        assert holder.closed


def test_lock_survives_removal_of_its_folder(place: CloudFolder, holder: IO[str]):
    def remove() -> None:
        place.clear()
        holder.close()

    with place.locked(on_wait=remove):
        assert (place.folder / "lock").exists()


def test_clear_deletes_only_files_of_the_cloud(place: CloudFolder):
    place.logs.mkdir(parents=True)
    precious = place.folder / "precious.txt"
    precious.write_text("mine")
    place.clear()
    assert list(place.folder.iterdir()) == [precious]


def test_insufficient_disk_space_is_reported(place: CloudFolder, monkeypatch: pytest.MonkeyPatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, 2**20))
    with pytest.raises(CloudError, match="has only 1 MB of free space"):
        place.check_space()


def test_unwritable_folder_is_reported(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CloudError, match="cannot use"), CloudFolder(tmp_path / "file" / "cloud").locked():
        pass


def test_saved_state_is_loaded(place: CloudFolder, state: State):
    place.folder.mkdir()
    state.deployed("abc", 1.5, {"Name": "value"}, DeployOptions()).save(place)
    loaded = State.load(place)
    assert loaded is not None
    assert loaded.deployment is not None
    assert (loaded.emulator, loaded.deployment.outputs) == (state.emulator, {"Name": "value"})


def test_state_is_readable_by_its_owner_only(place: CloudFolder, state: State):
    place.folder.mkdir()
    state.save(place)
    assert stat.S_IMODE(place.state.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"version": 99}', '{"version": 1, "deployment": null}'])
def test_invalid_state_loads_as_none(place: CloudFolder, content: str):
    place.folder.mkdir()
    place.state.write_text(content)
    assert State.load(place) is None
