"""Order of steps in every worker: protect, take a permit, claim, do heavy work.

New rows in the worker table are covered automatically. Handlers are built as on Lambda, and work items are rows with
only the required columns.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.sql import SQL, Identifier, Placeholder

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Attempt, Outcome
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.work import Message
from counterfoil.kinds import WORK_KINDS
from infra.worker_table import WORKERS, WorkerSpec, mappings
from tests.delivery.harness import Context, FakeSqs, event, record, task_body
from tests.factories import NOW
from tests.functions.test_handlers import handler, s3

__all__ = ["handler", "s3"]

POLLING = [row for row in WORKERS if row.has_event_source_mapping]
WITH_PERMITS = [row for row in WORKERS if row.has_queue]
TIMEOUT_SECONDS = 30
EXAMPLE_VALUES: dict[str, Callable[[], Any]] = {
    "uuid": uuid4,
    "text": lambda: str(uuid4()),
    "bytea": lambda: hashlib.sha256(uuid4().bytes).digest(),
    "timestamp with time zone": lambda: NOW,
    "bigint": lambda: 1,
    "integer": lambda: 1,
    "jsonb": lambda: "{}",
    "date": NOW.date,
    "ARRAY": lambda: [uuid4()],
}
"""Functions that return an example value for a required column, by data type."""
CHECKED_VALUES: dict[str, dict[str, Any]] = {"task": {"payload": "{}"}}
"""Values required by CHECK constraints over several columns, by table."""
ALLOWED_VALUES = r"""
SELECT attname, (regexp_match(pg_get_constraintdef(c.oid), $$ARRAY\['([^']*)'$$))[1]
FROM pg_constraint c JOIN pg_attribute a ON attrelid = conrelid AND attnum = conkey[1]
WHERE contype = 'c' AND conrelid = to_regclass(%s) AND cardinality(conkey) = 1
"""
"""Query for the columns whose CHECK constraint lists allowed values, each with its first allowed value."""

Log = list[tuple[str, Any]]


@pytest.fixture
def log(sqs: FakeSqs, s3: Any, monkeypatch: pytest.MonkeyPatch) -> Log:
    """The fake queue's log, which also records transactions and file reads."""
    original_transaction, get_object = Database._transaction, s3.get_object

    @contextmanager
    def logged_transaction(
        self: Database, setting: str, value: str, *lock_seconds: int, **options: Any
    ) -> Iterator[Connection]:
        sqs.log.append(("transaction", value))
        with original_transaction(self, setting, value, *lock_seconds, **options) as connection:
            yield connection

    def logged_read(**arguments: Any) -> Any:
        sqs.log.append(("file", arguments["Key"]))
        return get_object(**arguments)

    monkeypatch.setattr(Database, "_transaction", logged_transaction)
    s3.get_object = logged_read
    return sqs.log


@pytest.fixture
def make_work(admin: Connection, make_tenant: Callable[..., UUID]) -> Callable[[str], Message]:
    """`make_work(worker)` creates a pending work item and returns its message."""
    tenant_id = make_tenant("acme")

    def make(worker: str) -> Message:
        kind = WORK_KINDS[worker]
        required_columns = admin.execute(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_name = %s AND is_nullable = 'NO' AND column_default IS NULL AND is_generated = 'NEVER'",
            [kind.table],
        ).fetchall()
        values: dict[str, Any] = {name: EXAMPLE_VALUES[type_]() for name, type_ in required_columns}
        allowed_values: dict[str, str | None] = dict(admin.execute(ALLOWED_VALUES, [kind.table]).fetchall())
        values |= CHECKED_VALUES.get(kind.table, {})
        values |= {name: allowed_values[name] for name in values.keys() & allowed_values.keys() if allowed_values[name]}
        work_id = uuid4()
        lifecycle = {"status": "pending", "revision": 1, "send_number": 0}
        values |= {"id": work_id, "tenant_id": tenant_id}
        values |= {f"{kind.prefix}{name}": value for name, value in lifecycle.items()}
        statement = SQL("INSERT INTO {} ({}) VALUES ({})").format(
            Identifier(kind.table), SQL(", ").join(map(Identifier, values)), SQL(", ").join(map(Placeholder, values))
        )
        with admin.transaction():
            admin.execute("SET LOCAL session_replication_role = replica")  # disables foreign keys
            admin.execute(statement, values)
        return Message(work_id=work_id, revision=1, send_number=0)

    return make


def states(admin: Connection, worker: str) -> list[tuple[str, int]]:
    """Return the status and attempts of a worker's work items.

    A NULL status becomes "ended".
    """
    kind = WORK_KINDS[worker]
    rows = admin.execute(kind.sql("SELECT coalesce({status}, 'ended'), {attempts} FROM {table}")).fetchall()
    return sorted((status, attempts) for status, attempts in rows)


class SaturatedWorker:
    """A worker without free permits that logs each step up to its heavy work."""

    def __init__(self, consumer: Consumer, log: Log) -> None:
        self.consumer, self.requested, self.working = consumer, threading.Event(), threading.Semaphore(0)
        self.go_on = threading.Event()
        self.max_running = 0
        """Highest number of attempts that ran concurrently."""
        self._now = 0
        self._lock = threading.Lock()
        self._log, self._take, self._claim, self._work = (
            log,
            consumer.permits.acquire,
            consumer.claims.claim,
            consumer.run,
        )
        assert self._take(consumer.worker.permits) == consumer.worker.permits
        for target, name, replacement in (
            (consumer.permits, "acquire", self.take),
            (consumer.claims, "claim", self.claim),
            (consumer, "run", self.work),
        ):
            setattr(target, name, replacement)

    def take(self, count: int, *, timeout: float = 0) -> int:
        self.requested.set()
        permits = self._take(count, timeout=timeout)
        self._log.extend([("permit", None)] * permits)
        return permits

    def claim(self, messages: Any, **options: Any) -> Any:
        self._log.extend(("claim", message.work_id) for message in messages)
        return self._claim(messages, **options)

    def work(self, attempt: Attempt) -> Outcome:
        with self._lock:
            self._now += 1
            self.max_running = max(self.max_running, self._now)
        self._log.append(("work", attempt.work_id))
        self.working.release()
        assert self.go_on.wait(TIMEOUT_SECONDS)
        try:
            return self._work(attempt)
        finally:
            with self._lock:
                self._now -= 1


@pytest.mark.parametrize("row", POLLING, ids=lambda row: row.name)
def test_every_message_is_protected_before_anything_else(
    row: WorkerSpec, handler: Callable[[WorkerSpec], ModuleType], log: Log, make_work: Callable[[str], Message]
) -> None:
    sources = [source.name for source in mappings(WORKERS, row)]
    batch = [
        record(_body(source, make_work(source)), handle=f"{source} {number}", arn=_queue(row, source))
        for source in sources
        for number in range(3)
    ]
    module = handler(row)
    log.clear()

    module.handle(event(*batch), Context(seconds_left=row.timeout))

    protected = log[: len(batch)]
    assert {step for step, _ in protected} == {"visibility"}
    assert {handle for _, (handle, _) in protected} == {item["receiptHandle"] for item in batch}
    assert all(seconds >= 300 for _, (_, seconds) in protected)
    assert log[len(batch)][0] == "transaction"


def _body(worker: str, message: Message) -> str | Message:
    return task_body(message) if worker == "tasks" else message


def _queue(row: WorkerSpec, source: str) -> str:
    return f"arn:aws:sqs:eu-central-1:000000000000:counterfoil-{source}{'' if row.has_queue else '-dlq'}"


@pytest.mark.parametrize("all_permits", [False, True], ids=["one permit", "all permits"])
@pytest.mark.parametrize("row", WITH_PERMITS, ids=lambda row: row.name)
def test_message_without_permit_is_protected_but_unclaimed(
    row: WorkerSpec,
    handler: Callable[[WorkerSpec], ModuleType],
    admin: Connection,
    log: Log,
    sqs: FakeSqs,
    make_work: Callable[[str], Message],
    all_permits: bool,
) -> None:
    count, permits = row.permits + 3, row.permits if all_permits else 1
    work_ids = {make_work(row.name).work_id for _ in range(count)}
    messages = [Message(work_id=work, revision=1, send_number=0) for work in work_ids]
    batch = [record(_body(row.name, message), arn=_queue(row, row.name)) for message in messages]
    module = handler(row)
    saturated = SaturatedWorker(module.consumer(), log)
    log.clear()

    future = ThreadPoolExecutor(max_workers=1).submit(module.handle, event(*batch), Context(seconds_left=row.timeout))
    assert saturated.requested.wait(TIMEOUT_SECONDS)

    # No permit is free: all messages are protected, and nothing else has happened.
    assert [step for step, _ in log] == ["visibility"] * count
    assert set(sqs.visibility) == {item["receiptHandle"] for item in batch}
    assert states(admin, row.name) == [("pending", 0)] * count

    # Permits are free: one work item per permit is claimed and runs. All other messages are still waiting.
    saturated.consumer.permits.release(permits)
    for _ in range(permits):
        assert saturated.working.acquire(timeout=TIMEOUT_SECONDS)
    assert states(admin, row.name) == [("in-progress", 1)] * permits + [("pending", 0)] * (count - permits)
    assert "file" not in {step for step, _ in log}

    saturated.go_on.set()
    future.result(timeout=TIMEOUT_SECONDS)
    _check_order(log, work_ids)
    assert saturated.max_running == permits


def _check_order(log: Log, work_ids: set[UUID]) -> None:
    """Assert that each work item was claimed once, with a free permit, and then ran."""
    steps = [step for step, _ in log]
    for index, (step, work_id) in enumerate(log):
        before = log[:index]
        if step == "claim":
            assert steps[:index].count("claim") < steps[:index].count("permit")
        elif step == "work":
            assert ("claim", work_id) in before
    assert sorted(work_id for step, work_id in log if step == "claim") == sorted(work_ids)
    assert {work_id for step, work_id in log if step == "work"} == work_ids


@pytest.mark.parametrize("row", WITH_PERMITS, ids=lambda row: row.name)
def test_message_waiting_too_long_for_permit_is_parked(
    row: WorkerSpec,
    handler: Callable[[WorkerSpec], ModuleType],
    admin: Connection,
    log: Log,
    make_work: Callable[[str], Message],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = [record(_body(row.name, make_work(row.name)), arn=_queue(row, row.name)) for _ in range(3)]
    module = handler(row)
    saturated, context = SaturatedWorker(module.consumer(), log), Context(seconds_left=row.timeout)
    process_ends: list[str] = []
    monkeypatch.setattr(saturated.consumer.concurrency, "end_process", lambda: process_ends.append(row.name))

    def take(count: int, *, timeout: float = 0) -> int:
        """Let the remaining time pass while waiting for a permit."""
        context.left -= timeout
        return 0

    monkeypatch.setattr(saturated, "_take", take)
    log.clear()

    response = module.handle(event(*batch), context)

    assert response == {"batchItemFailures": []}
    assert states(admin, row.name) == [("pending", 0)] * 3
    assert not {"claim", "work", "file"} & {step for step, _ in log}
    assert process_ends == [row.name]  # as if hung attempts held the permits
