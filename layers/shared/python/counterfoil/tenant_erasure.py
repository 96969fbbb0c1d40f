"""Erases tenants: every row in every table and every version of every object.

A request stores the erasure and renames the tenant, so nothing new can reach it. Then `step` deletes the tenant's rows,
in short transactions for one table each, and after that its objects. A table without an index on tenant_id is read page
by page, and each run continues at the stored page. Attempts that were in progress at the time of the request may still
write rows and objects. Therefore, everything is deleted a second time after the longest possible attempt has ended.
Only the salted hash of the slug remains, for SLUG_RETENTION. Until then, late uploads are erased and no other tenant
can use the slug.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from aws_lambda_powertools import Logger

from counterfoil import audit, objects
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection, Database, maintenance_connection
from counterfoil.documents.erasure import MAX_ATTEMPT_DURATION
from counterfoil.errors import DatabaseUnavailableError, RejectedStatementError, safe_message

SLUG_RETENTION = timedelta(days=15)
"""Retention of the slug's hash. It must exceed SQS's message retention of 14 days."""
BATCH_SIZE = 5_000
"""Maximum number of rows deleted, or pages read, in one transaction. Each timeout divides it by ten."""
STEP_SECONDS = 2.0
"""Maximum duration of a transaction, except the one that deletes the tenant. A run is long enough to try every batch
size once."""
ACTOR = "watchdog"
PREFIXES = (
    "uploads/{slug}/",
    "exports/{slug}/",
    "exports/erased-{id}/",
    "attachments/{id}/",
    "children/{id}/",
    "tasks/{id}/",
    "dead-letters/{id}/",
)
"""Key prefixes of a tenant's objects. Mail in inbox/ can belong to several tenants, so its erasure is scheduled in
`object_erasure`."""

logger = Logger()


@dataclass(frozen=True)
class TenantErasure:
    """Progress of a tenant's erasure."""

    requested_at: datetime
    rows: int
    """Number of rows deleted so far, excluding rows deleted by a cascade."""
    objects: int
    """Number of versions and delete markers erased so far."""
    finished_at: datetime | None


_BEGIN = "SELECT hash, chain_number, chain_hash FROM begin_tenant_erasure(%s, %s)"
_FIND = "SELECT requested_at, row_count, object_count, finished_at FROM find_tenant_erasure(%s)"


def request(connection: Connection, slug: str, now: datetime, *, by: str) -> TenantErasure | None:
    """Request a tenant's erasure as the delivery role.

    Return None if the tenant does not exist.

    The tenant's own audit trail is erased too. Therefore, an entry in the unassigned audit trail records the slug's
    hash, and the number and hash of the last entry in the tenant's audit trail.
    """
    row = connection.execute(_BEGIN, [slug, now]).fetchone()
    if row is None:
        return None
    slug_hash, number, chain_hash = row
    detail = {"chain_number": number, "chain_hash": None if chain_hash is None else chain_hash.hex()}
    audit.record(connection, None, AuditRecord(by, "tenant erasure requested", [slug_hash.hex()], now, detail=detail))
    return find(connection, slug)


def find(connection: Connection, slug: str) -> TenantErasure | None:
    """Return the erasure of the tenant that had this slug, or None.

    Runs as the delivery role.

    A finished erasure is stored for SLUG_RETENTION.
    """
    row = connection.execute(_FIND, [slug]).fetchone()
    return None if row is None else TenantErasure(*row)


_DUE = """
SELECT id, slug, slug_hash, next_table FROM tenant_erasure WHERE finished_at IS NULL AND due_at <= %s
ORDER BY due_at, requested_at
"""
_TABLES = "SELECT tenant_tables()"
_ERASE_ROWS = "SELECT erase_tenant_rows(%s, %s, %s)"
_ERASE_TENANT = "SELECT erase_tenant(%s)"
_QUEUE_LAST = "UPDATE tenant_erasure SET due_at = %s WHERE id = %s"
_POSTPONE = f"UPDATE tenant_erasure SET {objects.POSTPONE_SQL} WHERE id = %(id)s"  # noqa: S608  # a constant
_RESTART = "UPDATE tenant_erasure SET next_table = NULL WHERE id = %s"
_ADD_OBJECT_COUNT = "UPDATE tenant_erasure SET object_count = object_count + %s WHERE id = %s"
_CLEAR = """
UPDATE tenant_erasure
SET cleared_at = coalesce(cleared_at, %(now)s), due_at = %(due_at)s, failures = 0, next_table = NULL
WHERE id = %(id)s
"""
_FINISH = """
UPDATE tenant_erasure SET finished_at = %(now)s, id = NULL, slug = NULL
WHERE id = %(id)s AND cleared_at <= %(before)s RETURNING row_count, object_count
"""
_DELETE_EXPIRED = "DELETE FROM tenant_erasure WHERE finished_at < %s"


