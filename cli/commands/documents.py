"""`counterfoil documents`: show uploads; list, show, delete and replace documents."""

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
from cli.output import aside, facts_table, is_wanted, label, page, print_json, shown_time

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
"""Document types in the usual order of business."""
STAGES = ("source", "ingestion", "matching", "output")
STAGE_STATES = ("none", "pending", "in-progress", "succeeded", "skipped", "failed")
LINES_SHOWN = 20

app = typer.Typer(
    help=f"""{SUMMARY}

    States of uploads: waiting; working; succeeded (extracted and matched); ignored (has no data to match); duplicate
    (of an earlier file); removed (deleted or replaced); failed (has a dead letter, see the note).
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

Named = Annotated[str, typer.Argument(metavar="ID", help="Id of a document, or the end of it.")]


@app.callback()
def documents(
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    state: Annotated[uploads.State | None, typer.Option(help="Only in this state.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of every upload, in the order of arrival."""
    if not is_wanted(context, "documents"):
        return
    api = connect(context)
    found = [
        one
        for slug in api.tenants(tenant, unassigned=True)
        for one in api.items(uploads.PATH, "uploads", tenant=slug)
        if state in {None, one["state"]}
    ]
    if as_json:
        print_json(found)
    else:
        uploads.show_uploads(found, with_ids=True)


@app.command("list")
def list_(  # noqa: PLR0913  # one for each option
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
    text: Annotated[
        str | None, typer.Option(help="Number, words of a party or file name, or an id.", show_default=False)
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List documents, and files that failed before they became a document, newest first."""
    api = connect(context)
    asked = {"type": kind, "state": state, "from": since, "to": until, "text": text}
    merged = api.latest(PATH, "documents", "received_at", api.tenants(tenant), limit=limit + 1, **asked)
    found = merged[:limit]
    if as_json:
        print_json(found)
        return
    _show_list(found)
    if len(merged) > limit:
        aside().print("There are more. Add filter options, or raise --limit.")


def _show_list(found: Sequence[dict[str, Any]]) -> None:
    if not found:
        page().print("No documents found.")
        return
    total = Column("total", justify="right")
    table = Table("id", "tenant", "document", "supplier", total, "status", "not read", box=None)
    for one in found:
        states = {stage["stage"]: stage["state"] for stage in one["stages"]}
        status = one["cluster_status"] if states["matching"] in {"succeeded", "skipped"} else None
        status = (status or states["matching"]).replace("-", " ")
        cells = (ids.short_id(one["id"]), one["tenant"], name_of(one), one["seller"] or "", total_of(one), status)
        table.add_row(*map(Text, (*cells, ", ".join(one["missing"]))))
    page().print(table)


def name_of(document: dict[str, Any]) -> str:
    """Return the display name of a document: its type and number, or its file and failure."""
    if document["dead_letter"] is not None:
        return f"{document['file_name']} (failed: {document['stages'][0]['reason']})"
    return f"{label(document['type'] or 'other')} {document['number'] or ''}".strip()


def total_of(document: dict[str, Any]) -> str:
    """Return the total of a document with its currency, or an empty string."""
    total = document["total"]
    return f"{total['amount']} {total['currency'] or ''}".strip() if total else ""


@app.command("show")
def show(context: typer.Context, document: Named, *, as_json: AsJson = False) -> None:
    """Show a document with its fields, processing progress and matches."""
    api = connect(context)
    found = _read(api, document)
    if as_json:
        print_json(found)
        return
    page().print(Text(name_of(found), "bold").append(f"  {found['tenant']}  {found['id']}", "dim"))
    page().print(facts_table(_facts(found)))
    _show_progress(found)
    _show_fields(found)
    _show_edges(found)


def _read(api: Api, document: str) -> dict[str, Any]:
    found: dict[str, Any] = api.send("GET", f"{PATH}/{api.find_by_id_suffix('document', document, 'documents')}").json()
    return found


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    source = found["source"]
    sender = ", ".join(filter(None, (source["sender"], source["subject"])))
    facts = [
        ("file", f"{found['file_name']}, {found['size']:,} bytes"),
        (
            "received",
            f"{shown_time(found['received_at'])} UTC by {source['kind']}{f' from {sender}' if sender else ''}",
        ),
    ]
    if source["kind"] == "mail":
        results = {"SPF": source["spf"], "DKIM": source["dkim"], "DMARC": source["dmarc"]}
        stated = [f"{name} {result}" for name, result in results.items() if result]
        facts.append(("sender check", ", ".join(stated) or "none"))
    if found["duplicate_uploads"]:
        facts.append(("duplicates", f"{found['duplicate_uploads']}, last {shown_time(found['last_duplicate_at'])} UTC"))
    if found["method"]:
        facts.append(("extracted by", found["method"]))
    if found["parent_id"] is not None:
        facts.append(("split from", f"{found['parent_id']}, pages {found['first_page']} to {found['last_page']}"))
    facts += [("part", f"{part['id']}, pages {part['first_page']} to {part['last_page']}") for part in found["parts"]]
    if found["cluster_id"] is not None:
        facts.append(("cluster", found["cluster_id"]))
    if found["cluster_status"] is not None:
        facts.append(("status", found["cluster_status"].replace("-", " ")))
    if found["missing"]:
        facts.append(("not read", ", ".join(found["missing"])))
    if found["review"] is not None:
        facts.append(("review", found["review"]))
    return facts + [
        ("dead letter", f"{dead_letter['job_id']} of {dead_letter['worker']}, {dead_letter['status']}")
        for dead_letter in found["dead_letters"]
    ]


def _show_progress(found: dict[str, Any]) -> None:
    table = Table("stage", "state", Column("attempts", justify="right"), Column("reason", overflow="fold"), box=None)
    for stage in found["progress"]:
        again = f"next attempt at {shown_time(stage['next_attempt_at'])} UTC" if stage["next_attempt_at"] else None
        reason = ", ".join(filter(None, (stage["reason"], again)))
        table.add_row(*map(Text, (stage["stage"], stage["state"], str(stage["attempts"]), reason)))
    page().print(table)


def _show_fields(found: dict[str, Any]) -> None:
    lines = [field for line in found["lines"][:LINES_SHOWN] for field in line]
    if not found["fields"] and not lines:
        return
    table = Table(
        "field", Column("value", overflow="fold"), "found by", Column("confidence", justify="right"), "page", box=None
    )
    for field in (*found["fields"], *lines):
        confidence = "" if field["confidence"] is None else f"{field['confidence']:.0%}"
        value = field["unit_name"] or str(field["value"])
        cells = (field["path"], value, field["source"] or "", confidence, str(field["page"] or ""))
        table.add_row(*map(Text, cells))
    page().print(table)
    if found["lines_total"] > LINES_SHOWN:
        aside().print(f"It has {found['lines_total']} line items. To see {len(found['lines'])} of them, use --json.")


def _show_edges(found: dict[str, Any]) -> None:
    if not found["matches"]:
        page().print("It has no matches.")
        return
    table = Table("id", "linked to", Column("bits", justify="right"), "confidence", "decided by", box=None)
    for edge in found["matches"]:
        other = edge["document"]
        cells = (ids.short_id(other["id"]), name_of(other), f"{edge['score']:.1f}", edge["confidence"])
        table.add_row(*map(Text, (*cells, edge["decided_by"])))
    page().print(table)
    if found["matches_total"] > len(found["matches"]):
        aside().print(f"It has {found['matches_total']} matches. These are the strongest.")


@app.command("timeline")
def timeline(context: typer.Context, document: Named, *, as_json: AsJson = False) -> None:
    """Show the stored events of a document. Successful attempts have no time."""
    api = connect(context)
    events = api.send("GET", f"{PATH}/{api.find_by_id_suffix('document', document, 'documents')}/timeline").json()[
        "events"
    ]
    if as_json:
        print_json(events)
        return
    table = Table("when", "what", "who", Column("note", overflow="fold"), box=None)
    for event in events:
        note = event["error"] or ", ".join(f"{name} {value}" for name, value in event["detail"].items())
        cells = (Text(f"{event['kind']} {event['outcome']}"), Text(api.name_of(event["actor"])), Text(note))
        table.add_row(shown_time(event["at"], seconds=True), *cells)
    page().print(table)


@app.command("delete")
def delete(context: typer.Context, document: Named, *, reason: Reason = None, by: By, as_json: AsJson = False) -> None:
    """Delete a document with its matches and the parts split from it.

    Parts that another file also contains stay. Documents linked to it are matched again within two minutes. Every
    version of its file is erased within a minute, unless another document needs the file. This cannot be undone.
    """
    api = connect(context, by)
    path = f"{PATH}/{api.find_by_id_suffix('document', document, 'documents')}"
    plan = api.send("DELETE", path).json()
    asked = {"confirm": plan["confirm"], "reason": reason}
    erased = api.send("DELETE", path, query=asked, seen=plan["documents"]).json()
    if as_json:
        print_json(erased)
        return
    id_, *parts = erased["documents"]
    split = f" with {len(parts)} part{'' if len(parts) == 1 else 's'} split from it" if parts else ""
    page().print(f"Document {ids.short_id(id_)} of tenant '{erased['tenant']}' was deleted{split}.")
    if erased["rematched"]:
        page().print(f"Documents to match again: {erased['rematched']}.")
    if erased["retained_documents"]:
        page().print(f"Parts kept because another file contains them: {len(erased['retained_documents'])}.")
    if erased["retained_files"]:
        page().print(f"Files kept because other documents need them: {erased['retained_files']}.")


@app.command("replace")
def replace(
    context: typer.Context,
    document: Named,
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
        page().print(f"Uploaded {path.name}. It replaces {ids.short_id(old['id'])} when it has been extracted.")
        page().print(f"To see its state: counterfoil documents --tenant {old['tenant']}")
