"""Removes the large payloads of tasks from S3 whose tasks are no more, or never came to be.

PostgreSQL lists these payloads before they are written, and in the transactions that delete tasks
(migrations/0012.tasks.sql), so that no search of the bucket is needed. Failed deletions are repeated.
"""

from collections.abc import Callable
from functools import partial

from counterfoil import aws
from counterfoil.db import Database, keeper
from counterfoil.errors import InvalidSettingsError, ServiceUnavailableError
from counterfoil.http import within
from counterfoil.tasks import claim_check

AT_ONCE = 1000
"""Payloads in one round: as many as S3 deletes in one call."""

_DUE = "SELECT key FROM payload_removal WHERE due_at < now() ORDER BY due_at LIMIT %s"


def remove_payloads(
    database: Database, bucket: str | None, time_left: Callable[[], float], *, at_once: int = AT_ONCE
) -> int:
    """Remove what is due, those that are due longest first. `database` is signed in to as counterfoil_keeper.

    Returns how many are removed.

    Raises:
        ServiceUnavailableError, RejectedRequestError: S3 did not delete all of them. The others are tried again.
        InvalidSettingsError: there is something to be removed, and no bucket.
        DatabaseUnavailableError: what was removed is removed again later.
    """
    with keeper(database) as connection:
        keys = [key for (key,) in connection.execute(_DUE, [at_once])]
    if not keys:
        return 0
    if bucket is None:
        raise InvalidSettingsError("UPLOADS_BUCKET is not set: it names the bucket that large payloads are in.")
    with aws.errors_mapped():
        refused = within(time_left(), partial(claim_check.remove, bucket, keys))
    removed = [key for key in keys if key not in refused]
    with keeper(database) as connection:
        connection.execute("DELETE FROM payload_removal WHERE key = ANY(%s)", [removed])
    if refused:
        codes = ", ".join(sorted(set(refused.values())))
        raise ServiceUnavailableError(f"S3 did not delete {len(refused)} of {len(keys)} payloads: {codes}")
    return len(removed)
