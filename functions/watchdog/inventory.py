"""Reader of S3 Inventory, the daily lists of the object versions in a bucket.

An inventory consists of a manifest, its MD5 in `manifest.checksum`, and the data files (gzipped CSV) in the manifest:

    SOURCE/ID/2026-11-24T01-00Z/manifest.json
    SOURCE/ID/2026-11-24T01-00Z/manifest.checksum
    SOURCE/ID/data/UUID.csv.gz

Each prefix of the source bucket has its own configuration, whose id is the prefix without its slash. An inventory may
be more than a day old. It can list deleted objects, and does not list new objects.

A data file may be larger than one run can read. The file stays open between runs. A new process reopens it and skips
the rows that were already read.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import md5
from itertools import islice
from typing import Any, Literal
from urllib.parse import unquote_plus

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from counterfoil import aws
from counterfoil.errors import CounterfoilError, RejectedRequestError, TransientError
from counterfoil.http import run_with_deadline

BATCH_ROWS = 1000
"""Maximum number of rows per batch."""
CHUNK = 4 * 1024 * 1024
"""Maximum size of a range request in bytes."""
MANIFEST = "manifest.json"
CHECKSUM = "manifest.checksum"
MIN_SECONDS_LEFT = 2.0
"""Minimum time left to start a call. If less is left, the next run continues."""
COLUMNS = frozenset({"Key", "VersionId", "IsDeleteMarker", "Size", "LastModifiedDate"})

_FOLDER = re.compile(r"/\d{4}-\d\d-\d\dT\d\d-\d\dZ/$")

TimeLeft = Callable[[], float]


class InventoryError(TransientError):
    """A file of an inventory is missing or damaged. The next inventory replaces it."""


class _DataFile(BaseModel):
    key: str
    size: int
    checksum: str = Field(alias="MD5checksum")


class _Manifest(BaseModel):
    started_at: AwareDatetime = Field(alias="creationTimestamp")
    """Written by S3 in milliseconds since 1970."""
    file_format: Literal["CSV"] = Field(alias="fileFormat")
    columns: str = Field(alias="fileSchema")
    files: list[_DataFile]


@dataclass(frozen=True)
class Inventory:
    """One inventory of a prefix."""

    manifest: str
    """Key of the manifest."""
    checksum: str
    """MD5 of the manifest."""
    started_at: datetime
    """Time at which S3 started to list the objects."""
    columns: Sequence[str]
    files: Sequence[_DataFile]


class Inventories:
    """Inventories of one prefix in the bucket `source`, which S3 writes to `bucket`."""

    def __init__(self, bucket: str, source: str, prefix: str) -> None:
        self.prefix = prefix
        self._bucket = bucket
        self._folder = f"{source}/{prefix.rstrip('/')}/"
        self._open: _OpenFile | None = None

    def newest(self, time_left: TimeLeft, *, after: str | None) -> Inventory | None:
        """Return the newest complete inventory after the manifest `after`, or None.

        Raises:
            InventoryError: the manifest is damaged.
            ServiceUnavailableError, RejectedRequestError: S3 did not return the list or the manifest.
        """
        listing = self._list(time_left, Prefix=self._folder, Delimiter="/")
        folders = [entry["Prefix"] for entry in listing.get("CommonPrefixes", ()) if _FOLDER.search(entry["Prefix"])]
        for folder in sorted(folders, reverse=True):
            manifest = f"{folder}{MANIFEST}"
            if after is not None and manifest <= after:
                return None
            if self._list(time_left, Prefix=f"{folder}{CHECKSUM}").get("Contents"):  # S3 writes the checksum last
                return self.get(manifest, time_left)
        return None

    def get(self, manifest: str, time_left: TimeLeft) -> Inventory:
        """Return the inventory with this manifest.

        Raises:
            InventoryError: the manifest is missing or damaged.
            ServiceUnavailableError: S3 is unavailable.
        """
        checksum = self._read_object(manifest.replace(MANIFEST, CHECKSUM), time_left).decode("ascii", "replace").strip()
        content = self._read_object(manifest, time_left)
        if md5(content, usedforsecurity=False).hexdigest() != checksum:
            raise InventoryError(f"The S3 Inventory manifest {manifest} is damaged: its checksum differs")
        try:
            parsed = _Manifest.model_validate_json(content)
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"]))
            raise InventoryError(f"The S3 Inventory manifest {manifest} is damaged at {field!r}") from None
        columns = [column.strip() for column in parsed.columns.split(",")]
        if missing := COLUMNS - set(columns):
            raise InventoryError(
                f"The S3 Inventory {manifest} lacks {', '.join(sorted(missing))}. Deploy the stack again"
            )
        return Inventory(manifest, checksum, parsed.started_at, columns, parsed.files)

    def rows(self, inventory: Inventory, number: int, start: int, time_left: TimeLeft) -> list[dict[str, Any]] | None:
        """Return up to `BATCH_ROWS` rows of data file `number` from row `start`.

        Rows have the fields of ListObjectVersions: `Key`, `VersionId`, `Size` in bytes, `LastModified`, and
        `IsDeleteMarker`. The list is empty at the end of the file. Returns None if there was no time to reach
        `start`.

        Raises:
            InventoryError: the file is missing or damaged.
            ServiceUnavailableError: S3 is unavailable.
        """
        file = inventory.files[number]
        if self._open is None or self._open.key != file.key or start < self._open.first_row:
            self._open = _OpenFile(file, self._read_object, inventory.columns)
        open_file = self._open
        open_file.time_left = time_left
        try:
            while start >= open_file.first_row + len(open_file.batch) and not open_file.is_at_end:
                if time_left() < MIN_SECONDS_LEFT:
                    return None
                open_file.advance()
        except BaseException:
            self._open = None
            raise
        return open_file.batch[start - open_file.first_row :]

    def _list(self, time_left: TimeLeft, **parameters: str) -> dict[str, Any]:
        response: dict[str, Any] = self._call(time_left, "list_objects_v2", lambda response: response, **parameters)
        return response

    def _read_object(self, key: str, time_left: TimeLeft, **parameters: str) -> bytes:
        """Return the content of an object, or only a range of it."""

        def read_content(response: dict[str, Any]) -> bytes:
            return bytes(response["Body"].read())

        try:
            return bytes(self._call(time_left, "get_object", read_content, Key=key, **parameters))
        except RejectedRequestError as error:
            raise InventoryError(f"The S3 Inventory file {key} cannot be read: {error}") from error

    def _call(
        self, time_left: TimeLeft, operation: str, read: Callable[[dict[str, Any]], Any], **parameters: Any
    ) -> Any:
        def call() -> Any:
            return read(getattr(aws.client("s3"), operation)(Bucket=self._bucket, **parameters))

        with aws.translate_errors():
            return run_with_deadline(max(MIN_SECONDS_LEFT, time_left()), call)


class _OpenFile:
    """A data file, read sequentially in batches of rows."""

    def __init__(self, file: _DataFile, read: Callable[..., bytes], columns: Sequence[str]) -> None:
        self.key = file.key
        self.first_row = 0
        """Number of the first row of `batch`."""
        self.batch: list[dict[str, Any]] = []
        self.is_at_end = False
        self.time_left: TimeLeft = lambda: 0.0
        self._file = file
        self._columns = columns
        self._body = _Body(file.size, lambda byte_range: read(file.key, self.time_left, Range=f"bytes={byte_range}"))
        unzipped = gzip.GzipFile(fileobj=io.BufferedReader(self._body, CHUNK))
        self._rows = csv.reader(io.TextIOWrapper(unzipped, "utf-8", newline=""))

    def advance(self) -> None:
        """Read the next batch. At the end, verify that the file matches the manifest."""
        self.first_row += len(self.batch)
        try:
            self.batch = [self._row(fields) for fields in islice(self._rows, BATCH_ROWS)]
        except (CounterfoilError, TimeoutError):
            raise
        except (OSError, EOFError, zlib.error, csv.Error, ValueError) as error:
            raise InventoryError(f"The S3 Inventory file {self.key} is damaged: {type(error).__name__}") from error
        self.is_at_end = not self.batch
        if self.is_at_end and self._body.checksum.hexdigest() != self._file.checksum:
            raise InventoryError(f"The S3 Inventory file {self.key} is damaged: its MD5 differs from the manifest")

    def _row(self, fields: Sequence[str]) -> dict[str, Any]:
        row = dict(zip(self._columns, fields, strict=True))
        return {
            "Key": unquote_plus(row["Key"], errors="strict"),
            "VersionId": row["VersionId"],
            "IsDeleteMarker": row["IsDeleteMarker"] == "true",
            "Size": int(row["Size"] or 0),  # empty for delete markers
            "LastModified": datetime.fromisoformat(row["LastModifiedDate"]),
        }


class _Body(io.RawIOBase):
    """Content of an object, read by range requests."""

    def __init__(self, size: int, read: Callable[[str], bytes]) -> None:
        self._size = size
        self._read = read
        self._position = 0
        self.checksum = md5(usedforsecurity=False)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into `buffer`. Return their number."""
        end = min(self._position + len(buffer), self._size)
        if self._position == end:
            return 0
        content = self._read(f"{self._position}-{end - 1}")
        buffer[: len(content)] = content
        self.checksum.update(content)
        self._position += len(content)
        return len(content)
