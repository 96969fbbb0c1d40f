"""Options shared by several commands."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from cli.failures import UsageError


def moment(text: str) -> datetime:
    """Parse a time as the API does: in UTC unless it has an offset.

    Raises:
        UsageError: the text is not a time.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"'{text}' is not a time: write 2026-01-31, or 2026-01-31T09:00 (UTC).") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AnyTenant = Annotated[str | None, typer.Option("--tenant", help="Only this tenant, by slug.", show_default=False)]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of items.")]
Since = Annotated[
    datetime | None,
    typer.Option(
        "--since",
        parser=moment,
        metavar="TIME",
        help="Received at or after this time: 2026-01-31, or 2026-01-31T09:00 (UTC).",
        show_default=False,
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option("--until", parser=moment, metavar="TIME", help="Received before this time.", show_default=False),
]
Override = Annotated[bool, typer.Option("--override", help="Replace an earlier decision.")]
