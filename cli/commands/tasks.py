"""`counterfoil tasks`: submit, show, list and cancel tasks through the API."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.client import Api, By, connect, poll
from cli.failures import UsageError
from cli.output import print_json, stderr, stdout, tenant_table

SUMMARY = "Submit tasks for the workers; show, list and cancel them."
PATH = "/api/tasks"
POLL_SECONDS = 0.5
MAX_RESULT_CHARS = 4000
"""Maximum number of characters of a result shown without --json."""
STYLES = {"pending": "cyan", "in-progress": "cyan", "succeeded": "green", "failed": "red", "canceled": "dim"}
"""Style of each status."""

app = typer.Typer(
    help=f"""{SUMMARY}

    A task has a type and a payload, a JSON object. It runs once, with retries after temporary failures, and its result
    is stored. The HTTP API for tasks is POST and GET {PATH}.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TaskId = Annotated[
    str, typer.Argument(metavar="ID", help="Task id, or its last characters as listed.", show_default=False)
]


@app.command("submit")
def submit(
    context: typer.Context,
    task_type: Annotated[str, typer.Argument(metavar="TYPE", help="Task type, such as echo.", show_default=False)],
    payload: Annotated[
        str,
        typer.Argument(
            metavar="PAYLOAD",
            help="JSON object. @FILE reads it from a file, - from standard input.",
            show_default=False,
        ),
    ] = "{}",
    *,
    tenant: Annotated[
        str | None, typer.Option(help="Tenant slug. Required if there are several tenants.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key. The same task is submitted only once.", show_default=False)
    ] = None,
    max_retry: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of retries after the first attempt. Default: the deployment's RETRY_MAX_ATTEMPTS.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the task ends, and show its result.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a task. If the key was used for the same task before, show that task."""
    request = {"task_type": task_type, "payload": read_payload(payload), "idempotency_key": key, "max_retry": max_retry}
    api = connect(context)
    fields = {name: value for name, value in request.items() if value is not None}
    response = api.send("POST", PATH, body={**fields, "tenant": api.single_tenant(tenant)})
    task = response.json()
    if wait:
        task = wait_for(api, task["job_id"])
    _show(task, as_json=as_json)
    if response.status_code == 200 and not as_json:
        stderr().print("This task was submitted before, with the same key.")
    if wait and task["status"] == "failed":
        raise typer.Exit(1)


@app.command("show")
def show(context: typer.Context, task: TaskId, *, as_json: AsJson = False) -> None:
    """Show a task: its status, its result and its attempts."""
    api = connect(context)
    _show(_fetch_task(api, _task_id(api, task)), as_json=as_json)


@app.command("list")
def list_(
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant, by slug.", show_default=False)] = None,
    status: Annotated[
        str | None, typer.Option(help=f"Only this status: {', '.join(STYLES)}.", show_default=False)
    ] = None,
    task_type: Annotated[str | None, typer.Option("--type", help="Only this task type.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of tasks per tenant.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List tasks, newest first."""
    if status is not None and status not in STYLES:
        raise UsageError(f"There is no status '{status}': use one of {', '.join(STYLES)}.")
    api = connect(context)
    tasks = [
        task
        for slug in api.tenants(tenant)
        for task in api.items(PATH, "tasks", limit=limit, tenant=slug, status=status, task_type=task_type)
    ]
    tasks.sort(key=lambda task: _time(task["created_at"]), reverse=True)
    if as_json:
        print_json(tasks)
    else:
        _show_list(tasks)


@app.command("cancel")
def cancel(context: typer.Context, task: TaskId, *, by: By, as_json: AsJson = False) -> None:
    """Cancel an unfinished task.

    A pending task never starts, and the result of a running attempt is discarded.
    """
    api = connect(context, by)
    _show(api.send("POST", f"{PATH}/{_task_id(api, task)}/cancel", body={}).json(), as_json=as_json)


def wait_for(api: Api, job_id: str) -> dict[str, Any]:
    """Poll a task until it ends."""
    task = _fetch_task(api, job_id)
    while task["status"] in {"pending", "in-progress"}:
        task = poll(POLL_SECONDS, lambda: _fetch_task(api, job_id), time.sleep)
    return task


def read_payload(text: str) -> dict[str, Any]:
    """Parse a JSON object from `text`, from a file (`@FILE`) or standard input (`-`).

    Raises:
        UsageError: the payload is not a JSON object, or cannot be read.
    """
    name = "standard input" if text == "-" else f"'{text[1:]}'"
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        payload = json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The payload cannot be read from {name}: {getattr(error, 'strerror', error)}.") from None
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise UsageError("""The payload must be a JSON object, such as '{"text": "hello"}'.""")
    return payload


def _task_id(api: Api, text: str) -> str:
    return api.find_by_id_suffix("task", text, "tasks list")


def _fetch_task(api: Api, job_id: str) -> dict[str, Any]:
    task: dict[str, Any] = api.send("GET", f"{PATH}/{job_id}").json()
    return task


# -- tables -----------------------------------------------------------------------------------------------------------


def _show_list(tasks: Sequence[Mapping[str, Any]]) -> None:
    if not tasks:
        stdout().print('No tasks found. To submit one: counterfoil tasks submit echo \'{"text": "hello"}\'')
        return
    table, add = tenant_table(
        [task["tenant"] for task in tasks],
        *(Column(name, no_wrap=True) for name in ("id", "type", "status", "attempts", "submitted")),
        Column("note", overflow="fold"),
    )
    for task in tasks:
        cells = [Text(task["job_id"][-ids.SHORT_ID_LENGTH :]), Text(task["task_type"]), _status(task)]
        cells += [Text(str(task["attempts"])), Text(f"{_time(task['created_at']):%Y-%m-%d %H:%M:%S}")]
        add(task["tenant"], *cells, Text(_note(task)))
    stdout().print(table)


def _status(task: Mapping[str, Any]) -> Text:
    return Text(task["status"], STYLES[task["status"]])


def _note(task: Mapping[str, Any]) -> str:
    next_attempt = _next_attempt_note(task["next_attempt_at"]) if task["status"] == "pending" else ""
    return ": ".join(filter(None, (next_attempt, task["error"])))


def _next_attempt_note(at: str | None) -> str:
    return "" if at is None else f"next attempt at {_time(at):%H:%M:%S}"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _show(task: Mapping[str, Any], *, as_json: bool) -> None:
    """Show a task, with its attempts if the response contains them."""
    if as_json:
        print_json(task)
        return
    heading = Text(task["task_type"], "bold").append(f"  {task['tenant']}  {task['job_id']}  ", "dim")
    stdout().print(heading.append(_status(task)))
    if task["status"] != "succeeded" and _note(task):
        stdout().print(Text(_note(task)))
    if task.get("timeline"):
        table = Table(*(Column(name, no_wrap=True) for name in ("attempt", "started", "took", "outcome")), box=None)
        table.pad_edge = False
        table.add_column("note", overflow="fold")
        for attempt in task["timeline"]:
            started, ended = _time(attempt["started_at"]), _time(attempt["ended_at"])
            duration = f"{(ended - started).total_seconds():.2f} s"
            note = ": ".join(filter(None, (_next_attempt_note(attempt["next_attempt_at"]), attempt["error"])))
            table.add_row(
                *map(Text, (str(attempt["attempt"]), f"{started:%H:%M:%S}", duration, attempt["outcome"], note))
            )
        stdout().print(table)
    if task["status"] == "succeeded":
        result = json.dumps(task["result"], ensure_ascii=False, indent=1)
        stdout().print(Text(result[:MAX_RESULT_CHARS]))
        if len(result) > MAX_RESULT_CHARS:
            stderr().print(f"The result has {len(result)} characters. To see all of it, use --json.")
