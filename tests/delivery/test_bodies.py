"""Bodies that no message of ours has: each to its outcome, and the batch's other records untouched."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery import Success
from counterfoil.messages import Message
from tests.delivery.harness import Clock, Context, FakeSqs, event, life_cycle, make_consumer, record, rows

UNREADABLE = {
    "empty": "",
    "not JSON": "finally: delete",
    "a list": "[]",
    "a number": "1",
    "no work": '{"schema_version": 1, "revision": 1, "send_number": 0}',
    "a work that is no id": '{"schema_version": 1, "work_id": "x", "revision": 1, "send_number": 0}',
    "revision zero": f'{{"schema_version": 1, "work_id": "{uuid4()}", "revision": 0, "send_number": 0}}',
    "revision as text": f'{{"schema_version": 1, "work_id": "{uuid4()}", "revision": "1", "send_number": 0}}',
    "a field too many": f'{{"schema_version": 1, "work_id": "{uuid4()}", "revision": 1, "send_number": 0, "x": 1}}',
    "an old schema": f'{{"schema_version": 0, "work_id": "{uuid4()}", "revision": 1, "send_number": 0}}',
    "NUL": '{"a": "\\u0000"}\x00',
    "half a surrogate": '"\ud800"',
    "a mebibyte": "x" * 1024 * 1024,
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_body_becomes_a_dead_letter_and_its_neighbour_succeeds(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Callable[..., Message],
    name: str,
) -> None:
    good = pending()

    response = make_consumer(database, lambda attempt: Success(lambda connection: ()), clock).handle(
        event(record(UNREADABLE[name]), record(good)), Context()
    )

    assert response == {"batchItemFailures": []}
    assert life_cycle(admin, good.work_id)["status"] == "succeeded"
    (letter,) = rows(admin, "dead_letter")
    assert (letter["worker"], letter["work_id"], letter["dlq_reason"]) == ("matching", None, "non_retriable_error")
    body = letter["payload"]["body"]
    if letter["payload"]["encoding"] == "hex":
        body = bytes.fromhex(body).decode(errors="surrogatepass")
    assert body == UNREADABLE[name]
    assert letter["metadata"]["last_error"]["message"].startswith("The message")


def test_the_same_unreadable_message_twice_is_one_dead_letter_with_its_history(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    consumer = make_consumer(database, lambda attempt: Success(lambda connection: ()), clock)
    same = record("not JSON")

    consumer.handle(event(same), Context())
    consumer.handle(event(same), Context())

    (letter,) = rows(admin, "dead_letter")
    assert [entry["dlq_reason"] for entry in letter["lineage"]] == ["non_retriable_error"]


def test_a_newer_schema_waits_for_the_deployment(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    newer = f'{{"schema_version": 2, "work": "{uuid4()}"}}'

    response = make_consumer(database, lambda attempt: Success(lambda connection: ()), clock).handle(
        event(record(newer, handle="newer")), Context()
    )

    assert len(response["batchItemFailures"]) == 1
    assert sqs.visibility["newer"] == 300
    assert rows(admin, "dead_letter") == []
