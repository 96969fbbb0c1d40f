"""Pin pools and queue their daily offers.

Offers are queued when they are due, for late users, and on operators' requests.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from aws_lambda_powertools import Logger
from pydantic import BaseModel, ConfigDict, Field

from counterfoil import audit
from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.delivery.outbox import Outbox, TimeLeft
from counterfoil.delivery.work import OutboxMessage
from counterfoil.errors import PermanentError, TransientError, safe_message
from counterfoil.metrics import Metric, emit
from counterfoil.offers import pinning
from counterfoil.offers.schedule import Due, Rules, current_due, due, due_by_request
from counterfoil.validation import ValidationProblem, validate


class InvalidRunError(PermanentError):
    """The event is not a valid request, or its tenant does not exist."""


class OffersRequest(BaseModel):
    """An operator's request for the daily offers for one date in one time zone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    day: date | None = Field(default=None, alias="date")
    """Date of the offers; None for the latest date for which 9:00 has passed."""
    timezone: str = Field(min_length=1, max_length=64)
    tenant: str | None = None
    """Slug of a tenant; None for all tenants."""
    by: str = Field(min_length=1, max_length=254)
    """The operator, for the audit trail."""

    @classmethod
    def of(cls, event: Any) -> "OffersRequest":
        """Validate an event.

        Raises:
            InvalidRunError: the event is not a valid request.
        """
        return validate(cls, event, _to_error)


def _to_error(problem: ValidationProblem) -> InvalidRunError:
    return InvalidRunError(f"{'.'.join(map(str, problem.location)) or 'The request'} is invalid: {problem.message}")


MIN_SECONDS_LEFT = 30.0
"""Minimum seconds left to start processing a tenant or pool. The next invocation processes the others."""
RESERVED_SECONDS = 10
"""Seconds of the remaining time reserved for sending messages and returning. A transaction may use all others."""

logger = Logger()


class UnfinishedError(TransientError):
    """Some pools failed or were not processed. The others are done."""


class Tenant(NamedTuple):
    """Id and slug of a tenant."""

    id: UUID
    slug: str


class Pool(NamedTuple):
    """A pool with users whose offers are not queued yet."""

    tenant: Tenant
    due: Due
    is_late: bool
    """Whether the pool was pinned before these users joined."""
    people: int


