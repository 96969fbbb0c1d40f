"""Authorization of changes, and rate limits of changes and reads.

A tenant has two buckets of tokens in PostgreSQL, shared by all processes: for changes and for reads. A bucket holds up
to `at_once` tokens and gains `per_second` by the database's clock. One user may take a SHARE of each, which leaves the
rest to the other users of the tenant. A caller with several tenants has a bucket as large as a user's, and shares none.
A change takes one token. A read takes one for each 100 ms that it lasts.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from time import monotonic
from typing import Literal
from uuid import UUID

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.delivery.work import Send
from counterfoil.errors import RejectedRequestError
from functions.admin_api.caller import EVERY_TENANT, NOBODY, Caller, Role
from functions.admin_api.problems import ForbiddenError, NotFoundError

SHARE = 0.8
"""Part of a tenant's tokens that one of its users may take."""
TAKEN_TOGETHER = 10
"""Read tokens that a process takes from the buckets with one write."""
TOKEN_SECONDS = 0.1
"""Duration of a read that one token pays for."""
_MOST_USERS = 1000
"""Users whose spare tokens a process remembers."""


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
    purpose: Literal["change", "read"] = "change"

    def take(
        self, database: Database, tenant_id: UUID | None, user: str, now: datetime | None = None, *, tokens: int = 1
    ) -> None:
        """Take tokens from the user's bucket and as many from the tenant's, or none, in a short transaction.

        What concerns several tenants (None) takes them from the user's bucket only.

        A user without tokens does not touch his tenant's, so that he holds up nobody. `now` says what time it is in
        place of the database, whose clock is the same for every process.

        Raises:
            TooManyError: there is none. What is asked for in vain costs nothing.
            DatabaseUnavailableError: this cannot be known just now.
        """

        def once() -> None:
            with database.delivery() if tenant_id is None else database.tenant(tenant_id) as connection:
                for bucket in self._buckets(user, tenant_id):
                    bucket.take(connection, tenant_id, now, tokens)

        retry_conflicts(once)

    @property
    def most_for_a_user(self) -> float:
        """Tokens in the full bucket of a user."""
        return max(1.0, self.at_once * SHARE)

    def _buckets(self, user: str, tenant_id: UUID | None) -> Iterator["_Bucket"]:
        digest = hashlib.sha256(user.encode(errors="surrogatepass")).digest()
        yield _Bucket(self.purpose, "You ask", digest, self.per_second * SHARE, self.most_for_a_user)
        if tenant_id is not None:
            yield _Bucket(self.purpose, "Your tenant asks", None, self.per_second, self.at_once)


@dataclass
class Reads:
    """Read tokens that this process has taken and not spent.

    Each write takes several tokens, so most reads write nothing to the database. A restart loses the rest.
    """

    spare: dict[tuple[str, str | None], float] = field(default_factory=dict)
    """By user and slug of the tenant. Negative after a read that lasted longer than its tokens."""
    clock: Callable[[], float] = monotonic
    """Seconds."""

    @contextmanager
    def admitted(self, caller: Caller, database: Database, allowance: Allowance) -> Iterator[None]:
        """Count a read against its user, and against the tenant of a user with one tenant.

        Raises:
            TooManyError: the user or the tenant has too few tokens.
            DatabaseUnavailableError: the buckets cannot be read.
        """
        slug = None if len(caller.tenants) != 1 or EVERY_TENANT in caller.tenants else next(iter(caller.tenants))
        key = caller.subject, slug
        spare = self.spare.get(key, 0.0)
        if spare < 1:
            taken = min(ceil(TAKEN_TOGETHER - spare), int(allowance.most_for_a_user))
            allowance.take(database, _id_of(slug, database), caller.subject, tokens=taken)
            spare += taken
        began = self.clock()
        try:
            yield
        finally:
            if len(self.spare) >= _MOST_USERS:
                self.spare.clear()
            self.spare[key] = spare - max(1.0, (self.clock() - began) / TOKEN_SECONDS)


def _id_of(slug: str | None, database: Database) -> UUID | None:
    if slug is None:
        return None
    with database.delivery() as connection:
        row = connection.execute("SELECT id FROM tenant WHERE slug = %s", [slug]).fetchone()
    return None if row is None else row[0]


@dataclass(frozen=True)
class Change:
    """A request that changes something: who asks, and when."""

    caller: Caller
    now: datetime
    database: Database
    allowance: Allowance
    send: Callable[[Sequence[Send]], object]
    """Sends messages after the commit."""

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
        """Let the caller change something unassigned, and count it against the caller.

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
            TooManyError: this user asks for too much.
            DatabaseUnavailableError: this cannot be known just now.
        """
        if not self.caller.may(Role.ADMIN, EVERY_TENANT):
            raise ForbiddenError(f"{doing} takes the role admin for all tenants (tenant:*).")
        self.allowance.take(self.database, None, self.caller.named())


@dataclass(frozen=True)
class _Bucket:
    purpose: str
    who: str
    user_hash: bytes | None
    rate: float
    most: float

    def take(self, connection: Connection, tenant_id: UUID | None, now: datetime | None, tokens: int) -> None:
        bucket = {"purpose": self.purpose, "tenant": tenant_id, "user": self.user_hash}
        values = {**bucket, "rate": self.rate, "most": self.most, "now": now, "tokens": tokens}
        if self.purpose == "read":  # a crash may lose these writes
            connection.execute("SET LOCAL synchronous_commit = off")
        if connection.execute(_TAKE, values).fetchone() is not None:
            return
        ((left,),) = connection.execute(_LEFT, values).fetchall()
        raise TooManyError(
            f"{self.who} for more {self.purpose}s than are taken: {self.rate:g} a second, {self.most:g} at once.",
            retry_after=max(1, ceil((tokens - left) / self.rate)),
        )


# The time is looked at once the row is locked. Where the clock was set back, no token comes for that, and the count
# goes on from there: nobody has to wait until it is that late again.
_NOW = "coalesce(%(now)s::timestamptz, clock_timestamp())"
_TOKENS = f"""
least(%(most)s, a.tokens + %(rate)s * greatest(0, extract(epoch FROM {_NOW} - a.counted_at)))::float8
"""
_TAKE = f"""
INSERT INTO change_allowance AS a (tenant_id, user_hash, purpose, tokens, counted_at)
VALUES (%(tenant)s, %(user)s, %(purpose)s, %(most)s - %(tokens)s, {_NOW})
ON CONFLICT (tenant_id, user_hash, purpose) DO UPDATE SET tokens = {_TOKENS} - %(tokens)s, counted_at = {_NOW}
WHERE {_TOKENS} >= %(tokens)s
RETURNING a.tokens
"""  # noqa: S608  # the expressions above
_LEFT = f"""
SELECT {_TOKENS} FROM change_allowance a
WHERE a.tenant_id IS NOT DISTINCT FROM %(tenant)s AND a.user_hash IS NOT DISTINCT FROM %(user)s
  AND a.purpose = %(purpose)s
"""  # noqa: S608  # the expressions above
