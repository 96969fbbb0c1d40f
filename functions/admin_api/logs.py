"""Where the log of a try is: its group in CloudWatch Logs, and what to look for there.

Each try writes a line with its work's id, its revision and the id of the X-Ray trace.
"""

from datetime import datetime, timedelta
from uuid import UUID

from pydantic import BaseModel, Field

AROUND = timedelta(minutes=1)
"""A line is written a moment after its try is settled; and clocks differ."""


class TryLog(BaseModel):
    """What `aws logs filter-log-events` is to be asked for. Logs are kept for three months."""

    group: str = Field(description="Of CloudWatch Logs.")
    filter: str = Field(
        description="A filter pattern for the lines of this work, each with its outcome, attempt and trace_id."
    )
    since: datetime
    until: datetime


def of_try(worker: str, work_id: UUID, revision: int, began_at: datetime, ended_at: datetime) -> TryLog:
    """Where the log of one try is."""
    return TryLog(
        group=f"/aws/lambda/counterfoil-{worker}",
        filter=f'{{ $.work_id = "{work_id}" && $.revision = {revision} }}',
        since=began_at - AROUND,
        until=ended_at + AROUND,
    )
