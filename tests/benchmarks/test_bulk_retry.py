"""The benchmark of bulk retries finds what is lost or doubled, and finds nothing where nothing is."""

import time
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from cli.local.postgres import Server
from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.operations.store import Operation
from tests.benchmarks import bulk_retry
from tests.benchmarks.scale import database as scale

BULK = "bulk"
LETTERS = 300


@pytest.fixture(scope="module")
def template(postgres: Server) -> Operation:
    """A database, BULK, in which all letters are tried again, with nobody killed; the operation."""
    client = aws.client
    url = scale.prepare(postgres, BULK, 2)
    bulk_retry.make(url, LETTERS)
    clock = bulk_retry.Clock(time.time(), 1.0)
    worker = postgres.url(BULK, "counterfoil_worker")
    with closing(Database(worker, max_connections=1)) as found:
        operation = bulk_retry.request(found, clock())
    bulk_retry.work(worker, url, clock, once=True)
    aws.client = client  # the benchmark has put its own in its place
    return operation


@pytest.fixture
def done(postgres: Server, maintenance: Connection, template: Operation) -> Iterator[tuple[str, Operation]]:
    """A copy of it, to be spoilt."""
    copy = f"{BULK}_{uuid4().hex}"
    create = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    maintenance.execute(create.format(Identifier(copy), Identifier(BULK)))
    yield postgres.url(copy), template
    maintenance.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(copy)))


def test_single_retries_are_right(done: tuple[str, Operation]):
    url, operation = done
    assert bulk_retry.wrong(url, operation, set()) == []
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM queue_message").fetchone() == (288,)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM outbox WHERE id = (SELECT id FROM outbox LIMIT 1)", "1 works have not one message"),
        ("DELETE FROM queue_message WHERE ctid = (SELECT ctid FROM queue_message LIMIT 1)", "287 and 288"),
        ("UPDATE outbox SET sent_at = NULL", "288 works have not one message"),
        ("UPDATE task SET revision = 3 WHERE revision = 2", "288 works were not begun anew once"),
        ("UPDATE dead_letter SET status = 'pending'", "288 letters are neither"),
        ("UPDATE operation_item SET result = NULL", "288 letters have no result"),
        (
            "UPDATE operation_item SET result = 'skipped', reason = '' WHERE number = 1",
            "1 letters were not done",
        ),
        ("INSERT INTO dead_letter_audit SELECT * FROM dead_letter_audit LIMIT 1", "1 letters have not one line"),
        ("UPDATE dead_letter SET status = 'ignored' WHERE task_type = 'mail'", "6 letters that were not meant"),
    ],
)
def test_lost_or_double_retry_is_found(done: tuple[str, Operation], statement: str, says: str):
    url, operation = done
    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE dead_letter_audit DROP CONSTRAINT IF EXISTS dead_letter_audit_pkey")
        connection.execute(statement.encode())
    assert any(fault.startswith(says) for fault in bulk_retry.wrong(url, operation, set()))
