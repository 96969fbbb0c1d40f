"""Persistence layer for Powertools Idempotency that stores records in PostgreSQL.

A claim is one INSERT that also takes over expired keys, so nothing can happen between a check and a claim. The README
lists the guarantees and the limits.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import RLock, local
from typing import Any, cast
from uuid import UUID, uuid4

from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer, IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from psycopg.sql import SQL, Identifier

from powertools_postgres_idempotency.transactions import Connect, Cursor, transact

log = logging.getLogger(__name__)

# `now` is the database's clock unless a clock was given. Deadlines are passed as the remaining time in both directions.
#
# Of several concurrent claims, one inserts or takes over the row. The other claims wait for its commit, and then none
# of the conditions is true. The last condition is for a claim whose commit succeeded although the response was lost.
# Statements are not prepared, because a failover or a proxy can lose prepared statements.
_CLAIM = """
INSERT INTO {table} AS existing (tenant, key, status, claim, claimed_at, in_progress_until, expires_at, payload_hash)
SELECT %(tenant)s, %(key)s, 'INPROGRESS', %(claim)s::uuid, now, now + %(in_progress)s::interval,
       now + %(ttl)s::interval, %(payload_hash)s::text
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
ON CONFLICT (tenant, key) DO UPDATE SET status = 'INPROGRESS', claim = EXCLUDED.claim,
    claims = existing.claims + (existing.claim <> EXCLUDED.claim)::int, claimed_at = EXCLUDED.claimed_at,
    in_progress_until = EXCLUDED.in_progress_until, completed_at = NULL, expires_at = EXCLUDED.expires_at,
    payload_hash = EXCLUDED.payload_hash, result = NULL
WHERE existing.expires_at < EXCLUDED.claimed_at
   OR (existing.status = 'INPROGRESS' AND existing.in_progress_until < EXCLUDED.claimed_at)
   OR existing.claim = EXCLUDED.claim
RETURNING true
"""

# After a failed claim, the row is still locked in its transaction, so this reads the row that made the claim fail.
_READ = """
SELECT status, extract(epoch FROM expires_at - now)::float8, extract(epoch FROM in_progress_until - now)::float8,
       coalesce(result, ''), coalesce(payload_hash, '')
