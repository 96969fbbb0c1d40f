"""`python -m tests.benchmarks.bulk_retry`: dead letters tried again by filter, while processes that do it are killed.

Tasks that have failed are made up, each with its letter. One operation means all of one tenant's. Two processes carry
it out as the worker does, and the watchdog's sending of what was left unsent; at random moments one of them ends by
SIGKILL and another one begins. A person settles a letter now and then. In the place of SQS stands a table, so that what
was sent is known. In the end each letter must have one result, each work one new revision and one message of its own.
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
from counterfoil.dead_letters.actions import Wish
from counterfoil.dead_letters.bulk import BulkSteps
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.delivery.outbox import Outbox
from counterfoil.errors import RejectedRequestError
from counterfoil.operations import store
from counterfoil.operations.engine import Engine
from counterfoil.operations.store import MAX_RATES, NewOperation, Operation
from tests.benchmarks.dead_letters import AROUND
from tests.benchmarks.scale import database
from tests.benchmarks.scale.database import tenant_id

PROCESSES = 2
PAUSES = (1.0, 6.0)
"""Seconds between two kills, at least and at most."""
OTHERS = 50
"""Of how many letters one is another tenant's, and one of another type: these are not meant."""
ROUND_SECONDS = 57.0
_QUEUE = "CREATE UNLOGGED TABLE queue_message (url text NOT NULL, body jsonb NOT NULL, delay integer NOT NULL)"
_TASKS = """
WITH made AS (
    INSERT INTO task (id, tenant_id, task_type, payload, payload_hash, max_retry, idempotency_key, created_at, status,
                      error, attempts, failed_at, ended_at, revision)
    SELECT gen_random_uuid(), CASE WHEN i %% %(others)s = 0 THEN %(other)s::uuid ELSE %(tenant)s::uuid END,
           CASE WHEN i %% %(others)s = 1 THEN 'mail' ELSE 'echo' END, '{"say": "hello"}', sha256('hello'), 2, i::text,
           %(now)s::timestamptz - interval '1 day' - i * interval '10 ms', 'failed', 'It failed', 3, %(now)s, %(now)s, 1
    FROM generate_series(1, %(letters)s) AS i
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
    """Time that passes `faster` than it does, since `began` (seconds of the epoch)."""

    began: float
    faster: float

    def __call__(self) -> datetime:
        """What time it is."""
        passed = timedelta(seconds=(time.time() - self.began) * self.faster)
        return datetime.fromtimestamp(self.began, UTC) + passed


class Queue:
    """In the place of SQS: what is sent comes into a table."""

    def __init__(self, url: str) -> None:
        self._url = url

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        """As SQS takes them."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.cursor().executemany(
                "INSERT INTO queue_message VALUES (%s, %s, %s)",
                [[QueueUrl, entry["MessageBody"], entry["DelaySeconds"]] for entry in Entries],
            )
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}


