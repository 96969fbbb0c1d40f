"""Exactly one of several concurrent calls with the same key runs.

The calls are made in threads and in processes.
"""

import multiprocessing
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Barrier, Lock, Thread, local
from typing import Any
from uuid import uuid4

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from psycopg import IsolationLevel

from harness import ORDER, PLACED, Connection, Orders, kill_during_run, open_pool
from powertools_postgres_idempotency import Connect, PostgresPersistence

THREADS = 6
PROCESSES = 3
PATIENCE = 60.0
"""Maximum seconds that threads and processes wait for each other."""


class OverlappingTransactions:
    """Connections on which the first transactions of all threads overlap.

    No thread begins a second transaction before all first ones have ended. If a layer checks before it claims, all
    threads have checked before any of them claims.
    """

    def __init__(self, connect: Connect, parties: int) -> None:
        self._connect = connect
        self._state = local()
        self._barrier = Barrier(parties, timeout=PATIENCE)

    @contextmanager
    def __call__(self) -> Iterator[Connection]:
        is_first, self._state.before = not hasattr(self._state, "before"), True
        if is_first:
            self._barrier.wait()
        try:
            with self._connect() as connection:
                yield connection
        finally:
            if is_first:
                self._barrier.wait()


class ChecksThenClaims(PostgresPersistence):
    """A mutant that checks whether the key is free and then claims it."""

    def _put_record(self, data_record: DataRecord) -> None:
        try:
            stored = self._get_record(data_record.idempotency_key)
        except IdempotencyItemNotFoundError:
            pass
        else:
            if not self._is_free(stored):
                raise IdempotencyItemAlreadyExistsError(old_data_record=stored)
        with self._connect() as connection:
            connection.execute(
                """
                INSERT INTO idempotency (tenant, key, status, claim, claimed_at, expires_at)
                VALUES (%(tenant)s, %(key)s, 'INPROGRESS', %(claim)s, now(), now() + interval '1 day')
                ON CONFLICT (tenant, key) DO UPDATE SET status = 'INPROGRESS', claim = %(claim)s, result = NULL,
                    in_progress_until = NULL, expires_at = EXCLUDED.expires_at
                """,
                {"tenant": self._tenant, "key": data_record.idempotency_key, "claim": uuid4()},
            )

    def _is_free(self, stored: DataRecord) -> bool:
        deadline = stored.in_progress_expiry_timestamp
        now = self._get_expiry_timestamp() - self.expires_after_seconds
        return stored.is_expired or (stored.status == "INPROGRESS" and deadline is not None and deadline < now * 1000)


def backdate(admin: Connection, column: str = "expires_at") -> None:
    """Set this time column of all records to one minute ago."""
    admin.execute(f"UPDATE idempotency SET {column} = now() - interval '1 minute'".encode())


def read_committed(connection: Connection) -> None:
    connection.isolation_level = IsolationLevel.READ_COMMITTED


def repeatable_read(connection: Connection) -> None:
    connection.isolation_level = IsolationLevel.REPEATABLE_READ


