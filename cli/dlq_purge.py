"""`counterfoil dlq purge|purges`: settled dead letters are taken out of sight, and had back."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated

import typer
from rich.table import Column
from rich.text import Text

from cli import ids
from cli.api import Api, reach
from cli.dlq import plain
from cli.dlq_options import AnyTenant, AsJson, Limit, OneTenant, moment
from cli.failures import UsageError
from cli.tables import of_tenants
from cli.terminal import aside, page, print_json
from cli.trail import By
from counterfoil.dead_letters.keeping import SETTLED, UNDO_WITHIN
from counterfoil.delivery.letters import ClosedStatus
from functions.admin_api.purging import LetterPurge, LetterPurgePage, LetterPurgePlan

_PURGE = "/api/admin/dlq/purge"
_STATES = ", ".join(SETTLED)


def purge(  # one for each option
    context: typer.Context,
    *,
    before: Annotated[
        datetime,
        typer.Option(
            parser=moment,
            metavar="TIME",
            help="Those that died before: 2026-01-31, or 2026-01-31T09:00 (UTC).",
            show_default=False,
        ),
    ],
    status: Annotated[
        list[str],
        typer.Option(help=f"Those in this state: {_STATES}. It may be given several times.", show_default=False),
    ],
    tenant: OneTenant = None,
    confirm: Annotated[
        str | None,
        typer.Option(metavar="SLUG", help="The tenant's slug, for scripts: nobody is asked then.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many would go.")] = False,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Take settled letters out of sight. For a week they can be had back, then they are deleted.

    It is done once the tenant's slug is typed.
    """
    statuses = _settled(status)
    api = reach(context, by)
    wanted = {"tenant": api.one_tenant(tenant), "before_date": before, "status": statuses}
    plan = api.ask("DELETE", _PURGE, LetterPurgePlan, query=wanted)
    if dry_run:
        if as_json:
            print_json(plain(plan))
        else:
            page().print(f"{_letters(plan.count)} of {plan.tenant} would go.")
        return
    _confirm(plan, confirm)
    done = api.ask("DELETE", _PURGE, LetterPurge, query={**wanted, "confirm": plan.confirm}, seen=plan.count)
    _tell_rest(done)
    if as_json:
        print_json(plain(done))
        return
    page().print(f"{_letters(done.hidden)} of {done.tenant} {'is' if done.hidden == 1 else 'are'} purged.")
    aside().print(
        f"Until {done.undo_until:%Y-%m-%d %H:%M} UTC they are had back by: counterfoil dlq purges undo {_short(done)}"
    )


purges = typer.Typer(help="List purges, and undo them within a week.", no_args_is_help=True, add_completion=False)


@purges.command("list")
def list_(
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List purges, the newest first."""
    api = reach(context)
    found = [one for whose in api.tenants(tenant) for one in _purges(api, whose, limit)]
    found = sorted(found, key=lambda one: one.requested_at, reverse=True)[:limit]
    if as_json:
        print_json([plain(one) for one in found])
    else:
        _show(api, found)


@purges.command("undo")
def undo(
    context: typer.Context,
    which: Annotated[
        str,
        typer.Argument(metavar="ID", help="The purge's id, or the end of it as the list shows it.", show_default=False),
    ],
    *,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Have the letters of a purge back: all of them, but not their messages in SQS."""
    api = reach(context, by)
    purge_id = api.named("purge", which, "dlq purges list")
    path = f"/api/admin/dlq/purges/{purge_id}"
    seen = api.get(path, LetterPurge).version
    undone = api.ask("POST", f"{path}/undo", LetterPurge, seen=seen)
    _tell_rest(undone)
    if as_json:
        print_json(plain(undone))
    else:
        comes = "is" if undone.is_complete else "comes"
        page().print(f"The purge {_short(undone)} is undone: what it took of {undone.tenant} {comes} back in sight.")


def _settled(given: list[str]) -> list[ClosedStatus]:
    for name in given:
        if name not in SETTLED:
            raise UsageError(f"'{name}' is no state that is purged: there are {_STATES}.")
    return [one for one in SETTLED if one in given]


def _confirm(plan: LetterPurgePlan, confirmed: str | None) -> None:
    """Have a person type the slug, where no script has said it.

    Raises:
        UsageError: it is not the slug.
    """
    if confirmed is None:
        aside().print(
            f"{_letters(plan.count)} of {plan.tenant} would go out of sight, and be deleted after {UNDO_WITHIN.days} "
            "days."
        )
        confirmed = typer.prompt("Type the tenant's slug to purge them", err=True)
    if confirmed != plan.confirm:
        raise UsageError(f"'{confirmed}' is not the slug of the tenant, so nothing is purged.")


def _tell_rest(purge: LetterPurge) -> None:
    if not purge.is_complete:
        aside().print("There are more than one step takes: the watchdog takes the others, within minutes.")


def _purges(api: Api, tenant: str, limit: int) -> Iterator[LetterPurge]:
    pages = api.pages("/api/admin/dlq/purges", LetterPurgePage, limit=limit, tenant=tenant)
    return islice((one for page in pages for one in page.purges), limit)


def _show(api: Api, found: list[LetterPurge]) -> None:
    if not found:
        page().print("Nothing was purged yet.")
        return
    table, add = of_tenants(
        [one.tenant for one in found],
        *(Column(name, no_wrap=True) for name in ("id", "when")),
        Column("letters", justify="right"),
        *(Column(name, no_wrap=True) for name in ("died before", "undo until")),
        *(Column(name, overflow="fold") for name in ("of", "who")),
    )
    for one in found:
        cells = [Text(_short(one)), Text(f"{one.requested_at:%Y-%m-%d %H:%M}"), Text(f"{one.hidden:,}")]
        cells += [Text(f"{one.died_before:%Y-%m-%d %H:%M}"), Text(_until(one))]
        add(one.tenant, *cells, Text(", ".join(one.statuses)), Text(api.name_of(one.requested_by)))
    page().print(table)


def _until(purge: LetterPurge) -> str:
    return "is undone" if purge.undone_at is not None else f"{purge.undo_until:%Y-%m-%d %H:%M}"


def _short(purge: LetterPurge) -> str:
    return ids.short(purge.purge_id)


def _letters(number: int) -> str:
    return "1 dead letter" if number == 1 else f"{number:,} dead letters"
