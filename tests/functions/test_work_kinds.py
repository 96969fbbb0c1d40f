"""Functions register the kinds of work items that they send messages for."""

import subprocess
import sys

import pytest

from counterfoil.kinds import WORK_KINDS
from infra.worker_table import ALL_QUEUES, WORKERS, WorkerSpec

PROGRAM = """
import functions.{name}.handler
from counterfoil.delivery.work import WORK_KINDS
print(*WORK_KINDS)
"""


@pytest.mark.parametrize("row", [row for row in WORKERS if row.sends_to], ids=lambda row: row.name)
def test_functions_register_work_kinds_they_send(row: WorkerSpec):
    completed = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=row.name)], capture_output=True, text=True, check=True
    )
    queues = (
        {worker.name for worker in WORKERS if worker.name in WORK_KINDS}
        if row.sends_to == ALL_QUEUES
        else set(row.sends_to)
    )
    assert queues <= set(completed.stdout.split())
