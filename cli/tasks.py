"""`counterfoil tasks`: hand tasks in to the local cloud, look at them, cancel them."""

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, get_args
from uuid import UUID

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.failures import CloudError, UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.tables import of_tenants
from cli.tenants import Tenant, chosen, newest_of_each
from cli.terminal import aside, page, print_json
from cli.trail import By
from counterfoil.db import retry_conflicts
from counterfoil.delivery.outbox import Outbox
from counterfoil.errors import RejectedRequestError
from counterfoil.settings import Settings
from counterfoil.tasks import store
from counterfoil.tasks.store import LARGEST_MAX_RETRY, Status, Task, Try, Wanted
from counterfoil.tasks.task_type import InvalidPayloadError
from counterfoil.tasks.types import enabled_type

SUMMARY = "Hand in tasks for the workers to carry out; show, list and cancel them."
LOOK_SECONDS = 0.25
LONGEST_RESULT = 4000
"""Characters of a result that people are shown."""
STYLES: dict[Status, str] = {
    "pending": "cyan",
    "in-progress": "cyan",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "dim",
}

app = typer.Typer(
    help=f"""{SUMMARY}

    A task has a type and a payload, a JSON object. It is carried out once, with retries where it fails for a reason
    that can pass; its result is kept with it. Over HTTP the same is POST and GET /api/tasks.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
Which = Annotated[
    str, typer.Argument(metavar="ID", help="The task's id, or the end of it as the list shows it.", show_default=False)
]


@app.command("submit")
def submit(  # one for each option
    context: typer.Context,
    task_type: Annotated[
        str, typer.Argument(metavar="TYPE", help="What kind of task, such as echo.", show_default=False)
    ],
    payload: Annotated[
        str,
        typer.Argument(
            metavar="PAYLOAD", help="A JSON object; @FILE to read it, - for standard input.", show_default=False
        ),
    ] = "{}",
    *,
    tenant: Annotated[
        str | None, typer.Option(help="The tenant, by its slug, where there are several.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The same task under the same key is handed in once.", show_default=False)
    ] = None,
    max_retry: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=LARGEST_MAX_RETRY,
            help="Retries after the first attempt; RETRY_MAX_ATTEMPTS of the deployment if unset.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is over, and show its result.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hand a task in. What was handed in under the same key before is shown as it is now."""
    cloud = Cloud.at(place_of(context.obj))
    whose = one_tenant(cloud, tenant)
    outbox = outbox_of(cloud)
    try:
        settings = Settings.from_environment(cloud.state.tuning.settings)
        type_ = enabled_type(task_type, settings)
        wanted = store.order(type_, read_payload(payload), max_retry=max_retry, idempotency_key=key, settings=settings)
        done = store.submit(
            cloud.database, whose.id, wanted, cloud.database.now(), bucket=cloud.outputs["UploadsBucketName"]
        )
    except (RejectedRequestError, InvalidPayloadError) as error:
        raise UsageError(str(error)) from None
    outbox.send(done.sends)
    task = done.task
    if wait:
        task = wait_for(lambda: _shown(cloud, whose, task.job_id)[0])
    if as_json:
        print_json(record(whose, task))
    else:
        _show(whose, task, () if not wait else _shown(cloud, whose, task.job_id)[1])
        if not done.is_new:
            aside().print("It was handed in before, under the same key.")
    if wait and task.status == "failed":
        raise typer.Exit(1)


@app.command("show")
def show(context: typer.Context, task: Which, *, as_json: AsJson = False) -> None:
    """Show a task: its state, its result, and what became of each try."""
    cloud = Cloud.at(place_of(context.obj))
    whose, job_id = _found(cloud, task)
    shown, tries = _shown(cloud, whose, job_id)
    if as_json:
        print_json(record(whose, shown) | {"timeline": [_plain(one) for one in tries]})
    else:
        _show(whose, shown, tries)


@app.command("list")
def list_(  # one for each option
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by its slug.", show_default=False)] = None,
    status: Annotated[
        str | None, typer.Option(help=f"Only those in this state: {', '.join(get_args(Status))}.", show_default=False)
    ] = None,
    task_type: Annotated[
        str | None, typer.Option("--type", help="Only those of this type.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many of each tenant, at most.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List tasks, the newest first."""
    if status not in {None, *get_args(Status)}:
        raise UsageError(f"'{status}' is no state: there are {', '.join(get_args(Status))}.")
    cloud = Cloud.at(place_of(context.obj))
    wanted = Wanted(status=status, task_type=task_type)  # type: ignore[arg-type]  # one of them
    found = newest_of_each(
        cloud, tenant, lambda connection, _: store.page(connection, wanted, limit), lambda task: task.created_at
    )
    if as_json:
        rows = [record(whose, task) for whose, task in found]
        print_json([{name: value for name, value in row.items() if name != "result"} for row in rows])
    else:
        _show_list(found)


@app.command("cancel")
def cancel(context: typer.Context, task: Which, *, by: By, as_json: AsJson = False) -> None:
    """Cancel a task that is not over: it is not begun any more, and a try under way changes nothing."""
    cloud = Cloud.at(place_of(context.obj))
    whose, job_id = _found(cloud, task)

    def once() -> tuple[Task, Any]:
        with cloud.database.tenant(whose.id) as connection:
            found = store.cancel(connection, job_id, cloud.database.now(), by)
        if found is None:
            raise UsageError(f"The task '{task}' has just been deleted.")
        return found

    try:
        cancelled, sends = retry_conflicts(once)
    except RejectedRequestError as error:
        raise UsageError(str(error)) from None
    if sends:
        outbox_of(cloud).send(sends)
    if as_json:
        print_json(record(whose, cancelled))
    else:
        _show(whose, cancelled, ())


def one_tenant(cloud: Cloud, slug: str | None) -> Tenant:
    """The tenant of this slug, or the only one.

    Raises:
        UsageError: there is none, or it has to be said which.
    """
    found = chosen(cloud, slug)
    if not found:
        raise UsageError("There is no tenant yet: counterfoil tenants add acme")
    if len(found) > 1:
        shown = ", ".join(tenant.slug for tenant in found[:10]) + (", ..." if len(found) > 10 else "")
        raise UsageError(f"Say for whom, with --tenant: {shown}")
    return found[0]


def outbox_of(cloud: Cloud) -> Outbox:
    """The way to the queues of tasks.

    Raises:
        CloudError: what is deployed has none.
    """
    os.environ.update(cloud.state.emulator.environment)  # how the app's own code finds AWS
    queue, retries = cloud.outputs.get("TasksQueueUrl"), cloud.outputs.get("TasksRetryQueueUrl")
    if queue is None or retries is None:
        raise CloudError("What is deployed is older than this command: 'counterfoil up' deploys it again.")
    return Outbox(cloud.database, {store.WORKER: queue}, {store.WORKER: retries})


def wait_for(look: Callable[[], Task]) -> Task:
    """Look at a task until it is over."""
    while (task := look()).status in {"pending", "in-progress"}:
        time.sleep(LOOK_SECONDS)
    return task


def record(whose: Tenant, task: Task) -> dict[str, Any]:
    """A task as JSON has it, and as the API answers."""
    return {"tenant": whose.slug, **_plain(task)}


def _plain(row: Task | Try) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in vars(row).items()}


def read_payload(text: str) -> dict[str, Any]:
    """The JSON object that this is, or that is in the file that it names; - for standard input.

    Raises:
        UsageError: it is none.
    """
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The payload cannot be read from '{text[1:]}': {getattr(error, 'strerror', error)}."
        ) from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError("""The payload must be a JSON object, such as '{"text": "hello"}'.""")
    return found


def _found(cloud: Cloud, text: str) -> tuple[Tenant, UUID]:
    """The task whose id this is, or ends with, and whose it is.

    Raises:
        UsageError: there is none, or more than one.
    """
    with cloud.database.delivery() as connection:
        found = store.ending_with(connection, text.strip().lower()) if len(text.strip()) >= ids.LEAST else []
    if len(found) != 1:
        what = "There is no task whose" if not found else "More than one task's"
        raise UsageError(f"{what} id ends with '{text}': 'counterfoil tasks list' shows them.")
    ((job_id, tenant_id, slug),) = found
    return Tenant(tenant_id, slug), job_id


def _shown(cloud: Cloud, whose: Tenant, job_id: UUID) -> tuple[Task, list[Try]]:
    with cloud.database.tenant(whose.id) as connection:
        task, tries = store.show(connection, job_id), store.tries(connection, job_id)
    if task is None:
        raise UsageError(f"The task '{job_id}' has just been deleted.")
    return task, tries


# -- for people -----------------------------------------------------------------------------------------------------


def _show_list(found: list[tuple[Tenant, Task]]) -> None:
    if not found:
        page().print('There are no such tasks. To hand one in: counterfoil tasks submit echo \'{"text": "hello"}\'')
        return
    table, add = of_tenants(
        [whose.slug for whose, _ in found],
        *(Column(name, no_wrap=True) for name in ("id", "type", "state", "tries", "handed in")),
        Column("note", overflow="fold"),
    )
    for whose, task in found:
        cells = [Text(ids.short(task.job_id)), Text(task.task_type), Text(task.status, STYLES[task.status])]
        cells += [Text(str(task.attempts)), Text(f"{task.created_at:%Y-%m-%d %H:%M:%S}"), Text(_note(task))]
        add(whose.slug, *cells)
    page().print(table)


def _note(task: Task) -> str:
    if task.status == "pending" and task.next_attempt_at is not None:
        return f"again at {task.next_attempt_at:%H:%M:%S}" + (f": {task.error}" if task.error else "")
    return task.error or ""


def _show(whose: Tenant, task: Task, tries: list[Try] | tuple[()]) -> None:
    heading = Text(task.task_type, "bold").append(f"  {whose.slug}  {task.job_id}  ", "dim")
    page().print(heading.append(task.status, STYLES[task.status]))
    if task.status != "succeeded" and _note(task):
        page().print(Text(_note(task)))
    if tries:
        table = Table(*(Column(name, no_wrap=True) for name in ("try", "began", "took", "came to")), box=None)
        table.pad_edge = False
        table.add_column("note", overflow="fold")
        for one in tries:
            took = f"{(one.ended_at - one.began_at).total_seconds():.2f} s"
            again = f"again at {one.next_attempt_at:%H:%M:%S}" if one.next_attempt_at else ""
            note = ": ".join(filter(None, (again, one.error)))
            table.add_row(*map(Text, (str(one.number), f"{one.began_at:%H:%M:%S}", took, one.outcome, note)))
        page().print(table)
    if task.status == "succeeded":
        result = json.dumps(task.result, ensure_ascii=False, indent=1)
        page().print(Text(result[:LONGEST_RESULT]))
        if len(result) > LONGEST_RESULT:
            aside().print(f"The result has {len(result)} characters: --json shows all of it.")
