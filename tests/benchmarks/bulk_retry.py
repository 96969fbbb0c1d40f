"""Retry in bulk while worker processes are killed.

Run `python -m tests.benchmarks.bulk_retry`. Failed tasks and their dead letters are generated. One bulk operation
retries one tenant's dead letters of one type. Two processes run the operation as the worker does, and send unsent
messages as the watchdog does. At random times, one process is killed with SIGKILL and replaced, and an operator
resolves a dead letter. A table replaces SQS and records all messages. At the end, each selected dead letter must have
one result. Each retried task must have one new revision and one message.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from uuid import UUID

import psycopg
import typer

from cli.local.postgres import PostgresServer, Server
from counterfoil import aws
from counterfoil.db import Database
from counterfoil.dead_letters import actions, bulk
from counterfoil.dead_letters.actions import ChangeRequest
from counterfoil.dead_letters.bulk import BulkSteps
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.delivery.outbox import Outbox
from counterfoil.errors import RejectedRequestError
from counterfoil.operations import store
from counterfoil.operations.engine import Engine
from counterfoil.operations.store import MAX_RATES, NewOperation, Operation
from tests.benchmarks.dead_letters import RELATED_ROWS
from tests.benchmarks.scale import database
from tests.benchmarks.scale.database import tenant_id

PROCESSES = 2
PAUSES = (1.0, 6.0)
"""Minimum and maximum number of seconds between two kills."""
OTHERS = 50
"""One in 50 dead letters belongs to another tenant, and one in 50 has another type. None may be changed."""
ROUND_SECONDS = 57.0
_QUEUE = "CREATE UNLOGGED TABLE queue_message (url text NOT NULL, body jsonb NOT NULL, delay integer NOT NULL)"
_TASKS = """
WITH made AS (
    INSERT INTO task (id, tenant_id, task_type, payload, payload_hash, max_retry, idempotency_key, created_at, status,
                      error, attempts, failed_at, ended_at, revision)
    SELECT gen_random_uuid(), CASE WHEN i %% %(others)s = 0 THEN %(other)s::uuid ELSE %(tenant)s::uuid END,
           CASE WHEN i %% %(others)s = 1 THEN 'mail' ELSE 'echo' END, '{"say": "hello"}', sha256('hello'), 2, i::text,
           %(now)s::timestamptz - interval '1 day' - i * interval '10 ms', 'failed', 'It failed', 3, %(now)s, %(now)s, 1
    FROM generate_series(1, %(dead_letters)s) AS i
    RETURNING id, tenant_id, task_type, created_at
)
INSERT INTO dead_letter (job_id, tenant_id, worker, work_id, revision, task_type, payload, metadata, attempts,
                         fingerprint, dlq_reason, dlq_timestamp)
SELECT gen_random_uuid(), tenant_id, 'tasks', id, 1, task_type,
       jsonb_build_object('file', jsonb_build_object('file_name', 'invoice-1.pdf')),
       jsonb_build_object('created_at', created_at, 'retry_count', 2, 'max_retry', 2, 'last_error', jsonb_build_object(
           'type', 'TimeoutError', 'message', 'The service timed out at ''page-7''', 'timestamp', created_at,
           'context', jsonb_build_object('worker', 'tasks', 'attempt', 3))),
       3, left(md5(task_type), 16), 'max_retries_exceeded', created_at + interval '1 minute'
FROM made
"""


@dataclass(frozen=True)
class Clock:
    """Clock that starts at `began` and runs `faster` times as fast as real time.

    `began` is in epoch seconds.
    """

    began: float
    faster: float

    def __call__(self) -> datetime:
        """Return the current time."""
        passed = timedelta(seconds=(time.time() - self.began) * self.faster)
        return datetime.fromtimestamp(self.began, UTC) + passed


class Queue:
    """SQS stub that stores sent messages in a table."""

    def __init__(self, url: str) -> None:
        self._url = url

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        """Store a batch of messages."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.cursor().executemany(
                "INSERT INTO queue_message VALUES (%s, %s, %s)",
                [[QueueUrl, entry["MessageBody"], entry["DelaySeconds"]] for entry in Entries],
            )
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}


