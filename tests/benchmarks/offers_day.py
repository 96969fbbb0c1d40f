"""Measure one day of offers, from profiles to stored rows.

Run `python -m tests.benchmarks.offers_day`. The scheduler pins the pool. Worker processes complete its shards through
the delivery engine, from claim to settlement. PostgreSQL runs with fsync and with the shared buffers of the deployed
RDS instance, a quarter of 8 GB. Only the queue is simulated. Goal: a million users with 1,000 candidates each in under
two minutes on two cores.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated
from uuid import UUID

import psycopg
import typer

from cli.local.postgres import PostgresServer, Server
from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message
from counterfoil.offers import store
from counterfoil.offers.pinning import WORKER
from counterfoil.offers.store import ShardInput, ShardResults, WriteResult
from functions.offers.work import PoolCache, compute_shard
from functions.offers_scheduler.scheduler import Scheduler
from infra.worker_table import WORKERS
from tests.benchmarks.scale import database
from tests.benchmarks.scale.database import tenant_id
from tests.delivery.harness import Clock, Context, FakeSqs, event, make_consumer, record
from tests.offers.profile_generator import RULES

SHARD_USERS = 10_000
ZONE = "Europe/Berlin"
TICK = datetime(2026, 11, 23, 8, 1, tzinfo=UTC)
_ROW = next(row for row in WORKERS if row.name == WORKER)

# Users live around sixty cities, most of them around the largest city.
_PROFILES = """
INSERT INTO profile (user_id, external_id, tenant_id, timezone, birth_date, gender, seeks_genders, min_age, max_age,
                     latitude, longitude, max_distance_km, traits, updated_at)
SELECT gen_random_uuid(), gen_random_uuid(), %(tenant)s, %(zone)s,
       %(day)s::date - (age * 365.25 + random() * 365)::int, gender,
       CASE WHEN random() < 0.9 THEN ARRAY[CASE gender WHEN 'woman' THEN 'man' ELSE 'woman' END]
            ELSE ARRAY['woman', 'man'] END,
       greatest(18, age - 8), age + 8,
       36 + 24 * ((city * 0.618) %% 1) + random_normal(0, 0.13),
       -9 + 34 * ((city * 0.755) %% 1) + random_normal(0, 0.2),
       (ARRAY[10, 25, 50, 100, 300])[1 + floor(random() * 5)::int],
       ARRAY(SELECT random_normal(0, 0.4 + 0 * number)::real FROM generate_series(1, 16)), now()
FROM (
    SELECT number, floor(exp(random() * ln(60)))::int AS city, 18 + floor(-15 * ln(1 - random() * 0.95))::int AS age,
           CASE WHEN random() < 0.5 THEN 'woman' ELSE 'man' END AS gender
    FROM generate_series(1, %(people)s) AS number
) AS made
"""
# The pool of an earlier date. On each date, every user is offered five other users, who differ from date to date.
_POOL_BEFORE = """
INSERT INTO offer_pool (id, tenant_id, date, timezone, offered_at, expires_at, algorithm_version, rules, user_count,
                        profiles_hash, pinned_at)
SELECT gen_random_uuid(), %(tenant)s, %(date)s, %(zone)s, %(date)s::date + interval '8 hours',
       %(date)s::date + interval '32 hours', 1, '{}', %(people)s, sha256(''), now()
"""
_OFFERS_BEFORE = """
WITH numbered AS MATERIALIZED (
    SELECT user_id, (row_number() OVER (ORDER BY user_id))::int - 1 AS number FROM profile
)
INSERT INTO offers (date, user_id, candidate_id, tenant_id, id, rank, score, offered_at, expires_at)
SELECT %(date)s, u.user_id, c.user_id, %(tenant)s, gen_random_uuid(), rank, 7000,
       %(date)s::date + interval '8 hours', %(date)s::date + interval '32 hours'
FROM numbered u CROSS JOIN generate_series(1, 5) AS rank
JOIN numbered c ON c.number = (u.number + 5 * %(days)s + rank) %% %(people)s
ORDER BY u.user_id, rank
"""
_SHARDS = "SELECT id FROM offer_shard ORDER BY name::int"
_DONE = """
SELECT (SELECT count(*) FROM matchmaking_jobs WHERE status = 'completed'),
       (SELECT count(*) FROM offers WHERE date = %(date)s),
       (SELECT count(*) FROM (
           SELECT FROM offers WHERE date = %(date)s GROUP BY user_id, candidate_id HAVING count(*) > 1
       ) AS twice)
