"""`counterfoil tenants destinations`: webhooks and exports that receive a tenant's results."""

from typing import Annotated, Any

import typer
from rich.table import Table

from cli.client import Api, By, connect
from cli.failures import UsageError
from cli.options import AsJson
from cli.output import page, print_json


def destinations(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="TENANT", help="Tenant slug.")],
    *,
    webhook: Annotated[
        tuple[str, str],
        typer.Option("--add-webhook", metavar="NAME URL", help="Add a webhook. Its secret is shown only once."),
    ] = ("", ""),
    export: Annotated[
        tuple[str, str],
        typer.Option("--add-s3", metavar="NAME PREFIX", help="Add an export to exports/TENANT/PREFIX in the bucket."),
    ] = ("", ""),
    events: Annotated[
        list[str] | None,
        typer.Option(
            "--event",
            help="Events of a new destination: cluster, document or offers. Can be repeated. Default: the first two.",
        ),
    ] = None,
    removed: Annotated[str | None, typer.Option("--remove", metavar="NAME", help="Remove a destination.")] = None,
    rotated: Annotated[
        str | None,
        typer.Option("--rotate", metavar="NAME", help="Rotate a webhook's secret. The old one signs for 24 h more."),
    ] = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Add, remove and list destinations of a tenant's results: signed webhooks and exports to S3."""
    if sum(map(bool, (any(webhook), any(export), removed, rotated))) > 1:
        raise UsageError("One change at a time: --add-webhook, --add-s3, --remove or --rotate.")
    api = connect(context, by)
    path = f"/api/admin/tenants/{slug}/destinations"
    if any(webhook) or any(export):
        kind, (name, address) = ("webhook", webhook) if any(webhook) else ("s3", export)
        body: dict[str, Any] = {"name": name, "kind": kind, "address": address}
        added = api.send("POST", path, body=body | ({"events": events} if events else {})).json()
        _show_secret(added, f"Destination '{name}' was added.", as_json=as_json)
    elif rotated is not None:
        sentence = f"'{rotated}' has a new secret. Calls are signed with the old and the new one for 24 hours."
        _show_secret(api.send("POST", f"{path}/{rotated}/rotate").json(), sentence, as_json=as_json)
    else:
        if removed is not None:
            api.send("DELETE", f"{path}/{removed}")
        _list(api, path, slug, as_json=as_json)


def _show_secret(destination: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(destination)
        return
    page().print(sentence)
    if destination["secret"] is not None:
        page().print("Its secret, which is not shown again:")
        page().print(destination["secret"], soft_wrap=True)
        page().print("To verify calls with it, see docs/webhooks.md")


def _list(api: Api, path: str, slug: str, *, as_json: bool) -> None:
    listed = api.send("GET", path).json()["destinations"]
    if as_json:
        print_json(listed)
        return
    if not listed:
        page().print(
            f"Tenant '{slug}' has no destinations. To add one: counterfoil tenants destinations {slug} "
            "--add-webhook office https://example.com/hook"
        )
        return
    table = Table("name", "kind", "address", "events", box=None)
    for destination in listed:
        table.add_row(
            destination["name"], destination["kind"], destination["address"], ", ".join(destination["events"])
        )
    page().print(table)
