"""Measure queries over millions of generated dead letters.

Run `python -m tests.benchmarks.dead_letters`. The queries list, search and group dead letters. Exports of a million
dead letters are also measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated
from uuid import UUID

import psycopg
import typer

from cli.local.postgres import PostgresServer
from counterfoil.db import Connection, Database, PageCursor
from counterfoil.dead_letters import groups, search
from counterfoil.dead_letters.search import STATUSES, DeadLetterFilter, Status
from tests.benchmarks import dead_letter_export
from tests.benchmarks.scale import database
from tests.benchmarks.scale.database import tenant_id

TENANTS = 5
LARGEST_SHARE = 0.6
"""Share of all dead letters that belong to the largest tenant."""
DAYS = 90
BATCH_SIZE = 500_000
LOAD_CONNECTIONS = 2
GOAL_MS = 200.0

# Failures of three workers with several hundred error messages. As in production, a few error messages account for
# most dead letters, and most old dead letters are closed.
_INSERT_DEAD_LETTERS = """
INSERT INTO dead_letter (job_id, tenant_id, worker, work_id, revision, task_type, payload, metadata, attempts,
                         fingerprint, dlq_reason, dlq_timestamp, status)
SELECT gen_random_uuid(), (%(tenants)s::uuid[])[CASE WHEN random() < %(largest)s THEN 1
                                                     ELSE 2 + floor(random() * (%(count)s - 1))::int END],
       m.worker, gen_random_uuid(), 1, m.worker,
       jsonb_build_object('message', jsonb_build_object('revision', 1),
                          'file', jsonb_build_object('bucket', 'uploads', 'key', 'uploads/' || i,
                                                     'file_name', 'invoice-' || i || '.pdf')),
       jsonb_build_object('created_at', m.died, 'retry_count', 2, 'max_retry', 2, 'last_error', jsonb_build_object(
           'type', 'TimeoutError', 'message', m.said || ' ''' || 'page-' || i %% 997 || '''', 'timestamp', m.died,
           'context', jsonb_build_object('worker', m.worker, 'attempt', 3))),
       3, left(md5(m.worker || m.said), 16), 'max_retries_exceeded', m.died,
       CASE WHEN m.settled THEN (ARRAY['retried', 'resolved', 'ignored'])[1 + floor(random() * 3)::int]
            ELSE 'pending' END
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS i
CROSS JOIN LATERAL (
    SELECT (ARRAY['ingestion', 'matching', 'tasks'])[1 + i %% 3] AS worker,
           'Step ' || chr(97 + (power(random(), 4) * 26)::int) || chr(97 + (power(random(), 2) * 25)::int)
               || ' timed out at' AS said,
           %(now)s::timestamptz - %(days)s * interval '1 day' * (1 - i::float8 / %(all)s) AS died,
           random() < 0.95 - 0.5 * (i > 0.95 * %(all)s)::int AS settled
) AS m
"""
RELATED_ROWS = """
INSERT INTO dead_letter_group (tenant_id, fingerprint, worker, error_type, message, words, first_seen)
SELECT DISTINCT ON (tenant_id, fingerprint) tenant_id, fingerprint, worker, 'TimeoutError', said,
       regexp_split_to_array(lower(worker || ' timeouterror ' || said), ' '), dlq_timestamp
FROM dead_letter CROSS JOIN LATERAL (
    SELECT regexp_replace(metadata #>> '{last_error,message}', ' ''.*', '') AS said) AS s
ORDER BY tenant_id, fingerprint, dlq_timestamp;
INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, status, delta, last_at, is_rollup)
SELECT tenant_id, fingerprint, task_type, status, count(*), max(dlq_timestamp), true
FROM dead_letter GROUP BY 1, 2, 3, 4;
INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, hour, delta, last_at, is_rollup)
SELECT tenant_id, fingerprint, task_type, date_trunc('hour', dlq_timestamp, 'UTC'), count(*), max(dlq_timestamp), true
FROM dead_letter WHERE dlq_timestamp > now() - interval '7 days' GROUP BY 1, 2, 3, 4;
INSERT INTO dead_letter_word (job_id, tenant_id, word, dlq_timestamp)
SELECT job_id, tenant_id, word, dlq_timestamp FROM dead_letter CROSS JOIN LATERAL unnest(ARRAY['invoice', 'pdf', 'page',
    substring(payload #>> '{file,file_name}' FROM '\\d+'),
    'p' || substring(metadata #>> '{last_error,message}' FROM 'page-(\\d+)')]) AS word;
"""

_IN_BULK = "SET session_replication_role = replica"
"""Disables triggers, because counts are computed in bulk below, and the generated foreign keys are valid."""
# The primary key stays because dead_letter_word references it.
_INDEXES = """
SELECT i.indrelid::regclass::text, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid),
       pg_get_constraintdef(c.oid)
FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype IN ('p', 'u')
WHERE i.indrelid IN ('dead_letter'::regclass, 'dead_letter_word'::regclass)
  AND i.indexrelid <> 'dead_letter_pkey'::regclass
"""

Call = Callable[[Connection], object]


def run(
    total: Annotated[int, typer.Option("--dead-letters", help="Number of dead letters.")] = 10_000_000,
    rounds: Annotated[int, typer.Option(help="Number of measurements per query.")] = 200,
    folder: Annotated[Path | None, typer.Option(help="Folder in which to create the database.")] = None,
) -> None:
    """Measure console queries for the largest tenant, and large exports.

    Each export contains a million dead letters. Fail if a p95 exceeds 200 ms, if an export uses more than 256 MB, or if
    it does not contain each dead letter exactly once.
    """
    with TemporaryDirectory(dir=folder) as directory:
        Path(directory).chmod(0o711)
        embedded = PostgresServer(Path(directory) / "postgres")
        try:
            server = embedded.start(durable=False)
            url = database.prepare(server, "dead_letters", TENANTS)
            seconds = load(url, total, datetime.now(UTC))
            with psycopg.connect(url) as connection:
                [(size,)] = connection.execute(
                    "SELECT sum(pg_total_relation_size(c.oid)) / 1e9 FROM pg_class c WHERE relname ~ '^dead_letter' "
                    "AND relkind = 'r'"
                ).fetchall()
            print(f"{total} dead letters generated in {seconds:.0f} s; {size:.1f} GB with indexes")  # noqa: T201
            slow = report(server.url("dead_letters", "counterfoil_worker"), total, rounds)
            faults = dead_letter_export.report(server, "dead_letters", tenant_id(0), Path(directory))
        finally:
            embedded.remove()
    for fault in faults:
        print(f"WRONG: {fault}")  # noqa: T201
    if slow or faults:
        raise typer.Exit(1)


def load(url: str, total: int, now: datetime) -> float:
    """Generate dead letters and their related rows. Return the duration in seconds."""
    began = perf_counter()
    values = {
        "tenants": [tenant_id(number) for number in range(TENANTS)],
        "count": TENANTS,
        "largest": LARGEST_SHARE,
        "now": now,
        "days": DAYS,
        "all": total,
    }
    batches = [
        {**values, "first": first, "last": min(total, first + BATCH_SIZE - 1)}
        for first in range(1, total + 1, BATCH_SIZE)
    ]
    with psycopg.connect(url, autocommit=True) as connection, _without_indexes(connection):
        with ThreadPoolExecutor(LOAD_CONNECTIONS) as pool:
            for _ in pool.map(partial(_load_batch, url), batches):
                pass
        connection.execute(_IN_BULK)
        connection.execute(RELATED_ROWS.encode())
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("dead_letter", "dead_letter_group", "dead_letter_word", "dead_letter_count"):
            connection.execute(f"VACUUM ANALYZE {table}")
    return perf_counter() - began


def _load_batch(url: str, values: Mapping[str, object]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_IN_BULK)
        connection.execute(_INSERT_DEAD_LETTERS, values)


@contextmanager
def _without_indexes(connection: psycopg.Connection) -> Iterator[None]:
    """Drop the indexes, and recreate them when the context exits.

    Inserting millions of random keys into existing indexes takes hours.
    """
    indexes = connection.execute(_INDEXES).fetchall()
    for table, name, _, constraint in indexes:
        connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}" if constraint else f"DROP INDEX {name}")
    yield
    connection.execute("SET maintenance_work_mem = '1GB'")
    for table, name, index, constraint in indexes:
        connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {constraint}" if constraint else index)


def report(url: str, total: int, rounds: int) -> list[str]:
    """Measure each query and print a table.

    Return the names of queries whose p95 exceeds `GOAL_MS`.
    """
    tenant, random, slow = tenant_id(0), Random(1), []
    with closing(Database(url, max_connections=1)) as db:
        with db.tenant(tenant) as connection:
            alone = median(_milliseconds(lambda: connection.execute("SELECT 1").fetchone()) for _ in range(1000))
            newest = groups.page(connection, tenant, STATUSES, datetime.now(UTC), limit=100)
        print(f"{'':34}{'p50 ms':>9}{'p95 ms':>9}{'x SELECT 1':>12}")  # noqa: T201
        for name, call in calls(tenant, total, random, [group.fingerprint for group in newest]).items():
            took = []
            for _ in range(rounds):
                with db.tenant(tenant) as connection:
                    took.append(_milliseconds(lambda call=call, connection=connection: call(connection)))  # type: ignore[misc]
            p95 = quantiles(took, n=20)[-1]
            print(f"{name:34}{median(took):9.1f}{p95:9.1f}{p95 / alone:12.0f}")  # noqa: T201
            if p95 > GOAL_MS:
                slow.append(name)
    return slow


def calls(tenant: UUID, total: int, random: Random, fingerprints: Sequence[str]) -> dict[str, Call]:
    """Return the console's queries by name. Each call uses new random values."""
    now = datetime.now(UTC)

    def some_time() -> datetime:
        return now - timedelta(days=random.uniform(1, DAYS))

    def page(make_filter: Callable[[], DeadLetterFilter], *, deep: bool = False) -> Call:
        return lambda connection: search.page(
            connection, tenant, make_filter(), limit=20, after=PageCursor(some_time(), UUID(int=0)) if deep else None
        )

    def text_search(text: Callable[[], str], *, status: tuple[Status, ...] = STATUSES, deep: bool = False) -> Call:
        return page(lambda: DeadLetterFilter(search=text(), status=status), deep=deep)

    def number() -> str:
        return str(random.randrange(total))

    return {
        "list": page(DeadLetterFilter),
        "list, deep": page(DeadLetterFilter, deep=True),
        "list, pending": page(lambda: DeadLetterFilter(status=("pending",)), deep=True),
        "list, by type": page(lambda: DeadLetterFilter(task_type="tasks"), deep=True),
        "list, by group": page(lambda: DeadLetterFilter(fingerprint=random.choice(fingerprints)), deep=True),
        "list, by time": page(lambda: DeadLetterFilter(from_date=some_time(), to_date=now)),
        "list, page 500": lambda connection: search.page(
            connection, tenant, DeadLetterFilter(), limit=20, offset=9_980
        ),
        "search, file name": text_search(lambda: f"invoice-{number()}.pdf"),
        "search, words in all rows": text_search(lambda: "invoice pdf", deep=True),
        "search, frequent word": text_search(lambda: f"p{random.randrange(997)}", deep=True),
        "search, two frequent words": text_search(lambda: f"p{random.randrange(997)} matching", deep=True),
        "search, error": text_search(lambda: "timed out", deep=True),
        "search, error and page": text_search(lambda: f"timed out p{random.randrange(997)}", deep=True),
        "search, error, pending": text_search(lambda: "timed out", status=("pending",), deep=True),
        "search, empty result": text_search(lambda: "nowhere"),
        "groups": lambda connection: groups.page(connection, tenant, STATUSES, now, limit=50),
        "groups, pending": lambda connection: groups.page(connection, tenant, ["pending"], now, limit=50),
        "stats": lambda connection: groups.stats(connection, tenant),
    }


def _milliseconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return (perf_counter() - began) * 1e3


if __name__ == "__main__":
    typer.run(run)