def step(
    database: Database,
    bucket: str,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
    *,
    at_once: int = BATCH_SIZE,
) -> int:
    """Continue the due erasures while time is left. Runs as counterfoil_maintenance.

    The next run continues unfinished erasures. A failed erasure is postponed and does not stop the others. `at_once` is
    the maximum number of rows deleted, or pages read, in one transaction. Returns the number of erasures that finished.

    Raises:
        ServiceUnavailableError, RejectedRequestError, DatabaseUnavailableError, ConflictError: an erasure failed.
    """
    with maintenance_connection(database) as connection:
        connection.execute(_DELETE_EXPIRED, [clock() - SLUG_RETENTION])
        tenants = connection.execute(_DUE, [clock()]).fetchall()
    finished = 0
    last_error: Exception | None = None
    for tenant in tenants:
        if time_left() < STEP_SECONDS:
            break
        try:
            finished += _erase(database, bucket, clock, time_left, tenant, at_once)
        except Exception as error:  # noqa: BLE001  # continue with the other tenants
            last_error = error
            logger.error("The erasure of a tenant failed", tenant_id=str(tenant[0]), error=safe_message(error))
            with maintenance_connection(database) as connection:
                connection.execute(_POSTPONE, {"now": clock(), "id": tenant[0]})
                if isinstance(error, RejectedStatementError):  # a late attempt wrote to a finished table
                    connection.execute(_RESTART, [tenant[0]])
    if last_error is not None:
        raise last_error
    return finished


def _erase(
    database: Database,
    bucket: str,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
    tenant: tuple[UUID, str, bytes, str | None],
    at_once: int,
) -> bool:
    """Erase a tenant's rows, then its objects.

    Returns True if the erasure is finished.
    """
    id_, slug, slug_hash, table = tenant
    if not (
        _erase_rows(database, id_, table, time_left, at_once) and _erase_objects(database, bucket, id_, slug, time_left)
    ):
        with maintenance_connection(database) as connection:
            connection.execute(_QUEUE_LAST, [clock(), id_])
        return False
    now = clock()
    with maintenance_connection(database) as connection:
        connection.execute(_CLEAR, {"now": now, "due_at": now + MAX_ATTEMPT_DURATION, "id": id_})
        row = connection.execute(_FINISH, {"now": now, "id": id_, "before": now - MAX_ATTEMPT_DURATION}).fetchone()
        if row is None:
            return False
        detail = {"rows": row[0], "objects": row[1]}
        audit.record(connection, None, AuditRecord(ACTOR, "tenant erased", [slug_hash.hex()], now, detail=detail))
    return True


def _erase_rows(
    database: Database, id_: UUID, next_table: str | None, time_left: Callable[[], float], at_once: int
) -> bool:
    """Delete the tenant's rows, then the tenant.

    Returns False if too little time was left or rows were locked.
    """
    with maintenance_connection(database) as connection:
        tables = [table for (table,) in connection.execute(_TABLES)]
    if next_table in tables:
        del tables[: tables.index(next_table)]
    while tables:
        if time_left() < STEP_SECONDS:
            return False
        try:
            with maintenance_connection(database, seconds=STEP_SECONDS) as connection:
                ((is_finished,),) = connection.execute(_ERASE_ROWS, [id_, tables[0], at_once]).fetchall()
        except DatabaseUnavailableError:
            at_once //= 10
            if at_once == 0 or time_left() < STEP_SECONDS:
                raise
            continue
        if is_finished is None:
            return False
        if is_finished:
            del tables[0]
    remaining = round(time_left(), 1)  # deletes by cascade can take longer than STEP_SECONDS
    if remaining < STEP_SECONDS:
        return False
    with maintenance_connection(database, seconds=remaining) as connection:
        connection.execute(_ERASE_TENANT, [id_])
    return True


def _erase_objects(database: Database, bucket: str, id_: UUID, slug: str, time_left: Callable[[], float]) -> bool:
    """Erase the tenant's objects. Returns False if too little time was left."""
    for prefix in PREFIXES:
        try:
            erased = objects.erase(bucket, prefix.format(slug=slug, id=id_), time_left)
        except objects.UnfinishedError as error:
            _add_object_count(database, id_, error.erased)
            return False
        _add_object_count(database, id_, erased)
    return True


def _add_object_count(database: Database, id_: UUID, erased: int) -> None:
    if erased:
        with maintenance_connection(database) as connection:
            connection.execute(_ADD_OBJECT_COUNT, [erased, id_])
