"""`GET /api/admin/clusters`: a tenant's clusters by status, with filters, sorts and pages."""

import pytest

from counterfoil.db import Connection, Database
from tests.documents.matching.tenant_harness import Office
from tests.documents.test_differences import compute
from tests.functions.admin_api.conftest import Answer, Ask
from tests.functions.admin_api.samples import INVOICE, ORDER, OTHER_ORDER, VIEWER, acme

PATH = "/api/admin/clusters"


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    office = acme(database, admin)
    compute(office, OTHER_ORDER)
    return office


def get(ask: Ask, *, groups: str = VIEWER, **query: str) -> Answer:
    return ask("", method="GET", path=PATH, groups=groups, query=query)


def listed_ids(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [item["id"] for item in answer.body["clusters"]]


def test_list_shows_clusters_with_status_and_amounts(ask: Ask, office: Office):
    answer = get(ask)

    assert listed_ids(answer) == [str(office.ids[ORDER]), str(office.ids[OTHER_ORDER])]
    first, second = answer.body["clusters"]
    assert (first["status"], first["tenant"], first["order_numbers"]) == ("exception", "acme", ["PO-2026-00397"])
    assert (first["currency"], first["ordered"], first["delivered"], first["documents"]) == (
        "EUR",
        "1062.50",
        "1062.50",
        4,
    )
    assert float(first["at_stake"]) > 0
    assert first["reason"]
    assert (second["status"], second["billed"], second["at_stake"]) == ("needs-review", None, "0.00")
    assert answer.body["next_cursor"] is None
    assert answer.body["counts"] == {
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
def test_list_is_filtered_and_sorted(ask: Ask, office: Office, query: dict[str, str], expected: list[int]):
    assert listed_ids(get(ask, **query)) == [str(office.ids[position]) for position in expected]


@pytest.mark.parametrize("sort", ["oldest", "newest", "amount"])
def test_cursor_returns_the_next_page(ask: Ask, office: Office, sort: str):
    first = get(ask, sort=sort, limit="1")
    second = get(ask, sort=sort, limit="1", cursor=first.body["next_cursor"])

    assert listed_ids(first) + listed_ids(second) == listed_ids(get(ask, sort=sort))
    assert second.body["next_cursor"] is None


def test_cursor_of_another_sort_is_rejected(ask: Ask, office: Office):
    cursor = get(ask, limit="1").body["next_cursor"]

    assert get(ask, sort="amount", cursor=cursor).status == 422
    assert get(ask, cursor="nan|x").status == 422


def test_unknown_status_is_rejected(ask: Ask, office: Office):
    assert get(ask, status="lost").status == 422


def test_each_document_shows_the_status_of_its_cluster(ask: Ask, office: Office):
    answer = ask("", method="GET", path="/api/admin/documents", groups=VIEWER)

    statuses = {item["id"]: item["cluster_status"] for item in answer.body["documents"]}
    assert statuses[str(office.ids[INVOICE])] == "exception"
    assert statuses[str(office.ids[OTHER_ORDER])] == "needs-review"
