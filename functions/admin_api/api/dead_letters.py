"""`/api/admin/dlq`: dead letters, their changes and the audit trail.

Reading requires the viewer role for the tenant, and changes require the operator role. Dead letters without a tenant,
such as unreadable messages, have the tenant `-` and require access to all tenants. Only admins see secrets;
`redacted_paths` lists the hidden values.

`If-Match` is optional. If it is sent, a change fails if the dead letter has changed since the caller read it. Editing a
payload requires `If-Match`, because an edit replaces earlier edits. Editing and viewing whole payloads also require the
group `edit-payloads` or the admin role.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from os import environ
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints

from counterfoil import audit
from counterfoil.db import Connection
from counterfoil.dead_letters import actions, groups, history, search
from counterfoil.dead_letters.actions import ChangeRequest, ChangeResult, PayloadEdit
from counterfoil.dead_letters.redaction import redact, without_traceback
from counterfoil.dead_letters.search import (
    MAX_SEARCH_CHARS,
    MAX_TYPE_CHARS,
    STATUSES,
    DeadLetterDetails,
    DeadLetterEntry,
    DeadLetterFilter,
    Fingerprint,
    IdKind,
    Status,
)
from counterfoil.errors import RejectedRequestError
from counterfoil.settings import settings
from counterfoil.tasks import store as tasks
from counterfoil.validation import UNASSIGNED, UTC_DESCRIPTION, Moment, PrintableText
from functions.admin_api import http
from functions.admin_api.auth import Caller, Request, Role, Scope, item_id, owner_of
from functions.admin_api.endpoint import (
    PAGE,
    VERSIONED,
    Cursor,
    Id,
    IfMatch,
    IfNoneMatch,
    Limit,
    Note,
    Routes,
    TenantOrUnassigned,
    json_response_if_changed,
    versioned_response,
)
from functions.admin_api.http import ForbiddenError, NotFoundError, required_version, responses, sent_version

MAX_PAGED = 10_000
"""Maximum number of dead letters that can be reached with page numbers. Cursors have no limit."""
MAX_EVENTS = 100
"""Maximum number of events of each kind in a timeline. Even with the longest errors, they fit into Lambda's 6 MB."""
MAX_PREVIOUS_FAILURES = 50
"""Maximum number of earlier failures in a response."""
NO_DEAD_LETTER = "There is no such dead letter."

routes = Routes()
Pointers = Annotated[list[str], Field(description="JSON pointers (RFC 6901) to hidden values.")]
StatusFilter = Annotated[
    list[Status] | None, Query(description="One or more statuses, repeated or separated by commas. Default: all.")
]
TaskType = Annotated[PrintableText | None, Query(max_length=MAX_TYPE_CHARS)]
DeadLetteredFrom = Annotated[
    Moment | None, Query(description=f"Dead-lettered at or after this time. {UTC_DESCRIPTION}")
]
DeadLetteredBefore = Annotated[Moment | None, Query(description=f"Dead-lettered before this time. {UTC_DESCRIPTION}")]
SearchText = Annotated[
    PrintableText | None,
    Query(
        alias="search",
        min_length=1,
        max_length=MAX_SEARCH_CHARS,
        description="Words from the error message or file name, or an id.",
    ),
]
GroupFingerprint = Annotated[Fingerprint | None, Query(description="Fingerprint of a dead letter group.")]


