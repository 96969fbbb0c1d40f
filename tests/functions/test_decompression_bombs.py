"""Files designed to exhaust memory fail without affecting other files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from counterfoil.documents.sandbox.process import MEMORY_BYTES, TOO_COMPLEX
from tests import decompression_bombs
from tests.delivery.harness import rows
from tests.documents.reading.samples import extraction_response
from tests.functions.ingestion_harness import DONE, Ingestion, ingestion
from tests.functions.test_ingestion import PAPER

pytestmark = pytest.mark.slow

__all__ = ["ingestion"]

ROOT = Path(__file__).parents[2]


def test_decompression_bomb_fails_without_affecting_other_files(ingestion: Ingestion) -> None:
    before = ingestion.file(PAPER, "before.pdf")
    bomb = ingestion.file(decompression_bombs.pdf_in_two_stages(), "bomb.pdf")
    after = ingestion.file(PAPER + b"\n", "after.pdf")
    ingestion.model.add_steps(extraction_response(), extraction_response())

    assert ingestion.ingest(permits=2) == DONE

    assert [ingestion.job(id_)["status"] for id_ in (before, bomb, after)] == ["succeeded", "failed", "succeeded"]
    assert ingestion.job(bomb)["attempts"] == 1
    assert ingestion.job(bomb)["error"] == TOO_COMPLEX
    (dead_letter,) = rows(ingestion.admin, "dead_letter")
    assert (dead_letter["work_id"], dead_letter["dlq_reason"]) == (str(bomb), "non_retriable_error")
    assert dead_letter["metadata"]["last_error"]["message"] == TOO_COMPLEX


def test_archive_bomb_is_unpacked_in_little_memory(tmp_path: Path) -> None:
    (tmp_path / "bomb.zip").write_bytes(decompression_bombs.zip_of_blanks())
    command = [sys.executable, "-m", "tests.functions.unpack_once", str(tmp_path / "bomb.zip")]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    parent, child, files = json.loads(completed.stdout)
    assert parent < 300
    assert child < MEMORY_BYTES / 1024**2
    assert all(isinstance(size, int) for size in files[:3])
    assert "The archives contain more than 200 MiB" in files[-1]
