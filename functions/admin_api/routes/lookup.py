"""`/api/admin/tenants`, `/api/admin/dlq/named`: what there is, for programs in which people name things."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from counterfoil.dead_letters.named import Kind
from functions.admin_api import lookup
from functions.admin_api.auth import TenantSlug
from functions.admin_api.endpoint import PAGE, Limit, Routes, answer, caller, database
from functions.admin_api.http import responses

routes = Routes()


@routes.get(
    "/api/admin/tenants",
    summary="List tenants",
    tags=["about"],
    responses=responses({200: (lookup.TenantPage, "A page, by slug.")}, 422),
)
def list_tenants(
    cursor: Annotated[TenantSlug | None, Query(description="`next` of the page before.")] = None, limit: Limit = PAGE
) -> Response[lookup.TenantPage]:
    """A page of the tenants that the caller may look at."""
    return answer(200, lookup.tenants(cursor, limit, caller(), database()))


@routes.get(
    "/api/admin/dlq/named",
    summary="Find what a part of an id names",
    tags=["dead letters"],
    responses=responses({200: (lookup.NamedThings, "What was found.")}, 422),
)
def find_named(
    kind: Annotated[Kind, Query(description="What is named.")],
    part: Annotated[lookup.Part, Query(description="The end of an id; of a group, the beginning of its fingerprint.")],
) -> Response[lookup.NamedThings]:
    """What people name by a part of its id, as tables show it, among what the caller may look at."""
    return answer(200, lookup.find(kind, part, caller(), database()))
