"""What the tests of delivery share: a fake queue in the place of SQS, a clock, documents waiting to be matched."""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.messages import Message
from tests.delivery.harness import Clock, FakeSqs
from tests.factories import NOW


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> FakeSqs:
    fake = FakeSqs()
    monkeypatch.setattr(aws, "client", lambda service: {"sqs": fake}[service])
    return fake


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def pending(make_document: Callable[..., UUID], tenant: UUID) -> Callable[..., Message]:
    """`pending(**columns)` makes a document that waits for its first try, and returns the message that names it."""

    def make(**columns: object) -> Message:
        values = {"matching_status": "pending", "matching_revision": 1} | {
            f"matching_{name}": value for name, value in columns.items()
        }
        if values["matching_status"] == "in-progress":
            values.setdefault("matching_claimed_at", NOW)
        document_id = make_document(tenant, {"invoice_number": "1"}, type="invoice", **values)
        return Message(
            work_id=document_id,
            revision=values["matching_revision"],  # type: ignore[arg-type]
            send_number=values.get("matching_send_number", 0),  # type: ignore[arg-type]
        )

    return make
