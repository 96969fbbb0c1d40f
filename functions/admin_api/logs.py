"""Where the log of a try is: its group in CloudWatch Logs, what to look for there, and where the AWS console shows it.

Each try writes a line with its work's id, its revision and the id of the X-Ray trace.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from urllib.parse import quote
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
    url: str | None = Field(description="Of the same in the AWS console; null in a local cloud, which has none.")


_DOMAINS = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
"""Of the console in partitions of AWS that have another one."""


def console(environment: Mapping[str, str]) -> str | None:
    """Where CloudWatch begins in the AWS console of a function's region; None beside an emulator, which has none."""
    region = environment.get("AWS_REGION")
    if region is None or "AWS_ENDPOINT_URL" in environment:
        return None
    domain = next((found for begins, found in _DOMAINS.items() if region.startswith(begins)), "console.aws.amazon.com")
    return f"https://{region}.{domain}/cloudwatch/home?region={region}"


def of_try(
    worker: str, work_id: UUID, revision: int, began_at: datetime, ended_at: datetime, console: str | None
) -> TryLog:
    """Where the log of one try is, in CloudWatch and in the AWS `console`."""
    found = TryLog(
        group=f"/aws/lambda/counterfoil-{worker}",
        filter=f'{{ $.work_id = "{work_id}" && $.revision = {revision} }}',
        since=began_at - AROUND,
        until=ended_at + AROUND,
        url=None,
    )
    return found if console is None else found.model_copy(update={"url": _url(console, found)})


def _url(console: str, log: TryLog) -> str:
    asked = {"filterPattern": log.filter, "start": _milliseconds(log.since), "end": _milliseconds(log.until)}
    parameters = "$26".join(f"{name}$3D{_twice(value)}" for name, value in asked.items())
    return f"{console}#logsV2:log-groups/log-group/{_twice(log.group)}/log-events$3F{parameters}"


def _twice(text: str) -> str:
    """As the console's own addresses have it: encoded twice, with a dollar sign for each percent sign."""
    return quote(quote(text, safe=""), safe="").replace("%", "$")


def _milliseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1000))


def of_trace(trace_id: str | None, console: str | None) -> str | None:
    """Where the AWS `console` shows a trace."""
    return None if trace_id is None or console is None else f"{console}#xray:traces/{trace_id}"