def run(
    total: Annotated[int, typer.Option("--dead-letters", help="Number of dead letters.")] = 1_000_000,
    faster: Annotated[
        float, typer.Option(help="Clock speedup factor, high enough to make the rate limit irrelevant.")
    ] = 20.0,
    seed: Annotated[int, typer.Option(help="Random seed for the kill times.")] = 1,
    folder: Annotated[Path | None, typer.Option(help="Folder in which to create the database.")] = None,
    worker: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Retry a tenant's dead letters while workers are killed.

    Fail if a retry is lost or duplicated.
    """
    if worker is not None:
        began, url, queue = worker.split(" ")
        work(url, queue, Clock(float(began), faster))
        return
    with TemporaryDirectory(dir=folder) as directory:
        Path(directory).chmod(0o711)
        embedded = PostgresServer(Path(directory) / "postgres")
        try:
            faults = measure(embedded.start(durable=False), total, faster, Random(seed))
        finally:
            embedded.remove()
    if faults:
        raise typer.Exit(1)


def measure(server: Server, total: int, faster: float, random: Random) -> list[str]:
    """Generate dead letters, retry them and print the results. Return all faults."""
    url = database.prepare(server, "bulk", 2)
    began = time.perf_counter()
    make(url, total)
    print(f"{total} dead letters generated in {time.perf_counter() - began:.0f} s")  # noqa: T201
    clock = Clock(time.time(), faster)
    with closing(Database(server.url("bulk", "counterfoil_worker"), max_connections=1)) as db:
        operation = request(db, clock())
        began = time.perf_counter()
        arguments = [f"{clock.began!r} {server.url('bulk', 'counterfoil_worker')} {url}", str(faster)]
        kills, resolved = _kill_until_done(db, url, operation, arguments, random, clock)
        seconds = time.perf_counter() - began
        ended = _current(db, operation)
    faults = find_faults(url, operation, resolved)
    sent_twice = _scalar(url, "SELECT count(*) - count(DISTINCT body) FROM queue_message")
    print(  # noqa: T201
        f"{ended.succeeded} succeeded, {ended.failed} failed, {ended.skipped} skipped in {seconds:.0f} s, "
        f"{ended.selected / seconds:.0f} per second, with {kills} processes killed; "
        f"{sent_twice} messages were sent twice, which is allowed"
    )
    for fault in faults:
        print(f"WRONG: {fault}")  # noqa: T201
    return faults


def make(url: str, total: int) -> None:
    """Create failed tasks, their dead letters, and the table that replaces SQS."""
    values = {
        "dead_letters": total,
        "others": OTHERS,
        "tenant": tenant_id(0),
        "other": tenant_id(1),
        "now": datetime.now(UTC),
    }
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_QUEUE)
        connection.execute("ALTER TABLE dead_letter DISABLE TRIGGER USER")  # counts are computed in bulk below
        connection.execute(_TASKS, values)
        connection.execute("ALTER TABLE dead_letter ENABLE TRIGGER USER")
        connection.execute(RELATED_ROWS.encode())
        for table in ("task", "dead_letter", "dead_letter_group", "dead_letter_word", "dead_letter_count"):
            connection.execute(f"VACUUM ANALYZE {table}".encode())


def request(db: Database, now: datetime) -> Operation:
    """Request a bulk retry of the first tenant's dead letters of type `echo`."""
    stored_filter = DeadLetterFilter(task_type="echo").stored_fields
    new = NewOperation("retry", stored_filter, "bench", now, note="The service is back", rate=MAX_RATES["retry"])
    with db.tenant(tenant_id(0)) as connection:
        return bulk.request(connection, tenant_id(0), new)


def work(url: str, queue: str, clock: Callable[[], datetime], *, once: bool = False) -> None:
    """Run the operation and send unsent messages, as the worker and watchdog do.

    With `once`, return after one run. Otherwise continue until the process is killed.
    """
    aws.client = lambda _: Queue(queue)  # type: ignore[assignment]
    with closing(Database(url, max_connections=1)) as db:
        outbox = Outbox(db, {"tasks": "tasks"}, {"tasks": "tasks-retry"}, clock=clock)
        engine = Engine(db, outbox, [BulkSteps(None)], clock)
        while True:
            end = time.monotonic() + ROUND_SECONDS
            done = engine.run(lambda end=end: end - time.monotonic())  # type: ignore[misc]
            unsent = outbox.send_unsent(created_before=clock() - timedelta(minutes=1))
            if once:
                return
            if not done["items"] and not unsent:
                time.sleep(0.05)


def _kill_until_done(
    db: Database, url: str, operation: Operation, arguments: list[str], random: Random, clock: Clock
) -> tuple[int, set[UUID]]:
    """Kill processes and resolve dead letters until the operation is complete.

    It is complete when it has ended and all messages are sent. Return the number of kills, and the ids of the dead
    letters that the operator resolved.
    """
    kills, resolved = 0, set()
    with _processes(arguments) as running:
        while _current(db, operation).ended_at is None or _scalar(url, _UNSENT):
            time.sleep(random.uniform(*PAUSES))
            victim = random.randrange(len(running))
            running[victim].send_signal(signal.SIGKILL)
            running[victim].wait()
            running[victim] = _start(arguments)
            kills += 1
            resolved |= _resolve_one(db, url, clock)
    return kills, resolved


_UNSENT = "SELECT count(*) FROM (SELECT FROM outbox WHERE sent_at IS NULL LIMIT 1) AS one"
_SOME = """
SELECT job_id, version FROM dead_letter TABLESAMPLE SYSTEM (1)
WHERE tenant_id = %s AND task_type = 'echo' AND status = 'pending' LIMIT 1
"""


def _resolve_one(db: Database, url: str, clock: Clock) -> set[UUID]:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_SOME, [tenant_id(0)]).fetchone()
    if row is None:
        return set()
    try:
        actions.resolve(db, tenant_id(0), ChangeRequest(row[0], row[1], "ann", clock(), "By hand"))
    except RejectedRequestError:  # the operation changed it first
        return set()
    return {row[0]}


