"""Files designed to exhaust memory fail without affecting other files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from counterfoil.documents.sandbox.process import MEMORY_BYTES, TOO_COMPLEX
from tests import bombs
from tests.delivery.harness import rows
from tests.documents.reading.samples import said
from tests.functions.ingestion_harness import DONE, Ingestion, desk
from tests.functions.test_ingestion import PAPER

pytestmark = pytest.mark.slow

__all__ = ["desk"]

ROOT = Path(__file__).parents[2]


def test_bomb_fails_permanently_and_its_neighbors_succeed(desk: Ingestion) -> None:
    before = desk.file(PAPER, "before.pdf")
    bomb = desk.file(bombs.pdf_in_two_stages(), "bomb.pdf")
    after = desk.file(PAPER + b"\n", "after.pdf")
    desk.model.then(said(), said())

    assert desk.ingest(permits=2) == DONE

    assert [desk.job(id_)["status"] for id_ in (before, bomb, after)] == ["succeeded", "failed", "succeeded"]
    assert desk.job(bomb)["attempts"] == 1
    assert desk.job(bomb)["error"] == TOO_COMPLEX
    (letter,) = rows(desk.admin, "dead_letter")
    assert (letter["work_id"], letter["dlq_reason"]) == (str(bomb), "non_retriable_error")
    assert letter["metadata"]["last_error"]["message"] == TOO_COMPLEX


def test_archive_bomb_is_unpacked_in_little_memory(tmp_path: Path) -> None:
    (tmp_path / "bomb.zip").write_bytes(bombs.zip_of_blanks())
    command = [sys.executable, "-m", "tests.functions.unpack_once", str(tmp_path / "bomb.zip")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    parent, child, found = json.loads(done.stdout)
    assert parent < 300
    assert child < MEMORY_BYTES / 1024**2
    assert all(isinstance(size, int) for size in found[:3])
    assert "The archives contain more than 200 MiB" in found[-1]
