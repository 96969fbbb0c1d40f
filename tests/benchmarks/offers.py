"""Measure how fast a day's offers are computed.

Run `python -m tests.benchmarks.offers`. Users are generated around cities, most of them around the largest city.
Processes compute shards of users with 1,000 candidates each, and serialize the offers as JSON. Two other methods then
compute offers for a sample of users: plain Python, one candidate after another, and one LATERAL query in PostgreSQL.
Both methods receive precomputed candidates. All three methods must return the same offers. Finally, offers limited to
neighbors are compared with offers from the whole pool.
"""

import math
import multiprocessing
import resource
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, NamedTuple
from uuid import UUID, uuid5

import numpy as np
import psycopg
import typer

from cli.local.postgres import Server, temporary_server
from counterfoil.offers.compute import Columns, Pool, compute, preference_groups
from counterfoil.offers.exposure_cap import MAX_INDEX
from counterfoil.offers.pool import MATCHMAKING_NAMESPACE, ProfileArrays, documents
from tests.offers.profile_generator import DAY, NINE, RULES, generate_profiles, no_exclusions, offer_texts

SHARD_USERS = 10_000
ROUNDS = 3
"""Repetitions of each compared measurement. The shortest one counts, because the machine may be busy."""
Offers = list[tuple[UUID, int]]


@dataclass(frozen=True)
class Speed:
    """Time and memory that computing offers takes."""

    users: int
    candidates: float
    """Mean number of suitable candidates per user, out of 1,000."""
    seconds: float
    with_json: float
    processor: tuple[float, float]
    """Total CPU seconds for `seconds` and `with_json`. Unlike elapsed time, they do not depend on other load."""
    megabytes: tuple[float, float, float]
    """Peak memory of a process at its start, after loading the pool, and after computing its shards."""


def shards(packed: bytes, numbers: Sequence[int], barrier: Any, answers: Any) -> None:
    """Compute the shards with these numbers.

    This is the entry point of a worker process.
    """
    memory = [_peak_megabytes()]
    pool = Pool(ProfileArrays.read(packed), DAY)
    memory.append(_peak_megabytes())
    users = [ProfileArrays(pool.people.rows[number * SHARD_USERS :][:SHARD_USERS]) for number in numbers]
    compute(pool, ProfileArrays(pool.people.rows[::50]), no_exclusions(), RULES)  # one-time initialization
    barrier.wait()
    marks = [_clocks()]
    for shard in users:
        compute(pool, shard, no_exclusions(), RULES)
    marks.append(_clocks())
    for shard in users:
        offer_texts(pool, shard)
    marks.append(_clocks())
    took = [tuple(after - before for before, after in zip(*pair, strict=True)) for pair in pairwise(marks)]
    answers.put((sum(map(len, users)), took, (*memory, _peak_megabytes())))


