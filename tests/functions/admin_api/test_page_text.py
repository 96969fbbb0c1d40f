"""Payloads and log commands as the console shows them."""

from pathlib import Path

from tests.functions.admin_api.in_node import passed


def test_payloads_and_log_commands_are_shown_exactly(tmp_path: Path) -> None:
    modules = {"API_MODULE": "api", "DIFF_MODULE": "letters/diff", "JSON_MODULE": "letters/jsontext"}
    assert passed("text", tmp_path, **modules, LOG_MODULE="letters/log") == 36
