"""`counterfoil offers`: list and queue daily offers by date and time zone."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cli.client import By, connect
from cli.options import AnyTenant, AsJson, Limit
from cli.output import is_list_requested, print_json, stderr, stdout

SUMMARY = "List daily offers by date and time zone; queue offers for a date."
PATH = "/api/admin/offers"

app = typer.Typer(
    help=f"""{SUMMARY}

    The scheduler queues offers every hour for time zones where it is past 9:00. It catches up on dates that it missed
    by at most one day.
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@app.callback()
def offers(context: typer.Context, *, tenant: AnyTenant = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List offers by date and time zone."""
    if is_list_requested(context, "offers"):
        _list(context, tenant, limit, as_json=as_json)


@app.command("list")
def list_(context: typer.Context, *, tenant: AnyTenant = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List offers by date and time zone, latest first."""
    _list(context, tenant, limit, as_json=as_json)


@app.command("run")
def run(
    context: typer.Context,
    *,
    day: Annotated[
        datetime | None,
        typer.Option(
            "--date",
            formats=["%Y-%m-%d"],
            help="Local date, at most 7 days ago. Default: the latest due date.",
            show_default=False,
        ),
    ] = None,
    timezone: Annotated[str, typer.Option(help="IANA name, such as Europe/Berlin.", show_default=False)],
    tenant: Annotated[str | None, typer.Option(help="Only for this tenant, by slug.", show_default=False)] = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Queue the missing offers for a date. Running the command again has no effect.

    The audit trail records who queued the offers.
    """
    fields = {"date": None if day is None else f"{day:%Y-%m-%d}", "timezone": timezone, "tenant": tenant}
    body = {name: value for name, value in fields.items() if value is not None}
    queued = connect(context, by).send("POST", PATH, body=body).json()
    if as_json:
        print_json(queued)
        return
    stdout().print(f"The scheduler is queuing the missing offers for {queued['date']} in {timezone}.")
    stderr().print("`counterfoil offers` shows their progress.")


def _list(context: typer.Context, tenant: str | None, limit: int, *, as_json: bool) -> None:
    api = connect(context)
    pools = api.latest(PATH, "pools", "offered_at", api.tenants(tenant), limit=limit)
    if as_json:
        print_json({"pools": pools})
    elif pools:
        stdout().print(_table(pools))
    else:
        stderr().print("There are no offers yet.")


def _table(pools: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(
        *(Column(name, no_wrap=True) for name in ("date", "timezone", "tenant", "state")),
        *(Column(name, no_wrap=True, justify="right") for name in ("users", "completed", "failed", "pending")),
        box=None,
        pad_edge=False,
    )
    for pool in pools:
        counts = (f"{pool[name]:,}" for name in ("user_count", "completed", "failed"))
        pending = f"{pool['pending'] + pool['running']:,}"
        table.add_row(pool["date"], pool["timezone"], pool["tenant"], pool["state"], *counts, pending)
    return table
