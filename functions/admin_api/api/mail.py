"""`/api/admin/mail`: mail that failed DMARC, and the policy for it.

Reading requires the viewer role for the tenant. Releasing and rejecting mail requires the operator role, and changing
the policy requires the admin role.
"""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import BaseModel, ConfigDict, Field

from counterfoil.db import Connection
from counterfoil.delivery.work import OutboxMessage
from counterfoil.documents.mail import holds
from counterfoil.documents.mail.holds import Decision, DmarcPolicy, HeldMail, Hold
from functions.admin_api import http
from functions.admin_api.auth import MAX_ACTOR_CHARS, Request, Role
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, Note, OneTenant, Routes
from functions.admin_api.http import ConflictError, responses

routes = Routes()
NO_MAIL = "There is no such email."


class HeldMailPage(BaseModel):
    """A page of a tenant's emails that failed DMARC, newest first."""

    tenant: str
    mails: list[HeldMail]
    next_cursor: str | None


class MailPolicy(BaseModel):
    """A tenant's policy for mail that fails DMARC."""

    tenant: str
    dmarc_policy: DmarcPolicy


class MailPolicyChange(BaseModel):
    """A change to a tenant's mail policy."""

    model_config = ConfigDict(extra="forbid")

    dmarc_policy: DmarcPolicy = Field(
        description="Handling of mail that fails DMARC. hold: it waits for an operator. reject: its attachments are "
        "ignored. accept: it is processed like other mail."
    )
    previous: DmarcPolicy = Field(
        description="Policy before the change. If it is not the current policy, the response is 409."
    )


class MailDecision(BaseModel):
    """A decision about an email on hold."""

    model_config = ConfigDict(extra="forbid")

    reason: Note | None = None


class MailDecided(BaseModel):
    """An email after a decision."""

    id: UUID
    tenant: str
    hold: Hold


@routes.get(
    "/api/admin/mail",
    summary="List mail on hold",
    tags=["mail"],
    responses=responses({200: (HeldMailPage, "A page of emails, newest first.")}, 404, 422),
)
def list_mail(
    request: Request,
    tenant: OneTenant = None,
    hold: Annotated[
        Hold, Query(description="State of the emails. Emails in the state `held` wait for an operator.")
    ] = "held",
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> HeldMailPage:
    """Return a page of mail that failed DMARC and is in the requested state."""
    tenant_id, slug = request.tenant(tenant)
    after = http.decode_cursor(cursor)
    with request.database.tenant(tenant_id) as connection:
        rows = holds.page(connection, tenant_id, hold, after, limit + 1)
    page, next_cursor = http.split_page(rows, limit, lambda mail: (mail.received_at, mail.id))
    return HeldMailPage(tenant=slug, mails=list(page), next_cursor=next_cursor)


@routes.get(
    "/api/admin/mail/policy",
    summary="Show the mail policy",
    tags=["mail"],
    responses=responses({200: (MailPolicy, "The policy.")}, 404, 422),
)
def show_mail_policy(request: Request, tenant: OneTenant = None) -> MailPolicy:
    """Return a tenant's policy for mail that fails DMARC."""
    tenant_id, slug = request.tenant(tenant)
    with request.database.tenant(tenant_id) as connection:
        return MailPolicy(tenant=slug, dmarc_policy=holds.policy_of(connection, tenant_id))


@routes.put(
    "/api/admin/mail/policy",
    summary="Change the mail policy",
    tags=["mail"],
    responses=responses({200: (MailPolicy, "The policy was stored.")}, 400, 404, 409, 413, 415, 422, 429),
)
def change_mail_policy(
    request: Request, body: Annotated[MailPolicyChange, Body()], tenant: OneTenant = None
) -> MailPolicy:
    """Change a tenant's policy for mail that fails DMARC.

    It applies to mail processed from now on.
    """
    slug = request.slug(tenant)
    tenant_id = request.admit("Changing the mail policy", slug, role=Role.ADMIN)
    actor = request.caller.require_subject()[:MAX_ACTOR_CHARS]
    if not request.commit(
        tenant_id,
        lambda connection: holds.set_policy(
            connection, tenant_id, body.dmarc_policy, body.previous, by=actor, at=request.now
        ),
    ):
        raise ConflictError("Someone else changed the policy first. Read it again, then decide.")
    return MailPolicy(tenant=slug, dmarc_policy=body.dmarc_policy)


_DECISION_RESPONSES = responses({200: (MailDecided, "The decision was stored.")}, 400, 404, 409, 413, 415, 422, 429)


@routes.post(
    "/api/admin/mail/<mail_id>/release", summary="Release an email", tags=["mail"], responses=_DECISION_RESPONSES
)
def release_mail(request: Request, mail_id: Id, body: Annotated[MailDecision | None, Body()] = None) -> MailDecided:
    """Release an email that is on hold. Its attachments are processed."""
    return _decide(request, mail_id, body, "released", holds.release)


@routes.post(
    "/api/admin/mail/<mail_id>/reject", summary="Reject an email", tags=["mail"], responses=_DECISION_RESPONSES
)
def reject_mail(request: Request, mail_id: Id, body: Annotated[MailDecision | None, Body()] = None) -> MailDecided:
    """Reject an email that is on hold. Its attachments are ignored."""
    return _decide(request, mail_id, body, "rejected", holds.reject)


def _decide(
    request: Request,
    mail_id: str,
    body: MailDecision | None,
    hold: Hold,
    decide: Callable[[Connection, UUID, Decision], list[OutboxMessage] | None],
) -> MailDecided:
    tenant_id, slug, id_ = request.owned(mail_id, "source", NO_MAIL)
    request.admit("Releasing or rejecting mail", slug, tenant_id)
    decision = Decision(
        id_, request.caller.require_subject()[:MAX_ACTOR_CHARS], request.now, body.reason if body else None
    )
    messages = request.commit(tenant_id, lambda connection: decide(connection, tenant_id, decision))
    if messages is None:
        raise ConflictError("The email is no longer on hold: it was already released or rejected.")
    request.send(messages)
    return MailDecided(id=id_, tenant=slug, hold=hold)
