"""Events in a document's history, as shown in the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_events_have_titles_for_clerks(tmp_path: Path) -> None:
    assert run_tests("events", tmp_path, EVENTS_MODULE="documents/events") == 11
