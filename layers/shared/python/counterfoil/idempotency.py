"""Powertools Idempotency in PostgreSQL: a function runs once for a key, and what it returned is returned again.

`PostgresPersistence` is a persistence layer for `@idempotent` and `@idempotent_function` of Powertools for AWS Lambda,
beside those for DynamoDB and Redis. A claim is one INSERT that also takes over what has expired: nothing is looked up
first. What it promises beyond Powertools' own layers, and what it does not, is in docs/idempotency.md.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import RLock, local
from typing import Any, TypeVar, cast
from uuid import UUID, uuid4

from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer, IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyInconsistentStateError,
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyKeyError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from psycopg.sql import SQL, Identifier

from counterfoil.db import CommitUnknownError, Connection, Database, retry_conflicts
from counterfoil.errors import ConflictError, DeferredError, PermanentError

TABLE = "idempotency"
KEPT = timedelta(hours=24)
"""How long a result is returned again."""
GRACE_SECONDS = 30.0
"""For how long a run that was asked to stop is still taken for running: it may not hear of it at once."""
WAIT = timedelta(seconds=30)
"""After which work whose key is running elsewhere is tried again. It loses no attempt."""

T = TypeVar("T")

log = logging.getLogger(__name__)

# `now` is the database's unless a clock was given. Deadlines come as what is left until them, and go so.
#
# Of several at once, one inserts or takes over; the others wait for its commit, and find that none of the conditions
# holds any more. The last condition is for a claim whose commit nobody heard.
_CLAIM = """
INSERT INTO {table} AS held (tenant_id, key, status, claim, claimed_at, in_progress_until, expires_at, payload_hash)
SELECT %(tenant)s, %(key)s, 'INPROGRESS', %(claim)s::uuid, now, now + %(in_progress)s::interval,
       now + %(lives)s::interval, %(payload_hash)s::text
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
ON CONFLICT (tenant_id, key) DO UPDATE SET status = 'INPROGRESS', claim = EXCLUDED.claim,
    claims = held.claims + (held.claim <> EXCLUDED.claim)::int, claimed_at = EXCLUDED.claimed_at,
    in_progress_until = EXCLUDED.in_progress_until, completed_at = NULL, expires_at = EXCLUDED.expires_at,
    payload_hash = EXCLUDED.payload_hash, result = NULL, result_hash = NULL
WHERE held.expires_at < EXCLUDED.claimed_at
   OR (held.status = 'INPROGRESS' AND held.in_progress_until < EXCLUDED.claimed_at)
   OR held.claim = EXCLUDED.claim
RETURNING true
"""

# In a transaction that tried to claim it, the row is locked, and is the one that the claim failed on.
_READ = """
SELECT status, extract(epoch FROM expires_at - now)::float8, extract(epoch FROM in_progress_until - now)::float8,
       coalesce(result, ''), coalesce(payload_hash, '')
