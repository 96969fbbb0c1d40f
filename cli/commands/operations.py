"""`counterfoil operations`: list, show, control and undo operations.

An operation processes many dead letters or documents.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.client import Api, By, connect
from cli.options import AnyTenant, AsJson, Limit
from cli.output import facts_table, format_time, is_list_requested, print_json, stderr, stdout, tenant_table

SUMMARY = "List, show, pause, resume or cancel operations on dead letters and documents."
PATH = "/api/admin/operations"
RESULTS = {
    "purge": "dead letters hidden",
    "restore": "dead letters restored",
    "export": "dead letters written",
    "extract": "documents started",
    "match": "documents started",
}
"""Label for succeeded items, for actions that do not list their items."""
STYLES = {
    "selecting": "cyan",
    "canary": "cyan",
    "running": "cyan",
    "paused": "yellow",
    "done": "green",
    "canceled": "dim",
    "halted": "red",
}
"""Style of each state."""
PER_MINUTE = {"extract", "match"}
"""Actions whose rate is per minute. Other rates are per second."""
MAX_ITEMS_SHOWN = 20

Operation = Mapping[str, Any]
"""An operation as returned by the API."""
OperationId = Annotated[
    str,
    typer.Argument(metavar="ID", help="Operation id, or its last characters as listed.", show_default=False),
]

app = typer.Typer(help=SUMMARY, invoke_without_command=True, add_completion=False, rich_markup_mode="markdown")


@app.callback(invoke_without_command=True)
def operations_(
    context: typer.Context, *, tenant: AnyTenant = None, limit: Limit = 20, as_json: AsJson = False
) -> None:
    """List, show, pause, resume or cancel operations on dead letters and documents."""
    if is_list_requested(context, "operations"):
        _list(context, tenant, limit, as_json=as_json)


@app.command("list")
def list_(context: typer.Context, *, tenant: AnyTenant = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List operations with their progress, newest first."""
    _list(context, tenant, limit, as_json=as_json)


@app.command("show")
def show(
    context: typer.Context,
    operation_id: OperationId,
    *,
    items: Annotated[
        int, typer.Option("--items", min=0, max=100_000, help="Maximum number of failed and skipped items to show.")
    ] = MAX_ITEMS_SHOWN,
    as_json: AsJson = False,
) -> None:
    """Show an operation's progress, and why items failed or were skipped.

    With --json, the output includes all items.
    """
    api = connect(context)
    path = _path(api, operation_id)
    operation = api.send("GET", path).json()
    if as_json:
        print_json(operation | {"items": list(api.items(f"{path}/items", "items"))})
        return
    shown_items = list(api.items(f"{path}/items", "items", limit=items, result="failed"))
    shown_items += api.items(f"{path}/items", "items", limit=items - len(shown_items), result="skipped")
    _show(api, operation, shown_items)


@app.command("pause")
def pause(context: typer.Context, operation_id: OperationId, *, by: By, as_json: AsJson = False) -> None:
    """Pause an operation.

    Items that have already started (up to a minute's worth) are completed.
    """
    _control(context, operation_id, "pause", by, as_json=as_json)


@app.command("resume")
def resume(context: typer.Context, operation_id: OperationId, *, by: By, as_json: AsJson = False) -> None:
    """Resume an operation where it was paused."""
    _control(context, operation_id, "resume", by, as_json=as_json)


@app.command("cancel")
def cancel(context: typer.Context, operation_id: OperationId, *, by: By, as_json: AsJson = False) -> None:
    """Cancel an operation permanently.

    Items that have already started are completed. The remaining items are not changed.
    """
    _control(context, operation_id, "cancel", by, as_json=as_json)