FROM {table}, (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
WHERE tenant = %(tenant)s AND key = %(key)s
"""

# The record may have been deleted because another run took over the key and failed. This run succeeded, so its result
# is inserted.
_COMPLETE = """
INSERT INTO {table} AS existing (tenant, key, status, claim, claimed_at, completed_at, expires_at, payload_hash, result)
SELECT %(tenant)s, %(key)s, 'COMPLETED', coalesce(%(claim)s::uuid, gen_random_uuid()), now, now,
       now + %(ttl)s::interval, %(payload_hash)s::text, %(result)s::text
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
ON CONFLICT (tenant, key) DO UPDATE SET status = 'COMPLETED', completed_at = EXCLUDED.completed_at,
    expires_at = EXCLUDED.expires_at, payload_hash = coalesce(EXCLUDED.payload_hash, existing.payload_hash),
    result = EXCLUDED.result
WHERE %(claim)s::uuid IS NULL OR existing.claim = %(claim)s::uuid
RETURNING true
"""

_DELETE = """
DELETE FROM {table}
WHERE tenant = %(tenant)s AND key = %(key)s AND (%(claim)s::uuid IS NULL OR claim = %(claim)s::uuid)
"""


class _SupersededError(Exception):
    """A run ended after its deadline, and another run has claimed its key."""


@dataclass
class _Run:
    """A function call of this thread, and its claim."""

    data: Any
    """The function's argument, compared by identity: Powertools passes the same object to each method of one run."""
    function_name: str
    claim: UUID | None = field(default_factory=uuid4)
    """None if the run continues under any claim of its key."""


class _Thread(local):
    """State of one thread."""

    def __init__(self) -> None:
        self.function_name = ""
        self.runs: list[_Run] = []
        """Runs in progress, outermost first."""
        self.rejected: _Run | None = None
        """The last run whose key was in progress. A replayed durable function continues anyway."""
        self.claim: UUID | None = None
        """Claim for the current method call; None matches any claim."""


class PostgresPersistence(BasePersistenceLayer):
    """Stores the records of one tenant in the table of `schema.sql`.

    Threads, and functions that call each other, can share one object. As with Powertools' own layers, the first
    configuration used with an object applies to all later uses. Functions with different configurations need different
    objects.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        tenant: str | UUID = "",
        table: str = "idempotency",
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        """Take `connect`, which returns connections, for example `pool.connection`.

        `tenant` separates keys. `table` can name a schema: `shop.idempotency`. `clock` replaces the database's clock,
        for tests and simulations.
        """
        name = Identifier(*table.split("."))
        self._claim, self._select, self._complete, self._delete = (
            SQL(statement).format(table=name).as_bytes() for statement in (_CLAIM, _READ, _COMPLETE, _DELETE)
        )
        self._thread = _Thread()
        self._lock = RLock()
        self._connect = connect
        self._tenant = str(tenant)
        self._clock = clock
        super().__init__()  # type: ignore[no-untyped-call]

    # Powertools stores this state in the object, where threads and nested calls would overwrite it.

    @property
    def function_name(self) -> str:
        """Prefix of the keys of the function that this thread is about to start or end."""
        return self._thread.function_name

    @function_name.setter
    def function_name(self, name: str) -> None:
        self._thread.function_name = name

    def configure(
        self, config: IdempotencyConfig, function_name: str | None = None, key_prefix: str | None = None
    ) -> None:
        """Apply the configuration once, and the function's name in each call."""
        with self._lock:
            super().configure(config, function_name, key_prefix)

    def _save_to_cache(self, data_record: DataRecord) -> None:
        with self._lock:
            super()._save_to_cache(data_record)

    def _retrieve_from_cache(self, idempotency_key: str) -> DataRecord | None:
        with self._lock:
            return cast("DataRecord | None", super()._retrieve_from_cache(idempotency_key))

    def _delete_from_cache(self, idempotency_key: str) -> None:
        with self._lock:
            super()._delete_from_cache(idempotency_key)

    # The steps of a run, from claim to end.

    def save_inprogress(self, data: Any, remaining_time_in_millis: int | None = None) -> None:
        """Claim the key of `data`.

        Raises:
            IdempotencyItemAlreadyExistsError: the key is taken. The error contains the stored record.
            IdempotencyValidationError: the key is taken by a run with a different payload.
            psycopg.Error: see `transact`.
        """
        run = _Run(data, self.function_name)
        self._thread.claim = run.claim
        try:
            super().save_inprogress(data, remaining_time_in_millis)
        except IdempotencyItemAlreadyExistsError as error:
            if error.old_data_record is not None and error.old_data_record.status == "INPROGRESS":
                self._thread.rejected = replace(run, claim=None)
            raise
        finally:
            self._thread.claim = None
        self._thread.runs.append(run)

    def save_success(self, data: Any, result: Any) -> None:
        """Store the function's result, unless another run has claimed the key.

        Raises:
            psycopg.Error: see `transact`.
        """
        try:
            with self._resumed_run(data):
                super().save_success(data, result)
        except _SupersededError:
            log.warning("A run of %s ended after its deadline; the newer run's result counts", self.function_name)

    def delete_record(self, data: Any, exception: Exception) -> None:
        """Free the key after a failure, unless another run has claimed it.

        Raises the same errors as `save_success`.
        """
        with self._resumed_run(data):
            super().delete_record(data, exception)

    @contextmanager
    def _resumed_run(self, data: Any) -> Iterator[None]:
        """Restore the function name and the claim with which the run for `data` began."""
        runs, rejected = self._thread.runs, self._thread.rejected
        index = next((index for index in reversed(range(len(runs))) if runs[index].data is data), None)
        if index is not None:
            run = runs[index]
            del runs[index:]  # including inner runs that were aborted
        elif rejected is not None and rejected.data is data:
            run, self._thread.rejected = rejected, None
        else:  # the run began in another thread, or without this layer
            yield
            return
        self._thread.function_name, self._thread.claim = run.function_name, run.claim
        try:
            yield
        finally:
            self._thread.claim = None

    # Powertools' interface for records.

    def _get_record(self, idempotency_key: str) -> DataRecord:
        record = transact(self._connect, lambda cursor: self._read(cursor, idempotency_key))
        if record is None:
            raise IdempotencyItemNotFoundError
        return record

    def _put_record(self, data_record: DataRecord) -> None:
        deadline = data_record.in_progress_expiry_timestamp
        values = self._values(data_record) | {
            "claim": self._thread.claim or uuid4(),
            "in_progress": None if deadline is None else timedelta(seconds=deadline / 1000 - time.time()),
        }

        def insert_or_read(cursor: Cursor) -> DataRecord | None:
            if cursor.execute(self._claim, values, prepare=False).fetchone() is not None:
                return None
            return self._read(cursor, data_record.idempotency_key)

        stored = transact(self._connect, insert_or_read)
        if stored is not None:
            self._validate_payload(data_payload=data_record, stored_data_record=stored)
            self._save_to_cache(stored)
            raise IdempotencyItemAlreadyExistsError(old_data_record=stored)

    def _update_record(self, data_record: DataRecord) -> None:
        values = self._values(data_record) | {"result": data_record.response_data}
        if not transact(self._connect, lambda cursor: cursor.execute(self._complete, values, prepare=False).rowcount):
            raise _SupersededError

    def _delete_record(self, data_record: DataRecord) -> None:
        values = self._values(data_record)
        transact(self._connect, lambda cursor: cursor.execute(self._delete, values, prepare=False))

    def _values(self, record: DataRecord) -> dict[str, Any]:
        """Return the statement parameters for a record."""
        expires_at = record.expiry_timestamp
        ttl = self.expires_after_seconds if expires_at is None else expires_at - time.time()
        return {
            "tenant": self._tenant,
            "key": record.idempotency_key,
            "now": self._now(),
            "claim": self._thread.claim,
            "ttl": timedelta(seconds=ttl),
            "payload_hash": record.payload_hash or None,
        }

    def _read(self, cursor: Cursor, key: str) -> DataRecord | None:
        """Read a record, with its times converted to this process's clock."""
        values = {"tenant": self._tenant, "key": key, "now": self._now()}
        row = cursor.execute(self._select, values, prepare=False).fetchone()
        if row is None:
            return None
        status, ttl, in_progress, result, payload_hash = row
        now = time.time()
        return DataRecord(
            idempotency_key=key,
            status=status,
            expiry_timestamp=round(now + ttl),
            in_progress_expiry_timestamp=None if in_progress is None else round((now + in_progress) * 1000),
            response_data=result,
            payload_hash=payload_hash,
        )

    def _now(self) -> datetime | None:
        return None if self._clock is None else self._clock()
