"""`counterfoil documents`: what became of every uploaded file."""

from typing import Annotated

import typer

from cli import outcomes
from cli.cloud.cloud import Cloud
from cli.cloud.place import place_of
from cli.outcomes import State
from cli.tables import show_outcomes
from cli.tenants import chosen
from cli.terminal import print_json


def documents(
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by its slug.", show_default=False)] = None,
    state: Annotated[State | None, typer.Option(help="Only those in this state.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """Show what became of every uploaded file.

    waiting and working are under way; succeeded was read and matched; kept holds nothing to match; seen-again is a copy
    of a file that the tenant has; failed went wrong for good, and the note says why.
    """
    cloud = Cloud.at(place_of(context.obj))
    found = [outcome for one in chosen(cloud, tenant) for outcome in outcomes.of_tenant(cloud, one)]
    if tenant is None:
        found += outcomes.of_nobody(cloud)
    if state is not None:
        found = [outcome for outcome in found if outcome.state is state]
    if as_json:
        print_json([outcome.record for outcome in found])
    else:
        show_outcomes(found)
