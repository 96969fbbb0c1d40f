"""User profiles, blocks and offers.

Callers identify users by their tenant's external ids. Tables use `internal_id` instead, because two tenants can use the
same external id for different users. Each function requires a transaction of one tenant (`Database.tenant`). The audit
trail records changes with internal ids, which do not disclose the external ids.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal
from uuid import UUID, uuid5

from counterfoil import audit
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection
from counterfoil.errors import RejectedRequestError
from counterfoil.offers.schedule import clock_changes, zone_info, zone_names

Gender = Literal["woman", "man", "nonbinary"]
JobState = Literal["pending", "running", "completed", "failed"]

EARLIEST_BIRTH_DATE = date(1900, 1, 1)
MIN_AGE = 18
"""Minimum age in years."""
MAX_TRAITS = 16
TRAIT_DIGITS = 6
"""Number of decimal places to which traits are rounded. The database stores about seven digits, and rejects
denormalized numbers."""


class ProfileChangedError(RejectedRequestError):
    """The profile has changed since the caller read it."""


@dataclass(frozen=True)
class Profile:
    """A user's own attributes, and the attributes sought in others."""

    timezone: str
    is_active: bool
    """Whether the user receives offers and is offered to others."""
    birth_date: date
    gender: Gender
    seeks_genders: Sequence[Gender]
    min_age: int
    max_age: int
    latitude: float
    """Degrees north."""
    longitude: float
    """Degrees east."""
    max_distance_km: int
    traits: Sequence[float | None]
    """Values from -1 to 1, or None for a question that the user has not answered."""
    updated_at: datetime

    @property
    def version(self) -> int:
        """Time of the last change, in microseconds since 1970.

        It increases with each change.
        """
        return (self.updated_at - _EPOCH) // timedelta(microseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def internal_id(tenant_id: UUID, external_id: UUID) -> UUID:
    """Return a user's internal id, the UUIDv5 of the tenant's id and the external id."""
    return uuid5(tenant_id, str(external_id))


def check(profile: Profile, now: datetime) -> None:
    """Validate the rules that the types and ranges of fields cannot express.

    Raises:
        RejectedRequestError: a field is invalid. The message names it.
    """
    if profile.timezone not in zone_names():
        raise RejectedRequestError(
            "timezone must be the case-sensitive name of an IANA time zone, such as Europe/Berlin."
        )
    today = local_date(profile.timezone, now)
    if profile.birth_date > today:
        raise RejectedRequestError("birth_date must not be in the future.")
    if profile.birth_date < EARLIEST_BIRTH_DATE:
        raise RejectedRequestError(f"birth_date must be {EARLIEST_BIRTH_DATE} or later.")
    if age(profile.birth_date, today) < MIN_AGE:
        raise RejectedRequestError(f"The user must be at least {MIN_AGE} years old (see `birth_date`).")
    if len(set(profile.seeks_genders)) < len(profile.seeks_genders):
        raise RejectedRequestError("seeks_genders must contain each gender only once.")
    if profile.min_age > profile.max_age:
        raise RejectedRequestError("min_age must not be more than max_age.")


def age(birth_date: date, day: date) -> int:
    """Return the age in full years.

    In common years, the birthday of users born on February 29 is March 1.
    """
    return day.year - birth_date.year - ((day.month, day.day) < (birth_date.month, birth_date.day))


def local_date(timezone: str, now: datetime) -> date:
    """Return the current date in a time zone, or in UTC if the zone is unknown."""
    return now.astimezone(zone_info(clock_changes(timezone))).date()


_COLUMNS = (
    "timezone, is_active, birth_date, gender, seeks_genders, min_age, max_age, latitude, longitude, max_distance_km, "
    "traits, updated_at"
)
_SHOW = f"SELECT {_COLUMNS} FROM profile WHERE user_id = %s"  # noqa: S608  # only column names
_LOCK = f"{_SHOW} FOR NO KEY UPDATE"
# Versions must increase even if the clocks of two processes differ.
_PUT = f"""
INSERT INTO profile (user_id, external_id, tenant_id, {_COLUMNS})
VALUES (%(user)s, %(external)s, %(tenant)s, %(timezone)s, %(is_active)s, %(birth_date)s, %(gender)s, %(seeks_genders)s,
        %(min_age)s, %(max_age)s, %(latitude)s, %(longitude)s, %(max_distance_km)s, %(traits)s, %(updated_at)s)
ON CONFLICT (user_id) DO UPDATE SET timezone = excluded.timezone, is_active = excluded.is_active,
    birth_date = excluded.birth_date,
    gender = excluded.gender, seeks_genders = excluded.seeks_genders, min_age = excluded.min_age,
    max_age = excluded.max_age,
    latitude = excluded.latitude, longitude = excluded.longitude, max_distance_km = excluded.max_distance_km,
    traits = excluded.traits,
    updated_at = greatest(excluded.updated_at, profile.updated_at + interval '1 microsecond')
RETURNING old.user_id IS NULL
"""  # noqa: S608  # only column names