def hide_secrets(fields: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Return the fields without secrets and tracebacks, except for admins.

    `redacted_paths` lists the hidden secrets.
    """
    if caller.role >= Role.ADMIN:
        return {**fields, "redacted_paths": []}
    redacted = redact(without_traceback(fields))
    return {**redacted.value, "redacted_paths": redacted.pointers}


def _find_owned(request: Request, job_id: str) -> tuple[Scope, UUID]:
    """Return the tenant and id of a dead letter that the caller may view."""
    id_ = item_id(job_id, NO_DEAD_LETTER)
    with request.database.delivery() as connection:
        owners = search.find_owners(connection, [id_])
    for tenant_id, slug in owners:
        if request.caller.has_role(Role.VIEWER, slug or UNASSIGNED):
            return Scope(tenant_id, slug or UNASSIGNED), id_
    raise NotFoundError(NO_DEAD_LETTER)


# -- lists ------------------------------------------------------------------------------------------------------------


class LastError(BaseModel):
    """Error that caused the dead letter."""

    model_config = ConfigDict(extra="allow")

    type: str
    code: str | None = Field(default=None, description="Stable error code; null if the error has none.")
    message: str
    timestamp: datetime
    context: dict[str, JsonValue] = Field(
        default={}, description="`worker`, `attempt` and, for admins, `traceback`: frames of Counterfoil's own code."
    )


class Metadata(BaseModel):
    """Delivery state of the work item."""

    model_config = ConfigDict(extra="allow")

    created_at: datetime
    retry_count: int
    max_retry: int
    last_error: LastError


class Resolution(BaseModel):
    """How a dead letter was closed."""

    model_config = ConfigDict(extra="allow")

    action: str
    notes: str | None = None


class DeadLetterSummary(BaseModel):
    """A dead letter in a list."""

    job_id: UUID
    tenant: str
    worker: str
    task_type: str
    work_id: UUID | None
    revision: int | None
    attempts: int
    fingerprint: str
    dlq_reason: str
    dlq_timestamp: datetime = Field(description="Time of the last failure.")
    status: Status
    resolution: Resolution | None
    resolved_at: datetime | None
    resolved_by: str | None
    metadata: Metadata
    version: int = Field(description="Version, for `If-Match`.")
    file_name: str | None = Field(description="File that the work item processed, if any.")
    redacted_paths: Pointers


class DeadLetterPage(BaseModel):
    """Dead letters, newest first, and the cursor of the next page.

    A page of search results may have fewer than `limit` items even if it is not the last page.
    """

    dead_letters: list[DeadLetterSummary]
    next_cursor: str | None


class DeadLetterGroup(BaseModel):
    """Dead letters with the same error."""

    fingerprint: str
    worker: str
    error_type: str
    message: str = Field(description="Error message of the latest dead letter with one of the requested statuses.")
    first_seen: datetime
    last_seen: datetime
    count: int
    pending: int
    retried: int
    resolved: int
    ignored: int
    state: groups.State = Field(
        description="State of the whole group. A resolved or ignored group reopens after another failure."
    )
    trend: list[int] = Field(
        description=f"Number of failures in each of the last {groups.TREND_HOURS} hours, the current hour last."
    )
    redacted_paths: Pointers


class DeadLetterGroupPage(BaseModel):
    """Groups, latest failure first, and the cursor of the next page."""

    groups: list[DeadLetterGroup]
    next_cursor: str | None


class DeadLetterCounts(BaseModel):
    """Number of dead letters by status."""

    count: int
    pending: int
    retried: int
    resolved: int
    ignored: int


class DeadLetterCountsByType(DeadLetterCounts):
    """Number of dead letters for one task type, by status."""

    task_type: str


class DeadLetterStats(DeadLetterCounts):
    """Number of a tenant's dead letters by status, in total and for each task type."""

    tenant: str
    task_types: list[DeadLetterCountsByType]


def summary(dead_letter: DeadLetterEntry, slug: str, caller: Caller) -> DeadLetterSummary:
    """Return a tenant's dead letter as the caller may see it."""
    return DeadLetterSummary.model_validate(_visible_fields(dead_letter, slug, caller))


_EXTERNAL_TEXT_FIELDS = ("payload", "metadata", "resolution", "previous_failures", "file_name")
"""Fields with external text, which may contain secrets."""


def _visible_fields(dead_letter: DeadLetterEntry, slug: str, caller: Caller) -> dict[str, Any]:
    fields = vars(dead_letter)
    return {
        **fields,
        "tenant": slug,
        **hide_secrets({name: fields[name] for name in _EXTERNAL_TEXT_FIELDS if name in fields}, caller),
    }


@routes.get(
    "/api/admin/dlq",
    summary="List dead letters",
    tags=["dead letters"],
    responses=responses({200: (DeadLetterPage, "A page of dead letters, newest first.")}, 404, 422),
)
def list_dead_letters(  # noqa: PLR0913, PLR0917  # a query has this many parameters
    request: Request,
    tenant: TenantOrUnassigned = None,
    status: StatusFilter = None,
    task_type: TaskType = None,
    from_date: DeadLetteredFrom = None,
    to_date: DeadLetteredBefore = None,
    text: SearchText = None,
    fingerprint: GroupFingerprint = None,
    page: Annotated[
        int,
        Query(
            ge=1,
            le=MAX_PAGED,
            description=f"Page number. Pages reach only the first {MAX_PAGED} dead letters. Use `cursor` for more.",
        ),
    ] = 1,
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> DeadLetterPage:
    """Return a page of a tenant's dead letters."""
    after = http.decode_cursor(cursor)
    filters = DeadLetterFilter(
        status=tuple(status or STATUSES),
        task_type=task_type,
        from_date=from_date,
        to_date=to_date,
        search=text,
        fingerprint=fingerprint,
    )
    if page > 1:
        _check_page(page * limit, cursor, text)
    scope = request.scope(tenant)
    with scope.transaction(request.database) as connection:
        offset = (page - 1) * limit
        matches = search.page(connection, scope.tenant_id, filters, limit=limit, after=after, offset=offset)
    return DeadLetterPage(
        dead_letters=[summary(dead_letter, scope.slug, request.caller) for dead_letter in matches.entries],
        next_cursor=http.encode_cursor(matches.next_cursor),
    )


def _check_page(depth: int, cursor: str | None, text: str | None) -> None:
    if cursor is not None:
        raise RejectedRequestError("`page` and `cursor` are mutually exclusive.")
    if text is not None:
        raise RejectedRequestError(
            "A search does not support `page`. Use the previous page's `next_cursor` as `cursor`."
        )
    if depth > MAX_PAGED:
        raise RejectedRequestError(
            f"`page` reaches only {MAX_PAGED} dead letters. Use the previous page's `next_cursor` as `cursor`."
        )


@routes.get(
    "/api/admin/dlq/stats",
    summary="Count dead letters",
    tags=["dead letters"],
    responses=responses({200: (DeadLetterStats, "The counts.")}, 404, 422),
)
def count_dead_letters(request: Request, tenant: TenantOrUnassigned = None) -> DeadLetterStats:
    """Count a tenant's dead letters by task type and status."""
    scope = request.scope(tenant)
    with scope.transaction(request.database) as connection:
        by_status = groups.stats(connection, scope.tenant_id)
    by_type = {
        task_type: {status: by_status[task_type].get(status, 0) for status in STATUSES}
        for task_type in sorted(by_status)
    }
    total = {status: sum(counts[status] for counts in by_type.values()) for status in STATUSES}
    types = [{**counts, "count": sum(counts.values()), "task_type": name} for name, counts in by_type.items()]
    return DeadLetterStats.model_validate(
        {**total, "count": sum(total.values()), "tenant": scope.slug, "task_types": types}
    )


@routes.get(
    "/api/admin/dlq/groups",
    summary="List dead letter groups",
    tags=["dead letters"],
    responses=responses({200: (DeadLetterGroupPage, "A page of groups, latest failure first.")}, 404, 422),
)
def list_groups(
    request: Request,
    tenant: TenantOrUnassigned = None,
    status: StatusFilter = None,
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> DeadLetterGroupPage:
    """Return a page of groups that contain dead letters with one of the statuses."""
    after = http.decode_cursor(cursor, str)
    scope = request.scope(tenant)
    statuses = tuple(status or STATUSES)
    with scope.transaction(request.database) as connection:
        rows = groups.page(connection, scope.tenant_id, statuses, request.now, limit=limit + 1, after=after)
    page, next_cursor = http.split_page(rows, limit, lambda group: (group.last_seen, group.fingerprint))
    return DeadLetterGroupPage(
        groups=[
            DeadLetterGroup.model_validate(
                {
                    **vars(group),
                    "count": group.count,
                    "state": group.state,
                    **hide_secrets({"message": group.message}, request.caller),
                }
            )
            for group in page
        ],
        next_cursor=next_cursor,
    )


class IdMatch(BaseModel):
    """A resource found by a part of its id."""

    id: UUID | str = Field(description="Id of the resource, or fingerprint of a group.")
    tenant: str = Field(
        description="Slug of the tenant, or `-` if unassigned. A group may also contain dead letters of other tenants."
    )


class IdMatches(BaseModel):
    """Resources found by a part of their id."""

    found: list[IdMatch] = Field(description="At most two. Two results mean that the part is ambiguous.")


@routes.get(
    "/api/admin/dlq/lookup",
    summary="Find resources by part of an id",
    tags=["dead letters"],
    responses=responses({200: (IdMatches, "The resources found.")}, 422),
)
def find_named(
    request: Request,
    kind: Annotated[IdKind, Query(description="Kind of resource.")],
    part: Annotated[
        Annotated[str, StringConstraints(pattern=f"^[0-9a-f-]{{{search.MIN_PARTIAL_ID_CHARS},36}}$")],
        Query(description="End of an id, or start of the fingerprint of a group."),
    ],
) -> IdMatches:
    """Find resources visible to the caller, by the part of their id that tables show."""
    with request.database.delivery() as connection:
        matches = search.find_by_partial_id(connection, kind, part, request.visible_tenants())
    if kind == "task" and request.caller.role < Role.ADMIN:
        matches = [(id_, slug) for id_, slug in matches if _owns_task(request, UUID(str(id_)))]
    return IdMatches(found=[IdMatch(id=id_, tenant=slug or UNASSIGNED) for id_, slug in matches[:2]])


def _owns_task(request: Request, job_id: UUID) -> bool:
    with request.database.delivery() as connection:
        owner = owner_of(connection, "task", job_id)
    if owner is None:
        return False
    with request.database.tenant(owner[0]) as connection:
        task = tasks.show(connection, job_id)
    return task is not None and task.user_id == request.caller.subject


# -- one dead letter --------------------------------------------------------------------------------------------------


class PreviousFailure(BaseModel):
    """An earlier failure of the work item, and how it was closed."""

    model_config = ConfigDict(extra="allow")

    revision: int | None
    dlq_reason: str
    dlq_timestamp: datetime
    status: Status
    resolution: Resolution | None = None
    attempts: int | None = None
    last_error: LastError | None = None


class DeadLetter(DeadLetterSummary):
    """A dead letter with its payload."""

    payload: dict[str, JsonValue]
    previous_failures: list[PreviousFailure] = Field(
        description=f"At most the last {MAX_PREVIOUS_FAILURES} earlier failures, oldest first."
    )


_DETAIL_RESPONSES = responses(
    {200: (DeadLetter, "The dead letter."), 304: (None, "Unchanged: `If-None-Match` contains the current ETag.")},
    *(404, 422),
)
_DETAIL_RESPONSES[200]["headers"] = VERSIONED


@routes.get("/api/admin/dlq/<job_id>", summary="Show a dead letter", tags=["dead letters"], responses=_DETAIL_RESPONSES)
def show_dead_letter(request: Request, job_id: Id, if_none_match: IfNoneMatch = None) -> Response[DeadLetter | None]:
    """Return a dead letter with its payload and its work item's earlier failures."""
    scope, id_ = _find_owned(request, job_id)
    with scope.transaction(request.database) as connection:
        dead_letter = _load(connection, scope, id_)
    shown = replace(dead_letter, previous_failures=dead_letter.previous_failures[-MAX_PREVIOUS_FAILURES:])
    return json_response_if_changed(
        if_none_match,
        DeadLetter.model_validate(_visible_fields(shown, scope.slug, request.caller)),
        dead_letter.version,
    )


def _load(connection: Connection, scope: Scope, id_: UUID) -> DeadLetterDetails:
    dead_letter = search.show(connection, scope.tenant_id, id_)
    if dead_letter is None:  # purged concurrently
        raise NotFoundError(NO_DEAD_LETTER)
    return dead_letter


class AttemptLog(BaseModel):
    """Parameters for `aws logs filter-log-events`.

    Logs are retained for three months.
    """

    group: str = Field(description="Log group in CloudWatch Logs.")
    filter: str = Field(
        description="Filter pattern for the log lines of this work item, with outcome, attempt and trace_id."
    )
    since: datetime
    until: datetime
    url: str | None = Field(description="Link to the log in the AWS console; null in a local deployment.")


class ErrorSummary(BaseModel):
    """A stored error."""

    type: str | None
    message: str | None


class DeadLetterEvent(BaseModel):
    """An event in the history of a dead letter or its work item."""

    at: datetime = Field(description="Time at which the event ended.")
    kind: Literal["attempt", "dead_lettered", "change"]
    outcome: str = Field(description="Outcome of an attempt, reason for a failure, or kind of change.")
    actor: str = Field(description="The worker or person that caused the event.")
    error: ErrorSummary | None
    revision: int | None
    attempt: int | None = Field(description="Attempt number, or number of attempts before a failure.")
    started_at: datetime | None
    next_attempt_at: datetime | None
    detail: dict[str, JsonValue]
    log: AttemptLog | None = Field(description="Log of the attempt; null for other events.")
    trace_id: str | None = Field(
        description="Id of the X-Ray trace, if the attempt was sampled. X-Ray stores traces for 30 days."
    )
    trace_url: str | None = Field(description="Link to the trace in the AWS console; null in a local deployment.")


class DeadLetterTimeline(BaseModel):
    """History of a dead letter, oldest event first."""

    job_id: UUID
    tenant: str
    events: list[DeadLetterEvent] = Field(description=f"At most the last {MAX_EVENTS} events of each kind.")
    redacted_paths: Pointers


@routes.get(
    "/api/admin/dlq/<job_id>/timeline",
    summary="Show a dead letter's history",
    tags=["dead letters"],
    responses=responses({200: (DeadLetterTimeline, "Attempts, failures and changes, oldest first.")}, 404, 422),
)
def show_timeline(request: Request, job_id: Id) -> DeadLetterTimeline:
    """Return the attempts of a dead letter's work item, its failures and its changes."""
    scope, id_ = _find_owned(request, job_id)
    with scope.transaction(request.database) as connection:
        dead_letter = _load(connection, scope, id_)
        events = history.events(connection, scope.tenant_id, dead_letter, limit=MAX_EVENTS)
    redacted = hide_secrets({"events": [asdict(event) for event in events]}, request.caller)
    console_url = console(environ)
    for event, fields in zip(events, redacted["events"], strict=True):  # these links contain no external text
        fields["log"] = _event_log(event, dead_letter, console_url)
        fields["trace_url"] = trace_url(event.trace_id, console_url)
    return DeadLetterTimeline.model_validate({"job_id": id_, "tenant": scope.slug, **redacted})


def _event_log(event: history.Event, dead_letter: DeadLetterDetails, console_url: str | None) -> AttemptLog | None:
    if event.kind != "attempt" or dead_letter.work_id is None or event.revision is None or event.started_at is None:
        return None
    return attempt_log(dead_letter.worker, dead_letter.work_id, event.revision, event.started_at, event.at, console_url)


LOG_MARGIN = timedelta(minutes=1)
"""Margin around an attempt in log searches: log lines are written shortly after settlement, and clocks differ."""
_DOMAINS = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
"""Domains of the AWS console in other AWS partitions, by region prefix."""


def console(environment: Mapping[str, str]) -> str | None:
    """Return the URL of CloudWatch in the AWS console.

    Returns None if the region is unknown, or if an emulator replaces AWS.
    """
    region = environment.get("AWS_REGION")
    if region is None or "AWS_ENDPOINT_URL" in environment:
        return None
    domain = next(
        (domain for prefix, domain in _DOMAINS.items() if region.startswith(prefix)), "console.aws.amazon.com"
    )
    return f"https://{region}.{domain}/cloudwatch/home?region={region}"


def attempt_log(
    worker: str, work_id: UUID, revision: int, started_at: datetime, ended_at: datetime, console: str | None
) -> AttemptLog:
    """Return the parameters and the URL for finding an attempt's log in CloudWatch.

    `console` is the URL of CloudWatch in the AWS console, if any. Each attempt logs a line with the id and revision of
    its work item and its X-Ray trace.
    """
    log = AttemptLog(
        group=f"/aws/lambda/counterfoil-{worker}",
        filter=f'{{ $.work_id = "{work_id}" && $.revision = {revision} }}',
        since=started_at - LOG_MARGIN,
        until=ended_at + LOG_MARGIN,
        url=None,
    )
    return log if console is None else log.model_copy(update={"url": _log_url(console, log)})


def _log_url(console: str, log: AttemptLog) -> str:
    query = {"filterPattern": log.filter, "start": _milliseconds(log.since), "end": _milliseconds(log.until)}
    parameters = "$26".join(f"{name}$3D{_encode_twice(value)}" for name, value in query.items())
    return f"{console}#logsV2:log-groups/log-group/{_encode_twice(log.group)}/log-events$3F{parameters}"


def _encode_twice(text: str) -> str:
    """Percent-encode twice and replace `%` with `$`, as the AWS console does."""
    return quote(quote(text, safe=""), safe="").replace("%", "$")


def _milliseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1000))


def trace_url(trace_id: str | None, console: str | None) -> str | None:
    """Return a trace's URL in the AWS console, or None without a trace or console."""
    return None if trace_id is None or console is None else f"{console}#xray:traces/{trace_id}"


# -- changes ----------------------------------------------------------------------------------------------------------


class DeadLetterRetry(BaseModel):
    """A retry of a dead letter."""

    model_config = ConfigDict(extra="forbid")

    notes: Note | None = None


class DeadLetterResolution(BaseModel):
    """A request to resolve a dead letter, with a note on how the failure was handled."""

    model_config = ConfigDict(extra="forbid")

    notes: Note


class DeadLetterIgnore(BaseModel):
    """A request to ignore a dead letter. The reason may be in the URL instead."""

    model_config = ConfigDict(extra="forbid")

    reason: Note | None = None


class DeadLetterEdit(BaseModel):
    """The complete new payload of the task.

    Submit the original payload to undo an edit.
    """

    model_config = ConfigDict(extra="forbid")

    payload: dict[str, JsonValue]
    notes: Note | None = None


class DeadLetterChange(BaseModel):
    """The dead letter after a change."""

    job_id: UUID
    tenant: str
    status: Status
    version: int


class DeadLetterPayload(BaseModel):
    """The payload of a failed task."""

    job_id: UUID
    tenant: str
    task_type: str
    original: dict[str, JsonValue] = Field(description="Payload that the failed attempts used.")
    edited: dict[str, JsonValue] | None = Field(description="Payload for the next attempt; null if it was not edited.")
    edits: list[PayloadEdit] = Field(description="Edits, latest first. They remain after the dead letter is closed.")
    version: int


_FAILURES = (400, 404, 409, 412, 413, 415, 422, 429)
_CHANGE_RESPONSES = responses({200: (DeadLetterChange, "The dead letter was closed.")}, *_FAILURES)
_EDIT_RESPONSES = responses({200: (DeadLetterChange, "The payload was changed.")}, *_FAILURES, 428)
for _documented in (_CHANGE_RESPONSES, _EDIT_RESPONSES):
    _documented[200]["headers"] = VERSIONED
OptionalIfMatch = Annotated[
    str | None, Header(alias="If-Match", description="ETag of the dead letter. If it is outdated, the change fails.")
]


def _admit_change(
    request: Request, job_id: str, note: str | None, if_match: str | None, action: str, *, is_edit: bool = False
) -> tuple[Scope, ChangeRequest]:
    """Authorize a change to a dead letter, and charge it to the rate limit.

    A change requires the operator role. An edit also requires the right to edit payloads, and `If-Match`.
    """
    scope, id_ = _find_owned(request, job_id)
    if is_edit:
        _check_editor(request.caller, scope)
    request.admit_in(action, scope)
    version = required_version(if_match) if is_edit else sent_version(if_match)
    return scope, ChangeRequest(id_, version, request.caller.require_subject(), request.now, note)


def _change_response(scope: Scope, change: ChangeRequest, status: Status, result: ChangeResult) -> Response[Any]:
    return versioned_response(
        DeadLetterChange(job_id=change.job_id, tenant=scope.slug, status=status, version=result.version)
    )


@routes.post("/api/admin/dlq/<job_id>/retry", summary="Retry", tags=["dead letters"], responses=_CHANGE_RESPONSES)
def retry_dead_letter(
    request: Request,
    job_id: Id,
    body: Annotated[DeadLetterRetry | None, Body()] = None,
    if_match: OptionalIfMatch = None,
) -> Response[DeadLetterChange]:
    """Retry the failed work item of a dead letter."""
    scope, change = _admit_change(request, job_id, body.notes if body else None, if_match, "Retrying")
    result = actions.retry(request.database, scope.tenant_id, change, bucket=settings().uploads_bucket)
    request.send(result.messages)
    return _change_response(scope, change, "retried", result)


@routes.post("/api/admin/dlq/<job_id>/resolve", summary="Resolve", tags=["dead letters"], responses=_CHANGE_RESPONSES)
def resolve_dead_letter(
    request: Request, job_id: Id, body: Annotated[DeadLetterResolution, Body()], if_match: OptionalIfMatch = None
) -> Response[DeadLetterChange]:
    """Close a dead letter whose failure was handled in another way."""
    scope, change = _admit_change(request, job_id, body.notes, if_match, "Resolving")
    return _change_response(scope, change, "resolved", actions.resolve(request.database, scope.tenant_id, change))


@routes.post("/api/admin/dlq/<job_id>/ignore", summary="Ignore", tags=["dead letters"], responses=_CHANGE_RESPONSES)
def ignore_dead_letter(
    request: Request,
    job_id: Id,
    body: Annotated[DeadLetterIgnore | None, Body()] = None,
    reason: Annotated[
        Note | None, Query(description="Reason. Required here or in the body. If both are given, they must be equal.")
    ] = None,
    if_match: OptionalIfMatch = None,
) -> Response[DeadLetterChange]:
    """Close a dead letter without further action."""
    body_reason = body.reason if body else None
    if body_reason is not None and reason is not None and body_reason != reason:
        raise RejectedRequestError("The body and the URL contain different reasons. Omit one of them.")
    scope, change = _admit_change(request, job_id, reason if body_reason is None else body_reason, if_match, "Ignoring")
    return _change_response(scope, change, "ignored", actions.ignore(request.database, scope.tenant_id, change))


@routes.get(
    "/api/admin/dlq/<job_id>/payload",
    summary="Show a failed task's payload",
    tags=["dead letters"],
    responses=responses({200: (DeadLetterPayload, "The payload, for callers who may edit it.")}, 404, 409, 422),
)
def show_payload(request: Request, job_id: Id) -> Response[DeadLetterPayload]:
    """Return the original and the edited payload of a dead letter's task."""
    scope, id_ = _find_owned(request, job_id)
    _check_editor(request.caller, scope)
    stored = actions.show_payload(request.database, _editable(scope), id_, bucket=settings().uploads_bucket)
    return versioned_response(
        DeadLetterPayload(
            job_id=id_,
            tenant=scope.slug,
            task_type=stored.type.name,
            original=stored.original,
            edited=stored.edited,
            edits=list(stored.edits),
            version=stored.version,
        )
    )


@routes.patch(
    "/api/admin/dlq/<job_id>/payload", summary="Edit a payload", tags=["dead letters"], responses=_EDIT_RESPONSES
)
def edit_payload(
    request: Request, job_id: Id, body: Annotated[DeadLetterEdit, Body()], if_match: IfMatch = None
) -> Response[DeadLetterChange]:
    """Replace the payload of a failed task for its next attempt."""
    scope, change = _admit_change(request, job_id, body.notes, if_match, "Editing", is_edit=True)
    result = actions.edit_payload(
        request.database,
        _editable(scope),
        change,
        body.payload,
        bucket=settings().uploads_bucket,
        settings=settings(),
    )
    return _change_response(scope, change, "pending", result)


def _check_editor(caller: Caller, scope: Scope) -> None:
    if not caller.can_edit_payloads(scope.slug):
        raise ForbiddenError("Editing requires the admin role, or the operator role and the group edit-payloads.")


def _editable(scope: Scope) -> UUID:
    if scope.tenant_id is None:
        raise actions.PayloadNotEditableError(
            "Only the payloads of tasks can be edited. This message has no known task."
        )
    return scope.tenant_id


# -- audit trail ------------------------------------------------------------------------------------------------------

Hex = Annotated[str, BeforeValidator(lambda value: value.hex() if isinstance(value, bytes) else value)]


class AuditRecord(BaseModel):
    """An entry of the audit trail."""

    model_config = ConfigDict(from_attributes=True)

    number: int
    recorded_at: datetime
    actor: str
    action: str
    targets: list[str] = Field(description="Ids of the changed resources.")
    version_before: int | None
    version_after: int | None
    note_hash: Hex | None = Field(
        description="HMAC-SHA-256 of the note, with the tenant's secret key; null if there is no note."
    )
    detail: dict[str, JsonValue]
    previous_hash: Hex | None = Field(description="Hash of the previous entry; null for the first entry.")
    hash: Hex = Field(description="SHA-256 of the previous entry's hash and this entry.")


class AuditHead(BaseModel):
    """Chain head: number and hash of the latest entry, even if it was deleted."""

    number: int
    hash: str


class AuditPage(BaseModel):
    """Audit entries, newest first, with all values required to verify their hashes."""

    tenant_id: UUID | None = Field(description="Id of the tenant; null for the unassigned audit trail.")
    head: AuditHead | None = Field(description="Chain head; null if the audit trail is empty.")
    entries: list[AuditRecord]
    next_cursor: int | None


@routes.get(
    "/api/admin/dlq/audit",
    summary="List audit entries",
    tags=["dead letters"],
    responses=responses({200: (AuditPage, "A page of audit entries, newest first.")}, 404, 422),
)
def list_audit(
    request: Request,
    tenant: TenantOrUnassigned = None,
    target: Annotated[UUID | None, Query(description="Id of a changed resource, such as a dead letter.")] = None,
    cursor: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="`next_cursor` of the previous page.")] = None,
    limit: Limit = PAGE,
) -> AuditPage:
    """Return a page of a tenant's audit trail, or of the unassigned audit trail."""
    tenant_id, _ = scope = request.scope(tenant)
    target_id = None if target is None else str(target)
    with scope.transaction(request.database) as connection:
        head = audit.chain_head(connection, tenant_id)
        rows = audit.page(connection, tenant_id, limit=limit + 1, before=cursor, target=target_id)
    return AuditPage(
        tenant_id=tenant_id,
        head=None if head is None else AuditHead(number=head[0], hash=head[1].hex()),
        entries=[AuditRecord.model_validate(entry) for entry in rows[:limit]],
        next_cursor=rows[limit - 1].number if len(rows) > limit else None,
    )
