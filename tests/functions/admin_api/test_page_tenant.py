"""Whose things the console shows."""

from pathlib import Path

from tests.functions.admin_api.in_node import passed


def test_what_is_nobodys_is_shown_where_there_is_such_and_kept_for_no_other_view(tmp_path: Path) -> None:
    assert passed("tenant", tmp_path, TENANT_MODULE="tenant") == 11