class Scheduler:
    """Pins pools and queues their shards."""

    def __init__(
        self, database: Database, outbox: Outbox, clock: Callable[[], datetime], rules: Rules, shard_users: int
    ) -> None:
        """`shard_users` is the maximum number of users per shard."""
        self._database = database
        self._outbox = outbox
        self._clock = clock
        self._rules = rules
        self._shard_users = shard_users

    def run_due(self, time_left: TimeLeft) -> dict[str, int]:
        """Queue all due pools. Return the numbers of pools, shards and users.

        Small pools come first, so that a large pool does not delay the others.

        Raises:
            DatabaseUnavailableError: nothing was done.
            UnfinishedError: some pools failed or were not processed. The others are done.
        """
        now = self._clock()

        def find_pools(connection: Connection, tenant: Tenant) -> Iterator[Pool]:
            today = [current_due(zone, now) for zone in pinning.zones(connection, tenant.id)]
            queued = pinning.pinned_pools(connection, tenant.id, today)
            new = set(due(now, [due_date.zone for due_date in today], queued))
            served = [due_date for due_date in today if due_date in new or (due_date.zone, due_date.date) in queued]
            for due_date, people in pinning.pending_pools(connection, tenant.id, served):
                yield Pool(tenant, due_date, due_date not in new, people)

        return self._pin_all(self._tenants(None), find_pools, time_left)

    def run_requested(self, request: OffersRequest, time_left: TimeLeft) -> dict[str, Any]:
        """Pin the requested pools, with an audit entry for each.

        Skip pools that have no pending users.

        Return the date, and the same counts as `run_due`.

        Raises the same errors as `run_due`, and:
            InvalidRunError: the tenant does not exist or is disabled, or there are no tenants.
            UnknownZoneError, NoSuchDateError, NotDueError: see `schedule.due_by_request`.
        """
        now = self._clock()
        due_date = due_by_request(request.timezone, request.day, now)
        tenants = self._tenants(request.tenant)
        if not tenants:
            raise InvalidRunError(f"Unknown tenant '{request.tenant}'" if request.tenant else "No tenant exists")

        def find_pools(connection: Connection, tenant: Tenant) -> Iterator[Pool]:
            is_late = bool(pinning.pinned_pools(connection, tenant.id, [due_date]) & {(due_date.zone, due_date.date)})
            if is_late and due_date.expires_at <= now:
                return  # users who joined later get no offers for an expired date
            for _, people in pinning.pending_pools(connection, tenant.id, [due_date]):
                yield Pool(tenant, due_date, is_late, people)

        return {"date": str(due_date.date), **self._pin_all(tenants, find_pools, time_left, request.by)}

    def _tenants(self, slug: str | None) -> list[Tenant]:
        with self._database.delivery() as connection:
            rows = connection.execute(
                "SELECT id, slug FROM tenant WHERE (%(slug)s::text IS NULL OR slug = %(slug)s) "
                "AND disabled_at IS NULL ORDER BY slug",
                {"slug": slug},
            )
            return [Tenant(*row) for row in rows]

    def _pin_all(
        self,
        tenants: Sequence[Tenant],
        find_pools: Callable[[Connection, Tenant], Iterator[Pool]],
        time_left: TimeLeft,
        by: str | None = None,
    ) -> dict[str, int]:
        failed: list[str] = []
        unprocessed = shards = 0
        pools: list[Pool] = []
        for tenant in tenants:
            if time_left() < MIN_SECONDS_LEFT:
                unprocessed += 1
                continue
            with _collect_errors(failed, tenant=tenant.slug), self._transaction(tenant, time_left) as connection:
                pools += find_pools(connection, tenant)
        pinned: list[Pool] = []
        for pool in sorted(pools, key=lambda pool: pool.people):
            if time_left() < MIN_SECONDS_LEFT:
                unprocessed += 1
                continue
            with _collect_errors(failed, tenant=pool.tenant.slug, zone=pool.due.zone, date=str(pool.due.date)):
                messages = retry_on_conflict(partial(self._pin, pool, time_left, by))
                pinned += [pool] if messages else []
                shards += len(messages)
                self._outbox.send(messages, time_left=time_left)
        counts = {"pools": len(pinned), "shards": shards, "people": sum(pool.people for pool in pinned)}
        logger.info("offers scheduled", extra=counts | {"failed": len(failed), "unprocessed": unprocessed})
        emit({Metric.POOLS_PINNED: len(pinned), Metric.POOLS_NOT_PINNED: len(failed) + unprocessed})
        if failed or unprocessed:
            raise UnfinishedError(
                "Not all daily offers were queued. "
                f"Failed tenants or pools: {len(failed)}. Not processed: {unprocessed}."
            )
        return counts

    def _pin(self, pool: Pool, time_left: TimeLeft, by: str | None) -> list[OutboxMessage]:
        """Pin a pool. `by` is the operator who requested it; None for the schedule."""
        pin = pinning.pin_late if pool.is_late else pinning.pin
        tenant_id, due, now = pool.tenant.id, pool.due, self._clock()
        with self._transaction(pool.tenant, time_left) as connection:
            messages = pin(connection, tenant_id, due, self._rules, self._shard_users, now)
            if messages and by is not None:
                detail = {"date": str(due.date), "timezone": due.zone, "late": pool.is_late}
                targets = [str(pinning.pool_id(tenant_id, due))]
                audit.record(connection, tenant_id, audit.AuditRecord(by, "offers queued", targets, now, detail=detail))
            return messages

    @contextmanager
    def _transaction(self, tenant: Tenant, time_left: TimeLeft) -> Iterator[Connection]:
        """Open a transaction that times out before the invocation.

        Pinning a million users can take most of a minute.
        """
        with self._database.tenant(tenant.id, seconds=max(1, int(time_left()) - RESERVED_SECONDS)) as connection:
            yield connection


@contextmanager
def _collect_errors(failed: list[str], **context: Any) -> Iterator[None]:
    """Append an error to `failed` instead of raising it, so other pools continue."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # any error: the other pools must still be queued
        failed.append(safe_message(error))
        logger.error("Daily offers were not queued", extra=context | {"error": failed[-1]})
