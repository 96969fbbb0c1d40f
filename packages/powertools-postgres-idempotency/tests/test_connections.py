"""Any pool or connection works, regardless of its settings."""

from typing import Any
from uuid import uuid4

import psycopg
import pytest
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from psycopg import RawCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from harness import ORDER, PLACED, Orders, kill_during_run, open_pool
from powertools_postgres_idempotency import PostgresPersistence
from powertools_postgres_idempotency.transactions import Cursor


@pytest.mark.parametrize(
    "settings",
    [{"autocommit": True}, {"row_factory": dict_row}, {"cursor_factory": RawCursor}, {"prepare_threshold": 0}],
    ids=["autocommit", "row factory", "cursor factory", "prepared"],
)
def test_pool_settings_do_not_matter(url: str, settings: dict[str, Any]) -> None:
    with open_pool(url, kwargs=settings) as pool:
        orders = Orders(PostgresPersistence(pool.connection))
        kill_during_run(Orders(PostgresPersistence(pool.connection), seconds_left=-1))

        assert orders.place(order=ORDER) == orders.place(order=ORDER) == PLACED
    assert orders.runs == 1


def test_connection_per_call_works(url: str) -> None:
    orders = Orders(PostgresPersistence(lambda: psycopg.connect(url)))

    assert orders.place(order=ORDER) == orders.place(order=ORDER) == PLACED
    assert orders.runs == 1


def test_claim_and_read_share_a_transaction(url: str) -> None:
    """Otherwise a deletion between them would make a failed claim look successful."""
    statuses: list[TransactionStatus] = []

    class Watched(PostgresPersistence):
        def _read(self, cursor: Cursor, key: str) -> DataRecord | None:
            statuses.append(cursor.connection.info.transaction_status)
            return super()._read(cursor, key)

    with open_pool(url, kwargs={"autocommit": True}) as pool:
        orders = Orders(Watched(pool.connection))
        orders.place(order=ORDER)
        orders.place(order=ORDER)

    assert statuses == [TransactionStatus.INTRANS]


def test_tenants_have_separate_keys(url: str) -> None:
    with open_pool(url) as pool:
        ours, theirs = (Orders(PostgresPersistence(pool.connection, tenant=tenant)) for tenant in ("acme", uuid4()))
        ours.outcome, theirs.outcome = {"whose": "ours"}, {"whose": "theirs"}

        for _ in range(2):
            assert ours.place(order=ORDER) == {"whose": "ours"}
            assert theirs.place(order=ORDER) == {"whose": "theirs"}
    assert (ours.runs, theirs.runs) == (1, 1)
