"""`counterfoil dlq export`: dead letters of the local cloud as a file, CSV or JSON lines."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO, get_args

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cli.cloud.cloud import Cloud
from cli.cloud.place import place_of
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
from cli.failures import UsageError
from cli.tenants import Tenant, chosen
from cli.terminal import aside, page, print_json
from cli.trail import By
from counterfoil.dead_letters import audit, export
from counterfoil.dead_letters.entries import Wanted
from counterfoil.dead_letters.export import ENDINGS, Format, Selection
from counterfoil.dead_letters.exports import Wish


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

    Nothing is hidden in it, as for an admin. FILE is there once all of it is written. No cell of a CSV is taken for a
    formula by a spreadsheet: an apostrophe stands before what would be.
    """
    format_ = _format(file, file_format)
    statuses = states_of(status)
    cloud = Cloud.at(place_of(context.obj))
    fingerprint = None if group is None else fingerprint_of(cloud, group)
    selection = Selection(Wanted(statuses, task_type, fingerprint, since, until), text)
    now = datetime.now(UTC)
    wishes = [
        (whose, Wish(whose.id, selection, format_, hides=False, by=by, now=now)) for whose in chosen(cloud, tenant)
    ]
    with _written(file) as opened:
        letters = _write(cloud, wishes, opened)
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


def _write(cloud: Cloud, wishes: Sequence[tuple[Tenant, Wish]], opened: BinaryIO) -> int:
    """Write the letters of each tenant, and into its audit trail that they are taken out. How many there are."""
    all_letters = 0
    console = aside()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        shown = progress.add_task("Dead letters")
        for number, (whose, wish) in enumerate(wishes):
            size, letters = 0, 0
            if number == 0:
                opened.write(export.head(wish.format))
            begin = partial(cloud.database.tenant, whose.id)
            for batch in export.batches(begin, whose.id, wish.selection.until(wish.now)):
                size += opened.write(export.encoded(batch.letters, whose.slug, wish.format, hides=wish.hides))
                letters += len(batch.letters)
                progress.update(shown, description=f"{all_letters + letters:,} dead letters")
            with begin() as connection:
                audit.record(connection, whose.id, wish.taken(letters, size))
            all_letters += letters
    return all_letters
