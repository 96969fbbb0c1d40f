"""Layout of a cluster's graph in the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_graph_documents_and_links_do_not_overlap(tmp_path: Path) -> None:
    assert run_tests("layout", tmp_path, LAYOUT_MODULE="clusters/layout") == 9
