"""Measure exports of a million dead letters: time, memory and completeness.

Each format is measured. A separate process writes each file as the watchdog does, for a caller without the admin role.
Such exports are the slowest, because every text is searched for secrets. A local file replaces S3.
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
from counterfoil.dead_letters.export import FILE_EXTENSIONS, Format

MAX_DEAD_LETTERS = 1_000_000
MAX_MEGABYTES = 256.0
"""Maximum peak memory of an export, in units of 10^6 bytes."""
ROOT = Path(__file__).parents[2]
_NEWEST = """
SELECT job_id, dlq_timestamp FROM dead_letter WHERE tenant_id = %s ORDER BY dlq_timestamp DESC, job_id DESC LIMIT %s
"""


def report(server: Server, database: str, tenant: UUID, folder: Path, limit: int = MAX_DEAD_LETTERS) -> list[str]:
    """Export a tenant's newest dead letters, print a table, and return all faults."""
    with psycopg.connect(server.url(database)) as connection:
        newest = connection.execute(_NEWEST, [tenant, limit]).fetchall()
    since = newest[-1][1]
    ids = {id_ for id_, _ in newest}
    print(f"{'export':8}{'rows':>10}{'bytes':>15}{'seconds':>9}{'rows/s':>8}{'peak MiB':>10}")  # noqa: T201
    problems = []
    for format_ in get_args(Format):
        file = folder / f"dead_letters.{FILE_EXTENSIONS[format_]}"
        url = server.url(database, "counterfoil_worker")
        done = _export([url, str(tenant), format_, "--redacts", "--since", since.isoformat(), "--into", str(file)])
        speed = done["dead_letters"] / done["seconds"]
        print(  # noqa: T201
            f"{format_:8}{done['dead_letters']:10}{done['bytes']:15}{done['seconds']:9.1f}{speed:8.0f}{done['peak']:10.0f}"
        )
        if done["peak"] * 1024**2 > MAX_MEGABYTES * 1e6:
            problems.append(f"{format_}: more than {MAX_MEGABYTES:.0f} MB (10^6 bytes) of memory")
        problems += [f"{format_}: {fault}" for fault in find_faults(exported_ids(file, format_), ids)]
        file.unlink()
    return problems


def _export(arguments: Iterable[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.dead_letters.export_once", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def exported_ids(file: Path, format_: Format) -> Iterator[UUID]:
    """Yield the ids of the dead letters in a file, in file order."""
    with file.open(newline="", encoding="utf-8") as opened:
        if format_ == "json":
            yield from (UUID(json.loads(line)["job_id"]) for line in opened)
        else:
            yield from (UUID(row["job_id"]) for row in csv.DictReader(opened, strict=True))


def find_faults(exported: Iterable[UUID], expected: Collection[UUID]) -> list[str]:
    """Return a message for each kind of fault.

    Each expected id must be exported exactly once.
    """
    seen: set[UUID] = set()
    lines = 0
    for id_ in exported:
        seen.add(id_)
        lines += 1
    numbers = {
        "missing": len(set(expected) - seen),
        "unexpected": len(seen - set(expected)),
        "duplicate": lines - len(seen),
    }
    return [f"{number} dead letters are {fault}" for fault, number in numbers.items() if number]
