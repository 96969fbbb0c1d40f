"""Routes that erase documents and tenants."""

from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Header, Path, Query

from counterfoil.validation import PrintableText
from functions.admin_api import erasing
from functions.admin_api.auth import Request, TenantSlug
from functions.admin_api.endpoint import VERSIONED, Id, Routes, answer
from functions.admin_api.erasing import Confirmation
from functions.admin_api.http import etag, responses

routes = Routes()

Tenant = Annotated[TenantSlug, Path(description="The tenant's slug.")]
Confirm = Annotated[
    str | None,
    Query(max_length=63, description="The tenant's slug. Without it, nothing is erased and a preview is returned."),
]
Condition = Annotated[
    str | None,
    Header(alias="If-Match", description="The ETag of the preview; required with `confirm`."),
]
_FAILURES = (404, 412, 413, 422, 428, 429)
_DOCUMENT = responses({200: (erasing.ErasurePlan | erasing.ErasedDocument, "The preview, or the result.")}, *_FAILURES)
_DOCUMENT[200]["headers"] = VERSIONED
_TENANT = responses(
    {
        200: (erasing.ErasurePlan, "The preview."),
        202: (erasing.TenantErasureStatus, "The erasure is stored. The watchdog carries it out."),
    },
    *_FAILURES,
)
_TENANT[200]["headers"] = VERSIONED


@routes.delete(
    "/api/admin/documents/<document_id>", summary="Erase a document", tags=["documents"], responses=_DOCUMENT
)
def erase_document(
    request: Request,
    document_id: Id,
    confirm: Confirm = None,
    reason: Annotated[
        PrintableText | None,
        Query(min_length=1, max_length=2000, description="Only its hash is stored, in the audit trail."),
    ] = None,
    condition: Condition = None,
) -> Response[erasing.ErasurePlan | erasing.ErasedDocument]:
    """Erase a document, its parts and every version of its files that no other document needs.

    The request is made twice: without `confirm`, and then with it and the ETag of the preview.
    """
    done = erasing.erase_document(document_id, Confirmation(confirm, condition, reason), request)
    return _planned(done) if isinstance(done, erasing.ErasurePlan) else answer(200, done)


@routes.delete("/api/admin/tenants/<tenant>", summary="Erase a tenant", tags=["about"], responses=_TENANT)
def erase_tenant(
    request: Request, tenant: Tenant, confirm: Confirm = None, condition: Condition = None
) -> Response[erasing.ErasurePlan | erasing.TenantErasureStatus]:
    """Erase a tenant: every row and every version of every object. It cannot be undone.

    The request is made twice: without `confirm`, and then with it and the ETag of the preview.
    """
    done = erasing.erase_tenant(tenant, Confirmation(confirm, condition), request)
    return _planned(done) if isinstance(done, erasing.ErasurePlan) else answer(202, done)


@routes.get(
    "/api/admin/tenants/<tenant>/erasure",
    summary="Show the erasure of a tenant",
    tags=["about"],
    responses=responses({200: (erasing.TenantErasureStatus, "Its progress.")}, 404, 422),
)
def show_tenant_erasure(request: Request, tenant: Tenant) -> Response[erasing.TenantErasureStatus]:
    """Return the progress of an erasure, until 15 days after it has finished."""
    return answer(200, erasing.tenant_erasure_status(tenant, request))


def _planned(plan: erasing.ErasurePlan) -> Response[Any]:
    return answer(200, plan, {"ETag": etag(plan.documents), "Cache-Control": "no-store"})
