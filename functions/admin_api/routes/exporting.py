"""`/api/admin/dlq/export`: dead letters are taken out as a file."""

from base64 import b64encode
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from counterfoil.dead_letters.export import MEDIA_TYPES, Format
from counterfoil.dead_letters.search import LONGEST_TEXT, LONGEST_TYPE, STATUSES, DeadLetterFilter, Fingerprint, Status
from counterfoil.settings import settings
from counterfoil.validation import IN_UTC, Moment, PrintableText
from functions.admin_api import exporting
from functions.admin_api.auth import Request
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, OneTenant, Routes, answer
from functions.admin_api.http import responses

routes = Routes()

_PATH = "/api/admin/dlq/exports"
_EXPORTED = responses(
    {
        200: (None, "The file, where it is small."),
        202: (exporting.LetterExport, "It is too large for an answer, and is being written; Location says where."),
    },
    *(404, 409, 422),
)
_EXPORTED[200]["content"] = {
    media_type.partition(";")[0]: {"schema": {"type": "string"}} for media_type in MEDIA_TYPES.values()
}


@routes.get("/api/admin/dlq/export", summary="Export dead letters", tags=["dead letters"], responses=_EXPORTED)
def export_dead_letters(  # noqa: PLR0913, PLR0917  # a query has this many parameters
    request: Request,
    file_format: Annotated[Format, Query(alias="format", description="JSON means JSON lines: a letter in each.")],
    tenant: OneTenant = None,
    status: Annotated[
        list[Status] | None,
        Query(description="Repeated, or several with commas. Of all states where it is not said."),
    ] = None,
    task_type: Annotated[PrintableText | None, Query(max_length=LONGEST_TYPE)] = None,
    from_date: Annotated[Moment | None, Query(description=f"Died then or later. {IN_UTC}")] = None,
    to_date: Annotated[Moment | None, Query(description=f"Died before. {IN_UTC}")] = None,
    text: Annotated[
        PrintableText | None,
        Query(
            min_length=1,
            max_length=LONGEST_TEXT,
            description="Words of the error and of the file's name, all of which a letter has; or an id.",
        ),
    ] = None,
    fingerprint: Annotated[Fingerprint | None, Query(description="Of a group.")] = None,
) -> Response[Any]:
    """A tenant's dead letters as a file: CSV, which no spreadsheet takes for formulas, or JSON lines."""
    wanted = DeadLetterFilter(
        status=tuple(status or STATUSES),
        task_type=task_type,
        from_date=from_date,
        to_date=to_date,
        text=text,
        fingerprint=fingerprint,
    )
    done = _bench(request).export(exporting.Asked(tenant, wanted, file_format))
    if isinstance(done, exporting.File):
        headers = {
            "Content-Disposition": f'attachment; filename="{done.name}"',
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }
        response = Response(200, done.media_type, b64encode(done.content).decode(), headers)
        response.base64_encoded = True  # which is of a known length, while JSON escapes each quotation mark
        return response
    return answer(202, done, {"Location": f"{_PATH}/{done.export_id}", "Cache-Control": "no-store"})


@routes.get(
    _PATH,
    summary="List exports",
    tags=["dead letters"],
    responses=responses({200: (exporting.LetterExportPage, "A page, the newest first.")}, 404, 422),
)
def list_exports(
    request: Request, tenant: OneTenant = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response[exporting.LetterExportPage]:
    """A page of a tenant's exports that are, or were, written to S3: one's own, and an admin's are all."""
    return answer(200, _bench(request).listed(tenant, cursor, limit))


@routes.get(
    f"{_PATH}/<export_id>",
    summary="Show an export",
    tags=["dead letters"],
    responses=responses({200: (exporting.LetterExport, "How far it is, and where the file is.")}, 404, 422),
)
def show_export(request: Request, export_id: Id) -> Response[exporting.LetterExport]:
    """An export that is, or was, written to S3: for whoever asked for it, and for admins."""
    return answer(200, _bench(request).show(export_id), {"Cache-Control": "no-store"})


def _bench(request: Request) -> exporting.Bench:
    bucket = settings().uploads_bucket
    assert bucket is not None  # the row reads from it, and the stack tells where
    return exporting.Bench(request, bucket)
