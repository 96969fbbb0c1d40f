"""`counterfoil operations`: list, show, steer and undo operations on dead letters and documents."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated, Literal

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.client import Api, By, reach
from cli.dlq import plain
from cli.options import AnyTenant, AsJson, Limit
from cli.output import aside, is_wanted, of_tenants, page, print_json
from counterfoil.operations.store import LISTING, REPROCESSING, Result, State, Steer
from functions.admin_api.api.operations import (
    OperationItem,
    OperationItemPage,
    OperationPage,
    OperationProgress,
)

SUMMARY = "List operations on dead letters and documents; show, pause, resume and cancel one."
_DID = {
    "purge": "dead letters hidden",
    "restore": "dead letters restored",
    "export": "dead letters written",
    "extract": "documents begun",
    "match": "documents begun",
}
STYLES: dict[State, str] = {
    "waiting": "cyan",
    "canary": "cyan",
    "running": "cyan",
    "paused": "yellow",
    "done": "green",
    "cancelled": "dim",
    "stopped": "red",
}
SHOWN_ITEMS = 20

Which = Annotated[
    str,
    typer.Argument(metavar="ID", help="The operation's id, or the end of it as the list shows it.", show_default=False),
]

app = typer.Typer(help=SUMMARY, invoke_without_command=True, add_completion=False, rich_markup_mode="markdown")


@app.callback(invoke_without_command=True)
def operations_(
    context: typer.Context, *, tenant: AnyTenant = None, limit: Limit = 20, as_json: AsJson = False
) -> None:
    """List operations on dead letters and documents; show, pause, resume and cancel one."""
    if is_wanted(context, "operations"):
        _list(context, tenant, limit, as_json=as_json)


@app.command("list")
def list_(context: typer.Context, *, tenant: AnyTenant = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List operations, the newest first, and how far each is."""
    _list(context, tenant, limit, as_json=as_json)


@app.command("show")
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
    api = reach(context)
    path = _path(api, which)
    operation = api.get(path, OperationProgress)
    if as_json:
        print_json(plain(operation) | {"items": [plain(item) for item in _items(api, path, None, None)]})
        return
    found = list(_items(api, path, "failed", items))
    found += _items(api, path, "skipped", items - len(found))
    _show(api, operation, found)


@app.command("pause")
def pause(context: typer.Context, which: Which, *, by: By, as_json: AsJson = False) -> None:
    """Pause an operation. What it has begun goes on: up to a minute's worth of its rate."""
    _steer(context, which, "pause", by, as_json=as_json)


@app.command("resume")
def resume(context: typer.Context, which: Which, *, by: By, as_json: AsJson = False) -> None:
    """Resume an operation where it was paused."""
    _steer(context, which, "resume", by, as_json=as_json)


@app.command("cancel")
def cancel(context: typer.Context, which: Which, *, by: By, as_json: AsJson = False) -> None:
    """End an operation for good. What it has begun goes on, and the other letters stay as they are."""
    _steer(context, which, "cancel", by, as_json=as_json)


@app.command("restore")
def restore(context: typer.Context, which: Which, *, by: By, as_json: AsJson = False) -> None:
    """Undo a purge within a week. Messages in SQS are not restored."""
    _steer(context, which, "restore", by, as_json=as_json)


def look(api: Api, operation: OperationProgress) -> OperationProgress:
    """An operation as it is now."""
    return api.get(f"/api/admin/operations/{operation.operation_id}", OperationProgress)


def handled(operation: OperationProgress) -> int:
    """How many letters have a result."""
    return operation.done + operation.failed + operation.skipped


def sentence_of(operation: OperationProgress) -> str:
    """How far an operation is."""
    total = f"{_selected(operation):,}" if operation.total is not None else f"{_selected(operation):,} or more"
    if operation.action not in LISTING:
        counts = f"{operation.done:,} {_DID[operation.action]}"
    else:
        counts = f"{operation.done:,} of {total} letters done, {operation.failed:,} failed"
        counts += f", {operation.skipped:,} skipped"
    why = f" {operation.reason}" if operation.reason else ""
    return f"Operation {ids.short(operation.operation_id)} is {operation.state}: {counts}.{why}"


def _rate(operation: OperationProgress) -> str:
    if operation.rate is None:
        return ""
    return f"{operation.rate:,}/{'min' if operation.action in REPROCESSING else 's'}"


def _selected(operation: OperationProgress) -> int:
    """How many letters are selected by now."""
    return handled(operation) + operation.left


