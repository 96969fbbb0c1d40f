"""Begins work anew that was done or has failed, or closes what is left of it, with the dead letters that it has."""

from collections.abc import Collection
from datetime import datetime
from typing import Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection
from counterfoil.work import KINDS, Send, begin

_SETTLE = """
WITH settled AS (
    UPDATE dead_letter SET status = %(status)s, resolution = %(resolution)s, resolved_at = %(now)s,
        resolved_by = %(actor)s
    WHERE job_id = ANY(%(jobs)s) AND status = 'pending' RETURNING job_id, tenant_id, revision
)
INSERT INTO dead_letter_audit (tenant_id, job_id, action, actor, detail, recorded_at)
SELECT tenant_id, job_id, %(action)s, %(actor)s, jsonb_build_object('revision', revision), %(now)s FROM settled
"""


def renew(
    connection: Connection, worker: str, ids: Collection[UUID], now: datetime, *, actor: str, why: str
) -> list[Send]:
    """Begin a new revision of each work and owe its message, in the caller's transaction.

    Failed work is sent again by that, as a person's redrive does: its dead letter is settled as retried.
    """
    sends = begin(connection, worker, sorted(ids), now)
    if ids:
        settle_letters(connection, worker, ids, "retried", now, actor=actor, notes=why)
    return sends


def settle_letters(
    connection: Connection,
    worker: str,
    ids: Collection[UUID],
    status: Literal["retried", "resolved"],
    now: datetime,
    *,
    actor: str,
    notes: str,
) -> None:
    """Settle the open dead letters of works, with an entry of the audit trail for each."""
    connection.execute(
        _SETTLE,
        {
            "jobs": [KINDS[worker].job_id(id_) for id_ in ids],
            "status": status,
            "action": status,
            "resolution": Jsonb({"action": status, "notes": notes}),
            "actor": actor,
            "now": now,
        },
    )
