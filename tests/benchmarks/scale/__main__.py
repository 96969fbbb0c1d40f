"""`python -m tests.benchmarks.scale`: fill an archive, search it, match what comes to it; print the figures."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated

import psycopg
import typer

from cli.postgres import PostgresServer
from tests.benchmarks.scale import archive, database, measure

_SIZES = """
SELECT relname, (pg_relation_size(oid) / 1e6)::float8 FROM pg_class
WHERE relname IN ('document', 'document_key', 'document_key_pkey', 'document_key_by_key') ORDER BY relname
"""


def scale(
    documents: Annotated[int, typer.Option(help="Documents in the archive.")] = 1_000_000,
    tenants: Annotated[int, typer.Option(help="Tenants that they belong to.")] = 40,
    new: Annotated[int, typer.Option(help="Documents of the largest tenant that are matched into it.")] = 2_000,
    folder: Annotated[Path | None, typer.Option(help="Where the database lies, on a disk with fsync.")] = None,
) -> None:
    """Measure matching in a large archive that is made up."""
    made = [archive.Tenant(number, size) for number, size in enumerate(archive.sizes(documents, tenants))]
    largest = list(archive.Tenant(0, made[0].size).papers())
    random = Random(1)  # a sample that can be repeated
    arriving = [paper.id for paper in random.sample(largest, min(new, len(largest) // 10))]
    waiting = frozenset(arriving)
    settled = [paper for paper in largest if paper.order is not None and not waiting & {paper.id, paper.order}]
    children = random.sample(settled, 1_000)
    with TemporaryDirectory(dir=folder) as place:
        Path(place).chmod(0o711)
        embedded = PostgresServer(Path(place) / "postgres")
        try:
            server = embedded.start(durable=True)
            url = database.prepare(server, "scale", tenants)
            print(f"load: {database.load(url, made, waiting):.0f} s for {documents} documents")  # noqa: T201
            worker = server.url("scale", "counterfoil_worker")
            found = measure.search(worker, children)
            print(f"SELECT 1: {found.select_1_p50:.3f} ms")  # noqa: T201
            print(f"search: p50 {found.p50:.2f} ms, p95 {found.p95:.2f} ms, {found.ratio:.0f} times SELECT 1")  # noqa: T201
            print(f"partners found: {found.recall:.4f} among {found.candidates:.0f} candidates")  # noqa: T201
            for processes in (1, 2):
                part = arriving[processes - 1 :: 2]
                speed = measure.whole(worker, part, processes)
                print(  # noqa: T201
                    f"{processes} at once: {speed.per_second:.0f} documents/s, one alone p95 {speed.p95_ms:.1f} ms"
                )
            with psycopg.connect(url) as connection:
                for name, size in connection.execute(_SIZES):
                    print(f"{name}: {size:.0f} MB, {size * 1e6 / documents:.0f} bytes a document")  # noqa: T201
        finally:
            embedded.remove()


if __name__ == "__main__":
    typer.run(scale)
