"""`wake` makes pending work items due immediately."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import Message, parse_json_body, wake
from counterfoil.errors import InvalidMessageError
from tests.factories import NOW, make_task


def test_only_pending_work_items_are_woken(admin: Connection, database: Database, make_tenant: Callable[..., UUID]):
    tenant = make_tenant("acme")
    next_attempt_at = NOW + timedelta(hours=1)
    pending = make_task(admin, tenant, attempts=1, next_attempt_at=next_attempt_at, send_number=3, claim_token=7)
    other_work_items = [
        make_task(admin, tenant, status=status) for status in ("in-progress", "succeeded", "failed", None)
    ]

    with database.tenant(tenant) as connection:
        messages = wake(connection, "tasks", [pending, *other_work_items], NOW)

    assert [(send.message, send.scheduled_at) for send in messages] == [
        (Message(work_id=pending, revision=1, send_number=4), NOW)
    ]
    row = admin.execute(
        "SELECT status, attempts, next_attempt_at, send_number, claim_token <> 7 FROM task WHERE id = %s", [pending]
    ).fetchone()
    assert row == ("pending", 1, None, 4, True)  # a new token, because earlier reads are outdated


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("[]", "a JSON array"),
        ('"text"', "a JSON string"),
        ("1", "a JSON number"),
        ("1.5", "a JSON number"),
        ("true", "a JSON boolean"),
        ("null", "JSON null"),
    ],
)
def test_invalid_message_error_names_the_json_type(body: str, name: str):
    with pytest.raises(InvalidMessageError, match=f"^The message is {name}, not an object$"):
        parse_json_body(body)
