"""`DELETE /api/admin/documents/{id}` and `/api/admin/tenants/{tenant}`: erasure.

Erasing a document requires the admin role for its tenant. Erasing a tenant requires the admin role for all tenants. A
request without `confirm` returns a preview, whose ETag is the number of documents. The second request has the tenant's
slug in `confirm` and the ETag in `If-Match`. It fails if the number of documents has changed.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Header, Query
from pydantic import BaseModel, Field

from counterfoil import tenant_erasure
from counterfoil.db import retry_on_conflict
from counterfoil.documents import erasure
from counterfoil.documents.erasure import Erasure
from counterfoil.errors import RejectedRequestError, VersionConflictError
from counterfoil.tenant_erasure import TenantErasure
from counterfoil.validation import PrintableText
from functions.admin_api.api.documents import NO_DOCUMENT
from functions.admin_api.auth import ALL_TENANTS, Request, Role
from functions.admin_api.endpoint import VERSIONED, Id, Routes, TenantPath, json_response
from functions.admin_api.http import NotFoundError, etag, required_version, responses

routes = Routes()

NO_TENANT = "There is no such tenant."
NO_ERASURE = "No tenant with this slug was erased within the last 15 days."


class ErasurePlan(BaseModel):
    """Preview of an erasure."""

    tenant: str
    documents: int = Field(description="Number of documents to erase. It is also the ETag of this preview.")
    tasks: int | None = Field(description="Number of tasks; null when erasing a document.")
    dead_letters: int | None = Field(description="Number of dead letters; null when erasing a document.")
    confirm: str = Field(description="Value for the parameter `confirm`, which starts the erasure.")


class ErasedDocument(BaseModel):
    """An erased document. Its files are erased within a minute."""

    tenant: str
    documents: list[UUID] = Field(description="The document and the parts extracted from it.")
    retained_documents: list[UUID] = Field(description="Parts that another file also contains. They are not erased.")
    rematched: int = Field(description="Number of other documents that are matched again.")
    files: int = Field(description="Number of uploads and emails that are erased.")
    retained_files: int = Field(description="Number of uploads and emails that are retained for other documents.")


class TenantErasureStatus(BaseModel):
    """Progress of a tenant's erasure."""

    tenant: str
    requested_at: datetime
    rows: int = Field(description="Rows deleted so far.")
    objects: int = Field(description="S3 object versions erased so far.")
    finished_at: datetime | None


@dataclass(frozen=True)
class Confirmation:
    """The caller's confirmation of an erasure."""

    confirm: str | None
    """The tenant's slug, as the caller typed it."""
    if_match: str | None
    """If-Match: the number of documents in the preview."""

    def check(self, slug: str, count: int) -> None:
        """Check that `confirm` is `slug`, and that the preview showed `count` documents.

        Raises:
            RejectedRequestError: `confirm` is not the tenant's slug.
            PreconditionRequiredError, VersionConflictError: If-Match is missing, or has a different number.
        """
        if self.confirm != slug:
            raise RejectedRequestError("`confirm` must be the tenant's slug.")
        expected = required_version(self.if_match)
        if expected != count:
            raise VersionConflictError(
                "Nothing was erased: the number of documents has changed since the preview, from "
                f"{expected:,} to {count:,}."
            )


Confirm = Annotated[
    str | None,
    Query(
        max_length=63,
        description="The tenant's slug. If it is omitted, the response is a preview and nothing is erased.",
    ),
]
PlanIfMatch = Annotated[
    str | None, Header(alias="If-Match", description="ETag of the preview. Required with `confirm`.")
]
_FAILURES = (404, 412, 413, 422, 428, 429)
_DOCUMENT_RESPONSES = responses({200: (ErasurePlan | ErasedDocument, "The preview, or the result.")}, *_FAILURES)
_DOCUMENT_RESPONSES[200]["headers"] = VERSIONED
_TENANT_RESPONSES = responses(
    {
        200: (ErasurePlan, "The preview."),
        202: (TenantErasureStatus, "The erasure was accepted and continues in the background."),
    },
    *_FAILURES,
)
_TENANT_RESPONSES[200]["headers"] = VERSIONED


def _plan_response(plan: ErasurePlan) -> Response[Any]:
    return json_response(200, plan, {"ETag": etag(plan.documents), "Cache-Control": "no-store"})


_CURRENT_OR_DELETED = (
    "(SELECT id, tenant_id FROM document UNION ALL SELECT document_id, tenant_id FROM document_deletion)"
)
_COUNT_DOCUMENTS = """
SELECT count(*) FROM (
    SELECT FROM document WHERE id = %(id)s OR parent_id = %(id)s
    UNION ALL
    SELECT FROM document_deletion WHERE (document_id = %(id)s OR parent_id = %(id)s) AND file_name <> '(erased)'
) AS document
"""


