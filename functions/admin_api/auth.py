"""Authentication, authorization and rate limits of the API.

API Gateway verifies the signature of each token. `verify_token` checks issuer, audience and times again, requires an
expiry (`exp`) and rejects access tokens, because only ID tokens identify a person.

Each tenant has two token buckets in PostgreSQL, shared by all processes: one for changes and one for reads. A bucket
holds up to `burst` tokens and gains `per_second` tokens each second, by the database's clock. Each user also has two
buckets with PER_USER_SHARE of the tenant's size and rate, so that one user cannot use up the tenant's tokens. A request
that concerns several tenants takes tokens only from the user's bucket. A change takes one token. A read takes one token
for each 100 ms of its duration, and at least one.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from time import monotonic
from typing import Annotated, Any, Literal, LiteralString, NamedTuple, TypeVar
from uuid import UUID

from pydantic import BeforeValidator, StringConstraints

from counterfoil.audit import Change
from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import OutboxMessage
from counterfoil.errors import RejectedRequestError
from counterfoil.settings import OidcSettings, settings
from counterfoil.validation import SLUG, UNASSIGNED
from functions.admin_api.emails import EmailStore
from functions.admin_api.http import ForbiddenError, NotFoundError

T = TypeVar("T")

# -- tokens -----------------------------------------------------------------------------------------------------------

LEEWAY_SECONDS = 60
"""Tolerated clock skew."""
GROUPS = "cognito:groups"
_COGNITO = re.compile(r"https://cognito-idp\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?/")
"""Issuers that set `token_use` in every token."""
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE]\+?[0-9]{1,2})?")
_TOKEN_PARTS = 3
"""Number of parts: header, payload and signature."""


class UnauthorizedError(RejectedRequestError):
    """The request has no valid token."""


def verify_token(event: Mapping[str, Any], sign_in: OidcSettings | None, now: datetime) -> dict[str, Any]:
    """Return the event with verified claims.

    Groups and audiences become lists, as in the token.

    Raises:
        UnauthorizedError: the token is missing or invalid.
    """
    context = event["requestContext"]
    authorizer = context.get("authorizer") or {}
    claims = (authorizer.get("jwt") or {}).get("claims") or {}
    if not claims:
        raise UnauthorizedError("The request has no token.")
    if sign_in is None:
        raise UnauthorizedError("This deployment has no token issuer.")
    payload = _payload(event)
    if isinstance(payload.get("exp", 0), bool) or not isinstance(payload.get("exp", 0), int | float):
        raise UnauthorizedError("The token's exp must be a number.")
    claims = {**claims, **_lists(payload, claims)}
    _check(claims, sign_in, now.timestamp())
    return {**event, "requestContext": {**context, "authorizer": {**authorizer, "jwt": {"claims": claims}}}}


def _names(claim: object) -> frozenset[str]:
    """Return the names in a claim. The gateway renders a list as `[a b]`.

    Any other text is one name, even if it contains spaces. If it were split, a group named `x admin` would grant the
    admin role.
    """
    if isinstance(claim, str):
        claim = claim[1:-1].split(" ") if claim.startswith("[") and claim.endswith("]") else [claim]
    return frozenset(map(str, claim)) if isinstance(claim, list) else frozenset()


def _check(claims: Mapping[str, Any], sign_in: OidcSettings, now: float) -> None:
    if claims.get("iss") != sign_in.issuer:
        raise UnauthorizedError("Token issuer mismatch.")
    if not _names(claims.get("aud")) & {sign_in.client, *sign_in.audience}:
        raise UnauthorizedError("Token audience mismatch.")
    if claims.get("token_use", None if _COGNITO.match(sign_in.issuer) else "id") != "id":
        raise UnauthorizedError("The token is not an ID token.")
    ends = _seconds(claims.get("exp"))
    if ends is None or now >= ends + LEEWAY_SECONDS:
        raise UnauthorizedError("The token has expired.")
    for name in ("nbf", "iat"):
        begins = _seconds(claims[name]) if name in claims else 0
        if begins is None or now < begins - LEEWAY_SECONDS:
            raise UnauthorizedError("The token is not valid yet.")


def _seconds(claim: object) -> float | None:
    """Return a time claim in seconds since 1970, or None if it is not a number.

    The gateway renders numbers as text, and large numbers in the form 1.7e+09.
    """
    if isinstance(claim, str):
        return float(claim) if _NUMBER.fullmatch(claim) else None
    if isinstance(claim, bool) or not isinstance(claim, int | float):
        return None
    return float(claim) if math.isfinite(claim) else None


def _lists(payload: Mapping[str, Any], claims: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the token's lists of groups and audiences, checked against the claims.

    A list is omitted if it differs from the claim that the gateway passed.

    The gateway passes each list as text separated by spaces, so a group named `x admin` would grant the admin role. The
    token in the header can be trusted, because the gateway verified it.
    """
    found: dict[str, list[str]] = {}
    for name in (GROUPS, "aud"):
        listed = payload.get(name)
        if isinstance(listed, list) and claims.get(name) == f"[{' '.join(map(str, listed))}]":
            found[name] = [str(one) for one in listed]
    return found


