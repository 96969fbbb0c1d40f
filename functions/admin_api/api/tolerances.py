"""`/api/admin/tenants/{tenant}/tolerances`: current and suggested tolerances.

Reading requires the viewer role for the tenant, and changes require the admin role. After a change, the tenant's
clusters are compared again. The request enqueues comparisons until its time runs out.
`POST .../tolerances/recompare` enqueues the remaining comparisons.
"""

from decimal import Decimal
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from counterfoil.audit import Change
from counterfoil.documents import tolerances
from counterfoil.documents.three_way_match import Key, Limits, Tolerance
from counterfoil.documents.three_way_match.decisions import SuggestionResult, ToleranceSuggestion
from counterfoil.documents.three_way_match.tolerances import DEFAULTS, as_json
from functions.admin_api.auth import Request
from functions.admin_api.endpoint import Note, Routes, TenantPath, json_response
from functions.admin_api.http import ConflictError, NotFoundError, responses

SECONDS_LEFT = 8.0
"""Minimum remaining time to enqueue more comparisons."""
Limit = Annotated[
    Annotated[str, StringConstraints(pattern=r"^[0-9]{1,12}(\.[0-9]{1,6})?$")] | None,
    Field(description="Decimal number; null if this limit does not apply."),
]
Scope = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]


class LimitsBody(BaseModel):
    """Limits below and above the expected value.

    In a direction without limits, any difference is tolerated.
    """

    lower_absolute: Limit = None
    lower_percent: Limit = None
    upper_absolute: Limit = None
    upper_percent: Limit = None


class DefaultTolerance(LimitsBody):
    """Limits that apply if no tolerance is set."""

    key: Key
    text: str = Field(description="The limits in words.")


class ToleranceEntry(DefaultTolerance):
    """A tenant's tolerance."""

    supplier: str | None
    article: str | None
    set_by: str
    reason: str | None
    evidence: dict[str, Any] | None = Field(
        description="The suggestion that was accepted; null if the tolerance was set directly."
    )


class ToleranceList(BaseModel):
    """A tenant's tolerances by key, from general to specific, and the defaults."""

    tenant: str
    tolerances: list[ToleranceEntry]
    defaults: list[DefaultTolerance]


class ToleranceForm(LimitsBody):
    """A tolerance to set."""

    model_config = ConfigDict(extra="forbid")

    key: Key
    supplier: Scope | None = Field(default=None, description="VAT id or name of the supplier. Default: every supplier.")
    article: Scope | None = Field(default=None, description="Article number. Default: every article.")
    reason: Note | None = None


class Acceptance(BaseModel):
    """Acceptance of a suggested tolerance."""

    model_config = ConfigDict(extra="forbid")

    reason: Note | None = None


class Recompared(BaseModel):
    """Number of clusters that are compared again with the changed tolerances."""

    tenant: str
    clusters: int
    next_cursor: UUID | None = Field(
        description="Cursor for `recompare` if clusters remain; null if all comparisons are enqueued."
    )


class Suggestion(BaseModel):
    """A suggested tolerance with its evidence."""

    title: str
    sentences: list[str]
    proposal: dict[str, Any]


class WithheldSuggestion(BaseModel):
    """Reason why decisions about a supplier do not lead to a suggestion."""

    title: str
    reason: str


class SuggestionList(BaseModel):
    """Suggested tolerances. A suggestion has no effect until it is accepted."""

    tenant: str
    proposals: list[Suggestion]
    withheld: list[WithheldSuggestion]


routes = Routes()
_PATH = "/api/admin/tenants/<tenant>/tolerances"
_CHANGE_RESPONSES = responses(
    {200: (Recompared, "The change was stored. Clusters are compared again.")}, *(400, 404, 409, 413, 415, 422, 429)
)


@routes.get(
    _PATH,
    summary="List tolerances",
    tags=["tolerances"],
    responses=responses({200: (ToleranceList, "The tolerances.")}, 404, 422),
)
def list_tolerances(request: Request, tenant: TenantPath) -> Response[ToleranceList]:
    """List a tenant's tolerances and the defaults.

    Only the most specific tolerance applies.
    """
    tenant_id, slug = request.tenant(tenant)
    with request.database.tenant(tenant_id) as connection:
        rows = tolerances.entries(connection, tenant_id)
    entries = [
        ToleranceEntry(
            **_limit_fields(entry.tolerance.key, entry.tolerance.limits),
            supplier=entry.tolerance.supplier,
            article=entry.tolerance.article,
            set_by=entry.set_by,
            reason=entry.reason,
            evidence=None if entry.evidence is None else dict(entry.evidence),
        )
        for entry in rows
    ]
    defaults = [DefaultTolerance(**_limit_fields(key, limits)) for key, limits in DEFAULTS.items()]
    return json_response(200, ToleranceList(tenant=slug, tolerances=entries, defaults=defaults))


def _limit_fields(key: Key, limits: Limits) -> dict[str, Any]:
    return {"key": key, "text": limits.text, **as_json(limits)}


