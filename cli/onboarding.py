"""`counterfoil tenants add`: a tenant with all that it needs, or nothing of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cli.destinations import Kind, Shown, insert_destination, list_destinations
from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.tenants import (
    ORGANIZATION,
    TOOL,
    Tenant,
    as_owner,
    insert_addresses,
    insert_admins,
    insert_tenant,
)
from cli.terminal import page, print_json
from cli.trail import By


@dataclass(frozen=True)
class Onboarded:
    """A tenant as it is now."""

    tenant: Tenant
    is_new: bool
    addresses: Sequence[str]
    admins: Sequence[str]
    destinations: Sequence[Shown]
    """Those that were added, with their secrets."""

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "id": self.tenant.id,
            "slug": self.tenant.slug,
            "new": self.is_new,
            "addresses": self.addresses,
            "admins": self.admins,
            "destinations": [
                {key: value for key, value in vars(added).items() if value is not None} for added in self.destinations
            ],
        }


def onboard(  # all that a tenant has
    cloud: Cloud,
    slug: str,
    name: str | None = None,
    organization: str = ORGANIZATION,
    *,
    addresses: Sequence[str] = (),
    admins: Sequence[str] = (),
    destinations: Sequence[tuple[Kind, str, str]] = (),
    by: str = TOOL,
) -> Onboarded:
    """Add a tenant with addresses, admins and destinations (kind, name, URL or prefix), in one transaction.

    One that exists stays as it is, and gets what it has not got.

    Raises:
        UsageError: something of it cannot be; then nothing is added.
    """
    with as_owner(cloud) as connection:
        tenant, is_new = insert_tenant(connection, slug, name, organization, by=by)
        there = {(one.name, one.kind, one.address) for one in list_destinations(connection, tenant.id)}
        wanted = [(called, kind, at) for kind, called, at in destinations if (called, kind, at) not in there]
        return Onboarded(
            tenant,
            is_new,
            insert_addresses(connection, tenant, addresses, by=by),
            insert_admins(connection, tenant, admins, by=by),
            [insert_destination(connection, tenant, called, kind, at, by=by) for called, kind, at in wanted],
        )


def add(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    slug: Annotated[str, typer.Argument(help="Short name, as in the keys of uploads: a-z, 0-9 and hyphens.")],
    *,
    name: Annotated[str | None, typer.Option(help="Full name. Else the slug.", show_default=False)] = None,
    organization: Annotated[str, typer.Option(help="The organization that it belongs to.")] = ORGANIZATION,
    addresses: Annotated[
        list[str] | None, typer.Option("--address", help="Mail to this address is the tenant's. May be repeated.")
    ] = None,
    admins: Annotated[
        list[str] | None, typer.Option("--admin", help="Hears of failures by e-mail. May be repeated.")
    ] = None,
    webhooks: Annotated[
        list[str] | None,
        typer.Option("--webhook", metavar="NAME=URL", help="Results are posted there. May be repeated."),
    ] = None,
    exports: Annotated[
        list[str] | None,
        typer.Option("--s3", metavar="NAME=PREFIX", help="Results are written there. May be repeated."),
    ] = None,
    by: By,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tenant as JSON.")] = False,
) -> None:
    """Add a tenant with its addresses, admins and destinations: all of it, or nothing where something is wrong.

    A tenant that exists already stays as it is, and gets what it has not got. Secrets of webhooks are shown this once.
    """
    wanted = [_destination("webhook", text) for text in webhooks or ()]
    wanted += [_destination("s3", text) for text in exports or ()]
    cloud = Cloud.at(place_of(context.obj))
    done = onboard(
        cloud,
        slug,
        name,
        organization,
        addresses=addresses or (),
        admins=admins or (),
        destinations=wanted,
        by=by,
    )
    if as_json:
        print_json(done.record)
        return
    page().print(f"Tenant '{slug}' {'is added' if done.is_new else 'existed already'}.")
    for what, found in (("Mail finds it at", done.addresses), ("Failures are told to", done.admins)):
        if found:
            page().print(f"{what} {', '.join(found)}.")
    for added in done.destinations:
        page().print(f"Results go to {added.name}: {added.address}")
        if added.secret is not None:
            page().print(f"  Its secret, which is not shown again: {added.secret}", soft_wrap=True)


def _destination(kind: Kind, text: str) -> tuple[Kind, str, str]:
    name, separator, address = text.partition("=")
    if not separator or not name or not address:
        shown = "--webhook erp=https://erp.example.com/hook" if kind == "webhook" else "--s3 files=monthly/in"
        raise UsageError(f"'{text}' says no name and place: write it like {shown}.")
    return kind, name, address
