"""Start page of the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_start_page_depends_on_groups(tmp_path: Path) -> None:
    assert run_tests("home", tmp_path, ROLES_MODULE="roles") == 4
