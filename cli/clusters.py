"""`counterfoil clusters`: the list by status, one cluster, and the summary of the demo."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from cli import cluster_list, ids, outcomes
from cli.acceptance import accept, dispute
from cli.case import Link, case_of, place_of_type, show_case
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.outcomes import Outcome, State
from cli.output import is_wanted, label, page, print_json
from cli.tenants import Tenant
from counterfoil.documents import acceptance
from counterfoil.documents.three_way_match import ClusterStatus

EXAMPLE_SIZE = 3
"""Documents of a cluster that shows what a link is made of, and still fits on a screen."""


@dataclass(frozen=True)
class Cluster:
    """Documents of a tenant that belong together, directly or through others; a document without a partner is alone."""

    id: UUID
    tenant: str
    members: Sequence[Outcome]
    edges: Sequence[Link] = field(default=())

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "tenant": self.tenant,
            "cluster": self.id,
            "members": [
                {
                    "document": one.document_id,
                    "file": one.file,
                    "type": one.type,
                    "number": one.number,
                    "note": one.note or None,
                }
                for one in self.members
            ],
            "edges": [
                {
                    "document_a_id": edge.a,
                    "document_b_id": edge.b,
                    "confidence": edge.confidence,
                    "score": round(edge.score, 3),
                    "decided_by": edge.decided_by,
                    "reasoning": edge.reasoning,
                    "evidence": edge.evidence,
                }
                for edge in self.edges
            ],
        }


SUMMARY = "List clusters by status: what needs a person. Show one with its variances, accept or dispute them."

app = typer.Typer(
    help=f"""{SUMMARY}

    A cluster is an order with its deliveries and invoices. Its status is exception, needs-review, disputed, incomplete,
    accepted or matched. Amounts are net.
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)
_EDGES = """
SELECT document_a_id, document_b_id, confidence, score, decided_by, reasoning, evidence
FROM document_match ORDER BY document_a_id, document_b_id
"""


def of_tenant(cloud: Cloud, tenant: Tenant, found: Sequence[Outcome] | None = None) -> list[Cluster]:
    """A tenant's clusters, the largest first. `found` is what became of its uploads, where the caller knows already.

    An edge to a contract glues no clusters together: it is shown with the cluster of the other document.
    """
    members: dict[UUID, list[Outcome]] = defaultdict(list)
    for outcome in outcomes.of_tenant(cloud, tenant) if found is None else found:
        if outcome.state is State.SUCCEEDED and outcome.cluster_id is not None:
            members[outcome.cluster_id].append(outcome)
    cluster_of = {one.document_id: id_ for id_, inside in members.items() for one in inside if one.type != "contract"}
    edges: dict[UUID, list[Link]] = defaultdict(list)
    with cloud.database.tenant(tenant.id) as connection:
        for row in connection.execute(_EDGES):
            edge = Link(*row)
            cluster = cluster_of.get(edge.a) or cluster_of.get(edge.b)
            if cluster is not None:
                edges[cluster].append(edge)
    largest_first = sorted(members.items(), key=lambda item: (-len(item[1]), item[1][0].received_at, item[0]))
    return [Cluster(id_, tenant.slug, inside, edges[id_]) for id_, inside in largest_first]


def show_clusters_in_short(found: Sequence[Cluster]) -> None:
    """A row for each cluster of several documents, one of them in full as an example; then those alone."""
    several = [cluster for cluster in found if len(cluster.members) > 1]
    table = Table("tenant", Column("documents that belong together", overflow="fold"), box=None, pad_edge=False)
    for cluster in several:
        members = sorted(cluster.members, key=lambda one: (place_of_type(one.type), one.number or ""))
        table.add_row(cluster.tenant, Text(" · ").join(Text(f"{label(one.type)} {one.number}") for one in members))
    page().print(table)
    example = next((cluster for cluster in several if len(cluster.members) == EXAMPLE_SIZE), None)
    if example is not None:
        page().print(Text("\nOne of them, with the evidence of each link:", "bold"))
        page().print(_tree(example))
    page().print()
    _show_alone(found)


def _show_alone(found: Sequence[Cluster]) -> None:
    """Documents without a partner, with the reason, and how many there are of each sort."""
    single = [cluster for cluster in found if len(cluster.members) == 1]
    if single:
        tree = Tree(Text("Alone", "bold"))
        for cluster in single:
            (one,) = cluster.members
            tree.add(_member(one, cluster.tenant).append(f"  {one.note}" if one.note else "", "yellow"))
        page().print(tree)
    page().print(f"{len(found) - len(single)} clusters of several documents, {len(single)} documents alone.")


def _tree(cluster: Cluster) -> Tree:
    title = Text(f"{len(cluster.members)} documents", "bold").append(
        f"  {cluster.tenant}  {ids.short(cluster.id)}", "dim"
    )
    tree = Tree(title)
    names = {one.document_id: f"{label(one.type)} {one.number}" for one in cluster.members}
    for one in cluster.members:
        branch = tree.add(_member(one))
        for edge in cluster.edges:
            if edge.b == one.document_id or (edge.a == one.document_id and edge.b not in names):
                other = edge.a if edge.b == one.document_id else edge.b
                link = Text("↔ ", "dim").append(names.get(other, "a contract"), "dim")
                branch.add(link.append(f": {edge.reasoning} ({edge.confidence}, {edge.decided_by})", "dim"))
    return tree


def _member(one: Outcome, tenant: str = "") -> Text:
    text = Text(f"{label(one.type)} {one.number or ''}").append(f"  {one.file}", "cyan")
    return text.append(f"  {tenant}", "dim") if tenant else text


@app.callback()
def clusters(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by its slug.", show_default=False)] = None,
    status: Annotated[
        str,
        typer.Option(metavar="STATUS", help=f"open, all, or one of: {', '.join(ClusterStatus)}. open: not finished."),
    ] = "open",
    supplier: Annotated[
        str | None, typer.Option(help="The beginning of the supplier's name.", show_default=False)
    ] = None,
    number: Annotated[
        str | None, typer.Option(help="The number of an order, invoice or other document.", show_default=False)
    ] = None,
    sort: Annotated[
        str, typer.Option(metavar="SORT", help="oldest, newest, or amount: the largest amount at stake first.")
    ] = "oldest",
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="The next page: clusters after this one.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, at most.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List clusters by status: what needs a person, the oldest first."""
    if not is_wanted(context, "clusters"):
        return
    cluster_list.show_list(
        Cloud.at(place_of(context.obj)),
        cluster_list.wanted(status, supplier, number, sort),
        tenant=tenant,
        after=after,
        limit=limit,
        as_json=as_json,
    )


@app.command("show")
def show(
    context: typer.Context,
    id_: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Of the cluster or of any of its documents, or its end as tables show it.",
            show_default=False,
        ),
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON, with all the evidence.")] = False,
) -> None:
    """Show one cluster: its documents, why they are linked, and how they compare, line by line."""
    cloud = Cloud.at(place_of(context.obj))
    case = case_of(cloud, *outcomes.document_named(cloud, id_))
    if as_json:
        print_json(case.record)
    else:
        show_case(page(), case)
        if case.result is not None and acceptance.is_to_be_accepted(case.result):
            end = ids.short(case.id)
            page().print(f"\nDecide: counterfoil clusters accept {end}, or dispute {end}")


app.command("accept")(accept)
app.command("dispute")(dispute)
