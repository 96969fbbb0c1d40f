"""`/api/admin/clusters`: what belongs together, why, and how it compares, for those who may see it."""

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.documents import clusters
from tests.documents.matching.office import NOW, Office
from tests.factories import make_document
from tests.functions.admin_api.conftest import Answer, Ask
from tests.functions.admin_api.papers import CONTRACT, CREDIT, DELIVERY, INVOICE, ORDER, OTHER_ORDER, VIEWER, acme, ids

PATH = "/api/admin/clusters"


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    return acme(database, admin)


def get(ask: Ask, id_: object, *, groups: str = VIEWER, known: str = "", **query: str) -> Answer:
    headers = {"if-none-match": known} if known else None
    return ask("", method="GET", path=f"{PATH}/{id_}", groups=groups, query=query, headers=headers)


def test_a_cluster_shows_its_documents_and_why_they_belong_together(ask: Ask, office: Office) -> None:
    answer = get(ask, office.ids[ORDER])

    assert answer.status == 200, answer.body
    told = answer.body
    assert [one["id"] for one in told["documents"]] == ids(office, ORDER, DELIVERY, INVOICE, CREDIT)
    assert (told["id"], told["tenant"], told["documents_total"], told["next"]) == (
        str(office.ids[ORDER]),
        "acme",
        4,
        None,
    )
    ends = ("document_a_id", "document_b_id")
    pairs = {tuple(office.ids.index(UUID(edge[end])) for end in ends) for edge in told["edges"]}
    assert pairs == {pair for pair in office.links() if OTHER_ORDER not in pair}
    for edge in told["edges"]:
        assert (edge["decided_by"], edge["confidence"]) == ("rules", "high")
        steps = edge["evidence"]
        assert sum(step["bits"] for step in steps) == pytest.approx(steps[-1]["total"], abs=0.02)
        assert steps[-1]["total"] == pytest.approx(edge["score"], abs=0.02)


def test_a_contract_is_shown_beside_the_cluster(ask: Ask, office: Office) -> None:
    told = get(ask, office.ids[ORDER]).body

    assert [one["id"] for one in told["contracts"]] == ids(office, CONTRACT)
    assert get(ask, office.ids[CONTRACT]).body["documents_total"] == 1


def test_a_cluster_shows_its_lines_side_by_side_and_what_differs(ask: Ask, office: Office) -> None:
    told = get(ask, office.ids[ORDER]).body["comparison"]

    assert told["outcome"] == "exception"
    first = told["lines"][0]
    assert (first["ordered"], first["delivered"], first["billed"], first["price"]) == ("10", "10", "10", "100")
    assert {part["role"] for part in first["parts"]} >= {"ordered", "delivered", "billed"}
    assert "price_mismatch" in {variance["code"] for variance in told["variances"]}
    assert (told["lines_total"], told["variances_total"]) == (len(told["lines"]), len(told["variances"]))


def test_any_document_leads_to_its_cluster(ask: Ask, office: Office) -> None:
    assert get(ask, office.ids[INVOICE]).body == get(ask, office.ids[ORDER]).body


def test_a_cluster_that_changed_says_so(ask: Ask, office: Office, admin: Connection) -> None:
    admin.execute("UPDATE cluster_diagnostics SET status = 'pending'")
    assert get(ask, office.ids[ORDER]).body["is_being_computed"]
    admin.execute("UPDATE cluster_diagnostics SET status = 'failed', error = 'It is too large.'")
    told = get(ask, office.ids[ORDER]).body
    assert (told["is_being_computed"], told["error"]) == (False, "It is too large.")


def test_a_cluster_that_was_not_computed_has_no_comparison(ask: Ask, office: Office) -> None:
    told = get(ask, office.ids[OTHER_ORDER]).body

    assert (told["comparison"], told["computed_at"], told["error"]) == (None, None, None)


def test_a_document_that_was_not_matched_is_in_no_cluster(ask: Ask, office: Office, admin: Connection) -> None:
    answer = get(ask, make_document(admin, office.tenant_id))

    assert (answer.status, answer.body["detail"]) == (
        404,
        "This document has no cluster, because it has not been matched.",
    )


