"""Start page of the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_console_opens_on_clusters_for_clerks(tmp_path: Path) -> None:
    assert run_tests("home", tmp_path, ROLES_MODULE="roles") == 4
