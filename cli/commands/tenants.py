"""`counterfoil tenants`: add, list, disable and delete tenants, and set them up."""

import time
from typing import Annotated, Any

import typer
from rich.table import Table

from cli.client import Api, By, connect, poll
from cli.commands import destinations
from cli.commands.mail import dmarc
from cli.commands.tolerances import tolerances
from cli.failures import UsageError
from cli.options import AsJson
from cli.output import print_json, stderr, stdout

PATH = "/api/admin/tenants"
LOCAL_ORGANIZATION = "Local"
POLL_SECONDS = 5.0

app = typer.Typer(
    help="Add and list tenants, and set their addresses, admins, destinations and tolerances.",
    no_args_is_help=True,
    add_completion=False,
)
app.command("dmarc")(dmarc)
app.add_typer(destinations.app, name="destinations")
app.command("tolerances")(tolerances)

Slug = Annotated[str, typer.Argument(metavar="TENANT", help="Tenant slug.")]
Added = Annotated[list[str] | None, typer.Option("--add", help="Add this email address. Can be repeated.")]
Removed = Annotated[list[str] | None, typer.Option("--remove", help="Remove this email address. Can be repeated.")]


@app.command("list")
def list_(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the tenants."""
    tenants = list(connect(context).items(PATH, "tenants"))
    if as_json:
        print_json(tenants)
        return
    if not tenants:
        stdout().print("No tenant exists. To add one: counterfoil tenants add SLUG")
        return
    table = Table("tenant", "name", "state", box=None)
    for tenant in tenants:
        table.add_row(tenant["slug"], tenant["name"], "disabled" if tenant["disabled_at"] else "")
    stdout().print(table)


@app.command("add")
def add(  # noqa: PLR0913  # one argument per option
    context: typer.Context,
    slug: Annotated[str, typer.Argument(help="Short name, used in upload keys: a-z, 0-9 and hyphens.")],
    *,
    name: Annotated[str | None, typer.Option(help="Full name. Default: the slug.", show_default=False)] = None,
    organization: Annotated[str, typer.Option(help="The tenant's organization.")] = LOCAL_ORGANIZATION,
    addresses: Annotated[
        list[str] | None, typer.Option("--address", help="Address that receives the tenant's mail. Can be repeated.")
    ] = None,
    admins: Annotated[
        list[str] | None, typer.Option("--notify-email", help="Notify this address of failures. Can be repeated.")
    ] = None,
    webhooks: Annotated[
        list[str] | None,
        typer.Option("--webhook", metavar="NAME=URL", help="Post results to this URL. Can be repeated."),
    ] = None,
    exports: Annotated[
        list[str] | None,
        typer.Option("--s3", metavar="NAME=PREFIX", help="Write results to this prefix. Can be repeated."),
    ] = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Add a tenant with its addresses, admins and destinations in one transaction.

    An existing tenant keeps its settings, and only missing settings are added. Webhook secrets are shown only once.
    """
    new_destinations = [_destination("webhook", text) for text in webhooks or ()]
    new_destinations += [_destination("s3", text) for text in exports or ()]
    body = {
        "slug": slug,
        "name": name,
        "organization": organization,
        "addresses": addresses or [],
        "admins": admins or [],
        "destinations": new_destinations,
    }
    tenant = connect(context, by).send("POST", PATH, body=body).json()
    if as_json:
        print_json(tenant)
        return
    stdout().print(f"Tenant '{slug}' {'was added' if tenant['is_new'] else 'already exists'}.")
    for title, values in (("Mail arrives at", tenant["addresses"]), ("Failures are reported to", tenant["admins"])):
        if values:
            stdout().print(f"{title} {', '.join(values)}.")
    for added in tenant["destinations"]:
        stdout().print(f"Results go to {added['name']}: {added['address']}")
        if added["secret"] is not None:
            stdout().print(f"  Signing secret (shown only once): {added['secret']}", soft_wrap=True)


def _destination(kind: str, text: str) -> dict[str, str]:
    name, separator, address = text.partition("=")
    if not separator or not name or not address:
        example = "--webhook erp=https://erp.example.com/hook" if kind == "webhook" else "--s3 files=monthly/in"
        raise UsageError(f"'{text}' must be a name and a destination, such as {example}.")
    return {"kind": kind, "name": name, "address": address}


@app.command("rename")
def rename(
    context: typer.Context,
    slug: Slug,
    name: Annotated[str, typer.Argument(help="The new full name. The slug does not change.")],
    *,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Change a tenant's full name."""
    _change(context, by, slug, {"name": name}, f"Tenant '{slug}' is now called {name}.", as_json=as_json)


@app.command("disable")
def disable(context: typer.Context, slug: Slug, *, by: By, as_json: AsJson = False) -> None:
    """Disable a tenant: uploads, mail and changes are rejected.

    Its data stays readable.
    """
    _change(context, by, slug, {"is_disabled": True}, f"Tenant '{slug}' was disabled.", as_json=as_json)


@app.command("enable")
def enable(context: typer.Context, slug: Slug, *, by: By, as_json: AsJson = False) -> None:
    """Enable a disabled tenant."""
    _change(context, by, slug, {"is_disabled": False}, f"Tenant '{slug}' was enabled.", as_json=as_json)


def _change(
    context: typer.Context, by: str, slug: str, change: dict[str, Any], sentence: str, *, as_json: bool
) -> None:
    changed = connect(context, by).send("PATCH", f"{PATH}/{slug}", body=change).json()
    print_json(changed) if as_json else stdout().print(sentence)


@app.command("admins")
def admins(
    context: typer.Context, slug: Slug, *, added: Added = None, removed: Removed = None, by: By, as_json: AsJson = False
) -> None:
    """Add, remove and list a tenant's admins, who are notified of failures by email."""
    listed = _addresses(connect(context, by), slug, "admins", added, removed)
    if as_json:
        print_json(listed)
    elif listed:
        stdout().print("\n".join(listed))
    else:
        stdout().print(
            f"Tenant '{slug}' has no admins. To add one: counterfoil tenants admins {slug} --add ann@example.com"
        )


@app.command("addresses")
def addresses(
    context: typer.Context, slug: Slug, *, added: Added = None, removed: Removed = None, by: By, as_json: AsJson = False
) -> None:
    """Add, remove and list the addresses that receive a tenant's mail.

    Mail that arrives before its address is added becomes a dead letter. To process the mail, retry the dead letter.
    """
    listed = _addresses(connect(context, by), slug, "addresses", added, removed)
    if as_json:
        print_json(listed)
    elif listed:
        stdout().print("\n".join(listed))
    else:
        stdout().print(
            f"Tenant '{slug}' receives no mail. "
            f"To add an address: counterfoil tenants addresses {slug} --add invoices@{slug}.example"
        )


def _addresses(api: Api, slug: str, kind: str, added: list[str] | None, removed: list[str] | None) -> list[str]:
    path = f"{PATH}/{slug}"
    if not added and not removed:
        current: list[str] = api.send("GET", path).json()[kind]
        return current
    change = {"added": added or [], "removed": removed or []}
    changed: list[str] = api.send("PATCH", f"{path}/{kind}", body=change).json()["addresses"]
    return changed


@app.command("delete")
def delete(
    context: typer.Context,
    slug: Slug,
    *,
    confirm: Annotated[
        str | None,
        typer.Option(metavar="SLUG", help="The tenant's slug, to skip the prompt.", show_default=False),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the erasure ends, about 20 minutes.")] = False,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Erase a tenant: every row and every version of every object.

    This cannot be undone.

    The watchdog erases the data within minutes, and again after 20 minutes, when no attempt can still be in progress.
    The slug can be used again after 15 days.
    """
    api = connect(context, by)
    path = f"{PATH}/{slug}"
    plan = api.send("DELETE", path).json()
    if confirm is None:
        stderr().print(
            f"{plan['documents']:,} documents, {plan['tasks']:,} tasks, {plan['dead_letters']:,} dead letters and all "
            f"other data of {slug} would be erased. This cannot be undone."
        )
        confirm = typer.prompt("Type the tenant's slug to erase it", err=True)
    if confirm != plan["confirm"]:
        raise UsageError(f"Nothing was erased: '{confirm}' is not the tenant's slug.")
    status = api.send("DELETE", path, query={"confirm": confirm}, expected_version=plan["documents"]).json()
    while wait and status["finished_at"] is None:
        status = poll(POLL_SECONDS, lambda: api.send("GET", f"{path}/erasure").json(), time.sleep)
    if as_json:
        print_json(status)
    elif status["finished_at"] is None:
        stdout().print(f"The erasure of '{slug}' was requested. It starts within a minute.")
    else:
        stdout().print(f"'{slug}' was erased: {status['rows']:,} rows and {status['objects']:,} object versions.")
