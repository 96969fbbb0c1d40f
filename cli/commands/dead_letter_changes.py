"""`counterfoil dlq`: retry, resolve, ignore, edit and purge dead letters.

Another command lists the audit trail.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import typer
from rich.table import Column
from rich.text import Text

from cli import ids
from cli.client import Api, By, Reason, connect, poll
from cli.commands import operations
from cli.commands.dead_letters import (
    PATH,
    DeadLetterId,
    OfGroup,
    OfType,
    Search,
    Since,
    Until,
    fingerprint_of,
    path_of,
    show_list,
)
from cli.commands.operations import Operation
from cli.commands.tasks import read_payload
from cli.failures import UsageError
from cli.options import AnyTenant, AsJson, Limit, moment
from cli.output import Counters, format_time, print_json, stderr, stdout, tenant_table

Action = Literal["retry", "resolve", "ignore"]
RESULTS = {"retry": "retried", "resolve": "resolved", "ignore": "ignored", "payload": "edited"}
"""Past participle of each action, for messages."""
RETRY_RATE, MAX_RATE = 50, 500
"""Default and maximum rate, in dead letters per second."""
CLOSED_STATUSES = ("retried", "resolved", "ignored")
RESTORABLE_DAYS = 7
POLL_SECONDS = 1.0

IfVersion = Annotated[
    int | None,
    typer.Option(
        "--if-version",
        metavar="VERSION",
        help="Only if the dead letter still has this version.",
        min=1,
        show_default=False,
    ),
]
SingleTenant = Annotated[
    str | None, typer.Option("--tenant", help="Tenant slug. Required if there are several tenants.", show_default=False)
]

# -- one dead letter --------------------------------------------------------------------------------------------------


def retry(
    context: typer.Context,
    dead_letter: DeadLetterId,
    *,
    reason: Reason = None,
    by: By,
    if_version: IfVersion = None,
    as_json: AsJson = False,
) -> None:
    """Retry a dead letter's work item, unless it has succeeded since.

    Its attempt count is reset to zero.
    """
    _change(connect(context, by), dead_letter, "retry", {"notes": reason}, if_version, as_json=as_json)


def resolve(
    context: typer.Context,
    dead_letter: DeadLetterId,
    *,
    reason: Reason = None,
    by: By,
    if_version: IfVersion = None,
    as_json: AsJson = False,
) -> None:
    """Resolve a dead letter whose failure was handled in another way.

    Requires --reason.
    """
    _change(
        connect(context, by), dead_letter, "resolve", {"notes": _required_reason(reason)}, if_version, as_json=as_json
    )


def ignore(
    context: typer.Context,
    dead_letter: DeadLetterId,
    *,
    reason: Reason = None,
    by: By,
    if_version: IfVersion = None,
    as_json: AsJson = False,
) -> None:
    """Ignore a dead letter. Requires --reason."""
    _change(
        connect(context, by), dead_letter, "ignore", {"reason": _required_reason(reason)}, if_version, as_json=as_json
    )


def edit(
    context: typer.Context,
    dead_letter: DeadLetterId,
    payload: Annotated[
        str | None,
        typer.Argument(
            metavar="PAYLOAD",
            help="New payload, a JSON object. @FILE reads it from a file, - from standard input.",
            show_default=False,
        ),
    ] = None,
    *,
    reason: Reason = None,
    by: By,
    if_version: IfVersion = None,
    as_json: AsJson = False,
) -> None:
    """Replace a failed task's payload for its next attempt.

    If PAYLOAD is omitted, print the current payload. To undo earlier edits, pass the original payload.
    """
    new_payload = None if payload is None else read_payload(payload)
    api = connect(context, by)
    if new_payload is None:
        current = api.send("GET", f"{path_of(api, dead_letter)}/payload").json()
        print_json(current["original"] if current["edited"] is None else current["edited"])
        return
    _change(api, dead_letter, "payload", {"payload": new_payload, "notes": reason}, if_version, as_json=as_json)


def _change(
    api: Api, dead_letter: str, action: str, body: dict[str, Any], expected_version: int | None, *, as_json: bool
) -> None:
    path = path_of(api, dead_letter)
    if expected_version is None:
        expected_version = api.send("GET", path).json()["version"]
    method = "PATCH" if action == "payload" else "POST"
    fields = {name: value for name, value in body.items() if value is not None}
    response = api.send(method, f"{path}/{action}", body=fields, expected_version=expected_version).json()
    if as_json:
        print_json(response)
    else:
        stdout().print(f"Dead letter {ids.short_id(response['job_id'])} was {RESULTS[action]}.")


def _required_reason(reason: str | None) -> str:
    if reason is None:
        raise UsageError("--reason is required. It is stored with the dead letter.")
    return reason


# -- many dead letters ------------------------------------------------------------------------------------------------

DeadLetterIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Dead letter ids, or their last characters.", show_default=False),
]
Rate = Annotated[int, typer.Option(min=1, max=MAX_RATE, help="Dead letters per second.")]
Canary = Annotated[
    int | None,
    typer.Option(
        min=1, help="Retry this many first, and the remaining ones only if these succeed.", show_default=False
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Apply the change. If omitted, only count the dead letters.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="With --yes, show the progress until the operation ends.")]


@dataclass(frozen=True)
class Selection:
    """Dead letters selected by ids or by filter options."""

    dead_letter_ids: Sequence[str]
    tenant: str | None
    task_type: str | None
    group: str | None
    since: datetime | None
    until: datetime | None
    search: str | None

    def body(self, api: Api) -> dict[str, Any]:
        """Return the selection in the API's format.

        Raises:
            UsageError: ids and options are combined, an id does not exist, or a tenant is required.
        """
        options = (self.task_type, self.group, self.since, self.until, self.search)
        if self.dead_letter_ids:
            if any(option is not None for option in options):
                raise UsageError("Give either dead letter ids or filter options, not both.")
            return {
                "job_ids": [
                    api.find_by_id_suffix("dead_letter", dead_letter, "dlq list")
                    for dead_letter in self.dead_letter_ids
                ]
            }
        criteria = {
            "tenant": api.single_tenant(self.tenant),
            "task_type": self.task_type,
            "fingerprint": fingerprint_of(api, self.group),
            "from_date": self.since and self.since.isoformat(),
            "to_date": self.until and self.until.isoformat(),
            "search": self.search,
        }
        return {"filter": {name: value for name, value in criteria.items() if value is not None}}


@dataclass(frozen=True)
class BulkOptions:
    """Options for running an operation."""

    reason: str | None
    by: str
    rate: int
    canary: int | None
    yes: bool
    wait: bool
    as_json: bool


def bulk_retry(  # noqa: PLR0913  # one argument per option
    context: typer.Context,
    dead_letters: DeadLetterIds = None,
    *,
    tenant: SingleTenant = None,
    task_type: OfType = None,
    group: OfGroup = None,
    since: Since = None,
    until: Until = None,
    search: Search = None,
    rate: Rate = RETRY_RATE,
    canary: Canary = None,
    reason: Reason = None,
    by: By,
    yes: Yes = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Retry many pending dead letters at a bounded rate.

    Without --yes, only count them.

    Dead letters created later are excluded. No dead letter is retried twice, even after a crash.
    """
    selection = Selection(dead_letters or (), tenant, task_type, group, since, until, search)
    _run_bulk(context, "retry", selection, BulkOptions(reason, by, rate, canary, yes, wait, as_json))


