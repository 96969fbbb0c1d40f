"""`counterfoil dlq operations`: operations on many dead letters are listed, shown, paused, resumed and aborted."""

from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.cloud.cloud import Cloud
from cli.cloud.place import place_of
from cli.dlq_options import AnyTenant, AsJson, Limit
from cli.failures import UsageError
from cli.listing import is_wanted
from cli.tables import of_tenants
from cli.tenants import Tenant, newest_of_each
from cli.terminal import aside, page, print_json
from cli.trail import By
from counterfoil.dead_letters import bulk
from counterfoil.dead_letters.bulk import BulkOperation, Item, State, Steer
from counterfoil.errors import RejectedRequestError

SUMMARY = "List operations on many dead letters; show, pause, resume and abort one."
STYLES: dict[State, str] = {
    "waiting": "cyan",
    "canary": "cyan",
    "running": "cyan",
    "paused": "yellow",
    "done": "green",
    "aborted": "dim",
    "stopped": "red",
}
SHOWN_ITEMS = 20

Which = Annotated[
    str,
    typer.Argument(metavar="ID", help="The operation's id, or the end of it as the list shows it.", show_default=False),
]

operations = typer.Typer(help=SUMMARY, invoke_without_command=True, add_completion=False, rich_markup_mode="markdown")


@operations.callback(invoke_without_command=True)
def operations_(
    context: typer.Context, *, tenant: AnyTenant = None, limit: Limit = 20, as_json: AsJson = False
) -> None:
    """List operations on many dead letters, the newest first; show, pause, resume and abort one."""
    if is_wanted(context, "operations"):
        _list(context, tenant, limit, as_json=as_json)


@operations.command("list")
def list_(context: typer.Context, *, tenant: AnyTenant = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List operations, the newest first, and how far each is."""
    _list(context, tenant, limit, as_json=as_json)


@operations.command("show")
def show(
    context: typer.Context,
    which: Which,
    *,
    items: Annotated[
        int, typer.Option("--letters", min=0, max=100_000, help="How many letters that were not done, at most.")
    ] = SHOWN_ITEMS,
    as_json: AsJson = False,
) -> None:
    """Show how far an operation is, and which letters were not done, with the reason. --json has all of them."""
    cloud = Cloud.at(place_of(context.obj))
    whose, operation = _named(cloud, which)
    with cloud.database.tenant(whose.id) as connection:
        if as_json:
            found = bulk.items(connection, operation.id, limit=operation.selected + 1)
        else:
            found = bulk.items(connection, operation.id, limit=items, result="failed")
            found += bulk.items(connection, operation.id, limit=items - len(found), result="skipped")
    if as_json:
        print_json(record_of(whose, operation) | {"items": [vars(item) for item in found]})
    else:
        _show(whose, operation, found)


@operations.command("pause")
def pause(context: typer.Context, which: Which, *, by: By, as_json: AsJson = False) -> None:
    """Pause an operation. What it has begun goes on: up to a minute's worth of its rate."""
    _steer(context, which, "pause", by, as_json=as_json)


@operations.command("resume")
def resume(context: typer.Context, which: Which, *, by: By, as_json: AsJson = False) -> None:
    """Resume an operation where it was paused."""
    _steer(context, which, "resume", by, as_json=as_json)


@operations.command("abort")
def abort(context: typer.Context, which: Which, *, by: By, as_json: AsJson = False) -> None:
    """End an operation for good. What it has begun goes on, and the other letters stay as they are."""
    _steer(context, which, "abort", by, as_json=as_json)


def record_of(whose: Tenant, operation: BulkOperation) -> dict[str, Any]:
    """An operation as JSON has it."""
    said = {
        "operation_id": operation.id,
        "tenant": whose.slug,
        "action": operation.action,
        "filter": operation.filter,
        "notes": operation.note,
        "rate": operation.rate,
        "canary": operation.canary,
        "requested_by": operation.requested_by,
        "requested_at": operation.requested_at,
        "state": operation.state,
        "version": operation.version,
        "reason": operation.reason,
        "ended_at": operation.ended_at,
        "total": operation.selected if operation.is_selected else None,
        "done": operation.done,
        "failed": operation.failed,
        "skipped": operation.skipped,
        "left": operation.selected - operation.handled,
    }
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in said.items()}


def look(cloud: Cloud, whose: Tenant, operation_id: UUID) -> BulkOperation:
    """An operation as it is."""
    with cloud.database.tenant(whose.id) as connection:
        return bulk.show(connection, operation_id)


