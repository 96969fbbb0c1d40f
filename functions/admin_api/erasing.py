"""Erasure over HTTP: a document with its files, or a tenant with all of its data.

Both require the admin role: the tenant's for a document, that of all tenants for a tenant. A request without
`confirm` returns a preview, whose ETag is the number of documents. The second request confirms the tenant's slug, and
names that ETag in If-Match. So nothing is erased that was not shown.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, Field

from counterfoil import tenant_erasure
from counterfoil.db import Connection, retry_conflicts
from counterfoil.documents import erasure
from counterfoil.documents.erasure import Erasure
from counterfoil.errors import RejectedRequestError, VersionError
from counterfoil.tenant_erasure import TenantErasure
from functions.admin_api.api.documents import NO_DOCUMENT
from functions.admin_api.auth import EVERY_TENANT, Request, Role
from functions.admin_api.http import NotFoundError, required_version

NO_TENANT = "There is no such tenant."
NO_ERASURE = "No tenant of this slug was erased within the last 15 days."


class ErasurePlan(BaseModel):
    """Preview of an erasure."""

    tenant: str
    documents: int = Field(description="The ETag of this answer, which the confirmed request names.")
    tasks: int | None = Field(description="null for the erasure of a document.")
    dead_letters: int | None = Field(description="null for the erasure of a document.")
    confirm: str = Field(description="Value of the parameter `confirm` for the erasure.")


class ErasedDocument(BaseModel):
    """An erased document. Its files are erased within a minute."""

    tenant: str
    documents: list[UUID] = Field(description="The document and the parts cut from it.")
    retained_documents: list[UUID] = Field(description="Parts that another file contains, too.")
    rematched: int = Field(description="Other documents that are matched again.")
    files: int = Field(description="Uploads and mails that are erased.")
    retained_files: int = Field(description="Uploads and mails that other documents need.")


class TenantErasureStatus(BaseModel):
    """Progress of the erasure of a tenant."""

    tenant: str
    requested_at: datetime
    rows: int = Field(description="Rows deleted so far.")
    objects: int = Field(description="Versions of objects erased so far.")
    finished_at: datetime | None


@dataclass(frozen=True)
class Confirmation:
    """Confirmation by the caller."""

    confirm: str | None
    """The tenant's slug, as they typed it."""
    condition: str | None
    """If-Match: the number of documents in the preview."""
    reason: str | None = None

    def check(self, slug: str, number: int) -> None:
        """Require the tenant's slug, and the number of documents that there are now.

        Raises:
            RejectedRequestError: another tenant is confirmed.
            NoConditionError, VersionError: If-Match is missing, or names another number of documents.
        """
        if self.confirm != slug:
            raise RejectedRequestError("confirm must be the slug of the tenant to erase.")
        shown = required_version(self.condition)
        if shown != number:
            raise VersionError(f"Nothing was erased: {number:,} documents would be erased, and {shown:,} were shown.")


_OWNER = """
SELECT t.id, t.slug FROM tenant t WHERE t.id = (
    SELECT tenant_id FROM document WHERE id = %(id)s
    UNION ALL SELECT tenant_id FROM document_removal WHERE document_id = %(id)s LIMIT 1
)
"""
_DOCUMENTS = """
SELECT count(*) FROM (
    SELECT FROM document WHERE id = %(id)s OR parent_id = %(id)s
    UNION ALL
    SELECT FROM document_removal WHERE (document_id = %(id)s OR parent_id = %(id)s) AND file_name <> '(erased)'
) AS found
"""


