"""`counterfoil clusters show`: the documents of one cluster, why they are linked, and how they compare line by line."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from cli.cluster_list import STYLES
from cli.failures import UsageError
from cli.ids import short
from cli.local.cloud import Cloud
from cli.output import label
from cli.tenants import Tenant
from counterfoil.documents.document_list import missing
from counterfoil.documents.structured import ROLES
from counterfoil.documents.three_way_match import ClusterStatus
from counterfoil.documents.three_way_match.model import money

ORDER_OF_TYPES = (
    "contract",
    "purchase_order",
    "order_confirmation",
    "delivery_note",
    "goods_receipt",
    "invoice",
    "credit_note",
)
"""The order in which a case's documents are written."""
OUTCOMES = {"matched": "green", "within-tolerance": "green", "exception": "red", "incomplete": "yellow"}
QUANTITIES = ("ordered", "delivered", "received", "rejected", "billed", "credited")


def place_of_type(type_: str | None) -> int:
    """Where documents of a type stand in a case."""
    return ORDER_OF_TYPES.index(type_) if type_ in ORDER_OF_TYPES else len(ORDER_OF_TYPES)


@dataclass(frozen=True)
class Paper:
    """A document of the cluster, or a contract that one of them is linked to."""

    id: UUID
    type: str
    file: str
    number: str | None
    date: str | None
    total: str | None
    """Gross where it is stated, else net, with the currency."""
    missing: Sequence[str]
    """Expected facts that were not read."""

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{label(self.type)} {self.number or short(self.id)}"


@dataclass(frozen=True)
class Link:
    """Two documents that belong together, and why."""

    a: UUID
    b: UUID
    confidence: str
    score: float
    decided_by: str
    reasoning: str
    evidence: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A cluster with all that is known about it."""

    id: UUID
    tenant: str
    papers: Sequence[Paper]
    links: Sequence[Link]
    result: dict[str, Any] | None
    """What its documents come to (`variances.Result.record`); None where it is not computed."""
    computed_at: datetime | None
    is_stale: bool
    """Whether it changed since, and is being computed again."""
    error: str | None
    status: ClusterStatus | None = None
    is_known: bool = True
    """Whether it was ever to be computed."""

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "cluster": self.id,
            "tenant": self.tenant,
            "documents": [vars(paper) for paper in self.papers],
            "links": [vars(link) for link in self.links],
            "computed_at": self.computed_at and self.computed_at.isoformat(),
            "is_being_computed": self.is_stale,
            "error": self.error,
            "status": self.status,
            "result": self.result,
        }


def _first(*names: str) -> str:
    return f"coalesce({', '.join(f'structured_data ->> {name!r}' for name in names)})"


_NUMBER = _first(*(roles.number for roles in ROLES.values()))
_DATE = _first(*(roles.date for roles in ROLES.values()))
_CLUSTER = "SELECT cluster_id FROM document WHERE id = %s"
_LINKS = """
SELECT document_a_id, document_b_id, confidence, score, decided_by, reasoning, evidence FROM document_match
WHERE document_a_id IN (SELECT id FROM document WHERE cluster_id = %(cluster)s)
   OR document_b_id IN (SELECT id FROM document WHERE cluster_id = %(cluster)s)
ORDER BY document_a_id, document_b_id
"""
_PAPERS = f"""
SELECT id, coalesce(type, 'other'), file_name, {_NUMBER}, {_DATE},
       coalesce(structured_data ->> 'total_gross', structured_data ->> 'total_net')
           || coalesce(' ' || (structured_data ->> 'currency'), ''), structured_data
