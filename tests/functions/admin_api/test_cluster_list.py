"""`GET /api/admin/clusters`: clusters by status, with filters, sorts and pages."""

import pytest

from counterfoil.db import Connection, Database
from tests.documents.matching.tenant_harness import TenantHarness
from tests.documents.test_differences import compute
from tests.functions.admin_api.conftest import ApiResponse, CallApi
from tests.functions.admin_api.samples import INVOICE, ORDER, OTHER_ORDER, VIEWER, acme

PATH = "/api/admin/clusters"


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    harness = acme(database, admin)
    compute(harness, OTHER_ORDER)
    return harness


def get(call_api: CallApi, *, groups: str = VIEWER, **query: str) -> ApiResponse:
    return call_api("", method="GET", path=PATH, groups=groups, query=query)


def listed_ids(response: ApiResponse) -> list[str]:
    assert response.status == 200, response.body
    return [item["id"] for item in response.body["clusters"]]


def test_list_shows_clusters_with_status_and_amounts(call_api: CallApi, harness: TenantHarness):
    response = get(call_api)

    assert listed_ids(response) == [str(harness.ids[ORDER]), str(harness.ids[OTHER_ORDER])]
    first, second = response.body["clusters"]
    assert (first["status"], first["tenant"], first["order_numbers"]) == ("exception", "acme", ["PO-2026-00397"])
    assert (first["currency"], first["ordered"], first["delivered"], first["documents"]) == (
        "EUR",
        "1062.50",
        "1062.50",
        4,
    )
    assert float(first["affected"]) > 0
    assert first["reason"]
    assert (second["status"], second["billed"], second["affected"]) == ("needs-review", None, "0.00")
    assert response.body["next_cursor"] is None
    assert response.body["counts"] == {
        "exception": 1,
        "needs-review": 1,
        "disputed": 0,
        "incomplete": 0,
        "accepted": 0,
        "matched": 0,
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"status": "exception"}, [ORDER]),
        ({"status": "open"}, [ORDER, OTHER_ORDER]),
        ({"status": "matched"}, []),
        ({"supplier": "vossberg"}, [OTHER_ORDER]),
        ({"number": "R-81"}, [ORDER]),
        ({"sort": "newest"}, [OTHER_ORDER, ORDER]),
        ({"sort": "amount"}, [ORDER, OTHER_ORDER]),
    ],
)
def test_list_is_filtered_and_sorted(
    call_api: CallApi, harness: TenantHarness, query: dict[str, str], expected: list[int]
):
    assert listed_ids(get(call_api, **query)) == [str(harness.ids[position]) for position in expected]


@pytest.mark.parametrize("sort", ["oldest", "newest", "amount"])
def test_cursor_returns_the_next_page(call_api: CallApi, harness: TenantHarness, sort: str):
    first = get(call_api, sort=sort, limit="1")
    second = get(call_api, sort=sort, limit="1", cursor=first.body["next_cursor"])

    assert listed_ids(first) + listed_ids(second) == listed_ids(get(call_api, sort=sort))
    assert second.body["next_cursor"] is None


def test_cursor_from_another_sort_is_rejected(call_api: CallApi, harness: TenantHarness):
    cursor = get(call_api, limit="1").body["next_cursor"]

    assert get(call_api, sort="amount", cursor=cursor).status == 422
    assert get(call_api, cursor="nan|x").status == 422


def test_unknown_status_is_rejected(call_api: CallApi, harness: TenantHarness):
    assert get(call_api, status="lost").status == 422


def test_each_document_shows_the_status_of_its_cluster(call_api: CallApi, harness: TenantHarness):
    response = call_api("", method="GET", path="/api/admin/documents", groups=VIEWER)

    statuses = {item["id"]: item["cluster_status"] for item in response.body["documents"]}
    assert statuses[str(harness.ids[INVOICE])] == "exception"
    assert statuses[str(harness.ids[OTHER_ORDER])] == "needs-review"


def test_error_names_the_missing_role(call_api: CallApi, harness: TenantHarness):
    response = get(call_api, groups="[tenant:acme]")

    assert response.status == 403
    assert response.body["detail"] == "You need the viewer role for this tenant. Ask an admin."
