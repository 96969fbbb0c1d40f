"""`counterfoil tenants delete`: erases a tenant with all of its data."""

import time
from typing import Annotated

import typer

from cli import api
from cli.api import reach
from cli.dlq import plain
from cli.dlq_options import AsJson
from cli.failures import UsageError
from cli.terminal import aside, page, print_json
from cli.trail import By
from functions.admin_api.erasing import ErasurePlan, TenantErasureStatus

POLL_SECONDS = 5.0


def delete(
    context: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant, by its slug.")],
    *,
    confirm: Annotated[
        str | None, typer.Option(metavar="SLUG", help="The slug again, for scripts.", show_default=False)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the erasure has finished, some 20 minutes.")] = False,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Erase a tenant: every row and every version of every object. It cannot be undone.

    The watchdog erases within minutes, and once more after 20 minutes, when no attempt can be in progress any longer.
    The slug can be used again after 15 days.
    """
    reached = reach(context, by)
    path = f"/api/admin/tenants/{slug}"
    plan = reached.ask("DELETE", path, ErasurePlan)
    if confirm is None:
        aside().print(
            f"{plan.documents:,} documents, {plan.tasks:,} tasks, {plan.dead_letters:,} dead letters and all other "
            f"data of {slug} would be erased. It cannot be undone."
        )
        confirm = typer.prompt("Type the tenant's slug to erase it", err=True)
    if confirm != plan.confirm:
        raise UsageError(f"'{confirm}' is not the slug of the tenant. Nothing was erased.")
    query = {"confirm": confirm}
    status = reached.ask("DELETE", path, TenantErasureStatus, query=query, seen=plan.documents)
    while wait and status.finished_at is None:
        status = api.after(POLL_SECONDS, lambda: reached.get(f"{path}/erasure", TenantErasureStatus), time.sleep)
    if as_json:
        print_json(plain(status))
    elif status.finished_at is None:
        page().print(f"The erasure of '{slug}' is stored and begins within a minute.")
    else:
        page().print(f"'{slug}' is erased: {status.rows:,} rows and {status.objects:,} versions of objects.")
