"""People who may be offered to one another: their profiles, whom they block, and what they are offered.

Each function runs in a transaction that sees one tenant alone (`Database.tenant`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.errors import RejectedRequestError
from counterfoil.offers.due import clocks
from counterfoil.offers.zones import names, zone_info

Gender = Literal["woman", "man", "nonbinary"]
JobState = Literal["pending", "running", "completed", "failed"]

OLDEST_BIRTH = date(1900, 1, 1)
GROWN_UP = 18
"""Years: nobody who is younger is offered to anybody."""
MOST_TRAITS = 16
TRAIT_DIGITS = 6
"""Of a trait that are kept. The database keeps about seven, and refuses numbers that are next to nothing."""


class UserTakenError(RejectedRequestError):
    """The id of a user is somebody else's, in a tenant that is not told."""


class ProfileChangedError(RejectedRequestError):
    """The profile is not as the caller saw it any more."""


@dataclass(frozen=True)
class Profile:
    """What a person is, and who is sought."""

    timezone: str
    is_active: bool
    """Whether this person is offered, and offered others."""
    born: date
    gender: Gender
    seeks: Sequence[Gender]
    min_age: int
    max_age: int
    latitude: float
    """Degrees north."""
    longitude: float
    """Degrees east."""
    reach_km: int
    traits: Sequence[float | None]
    """From -1 to 1; None: not answered."""
    changed_at: datetime

    @property
    def version(self) -> int:
        """Grows with each change: when the last one was, in microseconds of Unix time."""
        return (self.changed_at - _EPOCH) // timedelta(microseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def check(profile: Profile, now: datetime) -> None:
    """See that a profile makes sense, as far as no single number says it.

    Raises:
        RejectedRequestError: it does not. The sentence names the field.
    """
    if profile.timezone not in names():
        raise RejectedRequestError(
            "timezone is the name of a time zone of IANA that there is, such as Europe/Berlin; its case counts."
        )
    today = local_date(profile.timezone, now)
    if profile.born > today:
        raise RejectedRequestError("born is in the future: it is the day of birth, such as 1990-01-31.")
    if profile.born < OLDEST_BIRTH:
        raise RejectedRequestError(f"born is {OLDEST_BIRTH} at the earliest.")
    if age(profile.born, today) < GROWN_UP:
        raise RejectedRequestError(f"born says that this person is not {GROWN_UP} yet, and would be offered to nobody.")
    if len(set(profile.seeks)) < len(profile.seeks):
        raise RejectedRequestError("seeks names each gender once.")
    if profile.min_age > profile.max_age:
        raise RejectedRequestError("min_age is not more than max_age.")


def age(born: date, day: date) -> int:
    """Full years on a day. Who was born on February 29 grows older on March 1 of other years."""
    return day.year - born.year - ((day.month, day.day) < (born.month, born.day))


def local_date(timezone: str, now: datetime) -> date:
    """The date in a time zone, of UTC where there is none of this name."""
    return now.astimezone(zone_info(clocks(timezone))).date()


_COLUMNS = (
    "timezone, is_active, born, gender, seeks, min_age, max_age, latitude, longitude, reach_km, traits, changed_at"
)
_SHOW = f"SELECT {_COLUMNS} FROM profile WHERE user_id = %s"  # noqa: S608  # names alone
_LOCK = f"{_SHOW} FOR NO KEY UPDATE"
# Clocks of two processes differ, and a version only grows.
_REPLACE = """
UPDATE profile SET timezone = %(timezone)s, is_active = %(is_active)s, born = %(born)s, gender = %(gender)s,
    seeks = %(seeks)s, min_age = %(min_age)s, max_age = %(max_age)s, latitude = %(latitude)s,
    longitude = %(longitude)s, reach_km = %(reach_km)s, traits = %(traits)s,
    changed_at = greatest(%(changed_at)s, changed_at + interval '1 microsecond')
WHERE user_id = %(user)s
"""
_INSERT = f"""
INSERT INTO profile (user_id, tenant_id, {_COLUMNS})
VALUES (%(user)s, %(tenant)s, %(timezone)s, %(is_active)s, %(born)s, %(gender)s, %(seeks)s, %(min_age)s, %(max_age)s,
        %(latitude)s, %(longitude)s, %(reach_km)s, %(traits)s, %(changed_at)s)
ON CONFLICT (user_id) DO NOTHING
"""  # noqa: S608  # names alone


def put(connection: Connection, tenant_id: UUID, user_id: UUID, profile: Profile, *, seen: int | None = None) -> bool:
    """Make a profile, or put it in the place of the one that there is: of the version that was `seen`, if one was.

    Returns whether it is new.

    Raises:
        UserTakenError: another tenant has a user of this id.
        ProfileChangedError: the one that was seen has changed, or is gone.
    """
    values = {**_values(profile), "user": user_id, "tenant": tenant_id}
    if seen is not None:
        row = connection.execute(_LOCK.encode(), [user_id]).fetchone()
        if row is None:
            raise ProfileChangedError("There is no such profile any more.")
        if Profile(*row).version != seen:
            raise ProfileChangedError("The profile was changed meanwhile.")
    if connection.execute(_REPLACE, values).rowcount:
        return False
    if connection.execute(_INSERT, values).rowcount:
        return True
    if connection.execute(_REPLACE, values).rowcount:  # somebody else has just made it
        return False
    raise UserTakenError("This id cannot be used for a user: give another one.")


