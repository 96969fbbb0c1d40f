"""`counterfoil ingest` uploads files and waits for their states."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import typer
from typer.testing import CliRunner

from cli.client import Api
from cli.commands import uploads
from cli.commands.ingest import ingest
from cli.failures import CommandError, UsageError
from counterfoil.db import Connection
from tests.cli.api_connection import connect
from tests.cli.storage import Storage
from tests.documents.test_upload_list import upload
from tests.functions.admin_api.conftest import BUCKET
from tests.mail_factory import PDF, mail

pytestmark = pytest.mark.usefixtures("api", "storage")


@pytest.fixture
def acme(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def mail_path(tmp_path: Path) -> Path:
    path = tmp_path / "Ihre Rechnung.eml"
    path.write_bytes(mail(("a.pdf", PDF)).as_bytes())
    return path


def call(*arguments: object) -> str:
    app = typer.Typer()
    app.command()(ingest)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if result.exception is not None:
        raise result.exception
    return result.output


def test_mail_is_uploaded_to_inbox_or_tenant(acme: UUID, mail_path: Path, storage: Storage) -> None:
    (uploaded,) = json.loads(call(mail_path, "--json"))
    assert uploaded["key"].startswith("inbox/")
    assert storage.files[uploaded["key"]] == mail_path.read_bytes()

    (uploaded,) = json.loads(call(mail_path, "--tenant", "acme", "--json"))
    assert uploaded["key"].startswith("uploads/acme/")
    assert uploaded["key"].endswith("/Ihre Rechnung.eml")


def test_no_file_is_uploaded_without_a_required_tenant(mail_path: Path, tmp_path: Path, storage: Storage) -> None:
    other = tmp_path / "invoice.pdf"
    other.write_bytes(PDF)
    with pytest.raises(UsageError, match=r"invoice\.pdf is not mail \(\.eml\), so it requires a tenant"):
        call(mail_path, other)
    assert storage.files == {}


def test_folder_is_uploaded_without_hidden_files(acme: UUID, mail_path: Path, tmp_path: Path, storage: Storage) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    call(tmp_path, "--tenant", "acme")
    assert [key.rsplit("/", 1)[1] for key in storage.files] == ["Ihre Rechnung.eml"]


def test_refused_upload_is_an_error(acme: UUID, mail_path: Path, storage: Storage) -> None:
    with pytest.raises(UsageError, match="There is no such tenant"):
        call(mail_path, "--tenant", "globex")
    storage.status = 403
    with pytest.raises(CommandError, match="was not uploaded: S3 returned 403"):
        call(mail_path, "--tenant", "acme")


def test_output_names_the_next_command(acme: UUID, mail_path: Path) -> None:
    assert call(mail_path) == "Uploaded 1 file. To see the states: counterfoil documents\n"
    assert call(mail_path, "--tenant", "acme").endswith("counterfoil documents --tenant acme\n")


def test_failed_file_sets_the_exit_code(
    acme: UUID, mail_path: Path, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = uploads.upload

    def acquired(api: Api, path: Path, **options: str | None) -> str:
        key = put(api, path, **options)
        upload(admin, acme, bucket=BUCKET, key=key, status="failed", error="The mail has no attachment.")
        return key

    monkeypatch.setattr(uploads, "upload", acquired)
    app = typer.Typer()
    app.command()(ingest)
    result = CliRunner().invoke(app, [str(mail_path), "--tenant", "acme", "--wait"], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert "The mail has no attachment." in result.output
    assert "1 failed" in result.output


def test_wait_ends_when_all_uploads_are_final(acme: UUID, admin: Connection) -> None:
    keys = ["uploads/acme/1/a.xml", "uploads/acme/2/b.xml"]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            for key in keys:
                upload(admin, acme, bucket=BUCKET, key=key)
        if len(pauses) == 2:
            admin.execute("UPDATE acquisition_job SET status = NULL, skip_reason = 'No document.'")

    def wait(seconds: float) -> list[Any]:
        context = typer.Context(typer.main.get_command(typer.Typer(callback=lambda: None)))
        with context:
            return list(uploads.wait_for(connect(context), keys, seconds, sleep, lambda: len(pauses) * 1.0))

    assert [document["state"] for document in wait(10)] == ["ignored", "ignored"]
    assert len(pauses) == 2
    admin.execute("UPDATE acquisition_job SET status = 'pending', skip_reason = NULL")
    with pytest.raises(CommandError, match="After 1 s, 2 of 2 uploads have no final state"):
        wait(1)