def erase_document(document_id: str, confirmation: Confirmation, request: Request) -> ErasurePlan | ErasedDocument:
    """Preview the erasure of a document, or erase it if confirmed.

    Raises:
        NotFoundError: there is no such document, or none that the caller may see, or it is erased already.
        ForbiddenError: the caller is not an admin of the tenant, or the token has no subject.
        RejectedRequestError, NoConditionError, VersionError: see `Confirmation.check`.
        TooManyError, DatabaseUnavailableError: see `Request.admit`.
    """
    tenant_id, slug, id_ = request.owned(document_id, _owner, NO_DOCUMENT)
    request.admit("Erasing a document", slug, tenant_id, role=Role.ADMIN)
    by = request.caller.named()

    def once() -> ErasurePlan | Erasure | None:
        with request.database.tenant(tenant_id) as connection:
            ((number,),) = connection.execute(_DOCUMENTS, {"id": id_}).fetchall()
            if number == 0:
                return None
            if confirmation.confirm is None:
                return ErasurePlan(tenant=slug, documents=number, tasks=None, dead_letters=None, confirm=slug)
            confirmation.check(slug, number)
            return erasure.erase(connection, tenant_id, id_, request.now, by=by, reason=confirmation.reason)

    done = retry_conflicts(once)
    if done is None:
        raise NotFoundError(NO_DOCUMENT)
    if isinstance(done, ErasurePlan):
        return done
    return ErasedDocument(
        tenant=slug,
        documents=list(done.removal.documents),
        retained_documents=list(done.removal.kept),
        rematched=done.removal.rematched,
        files=done.files,
        retained_files=done.retained_files,
    )


def _owner(connection: Connection, document_id: UUID) -> tuple[UUID, str] | None:
    row = connection.execute(_OWNER, {"id": document_id}).fetchone()
    return None if row is None else (row[0], row[1])


_TENANT = "SELECT id FROM tenant WHERE slug = %s"
_COUNTS = """
SELECT (SELECT count(*) FROM document WHERE tenant_id = %(id)s), (SELECT count(*) FROM task WHERE tenant_id = %(id)s),
       (SELECT count(*) FROM dead_letter WHERE tenant_id = %(id)s)
"""


def erase_tenant(slug: str, confirmation: Confirmation, request: Request) -> ErasurePlan | TenantErasureStatus:
    """Preview the erasure of a tenant, or store it for the watchdog if confirmed.

    Raises:
        ForbiddenError: the caller is not an admin of all tenants, or the token has no subject.
        NotFoundError: there is no such tenant.
        RejectedRequestError, NoConditionError, VersionError: see `Confirmation.check`.
        TooManyError, DatabaseUnavailableError: see `Request.admit_for_all`.
    """
    request.admit_for_all("Erasing a tenant")

    def once() -> ErasurePlan | TenantErasure | None:
        with request.database.delivery() as connection:
            row = connection.execute(_TENANT, [slug]).fetchone()
            if row is None:
                return None
            ((documents, tasks, dead_letters),) = connection.execute(_COUNTS, {"id": row[0]}).fetchall()
            if confirmation.confirm is None:
                return ErasurePlan(
                    tenant=slug, documents=documents, tasks=tasks, dead_letters=dead_letters, confirm=slug
                )
            confirmation.check(slug, documents)
            return tenant_erasure.request(connection, slug, request.now, by=request.caller.subject)

    done = retry_conflicts(once)
    if done is None:
        raise NotFoundError(NO_TENANT)
    return done if isinstance(done, ErasurePlan) else _status(slug, done)


def tenant_erasure_status(slug: str, request: Request) -> TenantErasureStatus:
    """Return the progress of the erasure of a tenant.

    Raises:
        ForbiddenError: the caller is not an admin of all tenants.
        NotFoundError: no such tenant was erased.
        DatabaseUnavailableError: PostgreSQL does not answer.
    """
    request.check(Role.ADMIN, EVERY_TENANT, "Showing an erasure")
    with request.database.delivery() as connection:
        found = tenant_erasure.find(connection, slug)
    if found is None:
        raise NotFoundError(NO_ERASURE)
    return _status(slug, found)


def _status(slug: str, found: TenantErasure) -> TenantErasureStatus:
    return TenantErasureStatus.model_validate({"tenant": slug, **vars(found)})
