"""`counterfoil documents`: list, show, delete and replace documents.

Without a subcommand, it shows the state of every upload.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.client import Api, By, Reason, connect
from cli.commands import uploads
from cli.failures import UsageError
from cli.options import AnyTenant, AsJson, Limit, Since, Until
from cli.output import facts_table, format_time, is_list_requested, print_json, stderr, stdout, tenant_table, type_label

PATH = "/api/admin/documents"
SUMMARY = "Show uploads; list, show, delete and replace documents."
DocumentType = Literal[
    "contract",
    "purchase_order",
    "order_confirmation",
    "delivery_note",
    "goods_receipt",
    "invoice",
    "credit_note",
    "other",
]
"""Document types, in the order in which they usually arise in a purchase."""
STAGES = ("source", "ingestion", "matching", "output")
STAGE_STATES = ("none", "pending", "in-progress", "succeeded", "skipped", "failed")
MAX_LINES_SHOWN = 20

app = typer.Typer(
    help=f"""{SUMMARY}

    Upload states: waiting; working; succeeded (extracted and matched); ignored (has no data to match); duplicate
    (of an earlier file); removed (deleted or replaced); failed (has a dead letter, see the note).
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

DocumentId = Annotated[str, typer.Argument(metavar="ID", help="Document id, or its last characters.")]


