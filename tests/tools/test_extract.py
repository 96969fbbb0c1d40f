"""`counterfoil extract` reports on every file, regardless of errors."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from counterfoil.documents.sandbox.process import TOO_COMPLEX
from tests import decompression_bombs
from tests.documents.einvoice_samples import cii_invoice, pdf, ubl_invoice
from tools.extract import extract
from tools.sample_generator.bulk import orders_with_invoices
from tools.sample_generator.bundle import write_bundle

app = typer.Typer()
app.command()(extract)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Rechnung Grün.xml").write_bytes(ubl_invoice())
    (tmp_path / "hybrid.pdf").write_bytes(pdf(text="Rechnung", files=(("factur-x.xml", cii_invoice()),)))
    (tmp_path / "plain.pdf").write_bytes(pdf(text="Rechnung"))
    (tmp_path / "empty.xml").write_bytes(b"")
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_has_one_line_per_file_in_order(folder: Path):
    result = run(folder / "hybrid.pdf", folder / "Rechnung Grün.xml", "--json")
    assert result.exit_code == 0
    hybrid, invoice = lines(result)
    assert set(hybrid) == {"file", "type", "method", "seconds", "structured_data"}
    assert (hybrid["file"], hybrid["type"], hybrid["method"]) == (str(folder / "hybrid.pdf"), "invoice", "embedded-xml")
    assert (invoice["file"], invoice["method"]) == (str(folder / "Rechnung Grün.xml"), "xml")
    assert invoice["structured_data"]["invoice_number"] == "R-5108"
    assert 0 < invoice["seconds"] < 60


def test_unrecognized_pdf_has_reason_but_no_error(folder: Path):
    result = run("--json", folder / "plain.pdf")
    assert result.exit_code == 0
    (plain,) = lines(result)
    assert (plain["type"], plain["method"], plain["structured_data"]) == (None, "none", None)
    assert "No document type" in plain["reason"]


def test_text_only_ignores_embedded_xml(folder: Path):
    (hybrid,) = lines(run("--json", "--text-only", folder / "hybrid.pdf"))
    assert (hybrid["method"], hybrid["structured_data"]) == ("none", None)
    assert "embedded XML is ignored" in hybrid["reason"]


def test_fields_from_pages_have_evidence(tmp_path: Path):
    (tmp_path / "page.pdf").write_bytes(pdf(text="Rechnung Nr. 17"))
    (page,) = lines(run("--json", tmp_path / "page.pdf"))
    assert (page["method"], page["structured_data"]) == ("text", {"invoice_number": "17"})
    assert page["evidence"] == {"invoice_number": {"source": "text:title", "confidence": 0.95, "page": 1}}


def test_each_document_in_a_file_has_a_line(tmp_path: Path):
    (tmp_path / "three.pdf").write_bytes(write_bundle([invoice for _, invoice in orders_with_invoices(1, 3)]))
    whole, *parts = lines(run("--json", tmp_path / "three.pdf"))
    assert (whole["structured_data"], whole["reason"]) == (None, "The file was split into 3 documents.")
    assert [part["pages"] for part in parts] == [[1, 1], [2, 2], [3, 3]]
    assert [part["structured_data"]["invoice_number"] for part in parts] == [
        deal.number for _, deal in orders_with_invoices(1, 3)
    ]


def test_invalid_files_do_not_stop_other_files(folder: Path):
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    (folder / "empty").mkdir()
    bad = [folder / "empty.xml", folder / "missing.xml", folder / "empty", pipe, Path("/dev/null")]
    result = run("--json", *bad, folder / "hybrid.pdf")
    assert result.exit_code == 1
    *errors, hybrid = lines(result)
    assert [line["file"] for line in errors] == [str(file) for file in bad]
    assert all(line["error"].endswith(".") and line["structured_data"] is None for line in errors)
    assert "error" not in hybrid


def test_folder_is_read_recursively_except_hidden_files(tmp_path: Path):
    for name in ("b.xml", "a/c.xml", ".hidden/d.xml", "a/.e.xml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(ubl_invoice())
    assert [line["file"] for line in lines(run("--json", tmp_path))] == [
        str(tmp_path / "a/c.xml"),
        str(tmp_path / "b.xml"),
    ]


def test_text_file_named_pdf_has_its_own_reason(tmp_path: Path):
    (tmp_path / "invoice.PDF").write_bytes(b"Invoice 17")
    (line,) = lines(run("--json", tmp_path / "invoice.PDF"))
    assert line["reason"] == "The file is named .pdf, but it is not a PDF; send the original file."


def test_oversized_file_is_rejected_without_reading_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    huge = tmp_path / "huge.pdf"
    with huge.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    monkeypatch.setattr(Path, "read_bytes", None)
    (line,) = lines(run("--json", huge))
    assert "larger than 100 MiB" in line["error"]


def test_unreadable_file_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(_file: Path) -> bytes:  # root can read everything, so the error is injected
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    (line,) = lines(run("--json", folder / "hybrid.pdf"))
    assert line["error"] == "The file cannot be read: Permission denied."


@pytest.mark.slow
def test_decompression_bomb_does_not_stop_other_files(folder: Path):
    (folder / "bomb.pdf").write_bytes(decompression_bombs.pdf_in_two_stages())
    bomb, hybrid = lines(run("--json", folder / "bomb.pdf", folder / "hybrid.pdf"))
    assert bomb["error"] == TOO_COMPLEX
    assert hybrid["method"] == "embedded-xml"


def test_internal_error_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("counterfoil.documents.sandbox.parsers.read", fail)
    result = run("--json", folder / "hybrid.pdf")
    assert result.exit_code == 1
    assert lines(result)[0]["error"] == "Reading the file failed unexpectedly (ZeroDivisionError)."


def test_default_output_is_a_table(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = run(folder / "hybrid.pdf", folder / "empty.xml")
    assert result.exit_code == 1
    assert "Lagerwelt Wels GmbH" in result.stdout
    assert "The file is empty; send it again." in result.stdout
    assert "2 files, 1 with an error." in result.stdout


def test_markup_in_file_name_is_not_interpreted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "[red]order[blue].xml"
    file.write_bytes(ubl_invoice())
    assert "[red]order[blue].xml" in run(file).stdout


def test_missing_files_argument_is_a_usage_error():
    assert run("--json").exit_code == 2
