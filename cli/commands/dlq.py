"""`counterfoil dlq` with all of its subcommands."""

from collections.abc import Callable

import typer

from cli.commands import dead_letter_changes, dead_letter_exports, dead_letters

SUMMARY = "Find, show, retry, close and export dead letters (failed work items)."

app = typer.Typer(
    help=f"""{SUMMARY}

    Dead letters with the same error form a group. Commands use the deployment of the last `counterfoil login`. If
    you are not signed in, they sign in to the local cloud as an admin.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "list": dead_letters.list_,
    "show": dead_letters.show,
    "groups": dead_letters.groups_,
    "stats": dead_letters.stats,
    "retry": dead_letter_changes.retry,
    "resolve": dead_letter_changes.resolve,
    "ignore": dead_letter_changes.ignore,
    "edit": dead_letter_changes.edit,
    "audit": dead_letter_changes.audit_,
    "export": dead_letter_exports.export_,
    "fetch": dead_letter_exports.fetch,
    "bulk-retry": dead_letter_changes.bulk_retry,
    "bulk-resolve": dead_letter_changes.bulk_resolve,
    "bulk-ignore": dead_letter_changes.bulk_ignore,
    "purge": dead_letter_changes.purge,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