def _closing_command(action: Action, doc: str) -> Callable[..., None]:
    def close(  # noqa: PLR0913  # one argument per option
        context: typer.Context,
        dead_letters: DeadLetterIds = None,
        *,
        tenant: SingleTenant = None,
        task_type: OfType = None,
        group: OfGroup = None,
        since: Since = None,
        until: Until = None,
        search: Search = None,
        rate: Rate = MAX_RATE,
        reason: Reason = None,
        by: By,
        yes: Yes = False,
        wait: Wait = True,
        as_json: AsJson = False,
    ) -> None:
        selection = Selection(dead_letters or (), tenant, task_type, group, since, until, search)
        _run_bulk(context, action, selection, BulkOptions(reason, by, rate, None, yes, wait, as_json))

    close.__doc__ = doc
    return close


bulk_resolve = _closing_command(
    "resolve",
    """Resolve many pending dead letters whose failure was handled in another way. --yes requires --reason.

    If --group is the only filter, the group itself is resolved until it gets a new dead letter.
    """,
)
bulk_ignore = _closing_command(
    "ignore",
    """Ignore many pending dead letters. --yes requires --reason.

    If --group is the only filter, the group itself is ignored until it gets a new dead letter.
    """,
)


def _run_bulk(context: typer.Context, action: Action, selection: Selection, mode: BulkOptions) -> None:
    if mode.yes and action != "retry":
        _required_reason(mode.reason)
    api = connect(context, mode.by)
    path, body = f"{PATH}/bulk-{action}", selection.body(api) | {"rate": mode.rate}
    if not mode.yes:
        _preview(action, api.send("POST", path, body=body | {"dry_run": True}).json(), as_json=mode.as_json)
        return
    options = {"reason" if action == "ignore" else "notes": mode.reason, "canary": mode.canary}
    body |= {name: value for name, value in options.items() if value is not None}
    operation = api.send("POST", path, body=body).json()
    if mode.wait:
        operation = _wait(api, operation)
    if mode.as_json:
        print_json(operation)
    else:
        stdout().print(operations.progress(operation))
        if operation["ended_at"] is None:
            stderr().print(f"To see progress: counterfoil operations show {ids.short_id(operation['operation_id'])}")
    if operation["reason"] or operation["failed"]:
        raise typer.Exit(1)


