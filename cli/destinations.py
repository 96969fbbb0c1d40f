"""`counterfoil tenants destinations`: where a tenant's results are delivered to."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, cast
from uuid import UUID

import typer
from rich.markup import escape
from rich.table import Table

from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.tenants import TOOL, Tenant, as_owner, chosen, record, time_of
from cli.terminal import page, print_json
from cli.trail import By
from counterfoil.db import Connection
from counterfoil.egress import Egress
from counterfoil.webhooks import destinations as store

LOCAL_ALLOWLIST = ("127.0.0.0/8", "::1/128")
"""What the functions of the local cloud may call besides the internet."""
EVENTS = ("cluster", "document", "offers")
USUAL_EVENTS = ("cluster", "document")
"""What a destination is told of unless it is said otherwise."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")

Kind = Literal["webhook", "s3"]


@dataclass(frozen=True)
class Shown:
    """An active destination."""

    name: str
    kind: Kind
    address: str
    """The URL of a webhook, the prefix of an export."""
    events: list[str]
    secret: str | None = None
    """Only where it is new."""


def list_destinations(connection: Connection, tenant_id: UUID) -> list[Shown]:
    """The active destinations of a tenant, by name."""
    rows = connection.execute(
        "SELECT name, kind, coalesce(url, prefix), events FROM destination "
        "WHERE tenant_id = %s AND disabled_at IS NULL ORDER BY name",
        [tenant_id],
    ).fetchall()
    return [Shown(*row) for row in rows]


def add_destination(
    cloud: Cloud,
    slug: str,
    name: str,
    kind: Kind,
    address: str,
    events: Sequence[str] = USUAL_EVENTS,
    *,
    by: str = TOOL,
) -> Shown:
    """Add a destination to a tenant. Its secret is in what is returned, and nowhere to be read again.

    Raises:
        UsageError: there is no such tenant, the name is taken or none, or the address cannot be one.
    """
    (tenant,) = chosen(cloud, slug)
    with as_owner(cloud) as connection:
        return insert_destination(connection, tenant, name, kind, address, events, by=by)


