"""What tests of commands that ask the API have in common."""

from pathlib import Path

import pytest

from tests.cli.reaching import let_them_ask
from tests.cli.storage import storage
from tests.functions.admin_api.conftest import Ask, ask, queue

__all__ = ["ask", "queue", "storage"]


@pytest.fixture
def api(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:  # it has the function work
    """Commands ask the API's function, on the tests' database."""
    let_them_ask(monkeypatch)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test its own configuration folder, without logins."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"
