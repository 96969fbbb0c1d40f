"""What a worker's code sees of delivery: the try it is in, and the outcomes it may return."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from threading import Event
from typing import NamedTuple
from uuid import UUID

from counterfoil.db import Connection, Database
from counterfoil.errors import CancelledError, StaleClaimError
from counterfoil.work import Send


@dataclass(frozen=True)
class Success:
    """The work is done but for its effects in PostgreSQL."""

    effects: Callable[[Connection], Sequence[Send]]
    """Writes all that the work changes and returns the messages that it owes, in the transaction that marks the work
    succeeded. It may be called again after a lost transaction, so it must not change anything else."""
    reason: Callable[[], str | None] = field(default=lambda: None)
    """A remark for people, asked for after the effects."""


@dataclass(frozen=True)
class Skip:
    """There is nothing to do for this work, and a later try would find the same."""

    reason: str
    effects: Callable[[Connection], Sequence[Send]] = field(default=lambda _connection: ())


Outcome = Success | Skip
Work = Callable[["Attempt"], Outcome]
"""What a worker does: one attempt."""


class Settled(NamedTuple):
    """What effects of several tries came to."""

    reasons: Mapping[UUID, str | None]
    """By work that is done, a remark for people. What is not named here is tried by itself."""
    sends: Sequence[Send]
    """The messages that they owe."""


WorkTogether = Callable[[Connection, Sequence["Attempt"]], Settled]
"""Works on attempts of one tenant and writes what they change, all in the one transaction that marks them succeeded. It
may be called again after a lost transaction, so it must not change anything else; and each of its statements is a walk
along indexes (`db.BY_INDEX`). psycopg's errors leave it as they are."""


@dataclass(frozen=True)
class Works:
    """What a worker does that needs nothing but the database, as a rule, and can do several things in one go."""

    alone: Work
    together: WorkTogether
    """All attempts that came together, be it one: what can be done in a single transaction, for all of them.

    No try fails by it: where it raises, does not name a work, or its transaction is lost, each is worked on `alone`."""


@dataclass(frozen=True)
class Attempt:
    """One try at one piece of work."""

    work_id: UUID
    tenant_id: UUID | None
    revision: int
    number: int
    """Attempts begun in this revision, this one included."""
    token: int
    database: Database
    now: Callable[[], datetime]
    time_left: Callable[[], float] = field(default=lambda: inf)
    """Seconds until this try is asked to stop. Whatever it waits for must be bounded by them."""
    cancelled: Event = field(default_factory=Event)
    superseded: Event = field(default_factory=Event)

    def check(self) -> None:
        """Call between steps: ends the try when it has lost its claim or its time.

        Raises:
            StaleClaimError: a newer claim exists.
            CancelledError: the invocation is about to end.
        """
        if self.superseded.is_set():
            message = f"A newer claim than {self.token} exists on {self.work_id}"
            raise StaleClaimError(message)
        if self.cancelled.is_set():
            raise CancelledError("Stopped, since the invocation is about to end")