def _payload(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload of the request's token; empty if it is unreadable."""
    headers = {name.lower(): text for name, text in (event.get("headers") or {}).items()}
    parts = headers.get("authorization", "").split(".")
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "==")) if len(parts) == _TOKEN_PARTS else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# -- roles ------------------------------------------------------------------------------------------------------------

ALL_TENANTS = "*"
MAX_ACTOR_CHARS = 254
EDIT_PAYLOADS = "edit-payloads"
"""Group of operators who may edit payloads."""


class Role(IntEnum):
    """A role. Each role includes the rights of the previous roles."""

    NONE = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True)
class Caller:
    """The person or program that sent the request."""

    subject: str
    role: Role
    tenants: frozenset[str]
    """Slugs; ALL_TENANTS for all tenants."""
    edits_payloads: bool = False
    """Whether the caller may see and edit the payloads of failed tasks as an operator. Admins always may."""
    email: str | None = None
    """Verified email address; None for a program, or if the token does not contain one."""

    @classmethod
    def from_claims(cls, claims: Mapping[str, Any]) -> "Caller":
        """Create a caller from the claims `sub`, `email` and `cognito:groups`.

        Groups are `viewer`, `operator`, `admin`, `tenant:{slug}`, `tenant:*` and `edit-payloads`.

        Raises:
            ForbiddenError: PostgreSQL cannot store the subject or a tenant's slug.
        """
        subject = str(claims.get("sub", ""))
        groups = _names(claims.get(GROUPS))
        roles = [role for role in Role if role is not Role.NONE and role.name.lower() in groups]
        tenants = frozenset(group.removeprefix("tenant:") for group in groups if group.startswith("tenant:"))
        if not all(map(_is_storable, (subject, *tenants))):
            raise ForbiddenError("The token's sub or groups contain U+0000 or a lone surrogate.")
        return cls(subject, max(roles, default=Role.NONE), tenants, EDIT_PAYLOADS in groups, _verified_email(claims))

    def has_role(self, role: Role, tenant: str) -> bool:
        """Return whether the caller has a role for a tenant.

        UNASSIGNED requires a role for all tenants.
        """
        return self.role >= role and bool({ALL_TENANTS, tenant} - {UNASSIGNED} & self.tenants)

    def require_subject(self) -> str:
        """Return the subject, for the audit trail.

        Raises:
            ForbiddenError: the token has no subject.
        """
        if not self.subject:
            raise ForbiddenError("The token has no sub, which the audit trail requires.")
        return self.subject

    def can_edit_payloads(self, tenant: str) -> bool:
        """Return whether the caller may see and edit the payloads of a tenant's tasks."""
        return self.has_role(Role.OPERATOR if self.edits_payloads else Role.ADMIN, tenant)


