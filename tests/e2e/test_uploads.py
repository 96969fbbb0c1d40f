"""Single uploads through the deployed app: copies, bad files beside good ones, keys that name nobody."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.local import uploads
from cli.local.cloud import Cloud
from counterfoil.documents.upload_list import State, Upload
from tests.e2e.conftest import CommandLine
from tests.e2e.waiting import until
from tools.demo.sample_run import Run

pytestmark = pytest.mark.e2e

Ingest = Callable[..., list[Upload]]


@pytest.fixture
def invoice(run: Run, tmp_path: Path) -> Path:
    """An invoice that can be read, under a name of a person's own."""
    file = next(file for file in run.sample.files if file.truth.type == "invoice" and file.truth.state == "succeeded")
    path = tmp_path / f"Größe & Maß + 100 %{Path(file.name).suffix}"
    path.write_bytes(file.content)
    return path


def test_a_file_twice_is_one_document(ingest: Ingest, invoice: Path):
    (first,) = ingest([invoice])
    copy = Path(shutil.copy(invoice, invoice.with_stem("Kopie")))
    (second,) = ingest([copy])
    assert (first.state, first.file) == (State.SUCCEEDED, invoice.name)
    assert (second.state, second.document_id) == (State.SEEN_AGAIN, None)


def test_a_bad_file_leaves_the_others_of_its_batch_untouched(ingest: Ingest, invoice: Path, tmp_path: Path):
    bad = []
    for number, content in enumerate(
        (b"", b"%PDF-1.7\n", b"<Invoice", b"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>")
    ):
        path = tmp_path / f"bad {number}.xml"
        path.write_bytes(content)
        bad.append(path)
    found = {outcome.file: outcome for outcome in ingest([*bad, invoice])}
    assert {found[path.name].state for path in bad} == {State.FAILED}
    assert all((found[path.name].note or "").endswith(".") for path in bad)
    assert found[invoice.name].state is State.SUCCEEDED


def test_a_key_that_names_no_tenant_is_a_failure_that_people_see(cloud: Cloud, command_line: CommandLine):
    key = "uploads/nobody-knows-me/file.xml"
    cloud.client("s3").put_object(Bucket=cloud.outputs["UploadsBucketName"], Key=key, Body=b"<x/>")
    (found,) = until(lambda: [one for one in uploads.unassigned(cloud) if one.key == key and one.state.is_final])
    assert found.state is State.FAILED
    assert "names no tenant" in (found.note or "")
    assert "names no tenant" in command_line.run("documents", "--state", "failed").stdout


def test_an_unknown_tenant_is_refused_before_anything_is_uploaded(
    command_line: CommandLine, cloud: Cloud, invoice: Path
):
    done = command_line.run("ingest", str(invoice), "--tenant", "nobody", code=2)
    assert "There is no such tenant." in done.stderr
    assert "Traceback" not in done.stderr