FROM document WHERE cluster_id = %(cluster)s OR id = ANY(%(others)s)
ORDER BY array_position(%(types)s, type), received_at, id
"""
_RESULT = """
SELECT result, computed_at, coalesce(status IN ('pending', 'in-progress'), false), error, cluster_status
FROM cluster_diagnostics WHERE id = %s
"""


def case_of(cloud: Cloud, tenant: Tenant, document_id: UUID) -> Case:
    """The cluster that a document is in.

    Raises:
        UsageError: it is in none, since it has not been matched.
    """
    with cloud.database.tenant(tenant.id) as connection:
        row = connection.execute(_CLUSTER, [document_id]).fetchone()
        if row is None or row[0] is None:
            raise UsageError(f"The document {document_id} is in no cluster: it has not been matched.")
        about = {"cluster": row[0]}
        links = [Link(*found) for found in connection.execute(_LINKS, about)]
        others = list({end for link in links for end in (link.a, link.b)})
        values = {**about, "others": others, "types": list(ORDER_OF_TYPES)}
        rows = connection.execute(_PAPERS.encode(), values)
        papers = [Paper(*[*stated, missing(stated[1], data)]) for *stated, data in rows]
        computed = connection.execute(_RESULT, [row[0]]).fetchone() or (None, None, False, None, None, False)
    return Case(row[0], tenant.slug, papers, links, *computed)


# -- as people see it ------------------------------------------------------------------------------------------------


def show_case(screen: Console, case: Case) -> None:
    """Print a case: what it comes to first, then what that rests on."""
    result = case.result
    title = Text(f"Cluster {short(case.id)}", "bold").append(f"  {case.tenant}  ", "dim")
    if case.status is not None:
        title.append(case.status.replace("-", " "), STYLES[ClusterStatus(case.status)])
    screen.print(title)
    for sentence in _state(case):
        screen.print(Padding(Text(sentence), (0, 0, 0, 2)))
    _heading(screen, "Documents")
    _show_papers(screen, case)
    if case.links:
        _heading(screen, "Links, and why")
        _show_links(screen, case)
    if result is None:
        return
    if result["lines"]:
        _heading(screen, "Lines, side by side")
        _show_lines(screen, result["lines"])
    if result["variances"]:
        _heading(screen, "Variances")
        for variance in result["variances"]:
            _show_variance(screen, variance)
    if result["remarks"]:
        _heading(screen, "Remarks")
        for remark in result["remarks"]:
            screen.print(Padding(Text(remark), (0, 0, 0, 2)))


def _state(case: Case) -> list[str]:
    if case.error is not None:
        return [f"It could not be computed: {case.error}"]
    told = list(case.result["reasons"]) if case.result is not None else []
    if case.is_stale:
        return [*told, "It is being recomputed." if told else "It is being computed."]
    return told or ["There is nothing to be compared." if case.is_known else "It has not been computed."]


def _heading(screen: Console, text: str) -> None:
    screen.print()
    screen.print(Text(text, "bold"))


def _show_papers(screen: Console, case: Case) -> None:
    unread = any(paper.missing for paper in case.papers)
    table = Table("id", "document", "date", Column("total", justify="right"), box=None)
    if unread:
        table.add_column("not read")
    table.add_column("file", overflow="fold")
    for paper in case.papers:
        cells = [short(paper.id), paper.title, paper.date or "", paper.total or ""]
        table.add_row(*map(Text, [*cells, *([", ".join(paper.missing)] if unread else []), paper.file]))
    screen.print(table)


def _show_links(screen: Console, case: Case) -> None:
    titles = {paper.id: paper.title for paper in case.papers}
    places = {paper.id: place for place, paper in enumerate(case.papers)}
    for link in sorted(case.links, key=lambda link: sorted((places[link.a], places[link.b]))):
        one, other = sorted((link.a, link.b), key=lambda id_: -places[id_])
        line = Text(f"{titles[one]} ↔ {titles[other]}").append(f"  {link.confidence}, {link.decided_by}", "cyan")
        screen.print(Padding(line, (0, 0, 0, 1)))
        screen.print(Padding(Text(link.reasoning, "dim"), (0, 0, 0, 3)))
        if link.decided_by == "llm":
            where = f"What it was asked: counterfoil review asked {short(UUID(link.evidence['child']))}"
            screen.print(Padding(Text(where, "dim"), (0, 0, 0, 3)))


def _show_lines(screen: Console, lines: Sequence[dict[str, Any]]) -> None:
    shown = [name for name in QUANTITIES if any(line[name] is not None for line in lines)]
    billed_at = [_billed_at(line) for line in lines]
    differ = any(price not in {"", line["price"]} for line, price in zip(lines, billed_at, strict=True))
    columns = [*shown, *(["price", "billed at"] if differ else ["price"])]
    right = (Column(name, justify="right") for name in columns)
    table = Table("line", Column("article", overflow="fold"), "unit", *right, box=None)
    for line, billed in zip(lines, billed_at, strict=True):
        apart = None not in {line["billed"], line["ordered"]} and line["billed"] != line["ordered"]
        cells = [Text(line[name] or "", "red" if name == "billed" and apart else "") for name in shown]
        cells.append(Text(_price(line["price"], line["currency"])))
        if differ:
            cells.append(Text(_price(billed, line["currency"]), "red" if billed != line["price"] else ""))
        table.add_row(line["line"], Text(_article(line)), line["unit"] or "", *cells)
    screen.print(table)


def _billed_at(line: dict[str, Any]) -> str:
    """The price that a line is billed at for one unit; nothing where bills differ."""
    prices = {part["unit_price"] for part in line["parts"] if part["role"] == "billed" and part["unit_price"]}
    return str(prices.pop()) if len(prices) == 1 else ""


def _price(price: str | None, currency: str | None) -> str:
    return money(Decimal(price), currency) if price else ""


def _article(line: dict[str, Any]) -> str:
    return " ".join(text for text in (line["article"], line["description"]) if text)


def _show_variance(screen: Console, variance: dict[str, Any]) -> None:
    if variance["settled_by"] is not None:
        sign, style, more = "✓", "green", f" {variance['settled_by']}"
    elif variance["within_tolerance"]:
        sign, style, more = "✓", "green", " Within tolerance."
    elif variance.get("awaits"):
        sign, style, more = "…", "yellow", f" {variance['awaits']}"
    else:
        sign, style, more = "✗", "red", ""
    screen.print(Padding(Text(sign, style).append(f" {variance['code'].replace('_', ' ')}", "bold"), (0, 0, 0, 1)))
    screen.print(Padding(Text(variance["sentence"] + more), (0, 0, 0, 3)))
