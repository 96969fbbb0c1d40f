"""What somebody may ask of the scheduler: the daily offers of one date in one time zone."""

from datetime import date, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from counterfoil.errors import PermanentError
from counterfoil.offers.schedule import Due, NoSuchDateError, UnknownZoneError, of_date, zone_info
from counterfoil.validation import Problem, validate

LONGEST_AGO = timedelta(days=7)
"""What was missed for longer is of no use to anybody."""


class RefusedError(PermanentError):
    """Nobody can have what is asked for. The sentence says why."""


class Asked(BaseModel):
    """What is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    day: date = Field(alias="date")
    timezone: str = Field(min_length=1, max_length=64)
    tenant: str | None = None
    """Its slug; None: every tenant's."""
    by: str = Field(min_length=1, max_length=254)
    """The operator, for the audit trail."""

    @classmethod
    def of(cls, event: Any) -> "Asked":
        """Read it.

        Raises:
            RefusedError: it cannot be read.
        """
        return validate(cls, event, _wrong)

    def due(self, now: datetime) -> Due:
        """The offers of the date.

        Raises:
            RefusedError: there is no such zone or date, its 9:00 is still to come, or it is long over.
        """
        try:
            found = self._found(now)
        except (UnknownZoneError, NoSuchDateError) as error:
            raise RefusedError(str(error)) from None
        if found.offered_at > now:
            raise RefusedError(
                f"{self.day} is not due yet in {self.timezone}: "
                f"its 9:00 is at {found.offered_at:%Y-%m-%d %H:%M} UTC, and it is {now:%Y-%m-%d %H:%M} UTC"
            )
        return found

    def _found(self, now: datetime) -> Due:
        today = now.astimezone(zone_info(self.timezone)).date()
        if abs(self.day - today) > LONGEST_AGO:  # neither of the two has a year that is out of all bounds
            when = "long over" if self.day < today else "not there yet"
            raise RefusedError(f"{self.day} is {when} in {self.timezone}: it is {today} there")
        return of_date(self.timezone, self.day)


def _wrong(problem: Problem) -> RefusedError:
    return RefusedError(f"{'.'.join(map(str, problem.place)) or 'What is asked for'} is wrong: {problem.message}")
