"""Commands of `counterfoil`, imported on first use."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


@dataclass(frozen=True)
class Command:
    """A command's import path, help summary and help panel.

    The summary is the first line of the command's docstring.
    """

    target: str
    summary: str
    panel: str


CLOUD, WORK, TASKS = "Local cloud", "Documents", "Tasks"
READ, ACCOUNT = "Without a cloud", "Deployments on AWS"
COMMANDS = {
    "up": Command("cli.local.commands:up", "Start the local cloud and deploy the app into it.", CLOUD),
    "down": Command("cli.local.commands:down", "Stop the local cloud and delete all its data.", CLOUD),
    "status": Command(
        "cli.local.commands:status", "Show whether the local cloud is running, and its pending messages.", CLOUD
    ),
    "console": Command(
        "cli.local.console:console", "Show the URL of the local cloud's console, and a user to sign in as.", CLOUD
    ),
    "demo": Command("tools.demo.command:demo", "Process sample documents and show the results.", CLOUD),
    "replay": Command("tools.replay.command:replay", "Replay an incident with many invoices in one file.", CLOUD),
    "tenants": Command(
        "cli.commands.tenants:app",
        "Add and list tenants, and set their addresses, admins, destinations and tolerances.",
        WORK,
    ),
    "people": Command("cli.commands.people:app", "Invite people, and change their roles and tenants.", WORK),
    "ingest": Command(
        "cli.commands.ingest:ingest", "Upload files for a tenant, or mail for its recipients' tenants.", WORK
    ),
    "documents": Command(
        "cli.commands.documents:app",
        "Show uploads; list, show, delete and replace documents.",
        WORK,
    ),
    "clusters": Command(
        "cli.commands.clusters:app",
        "List clusters by status. Show one with its variances; accept or dispute them.",
        WORK,
    ),
    "mail": Command("cli.commands.mail:app", "List mail that failed DMARC; release or reject it.", WORK),
    "review": Command("cli.commands.review:app", "Review ambiguous matches, and correct mistakes.", WORK),
    "reprocess": Command(
        "cli.commands.reprocess:reprocess",
        "Extract or match a tenant's documents again, for example after a release.",
        WORK,
    ),
    "tasks": Command("cli.commands.tasks:app", "Submit tasks for the workers; show, list and cancel them.", TASKS),
    "chat": Command("cli.commands.chat:chat", "Chat with the language model.", TASKS),
    "offers": Command(
        "cli.commands.offers:app", "List daily offers by date and time zone; queue offers for a date.", TASKS
    ),
    "dlq": Command(
        "cli.commands.dlq:app", "Find, show, retry, close and export dead letters (failed work items).", TASKS
    ),
    "operations": Command(
        "cli.commands.operations:app",
        "List, show, pause, resume or cancel operations on dead letters and documents.",
        TASKS,
    ),
    "queues": Command("cli.commands.queues:app", "Show queue depths and outcomes; pause and resume queues.", TASKS),
    "audit": Command("cli.commands.audit:app", "Verify that the audit trail has not been altered.", TASKS),
    "openapi": Command("cli.local.openapi:openapi", "Print the OpenAPI 3.1 description of the HTTP API.", READ),
    "login": Command("cli.commands.login:login", "Sign in to a deployment with the browser.", ACCOUNT),
    "logout": Command("cli.commands.login:logout", "Revoke and delete a stored login.", ACCOUNT),
    "cdk": Command("cli.local.deployment:app", "Run the CDK CLI for an AWS account.", ACCOUNT),
    "extract": Command("tools.extract:extract", "Extract documents from files and show their fields.", READ),
    "simulate": Command(
        "tools.simulation.command:simulate",
        "Simulate delivery with duplicate messages, crashes and outages.",
        READ,
    ),
    "evaluate": Command(
        "tools.evaluation.command:evaluate", "Match a labeled set of documents and write the results.", READ
    ),
    "train": Command("tools.training.command:train", "Learn match weights from labeled sets of documents.", READ),
}


class _LazyGroup(TyperGroup):
    """Command group that imports only the invoked command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command named in `args[0]`, and resolve it."""
        command = COMMANDS.get(args[0])
        if command is not None:
            self.commands[args[0]] = _load_command(command.target, args[0])
        return super().resolve_command(ctx, args)


def _load_command(target: str, name: str) -> Any:
    module, attribute = target.split(":")
    command = getattr(import_module(module), attribute)
    if not isinstance(command, typer.Typer):
        wrapper = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        wrapper.command(name)(command)
        command = wrapper
    return typer.main.get_command(command)


app = typer.Typer(
    name="counterfoil",
    cls=_LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name, help=_command.summary, rich_help_panel=_command.panel)(lambda: None)


@app.callback()
def counterfoil(
    context: typer.Context,
    *,
    local: Annotated[
        Path | None,
        typer.Option(
            envvar="COUNTERFOIL_LOCAL",
            help="Folder of the local cloud. Default: .local in the project. Each folder is an independent cloud.",
            show_default=False,
            file_okay=False,
        ),
    ] = None,
) -> None:
    """Match business documents such as invoices, purchase orders and delivery notes.

    Results go to standard output, progress and notes to standard error. Exit codes: 0 success, 1 unexpected result,
    2 usage error, 3 no local cloud, 4 internal error, 130 interrupted.
    """
    context.obj = local
