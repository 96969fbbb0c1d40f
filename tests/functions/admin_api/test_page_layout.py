"""How the console draws a cluster."""

from pathlib import Path

from tests.functions.admin_api.in_node import passed


def test_documents_stand_apart_and_links_go_around_them(tmp_path: Path) -> None:
    assert passed("layout", tmp_path, LAYOUT_MODULE="documents/layout") == 9
