"""Single uploads to the deployed app: duplicates, invalid files, unknown tenants."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.local import uploads
from cli.local.cloud import Cloud
from counterfoil.documents.upload_list import State, Upload
from tests.e2e.conftest import CommandLine
from tests.e2e.polling import wait_until
from tools.demo.sample_run import Run

pytestmark = pytest.mark.e2e

Ingest = Callable[..., list[Upload]]


@pytest.fixture
def invoice(run: Run, tmp_path: Path) -> Path:
    """A readable invoice with special characters in its name."""
    file = next(file for file in run.sample.files if file.truth.type == "invoice" and file.truth.state == "succeeded")
    path = tmp_path / f"Größe & Maß + 100 %{Path(file.name).suffix}"
    path.write_bytes(file.content)
    return path


def test_repeated_file_is_reported_as_duplicate(ingest: Ingest, invoice: Path):
    (first,) = ingest([invoice])
    copy = Path(shutil.copy(invoice, invoice.with_stem("Kopie")))
    (second,) = ingest([copy])
    assert (first.state, first.file) == (State.SUCCEEDED, invoice.name)
    assert (second.state, second.document_id) == (State.DUPLICATE, None)


def test_invalid_files_do_not_affect_their_batch(ingest: Ingest, invoice: Path, tmp_path: Path):
    invalid = []
    for number, content in enumerate(
        (b"", b"%PDF-1.7\n", b"<Invoice", b"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>")
    ):
        path = tmp_path / f"bad {number}.xml"
        path.write_bytes(content)
        invalid.append(path)
    outcomes = {outcome.file: outcome for outcome in ingest([*invalid, invoice])}
    assert {outcomes[path.name].state for path in invalid} == {State.FAILED}
    assert all((outcomes[path.name].note or "").endswith(".") for path in invalid)
    assert outcomes[invoice.name].state is State.SUCCEEDED


def test_upload_under_unknown_tenant_becomes_dead_letter(cloud: Cloud, command_line: CommandLine):
    key = "uploads/missing-tenant/file.xml"
    cloud.client("s3").put_object(Bucket=cloud.outputs["UploadsBucketName"], Key=key, Body=b"<x/>")
    (failed,) = wait_until(
        lambda: [item for item in uploads.list_unassigned_uploads(cloud) if item.key == key and item.state.is_final]
    )
    assert failed.state is State.FAILED
    assert "contains no existing tenant" in (failed.note or "")
    assert "contains no existing tenant" in command_line.run("documents", "--state", "failed", "--json").stdout


def test_command_rejects_unknown_tenant_before_upload(command_line: CommandLine, cloud: Cloud, invoice: Path):
    result = command_line.run("ingest", str(invoice), "--tenant", "missing", code=2)
    assert "There is no such tenant." in result.stderr
    assert "Traceback" not in result.stderr
