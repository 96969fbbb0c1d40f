"""Ingest one file in this process and print the outcome and resource usage.

Run `python -m tests.functions.ingest_once URL TENANT DOCUMENT FILE`. The output is JSON with the outcome of the
ingestion and the number of stored files. It also has the peak memory in MiB of this process and of its largest child,
and the CPU seconds of this process and of its children.
"""

import argparse
import io
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from counterfoil import aws
from counterfoil.db import Database
from counterfoil.delivery.attempt import Skipped, TenantAttempt
from counterfoil.documents.reading.ocr import OcrPage
from counterfoil.documents.sandbox import process
from counterfoil.documents.text.page import Page, Word
from counterfoil.errors import PermanentError
from functions.ingestion.work import ingest
from tests.peak_memory import peak_megabytes, peak_megabytes_of_children


class _Body(io.BufferedReader):
    """A file with the interface of a response body from S3."""

    def iter_chunks(self, size: int) -> Any:
        return iter(lambda: self.read(size), b"")


class _Folder:
    """Fake S3 that contains one file and counts stored files."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.written = 0

    def get_object(self, **_: Any) -> dict[str, Any]:
        return {"ContentLength": self._file.stat().st_size, "Body": _Body(self._file.open("rb", buffering=0))}

    def put_object(self, **_: Any) -> dict[str, Any]:
        self.written += 1
        return {}


class _FullPageOcr:
    """Fake OCR that returns a full page of words for every page."""

    name = "scripted"

    def recognize(self, image: bytes, width: float, height: float, *, time_left: Callable[[], float]) -> OcrPage | None:
        words = [
            Word(f"word{column}", 40 + 50 * column, 40 + 12 * row, 80 + 50 * column, 50 + 12 * row)
            for row in range(60)
            for column in range(10)
        ]
        return OcrPage(Page(width, height, tuple(words)), 0.99)


def main() -> None:
    """Ingest one document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("tenant", type=UUID)
    parser.add_argument("document", type=UUID)
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    folder = _Folder(arguments.file)
    aws.client = lambda _: folder  # type: ignore[assignment]
    database = Database(arguments.url)
    attempt = TenantAttempt(arguments.document, arguments.tenant, 1, 1, 1, database, lambda: datetime.now(UTC))
    try:
        outcome = ingest(attempt, ocr=lambda _: _FullPageOcr())
    except PermanentError as error:
        error_type, message = type(error).__name__, str(error)
    else:
        with database.tenant(arguments.tenant) as connection:
            effects = outcome.effects(connection)
        reason = outcome.reason if isinstance(outcome, Skipped) else effects.note
        error_type, message = type(outcome).__name__, reason or ""
    database.close()
    process.close_idle()
    process_times = os.times()
    seconds = {
        "cpu": process_times.user + process_times.system,
        "child_cpu": process_times.children_user + process_times.children_system,
    }
    peaks = {"peak": peak_megabytes(), "child": peak_megabytes_of_children()}
    print(json.dumps(peaks | seconds | {"outcome": error_type, "reason": message, "written": folder.written}))  # noqa: T201


if __name__ == "__main__":
    main()