def _verified_email(claims: Mapping[str, Any]) -> str | None:
    """Return the email address if the issuer has verified it.

    API Gateway converts booleans to text.
    """
    email = claims.get("email")
    is_valid = isinstance(email, str) and "@" in email and len(email) <= MAX_ACTOR_CHARS and _is_storable(email)
    return email if is_valid and str(claims.get("email_verified", True)).lower() == "true" else None


def _is_storable(name: str) -> bool:
    """Return whether PostgreSQL can store a text.

    The text must not contain U+0000 or lone surrogates.
    """
    return "\x00" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


# -- tenants ----------------------------------------------------------------------------------------------------------

ONE_AT_A_TIME = "must be retried, resolved or ignored one at a time"
Slug = Annotated[str, StringConstraints(pattern=f"^{SLUG}$")]
"""Slug of a tenant."""


def _assigned(value: object) -> object:
    if value == UNASSIGNED:
        raise ValueError(f"'-' means unassigned dead letters, which {ONE_AT_A_TIME}")
    return value


TenantSlug = Annotated[Slug, BeforeValidator(_assigned)]
"""Slug of a tenant. UNASSIGNED is rejected with its own error."""


class Tenant(NamedTuple):
    """Id and slug of a tenant."""

    id: UUID
    slug: str


class Scope(NamedTuple):
    """A tenant, or all unassigned data."""

    tenant_id: UUID | None
    slug: str

    def transaction(self, database: Database) -> AbstractContextManager[Connection]:
        """Open a transaction for the tenant, or with the delivery role if unassigned."""
        return database.delivery() if self.tenant_id is None else database.tenant(self.tenant_id)


class Owned(NamedTuple):
    """Id of a row, with the tenant that owns it."""

    tenant_id: UUID
    slug: str
    id: UUID


def item_id(text: str, not_found: str) -> UUID:
    """Parse the id in a path.

    Raises:
        NotFoundError: `text` is not a UUID. The message is `not_found`.
    """
    try:
        return UUID(text)
    except ValueError:
        raise NotFoundError(not_found) from None


def owner_of(connection: Connection, table: LiteralString, id_: UUID) -> tuple[UUID, str] | None:
    """Return the id and slug of the tenant that owns a row.

    Returns None if the row does not exist or is unassigned. Requires the delivery role. `table` is a table, or a query
    in parentheses with the columns `id` and `tenant_id`.
    """
    statement = f"SELECT t.id, t.slug FROM {table} o JOIN tenant t ON t.id = o.tenant_id WHERE o.id = %s"  # noqa: S608  # a literal
    return connection.execute(statement, [id_]).fetchone()


_DISABLED = "SELECT FROM tenant WHERE id = %s AND disabled_at IS NOT NULL"


def _id_of(slug: str, database: Database) -> UUID | None:
    with database.delivery() as connection:
        row = connection.execute("SELECT id FROM tenant WHERE slug = %s", [slug]).fetchone()
    return None if row is None else row[0]


# -- rate limits ------------------------------------------------------------------------------------------------------

PER_USER_SHARE = 0.8
"""Share of a tenant's tokens that one user may take."""
TOKENS_PER_WRITE = 10
"""Number of read tokens that a process takes with one database write."""
TOKEN_SECONDS = 0.1
"""Seconds of reading that one token covers."""
_MAX_USERS = 1000
"""Maximum number of users with cached tokens. A full cache is cleared."""


class RateLimitedError(RejectedRequestError):
    """The rate limit is exceeded."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds until enough tokens are available."""


