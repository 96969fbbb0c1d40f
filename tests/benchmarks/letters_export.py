"""A million dead letters as a file, in each format: what it takes to write it, and whether all of them are in it once.

Each file is written by a process of its own, as the watchdog writes it for who is no admin, which takes longest:
secrets are looked for in every text. Only S3 is not there: its parts come into a file.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import psycopg

from cli.local.postgres import Server
from counterfoil.dead_letters.export import ENDINGS, Format

MANY = 1_000_000
MOST_MEGABYTES = 256.0
"""Of memory, each of 10^6 bytes."""
ROOT = Path(__file__).parents[2]
_NEWEST = """
SELECT job_id, dlq_timestamp FROM dead_letter WHERE tenant_id = %s ORDER BY dlq_timestamp DESC, job_id DESC LIMIT %s
"""


def report(server: Server, database: str, tenant: UUID, folder: Path, many: int = MANY) -> list[str]:
    """Export a tenant's newest letters, or all where they are fewer, print a table, and return what is wrong."""
    with psycopg.connect(server.url(database)) as connection:
        newest = connection.execute(_NEWEST, [tenant, many]).fetchall()
    since = newest[-1][1]
    ids = {id_ for id_, _ in newest}
    print(f"{'export':8}{'letters':>10}{'bytes':>15}{'seconds':>9}{'rows/s':>8}{'peak MiB':>10}")  # noqa: T201
    wrong = []
    for format_ in get_args(Format):
        file = folder / f"letters.{ENDINGS[format_]}"
        url = server.url(database, "counterfoil_worker")
        done = _written([url, str(tenant), format_, "--hides", "--since", since.isoformat(), "--into", str(file)])
        speed = done["letters"] / done["seconds"]
        print(  # noqa: T201
            f"{format_:8}{done['letters']:10}{done['bytes']:15}{done['seconds']:9.1f}{speed:8.0f}{done['peak']:10.0f}"
        )
        if done["peak"] * 1024**2 > MOST_MEGABYTES * 1e6:
            wrong.append(f"{format_}: more than {MOST_MEGABYTES:.0f} MB (10^6 bytes) of memory")
        wrong += [f"{format_}: {fault}" for fault in faults(told(file, format_), ids)]
        file.unlink()
    return wrong


def _written(arguments: Iterable[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.dead_letters.export_once", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def told(file: Path, format_: Format) -> Iterator[UUID]:
    """The ids of the letters of a file, in its order."""
    with file.open(newline="", encoding="utf-8") as opened:
        if format_ == "json":
            yield from (UUID(json.loads(line)["job_id"]) for line in opened)
        else:
            yield from (UUID(row["job_id"]) for row in csv.DictReader(opened, strict=True))


def faults(found: Iterable[UUID], wanted: Collection[UUID]) -> list[str]:
    """What is wrong with letters that were found, in sentences; each of those wanted should be there once."""
    seen: set[UUID] = set()
    lines = 0
    for id_ in found:
        seen.add(id_)
        lines += 1
    numbers = {
        "missing": len(set(wanted) - seen),
        "not meant": len(seen - set(wanted)),
        "in it again": lines - len(seen),
    }
    return [f"{number} letters are {what}" for what, number in numbers.items() if number]