@app.command("rate")
def rate_(
    context: typer.Context,
    operation_id: OperationId,
    rate: Annotated[
        int, typer.Argument(min=1, metavar="RATE", help="Dead letters per second, or documents per minute.")
    ],
    *,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Change an operation's rate.

    Items that have already started (up to a minute's worth) are completed.
    """
    _control(context, operation_id, "rate", by, as_json=as_json, change={"rate": rate})


@app.command("restore")
def restore(context: typer.Context, operation_id: OperationId, *, by: By, as_json: AsJson = False) -> None:
    """Undo a purge within 7 days. Messages in SQS are not restored."""
    _control(context, operation_id, "restore", by, as_json=as_json)


def processed_count(operation: Operation) -> int:
    """Return the number of items with a result."""
    return int(operation["succeeded"] + operation["failed"] + operation["skipped"])


def progress(operation: Operation) -> str:
    """Describe an operation's progress in one sentence."""
    if operation["action"] in RESULTS:
        counts = f"{operation['succeeded']:,} {RESULTS[operation['action']]}"
    else:
        total = f"{_selected(operation):,}" + (" or more" if operation["selected"] is None else "")
        counts = f"{operation['succeeded']:,} of {total} dead letters succeeded, {operation['failed']:,} failed"
        counts += f", {operation['skipped']:,} skipped"
    reason = f" {operation['reason']}" if operation["reason"] else ""
    return f"Operation {ids.short_id(operation['operation_id'])} is {operation['state']}: {counts}.{reason}"


def _rate(operation: Operation) -> str:
    if operation["rate"] is None:
        return ""
    return f"{operation['rate']:,}/{'min' if operation['action'] in PER_MINUTE else 's'}"


def _selected(operation: Operation) -> int:
    """Return the number of items selected so far."""
    return processed_count(operation) + int(operation["remaining"])


def _list(context: typer.Context, tenant: str | None, limit: int, *, as_json: bool) -> None:
    api = connect(context)
    operations = api.latest(PATH, "operations", "requested_at", api.tenants(tenant), limit=limit)
    if as_json:
        print_json(operations)
    else:
        _show_list(api, operations)


def _path(api: Api, operation_id: str) -> str:
    return f"{PATH}/{api.find_by_id_suffix('operation', operation_id, 'operations')}"


def _control(
    context: typer.Context,
    operation_id: str,
    action: Literal["pause", "resume", "cancel", "restore", "rate"],
    by: str,
    *,
    as_json: bool,
    change: Mapping[str, int] | None = None,
) -> None:
    api = connect(context, by)
    path = _path(api, operation_id)
    operation = api.send("GET", path).json()
    endpoint = ("POST", f"{path}/{action}") if change is None else ("PATCH", path)
    changed = api.send(*endpoint, body=change, expected_version=operation["version"]).json()
    if as_json:
        print_json(changed)
    else:
        stdout().print(progress(changed))


def _show_list(api: Api, operations: Sequence[Operation]) -> None:
    if not operations:
        stdout().print("There are no operations.")
        return
    table, add = tenant_table(
        [operation["tenant"] for operation in operations],
        *(Column(name, no_wrap=True) for name in ("id", "time", "action", "state")),
        *(Column(name, no_wrap=True, justify="right") for name in ("items", "succeeded", "failed")),
        Column("user", overflow="fold"),
    )
    for operation in operations:
        cells = [
            Text(ids.short_id(operation["operation_id"])),
            Text(format_time(operation["requested_at"])),
            Text(operation["action"]),
            Text(operation["state"], STYLES[operation["state"]]),
            Text(f"{_selected(operation):,}{'+' if operation['selected'] is None else ''}"),
            *(Text(f"{operation[name]:,}") for name in ("succeeded", "failed")),
        ]
        add(operation["tenant"], *cells, Text(api.name_of(operation["requested_by"])))
    stdout().print(table)


def _show(api: Api, operation: Operation, items: Sequence[Mapping[str, Any]]) -> None:
    stdout().print(Text(progress(operation)))
    requester = api.name_of(operation["requested_by"])
    facts = [
        ("tenant", operation["tenant"]),
        ("action", operation["action"]),
        ("requested", f"{format_time(operation['requested_at'], seconds=True)} UTC by {requester}"),
        ("rate", _rate(operation)),
    ]
    if operation["canary"] is not None:
        facts.append(("canary", f"{operation['canary']} first"))
    selection = operation["filter"]
    criteria = (
        "listed by id"
        if selection is None
        else ", ".join(f"{name} {value}" for name, value in selection.items() if value is not None)
    )
    default = "all dead letters" if operation["action"] == "export" else "all pending dead letters"
    facts.append(("selection", criteria or default))
    if operation["notes"] is not None:
        facts.append(("note", operation["notes"]))
    if operation["file"] is not None:
        file = operation["file"]
        facts.append(
            ("file", f"{file['format']}, {file['bytes']:,} bytes, until {format_time(file['expires_at'])} UTC")
        )
    stdout().print(facts_table(facts))
    if items:
        _show_items(operation, items)


def _show_items(operation: Operation, items: Sequence[Mapping[str, Any]]) -> None:
    table = Table(
        Column("dead letter", no_wrap=True), Column("result", no_wrap=True), "reason", box=None, pad_edge=False
    )
    for item in items:
        table.add_row(Text(ids.short_id(item["job_id"])), Text(item["result"] or ""), Text(item["reason"] or ""))
    stdout().print(table)
    more = operation["failed"] + operation["skipped"] - len(items)
    if more > 0:
        stderr().print(f"There are {more:,} more items. To see them, raise --items or use --json.")
