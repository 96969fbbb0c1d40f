"""What comes out of an idempotent function around which errors are mapped, and that it says nothing of contents."""

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from math import inf
from typing import Any
from uuid import UUID, uuid4

import pytest
from aws_lambda_powertools.utilities.idempotency import idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyInconsistentStateError,
    IdempotencyPersistenceLayerError,
)
from psycopg.errors import ForeignKeyViolation
from psycopg_pool import PoolTimeout

from counterfoil.db import CommitUnknownError, Connection, Database
from counterfoil.delivery import Attempt, Success
from counterfoil.errors import ConflictError, DatabaseUnavailableError, DeferredError, RejectedStatementError, sentence
from counterfoil.idempotency import GRACE_SECONDS, WAIT, Config, InvalidKeyError, PostgresPersistence, errors_mapped
from counterfoil.messages import Message
from counterfoil.retry import GiveUp, Redeliver, RedeliverPolicy
from tests.delivery.conftest import clock, pending, sqs
from tests.delivery.harness import (
    DONE,
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    event,
    life_cycle,
    make_consumer,
    record,
)
from tests.delivery.test_unavailable import Flaky, flaky
from tests.factories import NOW
from tests.idempotency.orders import ORDER, PLACED, Killed, Orders, lose

__all__ = ["clock", "flaky", "pending", "sqs"]

SECRET = "DE02120300000000202051"  # an account number, as documents hold them


def mapped(action: Callable[[], object], until: Any = NOW) -> BaseException:
    """What comes out of `action` where errors are mapped."""
    try:
        with errors_mapped(lambda: until):
            action()
    except BaseException as error:  # noqa: BLE001  # which it is is what the tests ask
        return error
    pytest.fail("nothing was raised")


# The database's errors keep their class

