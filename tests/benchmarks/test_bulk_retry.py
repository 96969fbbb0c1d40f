"""The bulk retry benchmark detects lost, duplicate and incorrect retries."""

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
DEAD_LETTERS = 300


@pytest.fixture(scope="module")
def template(postgres: Server) -> Operation:
    """Return a finished operation, run in database BULK without killing processes."""
    client = aws.client
    url = scale.prepare(postgres, BULK, 2)
    bulk_retry.make(url, DEAD_LETTERS)
    clock = bulk_retry.Clock(time.time(), 1.0)
    worker = postgres.url(BULK, "counterfoil_worker")
    with closing(Database(worker, max_connections=1)) as database:
        operation = bulk_retry.request(database, clock())
    bulk_retry.work(worker, url, clock, once=True)
    aws.client = client  # the benchmark replaced it
    return operation


@pytest.fixture
def finished_operation(
    postgres: Server, server_connection: Connection, template: Operation
) -> Iterator[tuple[str, Operation]]:
    """Yield the URL of a database copy that a test may corrupt, and its operation."""
    copy = f"{BULK}_{uuid4().hex}"
    create = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    server_connection.execute(create.format(Identifier(copy), Identifier(BULK)))
    yield postgres.url(copy), template
    server_connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(copy)))


def test_complete_operation_passes_all_checks(finished_operation: tuple[str, Operation]):
    url, operation = finished_operation
    assert bulk_retry.find_faults(url, operation, set()) == []
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM queue_message").fetchone() == (288,)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "DELETE FROM outbox WHERE id = (SELECT id FROM outbox LIMIT 1)",
            "1 tasks do not have exactly one sent message",
        ),
        ("DELETE FROM queue_message WHERE ctid = (SELECT ctid FROM queue_message LIMIT 1)", "287 and 288"),
        ("UPDATE outbox SET sent_at = NULL", "288 tasks do not have exactly one sent message"),
        ("UPDATE task SET revision = 3 WHERE revision = 2", "288 tasks do not have exactly one new revision"),
        ("UPDATE dead_letter SET status = 'pending'", "288 dead letters are neither"),
        ("UPDATE operation_item SET result = NULL", "288 dead letters have no result"),
        (
            "UPDATE operation_item SET result = 'skipped', reason = '' WHERE number = 1",
            "1 dead letters were skipped",
        ),
        (
            "INSERT INTO dead_letter_audit SELECT * FROM dead_letter_audit LIMIT 1",
            "1 dead letters do not have exactly one",
        ),
        ("UPDATE dead_letter SET status = 'ignored' WHERE task_type = 'mail'", "6 unselected dead letters"),
    ],
)
def test_corrupted_database_is_a_fault(finished_operation: tuple[str, Operation], statement: str, message: str):
    url, operation = finished_operation
    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE dead_letter_audit DROP CONSTRAINT IF EXISTS dead_letter_audit_pkey")
        connection.execute(statement.encode())
    assert any(fault.startswith(message) for fault in bulk_retry.find_faults(url, operation, set()))
