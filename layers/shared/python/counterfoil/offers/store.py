"""Shards of daily offers in PostgreSQL: input, excluded candidates and results.

Each function is one step in a transaction of the tenant. A single statement writes thousands of rows from arrays in
PostgreSQL's binary format. COPY through a temporary table is not measurably faster, bloats the catalog, and requires
another privilege. COPY directly into the tables is impossible because of row-level security.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar, TypeVar
from uuid import UUID, uuid5

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.adapt import Dumper
from psycopg.pq import Format

from counterfoil.db import Connection
from counterfoil.delivery.work import OutboxMessage, enqueue
from counterfoil.errors import ConflictError, StaleClaimError
from counterfoil.offers.kinds import OFFERS
from counterfoil.offers.pinning import force_hash_plans

_UUID_BYTES = 16
_JSONB_VERSION = b"\x01"


class BinaryArray(bytes):
    """A PostgreSQL array in binary format.

    Each subclass has the OIDs of an array type and its elements.
    """

    array: ClassVar[int]
    element: ClassVar[int]

    __slots__ = ()


A = TypeVar("A", bound=BinaryArray)


class UuidArray(BinaryArray):
    """uuid[]."""

    array, element = 2951, 2950
    __slots__ = ()


class SmallintArray(BinaryArray):
    """smallint[]."""

    array, element = 1005, 21
    __slots__ = ()


class IntegerArray(BinaryArray):
    """integer[]."""

    array, element = 1007, 23
    __slots__ = ()


class ByteaArray(BinaryArray):
    """bytea[]."""

    array, element = 1001, 17
    __slots__ = ()


class JsonbArray(BinaryArray):
    """jsonb[]."""

    array, element = 3807, 3802
    __slots__ = ()


def uuids(ids: NDArray[Any]) -> UuidArray:
    """Return 16-byte ids as a uuid array."""
    return _fixed(UuidArray, np.ascontiguousarray(ids).view(f"V{_UUID_BYTES}"))


def smallints(numbers: NDArray[Any]) -> SmallintArray:
    """Return two-byte integers as a smallint array."""
    return _fixed(SmallintArray, numbers.astype(">i2"))


def integers(numbers: NDArray[Any]) -> IntegerArray:
    """Return four-byte integers as an integer array."""
    return _fixed(IntegerArray, numbers.astype(">i4"))


def byteas(values: Sequence[bytes]) -> ByteaArray:
    """Return byte strings as a bytea array."""
    return _varying(ByteaArray, values)


def jsonbs(documents: Sequence[bytes]) -> JsonbArray:
    """Return JSON texts in UTF-8 as a jsonb array."""
    return _varying(JsonbArray, documents, _JSONB_VERSION)


def _fixed(kind: type[A], values: NDArray[Any]) -> A:
    elements = np.empty(len(values), [("length", ">i4"), ("value", values.dtype)])
    elements["length"] = values.dtype.itemsize
    elements["value"] = values
    return kind(_header(kind, len(values)) + elements.tobytes())


def _varying(kind: type[A], values: Sequence[bytes], prefix: bytes = b"") -> A:
    def parts() -> Iterable[bytes]:
        yield _header(kind, len(values))
        for value in values:
            yield struct.pack(">i", len(prefix) + len(value))
            yield prefix
            yield value

    return kind(b"".join(parts()))


def _header(kind: type[BinaryArray], length: int) -> bytes:
    """Return the header of a one-dimensional array without NULLs.

    Its lower bound is 1.
    """
    return struct.pack(">5i", 1, 0, kind.element, length, 1)


class _Dumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: BinaryArray) -> bytes:
        """Return the bytes unchanged."""
        return obj


def _register() -> None:
    for kind in BinaryArray.__subclasses__():
        dumper = type(f"{kind.__name__}Dumper", (_Dumper,), {"oid": kind.array})
        psycopg.adapters.register_dumper(kind, dumper)


_register()


WORKER = "offers"
QUARANTINE_SHARD = "/failed"
"""Suffix of a quarantine shard's name. The rest is the name of the shard from which its users were removed."""

