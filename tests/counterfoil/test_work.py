"""Waking of pending work items."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import Message, wake
from tests.factories import NOW, make_task


def test_only_pending_work_items_are_woken(admin: Connection, database: Database, make_tenant: Callable[..., UUID]):
    tenant = make_tenant("acme")
    later = NOW + timedelta(hours=1)
    waiting = make_task(admin, tenant, attempts=1, next_attempt_at=later, send_number=3, claim_token=7)
    others = [make_task(admin, tenant, status=status) for status in ("in-progress", "succeeded", "failed", None)]

    with database.tenant(tenant) as connection:
        sends = wake(connection, "tasks", [waiting, *others], NOW)

    assert [(send.message, send.scheduled_at) for send in sends] == [
        (Message(work_id=waiting, revision=1, send_number=4), NOW)
    ]
    row = admin.execute(
        "SELECT status, attempts, next_attempt_at, send_number, claim_token <> 7 FROM task WHERE id = %s", [waiting]
    ).fetchone()
    assert row == ("pending", 1, None, 4, True)  # a new token, because earlier reads are outdated
