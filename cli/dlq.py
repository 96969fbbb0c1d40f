"""`counterfoil dlq`: dead letters are found, grouped, counted and shown, by the API."""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.client import Api, reach
from cli.dlq_options import (
    FINGERPRINT_SHOWN,
    SEVERAL_STATES,
    OfGroup,
    OfType,
    Since,
    States,
    Until,
    WithText,
    fingerprint_of,
    states_of,
)
from cli.options import AnyTenant, AsJson, Limit
from cli.output import aside, of_tenants, page, print_json
from counterfoil.dead_letters.search import STATUSES, Status
from functions.admin_api.api.dead_letters import (
    LastError,
    Letter,
    LetterCounts,
    LetterCountsOfType,
    LetterEvent,
    LetterGroup,
    LetterGroupPage,
    LetterPage,
    LetterStats,
    LetterSummary,
    LetterTimeline,
    ToldError,
    TryLog,
)

SUMMARY = "Look at dead letters, work that ended in failure; try it again, or settle it."
STYLES: dict[Status, str] = {"pending": "red", "retried": "cyan", "resolved": "green", "ignored": "dim"}
LONGEST_ERROR = 200
"""Characters of an error that tables show."""
LONGEST_PAYLOAD = 4000
BARS = " ▁▂▃▄▅▆▇█"
BARS_SHOWN = 12
"""Of a trend, each of two hours."""
TRACES_AT_ONCE = 5
"""That X-Ray may be asked for in one call."""

