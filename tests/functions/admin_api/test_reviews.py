"""`/api/admin/reviews`: the review queue, and decisions."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from tests.delivery.harness import FakeSqs, rows
from tests.documents.matching.samples import invoice, line, order
from tests.documents.matching.tenant_harness import TenantHarness
from tests.documents.matching.test_judge import TWICE
from tests.documents.test_differences import compute
from tests.functions.admin_api.conftest import ApiResponse, CallApi

PATH = "/api/admin/reviews"
PLATFORM_OPERATOR = "[operator tenant:*]"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=2)
    yield database
    database.close()


def ambiguous(database: Database, admin: Connection) -> TenantHarness:
    """Create a tenant whose third document may match either of the first two."""
    harness = TenantHarness(database, admin, TWICE)
    harness.match_all()
    return harness


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    return ambiguous(database, admin)


def slug(harness: TenantHarness) -> str:
    row = harness.admin.execute("SELECT slug FROM tenant WHERE id = %s", [harness.tenant_id]).fetchone()
    assert row is not None
    return str(row[0])


def list_reviews(call_api: CallApi, groups: str = PLATFORM_OPERATOR, **query: str) -> ApiResponse:
    return call_api("", method="GET", path=PATH, groups=groups, query=query)


# Reading


def test_review_shows_candidates_and_evidence(call_api: CallApi, harness: TenantHarness) -> None:
    (review,) = list_reviews(call_api).body["reviews"]

    assert (review["id"], review["tenant"], review["state"]) == (str(harness.ids[2]), slug(harness), "open")
    assert review["document"] | {"number": "R-81", "date": "2026-03-12", "seller": "Tarnow Schrauben AG"} == {
        **review["document"]
    }
    ((ambiguous_match,), probability) = (review["ambiguous_matches"], review["probability"])
    assert [item["document"]["number"] for item in ambiguous_match["candidates"]] == ["4711", "4711"]
    assert probability == max(item["probability"] for item in ambiguous_match["candidates"])
    for candidate in ambiguous_match["candidates"]:
        assert candidate["evidence"][-1]["total"] == pytest.approx(candidate["weight_bits"], abs=0.02)
    assert call_api("", method="GET", path=f"{PATH}/{harness.ids[2]}", groups=PLATFORM_OPERATOR).body == review


def test_missing_facts_are_named(call_api: CallApi, harness: TenantHarness) -> None:
    harness.admin.execute(
        "UPDATE document SET structured_data = structured_data - 'issuer' WHERE id = %s", [harness.ids[2]]
    )
    (review,) = list_reviews(call_api).body["reviews"]
    assert review["document"]["missing"] == ["supplier"]
    assert {*map(str, (item["document"]["missing"] for item in review["ambiguous_matches"][0]["candidates"]))} == {"[]"}


def test_pages_have_no_gaps(call_api: CallApi, database: Database, admin: Connection) -> None:
    expected = [str(ambiguous(database, admin).ids[2]) for _ in range(5)]
    ids, query = [], {"limit": "2"}
    for _ in range(3):
        page = list_reviews(call_api, **query).body
        ids += [item["id"] for item in page["reviews"]]
        query["cursor"] = page["next_cursor"]

    assert (ids, page["next_cursor"]) == (expected, None)


def test_review_queue_is_filtered(
    call_api: CallApi, database: Database, admin: Connection, harness: TenantHarness
) -> None:
    other_tenant = ambiguous(database, admin)

    def count(**query: str) -> int:
        return len(list_reviews(call_api, **query).body["reviews"])

    assert (
        count(),
        count(tenant=slug(other_tenant)),
        count(document_type="invoice"),
        count(document_type="credit_note"),
    ) == (
        2,
        1,
        2,
        0,
    )
    assert (count(min_probability="0.4"), count(min_probability="0.9"), count(max_probability="0.1")) == (2, 0, 0)
    assert (count(state="decided"), count(state="open")) == (0, 2)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"state": "shut"}, "state is invalid: Input should be 'open', 'decided' or 'resolved'"),
        ({"document_type": "letter"}, "document_type is invalid: Input should be 'invoice'"),
        ({"min_probability": "nan"}, "min_probability is invalid"),
        ({"max_probability": "x"}, "max_probability is invalid: Input should be a valid number"),
        ({"max_probability": "1.5"}, "max_probability is invalid: Input should be less than or equal to 1"),
        ({"limit": "0"}, "limit is invalid: Input should be greater than or equal to 1"),
        ({"limit": "٣"}, "limit is invalid"),
        ({"cursor": "zzz"}, "cursor must be"),
        ({"colour": "red"}, "Unknown query parameter: 'colour'"),
    ],
)
def test_invalid_query_is_rejected_with_a_reason(call_api: CallApi, query: dict[str, str], message: str) -> None:
    response = list_reviews(call_api, **query)

    assert (response.status, message in response.body["detail"]) == (422, True)


def test_viewers_see_only_their_tenants(
    call_api: CallApi, database: Database, admin: Connection, harness: TenantHarness
) -> None:
    other_tenant = ambiguous(database, admin)
    viewer = f"[viewer tenant:{slug(harness)}]"

    assert [item["tenant"] for item in list_reviews(call_api, viewer).body["reviews"]] == [slug(harness)]
    assert list_reviews(call_api, viewer, tenant=slug(other_tenant)).status == 403
    assert list_reviews(call_api, "[viewer]").status == 403
    assert list_reviews(call_api, f"[tenant:{slug(harness)}]").status == 403
    foreign = call_api("", method="GET", path=f"{PATH}/{other_tenant.ids[2]}", groups=viewer)
    unknown = call_api("", method="GET", path=f"{PATH}/{uuid4()}", groups=viewer)
    assert (foreign.status, foreign.body) == (unknown.status, unknown.body) == (404, foreign.body)


def test_unambiguous_document_returns_404(call_api: CallApi, harness: TenantHarness) -> None:
    assert call_api("", method="GET", path=f"{PATH}/{harness.ids[0]}", groups=PLATFORM_OPERATOR).status == 404
    assert call_api("", method="GET", path=f"{PATH}/nonsense", groups=PLATFORM_OPERATOR).status == 404


# Deciding


def test_operator_confirms_a_candidate(call_api: CallApi, harness: TenantHarness) -> None:
    body = {"document": str(harness.ids[1]), "reason": "The goods came on that day."}

    response = call_api(body, path=f"{PATH}/{harness.ids[2]}/confirm", groups=PLATFORM_OPERATOR)

    assert (response.status, response.body["verdict"], harness.links()) == (200, "confirmed", {(1, 2)})
    details = call_api("", method="GET", path=f"{PATH}/{harness.ids[2]}", groups=PLATFORM_OPERATOR).body
    ((decision,), state) = (details["decisions"], details["state"])
    assert (state, decision["verdict"], decision["reason"]) == ("decided", "confirmed", body["reason"])
    assert decision["by"] == "b1a2c3d4-0000-4000-8000-1234567890ab"
    assert decision["document"]["id"] == str(harness.ids[1])
    assert decision["document"]["number"] is not None


def test_decision_without_json_content_type_succeeds(call_api: CallApi, harness: TenantHarness) -> None:
    body = json.dumps({"document": str(harness.ids[0])}).encode()
    assert call_api(body, path=f"{PATH}/{harness.ids[2]}/confirm", groups=PLATFORM_OPERATOR).status == 200


def test_conflicting_decision_must_override_the_first(call_api: CallApi, harness: TenantHarness) -> None:
    path, body = f"{PATH}/{harness.ids[2]}", {"document": str(harness.ids[1])}
    call_api(body, path=f"{path}/confirm", groups=PLATFORM_OPERATOR)

    conflicting = {"documents": [str(harness.ids[1])]}
    response = call_api(conflicting, path=f"{path}/reject", groups=PLATFORM_OPERATOR)
    assert (response.status, harness.links()) == (409, {(1, 2)})
    assert "confirmed this pair" in response.body["detail"]
    decision = response.body["decision"]
    repeated = call_api(body, path=f"{path}/confirm", groups=PLATFORM_OPERATOR)
    assert (repeated.status, repeated.body["decision"]) == (409, decision)

    (stored,) = call_api("", method="GET", path=path, groups=PLATFORM_OPERATOR).body["decisions"]
    assert stored | decision == stored
    superseding = call_api(
        conflicting | {"overrides": [decision["id"]]}, path=f"{path}/reject", groups=PLATFORM_OPERATOR
    )
    assert (superseding.status, harness.links()) == (200, {(0, 2)})


def test_all_candidates_can_be_rejected_together(call_api: CallApi, harness: TenantHarness) -> None:
    body = {"documents": [str(harness.ids[0]), str(harness.ids[1])]}

    response = call_api(body, path=f"{PATH}/{harness.ids[2]}/reject", groups=PLATFORM_OPERATOR)

    assert (response.status, len(response.body["decided"]), harness.links(), harness.reviews()) == (200, 2, set(), {})


def test_clusters_are_merged_and_split(call_api: CallApi, harness: TenantHarness) -> None:
    merged = {"documents": [str(harness.ids[0]), str(harness.ids[2])]}
    assert call_api(merged, path=f"{PATH}/merge", groups=PLATFORM_OPERATOR).status == 200
    assert harness.clusters() == [0, 1, 0]
    assert call_api(merged, path=f"{PATH}/merge", groups=PLATFORM_OPERATOR).status == 409
    decision_ids = [id_ for (id_,) in harness.admin.execute("SELECT id FROM match_decision").fetchall()]
    split_body = {"document": str(harness.ids[2]), "overrides": decision_ids}
    assert call_api({"document": str(harness.ids[2])}, path=f"{PATH}/split", groups=PLATFORM_OPERATOR).status == 409
    assert call_api(split_body, path=f"{PATH}/split", groups=PLATFORM_OPERATOR).status == 200
    assert harness.clusters()[0] == 0 != harness.clusters()[2]


@pytest.mark.parametrize("act", ["confirm", "reject"])
def test_decisions_require_operator_role_for_tenant(call_api: CallApi, harness: TenantHarness, act: str) -> None:
    body = {"document": str(harness.ids[1])} if act == "confirm" else {"documents": [str(harness.ids[1])]}
    path = f"{PATH}/{harness.ids[2]}/{act}"

    assert call_api(body, path=path, groups=f"[viewer tenant:{slug(harness)}]").status == 403
    assert call_api(body, path=path, groups="[operator tenant:other]").status == 404
    assert (harness.links(), harness.reviews()) == (set(), {2: [[0, 1]]})


def test_unknown_document_returns_404_and_unrelated_returns_409(call_api: CallApi, harness: TenantHarness) -> None:
    harness.match(harness.file(order("9", 300, seller={"name": "Far"})))
    path = f"{PATH}/{harness.ids[2]}/confirm"

    assert call_api({"document": str(uuid4())}, path=path, groups=PLATFORM_OPERATOR).status == 404
    assert call_api({"document": str(harness.ids[3])}, path=path, groups=PLATFORM_OPERATOR).status == 409
    assert call_api({"document": str(harness.ids[2])}, path=path, groups=PLATFORM_OPERATOR).status == 409


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "invalid at document"),
        ({"document": "x"}, "invalid at document"),
        ({"document": str(uuid4()), "reason": ""}, "invalid at reason"),
        ({"document": str(uuid4()), "reason": "a\x00b"}, "invalid at reason"),
        ({"document": str(uuid4()), "overrides": ["one"]}, "invalid at overrides"),
        ({"document": str(uuid4()), "force": True}, "invalid at a field"),
    ],
)
def test_invalid_decision_is_rejected_with_a_reason(
    call_api: CallApi, harness: TenantHarness, body: object, message: str
) -> None:
    response = call_api(body, path=f"{PATH}/{harness.ids[2]}/confirm", groups=PLATFORM_OPERATOR)

    assert (response.status, message in response.body["detail"]) == (422, True)


@pytest.mark.parametrize("body", ["", "{", "1", "null", b"\xff", '{"document": NaN}', "[" * 100_000])
def test_decision_must_be_a_json_object(call_api: CallApi, harness: TenantHarness, body: object) -> None:
    response = call_api(body, path=f"{PATH}/{harness.ids[2]}/confirm", groups=PLATFORM_OPERATOR)

    assert (response.status, response.body["detail"]) == (400, "The body must be a JSON object.")


# Variances


@pytest.fixture
def price_difference(database: Database, admin: Connection) -> TenantHarness:
    """A tenant with a price difference of 1.5 percent."""
    documents = [
        order(lines=[line("A-1", price="100.00")]),
        invoice(po_reference="4711", lines=[line("A-1", price="101.50")]),
    ]
    harness = TenantHarness(database, admin, documents)
    harness.match_all()
    compute(harness)
    return harness


def difference(harness: TenantHarness, **overrides: object) -> str:
    """Return the body of a decision about the price difference."""
    ids = {"cluster": str(harness.ids[0]), "document": str(harness.ids[1])}
    figures = {"code": "price_mismatch", "line": "1", "expected": "100.00", "actual": "101.5", "reason": "freight"}
    return json.dumps(ids | figures | overrides)


def decide(call_api: CallApi, action: str, body: str, groups: str = PLATFORM_OPERATOR) -> ApiResponse:
    return call_api(body, path=f"/api/admin/variances/{action}", groups=groups)


def test_price_difference_is_accepted_with_current_figures(call_api: CallApi, price_difference: TenantHarness) -> None:
    response = decide(call_api, "accept", difference(price_difference))
    assert (response.status, response.body["verdict"]) == (200, "accepted")
    assert response.body["differences"][0].startswith("Invoice R-81, line item 1: “Bolt A-1” is billed at 101.50 EUR")
    (price,) = [item for item in compute(price_difference)["variances"] if item["code"] == "price_mismatch"]
    assert price["decided_by"].endswith(": freight.")


@pytest.mark.parametrize("action", ["accept", "dispute"])
def test_variance_decision_sends_the_diagnostics_message(
    call_api: CallApi, queue: FakeSqs, price_difference: TenantHarness, action: str
) -> None:
    assert decide(call_api, action, difference(price_difference)).status == 200

    assert list(queue.sent) == ["counterfoil-diagnostics"]
    assert rows(price_difference.admin, "outbox")[-1]["sent_at"] is not None


@pytest.mark.parametrize(
    "overrides", [{"actual": "101.6"}, {"expected": "99"}, {"line": None}, {"code": "total_mismatch"}]
)
def test_decision_with_outdated_figures_returns_409(
    call_api: CallApi, price_difference: TenantHarness, overrides: dict[str, object]
) -> None:
    response = decide(call_api, "accept", difference(price_difference, **overrides))
    assert (response.status, response.body["detail"]) == (409, "The cluster has no such difference.")


def test_second_variance_decision_must_override_the_first(call_api: CallApi, price_difference: TenantHarness) -> None:
    decide(call_api, "accept", difference(price_difference))
    response = decide(call_api, "dispute", difference(price_difference))
    assert response.status == 409
    earlier = response.body["decision"]
    assert (earlier["verdict"], earlier["by"]) == ("accepted", "b1a2c3d4-0000-4000-8000-1234567890ab")
    response = decide(call_api, "dispute", difference(price_difference, overrides=[earlier["id"]]))
    assert response.body["verdict"] == "disputed"


def test_open_differences_of_a_cluster_are_accepted_together(
    call_api: CallApi, price_difference: TenantHarness
) -> None:
    every = {"document": None, "code": None, "line": None, "expected": None, "actual": None}
    response = decide(call_api, "accept", difference(price_difference, **every))
    assert (response.status, len(response.body["differences"])) == (200, 1)
    assert "there is no delivery note or goods receipt" in response.body["open"][0]
    rejection = decide(call_api, "dispute", difference(price_difference, **every))
    assert rejection.status == 409
    assert (
        decide(call_api, "dispute", difference(price_difference, **every, overrides=None)).body["verdict"] == "disputed"
    )


def test_variance_decisions_require_operator_role_for_tenant(
    call_api: CallApi, price_difference: TenantHarness
) -> None:
    assert (
        decide(call_api, "accept", difference(price_difference), f"[viewer tenant:{slug(price_difference)}]").status
        == 403
    )
    assert decide(call_api, "accept", difference(price_difference), "[operator tenant:other]").status == 404
    assert price_difference.admin.execute("SELECT count(*) FROM variance_decision").fetchone() == (0,)


@pytest.mark.parametrize(
    "overrides",
    [{"code": "prices"}, {"actual": "NaN"}, {"actual": None}, {"actual": "1e999999"}, {"reason": "a\nb"}, {"more": 1}],
)
def test_invalid_variance_decision_is_rejected(
    call_api: CallApi, price_difference: TenantHarness, overrides: dict[str, object]
) -> None:
    response = decide(call_api, "accept", difference(price_difference, **overrides))
    assert response.status == 422
    assert "\\x" not in response.body["detail"]


def test_invalid_tenant_is_rejected(call_api: CallApi, harness: TenantHarness) -> None:
    assert harness.ids
    assert list_reviews(call_api, tenant="\x00").status == 422
