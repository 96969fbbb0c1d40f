"""`counterfoil clusters`: list or show clusters, accept or dispute differences."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.client import Api, By, Reason, connect
from cli.commands.documents import DocumentType, name_of, total_of
from cli.options import AnyTenant, AsJson, Limit, Override
from cli.output import is_list_requested, print_json, stderr, stdout

PATH = "/api/admin/clusters"
SUMMARY = "List clusters by status. Show one with its variances; accept or dispute them."
Status = Literal["exception", "needs-review", "disputed", "incomplete", "accepted", "matched"]
STATUSES: Mapping[str, str] = {
    "exception": "red",
    "needs-review": "yellow",
    "disputed": "yellow",
    "incomplete": "cyan",
    "accepted": "green",
    "matched": "green",
}
"""Style of each status."""
Sort = Literal["oldest", "newest", "amount"]
SORTS: dict[Sort, str] = {"oldest": "waiting_since", "newest": "waiting_since", "amount": "affected"}
"""Field of a cluster that each order sorts by."""
ORDER_OF_TYPES = get_args(DocumentType)
OUTCOMES = {"matched": "green", "within-tolerance": "green", "exception": "red", "incomplete": "yellow"}
"""Style of each three-way match status."""
QUANTITIES = ("ordered", "delivered", "received", "rejected", "billed", "credited")
MAX_SHOWN = 100
"""Maximum number of documents shown for a cluster."""

Cluster = Mapping[str, Any]
"""A cluster as returned by the API."""

app = typer.Typer(
    help=f"""{SUMMARY}

    A cluster is a purchase order with its deliveries and invoices. Its status is exception, needs-review, disputed,
    incomplete, accepted or matched. Amounts are net.
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Id of the cluster or of one of its documents, or the id's last characters.",
        show_default=False,
    ),
]