def run(
    letters: Annotated[int, typer.Option(help="Dead letters in all.")] = 1_000_000,
    faster: Annotated[float, typer.Option(help="How much faster time passes: the rate is no bound then.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Of the moments at which processes are killed.")] = 1,
    folder: Annotated[Path | None, typer.Option(help="Where the database lies.")] = None,
    worker: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Try all letters of a tenant again while those who do it are killed; fail where one is lost or doubled."""
    if worker is not None:
        began, url, queue = worker.split(" ")
        work(url, queue, Clock(float(began), faster))
        return
    with TemporaryDirectory(dir=folder) as place:
        Path(place).chmod(0o711)
        embedded = PostgresServer(Path(place) / "postgres")
        try:
            faults = measure(embedded.start(durable=False), letters, faster, Random(seed))
        finally:
            embedded.remove()
    if faults:
        raise typer.Exit(1)


def measure(server: Server, letters: int, faster: float, random: Random) -> list[str]:
    """Make the letters, try them again, and print what came of it. Returns what is wrong."""
    url = database.prepare(server, "bulk", 2)
    began = time.perf_counter()
    make(url, letters)
    print(f"{letters} letters made in {time.perf_counter() - began:.0f} s")  # noqa: T201
    clock = Clock(time.time(), faster)
    with closing(Database(server.url("bulk", "counterfoil_worker"), max_connections=1)) as found:
        operation = request(found, clock())
        began = time.perf_counter()
        told = [f"{clock.began!r} {server.url('bulk', 'counterfoil_worker')} {url}", str(faster)]
        kills, settled = _kill_until_done(found, url, operation, told, random, clock)
        seconds = time.perf_counter() - began
        ended = _look(found, operation)
    faults = wrong(url, operation, settled)
    sent_twice = _one(url, "SELECT count(*) - count(DISTINCT body) FROM queue_message")
    print(  # noqa: T201
        f"{ended.done} done, {ended.failed} failed, {ended.skipped} skipped in {seconds:.0f} s, "
        f"{ended.selected / seconds:.0f} a second, with {kills} processes killed; "
        f"{sent_twice} messages were sent twice, as may be"
    )
    for fault in faults:
        print(f"WRONG: {fault}")  # noqa: T201
    return faults


def make(url: str, letters: int) -> None:
    """Tasks that have failed, with their letters, and the table that stands for SQS."""
    values = {
        "letters": letters,
        "others": OTHERS,
        "tenant": tenant_id(0),
        "other": tenant_id(1),
        "now": datetime.now(UTC),
    }
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_QUEUE)
        connection.execute("ALTER TABLE dead_letter DISABLE TRIGGER USER")  # what it counts is counted below, at once
        connection.execute(_TASKS, values)
        connection.execute("ALTER TABLE dead_letter ENABLE TRIGGER USER")
        connection.execute(AROUND.encode())
        for table in ("task", "dead_letter", "dead_letter_group", "dead_letter_word", "dead_letter_count"):
            connection.execute(f"VACUUM ANALYZE {table}".encode())


def request(found: Database, now: datetime) -> Operation:
    """An operation about one tenant's letters of one type."""
    wanted = DeadLetterFilter(task_type="echo").stored
    new = NewOperation("retry", wanted, "bench", now, note="The service is back", rate=MAX_RATES["retry"])
    with found.tenant(tenant_id(0)) as connection:
        return bulk.request(connection, tenant_id(0), new)


def work(url: str, queue: str, clock: Callable[[], datetime], *, once: bool = False) -> None:
    """Rounds as the worker takes them, and the watchdog's sending, until the process is killed."""
    aws.client = lambda _: Queue(queue)  # type: ignore[assignment]
    with closing(Database(url, max_connections=1)) as found:
        outbox = Outbox(found, {"tasks": "tasks"}, {"tasks": "tasks-retry"}, clock=clock)
        rounds = Engine(found, outbox, [BulkSteps(None)], clock)
        while True:
            end = time.monotonic() + ROUND_SECONDS
            done = rounds.run(lambda end=end: end - time.monotonic())  # type: ignore[misc]
            unsent = outbox.send_unsent(created_before=clock() - timedelta(minutes=1))
            if once:
                return
            if not done["letters"] and not unsent:
                time.sleep(0.05)


def _kill_until_done(  # what, where, how
    found: Database, url: str, operation: Operation, told: list[str], random: Random, clock: Clock
) -> tuple[int, set[UUID]]:
    """Kill processes and settle letters until the operation has ended and nothing is unsent.

    Returns how many were killed, and which letters were settled by a person.
    """
    kills, settled = 0, set()
    with _processes(told) as running:
        while _look(found, operation).ended_at is None or _one(url, _UNSENT):
            time.sleep(random.uniform(*PAUSES))
            victim = random.randrange(len(running))
            running[victim].send_signal(signal.SIGKILL)
            running[victim].wait()
            running[victim] = _start(told)
            kills += 1
            settled |= _settle_one(found, url, clock)
    return kills, settled


_UNSENT = "SELECT count(*) FROM (SELECT FROM outbox WHERE sent_at IS NULL LIMIT 1) AS one"
_SOME = """
SELECT job_id, version FROM dead_letter TABLESAMPLE SYSTEM (1)
WHERE tenant_id = %s AND task_type = 'echo' AND status = 'pending' LIMIT 1
"""


def _settle_one(found: Database, url: str, clock: Clock) -> set[UUID]:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_SOME, [tenant_id(0)]).fetchone()
    if row is None:
        return set()
    try:
        actions.resolve(found, tenant_id(0), Wish(row[0], row[1], "ann", clock(), "By hand"))
    except RejectedRequestError:  # the operation was quicker
        return set()
    return {row[0]}


