"""`/api/uploads`: upload forms, and the state of uploads and mail.

Reading requires the viewer role for the tenant, and uploading requires the operator role. For mail without
a tenant, the caller requires the role for all tenants.
"""

from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import BaseModel, ConfigDict, Field

from counterfoil.documents import files, removal, upload_list
from counterfoil.documents.files import File, UploadForm
from counterfoil.documents.filetype import MAX_FILE_BYTES
from counterfoil.documents.upload_list import Upload
from counterfoil.errors import RejectedRequestError
from counterfoil.settings import settings
from counterfoil.validation import UNASSIGNED
from functions.admin_api import http
from functions.admin_api.api.documents import NO_DOCUMENT
from functions.admin_api.auth import MAX_ACTOR_CHARS, Request, Scope, Slug
from functions.admin_api.endpoint import PAGE, Cursor, Limit, Note, Routes, TenantOrUnassigned, json_response
from functions.admin_api.http import NotFoundError, responses

routes = Routes()


class UploadRequest(BaseModel):
    """A file to upload."""

    model_config = ConfigDict(extra="forbid")

    tenant: Slug | None = Field(
        default=None, description="Slug of the tenant; null for an email file, whose recipients determine its tenants."
    )
    file_name: str = Field(
        min_length=1, max_length=files.MAX_NAME_CHARS, description="Name without slashes and control characters."
    )
    size: Annotated[int, Field(ge=1, le=MAX_FILE_BYTES), http.WholeNumber] | None = Field(
        default=None, description="Size in bytes."
    )
    replaces: UUID | None = Field(
        default=None, description="Document to replace. It is removed after the new file has been extracted."
    )
    reason: Note | None = Field(default=None, description="Reason for the replacement.")


@routes.post(
    "/api/uploads",
    summary="Request an upload form",
    tags=["uploads"],
    responses=responses({201: (UploadForm, "A form for uploading the file to S3.")}, 400, 404, 413, 415, 422, 429),
)
def create_upload(request: Request, body: Annotated[UploadRequest, Body()]) -> Response[UploadForm]:
    """Return a form for uploading one file to S3."""
    bucket = settings().uploads_bucket
    assert bucket is not None  # the stack always sets this variable
    if body.tenant is None:
        if body.replaces is not None:
            raise RejectedRequestError("`replaces` requires `tenant`.")
        request.admit_in("Uploading without a tenant", Scope(None, UNASSIGNED))
        return json_response(201, files.upload_form(bucket, None, body.file_name, request.now))
    tenant_id = request.admit("Uploading", body.tenant)
    form = files.upload_form(bucket, body.tenant, body.file_name, request.now)
    if body.replaces is not None:
        _replace(request, tenant_id, body.replaces, File(bucket, form.key, None), body.reason)
    return json_response(201, form)


def _replace(request: Request, tenant_id: UUID, document_id: UUID, file: File, reason: str | None) -> None:
    actor = request.caller.require_subject()[:MAX_ACTOR_CHARS]
    with request.database.tenant(tenant_id) as connection:
        if not removal.request_replacement(
            connection, tenant_id, document_id, file, request.now, by=actor, reason=reason
        ):
            raise NotFoundError(NO_DOCUMENT)


class UploadPage(BaseModel):
    """Uploads and mail, oldest first, and the cursor of the next page.

    `limit` counts files, not the documents in them.
    """

    uploads: list[Upload]
    next_cursor: str | None


@routes.get(
    "/api/uploads",
    summary="List uploads",
    tags=["uploads"],
    responses=responses({200: (UploadPage, "A page of uploads and mail, oldest first.")}, 404, 422),
)
def list_uploads(
    request: Request,
    tenant: TenantOrUnassigned = None,
    key: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=files.MAX_KEY_CHARS,
            description="`key` of an upload form. Searches all tenants that the caller may view.",
        ),
    ] = None,
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> UploadPage:
    """Return a page of uploads and mail, with their documents and states."""
    if key is not None:
        if tenant is not None or cursor is not None:
            raise RejectedRequestError("`key` cannot be combined with `tenant` or `cursor`.")
        return UploadPage(uploads=_find_by_key(request, key), next_cursor=None)
    after = http.decode_cursor(cursor)
    tenant_id, slug = request.scope(tenant)
    if tenant_id is None:
        with request.database.delivery() as connection:
            page = upload_list.list_unassigned(connection, limit=limit, after=after)
    else:
        with request.database.tenant(tenant_id) as connection:
            page = upload_list.page(connection, tenant_id, slug, limit=limit, after=after)
    return UploadPage(
        uploads=list(page.uploads),
        next_cursor=http.encode_cursor(page.next_cursor),
    )


def _find_by_key(request: Request, key: str) -> list[Upload]:
    """Return the uploads of a file in all tenants that the caller may view."""
    bucket, visible = settings().uploads_bucket, request.visible_tenants()
    assert bucket is not None  # the stack always sets this variable
    with request.database.delivery() as connection:
        owners = upload_list.find_owners(connection, bucket, [key])
    uploads = []
    for owner in owners:
        if visible is None or owner.tenant in visible:
            with request.database.tenant(owner.tenant_id) as connection:
                uploads += upload_list.list_by_jobs(connection, owner.tenant, owner.jobs)
    if visible is None:
        with request.database.delivery() as connection:
            uploads += upload_list.list_unassigned(connection, limit=PAGE, key=key).uploads
    return uploads