_LOAD_SHARD = """
SELECT s.tenant_id, s.pool_id, s.name, s.date, s.timezone, s.users, s.profiles, p.rules, p.user_count,
       p.profiles_hash, p.offered_at, p.expires_at,
       (SELECT count(*) FROM offer_shard o WHERE o.pool_id = p.id AND o.profiles IS NOT NULL)
FROM offer_shard s JOIN offer_pool p ON p.id = s.pool_id WHERE s.id = %s
"""
_POOL_PROFILES = "SELECT profiles FROM offer_shard WHERE pool_id = %s AND profiles IS NOT NULL ORDER BY users[1]"
_RELOAD_PROFILES = """
SELECT u.number::integer - 1, p.packed_row FROM unnest(%s::uuid[]) WITH ORDINALITY AS u (id, number)
JOIN profile p ON p.user_id = u.id ORDER BY u.number
"""
# Looks up the offers of each user and date. Later dates are included, because this date may be served late. OFFSET
# prevents a plan that reads the offers of all users.
_PIN_EXCLUDED = """
UPDATE offer_shard SET excluded = coalesce((
    SELECT string_agg(int4send(number) || uuid_send(candidate_id), ''::bytea ORDER BY number, candidate_id) FROM (
        WITH served AS MATERIALIZED (
            SELECT id, number::integer - 1 AS number FROM unnest(%(users)s::uuid[]) WITH ORDINALITY AS u (id, number)
        ), day AS MATERIALIZED (
            SELECT DISTINCT date FROM offer_pool
            WHERE tenant_id = %(tenant)s AND date BETWEEN %(date)s - %(days)s AND %(date)s + %(days)s
              AND date <> %(date)s
        )
        SELECT u.number, b.blocked_id AS candidate_id FROM served u JOIN user_block b ON b.user_id = u.id
        UNION
        SELECT u.number, b.user_id FROM served u JOIN user_block b ON b.blocked_id = u.id
        UNION
        SELECT u.number, o.candidate_id FROM day CROSS JOIN served u CROSS JOIN LATERAL (
            SELECT candidate_id FROM offers WHERE date = day.date AND user_id = u.id OFFSET 0
        ) AS o
    ) AS excluded
), ''::bytea)
WHERE id = %(id)s AND claim_token = %(token)s
RETURNING excluded
"""
_EXCLUDED = "SELECT excluded FROM offer_shard WHERE id = %s"
# Writes no offers for users who no longer exist or whose job is already completed.
_COMPLETE = """
WITH served AS (
    UPDATE matchmaking_jobs j SET status = 'completed', offers = w.document, inputs_hash = w.hash,
        completed_at = %(now)s, algorithm_version = %(version)s, error_message = NULL, lease_expires_at = NULL
    FROM unnest(%(users)s, %(documents)s, %(hashes)s) AS w (user_id, document, hash)
    WHERE j.shard_id = %(shard)s AND j.user_id = w.user_id AND j.status <> 'completed'
    RETURNING j.user_id
), offered AS (
    INSERT INTO offers (date, user_id, candidate_id, tenant_id, id, rank, score, offered_at, expires_at)
    SELECT %(date)s, w.user_id, w.candidate_id, %(tenant)s, w.id, w.rank, w.score, %(offered_at)s, %(expires_at)s
    FROM unnest(%(offer_users)s, %(candidates)s, %(ids)s, %(ranks)s, %(scores)s)
         AS w (user_id, candidate_id, id, rank, score)
    JOIN served USING (user_id)
)
SELECT count(*) FROM served
"""
_FAIL = """
UPDATE matchmaking_jobs j SET status = 'failed', error_message = w.error, shard_id = %(quarantine_shard)s,
    lease_expires_at = NULL
FROM unnest(%(users)s::uuid[], %(errors)s::text[]) AS w (user_id, error)
WHERE j.shard_id = %(shard)s AND j.user_id = w.user_id AND j.status <> 'completed'
RETURNING j.user_id
"""
_INSERT_QUARANTINE_SHARD = """
INSERT INTO offer_shard (id, tenant_id, pool_id, name, date, timezone, created_at, users, revision)
VALUES (%(quarantine_shard)s, %(tenant)s, %(pool)s, %(name)s, %(date)s, %(timezone)s, %(now)s, %(users)s, 1)
"""
# A candidate belongs to only one pool per date, so no other pool offers the same candidate.
_OFFER_COUNTS = """
SELECT o.candidate_id AS id, count(*)::integer AS number
FROM (SELECT DISTINCT unnest(users) AS id FROM offer_shard WHERE pool_id = %(pool)s) AS u
JOIN offers o ON o.date = %(date)s AND o.user_id = u.id GROUP BY o.candidate_id
"""
_EXISTING_OFFERS = f"""
SELECT coalesce(string_agg(int4send(number) || uuid_send(id), ''::bytea), ''::bytea) FROM ({_OFFER_COUNTS}) AS offered
"""  # noqa: S608  # only constant statements
_EXCEEDS_CAP = f"""
SELECT EXISTS (
    SELECT FROM unnest(%(candidates)s, %(numbers)s) AS n (id, number) JOIN ({_OFFER_COUNTS}) AS e USING (id)
    WHERE n.number + e.number > %(most)s
)
"""  # noqa: S608  # only constant statements
_COUNT_UNFINISHED = """
SELECT count(*) FROM offer_shard WHERE pool_id = %s AND profiles IS NOT NULL AND status IN ('pending', 'in-progress')
"""
OFFER_COUNT = np.dtype([("number", ">i4"), ("candidate", "S16")])
"""A candidate's number of existing offers, and the candidate's id."""
_LOCK_POOL = "SELECT pg_advisory_xact_lock(hashtextextended('offered/' || %s::text, 0))"
_SAVE_COUNTS = "UPDATE offer_shard SET completed = %s, failed = %s WHERE id = %s"