app = typer.Typer(
    help=f"""{SUMMARY}

    Dead letters with the same error make a group. Commands are clients of the API: a deployment's after
    `counterfoil login`, else the local cloud's, as an admin who is created for you.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@app.command("list")
def list_(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    status: States = None,
    task_type: OfType = None,
    since: Since = None,
    until: Until = None,
    text: WithText = None,
    group: OfGroup = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List dead letters, the newest first."""
    api = reach(context)
    wanted = {
        "status": states_of(status),
        "task_type": task_type,
        "fingerprint": fingerprint_of(api, group),
        "from_date": since,
        "to_date": until,
        "text": text,
    }
    whose = api.tenants(tenant, unassigned=True)
    found = [letter for slug in whose for letter in _letters(api, slug, wanted, limit)]
    found = sorted(found, key=lambda letter: letter.dlq_timestamp, reverse=True)[:limit]
    if as_json:
        print_json([plain(letter) for letter in found])
    else:
        show_list(found)


@app.command("show")
def show(
    context: typer.Context,
    letter: Annotated[
        str, typer.Argument(metavar="ID", help="The letter's id, or the end of it as the list shows it.")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Show a dead letter: what it died of, what is known of it, and what happened to it."""
    api = reach(context)
    path = path_of(api, letter)
    shown = api.get(path, Letter)
    events = api.get(f"{path}/timeline", LetterTimeline).events
    if as_json:
        print_json(plain(shown) | {"timeline": [plain(event) for event in events]})
    else:
        _show(api, shown, events)


@app.command("groups")
def groups_(
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    status: Annotated[
        list[str] | None,
        typer.Option(help=f"Only groups with letters in this state: {SEVERAL_STATES}", show_default=False),
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Group letters by what they died of; what came last is first."""
    api = reach(context)
    wanted = {"status": states_of(status)}
    slugs = api.tenants(tenant, unassigned=True)
    found = [(slug, one) for slug in slugs for one in _groups(api, slug, wanted, limit)]
    found = sorted(found, key=lambda one: one[1].last_seen, reverse=True)[:limit]
    if as_json:
        print_json([{"tenant": whose, **plain(one)} for whose, one in found])
    else:
        _show_groups(found, datetime.now(UTC))


@app.command("stats")
def stats(context: typer.Context, *, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """Count dead letters by type of task and state."""
    api = reach(context)
    found = [
        (whose, counts)
        for whose in api.tenants(tenant, unassigned=True)
        for counts in api.get("/api/admin/dlq/stats", LetterStats, tenant=whose).task_types
    ]
    if as_json:
        print_json([{"tenant": whose, **plain(counts)} for whose, counts in found])
    else:
        _show_stats(found)


def plain(told: BaseModel) -> dict[str, Any]:
    """What the API has answered, as JSON has it."""
    return told.model_dump(mode="json")


def path_of(api: Api, letter: str) -> str:
    """Where the letter is whose id this is, or ends with.

    Raises:
        UsageError: there is none, or more than one.
    """
    return f"/api/admin/dlq/{api.named('letter', letter, 'dlq list')}"


def _letters(api: Api, tenant: str, wanted: Mapping[str, Any], limit: int) -> Iterator[LetterSummary]:
    pages = api.pages("/api/admin/dlq", LetterPage, limit=limit, tenant=tenant, **wanted)
    return islice((letter for page in pages for letter in page.letters), limit)


def _groups(api: Api, tenant: str, wanted: Mapping[str, Any], limit: int) -> Iterator[LetterGroup]:
    pages = api.pages("/api/admin/dlq/groups", LetterGroupPage, limit=limit, tenant=tenant, **wanted)
    return islice((group for page in pages for group in page.groups), limit)


# -- for people -----------------------------------------------------------------------------------------------------


def show_list(found: Sequence[LetterSummary]) -> None:
    """Letters as a table."""
    if not found:
        page().print("There are no such dead letters.")
        return
    table, add = of_tenants(
        [letter.tenant for letter in found],
        *(Column(name, no_wrap=True) for name in ("id", "type", "state", "when")),
        Column("file and error", overflow="fold"),
    )
    for letter in found:
        add(
            letter.tenant,
            Text(ids.short(letter.job_id)),
            Text(letter.task_type),
            Text(letter.status, STYLES[letter.status]),
            Text(f"{letter.dlq_timestamp:%Y-%m-%d %H:%M}"),
            Text(f"{letter.file_name} " if letter.file_name else "", "dim").append(
                _cut(_error(letter.metadata.last_error)), "default"
            ),
        )
    page().print(table)


def _show_groups(found: Sequence[tuple[str, LetterGroup]], now: datetime) -> None:
    if not found:
        page().print("There are no such dead letters.")
        return
    table, add = of_tenants(
        [whose for whose, _ in found],
        Column("group", no_wrap=True),
        Column("letters", no_wrap=True, justify="right"),
        Column("pending", no_wrap=True, justify="right"),
        Column("last", no_wrap=True, justify="right"),
        Column("24 hours", no_wrap=True),
        Column("died of", overflow="fold"),
    )
    for whose, one in found:
        add(
            whose,
            Text(one.fingerprint[:FINGERPRINT_SHOWN]),
            Text(str(one.count)),
            Text(str(one.pending), STYLES["pending"] if one.pending else "dim"),
            Text(_ago(now - one.last_seen)),
            Text(_bars(one.trend)),
            Text(f"{one.worker} ", "dim").append(_cut(f"{one.error_type}: {one.sentence}"), "default"),
        )
    page().print(table)


def _show_stats(found: Sequence[tuple[str, LetterCountsOfType]]) -> None:
    if not found:
        page().print("There are no dead letters.")
        return
    table, add = of_tenants(
        [whose for whose, _ in found],
        Column("type", overflow="fold"),
        *(Column(name, no_wrap=True, justify="right") for name in (*STATUSES, "all")),
    )
    for whose, counts in found:
        add(whose, Text(counts.task_type), *_counts(_by_state(counts)))
    if len(found) > 1:
        table.add_section()
        total = sum((_by_state(counts) for _, counts in found), Counter())
        add("", Text("all", "bold"), *_counts(total))
    page().print(table)


def _by_state(counts: LetterCounts) -> Counter[Status]:
    return Counter({state: getattr(counts, state) for state in STATUSES})


def _counts(counts: Counter[Status]) -> list[Text]:
    cells = [Text(f"{counts[state]:,}", STYLES[state] if counts[state] else "dim") for state in STATUSES]
    return [*cells, Text(f"{sum(counts.values()):,}")]


def _show(api: Api, letter: Letter, events: Sequence[LetterEvent]) -> None:
    heading = Text(letter.task_type, "bold").append(f"  {letter.tenant}  {letter.job_id}  ", "dim")
    page().print(heading.append(letter.status, STYLES[letter.status]))
    page().print(Text(_error(letter.metadata.last_error)))
    facts = Table(
        Column(no_wrap=True, style="dim"), Column(overflow="fold"), box=None, pad_edge=False, show_header=False
    )
    for name, value in _facts(api, letter):
        facts.add_row(name, Text(value))
    page().print(facts)
    payload = json.dumps(letter.payload, ensure_ascii=False, indent=1)
    page().print(Text(payload[:LONGEST_PAYLOAD]))
    if len(payload) > LONGEST_PAYLOAD:
        aside().print(f"The payload has {len(payload)} characters: --json shows all of it.")
    _show_events(api, events)


def _facts(api: Api, letter: Letter) -> list[tuple[str, str]]:
    tries = f"{letter.attempts} of {letter.metadata.max_retry + 1}" if letter.attempts else "none"
    facts = [
        ("died", f"{letter.dlq_timestamp:%Y-%m-%d %H:%M:%S} UTC ({letter.dlq_reason.replace('_', ' ')})"),
        ("worker", letter.worker),
        ("work", f"{letter.work_id}, revision {letter.revision}" if letter.work_id else "none is named"),
        ("tries", tries),
        ("version", str(letter.version)),
        ("group", letter.fingerprint),
    ]
    if letter.resolved_at is not None:
        notes = letter.resolution.notes if letter.resolution else None
        who = f"{letter.resolved_at:%Y-%m-%d %H:%M:%S} UTC by {api.name_of(letter.resolved_by or '')}"
        facts.append((letter.status, f"{who}: {notes}" if notes else who))
    return facts


def _show_events(api: Api, events: Sequence[LetterEvent]) -> None:
    table = Table(*(Column(name, no_wrap=True) for name in ("when", "what", "who")), box=None, pad_edge=False)
    table.add_column("note", overflow="fold")
    for event in events:
        what = f"try {event.number} {event.what}" if event.kind == "try" else event.what
        what = "died" if event.kind == "death" else what
        table.add_row(
            f"{event.at:%Y-%m-%d %H:%M:%S}", Text(what), Text(api.name_of(event.who)), Text(_cut(_note(event)))
        )
    page().print(table)
    for command in (*_log_commands(events), *_trace_commands(events)):
        page().print(Text(command), soft_wrap=True)


def _log_commands(events: Sequence[LetterEvent]) -> list[str]:
    """How the logs of tries are had of CloudWatch, a line for all tries of a revision."""
    logs: dict[tuple[str, str], list[TryLog]] = {}
    for event in events:
        if event.log is not None:
            logs.setdefault((event.log.group, event.log.filter), []).append(event.log)
    return [
        shlex.join(
            [
                *("aws", "logs", "filter-log-events", "--log-group-name", group),
                *("--start-time", _milliseconds(min(one.since for one in found))),
                *("--end-time", _milliseconds(max(one.until for one in found))),
                *("--filter-pattern", pattern),
            ]
        )
        for (group, pattern), found in logs.items()
    ]


def _trace_commands(events: Sequence[LetterEvent]) -> list[str]:
    """How the traces of tries are had of X-Ray, five at a time."""
    ids = list(dict.fromkeys(event.trace_id for event in events if event.trace_id is not None))
    return [
        shlex.join(["aws", "xray", "batch-get-traces", "--trace-ids", *ids[first : first + TRACES_AT_ONCE]])
        for first in range(0, len(ids), TRACES_AT_ONCE)
    ]


def _milliseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1000))


def _note(event: LetterEvent) -> str:
    again = f"again at {event.next_attempt_at:%H:%M:%S}" if event.next_attempt_at else None
    detail = ", ".join(f"{name} {value}" for name, value in event.detail.items())
    took = f"{(event.at - event.began_at).total_seconds():.2f} s" if event.began_at else None
    return ": ".join(filter(None, (took, again, detail, _error(event.error))))


def _error(told: LastError | ToldError | None) -> str:
    return "" if told is None else ": ".join(part for part in (told.type, told.message) if part)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 1]}…"


def _ago(since: timedelta) -> str:
    minutes = max(0, int(since.total_seconds() // 60))
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} d"


def _bars(trend: Sequence[int]) -> str:
    """A trend as bars, the highest of them for the most of any."""
    hours = len(trend) // BARS_SHOWN
    sums = [sum(trend[at : at + hours]) for at in range(0, len(trend), hours)]
    most = max(sums)
    return "".join(BARS[-(-one * (len(BARS) - 1) // most)] if most else BARS[0] for one in sums)
