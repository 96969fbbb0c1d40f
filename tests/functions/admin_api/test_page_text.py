"""Payloads and logs as the console writes them."""

from pathlib import Path

from tests.functions.admin_api.in_node import passed


def test_payloads_are_read_to_the_letter(tmp_path: Path) -> None:
    modules = {"API_MODULE": "api", "DIFF_MODULE": "letters/diff", "JSON_MODULE": "letters/jsontext"}
    assert passed("text", tmp_path, **modules, LOG_MODULE="letters/log") == 36
