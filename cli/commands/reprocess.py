"""`counterfoil reprocess`: extract or match documents again, at a bounded rate."""

from typing import Annotated, Literal

import typer

from cli import ids
from cli.client import By, connect
from cli.options import AsJson, Since, Until
from cli.output import print_json, stdout

RATE, MAX_RATE = 60, 1000


def reprocess(
    context: typer.Context,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Tenant slug.")],
    *,
    stage: Annotated[
        Literal["extract", "match"],
        typer.Option(help="extract: extract the files again, then match. match: match without extracting."),
    ],
    since: Since = None,
    until: Until = None,
    rate: Annotated[int, typer.Option(min=1, max=MAX_RATE, help="Documents per minute.")] = RATE,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Extract or match a tenant's documents again, for example after a release.

    Documents received after the request are excluded.
    """
    body = {
        "tenant": tenant,
        "action": stage,
        "received_from": since and since.isoformat(),
        "received_before": until and until.isoformat(),
        "rate": rate,
    }
    operation = connect(context, by).send("POST", "/api/admin/operations", body=body).json()
    if as_json:
        print_json(operation)
    else:
        short = ids.short_id(operation["operation_id"])
        stdout().print(
            f"Operation {short} starts within a minute. To see progress: counterfoil operations show {short}"
        )
