"""A local cloud ends all processes that it started, and no other processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from cli.local import processes
from cli.local.emulator import Emulator
from cli.local.paths import CloudPaths
from cli.local.processes import CloudProcess

SLEEPER = "import sys, time; print('up', flush=True); time.sleep(600)"
WITH_CHILD = (
    f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]); import time; time.sleep(600)"
)

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """`start(folder, part, program)` starts one of a cloud's processes."""
    with ExitStack() as stack:

        def started(
            folder: Path, part: CloudProcess = CloudProcess.EMULATOR, program: str = SLEEPER
        ) -> "subprocess.Popen[bytes]":
            environment = {**os.environ, **processes.process_marker(folder, part)}
            process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            return process

        yield started


def test_processes_are_ended_with_their_children(start: Start, tmp_path: Path):
    start(tmp_path, program=WITH_CHILD)
    assert len(processes.find_processes(tmp_path)) == 2
    assert processes.terminate_all(tmp_path) == 2
    assert processes.find_processes(tmp_path) == []


def test_other_clouds_processes_keep_running(start: Start, tmp_path: Path):
    start(tmp_path / "one")
    other = start(tmp_path / "other")
    processes.terminate_all(tmp_path / "one")
    assert other.poll() is None


def test_single_process_can_be_ended(start: Start, tmp_path: Path):
    emulator, deployment = start(tmp_path), start(tmp_path, CloudProcess.DEPLOYMENT)
    assert processes.terminate_all(tmp_path, [CloudProcess.DEPLOYMENT]) == 1
    deployment.wait(timeout=10)
    assert emulator.poll() is None


def test_reused_process_id_is_not_the_emulator(start: Start, tmp_path: Path):
    other = start(tmp_path / "elsewhere")
    emulator = Emulator(pid=other.pid, started=psutil.Process(other.pid).create_time(), port=1, secret="")
    assert not emulator.runs_in(CloudPaths(tmp_path))
    assert emulator.runs_in(CloudPaths(tmp_path / "elsewhere"))


def test_process_started_later_is_not_the_emulator(start: Start, tmp_path: Path):
    worker = start(tmp_path)
    started = psutil.Process(worker.pid).create_time()
    assert not Emulator(pid=worker.pid, started=started - 10, port=1, secret="").runs_in(CloudPaths(tmp_path))
    assert Emulator(pid=worker.pid, started=started, port=1, secret="").runs_in(CloudPaths(tmp_path))