@routes.put(_PATH, summary="Set a tolerance", tags=["tolerances"], responses=_CHANGE_RESPONSES)
def set_tolerance(request: Request, tenant: TenantPath, body: Annotated[ToleranceForm, Body()]) -> Response[Recompared]:
    """Set a tolerance.

    It replaces the tolerance with the same key, supplier and article.
    """
    limit_texts = body.model_dump(include=set(LimitsBody.model_fields))
    limits = Limits(**{name: None if text is None else Decimal(text) for name, text in limit_texts.items()})
    tolerance = Tolerance(body.key, limits, body.supplier, body.article)
    change = request.setup("Setting a tolerance", tenant)
    request.commit(change.tenant_id, lambda connection: tolerances.put(connection, change, tolerance, body.reason))
    return json_response(200, _recompare(request, change, tenant, None))


@routes.delete(_PATH, summary="Remove a tolerance", tags=["tolerances"], responses=_CHANGE_RESPONSES)
def remove_tolerance(
    request: Request,
    tenant: TenantPath,
    key: Annotated[Key, Query()],
    supplier: Annotated[Scope | None, Query(description="Supplier of the tolerance, exactly as set.")] = None,
    article: Annotated[Scope | None, Query(description="Article of the tolerance, exactly as set.")] = None,
    reason: Annotated[Note | None, Query()] = None,
) -> Response[Recompared]:
    """Remove a tolerance. A more general tolerance or the default applies again."""
    tolerance = Tolerance(key, DEFAULTS[key], supplier, article)
    change = request.setup("Removing a tolerance", tenant)
    if not request.commit(
        change.tenant_id, lambda connection: tolerances.remove(connection, change, tolerance, reason)
    ):
        raise NotFoundError(f"There is no tolerance for {key} with this supplier and article.")
    return json_response(200, _recompare(request, change, tenant, None))


@routes.post(f"{_PATH}/recompare", summary="Compare clusters again", tags=["tolerances"], responses=_CHANGE_RESPONSES)
def recompare_clusters(
    request: Request,
    tenant: TenantPath,
    cursor: Annotated[UUID | None, Query(description="`next_cursor` of the previous response.")] = None,
) -> Response[Recompared]:
    """Compare a tenant's clusters with its current tolerances."""
    return json_response(200, _recompare(request, request.setup("Comparing clusters", tenant), tenant, cursor))


@routes.get(
    f"{_PATH}/suggestions",
    summary="List suggested tolerances",
    tags=["tolerances"],
    responses=responses({200: (SuggestionList, "The suggestions.")}, 404, 422),
)
def list_suggestions(request: Request, tenant: TenantPath) -> Response[SuggestionList]:
    """List tolerances suggested by past decisions, and why others are withheld."""
    tenant_id, slug = request.tenant(tenant)
    with request.database.tenant(tenant_id) as connection:
        results: list[SuggestionResult] = tolerances.suggest(connection, tenant_id)
    suggestions = [
        Suggestion(title=tolerances.title(result), sentences=tolerances.sentences(result), proposal=result.record)
        for result in results
        if isinstance(result, ToleranceSuggestion)
    ]
    withheld = [
        WithheldSuggestion(title=tolerances.title(result), reason=result.reason)
        for result in results
        if not isinstance(result, ToleranceSuggestion)
    ]
    return json_response(200, SuggestionList(tenant=slug, proposals=suggestions, withheld=withheld))


@routes.post(
    f"{_PATH}/suggestions/<suggestion_id>/accept",
    summary="Accept a suggested tolerance",
    tags=["tolerances"],
    responses=_CHANGE_RESPONSES,
)
def accept_suggestion(
    request: Request,
    tenant: TenantPath,
    suggestion_id: Annotated[str, Path(pattern="^[0-9a-f]{8}$", description="`id` of the suggestion.")],
    body: Annotated[Acceptance | None, Body()] = None,
) -> Response[Recompared]:
    """Set the suggested tolerance, unless decisions or tolerances have changed."""
    reason = None if body is None else body.reason
    change = request.setup("Accepting a suggestion", tenant)
    if not request.commit(
        change.tenant_id, lambda connection: tolerances.accept(connection, change, suggestion_id, reason)
    ):
        raise ConflictError(
            f"The suggestion '{suggestion_id}' no longer applies: decisions or tolerances have changed. "
            "List the suggestions again."
        )
    return json_response(200, _recompare(request, change, tenant, None))


def _recompare(request: Request, change: Change, slug: str, cursor: UUID | None) -> Recompared:
    """Enqueue comparisons in short transactions until none remain or time runs out."""
    count, after = 0, cursor
    while True:
        enqueue_batch = partial(tolerances.recompare, tenant_id=change.tenant_id, after=after, now=change.at)
        ids, messages = request.commit(change.tenant_id, enqueue_batch)
        request.send(messages)
        count += len(ids)
        after = ids[-1] if len(ids) == tolerances.RECOMPARE_BATCH_SIZE else None
        if after is None or request.time_left() < SECONDS_LEFT:
            return Recompared(tenant=slug, clusters=count, next_cursor=after)
