"""What everything that changes something goes through: whether the caller may, and whether he does it too often.

A tenant has a bucket of tokens in PostgreSQL, one for all processes. It holds up to `at_once` tokens, gains
`per_second` by the database's clock, and each request takes one. Of that, one user may take a SHARE: a program out of
hand meets its own bound and leaves the others of its tenant theirs. What only reads is bounded by the gateway.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from uuid import UUID

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.errors import RejectedRequestError
from functions.admin_api.caller import EVERY_TENANT, NOBODY, Caller, Role
from functions.admin_api.problems import ForbiddenError, NotFoundError

SHARE = 0.8
"""Of a tenant's allowance, what one of its users may take."""


class TooManyError(RejectedRequestError):
    """More is asked for than may be."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which there is a token again."""


@dataclass(frozen=True)
class Allowance:
    """What every tenant may."""

    per_second: float
    at_once: int

    def take(self, database: Database, tenant_id: UUID | None, user: str, now: datetime | None = None) -> None:
        """Take a token of the user's and one of the tenant's, or neither, in a short transaction of its own.

        What concerns all tenants (None) has a bucket of its own, as large as a tenant's.

        A user without tokens does not touch his tenant's, so that he holds up nobody. `now` says what time it is in
        place of the database, whose clock is the same for every process.

        Raises:
            TooManyError: there is none. What is asked for in vain costs nothing.
            DatabaseUnavailableError: this cannot be known just now.
        """

        def once() -> None:
            with database.delivery() if tenant_id is None else database.tenant(tenant_id) as connection:
                for bucket in self._buckets(user, "Your tenant asks" if tenant_id else "All of you ask"):
                    bucket.take(connection, tenant_id, now)

        retry_conflicts(once)

    def _buckets(self, user: str, together: str) -> Iterator["_Bucket"]:
        digest = hashlib.sha256(user.encode(errors="surrogatepass")).digest()
        yield _Bucket("You ask", digest, self.per_second * SHARE, max(1.0, self.at_once * SHARE))
        yield _Bucket(together, None, self.per_second, self.at_once)


@dataclass(frozen=True)
class Change:
    """A request that changes something: who asks, and when."""

    caller: Caller
    now: datetime
    database: Database
    allowance: Allowance

    def admit(self, doing: str, slug: str, tenant_id: UUID | None = None) -> UUID:
        """Let the caller change something of a tenant, and count it: the tenant's id. `doing` names it for people.

        Raises:
            ForbiddenError: the caller is no operator of the tenant. It is not told whether there is such a tenant.
            NotFoundError: there is no such tenant.
            TooManyError: the tenant, or this user, asks for too much.
            DatabaseUnavailableError: this cannot be known just now.
        """
        if not self.caller.may(Role.OPERATOR, slug):
            raise ForbiddenError(f"{doing} takes the role operator for this tenant: ask an admin for it.")
        if tenant_id is None:
            with self.database.delivery() as connection:
                row = connection.execute("SELECT id FROM tenant WHERE slug = %s", [slug]).fetchone()
            if row is None:
                raise NotFoundError("There is no such tenant.")
            (tenant_id,) = row
        self.allowance.take(self.database, tenant_id, self.caller.subject)
        return tenant_id

    def admit_for_nobody(self, doing: str) -> None:
        """Let the caller change something that is nobody's, and count it as what concerns all tenants.

        Raises:
            ForbiddenError: the caller is no operator of all tenants.
            TooManyError, DatabaseUnavailableError: see `admit_for_all`.
        """
        if not self.caller.may(Role.OPERATOR, NOBODY):
            raise ForbiddenError(f"{doing} takes the role operator for all tenants (tenant:*): it is nobody's.")
        self.allowance.take(self.database, None, self.caller.subject)

    def admit_for_all(self, doing: str) -> None:
        """Let the caller change something that concerns all tenants, and count it. `doing` names it for people.

        Raises:
            ForbiddenError: the caller is no admin of all tenants, or nobody.
            TooManyError: this user, or all who may, ask for too much.
            DatabaseUnavailableError: this cannot be known just now.
        """
        if not self.caller.may(Role.ADMIN, EVERY_TENANT):
            raise ForbiddenError(f"{doing} takes the role admin for all tenants (tenant:*).")
        self.allowance.take(self.database, None, self.caller.named())


@dataclass(frozen=True)
class _Bucket:
    who: str
    user_hash: bytes | None
    rate: float
    most: float

    def take(self, connection: Connection, tenant_id: UUID | None, now: datetime | None) -> None:
        values = {"tenant": tenant_id, "user": self.user_hash, "rate": self.rate, "most": self.most, "now": now}
        if connection.execute(_TAKE, values).fetchone() is not None:
            return
        ((left,),) = connection.execute(_LEFT, values).fetchall()
        raise TooManyError(
            f"{self.who} for more changes than are taken: {self.rate:g} a second, {self.most:g} at once.",
            retry_after=max(1, ceil((1 - left) / self.rate)),
        )


# The time is looked at once the row is locked. Where the clock was set back, no token comes for that, and the count
# goes on from there: nobody has to wait until it is that late again.
_NOW = "coalesce(%(now)s::timestamptz, clock_timestamp())"
_TOKENS = f"""
least(%(most)s, a.tokens + %(rate)s * greatest(0, extract(epoch FROM {_NOW} - a.counted_at)))::float8
"""
_TAKE = f"""
INSERT INTO change_allowance AS a (tenant_id, user_hash, tokens, counted_at)
VALUES (%(tenant)s, %(user)s, %(most)s - 1, {_NOW})
ON CONFLICT (tenant_id, user_hash) DO UPDATE SET tokens = {_TOKENS} - 1, counted_at = {_NOW}
WHERE {_TOKENS} >= 1
RETURNING a.tokens
"""  # noqa: S608  # the expressions above
_LEFT = f"""
SELECT {_TOKENS} FROM change_allowance a
WHERE a.tenant_id IS NOT DISTINCT FROM %(tenant)s AND a.user_hash IS NOT DISTINCT FROM %(user)s
"""  # noqa: S608  # the expressions above
