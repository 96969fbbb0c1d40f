"""Show uploads, and upload files with presigned forms from the API."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import httpx
from rich.table import Column, Table
from rich.text import Text

from cli.client import Api
from cli.failures import CommandError, UsageError
from cli.ids import short_id
from cli.output import stderr, stdout, type_label

PATH = "/api/uploads"
State = Literal["waiting", "working", "succeeded", "ignored", "duplicate", "removed", "failed"]
STATES: Mapping[str, str] = {
    "waiting": "cyan",
    "working": "cyan",
    "succeeded": "green",
    "ignored": "yellow",
    "duplicate": "dim",
    "removed": "dim",
    "failed": "red",
}
"""Style of each state."""
UNFINISHED = {"waiting", "working"}
POLL_SECONDS = 0.5
_UPLOAD_SECONDS = 300.0
"""Timeout for sending one file."""

Upload = Mapping[str, Any]
"""An upload as returned by the API."""


def upload(api: Api, path: Path, **fields: str | None) -> str:
    """Upload a file and return its key.

    `fields` are additional fields of the API request.

    Raises:
        UsageError: the file cannot be read, or the API rejects it.
        CommandError: S3 rejects it.
    """
    try:
        size = path.stat().st_size
        form = api.send("POST", PATH, body={"file_name": path.name, "size": size, **fields}).json()
        with path.open("rb") as content:
            response = httpx.post(
                form["url"], data=form["fields"], files={"file": (path.name, content)}, timeout=_UPLOAD_SECONDS
            )
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    except httpx.HTTPError as error:
        raise CommandError(f"{path.name} was not uploaded: {type(error).__name__}. Run the command again.") from None
    if not response.is_success:
        raise CommandError(f"{path.name} was not uploaded: S3 returned {response.status_code}.")
    return str(form["key"])


def wait_for(
    api: Api,
    keys: Sequence[str],
    seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[Upload]:
    """Wait until all documents from these uploads have a final state.

    Raises:
        CommandError: some documents have no final state after `seconds`.
    """
    deadline = clock() + seconds
    finished: list[Upload] = []
    with stderr().status("Waiting") as status:
        for number, key in enumerate(keys):
            status.update(f"Waiting: {number} of {len(keys)}")
            while not (uploads := api.send("GET", PATH, query={"key": key}).json()["uploads"]) or _is_unfinished(
                uploads
            ):
                if clock() > deadline:
                    raise CommandError(
                        f"After {seconds:.0f} s, {len(keys) - number} of {len(keys)} uploads have no final state: "
                        "see 'counterfoil documents' and 'counterfoil queues'."
                    )
                sleep(POLL_SECONDS)
            finished += uploads
    return finished


def _is_unfinished(uploads: Iterable[Upload]) -> bool:
    return any(upload["state"] in UNFINISHED for upload in uploads)


def show_uploads(uploads: Sequence[Upload], *, with_ids: bool = False) -> None:
    """Print a row for each upload, and the number of uploads in each state."""
    if not uploads:
        stdout().print("There are no uploads.")
        return
    shows_tenant = len({upload["tenant"] for upload in uploads}) > 1
    columns = [Column("tenant", no_wrap=True)] if shows_tenant else []
    columns += [Column("id", no_wrap=True)] if with_ids else []
    columns += [Column("file", overflow="fold"), Column("state", no_wrap=True), Column("type")]
    columns += [Column("number", overflow="fold"), Column("note", overflow="fold")]
    table = Table(*columns, box=None, pad_edge=False)
    for upload in uploads:
        cells = [Text(upload["tenant"] or "(none)")] if shows_tenant else []
        cells += [Text("" if upload["state"] == "removed" else short_id(upload["document_id"]))] if with_ids else []
        cells += [Text(upload["file"]), Text(upload["state"], STATES[upload["state"]])]
        table.add_row(*cells, type_label(upload["type"]), Text(upload["number"] or ""), Text(upload["note"] or ""))
    stdout().print(table)
    stdout().print(summary(upload["state"] for upload in uploads))


def summary(states: Iterable[str]) -> Text:
    """Return the number of uploads in each state."""
    counts = Counter(states)
    return Text(", ").join(Text(f"{counts[state]} {state}", style) for state, style in STATES.items() if counts[state])


def files_in(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield these files, and all files in these folders except hidden files.

    Raises:
        UsageError: a path does not exist, a folder is empty, or S3 would reject a name.
    """
    for path in paths:
        if path.is_dir():
            files = sorted(
                file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path))
            )
            if not files:
                raise UsageError(f"There are no files in {path}.")
            yield from (_check_name(file) for file in files)
        elif path.is_file():
            yield _check_name(path)
        else:
            raise UsageError(f"{path} is not a file or folder." if path.exists() else f"File not found: {path}.")


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _check_name(path: Path) -> Path:
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise UsageError(f"The name of {str(path)!r} is not UTF-8: rename the file.") from None
    return path