@dataclass(frozen=True)
class RateLimiter:
    """A tenant's rate limit for changes or for reads."""

    per_second: float
    burst: int
    purpose: Literal["change", "read"] = "change"

    def consume(
        self, database: Database, tenant_id: UUID | None, user: str, now: datetime | None = None, *, tokens: int = 1
    ) -> None:
        """Take `tokens` tokens from the user's bucket and from the tenant's bucket.

        Both buckets are charged in one short transaction. If `tenant_id` is None, the request concerns several tenants
        and takes tokens only from the user's bucket. The user's bucket is checked first, so a user without tokens does
        not lock the tenant's bucket. If `now` is given, it replaces the database's clock.

        Raises:
            RateLimitedError: a bucket has too few tokens. No tokens are taken.
            DatabaseUnavailableError: the buckets cannot be read.
        """

        def once() -> None:
            with database.delivery() if tenant_id is None else database.tenant(tenant_id) as connection:
                for bucket in self._buckets(user, tenant_id):
                    bucket.take(connection, tenant_id, now, tokens)

        retry_on_conflict(once)

    @property
    def burst_per_user(self) -> float:
        """Capacity of a user's bucket."""
        return max(1.0, self.burst * PER_USER_SHARE)

    def _buckets(self, user: str, tenant_id: UUID | None) -> Iterator["_Bucket"]:
        digest = hashlib.sha256(user.encode(errors="surrogatepass")).digest()
        yield _Bucket(self.purpose, "You have exceeded", digest, self.per_second * PER_USER_SHARE, self.burst_per_user)
        if tenant_id is not None:
            yield _Bucket(self.purpose, "Your tenant has exceeded", None, self.per_second, self.burst)


@dataclass
class ReadTokens:
    """Read tokens that this process has taken but not spent.

    Each write takes several tokens, so most reads write nothing to the database. A restart loses unspent tokens.
    """

    unspent: dict[tuple[str, str | None], float] = field(default_factory=dict)
    """Unspent tokens by user and tenant slug. Negative after a read that took longer than the tokens covered."""
    clock: Callable[[], float] = monotonic
    """Monotonic clock, in seconds."""

    @contextmanager
    def admit(self, caller: Caller, database: Database, limiter: RateLimiter) -> Iterator[None]:
        """Charge a read to the user, and to the tenant if the user has exactly one.

        Raises:
            RateLimitedError: the user or the tenant has too few tokens.
            DatabaseUnavailableError: the buckets cannot be read.
        """
        slug = None if len(caller.tenants) != 1 or ALL_TENANTS in caller.tenants else next(iter(caller.tenants))
        key = caller.subject, slug
        spare = self.unspent.get(key, 0.0)
        if spare < 1:
            taken = min(math.ceil(TOKENS_PER_WRITE - spare), int(limiter.burst_per_user))
            tenant_id = None if slug is None else _id_of(slug, database)
            limiter.consume(database, tenant_id, caller.subject, tokens=taken)
            spare += taken
        began = self.clock()
        try:
            yield
        finally:
            if len(self.unspent) >= _MAX_USERS:
                self.unspent.clear()
            self.unspent[key] = spare - max(1.0, (self.clock() - began) / TOKEN_SECONDS)


@dataclass(frozen=True)
class _Bucket:
    purpose: str
    subject: str
    user_hash: bytes | None
    rate: float
    burst: float

    def take(self, connection: Connection, tenant_id: UUID | None, now: datetime | None, tokens: int) -> None:
        bucket = {"purpose": self.purpose, "tenant": tenant_id, "user": self.user_hash}
        values = {**bucket, "rate": self.rate, "burst": self.burst, "now": now, "tokens": tokens}
        if self.purpose == "read":  # losing these writes in a crash is harmless
            connection.execute("SET LOCAL synchronous_commit = off")
        if connection.execute(_TAKE, values).fetchone() is not None:
            return
        ((left,),) = connection.execute(_SELECT_TOKENS, values).fetchall()
        limit = f"{self.rate:g} per second, with bursts of {self.burst:g}"
        raise RateLimitedError(
            f"{self.subject} the rate limit for {self.purpose}s: {limit}.",
            retry_after=max(1, math.ceil((tokens - left) / self.rate)),
        )


