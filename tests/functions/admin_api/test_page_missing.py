"""Missing facts in the console's lists."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_lists_name_missing_facts(tmp_path: Path) -> None:
    modules = {"SUMMARY_MODULE": "documents/summary", "DOCUMENTS_MODULE": "documents/documents"}
    assert run_tests("missing", tmp_path, **modules, REVIEWS_MODULE="reviews/reviews") == 5