@contextmanager
def _processes(told: list[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    running = [_start(told) for _ in range(PROCESSES)]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def _start(told: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", __spec__.name, "--worker", told[0], "--faster", told[1]]
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"POWERTOOLS_LOG_LEVEL": "CRITICAL"},
    )


def _look(found: Database, operation: Operation) -> Operation:
    with found.tenant(operation.tenant_id) as connection:
        return store.show(connection, operation.id)


def _one(url: str, statement: str, values: Mapping[str, object] | None = None) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        ((found,),) = connection.execute(statement.encode(), values).fetchall()
    return found


_COUNT = "SELECT count(*) FROM dead_letter d WHERE d.tenant_id = %(tenant)s AND d.task_type = 'echo'"
_RETRIED = f"{_COUNT} AND d.status = 'retried'"
_ITEMS = "SELECT count(*) FROM operation_item i WHERE i.operation_id = %(operation)s"
_NONE = {
    "letters have no result": f"""{_COUNT} AND NOT EXISTS (
        SELECT FROM operation_item i
        WHERE i.operation_id = %(operation)s AND i.job_id = d.job_id AND i.result IS NOT NULL)""",
    "letters are neither tried again nor settled by a person": f"{_COUNT} AND d.status NOT IN ('retried', 'resolved')",
    "letters have not one line in their history": f"""{_COUNT} AND 1 <> (
        SELECT count(*) FROM dead_letter_audit a WHERE a.job_id = d.job_id)""",
    "works were not begun anew once": f"""{_RETRIED} AND NOT EXISTS (
        SELECT FROM task t
        WHERE t.id = d.work_id AND t.revision = 2 AND t.status = 'pending' AND t.send_number = 0)""",
    "works have not one message, or one that was not sent": f"""{_RETRIED} AND 1 <> (
        SELECT count(*) FROM outbox o
        WHERE o.work_id = d.work_id AND o.revision = 2 AND o.send_number = 0 AND o.sent_at IS NOT NULL)""",
    "letters that were not meant were changed": """
        SELECT count(*) FROM dead_letter d JOIN task t ON t.id = d.work_id
        WHERE (d.tenant_id <> %(tenant)s OR d.task_type <> 'echo') AND (d.status <> 'pending' OR t.revision <> 1)""",
}
_ALIKE = {
    "results that say so, and letters that were tried again": (f"{_ITEMS} AND i.result = 'done'", _RETRIED),
    "works that the queue has messages of, and messages that were owed": (
        "SELECT count(DISTINCT (body ->> 'job_id', body ->> 'revision', body ->> 'send_number')) FROM queue_message",
        "SELECT count(*) FROM outbox",
    ),
}
_SKIPPED = """
SELECT coalesce(array_agg(job_id), '{}') FROM operation_item
WHERE operation_id = %(operation)s AND result <> 'done'
"""


def wrong(url: str, operation: Operation, settled: Collection[UUID]) -> list[str]:
    """What is lost or doubled, in sentences; `settled` are the letters that a person settled meanwhile."""
    values = {"tenant": operation.tenant_id, "operation": operation.id}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    faults = [f"{number} {what}" for what, statement in _NONE.items() if (number := _one(url, statement, values))]
    for what, (statement, other) in _ALIKE.items():
        numbers = _one(url, statement, values), _one(url, other, values)
        if numbers[0] != numbers[1]:
            faults.append(f"{numbers[0]} and {numbers[1]}: {what}")
    skipped = set(_one(url, _SKIPPED, values))
    if skipped != set(settled):
        faults.append(f"{len(skipped)} letters were not done, and {len(settled)} settled by a person")
    return faults


if __name__ == "__main__":
    typer.run(run)
