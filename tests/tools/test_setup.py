"""Setup steps run once, repeat after changes and explain their errors."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import setup


@pytest.fixture
def finished_steps() -> list[str]:
    return []


@pytest.fixture
def prepare(tmp_path: Path, finished_steps: list[str]) -> Callable[[], None]:
    """Return a function that prepares a folder from one lock file."""
    (tmp_path / "lock").write_text("1")

    def once() -> None:
        setup.run_once(tmp_path, tmp_path / ".prepared", (tmp_path / "lock",), lambda: finished_steps.append("done"))

    return once


def test_finished_step_is_skipped(prepare: Callable[[], None], finished_steps: list[str]):
    prepare()
    prepare()
    assert finished_steps == ["done"]


def test_changed_lock_file_repeats_step(prepare: Callable[[], None], finished_steps: list[str], tmp_path: Path):
    prepare()
    (tmp_path / "lock").write_text("2")
    prepare()
    assert finished_steps == ["done", "done"]


def test_interrupted_step_is_repeated(prepare: Callable[[], None], finished_steps: list[str], tmp_path: Path):
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        setup.run_once(tmp_path, tmp_path / ".prepared", (tmp_path / "lock",), interrupted)
    prepare()
    assert finished_steps == ["done"]


def test_old_python_is_rejected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(setup.SetupError, match=r"Python 3\.11 or newer is required"):
        setup.check_python()


def test_python_without_venv_names_required_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in {"ensurepip", "pip"} else object())
    monkeypatch.setattr(setup, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(setup, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    assert setup.main() == 1
    assert "apt-get install python3-venv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("there", "found"), [(["chromium"], "chromium"), (["google-chrome"], "google-chrome"), ([], None)]
)
def test_browser_is_found_by_known_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: list[str], found: str | None
):
    for name in there:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert setup.browser() == (found and str(tmp_path / found))
