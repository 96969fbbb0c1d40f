"""Holds mail that fails DMARC until an operator releases or rejects it.

A held email's job has ended without documents, and its source has the state `held`. A release starts a new revision of
the job, so the email is acquired exactly once. Functions run in a transaction of one tenant.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, cast
from uuid import UUID

from pydantic import Field

from counterfoil import audit
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection, PageCursor
from counterfoil.delivery.work import OutboxMessage, start_revision
from counterfoil.documents.mail.message import REFUSALS, Refusal

Hold = Literal["held", "released", "rejected"]
DmarcPolicy = Literal["hold", "reject", "accept"]

_DECIDE = """
SELECT t.dmarc_policy, s.hold FROM tenant t LEFT JOIN source s ON s.job_id = %(job)s WHERE t.id = %(tenant)s
"""


def decide(connection: Connection, tenant_id: UUID, job_id: UUID) -> tuple[Hold | None, Refusal | None]:
    """Return the hold state and the refusal of an email that fails DMARC.

    If the refusal is None, the email is acquired. An operator's decision takes precedence over the tenant's policy.
    """
    ((policy, hold),) = connection.execute(_DECIDE, {"tenant": tenant_id, "job": job_id}).fetchall()
    if hold == "released":
        return hold, None
    if hold == "rejected" or policy == "reject":
        return "rejected", Refusal.REJECTED
    return (None, None) if policy == "accept" else ("held", Refusal.ON_HOLD)


def policy_of(connection: Connection, tenant_id: UUID) -> DmarcPolicy:
    """Return the tenant's policy for mail that fails DMARC."""
    ((policy,),) = connection.execute("SELECT dmarc_policy FROM tenant WHERE id = %s", [tenant_id]).fetchall()
    return cast("DmarcPolicy", policy)


_SET_POLICY = """
UPDATE tenant SET dmarc_policy = %(policy)s WHERE id = %(tenant)s AND dmarc_policy = %(previous)s
"""


def set_policy(
    connection: Connection, tenant_id: UUID, policy: DmarcPolicy, previous: DmarcPolicy, *, by: str, at: datetime
) -> bool:
    """Replace the tenant's policy, and record the change.

    If `policy` is already set, nothing changes, and the result is True. Otherwise, returns False if `previous` is not
    the current policy.
    """
    if policy_of(connection, tenant_id) == policy:
        return True
    values = {"policy": policy, "tenant": tenant_id, "previous": previous}
    if connection.execute(_SET_POLICY, values).rowcount == 0:
        return False
    detail = {"policy": policy}
    audit.record(connection, tenant_id, AuditRecord(by, "dmarc policy changed", [str(tenant_id)], at, detail=detail))
    return True


@dataclass(frozen=True)
class HeldMail:
    """An email that failed DMARC."""

    id: UUID
    received_at: datetime
    sender: str | None
    subject: str | None
    spf: Annotated[str | None, Field(description="Result from Amazon SES, such as pass or fail.")]
    dkim: str | None
    dmarc: str | None
    hold: Hold


_PAGE = """
SELECT id, received_at, sender, subject, spf, dkim, dmarc, hold FROM source
WHERE tenant_id = %(tenant)s AND hold = %(hold)s
  AND (%(at)s::timestamptz IS NULL OR (received_at, id) < (%(at)s, %(id)s::uuid))
ORDER BY received_at DESC, id DESC LIMIT %(limit)s
"""


def page(connection: Connection, tenant_id: UUID, hold: Hold, after: PageCursor | None, limit: int) -> list[HeldMail]:
    """Return the next page of emails in this state, newest first.

    `after` is the cursor.
    """
    at, id_ = after or (None, None)
    values = {"tenant": tenant_id, "hold": hold, "at": at, "id": id_, "limit": limit}
    return [HeldMail(*row) for row in connection.execute(_PAGE, values)]


@dataclass(frozen=True)
class Decision:
    """An operator's decision about a held email."""

    source_id: UUID
    by: str
    at: datetime
    reason: str | None


_END = """
UPDATE source SET hold = %(hold)s, rejection_reason = coalesce(%(refusal)s, rejection_reason) WHERE id = %(id)s
    AND hold = 'held'
RETURNING job_id
"""
_SET_REASON = "UPDATE acquisition_job SET skip_reason = %s WHERE id = %s AND status IS NULL"


def release(connection: Connection, tenant_id: UUID, decision: Decision) -> list[OutboxMessage] | None:
    """Release a held email for acquisition, and record who released it.

    Returns its job's message, to be sent after the commit. Returns None if the email is not on hold.
    """
    job_id = _end_hold(connection, "released", None, decision)
    if job_id is None:
        return None
    messages = start_revision(connection, "acquisition", [job_id], decision.at)
    _record(connection, tenant_id, "mail released", decision)
    return messages


def reject(connection: Connection, tenant_id: UUID, decision: Decision) -> list[OutboxMessage] | None:
    """Reject a held email, and record who rejected it.

    Returns an empty list, or None if the email is not on hold.
    """
    job_id = _end_hold(connection, "rejected", Refusal.REJECTED, decision)
    if job_id is None:
        return None
    connection.execute(_SET_REASON, [REFUSALS[Refusal.REJECTED], job_id])
    _record(connection, tenant_id, "mail rejected", decision)
    return []


def _end_hold(connection: Connection, hold: Hold, refusal: Refusal | None, decision: Decision) -> UUID | None:
    """End the hold. Return the email's job id, or None if the email is not on hold."""
    values = {"hold": hold, "refusal": refusal, "id": decision.source_id}
    row = connection.execute(_END, values).fetchone()
    return None if row is None else row[0]


def _record(connection: Connection, tenant_id: UUID, action: str, decision: Decision) -> None:
    entry = AuditRecord(decision.by, action, [str(decision.source_id)], decision.at, note=decision.reason)
    audit.record(connection, tenant_id, entry)
