"""`counterfoil dlq retry|resolve|ignore|edit|audit`: dead letters are tried again, settled, edited; who did what."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer
from rich.table import Column
from rich.text import Text

from cli import ids
from cli.client import Api, By, Reason, reach
from cli.commands.tasks import read_payload
from cli.dlq import path_of, plain
from cli.failures import UsageError
from cli.options import AnyTenant, AsJson, Limit
from cli.output import of_tenants, page, print_json
from functions.admin_api.api.dead_letters import AuditPage, AuditRecord, Letter, LetterChanged, LetterPayload

Which = Annotated[
    str,
    typer.Argument(metavar="ID", help="The letter's id, or the end of it as the list shows it.", show_default=False),
]
Seen = Annotated[
    int | None,
    typer.Option(
        "--seen", metavar="VERSION", help="Only if the letter is still at this version.", min=1, show_default=False
    ),
]


def retry(
    context: typer.Context, letter: Which, *, reason: Reason = None, by: By, seen: Seen = None, as_json: AsJson = False
) -> None:
    """Try a letter's work again: it begins anew, with all of its tries, if it is failed still."""
    body = {} if reason is None else {"notes": reason}
    _change(reach(context, by), letter, "retry", body, seen, as_json=as_json)


def resolve(
    context: typer.Context, letter: Which, *, reason: Reason = None, by: By, seen: Seen = None, as_json: AsJson = False
) -> None:
    """Settle a letter whose failure was dealt with in another way. --reason says how."""
    body = {"notes": _needed(reason)}
    _change(reach(context, by), letter, "resolve", body, seen, as_json=as_json)


def ignore(
    context: typer.Context, letter: Which, *, reason: Reason = None, by: By, seen: Seen = None, as_json: AsJson = False
) -> None:
    """Settle a letter that nothing is done about. --reason says why."""
    body = {"reason": _needed(reason)}
    _change(reach(context, by), letter, "ignore", body, seen, as_json=as_json)


def edit(  # one for each option
    context: typer.Context,
    letter: Which,
    payload: Annotated[
        str | None,
        typer.Argument(
            metavar="PAYLOAD",
            help="A JSON object, all of the new payload; @FILE to read it, - for standard input.",
            show_default=False,
        ),
    ] = None,
    *,
    reason: Reason = None,
    by: By,
    seen: Seen = None,
    as_json: AsJson = False,
) -> None:
    """Give a task that has failed another payload, for when it is tried again. Without PAYLOAD, print what it has.

    The payload that the task was tried with takes an edit back.
    """
    wanted = None if payload is None else read_payload(payload)
    api = reach(context, by)
    if wanted is None:
        shown = api.get(f"{path_of(api, letter)}/payload", LetterPayload)
        print_json(shown.original if shown.edited is None else shown.edited)
        return
    body = {"payload": wanted} if reason is None else {"payload": wanted, "notes": reason}
    _change(api, letter, "payload", body, seen, as_json=as_json)


def audit_(
    context: typer.Context,
    letter: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="Only of this letter: its id, or the end of it.", show_default=False),
    ] = None,
    *,
    tenant: AnyTenant = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List changes by people, newest first. `counterfoil audit verify` checks that the list is complete.

    Of a letter that was purged, say whose it was, with --tenant, and its whole id.
    """
    api = reach(context)
    target = None
    if letter is not None:
        target = api.named("letter", letter, "dlq list")
        tenant = tenant or api.get(path_of(api, target), Letter).tenant
    listed = [
        (whose, entry)
        for whose in api.tenants(tenant, unassigned=True)
        for entry in _entries(api, whose, target, limit)
    ]
    listed = sorted(listed, key=lambda one: one[1].recorded_at, reverse=True)[:limit]
    if as_json:
        print_json([{"tenant": whose, **plain(entry)} for whose, entry in listed])
    else:
        _show(api, listed, "this" if letter else "a")


DONE = {"retry": "retried", "resolve": "resolved", "ignore": "ignored", "payload": "edited"}


def _change(  # what, how, and how it is told
    api: Api, letter: str, what: str, body: object, seen: int | None, *, as_json: bool
) -> None:
    path = path_of(api, letter)
    if seen is None:
        seen = api.get(path, Letter).version
    method = "PATCH" if what == "payload" else "POST"
    done = api.ask(method, f"{path}/{what}", LetterChanged, body=body, seen=seen)
    if as_json:
        print_json(plain(done))
    else:
        page().print(f"The dead letter {ids.short(done.job_id)} is {DONE[what]}.")


def _entries(api: Api, tenant: str, target: str | None, limit: int) -> Iterator[AuditRecord]:
    pages = api.pages("/api/admin/dlq/audit", AuditPage, limit=limit, tenant=tenant, target=target)
    return islice((entry for page in pages for entry in page.entries), limit)


def _needed(reason: str | None) -> str:
    if reason is None:
        raise UsageError("Say why, with --reason: it is kept with the letter.")
    return reason


def _show(api: Api, listed: list[tuple[str, AuditRecord]], which: str) -> None:
    if not listed:
        page().print(f"Nobody has changed {which} dead letter yet.")
        return
    table, add = of_tenants(
        [whose for whose, _ in listed],
        Column("number", no_wrap=True, justify="right"),
        *(Column(name, no_wrap=True) for name in ("when", "what")),
        Column("letters"),
        Column("who", overflow="fold"),
    )
    for whose, entry in listed:
        cells = [Text(str(entry.number)), Text(f"{entry.recorded_at:%Y-%m-%d %H:%M:%S}"), Text(entry.action)]
        named = [target[-8:] for target in entry.targets[:3]]
        more = ["..."] if len(entry.targets) > len(named) else []
        add(whose, *cells, Text(", ".join(named + more)), Text(api.name_of(entry.actor)))
    page().print(table)
