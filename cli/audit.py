"""`counterfoil audit verify`: whether the audit trail is as it was written."""

from uuid import UUID

import typer

from cli.cloud.cloud import Cloud
from cli.cloud.place import place_of
from cli.dlq_options import AnyTenant, AsJson
from cli.tenants import NOBODY, chosen
from cli.terminal import page, print_json
from counterfoil.db import Connection
from counterfoil.dead_letters import audit

SUMMARY = "Check that nobody has changed the trail of who changed what."

app = typer.Typer(
    help=f"""{SUMMARY}

    Each entry holds a hash of itself and of the entry before it, so that one which was changed, taken out or put in
    breaks the chain.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@app.callback()
def _group() -> None:
    """A group, even of one command."""


@app.command("verify")
def verify(context: typer.Context, *, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """Read the whole trail of each tenant and compute its hashes anew; ends with 1 where one is broken.

    That of messages that could not be read, and of queues, is nobody's: `-`.
    """
    cloud = Cloud.at(place_of(context.obj))
    found: list[tuple[str, int, audit.Broken | None]] = []
    for whose in () if tenant == NOBODY else chosen(cloud, tenant):
        with cloud.database.tenant(whose.id) as connection:
            found.append((whose.slug, *_verified(connection, whose.id)))
    if tenant in {None, NOBODY}:
        with cloud.database.delivery() as connection:
            found.append((NOBODY, *_verified(connection, None)))
    if as_json:
        print_json(
            [
                {"tenant": slug, "entries": number, "broken": None if broken is None else vars(broken)}
                for slug, number, broken in found
            ]
        )
    else:
        for slug, number, broken in found:
            page().print(
                f"{slug}: whole, {number} entries"
                if broken is None
                else f"{slug}: broken at {broken.number}. {broken.why}",
                style="green" if broken is None else "red",
                highlight=False,
            )
    if any(broken is not None for _, _, broken in found):
        raise typer.Exit(1)


def _verified(connection: Connection, tenant_id: UUID | None) -> tuple[int, audit.Broken | None]:
    newest = audit.page(connection, tenant_id, limit=1)
    return newest[0].number if newest else 0, audit.verify(connection, tenant_id)