def _values(profile: Profile) -> Mapping[str, Any]:
    traits = [None if trait is None else round(trait, TRAIT_DIGITS) for trait in profile.traits]
    return {**vars(profile), "seeks": list(profile.seeks), "traits": traits}


def show(connection: Connection, user_id: UUID) -> Profile | None:
    """A user's profile; None where there is none."""
    row = connection.execute(_SHOW, [user_id]).fetchone()
    if row is None:
        return None
    found = Profile(*row)
    return replace(found, traits=[None if one is None else round(one, TRAIT_DIGITS) for one in found.traits])


def remove(connection: Connection, user_id: UUID) -> bool:
    """Delete a profile, with the user's blocks and all that he was ever offered. Returns whether there was one.

    The blocks of others stay, so that nobody is offered to them again by coming back.
    """
    return bool(connection.execute("DELETE FROM profile WHERE user_id = %s", [user_id]).rowcount)


_BLOCK = """
INSERT INTO profile_block (user_id, blocked_id, tenant_id, created_at)
SELECT user_id, %(blocked)s, tenant_id, %(now)s FROM profile WHERE user_id = %(user)s
ON CONFLICT (user_id, blocked_id) DO NOTHING
"""


def block(connection: Connection, user_id: UUID, blocked_id: UUID, now: datetime) -> bool:
    """Let two never be offered to one another again. Returns whether the first of them has a profile.

    The other one need not have any: it is not told who has.

    Raises:
        RejectedRequestError: they are the same.
    """
    if user_id == blocked_id:
        raise RejectedRequestError("A user cannot block themselves.")
    done = connection.execute(_BLOCK, {"user": user_id, "blocked": blocked_id, "now": now}).rowcount
    return bool(done) or _exists(connection, user_id)


def unblock(connection: Connection, user_id: UUID, blocked_id: UUID) -> bool:
    """Take a block back, where there is one. Returns whether the user has a profile."""
    connection.execute("DELETE FROM profile_block WHERE user_id = %s AND blocked_id = %s", [user_id, blocked_id])
    return _exists(connection, user_id)


class Blocked(NamedTuple):
    """A user whom another one has blocked."""

    user_id: UUID
    since: datetime


_BLOCKS = """
SELECT blocked_id, created_at FROM profile_block
WHERE user_id = %(user)s AND (%(time)s::timestamptz IS NULL OR (created_at, blocked_id) < (%(time)s, %(after)s::uuid))
ORDER BY created_at DESC, blocked_id DESC LIMIT %(limit)s
"""


def blocks(
    connection: Connection, user_id: UUID, after: tuple[datetime, UUID] | None, limit: int
) -> list[Blocked] | None:
    """Whom a user has blocked, the latest first, after that one. None: there is no profile."""
    if not _exists(connection, user_id):
        return None
    time, last = after or (None, None)
    rows = connection.execute(_BLOCKS, {"user": user_id, "time": time, "after": last, "limit": limit}).fetchall()
    return [Blocked(*row) for row in rows]


def _exists(connection: Connection, user_id: UUID) -> bool:
    return connection.execute("SELECT FROM profile WHERE user_id = %s", [user_id]).fetchone() is not None


# -- offers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offered:
    """What a user was offered for a date."""

    date: date
    timezone: str
    """Of the job; of the profile where there is no job."""
    state: JobState | None
    """None: there is no job of this date."""
    offers: Sequence[Mapping[str, Any]]
    """As they were stored, in their order."""
    withdrawn: frozenset[str]
    """Users among them who are not to be shown any more."""
    completed_at: datetime | None
    error: str | None


_JOB = """
SELECT timezone, status, coalesce(offers, '[]'), completed_at, error_message FROM matchmaking_jobs
WHERE date = %s AND user_id = %s
"""
_STANDING = """
SELECT p.user_id::text FROM profile p
WHERE p.user_id = ANY(%(candidates)s::uuid[]) AND p.is_active AND NOT EXISTS (
    SELECT FROM profile_block b
    WHERE (b.user_id, b.blocked_id) IN ((p.user_id, %(user)s), (%(user)s, p.user_id))
)
"""


def offered(connection: Connection, user_id: UUID, day: date | None, now: datetime) -> Offered | None:
    """A user's offers of a date, by default of today where he is. None: there is no profile.

    What was offered stays as it was. Whoever has gone since, is not active any more, or blocks the user or is blocked
    is `withdrawn`.
    """
    row = connection.execute("SELECT timezone FROM profile WHERE user_id = %s", [user_id]).fetchone()
    if row is None:
        return None
    day = day or local_date(row[0], now)
    job = connection.execute(_JOB, [day, user_id]).fetchone()
    if job is None:
        return Offered(day, row[0], None, (), frozenset(), None, None)
    timezone, state, offers, completed_at, error = job
    return Offered(day, timezone, state, offers, withdrawn(connection, user_id, offers), completed_at, error)


def withdrawn(connection: Connection, user_id: UUID, offers: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Which users among these offers are not to be shown to `user_id` any more."""
    candidates = {offer["userId"] for offer in offers}
    values = {"candidates": list(candidates), "user": user_id}
    return frozenset(candidates - {id_ for (id_,) in connection.execute(_STANDING, values)} if candidates else ())