@dataclass(frozen=True)
class ShardInput:
    """A shard with its pool's data."""

    id: UUID
    tenant_id: UUID
    pool_id: UUID
    name: str
    date: date
    timezone: str
    users: Sequence[UUID]
    """Internal user ids in ascending order."""
    profiles: bytes | None
    """The users' pinned profiles. None for late and quarantined users, whose current profiles are used."""
    rules: Mapping[str, Any]
    pool_people: int
    """Number of users in the pool."""
    digest: bytes
    """Hash of all profiles in the pool."""
    offered_at: datetime
    expires_at: datetime
    parts: int
    """Number of shards that were pinned with the pool."""

    @property
    def is_quarantine(self) -> bool:
        """True if this is a shard of quarantined users."""
        return self.name.endswith(QUARANTINE_SHARD)

    @property
    def part(self) -> int | None:
        """Index among the shards that were pinned with the pool.

        None for shards of late or quarantined users.
        """
        return None if self.profiles is None else int(self.name)


@dataclass(frozen=True)
class ShardResults:
    """A shard's results as arrays in binary format."""

    version: int
    """Version of the algorithm."""
    users: UuidArray
    documents: JsonbArray
    """JSON of all offers, by user."""
    hashes: ByteaArray
    """Hash of the inputs, by user."""
    offer_users: UuidArray
    """User of each offer. This array and the following arrays have one element per offer."""
    candidates: UuidArray
    ids: UuidArray
    ranks: SmallintArray
    scores: IntegerArray
    faults: Mapping[UUID, str]
    """Error messages for users without results, by user id."""


@dataclass(frozen=True)
class WriteResult:
    """Numbers of users whose offers were completed or failed."""

    completed: int
    failed: int
    messages: Sequence[OutboxMessage]
    """Messages to send for the shard of quarantined users."""


def load_shard(connection: Connection, shard_id: UUID) -> ShardInput | None:
    """Return a shard, or None if it no longer exists."""
    with connection.cursor(binary=True) as cursor:
        row = cursor.execute(_LOAD_SHARD, [shard_id]).fetchone()
    return None if row is None else ShardInput(shard_id, *row)


def pool_people(connection: Connection, pool_id: UUID) -> bytes:
    """Return a pool's pinned profiles in order of id.

    The result is empty after they expire.
    """
    with connection.cursor(binary=True) as cursor:
        return b"".join(packed for (packed,) in cursor.execute(_POOL_PROFILES, [pool_id]))


def reload_profiles(connection: Connection, users: Sequence[UUID]) -> tuple[NDArray[np.int32], bytes]:
    """Return the indexes and current profiles of users who still exist.

    Both are in the order of `users`.
    """
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute(_RELOAD_PROFILES, [list(users)]).fetchall()
    return np.array([number for number, _ in rows], np.int32), b"".join(packed for _, packed in rows)


