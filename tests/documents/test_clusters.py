"""The cluster list can be filtered, sorted and paged.

It stays fast with 100,000 clusters.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database, PageCursor
from counterfoil.documents import clusters, diagnostics
from counterfoil.documents.clusters import SORTS, ClusterFilter, ClusterSummary, Cursor, Sort
from counterfoil.documents.three_way_match import ClusterStatus
from tests import factories
from tests.documents.matching.samples import OTHER_SELLER, delivery, invoice, line, order
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.documents.test_differences import compute, decide

LINES = [line("A-100", "10", "100.00")]
DEARER = [line("A-100", "10", "101.50")]


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    """A tenant with three clusters.

    One has a price difference, one is matched, and one is an order without an invoice.
    """
    documents = [
        order(lines=LINES),
        delivery(po_reference="4711", lines=LINES),
        invoice(po_reference="4711", lines=DEARER),
        order("4712", lines=LINES, seller=OTHER_SELLER),
        delivery("LS-2", po_reference="4712", lines=LINES, seller=OTHER_SELLER),
        invoice("R-82", po_reference="4712", lines=LINES, seller=OTHER_SELLER),
        order("4713", when=40, lines=[line("C-1", "3", "9.00")]),
    ]
    harness = TenantHarness(database, admin, documents)
    harness.match_all()
    for position in (0, 3, 6):
        compute(harness, position)
    return harness


def page(
    harness: TenantHarness,
    cluster_filter: ClusterFilter | None = None,
    *,
    limit: int = 20,
    cursor: Cursor | None = None,
) -> Any:
    with harness.database.tenant(harness.tenant_id) as connection:
        return clusters.page(
            connection, harness.tenant_id, cluster_filter or ClusterFilter(), limit=limit, after=cursor
        )


def listed_ids(harness: TenantHarness, cluster_filter: ClusterFilter | None = None) -> list[int]:
    """Return the listed clusters' ids, as positions of documents."""
    return [harness.ids.index(entry.id) for entry in page(harness, cluster_filter).clusters]


def test_list_shows_orders_amounts_reason_and_supplier(harness: TenantHarness):
    (entry,) = page(harness, ClusterFilter([ClusterStatus.EXCEPTION])).clusters

    assert isinstance(entry, ClusterSummary)
    assert (entry.id, entry.order_numbers, entry.documents) == (harness.ids[0], ["4711"], 3)
    assert [entry.ordered, entry.delivered, entry.billed, entry.affected] == ["1000.00", "1000.00", "1015.00", "15.00"]
    assert entry.currency == "EUR"
    assert "is billed at" in entry.reason
    assert entry.supplier is not None
    assert not entry.is_computing


def test_filters_select_clusters(harness: TenantHarness):
    assert set(listed_ids(harness)) == {0, 3, 6}
    assert listed_ids(harness, ClusterFilter([ClusterStatus.MATCHED])) == [3]
    assert listed_ids(harness, ClusterFilter(clusters.OPEN_STATUSES, sort="amount")) == [0, 6]
    assert listed_ids(harness, ClusterFilter(supplier=OTHER_SELLER["name"].upper()[:4])) == [3]
    assert listed_ids(harness, ClusterFilter(number="4712")) == [3]
    assert listed_ids(harness, ClusterFilter(number="R-81")) == [0]
    assert listed_ids(harness, ClusterFilter(number="no number")) == []


@pytest.mark.parametrize("sort", SORTS)
def test_pages_contain_every_cluster_once(harness: TenantHarness, sort: Sort):
    all_ids = [entry.id for entry in page(harness, ClusterFilter(sort=sort)).clusters]
    collected: list[UUID] = []
    cursor = None
    while True:
        page_ = page(harness, ClusterFilter(sort=sort), limit=1, cursor=cursor)
        collected += [entry.id for entry in page_.clusters]
        cursor = page_.next_cursor
        if cursor is None:
            break

    assert collected == all_ids
    assert len(all_ids) == 3


def test_clusters_are_counted_by_status(harness: TenantHarness):
    with harness.database.tenant(harness.tenant_id) as connection:
        counts = clusters.counts(connection, harness.tenant_id)

    assert counts == {
        status: int(status in {ClusterStatus.EXCEPTION, ClusterStatus.MATCHED, ClusterStatus.INCOMPLETE})
        for status in ClusterStatus
    }


def test_clusters_of_other_tenants_are_hidden(harness: TenantHarness, database: Database, admin: Connection):
    other = factories.make_tenant(admin, "other")
    with database.tenant(other) as connection:
        assert clusters.page(connection, other, ClusterFilter(), limit=20).clusters == []
        assert clusters.page(connection, harness.tenant_id, ClusterFilter(), limit=20).clusters == []


def test_decided_cluster_is_marked_as_computing(harness: TenantHarness):
    decide(harness, "disputed")

    (entry,) = page(harness, ClusterFilter(number="4711")).clusters

    assert entry.is_computing


