"""Adapters raise the correct Counterfoil error for every fault of a server."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from types import SimpleNamespace
from uuid import UUID, uuid4

import psycopg
import pytest
from botocore import endpoint

from cli.local.postgres import Server
from counterfoil import aws, db
from counterfoil.db import CommitUnknownError, Connection, Database, retry_on_conflict
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message, OutboxMessage
from counterfoil.documents.files import File
from counterfoil.documents.files import read as read_file
from counterfoil.errors import (
    ConflictError,
    DatabaseUnavailableError,
    RejectedRequestError,
    RejectedStatementError,
    ServiceUnavailableError,
)
from tests import faulty_servers
from tests.delivery.conftest import pending, tenant
from tests.e2e.polling import wait_until
from tests.factories import NOW
from tests.faulty_servers import outcome

__all__ = ["pending", "tenant"]

# -- PostgreSQL -------------------------------------------------------------------------------------------------------


def test_cut_connection_raises_database_unavailable(postgres: Server, migrated_database: str) -> None:
    """The connection is cut within messages, between messages and during the commit."""
    with faulty_servers.cutting_proxy(postgres.port) as proxy:
        url = f"postgresql://counterfoil_worker@{faulty_servers.HOST}:{proxy.port}/{migrated_database}"

        def transact(database: Database) -> None:
            with database.delivery() as connection:
                connection.execute("SELECT repeat('x', 40), generate_series(1, 3)").fetchall()

        def cut(cut_after: int | None) -> type[BaseException] | None:
            proxy.cut_after = cut_after
            database = Database(url, max_connections=1)
            try:
                return outcome(lambda: transact(database))[0]
            finally:
                database.close()

        assert cut(None) is None
        total_bytes = proxy.forwarded
        with psycopg.connect(url) as connection:
            connection.execute("SELECT 1")
            sign_in_bytes = proxy.forwarded
        outcomes = {cut_after: cut(cut_after) for cut_after in range(sign_in_bytes + 60, total_bytes)}

    assert len(outcomes) > 200
    assert set(outcomes.values()) == {DatabaseUnavailableError, CommitUnknownError}
    assert outcomes[total_bytes - 1] is CommitUnknownError


@pytest.fixture
def hung_database(postgres: Server, migrated_database: str) -> Iterator[tuple[faulty_servers.CuttingProxy, Database]]:
    """A proxy for PostgreSQL, and a database with an idle connection through it."""
    with faulty_servers.cutting_proxy(postgres.port) as proxy:
        url = f"postgresql://counterfoil_worker@{faulty_servers.HOST}:{proxy.port}/{migrated_database}"
        database = Database(url, max_connections=2)
        with database.delivery() as connection:
            connection.execute("SELECT 1")
        yield proxy, database
        database.close()


@pytest.mark.parametrize("sent", ["BEGIN", "SELECT", "COMMIT"])
def test_hung_server_raises_unavailable_at_deadline(
    hung_database: tuple[faulty_servers.CuttingProxy, Database], monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    proxy, database = hung_database
    monkeypatch.setattr(db, "SERVER_GRACE_SECONDS", 0.2)

    def transact() -> None:
        if sent == "BEGIN":
            proxy.responding.clear()
        with database.delivery(seconds=0.3) as connection:
            if sent == "SELECT":
                proxy.responding.clear()
            connection.execute("SELECT 1")
            proxy.responding.clear()

    start = monotonic()
    expected = CommitUnknownError if sent == "COMMIT" else DatabaseUnavailableError
    assert outcome(transact)[0] is expected
    assert 0.5 <= monotonic() - start < 5

    proxy.responding.set()
    with database.delivery() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_connections_use_tcp_keepalive(database: Database) -> None:
    with database.delivery() as connection, socket.socket(fileno=os.dup(connection.fileno())) as peer:
        assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        keepalive_options = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT
        assert [peer.getsockopt(socket.IPPROTO_TCP, option) for option in keepalive_options] == [5, 5, 3]


def test_unreachable_server_raises_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "CONNECT_SECONDS", 0.2)
    database = Database("postgresql://nobody@127.0.0.1:1/nowhere")
    try:
        assert outcome(lambda: database.delivery().__enter__())[0] is DatabaseUnavailableError
    finally:
        database.close()
    assert outcome(lambda: database.delivery().__enter__())[0] is DatabaseUnavailableError  # closed pool


@pytest.mark.parametrize("end", ["pg_terminate_backend", "pg_cancel_backend"])
def test_query_stopped_by_operator_raises_unavailable(database: Database, admin: Connection, end: str) -> None:
    def transact() -> None:
        with database.delivery() as connection:
            pid = connection.info.backend_pid
            threading.Thread(target=terminate_when_asleep, args=(admin, end, pid), daemon=True).start()
            connection.execute("SELECT pg_sleep(60)")

    assert outcome(transact)[0] is DatabaseUnavailableError


def terminate_when_asleep(admin: Connection, end: str, pid: int) -> None:
    asleep_query = "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = %s"
    wait_until(lambda: admin.execute(asleep_query, [pid]).fetchone() == (True,))
    admin.execute(f"SELECT {end}(%s)".encode(), [pid])


def test_lock_timeout_raises_conflict(
    database: Database, admin_database_url: str, pending: Callable[..., Message]
) -> None:
    message = pending()

    def transact() -> None:
        with database.delivery(lock_seconds=1) as connection:
            connection.execute("UPDATE document SET matching_error = NULL WHERE id = %s", [message.work_id])

    with psycopg.connect(admin_database_url) as other:
        other.execute("SELECT FROM document WHERE id = %s FOR UPDATE", [message.work_id])
        assert outcome(transact)[0] is ConflictError


def test_invalid_prepared_statement_raises_conflict_once(database_url: str, admin: Connection) -> None:
    """A prepared statement is invalid after deallocation or a change of its columns."""
    admin.execute("CREATE TABLE thing (a int); GRANT SELECT ON thing TO PUBLIC")
    database = Database(database_url, max_connections=1)
    runs: list[int] = []

    def read() -> None:
        runs.append(1)
        with database.delivery() as connection:
            connection.execute("SELECT * FROM thing").fetchall()

    def deallocate() -> None:
        with database.delivery() as connection:
            connection.pgconn.exec_(b"DEALLOCATE ALL")

    try:
        for invalidate in (lambda: admin.execute("ALTER TABLE thing ADD b int"), deallocate):
            for _ in range(8):
                read()
            invalidate()
            assert outcome(read)[0] is ConflictError
            runs.clear()
            retry_on_conflict(read)
            assert runs == [1]
    finally:
        database.close()


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
def test_text_unsupported_by_postgres_is_rejected(database: Database, text: str) -> None:
    def transact() -> None:
        with database.delivery() as connection:
            connection.execute("SELECT %s::text", [text])

    assert outcome(transact)[0] is RejectedStatementError


def test_value_too_long_for_index_is_rejected(database: Database, tenant: UUID) -> None:
    long_text = "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(5000))  # too long even if compressed

    def transact() -> None:
        with database.delivery() as connection:
            connection.execute(
                "INSERT INTO acquisition_job (id, bucket, key, sequencer, size, created_at) "
                "VALUES (gen_random_uuid(), 'b', %s, '1', 1, now())",
                [long_text],
            )

    cls, text = outcome(transact)
    assert cls is RejectedStatementError
    assert "54000" in text


# -- AWS --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[faulty_servers.ScriptedServer]:
    """Fake endpoint for all AWS services, called by real boto3 clients."""
    with faulty_servers.scripted_server() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{faulty_servers.HOST}:{server.port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        monkeypatch.setattr(
            endpoint, "time", SimpleNamespace(sleep=lambda _seconds: None)
        )  # no delay between botocore's retries
        aws.client.cache_clear()
        yield server
        aws.client.cache_clear()


def xml(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>secret</Message></Error>".encode()


def json(code: str) -> bytes:
    return f'{{"__type": "com.amazonaws.sqs#{code}", "message": "secret"}}'.encode()


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
FAULTS: dict[str, tuple[bytes | None, type[Exception] | None, type[Exception] | None]] = {
    # response, expected error from S3, expected error from SQS (None: success)
    "closed": (b"", ServiceUnavailableError, ServiceUnavailableError),
    "reset": (None, ServiceUnavailableError, ServiceUnavailableError),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", ServiceUnavailableError, ServiceUnavailableError),
    "only 100 Continue": (b"HTTP/1.1 100 Continue\r\n\r\n", ServiceUnavailableError, ServiceUnavailableError),
    "truncated": (
        faulty_servers.http_response(200, b"abc", length=100),
        ServiceUnavailableError,
        ServiceUnavailableError,
    ),
    "cut in a chunk": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        ServiceUnavailableError,
        ServiceUnavailableError,
    ),
    "an invalid length": (HEAD + b"Content-Length: x\r\n\r\n{}", ServiceUnavailableError, None),
    "a wrong checksum": (
        faulty_servers.http_response(200, b"{}", "x-amz-checksum-crc32: AAAAAA=="),
        ServiceUnavailableError,
        None,
    ),
    "an invalid date": (
        faulty_servers.http_response(200, b"{}", "Last-Modified: someday"),
        ServiceUnavailableError,
        None,
    ),
    "a list": (faulty_servers.http_response(200, b"[1]"), None, ServiceUnavailableError),
    "invalid UTF-8": (faulty_servers.http_response(200, b'{"Successful": "\xff"}'), None, ServiceUnavailableError),
    "an unreadable error": (faulty_servers.http_response(400, b"\xff"), RejectedRequestError, ServiceUnavailableError),
    "a list as error": (faulty_servers.http_response(400, b"[1]"), RejectedRequestError, ServiceUnavailableError),
    "a redirect": (faulty_servers.http_response(301), ServiceUnavailableError, RejectedRequestError),
    "not modified": (faulty_servers.http_response(304), RejectedRequestError, RejectedRequestError),
    "a proxy's page": (faulty_servers.http_response(502, b"<html>"), ServiceUnavailableError, ServiceUnavailableError),
    "too many requests": (faulty_servers.http_response(429), ServiceUnavailableError, ServiceUnavailableError),
    "an S3 error": (
        faulty_servers.http_response(400, xml("RequestTimeout")),
        ServiceUnavailableError,
        RejectedRequestError,
    ),
    "an SQS error": (
        faulty_servers.http_response(403, json("RequestThrottled")),
        RejectedRequestError,
        ServiceUnavailableError,
    ),
    "denied by S3": (
        faulty_servers.http_response(403, xml("AccessDenied")),
        RejectedRequestError,
        RejectedRequestError,
    ),
    "denied by SQS": (
        faulty_servers.http_response(403, json("AccessDenied")),
        RejectedRequestError,
        RejectedRequestError,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_aws_responses_are_classified_without_quoting(
    service: faulty_servers.ScriptedServer, fault: str
) -> None:
    service.response, s3_error, sqs_error = FAULTS[fault]

    def change_visibility() -> None:
        with aws.translate_errors():
            aws.client("sqs").change_message_visibility_batch(
                QueueUrl=f"http://{faulty_servers.HOST}:{service.port}/0/queue",
                Entries=[{"Id": "0", "ReceiptHandle": "handle", "VisibilityTimeout": 300}],
            )

    read_outcome, change_outcome = outcome(lambda: read_file(File("bucket", "key", None))), outcome(change_visibility)

    assert (read_outcome[0], change_outcome[0]) == (s3_error, sqs_error)
    assert "secret" not in read_outcome[1] + change_outcome[1]


def test_unreadable_sqs_response_counts_as_unsent(service: faulty_servers.ScriptedServer, database: Database) -> None:
    outbox = Outbox(database, {"matching": f"http://{faulty_servers.HOST}:{service.port}/0/queue"}, clock=lambda: NOW)
    service.response = faulty_servers.http_response(200, b"[1]")

    sent = outbox.send(
        [OutboxMessage(uuid4(), "matching", None, Message(work_id=uuid4(), revision=1, send_number=0), NOW)]
    )

    assert sent == 0


def test_dead_pooled_connections_are_replaced(database: Database, admin: Connection):
    """Connections die if a failover occurs while a Lambda environment is frozen."""
    with database.delivery() as first, database.delivery() as other:
        pids = [connection.info.backend_pid for connection in (first, other)]
    admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s::int[]) AS dead (pid)", [pids])
    with database.delivery() as connection:
        assert connection.info.backend_pid not in pids
        assert connection.execute("SELECT current_user").fetchone() == ("counterfoil_delivery",)
