"""Show uploads, and upload files with presigned forms of the API."""

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
from cli.output import aside, label, page

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


def upload(api: Api, path: Path, **wanted: str | None) -> str:
    """Upload a file and return its key. `wanted` are additional fields of the API request.

    Raises:
        UsageError: the file cannot be read, or the API rejects it.
        CommandError: S3 rejects it.
    """
    try:
        size = path.stat().st_size
        form = api.send("POST", PATH, body={"file_name": path.name, "size": size, **wanted}).json()
        with path.open("rb") as content:
            answer = httpx.post(
                form["url"], data=form["fields"], files={"file": (path.name, content)}, timeout=_UPLOAD_SECONDS
            )
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    except httpx.HTTPError as error:
        raise CommandError(f"{path.name} was not uploaded: {type(error).__name__}. Run the command again.") from None
    if not answer.is_success:
        raise CommandError(f"{path.name} was not uploaded: S3 returned {answer.status_code}.")
    return str(form["key"])


def wait_for(
    api: Api,
    keys: Sequence[str],
    seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[Upload]:
    """Wait until the states of all documents of these uploads are final.

    Raises:
        CommandError: some are not final after `seconds`.
    """
    deadline = clock() + seconds
    found: list[Upload] = []
    with aside().status("Waiting") as shown:
        for number, key in enumerate(keys):
            shown.update(f"Waiting: {number} of {len(keys)}")
            while not (some := api.send("GET", PATH, query={"key": key}).json()["uploads"]) or _is_unfinished(some):
                if clock() > deadline:
                    raise CommandError(
                        f"After {seconds:.0f} s, {len(keys) - number} of {len(keys)} uploads have no final state: "
                        "see 'counterfoil documents' and 'counterfoil queues'."
                    )
                sleep(POLL_SECONDS)
            found += some
    return found


def _is_unfinished(uploads: Iterable[Upload]) -> bool:
    return any(one["state"] in UNFINISHED for one in uploads)


def show_uploads(found: Sequence[Upload], *, with_ids: bool = False) -> None:
    """Print a row for each upload, and the number of uploads in each state."""
    if not found:
        page().print("There are no uploads.")
        return
    several = len({one["tenant"] for one in found}) > 1
    columns = [Column("tenant", no_wrap=True)] if several else []
    columns += [Column("id", no_wrap=True)] if with_ids else []
    columns += [Column("file", overflow="fold"), Column("state", no_wrap=True), Column("type")]
    columns += [Column("number", overflow="fold"), Column("note", overflow="fold")]
    table = Table(*columns, box=None, pad_edge=False)
    for one in found:
        cells = [Text(one["tenant"] or "(none)")] if several else []
        cells += [Text("" if one["state"] == "removed" else short_id(one["document_id"]))] if with_ids else []
        cells += [Text(one["file"]), Text(one["state"], STATES[one["state"]])]
        table.add_row(*cells, label(one["type"]), Text(one["number"] or ""), Text(one["note"] or ""))
    page().print(table)
    page().print(summary(one["state"] for one in found))


def summary(states: Iterable[str]) -> Text:
    """Return the number of uploads in each state."""
    counts = Counter(states)
    return Text(", ").join(Text(f"{counts[state]} {state}", style) for state, style in STATES.items() if counts[state])


def files_in(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield files, and the files inside folders except hidden ones.

    Raises:
        UsageError: a path does not exist, a folder is empty, or S3 would reject a name.
    """
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path)))
            if not inside:
                raise UsageError(f"There are no files in {path}.")
            yield from (_named(file) for file in inside)
        elif path.is_file():
            yield _named(path)
        else:
            raise UsageError(f"{path} is not a file or folder." if path.exists() else f"File not found: {path}.")


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _named(path: Path) -> Path:
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise UsageError(f"The name of {str(path)!r} is not UTF-8: rename the file.") from None
    return path
