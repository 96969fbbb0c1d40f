"""Who does something to documents, and why: options of every command that leaves a trail."""

import getpass
from typing import Annotated

import typer

from cli.failures import UsageError

LONGEST_NAME, LONGEST_REASON = 254, 2000
"""Characters that the trail keeps."""


def user() -> str:
    """The name of the system's user.

    Raises:
        UsageError: the system does not know it.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user whom it does not know
        raise UsageError("This system does not know your user name: say who you are with --by NAME.") from None


def _name(given: str) -> str:
    return _told("--by", given, LONGEST_NAME)


def _reason(given: str | None) -> str | None:
    return None if given is None else _told("--reason", given, LONGEST_REASON)


def _told(option: str, given: str, longest: int) -> str:
    if not given.strip() or len(given) > longest or not given.isprintable():
        raise UsageError(f"{option} takes 1 to {longest} characters in one line.")
    return given


By = Annotated[
    str,
    typer.Option(
        "--by",
        help="Who does it, for the trail.",
        default_factory=user,
        show_default="your user name",
        callback=_name,
    ),
]
Reason = Annotated[
    str | None, typer.Option("--reason", help="Why, for the trail.", show_default=False, callback=_reason)
]