def put(
    connection: Connection,
    tenant_id: UUID,
    external_id: UUID,
    profile: Profile,
    *,
    by: str,
    expected_version: int | None = None,
) -> bool:
    """Create or replace a profile. Return True if the profile is new.

    If `expected_version` is given, replace only this version.

    Raises:
        ProfileChangedError: the profile has another version than `expected_version`, or no longer exists.
    """
    user_id = internal_id(tenant_id, external_id)
    if expected_version is not None:
        row = connection.execute(_LOCK.encode(), [user_id]).fetchone()
        if row is None:
            raise ProfileChangedError("The profile no longer exists.")
        if Profile(*row).version != expected_version:
            raise ProfileChangedError("Someone else changed the profile.")
    values = {**_values(profile), "user": user_id, "external": external_id, "tenant": tenant_id}
    ((is_new,),) = connection.execute(_PUT.encode(), values).fetchall()
    action = "profile created" if is_new else "profile replaced"
    audit.record(connection, tenant_id, AuditRecord(by, action, [str(user_id)], profile.updated_at))
    return bool(is_new)


def _values(profile: Profile) -> Mapping[str, Any]:
    traits = [None if trait is None else round(trait, TRAIT_DIGITS) for trait in profile.traits]
    return {**vars(profile), "seeks_genders": list(profile.seeks_genders), "traits": traits}


def show(connection: Connection, tenant_id: UUID, external_id: UUID) -> Profile | None:
    """Return a user's profile, or None if it does not exist."""
    row = connection.execute(_SHOW, [internal_id(tenant_id, external_id)]).fetchone()
    if row is None:
        return None
    profile = Profile(*row)
    return replace(profile, traits=[None if trait is None else round(trait, TRAIT_DIGITS) for trait in profile.traits])


def remove(connection: Connection, tenant_id: UUID, external_id: UUID, now: datetime, *, by: str) -> bool:
    """Delete a profile with the user's blocks and offers. Returns True if it existed.

    Blocks by other users remain. A user who returns is therefore not offered to them again.
    """
    user_id = internal_id(tenant_id, external_id)
    if connection.execute("DELETE FROM profile WHERE user_id = %s", [user_id]).rowcount == 0:
        return False
    audit.record(connection, tenant_id, AuditRecord(by, "profile deleted", [str(user_id)], now))
    return True


_BLOCK = """
INSERT INTO user_block (user_id, blocked_id, blocked_external_id, tenant_id, created_at)
SELECT user_id, %(blocked)s, %(external)s, tenant_id, %(now)s FROM profile WHERE user_id = %(user)s
ON CONFLICT (user_id, blocked_id) DO NOTHING
"""


def block(
    connection: Connection, tenant_id: UUID, external_id: UUID, blocked_external_id: UUID, now: datetime, *, by: str
) -> bool:
    """Prevent offers between two users until the block is deleted.

    Returns True if the blocking user has a profile. The blocked user does not need a profile, so the result does not
    disclose whether there is one.

    Raises:
        RejectedRequestError: both ids are the same.
    """
    if external_id == blocked_external_id:
        raise RejectedRequestError("A user cannot block themselves.")
    user_id, blocked_id = internal_id(tenant_id, external_id), internal_id(tenant_id, blocked_external_id)
    values = {"user": user_id, "blocked": blocked_id, "external": blocked_external_id, "now": now}
    if connection.execute(_BLOCK, values).rowcount == 0:
        return _exists(connection, user_id)
    audit.record(connection, tenant_id, AuditRecord(by, "user blocked", [str(user_id), str(blocked_id)], now))
    return True