def test_pages_of_a_cluster_follow_one_another(ask: Ask, office: Office) -> None:
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(4):
        page = get(ask, office.ids[ORDER], limit="1", **cursor).body
        (one,) = page["documents"]
        seen.append(one["id"])
        assert page["documents_total"] == 4
        assert all(one["id"] in (edge["document_a_id"], edge["document_b_id"]) for edge in page["edges"])
        cursor = {"cursor": page["next"]}

    assert seen == ids(office, ORDER, DELIVERY, INVOICE, CREDIT)
    assert page["next"] is None


def test_large_cluster_is_cut_to_the_size_of_an_answer(ask: Ask, office: Office, admin: Connection) -> None:
    """A thousand documents with a thousand matches, and more lines and parts than an answer holds."""
    admin.execute(
        """
        INSERT INTO document (id, tenant_id, source_id, bucket, key, file_name, size, content_hash, received_at,
                              last_seen_at, type, cluster_id, structured_data)
        SELECT ('00000000-0000-00ff-0000-' || lpad(to_hex(n), 12, '0'))::uuid, d.tenant_id, d.source_id, 'b', 'k',
               'f', 1, sha256(n::text::bytea), now(), now(), 'invoice', d.cluster_id, d.structured_data
        FROM document d CROSS JOIN generate_series(1, 1000) AS n WHERE d.id = %s
        """,
        [office.ids[ORDER]],
    )
    admin.execute(
        """
        INSERT INTO document_match (tenant_id, document_a_id, document_b_id, score, confidence, evidence, decided_by,
                                    reasoning, decided_at)
        SELECT %s, %s, id, 12.5, 'high', '{"features": [["number", "exact", 12.5]]}', 'rules', 'Alike', now()
        FROM document WHERE key = 'k'
        """,
        [office.tenant_id, office.ids[ORDER]],
    )
    part = {"document": str(uuid4()), "line": "1", "role": "billed", "quantity": "1", "unit_price": "2"}
    row = admin.execute("SELECT result FROM cluster_diagnostics WHERE result IS NOT NULL").fetchone()
    assert row is not None
    result = row[0]
    lines = [{**result["lines"][0], "parts": [part] * 100, "description": "x" * 4000}] * 400
    admin.execute(
        "UPDATE cluster_diagnostics SET result = %s WHERE result IS NOT NULL", [Jsonb({**result, "lines": lines})]
    )

    answer = get(ask, office.ids[ORDER], limit="100")

    told = answer.body
    assert (told["documents_total"], len(told["documents"]), told["next"] is not None) == (1004, 100, True)
    assert len(told["edges"]) == clusters.MOST_EDGES < told["edges_total"]
    compared = told["comparison"]
    assert 0 < len(compared["lines"]) <= clusters.MOST_LINES < compared["lines_total"] == 400
    assert (len(compared["lines"][0]["parts"]), compared["lines"][0]["parts_total"]) == (clusters.MOST_PARTS, 100)
    assert len(answer.text) < 5_000_000


def test_who_has_a_cluster_already_is_told_so(ask: Ask, office: Office, admin: Connection) -> None:
    first = get(ask, office.ids[ORDER])
    assert get(ask, office.ids[ORDER], known=first.headers["ETag"]).status == 304
    office.decide(ORDER, OTHER_ORDER, "confirmed")
    assert get(ask, office.ids[ORDER], known=first.headers["ETag"]).status == 200


def test_only_a_viewer_of_the_tenant_may_look(
    ask: Ask, office: Office, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    theirs = make_document(admin, make_tenant("beta"), type="invoice", received_at=NOW)
    admin.execute("UPDATE document SET cluster_id = id WHERE id = %s", [theirs])

    assert [get(ask, id_).status for id_ in (theirs, uuid4(), "no-id")] == [404] * 3
    for groups in ("[viewer tenant:beta]", "[tenant:acme]", "[viewer]"):
        assert get(ask, office.ids[ORDER], groups=groups).status == 404
    assert get(ask, theirs, groups="[viewer tenant:*]").status == 200


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "101"}, {"cursor": "zzz"}, {"tenant": "acme"}])
def test_what_cannot_be_meant_is_refused(query: dict[str, str], ask: Ask, office: Office) -> None:
    assert get(ask, office.ids[ORDER], **query).status == 422
