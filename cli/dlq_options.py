"""Options that commands of `counterfoil dlq` share: which dead letters they are about, and how it is told."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from cli.client import Api
from cli.failures import UsageError
from cli.options import moment
from counterfoil.dead_letters.search import STATUSES, Status

FINGERPRINT_SHOWN = 8
SEVERAL_STATES = f"{', '.join(STATUSES)}. It may be given several times."
OneTenant = Annotated[
    str | None, typer.Option("--tenant", help="The tenant, by its slug, where there are several.", show_default=False)
]
States = Annotated[
    list[str] | None,
    typer.Option("--status", help=f"Only those in this state: {SEVERAL_STATES}", show_default=False),
]
OfType = Annotated[str | None, typer.Option("--type", help="Only those of this type of task.", show_default=False)]
OfGroup = Annotated[
    str | None,
    typer.Option("--group", help="Only those of this group, as the list of groups shows it.", show_default=False),
]
Since = Annotated[
    datetime | None,
    typer.Option(
        "--from",
        parser=moment,
        metavar="TIME",
        help="Died then or later: 2026-01-31, or 2026-01-31T09:00 (UTC).",
        show_default=False,
    ),
]
Until = Annotated[
    datetime | None, typer.Option("--to", parser=moment, metavar="TIME", help="Died before.", show_default=False)
]
WithText = Annotated[
    str | None,
    typer.Option(
        "--text", help="Words of the error and of the file's name, all of them; or an id.", show_default=False
    ),
]


def states_of(given: Sequence[str] | None) -> Sequence[Status]:
    """The states that an option names; all of them, where it names none.

    Raises:
        UsageError: one is none.
    """
    for name in given or ():
        if name not in STATUSES:
            raise UsageError(f"'{name}' is no state: there are {', '.join(STATUSES)}.")
    return [status for status in STATUSES if status in given] if given else STATUSES


def fingerprint_of(api: Api, text: str | None) -> str | None:
    """The fingerprint that this is, or the beginning of; none, where none is named.

    Raises:
        UsageError: there is none, or more than one.
    """
    return None if text is None else api.named("group", text, "dlq groups")
