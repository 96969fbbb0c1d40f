"""Uploading on the command line: whose key a file gets, and what is refused before anything is uploaded."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli import ingest
from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.tenants import Tenant
from tests.mails import PDF, mail


@dataclass
class CloudOf:
    """As much of a cloud as uploading needs."""

    outputs: dict[str, str] = field(default_factory=lambda: {"UploadsBucketName": "uploads"})
    stored: dict[str, bytes] = field(default_factory=dict)

    def client(self, _service: str) -> "CloudOf":
        return self

    def put_object(self, *, Bucket: str, Key: str, Body: Any) -> None:  # noqa: N803
        assert Bucket == "uploads"
        self.stored[Key] = Body.read()


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> CloudOf:
    made = CloudOf()
    monkeypatch.setattr(Cloud, "at", lambda _: made)
    monkeypatch.setattr(ingest, "chosen", lambda _cloud, slug: [Tenant(None, slug)])  # type: ignore[arg-type]
    return made


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    path = tmp_path / "Ihre Rechnung.eml"
    path.write_bytes(mail(("a.pdf", PDF)).as_bytes())
    return path


def call(*arguments: object) -> Any:
    app = typer.Typer()
    app.command()(ingest.ingest)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_mail_without_a_tenant_goes_to_the_inbox_and_with_one_to_its_uploads(cloud: CloudOf, letter: Path):
    (uploaded,) = json.loads(call(letter, "--json").output)
    assert uploaded["key"].startswith("inbox/")
    assert cloud.stored[uploaded["key"]] == letter.read_bytes()

    (uploaded,) = json.loads(call(letter, "--tenant", "acme", "--json").output)
    assert uploaded["key"].startswith("uploads/acme/")
    assert uploaded["key"].endswith("/Ihre Rechnung.eml")


def test_a_file_that_is_no_mail_needs_a_tenant_and_none_is_uploaded(cloud: CloudOf, letter: Path, tmp_path: Path):
    other = tmp_path / "invoice.pdf"
    other.write_bytes(PDF)

    done = call(letter, other)

    assert isinstance(done.exception, UsageError)
    assert "invoice.pdf is no mail, which would say whom it is for: add --tenant SLUG." in str(done.exception)
    assert cloud.stored == {}


def test_it_is_said_where_to_look(cloud: CloudOf, letter: Path):
    assert "counterfoil documents\n" in call(letter).output
    assert "counterfoil documents --tenant acme\n" in call(letter, "--tenant", "acme").output.replace("\n ", " ")
