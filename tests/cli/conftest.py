"""Fixtures for tests of commands that call the API."""

from pathlib import Path

import pytest

from tests.cli.api_connection import connect_commands
from tests.cli.storage import storage
from tests.functions.admin_api.conftest import CallApi, call_api, queue

__all__ = ["call_api", "queue", "storage"]


@pytest.fixture
def api(call_api: CallApi, monkeypatch: pytest.MonkeyPatch) -> None:  # `call_api` configures the function
    """Connect commands to the API function and the test database."""
    connect_commands(monkeypatch)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test its own configuration folder, which contains no logins."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"