@contextmanager
def _processes(arguments: list[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    running = [_start(arguments) for _ in range(PROCESSES)]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def _start(arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", __spec__.name, "--worker", arguments[0], "--faster", arguments[1]]
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"POWERTOOLS_LOG_LEVEL": "CRITICAL"},
    )


def _current(db: Database, operation: Operation) -> Operation:
    with db.tenant(operation.tenant_id) as connection:
        return store.show(connection, operation.id)


def _scalar(url: str, statement: str, values: Mapping[str, object] | None = None) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        ((value,),) = connection.execute(statement.encode(), values).fetchall()
    return value


_COUNT = "SELECT count(*) FROM dead_letter d WHERE d.tenant_id = %(tenant)s AND d.task_type = 'echo'"
_RETRIED = f"{_COUNT} AND d.status = 'retried'"
_ITEMS = "SELECT count(*) FROM operation_item i WHERE i.operation_id = %(operation)s"
_MUST_BE_ZERO = {
    "dead letters have no result": f"""{_COUNT} AND NOT EXISTS (
        SELECT FROM operation_item i
        WHERE i.operation_id = %(operation)s AND i.job_id = d.job_id AND i.result IS NOT NULL)""",
    "dead letters are neither retried nor resolved": f"{_COUNT} AND d.status NOT IN ('retried', 'resolved')",
    "dead letters do not have exactly one audit entry": f"""{_COUNT} AND 1 <> (
        SELECT count(*) FROM dead_letter_audit a WHERE a.job_id = d.job_id)""",
    "tasks do not have exactly one new revision": f"""{_RETRIED} AND NOT EXISTS (
        SELECT FROM task t
        WHERE t.id = d.work_id AND t.revision = 2 AND t.status = 'pending' AND t.send_number = 0)""",
    "tasks do not have exactly one sent message": f"""{_RETRIED} AND 1 <> (
        SELECT count(*) FROM outbox o
        WHERE o.work_id = d.work_id AND o.revision = 2 AND o.send_number = 0 AND o.sent_at IS NOT NULL)""",
    "unselected dead letters were changed": """
        SELECT count(*) FROM dead_letter d JOIN task t ON t.id = d.work_id
        WHERE (d.tenant_id <> %(tenant)s OR d.task_type <> 'echo') AND (d.status <> 'pending' OR t.revision <> 1)""",
}
_MUST_BE_EQUAL = {
    "the number of successful items differs from the number of retried dead letters": (
        f"{_ITEMS} AND i.result = 'succeeded'",
        _RETRIED,
    ),
    "the number of messages in the queue differs from the number of outbox rows": (
        "SELECT count(DISTINCT (body ->> 'job_id', body ->> 'revision', body ->> 'send_number')) FROM queue_message",
        "SELECT count(*) FROM outbox",
    ),
}
_SKIPPED = """
SELECT coalesce(array_agg(job_id), '{}') FROM operation_item
WHERE operation_id = %(operation)s AND result <> 'succeeded'
"""


def find_faults(url: str, operation: Operation, resolved: Collection[UUID]) -> list[str]:
    """Return all faults.

    `resolved` contains the ids of the dead letters that the operator resolved.
    """
    values = {"tenant": operation.tenant_id, "operation": operation.id}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    counts = {fault: _scalar(url, statement, values) for fault, statement in _MUST_BE_ZERO.items()}
    faults = [f"{number} {fault}" for fault, number in counts.items() if number]
    for fault, (statement, other) in _MUST_BE_EQUAL.items():
        numbers = _scalar(url, statement, values), _scalar(url, other, values)
        if numbers[0] != numbers[1]:
            faults.append(f"{numbers[0]} and {numbers[1]}: {fault}")
    skipped = set(_scalar(url, _SKIPPED, values))
    if skipped != set(resolved):
        faults.append(f"{len(skipped)} dead letters were skipped, but the operator resolved {len(resolved)}")
    return faults


if __name__ == "__main__":
    typer.run(run)
