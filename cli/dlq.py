"""`counterfoil dlq`: dead letters of the local cloud, found, grouped, counted and shown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.cloud.cloud import Cloud
from cli.cloud.place import place_of
from cli.dlq_options import (
    FINGERPRINT_SHOWN,
    SEVERAL_STATES,
    AnyTenant,
    AsJson,
    Limit,
    OfGroup,
    OfType,
    Since,
    States,
    Until,
    WithText,
    fingerprint_of,
    states_of,
)
from cli.failures import UsageError
from cli.tables import of_tenants
from cli.tenants import Tenant, chosen, newest_of_each
from cli.terminal import aside, page, print_json
from counterfoil.db import Connection
from counterfoil.dead_letters import entries, groups, search, timeline
from counterfoil.dead_letters.entries import STATUSES, Details, Entry, Status, Wanted
from counterfoil.dead_letters.groups import Group
from counterfoil.dead_letters.timeline import Event

SUMMARY = "Look at dead letters, work that ended in failure; try it again, or settle it."
STYLES: dict[Status, str] = {"pending": "red", "retried": "cyan", "resolved": "green", "ignored": "dim"}
LONGEST_ERROR = 200
"""Characters of an error that tables show."""
LONGEST_PAYLOAD = 4000
LAST_EVENTS = 200
"""Of each kind in a timeline."""
BARS = " ▁▂▃▄▅▆▇█"
BARS_SHOWN = 12
"""Of a trend, each of two hours."""

app = typer.Typer(
    help=f"""{SUMMARY}

    Letters that died of the same make a group. Over HTTP the same is GET /api/admin/dlq; here nothing is hidden, as
    for an admin there.
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
    statuses = states_of(status)
    cloud = Cloud.at(place_of(context.obj))
    fingerprint = None if group is None else fingerprint_of(cloud, group)
    wanted = Wanted(statuses, task_type, fingerprint, since, until)
    read = partial(_letters, wanted=wanted, text=text, limit=limit)
    found = newest_of_each(cloud, tenant, read, lambda letter: letter.dlq_timestamp)
    if as_json:
        print_json([record(whose, letter) for whose, letter in found])
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
    cloud = Cloud.at(place_of(context.obj))
    whose, job_id = letter_named(cloud, letter)
    with cloud.database.tenant(whose.id) as connection:
        shown = entries.show(connection, job_id)
        events = timeline.of(connection, shown, limit=LAST_EVENTS) if shown else []
    if shown is None:
        raise UsageError(f"The dead letter '{letter}' has just been deleted.")
    if as_json:
        print_json(record(whose, shown) | {"timeline": [_plain(asdict(event)) for event in events]})
    else:
        _show(whose, shown, events)


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
    statuses = states_of(status)
    cloud = Cloud.at(place_of(context.obj))
    now = datetime.now(UTC)
    read = partial(groups.page, statuses=statuses, now=now, limit=limit)
    found = newest_of_each(cloud, tenant, read, lambda group: group.last_seen)
    if as_json:
        print_json(
            [
                {"tenant": whose.slug, "count": one.count, "state": one.state, **_plain(vars(one))}
                for whose, one in found
            ]
        )
    else:
        _show_groups(found, now)


