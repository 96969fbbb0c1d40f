"""One large export in a process: `python -m tests.dead_letters.export_once URL TENANT FORMAT`.

Prints, as JSON, the process's peak in MiB, how many letters, bytes and parts it wrote, and in how many seconds. In the
place of S3 stands the file of `--into`, else nothing.
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
from tests.memory import peak_megabytes


class _S3:
    """S3, as far as it is used."""

    def __init__(self, into: BinaryIO) -> None:
        self._into = into
        self.parts: list[int] = []

    def create_multipart_upload(self, **_: Any) -> dict[str, str]:
        return {"UploadId": "1"}

    def upload_part(self, *, Body: bytes, **_: Any) -> dict[str, str]:  # noqa: N803  # as S3 has it
        self._into.write(Body)
        self.parts.append(len(Body))
        return {"ETag": "etag"}

    def complete_multipart_upload(self, **_: Any) -> dict[str, str]:
        return {}


def main() -> None:
    """Write one export to its end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("tenant", type=UUID)
    parser.add_argument("format")
    parser.add_argument("--since", type=datetime.fromisoformat, help="Of letters that died then or later.")
    parser.add_argument("--hides", action="store_true", help="Without secrets, as for who is no admin.")
    parser.add_argument("--into", type=Path, default=Path(os.devnull), help="What was uploaded.")
    given = parser.parse_args()
    now = datetime.now(UTC)
    database = Database(given.url)
    with database.tenant(given.tenant) as connection:
        file = ExportFile(given.format, redacted=given.hides)
        wanted = DeadLetterFilter(from_date=given.since)
        operation = export.request(connection, given.tenant, wanted, file, by="ann", now=now)
    definition = ExportSteps("uploads")
    with given.into.open("wb") as into:
        s3 = _S3(into)
        aws.client = lambda _: s3  # type: ignore[assignment]
        began = perf_counter()
        while (step := engine.step(database, definition, operation.id, given.tenant, now)) and step.is_busy:
            pass
        seconds = perf_counter() - began
    with database.tenant(given.tenant) as connection:
        written = store.show(connection, operation.id)
    database.close()
    assert written.state == "done"
    told = {"letters": written.done, "bytes": sum(s3.parts), "parts": len(s3.parts), "seconds": seconds}
    print(json.dumps({**told, "peak": peak_megabytes()}))  # noqa: T201


if __name__ == "__main__":
    main()
