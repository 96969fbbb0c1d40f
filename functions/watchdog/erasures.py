"""Watchdog step for erasures: the S3 objects of erased documents, then tenants."""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from aws_lambda_powertools import Logger

from counterfoil import objects, tenant_erasure
from counterfoil.db import Database, maintenance_connection
from counterfoil.errors import safe_message
from functions.watchdog.steps import run_all

BATCH_SIZE = 200
"""Maximum rows of `object_erasure` per run."""
RUN_SECONDS = 10.0
"""Time limit per run, for objects and for tenants separately."""
ATTEMPT_WAIT = timedelta(minutes=1)
"""Delay before checking again whether an attempt in progress needs the object."""

_DUE = "SELECT id, bucket, key, version FROM object_erasure WHERE due_at <= %s ORDER BY due_at LIMIT %s"
_BEGIN = "SELECT before, needed FROM begin_object_erasure(%s, %s)"
_END = "SELECT end_object_erasure(%s, %s)"
_DEFER = "UPDATE object_erasure SET due_at = %s WHERE id = %s"
_POSTPONE = f"UPDATE object_erasure SET {objects.POSTPONE_SQL} WHERE id = %(id)s"  # noqa: S608  # a constant

logger = Logger()


def erase(
    database: Database,
    bucket: str | None,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
    *,
    batch_size: int = BATCH_SIZE,
) -> dict[str, int]:
    """Run due erasures until time runs out, as counterfoil_maintenance.

    The next run continues.

    Returns the numbers of finished erasures of objects and of tenants.

    Raises:
        StepsFailedError, DatabaseUnavailableError: erasures failed and were postponed. See `run_all`.
    """
    if bucket is None:  # without a bucket, no file was ever uploaded
        return {}

    return run_all(
        {
            "object_erasure": lambda: _erase_objects(database, clock, _limit_time(time_left), batch_size),
            "tenant_erasure": lambda: tenant_erasure.step(database, bucket, clock, _limit_time(time_left)),
        }
    )


def _limit_time(time_left: Callable[[], float]) -> Callable[[], float]:
    reserved = max(0.0, time_left() - RUN_SECONDS)
    return lambda: time_left() - reserved


def _erase_objects(
    database: Database, clock: Callable[[], datetime], time_left: Callable[[], float], batch_size: int
) -> int:
    with maintenance_connection(database) as connection:
        due = connection.execute(_DUE, [clock(), batch_size]).fetchall()
    erased = 0
    failed: Exception | None = None
    for id_, bucket, key, version in due:
        if time_left() < objects.MIN_SECONDS_LEFT:
            break
        try:
            erased += _erase_object(database, clock, time_left, id_, bucket, key, version)
        except Exception as error:  # noqa: BLE001  # any error: the other objects must still be erased
            failed = error
            logger.error("The erasure of an object failed", erasure=str(id_), error=safe_message(error))
            with maintenance_connection(database) as connection:
                connection.execute(_POSTPONE, {"now": clock(), "id": id_})
    if failed is not None:
        raise failed
    return erased


def _erase_object(
    database: Database,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
    id_: UUID,
    bucket: str,
    key: str,
    version: str | None,
) -> bool:
    """Erase an object, except for versions that documents need.

    Return whether the erasure is finished.
    """
    with maintenance_connection(database) as connection:
        row = connection.execute(_BEGIN, [id_, clock()]).fetchone()
        if row is None:
            connection.execute(_DEFER, [clock() + ATTEMPT_WAIT, id_])
            return False
    before, needed = row
    if None not in needed:
        try:
            objects.erase(bucket, key, time_left, version=version, before=before, retained=needed)
        except objects.UnfinishedError:
            with maintenance_connection(database) as connection:
                connection.execute(_DEFER, [clock(), id_])
            return False
    with maintenance_connection(database) as connection:
        connection.execute(_END, [id_, clock()])
    return True
