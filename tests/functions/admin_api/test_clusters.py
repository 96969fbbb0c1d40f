"""`/api/admin/clusters/{id}`: a cluster's documents, matches and comparison."""

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.documents import clusters
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.factories import make_document
from tests.functions.admin_api.conftest import ApiResponse, CallApi
from tests.functions.admin_api.samples import CONTRACT, CREDIT, DELIVERY, INVOICE, ORDER, OTHER_ORDER, VIEWER, acme, ids

PATH = "/api/admin/clusters"


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    return acme(database, admin)


def get(call_api: CallApi, id_: object, *, groups: str = VIEWER, etag: str = "", **query: str) -> ApiResponse:
    headers = {"if-none-match": etag} if etag else None
    return call_api("", method="GET", path=f"{PATH}/{id_}", groups=groups, query=query, headers=headers)


def test_cluster_shows_documents_and_match_evidence(call_api: CallApi, harness: TenantHarness) -> None:
    response = get(call_api, harness.ids[ORDER])

    assert response.status == 200, response.body
    body = response.body
    assert [item["id"] for item in body["documents"]] == ids(harness, ORDER, DELIVERY, INVOICE, CREDIT)
    assert (body["id"], body["tenant"], body["documents_total"], body["next_cursor"]) == (
        str(harness.ids[ORDER]),
        "acme",
        4,
        None,
    )
    id_fields = ("document_a_id", "document_b_id")
    pairs = {tuple(harness.ids.index(UUID(edge[field])) for field in id_fields) for edge in body["matches"]}
    assert pairs == {pair for pair in harness.links() if OTHER_ORDER not in pair}
    for edge in body["matches"]:
        assert (edge["decided_by"], edge["confidence"]) == ("rules", "high")
        steps = edge["evidence"]
        assert sum(step["bits"] for step in steps) == pytest.approx(steps[-1]["total"], abs=0.02)
        assert steps[-1]["total"] == pytest.approx(edge["score"], abs=0.02)


def test_contract_is_listed_outside_the_cluster(call_api: CallApi, harness: TenantHarness) -> None:
    body = get(call_api, harness.ids[ORDER]).body

    assert [item["id"] for item in body["contracts"]] == ids(harness, CONTRACT)
    assert get(call_api, harness.ids[CONTRACT]).body["documents_total"] == 1


@pytest.mark.parametrize(("unit", "expected"), [("C62", "piece"), ("KGM", "kg"), ("X9Y", "X9Y"), (None, None)])
def test_line_items_name_their_units(
    call_api: CallApi, harness: TenantHarness, admin: Connection, unit: str | None, expected: str | None
) -> None:
    admin.execute(
        "UPDATE cluster_diagnostics SET result = jsonb_set(result, '{lines,0,unit}', %s::jsonb) "
        "WHERE result IS NOT NULL",
        [Jsonb(unit)],
    )

    line = get(call_api, harness.ids[ORDER]).body["comparison"]["lines"][0]

    assert (line["unit"], line["unit_name"]) == (unit, expected)


def test_cluster_shows_line_items_and_variances(call_api: CallApi, harness: TenantHarness) -> None:
    body = get(call_api, harness.ids[ORDER]).body["comparison"]

    assert body["outcome"] == "exception"
    first = body["lines"][0]
    assert (first["ordered"], first["delivered"], first["billed"], first["price"]) == ("10", "10", "10", "100")
    assert {part["role"] for part in first["parts"]} >= {"ordered", "delivered", "billed"}
    labels = {variance["code"]: variance["label"] for variance in body["variances"]}
    assert labels["price_mismatch"] == "Price difference"
    assert (body["lines_total"], body["variances_total"]) == (len(body["lines"]), len(body["variances"]))


def test_document_id_returns_its_cluster(call_api: CallApi, harness: TenantHarness) -> None:
    assert get(call_api, harness.ids[INVOICE]).body == get(call_api, harness.ids[ORDER]).body


def test_cluster_shows_pending_or_failed_comparison(
    call_api: CallApi, harness: TenantHarness, admin: Connection
) -> None:
    admin.execute("UPDATE cluster_diagnostics SET status = 'pending'")
    assert get(call_api, harness.ids[ORDER]).body["is_computing"]
    admin.execute("UPDATE cluster_diagnostics SET status = 'failed', error = 'It is too large.'")
    body = get(call_api, harness.ids[ORDER]).body
    assert (body["is_computing"], body["error"]) == (False, "It is too large.")


def test_uncompared_cluster_omits_its_comparison(call_api: CallApi, harness: TenantHarness) -> None:
    body = get(call_api, harness.ids[OTHER_ORDER]).body

    assert (body["comparison"], body["computed_at"], body["error"]) == (None, None, None)


