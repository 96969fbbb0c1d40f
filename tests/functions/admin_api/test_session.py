"""Signing in to the console."""

from pathlib import Path

from tests.functions.admin_api.in_node import passed


def test_only_answers_that_belong_to_the_sign_in_sign_somebody_in(tmp_path: Path) -> None:
    assert passed("session", tmp_path, SESSION_MODULE="session") == 17
