"""The tenant shown in the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_chosen_tenant_is_remembered_unless_unassigned(tmp_path: Path) -> None:
    assert run_tests("tenant", tmp_path, TENANT_MODULE="tenant") == 11