# The clock is read after the row is locked. If the clock was set back, the bucket gains no tokens and continues from
# the new time. The user does not wait until the old time is reached again.
_NOW = "coalesce(%(now)s::timestamptz, clock_timestamp())"
_TOKENS = f"""
least(%(burst)s, a.tokens + %(rate)s * greatest(0, extract(epoch FROM {_NOW} - a.refilled_at)))::float8
"""
_TAKE = f"""
INSERT INTO rate_limit_bucket AS a (tenant_id, user_hash, purpose, tokens, refilled_at)
VALUES (%(tenant)s, %(user)s, %(purpose)s, %(burst)s - %(tokens)s, {_NOW})
ON CONFLICT (tenant_id, user_hash, purpose) DO UPDATE SET tokens = {_TOKENS} - %(tokens)s, refilled_at = {_NOW}
WHERE {_TOKENS} >= %(tokens)s
RETURNING a.tokens
"""  # noqa: S608  # the expressions above
_SELECT_TOKENS = f"""
SELECT {_TOKENS} FROM rate_limit_bucket a
WHERE a.tenant_id IS NOT DISTINCT FROM %(tenant)s AND a.user_hash IS NOT DISTINCT FROM %(user)s
  AND a.purpose = %(purpose)s
"""  # noqa: S608  # the expressions above


# -- requests ---------------------------------------------------------------------------------------------------------

email_store = EmailStore()


