"""Run one large export in a separate process.

Usage: `python -m tests.dead_letters.export_once URL TENANT FORMAT`. Prints JSON with the peak memory in MiB, the
duration in seconds, and the numbers of dead letters, bytes and parts. Parts are written to the file `--into` instead of
S3.
"""

import argparse
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, BinaryIO
from uuid import UUID

from counterfoil import aws
from counterfoil.db import Database
from counterfoil.dead_letters import export
from counterfoil.dead_letters.export import ExportFile, ExportSteps
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.operations import engine, store
from tests.peak_memory import peak_megabytes


class _S3:
    """Fake S3 with the calls that exports use."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.parts: list[int] = []

    def create_multipart_upload(self, **_: Any) -> dict[str, str]:
        return {"UploadId": "1"}

    def upload_part(self, *, Body: bytes, **_: Any) -> dict[str, str]:  # noqa: N803  # S3's name
        self._file.write(Body)
        self.parts.append(len(Body))
        return {"ETag": "etag"}

    def complete_multipart_upload(self, **_: Any) -> dict[str, str]:
        return {}


def main() -> None:
    """Write one export."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("tenant", type=UUID)
    parser.add_argument("format")
    parser.add_argument(
        "--since", type=datetime.fromisoformat, help="Export only dead letters that failed at or after this time."
    )
    parser.add_argument("--redacts", action="store_true", help="Redact secrets, as for callers who are not admins.")
    parser.add_argument("--into", type=Path, default=Path(os.devnull), help="File for the uploaded parts.")
    options = parser.parse_args()
    now = datetime.now(UTC)
    database = Database(options.url)
    with database.tenant(options.tenant) as connection:
        file = ExportFile(options.format, redacted=options.redacts)
        filter_ = DeadLetterFilter(from_date=options.since)
        operation = export.request(connection, options.tenant, filter_, file, by="ann", now=now)
    definition = ExportSteps("uploads")
    with options.into.open("wb") as output:
        s3 = _S3(output)
        aws.client = lambda _: s3  # type: ignore[assignment]
        start = perf_counter()
        while (step := engine.run_step(database, definition, operation.id, options.tenant, now)) and step.is_busy:
            pass
        seconds = perf_counter() - start
    with database.tenant(options.tenant) as connection:
        exported = store.show(connection, operation.id)
    database.close()
    assert exported.state == "done"
    summary = {
        "dead_letters": exported.succeeded,
        "bytes": sum(s3.parts),
        "parts": len(s3.parts),
        "seconds": seconds,
    }
    print(json.dumps({**summary, "peak": peak_megabytes()}))  # noqa: T201


if __name__ == "__main__":
    main()
