"""An export's memory use does not grow with the number or size of dead letters."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from counterfoil.db import Connection

MAX_MEBIBYTES = 200
"""Maximum peak memory. The Lambda function has 256 MiB, of which the libraries use 90 MiB. The file is much larger."""
ROOT = Path(__file__).parents[2]
_INSERT = """
INSERT INTO dead_letter (job_id, tenant_id, worker, task_type, payload, metadata, attempts, fingerprint, dlq_reason,
                         dlq_timestamp)
SELECT gen_random_uuid(), %s, 'tasks', 'echo',
       jsonb_build_object('text', repeat('x', CASE number %% 2000 WHEN 0 THEN 4000000 ELSE 15000 END)),
       '{}', 3, '0123456789abcdef', 'max_retries_exceeded', now() - number * interval '1 second'
FROM generate_series(1, %s) AS number
"""


def test_large_export_stays_below_memory_limit(
    admin: Connection,
    tenant_id: UUID,
    database_url: str,
) -> None:
    dead_letters = 10_000
    admin.execute(_INSERT, [tenant_id, dead_letters])
    command = [
        sys.executable,
        "-m",
        "tests.dead_letters.export_once",
        database_url,
        tenant_id,
        "csv",
    ]

    process = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert process.returncode == 0, process.stderr
    summary: dict[str, Any] = json.loads(process.stdout)
    assert summary["bytes"] > dead_letters * 15_000 + dead_letters // 2000 * 4_000_000
    assert summary["parts"] > 20
    assert summary["peak"] < MAX_MEBIBYTES
    assert admin.execute("SELECT state, succeeded FROM operation").fetchall() == [("done", dead_letters)]