@app.callback()
def clusters(
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    status: Annotated[
        Literal["open", "all", Status],
        typer.Option(help="Only this status. open: all except accepted and matched."),
    ] = "open",
    supplier: Annotated[str | None, typer.Option(help="Beginning of the supplier's name.", show_default=False)] = None,
    number: Annotated[
        str | None, typer.Option(help="Number of a purchase order, invoice or other document.", show_default=False)
    ] = None,
    sort: Annotated[Sort, typer.Option(help="Oldest, newest or largest amount affected first.")] = "oldest",
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List clusters by status. Default: open clusters, oldest first."""
    if not is_list_requested(context, "clusters"):
        return
    api = connect(context)
    filters = {"status": None if status == "all" else status, "supplier": supplier, "number": number, "sort": sort}
    merged = [
        cluster
        for slug in api.tenants(tenant)
        for cluster in api.items(PATH, "clusters", limit=limit + 1, tenant=slug, **filters)
    ]
    key = SORTS[sort]
    merged.sort(
        key=lambda cluster: (Decimal(cluster[key]) if sort == "amount" else str(cluster[key]), cluster["id"]),
        reverse=sort != "oldest",
    )
    listed = merged[:limit]
    if as_json:
        print_json(listed)
        return
    _show_list(listed)
    if len(merged) > limit:
        stderr().print("There are more clusters. Add filter options, or raise --limit.")


def _show_list(listed: Sequence[Mapping[str, Any]]) -> None:
    if not listed:
        stdout().print("No clusters found. To list all: counterfoil clusters --status all")
        return
    screen = stdout()
    shows_tenant = len({cluster["tenant"] for cluster in listed}) > 1
    for cluster in listed:
        facts = [
            *([cluster["tenant"]] if shows_tenant else []),
            cluster["supplier"],
            ", ".join(f"purchase order {number}" for number in cluster["order_numbers"]),
            cluster["affected"] and " ".join(filter(None, (cluster["affected"], cluster["currency"], "affected"))),
            f"since {cluster['waiting_since'][:10]}",
        ]
        head = Text(f"{ids.short_id(cluster['id'])}  ").append(_status(cluster["status"]))
        screen.print(head.append("  " + ", ".join(fact for fact in facts if fact)))
        reason = cluster["reason"] + (" The comparison is being updated." if cluster["is_computing"] else "")
        screen.print(Padding(Text(reason, "dim"), (0, 0, 0, 10)))


def _status(status: str) -> Text:
    return Text(status.replace("-", " "), STATUSES[status])


@app.command("show")
def show(context: typer.Context, id_: Id, *, as_json: AsJson = False) -> None:
    """Show a cluster's documents, why they match, and how their line items compare."""
    cluster = read(connect(context), id_)
    if as_json:
        print_json(cluster)
        return
    show_cluster(stdout(), cluster)
    if cluster["comparison"] is not None and cluster["comparison"]["can_be_accepted"]:
        suffix = ids.short_id(cluster["id"])
        stdout().print(f"\nTo decide: counterfoil clusters accept {suffix}, or dispute {suffix}")


def read(api: Api, id_: str) -> Cluster:
    """Return a cluster by its own id, or by the id of a document in it.

    The last characters of an id are sufficient.

    Raises:
        UsageError: the document does not exist or has no cluster.
    """
    path = f"{PATH}/{api.find_by_id_suffix('document', id_, 'documents')}"
    cluster: Cluster = api.send("GET", path, query={"limit": MAX_SHOWN}).json()
    return cluster


def show_cluster(screen: Console, cluster: Cluster) -> None:
    """Print a cluster's status, documents, matches, line items and variances."""
    comparison = cluster["comparison"]
    title = Text(f"Cluster {ids.short_id(cluster['id'])}", "bold").append(f"  {cluster['tenant']}  ", "dim")
    if cluster["status"] is not None:
        title.append(_status(cluster["status"]))
    screen.print(title)
    for sentence in _status_sentences(cluster):
        screen.print(Padding(Text(sentence), (0, 0, 0, 2)))
    _heading(screen, "Documents")
    _show_documents(screen, cluster)
    if cluster["matches"]:
        _heading(screen, "Matches")
        _show_matches(screen, cluster)
    if comparison is None:
        return
    if comparison["lines"]:
        _heading(screen, "Line items")
        _show_lines(screen, comparison["lines"])
    if comparison["variances"]:
        _heading(screen, "Variances")
        for variance in comparison["variances"]:
            _show_variance(screen, variance)
    if comparison["warnings"]:
        _heading(screen, "Warnings")
        for warning in comparison["warnings"]:
            screen.print(Padding(Text(warning), (0, 0, 0, 2)))
    _show_omitted(screen, cluster)


def _show_omitted(screen: Console, cluster: Cluster) -> None:
    """Print how many documents, line items and variances the API omitted."""
    comparison = cluster["comparison"]
    lists = (
        ("documents", "document", cluster),
        ("lines", "line item", comparison),
        ("variances", "difference", comparison),
    )
    counts = [(source[f"{field}_total"] - len(source[field]), noun) for field, noun, source in lists]
    omitted = [f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts if count > 0]
    if omitted:
        screen.print(f"\nNot shown, because there are too many: {', '.join(omitted)}.")


def _status_sentences(cluster: Cluster) -> list[str]:
    if cluster["error"] is not None:
        return [f"The comparison failed: {cluster['error']}"]
    reasons = list(cluster["comparison"]["reasons"]) if cluster["comparison"] is not None else []
    if cluster["is_computing"]:
        return [*reasons, "The comparison is being updated." if reasons else "The comparison is in progress."]
    if cluster["computed_at"] is None:
        return ["Not compared yet."]
    return reasons or ["There are no documents to compare."]


def _heading(screen: Console, text: str) -> None:
    screen.print()
    screen.print(Text(text, "bold"))


def type_order(type_: str | None) -> int:
    """Return the display position of a document type within a cluster."""
    return ORDER_OF_TYPES.index(type_) if type_ in ORDER_OF_TYPES else len(ORDER_OF_TYPES)


def documents_of(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the documents of a cluster and their contracts, ordered by type."""
    documents: list[dict[str, Any]] = [*cluster["documents"], *cluster["contracts"]]
    return sorted(documents, key=lambda document: type_order(document["type"]))


def _show_documents(screen: Console, cluster: Cluster) -> None:
    documents = documents_of(cluster)
    has_missing = any(document["missing"] for document in documents)
    table = Table("id", "document", "date", Column("total", justify="right"), box=None)
    if has_missing:
        table.add_column("missing")
    table.add_column("file", overflow="fold")
    for document in documents:
        cells = [ids.short_id(document["id"]), _title(document), document["date"] or "", total_of(document)]
        missing = [", ".join(document["missing"])] if has_missing else []
        table.add_row(*map(Text, [*cells, *missing, document["file_name"]]))
    screen.print(table)


def _title(document: dict[str, Any]) -> str:
    return name_of({**document, "number": document["number"] or ids.short_id(document["id"])})


def _show_matches(screen: Console, cluster: Cluster) -> None:
    documents = documents_of(cluster)
    titles = {document["id"]: _title(document) for document in documents}
    positions = {document["id"]: position for position, document in enumerate(documents)}
    pairs = [
        (sorted((edge["document_a_id"], edge["document_b_id"]), key=lambda id_: -positions.get(id_, 0)), edge)
        for edge in cluster["matches"]
    ]
    for (first, second), edge in sorted(pairs, key=lambda pair: sorted(positions.get(id_, 0) for id_ in pair[0])):
        names = [titles.get(id_, ids.short_id(id_)) for id_ in (first, second)]
        line = Text(" ↔ ".join(names)).append(
            f"  {edge['confidence']} confidence, decided by {edge['decided_by']}", "cyan"
        )
        screen.print(Padding(line, (0, 0, 0, 1)))
        screen.print(Padding(Text(edge["reasoning"], "dim"), (0, 0, 0, 3)))
        if edge["judged_document_id"] is not None:
            question = f"LLM judgment: counterfoil review llm-log {ids.short_id(edge['judged_document_id'])}"
            screen.print(Padding(Text(question, "dim"), (0, 0, 0, 3)))


def _show_lines(screen: Console, lines: Sequence[Mapping[str, Any]]) -> None:
    quantities = [name for name in QUANTITIES if any(line[name] is not None for line in lines)]
    billed_at = [_billed_at(line) for line in lines]
    has_price_difference = any(price not in {"", line["price"]} for line, price in zip(lines, billed_at, strict=True))
    columns = [*quantities, *(["price", "billed price"] if has_price_difference else ["price"])]
    number_columns = (Column(name, justify="right") for name in columns)
    table = Table("line", Column("article", overflow="fold"), "unit", *number_columns, box=None)
    for line, billed_price in zip(lines, billed_at, strict=True):
        is_different = None not in {line["billed"], line["ordered"]} and line["billed"] != line["ordered"]
        cells = [Text(line[name] or "", "red" if name == "billed" and is_different else "") for name in quantities]
        cells.append(Text(_price(line["price"], line["currency"])))
        if has_price_difference:
            cells.append(Text(_price(billed_price, line["currency"]), "red" if billed_price != line["price"] else ""))
        article = " ".join(text for text in (line["article"], line["description"]) if text)
        table.add_row(line["line"], Text(article), line["unit_name"] or "", *cells)
    screen.print(table)


def _billed_at(line: Mapping[str, Any]) -> str:
    """Return the unit price on a line item's invoices.

    The result is an empty string if the price is missing or ambiguous.
    """
    prices = {part["unit_price"] for part in line["parts"] if part["role"] == "billed" and part["unit_price"]}
    return str(prices.pop()) if len(prices) == 1 else ""


def _price(price: str | None, currency: str | None) -> str:
    if not price:
        return ""
    units, _, decimals = price.partition(".")
    return f"{units}.{decimals:0<2} {currency or ''}".rstrip()


def _show_variance(screen: Console, variance: Mapping[str, Any]) -> None:
    if variance["decided_by"] is not None:
        sign, style, note = "✓", "green", f" {variance['decided_by']}"
    elif variance["within_tolerance"]:
        sign, style, note = "✓", "green", " Within tolerance."
    elif variance["awaited_deliveries"]:
        sign, style, note = "…", "yellow", f" {variance['awaited_deliveries']}"
    else:
        sign, style, note = "✗", "red", ""
    screen.print(Padding(Text(sign, style).append(f" {variance['label']}", "bold"), (0, 0, 0, 1)))
    screen.print(Padding(Text(variance["message"] + note), (0, 0, 0, 3)))


# -- decisions --------------------------------------------------------------------------------------------------------

OfDocument = Annotated[
    str | None, typer.Option("--document", metavar="ID", help="Only differences in this document.", show_default=False)
]
OfCode = Annotated[
    str | None,
    typer.Option(
        "--code", metavar="CODE", help="Only differences with this code, such as price_mismatch.", show_default=False
    ),
]
OfLine = Annotated[str | None, typer.Option("--line", help="Only differences in this line item.", show_default=False)]


@app.command("accept")
def accept(  # noqa: PLR0913  # one argument per option
    context: typer.Context,
    id_: Id,
    *,
    document: OfDocument = None,
    code: OfCode = None,
    line: OfLine = None,
    reason: Reason = None,
    by: By,
    override: Override = False,
    as_json: AsJson = False,
) -> None:
    """Accept a cluster's open differences in prices, quantities, totals and tax.

    Accepted differences need no further action. If another document changes the figures, the differences become
    open again. For differences that you often accept for a supplier, set a tolerance:
    counterfoil tenants tolerances TENANT --suggest
    """
    _decide(connect(context, by), "accept", id_, (document, code, line), reason, override=override, as_json=as_json)


@app.command("dispute")
def dispute(  # noqa: PLR0913  # one argument per option
    context: typer.Context,
    id_: Id,
    *,
    document: OfDocument = None,
    code: OfCode = None,
    line: OfLine = None,
    reason: Reason = None,
    by: By,
    override: Override = False,
    as_json: AsJson = False,
) -> None:
    """Dispute a cluster's differences.

    Disputed differences need action even if they are within tolerance. Suggested tolerances for the supplier stay below
    disputed differences.
    """
    _decide(connect(context, by), "dispute", id_, (document, code, line), reason, override=override, as_json=as_json)


def _decide(
    api: Api,
    verb: Literal["accept", "dispute"],
    id_: str,
    selection: tuple[str | None, str | None, str | None],
    reason: str | None,
    *,
    override: bool,
    as_json: bool,
) -> None:
    document, code, line = selection
    body = {
        "cluster": read(api, id_)["id"],
        "document": None if document is None else api.find_by_id_suffix("document", document, "documents"),
        "code": code,
        "line": line,
        "reason": reason,
        "overrides": None if override else [],
    }
    response = api.send("POST", f"/api/admin/variances/{verb}", body=body).json()
    if as_json:
        print_json(response)
        return
    for sentence in response["differences"]:
        stdout().print(Text(f"{response['verdict'].capitalize()}: ", "bold").append(sentence, "default"))
    for sentence in response["open"]:
        stdout().print(Text(f"Still open: {sentence}"))
    stdout().print("The comparison is being updated: counterfoil clusters show ID")
