"""Sign-in to the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_only_valid_responses_sign_user_in(tmp_path: Path) -> None:
    assert run_tests("session", tmp_path, SESSION_MODULE="session") == 17
