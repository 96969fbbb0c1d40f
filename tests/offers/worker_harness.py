"""Create a tenant's users for a day, and run the worker that computes offers."""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.work import Message
from functions.offers.work import PoolCache, compute_shard
from infra.worker_table import WORKERS
from tests.delivery.harness import Clock, Context, event, make_consumer, record, rows
from tests.offers.harness import jobs, make_people, pin, user

(ROW,) = (row for row in WORKERS if row.name == "offers")
WORKER = {
    "name": "offers",
    "timeout": ROW.timeout,
    "permits": 1,
    "start_margin": ROW.start_margin,
    "retries": "requeue",
}
QUEUES = {"offers": "offers", "document_output": "output"}
PEOPLE = range(1, 9)
NO_NUMBER = [float("nan")]


class OffersHarness:
    """A tenant's users, and the worker that computes their offers."""

    def __init__(self, database: Database, admin: Connection, clock: Clock, tenant_id: UUID) -> None:
        self.database, self.admin, self.clock, self.tenant_id = database, admin, clock, tenant_id
        self.pools = PoolCache()
        make_people(admin, tenant_id, PEOPLE)

    def pin(self, *numbers: int, shards: int = 2, **columns: Any) -> list[Message]:
        """Pin a pool of the users with these numbers, by default all.

        Return its shards' messages.
        """
        users = [user(number) for number in numbers or PEOPLE]
        return [message(id_) for id_ in pin(self.admin, self.tenant_id, users, shards=shards, **columns)]

    def deliver(
        self, *messages: Message, action: Callable[[TenantAttempt], Outcome] | None = None, seconds_left: float = 300
    ) -> list[str]:
        """Deliver each message to the worker in its own batch.

        Return the ids of failed messages.
        """
        consumer = make_consumer(
            self.database,
            action or partial(compute_shard, pools=self.pools),
            self.clock,
            worker=WORKER,
            queue_urls=QUEUES,
            retry_queue_urls={"offers": "offers-retry"},
            retry_delays={"offers": ROW.retry_delays},
        )
        failed = []
        for queued_message in messages:
            response = consumer.handle(event(record(queued_message)), Context(seconds_left))
            failed += [str(failure["itemIdentifier"]) for failure in response["batchItemFailures"]]
        return failed

    def pending_messages(self) -> list[Message]:
        """Return the current message of each pending shard."""
        records = self.admin.execute(
            "SELECT id, revision, send_number FROM offer_shard WHERE status = 'pending' ORDER BY name"
        ).fetchall()
        return [
            Message(work_id=id_, revision=revision, send_number=outbox_message)
            for id_, revision, outbox_message in records
        ]

    def shard(self, name: str) -> dict[str, Any]:
        (row,) = [row for row in rows(self.admin, "offer_shard") if row["name"] == name]
        return row

    def statuses(self) -> dict[int, str]:
        stored_jobs = jobs(self.admin)
        return {number: stored_jobs[user(number)][0] for number in PEOPLE if user(number) in stored_jobs}

    def invalidate_profiles(self, *numbers: int) -> None:
        """Set an invalid trait in the profiles of these users."""
        self.admin.execute(
            "UPDATE profile SET traits = %s WHERE user_id = ANY(%s)", [NO_NUMBER, [user(number) for number in numbers]]
        )


def message(shard_id: UUID, send_number: int = 0) -> Message:
    return Message(work_id=shard_id, revision=1, send_number=send_number)


@pytest.fixture
def offers_harness(database: Database, admin: Connection, clock: Clock, tenant: UUID, sqs: Any) -> OffersHarness:
    return OffersHarness(database, admin, clock, tenant)
