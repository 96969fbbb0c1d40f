"""`counterfoil dlq purge`: hide settled dead letters, which are deleted a week later."""

from datetime import datetime
from typing import Annotated

import typer

from cli import ids
from cli.client import By, reach
from cli.dlq import plain
from cli.dlq_options import OneTenant
from cli.failures import UsageError
from cli.operations import sentence_of
from cli.options import AsJson, moment
from cli.output import aside, page, print_json
from counterfoil.dead_letters.purges import RESTORE_WITHIN, SETTLED
from counterfoil.delivery.dead_letter import ClosedStatus
from functions.admin_api.api.operations import OperationProgress, PurgePlan

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
    plan = api.ask("DELETE", _PURGE, PurgePlan, query=wanted)
    if dry_run:
        if as_json:
            print_json(plain(plan))
        else:
            page().print(f"{_letters(plan.count)} of {plan.tenant} would go.")
        return
    _confirm(plan, confirm)
    done = api.ask("DELETE", _PURGE, OperationProgress, query={**wanted, "confirm": plan.confirm}, seen=plan.count)
    if as_json:
        print_json(plain(done))
        return
    page().print(sentence_of(done))
    aside().print(
        f"Until {done.restorable_until:%Y-%m-%d %H:%M} UTC this restores them: "
        f"counterfoil operations restore {ids.short(done.operation_id)}"
    )


def _settled(given: list[str]) -> list[ClosedStatus]:
    for name in given:
        if name not in SETTLED:
            raise UsageError(f"'{name}' is no state that is purged: there are {_STATES}.")
    return [one for one in SETTLED if one in given]


def _confirm(plan: PurgePlan, confirmed: str | None) -> None:
    """Have a person type the slug, where no script has said it.

    Raises:
        UsageError: it is not the slug.
    """
    if confirmed is None:
        aside().print(
            f"{_letters(plan.count)} of {plan.tenant} would be hidden, and deleted after {RESTORE_WITHIN.days} days."
        )
        confirmed = typer.prompt("Type the tenant's slug to purge them", err=True)
    if confirmed != plan.confirm:
        raise UsageError(f"'{confirmed}' is not the slug of the tenant, so nothing is purged.")


def _letters(number: int) -> str:
    return "1 dead letter" if number == 1 else f"{number:,} dead letters"
