"""Sign-in to the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import passed


def test_only_valid_responses_sign_a_user_in(tmp_path: Path) -> None:
    assert passed("session", tmp_path, SESSION_MODULE="session") == 17
