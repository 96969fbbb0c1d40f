"""`counterfoil extract`: extract documents from local files, without a cloud."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from counterfoil.documents import extraction
from counterfoil.documents.filetype import check_size
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.splitting import PageRange
from counterfoil.documents.structured import ROLES, ExtractionResult, FieldRoles
from counterfoil.errors import InvalidDocumentError

EXIT_SOME_FILE_FAILED = 1
_OTHER_ROLES = FieldRoles(number="subject", date="date", seller="issuer", buyer="recipient")


_EMPTY_RESULT = ExtractionResult(None, "none", None)


@dataclass(frozen=True)
class _Outcome:
    """Extraction result or error for a file or a part of it."""

    file: str
    seconds: float
    result: ExtractionResult = _EMPTY_RESULT
    error: str | None = None
    pages: PageRange | None = None
    """Page range of a part, or None for a whole file."""

    def line(self) -> str:
        """Return the outcome as one line of JSON.

        Optional fields such as `reason` and `error` are omitted if they are empty.
        """
        result = self.result
        fields = {
            "file": self.file,
            "type": result.type,
            "method": result.method,
            "seconds": self.seconds,
            "structured_data": result.structured_data,
        }
        notes = {
            "pages": self.pages,
            "reason": result.reason,
            "warnings": result.warnings,
            "evidence": result.evidence,
            "error": self.error,
        }
        return json.dumps(fields | {name: note for name, note in notes.items() if note})


def extract(
    files: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER...", help="Files (XML, PDF, others) or folders.")],
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: a line per file, and per document in a split file.")
    ] = False,
    text_only: Annotated[
        bool, typer.Option("--text-only", help="Ignore XML inside PDFs and extract from the pages' text.")
    ] = False,
) -> None:
    """Extract documents from files and show their fields.

    Reads folders recursively, without hidden files.

    XML is parsed exactly, alone or inside a PDF. Other PDFs are extracted from their pages' text, and the JSON output
    includes evidence for each field: its location and confidence. A PDF that contains several documents is split. Each
    document has its own line with its first and last page.

    Exits with 1 if any file had an error, and with 0 otherwise.
    """
    failed = False
    outcomes = (
        outcome for path in files for file in _files_in(path) for outcome in _outcomes(file, text_only=text_only)
    )
    if as_json:
        for outcome in outcomes:
            failed |= outcome.error is not None
            typer.echo(outcome.line())
    else:
        failed = _show(outcomes)
    raise typer.Exit(EXIT_SOME_FILE_FAILED if failed else 0)


def _files_in(path: Path) -> list[Path]:
    """Return the visible files below a folder, sorted by path.

    Any other path is returned unchanged.
    """
    if not path.is_dir():
        return [path]
    files = [file for file in path.rglob("*") if file.is_file()]
    visible = [file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    return sorted(visible) or [path]


def _outcomes(file: Path, *, text_only: bool) -> Iterator[_Outcome]:
    """Yield the outcome for a file, then for each document in it.

    Cover pages are skipped.
    """
    content, file_outcome = _outcome(file, text_only=text_only)
    yield file_outcome
    split = file_outcome.result.split
    if split is None:
        return
    for part, pages in zip(split.parts, parsers.extract_pages(content, split.ranges), strict=True):
        if part.kind == "document":
            _, outcome = _outcome(file, pages, text_only=text_only)
            yield replace(outcome, pages=part.pages)


def _outcome(file: Path, part: bytes | None = None, *, text_only: bool) -> tuple[bytes, _Outcome]:
    """Return the content of a file or part, and its outcome.

    The content is empty if it cannot be read.
    """
    started, content, result, error = time.perf_counter(), part or b"", _EMPTY_RESULT, None
    try:
        content = part or _read(file)
        result = extraction.extract(content, name=file.name, text_only=text_only, is_part=part is not None)
    except InvalidDocumentError as exception:
        error = str(exception)
    except OSError as exception:
        error = f"The file cannot be read: {exception.strerror or exception}."
    except Exception as exception:  # noqa: BLE001 - a failure, even an internal one, must not stop the other files
        error = f"Reading the file failed unexpectedly ({type(exception).__name__})."
    return content, _Outcome(str(file), round(time.perf_counter() - started, 6), result, error)


def _read(file: Path) -> bytes:
    """Read a regular file after checking its size."""
    if file.is_dir():
        message = "The folder has no files."
        raise InvalidDocumentError(message, code="not_a_file")
    size = file.stat().st_size
    if not file.is_file():
        message = "This is not a regular file."
        raise InvalidDocumentError(message, code="not_a_file")
    check_size(size)
    return file.read_bytes()


def _show(outcomes: Iterator[_Outcome]) -> bool:
    """Print the outcomes as a table. Returns whether any file had an error."""
    table = Table(*(Column(name, overflow="fold") for name in ("file", "document", "from", "total", "lines", "note")))
    errors = []
    for outcome in outcomes:
        table.add_row(*map(Text, _cells(outcome)))
        errors.append(outcome.error is not None)
    console = Console()
    console.print(table)
    console.print(f"{len(errors)} files, {sum(errors)} with an error.")
    return any(errors)


def _cells(outcome: _Outcome) -> list[str]:
    result = outcome.result
    data = result.structured_data or {}
    roles = ROLES.get(result.type, _OTHER_ROLES) if result.type else _OTHER_ROLES
    document = [(result.type or "").replace("_", " "), data.get(roles.number), data.get(roles.date)]
    pages = f" {outcome.pages.first}-{outcome.pages.last}" if outcome.pages else ""
    return [
        f"{Path(outcome.file).name}{pages}",
        " ".join(filter(None, document)),
        data.get(roles.seller, {}).get("name", ""),
        " ".join(filter(None, (data.get("total_gross"), data.get("currency")))),
        str(len(data.get("line_items", []))) if data else "",
        outcome.error or result.reason or " ".join(result.warnings),
    ]
