"""List of a tenant's clusters by status, supplier, number, amount at stake and age.

A page reads what diagnostics stored with its result, from an index for each status. Each function runs in a transaction
that sees one tenant alone (`Database.tenant`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple, get_args
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents import document_list
from counterfoil.documents.matching.normalise import words
from counterfoil.documents.three_way_match import ClusterStatus

Sort = Literal["oldest", "newest", "amount"]
"""`oldest` and `newest` by `waiting_since`; `amount`: the largest amount at stake first, whatever its currency."""
SORTS: tuple[Sort, ...] = get_args(Sort)
OPEN = (ClusterStatus.EXCEPTION, ClusterStatus.NEEDS_REVIEW, ClusterStatus.DISPUTED, ClusterStatus.INCOMPLETE)
"""Statuses of clusters that are not finished."""
COUNTED = 1_000
"""A status is counted up to here."""
_LAST = "\U0010ffff"


@dataclass(frozen=True)
class ClusterSummary:
    """A cluster in a list."""

    id: UUID
    status: ClusterStatus
    supplier: str | None
    order_numbers: Sequence[str]
    currency: str | None
    ordered: Decimal | None
    """Amounts are net and in `currency`. None if no document states one."""
    delivered: Decimal | None
    billed: Decimal | None
    at_stake: Decimal
    waiting_since: datetime
    documents: int
    reason: str
    """The most important reason for the status."""
    is_being_computed: bool
    """Whether the cluster changed since the status was computed."""


class Cursor(NamedTuple):
    """Position in a list, by the sort's own key."""

    key: datetime | float
    id: UUID


@dataclass(frozen=True)
class ClusterFilter:
    """Filters of a list."""

    statuses: Sequence[ClusterStatus] = tuple(ClusterStatus)
    supplier: str | None = None
    """The beginning of its name."""
    number: str | None = None
    """The number of a document."""
    sort: Sort = "oldest"


class Page(NamedTuple):
    """One page of clusters."""

    clusters: Sequence[ClusterSummary]
    next: Cursor | None
    """None on the last page."""


class _Order(NamedTuple):
    key: str
    direction: str
    after: str
    type: str


_ORDERS: Mapping[Sort, _Order] = {
    "oldest": _Order("waiting_since", "ASC", ">", "timestamptz"),
    "newest": _Order("waiting_since", "DESC", "<", "timestamptz"),
    "amount": _Order("at_stake_order", "DESC", "<", "float8"),
}
_AFTER = "AND (c.{key}, c.id) {after} (%(key)s::{type}, %(id)s::uuid)"
_SUPPLIER = "AND c.supplier_key >= %(supplier)s AND c.supplier_key < %(supplier_end)s"
_NUMBER = "AND c.id IN (SELECT d.cluster_id FROM document d WHERE d.id = ANY(%(numbered)s))"
_PAGE = """
SELECT c.id, c.cluster_status, c.supplier, c.order_numbers, c.currency, c.amount_ordered, c.amount_delivered,
       c.amount_billed, c.amount_at_stake, c.waiting_since, c.documents, c.result -> 'reasons' ->> 0,
       coalesce(c.status IN ('pending', 'in-progress'), false), c.{key}
FROM (
    SELECT few.* FROM unnest(%(statuses)s::text[]) AS wanted (status)
    CROSS JOIN LATERAL (
        SELECT * FROM cluster_diagnostics c
        WHERE c.tenant_id = %(tenant)s AND c.cluster_status = wanted.status {conditions}
        ORDER BY c.{key} {direction}, c.id {direction} LIMIT %(most)s
    ) AS few
    ORDER BY few.{key} {direction}, few.id {direction} LIMIT %(most)s
) AS c
ORDER BY c.{key} {direction}, c.id {direction}
"""


def page(
    connection: Connection, tenant_id: UUID, wanted: ClusterFilter, *, limit: int, after: Cursor | None = None
) -> Page:
    """Return at most `limit` clusters after a cursor."""
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "statuses": [status.value for status in wanted.statuses],
        "most": limit + 1,
    }
    rows = connection.execute(_statement(connection, tenant_id, wanted, after, values).encode(), values).fetchall()
    found = [ClusterSummary(id_, ClusterStatus(status), *columns) for id_, status, *columns, _ in rows[:limit]]
    return Page(found, Cursor(rows[limit - 1][-1], found[-1].id) if len(rows) > limit else None)


def _statement(
    connection: Connection, tenant_id: UUID, wanted: ClusterFilter, after: Cursor | None, values: dict[str, Any]
) -> str:
    """Build the statement, and add its parameters to `values`."""
    order = _ORDERS[wanted.sort]
    conditions = []
    if after is not None:
        conditions.append(_AFTER.format(**order._asdict()))
        values |= after._asdict()
    if wanted.supplier is not None:
        conditions.append(_SUPPLIER)
        begin = words(wanted.supplier)
        values |= {"supplier": begin, "supplier_end": begin + _LAST}
    if wanted.number is not None:
        conditions.append(_NUMBER)
        values["numbered"] = document_list.numbered(connection, tenant_id, wanted.number)
    return _PAGE.format(conditions=" ".join(conditions), **order._asdict())


def position(found: ClusterSummary, sort: Sort) -> Cursor:
    """Return the position of a listed cluster. Pure.

    Clusters of several tenants, sorted by it, are in the order of a page; all but `oldest` are descending.
    """
    return Cursor(float(found.at_stake) if sort == "amount" else found.waiting_since, found.id)


def cursor_of(connection: Connection, tenant_id: UUID, id_: UUID, sort: Sort) -> Cursor | None:
    """Return the position of a cluster in a list; None if it is in no list."""
    statement = _POSITION.format(key=_ORDERS[sort].key).encode()
    row = connection.execute(statement, {"tenant": tenant_id, "id": id_}).fetchone()
    return None if row is None else Cursor(row[0], id_)


_POSITION = """
SELECT {key} FROM cluster_diagnostics WHERE tenant_id = %(tenant)s AND id = %(id)s AND cluster_status IS NOT NULL
"""
_COUNTS = """
SELECT wanted.status, (SELECT count(*) FROM (
    SELECT FROM cluster_diagnostics c WHERE c.tenant_id = %(tenant)s AND c.cluster_status = wanted.status
    LIMIT %(most)s
) AS few) FROM unnest(%(statuses)s::text[]) AS wanted (status)
"""


def counts(connection: Connection, tenant_id: UUID) -> dict[ClusterStatus, int]:
    """Return the number of clusters of each status, counted up to COUNTED + 1."""
    values = {"tenant": tenant_id, "statuses": [status.value for status in ClusterStatus], "most": COUNTED + 1}
    return {ClusterStatus(status): count for status, count in connection.execute(_COUNTS, values)}
