"""`/api/admin/mail`: mail that failed DMARC, and the policy for it.

Reading requires the viewer role for the tenant, releasing and rejecting the operator role, and changing the policy the
admin role.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import BaseModel, ConfigDict, Field

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.delivery.work import Send
from counterfoil.documents.mail import holds
from counterfoil.documents.mail.holds import Decision, DmarcPolicy, Hold, MailCursor
from functions.admin_api import http
from functions.admin_api.api.reviews import LONGEST_NAME, Reason
from functions.admin_api.auth import Caller, Request, Role, viewed
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, OneTenant, Routes, answer, caller, database, request
from functions.admin_api.http import ConflictError, ForbiddenError, responses

NO_MAIL = "There is no such mail."


class HeldMail(BaseModel):
    """A mail that failed DMARC."""

    model_config = ConfigDict(from_attributes=True)

    id: UUID
    received_at: datetime
    sender: str | None
    subject: str | None
    spf: str | None = Field(description="Result of Amazon SES, such as pass or fail.")
    dkim: str | None
    dmarc: str | None
    hold: Hold


class HeldMailPage(BaseModel):
    """Mails of a tenant, the newest first, and the cursor of the next page."""

    tenant: str
    mails: list[HeldMail]
    next: str | None


class MailPolicy(BaseModel):
    """A tenant's policy for mail that fails DMARC."""

    tenant: str
    dmarc_policy: DmarcPolicy


class MailPolicyChange(BaseModel):
    """The new policy of a tenant."""

    model_config = ConfigDict(extra="forbid")

    dmarc_policy: DmarcPolicy = Field(
        description="hold: mail that fails DMARC waits for an operator. reject: nothing is taken from it. "
        "accept: it is acquired like other mail."
    )
    previous: DmarcPolicy = Field(description="The policy to replace. If it is not the current one, the answer is 409.")