def _list(context: typer.Context, tenant: str | None, limit: int, *, as_json: bool) -> None:
    api = reach(context)
    found = [operation for whose in api.tenants(tenant) for operation in _operations(api, whose, limit)]
    found = sorted(found, key=lambda one: one.requested_at, reverse=True)[:limit]
    if as_json:
        print_json([plain(one) for one in found])
    else:
        _show_list(api, found)


def _operations(api: Api, tenant: str, limit: int) -> Iterator[OperationProgress]:
    pages = api.pages("/api/admin/operations", OperationPage, limit=limit, tenant=tenant)
    return islice((operation for page in pages for operation in page.operations), limit)


def _items(api: Api, path: str, result: Result | None, limit: int | None) -> Iterator[OperationItem]:
    """What became of an operation's letters; None: of all of them."""
    if limit == 0:
        return iter(())
    pages = api.pages(f"{path}/items", OperationItemPage, limit=limit, result=result)
    return islice((item for page in pages for item in page.items), limit)


def _path(api: Api, which: str) -> str:
    return f"/api/admin/operations/{api.named('operation', which, 'operations')}"


def _steer(context: typer.Context, which: str, how: Steer | Literal["restore"], by: str, *, as_json: bool) -> None:
    api = reach(context, by)
    path = _path(api, which)
    seen = api.get(path, OperationProgress)
    changed = api.ask("POST", f"{path}/{how}", OperationProgress, seen=seen.version)
    if as_json:
        print_json(plain(changed))
    else:
        page().print(sentence_of(changed))


def _show_list(api: Api, found: list[OperationProgress]) -> None:
    if not found:
        page().print("There are no operations.")
        return
    counts = ("items", "done", "failed", "skipped", "rate")
    table, add = of_tenants(
        [one.tenant for one in found],
        *(Column(name, no_wrap=True) for name in ("id", "when", "what", "state")),
        *(Column(name, no_wrap=True, justify="right") for name in counts),
        Column("who", overflow="fold"),
    )
    for one in found:
        asked = datetime.fromisoformat(one.requested_at)
        cells = [Text(ids.short(one.operation_id)), Text(f"{asked:%Y-%m-%d %H:%M}"), Text(one.action)]
        cells += [Text(one.state, STYLES[one.state]), Text(f"{_selected(one):,}{'+' if one.total is None else ''}")]
        cells += [Text(f"{number:,}") for number in (one.done, one.failed, one.skipped)] + [Text(_rate(one))]
        add(one.tenant, *cells, Text(api.name_of(one.requested_by)))
    page().print(table)


def _show(api: Api, operation: OperationProgress, items: list[OperationItem]) -> None:
    page().print(Text(sentence_of(operation)))
    when = datetime.fromisoformat(operation.requested_at)
    asked = f"{when:%Y-%m-%d %H:%M:%S} UTC by {api.name_of(operation.requested_by)}"
    facts = [
        ("tenant", operation.tenant),
        ("what", operation.action),
        ("asked for", asked),
        ("rate", _rate(operation)),
    ]
    if operation.canary is not None:
        facts.append(("canary", f"{operation.canary} first"))
    said = operation.filter
    which = (
        "named one by one"
        if said is None
        else ", ".join(f"{name} {value}" for name, value in said.items() if value is not None)
    )
    facts.append(("which", which or ("all" if operation.action == "export" else "all that were pending")))
    if operation.notes is not None:
        facts.append(("note", operation.notes))
    if operation.file is not None:
        file = operation.file
        facts.append(("file", f"{file.format}, {file.bytes:,} bytes, until {file.expires_at:%Y-%m-%d %H:%M} UTC"))
    table = Table(
        Column(no_wrap=True, style="dim"), Column(overflow="fold"), box=None, pad_edge=False, show_header=False
    )
    for name, value in facts:
        table.add_row(name, Text(value))
    page().print(table)
    if items:
        _show_items(operation, items)


def _show_items(operation: OperationProgress, items: list[OperationItem]) -> None:
    table = Table(Column("letter", no_wrap=True), Column("result", no_wrap=True), "why", box=None, pad_edge=False)
    for item in items:
        table.add_row(Text(ids.short(item.job_id)), Text(item.result or ""), Text(item.reason or ""))
    page().print(table)
    more = operation.failed + operation.skipped - len(items)
    if more > 0:
        aside().print(f"And {more:,} more: --letters shows them, --json all letters.")
