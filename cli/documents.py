"""`counterfoil documents`: what became of every uploaded file; deleting and replacing documents."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from cli import ids, outcomes
from cli.client import By, Reason
from cli.document_views import list_, show, show_timeline
from cli.failures import UsageError
from cli.ingest import upload
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.outcomes import State, show_outcomes
from cli.output import is_wanted, page, print_json
from cli.tenants import Tenant, chosen
from counterfoil.documents import erasure, removal
from counterfoil.documents.erasure import Erasure
from counterfoil.documents.files import File

SUMMARY = "Show what became of every uploaded file; delete or replace a document."

app = typer.Typer(
    help=f"""{SUMMARY}

    waiting and working are under way; succeeded was read and matched; kept holds nothing to match; seen-again is a copy
    of a file that the tenant has; removed was deleted or replaced; failed went wrong for good, and the note says why.
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")]


@app.callback()
def documents(
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by its slug.", show_default=False)] = None,
    state: Annotated[State | None, typer.Option(help="Only those in this state.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """Show what became of every uploaded file."""
    if not is_wanted(context, "documents"):
        return
    cloud = Cloud.at(place_of(context.obj))
    found = [outcome for one in chosen(cloud, tenant) for outcome in outcomes.of_tenant(cloud, one)]
    if tenant is None:
        found += outcomes.of_nobody(cloud)
    if state is not None:
        found = [outcome for outcome in found if outcome.state is state]
    if as_json:
        print_json([outcome.record for outcome in found])
    else:
        show_outcomes(found, with_ids=True)


def delete_document(
    cloud: Cloud, tenant: Tenant, document_id: UUID, *, by: str, reason: str | None = None
) -> Erasure | None:
    """Erase a document with its files. None if it does not exist."""
    with cloud.database.tenant(tenant.id) as connection:
        return erasure.erase(connection, tenant.id, document_id, cloud.database.now(), by=by, reason=reason)


@app.command("delete")
def delete(
    context: typer.Context,
    document: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the end of it as the table shows it.")],
    *,
    reason: Reason = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Delete a document, with its links and the parts that were cut from it, but those that another file holds too.

    Documents linked to it are matched again within two minutes. Every version of its file is erased within a minute,
    unless another document needs the file. It cannot be undone.
    """
    cloud = Cloud.at(place_of(context.obj))
    tenant, id_ = outcomes.document_named(cloud, document, removed=True)
    removed = delete_document(cloud, tenant, id_, by=by, reason=reason)
    if removed is None:
        raise UsageError(f"There is no document '{document}' any more.")
    if as_json:
        print_json(
            {
                "tenant": tenant.slug,
                "deleted": removed.removal.documents,
                "kept": removed.removal.kept,
                "matched_anew": removed.removal.rematched,
                "files": removed.files,
                "retained_files": removed.retained_files,
            }
        )
        return
    parts, others = len(removed.removal.documents) - 1, _anew(removed.removal.rematched)
    cut = f", with the {parts} parts cut from it," if parts else ""
    page().print(f"Document {ids.short(id_)} of tenant '{tenant.slug}'{cut} is deleted; {others}.")
    if removed.removal.kept:
        page().print(f"Parts of it that another file holds too stay, as that file's: {len(removed.removal.kept)}.")
    if removed.retained_files:
        page().print(f"Files that stay because other documents need them: {removed.retained_files}.")


def _anew(others: int) -> str:
    return f"{others} other{'s are' if others > 1 else ' is'} matched anew" if others else "no other was touched"


def replace_document(
    cloud: Cloud, tenant: Tenant, document_id: UUID, path: Path, *, by: str, reason: str | None = None
) -> str:
    """Upload a file in the place of a document, which goes when the file has been read. Returns the file's key.

    Raises:
        UsageError: the document is gone, or the file cannot be read.
    """

    def intend(bucket: str, key: str) -> None:
        with cloud.database.tenant(tenant.id) as connection:
            file, now = File(bucket, key, None), cloud.database.now()
            if not removal.intend(connection, tenant.id, document_id, file, now, by=by, reason=reason):
                raise UsageError(f"There is no document '{document_id}' any more.")

    before: Callable[[str, str], None] = intend
    (uploaded,) = upload(cloud, tenant, [path], before=before)
    return uploaded.key


@app.command("replace")
def replace(
    context: typer.Context,
    document: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the end of it as the table shows it.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="What takes its place.")],
    *,
    reason: Reason = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Upload a file that takes the place of a document.

    The file becomes a document of its own, and the other one is deleted in the moment in which it has been read. While
    it cannot be read, the other one stays.
    """
    cloud = Cloud.at(place_of(context.obj))
    if not path.is_file():
        raise UsageError(f"There is no file {path}.")
    tenant, id_ = outcomes.document_named(cloud, document)
    key = replace_document(cloud, tenant, id_, path, by=by, reason=reason)
    if as_json:
        done: dict[str, Any] = {"tenant": tenant.slug, "replaced": id_, "file": str(path), "key": key}
        print_json(done)
    else:
        page().print(f"{path.name} is uploaded. It takes the place of {ids.short(id_)} of tenant '{tenant.slug}'")
        page().print("once it has been read; until then both are there.")
        page().print(f"What becomes of it: counterfoil documents --tenant {tenant.slug}")


app.command("list")(list_)
app.command("show")(show)
app.command("timeline")(show_timeline)