@app.callback()
def documents(
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    state: Annotated[uploads.State | None, typer.Option(help="Only in this state.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of every upload, in order of arrival."""
    if not is_list_requested(context, "documents"):
        return
    api = connect(context)
    listed = [
        upload
        for slug in api.tenants(tenant, unassigned=True)
        for upload in api.items(uploads.PATH, "uploads", tenant=slug)
        if state in {None, upload["state"]}
    ]
    if as_json:
        print_json(listed)
    else:
        uploads.show_uploads(listed, with_ids=True)


@app.command("list")
def list_(  # noqa: PLR0913  # one argument per option
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    kind: Annotated[DocumentType | None, typer.Option("--type", help="Only this type.", show_default=False)] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STAGE:STATE",
            help=f"Only in this state, such as matching:failed. Stages: {', '.join(STAGES)}; states: "
            f"{', '.join(STAGE_STATES)}.",
            show_default=False,
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    search: Annotated[
        str | None,
        typer.Option(help="Document number, words from a party's name or file name, or an id.", show_default=False),
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List documents, and files that failed before becoming documents, newest first."""
    api = connect(context)
    filters = {"type": kind, "state": state, "received_from": since, "received_before": until, "search": search}
    merged = api.latest(PATH, "documents", "received_at", api.tenants(tenant), limit=limit + 1, **filters)
    listed = merged[:limit]
    if as_json:
        print_json(listed)
        return
    _show_list(listed)
    if len(merged) > limit:
        stderr().print("There are more documents. Add filter options, or raise --limit.")


def _show_list(listed: Sequence[dict[str, Any]]) -> None:
    if not listed:
        stdout().print("No documents found.")
        return
    table, add = tenant_table(
        [document["tenant"] for document in listed],
        Column("id", no_wrap=True),
        Column("document", overflow="fold"),
        Column("supplier", overflow="fold"),
        Column("total", justify="right", no_wrap=True),
        Column("status", no_wrap=True),
        Column("missing", overflow="fold"),
    )
    for document in listed:
        states = {stage["stage"]: stage["state"] for stage in document["stages"]}
        status = document["cluster_status"] if states["matching"] in {"succeeded", "skipped"} else None
        status = (status or states["matching"]).replace("-", " ")
        cells = (
            ids.short_id(document["id"]),
            name_of(document),
            document["seller"] or "",
            total_of(document),
            status,
        )
        add(document["tenant"], *map(Text, (*cells, ", ".join(document["missing"]))))
    stdout().print(table)


def name_of(document: dict[str, Any]) -> str:
    """Return a document's display name: its type and number, or its file and failure."""
    if document["dead_letter"] is not None:
        return f"{document['file_name']} (failed: {document['stages'][0]['reason']})"
    return f"{type_label(document['type'] or 'other')} {document['number'] or ''}".strip()


def total_of(document: dict[str, Any]) -> str:
    """Return a document's total with its currency, or an empty string."""
    total = document["total"]
    return f"{total['amount']} {total['currency'] or ''}".strip() if total else ""


@app.command("show")
def show(context: typer.Context, document: DocumentId, *, as_json: AsJson = False) -> None:
    """Show a document with its fields, processing progress and matches."""
    api = connect(context)
    details = _read(api, document)
    if as_json:
        print_json(details)
        return
    stdout().print(Text(name_of(details), "bold").append(f"  {details['tenant']}  {details['id']}", "dim"))
    stdout().print(facts_table(_facts(details)))
    _show_progress(details)
    _show_fields(details)
    _show_matches(details)


def _read(api: Api, document: str) -> dict[str, Any]:
    details: dict[str, Any] = api.send(
        "GET", f"{PATH}/{api.find_by_id_suffix('document', document, 'documents')}"
    ).json()
    return details


def _facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    source = document["source"]
    sender = ", ".join(filter(None, (source["sender"], source["subject"])))
    facts = [
        ("file", f"{document['file_name']}, {document['size']:,} bytes"),
        (
            "received",
            f"{format_time(document['received_at'])} UTC by {source['kind']}{f' from {sender}' if sender else ''}",
        ),
    ]
    if source["kind"] == "mail":
        results = {"SPF": source["spf"], "DKIM": source["dkim"], "DMARC": source["dmarc"]}
        known_results = [f"{name} {result}" for name, result in results.items() if result]
        facts.append(("sender check", ", ".join(known_results) or "none"))
    if document["duplicate_uploads"]:
        facts.append(
            ("duplicates", f"{document['duplicate_uploads']}, latest {format_time(document['last_duplicate_at'])} UTC")
        )
    if document["method"]:
        facts.append(("extracted by", document["method"]))
    if document["parent_id"] is not None:
        facts.append(
            ("split from", f"{document['parent_id']}, pages {document['first_page']} to {document['last_page']}")
        )
    facts += [
        ("part", f"{part['id']}, pages {part['first_page']} to {part['last_page']}") for part in document["parts"]
    ]
    if document["cluster_id"] is not None:
        facts.append(("cluster", document["cluster_id"]))
    if document["cluster_status"] is not None:
        facts.append(("status", document["cluster_status"].replace("-", " ")))
    if document["missing"]:
        facts.append(("missing", ", ".join(document["missing"])))
    if document["review"] is not None:
        facts.append(("review", document["review"]))
    return facts + [
        ("dead letter", f"{dead_letter['job_id']} of {dead_letter['worker']}, {dead_letter['status']}")
        for dead_letter in document["dead_letters"]
    ]


def _show_progress(document: dict[str, Any]) -> None:
    table = Table("stage", "state", Column("attempts", justify="right"), Column("reason", overflow="fold"), box=None)
    for stage in document["progress"]:
        next_attempt = (
            f"next attempt at {format_time(stage['next_attempt_at'])} UTC" if stage["next_attempt_at"] else None
        )
        reason = ", ".join(filter(None, (stage["reason"], next_attempt)))
        table.add_row(*map(Text, (stage["stage"], stage["state"], str(stage["attempts"]), reason)))
    stdout().print(table)


def _show_fields(document: dict[str, Any]) -> None:
    lines = [field for line in document["lines"][:MAX_LINES_SHOWN] for field in line]
    if not document["fields"] and not lines:
        return
    table = Table(
        "field", Column("value", overflow="fold"), "found by", Column("confidence", justify="right"), "page", box=None
    )
    for field in (*document["fields"], *lines):
        confidence = "" if field["confidence"] is None else f"{field['confidence']:.0%}"
        value = field["unit_name"] or str(field["value"])
        cells = (field["path"], value, field["source"] or "", confidence, str(field["page"] or ""))
        table.add_row(*map(Text, cells))
    stdout().print(table)
    if document["lines_total"] > MAX_LINES_SHOWN:
        stderr().print(
            f"The document has {document['lines_total']} line items. To see {len(document['lines'])} of them, use "
            "--json."
        )


def _show_matches(document: dict[str, Any]) -> None:
    if not document["matches"]:
        stdout().print("The document has no matches.")
        return
    table = Table("id", "matched document", Column("bits", justify="right"), "confidence", "decided by", box=None)
    for edge in document["matches"]:
        other = edge["document"]
        cells = (ids.short_id(other["id"]), name_of(other), f"{edge['score']:.1f}", edge["confidence"])
        table.add_row(*map(Text, (*cells, edge["decided_by"])))
    stdout().print(table)
    if document["matches_total"] > len(document["matches"]):
        stderr().print(f"The document has {document['matches_total']} matches. Only the strongest are shown.")


@app.command("timeline")
def timeline(context: typer.Context, document: DocumentId, *, as_json: AsJson = False) -> None:
    """Show a document's stored events.

    A successful attempt is stored only if it follows a failure.
    """
    api = connect(context)
    events = api.send("GET", f"{PATH}/{api.find_by_id_suffix('document', document, 'documents')}/timeline").json()[
        "events"
    ]
    if as_json:
        print_json(events)
        return
    table = Table("time", "event", "user", Column("note", overflow="fold"), box=None)
    for event in events:
        note = event["error"] or ", ".join(f"{name} {value}" for name, value in event["detail"].items())
        cells = (Text(f"{event['kind']} {event['outcome']}"), Text(api.name_of(event["actor"])), Text(note))
        table.add_row(format_time(event["at"], seconds=True), *cells)
    stdout().print(table)


@app.command("delete")
def delete(
    context: typer.Context, document: DocumentId, *, reason: Reason = None, by: By, as_json: AsJson = False
) -> None:
    """Delete a document, its matches, and the parts split from it.

    Parts that another file also contains are not deleted. Linked documents are matched again within two minutes. Every
    version of the file is erased within a minute, unless another document needs the file. This cannot be undone.
    """
    api = connect(context, by)
    path = f"{PATH}/{api.find_by_id_suffix('document', document, 'documents')}"
    plan = api.send("DELETE", path).json()
    confirmation = {"confirm": plan["confirm"], "reason": reason}
    erased = api.send("DELETE", path, query=confirmation, expected_version=plan["documents"]).json()
    if as_json:
        print_json(erased)
        return
    id_, *parts = erased["documents"]
    split = f" with {len(parts)} part{'' if len(parts) == 1 else 's'} split from it" if parts else ""
    stdout().print(f"Document {ids.short_id(id_)} of tenant '{erased['tenant']}' was deleted{split}.")
    if erased["rematched"]:
        stdout().print(f"Documents to match again: {erased['rematched']}.")
    if erased["retained_documents"]:
        stdout().print(f"Parts kept because another file contains them: {len(erased['retained_documents'])}.")
    if erased["retained_files"]:
        stdout().print(f"Files kept because other documents need them: {erased['retained_files']}.")


@app.command("replace")
def replace(
    context: typer.Context,
    document: DocumentId,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The new file.")],
    *,
    reason: Reason = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Upload a file that replaces a document.

    The file becomes a document of the same tenant. The old document is removed when the new one has been extracted. If
    the extraction fails, the old document stays.
    """
    if not path.is_file():
        raise UsageError(f"File not found: {path}.")
    api = connect(context, by)
    old = _read(api, document)
    key = uploads.upload(api, path, tenant=old["tenant"], replaces=old["id"], reason=reason)
    if as_json:
        print_json({"tenant": old["tenant"], "replaced": old["id"], "file": str(path), "key": key})
    else:
        stdout().print(f"Uploaded {path.name}. The file replaces {ids.short_id(old['id'])} once it is extracted.")
        stdout().print(f"To see the upload's state: counterfoil documents --tenant {old['tenant']}")
