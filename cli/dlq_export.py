"""`counterfoil dlq export|exports`: dead letters as a file, CSV or JSON lines, answered by the API or written to S3."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO, get_args

import httpx
import typer
from rich.table import Column
from rich.text import Text

from cli import ids
from cli.client import Api, By, after, reach, read
from cli.dlq import plain
from cli.dlq_options import OfGroup, OfType, Since, States, Until, WithText, fingerprint_of, states_of
from cli.failures import CommandError, UsageError
from cli.options import AnyTenant, AsJson, Limit
from cli.output import aside, of_tenants, page, print_json
from counterfoil.dead_letters.export import ENDINGS, Format
from functions.admin_api.exporting import LetterExport, LetterExportPage, ListedExport

_PATH = "/api/admin/dlq/exports"
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


exports = typer.Typer(
    help="List exports that were written to S3, and fetch them within a week.",
    no_args_is_help=True,
    add_completion=False,
)


@exports.command("list")
def list_(
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List large exports, the newest first: one's own, and an admin's are all of a tenant."""
    api = reach(context)
    found = [one for whose in api.tenants(tenant) for one in islice(_exports(api, whose, limit), limit)]
    found = sorted(found, key=lambda one: one.requested_at, reverse=True)[:limit]
    if as_json:
        print_json([plain(one) for one in found])
    else:
        _show(api, found)


@exports.command("fetch")
def fetch(
    context: typer.Context,
    which: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="The export's id, or the end of it as the list shows it.", show_default=False
        ),
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.", show_default=False)],
    *,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Write a large export to FILE, once it is ready, in the format in which it was asked for."""
    api = reach(context, by)
    export = api.get(f"{_PATH}/{_whole(api, which)}", LetterExport)
    with _written(file) as opened:
        export = _fetch_ready(api, export, opened)
        size = opened.tell()
    _tell(file, export.format, export.letters, size, as_json=as_json)


def _tell(file: Path, format_: Format, letters: int, size: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(file), "format": format_, "letters": letters, "bytes": size})
    else:
        what = "1 dead letter is" if letters == 1 else f"{letters:,} dead letters are"
        page().print(f"{what} in {file}.", soft_wrap=True)


def _exports(api: Api, tenant: str, limit: int | None = None) -> Iterator[ListedExport]:
    pages = api.pages(_PATH, LetterExportPage, limit=limit, tenant=tenant)
    return (one for page_ in pages for one in page_.exports)


def _whole(api: Api, text: str) -> str:
    """The id that this is, or the end of: only of those that may be fetched.

    Raises:
        UsageError: there is none, or more than one.
    """
    part = text.strip().lower()
    if ids.WHOLE.fullmatch(part):
        return part
    found = []
    if ids.PART.fullmatch(part):
        every = (str(one.export_id) for tenant in api.tenants(None) for one in _exports(api, tenant))
        found = [id_ for id_ in every if id_.endswith(part)]
    if len(found) != 1:
        what = "There is no export whose" if not found else "More than one export's"
        raise UsageError(f"{what} id ends with '{text}': 'counterfoil dlq exports list' shows them.")
    return found[0]


def _show(api: Api, found: Sequence[ListedExport]) -> None:
    if not found:
        page().print("No export is being written, or was in the last week.")
        return
    table, add = of_tenants(
        [one.tenant for one in found],
        *(Column(name, no_wrap=True) for name in ("id", "when", "state", "format")),
        *(Column(name, justify="right") for name in ("letters", "bytes")),
        Column("kept until", no_wrap=True),
        Column("who", overflow="fold"),
    )
    for one in found:
        cells = [ids.short(one.export_id), f"{one.requested_at:%Y-%m-%d %H:%M}", one.state, one.format]
        cells += [f"{one.letters:,}", f"{one.bytes:,}", f"{one.expires_at:%Y-%m-%d %H:%M}"]
        add(one.tenant, *map(Text, cells), Text(api.name_of(one.requested_by)))
    page().print(table)


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
    _fetch_ready(api, read(answer, LetterExport), part)


def _fetch_ready(api: Api, export: LetterExport, part: BinaryIO) -> LetterExport:
    """Write an export into a file once it is in S3. Returns what it is then. Raises as `_fetch`."""
    if export.state == "writing":
        aside().print(
            f"There is much of {export.tenant}: it is written to S3 first, which begins within a minute. Whoever does "
            f"not wait for it has it later by: counterfoil dlq exports fetch {ids.short(export.export_id)} FILE"
        )
    path = f"{_PATH}/{export.export_id}"
    while export.state == "writing":
        export = after(LOOK_SECONDS, partial(api.get, path, LetterExport), time.sleep)
    if export.url is None:
        raise CommandError(f"The export of {export.tenant} has failed.")
    _download(export.url, part)
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
