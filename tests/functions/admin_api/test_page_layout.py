"""A cluster's layout in the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_documents_do_not_overlap_and_links_avoid_them(tmp_path: Path) -> None:
    assert run_tests("layout", tmp_path, LAYOUT_MODULE="clusters/layout") == 9
