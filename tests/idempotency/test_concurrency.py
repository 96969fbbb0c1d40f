"""Of many at once with the same key exactly one runs, in threads and in processes, whatever becomes of the one."""

import multiprocessing
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Barrier, Lock, Thread, local
from typing import Any
from uuid import UUID, uuid4

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from counterfoil.db import Connection, Database
from counterfoil.idempotency import PostgresPersistence
from tests.idempotency.orders import ORDER, PLACED, Orders, lose

THREADS = 6
PROCESSES = 3
PATIENCE = 60.0
"""Seconds after which whoever has not come is not waited for any more."""


class Together(Database):
    """A database whose first transactions, one of each thread, begin together, and end before anything else begins.

    So everybody has looked, if all that he does first is to look, before anybody has done anything.
    """

    def __init__(self, conninfo: str, parties: int) -> None:
        super().__init__(conninfo, max_connections=parties)
        self._met = local()
        self._barrier = Barrier(parties, timeout=PATIENCE)

    @contextmanager
    def tenant(self, tenant_id: UUID, **how: Any) -> Iterator[Connection]:
        is_first, self._met.before = not hasattr(self._met, "before"), True
        if is_first:
            self._barrier.wait()
        with super().tenant(tenant_id, **how) as connection:
            yield connection
        if is_first:
            self._barrier.wait()


class LooksFirst(PostgresPersistence):
    """The broken twin: it looks whether the key is free, and then takes it."""

    def _put_record(self, data_record: DataRecord) -> None:
        try:
            held = self._get_record(data_record.idempotency_key)
        except IdempotencyItemNotFoundError:
            pass
        else:
            if not self._is_free(held):
                raise IdempotencyItemAlreadyExistsError(old_data_record=held)
        with self._database.tenant(self._tenant_id) as connection:
            connection.execute(
                """
                INSERT INTO idempotency (tenant_id, key, status, claim, claimed_at, expires_at)
                VALUES (%(tenant)s, %(key)s, 'INPROGRESS', %(claim)s, now(), now() + interval '1 day')
                ON CONFLICT (tenant_id, key) DO UPDATE SET status = 'INPROGRESS', claim = %(claim)s, result = NULL,
                    in_progress_until = NULL, expires_at = EXCLUDED.expires_at
                """,
                {"tenant": self._tenant_id, "key": data_record.idempotency_key, "claim": uuid4()},
            )

    def _is_free(self, held: DataRecord) -> bool:
        ends = held.in_progress_expiry_timestamp
        now = self._get_expiry_timestamp() - self.expires_after_seconds
        return held.is_expired or (held.status == "INPROGRESS" and ends is not None and ends < now * 1000)


def age(admin: Connection, column: str = "expires_at") -> None:
    """Let this time of every record have come a minute ago."""
    admin.execute(f"UPDATE idempotency SET {column} = now() - interval '1 minute'".encode())


