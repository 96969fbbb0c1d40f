"""Measure search and matching in archives of several sizes.

Run `python -m tests.benchmarks.scale`. Goals for a million documents on two cores: a search p95 within 30 times
`SELECT 1`, a recall of 0.998, 300 documents per second, and a p95 of 15 ms for a single document. Matching a document
must take less than 1.5 times as long as in an archive of 100,000 documents.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import psycopg
import typer
from psycopg.sql import SQL, Identifier

from cli.local.postgres import PostgresServer, Server
from tests.benchmarks.scale import archive, database, huge_pages, measure
from tests.benchmarks.scale.measure import Search, Speed

SIZES = (100_000, 1_000_000)
INDEXES = ("document_key_pkey", "document_key_by_key")
_SIZE = "SELECT (pg_relation_size(%s::regclass) / 1e6)::float8"
_LEVELS = "SELECT level FROM pg_class, LATERAL (SELECT (bt_metap(relname::text)).level) AS b WHERE relname = %s"


@dataclass(frozen=True)
class Measurements:
    """Results for one archive."""

    documents: int
    search: Search
    speeds: tuple[Speed, ...]
    """Matching speed with one process, then with two."""
    megabytes: dict[str, float]
    """Size of each table and index, by name."""
    built: dict[str, float]
    """Seconds to rebuild each index."""
    levels: dict[str, int]
    """Number of levels above the leaf pages, by index."""


def scale(
    documents: Annotated[
        list[int] | None,
        typer.Option(help="Archive size in documents. Repeat for several sizes. Default: 100,000 and 1,000,000."),
    ] = None,
    tenants: Annotated[int, typer.Option(help="Number of tenants.")] = 40,
    new: Annotated[int, typer.Option(help="Number of documents to match: the largest tenant's newest.")] = 6_000,
    folder: Annotated[Path | None, typer.Option(help="Folder for the database, on a disk that supports fsync.")] = None,
) -> None:
    """Measure matching in large generated archives."""
    found = []
    for size in documents or SIZES:
        with TemporaryDirectory(dir=folder) as directory:
            Path(directory).chmod(0o711)
            embedded = PostgresServer(Path(directory) / "postgres")
            try:
                with _running_server(embedded) as server:
                    found.append(_measure(server, size, tenants, new))
            finally:
                embedded.remove()
        _report(found[-1])
    for small, large in pairwise(found):
        _compare(small, large)


@contextmanager
def _running_server(embedded: PostgresServer) -> Iterator[Server]:
    """Start a server with fsync and with the deployed RDS instance's shared buffers.

    The instance is defined in `data.py`. RDS gives a quarter of its memory to shared buffers, in huge pages. Print
    whether this server has huge pages.
    """
    with psycopg.connect(embedded.start(durable=True).url("postgres"), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET shared_buffers = '2GB'")
    pages = int(_setting(_restart(embedded), "shared_memory_size_in_huge_pages"))
    with huge_pages.reserve(pages):
        server = _restart(embedded)
        kind = "huge" if _setting(server, "huge_pages_status") == "on" else "small (run as root to reserve huge pages)"
        print(f"PostgreSQL: shared_buffers {_setting(server, 'shared_buffers')}, in {kind} pages")  # noqa: T201
        yield server
        embedded.stop()


def _restart(embedded: PostgresServer) -> Server:
    embedded.stop()
    return embedded.start(durable=True)


def _setting(server: Server, name: str) -> str:
    with psycopg.connect(server.url("postgres")) as connection:
        value: str = connection.execute("SELECT current_setting(%s)", [name]).fetchall()[0][0]
        return value


def _measure(server: Server, documents: int, tenants: int, new: int) -> Measurements:
    made = [archive.Tenant(number, size) for number, size in enumerate(archive.sizes(documents, tenants))]
    largest = list(archive.Tenant(0, made[0].size).documents())
    newest = sorted(largest, key=lambda doc: (doc.received_at, doc.id))[-min(new, len(largest) // 10) :]
    arriving = [doc.id for doc in newest]
    waiting = frozenset(arriving)
    settled = [doc for doc in largest if doc.order is not None and not waiting & {doc.id, doc.order}]
    url = database.prepare(server, "scale", tenants)
    seconds = database.load(url, made, waiting)
    print(f"{documents} documents loaded in {seconds:.0f} s")  # noqa: T201
    worker = server.url("scale", "counterfoil_worker")
    sample = Random(1).sample(settled, min(1_000, len(settled)))  # reproducible
    measure.search(worker, sample)  # warms up the cache
    search = measure.search(worker, sample)
    half = len(arriving) // 2  # sorted by arrival, because most children arrive after their parents
    speeds = measure.throughput(worker, arriving[:half], 1), measure.throughput(worker, arriving[half:], 2)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pageinspect")
        megabytes = {
            name: connection.execute(_SIZE, [name]).fetchall()[0][0] for name in ("document", "document_key", *INDEXES)
        }
        levels = {name: connection.execute(_LEVELS, [name]).fetchall()[0][0] for name in INDEXES}
        built = {name: _index_seconds(connection, name) for name in INDEXES}
    return Measurements(documents, search, speeds, megabytes, built, levels)


def _index_seconds(connection: psycopg.Connection, index: str) -> float:
    began = perf_counter()
    connection.execute(SQL("REINDEX INDEX {}").format(Identifier(index)))
    return perf_counter() - began


def _report(found: Measurements) -> None:
    search = found.search
    print(f"SELECT 1: {search.select_1_p50:.3f} ms")  # noqa: T201
    print(f"search: p50 {search.p50:.2f} ms, p95 {search.p95:.2f} ms, {search.ratio:.0f} times SELECT 1")  # noqa: T201
    print(f"recall: {search.recall:.4f} among {search.candidates:.0f} candidates")  # noqa: T201
    for processes, speed in enumerate(found.speeds, 1):
        print(  # noqa: T201
            f"{processes} processes: {speed.per_second:.0f} documents/s; p95 for a single document: claim to settlement"
            f" {speed.p95_ms:.1f} ms, whole invocation {speed.invocation_p95_ms:.1f} ms"
        )
    for name, size in found.megabytes.items():
        print(f"{name}: {size:.0f} MB, {size * 1e6 / found.documents:.0f} bytes per document")  # noqa: T201
    for name in INDEXES:
        print(f"{name}: rebuilt in {found.built[name]:.1f} s, {found.levels[name]} levels above the leaves")  # noqa: T201


def _compare(small: Measurements, large: Measurements) -> None:
    """Print how costs grow from the small to the large archive.

    Costs are also projected to ten times the size of the large archive.
    """
    times = [a.per_second / b.per_second for a, b in zip(small.speeds, large.speeds, strict=True)]
    search = large.search.ratio / small.search.ratio
    print(  # noqa: T201
        f"from {small.documents} to {large.documents}: matching takes {times[0]:.2f} times as long with one worker and"
        f" {times[1]:.2f} with two, the p95 of a search {search:.2f} times (in units of SELECT 1)"
    )
    size, expected = large.megabytes["document_key_by_key"] * 10, large.search.ratio * max(1.0, search)
    print(  # noqa: T201
        f"projected for {large.documents * 10}: {size:.0f} MB of keys, a search p95 of {expected:.0f} times SELECT 1."
        " Each key of a search is one index lookup, and ten times as many keys add less than one index level. The"
        " number of documents per key is bounded."
    )


if __name__ == "__main__":
    typer.run(scale)
