"""The record of every call to a language model: what it was for, how it ended, how long it took and what it cost."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from aws_lambda_powertools import Logger

from counterfoil.db import CommitUnknownError, Database
from counterfoil.errors import CounterfoilError, sentence

logger = Logger()

# A row's id is known before it is sent, so that one whose commit is in doubt can be sent again.
_WRITE = """
INSERT INTO llm_call (id, tenant_id, work_id, purpose, provider, model, outcome, input_tokens, output_tokens,
                      latency_ms, cost_usd, created_at)
VALUES (%(id)s, %(tenant_id)s, %(work_id)s, %(purpose)s, %(provider)s, %(model)s, %(outcome)s, %(input_tokens)s,
        %(output_tokens)s, %(latency_ms)s, %(cost_usd)s, %(created_at)s)
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True)
class Call:
    """One call. Tokens and cost are None where no answer said how many."""

    id: UUID
    tenant_id: UUID | None
    work_id: UUID | None
    purpose: str
    provider: str
    model: str
    outcome: str
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: int
    cost_usd: float | None
    created_at: datetime


def write(database: Database, call: Call) -> None:
    """Write the call in a transaction of its own. One that cannot be written is logged: the answer is worth more."""
    try:
        try:
            _insert(database, call)
        except CommitUnknownError:
            _insert(database, call)
    except CounterfoilError as error:
        logger.warning("A call to the language model is not on record", call_id=str(call.id), error=sentence(error))


def _insert(database: Database, call: Call) -> None:
    # What belongs to no tenant is delivery's own: the smallest call, to see whether the service is back.
    opened = database.delivery() if call.tenant_id is None else database.tenant(call.tenant_id)
    with opened as connection:
        connection.execute(_WRITE, vars(call))
