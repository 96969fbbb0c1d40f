"""`counterfoil documents list`, `show` and `timeline`: documents as the API tells of them."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids, outcomes
from cli.dlq_options import moment
from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.output import aside, label, page, print_json
from cli.tenants import Tenant, chosen
from counterfoil.documents import document_detail, document_list
from counterfoil.documents.document_list import STAGES, STATES, Place, Summary, Wanted
from counterfoil.documents.structured import DocumentType
from functions.admin_api.api import documents
from functions.admin_api.api.documents import Document, DocumentField, DocumentSummary
from functions.admin_api.auth import Owned

AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
Named = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the end of it as the table shows it.")]
LINES_SHOWN = 20


def list_(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by its slug.", show_default=False)] = None,
    kind: Annotated[DocumentType | None, typer.Option("--type", help="Only of this type.", show_default=False)] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STAGE:STATE",
            help=f"Only those at this, such as matching:failed. Stages: {', '.join(STAGES)}; states: "
            f"{', '.join(STATES)}.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--from",
            parser=moment,
            metavar="TIME",
            help="Received then or later: 2026-01-31, or 2026-01-31T09:00 (UTC).",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--to", parser=moment, metavar="TIME", help="Received before.", show_default=False),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help="A number, words of the parties' or the file's name, or an id.", show_default=False),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The next page: those of its tenant behind this document.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List documents, and files that failed before they became a document, newest first."""
    wanted = _wanted(kind, state, since, until)
    cloud = Cloud.at(place_of(context.obj))
    tenants, place = _behind(cloud, tenant, after)
    merged: list[DocumentSummary] = []
    is_more = False
    for one in tenants:
        shown, goes_on = _page(cloud, one, wanted, text, limit, place)
        merged += [documents.summary(document, one.slug) for document in shown]
        is_more |= goes_on
    merged.sort(key=lambda document: document.received_at, reverse=True)
    found = merged[:limit]
    if as_json:
        print_json([document.model_dump(mode="json") for document in found])
        return
    _show_list(found)
    if (is_more or len(merged) > limit) and len(tenants) > 1:
        aside().print("There are more: choose a tenant with --tenant, or raise --limit.")
    elif is_more:
        command = f"counterfoil documents list --after {found[-1].id}"
        aside().print(f"There are more, with the same options: {command}", soft_wrap=True)


def _wanted(kind: DocumentType | None, state: str | None, since: datetime | None, until: datetime | None) -> Wanted:
    """Which documents.

    Raises:
        UsageError: a stage or its state is none.
    """
    named = None if kind is None else kind.value
    if state is None:
        return Wanted(type=named, since=since, until=until)
    for stage in STAGES:
        for its in STATES:
            if state == f"{stage}:{its}":
                return Wanted(named, stage, its, since, until)
    raise UsageError(f"'{state}' is no stage and its state, such as matching:failed: see --help.")


def _behind(cloud: Cloud, tenant: str | None, after: str | None) -> tuple[Sequence[Tenant], Place | None]:
    """Whose documents, and behind which place.

    Raises:
        UsageError: there is no such tenant or document, or the document is another tenant's.
    """
    if after is None:
        return chosen(cloud, tenant), None
    with cloud.database.delivery() as connection:
        found = connection.execute(_PLACES, {"end": after.strip().lower()}).fetchall()
    if len(found) != 1:
        what = "No document or failed file has" if not found else "Several documents or failed files have"
        raise UsageError(f"{what} an id that ends with '{after}'. Take one from 'counterfoil documents list'.")
    ((id_, received_at, tenant_id, slug),) = found
    if tenant not in {None, slug}:
        raise UsageError(f"'{after}' belongs to tenant '{slug}'. Use --tenant {slug}.")
    return [Tenant(tenant_id, slug)], Place(received_at, id_)


_PLACES = """
SELECT one.id, one.received_at, t.id, t.slug FROM (
    SELECT id, received_at, tenant_id FROM document
    UNION ALL SELECT id, created_at, tenant_id FROM acquisition_job WHERE status = 'failed'
) AS one JOIN tenant t ON t.id = one.tenant_id
WHERE right(one.id::text, length(%(end)s)) = %(end)s AND %(end)s <> '' LIMIT 2
"""


def _page(
    cloud: Cloud, whose: Tenant, wanted: Wanted, text: str | None, limit: int, after: Place | None
) -> tuple[list[Summary], bool]:
    """At most so many documents, and whether there are more. A page of `browsing` may be short, and another follow."""
    found: list[Summary] = []
    while True:
        with cloud.database.tenant(whose.id) as connection:
            some = document_list.page(
                connection, whose.id, wanted, text=text, limit=limit + 1 - len(found), after=after
            )
        found += some.documents
        after = some.next
        if after is None or len(found) > limit:
            return found[:limit], len(found) > limit


def _show_list(found: Sequence[DocumentSummary]) -> None:
    if not found:
        page().print("There are no such documents.")
        return
    table = Table(
        "id", "tenant", "document", "seller", Column("total", justify="right"), "status", "not read", box=None
    )
    for document in found:
        states = {stage.stage: stage.state for stage in document.stages}
        status = document.cluster_status if states["matching"] in {"succeeded", "skipped"} else None
        cells = (ids.short(document.id), document.tenant, _name(document), document.seller or "", _total(document))
        table.add_row(
            *map(Text, (*cells, (status or states["matching"]).replace("-", " "), ", ".join(document.missing)))
        )
    page().print(table)


