"""Commands that list something when no command follows them: `counterfoil documents`, `clusters`, `review`."""

import typer

from cli.failures import UsageError


def is_wanted(context: typer.Context, what: str) -> bool:
    """Whether the list is asked for, and not a command behind it; `what` it is a list of, for people.

    Raises:
        UsageError: an option of the list stands before another command, which would not hear it.
    """
    if context.invoked_subcommand is None:
        return True
    given = [
        option.opts[0]
        for option in context.command.params
        if (source := context.get_parameter_source(option.name or "")) is not None and source.name == "COMMANDLINE"
    ]
    if given:
        raise UsageError(
            f"{', '.join(given)} before '{context.invoked_subcommand}' would mean the list of {what}: "
            f"leave it out, or write it behind '{context.invoked_subcommand}' if that takes it."
        )
    return False
