"""`counterfoil openapi` prints or writes the API description."""

import json
from pathlib import Path

import pytest

from cli.local.openapi import openapi
from functions.admin_api.handler import document


def test_output_equals_the_served_description(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    openapi()
    openapi(to=tmp_path / "sub" / "openapi.json")

    assert json.loads(capsys.readouterr().out) == document()
    assert json.loads((tmp_path / "sub" / "openapi.json").read_text()) == document()
