"""Dead letters as a file: which ones, how they are read, and how JSON lines and CSV tell them.

They are read as lists are, page by page behind one place, each page in a transaction of its own: however many there
are, few of them are in memory. A letter is told as it is when its turn comes; one that has changed meanwhile so that it
is not meant any more may be told still, or be left out.

JSON lines: one object for each letter, with the names of FIELDS, in UTF-8.

CSV (RFC 4180, UTF-8): a line of COLUMNS, and one for each letter. Every text is quoted; what is an object or a list is
its JSON; and no cell begins a formula in a spreadsheet: an apostrophe stands before what would, as
`counterfoil.webhooks.payload.cell` has it. Numbers are not quoted and stay numbers. In the JSON inside a cell,
semicolons and bars are escaped: that changes nothing of what it says, and none is taken for the end of a cell.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.dead_letters import search
from counterfoil.dead_letters.redaction import redact, without_traceback
from counterfoil.dead_letters.search import ALL_COLUMNS, DeadLetterCursor, DeadLetterFilter, Details
from counterfoil.webhooks.payload import cell

Format = Literal["csv", "json"]
ENDINGS: Mapping[Format, str] = {"csv": "csv", "json": "jsonl"}
"""Of the names of files."""
MEDIA_TYPES: Mapping[Format, str] = {"csv": "text/csv; charset=utf-8; header=present", "json": "application/x-ndjson"}
FIELDS = (
    *("job_id", "task_type", "payload", "metadata", "dlq_reason", "dlq_timestamp", "status", "resolution"),
    *("resolved_at", "resolved_by", "worker", "tenant", "fingerprint", "attempts", "lineage", "work_id", "revision"),
    *("version", "file_name", "redacted"),
)
COLUMNS = (
    *("job_id", "task_type", "payload", "metadata.created_at", "metadata.retry_count", "metadata.max_retry"),
    *(f"metadata.last_error.{name}" for name in ("type", "message", "timestamp", "context")),
    *("dlq_reason", "dlq_timestamp", "status", "resolution.action", "resolution.notes", "resolved_at", "resolved_by"),
    *(
        "worker",
        "tenant",
        "fingerprint",
        "attempts",
        "lineage",
        "work_id",
        "revision",
        "version",
        "file_name",
        "redacted",
    ),
)
PAGE = 500
"""Letters whose places are read at once."""
MOST_BYTES = 2 * 1024 * 1024
"""Of JSON that PostgreSQL hands over at once, where it is not a single letter's."""


# -- reading ---------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Letters that are behind one another."""

    letters: Sequence[Details]
    after: DeadLetterCursor
    """Behind which the next ones are."""


Open = Callable[[], AbstractContextManager[Connection]]
"""Begins a transaction that sees the tenant's letters."""

_SIZES = """
SELECT job_id, octet_length(payload::text) + octet_length(metadata::text) + octet_length(lineage::text)
FROM dead_letter WHERE job_id = ANY(%s)
"""
_WHOLE = f"""
SELECT {ALL_COLUMNS} FROM dead_letter WHERE job_id = ANY(%(ids)s) AND tenant_id = %(tenant)s AND purged_at IS NULL
ORDER BY dlq_timestamp DESC, job_id DESC
"""  # noqa: S608  # the columns of the dataclass


def batches(
    begin: Open, tenant_id: UUID, selection: DeadLetterFilter, after: DeadLetterCursor | None = None
) -> Iterator[Batch]:
    """A tenant's letters behind a place, the newest first. A batch holds MOST_BYTES of JSON, or one letter.

    Raises:
        ConflictError, DatabaseUnavailableError: go on behind the last batch.
    """
    next_: DeadLetterCursor | None = after
    while True:
        with begin() as connection:
            found, next_ = search.page_cursors(connection, tenant_id, selection, limit=PAGE, after=next_)
            sizes: dict[UUID, int] = dict(connection.execute(_SIZES, [[place.job_id for place in found]]).fetchall())
        for few in _portions(found, sizes):
            with begin() as connection:
                values = {"ids": [place.job_id for place in few], "tenant": tenant_id}
                letters = [Details(*row) for row in connection.execute(_WHOLE.encode(), values)]
            yield Batch(letters, few[-1])
        if next_ is None:
            return
        yield Batch((), next_)


def _portions(found: Sequence[DeadLetterCursor], sizes: Mapping[UUID, int]) -> Iterator[Sequence[DeadLetterCursor]]:
    few: list[DeadLetterCursor] = []
    size = 0
    for place in found:
        more = sizes.get(place.job_id, 0)
        if few and size + more > MOST_BYTES:
            yield few
            few, size = [], 0
        few.append(place)
        size += more
    if few:
        yield few


# -- telling ---------------------------------------------------------------------------------------------------------

_FROM_OUTSIDE = ("payload", "metadata", "resolution", "lineage", "file_name")
"""What of a letter may hold secrets: notes may, too."""


def head(format_: Format) -> bytes:
    """What a file begins with."""
    return b"" if format_ == "json" else _rows([COLUMNS])


def encoded(letters: Iterable[Details], tenant: str, format_: Format, *, hides: bool) -> bytes:
    """Letters of the tenant of this slug, as they stand in the file. `hides`: without their secrets, by `redact`."""
    told = [_told(letter, tenant, hides=hides) for letter in letters]
    if format_ == "json":
        return "".join(f"{_json(one)}\n" for one in told).encode()
    return _rows(_cells(one) for one in told)


def _told(letter: Details, tenant: str, *, hides: bool) -> dict[str, Any]:
    whole = {name: _plain(value) for name, value in vars(letter).items()} | {"tenant": tenant, "redacted": []}
    if hides:
        hidden = redact(without_traceback({name: whole[name] for name in _FROM_OUTSIDE}))
        whole |= {**hidden.value, "redacted": hidden.pointers}
    return {name: whole[name] for name in FIELDS}


_PATHS = [column.split(".") for column in COLUMNS]


def _cells(told: Mapping[str, Any]) -> Iterator[str | int]:
    for first, *rest in _PATHS:
        value: Any = told[first]
        for name in rest:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, dict | list):  # which begins with a bracket
            yield _json(value).replace(";", "\\u003b").replace("|", "\\u007c")
        else:
            yield value if isinstance(value, int) and not isinstance(value, bool) else cell(value)


def _rows(rows: Iterable[Iterable[str | int]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """As JSON has it: times in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
