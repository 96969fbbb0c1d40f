"""`counterfoil queues`: how full the queues are and what is done, by the API; pausing and resuming them."""

from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from cli.client import Api, By, Reason, reach
from cli.failures import UsageError
from cli.options import AnyTenant
from cli.output import aside, is_wanted, page, print_json
from functions.admin_api.api.queues import QueueMinutes, QueueOverview, QueuesOverview, QueueState

SUMMARY = "Show how full the queues of the workers are and what is done; pause and resume them."
BARS = " ▁▂▃▄▅▆▇█"
BARS_SHOWN = 12
"""Of an hour, each of five minutes."""
_PATH = "/api/admin/queues"

app = typer.Typer(
    help=f"""{SUMMARY}

    A paused queue is not read: what is in it waits, however long, and loses no attempt. A deployment does not resume
    it. Commands are clients of the API: a deployment's after `counterfoil login`, else the local cloud's, with an admin
    created for you.
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
Worker = Annotated[str, typer.Argument(metavar="WORKER", help="Whose queue, as the list names it.", show_default=False)]
Seen = Annotated[
    int | None,
    typer.Option("--seen", metavar="VERSION", help="Only if it is still at this version.", min=0, show_default=False),
]


@app.callback()
def queues(context: typer.Context, *, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """Show every queue."""
    if is_wanted(context, "queues"):
        _list(context, tenant, as_json=as_json)


@app.command("list")
def list_(context: typer.Context, *, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """Show every queue: messages (SQS guesses their number), work in progress and waiting, and the last hour.

    Of one tenant, its own work in them is shown.
    """
    _list(context, tenant, as_json=as_json)


@app.command("pause")
def pause(
    context: typer.Context, worker: Worker, *, reason: Reason = None, by: By, seen: Seen = None, as_json: AsJson = False
) -> None:
    """Have a worker's queue read by nobody, until it is resumed. --reason says why."""
    _switch(context, worker, (by, reason, seen), is_paused=True, as_json=as_json)


@app.command("resume")
def resume(
    context: typer.Context, worker: Worker, *, reason: Reason = None, by: By, seen: Seen = None, as_json: AsJson = False
) -> None:
    """Have a worker's queue read again. --reason says why."""
    _switch(context, worker, (by, reason, seen), is_paused=False, as_json=as_json)


def _list(context: typer.Context, tenant: str | None, *, as_json: bool) -> None:
    api = reach(context)
    found = api.get(_PATH, QueuesOverview, tenant=tenant)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _show(api, found)


def _switch(
    context: typer.Context, worker: str, told: tuple[str, str | None, int | None], *, is_paused: bool, as_json: bool
) -> None:
    by, reason, seen = told
    if reason is None:
        raise UsageError("Say why, with --reason: it is shown to everybody who looks after the queues.")
    api = reach(context, by)
    before = _version(api, worker)
    path = f"{_PATH}/{worker}/{'pause' if is_paused else 'resume'}"
    after = api.ask("POST", path, QueueState, body={"reason": reason}, seen=before if seen is None else seen)
    if as_json:
        print_json(after.model_dump(mode="json"))
        return
    already = " already" if after.version == before else ""
    page().print(f"The queue of {worker} is {'paused' if is_paused else 'read'}{already}.")
    if not after.in_effect:
        aside().print("Lambda did not take it yet: it is told again within a minute.")


def _version(api: Api, worker: str) -> int:
    """Of a queue's pause; 0 where it is not told: who is not of all tenants may not pause, and the API says so then."""
    try:
        known = {queue.worker: queue for queue in api.get(_PATH, QueuesOverview).queues}
    except UsageError:
        return 0
    if worker not in known:
        raise UsageError(f"There is no queue of '{worker}': there are {', '.join(known)}.")
    return known[worker].version or 0


# -- for people -----------------------------------------------------------------------------------------------------


def _show(api: Api, found: QueuesOverview) -> None:
    table = Table(
        Column("worker", no_wrap=True),
        *(Column(name, no_wrap=True, justify="right") for name in ("messages", "working", "waiting", "oldest", "dead")),
        Column("last hour", no_wrap=True),
        *(Column(name, no_wrap=True, justify="right") for name in ("done", "failed")),
        box=None,
        pad_edge=False,
    )
    for queue in found.queues:
        table.add_row(*_cells(queue))
    page().print(table)
    for queue in found.queues:
        if queue.paused is not None:
            when = f"{queue.paused.at:%Y-%m-%d %H:%M:%S} UTC by {api.name_of(queue.paused.by)}"
            page().print(Text(f"{queue.worker} is paused since {when}: {queue.paused.reason}", "yellow"))
            if not queue.in_effect:
                page().print(Text("  Lambda did not take it yet.", "yellow"))
    for breaker in found.breakers or ():
        page().print(Text(f"{breaker.name} is away since {breaker.since:%H:%M:%S} UTC", "red"))
    for alarm in found.alarms or ():
        page().print(Text(f"The alarm {alarm.name} has gone off", "red"))
    if found.measured_at is None:
        aside().print("The watchdog has not looked within the hour: what waits is not known.")


def _cells(queue: QueueOverview) -> list[Text]:
    parts = (queue.approximate_visible, queue.approximate_in_flight, queue.approximate_delayed)
    messages = None if None in parts else sum(part or 0 for part in parts)
    minutes = queue.minutes
    done, failed = sum(minutes.succeeded) + sum(minutes.skipped), sum(minutes.failed)
    return [
        Text(queue.worker, "yellow" if queue.is_paused else "").append(" (paused)" if queue.is_paused else ""),
        Text(_number(messages)),
        Text(f"{queue.running:,}" if queue.gate is None else f"{queue.running:,} of {queue.gate:,}"),
        Text(_number(queue.pending)),
        Text(_age(queue.oldest_seconds)),
        Text(_number(queue.dead), "red" if queue.dead else ""),
        Text(_bars(minutes), "cyan"),
        Text(f"{done:,}"),
        Text(f"{failed:,}", "red" if failed else ""),
    ]


def _number(known: int | None) -> str:
    return "?" if known is None else f"{known:,}"


def _age(seconds: int | None) -> str:
    if seconds is None:
        return ""
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def _bars(minutes: QueueMinutes) -> str:
    """What ended in the hour, the highest bar for the most of any five minutes."""
    ended = [sum(of_minute) for of_minute in zip(minutes.succeeded, minutes.skipped, minutes.failed, strict=True)]
    of_each = len(ended) // BARS_SHOWN
    sums = [sum(ended[at : at + of_each]) for at in range(0, len(ended), of_each)]
    most = max(sums)
    return "".join(BARS[-(-one * (len(BARS) - 1) // most)] if most else BARS[0] for one in sums)
