"""Sample documents and helpers for tests of the document and cluster APIs.

The paths are `/api/admin/documents` and `/api/admin/clusters`.
"""

from counterfoil.db import Connection, Database
from tests.documents.matching.samples import contract, credit, delivery, invoice, line, order
from tests.documents.matching.tenant_harness import TenantHarness
from tests.documents.test_differences import compute
from tests.functions.admin_api.conftest import ApiResponse, CallApi

PATH = "/api/admin/documents"
VIEWER = "[viewer tenant:acme]"
LINES = [line("A-100", "10", "100.00"), line("A-200", "5", "12.50")]
DEARER = [line("A-100", "10", "101.50"), line("A-200", "6", "12.50")]
ORDER, DELIVERY, INVOICE, CONTRACT, CREDIT, OTHER_ORDER = range(6)


def acme(database: Database, admin: Connection) -> TenantHarness:
    """Create tenant acme with a compared cluster, its contract and another order."""
    documents = [
        order("PO-2026-00397", lines=LINES, contract_reference="RV-60"),
        delivery("LS-500", po_reference="PO-2026-00397", lines=LINES),
        invoice("R-81", po_reference="PO-2026-00397", lines=DEARER),
        contract("RV-60"),
        credit("G-900", invoice_reference="R-81", lines=LINES[:1]),
        order("4712", when=40, seller={"name": "Vossberg Papier KG"}),
    ]
    harness = TenantHarness(database, admin, documents)
    harness.match_all()
    compute(harness)
    admin.execute("UPDATE tenant SET slug = 'acme' WHERE id = %s", [harness.tenant_id])
    admin.execute(
        "INSERT INTO ingestion_job (id, tenant_id, created_at, status, revision, attempts)"
        " SELECT id, tenant_id, received_at, 'succeeded', 1, 1 FROM document"
    )
    return harness


def get(call_api: CallApi, path: str = "", *, groups: str = VIEWER, etag: str = "", **query: str) -> ApiResponse:
    """Request documents, with `etag` in If-None-Match if set."""
    headers = {"if-none-match": etag} if etag else None
    return call_api("", method="GET", path=f"{PATH}{path}", groups=groups, query=query, headers=headers)


def listed_ids(response: ApiResponse) -> list[str]:
    """Return the document ids on a page."""
    assert response.status == 200, response.body
    return [document["id"] for document in response.body["documents"]]


def ids(harness: TenantHarness, *positions: int) -> list[str]:
    """Return the ids of the sample documents at these positions."""
    return [str(harness.ids[position]) for position in positions]