@dataclass(frozen=True)
class Request:
    """The current request, with methods that check the caller's rights."""

    caller: Caller
    database: Database
    now: datetime
    """The database's current time."""
    changes: RateLimiter
    time_left: Callable[[], float]
    """Returns the seconds left until the response is due."""

    def tenant(self, slug: str | None, role: Role = Role.VIEWER) -> Tenant:
        """Return the named tenant, or the token's only tenant.

        Raises:
            RejectedRequestError: the request names no tenant, and the token is not for exactly one tenant.
            ForbiddenError: the caller does not have the role. The error does not reveal whether the tenant exists.
            NotFoundError: there is no such tenant.
        """
        slug = self.slug(slug)
        self.check(role, slug)
        tenant_id = _id_of(slug, self.database)
        if tenant_id is None:
            raise NotFoundError("There is no such tenant.")
        return Tenant(tenant_id, slug)

    def scope(self, slug: str | None) -> Scope:
        """Return the scope of a tenant, or of unassigned data for the slug `-`.

        The tenant is checked as in `tenant`.
        """
        if slug != UNASSIGNED:
            return Scope(*self.tenant(slug))
        self.check(Role.VIEWER, UNASSIGNED)
        return Scope(None, UNASSIGNED)

    def slug(self, slug: str | None) -> str:
        """Return the named slug, or the slug of the token's only tenant.

        The caller's rights are not checked.

        Raises:
            RejectedRequestError: the request names no tenant, and the token is not for exactly one tenant.
        """
        if slug is not None:
            return slug
        if len(self.caller.tenants) != 1 or ALL_TENANTS in self.caller.tenants:
            raise RejectedRequestError("tenant is required, because the token is not for exactly one tenant.")
        (slug,) = self.caller.tenants
        return slug

    def check(self, role: Role, slug: str, action: str = "") -> None:
        """Require a role for a tenant. The error names `action`, if given.

        Raises:
            ForbiddenError: the caller does not have the role.
        """
        if not self.caller.has_role(role, slug):
            everywhere = slug in {ALL_TENANTS, UNASSIGNED}
            where = "all tenants (tenant:*)" if everywhere else "this tenant"
            subject = f"{action} requires" if action else "You need"
            raise ForbiddenError(f"{subject} the {role.name.lower()} role for {where}. Ask an admin.")

    def visible_tenants(self) -> list[str] | None:
        """Return the slugs of the tenants that the caller may view.

        Returns None for all tenants and unassigned data.

        Raises:
            ForbiddenError: the caller may not view any tenant.
        """
        if self.caller.role < Role.VIEWER or not self.caller.tenants:
            raise ForbiddenError("You need the viewer role for a tenant. Ask an admin.")
        return None if ALL_TENANTS in self.caller.tenants else sorted(self.caller.tenants)

    def owned(self, id_: UUID | str, table: LiteralString, not_found: str) -> Owned:
        """Return the id of a row and the tenant that owns it.

        For `table`, see `owner_of`.

        Raises:
            NotFoundError: the row does not exist, or the caller may not view it. The message is always `not_found`.
        """
        id_ = id_ if isinstance(id_, UUID) else item_id(id_, not_found)
        with self.database.delivery() as connection:
            found = owner_of(connection, table, id_)
        if found is None or not self.caller.has_role(Role.VIEWER, found[1]):
            raise NotFoundError(not_found)
        return Owned(*found, id_)

    def admit(self, action: str, slug: str, tenant_id: UUID | None = None, *, role: Role = Role.OPERATOR) -> UUID:
        """Check the role for a change, charge the rate limit, and return the tenant's id.

        Raises:
            ForbiddenError: the caller does not have the role. The error does not reveal whether the tenant exists.
            ForbiddenError: the tenant is disabled.
            NotFoundError: there is no such tenant.
            RateLimitedError: the tenant or the user exceeds the rate limit.
        """
        self.check(role, slug, action)
        found = _id_of(slug, self.database) if tenant_id is None else tenant_id
        if found is None:
            raise NotFoundError("There is no such tenant.")
        self._take(found)
        return found

    def admit_in(self, action: str, scope: Scope) -> None:
        """Check the operator role for a scope, and charge a change to the rate limit.

        Raises:
            ForbiddenError, RateLimitedError: see `admit`.
        """
        self.check(Role.OPERATOR, scope.slug, action)
        self._take(scope.tenant_id)

    def _take(self, tenant_id: UUID | None) -> None:
        """Charge a change to the rate limit and store the caller's address.

        Reject disabled tenants.
        """
        with self.database.delivery() as connection:
            if connection.execute(_DISABLED, [tenant_id]).fetchone() is not None:
                raise ForbiddenError("This tenant is disabled. An admin for all tenants can enable it.")
        self.changes.consume(self.database, tenant_id, self.caller.subject)
        self._save_email(tenant_id)

    def _save_email(self, tenant_id: UUID | None) -> None:
        subject, email = self.caller.subject[:MAX_ACTOR_CHARS], self.caller.email
        if subject and email is not None:
            email_store.save(self.database, tenant_id, subject, email)

    def setup(self, action: str, slug: str) -> Change:
        """Check the admin role, charge a setup change, and return its author and time.

        Raises:
            ForbiddenError: the caller does not have the role, or the token has no subject.
            NotFoundError, RateLimitedError: see `admit`.
        """
        tenant_id = self.admit(action, slug, role=Role.ADMIN)
        return Change(tenant_id, self.caller.require_subject()[:MAX_ACTOR_CHARS], self.now)

    def admit_for_all(self, action: str) -> str:
        """Check the admin role for all tenants, charge the user, and return the subject.

        Raises:
            ForbiddenError: the caller does not have the role, or the token has no subject.
            RateLimitedError: the user exceeds the rate limit.
        """
        self.check(Role.ADMIN, ALL_TENANTS, action)
        self.changes.consume(self.database, None, self.caller.require_subject())
        self._save_email(None)
        return self.caller.subject

    def commit(self, tenant_id: UUID, change: Callable[[Connection], T]) -> T:
        """Run a change in a tenant's transaction and return the result.

        Retry after a conflict.
        """

        def once() -> T:
            with self.database.tenant(tenant_id) as connection:
                return change(connection)

        return retry_on_conflict(once)

    def send(self, messages: Sequence[OutboxMessage]) -> None:
        """Send committed outbox messages.

        The watchdog sends any message that this call cannot send.
        """
        if messages:
            outbox = Outbox(self.database, settings().queue_urls, settings().retry_queue_urls)
            outbox.send(messages, time_left=self.time_left)
