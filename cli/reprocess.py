"""`counterfoil reprocess`: a tenant's documents are extracted or matched again at a bounded rate."""

from datetime import datetime
from typing import Annotated, get_args

import typer

from cli import ids
from cli.client import By, reach
from cli.dlq import plain
from cli.dlq_options import AsJson, moment
from cli.failures import UsageError
from cli.output import page, print_json
from counterfoil.documents.reprocess import MAX_RATE, Kind
from functions.admin_api.api.operations import REPROCESSING_RATE, OperationProgress


def reprocess(  # one for each option
    context: typer.Context,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant, by its slug.")],
    *,
    what: Annotated[str, typer.Option(help="extract: read the files again, then match. match: only that.")],
    since: Annotated[
        datetime | None,
        typer.Option("--from", parser=moment, metavar="TIME", help="Received then or later.", show_default="all"),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--to", parser=moment, metavar="TIME", help="Received before.", show_default="now"),
    ] = None,
    rate: Annotated[int, typer.Option(min=1, max=MAX_RATE, help="Documents per minute.")] = REPROCESSING_RATE,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Extract or match a tenant's documents again.

    For use after a release that changed how. Documents received later are excluded.
    """
    if what not in get_args(Kind):
        raise UsageError(f"--what takes {' or '.join(get_args(Kind))}.")
    asked = {
        "tenant": tenant,
        "action": what,
        "received_from": since and since.isoformat(),
        "received_until": until and until.isoformat(),
        "rate": rate,
    }
    operation = reach(context, by).ask("POST", "/api/admin/operations", OperationProgress, body=asked)
    if as_json:
        print_json(plain(operation))
    else:
        short = ids.short(operation.operation_id)
        page().print(f"Operation {short} begins within a minute. Its progress: counterfoil operations show {short}")
