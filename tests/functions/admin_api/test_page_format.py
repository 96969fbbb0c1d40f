"""Numbers, durations and labels, as shown in the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_small_numbers_and_api_names_are_readable(tmp_path: Path) -> None:
    assert run_tests("format", tmp_path, FORMAT_MODULE="ui/format", FILTERS_MODULE="ui/filters") == 14
