"""`counterfoil mail` and `tenants dmarc`: mail that failed DMARC, and the policy."""

from typing import Annotated, Literal

import typer
from rich.table import Column
from rich.text import Text

from cli.client import Api, By, Reason, connect
from cli.options import AnyTenant, AsJson, Limit
from cli.output import format_time, print_json, stdout, tenant_table

SUMMARY = "List mail that failed DMARC; release or reject it."
PATH = "/api/admin/mail"
POLICY = f"{PATH}/policy"
Hold = Literal["held", "released", "rejected"]
DmarcPolicy = Literal["hold", "reject", "accept"]

app = typer.Typer(
    help=f"""{SUMMARY}

    A tenant's policy decides what happens to such mail: counterfoil tenants dmarc
    """,
    no_args_is_help=True,
    add_completion=False,
)

MailId = Annotated[str, typer.Argument(metavar="ID", help="Id of the email, as listed.", show_default=False)]


@app.command("list")
def list_(
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    hold: Annotated[Hold, typer.Option("--hold", help="List mail in this state.")] = "held",
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List mail that failed DMARC, newest first. Default: mail on hold."""
    api = connect(context)
    mails = api.latest(PATH, "mails", "received_at", api.tenants(tenant), limit=limit, hold=hold)
    if as_json:
        print_json(mails)
        return
    if not mails:
        stdout().print(f"There is no {hold} mail.")
        return
    columns = (Column("id", no_wrap=True), Column("received", no_wrap=True), Column("sender", overflow="fold"))
    table, add = tenant_table(
        [mail["tenant"] for mail in mails],
        *columns,
        *(Column(name) for name in ("SPF", "DKIM", "DMARC")),
        Column("subject", overflow="fold"),
    )
    for mail in mails:
        cells = (mail[name] or "-" for name in ("sender", "spf", "dkim", "dmarc", "subject"))
        add(mail["tenant"], Text(mail["id"]), Text(format_time(mail["received_at"])), *map(Text, cells))
    stdout().print(table)


@app.command("release")
def release(context: typer.Context, mail: MailId, *, reason: Reason = None, by: By, as_json: AsJson = False) -> None:
    """Release a held email: its attachments are processed as documents."""
    _decide(connect(context, by), mail, "release", reason, as_json=as_json)


@app.command("reject")
def reject(context: typer.Context, mail: MailId, *, reason: Reason = None, by: By, as_json: AsJson = False) -> None:
    """Reject a held email: its attachments are not processed."""
    _decide(connect(context, by), mail, "reject", reason, as_json=as_json)


def dmarc(
    context: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="TENANT", help="Tenant slug.")],
    *,
    policy: Annotated[
        DmarcPolicy | None,
        typer.Option(
            "--policy",
            help="hold: an operator decides (counterfoil mail). reject: ignore attachments. accept: process normally.",
            show_default=False,
        ),
    ] = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Show or set the policy for mail that fails DMARC.

    The sender of such mail may be forged.
    """
    api = connect(context, by)
    query = {"tenant": slug}
    current = api.send("GET", POLICY, query=query).json()
    if policy is not None:
        change = {"dmarc_policy": policy, "previous": current["dmarc_policy"]}
        current = api.send("PUT", POLICY, query=query, body=change).json()
    if as_json:
        print_json(current)
    else:
        stdout().print(f"DMARC policy of tenant '{slug}': {current['dmarc_policy']}")


def _decide(api: Api, mail: str, action: str, reason: str | None, *, as_json: bool) -> None:
    body = {} if reason is None else {"reason": reason}
    response = api.send("POST", f"{PATH}/{mail}/{action}", body=body).json()
    if as_json:
        print_json(response)
    else:
        stdout().print(f"The email was {response['hold']}.")
