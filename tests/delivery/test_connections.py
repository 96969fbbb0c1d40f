"""A consumer opens one connection per permit plus two, which is always enough."""

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import Effects, Succeeded, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.work import Message
from tests.delivery.harness import Context, FakeSqs, event, life_cycle, record, settings

PERMITS = 3
MAX_CONNECTIONS = PERMITS + 2
"""One connection per permit, one for the heartbeat and one for the loop that claims messages."""
CONNECTION_COUNT = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'counterfoil_worker'
"""


def count_connections(admin: Connection) -> int:
    (number,) = admin.execute(CONNECTION_COUNT).fetchone() or (0,)
    return int(number)


def pause_once(call: Callable[..., Any], pause: Callable[[], object]) -> Callable[..., Any]:
    """Return a wrapper of `call` that calls `pause` before it first returns."""
    pauses = [pause]

    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        result = call(*arguments, **keywords)
        while pauses:
            pauses.pop()()
        return result

    return wrapper


class StrayTransactions:
    """Two extra transactions on the pool, as if from abandoned attempts."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = [threading.Thread(target=self._transaction) for _ in range(2)]

    def _transaction(self) -> None:
        with self._database.delivery() as connection:
            connection.execute("SELECT 1")

    def start(self) -> None:
        """Start both threads.

        Return once both are waiting for a connection, or one has finished.
        """
        for thread in self._threads:
            thread.start()
        while all(thread.is_alive() for thread in self._threads) and not self._wait():
            pass

    def _wait(self) -> bool:
        return self._database._pool.get_stats().get("requests_waiting", 0) == len(self._threads)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


def test_consumer_opens_one_connection_per_permit_plus_two(
    database_url: str,
    admin: Connection,
    sqs: FakeSqs,
    pending: Callable[..., Message],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages, context, connection_counts = [pending() for _ in range(PERMITS + 1)], Context(119.05), list[int]()
    worker = {"name": "matching", "timeout": 120, "permits": PERMITS, "start_margin": 119}

    def count_open_connections() -> None:
        strays.start()
        connection_counts.append(count_connections(admin))

    barrier = threading.Barrier(
        MAX_CONNECTIONS, action=count_open_connections, timeout=6
    )  # passes only if all transactions are open at the same time

    def work(_attempt: TenantAttempt) -> Succeeded:
        def effects(_connection: Connection) -> Effects:
            context.left = 100  # too late to start the last work item, so it is parked
            barrier.wait()
            return Effects()

        return Succeeded(effects)

    monkeypatch.setattr(sql, "renew", pause_once(sql.renew, barrier.wait))
    monkeypatch.setattr(sql, "park_unclaimed", pause_once(sql.park_unclaimed, barrier.wait))
    config = settings(worker=worker, database_url=database_url, heartbeat_interval_seconds=0.05)
    consumer = Consumer.from_settings(config, work)
    strays = StrayTransactions(consumer.database)

    with closing(consumer.database):
        response = consumer.handle(event(*map(record, messages)), context)
        assert not barrier.broken
        strays.join()
        connection_counts.append(count_connections(admin))

    assert connection_counts == [MAX_CONNECTIONS, MAX_CONNECTIONS]
    assert response == {"batchItemFailures": []}
    assert [life_cycle(admin, message.work_id)["status"] for message in messages] == ["succeeded"] * PERMITS + [
        "pending"
    ]
