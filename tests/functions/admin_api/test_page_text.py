"""Payloads, titles of errors and log commands, as shown in the console."""

from pathlib import Path

from tests.functions.admin_api.node_tests import run_tests


def test_payloads_titles_and_commands_are_shown_exactly(tmp_path: Path) -> None:
    modules = {"API_MODULE": "api", "DIFF_MODULE": "dead_letters/diff", "JSON_MODULE": "ui/json_text"}
    modules |= {"LOG_MODULE": "dead_letters/aws_commands", "TITLE_MODULE": "dead_letters/error_title"}
    assert run_tests("text", tmp_path, **modules) == 41
