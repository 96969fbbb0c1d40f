"""View that the console shows for a URL path."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_trailing_slash_selects_the_same_view(tmp_path: Path) -> None:
    assert run_tests("router", tmp_path, ROUTER_MODULE="router") == 6
