"""`counterfoil extract`: what the project reads from files, without any cloud."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from counterfoil.documents import extraction
from counterfoil.documents.recognition import misnamed, recognise
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.structured import ROLES, DocumentType, Roles
from counterfoil.errors import InvalidDocumentError

if TYPE_CHECKING:
    from counterfoil.documents.text.evidence import Evidence

EXIT_SOME_FILE_FAILED = 1
_OTHER_ROLES = Roles(number="subject", date="date", seller="issuer", buyer="recipient")


@dataclass(frozen=True)
class _Outcome:
    """What became of one file: an extraction's fields, or an error."""

    file: str
    seconds: float
    type: DocumentType | None = None
    method: str = "none"
    structured_data: dict[str, Any] | None = None
    reason: str | None = None
    remarks: tuple[str, ...] = ()
    evidence: "Mapping[str, Evidence]" = field(default_factory=dict)
    error: str | None = None

    def line(self) -> str:
        """Write the outcome as one line of JSON; reason, remarks, evidence and error only where there are any."""
        fields = {
            "file": self.file,
            "type": self.type,
            "method": self.method,
            "seconds": self.seconds,
            "structured_data": self.structured_data,
        }
        evidence = {path: asdict(one) for path, one in self.evidence.items()}
        notes = {"reason": self.reason, "remarks": list(self.remarks), "evidence": evidence, "error": self.error}
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
    comes with its evidence in JSON: where each field was found, and how sure it is.

    Exits with 0 when every file was read or kept, and with 1 when at least one had an error.
    """
    failed = False
    outcomes = (_outcome(file, text_only=text_only) for path in files for file in _files_in(path))
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


def _outcome(file: Path, *, text_only: bool) -> _Outcome:
    started = time.perf_counter()
    try:
        content = _read(file)
        found = parsers.extract(content, text_only=text_only)
    except InvalidDocumentError as error:
        return _Outcome(str(file), _since(started), error=str(error))
    except OSError as error:
        return _Outcome(str(file), _since(started), error=f"The file cannot be read: {error.strerror or error}.")
    except Exception as error:  # noqa: BLE001 - one file's failure, even one of ours, never ends the others
        return _Outcome(
            str(file), _since(started), error=f"Reading the file failed unexpectedly ({type(error).__name__})."
        )
    return _Outcome(
        str(file),
        _since(started),
        found.type,
        found.method,
        found.structured_data,
        found.reason and (misnamed(file.name, recognise(content)) or found.reason),
        found.remarks,
        found.evidence,
    )


def _read(file: Path) -> bytes:
    """Read a regular file, after a look at its size."""
    if file.is_dir():
        message = "The folder has no files."
        raise InvalidDocumentError(message)
    size = file.stat().st_size
    if not file.is_file():
        message = "This is not a regular file."
        raise InvalidDocumentError(message)
    extraction.check_size(size)
    return file.read_bytes()


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 6)


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
    data = outcome.structured_data or {}
    roles = ROLES.get(outcome.type, _OTHER_ROLES) if outcome.type else _OTHER_ROLES
    document = [(outcome.type or "").replace("_", " "), data.get(roles.number), data.get(roles.date)]
    return [
        Path(outcome.file).name,
        " ".join(filter(None, document)),
        data.get(roles.seller, {}).get("name", ""),
        " ".join(filter(None, (data.get("total_gross"), data.get("currency")))),
        str(len(data.get("line_items", []))) if data else "",
        outcome.error or outcome.reason or " ".join(outcome.remarks),
    ]
