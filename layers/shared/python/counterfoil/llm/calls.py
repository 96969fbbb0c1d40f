"""The record of every call to a language model: what it was for, how it ended, how long it took and what it cost.

A tenant's call is on record, and counted against a budget of its day (UTC), before it is made: that for documents or
that for conversations, neither of which takes from the other. So one whose process dies has been counted; and each has
been counted once, however many are made at the same time and whatever becomes of the commit: a call is known by an id
that is made before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import LiteralString
from uuid import UUID

from aws_lambda_powertools import Logger

from counterfoil.db import CommitUnknownError, Connection, Database
from counterfoil.errors import CounterfoilError, DeferredError, sentence
from counterfoil.settings import Settings

CHAT = "chat"
"""The purpose of calls that are part of a conversation."""

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
_COUNT_CHAT = """
INSERT INTO llm_day (tenant_id, day, calls, chats) VALUES (%(tenant_id)s, %(day)s, 0, 1)
ON CONFLICT (tenant_id, day) DO UPDATE SET chats = llm_day.chats + 1
RETURNING chats
"""
_CHATS = "SELECT chats FROM llm_day WHERE tenant_id = %s AND day = %s"
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
    """Calls of one tenant on a day of UTC, at most."""

    of_documents: int
    of_one_document: int
    """Of these."""
    of_chats: int

    @classmethod
    def from_settings(cls, settings: Settings) -> "Budget":
        """The budget that the settings name."""
        return cls(settings.llm_questions_per_day, settings.llm_questions_per_document, settings.chat_questions_per_day)

    def counts(self, purpose: str) -> Sequence[tuple[LiteralString, int, str]]:
        """What counts a call for this purpose, the bound of each count, and the words that tell it from others."""
        if purpose == CHAT:
            return ((_COUNT_CHAT, self.of_chats, " in conversations"),)
        return ((_COUNT, self.of_documents, ""), (_OF_WORK, self.of_one_document, " for one document"))


@dataclass(frozen=True)
class _Day:
    """A day of UTC."""

    date: date

    @classmethod
    def of(cls, moment: datetime) -> "_Day":
        return cls(moment.astimezone(UTC).date())

    @property
    def since(self) -> datetime:
        return datetime.combine(self.date, time(), UTC)

    @property
    def until(self) -> datetime:
        return self.since + timedelta(days=1)

    def spent(self, limit: int, told: str) -> BudgetSpentError:
        whose = f"today's budget of {limit} questions{told}"
        message = f"The language model was not asked: {whose} is used up ({self.date:%Y-%m-%d}, UTC)."
        return BudgetSpentError(message, until=self.until)


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


def refuse_spent_chats(connection: Connection, tenant_id: UUID, settings: Settings, now: datetime) -> None:
    """Look whether a tenant may ask in a conversation today, of its transaction; nothing is counted.

    Raises:
        BudgetSpentError: it may not.
    """
    day = _Day.of(now)
    row = connection.execute(_CHATS, [tenant_id, day.date]).fetchone()
    ((_, limit, told),) = Budget.from_settings(settings).counts(CHAT)
    if (0 if row is None else row[0]) >= limit:
        raise day.spent(limit, told)


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
    day = _Day.of(call.created_at)
    values = vars(call) | {"day": day.date, "since": day.since, "until": day.until}
    with database.tenant(tenant_id) as connection:
        if connection.execute(_BEGIN, values).fetchone() is None:
            return  # the commit that was in doubt had happened
        for count, limit, told in budget.counts(call.purpose):
            ((spent,),) = connection.execute(count, values).fetchall()
            if spent > limit:
                raise day.spent(limit, told)


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