def test_cluster_without_documents_is_not_listed(harness: TenantHarness, admin: Connection):
    with harness.database.tenant(harness.tenant_id) as connection:
        diagnostics.enqueue_diagnostics(connection, harness.tenant_id, [harness.ids[6]], NOW)
        (token,) = connection.execute(
            "SELECT claim_token FROM cluster_diagnostics WHERE id = %s", [harness.ids[6]]
        ).fetchone() or (0,)
        diagnostics.write(connection, harness.ids[6], token, None, NOW)

    assert set(listed_ids(harness)) == {0, 3}


def test_cluster_with_open_review_needs_review(harness: TenantHarness, admin: Connection):
    admin.execute(
        "INSERT INTO document_review "
        "(document_id, tenant_id, type, ambiguous_matches, probability, weights_version, opened_at, changed_at)"
        " VALUES (%s, %s, 'invoice', '[]', 0.5, '1', %s, %s)",
        [harness.ids[5], harness.tenant_id, NOW, NOW],
    )
    compute(harness, 3)

    (entry,) = page(harness, ClusterFilter([ClusterStatus.NEEDS_REVIEW])).clusters
    assert (entry.id, entry.reason) == (harness.ids[3], "Invoice R-82: its match is ambiguous, see Review.")


def test_confirmed_match_resolves_a_missing_supplier(harness: TenantHarness, admin: Connection):
    admin.execute("UPDATE document SET structured_data = structured_data - 'supplier' WHERE id = %s", [harness.ids[4]])
    compute(harness, 3)
    (entry,) = page(harness, ClusterFilter([ClusterStatus.NEEDS_REVIEW])).clusters
    assert entry.reason == "Delivery note LS-2 names no supplier."

    harness.decide(3, 4, "confirmed")
    compute(harness, 3)

    assert listed_ids(harness, ClusterFilter([ClusterStatus.MATCHED])) == [3]


_MANY = """
INSERT INTO cluster_diagnostics (id, tenant_id, created_at, match_status, result, computed_at, status, cluster_status,
    supplier, supplier_key, order_numbers, currency, amount_affected, waiting_since, documents)
SELECT uuidv7(), %(tenant)s, %(now)s, 'matched', '{"reasons": ["Everything agrees."]}', %(now)s, 'succeeded',
       (ARRAY['exception', 'needs-review', 'disputed', 'incomplete', 'accepted', 'matched'])[1 + n %% 6],
       'Firm ' || n %% 500, 'firm ' || n %% 500, ARRAY['PO-' || n], 'EUR', n %% 977,
       %(now)s - n * interval '1 minute', 3
FROM generate_series(1, 100000) AS n
"""


@pytest.fixture
def many_clusters(database: Database, admin: Connection) -> TenantHarness:
    harness = TenantHarness(database, admin)
    admin.execute(_MANY, {"tenant": harness.tenant_id, "now": NOW})
    admin.execute("ANALYZE cluster_diagnostics")
    return harness


def test_page_of_many_clusters_uses_an_index(many_clusters: TenantHarness):
    deep = NOW - timedelta(minutes=50_000)
    cases: list[tuple[ClusterFilter, Cursor | None, str]] = [
        (ClusterFilter(sort="oldest"), PageCursor(deep, UUID(int=0)), "cluster_diagnostics_by_age"),
        (ClusterFilter(sort="newest"), PageCursor(deep, UUID(int=0)), "cluster_diagnostics_by_age"),
        (ClusterFilter(sort="amount"), (500.0, UUID(int=0)), "cluster_diagnostics_by_amount"),
        (ClusterFilter(clusters.OPEN_STATUSES, sort="amount"), None, "cluster_diagnostics_by_amount"),
        (ClusterFilter(supplier="firm 77"), None, "cluster_diagnostics_by"),
    ]
    for cluster_filter, cursor, index in cases:
        values = {
            "tenant": many_clusters.tenant_id,
            "statuses": [entry.value for entry in cluster_filter.statuses],
            "most": 21,
        }
        with many_clusters.database.tenant(many_clusters.tenant_id) as connection:
            statement = clusters._statement(connection, many_clusters.tenant_id, cluster_filter, cursor, values)
            rows = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode(), values).fetchall()
        nodes = list(plan_nodes(rows[0][0][0]["Plan"]))
        scans = [entry for entry in nodes if entry.get("Relation Name") == "cluster_diagnostics"]
        assert index in str(nodes)
        assert all("Scan" in entry["Node Type"] and entry["Node Type"] != "Seq Scan" for entry in scans)
        if cluster_filter.supplier is None:  # each scan reads at most one page of rows
            assert all(entry["Actual Rows"] <= 21 for entry in scans)
            assert all(entry.get("Rows Removed by Filter", 0) == 0 for entry in scans)


def test_cluster_counts_stop_at_the_limit(many_clusters: TenantHarness):
    with many_clusters.database.tenant(many_clusters.tenant_id) as connection:
        counts = clusters.counts(connection, many_clusters.tenant_id)

    assert set(counts.values()) == {clusters.MAX_COUNT + 1}


def plan_nodes(node: dict[str, Any]) -> Any:
    """Yield the nodes of a query plan."""
    yield node
    for part in node.get("Plans", ()):
        yield from plan_nodes(part)
