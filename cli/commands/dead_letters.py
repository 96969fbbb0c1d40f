"""`counterfoil dlq list|show|groups|stats`: find, group and count dead letters."""

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.client import Api, connect
from cli.failures import UsageError
from cli.options import AnyTenant, AsJson, Limit, moment
from cli.output import bars, facts_table, format_time, print_json, stderr, stdout, tenant_table

PATH = "/api/admin/dlq"
STATUSES = {"pending": "red", "retried": "cyan", "resolved": "green", "ignored": "dim"}
"""Style of each status."""
FINGERPRINT_CHARS = 8
MAX_ERROR_CHARS = 200
"""Maximum number of characters of an error shown in tables."""
MAX_PAYLOAD_CHARS = 4000
"""Maximum number of characters of a payload shown without --json."""
BAR_COUNT = 12
"""Number of bars in a 24-hour trend, one per two hours."""
TRACES_PER_COMMAND = 5
"""Maximum number of traces in one request to X-Ray."""

DeadLetter = Mapping[str, Any]
"""A dead letter as returned by the API."""
Event = Mapping[str, Any]
"""An event of a dead letter as returned by the API."""

# -- options ----------------------------------------------------------------------------------------------------------

STATES_HELP = f"{', '.join(STATUSES)}. Can be repeated."
States = Annotated[
    list[str] | None,
    typer.Option("--status", help=f"Only in this state: {STATES_HELP}", show_default=False),
]
OfType = Annotated[str | None, typer.Option("--type", help="Only this task type.", show_default=False)]
OfGroup = Annotated[
    str | None,
    typer.Option("--group", help="Only this group, by the beginning of its fingerprint.", show_default=False),
]
Since = Annotated[
    datetime | None,
    typer.Option(
        "--since",
        parser=moment,
        metavar="TIME",
        help="Created at or after this time: 2026-01-31, or 2026-01-31T09:00 (UTC).",
        show_default=False,
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option("--until", parser=moment, metavar="TIME", help="Created before this time.", show_default=False),
]
Search = Annotated[
    str | None,
    typer.Option("--search", help="An id, or words that must all occur in the error or file name.", show_default=False),
]
DeadLetterId = Annotated[
    str,
    typer.Argument(metavar="ID", help="Dead letter id, or its last characters as listed.", show_default=False),
]


def checked_states(names: Sequence[str] | None) -> Sequence[str]:
    """Return the given states, or all states.

    Raises:
        UsageError: a state does not exist.
    """
    for name in names or ():
        if name not in STATUSES:
            raise UsageError(f"The state '{name}' is unknown: use one of {', '.join(STATUSES)}.")
    return [status for status in STATUSES if not names or status in names]


def fingerprint_of(api: Api, text: str | None) -> str | None:
    """Return the fingerprint that begins with `text`, or None if `text` is None.

    Raises:
        UsageError: no group matches, or several do.
    """
    return None if text is None else api.find_by_id_suffix("group", text, "dlq groups")


def path_of(api: Api, dead_letter: str) -> str:
    """Return a dead letter's API path, given its id or the last characters of the id.

    Raises:
        UsageError: no dead letter matches, or several do.
    """
    return f"{PATH}/{api.find_by_id_suffix('dead_letter', dead_letter, 'dlq list')}"


# -- commands ---------------------------------------------------------------------------------------------------------


def list_(  # noqa: PLR0913  # one argument per option
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    status: States = None,
    task_type: OfType = None,
    since: Since = None,
    until: Until = None,
    search: Search = None,
    group: OfGroup = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List dead letters, newest first."""
    api = connect(context)
    filters = {
        "status": checked_states(status),
        "task_type": task_type,
        "fingerprint": fingerprint_of(api, group),
        "from_date": since,
        "to_date": until,
        "search": search,
    }
    slugs = api.tenants(tenant, unassigned=True)
    dead_letters = api.latest(PATH, "dead_letters", "dlq_timestamp", slugs, limit=limit, **filters)
    if as_json:
        print_json(dead_letters)
    else:
        show_list(dead_letters)


def show(context: typer.Context, dead_letter: DeadLetterId, *, as_json: AsJson = False) -> None:
    """Show a dead letter with its error, payload and history."""
    api = connect(context)
    path = path_of(api, dead_letter)
    details = api.send("GET", path).json()
    events = api.send("GET", f"{path}/timeline").json()["events"]
    if as_json:
        print_json(details | {"timeline": events})
    else:
        _show(api, details, events)


def groups_(
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    status: Annotated[
        list[str] | None,
        typer.Option(help=f"Only groups with dead letters in this state: {STATES_HELP}", show_default=False),
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List groups of dead letters with the same error, most recent first."""
    api = connect(context)
    slugs, states = api.tenants(tenant, unassigned=True), checked_states(status)
    groups = api.latest(f"{PATH}/groups", "groups", "last_seen", slugs, limit=limit, status=states)
    if as_json:
        print_json(groups)
    else:
        _show_groups(groups, datetime.now(UTC))


def stats(context: typer.Context, *, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """Count dead letters by task type and state."""
    api = connect(context)
    rows = [
        {"tenant": slug, **counts}
        for slug in api.tenants(tenant, unassigned=True)
        for counts in api.send("GET", f"{PATH}/stats", query={"tenant": slug}).json()["task_types"]
    ]
    if as_json:
        print_json(rows)
    else:
        _show_stats(rows)


# -- tables -----------------------------------------------------------------------------------------------------------


def show_list(dead_letters: Sequence[DeadLetter]) -> None:
    """Print dead letters as a table."""
    if not dead_letters:
        stdout().print("No dead letters found.")
        return
    table, add = tenant_table(
        [dead_letter["tenant"] for dead_letter in dead_letters],
        *(Column(name, no_wrap=True) for name in ("id", "type", "status", "time")),
        Column("file and error", overflow="fold"),
    )
    for dead_letter in dead_letters:
        file_name = Text(f"{dead_letter['file_name']} " if dead_letter["file_name"] else "", "dim")
        add(
            dead_letter["tenant"],
            Text(ids.short_id(dead_letter["job_id"])),
            Text(dead_letter["task_type"]),
            _status(dead_letter),
            Text(format_time(dead_letter["dlq_timestamp"])),
            file_name.append(_truncate(_error(dead_letter["metadata"]["last_error"])), "default"),
        )
    stdout().print(table)


def _status(dead_letter: DeadLetter) -> Text:
    return Text(dead_letter["status"], STATUSES[dead_letter["status"]])


def _show_groups(groups: Sequence[Mapping[str, Any]], now: datetime) -> None:
    if not groups:
        stdout().print("No dead letters found.")
        return
    table, add = tenant_table(
        [group["tenant"] for group in groups],
        Column("group", no_wrap=True),
        *(Column(name, no_wrap=True, justify="right") for name in ("count", "pending", "last")),
        Column("24 hours", no_wrap=True),
        Column("error", overflow="fold"),
    )
    for group in groups:
        add(
            group["tenant"],
            Text(group["fingerprint"][:FINGERPRINT_CHARS]),
            Text(str(group["count"])),
            Text(str(group["pending"]), STATUSES["pending"] if group["pending"] else "dim"),
            Text(_age(now - datetime.fromisoformat(group["last_seen"]))),
            Text(bars(group["trend"], BAR_COUNT)),
            Text(f"{group['worker']} ", "dim").append(
                _truncate(f"{group['error_type']}: {group['message']}"), "default"
            ),
        )
    stdout().print(table)


def _show_stats(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        stdout().print("There are no dead letters.")
        return
    table, add = tenant_table(
        [counts["tenant"] for counts in rows],
        Column("type", overflow="fold"),
        *(Column(name, no_wrap=True, justify="right") for name in (*STATUSES, "all")),
    )
    total: Counter[str] = Counter()
    for counts in rows:
        total.update({state: counts[state] for state in STATUSES})
        add(counts["tenant"], Text(counts["task_type"]), *_counts(counts))
    if len(rows) > 1:
        table.add_section()
        add("", Text("all", "bold"), *_counts(total))
    stdout().print(table)


def _counts(counts: Mapping[str, int]) -> list[Text]:
    cells = [Text(f"{counts[state]:,}", style if counts[state] else "dim") for state, style in STATUSES.items()]
    return [*cells, Text(f"{sum(counts[state] for state in STATUSES):,}")]


def _show(api: Api, dead_letter: DeadLetter, events: Sequence[Event]) -> None:
    heading = Text(dead_letter["task_type"], "bold").append(
        f"  {dead_letter['tenant']}  {dead_letter['job_id']}  ", "dim"
    )
    stdout().print(heading.append(_status(dead_letter)))
    stdout().print(Text(_error(dead_letter["metadata"]["last_error"])))
    stdout().print(facts_table(_facts(api, dead_letter)))
    payload = json.dumps(dead_letter["payload"], ensure_ascii=False, indent=1)
    stdout().print(Text(payload[:MAX_PAYLOAD_CHARS]))
    if len(payload) > MAX_PAYLOAD_CHARS:
        stderr().print(f"The payload has {len(payload)} characters. To see all of it, use --json.")
    _show_events(api, events)


def _facts(api: Api, dead_letter: DeadLetter) -> list[tuple[str, str]]:
    created = format_time(dead_letter["dlq_timestamp"], seconds=True)
    attempts, work_id = dead_letter["attempts"], dead_letter["work_id"]
    facts = [
        ("created", f"{created} UTC ({dead_letter['dlq_reason'].replace('_', ' ')})"),
        ("worker", dead_letter["worker"]),
        ("work item", f"{work_id}, revision {dead_letter['revision']}" if work_id else "unknown"),
        ("attempts", f"{attempts} of {dead_letter['metadata']['max_retry'] + 1}" if attempts else "none"),
        ("version", str(dead_letter["version"])),
        ("group", dead_letter["fingerprint"]),
    ]
    if dead_letter["resolved_at"] is not None:
        resolution = format_time(dead_letter["resolved_at"], seconds=True)
        resolution = f"{resolution} UTC by {api.name_of(dead_letter['resolved_by'] or '')}"
        notes = (dead_letter["resolution"] or {}).get("notes")
        facts.append((dead_letter["status"], f"{resolution}: {notes}" if notes else resolution))
    return facts


def _show_events(api: Api, events: Sequence[Event]) -> None:
    table = Table(*(Column(name, no_wrap=True) for name in ("time", "event", "user")), box=None, pad_edge=False)
    table.add_column("note", overflow="fold")
    for event in events:
        title = {"attempt": f"attempt {event['attempt']} {event['outcome']}", "dead_lettered": "failed"}.get(
            event["kind"], event["outcome"]
        )
        cells = (str(title), api.name_of(event["actor"]), _truncate(_note(event)))
        table.add_row(format_time(event["at"], seconds=True), *map(Text, cells))
    stdout().print(table)
    for command in (*_log_commands(events), *_trace_commands(events)):
        stdout().print(Text(command), soft_wrap=True)


def _log_commands(events: Sequence[Event]) -> list[str]:
    """Return commands that read the attempts' logs from CloudWatch, one per revision."""
    logs: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for event in events:
        if (log := event["log"]) is not None:
            logs.setdefault((log["group"], log["filter"]), []).append(log)
    return [
        shlex.join(
            [
                *("aws", "logs", "filter-log-events", "--log-group-name", group),
                *("--start-time", str(min(_milliseconds(log["since"]) for log in attempt_logs))),
                *("--end-time", str(max(_milliseconds(log["until"]) for log in attempt_logs))),
                *("--filter-pattern", pattern),
            ]
        )
        for (group, pattern), attempt_logs in logs.items()
    ]


def _trace_commands(events: Sequence[Event]) -> list[str]:
    """Return commands that read the attempts' traces from X-Ray."""
    traces = list(dict.fromkeys(event["trace_id"] for event in events if event["trace_id"] is not None))
    return [
        shlex.join(["aws", "xray", "batch-get-traces", "--trace-ids", *traces[first : first + TRACES_PER_COMMAND]])
        for first in range(0, len(traces), TRACES_PER_COMMAND)
    ]


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _note(event: Event) -> str:
    started_at, next_attempt_at = event["started_at"], event["next_attempt_at"]
    duration = datetime.fromisoformat(event["at"]) - datetime.fromisoformat(started_at or event["at"])
    parts = (
        f"{duration.total_seconds():.2f} s" if started_at else None,
        f"next attempt at {next_attempt_at[11:19]}" if next_attempt_at else None,
        ", ".join(f"{name} {value}" for name, value in event["detail"].items()),
        _error(event["error"]),
    )
    return ": ".join(filter(None, parts))


def _error(error: Mapping[str, Any] | None) -> str:
    return "" if error is None else ": ".join(part for part in (error["type"], error["message"]) if part)


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 1]}…"


def _age(since: timedelta) -> str:
    minutes = max(0, int(since.total_seconds() // 60))
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} d"