@app.command("stats")
def stats(context: typer.Context, *, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """Count dead letters by type of task and state."""
    cloud = Cloud.at(place_of(context.obj))
    found: list[tuple[Tenant, str, dict[Status, int]]] = []
    for whose in chosen(cloud, tenant):
        with cloud.database.tenant(whose.id) as connection:
            counted = groups.stats(connection, whose.id)
        for task_type, counts in sorted(counted.items()):
            found += [(whose, task_type, {state: counts.get(state, 0) for state in STATUSES})]
    if as_json:
        print_json(
            [
                {"tenant": whose.slug, "task_type": task_type, "count": sum(counts.values()), **counts}
                for whose, task_type, counts in found
            ]
        )
    else:
        _show_stats(found)


def record(whose: Tenant, letter: Entry) -> dict[str, Any]:
    """A letter as JSON has it, and as the API answers."""
    return {"tenant": whose.slug, **_plain(vars(letter))}


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _letters(connection: Connection, tenant_id: UUID, wanted: Wanted, text: str | None, limit: int) -> Sequence[Entry]:
    if text is None:
        return entries.page(connection, tenant_id, wanted, limit=limit)
    found = search.page(connection, tenant_id, text, wanted, limit=limit)
    letters = list(found.entries)
    while found.next is not None and len(letters) < limit:  # a page of a search may be short
        found = search.page(connection, tenant_id, text, wanted, limit=limit - len(letters), after=found.next)
        letters += found.entries
    return letters


def letter_named(cloud: Cloud, text: str) -> tuple[Tenant, UUID]:
    """The letter whose id this is, or ends with, and whose it is.

    Raises:
        UsageError: there is none, or more than one.
    """
    end = text.strip().lower()
    found = []
    if len(end) >= ids.LEAST:
        with cloud.database.delivery() as connection:
            found = entries.ending_with(connection, end)
    if len(found) != 1:
        what = "There is no dead letter whose" if not found else "More than one dead letter's"
        raise UsageError(f"{what} id ends with '{text}': 'counterfoil dlq list' shows them.")
    ((job_id, tenant_id, slug),) = found
    return Tenant(tenant_id, slug), job_id


# -- for people -----------------------------------------------------------------------------------------------------


def show_list(found: Sequence[tuple[Tenant, Entry]]) -> None:
    """Letters as a table."""
    if not found:
        page().print("There are no such dead letters.")
        return
    table, add = of_tenants(
        [whose for whose, _ in found],
        *(Column(name, no_wrap=True) for name in ("id", "type", "state", "when")),
        Column("died of", overflow="fold"),
    )
    for whose, letter in found:
        add(
            whose,
            Text(ids.short(letter.job_id)),
            Text(letter.task_type),
            Text(letter.status, STYLES[letter.status]),
            Text(f"{letter.dlq_timestamp:%Y-%m-%d %H:%M}"),
            Text(_cut(_error(letter.metadata.get("last_error")))),
        )
    page().print(table)


def _show_groups(found: Sequence[tuple[Tenant, Group]], now: datetime) -> None:
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


def _show_stats(found: Sequence[tuple[Tenant, str, Mapping[Status, int]]]) -> None:
    if not found:
        page().print("There are no dead letters.")
        return
    table, add = of_tenants(
        [whose for whose, _, _ in found],
        Column("type", overflow="fold"),
        *(Column(name, no_wrap=True, justify="right") for name in (*STATUSES, "all")),
    )
    total = {state: sum(counts[state] for _, _, counts in found) for state in STATUSES}
    for whose, task_type, counts in found:
        add(whose, Text(task_type), *_counts(counts))
    if len(found) > 1:
        table.add_section()
        add(Tenant(found[0][0].id, ""), Text("all", "bold"), *_counts(total))
    page().print(table)


def _counts(counts: Mapping[Status, int]) -> list[Text]:
    cells = [Text(f"{counts[state]:,}", STYLES[state] if counts[state] else "dim") for state in STATUSES]
    return [*cells, Text(f"{sum(counts.values()):,}")]


def _show(whose: Tenant, letter: Details, events: Sequence[Event]) -> None:
    heading = Text(letter.task_type, "bold").append(f"  {whose.slug}  {letter.job_id}  ", "dim")
    page().print(heading.append(letter.status, STYLES[letter.status]))
    page().print(Text(_error(letter.metadata.get("last_error"))))
    facts = Table(
        Column(no_wrap=True, style="dim"), Column(overflow="fold"), box=None, pad_edge=False, show_header=False
    )
    for name, value in _facts(letter):
        facts.add_row(name, Text(value))
    page().print(facts)
    payload = json.dumps(letter.payload, ensure_ascii=False, indent=1)
    page().print(Text(payload[:LONGEST_PAYLOAD]))
    if len(payload) > LONGEST_PAYLOAD:
        aside().print(f"The payload has {len(payload)} characters: --json shows all of it.")
    _show_events(events)


def _facts(letter: Details) -> list[tuple[str, str]]:
    tries = f"{letter.attempts} of {letter.metadata.get('max_retry', 0) + 1}" if letter.attempts else "none"
    facts = [
        ("died", f"{letter.dlq_timestamp:%Y-%m-%d %H:%M:%S} UTC ({letter.dlq_reason.replace('_', ' ')})"),
        ("worker", letter.worker),
        ("work", f"{letter.work_id}, revision {letter.revision}" if letter.work_id else "none is named"),
        ("tries", tries),
        ("group", letter.fingerprint),
    ]
    if letter.resolved_at is not None:
        notes = (letter.resolution or {}).get("notes")
        who = f"{letter.resolved_at:%Y-%m-%d %H:%M:%S} UTC by {letter.resolved_by}"
        facts.append((letter.status, f"{who}: {notes}" if notes else who))
    return facts


def _show_events(events: Sequence[Event]) -> None:
    table = Table(*(Column(name, no_wrap=True) for name in ("when", "what", "who")), box=None, pad_edge=False)
    table.add_column("note", overflow="fold")
    for event in events:
        what = f"try {event.number} {event.what}" if event.kind == "try" else event.what
        what = "died" if event.kind == "death" else what
        table.add_row(f"{event.at:%Y-%m-%d %H:%M:%S}", Text(what), Text(event.who), Text(_cut(_note(event))))
    page().print(table)


def _note(event: Event) -> str:
    again = f"again at {event.next_attempt_at:%H:%M:%S}" if event.next_attempt_at else None
    detail = ", ".join(f"{name} {value}" for name, value in event.detail.items())
    took = f"{(event.at - event.began_at).total_seconds():.2f} s" if event.began_at else None
    return ": ".join(filter(None, (took, again, detail, _error(event.error))))


def _error(told: Mapping[str, Any] | None) -> str:
    return ": ".join(str(part) for part in ((told or {}).get("type"), (told or {}).get("message")) if part)


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