def insert_destination(
    connection: Connection,
    tenant: Tenant,
    name: str,
    kind: Kind,
    address: str,
    events: Sequence[str] = USUAL_EVENTS,
    *,
    by: str = TOOL,
) -> Shown:
    """As `add_destination`, in a transaction of the owner."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' cannot name a destination: use up to 63 lower-case letters a-z, digits and hyphens."
        )
    unknown = [event for event in events if event not in EVENTS]
    if unknown or not events:
        raise UsageError(f"'{', '.join(unknown)}' is no event: there are {', '.join(EVENTS[:-1])} and {EVENTS[-1]}.")
    if kind == "webhook":
        objection = Egress(LOCAL_ALLOWLIST).objection(address)
        if objection is not None:
            raise UsageError(f"'{address}' cannot be a webhook: {objection}.")
    elif not store.is_prefix(address):
        raise UsageError(
            f"'{address}' cannot be a prefix of exports: use names of a-z, 0-9, '.', '_' and '-', with '/' between."
        )
    active = list_destinations(connection, tenant.id)
    if name in {known.name for known in active}:
        raise UsageError(f"'{tenant.slug}' has a destination '{name}' already: remove it first, or take another name.")
    for known in active:
        if (known.kind, known.address) == ("s3", address):
            raise UsageError(
                f"The destination '{known.name}' exports to '{address}' already: remove it first, or take another "
                "prefix."
            )
    id_, secret = store.add(connection, tenant.id, name, kind, address, events, time_of(connection))
    record(connection, tenant, by, "destination added", target=id_, detail={"kind": kind})
    return Shown(name, kind, address, list(events), secret)


def remove_destination(cloud: Cloud, slug: str, name: str, *, by: str = TOOL) -> None:
    """Deliver nothing to a destination any more; what waits for it is skipped.

    Raises:
        UsageError: there is no such tenant or destination.
    """
    (tenant,) = chosen(cloud, slug)
    with as_owner(cloud) as connection:
        id_ = store.remove(connection, tenant.id, name, time_of(connection))
        if id_ is None:
            raise _unknown(slug, name, list_destinations(connection, tenant.id))
        record(connection, tenant, by, "destination removed", target=id_)


def rotate_secret(cloud: Cloud, slug: str, name: str, *, by: str = TOOL) -> str:
    """Give a webhook a new secret, and return it. The one before is signed with for a day more.

    Raises:
        UsageError: there is no such tenant or webhook.
    """
    (tenant,) = chosen(cloud, slug)
    with as_owner(cloud) as connection:
        rotated = store.rotate(connection, tenant.id, name, time_of(connection))
        if rotated is None:
            known = [one for one in list_destinations(connection, tenant.id) if one.kind == "webhook"]
            raise _unknown(slug, name, known, "webhook")
        id_, secret = rotated
        record(connection, tenant, by, "webhook secret rotated", target=id_)
    return secret


def _unknown(slug: str, name: str, known: Sequence[Shown], what: str = "destination") -> UsageError:
    there_are = f"There are: {', '.join(one.name for one in known)}." if known else "There are none."
    return UsageError(f"'{slug}' has no {what} '{name}'. {there_are}")


def destinations(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant, by its slug.")],
    *,
    webhook: Annotated[
        tuple[str, str],
        typer.Option("--add-webhook", metavar="NAME URL", help="Add a webhook. Its secret is shown this once."),
    ] = ("", ""),
    export: Annotated[
        tuple[str, str],
        typer.Option("--add-s3", metavar="NAME PREFIX", help="Add an export, below exports/TENANT/ of the bucket."),
    ] = ("", ""),
    events: Annotated[
        list[str] | None,
        typer.Option(
            "--event", help="Of one that is added: cluster, document, offers. May be repeated. Else the first two."
        ),
    ] = None,
    removed: Annotated[
        str | None, typer.Option("--remove", metavar="NAME", help="Deliver nothing there any more.")
    ] = None,
    rotated: Annotated[
        str | None,
        typer.Option("--rotate", metavar="NAME", help="Give a webhook a new secret; the old one signs for a day more."),
    ] = None,
    by: By,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Add, remove and list where a tenant's results are delivered to: signed webhooks, exports to S3."""
    if sum(map(bool, (any(webhook), any(export), removed, rotated))) > 1:
        raise UsageError("One change at a time, please: --add-webhook, --add-s3, --remove or --rotate.")
    cloud = Cloud.at(place_of(context.obj))
    if any(webhook) or any(export):
        kind, (name, address) = ("webhook", webhook) if any(webhook) else ("s3", export)
        added = add_destination(cloud, slug, name, cast("Kind", kind), address, events or USUAL_EVENTS, by=by)
        _tell_secret(added, f"Destination '{name}' is added.", as_json=as_json)
    elif rotated is not None:
        told = f"The secret of '{rotated}' is a new one. Calls are signed with both, the old and the new, for 24 hours."
        _tell_secret(
            Shown(rotated, "webhook", "", [], rotate_secret(cloud, slug, rotated, by=by)), told, as_json=as_json
        )
    elif removed is not None:
        remove_destination(cloud, slug, removed, by=by)
        _list(cloud, slug, as_json=as_json)
    else:
        _list(cloud, slug, as_json=as_json)


def _tell_secret(shown: Shown, told: str, *, as_json: bool) -> None:
    if as_json:
        print_json({key: value for key, value in asdict(shown).items() if value})
        return
    page().print(told)
    if shown.secret is not None:
        page().print("Its secret, which is not shown again:")
        page().print(escape(shown.secret), soft_wrap=True)
        page().print("How a receiver verifies calls with it: docs/webhooks.md")


def _list(cloud: Cloud, slug: str, *, as_json: bool) -> None:
    (tenant,) = chosen(cloud, slug)
    with as_owner(cloud) as connection:
        found = list_destinations(connection, tenant.id)
    if as_json:
        print_json([{key: value for key, value in asdict(one).items() if key != "secret"} for one in found])
        return
    if not found:
        page().print(
            f"Tenant '{slug}' has no destinations. To add one: counterfoil tenants destinations {slug} "
            "--add-webhook office https://example.com/hook"
        )
        return
    table = Table("name", "kind", "address", "events", box=None)
    for one in found:
        table.add_row(one.name, one.kind, escape(one.address), ", ".join(one.events))
    page().print(table)
