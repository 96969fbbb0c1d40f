"""`/api/admin/mail`: mail that failed DMARC, and the policy for it."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from counterfoil.documents.mail.holds import Hold
from functions.admin_api import mail
from functions.admin_api.problems import responses
from functions.admin_api.routes.common import (
    PAGE,
    Cursor,
    Id,
    Limit,
    OneTenant,
    Routes,
    answer,
    caller,
    change,
    database,
)

routes = Routes()
FORMS = (mail.MailDecision, mail.MailPolicyChange)
"""Forms of request bodies."""


_DECIDED = responses({200: (mail.MailDecided, "The decision is stored.")}, 400, 404, 409, 413, 415, 422, 429)


@routes.get(
    "/api/admin/mail",
    summary="List mail on hold",
    tags=["mail"],
    responses=responses({200: (mail.HeldMailPage, "A page, the newest first.")}, 404, 422),
)
def list_mail(
    tenant: OneTenant = None,
    hold: Annotated[Hold, Query(description="`held` mail waits for an operator.")] = "held",
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> Response[mail.HeldMailPage]:
    """Mail that failed DMARC, in one state."""
    return answer(200, mail.page(tenant, hold, cursor, limit, caller(), database()))


@routes.get(
    "/api/admin/mail/policy",
    summary="Show the mail policy",
    tags=["mail"],
    responses=responses({200: (mail.MailPolicy, "The policy.")}, 404, 422),
)
def show_mail_policy(tenant: OneTenant = None) -> Response[mail.MailPolicy]:
    """A tenant's policy for mail that fails DMARC."""
    return answer(200, mail.policy(tenant, caller(), database()))


@routes.put(
    "/api/admin/mail/policy",
    summary="Change the mail policy",
    tags=["mail"],
    responses=responses({200: (mail.MailPolicy, "The policy is stored.")}, 400, 404, 409, 413, 415, 422, 429),
)
def change_mail_policy(
    asked: Annotated[mail.MailPolicyChange, Body()], tenant: OneTenant = None
) -> Response[mail.MailPolicy]:
    """Change a tenant's policy for mail that fails DMARC. It applies to mail that is acquired from now on."""
    return answer(200, mail.change_policy(tenant, asked, change()))


@routes.post("/api/admin/mail/<mail_id>/release", summary="Release a held mail", tags=["mail"], responses=_DECIDED)
def release_mail(mail_id: Id, asked: Annotated[mail.MailDecision | None, Body()] = None) -> Response[mail.MailDecided]:
    """Acquire the attachments of a held mail."""
    return answer(200, mail.release(mail_id, asked, change()))


@routes.post("/api/admin/mail/<mail_id>/reject", summary="Reject a held mail", tags=["mail"], responses=_DECIDED)
def reject_mail(mail_id: Id, asked: Annotated[mail.MailDecision | None, Body()] = None) -> Response[mail.MailDecided]:
    """Take nothing from a held mail."""
    return answer(200, mail.reject(mail_id, asked, change()))
