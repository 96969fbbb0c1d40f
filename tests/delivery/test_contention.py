"""Concurrent duplicates, claims of the same work item, and locked rows."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import Succeeded, TenantAttempt
from counterfoil.delivery.sql import Claim, ClaimStatus
from counterfoil.delivery.work import Message
from counterfoil.kinds import WORK_KINDS
from tests.delivery.harness import (
    DONE,
    Clock,
    Context,
    FakeSqs,
    claim,
    event,
    fail_transiently,
    life_cycle,
    make_consumer,
    record,
    rows,
    succeed,
)

Pending = Callable[..., Message]


class RacingDatabase(Database):
    """A database that runs a callback once, after its first delivery commit."""

    then: Callable[[], None] | None = None

    @contextmanager
    def delivery(self, **options: Any) -> Iterator[Connection]:
        with super().delivery(**options) as connection:
            yield connection
        then, self.then = self.then, None
        if then is not None:
            then()


@pytest.fixture
def racing_database(database_url: str) -> Iterator[RacingDatabase]:
    database = RacingDatabase(database_url)
    yield database
    database.close()


def test_overlapping_batches_claim_each_work_item_once(database_url: str, clock: Clock, pending: Pending) -> None:
    messages, now = [pending() for _ in range(12)], clock()
    claimed: list[tuple[UUID, int]] = []

    def claim_at_random(seed: int) -> None:
        rng, database = random.Random(seed), Database(database_url, max_connections=1)
        for _ in range(15):
            with database.delivery() as connection:
                claims = claim(connection, rng.sample(messages, 6), now).values()
            claimed.extend(
                (item.message.work_id, item.attempts) for item in claims if item.status is ClaimStatus.CLAIMED
            )
        database.close()

    threads = [threading.Thread(target=claim_at_random, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(claimed) == sorted((message.work_id, 1) for message in messages)


def test_message_claimed_elsewhere_during_parking_is_reported(
    database: Database, racing_database: RacingDatabase, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(attempts=1, next_attempt_at=clock() + timedelta(seconds=1))

    def claim_duplicate() -> None:  # another invocation claims the redelivered message two seconds later
        later = clock() + timedelta(seconds=2)
        with database.delivery() as connection:
            claims = claim(connection, [message], later)
            assert claims[message].status is ClaimStatus.CLAIMED

    racing_database.then = claim_duplicate

    response = make_consumer(racing_database, succeed, clock).handle(event(record(message)), Context())

    # If the message were deleted, the other invocation could not retry a failed attempt.
    assert len(response["batchItemFailures"]) == 1
    assert life_cycle(admin, message.work_id)["status"] == "in-progress"


def test_deferred_last_attempt_is_not_dead_lettered(
    database: Database, racing_database: RacingDatabase, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(status="in-progress", attempts=3, claim_token=5, lease_expires_at=clock() - timedelta(seconds=1))
    stalled = Claim(ClaimStatus.CLAIMED, message, attempts=3, token=5)

    def defer() -> None:  # an open breaker defers the stalled attempt between the claim and its settlement
        with database.delivery() as connection:
            sql.release_attempt(
                connection, WORK_KINDS["matching"], stalled, due=clock() + timedelta(minutes=1), now=clock()
            )

    racing_database.then = defer

    response = make_consumer(racing_database, fail_transiently, clock).handle(event(record(message)), Context())

    assert life_cycle(admin, message.work_id)["status"] == "pending"
    assert rows(admin, "dead_letter") == []
    assert len(response["batchItemFailures"]) == 1


def test_older_message_in_batch_does_not_affect_newest(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    newest = pending(send_number=2)
    older = newest.model_copy(update={"send_number": 1})
    copy, current = record(older), record(newest)

    response = make_consumer(database, lambda _attempt: DONE, clock).handle(event(copy, current), Context())

    assert life_cycle(admin, newest.work_id)["status"] == "succeeded"
    # The older message is reported, and dropped when it is redelivered.
    assert response == {"batchItemFailures": [{"itemIdentifier": copy["messageId"]}]}


# -- locked rows ------------------------------------------------------------------------------------------------------


def test_claim_after_lock_wait_reads_newest_row(
    database: Database, admin_database_url: str, admin: Connection, clock: Clock, pending: Pending
) -> None:
    message, now, results = pending(attempts=1), clock(), []

    def claim_message() -> None:
        with database.delivery() as connection:
            results.append(claim(connection, [message], now, take_over=True)[message])

    with psycopg.connect(admin_database_url) as other:
        other.execute(
            "UPDATE document SET matching_attempts = 2, matching_status = 'in-progress', matching_claimed_at = %s, "
            "matching_lease_expires_at = %s WHERE id = %s",
            [now, now - timedelta(seconds=1), message.work_id],
        )
        thread = threading.Thread(target=claim_message)
        thread.start()
        wait_until(admin, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")
        other.commit()
        thread.join()

    assert [(result.status, result.attempts) for result in results] == [(ClaimStatus.CLAIMED, 3)]


def wait_until(admin: Connection, condition: str) -> None:
    """Poll the server until `condition` holds, for example a lock wait."""
    for _ in range(10_000):
        if admin.execute(condition.encode()).fetchall()[0][0]:
            return
    raise AssertionError(f"Condition never held: {condition}")


def test_claim_ignores_foreign_key_locks(
    database: Database, admin_database_url: str, clock: Clock, pending: Pending
) -> None:
    message = pending()
    with psycopg.connect(admin_database_url) as writer:  # as when a match of the document is inserted
        writer.execute("SELECT FROM document WHERE id = %s FOR KEY SHARE", [message.work_id])
        with database.delivery() as connection:
            assert claim(connection, [message], clock())[message].status is ClaimStatus.CLAIMED


def test_locked_row_does_not_block_other_messages(
    database: Database, admin: Connection, admin_database_url: str, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    locked, unlocked = pending(), pending()
    with psycopg.connect(admin_database_url) as other:
        other.execute("SELECT 1 FROM document WHERE id = %s FOR UPDATE", [locked.work_id])
        consumer = make_consumer(database, lambda _attempt: DONE, clock)
        response = consumer.handle(event(record(locked), record(unlocked)), Context())

    assert life_cycle(admin, unlocked.work_id)["status"] == "succeeded"
    assert life_cycle(admin, locked.work_id)["status"] == "pending"
    assert len(response["batchItemFailures"]) == 1


def test_claimed_work_item_starts_before_lock_retry(
    database: Database, admin: Connection, admin_database_url: str, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    unlocked, locked = pending(), pending()
    started = threading.Event()

    def work(_attempt: TenantAttempt) -> Succeeded:
        started.set()
        return DONE

    consumer = make_consumer(database, work, clock)
    original_claim, waits = consumer.claims.claim, []

    def claim_after_start(*arguments: Any, **options: Any) -> Any:
        if list(arguments[0]) == [locked]:
            waits.append(started.wait(10))
        return original_claim(*arguments, **options)

    consumer.claims.claim = claim_after_start  # type: ignore[method-assign]
    with psycopg.connect(admin_database_url) as other:
        other.execute("SELECT 1 FROM document WHERE id = %s FOR UPDATE", [locked.work_id])
        consumer.handle(event(record(unlocked), record(locked)), Context())

    assert waits == [True]
    assert life_cycle(admin, unlocked.work_id)["status"] == "succeeded"


def test_late_invocation_does_not_retry_locked_messages(
    database: Database, admin: Connection, admin_database_url: str, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(3)]
    context = Context(60)
    consumer = make_consumer(database, lambda _attempt: DONE, clock)
    original_claim, requested = consumer.claims.claim, []

    def claim_slowly(*arguments: Any, **options: Any) -> Any:
        requested.append(len(arguments[0]))
        try:
            return original_claim(*arguments, **options)
        finally:
            context.left = 9

    consumer.claims.claim = claim_slowly  # type: ignore[method-assign]
    with psycopg.connect(admin_database_url) as other:
        other.execute(
            "SELECT 1 FROM document WHERE id = ANY(%s) FOR UPDATE", [[message.work_id for message in messages]]
        )
        response = consumer.handle(event(*map(record, messages)), context)

    assert requested == [2]  # one message per permit, without retries; the third message is never claimed
    assert len(response["batchItemFailures"]) == 3


def test_transaction_has_idle_total_and_lock_timeouts(database: Database, tenant: UUID) -> None:
    timeouts = "idle_in_transaction_session_timeout", "transaction_timeout", "lock_timeout"
    with database.tenant(tenant) as connection:
        values = [connection.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in timeouts]
    assert values == ["8s", "1min", "10s"]


def test_lease_renewal_skips_locked_work_items(
    database: Database, admin: Connection, clock: Clock, pending: Pending
) -> None:
    lease = clock() + timedelta(seconds=30)
    locked, unlocked = (
        pending(status="in-progress", attempts=1, claim_token=token, lease_expires_at=lease) for token in (7, 8)
    )
    tokens = {locked.work_id: 7, unlocked.work_id: 8}
    renewed_lease = lease + timedelta(seconds=60)

    with admin.transaction(), database.delivery() as connection:
        admin.execute("SELECT FROM document WHERE id = %s FOR NO KEY UPDATE", [locked.work_id])
        connection.execute("SET LOCAL lock_timeout = '10ms'")
        assert sql.renew(connection, WORK_KINDS["matching"], tokens, renewed_lease) == set()

    leases = [life_cycle(admin, message.work_id)["lease_expires_at"] for message in (locked, unlocked)]
    assert leases == [lease, renewed_lease]
