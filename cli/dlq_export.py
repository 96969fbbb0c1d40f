"""`counterfoil dlq export|fetch`: dead letters as a file, CSV or JSON lines."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO, get_args

import httpx
import typer

from cli import ids
from cli.client import Api, By, after, reach, read
from cli.dlq_options import OfGroup, OfType, Since, States, Until, WithText, fingerprint_of, states_of
from cli.failures import CommandError, UsageError
from cli.operations import Which, look
from cli.options import AnyTenant, AsJson
from cli.output import aside, page, print_json
from counterfoil.dead_letters.export import ENDINGS, Format
from functions.admin_api.api.exporting import ExportLink
from functions.admin_api.api.operations import OperationProgress

LOOK_SECONDS = 2.0
PATIENCE = 60.0
"""Seconds between two pieces of a file that S3 sends."""
CHUNK = 1024 * 1024


def export_(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write them.", show_default=False)],
    *,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="csv|json",
            help="CSV, or JSON with a letter in each line; else as FILE ends.",
            show_default=False,
        ),
    ] = None,
    tenant: AnyTenant = None,
    status: States = None,
    task_type: OfType = None,
    since: Since = None,
    until: Until = None,
    text: WithText = None,
    group: OfGroup = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Write dead letters to FILE, the newest of each tenant first, with all that is known of them.

    In the local cloud nothing is hidden in it, as from an admin. FILE is there once all of it is written. No cell of a
    CSV is taken for a formula by a spreadsheet: an apostrophe stands before what would be.
    """
    format_ = _format(file, file_format)
    wanted: dict[str, Any] = {"format": format_, "status": states_of(status), "task_type": task_type}
    wanted |= {"from_date": since, "to_date": until, "text": text}
    api = reach(context, by)
    wanted["fingerprint"] = fingerprint_of(api, group)
    with _written(file) as opened:
        letters = 0
        for number, whose in enumerate(api.tenants(tenant)):
            with TemporaryFile() as part:
                _fetch(api, {**wanted, "tenant": whose}, part)
                letters += _append(part, opened, format_, is_first=number == 0)
        size = opened.tell()
    _tell(file, format_, letters, size, as_json=as_json)


def fetch(
    context: typer.Context,
    which: Which,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.", show_default=False)],
    *,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Write the file of a large export, of the last week, to FILE. Waits until it is ready.

    `counterfoil operations` lists exports.
    """
    api = reach(context, by)
    operation = api.get(f"/api/admin/operations/{api.named('operation', which, 'operations')}", OperationProgress)
    if operation.file is None:
        raise UsageError(f"Operation {ids.short(operation.operation_id)} is not an export.")
    with _written(file) as opened:
        operation = _fetch_ready(api, operation, opened)
        size = opened.tell()
    _tell(file, operation.file.format if operation.file else "json", operation.done, size, as_json=as_json)


def _tell(file: Path, format_: Format, letters: int, size: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(file), "format": format_, "letters": letters, "bytes": size})
    else:
        what = "1 dead letter is" if letters == 1 else f"{letters:,} dead letters are"
        page().print(f"{what} in {file}.", soft_wrap=True)


def _format(file: Path, named: str | None) -> Format:
    """What is asked for, or what the name of the file says.

    Raises:
        UsageError: neither does.
    """
    endings: dict[str, Format] = {ending: format_ for format_, ending in ENDINGS.items()} | {"json": "json"}
    for format_ in get_args(Format):
        if named == format_:
            return endings[format_]
    if named is not None:
        raise UsageError(f"'{named}' is no format: there are csv and json.")
    found = endings.get(file.suffix.removeprefix(".").lower())
    if found is None:
        raise UsageError(f"Say what {file.name} is to be, with --format csv or --format json.")
    return found


@contextmanager
def _written(file: Path) -> Iterator[BinaryIO]:
    """A file that takes its name once it is whole; what fails before leaves the one that was there.

    Raises:
        UsageError: it cannot be written.
    """
    partial_file = file.with_name(f".{file.name}.partial")
    try:
        with partial_file.open("wb") as opened:
            partial_file.chmod(0o600)  # there are secrets in it
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
        partial_file.replace(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from None
    finally:
        partial_file.unlink(missing_ok=True)


def _fetch(api: Api, wanted: Mapping[str, Any], part: BinaryIO) -> None:
    """Write a tenant's letters into a file: of the answer, or of S3 once they are there.

    Raises:
        CommandError: there is no file in the end.
        and as `Api.send`.
    """
    answer = api.send("GET", "/api/admin/dlq/export", query=wanted)
    if answer.status_code != httpx.codes.ACCEPTED:
        part.write(answer.content)
        return
    _fetch_ready(api, read(answer, OperationProgress), part)


def _fetch_ready(api: Api, export: OperationProgress, part: BinaryIO) -> OperationProgress:
    """Write the file of an export into `part` once it is complete. Returns the export as it is then.

    Raises:
        CommandError: it was cancelled or stopped, or the download failed.
        and as `Api.send`.
    """
    if export.ended_at is None:
        aside().print(
            f"{export.tenant} has many dead letters, so the file is written to S3 first, which begins within a minute. "
            f"To fetch it later: counterfoil dlq fetch {ids.short(export.operation_id)} FILE"
        )
    while export.ended_at is None:
        export = after(LOOK_SECONDS, partial(look, api, export), time.sleep)
    if export.state != "done":
        raise CommandError(f"The export of {export.tenant} is {export.state}. {export.reason or ''}".strip())
    _download(api.get(f"/api/admin/operations/{export.operation_id}/file", ExportLink).url, part)
    return export


def _download(url: str, part: BinaryIO) -> None:
    try:
        with httpx.stream("GET", url, timeout=PATIENCE) as answer:  # without the token: the link is enough
            answer.raise_for_status()
            part.writelines(answer.iter_bytes())
    except httpx.HTTPError as error:  # the link is not told: whoever has it has the file
        raise CommandError(f"The file cannot be had from S3: {type(error).__name__}.") from None


def _append(part: BinaryIO, opened: BinaryIO, format_: Format, *, is_first: bool) -> int:
    """Write a tenant's letters behind those of others, and the names of columns once. How many there are."""
    part.seek(0)
    if format_ == "csv":
        head = part.readline()
        if is_first:
            opened.write(head)
    begins_at = part.tell()
    while chunk := part.read(CHUNK):
        opened.write(chunk)
    part.seek(begins_at)
    if format_ == "json":
        return sum(1 for _ in part)
    rows, quotes = 0, 0
    for line in part:  # of which a cell may hold several
        quotes += line.count(b'"')
        rows += quotes % 2 == 0
    return rows
