"""`counterfoil extract`: what the project reads from files, without any cloud."""

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
from counterfoil.documents.structured import ROLES, ExtractionResult, Roles
from counterfoil.errors import InvalidDocumentError

EXIT_SOME_FILE_FAILED = 1
_OTHER_ROLES = Roles(number="subject", date="date", seller="issuer", buyer="recipient")


_NOTHING = ExtractionResult(None, "none", None)


@dataclass(frozen=True)
class _Outcome:
    """Extraction of one file or of a part of it, or its error."""

    file: str
    seconds: float
    found: ExtractionResult = _NOTHING
    error: str | None = None
    pages: PageRange | None = None
    """Pages of a part; None for a whole file."""

    def line(self) -> str:
        """Return one line of JSON. Pages, reason, remarks, evidence and error are included if there are any."""
        found = self.found
        fields = {
            "file": self.file,
            "type": found.type,
            "method": found.method,
            "seconds": self.seconds,
            "structured_data": found.structured_data,
        }
        notes = {
            "pages": self.pages,
            "reason": found.reason,
            "remarks": found.remarks,
            "evidence": found.evidence,
            "error": self.error,
        }
        return json.dumps(fields | {name: note for name, note in notes.items() if note})


def extract(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE|FOLDER...", help="XML, PDF or any other files, or folders of them.")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each file.")] = False,
    text_only: Annotated[
        bool, typer.Option("--text-only", help="Leave XML inside PDFs aside, and read their pages.")
    ] = False,
) -> None:
    """Read documents from files and show their fields.

    A folder is read with all folders in it, but without hidden files.

    XML is read exactly, alone or inside a PDF; PDFs without it by the text of their pages. What was read from pages
    comes with its evidence in JSON: where each field was found, and how sure it is. A PDF of several documents is
    split, and each part has its own line with its first and last page.

    Exits with 0 when every file was read or kept, and with 1 when at least one had an error.
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
    """Return the files of a folder, by name; a path that is not a folder, or has no files, as it is."""
    if not path.is_dir():
        return [path]
    found = [file for file in path.rglob("*") if file.is_file()]
    shown = [file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    return sorted(shown) or [path]


def _outcomes(file: Path, *, text_only: bool) -> Iterator[_Outcome]:
    """Yield the outcome of a file, then of its parts if it has several documents. Covers are not parts."""
    content, whole = _outcome(file, text_only=text_only)
    yield whole
    split = whole.found.split
    if split is None:
        return
    for part, pages in zip(split.parts, parsers.cut(content, split.ranges), strict=True):
        if part.kind == "document":
            _, outcome = _outcome(file, pages, text_only=text_only)
            yield replace(outcome, pages=part.pages)


def _outcome(file: Path, part: bytes | None = None, *, text_only: bool) -> tuple[bytes, _Outcome]:
    """Return the content of a file, or of a part of it, and its outcome."""
    started, content, found, error = time.perf_counter(), part or b"", _NOTHING, None
    try:
        content = part or _read(file)
        found = extraction.extract(content, name=file.name, text_only=text_only, is_part=part is not None)
    except InvalidDocumentError as problem:
        error = str(problem)
    except OSError as problem:
        error = f"The file cannot be read: {problem.strerror or problem}."
    except Exception as problem:  # noqa: BLE001 - one file's failure, even one of ours, never ends the others
        error = f"Reading the file failed unexpectedly ({type(problem).__name__})."
    return content, _Outcome(str(file), round(time.perf_counter() - started, 6), found, error)


def _read(file: Path) -> bytes:
    """Read a regular file, after a look at its size."""
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
    """Show the outcomes as a table; tells whether any file had an error."""
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
    found = outcome.found
    data = found.structured_data or {}
    roles = ROLES.get(found.type, _OTHER_ROLES) if found.type else _OTHER_ROLES
    document = [(found.type or "").replace("_", " "), data.get(roles.number), data.get(roles.date)]
    pages = f" {outcome.pages.first}-{outcome.pages.last}" if outcome.pages else ""
    return [
        f"{Path(outcome.file).name}{pages}",
        " ".join(filter(None, document)),
        data.get(roles.seller, {}).get("name", ""),
        " ".join(filter(None, (data.get("total_gross"), data.get("currency")))),
        str(len(data.get("line_items", []))) if data else "",
        outcome.error or found.reason or " ".join(found.remarks),
    ]
