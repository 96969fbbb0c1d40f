"""However many letters there are, and however large some are, an export has few of them in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from counterfoil.db import Connection

MOST_MEBIBYTES = 200
"""Of the 256 that an export may take. The libraries alone take some 90, and the file that is written is as large."""
ROOT = Path(__file__).parents[2]
_LETTERS = """
INSERT INTO dead_letter (job_id, tenant_id, worker, task_type, payload, metadata, attempts, fingerprint, dlq_reason,
                         dlq_timestamp)
SELECT gen_random_uuid(), %s, 'tasks', 'echo',
       jsonb_build_object('text', repeat('x', CASE number %% 2000 WHEN 0 THEN 4000000 ELSE 15000 END)),
       '{}', 3, '0123456789abcdef', 'max_retries_exceeded', now() - number * interval '1 second'
FROM generate_series(1, %s) AS number
"""


def test_an_export_of_many_letters_takes_little_memory(
    admin: Connection,
    tenant_id: UUID,
    database_url: str,
) -> None:
    letters = 10_000
    admin.execute(_LETTERS, [tenant_id, letters])
    command = [
        sys.executable,
        "-m",
        "tests.dead_letters.export_once",
        database_url,
        tenant_id,
        "csv",
    ]

    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["bytes"] > letters * 15_000 + letters // 2000 * 4_000_000
    assert found["parts"] > 20
    assert found["peak"] < MOST_MEBIBYTES
    assert admin.execute("SELECT state, done FROM operation").fetchall() == [("done", letters)]