POLICY = RedeliverPolicy(unknown_is_transient=False)


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [
        (DatabaseUnavailableError("away"), True),
        (CommitUnknownError("lost"), True),
        (ConflictError("deadlock"), True),
        (RejectedStatementError("refused"), False),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("when", ["before", "after a result", "after a failure"])
def test_an_error_of_the_database_is_as_curable_as_without_powertools(
    error: Exception, is_transient: bool, when: str, flaky: Flaky, tenant: UUID
) -> None:
    def fail() -> None:
        flaky.fail_tenant = [lambda: error] * 9

    orders = Orders(PostgresPersistence(flaky, tenant))
    orders.answer = ValueError("out of stock") if when == "after a failure" else PLACED
    if when == "before":
        fail()
    orders.during = fail
    raised = mapped(lambda: orders.place(order=ORDER))

    assert raised is error
    decision = POLICY.decide(raised, 1, 1, NOW)
    assert isinstance(decision, Redeliver if is_transient else GiveUp)


def test_without_the_mapping_the_class_is_lost(flaky: Flaky, tenant: UUID) -> None:
    flaky.fail_tenant = [lambda: DatabaseUnavailableError("away")]
    with pytest.raises(IdempotencyPersistenceLayerError) as raised:
        Orders(PostgresPersistence(flaky, tenant)).place(order=ORDER)

    assert not POLICY.is_transient(raised.value)


def test_a_real_database_that_is_away_is_curable(tenant: UUID) -> None:
    nowhere = Database("postgresql://counterfoil_worker@127.0.0.1:1/nothing?connect_timeout=1")
    nowhere._pool.timeout = 1
    raised = mapped(lambda: Orders(PostgresPersistence(nowhere, tenant)).place(order=ORDER))
    nowhere.close()

    assert isinstance(raised, DatabaseUnavailableError)
    assert isinstance(raised.__cause__, PoolTimeout)


def test_a_tenant_that_does_not_exist_is_not(database: Database) -> None:
    raised = mapped(lambda: Orders(PostgresPersistence(database, uuid4())).place(order=ORDER))

    assert isinstance(raised, RejectedStatementError)
    assert isinstance(raised.__cause__, ForeignKeyViolation)


# Powertools' own


def test_a_key_that_runs_elsewhere_defers_the_work(persistence: PostgresPersistence) -> None:
    lose(Orders(persistence))
    raised = mapped(lambda: Orders(persistence).place(order=ORDER))

    assert isinstance(raised, DeferredError)
    assert raised.until == NOW + WAIT


def test_a_key_with_another_payload_is_refused_for_good(persistence: PostgresPersistence) -> None:
    orders = Orders(persistence, event_key_jmespath="order_id", payload_validation_jmespath="total")
    orders.place(order=ORDER)
    raised = mapped(lambda: orders.place(order=ORDER | {"total": SECRET}))

    assert isinstance(raised, InvalidKeyError)
    assert SECRET not in sentence(raised)


def test_work_without_the_key_that_it_must_have_is_refused_for_good(persistence: PostgresPersistence) -> None:
    orders = Orders(persistence, event_key_jmespath="customer", raise_on_no_idempotency_key=True)

    assert isinstance(mapped(lambda: orders.place(order=ORDER)), InvalidKeyError)


def test_a_record_that_changes_at_each_look_is_worth_another_try() -> None:
    def changes() -> None:
        raise IdempotencyInconsistentStateError("again")

    assert isinstance(mapped(changes), ConflictError)


def test_a_result_that_is_no_json_stays_what_it_is(persistence: PostgresPersistence) -> None:
    orders = Orders(persistence)
    orders.answer = {"when": object()}

    assert isinstance(mapped(lambda: orders.place(order=ORDER)), TypeError)


@pytest.mark.parametrize("error", [ValueError("out of stock"), DeferredError("later", until=NOW), Killed()], ids=repr)
def test_the_function_s_own_error_passes_as_it_is(persistence: PostgresPersistence, error: BaseException) -> None:
    orders = Orders(persistence)
    orders.answer = error

    assert mapped(lambda: orders.place(order=ORDER)) is error


# In a worker


def test_of_two_pieces_of_work_with_one_key_one_runs_and_the_other_is_parked_without_spending_a_try(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Callable[..., Message],
) -> None:
    running, waiting = pending(), pending()
    placed: list[UUID] = []

    def work(attempt: Attempt) -> Success:
        def place(*, key: str) -> dict[str, str]:
            placed.append(attempt.work_id)
            if attempt.work_id == running.work_id:
                consumer.handle(event(record(waiting)), Context())
            return {"order": key}

        assert attempt.tenant_id is not None
        once = idempotent_function(
            place,
            data_keyword_argument="key",
            persistence_store=PostgresPersistence(attempt.database, attempt.tenant_id),
            config=Config(time_left=attempt.time_left),
            key_prefix="orders",
        )
        with errors_mapped(attempt.now):
            once(key="PO-1")
        return DONE

    consumer = make_consumer(database, work, clock, permits=1)
    assert consumer.handle(event(record(running)), Context()) == {"batchItemFailures": []}

    assert placed == [running.work_id]
    assert life_cycle(admin, running.work_id)["status"] == "succeeded"
    parked = life_cycle(admin, waiting.work_id)
    assert (parked["status"], parked["attempts"], parked["send_number"]) == ("pending", 0, 1)
    assert parked["next_attempt_at"] == clock() + WAIT

    clock.pass_(seconds=31)
    consumer.handle(event(record(Message.model_validate_json(sqs.sent[QUEUE_URL][0]["MessageBody"]))), Context())
    assert life_cycle(admin, waiting.work_id)["status"] == "succeeded"
    assert placed == [running.work_id]


def test_a_result_is_kept_for_a_day_and_keys_are_hard_to_forge() -> None:
    config = Config("order_id", use_local_cache=True)

    assert config.expires_after_seconds == timedelta(hours=24).total_seconds()
    assert (config.hash_function, config.event_key_jmespath, config.use_local_cache) == ("sha256", "order_id", True)
    assert config.lambda_context is None


@pytest.mark.parametrize(("left", "millis"), [(60, 60_000), (0, 0), (inf, 86_400_000)])
def test_a_run_is_taken_for_lost_a_little_after_it_was_asked_to_stop(left: float, millis: int) -> None:
    context = Config(time_left=lambda: left).lambda_context

    assert context is not None
    assert context.get_remaining_time_in_millis() == min(millis + GRACE_SECONDS * 1000, 86_400_000)


# Contents


@pytest.mark.parametrize("end", [{"account": SECRET}, DatabaseUnavailableError("away"), Killed()], ids=repr)
def test_nothing_of_a_payload_or_a_result_is_logged(
    end: Any, flaky: Flaky, tenant: UUID, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    orders = Orders(PostgresPersistence(flaky, tenant), payload_validation_jmespath="account")
    orders.answer = end
    for _ in range(2):
        with suppress(Killed, DatabaseUnavailableError, DeferredError), errors_mapped(lambda: NOW):
            orders.place(order={"order_id": "PO-1", "account": SECRET})

    assert caplog.records
    assert SECRET not in caplog.text


def test_a_result_that_the_database_refuses_is_not_told(persistence: PostgresPersistence, admin: Connection) -> None:
    admin.execute("ALTER TABLE idempotency ADD CONSTRAINT small CHECK (length(result) < 10)")
    orders = Orders(persistence)
    orders.answer = {"account": SECRET}
    with pytest.raises(IdempotencyPersistenceLayerError) as raised:
        orders.place(order=ORDER)

    assert isinstance(raised.value.__cause__, RejectedStatementError)
    assert SECRET not in str(raised.value)
    assert SECRET not in sentence(raised.value.__cause__)


# Tenants


def test_the_same_key_of_two_tenants_is_two_keys(
    database: Database, tenant: UUID, make_tenant: Callable[..., UUID]
) -> None:
    ours, theirs = (Orders(PostgresPersistence(database, id_)) for id_ in (tenant, make_tenant("globex")))
    ours.answer, theirs.answer = {"whose": "ours"}, {"whose": "theirs"}

    for _ in range(2):
        assert ours.place(order=ORDER) == {"whose": "ours"}
        assert theirs.place(order=ORDER) == {"whose": "theirs"}
    assert (ours.runs, theirs.runs) == (1, 1)