def unblock(
    connection: Connection, tenant_id: UUID, external_id: UUID, blocked_external_id: UUID, now: datetime, *, by: str
) -> bool:
    """Delete a block if it exists. Returns True if the blocking user has a profile."""
    user_id, blocked_id = internal_id(tenant_id, external_id), internal_id(tenant_id, blocked_external_id)
    values = [user_id, blocked_id]
    if connection.execute("DELETE FROM user_block WHERE user_id = %s AND blocked_id = %s", values).rowcount == 0:
        return _exists(connection, user_id)
    audit.record(connection, tenant_id, AuditRecord(by, "user unblocked", [str(user_id), str(blocked_id)], now))
    return True


@dataclass(frozen=True)
class BlockedUser:
    """A blocked user."""

    user_id: UUID
    since: datetime


_BLOCKS = """
SELECT blocked_external_id, created_at FROM user_block
WHERE user_id = %(user)s
  AND (%(time)s::timestamptz IS NULL OR (created_at, blocked_external_id) < (%(time)s, %(after)s::uuid))
ORDER BY created_at DESC, blocked_external_id DESC LIMIT %(limit)s
"""


def blocks(
    connection: Connection, tenant_id: UUID, external_id: UUID, after: tuple[datetime, UUID] | None, limit: int
) -> list[BlockedUser] | None:
    """Return the next page of users that a user has blocked, latest first.

    Returns None if the user has no profile.
    """
    user_id = internal_id(tenant_id, external_id)
    if not _exists(connection, user_id):
        return None
    time, after_id = after or (None, None)
    rows = connection.execute(_BLOCKS, {"user": user_id, "time": time, "after": after_id, "limit": limit}).fetchall()
    return [BlockedUser(*row) for row in rows]


def _exists(connection: Connection, user_id: UUID) -> bool:
    return connection.execute("SELECT FROM profile WHERE user_id = %s", [user_id]).fetchone() is not None


# -- offers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UserOffers:
    """A user's offers for a date."""

    date: date
    timezone: str
    """Time zone of the user's job, or of the profile if no job exists."""
    state: JobState | None
    """State of the user's job for the date, or None if no job exists."""
    offers: Sequence[Mapping[str, Any]]
    """Stored offers, best first, with external ids."""
    withdrawn: frozenset[str]
    """External ids of candidates who must no longer be shown."""
    completed_at: datetime | None
    error: str | None


_JOB = """
SELECT timezone, status, coalesce(offers, '[]'), completed_at, error_message FROM matchmaking_jobs
WHERE date = %s AND user_id = %s
"""
_OFFERABLE = """
SELECT p.external_id::text FROM profile p
WHERE p.user_id = ANY(%(candidates)s::uuid[]) AND p.is_active AND NOT EXISTS (
    SELECT FROM user_block b
    WHERE (b.user_id, b.blocked_id) IN ((p.user_id, %(user)s), (%(user)s, p.user_id))
)
"""


def get_offers(
    connection: Connection, tenant_id: UUID, external_id: UUID, day: date | None, now: datetime
) -> UserOffers | None:
    """Return a user's offers for a date, by default the user's local date.

    Returns None if the user has no profile. Stored offers do not change. Candidates who have left, are inactive or have
    a block in either direction are listed in `withdrawn`.
    """
    user_id = internal_id(tenant_id, external_id)
    row = connection.execute("SELECT timezone FROM profile WHERE user_id = %s", [user_id]).fetchone()
    if row is None:
        return None
    day = day or local_date(row[0], now)
    job = connection.execute(_JOB, [day, user_id]).fetchone()
    if job is None:
        return UserOffers(day, row[0], None, (), frozenset(), None, None)
    timezone, state, offers, completed_at, error = job
    return UserOffers(
        day, timezone, state, offers, withdrawn_offers(connection, tenant_id, external_id, offers), completed_at, error
    )


def withdrawn_offers(
    connection: Connection, tenant_id: UUID, external_id: UUID, offers: Sequence[Mapping[str, Any]]
) -> frozenset[str]:
    """Return the external ids of offered candidates who must no longer be shown."""
    candidates = {offer["userId"] for offer in offers}
    ids = [internal_id(tenant_id, UUID(candidate)) for candidate in candidates]
    values = {"candidates": ids, "user": internal_id(tenant_id, external_id)}
    return frozenset(candidates - {id_ for (id_,) in connection.execute(_OFFERABLE, values)} if candidates else ())
