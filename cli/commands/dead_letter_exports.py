"""`counterfoil dlq export|fetch`: export dead letters as CSV or JSON Lines."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO

import httpx
import typer

from cli import ids
from cli.client import Api, By, connect, poll
from cli.commands.dead_letters import (
    PATH,
    OfGroup,
    OfType,
    Search,
    Since,
    States,
    Until,
    checked_states,
    fingerprint_of,
)
from cli.commands.operations import PATH as OPERATIONS
from cli.commands.operations import Operation, OperationId
from cli.failures import CommandError, UsageError
from cli.options import AnyTenant, AsJson
from cli.output import print_json, stderr, stdout

FILE_EXTENSIONS = {"csv": "csv", "json": "jsonl"}
"""File extension of each format."""
POLL_SECONDS = 2.0
TIMEOUT_SECONDS = 60.0
"""Read timeout for a file in S3, in seconds."""
CHUNK = 1024 * 1024


def export_(  # noqa: PLR0913  # one argument per option
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.", show_default=False)],
    *,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="csv|json",
            help="CSV, or JSON with one dead letter per line. Default: from the extension of FILE.",
            show_default=False,
        ),
    ] = None,
    tenant: AnyTenant = None,
    status: States = None,
    task_type: OfType = None,
    since: Since = None,
    until: Until = None,
    search: Search = None,
    group: OfGroup = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Export dead letters with all fields to FILE, sorted by tenant and newest first.

    In the local cloud, you are an admin, so the file contains secrets. FILE is replaced when the export is complete.
    CSV cells that a spreadsheet would run as a formula are prefixed with an apostrophe.
    """
    format_ = _format(file, file_format)
    filters: dict[str, Any] = {"format": format_, "status": checked_states(status), "task_type": task_type}
    filters |= {"from_date": since, "to_date": until, "search": search}
    api = connect(context, by)
    filters["fingerprint"] = fingerprint_of(api, group)
    with _replacement_file(file) as output:
        dead_letters = 0
        for number, slug in enumerate(api.tenants(tenant)):
            with TemporaryFile() as part_file:
                _fetch(api, {**filters, "tenant": slug}, part_file)
                dead_letters += _append(part_file, output, format_, is_first=number == 0)
        size = output.tell()
    _report(file, format_, dead_letters, size, as_json=as_json)


def fetch(
    context: typer.Context,
    operation_id: OperationId,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.", show_default=False)],
    *,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Write a large export from the last 7 days to FILE.

    Waits until the export is ready.

    `counterfoil operations` lists exports.
    """
    api = connect(context, by)
    operation = api.send("GET", f"{OPERATIONS}/{api.find_by_id_suffix('operation', operation_id, 'operations')}").json()
    if operation["file"] is None:
        raise UsageError(f"Operation {ids.short_id(operation['operation_id'])} is not an export.")
    with _replacement_file(file) as output:
        operation = _fetch_ready(api, operation, output)
        size = output.tell()
    _report(file, operation["file"]["format"], operation["succeeded"], size, as_json=as_json)


def _report(file: Path, format_: str, dead_letters: int, size: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(file), "format": format_, "dead_letters": dead_letters, "bytes": size})
    else:
        count = "1 dead letter" if dead_letters == 1 else f"{dead_letters:,} dead letters"
        stdout().print(f"Wrote {count} to {file}.", soft_wrap=True)


def _format(file: Path, chosen: str | None) -> str:
    """Return the given format, or the format that matches the file extension.

    Raises:
        UsageError: the format is unknown.
    """
    if chosen is not None:
        if chosen not in FILE_EXTENSIONS:
            raise UsageError(f"The format '{chosen}' is unknown: use csv or json.")
        return chosen
    suffix = file.suffix.removeprefix(".").lower()
    for format_, extension in FILE_EXTENSIONS.items():
        if suffix in {format_, extension}:
            return format_
    raise UsageError(f"The extension of {file.name} is unknown. Add --format csv or --format json.")


@contextmanager
def _replacement_file(file: Path) -> Iterator[BinaryIO]:
    """Open a temporary file, which replaces `file` unless the block fails.

    Raises:
        UsageError: `file` cannot be written.
    """
    partial_file = file.with_name(f".{file.name}.partial")
    try:
        with partial_file.open("wb") as output:
            partial_file.chmod(0o600)  # it contains secrets
            yield output
            output.flush()
            os.fsync(output.fileno())
        partial_file.replace(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from None
    finally:
        partial_file.unlink(missing_ok=True)


def _fetch(api: Api, query: Mapping[str, Any], output: BinaryIO) -> None:
    """Write a tenant's dead letters to a file, from the response or from S3.

    Raises:
        CommandError: the export failed.
        Other errors from `Api.send`.
    """
    response = api.send("GET", f"{PATH}/export", query=query)
    if response.status_code == httpx.codes.ACCEPTED:
        _fetch_ready(api, response.json(), output)
    else:
        output.write(response.content)


def _fetch_ready(api: Api, export: Operation, output: BinaryIO) -> Operation:
    """Wait for an export, write it to a file, and return the operation.

    Raises:
        CommandError: the export was canceled or halted, or the download failed.
        Other errors from `Api.send`.
    """
    if export["ended_at"] is None:
        stderr().print(
            f"The export of {export['tenant']} is large: it is written to S3 first, starting within a minute."
        )
        stderr().print(f"To fetch it later: counterfoil dlq fetch {ids.short_id(export['operation_id'])} FILE")
    path = f"{OPERATIONS}/{export['operation_id']}"
    while export["ended_at"] is None:
        export = poll(POLL_SECONDS, lambda: api.send("GET", path).json(), time.sleep)
    if export["state"] != "done":
        raise CommandError(f"The export of {export['tenant']} is {export['state']}. {export['reason'] or ''}".strip())
    _download(api.send("GET", f"{path}/file").json()["url"], output)
    return export


def _download(url: str, output: BinaryIO) -> None:
    try:
        with httpx.stream("GET", url, timeout=TIMEOUT_SECONDS) as response:  # presigned: must not receive the token
            response.raise_for_status()
            output.writelines(response.iter_bytes())
    except httpx.HTTPError as error:  # the link gives access to the file, so no message contains it
        raise CommandError(f"The file cannot be downloaded from S3: {type(error).__name__}.") from None


def _append(part: BinaryIO, output: BinaryIO, format_: str, *, is_first: bool) -> int:
    """Append a tenant's dead letters to the file and return the count.

    The CSV header is written once.
    """
    part.seek(0)
    if format_ == "csv":
        header = part.readline()
        if is_first:
            output.write(header)
    start = part.tell()
    while chunk := part.read(CHUNK):
        output.write(chunk)
    part.seek(start)
    if format_ == "json":
        return sum(1 for _ in part)
    rows, quotes = 0, 0
    for line in part:  # a quoted cell can contain several lines
        quotes += line.count(b'"')
        rows += quotes % 2 == 0
    return rows