def _preview(action: Action, preview: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(preview)
        return
    prefix = "" if preview["is_exact"] else "At least "
    stdout().print(f"{prefix}{_number(preview['count'])} in {preview['tenant']} would be {RESULTS[action]}.")
    if preview["sample"]:
        if preview["count"] > len(preview["sample"]):
            stdout().print("The newest dead letters:")
        show_list(preview["sample"])
        stderr().print("To apply this, add --yes.")


def _wait(api: Api, operation: Operation) -> Operation:
    """Show progress until the operation ends or is paused, and return the operation."""
    path = f"{operations.PATH}/{operation['operation_id']}"

    def poll_operation() -> Operation:
        updated: Operation = poll(POLL_SECONDS, lambda: api.send("GET", path).json(), time.sleep)
        return updated

    short = ids.short_id(operation["operation_id"])
    stderr().print(f"Operation {short} starts within a minute, and continues if this command is interrupted.")
    while operation["selected"] is None and operation["ended_at"] is None:
        operation = poll_operation()
    with Counters([RESULTS[operation["action"]]], operation["selected"] or 0) as counters:
        while operation["ended_at"] is None and operation["state"] != "paused":
            counters.show([operations.processed_count(operation)])
            operation = poll_operation()
        counters.show([operations.processed_count(operation)])
    return operation


def _number(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count:,} dead letters"


# -- purge ------------------------------------------------------------------------------------------------------------


def purge(
    context: typer.Context,
    *,
    before: Annotated[
        datetime,
        typer.Option(
            parser=moment,
            metavar="TIME",
            help="Only dead letters created before this time: 2026-01-31, or 2026-01-31T09:00 (UTC).",
            show_default=False,
        ),
    ],
    status: Annotated[
        list[str],
        typer.Option(help=f"Only in this state: {', '.join(CLOSED_STATUSES)}. Can be repeated.", show_default=False),
    ],
    tenant: SingleTenant = None,
    confirm: Annotated[
        str | None,
        typer.Option(metavar="SLUG", help="The tenant's slug, to skip the prompt.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the dead letters.")] = False,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Purge closed dead letters: hide them, and delete them after 7 days.

    Until then, a purge can be undone with `counterfoil operations restore`. Type the tenant's slug to confirm.
    """
    for name in status:
        if name not in CLOSED_STATUSES:
            raise UsageError(
                f"Dead letters in state '{name}' cannot be purged. Valid states: {', '.join(CLOSED_STATUSES)}."
            )
    api = connect(context, by)
    path, filters = f"{PATH}/purge", {"tenant": api.single_tenant(tenant), "before_date": before, "status": status}
    plan = api.send("DELETE", path, query=filters).json()
    summary = f"{_number(plan['count'])} in {plan['tenant']} would be hidden"
    if dry_run:
        if as_json:
            print_json(plan)
        else:
            stdout().print(f"{summary}.")
        return
    if confirm is None:
        stderr().print(f"{summary}, and deleted after {RESTORABLE_DAYS} days.")
        confirm = typer.prompt("Type the tenant's slug to purge them", err=True)
    if confirm != plan["confirm"]:
        raise UsageError(f"Nothing was purged: '{confirm}' is not the tenant's slug.")
    operation = api.send("DELETE", path, query={**filters, "confirm": confirm}, expected_version=plan["count"]).json()
    if as_json:
        print_json(operation)
        return
    stdout().print(operations.progress(operation))
    stderr().print(
        f"To restore them until {format_time(operation['restorable_until'])} UTC: "
        f"counterfoil operations restore {ids.short_id(operation['operation_id'])}"
    )


# -- audit trail ------------------------------------------------------------------------------------------------------


def audit_(
    context: typer.Context,
    dead_letter: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="Only this dead letter, by id or the id's last characters.", show_default=False
        ),
    ] = None,
    *,
    tenant: AnyTenant = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List changes made by people, newest first.

    To verify them: `counterfoil audit verify`.

    To list the changes to a purged dead letter, pass --tenant and its full id.
    """
    api = connect(context)
    target = None
    if dead_letter is not None:
        target = api.find_by_id_suffix("dead_letter", dead_letter, "dlq list")
        tenant = tenant or api.send("GET", path_of(api, target)).json()["tenant"]
    slugs = api.tenants(tenant, unassigned=True)
    entries = api.latest(f"{PATH}/audit", "entries", "recorded_at", slugs, limit=limit, target=target)
    if as_json:
        print_json(entries)
        return
    if not entries:
        stdout().print(f"There are no changes{' to this dead letter' if dead_letter else ''}.")
        return
    table, add = tenant_table(
        [entry["tenant"] for entry in entries],
        Column("number", no_wrap=True, justify="right"),
        *(Column(name, no_wrap=True) for name in ("time", "action")),
        Column("dead letters"),
        Column("user", overflow="fold"),
    )
    for entry in entries:
        targets = [ids.short_id(target) for target in entry["targets"][:3]]
        ellipsis = ["..."] if len(entry["targets"]) > len(targets) else []
        cells = (str(entry["number"]), format_time(entry["recorded_at"], seconds=True), entry["action"])
        add(entry["tenant"], *map(Text, (*cells, ", ".join(targets + ellipsis), api.name_of(entry["actor"]))))
    stdout().print(table)
