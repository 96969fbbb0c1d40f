"""`counterfoil reprocess`: a tenant's documents are read or matched anew, so many a minute, as a stored operation."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Column, Table
from rich.text import Text

from cli.failures import UsageError
from cli.ids import short
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.tenants import Tenant, chosen
from cli.terminal import page, print_json
from cli.trail import By
from counterfoil.documents import operations
from counterfoil.documents.operations import MAX_RATE, Operation, State

SUMMARY = "Read or match a tenant's documents anew, so many a minute."
STYLES = {"running": "cyan", "paused": "yellow", "done": "green", "aborted": "dim"}
_DAY = "%Y-%m-%d"

app = typer.Typer(
    help=f"""{SUMMARY}

    For after an algorithm has changed. An operation is stored, and the watchdog begins its documents minute by minute.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


class What(StrEnum):
    """What is done anew."""

    EXTRACT = "extract"
    MATCH = "match"


Which = Annotated[str, typer.Argument(metavar="ID", help="Of the operation, or the end of it as the list shows it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


def record(slug: str, operation: Operation) -> dict[str, Any]:
    """An operation as JSON has it."""
    return {
        "id": operation.id,
        "tenant": slug,
        "what": operation.kind,
        "from": operation.received_from and operation.received_from.isoformat(),
        "to": operation.received_until.isoformat(),
        "rate": operation.rate,
        "state": operation.state,
        "begun": operation.begun,
        "requested_by": operation.requested_by,
        "requested_at": operation.requested_at.isoformat(),
        "ended_at": operation.ended_at and operation.ended_at.isoformat(),
    }


@app.command("start")
def start(  # one for each option
    context: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant, by its slug.")],
    *,
    what: Annotated[What, typer.Option(help="Extract: read the files anew, then match. Match: only that.")],
    since: Annotated[
        datetime | None,
        typer.Option("--from", formats=[_DAY], help="Documents received from this day on (UTC).", show_default="all"),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--to", formats=[_DAY], help="Those received before this day (UTC).", show_default="now"),
    ] = None,
    rate: Annotated[int, typer.Option(min=1, max=MAX_RATE, help="Documents a minute.")] = 60,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Begin an operation. What is received later is done by what runs then, and not meant."""
    cloud = Cloud.at(place_of(context.obj))
    now = cloud.database.now()
    (tenant,) = chosen(cloud, slug)
    first, last = (moment and moment.replace(tzinfo=UTC) for moment in (since, until))
    if first is not None and first >= min(last or now, now):
        raise UsageError("There is no time between --from and --to, or it has not come yet.")
    with cloud.database.tenant(tenant.id) as connection:
        asked = operations.request(
            connection, tenant.id, what.value, received_from=first, received_until=last, rate=rate, by=by, now=now
        )
    if as_json:
        print_json(record(slug, asked))
    else:
        page().print(f"Operation {short(asked.id)} begins within a minute. How far it is: counterfoil reprocess list")


@app.command("list")
def list_(
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by its slug.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List the operations, the newest of each tenant first, and how many documents each has begun."""
    cloud = Cloud.at(place_of(context.obj))
    found = _all(cloud, tenant)
    if as_json:
        print_json([record(slug, operation) for slug, operation in found])
        return
    if not found:
        page().print("There are no operations.")
        return
    right = (Column(name, justify="right") for name in ("rate", "begun"))
    table = Table("id", "tenant", "what", "received", *right, "state", "by", box=None, pad_edge=False)
    for slug, one in found:
        first = f"{one.received_from:%Y-%m-%d} to" if one.received_from else "until"
        table.add_row(
            short(one.id),
            slug,
            one.kind,
            f"{first} {one.received_until:%Y-%m-%d}",
            str(one.rate),
            str(one.begun),
            Text(one.state, STYLES[one.state]),
            Text(one.requested_by),
        )
    page().print(table)


@app.command("pause")
def pause(context: typer.Context, operation: Which, *, by: By, as_json: AsJson = False) -> None:
    """Pause an operation. What it has begun goes on."""
    _change(context, operation, "paused", by, as_json=as_json)


@app.command("resume")
def resume(context: typer.Context, operation: Which, *, by: By, as_json: AsJson = False) -> None:
    """Resume an operation where it was paused."""
    _change(context, operation, "running", by, as_json=as_json)


@app.command("abort")
def abort(context: typer.Context, operation: Which, *, by: By, as_json: AsJson = False) -> None:
    """End an operation for good. What it has begun goes on."""
    _change(context, operation, "aborted", by, as_json=as_json)


def _all(cloud: Cloud, slug: str | None) -> list[tuple[str, Operation]]:
    found: list[tuple[str, Operation]] = []
    for tenant in chosen(cloud, slug):
        with cloud.database.tenant(tenant.id) as connection:
            found += [(tenant.slug, operation) for operation in operations.of_tenant(connection, tenant.id)]
    return found


def _change(context: typer.Context, text: str, state: State, by: str, *, as_json: bool) -> None:
    cloud = Cloud.at(place_of(context.obj))
    tenant, id_, found = _named(cloud, text)
    with cloud.database.tenant(tenant.id) as connection:
        changed = operations.change(connection, id_, state, cloud.database.now(), by=by)
    if changed is None:
        raise UsageError(f"The operation {short(id_)} is {found.state}, and cannot become {state}.")
    if as_json:
        print_json(record(tenant.slug, changed))
    else:
        page().print(f"Operation {short(id_)} is {changed.state}; {changed.begun} documents were begun.")


def _named(cloud: Cloud, text: str) -> tuple[Tenant, UUID, Operation]:
    found = [one for one in _all(cloud, None) if text and str(one[1].id).endswith(text.strip().lower())]
    if len(found) != 1:
        what = "There is no operation" if not found else "There are several operations"
        raise UsageError(f"{what} '{text}': 'counterfoil reprocess list' shows those that there are.")
    ((slug, operation),) = found
    return Tenant(operation.tenant_id, slug), operation.id, operation
