"""Emulator bug: killing a process deletes the code of starting processes.

Processes of the same function are affected.
"""

import subprocess
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import pytest
from ministack.core import lambda_runtime
from ministack.core.lambda_runtime import Worker

from counterfoil.errors import safe_message
from tests.e2e.chaos import is_emulator_failure

FILES = {
    "main.py": "def handle(event, context):\n    import late\n    return late.SAID",
    "late.py": "SAID = 'loaded'",
}


def worker() -> Worker:
    """Return an emulator process that has not been started."""
    code = BytesIO()
    with ZipFile(code, "w") as files:
        for name, content in FILES.items():
            files.writestr(name, content)
    arn = "arn:aws:lambda:eu-central-1:000000000000:function:late"
    config = {"Runtime": "python3.13", "Handler": "main.handle", "FunctionName": "late", "FunctionArn": arn}
    return Worker("late", config, code.getvalue())


@pytest.fixture
def starting_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    started: list[subprocess.Popen[str]] = []

    class RecordedProcess(subprocess.Popen[str]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", RecordedProcess)
    worker_ = worker()
    yield worker_
    worker_.kill()
    for process in started:  # the emulator does not close their pipes
        with process:
            process.kill()


def test_function_imports_modules_lazily(starting_worker: Worker) -> None:
    assert starting_worker.invoke({}, "1")["result"] == "loaded"


def test_cleanup_deletes_starting_process_code(starting_worker: Worker) -> None:
    """If this test fails, the emulator's bug was fixed.

    `is_emulator_failure` can then be deleted.
    """

    class DyingProcess:
        """A process that ends only after `starting_worker` has started."""

        def poll(self) -> None:
            return None

        def terminate(self) -> None: ...

        def wait(self, timeout: float) -> None:
            lambda_runtime.ensure_spawned(starting_worker)

    other = worker()
    other._proc = DyingProcess()

    lambda_runtime.kill_workers([starting_worker, other])

    assert starting_worker._proc.poll() is None  # the process is still running
    response = starting_worker.invoke({}, "1")
    assert (response["status"], "late" in response["error"]) == ("error", True)


@pytest.mark.parametrize(
    ("module", "statement", "expected"),
    [
        ("httpcore._sync", "import nowhere_at_all", True),
        ("counterfoil.llm.client", "import nowhere_at_all", True),
        ("counterfoil.llm.client", "open('/nowhere/at/all')", True),
        ("counterfoil.llm.client", "1 / 0", False),
        ("counterfoil.llm.client", "None.nothing", False),
        ("counterfoil.tasks.chat", "import nowhere_at_all", False),
    ],
)
def test_only_missing_code_is_an_emulator_failure(module: str, statement: str, expected: bool) -> None:
    with pytest.raises(Exception) as failed:  # noqa: PT011  # any exception
        exec(statement, {"__name__": module})  # text from this test only
    assert is_emulator_failure(safe_message(failed.value)) is expected
