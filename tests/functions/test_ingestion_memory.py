"""Long documents are ingested within the memory limit.

No temporary files remain.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection
from counterfoil.documents.sandbox.process import MEMORY_BYTES, TOO_COMPLEX
from tests import decompression_bombs
from tests.documents.reading.samples import scanned_pdf, text_pdf
from tests.factories import make_document
from tools.sample_generator.bulk import orders_with_invoices
from tools.sample_generator.bundle import write_bundle

PAGES = 200
MOST_MEBIBYTES = 512
ROOT = Path(__file__).parents[2]


def one_document() -> bytes:
    """Return an invoice with 40 line items on each page."""
    head = ["Nordwind GmbH", "RECHNUNG", "Rechnungsnummer: R-2026-1", "Rechnungsdatum: 14.03.2026"]
    table = ["Pos.     Artikel     Bezeichnung     Menge     Preis     Betrag"]
    rows = [f"{row:4}     A-{row:05}     Schraube M8 x {row % 90}     10     1,50     15,00" for row in range(40)]
    pages = [[*(head if page == 1 else []), *table, *rows, f"Seite {page} von {PAGES}"] for page in range(1, PAGES + 1)]
    return text_pdf(*pages)


def many_documents() -> bytes:
    return write_bundle([invoice for _, invoice in orders_with_invoices(1, PAGES)])


@pytest.mark.parametrize(
    ("make", "outcome", "stored"),
    [(one_document, "Succeeded", 0), (many_documents, "Succeeded", PAGES), (lambda: scanned_pdf(PAGES), "Skipped", 0)],
    ids=["one", "many", "scan"],
)
def test_file_of_200_pages_stays_within_memory_limit(
    make: Callable[[], bytes],
    outcome: str,
    stored: int,
    admin: Connection,
    make_tenant: Callable[..., UUID],
    database_url: str,
    tmp_path: Path,
):
    report = ingest_in_subprocess(make(), admin, make_tenant("acme"), database_url, tmp_path)

    assert report["peak"] < MOST_MEBIBYTES
    assert (report["outcome"], report["written"]) == (outcome, stored)


@pytest.mark.parametrize(
    "make",
    [
        decompression_bombs.pdf_in_two_stages,
        decompression_bombs.pdf_in_one_stage,
        decompression_bombs.pdf_with_attachments,
        decompression_bombs.pdf_with_xml,
    ],
    ids=lambda make: make.__name__,
)
def test_decompression_bomb_is_rejected_within_memory_limit(
    make: Callable[[], bytes], admin: Connection, make_tenant: Callable[..., UUID], database_url: str, tmp_path: Path
):
    report = ingest_in_subprocess(make(), admin, make_tenant("acme"), database_url, tmp_path)

    assert report["peak"] < 300
    assert report["child"] < MEMORY_BYTES / 1024**2
    assert report["outcome"] == "InvalidDocumentError"
    assert report["reason"] == TOO_COMPLEX


def test_file_of_many_words_stays_within_memory_limit(
    admin: Connection, make_tenant: Callable[..., UUID], database_url: str, tmp_path: Path
):
    report = ingest_in_subprocess(
        decompression_bombs.pdf_of_words(3), admin, make_tenant("acme"), database_url, tmp_path
    )

    assert report["outcome"] == "Skipped"
    assert report["peak"] < 300
    assert report["child"] < MEMORY_BYTES / 1024**2
    assert report["cpu"] < report["child_cpu"] / 2


def test_file_of_too_many_words_is_rejected(
    admin: Connection, make_tenant: Callable[..., UUID], database_url: str, tmp_path: Path
):
    report = ingest_in_subprocess(
        decompression_bombs.pdf_of_words(4), admin, make_tenant("acme"), database_url, tmp_path
    )

    assert report["outcome"] == "InvalidDocumentError"
    assert report["reason"] == "The PDF contains more than 300000 words; send it in smaller parts."
    assert report["peak"] < 150


def ingest_in_subprocess(
    content: bytes, admin: Connection, tenant_id: UUID, database_url: str, tmp_path: Path
) -> dict[str, Any]:
    """Ingest one file in a child process, and return the measurements.

    No temporary file may remain.
    """
    file, temporary = tmp_path / "long.pdf", tmp_path / "temporary"
    temporary.mkdir()
    file.write_bytes(content)
    document_id = make_document(admin, tenant_id, content_hash=hashlib.sha256(content).digest())
    command = [sys.executable, "-m", "tests.functions.ingest_once", database_url, tenant_id, document_id, file]

    completed = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert completed.returncode == 0, completed.stderr
    assert list(temporary.iterdir()) == []
    report: dict[str, Any] = json.loads(completed.stdout)
    return report