def test_unmatched_document_returns_404(call_api: CallApi, harness: TenantHarness, admin: Connection) -> None:
    response = get(call_api, make_document(admin, harness.tenant_id))

    assert (response.status, response.body["detail"]) == (
        404,
        "This document has no cluster, because it has not been matched.",
    )


def test_documents_of_a_cluster_are_paged(call_api: CallApi, harness: TenantHarness) -> None:
    listed: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(4):
        page = get(call_api, harness.ids[ORDER], limit="1", **cursor).body
        (item,) = page["documents"]
        listed.append(item["id"])
        assert page["documents_total"] == 4
        assert all(item["id"] in (edge["document_a_id"], edge["document_b_id"]) for edge in page["matches"])
        cursor = {"cursor": page["next_cursor"]}

    assert listed == ids(harness, ORDER, DELIVERY, INVOICE, CREDIT)
    assert page["next_cursor"] is None


def test_large_cluster_is_truncated(call_api: CallApi, harness: TenantHarness, admin: Connection) -> None:
    """The cluster has too many documents, matches and line items for one response."""
    admin.execute(
        """
        INSERT INTO document (id, tenant_id, source_id, bucket, key, file_name, size, content_hash, received_at,
                              last_duplicate_at, type, cluster_id, structured_data)
        SELECT ('00000000-0000-00ff-0000-' || lpad(to_hex(n), 12, '0'))::uuid, d.tenant_id, d.source_id, 'b', 'k',
               'f', 1, sha256(n::text::bytea), now(), now(), 'invoice', d.cluster_id, d.structured_data
        FROM document d CROSS JOIN generate_series(1, 1000) AS n WHERE d.id = %s
        """,
        [harness.ids[ORDER]],
    )
    admin.execute(
        """
        INSERT INTO document_match (tenant_id, document_a_id, document_b_id, score, confidence, evidence, decided_by,
                                    reasoning, decided_at)
        SELECT %s, %s, id, 12.5, 'high', '{"features": [["number", "exact", 12.5]]}', 'rules', 'Alike', now()
        FROM document WHERE key = 'k'
        """,
        [harness.tenant_id, harness.ids[ORDER]],
    )
    part = {"document": str(uuid4()), "line": "1", "role": "billed", "quantity": "1", "unit_price": "2"}
    row = admin.execute("SELECT result FROM cluster_diagnostics WHERE result IS NOT NULL").fetchone()
    assert row is not None
    result = row[0]
    lines = [{**result["lines"][0], "parts": [part] * 100, "description": "x" * 4000}] * 400
    admin.execute(
        "UPDATE cluster_diagnostics SET result = %s WHERE result IS NOT NULL", [Jsonb({**result, "lines": lines})]
    )

    response = get(call_api, harness.ids[ORDER], limit="100")

    body = response.body
    assert (body["documents_total"], len(body["documents"]), body["next_cursor"] is not None) == (1004, 100, True)
    assert len(body["matches"]) == clusters.MAX_MATCHES < body["matches_total"]
    comparison = body["comparison"]
    assert 0 < len(comparison["lines"]) <= clusters.MAX_LINE_ITEMS < comparison["lines_total"] == 400
    assert (len(comparison["lines"][0]["parts"]), comparison["lines"][0]["parts_total"]) == (clusters.MAX_PARTS, 100)
    assert len(response.text) < 5_000_000


def test_unchanged_cluster_returns_304(call_api: CallApi, harness: TenantHarness, admin: Connection) -> None:
    first = get(call_api, harness.ids[ORDER])
    assert get(call_api, harness.ids[ORDER], etag=first.headers["ETag"]).status == 304
    harness.decide(ORDER, OTHER_ORDER, "confirmed")
    assert get(call_api, harness.ids[ORDER], etag=first.headers["ETag"]).status == 200


def test_cluster_requires_viewer_role_for_tenant(
    call_api: CallApi, harness: TenantHarness, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    foreign = make_document(admin, make_tenant("beta"), type="invoice", received_at=NOW)
    admin.execute("UPDATE document SET cluster_id = id WHERE id = %s", [foreign])

    assert [get(call_api, id_).status for id_ in (foreign, uuid4(), "no-id")] == [404] * 3
    for groups in ("[viewer tenant:beta]", "[tenant:acme]", "[viewer]"):
        assert get(call_api, harness.ids[ORDER], groups=groups).status == 404
    assert get(call_api, foreign, groups="[viewer tenant:*]").status == 200


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "101"}, {"cursor": "zzz"}, {"tenant": "acme"}])
def test_invalid_query_is_rejected(query: dict[str, str], call_api: CallApi, harness: TenantHarness) -> None:
    assert get(call_api, harness.ids[ORDER], **query).status == 422
