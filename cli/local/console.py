"""`counterfoil console`: show the local console's URL, and a user to sign in as."""

import secrets
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from cli.local.cloud import Cloud
from cli.local.paths import cloud_paths
from cli.local.tenants import select_tenants
from cli.output import print_json, stdout

Role = Literal["viewer", "operator", "admin"]
ALL_TENANTS = "*"


@dataclass(frozen=True)
class ConsoleUser:
    """A person in the local cloud's user pool."""

    email: str
    password: str


def console(
    context: typer.Context,
    *,
    role: Annotated[Role, typer.Option(help="Role of the user. Each role includes the roles before it.")] = "admin",
    tenant: Annotated[
        str | None, typer.Option(help="Slug of the only tenant that the user can access. Default: all tenants.")
    ] = None,
    browse: Annotated[bool, typer.Option("--open", help="Open the console in a browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print URL, email address and password as JSON.")] = False,
) -> None:
    """Show the URL of the local cloud's console, and a user to sign in as.

    There is one user for each role and tenant, created on first use. Each call sets a new password. Existing sessions
    stay signed in.
    """
    cloud = Cloud.at(cloud_paths(context.obj))
    slug = ALL_TENANTS if tenant is None else select_tenants(cloud, tenant)[0].slug
    name = role if tenant is None else f"{role}.{slug}"
    person = make_person(cloud, f"{name}@counterfoil.example", [role, f"tenant:{slug}"])
    if as_json:
        print_json({"url": cloud.console_url, "email": person.email, "password": person.password})
    else:
        table = Table.grid(padding=(0, 2))
        for title, value in (("console", cloud.console_url), ("email", person.email), ("password", person.password)):
            table.add_row(Text(f"  {title}", "dim"), Text(value, overflow="fold"))
        stdout().print(table)
    if browse:
        webbrowser.open(cloud.console_url)


def make_person(cloud: Cloud, email: str, groups: Sequence[str], *, password: str | None = None) -> ConsoleUser:
    """Create the user if missing, add them to these groups, and set the password.

    If `password` is None, the password is random.
    """
    people, pool = cloud.client("cognito-idp"), cloud.outputs["UserPoolId"]
    person = ConsoleUser(email, password or f"Aa1!{secrets.token_urlsafe(12)}")
    with suppress(people.exceptions.UsernameExistsException):  # created by an earlier call
        people.admin_create_user(
            UserPoolId=pool,
            Username=email,
            MessageAction="SUPPRESS",
            UserAttributes=[{"Name": "email", "Value": email}, {"Name": "email_verified", "Value": "true"}],
        )
    people.admin_set_user_password(UserPoolId=pool, Username=email, Password=person.password, Permanent=True)
    existing = {group["GroupName"] for group in people.list_groups(UserPoolId=pool)["Groups"]}
    for group in groups:
        if group not in existing:
            people.create_group(UserPoolId=pool, GroupName=group)
        people.admin_add_user_to_group(UserPoolId=pool, Username=email, GroupName=group)
    return person