"""


@dataclass(frozen=True)
class Day:
    """Time and memory that one day of offers takes."""

    people: int
    pinned: float
    """Seconds that the scheduler takes to pin the pool."""
    served: float
    """Seconds from the start of the workers until all shards are settled."""
    offers: int
    storing: float
    """Seconds from the first row of a shard to its commit, summed over all shards."""
    megabytes: float
    """Peak memory of a worker process."""

    @property
    def seconds(self) -> float:
        """Seconds to pin the pool and complete all shards."""
        return self.pinned + self.served


def run_day(server: Server, people: int, processes: int, days_before: int = 0) -> Day:
    """Generate users and `days_before` earlier days of offers, then measure one day.

    Raises:
        RuntimeError: a user's job was not completed, or a user was offered the same candidate twice.
    """
    url = database.prepare(server, "offers", 1)
    tenant = tenant_id(0)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            _PROFILES, {"tenant": tenant, "zone": ZONE, "day": TICK.date(), "people": people}, prepare=False
        )
        for days in range(1, days_before + 1):
            _offer_before(connection, people, days)
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    worker = server.url("offers", "counterfoil_worker")
    began = perf_counter()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(_tick, worker).result()
    pinned = perf_counter() - began
    with psycopg.connect(url) as connection:
        shards: list[UUID] = [id_ for (id_,) in connection.execute(_SHARDS)]
    began = perf_counter()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        shares = [shards[first::processes] for first in range(processes)]
        storing, held = zip(*pool.map(partial(_serve, worker), shares), strict=True)
    served = perf_counter() - began
    with psycopg.connect(url) as connection:
        ((completed, offers, twice),) = connection.execute(_DONE, {"date": TICK.date()}).fetchall()
    if completed != people or twice:
        raise RuntimeError(f"{completed} of {people} jobs were completed; {twice} candidates were offered twice")
    return Day(people, pinned, served, offers, sum(storing), max(held))


def _offer_before(connection: Connection, people: int, days: int) -> None:
    values = {"tenant": tenant_id(0), "zone": ZONE, "people": people, "days": days}
    values["date"] = TICK.date() - timedelta(days=days)
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")  # skips foreign key checks
        connection.execute(_POOL_BEFORE, values, prepare=False)
        connection.execute(_OFFERS_BEFORE, values, prepare=False)


def _suppress_output() -> None:
    """Discard the engine's logs and replace SQS with a fake.

    Call only in a child process.
    """
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    aws.client = lambda name: FakeSqs()  # type: ignore[assignment]


def _tick(url: str) -> None:
    _suppress_output()
    with closing(Database(url, max_connections=1)) as connected:
        outbox = Outbox(connected, {WORKER: "offers"}, clock=lambda: TICK)
        Scheduler(connected, outbox, lambda: TICK, RULES, SHARD_USERS).run_due(lambda: 900.0)


def _serve(url: str, shards: Sequence[UUID]) -> tuple[float, float]:
    """Complete shards.

    Return the seconds spent storing results, and the peak memory in megabytes.
    """
    _suppress_output()
    began, write = 0.0, store.write

    def write_from_now(connection: Connection, shard: ShardInput, results: ShardResults, now: datetime) -> WriteResult:
        nonlocal began
        began = perf_counter()
        return write(connection, shard, results, now)

    store.write = write_from_now
    storing = 0.0
    settings = {"name": WORKER, "timeout": _ROW.timeout, "permits": _ROW.permits, "start_margin": _ROW.start_margin}
    with closing(Database(url, max_connections=_ROW.permits + 2)) as connected:
        consumer = make_consumer(connected, partial(compute_shard, pools=PoolCache()), Clock(TICK), worker=settings)
        for shard in shards:
            message = record(Message(work_id=shard, revision=1, send_number=0))
            response = consumer.handle(event(message), Context(_ROW.timeout))
            storing += perf_counter() - began
            if response["batchItemFailures"]:
                raise RuntimeError(f"The shard was not completed: {response}")
    return storing, getrusage(RUSAGE_SELF).ru_maxrss / 1024


def main(
    people: Annotated[int, typer.Option(help="Number of users in the pool.")] = 1_000_000,
    processes: Annotated[int, typer.Option(help="Number of worker processes.")] = 2,
    days_before: Annotated[int, typer.Option(help="Number of earlier days with offers.")] = 0,
    folder: Annotated[Path | None, typer.Option(help="Folder for the database, on a disk that supports fsync.")] = None,
) -> None:
    """Measure one day of offers, and print times and memory."""
    with TemporaryDirectory(dir=folder) as directory:
        Path(directory).chmod(0o711)
        embedded = PostgresServer(Path(directory) / "postgres")
        try:
            with psycopg.connect(embedded.start(durable=True).url(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET shared_buffers = '2GB'")
            embedded.stop()
            day = run_day(embedded.start(durable=True), people, processes, days_before)
        finally:
            embedded.remove()
    typer.echo(f"{day.people:,} users in one time zone, {processes} worker processes, {days_before} earlier days")
    typer.echo(f"  pinned in {day.pinned:.1f} s, {day.people / day.pinned:,.0f} users/s")
    typer.echo(f"  done in {day.served:.1f} s, {day.people / day.served:,.0f} users/s, {day.offers:,} offers stored")
    typer.echo(f"  {day.offers / day.storing:,.0f} offers stored per second of storing")
    typer.echo(f"  total {day.seconds:.1f} s; peak memory of a process {day.megabytes:.0f} MB")


if __name__ == "__main__":
    typer.run(main)
