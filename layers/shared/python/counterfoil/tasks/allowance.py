"""How many tasks a tenant may hand in: a token bucket in PostgreSQL, one for all processes.

It holds up to `at_once` tokens, gains `per_second`, and each task takes one.
"""

from dataclasses import dataclass
from datetime import datetime
from math import ceil
from uuid import UUID

from counterfoil.db import Database, retry_conflicts
from counterfoil.errors import RejectedRequestError


class TooManyError(RejectedRequestError):
    """A tenant hands in tasks faster than it may."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which there is a token again."""


@dataclass(frozen=True)
class Allowance:
    """What every tenant may."""

    per_second: float
    at_once: int

    def take(self, database: Database, tenant_id: UUID, now: datetime) -> None:
        """Take one token, in a short transaction of its own: requests of one tenant wait for one another here.

        Raises:
            TooManyError: there is none. What is asked for in vain costs nothing.
            DatabaseUnavailableError: this cannot be known just now.
        """
        values = {"tenant": tenant_id, "rate": self.per_second, "most": self.at_once, "now": now}

        def once() -> float:
            with database.tenant(tenant_id) as connection:
                if connection.execute(_TAKE, values).fetchone() is not None:
                    return 1.0
                ((left,),) = connection.execute(_LEFT, values).fetchall()
                return float(left)

        left = retry_conflicts(once)
        if left < 1:
            raise TooManyError(
                f"More tasks are handed in than are taken: {self.per_second:g} a second, {self.at_once} at once.",
                retry_after=max(1, ceil((1 - left) / self.per_second)),
            )


# A clock that stands behind that of another process adds nothing.
_TOKENS = """
least(%(most)s, a.tokens + %(rate)s * greatest(0, extract(epoch FROM %(now)s - a.counted_at)))::float8
"""
_TAKE = f"""
INSERT INTO task_allowance AS a (tenant_id, tokens, counted_at) VALUES (%(tenant)s, %(most)s - 1, %(now)s)
ON CONFLICT (tenant_id) DO UPDATE SET tokens = {_TOKENS} - 1, counted_at = greatest(a.counted_at, %(now)s)
WHERE {_TOKENS} >= 1
RETURNING a.tokens
"""  # noqa: S608  # the expression above
_LEFT = f"SELECT {_TOKENS} FROM task_allowance a WHERE a.tenant_id = %(tenant)s"  # noqa: S608  # the expression above