def outcomes(database_url: str, tenant: UUID, kind: type[PostgresPersistence], *, shared: bool) -> Counter[str]:
    """What becomes of so many threads that place the same order; who runs goes on when all have tried."""
    found: Counter[str] = Counter()
    lock = Lock()
    everybody_has_tried = Barrier(THREADS, timeout=PATIENCE)
    database = Together(database_url, THREADS)
    one = kind(database, tenant)

    def act() -> None:
        orders = Orders(one if shared else kind(database, tenant))
        orders.during = everybody_has_tried.wait
        try:
            outcome = "ran" if orders.place(order=ORDER) == PLACED else "odd"
        except IdempotencyAlreadyInProgressError:
            outcome = "refused"
            everybody_has_tried.wait()
        except Exception as error:  # noqa: BLE001  # told by the test's own thread
            outcome = repr(error)
            everybody_has_tried.abort()
        with lock:
            found[outcome] += 1

    threads = [Thread(target=act) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.close()
    return found


ONE_RUNS = {"ran": 1, "refused": THREADS - 1}
Situation = pytest.mark.parametrize("situation", ["new key", "expired result", "lost run"])


def prepare(situation: str, admin: Connection, persistence: PostgresPersistence) -> None:
    """A key in this situation."""
    if situation == "expired result":
        Orders(persistence).place(order=ORDER)
        age(admin)
    if situation == "lost run":
        lose(Orders(persistence))
        age(admin, "in_progress_until")


@Situation
@pytest.mark.parametrize("shared", [False, True], ids=["own layers", "one layer"])
def test_of_many_threads_exactly_one_runs(
    situation: str, shared: bool, database_url: str, tenant: UUID, admin: Connection, persistence: PostgresPersistence
) -> None:
    prepare(situation, admin, persistence)

    assert outcomes(database_url, tenant, PostgresPersistence, shared=shared) == ONE_RUNS
    assert Orders(persistence).place(order=ORDER) == PLACED


@Situation
def test_this_test_catches_a_layer_that_looks_before_it_takes(
    situation: str, database_url: str, tenant: UUID, admin: Connection, persistence: PostgresPersistence
) -> None:
    prepare(situation, admin, persistence)

    assert outcomes(database_url, tenant, LooksFirst, shared=False)["ran"] > 1


def place_in_a_process(database_url: str, tenant: UUID, begin: Any, tried: Any, told: Any) -> None:
    """One process of several that place the same order."""
    database = Database(database_url, max_connections=1)
    orders = Orders(PostgresPersistence(database, tenant))
    orders.during = tried.wait
    with database.tenant(tenant):
        pass  # connected
    begin.wait()
    try:
        told.put("ran" if orders.place(order=ORDER) == PLACED else "odd")
    except IdempotencyAlreadyInProgressError:
        tried.wait()
        told.put("refused")
    database.close()


def test_of_many_processes_exactly_one_runs(database_url: str, tenant: UUID) -> None:
    context = multiprocessing.get_context("spawn")
    begin, tried = (context.Barrier(PROCESSES, timeout=PATIENCE) for _ in range(2))
    told = context.Queue()
    processes = [
        context.Process(target=place_in_a_process, args=(database_url, tenant, begin, tried, told))
        for _ in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    found = Counter(told.get(timeout=PATIENCE) for _ in processes)
    for process in processes:
        process.join()

    assert found == {"ran": 1, "refused": PROCESSES - 1}


def die_in_a_process(database_url: str, tenant: UUID) -> None:
    orders = Orders(PostgresPersistence(Database(database_url, max_connections=1), tenant))
    orders.during = lambda: os.kill(os.getpid(), signal.SIGKILL)
    orders.place(order=ORDER)


def test_a_process_that_is_killed_leaves_the_key_taken_until_its_time_is_over(
    database_url: str, tenant: UUID, persistence: PostgresPersistence, admin: Connection
) -> None:
    process = multiprocessing.get_context("spawn").Process(target=die_in_a_process, args=(database_url, tenant))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL

    orders = Orders(persistence)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        orders.place(order=ORDER)
    age(admin, "in_progress_until")

    assert orders.place(order=ORDER) == PLACED


@pytest.mark.parametrize("seed", range(3))
def test_whatever_becomes_of_runs_no_two_overlap_and_none_follows_a_success(
    seed: int, database_url: str, tenant: UUID
) -> None:
    database = Database(database_url, max_connections=THREADS)
    layer = PostgresPersistence(database, tenant)
    running = {key: Lock() for key in range(3)}
    succeeded: Counter[int] = Counter()
    wrong: list[str] = []

    def run(chance: random.Random) -> None:
        for _ in range(30):
            key = chance.choice(list(running))
            orders = Orders(layer)
            is_good = chance.random() < 0.1

            def during(key: int = key, is_good: bool = is_good) -> None:
                if not running[key].acquire(blocking=False):
                    wrong.append(f"two runs of {key} at once")
                    return
                if succeeded[key]:
                    wrong.append(f"{key} ran again after its success")
                with database.tenant(tenant):
                    succeeded[key] += is_good
                running[key].release()

            orders.during = during
            orders.answer = PLACED if is_good else ValueError("out of stock")
            try:
                orders.place(order={"order_id": key})
            except (ValueError, IdempotencyAlreadyInProgressError):
                continue
            except BaseException as error:  # noqa: BLE001  # told by the test's own thread
                wrong.append(repr(error))

    threads = [Thread(target=run, args=(random.Random(seed * THREADS + number),)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.close()

    assert wrong == []
    assert max(succeeded.values()) == 1
