"""Output of the command line."""

import json

import pytest

from cli.output import print_json


def test_json_escapes_deceptive_terminal_characters(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"file_name": "invoice_\u202efdp.exe", "name": "Müller \U0001f9fe", "tag": "\x9b31m\U000e0041"}
    print_json(value)
    printed = capsys.readouterr().out

    assert json.loads(printed) == value
    assert "Müller \U0001f9fe" in printed
    assert not {"\u202e", "\x9b", "\U000e0041"} & set(printed)