def pin_excluded(connection: Connection, shard: ShardInput, repeat_interval_days: int, token: int) -> bytes:
    """Store and return each user's excluded candidates.

    They are blocked in either direction, or were offered within `repeat_interval_days`.

    Each row consists of the user's index (4 bytes) and the candidate's id. The rows are sorted.

    Raises:
        StaleClaimError: a newer claim than `token` exists.
    """
    values = {
        "id": shard.id,
        "tenant": shard.tenant_id,
        "users": list(shard.users),
        "date": shard.date,
        "days": repeat_interval_days,
        "token": token,
    }
    with connection.cursor(binary=True) as cursor:
        row = cursor.execute(_PIN_EXCLUDED, values).fetchone()
    if row is None:
        raise StaleClaimError(f"A newer claim than {token} exists on {shard.id}")
    return bytes(row[0])


def load_excluded(connection: Connection, shard_id: UUID) -> bytes | None:
    """Return the stored result of `pin_excluded`, or None if nothing is stored yet."""
    with connection.cursor(binary=True) as cursor:
        row = cursor.execute(_EXCLUDED, [shard_id]).fetchone()
    return row[0] if row else None


def count_unfinished_parts(connection: Connection, shard: ShardInput) -> int:
    """Return how many shards pinned with the pool are pending or in progress."""
    ((parts,),) = connection.execute(_COUNT_UNFINISHED, [shard.pool_id]).fetchall()
    return int(parts)


def offer_counts(connection: Connection, shard: ShardInput) -> NDArray[np.void]:
    """Return the number of existing offers by candidate (`OFFER_COUNT`).

    Candidates without offers are omitted.
    """
    with force_hash_plans(connection), connection.cursor(binary=True) as cursor:
        ((rows,),) = cursor.execute(_EXISTING_OFFERS, {"pool": shard.pool_id, "date": shard.date}).fetchall()
    return np.frombuffer(rows, OFFER_COUNT)


def reserve_exposure(
    connection: Connection, shard: ShardInput, candidates: UuidArray, counts: IntegerArray, max_users: int
) -> None:
    """Lock the pool for this transaction, and check the exposure cap.

    After the check, the transaction offers each of `candidates` to the number of users in `counts`. Other shards wait
    until it ends.

    Raises:
        ConflictError: another shard has offered the same candidates, and one of them would exceed `max_users` users.
    """
    connection.execute(_LOCK_POOL, [shard.pool_id])
    values = {"pool": shard.pool_id, "date": shard.date, "candidates": candidates, "numbers": counts, "most": max_users}
    with force_hash_plans(connection):
        ((exceeds_cap,),) = connection.execute(_EXCEEDS_CAP, values).fetchall()
    if exceeds_cap:
        raise ConflictError("Another shard of the pool has offered the same candidates; recompute the offers")


def write(connection: Connection, shard: ShardInput, results: ShardResults, now: datetime) -> WriteResult:
    """Write a shard's results.

    Completed jobs are not changed. Jobs of users without results fail. These users are quarantined in a new shard,
    whose message is enqueued.
    """
    values = {
        "shard": shard.id,
        "tenant": shard.tenant_id,
        "pool": shard.pool_id,
        "date": shard.date,
        "timezone": shard.timezone,
        "offered_at": shard.offered_at,
        "expires_at": shard.expires_at,
        "now": now,
    }
    arrays_ = {name: value for name, value in vars(results).items() if name != "faults"}
    with force_hash_plans(connection):
        ((completed,),) = connection.execute(_COMPLETE, values | arrays_).fetchall()
    failed, messages = _quarantine(connection, shard, results.faults, values) if results.faults else (0, [])
    connection.execute(_SAVE_COUNTS, [completed, failed, shard.id])
    return WriteResult(completed, failed, messages)


def _quarantine(
    connection: Connection, shard: ShardInput, faults: Mapping[UUID, str], values: Mapping[str, Any]
) -> tuple[int, list[OutboxMessage]]:
    name = shard.name + QUARANTINE_SHARD
    parameters = {**values, "quarantine_shard": uuid5(shard.pool_id, name), "name": name}
    failed = connection.execute(_FAIL, parameters | {"users": list(faults), "errors": list(faults.values())}).fetchall()
    if not failed:
        return 0, []
    connection.execute(_INSERT_QUARANTINE_SHARD, parameters | {"users": sorted(user for (user,) in failed)})
    now = values["now"]
    return len(failed), enqueue(connection, OFFERS, [(parameters["quarantine_shard"], shard.tenant_id, 1, 0)], now, now)
