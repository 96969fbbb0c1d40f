"""What the outbox does with messages that SQS refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from counterfoil import outbox
from counterfoil.db import Connection, Database
from counterfoil.errors import RejectedRequestError
from counterfoil.messages import Message
from counterfoil.outbox import BATCH, Outbox
from counterfoil.work import begin
from tests.delivery.harness import QUEUE_URL, Clock, FakeSqs


def test_what_is_refused_for_good_stops_no_others(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Callable[..., Message],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    messages = [pending() for _ in range(BATCH + 2)]
    sends = begin(admin, "matching", [message.work_id for message in messages], clock())
    real = outbox._call

    def refuse_first(url: str, entries: Any, **how: Any) -> Any:
        calls.append(len(entries))
        if len(calls) == 1:
            raise RejectedRequestError("BatchRequestTooLong")
        return real(url, entries, **how)

    monkeypatch.setattr(outbox, "_call", refuse_first)

    assert Outbox(database, {"matching": QUEUE_URL}, clock=clock).send(sends) == 2
    assert calls == [BATCH, 2]
    ((unsent,),) = admin.execute("SELECT count(*) FROM outbox WHERE sent_at IS NULL").fetchall()
    assert unsent == BATCH
