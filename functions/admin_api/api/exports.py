"""`/api/admin/dlq/export`: dead letters as a CSV or JSON Lines file.

Viewers may export dead letters with secrets redacted. A small export is returned in the response. For a large export,
the response contains an operation that writes the file to S3. The caller who requested the export and the tenant's
admins can then get a link to the file.
"""

from base64 import b64encode
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel

from counterfoil.dead_letters import export
from counterfoil.dead_letters.export import MEDIA_TYPES, URL_EXPIRY_SECONDS, ExportFile, Format
from counterfoil.dead_letters.search import (
    MAX_SEARCH_CHARS,
    MAX_TYPE_CHARS,
    STATUSES,
    DeadLetterFilter,
    Fingerprint,
    Status,
)
from counterfoil.operations import store
from counterfoil.operations.store import OperationStateError
from counterfoil.settings import settings
from counterfoil.validation import UTC_DESCRIPTION, Moment, PrintableText
from functions.admin_api.api.operations import OperationProgress, owned_operation, progress
from functions.admin_api.auth import Request, Role
from functions.admin_api.endpoint import VERSIONED, Id, OneTenant, Routes, json_response, versioned_response
from functions.admin_api.http import ForbiddenError, NotFoundError, responses

MAX_RESPONSE_BYTES = 4 * 1024 * 1024
"""Maximum file size in a response. In base64, it is 5.6 MB, below Lambda's limit of 6 MB."""
MAX_RESPONSE_SECONDS = 5.0
"""Maximum time for reading the dead letters of an export that is returned in the response."""
NO_FILE = "There is no such export, or its file was deleted after a week."

routes = Routes()


class ExportLink(BaseModel):
    """Link to an export's file."""

    url: str
    url_expires_at: datetime


_EXPORT_RESPONSES = responses(
    {
        200: (None, "The file, if it is small enough for a response."),
        202: (OperationProgress, "The operation that writes the file, if it is too large for a response."),
    },
    *(404, 409, 422),
)
_EXPORT_RESPONSES[200]["content"] = {
    media_type.partition(";")[0]: {"schema": {"type": "string"}} for media_type in MEDIA_TYPES.values()
}
_EXPORT_RESPONSES[202]["headers"] = VERSIONED


@routes.get("/api/admin/dlq/export", summary="Export dead letters", tags=["dead letters"], responses=_EXPORT_RESPONSES)
def export_dead_letters(  # noqa: PLR0913, PLR0917  # a query has this many parameters
    request: Request,
    file_format: Annotated[Format, Query(alias="format", description="File format. `json` means JSON Lines.")],
    tenant: OneTenant = None,
    status: Annotated[
        list[Status] | None, Query(description="One or more statuses, repeated or separated by commas. Default: all.")
    ] = None,
    task_type: Annotated[PrintableText | None, Query(max_length=MAX_TYPE_CHARS)] = None,
    from_date: Annotated[
        Moment | None, Query(description=f"Dead-lettered at or after this time. {UTC_DESCRIPTION}")
    ] = None,
    to_date: Annotated[Moment | None, Query(description=f"Dead-lettered before this time. {UTC_DESCRIPTION}")] = None,
    search: Annotated[
        PrintableText | None,
        Query(
            min_length=1,
            max_length=MAX_SEARCH_CHARS,
            description="Words from the error message or file name, or an id.",
        ),
    ] = None,
    fingerprint: Annotated[Fingerprint | None, Query(description="Fingerprint of a dead letter group.")] = None,
) -> Response[Any]:
    """Export a tenant's dead letters as JSON Lines, or as CSV with formulas escaped."""
    filters = DeadLetterFilter(
        status=tuple(status or STATUSES),
        task_type=task_type,
        from_date=from_date,
        to_date=to_date,
        search=search,
        fingerprint=fingerprint,
    )
    tenant_id, slug = request.tenant(tenant)
    actor = request.caller.require_subject()
    file = ExportFile(file_format, redacted=request.caller.role < Role.ADMIN)
    content = _file_for_response(request, tenant_id, slug, filters, file, actor)
    if content is not None:
        name = export.file_name(slug, file_format, request.now)
        headers = {
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }
        response = Response(200, MEDIA_TYPES[file_format], b64encode(content).decode(), headers)
        response.base64_encoded = True  # JSON would escape quotation marks, so the size would be unknown
        return response
    with request.database.tenant(tenant_id) as connection:
        operation = export.request(connection, tenant_id, filters, file, by=actor, now=request.now)
    accepted = versioned_response(progress(operation, slug, request.caller), 202)
    accepted.headers["Location"] = f"/api/admin/operations/{operation.id}"
    return accepted


def _file_for_response(
    request: Request, tenant_id: UUID, slug: str, filters: DeadLetterFilter, file: ExportFile, actor: str
) -> bytes | None:
    """Return a small export's file, and record the export in the audit trail.

    Returns None if the file is too large or takes too long.
    """
    min_time_left = request.time_left() - MAX_RESPONSE_SECONDS
    content, dead_letters = bytearray(export.header(file.format)), 0
    for batch in export.iter_batches(
        lambda: request.database.tenant(tenant_id), tenant_id, filters.before(request.now)
    ):
        content += export.encode(batch.dead_letters, slug, file.format, redacts=file.redacted)
        dead_letters += len(batch.dead_letters)
        if len(content) > MAX_RESPONSE_BYTES or request.time_left() < min_time_left:
            return None
    written = replace(file, bytes=len(content))
    request.commit(
        tenant_id,
        lambda connection: export.record_export(
            connection, tenant_id, filters, written, dead_letters, actor, request.now
        ),
    )
    return bytes(content)


@routes.get(
    "/api/admin/operations/<operation_id>/file",
    summary="Get a link to an export's file",
    tags=["operations"],
    responses=responses({200: (ExportLink, "A link to the file.")}, 404, 409, 422),
)
def link_export(request: Request, operation_id: Id) -> Response[ExportLink]:
    """Return a link to the file of a completed export.

    Only admins and the caller who requested the export can get the link. If the file contains secrets, only admins can.
    The audit trail records each caller's first link.
    """
    tenant_id, slug, id_ = owned_operation(request, operation_id)
    actor = request.caller.require_subject()
    with request.database.tenant(tenant_id) as connection:
        operation = store.show(connection, id_)
    if operation.action != "export" or request.now >= operation.requested_at + export.RETENTION:
        raise NotFoundError(NO_FILE)
    is_own = operation.requested_by == actor and ExportFile.from_operation(operation).redacted
    if not is_own and not request.caller.has_role(Role.ADMIN, slug):
        raise ForbiddenError("Only admins and the person who requested an export may download it.")
    if operation.state != "done":
        raise OperationStateError(f"The export is {operation.state}. Retry when it is done.")
    request.commit(
        tenant_id, lambda connection: export.record_download(connection, operation, by=actor, now=request.now)
    )
    bucket = settings().uploads_bucket
    assert bucket is not None  # the bucket contains the export's file
    link = ExportLink(
        url=export.presigned_url(bucket, operation, slug),
        url_expires_at=request.now + timedelta(seconds=URL_EXPIRY_SECONDS),
    )
    return json_response(200, link, {"Cache-Control": "no-store"})