@routes.delete(
    "/api/admin/documents/<document_id>", summary="Erase a document", tags=["documents"], responses=_DOCUMENT_RESPONSES
)
def erase_document(
    request: Request,
    document_id: Id,
    confirm: Confirm = None,
    reason: Annotated[
        PrintableText | None,
        Query(min_length=1, max_length=2000, description="Reason. Only its hash is stored, in the audit trail."),
    ] = None,
    if_match: PlanIfMatch = None,
) -> Response[ErasurePlan | ErasedDocument]:
    """Erase a document, its parts, and its files that no other document needs.

    All versions of these files are erased. Send the request twice: first without `confirm`, then with `confirm` and the
    ETag of the preview.
    """
    confirmation = Confirmation(confirm, if_match)
    tenant_id, slug, id_ = request.owned(document_id, _CURRENT_OR_DELETED, NO_DOCUMENT)
    request.admit("Erasing a document", slug, tenant_id, role=Role.ADMIN)
    actor = request.caller.require_subject()

    def plan_or_erase() -> ErasurePlan | Erasure | None:
        with request.database.tenant(tenant_id) as connection:
            ((count,),) = connection.execute(_COUNT_DOCUMENTS, {"id": id_}).fetchall()
            if count == 0:
                return None
            if confirmation.confirm is None:
                return ErasurePlan(tenant=slug, documents=count, tasks=None, dead_letters=None, confirm=slug)
            confirmation.check(slug, count)
            return erasure.erase(connection, tenant_id, id_, request.now, by=actor, reason=reason)

    result = retry_on_conflict(plan_or_erase)
    if result is None:
        raise NotFoundError(NO_DOCUMENT)
    if isinstance(result, ErasurePlan):
        return _plan_response(result)
    erased = ErasedDocument(
        tenant=slug,
        documents=list(result.removal.documents),
        retained_documents=list(result.removal.reassigned),
        rematched=result.removal.rematched,
        files=result.files,
        retained_files=result.retained_files,
    )
    return json_response(200, erased)


_TENANT_ID = "SELECT id FROM tenant WHERE slug = %s"
_COUNTS = """
SELECT (SELECT count(*) FROM document WHERE tenant_id = %(id)s), (SELECT count(*) FROM task WHERE tenant_id = %(id)s),
       (SELECT count(*) FROM dead_letter WHERE tenant_id = %(id)s)
"""


@routes.delete("/api/admin/tenants/<tenant>", summary="Erase a tenant", tags=["about"], responses=_TENANT_RESPONSES)
def erase_tenant(
    request: Request, tenant: TenantPath, confirm: Confirm = None, if_match: PlanIfMatch = None
) -> Response[ErasurePlan | TenantErasureStatus]:
    """Erase a tenant: all rows and all versions of all S3 objects.

    This cannot be undone.

    Send the request twice: first without `confirm`, then with `confirm` and the ETag of the preview.
    """
    confirmation = Confirmation(confirm, if_match)
    request.admit_for_all("Erasing a tenant")

    def plan_or_request() -> ErasurePlan | TenantErasure | None:
        with request.database.delivery() as connection:
            row = connection.execute(_TENANT_ID, [tenant]).fetchone()
            if row is None:
                return None
            ((documents, tasks, dead_letters),) = connection.execute(_COUNTS, {"id": row[0]}).fetchall()
            if confirmation.confirm is None:
                return ErasurePlan(
                    tenant=tenant, documents=documents, tasks=tasks, dead_letters=dead_letters, confirm=tenant
                )
            confirmation.check(tenant, documents)
            return tenant_erasure.request(connection, tenant, request.now, by=request.caller.subject)

    result = retry_on_conflict(plan_or_request)
    if result is None:
        raise NotFoundError(NO_TENANT)
    return _plan_response(result) if isinstance(result, ErasurePlan) else json_response(202, _status(tenant, result))


@routes.get(
    "/api/admin/tenants/<tenant>/erasure",
    summary="Show a tenant's erasure",
    tags=["about"],
    responses=responses({200: (TenantErasureStatus, "The progress of the erasure.")}, 404, 422),
)
def show_tenant_erasure(request: Request, tenant: TenantPath) -> TenantErasureStatus:
    """Return the progress of a tenant's erasure.

    The progress is available for 15 days after the erasure has finished.
    """
    request.check(Role.ADMIN, ALL_TENANTS, "Showing an erasure")
    with request.database.delivery() as connection:
        progress = tenant_erasure.find(connection, tenant)
    if progress is None:
        raise NotFoundError(NO_ERASURE)
    return _status(tenant, progress)


def _status(slug: str, progress: TenantErasure) -> TenantErasureStatus:
    return TenantErasureStatus.model_validate({"tenant": slug, **vars(progress)})
