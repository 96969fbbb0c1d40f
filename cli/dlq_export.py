"""`counterfoil dlq export`: dead letters as a file, CSV or JSON lines, as the API answers them or writes them to S3."""

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

from cli.api import Api, after, reach, read
from cli.dlq_options import (
    AnyTenant,
    AsJson,
    OfGroup,
    OfType,
    Since,
    States,
    Until,
    WithText,
    fingerprint_of,
    states_of,
)
from cli.failures import CommandError, UsageError
from cli.terminal import aside, page, print_json
from cli.trail import By
from counterfoil.dead_letters.export import ENDINGS, Format
from functions.admin_api.exporting import LetterExport

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
    export = read(answer, LetterExport)
    aside().print(f"There is much of {export.tenant}: it is written to S3 first, which begins within a minute.")
    path = f"/api/admin/dlq/exports/{export.export_id}"
    while export.state == "writing":
        export = after(LOOK_SECONDS, partial(api.get, path, LetterExport), time.sleep)
    if export.url is None:
        raise CommandError(f"The export of {export.tenant} has failed.")
    _download(export.url, part)


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
