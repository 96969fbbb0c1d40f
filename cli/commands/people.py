"""`counterfoil people`: people who may sign in, with their roles and tenants."""

from typing import Annotated, Any

import typer
from rich.table import Table

from cli.client import Api, By, connect
from cli.failures import UsageError
from cli.options import AsJson
from cli.output import print_json, stdout

PATH = "/api/admin/people"
ROLES = ("viewer", "operator", "admin")
ALL = "*"

app = typer.Typer(
    help="""Invite people, and change their roles and tenants.

    If the deployment uses a token issuer other than the built-in user pool, manage people in that issuer.
    """,
    no_args_is_help=True,
    add_completion=False,
)

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="The person's email address.")]
Role = Annotated[str | None, typer.Option(help=f"{', '.join(ROLES)}: each includes the roles before it.")]
Tenants = Annotated[list[str] | None, typer.Option("--tenant", help="Tenant slug, or '*' for all. Can be repeated.")]
Edits = Annotated[
    bool | None, typer.Option("--edit-payloads/--no-edit-payloads", help="Allow an operator to edit task payloads.")
]


@app.command("list")
def list_(
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only people with access to this tenant.")] = None,
    as_json: AsJson = False,
) -> None:
    """List people."""
    api = connect(context)
    people: list[dict[str, Any]] = []
    cursor = None
    while True:
        response = api.send("GET", PATH, query={"tenant": tenant, "cursor": cursor}).json()
        people += response["people"]
        cursor = response["next_cursor"]
        if cursor is None:
            break
    if as_json:
        print_json(people)
        return
    if not people:
        stdout().print("No people. To invite one: counterfoil people add ann@example.com --role viewer --tenant acme")
        return
    table = Table("email", "role", "tenants", "state", box=None)
    for person in people:
        role = f"{person['role'] or '-'}{' (edits payloads)' if person['edits_payloads'] else ''}"
        tenants = ", ".join(person["tenants"])
        table.add_row(person["email"], role, tenants, "disabled" if person["is_disabled"] else "")
    stdout().print(table)


@app.command("add")
def add(
    context: typer.Context,
    email: Email,
    *,
    role: Role = "viewer",
    tenants: Tenants = None,
    edits_payloads: Edits = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Invite a person. They get an email with a temporary password."""
    if not tenants:
        raise UsageError("A tenant is required: --tenant acme, or --tenant '*' for all.")
    body = {"email": email, "role": role, "tenants": tenants, "edits_payloads": bool(edits_payloads)}
    person = connect(context, by).send("POST", PATH, body=body).json()
    print_json(person) if as_json else stdout().print(f"{person['email']} was invited as {person['role']}.")


@app.command("change")
def change(
    context: typer.Context,
    email: Email,
    *,
    role: Role = None,
    tenants: Tenants = None,
    edits_payloads: Edits = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Change a person's role and tenants. New tenants replace all previous ones."""
    body = {"role": role, "tenants": tenants, "edits_payloads": edits_payloads}
    _change(connect(context, by), email, body, f"{email} was changed.", as_json=as_json)


@app.command("disable")
def disable(context: typer.Context, email: Email, *, by: By, as_json: AsJson = False) -> None:
    """Disable a person. They can no longer sign in."""
    _change(connect(context, by), email, {"is_disabled": True}, f"{email} was disabled.", as_json=as_json)


@app.command("enable")
def enable(context: typer.Context, email: Email, *, by: By, as_json: AsJson = False) -> None:
    """Enable a disabled person."""
    _change(connect(context, by), email, {"is_disabled": False}, f"{email} was enabled.", as_json=as_json)


@app.command("remove")
def remove(context: typer.Context, email: Email, *, by: By) -> None:
    """Remove a person."""
    api = connect(context, by)
    api.send("DELETE", f"{PATH}/{_id(api, email)}")
    stdout().print(f"{email} was removed.")


def _change(api: Api, email: str, body: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    person = api.send("PATCH", f"{PATH}/{_id(api, email)}", body=body).json()
    print_json(person) if as_json else stdout().print(sentence)


def _id(api: Api, email: str) -> str:
    """Return a person's id.

    Raises:
        UsageError: no visible person has this address.
    """
    people = api.send("GET", PATH, query={"email": email}).json()["people"]
    if not people:
        raise UsageError(f"No person has the address '{email}'. To list people: counterfoil people list")
    id_: str = people[0]["id"]
    return id_
