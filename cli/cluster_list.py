"""List of `counterfoil clusters`, as the API returns it."""

from typing import get_args

from rich.table import Column, Table
from rich.text import Text

from cli import ids, outcomes
from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.output import aside, page, print_json
from cli.tenants import Tenant, chosen
from counterfoil.documents import cluster_list
from counterfoil.documents.cluster_list import ClusterFilter, ClusterSummary, Cursor, Sort
from counterfoil.documents.three_way_match import ClusterStatus
from functions.admin_api.api import clusters
from functions.admin_api.api.clusters import ClusterRow

STYLES = {
    ClusterStatus.EXCEPTION: "red",
    ClusterStatus.NEEDS_REVIEW: "yellow",
    ClusterStatus.DISPUTED: "yellow",
    ClusterStatus.INCOMPLETE: "cyan",
    ClusterStatus.ACCEPTED: "green",
    ClusterStatus.MATCHED: "green",
}


def wanted(status: str, supplier: str | None, number: str | None, sort: str) -> ClusterFilter:
    """Return the filters that options name.

    Raises:
        UsageError: an option has no such value.
    """
    statuses = {"open": cluster_list.OPEN, "all": tuple(ClusterStatus)} | {one.value: (one,) for one in ClusterStatus}
    if status not in statuses:
        raise UsageError(f"--status must be one of {', '.join(statuses)}, not '{status}'.")
    for one in get_args(Sort):
        if sort == one:
            return ClusterFilter(statuses[status], supplier, number, one)
    raise UsageError(f"--sort must be one of {', '.join(get_args(Sort))}, not '{sort}'.")


def show_list(
    cloud: Cloud, asked: ClusterFilter, *, tenant: str | None, after: str | None, limit: int, as_json: bool
) -> None:
    """Print a page of clusters. Clusters of several tenants have one order and one limit.

    Raises:
        UsageError: there is no such tenant or cluster, or the cluster belongs to another tenant.
    """
    tenants, cursor = _start(cloud, asked, tenant, after)
    merged: list[tuple[ClusterSummary, str]] = []
    for one in tenants:
        with cloud.database.tenant(one.id) as connection:
            some = cluster_list.page(connection, one.id, asked, limit=limit + 1, after=cursor)
        merged += [(cluster, one.slug) for cluster in some.clusters]
    merged.sort(key=lambda one: cluster_list.position(one[0], asked.sort), reverse=asked.sort != "oldest")
    found = [clusters.row(cluster, slug) for cluster, slug in merged[:limit]]
    if as_json:
        print_json([row.model_dump(mode="json") for row in found])
        return
    _show(found)
    if len(merged) > limit:
        command = f"counterfoil clusters --after {found[-1].id}"
        aside().print(f"There are more, with the same options: {command}", soft_wrap=True)


def _start(
    cloud: Cloud, asked: ClusterFilter, tenant: str | None, after: str | None
) -> tuple[list[Tenant], Cursor | None]:
    tenants = chosen(cloud, tenant)
    if after is None:
        return tenants, None
    whose, id_ = outcomes.document_named(cloud, after)
    if tenant not in {None, whose.slug}:
        raise UsageError(f"The cluster '{after}' belongs to tenant '{whose.slug}'.")
    with cloud.database.tenant(whose.id) as connection:
        cursor = cluster_list.cursor_of(connection, whose.id, id_, asked.sort)
    if cursor is None:
        raise UsageError(f"There is no cluster '{after}': take an id from 'counterfoil clusters'.")
    return tenants, cursor


def _show(found: list[ClusterRow]) -> None:
    if not found:
        page().print("No cluster matches. 'counterfoil clusters --status all' lists all of them.")
        return
    several = len({row.tenant for row in found}) > 1
    amounts = (Column(name, justify="right") for name in ("ordered", "delivered", "billed", "at stake"))
    table = Table(
        "id",
        *(["tenant"] if several else []),
        Column("status", no_wrap=True),
        Column("supplier", overflow="fold"),
        Column("order", overflow="fold"),
        *amounts,
        "",
        Column("since", no_wrap=True),
        Column("reason", overflow="fold"),
        box=None,
        pad_edge=False,
    )
    for row in found:
        sums = (Text(amount or "") for amount in (row.ordered, row.delivered, row.billed, row.at_stake))
        table.add_row(
            Text(ids.short(row.id)),
            *([Text(row.tenant)] if several else []),
            Text(row.status.replace("-", " "), STYLES[row.status]),
            Text(row.supplier or ""),
            Text(", ".join(row.order_numbers)),
            *sums,
            Text(row.currency or ""),
            Text(f"{row.waiting_since:%Y-%m-%d}"),
            Text(row.reason + (" It is being recomputed." if row.is_being_computed else "")),
        )
    page().print(table)
