"""`counterfoil tenants destinations`: webhooks and exports for tenants' results."""

from typing import Annotated, Any

import typer
from rich.table import Table

from cli.client import By, connect
from cli.options import AsJson
from cli.output import print_json, stdout

app = typer.Typer(
    help="Add, list and remove destinations for a tenant's results: signed webhooks and exports to S3.",
    no_args_is_help=True,
    add_completion=False,
)

Slug = Annotated[str, typer.Argument(metavar="TENANT", help="Tenant slug.")]
NewName = Annotated[str, typer.Argument(help="Name of the destination.")]
Name = Annotated[str, typer.Argument(help="Name of the destination, as listed.")]
Events = Annotated[
    list[str] | None,
    typer.Option("--event", help="cluster, document or offers. Can be repeated. Default: cluster and document."),
]


@app.command("list")
def list_(context: typer.Context, slug: Slug, *, as_json: AsJson = False) -> None:
    """List a tenant's destinations."""
    listed = connect(context).send("GET", _path(slug)).json()["destinations"]
    if as_json:
        print_json(listed)
        return
    if not listed:
        stdout().print(
            f"Tenant '{slug}' has no destinations. To add one: counterfoil tenants destinations add-webhook {slug} "
            "office https://example.com/hook"
        )
        return
    table = Table("name", "kind", "address", "events", box=None)
    for destination in listed:
        table.add_row(
            destination["name"], destination["kind"], destination["address"], ", ".join(destination["events"])
        )
    stdout().print(table)


@app.command("add-webhook")
def add_webhook(
    context: typer.Context,
    slug: Slug,
    name: NewName,
    url: Annotated[str, typer.Argument(help="Post results to this URL.")],
    *,
    events: Events = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Add a webhook. Its secret is shown only once."""
    _add(context, by, slug, {"name": name, "kind": "webhook", "address": url}, events, as_json=as_json)


@app.command("add-s3")
def add_s3(
    context: typer.Context,
    slug: Slug,
    name: NewName,
    prefix: Annotated[str, typer.Argument(help="Write results under exports/TENANT/PREFIX in the bucket.")],
    *,
    events: Events = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Add an export to S3."""
    _add(context, by, slug, {"name": name, "kind": "s3", "address": prefix}, events, as_json=as_json)


@app.command("remove")
def remove(context: typer.Context, slug: Slug, name: Name, *, by: By) -> None:
    """Remove a destination."""
    connect(context, by).send("DELETE", f"{_path(slug)}/{name}")
    stdout().print(f"Destination '{name}' was removed.")


@app.command("rotate-secret")
def rotate_secret(context: typer.Context, slug: Slug, name: Name, *, by: By, as_json: AsJson = False) -> None:
    """Rotate a webhook's secret.

    For 24 hours, calls are signed with the old and the new secret.
    """
    destination = connect(context, by).send("POST", f"{_path(slug)}/{name}/rotate").json()
    sentence = f"'{name}' has a new secret. For 24 hours, calls are signed with the old and the new secret."
    _show_secret(destination, sentence, as_json=as_json)


def _path(slug: str) -> str:
    return f"/api/admin/tenants/{slug}/destinations"


def _add(
    context: typer.Context, by: str, slug: str, body: dict[str, Any], events: list[str] | None, *, as_json: bool
) -> None:
    body |= {"events": events} if events else {}
    added = connect(context, by).send("POST", _path(slug), body=body).json()
    _show_secret(added, f"Destination '{body['name']}' was added.", as_json=as_json)


def _show_secret(destination: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(destination)
        return
    stdout().print(sentence)
    if destination["secret"] is not None:
        stdout().print("Signing secret (shown only once):")
        stdout().print(destination["secret"], soft_wrap=True)
        stdout().print("To verify calls with the secret, see docs/webhooks.md")