def _name(document: DocumentSummary) -> str:
    if document.dead_letter is not None:
        return f"{document.file_name} (failed: {document.stages[0].reason})"
    return f"{label(document.type or 'other')} {document.number or ''}".strip()


def _total(document: DocumentSummary) -> str:
    total = document.total
    return f"{total.amount} {total.currency or ''}".strip() if total else ""


def show(context: typer.Context, document: Named, *, as_json: AsJson = False) -> None:
    """Show a document: what it says and how that was found, how far its work is, and what it belongs with."""
    cloud = Cloud.at(place_of(context.obj))
    owner, id_ = outcomes.document_named(cloud, document)
    found = documents.load(cloud.database, Owned(owner.id, owner.slug, id_))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    page().print(Text(_name(found), "bold").append(f"  {found.tenant}  {found.id}", "dim"))
    facts = Table(
        Column(no_wrap=True, style="dim"), Column(overflow="fold"), box=None, pad_edge=False, show_header=False
    )
    for name, value in _facts(found):
        facts.add_row(name, Text(value))
    page().print(facts)
    _show_progress(found)
    _show_fields(found)
    _show_edges(found)


def _facts(found: Document) -> list[tuple[str, str]]:
    source = found.source
    sender = ", ".join(filter(None, (source.sender, source.subject)))
    facts = [
        ("file", f"{found.file_name}, {found.size:,} bytes"),
        (
            "received",
            f"{found.received_at:%Y-%m-%d %H:%M:%S} UTC by {source.kind}{f' from {sender}' if sender else ''}",
        ),
    ]
    if source.kind == "mail":
        results = {"SPF": source.spf, "DKIM": source.dkim, "DMARC": source.dmarc}
        stated = [f"{name} {result}" for name, result in results.items() if result]
        facts.append(("sender check", ", ".join(stated) or "no verdict"))
    if found.seen_again:
        facts.append(("came again", f"{found.seen_again} times, last {found.last_seen_at:%Y-%m-%d %H:%M:%S} UTC"))
    if found.method:
        facts.append(("read by", found.method))
    if found.parent_id is not None:
        facts.append(("cut from", f"{found.parent_id}, pages {found.first_page} to {found.last_page}"))
    facts += [("part", f"{part.id}, pages {part.first_page} to {part.last_page}") for part in found.parts]
    if found.cluster_id is not None:
        facts.append(("cluster", str(found.cluster_id)))
    if found.cluster_status is not None:
        facts.append(("status", found.cluster_status.replace("-", " ")))
    if found.missing:
        facts.append(("not read", ", ".join(found.missing)))
    if found.review is not None:
        facts.append(("review", found.review))
    facts += [("dead letter", f"{letter.job_id} of {letter.worker}, {letter.status}") for letter in found.dead_letters]
    return facts


def _show_progress(found: Document) -> None:
    table = Table("stage", "state", Column("tries", justify="right"), Column("why", overflow="fold"), box=None)
    for stage in found.progress:
        again = f"again at {stage.next_attempt_at:%Y-%m-%d %H:%M:%S} UTC" if stage.next_attempt_at else None
        why = ", ".join(filter(None, (stage.reason, again)))
        table.add_row(*map(Text, (stage.stage, stage.state, str(stage.attempts), why)))
    page().print(table)


def _show_fields(found: Document) -> None:
    if not found.fields and not found.lines:
        return
    table = Table(
        "field", Column("value", overflow="fold"), "found by", Column("sure", justify="right"), "page", box=None
    )
    lines = [field for line in found.lines[:LINES_SHOWN] for field in line]
    for field in (*found.fields, *lines):
        table.add_row(*map(Text, _cells(field)))
    page().print(table)
    if found.lines_total > LINES_SHOWN:
        aside().print(f"It has {found.lines_total} lines: --json shows {len(found.lines)} of them.")


def _cells(field: DocumentField) -> tuple[str, ...]:
    sure = "" if field.confidence is None else f"{field.confidence:.0%}"
    return field.path, str(field.value), field.source or "", sure, str(field.page or "")


def _show_edges(found: Document) -> None:
    if not found.edges:
        page().print("It belongs together with no other document.")
        return
    table = Table("id", "belongs with", Column("bits", justify="right"), "confidence", "decided by", box=None)
    for edge in found.edges:
        other = edge.document
        cells = (ids.short(other.id), _name(other), f"{edge.score:.1f}", edge.confidence, edge.decided_by)
        table.add_row(*map(Text, cells))
    page().print(table)
    if found.edges_total > len(found.edges):
        aside().print(f"It has {found.edges_total} links, of which these are the strongest.")


def show_timeline(context: typer.Context, document: Named, *, as_json: AsJson = False) -> None:
    """Show what is known to have happened to a document. Of tries that succeeded no time is kept."""
    cloud = Cloud.at(place_of(context.obj))
    tenant, id_ = outcomes.document_named(cloud, document)
    with cloud.database.tenant(tenant.id) as connection:
        events = document_detail.history(connection, tenant.id, id_)
    if as_json:
        print_json([asdict(event) for event in events])
        return
    table = Table("when", "what", "who", Column("note", overflow="fold"), box=None)
    for event in events:
        note = event.error or ", ".join(f"{name} {value}" for name, value in event.detail.items())
        table.add_row(f"{event.at:%Y-%m-%d %H:%M:%S}", Text(f"{event.kind} {event.what}"), Text(event.who), Text(note))
    page().print(table)
