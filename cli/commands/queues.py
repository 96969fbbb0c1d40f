"""`counterfoil queues`: show queue depths and outcomes; pause and resume queues."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from cli.client import Api, By, Reason, connect
from cli.failures import UsageError
from cli.options import AnyTenant, AsJson
from cli.output import bars, format_time, is_list_requested, print_json, stderr, stdout

SUMMARY = "Show queue depths and outcomes; pause and resume queues."
BAR_COUNT = 12
"""Number of bars for the last hour, one per five minutes."""
PATH = "/api/admin/queues"

app = typer.Typer(
    help=f"""{SUMMARY}

    Messages in a paused queue wait without losing attempts. Deploying does not resume a queue. Commands use the
    deployment of the last `counterfoil login`. If you are not signed in, they sign in to the local cloud as an
    admin.
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

Worker = Annotated[str, typer.Argument(metavar="WORKER", help="Name of the worker, as listed.", show_default=False)]
IfVersion = Annotated[
    int | None,
    typer.Option(
        "--if-version", metavar="VERSION", help="Only if the queue still has this version.", min=0, show_default=False
    ),
]


@app.callback()
def queues(context: typer.Context, *, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """Show every queue."""
    if is_list_requested(context, "queues"):
        _list(context, tenant, as_json=as_json)


@app.command("list")
def list_(context: typer.Context, *, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """List queues with message counts, work items and the last hour's outcomes.

    The counted work items are running or pending. Message counts are approximate. With --tenant, only the tenant's work
    items are counted.
    """
    _list(context, tenant, as_json=as_json)


@app.command("pause")
def pause(
    context: typer.Context,
    worker: Worker,
    *,
    reason: Reason = None,
    by: By,
    if_version: IfVersion = None,
    as_json: AsJson = False,
) -> None:
    """Pause a worker's queue until it is resumed. Requires --reason."""
    _switch(context, worker, (by, reason, if_version), is_paused=True, as_json=as_json)


@app.command("resume")
def resume(
    context: typer.Context,
    worker: Worker,
    *,
    reason: Reason = None,
    by: By,
    if_version: IfVersion = None,
    as_json: AsJson = False,
) -> None:
    """Resume a worker's queue. Requires --reason."""
    _switch(context, worker, (by, reason, if_version), is_paused=False, as_json=as_json)


def _list(context: typer.Context, tenant: str | None, *, as_json: bool) -> None:
    api = connect(context)
    overview = api.send("GET", PATH, query={"tenant": tenant}).json()
    if as_json:
        print_json(overview)
    else:
        _show(api, overview)


def _switch(
    context: typer.Context, worker: str, change: tuple[str, str | None, int | None], *, is_paused: bool, as_json: bool
) -> None:
    by, reason, version = change
    if reason is None:
        raise UsageError("--reason is required. Users of every tenant can read it.")
    api = connect(context, by)
    before = _version(api, worker)
    path = f"{PATH}/{worker}/{'pause' if is_paused else 'resume'}"
    after = api.send(
        "POST", path, body={"reason": reason}, expected_version=before if version is None else version
    ).json()
    if as_json:
        print_json(after)
        return
    verb = "was already" if after["version"] == before else "was"
    stdout().print(f"The {worker} queue {verb} {'paused' if is_paused else 'resumed'}.")
    if not after["is_applied"]:
        stderr().print("The change has not been applied to Lambda yet. The watchdog retries it within a minute.")


def _version(api: Api, worker: str) -> int:
    """Return the version of a queue's state.

    The version is 0 if the queue was never paused or is hidden from the caller.
    """
    try:
        known = {queue["worker"]: queue for queue in api.send("GET", PATH).json()["queues"]}
    except UsageError:
        return 0
    if worker not in known:
        raise UsageError(f"There is no queue '{worker}'. Valid names: {', '.join(known)}.")
    return known[worker]["version"] or 0


# -- tables -----------------------------------------------------------------------------------------------------------


def _show(api: Api, overview: Mapping[str, Any]) -> None:
    table = Table(
        Column("worker", no_wrap=True),
        *(Column(name, no_wrap=True, justify="right") for name in ("messages", "running", "pending", "oldest")),
        Column("dead letters", no_wrap=True, justify="right"),
        Column("last hour", no_wrap=True),
        *(Column(name, no_wrap=True, justify="right") for name in ("done", "failed")),
        box=None,
        pad_edge=False,
    )
    for queue in overview["queues"]:
        table.add_row(*_cells(queue))
    stdout().print(table)
    for queue in overview["queues"]:
        if (paused := queue["paused"]) is not None:
            when = f"{format_time(paused['at'], seconds=True)} UTC by {api.name_of(paused['by'])}"
            stdout().print(Text(f"{queue['worker']} has been paused since {when}: {paused['reason']}", "yellow"))
            if not queue["is_applied"]:
                stdout().print(Text("  The change has not been applied to Lambda yet.", "yellow"))
    for breaker in overview["breakers"] or ():
        stdout().print(Text(f"{breaker['name']} has been unavailable since {breaker['since'][11:19]} UTC", "red"))
    for alarm in overview["alarms"] or ():
        stdout().print(Text(f"The alarm {alarm['name']} is firing", "red"))
    if overview["measured_at"] is None:
        stderr().print("The watchdog has not run in the last hour: the backlog is unknown.")


def _cells(queue: Mapping[str, Any]) -> list[Text]:
    parts = [queue[f"approximate_{name}"] for name in ("visible", "in_flight", "delayed")]
    minutes = [queue["minutes"][name] for name in ("succeeded", "skipped", "failed")]
    succeeded, skipped, failed = map(sum, minutes)
    return [
        Text(queue["worker"], "yellow" if queue["is_paused"] else "").append(" (paused)" if queue["is_paused"] else ""),
        Text(_number(None if None in parts else sum(parts))),
        Text(
            f"{queue['running']:,}"
            + ("" if queue["concurrency_limit"] is None else f" of {queue['concurrency_limit']:,}")
        ),
        Text(_number(queue["pending"])),
        Text(_age(queue["oldest_seconds"])),
        Text(_number(queue["dead_letters"]), "red" if queue["dead_letters"] else ""),
        Text(bars([sum(of_minute) for of_minute in zip(*minutes, strict=True)], BAR_COUNT), "cyan"),
        Text(f"{succeeded + skipped:,}"),
        Text(f"{failed:,}", "red" if failed else ""),
    ]


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _age(seconds: int | None) -> str:
    if seconds is None:
        return ""
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