class MailDecision(BaseModel):
    """Why a mail is released or rejected."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason | None = None


class MailDecided(BaseModel):
    """A mail after a decision."""

    id: UUID
    tenant: str
    hold: Hold


def page(
    named: str | None, hold: Hold, cursor: str | None, limit: int, caller: Caller, database: Database
) -> HeldMailPage:
    """Return a page of a tenant's mails in this state.

    Raises:
        RejectedRequestError, ForbiddenError, NotFoundError, DatabaseUnavailableError: see `viewed`.
    """
    tenant_id, slug = viewed(database, named, caller)
    after = None if cursor is None else MailCursor(*http.after(cursor))
    with database.tenant(tenant_id) as connection:
        found = holds.page(connection, tenant_id, hold, after, limit + 1)
    shown, following = http.cut(found, limit, lambda mail: (mail.received_at, mail.id))
    return HeldMailPage(tenant=slug, mails=[HeldMail.model_validate(mail) for mail in shown], next=following)


def policy(named: str | None, caller: Caller, database: Database) -> MailPolicy:
    """Return a tenant's policy for mail that fails DMARC.

    Raises:
        RejectedRequestError, ForbiddenError, NotFoundError, DatabaseUnavailableError: see `viewed`.
    """
    tenant_id, slug = viewed(database, named, caller)
    with database.tenant(tenant_id) as connection:
        return MailPolicy(tenant=slug, dmarc_policy=holds.policy_of(connection, tenant_id))


def change_policy(named: str | None, asked: MailPolicyChange, request: Request) -> MailPolicy:
    """Change a tenant's policy for mail that fails DMARC.

    Raises:
        RejectedRequestError: see `slug_of`.
        ForbiddenError: the caller is not an admin of the tenant, or the token has no subject.
        ConflictError: the policy has changed since the caller read it.
        NotFoundError, TooManyError, DatabaseUnavailableError: see `Request.admit`.
    """
    slug = request.slug(named)
    if not request.caller.may(Role.ADMIN, slug):
        raise ForbiddenError("Changing the mail policy requires the admin role for this tenant: ask an admin for it.")
    tenant_id = request.admit("Changing the mail policy", slug)
    by = request.caller.named()[:LONGEST_NAME]

    def once() -> bool:
        with request.database.tenant(tenant_id) as connection:
            return holds.set_policy(connection, tenant_id, asked.dmarc_policy, asked.previous, by=by, at=request.now)

    if not retry_conflicts(once):
        raise ConflictError("Someone else changed the policy first. Read it again, then decide.")
    return MailPolicy(tenant=slug, dmarc_policy=asked.dmarc_policy)


def release(mail_id: str, asked: MailDecision | None, request: Request) -> MailDecided:
    """Acquire a held mail.

    Raises:
        NotFoundError: there is no such mail, or the caller may not see it.
        ForbiddenError: the caller is not an operator of its tenant, or the token has no subject.
        ConflictError: the mail is not on hold.
        TooManyError, DatabaseUnavailableError: see `Request.admit`.
    """
    return _decided(mail_id, asked, request, "released", holds.release)


def reject(mail_id: str, asked: MailDecision | None, request: Request) -> MailDecided:
    """Reject a held mail. Raises as `release`."""
    return _decided(mail_id, asked, request, "rejected", holds.reject)


def _decided(
    mail_id: str,
    asked: MailDecision | None,
    request: Request,
    hold: Hold,
    decide: Callable[[Connection, UUID, Decision], list[Send] | None],
) -> MailDecided:
    tenant_id, slug, id_ = request.owned(mail_id, holds.owner, NO_MAIL)
    request.admit("Deciding about mail", slug, tenant_id)
    by = request.caller.named()[:LONGEST_NAME]
    decision = Decision(id_, by, request.now, None if asked is None else asked.reason)

    def once() -> list[Send] | None:
        with request.database.tenant(tenant_id) as connection:
            return decide(connection, tenant_id, decision)

    sends = retry_conflicts(once)
    if sends is None:
        raise ConflictError("The mail is not on hold: it was released or rejected before.")
    request.send(sends)
    return MailDecided(id=id_, tenant=slug, hold=hold)


routes = Routes()

_DECIDED = responses({200: (MailDecided, "The decision is stored.")}, 400, 404, 409, 413, 415, 422, 429)


@routes.get(
    "/api/admin/mail",
    summary="List mail on hold",
    tags=["mail"],
    responses=responses({200: (HeldMailPage, "A page, the newest first.")}, 404, 422),
)
def list_mail(
    tenant: OneTenant = None,
    hold: Annotated[Hold, Query(description="`held` mail waits for an operator.")] = "held",
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> Response[HeldMailPage]:
    """Mail that failed DMARC, in one state."""
    return answer(200, page(tenant, hold, cursor, limit, caller(), database()))


@routes.get(
    "/api/admin/mail/policy",
    summary="Show the mail policy",
    tags=["mail"],
    responses=responses({200: (MailPolicy, "The policy.")}, 404, 422),
)
def show_mail_policy(tenant: OneTenant = None) -> Response[MailPolicy]:
    """A tenant's policy for mail that fails DMARC."""
    return answer(200, policy(tenant, caller(), database()))


@routes.put(
    "/api/admin/mail/policy",
    summary="Change the mail policy",
    tags=["mail"],
    responses=responses({200: (MailPolicy, "The policy is stored.")}, 400, 404, 409, 413, 415, 422, 429),
)
def change_mail_policy(asked: Annotated[MailPolicyChange, Body()], tenant: OneTenant = None) -> Response[MailPolicy]:
    """Change a tenant's policy for mail that fails DMARC. It applies to mail that is acquired from now on."""
    return answer(200, change_policy(tenant, asked, request()))


@routes.post("/api/admin/mail/<mail_id>/release", summary="Release a held mail", tags=["mail"], responses=_DECIDED)
def release_mail(mail_id: Id, asked: Annotated[MailDecision | None, Body()] = None) -> Response[MailDecided]:
    """Acquire the attachments of a held mail."""
    return answer(200, release(mail_id, asked, request()))


@routes.post("/api/admin/mail/<mail_id>/reject", summary="Reject a held mail", tags=["mail"], responses=_DECIDED)
def reject_mail(mail_id: Id, asked: Annotated[MailDecision | None, Body()] = None) -> Response[MailDecided]:
    """Take nothing from a held mail."""
    return answer(200, reject(mail_id, asked, request()))
