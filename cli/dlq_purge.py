"""`counterfoil dlq purge|purges`: settled dead letters of the local cloud are taken out of sight, and had back."""

from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Column
from rich.text import Text

from cli import ids
from cli.cloud.cloud import Cloud
from cli.cloud.place import place_of
from cli.dlq_options import AnyTenant, AsJson, Limit, OneTenant, moment
from cli.failures import UsageError
from cli.tables import of_tenants
from cli.tasks import one_tenant
from cli.tenants import Tenant, newest_of_each
from cli.terminal import aside, page, print_json
from cli.trail import By
from counterfoil.dead_letters import keeping
from counterfoil.dead_letters.keeping import SETTLED, UNDO_WITHIN, Purge, Settled

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
    cloud = Cloud.at(place_of(context.obj))
    whose = one_tenant(cloud, tenant)
    now = datetime.now(UTC)
    with cloud.database.tenant(whose.id) as connection:
        number = keeping.count(connection, whose.id, min(before, now), statuses)
    if dry_run:
        if as_json:
            print_json({"tenant": whose.slug, "died_before": before.isoformat(), "statuses": statuses, "count": number})
        else:
            page().print(f"{_letters(number)} of {whose.slug} would go.")
        return
    _confirm(whose, number, confirm)
    with cloud.database.tenant(whose.id) as connection:
        done = keeping.request(connection, whose.id, before, statuses, by=by, now=now)
    done = _carry_out(cloud, done)
    if as_json:
        print_json(_record(whose, done))
        return
    page().print(f"{_letters(done.hidden)} of {whose.slug} {'is' if done.hidden == 1 else 'are'} purged.")
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
    cloud = Cloud.at(place_of(context.obj))
    found = newest_of_each(cloud, tenant, partial(keeping.of_tenant, limit=limit), lambda one: one.requested_at)
    if as_json:
        print_json([_record(whose, one) for whose, one in found])
    else:
        _show(found)


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
    cloud = Cloud.at(place_of(context.obj))
    whose, found = _named(cloud, which)
    now = datetime.now(UTC)
    with cloud.database.tenant(whose.id) as connection:
        undone = keeping.undo(connection, found.id, by=by, now=now)
    if undone is None:
        late = now >= found.undo_until
        raise UsageError(
            f"A purge can be undone for {UNDO_WITHIN.days} days." if late else f"The purge '{which}' is undone already."
        )
    undone = _carry_out(cloud, undone)
    if as_json:
        print_json(_record(whose, undone))
    else:
        page().print(f"The purge {_short(found)} is undone: {_letters(found.hidden)} of {whose.slug} back in sight.")


def _settled(given: list[str]) -> list[Settled]:
    for name in given:
        if name not in SETTLED:
            raise UsageError(f"'{name}' is no state that is purged: there are {_STATES}.")
    return [one for one in SETTLED if one in given]


def _confirm(whose: Tenant, number: int, confirmed: str | None) -> None:
    """Have a person type the slug, where no script has said it.

    Raises:
        UsageError: it is not the slug.
    """
    if confirmed is None:
        aside().print(
            f"{_letters(number)} of {whose.slug} would go out of sight, and be deleted after {UNDO_WITHIN.days} days."
        )
        confirmed = typer.prompt("Type the tenant's slug to purge them", err=True)
    if confirmed != whose.slug:
        raise UsageError(f"'{confirmed}' is not the slug of the tenant, so nothing is purged.")


def _carry_out(cloud: Cloud, purge: Purge) -> Purge:
    """Take a purge's steps to the last one. Where the watchdog is at it, the others are left to it. As it is then."""
    going = True
    while going and not purge.is_complete:
        with cloud.database.delivery() as connection:
            going = keeping.step(connection, datetime.now(UTC), purge.id)
            purge = keeping.find(connection, purge.id) or purge
    if not purge.is_complete:
        aside().print("The watchdog has taken over: the others follow within a minute or two.")
    return purge


def _named(cloud: Cloud, text: str) -> tuple[Tenant, Purge]:
    """The purge whose id this is, or ends with.

    Raises:
        UsageError: there is none, or more than one.
    """
    end = text.strip().lower()
    found: list[tuple[UUID, UUID, str]] = []
    if len(end) >= ids.LEAST:
        with cloud.database.delivery() as connection:
            found = keeping.ending_with(connection, end)
    if len(found) != 1:
        what = "There is no purge whose" if not found else "More than one purge's"
        raise UsageError(f"{what} id ends with '{text}': 'counterfoil dlq purges list' shows them.")
    ((purge_id, tenant_id, slug),) = found
    with cloud.database.tenant(tenant_id) as connection:
        shown = keeping.find(connection, purge_id)
    assert shown is not None  # nothing deletes a purge but the deletion of its tenant
    return Tenant(tenant_id, slug), shown


def _record(whose: Tenant, purge: Purge) -> dict[str, Any]:
    told = {"purge_id": purge.id, "tenant": whose.slug, **vars(purge), "undo_until": purge.undo_until}
    left_out = {"id", "tenant_id"}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in told.items()
        if name not in left_out
    }


def _show(found: list[tuple[Tenant, Purge]]) -> None:
    if not found:
        page().print("Nothing was purged yet.")
        return
    table, add = of_tenants(
        [whose for whose, _ in found],
        *(Column(name, no_wrap=True) for name in ("id", "when")),
        Column("letters", justify="right"),
        *(Column(name, no_wrap=True) for name in ("died before", "undo until")),
        *(Column(name, overflow="fold") for name in ("of", "who")),
    )
    for whose, one in found:
        cells = [Text(_short(one)), Text(f"{one.requested_at:%Y-%m-%d %H:%M}"), Text(f"{one.hidden:,}")]
        cells += [Text(f"{one.died_before:%Y-%m-%d %H:%M}"), Text(_until(one))]
        add(whose, *cells, Text(", ".join(one.statuses)), Text(one.requested_by))
    page().print(table)


def _until(purge: Purge) -> str:
    return "is undone" if purge.undone_at is not None else f"{purge.undo_until:%Y-%m-%d %H:%M}"


def _short(purge: Purge) -> str:
    return ids.short(purge.id)


def _letters(number: int) -> str:
    return "1 dead letter" if number == 1 else f"{number:,} dead letters"