FROM {table}, (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
WHERE tenant_id = %(tenant)s AND key = %(key)s
"""

# A record that is gone, since another run took it over and failed, is written anew: this run succeeded.
_COMPLETE = """
INSERT INTO {table} AS held (tenant_id, key, status, claim, claimed_at, completed_at, expires_at, payload_hash,
                                 result, result_hash)
SELECT %(tenant)s, %(key)s, 'COMPLETED', coalesce(%(claim)s::uuid, gen_random_uuid()), now, now,
       now + %(lives)s::interval, %(payload_hash)s::text, %(result)s::text, sha256(convert_to(%(result)s, 'UTF8'))
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
ON CONFLICT (tenant_id, key) DO UPDATE SET status = 'COMPLETED', completed_at = EXCLUDED.completed_at,
    expires_at = EXCLUDED.expires_at, payload_hash = coalesce(EXCLUDED.payload_hash, held.payload_hash),
    result = EXCLUDED.result, result_hash = EXCLUDED.result_hash
WHERE %(claim)s::uuid IS NULL OR held.claim = %(claim)s::uuid
RETURNING true
"""

_DELETE = """
DELETE FROM {table}
WHERE tenant_id = %(tenant)s AND key = %(key)s AND (%(claim)s::uuid IS NULL OR claim = %(claim)s::uuid)
"""


class InvalidKeyError(PermanentError):
    """An idempotency key is missing, or was used before with a payload that differs in what must not differ."""


class _OutrunError(Exception):
    """A run ended after its time, and another has taken its key over."""


@dataclass
class _Run:
    """A function that runs under a claim of this thread."""

    data: Any
    """What the function was given, by identity: Powertools hands the same object to each call about one run."""
    function_name: str
    claim: UUID | None = field(default_factory=uuid4)
    """None where it goes on under whatever claim its key has."""


class _Thread(local):
    """What each thread knows by itself."""

    def __init__(self) -> None:
        self.function_name = ""
        self.runs: list[_Run] = []
        """From the outermost to the innermost."""
        self.refused: _Run | None = None
        """The last one whose key was running already: a durable function that is replayed goes on all the same."""
        self.claim: UUID | None = None
        """Of the run that the call is about; None where it is about none, and any claim will do."""


class PostgresPersistence(BasePersistenceLayer):
    """Keeps the records of one tenant in a table, which docs/idempotency.md describes.

    One object may be shared by threads, and by functions that call one another. As with every layer of Powertools, the
    first configuration that it is used with is the one that counts: functions with another one need an object of their
    own.
    """

    def __init__(
        self,
        database: Database,
        tenant_id: UUID,
        *,
        table: str = TABLE,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        """`table` may have its schema in front: `shop.idempotency`.

        `clock` says what time it is in place of the database, whose clock is the same for every process.
        """
        name = Identifier(*table.split("."))
        self._claim, self._look, self._complete, self._free = (
            SQL(statement).format(table=name).as_bytes() for statement in (_CLAIM, _READ, _COMPLETE, _DELETE)
        )
        self._thread = _Thread()
        self._lock = RLock()
        self._database = database
        self._tenant_id = tenant_id
        self._clock = clock
        super().__init__()  # type: ignore[no-untyped-call]

    # -- what Powertools keeps in the object, and threads and nested calls would take from one another ----------------

    @property
    def function_name(self) -> str:
        """How the keys of the function begin that this thread is about to run, or to end."""
        return self._thread.function_name

    @function_name.setter
    def function_name(self, name: str) -> None:
        self._thread.function_name = name

    def configure(
        self, config: IdempotencyConfig, function_name: str | None = None, key_prefix: str | None = None
    ) -> None:
        """Take over a configuration, once; the name of the function, each time."""
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

    # -- a run, from its claim to its end -----------------------------------------------------------------------------

    def save_inprogress(self, data: Any, remaining_time_in_millis: int | None = None) -> None:
        """Claim the key of `data`.

        Raises:
            IdempotencyItemAlreadyExistsError: it is taken. The record that holds it comes with the error.
            IdempotencyValidationError: it is taken, by another payload.
            ConflictError, DatabaseUnavailableError, RejectedStatementError: mapped from psycopg.
        """
        run = _Run(data, self.function_name)
        self._thread.claim = run.claim
        try:
            super().save_inprogress(data, remaining_time_in_millis)
        except IdempotencyItemAlreadyExistsError as error:
            if error.old_data_record is not None and error.old_data_record.status == "INPROGRESS":
                self._thread.refused = replace(run, claim=None)
            raise
        finally:
            self._thread.claim = None
        self._thread.runs.append(run)

    def save_success(self, data: Any, result: Any) -> None:
        """Keep what the function returned, unless another run has taken its key over.

        Raises:
            ConflictError, DatabaseUnavailableError, RejectedStatementError: mapped from psycopg.
        """
        try:
            with self._ending(data):
                super().save_success(data, result)
        except _OutrunError:
            log.warning("A run of %s ended after its time: the result of the newer one counts", self.function_name)

    def delete_record(self, data: Any, exception: Exception) -> None:
        """Free the key after a failure, unless another run has taken it over. Raises as `save_success`."""
        with self._ending(data):
            super().delete_record(data, exception)

    @contextmanager
    def _ending(self, data: Any) -> Iterator[None]:
        """Under the name and the claim with which the run of `data` began."""
        runs, refused = self._thread.runs, self._thread.refused
        place = next((place for place in reversed(range(len(runs))) if runs[place].data is data), None)
        if place is not None:
            run = runs[place]
            del runs[place:]  # those inside it never said that they ended
        elif refused is not None and refused.data is data:
            run, self._thread.refused = refused, None
        else:  # ended without having begun here
            yield
            return
        self._thread.function_name, self._thread.claim = run.function_name, run.claim
        try:
            yield
        finally:
            self._thread.claim = None

    # -- the record ---------------------------------------------------------------------------------------------------

    def _get_record(self, idempotency_key: str) -> DataRecord:
        record = self._transact(lambda connection: self._read(connection, idempotency_key))
        if record is None:
            raise IdempotencyItemNotFoundError
        return record

    def _put_record(self, data_record: DataRecord) -> None:
        ends = data_record.in_progress_expiry_timestamp
        values = self._values(data_record) | {
            "claim": self._thread.claim or uuid4(),
            "in_progress": None if ends is None else timedelta(seconds=ends / 1000 - time.time()),
        }

        def put(connection: Connection) -> DataRecord | None:
            if connection.execute(self._claim, values).fetchone() is not None:
                return None
            return self._read(connection, data_record.idempotency_key)

        held = self._transact(put)
        if held is not None:
            self._validate_payload(data_payload=data_record, stored_data_record=held)
            self._save_to_cache(held)
            raise IdempotencyItemAlreadyExistsError(old_data_record=held)

    def _update_record(self, data_record: DataRecord) -> None:
        values = self._values(data_record) | {"result": data_record.response_data}
        if not self._transact(lambda connection: connection.execute(self._complete, values).rowcount):
            raise _OutrunError

    def _delete_record(self, data_record: DataRecord) -> None:
        values = self._values(data_record)
        self._transact(lambda connection: connection.execute(self._free, values).rowcount)

    def _values(self, record: DataRecord) -> dict[str, Any]:
        """What the statements are told of a record."""
        ends = record.expiry_timestamp
        lives = self.expires_after_seconds if ends is None else ends - time.time()
        return {
            "tenant": self._tenant_id,
            "key": record.idempotency_key,
            "now": self._now(),
            "claim": self._thread.claim,
            "lives": timedelta(seconds=lives),
            "payload_hash": record.payload_hash or None,
        }

    def _read(self, connection: Connection, key: str) -> DataRecord | None:
        """A record, with the times at which this process's clock will say that they have come."""
        values = {"tenant": self._tenant_id, "key": key, "now": self._now()}
        row = connection.execute(self._look, values).fetchone()
        if row is None:
            return None
        status, lives, in_progress, result, payload_hash = row
        here = time.time()
        return DataRecord(
            idempotency_key=key,
            status=status,
            expiry_timestamp=round(here + lives),
            in_progress_expiry_timestamp=None if in_progress is None else round((here + in_progress) * 1000),
            response_data=result,
            payload_hash=payload_hash,
        )

    def _now(self) -> datetime | None:
        return None if self._clock is None else self._clock()

    def _transact(self, action: Callable[[Connection], T]) -> T:
        """Run `action`, each statement of which may run again, in a transaction of the tenant.

        One whose commit nobody heard runs again as well: it finds what it wrote, by its claim.
        """

        def transaction() -> T:
            with self._database.tenant(self._tenant_id) as connection:
                return action(connection)

        try:
            return retry_conflicts(transaction)
        except CommitUnknownError:
            return retry_conflicts(transaction)


class Config(IdempotencyConfig):
    """Powertools' configuration with other defaults: a result is kept for 24 hours, and keys are SHA-256.

    Two payloads with the same MD5, Powertools' default, can be made on purpose.
    """

    def __init__(
        self,
        event_key_jmespath: str = "",
        *,
        time_left: Callable[[], float] | None = None,
        expires_after_seconds: int = int(KEPT.total_seconds()),
        hash_function: str = "sha256",
        **options: Any,
    ) -> None:
        """`time_left`: seconds until the function is asked to stop, where it is not the Lambda context that knows.

        Without either, a process that dies keeps its key until the record expires. `options` are Powertools'.
        """
        super().__init__(
            event_key_jmespath, expires_after_seconds=expires_after_seconds, hash_function=hash_function, **options
        )
        if time_left is not None:
            self.register_lambda_context(cast(LambdaContext, _Deadline(time_left, expires_after_seconds)))


@dataclass(frozen=True)
class _Deadline:
    """As much of a Lambda context as Powertools asks for."""

    time_left: Callable[[], float]
    at_most: float

    def get_remaining_time_in_millis(self) -> int:
        return int(min(self.time_left() + GRACE_SECONDS, self.at_most) * 1000)


@contextmanager
def errors_mapped(now: Callable[[], datetime], *, wait: timedelta = WAIT) -> Iterator[None]:
    """Around the call of an idempotent function: Powertools' errors become those of `counterfoil.errors`.

    The function's own errors pass as they are. `now` is the clock of the delivery that parks the work.

    Raises:
        DeferredError: the key is running elsewhere. The work is parked for `wait`, without spending a try.
        InvalidKeyError: the key was used with another payload, or the work has none though it must.
        ConflictError, DatabaseUnavailableError, RejectedStatementError: what the database said of the record.
    """
    try:
        yield
    except IdempotencyAlreadyInProgressError as error:
        raise DeferredError("The same idempotency key is running elsewhere", until=now() + wait) from error
    except IdempotencyInconsistentStateError as error:
        raise ConflictError("The record of an idempotency key changed each time that it was looked at") from error
    except IdempotencyValidationError as error:
        raise InvalidKeyError("The idempotency key was used before, with another payload") from error
    except IdempotencyKeyError as error:
        raise InvalidKeyError("The work has no idempotency key") from error
    except IdempotencyPersistenceLayerError as error:
        cause = error.__cause__
        if cause is None:
            raise
        raise cause from cause.__cause__
