"""Two at once: copies of a message, claims of the same work, and rows that somebody else locks."""

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
from counterfoil.delivery.sql import Answer, Claim
from counterfoil.delivery.work import Message
from counterfoil.kinds import KINDS
from tests.delivery.harness import (
    DONE,
    Clock,
    Context,
    FakeSqs,
    claim,
    done,
    event,
    fails,
    life_cycle,
    make_consumer,
    record,
    rows,
)

Pending = Callable[..., Message]


class Between(Database):
    """Does something once, right after its first delivery transaction has committed."""

    then: Callable[[], None] | None = None

    @contextmanager
    def delivery(self, **how: Any) -> Iterator[Connection]:
        with super().delivery(**how) as connection:
            yield connection
        then, self.then = self.then, None
        if then is not None:
            then()


@pytest.fixture
def between(database_url: str) -> Iterator[Between]:
    database = Between(database_url)
    yield database
    database.close()


def test_claims_of_overlapping_batches_give_each_work_to_exactly_one(
    database_url: str, clock: Clock, pending: Pending
) -> None:
    messages, now = [pending() for _ in range(12)], clock()
    mine: list[tuple[UUID, int]] = []

    def claim_at_random(seed: int) -> None:
        choose, database = random.Random(seed), Database(database_url, max_connections=1)
        for _ in range(15):
            with database.delivery() as connection:
                claims = claim(connection, choose.sample(messages, 6), now).values()
            mine.extend((one.message.work_id, one.attempts) for one in claims if one.answer is Answer.MINE)
        database.close()

    threads = [threading.Thread(target=claim_at_random, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(mine) == sorted((message.work_id, 1) for message in messages)


def test_a_copy_that_is_parked_while_its_twin_claims_is_not_acknowledged(
    database: Database, between: Between, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(attempts=1, next_attempt_at=clock() + timedelta(seconds=1))

    def twin() -> None:  # the same message, delivered twice: the other invocation claims, two seconds later
        later = clock() + timedelta(seconds=2)
        with database.delivery() as connection:
            claims = claim(connection, [message], later)
            assert claims[message].answer is Answer.MINE

    between.then = twin

    response = make_consumer(between, done, clock).handle(event(record(message)), Context())

    assert len(response["batchItemFailures"]) == 1  # or the twin, failing, would wait behind a message that is gone
    assert life_cycle(admin, message.work_id)["status"] == "in-progress"


def test_a_last_attempt_that_is_given_back_while_it_is_taken_for_lost_is_not_dead(
    database: Database, between: Between, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(status="in-progress", attempts=3, claim_token=5, lease_expires_at=clock() - timedelta(seconds=1))
    stalled = Claim(Answer.MINE, message, attempts=3, token=5)

    def defer() -> None:  # it stalled and lives: between our look and our settlement it meets an open breaker
        with database.delivery() as connection:
            sql.defer(connection, KINDS["matching"], stalled, due=clock() + timedelta(minutes=1), now=clock())

    between.then = defer

    response = make_consumer(between, fails, clock).handle(event(record(message)), Context())

    assert life_cycle(admin, message.work_id)["status"] == "pending"
    assert rows(admin, "dead_letter") == []
    assert len(response["batchItemFailures"]) == 1


def test_an_older_copy_in_the_same_batch_costs_the_newest_message_nothing(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    newest = pending(send_number=2)
    older = newest.model_copy(update={"send_number": 1})
    copy, current = record(older), record(newest)

    response = make_consumer(database, lambda _attempt: DONE, clock).handle(event(copy, current), Context())

    assert life_cycle(admin, newest.work_id)["status"] == "succeeded"
    assert response == {"batchItemFailures": [{"itemIdentifier": copy["messageId"]}]}  # ended, when it comes again


# -- rows that are locked ---------------------------------------------------------------------------------------------


def test_a_claim_that_had_to_wait_answers_from_the_newest_row(
    database: Database, admin_database_url: str, admin: Connection, clock: Clock, pending: Pending
) -> None:
    message, now, answers = pending(attempts=1), clock(), []

    def claim_it() -> None:
        with database.delivery() as connection:
            answers.append(claim(connection, [message], now, take_over=True)[message])

    with psycopg.connect(admin_database_url) as other:
        other.execute(
            "UPDATE document SET matching_attempts = 2, matching_status = 'in-progress', matching_claimed_at = %s, "
            "matching_lease_expires_at = %s WHERE id = %s",
            [now, now - timedelta(seconds=1), message.work_id],
        )
        thread = threading.Thread(target=claim_it)
        thread.start()
        until(admin, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")
        other.commit()
        thread.join()

    assert [(answer.answer, answer.attempts) for answer in answers] == [(Answer.MINE, 3)]


def until(admin: Connection, condition: str) -> None:
    """Ask the server until `condition` holds: another session tells nobody when it begins to wait."""
    for _ in range(10_000):
        if admin.execute(condition.encode()).fetchall()[0][0]:
            return
    raise AssertionError(f"never: {condition}")


def test_a_claim_does_not_wait_for_the_locks_of_foreign_keys(
    database: Database, admin_database_url: str, clock: Clock, pending: Pending
) -> None:
    message = pending()
    with psycopg.connect(admin_database_url) as writer:  # an edge to the document, just being inserted
        writer.execute("SELECT FROM document WHERE id = %s FOR KEY SHARE", [message.work_id])
        with database.delivery() as connection:
            assert claim(connection, [message], clock())[message].answer is Answer.MINE


def test_a_row_that_stays_locked_stops_its_own_record_only(
    database: Database,
    admin_database_url: str,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck, good = pending(), pending()
    with psycopg.connect(admin_database_url) as other:
        other.execute("UPDATE document SET cluster_id = id WHERE id = %s", [stuck.work_id])

        response = make_consumer(database, done, clock).handle(event(record(stuck), record(good)), Context())

        other.rollback()
    assert len(response["batchItemFailures"]) == 1
    assert life_cycle(admin, good.work_id)["status"] == "succeeded"


def test_a_row_that_somebody_else_locks_keeps_no_neighbour_from_its_try(
    database: Database, admin: Connection, admin_database_url: str, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    locked, free = pending(), pending()
    with psycopg.connect(admin_database_url) as other:
        other.execute("SELECT 1 FROM document WHERE id = %s FOR UPDATE", [locked.work_id])
        consumer = make_consumer(database, lambda _attempt: DONE, clock)
        response = consumer.handle(event(record(locked), record(free)), Context())

    assert life_cycle(admin, free.work_id)["status"] == "succeeded"
    assert life_cycle(admin, locked.work_id)["status"] == "pending"
    assert len(response["batchItemFailures"]) == 1


def test_what_is_claimed_begins_before_a_locked_row_is_waited_for_again(
    database: Database, admin: Connection, admin_database_url: str, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    free, locked = pending(), pending()
    begun = threading.Event()

    def work(_attempt: TenantAttempt) -> Succeeded:
        begun.set()
        return DONE

    consumer = make_consumer(database, work, clock)
    claim, waited = consumer.claims.claim, []

    def claim_after_the_other_began(wanted: Any, *, take_over: bool) -> Any:
        if list(wanted) == [locked]:
            waited.append(begun.wait(10))
        return claim(wanted, take_over=take_over)

    consumer.claims.claim = claim_after_the_other_began  # type: ignore[method-assign]
    with psycopg.connect(admin_database_url) as other:
        other.execute("SELECT 1 FROM document WHERE id = %s FOR UPDATE", [locked.work_id])
        consumer.handle(event(record(free), record(locked)), Context())

    assert waited == [True]
    assert life_cycle(admin, free.work_id)["status"] == "succeeded"


def test_no_lock_is_waited_for_when_the_invocation_is_about_to_end(
    database: Database, admin: Connection, admin_database_url: str, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(3)]
    context = Context(60)
    consumer = make_consumer(database, lambda _attempt: DONE, clock)
    claim, asked = consumer.claims.claim, []

    def claim_and_take_long(wanted: Any, *, take_over: bool) -> Any:
        asked.append(len(wanted))
        try:
            return claim(wanted, take_over=take_over)
        finally:
            context.left = 9

    consumer.claims.claim = claim_and_take_long  # type: ignore[method-assign]
    with psycopg.connect(admin_database_url) as other:
        other.execute("SELECT 1 FROM document WHERE id = ANY(%s) FOR UPDATE", [[one.work_id for one in messages]])
        response = consumer.handle(event(*map(record, messages)), context)

    assert asked == [2]  # the permits; neither of them alone, nor the third
    assert len(response["batchItemFailures"]) == 3


def test_a_transaction_is_bounded_in_pauses_and_in_all(database: Database, tenant: UUID) -> None:
    bounds = "idle_in_transaction_session_timeout", "transaction_timeout", "lock_timeout"
    with database.tenant(tenant) as connection:
        found = [connection.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in bounds]
    assert found == ["8s", "1min", "10s"]


def test_renewal_skips_locked_work(database: Database, admin: Connection, clock: Clock, pending: Pending) -> None:
    lease = clock() + timedelta(seconds=30)
    settling, running = (
        pending(status="in-progress", attempts=1, claim_token=token, lease_expires_at=lease) for token in (7, 8)
    )
    tokens = {settling.work_id: 7, running.work_id: 8}
    renewed = lease + timedelta(seconds=60)

    with admin.transaction(), database.delivery() as connection:
        admin.execute("SELECT FROM document WHERE id = %s FOR NO KEY UPDATE", [settling.work_id])
        connection.execute("SET LOCAL lock_timeout = '10ms'")
        assert sql.renew(connection, KINDS["matching"], tokens, renewed) == set()

    leases = [life_cycle(admin, message.work_id)["lease_expires_at"] for message in (settling, running)]
    assert leases == [lease, renewed]
