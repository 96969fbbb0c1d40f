"""Functions register the kinds of work items that they send messages about."""

import subprocess
import sys

import pytest

from counterfoil.kinds import KINDS
from infra.worker_table import EVERY_QUEUE, WORKERS, Row

PROGRAM = """
import functions.{name}.handler
from counterfoil.delivery.work import KINDS
print(*KINDS)
"""


@pytest.mark.parametrize("row", [row for row in WORKERS if row.sends_to], ids=lambda row: row.name)
def test_functions_know_the_kinds_they_send(row: Row):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=row.name)], capture_output=True, text=True, check=True
    )
    queues = {one.name for one in WORKERS if one.name in KINDS} if row.sends_to == EVERY_QUEUE else set(row.sends_to)
    assert queues <= set(done.stdout.split())
