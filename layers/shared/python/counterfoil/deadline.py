"""Time limit and stop signals for attempts in progress."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from threading import Event

from counterfoil.errors import CancelledError, StaleClaimError


@dataclass(frozen=True)
class Deadline:
    """Time limit and stop signals of one attempt.

    Every wait must end within `remaining` seconds.
    """

    remaining: Callable[[], float] = field(default=lambda: inf)
    """Returns the seconds until the attempt is canceled."""
    canceled: Event = field(default_factory=Event)
    superseded: Event = field(default_factory=Event)
    """Set once a newer claim exists."""

    def check(self) -> None:
        """Raise if the attempt must stop. Call between steps.

        Raises:
            StaleClaimError: a newer claim exists.
            CancelledError: the invocation is about to end.
        """
        if self.superseded.is_set():
            raise StaleClaimError("A newer claim exists")
        if self.canceled.is_set():
            raise CancelledError("Stopped because the invocation is about to end")
