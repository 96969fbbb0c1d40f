"""The record of every call to a language model: what it was for, how it ended, how long it took and what it cost.

A tenant's call is on record, and counted against the budget of its day (UTC), before it is made. So one whose process
dies has been counted; and each has been counted once, however many are made at the same time and whatever becomes of
the commit: a call is known by an id that is made before.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from uuid import UUID

from aws_lambda_powertools import Logger

from counterfoil.db import CommitUnknownError, Database
from counterfoil.errors import CounterfoilError, DeferredError, sentence

logger = Logger()

_BEGIN = """
INSERT INTO llm_call (id, tenant_id, work_id, purpose, provider, model, created_at)
VALUES (%(id)s, %(tenant_id)s, %(work_id)s, %(purpose)s, %(provider)s, %(model)s, %(created_at)s)
ON CONFLICT DO NOTHING RETURNING id
"""

# Whoever calls for the same tenant waits here until this is committed, or is no call after all.
_COUNT = """
INSERT INTO llm_day (tenant_id, day, calls) VALUES (%(tenant_id)s, %(day)s, 1)
ON CONFLICT (tenant_id, day) DO UPDATE SET calls = llm_day.calls + 1
RETURNING calls
"""
_OF_WORK = (
    "SELECT count(*) FROM llm_call WHERE work_id = %(work_id)s AND created_at >= %(since)s AND created_at < %(until)s"
)

_END = """
UPDATE llm_call
SET outcome = %(outcome)s, input_tokens = %(input_tokens)s, output_tokens = %(output_tokens)s,
    latency_ms = %(latency_ms)s, cost_usd = %(cost_usd)s
WHERE id = %(id)s
"""

# What belongs to no tenant is delivery's own: the smallest call, to see whether the service is back.
_WRITE = """
INSERT INTO llm_call (id, purpose, provider, model, outcome, input_tokens, output_tokens, latency_ms, cost_usd,
                      created_at)
VALUES (%(id)s, %(purpose)s, %(provider)s, %(model)s, %(outcome)s, %(input_tokens)s, %(output_tokens)s, %(latency_ms)s,
        %(cost_usd)s, %(created_at)s)
ON CONFLICT DO NOTHING
"""


class BudgetSpentError(DeferredError):
    """No question more may be asked before `until`. Who can do without an answer goes on; nothing has been asked."""


@dataclass(frozen=True)
class Budget:
    """Calls on a day of UTC: at most so many of one tenant, and so many for one piece of work (a document)."""

    of_tenant: int
    of_work: int


@dataclass(frozen=True)
class Call:
    """One call, before it is made."""

    id: UUID
    tenant_id: UUID | None
    work_id: UUID | None
    purpose: str
    provider: str
    model: str
    created_at: datetime


@dataclass(frozen=True)
class End:
    """How a call ended. Tokens and cost are None where no answer said how many."""

    outcome: str
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: int
    cost_usd: float | None


def begin(database: Database, call: Call, budget: Budget) -> None:
    """Put a tenant's call on record, and count it; one that belongs to no tenant is counted for nobody.

    Raises:
        BudgetSpentError: it must not be made. It is neither on record nor counted.
        CounterfoilError: mapped from psycopg's errors. It must not be made.
    """
    if call.tenant_id is None:
        return
    try:
        _begin(database, call.tenant_id, call, budget)
    except CommitUnknownError:
        _begin(database, call.tenant_id, call, budget)


def _begin(database: Database, tenant_id: UUID, call: Call, budget: Budget) -> None:
    day = call.created_at.astimezone(UTC).date()
    since = datetime.combine(day, time(), UTC)
    values = vars(call) | {"day": day, "since": since, "until": since + timedelta(days=1)}
    with database.tenant(tenant_id) as connection:
        if connection.execute(_BEGIN, values).fetchone() is None:
            return  # the commit that was in doubt had happened
        ((of_tenant,),) = connection.execute(_COUNT, values).fetchall()
        ((of_work,),) = connection.execute(_OF_WORK, values).fetchall()
        for spent, limit, whose in (
            (of_tenant, budget.of_tenant, f"today's budget of {budget.of_tenant} questions"),
            (of_work, budget.of_work, f"today's budget of {budget.of_work} questions for one document"),
        ):
            if spent > limit:
                message = f"The language model was not asked: {whose} is used up ({day:%Y-%m-%d}, UTC)."
                raise BudgetSpentError(message, until=values["until"])


def end(database: Database, call: Call, how: End) -> None:
    """Write down how a call ended. What cannot be written is logged: the answer is worth more."""
    try:
        try:
            _end(database, call, how)
        except CommitUnknownError:
            _end(database, call, how)
    except CounterfoilError as error:
        logger.warning(
            "How a call to the language model ended is not on record", call_id=str(call.id), error=sentence(error)
        )


def _end(database: Database, call: Call, how: End) -> None:
    if call.tenant_id is None:
        with database.delivery() as connection:
            connection.execute(_WRITE, vars(call) | vars(how))
    else:
        with database.tenant(call.tenant_id) as connection:
            connection.execute(_END, {"id": call.id, **vars(how)})
