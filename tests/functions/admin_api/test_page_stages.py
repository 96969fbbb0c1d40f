"""A document's stages, as shown in the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_stages_determine_whether_document_is_done(tmp_path: Path) -> None:
    assert run_tests("stages", tmp_path, STAGES_MODULE="documents/stages") == 8