def outcomes(
    url: str, kind: type[PostgresPersistence], *, shared: bool = False, configure: Any = read_committed
) -> Counter[str]:
    """Return the outcomes of threads that place the same order.

    A run ends after all threads have tried.
    """
    counts: Counter[str] = Counter()
    lock = Lock()
    all_tried = Barrier(THREADS, timeout=PATIENCE)
    pool = open_pool(url, max_size=THREADS, configure=configure)
    connect = OverlappingTransactions(pool.connection, THREADS)
    shared_layer = kind(connect)

    def place() -> None:
        orders = Orders(shared_layer if shared else kind(connect))
        orders.during = all_tried.wait
        try:
            outcome = "ran" if orders.place(order=ORDER) == PLACED else "odd"
        except IdempotencyAlreadyInProgressError:
            outcome = "refused"
            all_tried.wait()
        except Exception as error:  # noqa: BLE001  # checked at the end
            outcome = repr(error)
            all_tried.abort()
        with lock:
            counts[outcome] += 1

    threads = [Thread(target=place) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.close()
    return counts


ONE_RUNS = {"ran": 1, "refused": THREADS - 1}
Situation = pytest.mark.parametrize("situation", ["new key", "expired result", "lost run"])


def prepare(situation: str, admin: Connection, store: PostgresPersistence) -> None:
    """Prepare the key's record for this situation."""
    if situation == "expired result":
        Orders(store).place(order=ORDER)
        backdate(admin)
    if situation == "lost run":
        kill_during_run(Orders(store))
        backdate(admin, "in_progress_until")


@Situation
@pytest.mark.parametrize("shared", [False, True], ids=["own layers", "one layer"])
@pytest.mark.parametrize("configure", [read_committed, repeatable_read])
def test_exactly_one_thread_runs(
    situation: str, shared: bool, configure: Any, url: str, admin: Connection, store: PostgresPersistence
) -> None:
    prepare(situation, admin, store)

    assert outcomes(url, PostgresPersistence, shared=shared, configure=configure) == ONE_RUNS
    assert Orders(store).place(order=ORDER) == PLACED


@Situation
def test_check_then_claim_runs_more_than_once(
    situation: str, url: str, admin: Connection, store: PostgresPersistence
) -> None:
    prepare(situation, admin, store)

    assert outcomes(url, ChecksThenClaims)["ran"] > 1


def place_in_process(url: str, begin: Any, tried: Any, outcomes: Any) -> None:
    """Place the order at the same time as the other processes."""
    pool = open_pool(url, max_size=1)
    orders = Orders(PostgresPersistence(pool.connection))
    orders.during = tried.wait
    with pool.connection():
        pass  # connects before the other processes start
    begin.wait()
    try:
        outcomes.put("ran" if orders.place(order=ORDER) == PLACED else "odd")
    except IdempotencyAlreadyInProgressError:
        tried.wait()
        outcomes.put("refused")
    pool.close()


def test_exactly_one_process_runs(url: str) -> None:
    context = multiprocessing.get_context("spawn")
    begin, tried = (context.Barrier(PROCESSES, timeout=PATIENCE) for _ in range(2))
    outcomes = context.Queue()
    processes = [context.Process(target=place_in_process, args=(url, begin, tried, outcomes)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    counts = Counter(outcomes.get(timeout=PATIENCE) for _ in processes)
    for process in processes:
        process.join()

    assert counts == {"ran": 1, "refused": PROCESSES - 1}


def die_in_process(url: str) -> None:
    orders = Orders(PostgresPersistence(open_pool(url).connection))
    orders.during = lambda: os.kill(os.getpid(), signal.SIGKILL)
    orders.place(order=ORDER)


def test_killed_process_keeps_key_until_deadline(url: str, store: PostgresPersistence, admin: Connection) -> None:
    process = multiprocessing.get_context("spawn").Process(target=die_in_process, args=(url,))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL

    orders = Orders(store)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        orders.place(order=ORDER)
    backdate(admin, "in_progress_until")

    assert orders.place(order=ORDER) == PLACED


@pytest.mark.parametrize("seed", range(3))
def test_runs_never_overlap_or_follow_success(seed: int, url: str) -> None:
    pool = open_pool(url, max_size=THREADS)
    layer = PostgresPersistence(pool.connection)
    running = {key: Lock() for key in range(3)}
    succeeded: Counter[int] = Counter()
    violations: list[str] = []

    def run(rng: random.Random) -> None:
        for _ in range(30):
            key = rng.choice(list(running))
            orders = Orders(layer)
            succeeds = rng.random() < 0.1

            def during(key: int = key, succeeds: bool = succeeds) -> None:
                if not running[key].acquire(blocking=False):
                    violations.append(f"{key} ran twice concurrently")
                    return
                if succeeded[key]:
                    violations.append(f"{key} ran again after its success")
                with pool.connection() as connection:
                    connection.execute("SELECT 1")  # lets other threads run
                    succeeded[key] += succeeds
                running[key].release()

            orders.during = during
            orders.outcome = PLACED if succeeds else ValueError("out of stock")
            try:
                orders.place(order={"order_id": key})
            except (ValueError, IdempotencyAlreadyInProgressError):
                continue
            except BaseException as error:  # noqa: BLE001  # checked at the end
                violations.append(repr(error))

    threads = [Thread(target=run, args=(random.Random(seed * THREADS + number),)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.close()

    assert violations == []
    assert max(succeeded.values()) == 1
