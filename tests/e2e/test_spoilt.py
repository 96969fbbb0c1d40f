"""What the emulator spoils when a process is killed while it starts: it is told apart from what the app does."""

import subprocess
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import pytest
from ministack.core import lambda_runtime
from ministack.core.lambda_runtime import Worker

from counterfoil.errors import sentence
from tests.e2e.chaos import is_spoilt

FILES = {
    "main.py": "def handle(event, context):\n    import late\n    return late.SAID",
    "late.py": "SAID = 'loaded'",
}


def worker() -> Worker:
    """A process of a function as the emulator keeps it, that has not been started."""
    code = BytesIO()
    with ZipFile(code, "w") as files:
        for name, content in FILES.items():
            files.writestr(name, content)
    arn = "arn:aws:lambda:eu-central-1:000000000000:function:late"
    config = {"Runtime": "python3.13", "Handler": "main.handle", "FunctionName": "late", "FunctionArn": arn}
    return Worker("late", config, code.getvalue())


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    begun: list[subprocess.Popen[str]] = []

    class Remembered(subprocess.Popen[str]):
        def __init__(self, *given: Any, **how: Any) -> None:
            super().__init__(*given, **how)
            begun.append(self)

    monkeypatch.setattr(subprocess, "Popen", Remembered)
    made = worker()
    yield made
    made.kill()
    for process in begun:  # the emulator leaves their pipes to the collector
        with process:
            process.kill()


def test_a_process_that_starts_loads_its_code_when_it_needs_it(starting: Worker) -> None:
    assert starting.invoke({}, "1")["result"] == "loaded"


def test_clearing_up_after_another_takes_the_code_from_a_process_that_is_starting(starting: Worker) -> None:
    """Should it not any more, nothing is spoilt any more, and `is_spoilt` may go."""

    class Dying:
        """Takes its time to end: as long as the other takes to start."""

        def poll(self) -> None:
            return None

        def terminate(self) -> None: ...

        def wait(self, timeout: float) -> None:
            lambda_runtime.ensure_spawned(starting)

    other = worker()
    other._proc = Dying()

    lambda_runtime.kill_workers([starting, other])

    assert starting._proc.poll() is None  # it lives
    answer = starting.invoke({}, "1")
    assert (answer["status"], "late" in answer["error"]) == ("error", True)


@pytest.mark.parametrize(
    ("place", "missing", "is_so"),
    [
        ("httpcore._sync", "import nowhere_at_all", True),
        ("counterfoil.llm.client", "import nowhere_at_all", True),
        ("counterfoil.llm.client", "open('/nowhere/at/all')", True),
        ("counterfoil.llm.client", "1 / 0", False),
        ("counterfoil.llm.client", "None.nothing", False),
        ("counterfoil.tasks.chat", "import nowhere_at_all", False),
    ],
)
def test_only_code_that_is_not_there_any_more_is_the_emulators_doing(place: str, missing: str, is_so: bool) -> None:
    with pytest.raises(Exception) as failed:  # noqa: PT011  # whichever it is
        exec(missing, {"__name__": place})  # our own text
    assert is_spoilt(sentence(failed.value)) is is_so