def _clocks() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def measure_speed(people: ProfileArrays, *, processes: int) -> Speed:
    """Compute all users' offers in several processes.

    Report the times of the slowest process.
    """
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(processes), context.SimpleQueue()
    count = -(-len(people) // SHARD_USERS)
    packed = people.rows.tobytes()
    running = [
        context.Process(target=shards, args=(packed, range(first, count, processes), barrier, answers))
        for first in range(processes)
    ]
    for process in running:
        process.start()
    users, took, megabytes = zip(*(answers.get() for _ in running), strict=True)
    for process in running:
        process.join()
    pool, some = Pool(people, DAY), ProfileArrays(people.rows[:: max(1, len(people) // 500)])
    suiting = compute(pool, some, no_exclusions(), replace(RULES, max_offers=RULES.max_candidates)).counts.mean()
    computed, with_json = (tuple(zip(*times, strict=True)) for times in zip(*took, strict=True))
    processor = sum(computed[0]), sum(with_json[0])
    return Speed(sum(users), suiting, max(computed[1]), max(with_json[1]), processor, max(megabytes))


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class PlainPerson(NamedTuple):
    """A user as plain Python values."""

    id: UUID
    gender: int
    seeks_genders: int
    place: tuple[float, float, float]
    reach: float
    age: int
    youngest: int
    oldest: int
    traits: tuple[int, ...]
    length: float


def plain_people(people: ProfileArrays) -> list[PlainPerson]:
    """Convert users for the plain Python method."""
    columns, ids = Columns.of(people, DAY), people.ids.tobytes()
    return [
        PlainPerson(
            UUID(bytes=ids[16 * at : 16 * at + 16]), int(row["gender"]), int(row["seeks_genders"]), tuple(place), *rest
        )
        for at, (row, place, *rest) in enumerate(
            zip(
                people.rows,
                np.stack([columns.x, columns.y, columns.z], axis=1).tolist(),
                *(column.tolist() for column in columns[3:7]),
                map(tuple, columns.traits.tolist()),
                columns.length.tolist(),
                strict=True,
            )
        )
    ]


def compute_in_python(user: PlainPerson, candidates: Iterable[PlainPerson]) -> list[dict[str, Any]]:
    """Compute a user's offers, one candidate after another."""
    scored = [(score, one.id) for one in candidates if (score := _score(user, one)) is not None]
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    return [
        {
            "id": str(uuid5(MATCHMAKING_NAMESPACE, f"{DAY}:{user.id}:{candidate}")),
            "userId": str(candidate),
            "compatibilityScore": score,
            "offeredAt": NINE.isoformat(),
            "expiresAt": NINE.isoformat(),
        }
        for score, candidate in scored[: RULES.max_offers]
    ]


def _score(user: PlainPerson, one: PlainPerson) -> int | None:
    if not (one.youngest <= user.age <= one.oldest and user.youngest <= one.age <= user.oldest):
        return None
    if not (one.seeks_genders & user.gender and user.seeks_genders & one.gender) or one.id == user.id:
        return None
    apart, reach = sum((a - b) ** 2 for a, b in zip(user.place, one.place, strict=True)), min(user.reach, one.reach)
    if apart > reach:
        return None
    alike = sum(a * b for a, b in zip(user.traits, one.traits, strict=True)) / (user.length * one.length)
    years = min(abs(user.age - one.age), 20)
    return int(3000.0 * alike - 2500.0 * math.sqrt(apart / reach) + (7000.5 - 75.0 * years))


_PERSON = "x float8, y float8, z float8, reach float8, age int, youngest int, oldest int, length float8, id uuid, " + (
    ", ".join(f"t{number} float8" for number in range(16))
)
_TABLES = f"""
CREATE TABLE seeker (number int, kind int, first int, {_PERSON});
CREATE TABLE candidate (kind int, rank int, {_PERSON})
"""
_LATERAL = f"""
SELECT u.number, c.id, c.score FROM seeker u CROSS JOIN LATERAL (
    SELECT c.id, trunc(3000.0 * ({" + ".join(f"u.t{n} * c.t{n}" for n in range(16))}) / (u.length * c.length)
                       - 2500.0 * sqrt(apart / least(u.reach, c.reach))
                       + (7000.5 - 75.0 * least(abs(u.age - c.age), 20)))::int AS score
    FROM candidate c CROSS JOIN LATERAL (SELECT (c.x - u.x) ^ 2 + (c.y - u.y) ^ 2 + (c.z - u.z) ^ 2) AS d (apart)
    WHERE c.kind = u.kind AND c.rank >= u.first AND c.rank < u.first + %s
      AND c.age BETWEEN u.youngest AND u.oldest AND u.age BETWEEN c.youngest AND c.oldest
      AND apart <= least(u.reach, c.reach) AND c.id <> u.id
    ORDER BY score DESC, c.id LIMIT %s) c
ORDER BY u.number, c.score DESC, c.id
"""


@dataclass(frozen=True)
class Sample:
    """Sampled users and the positions of their candidates."""

    people: ProfileArrays
    numbers: np.ndarray[Any, Any]
    """Position of each sampled user in `people`."""
    kind: np.ndarray[Any, Any]
    first: np.ndarray[Any, Any]
    near: dict[int, np.ndarray[Any, Any]]
    """Positions in `people` of suitable candidates, by kind, in curve order. A user's range starts at `first`."""

    def of(self, at: int) -> np.ndarray[Any, Any]:
        """Return the positions in `people` of a user's candidates."""
        return self.near[int(self.kind[at])][self.first[at] : self.first[at] + RULES.max_candidates]


def sample(pool: Pool, count: int) -> Sample:
    """Return users in the two largest preference groups, and their candidates."""
    kind_of = preference_groups(pool.people, Columns.of(pool.people, DAY).age)
    most = sorted(np.unique(kind_of).tolist(), key=lambda kind: -int((kind_of == kind).sum()))[:2]
    numbers = np.flatnonzero(np.isin(kind_of, most))[:count]
    before = pool.preceding_counts(ProfileArrays(pool.people.rows[numbers]))
    first = np.empty_like(numbers)
    for kind in most:
        near, mine = pool.eligible(kind), kind_of[numbers] == kind
        last = max(0, len(near) - RULES.max_candidates)
        first[mine] = (np.searchsorted(near, before[mine]) - RULES.max_candidates // 2).clip(0, last)
    ready = {kind: MAX_INDEX - pool.reverse_order[pool.eligible(kind)] for kind in most}
    return Sample(pool.people, numbers, kind_of[numbers], first, ready)


def compute_in_sql(server: Server, chosen: Sample) -> tuple[float, list[Offers]]:
    """Return the seconds that one query for all users takes, and each user's offers."""
    columns, ids = Columns.of(chosen.people, DAY), chosen.people.ids.tobytes()

    def row(at: int) -> list[Any]:
        numbers = [float(column[at]) for column in columns[:4]] + [int(column[at]) for column in columns[4:7]]
        return [
            *numbers,
            float(columns.length[at]),
            UUID(bytes=ids[16 * at : 16 * at + 16]),
            *columns.traits[at].tolist(),
        ]

    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS seeker, candidate")
        connection.execute(_TABLES)
        with connection.cursor().copy("COPY seeker FROM STDIN") as copy:
            for number, at in enumerate(chosen.numbers.tolist()):
                copy.write_row([number, int(chosen.kind[number]), int(chosen.first[number]), *row(at)])
        with connection.cursor().copy("COPY candidate FROM STDIN") as copy:
            for kind, near in chosen.near.items():
                for rank, at in enumerate(near.tolist()):
                    copy.write_row([kind, rank, *row(at)])
        connection.execute("CREATE UNIQUE INDEX ON candidate (kind, rank)")
        connection.execute("VACUUM ANALYZE")
        connection.execute("SET max_parallel_workers_per_gather = 0")
        seconds = math.inf
        for _ in range(ROUNDS):
            began = time.perf_counter()
            rows = connection.execute(_LATERAL, [RULES.max_candidates, RULES.max_offers], prepare=True).fetchall()
            seconds = min(seconds, time.perf_counter() - began)
    found: list[Offers] = [[] for _ in chosen.numbers]
    for number, candidate, score in rows:
        found[number].append((candidate, score))
    return seconds, found


@dataclass(frozen=True)
class Comparison:
    """Seconds by method, and the number of users whose offers differ.

    Each method runs in one process.
    """

    users: int
    computed: float
    """Our method without ids and JSON, comparable to SQL."""
    ours: float
    """Our method with ids and JSON, comparable to plain Python."""
    python: float
    sql: float
    different: int


def compare_methods(pool: Pool, server: Server, count: int) -> Comparison:
    """Compute the same offers with three methods."""
    chosen = sample(pool, count)
    users = ProfileArrays(pool.people.rows[chosen.numbers])
    computed = ours = math.inf
    for _ in range(ROUNDS):
        began = time.perf_counter()
        made = compute(pool, users, no_exclusions(), RULES)
        candidates = pool.people.ids[made.candidates]
        computed = min(computed, time.perf_counter() - began)
        documents(DAY, users.ids, candidates, candidates, made.counts, made.scores, NINE, NINE)
        ours = min(ours, time.perf_counter() - began)
    everyone = plain_people(pool.people)
    ready = [(everyone[at], [everyone[one] for one in chosen.of(n)]) for n, at in enumerate(chosen.numbers.tolist())]
    began = time.perf_counter()
    python_offers = [compute_in_python(user, near) for user, near in ready]
    python = time.perf_counter() - began
    sql, found = compute_in_sql(server, chosen)
    texts, ends = candidates.tobytes(), np.cumsum(made.counts)
    pairs = [(UUID(bytes=texts[16 * n : 16 * n + 16]), score) for n, score in enumerate(made.scores.tolist())]
    mine = [pairs[end - size : end] for end, size in zip(ends.tolist(), made.counts.tolist(), strict=True)]
    theirs = [[(UUID(one["userId"]), one["compatibilityScore"]) for one in offers] for offers in python_offers]
    different = sum(not a == b == c for a, b, c in zip(mine, theirs, found, strict=True))
    return Comparison(len(users), computed, ours, python, sql, different)


@dataclass(frozen=True)
class Quality:
    """Quality of offers limited to neighbors, relative to offers from the whole pool."""

    score: float
    """Ratio of the two total scores."""
    same: float
    """Share of the offers from the whole pool that are also made if candidates are limited to neighbors."""


def measure_quality(people: ProfileArrays, users: int = 500) -> Quality:
    """Compare offers limited to neighbors with offers from the whole pool."""
    pool, some = Pool(people, DAY), ProfileArrays(people.rows[:: max(1, len(people) // users)])
    near = compute(pool, some, no_exclusions(), RULES)
    all_ = compute(pool, some, no_exclusions(), replace(RULES, max_candidates=len(people)))
    pairs = [
        set(zip(np.repeat(np.arange(len(some)), made.counts).tolist(), made.candidates.tolist(), strict=True))
        for made in (near, all_)
    ]
    return Quality(float(near.scores.sum() / all_.scores.sum()), len(pairs[0] & pairs[1]) / len(pairs[1]))


def run(
    people: Annotated[int, typer.Option(help="Number of users in the pool.")] = 100_000,
    processes: Annotated[int, typer.Option(help="Number of concurrent processes.")] = 2,
    users: Annotated[int, typer.Option(help="Number of users whose offers are also computed in Python and SQL.")] = 500,
) -> None:
    """Measure and print speed, memory and quality.

    Fail if a method returns different offers.
    """
    everyone = generate_profiles(people)
    found = measure_speed(everyone, processes=processes)
    typer.echo(
        f"{found.users:,} users in {processes} processes, 1,000 candidates each, {found.candidates:.0f} suitable"
    )
    rates = zip(("computed", "with ids and JSON"), (found.seconds, found.with_json), found.processor, strict=True)
    for name, seconds, processor in rates:
        each = found.users / processor
        typer.echo(f"  {name:25}{found.users / seconds:10,.0f} users/s, {each:,.0f} per CPU second")
    typer.echo(
        "  memory of a process      {:.0f} MB at start, {:.0f} with the pool, {:.0f} at peak".format(*found.megabytes)
    )
    with temporary_server() as server:
        other = compare_methods(Pool(everyone, DAY), server, users)
    typer.echo(f"{other.users:,} users in one process, {other.different} with offers that differ between methods")
    for name, seconds, mine in (
        ("computed", other.computed, None),
        ("one LATERAL query", other.sql, other.computed),
        ("with ids and JSON", other.ours, None),
        ("plain Python", other.python, other.ours),
    ):
        times = f": {seconds / mine:.1f} times as long" if mine else ""
        typer.echo(f"  {name:25}{other.users / seconds:10,.0f} users/s{times}")
    for cities in (60, 8):
        lost = measure_quality(generate_profiles(20_000, cities=cities))
        typer.echo(f"20,000 users around {cities} cities; offers limited to neighbors, relative to the whole pool:")
        typer.echo(f"  {lost.score:.2%} of the total score, {lost.same:.1%} of the offers are the same")
    if other.different:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(run)
