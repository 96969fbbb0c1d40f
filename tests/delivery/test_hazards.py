"""What could lose a message or do work twice: slow verdicts, twins, locked rows, hung tries, failing queues."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil import db
from counterfoil.db import LOCK_SECONDS, Connection, Database
from counterfoil.delivery import Attempt, Success, store
from counterfoil.delivery.store import Answer, Claim
from counterfoil.documents import uploads
from counterfoil.errors import RejectedRequestError, ServiceUnavailableError
from counterfoil.messages import Message
from counterfoil.outbox import Outbox
from counterfoil.retry import RedeliverPolicy
from counterfoil.work import KINDS, owe
from functions.dead_letters.archiver import Archiver
from functions.watchdog.recovery import Watchdog
from tests.delivery.harness import (
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    event,
    life_cycle,
    make_consumer,
    record,
    rows,
    settings,
)

Pending = Callable[..., Message]
DONE = Success(lambda connection: ())
QUICK = {"name": "matching", "timeout": 120, "permits": 2, "start_margin": 119}
"""A worker whose loop looks at the clock as soon as it is under way."""


def done(attempt: Attempt) -> Success:
    return DONE


def fails(attempt: Attempt) -> Success:
    raise ServiceUnavailableError("later")


class Between(Database):
    """Does something once, right after its first delivery transaction has committed."""

    then: Callable[[], None] | None = None

    @contextmanager
    def delivery(self, *, lock_seconds: int = LOCK_SECONDS) -> Iterator[Connection]:
        with super().delivery(lock_seconds=lock_seconds) as connection:
            yield connection
        then, self.then = self.then, None
        if then is not None:
            then()


@pytest.fixture
def between(database_url: str) -> Iterator[Between]:
    database = Between(database_url)
    yield database
    database.close()


# -- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_verdict_that_is_still_being_carried_out_at_the_deadline_keeps_its_message(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, context, answered = pending(), Context(), threading.Event()
    change = sqs.change_message_visibility_batch

    def slow(**call: Any) -> Any:
        if threading.current_thread().name.startswith("matching"):  # the backoff, on the record's own thread
            context.left = 3
            assert answered.wait(10)
        return change(**call)

    sqs.change_message_visibility_batch = slow  # type: ignore[method-assign]
    consumer = make_consumer(database, fails, clock, worker=QUICK)

    response = consumer.handle(event(record(message)), context)
    answered.set()

    assert len(response["batchItemFailures"]) == 1
    assert life_cycle(admin, message.work_id)["status"] == "pending"
    assert consumer.gate.take(1, timeout=10) == 1


def test_a_backoff_that_breaks_costs_time_and_not_the_message(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()
    change = sqs.change_message_visibility_batch

    def broken(**call: Any) -> Any:
        if threading.current_thread().name.startswith("matching"):
            raise RuntimeError("can't start new thread")
        return change(**call)

    sqs.change_message_visibility_batch = broken  # type: ignore[method-assign]

    response = make_consumer(database, fails, clock).handle(event(record(message)), Context())

    assert len(response["batchItemFailures"]) == 1


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


def test_work_that_never_settled_is_parked_without_time_and_keeps_its_mark(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(status="in-progress", attempts=1, lease_expires_at=clock() - timedelta(minutes=5))

    response = make_consumer(database, fails, clock).handle(event(record(message)), Context(left=20))

    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["returns"], row["send_number"]) == ("pending", 1, 0, 1)
    with database.delivery() as connection:
        parked = message.model_copy(update={"send_number": 1})
        assert claim(connection, [parked], clock())[parked].answer is Answer.UNSETTLED


# -- claims that meet -------------------------------------------------------------------------------------------------


def claim(connection: Connection, messages: list[Message], now: Any, **how: Any) -> Any:
    lease = now + timedelta(seconds=120)
    return store.claim(connection, KINDS["matching"], messages, now=now, lease=lease, max_attempts=3, **how)


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
    monkeypatch.setattr(db, "_OPEN", db._OPEN.replace(b"'10s'", b"'20ms'"))
    stuck, good = pending(), pending()
    with psycopg.connect(admin_database_url) as other:
        other.execute("UPDATE document SET cluster_id = id WHERE id = %s", [stuck.work_id])

        response = make_consumer(database, done, clock).handle(event(record(stuck), record(good)), Context())

        other.rollback()
    assert len(response["batchItemFailures"]) == 1
    assert life_cycle(admin, good.work_id)["status"] == "succeeded"


def test_a_transaction_is_bounded_in_pauses_and_in_all(database: Database, tenant: UUID) -> None:
    bounds = "idle_in_transaction_session_timeout", "transaction_timeout", "lock_timeout"
    with database.tenant(tenant) as connection:
        found = [connection.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in bounds]
    assert found == ["8s", "1min", "10s"]


# -- messages that PostgreSQL cannot hold -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"revision": 2**40, "send_number": 0},
        {"revision": 1, "send_number": 2**31},
        {"revision": 1, "send_number": 0, "a\x00b": 1},
        {"revision": 1, "send_number": 0, "\ud800": 1},
    ],
)
def test_a_value_that_postgres_cannot_hold_is_a_dead_letter_of_its_own(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, bad: dict[str, Any]
) -> None:
    good = pending()
    body = json.dumps({"schema_version": 1, "work_id": str(uuid4())} | bad)

    response = make_consumer(database, done, clock).handle(event(record(body), record(good)), Context())

    assert response == {"batchItemFailures": []}
    assert life_cycle(admin, good.work_id)["status"] == "succeeded"
    assert len(rows(admin, "dead_letter")) == 1
    assert len(rows(admin, "notification")) == 1


def test_the_archiver_settles_it_too(keeper_database: Database, admin: Connection, sqs: FakeSqs, clock: Clock) -> None:
    archiver = Archiver(keeper_database, Outbox(keeper_database, {}, clock=clock), RedeliverPolicy(), clock)
    body = json.dumps({"schema_version": 1, "work_id": str(uuid4()), "revision": 2**40, "send_number": 0})

    assert archiver.settle("matching", SQSRecord(record(body))) is None

    assert len(rows(admin, "dead_letter")) == 1


def test_an_upload_whose_key_holds_nul_fails_alone(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, tenant: UUID
) -> None:
    def notification(key: str, sequencer: str) -> str:
        thing = {"key": key, "size": 3, "sequencer": sequencer}
        entity = {"bucket": {"name": "uploads"}, "object": thing}
        return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": entity}]})

    worker = {"name": "acquisition", "timeout": 120, "permits": 2, "start_margin": 30}
    consumer = make_consumer(database, done, clock, read=uploads.read, worker=worker)

    response = consumer.handle(
        event(
            record(notification("uploads/acme/a%00b.xml", "01")), record(notification("uploads/acme/good.xml", "02"))
        ),
        Context(),
    )

    assert response == {"batchItemFailures": []}
    assert [job["key"] for job in rows(admin, "acquisition_job")] == ["uploads/acme/good.xml"]
    assert len(rows(admin, "dead_letter")) == 1


# -- places that are taken --------------------------------------------------------------------------------------------


class Running(Context):
    """A context whose time runs: a tenth of a second passes at each look."""

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]
        self.left -= 0.1
        return int(self.left * 1000)


def test_a_process_whose_permits_are_all_held_by_hung_tries_parks_its_batch_and_ends(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    ended, release, context = [], threading.Event(), Context()

    def hang(attempt: Attempt) -> Success:
        context.left = 2
        assert release.wait(10)
        return DONE

    consumer = make_consumer(database, hang, clock, worker=QUICK, on_starved=lambda: ended.append(True))
    consumer.handle(event(record(pending()), record(pending())), context)
    assert ended == []

    waiting = pending()
    response = consumer.handle(event(record(waiting)), Running(left=119.9))
    release.set()

    assert ended == [True]
    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, waiting.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 0, 1)
    assert row["next_attempt_at"] == clock.now + timedelta(seconds=300)  # no room here now, nor soon
    assert [consumer.gate.take(1, timeout=10) for _ in range(2)] == [1, 1]


# -- queues that fail -------------------------------------------------------------------------------------------------


def owed(admin: Connection, worker: str, clock: Clock) -> None:
    hour_ago = clock() - timedelta(hours=1)
    owe(admin, KINDS[worker], [(uuid4(), None, 1, 0)], hour_ago, hour_ago)


def test_a_queue_that_refuses_does_not_hold_up_the_others(
    keeper_database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    queues = {"ingestion": "http://127.0.0.1/gone", "matching": QUEUE_URL}
    owed(admin, "ingestion", clock)
    owed(admin, "matching", clock)
    send, ask = sqs.send_message_batch, sqs.get_queue_attributes

    def refuse(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(**arguments: Any) -> Any:
            if arguments["QueueUrl"].endswith("gone"):
                raise RejectedRequestError("QueueDoesNotExist")
            return call(**arguments)

        return called

    sqs.send_message_batch, sqs.get_queue_attributes = refuse(send), refuse(ask)  # type: ignore[method-assign]
    outbox = Outbox(keeper_database, queues, clock=clock)

    recovered = Watchdog(settings(queue_urls=queues), keeper_database, outbox, clock).run()

    assert recovered.sent == 1
    assert len(sqs.sent[QUEUE_URL]) == 1


def test_rows_of_a_worker_that_is_gone_leave_room_for_the_others(
    keeper_database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    long_ago = clock() - timedelta(days=1)
    admin.execute(
        "INSERT INTO outbox (worker, work_id, revision, send_number, not_before, created_at) "
        "SELECT 'retired', gen_random_uuid(), 1, 0, %s, %s FROM generate_series(1, 1000)",
        [long_ago, long_ago],
    )
    owed(admin, "matching", clock)
    chosen = settings()

    recovered = Watchdog(chosen, keeper_database, Outbox(keeper_database, chosen.queue_urls, clock=clock), clock).run()

    assert recovered.sent == 1


def test_a_renewal_that_hangs_does_not_hold_up_a_verdict(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, renewing, verdict = pending(), threading.Event(), threading.Event()
    change = sqs.change_message_visibility_batch

    def hang(**call: Any) -> Any:
        if threading.current_thread().name == "heartbeat":
            renewing.set()
            assert verdict.wait(20)
        return change(**call)

    def work(attempt: Attempt) -> Success:
        assert renewing.wait(10)
        return DONE

    sqs.change_message_visibility_batch = hang  # type: ignore[method-assign]

    response = make_consumer(database, work, clock, heartbeat_seconds=0.01).handle(event(record(message)), Context())
    verdict.set()

    assert response == {"batchItemFailures": []}
    assert life_cycle(admin, message.work_id)["status"] == "succeeded"


def test_work_to_be_run_alone_starves_like_any_other_where_no_permit_is_left(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    lapsed = clock() - timedelta(seconds=1)
    message, ended = pending(status="in-progress", attempts=1, lease_expires_at=lapsed), []
    consumer = make_consumer(database, fails, clock, worker=QUICK, on_starved=lambda: ended.append(True))
    give_back = consumer.gate.give_back

    def taken_by_a_hung_try(permits: int = 1) -> None:
        """The permits that asking for the claim gives back go to a try that never ends."""
        give_back(permits)
        consumer.gate.take(2)

    monkeypatch.setattr(consumer.gate, "give_back", taken_by_a_hung_try)

    response = consumer.handle(event(record(message)), Running(left=120.5))

    assert ended == [True]
    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 1, 1)


def test_a_last_attempt_that_is_given_back_while_it_is_taken_for_lost_is_not_dead(
    database: Database, between: Between, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(status="in-progress", attempts=3, claim_token=5, lease_expires_at=clock() - timedelta(seconds=1))
    stalled = Claim(Answer.MINE, message, attempts=3, token=5)

    def defer() -> None:  # it stalled and lives: between our look and our settlement it meets an open breaker
        with database.delivery() as connection:
            store.defer(connection, KINDS["matching"], stalled, due=clock() + timedelta(minutes=1), now=clock())

    between.then = defer

    response = make_consumer(between, fails, clock).handle(event(record(message)), Context())

    assert life_cycle(admin, message.work_id)["status"] == "pending"
    assert rows(admin, "dead_letter") == []
    assert len(response["batchItemFailures"]) == 1


def test_a_record_that_no_thread_can_be_started_for_was_no_try(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(3)]
    consumer = make_consumer(
        database,
        lambda _attempt: DONE,
        clock,
        worker={"name": "matching", "timeout": 120, "permits": 3, "start_margin": 30},
    )
    begin, begun = consumer.concurrency.begin, []

    def refuse_the_second(name: str, function: Callable[[], None]) -> None:
        if name == "matching":
            begun.append(name)
            if len(begun) == 2:
                raise RuntimeError("can't start new thread")
        begin(name, function)

    consumer.concurrency.begin = refuse_the_second  # type: ignore[method-assign]

    response = consumer.handle(event(*map(record, messages)), Context())

    states = [(row["status"], row["attempts"]) for row in (life_cycle(admin, one.work_id) for one in messages)]
    assert response == {"batchItemFailures": []}
    assert sorted(states) == [("pending", 0), ("succeeded", 1), ("succeeded", 1)]
    assert consumer.gate.take(3) == 3


def test_effects_that_leave_by_any_door_are_a_failed_try(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    def leave(_connection: Connection) -> tuple[()]:
        raise SystemExit(3)

    response = make_consumer(database, lambda _attempt: Success(leave), clock).handle(event(record(message)), Context())

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("pending", 1)
    assert row["error"].startswith("Unexpected SystemExit")
    assert len(response["batchItemFailures"]) == 1


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

    def work(_attempt: Attempt) -> Success:
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


def test_an_older_copy_in_the_same_batch_costs_the_newest_message_nothing(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    newest = pending(send_number=2)
    older = newest.model_copy(update={"send_number": 1})
    copy, current = record(older), record(newest)

    response = make_consumer(database, lambda _attempt: DONE, clock).handle(event(copy, current), Context())

    assert life_cycle(admin, newest.work_id)["status"] == "succeeded"
    assert response == {"batchItemFailures": [{"itemIdentifier": copy["messageId"]}]}  # ended, when it comes again