def sentence_of(operation: BulkOperation) -> str:
    """How far an operation is."""
    total = f"{operation.selected:,}" if operation.is_selected else f"{operation.selected:,} or more"
    counts = f"{operation.done:,} of {total} letters done, {operation.failed:,} failed, {operation.skipped:,} skipped"
    why = f" {operation.reason}" if operation.reason else ""
    return f"Operation {ids.short(operation.id)} is {operation.state}: {counts}.{why}"


def _list(context: typer.Context, tenant: str | None, limit: int, *, as_json: bool) -> None:
    cloud = Cloud.at(place_of(context.obj))
    found = newest_of_each(cloud, tenant, partial(bulk.page, limit=limit), lambda one: one.requested_at)
    if as_json:
        print_json([record_of(whose, one) for whose, one in found])
    else:
        _show_list(found)


_ENDING_WITH = """
SELECT o.id, t.id, t.slug FROM dead_letter_operation o JOIN tenant t ON t.id = o.tenant_id
WHERE right(o.id::text, length(%(end)s)) = %(end)s LIMIT 2
"""


def _named(cloud: Cloud, text: str) -> tuple[Tenant, BulkOperation]:
    """The operation whose id this is, or ends with.

    Raises:
        UsageError: there is none, or more than one.
    """
    end, found = text.strip().lower(), []
    if len(end) >= ids.LEAST:
        with cloud.database.delivery() as connection:
            found = connection.execute(_ENDING_WITH, {"end": end}).fetchall()
    if len(found) != 1:
        what = "There is no operation whose" if not found else "More than one operation's"
        raise UsageError(f"{what} id ends with '{text}': 'counterfoil dlq operations' shows them.")
    ((operation_id, tenant_id, slug),) = found
    whose = Tenant(tenant_id, slug)
    return whose, look(cloud, whose, operation_id)


def _steer(context: typer.Context, text: str, how: Steer, by: str, *, as_json: bool) -> None:
    cloud = Cloud.at(place_of(context.obj))
    whose, seen = _named(cloud, text)
    try:
        with cloud.database.tenant(whose.id) as connection:
            changed = bulk.steer(connection, seen.id, how, version=seen.version, actor=by, now=datetime.now(UTC))
    except RejectedRequestError as error:
        raise UsageError(str(error)) from None
    if as_json:
        print_json(record_of(whose, changed))
    else:
        page().print(sentence_of(changed))


def _show_list(found: list[tuple[Tenant, BulkOperation]]) -> None:
    if not found:
        page().print("There are no operations on dead letters.")
        return
    counts = ("letters", "done", "failed", "skipped", "a second")
    table, add = of_tenants(
        [whose for whose, _ in found],
        *(Column(name, no_wrap=True) for name in ("id", "when", "what", "state")),
        *(Column(name, no_wrap=True, justify="right") for name in counts),
        Column("who", overflow="fold"),
    )
    for whose, one in found:
        cells = [Text(ids.short(one.id)), Text(f"{one.requested_at:%Y-%m-%d %H:%M}"), Text(one.action)]
        cells += [Text(one.state, STYLES[one.state]), Text(f"{one.selected:,}{'' if one.is_selected else '+'}")]
        cells += [Text(f"{number:,}") for number in (one.done, one.failed, one.skipped, one.rate)]
        add(whose, *cells, Text(one.requested_by))
    page().print(table)


def _show(whose: Tenant, operation: BulkOperation, items: list[Item]) -> None:
    page().print(Text(sentence_of(operation)))
    asked = f"{operation.requested_at:%Y-%m-%d %H:%M:%S} UTC by {operation.requested_by}"
    facts = [("tenant", whose.slug), ("what", operation.action), ("asked for", asked), ("rate", f"{operation.rate}/s")]
    if operation.canary is not None:
        facts.append(("canary", f"{operation.canary} first"))
    said = operation.filter
    which = "named one by one" if said is None else ", ".join(f"{name} {value}" for name, value in said.items())
    facts.append(("letters", which or "all that were pending"))
    if operation.note is not None:
        facts.append(("note", operation.note))
    table = Table(
        Column(no_wrap=True, style="dim"), Column(overflow="fold"), box=None, pad_edge=False, show_header=False
    )
    for name, value in facts:
        table.add_row(name, Text(value))
    page().print(table)
    if items:
        _show_items(operation, items)


def _show_items(operation: BulkOperation, items: list[Item]) -> None:
    table = Table(Column("letter", no_wrap=True), Column("result", no_wrap=True), "why", box=None, pad_edge=False)
    for item in items:
        table.add_row(Text(ids.short(item.job_id)), Text(item.result or ""), Text(item.reason or ""))
    page().print(table)
    more = operation.failed + operation.skipped - len(items)
    if more > 0:
        aside().print(f"And {more:,} more: --letters shows them, --json all letters.")
