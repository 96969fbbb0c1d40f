"""`/api/admin/tenants`: the tenants that a caller may view."""

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel, Field

from functions.admin_api.auth import Request, TenantSlug
from functions.admin_api.endpoint import PAGE, Limit, Routes
from functions.admin_api.http import responses

routes = Routes()


class TenantPage(BaseModel):
    """Tenants ordered by slug."""

    tenants: list[str]
    unassigned: bool = Field(description="Whether the caller may also see unassigned dead letters, as tenant `-`.")
    next: str | None = Field(description="Cursor of the next page.")


@routes.get(
    "/api/admin/tenants",
    summary="List tenants",
    tags=["about"],
    responses=responses({200: (TenantPage, "A page, by slug.")}, 422),
)
def list_tenants(
    request: Request,
    cursor: Annotated[TenantSlug | None, Query(description="`next` of the previous page.")] = None,
    limit: Limit = PAGE,
) -> TenantPage:
    """Return a page of the tenants that the caller may view."""
    visible = request.visible_tenants()
    with request.database.delivery() as connection:
        found = connection.execute(
            "SELECT slug FROM tenant WHERE (%(slugs)s::text[] IS NULL OR slug = ANY(%(slugs)s)) AND slug > %(after)s"
            " ORDER BY slug LIMIT %(limit)s",
            {"slugs": visible, "after": cursor or "", "limit": limit + 1},
        ).fetchall()
    slugs = [slug for (slug,) in found[:limit]]
    return TenantPage(tenants=slugs, unassigned=visible is None, next=slugs[-1] if len(found) > limit else None)
