"""View named by an address of the console."""

from pathlib import Path

from tests.functions.admin_api.in_node import passed


def test_trailing_slash_names_the_same_view(tmp_path: Path) -> None:
    assert passed("place", tmp_path, ROUTER_MODULE="router") == 6
