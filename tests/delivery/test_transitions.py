"""Every transition of the table in docs/delivery.md, checked on PostgreSQL."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import CommitUnknownError, Connection, Database
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import Effects, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.batch import METRICS_BY_OUTCOME
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import MAX_MESSAGES_PER_REVISION, RedeliverPolicy
from counterfoil.delivery.sql import ClaimStatus
from counterfoil.delivery.work import Message, ParsedMessage, start_revision
from counterfoil.documents import files
from counterfoil.errors import (
    BreakerOpenError,
    CancelledError,
    DatabaseUnavailableError,
    InvalidDocumentError,
    ServiceUnavailableError,
    UnsupportedSchemaError,
)
from functions.dead_letters.archiver import Archiver
from functions.watchdog.recovery import Watchdog
from tests.delivery.harness import (
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    Flaky,
    event,
    make_consumer,
    record,
    rows,
    settings,
)

PAGE = Path(__file__).parents[2] / "docs" / "delivery.md"
LEFT = timedelta(seconds=90)
PROTECTED = 300
LATE = Context(left=20)
"""Not enough time to start work."""


class Transition(NamedTuple):
    """One row of the table of transitions."""

    before: str
    after: str
    attempts: str
    message: str
    written: str
    called: str


def read_table() -> dict[str, Transition]:
    """Return the rows of the table, by name of the transition."""
    section = PAGE.read_text().split("## Transitions\n")[1].split("\n## ")[0]
    cells = [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|") and not line.startswith("|-")
    ]
    return {name: Transition(*rest) for name, *rest in cells if name != "transition"}


TABLE = read_table()


class Snapshot(NamedTuple):
    row: dict[str, Any] | None
    counts: dict[str, int]


@dataclass
class World:
    """One work item and everything that can change it."""

    database: Database
    maintenance: Database
    flaky: Flaky
    admin: Connection
    sqs: FakeSqs
    clock: Clock
    pending: Callable[..., Message]
    make_tenant: Callable[..., UUID]
    log: pytest.LogCaptureFixture
    table: str = "document"
    before: Snapshot = field(init=False)

    def make(self, state: str, **columns: Any) -> Message:
        """Create a work item in a state, named as in the table."""
        lease = self.clock() + (LEFT if state == "in-progress" else -timedelta(seconds=1))
        token = self.admin.execute("SELECT nextval('claim_token')").fetchall()[0][0]
        status = {"skipped": None, "in-progress, lease expired": "in-progress"}.get(state, state)
        values = {"status": status, "claim_token": token}
        if status == "in-progress":
            values |= {"attempts": 1, "lease_expires_at": lease, "claimed_at": lease - LEFT}
        return self.pending(**values | columns)

    def look(self) -> Snapshot:
        with self.admin.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self.table}".encode())
            names = [column.name.removeprefix("matching_") for column in cursor.description or ()]
            stored = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        counted = ("dead_letter", "failure_event", "outbox", "dead_letter_audit")
        counts = {name: len(rows(self.admin, name)) for name in counted}
        return Snapshot(
            stored[0] if stored else None, counts | {"effects": sum(row.get("method") is not None for row in stored)}
        )

    def state(self, row: dict[str, Any] | None) -> str:
        if row is None:
            return "none"
        if row["status"] == "in-progress" and row["lease_expires_at"] <= self.clock():
            return "in-progress, lease expired"
        return row["status"] or "skipped"

    def seen(self, message: str, called: str) -> Transition:
        """Return the changes since `before`, in the terms of the table."""
        row, counts = self.look()
        then, counted = self.before
        unchanged = row == then and row is not None
        attempts = (row or {}).get("attempts", 0) - (then or {}).get("attempts", 0)
        new = {name for name, count in counts.items() if count > counted[name]}
        if row is not None and row["status"] == "failed" and "dead_letter" in new:
            assert row["failed_at"] == self.clock()
        words = {
            "effects": "effects",
            "dead_letter": "dead letter",
            "failure_event": "notification",
            "outbox": "a message",
        }
        written = ", ".join(word for name, word in words.items() if name in new)
        return Transition(
            self.state(then),
            "unchanged" if unchanged else self.state(row),
            "" if not attempts else f"{attempts:+}" if attempts >= -1 else "none left",
            message,
            written,
            called,
        )

    # -- actors -------------------------------------------------------------------------------------------------------

    def consume(
        self,
        body: Message | str,
        work: Callable[[TenantAttempt], Any] | None = None,
        *,
        receives: int = 1,
        context: Context | None = None,
        database: Database | None = None,
        **how: Any,
    ) -> Transition:
        """Consume one record. With `work`, return the transition of the settlement."""
        self.before = self.look()

        def look_and_work(attempt: TenantAttempt) -> Any:
            assert work is not None, "must not run"
            self.before = self.look()
            return work(attempt)

        consumer = make_consumer(database or self.database, look_and_work, self.clock, **how)
        self.log.clear()
        response = consumer.handle(event(record(body, receives=receives, handle="it")), context or Context())
        lines = [line for line in self.log.records if line.funcName == "_conclude" and line.levelname == "INFO"]
        (called,) = [line.message for line in lines]
        return self.seen(self.message(reported=bool(response["batchItemFailures"])), called)

    def message(self, *, reported: bool) -> str:
        if not reported:
            return "acknowledged"
        row = self.look().row
        changes = [seconds for kind, (_, seconds) in self.sqs.log if kind == "visibility"]
        if self.sqs.visibility.get("it") is None:
            return "reported, as received"
        if changes == [PROTECTED]:
            return "reported, as protected"
        now, visible_in = self.clock(), timedelta(seconds=changes[-1])
        words = {
            timedelta(): "reported, visible at once",
            timedelta(seconds=300): "reported, by receive count",
            _from(now, row, "next_attempt_at"): "reported, until the next attempt",
            _from(now, row, "lease_expires_at", timedelta(seconds=1)): "reported, until the lease expires",
        }
        return words[visible_in]

    def archive(self, body: Message | str, worker: str = "matching") -> Transition:
        """Archive one message of the dead-letter queue."""
        self.before = self.look()
        outbox = Outbox(self.maintenance, settings().queue_urls, clock=self.clock)
        archiver = Archiver(self.maintenance, outbox, RedeliverPolicy(), self.clock)
        kept = "kept"
        with suppress(UnsupportedSchemaError):
            waiting = archiver.process(worker, SQSRecord(record(body)))
            kept = "deleted" if waiting is None else "kept"
            if waiting is not None:
                assert waiting.visible_in == LEFT.total_seconds() + 1
                kept = "kept, until the lease expires"
        entries = [entry["action"] for entry in rows(self.admin, "dead_letter_audit")]
        return self.seen(kept, ", ".join(entries[self.before.counts["dead_letter_audit"] :]))

    def watch(self) -> Transition:
        """Run the watchdog."""
        self.before = self.look()
        chosen = settings()
        outbox = Outbox(self.maintenance, chosen.queue_urls, clock=self.clock)
        Watchdog(chosen, self.maintenance, outbox, self.clock).run()
        return self.seen("sent" if self.sqs.sent[QUEUE_URL] else "not sent", "")

    def upload(self) -> str:
        """Return an S3 event about a tenant's file."""
        self.table = "acquisition_job"
        self.make_tenant("beta")
        thing = {"key": "uploads/beta/a.xml", "size": 3, "sequencer": "01"}
        entity = {"bucket": {"name": "uploads"}, "object": thing}
        return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": entity}]})


def _from(now: datetime, row: dict[str, Any] | None, column: str, more: timedelta = timedelta()) -> timedelta | None:
    return row[column] - now + more if row is not None and row[column] is not None else None


@pytest.fixture
def world(
    database: Database,
    database_url: str,
    maintenance_database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Callable[..., Message],
    make_tenant: Callable[..., UUID],
    caplog: pytest.LogCaptureFixture,
) -> Iterator[World]:
    flaky = Flaky(database_url)
    flaky.fail_tenant, flaky.fail_delivery = [], []
    yield World(database, maintenance_database, flaky, admin, sqs, clock, pending, make_tenant, caplog)
    flaky.close()


# -- attempt behaviors ------------------------------------------------------------------------------------------------


def succeed(attempt: TenantAttempt) -> Succeeded:
    def effects(connection: Connection) -> Effects:
        connection.execute("UPDATE document SET method = 'xml' WHERE id = %s", [attempt.work_id])
        return Effects()

    return Succeeded(effects)


def fail(error: BaseException) -> Callable[[TenantAttempt], Any]:
    def work(attempt: TenantAttempt) -> Any:
        raise error

    return work


def transient() -> Callable[[TenantAttempt], Any]:
    return fail(ServiceUnavailableError("S3 is slow"))


def claimed(world: World, body: Message | str, **how: Any) -> Transition:
    """Return the transition of the claim alone, observed during the attempt."""
    during: list[Transition] = []

    def work(attempt: TenantAttempt) -> Succeeded:
        during.append(
            world.seen("hidden", "") if world.sqs.visibility == {"it": PROTECTED} else world.seen("visible", "")
        )
        return Succeeded(lambda connection: Effects())

    world.before = world.look()
    before = world.before
    consumer = make_consumer(world.database, work, world.clock, **how)
    world.before = before
    consumer.handle(event(record(body, handle="it")), Context())
    return during[0]


def outrun(world: World) -> Callable[[TenantAttempt], Succeeded]:
    def work(attempt: TenantAttempt) -> Succeeded:
        world.admin.execute("UPDATE document SET matching_claim_token = nextval('claim_token')")
        world.before = world.look()
        return succeed(attempt)

    return work


def away(
    world: World, work: Callable[[TenantAttempt], Any], *failures: Exception, made: bool = False
) -> Callable[..., Transition]:
    """Fail the settlement's transactions before or after their commit."""
    world.flaky.fail_tenant = [lambda failure=failure: failure for failure in failures]  # type: ignore[misc]
    world.flaky.commit_then_fail = made
    return lambda message: world.consume(message, work, database=world.flaky)


def older(message: Message) -> Message:
    """Return the message from before the work item was parked or restarted."""
    return message.model_copy(update={"send_number": message.send_number - 1})


def newer(message: Message) -> Message:
    """Return a message whose transaction the database has lost."""
    return message.model_copy(update={"send_number": message.send_number + 1})


def several(world: World) -> Transition:
    messages = [world.make("pending") for _ in range(2)]
    return world.consume("both", read=lambda body: ParsedMessage(messages))


def joined(world: World) -> Transition:
    message = world.make("in-progress, lease expired", attempts=3)
    world.archive(message)
    return world.archive(message)


def resent(world: World, state: str) -> Transition:
    message = world.make(state)
    begun = world.clock()
    with world.database.delivery() as connection:
        columns = "worker, work_id, revision, send_number, scheduled_at, created_at, sent_at"
        connection.execute(
            f"INSERT INTO outbox ({columns}) VALUES ('matching', %s, 1, 0, %s, %s, %s)".encode(),
            [message.work_id, begun, begun, begun],
        )
    world.clock.pass_(hours=1)
    return world.watch()


def unsent(world: World) -> Transition:
    message = world.make("pending")
    with world.database.delivery() as connection:
        start_revision(connection, "matching", [message.work_id], world.clock())
    world.clock.pass_(hours=1)
    return world.watch()


def begun(world: World, state: str) -> Transition:
    message = world.make(state, dlq_returns=2, send_number=4, attempts=2, error="S3 is slow", skip_reason="empty")
    world.before = world.look()
    with world.database.delivery() as connection:
        (send,) = start_revision(connection, "matching", [message.work_id], world.clock())
    row = world.look().row or {}
    assert (row["dlq_returns"], row["send_number"], row["next_attempt_at"], row["error"], row["skip_reason"]) == (
        0,
        0,
        None,
        None,
        None,
    )
    assert send.message == Message(work_id=message.work_id, revision=2, send_number=0)
    return world.seen("enqueued", "")


NEWER = f'{{"schema_version": 2, "work": "{uuid4()}"}}'
UNKNOWN_MESSAGE = Message(work_id=uuid4(), revision=1, send_number=0)
UPLOADS = {
    "read": files.read_event,
    "worker": {"name": "acquisition", "timeout": 120, "permits": 2, "start_margin": 30},
}
LOST = CommitUnknownError("lost")
AWAY = DatabaseUnavailableError("away")

CASES: dict[str, Callable[[World, str], Transition]] = {
    "claim": lambda world, state: claimed(world, world.make(state)),
    "claim of an upload": lambda world, _: claimed(world, world.upload(), **UPLOADS),
    "ended": lambda world, state: world.consume(world.make(state)),
    "older copy": lambda world, state: world.consume(older(world.make(state, send_number=1))),
    "older revision": lambda world, state: world.consume(
        world.make(state, revision=2).model_copy(update={"revision": 1})
    ),
    "newer than its row": lambda world, state: world.consume(newer(world.make(state))),
    "newer than its row, ended": lambda world, state: world.consume(newer(world.make(state))),
    "running": lambda world, state: world.consume(world.make(state)),
    "early": lambda world, state: world.consume(world.make(state, next_attempt_at=world.clock() + LEFT)),
    "exhausted": lambda world, state: world.consume(world.make(state, attempts=3)),
    "early, too many deferrals": lambda world, state: world.consume(
        world.make(state, next_attempt_at=world.clock() + LEFT, send_number=MAX_MESSAGES_PER_REVISION)
    ),
    "unknown work item": lambda world, _: world.consume(UNKNOWN_MESSAGE),
    "no time to start": lambda world, state: world.consume(world.make(state), context=LATE),
    "no time to start, running": lambda world, state: world.consume(world.make(state), context=LATE),
    "no time to start, exhausted": lambda world, state: world.consume(world.make(state, attempts=3), context=LATE),
    "no time to start, too many deferrals": lambda world, state: world.consume(
        world.make(state, send_number=MAX_MESSAGES_PER_REVISION), context=LATE
    ),
    "success": lambda world, _: world.consume(world.make("pending"), succeed),
    "skip": lambda world, _: world.consume(world.make("pending"), lambda attempt: Skipped("no counterparty")),
    "permanent failure": lambda world, _: world.consume(
        world.make("pending"), fail(InvalidDocumentError("Empty.", code="damaged_pdf"))
    ),
    "transient failure": lambda world, _: world.consume(world.make("pending"), transient()),
    "unknown error": lambda world, _: world.consume(world.make("pending"), fail(ZeroDivisionError())),
    "canceled at the deadline": lambda world, _: world.consume(world.make("pending"), fail(CancelledError("stopped"))),
    "transient failure, third receive": lambda world, _: world.consume(world.make("pending"), transient(), receives=3),
    "transient failure, last attempt": lambda world, _: world.consume(world.make("pending", attempts=2), transient()),
    "deferral": lambda world, _: world.consume(
        world.make("pending"), fail(BreakerOpenError("open", until=world.clock() + LEFT))
    ),
    "deferral, too many deferrals": lambda world, _: world.consume(
        world.make("pending", send_number=MAX_MESSAGES_PER_REVISION),
        fail(BreakerOpenError("open", until=world.clock() + LEFT)),
    ),
    "stale": lambda world, _: world.consume(world.make("pending"), outrun(world)),
    "database unavailable": lambda world, _: away(world, succeed, *[AWAY] * 9)(world.make("pending")),
    "commit unacknowledged, committed": lambda world, _: away(world, succeed, LOST, made=True)(world.make("pending")),
    "commit unacknowledged, rolled back": lambda world, _: away(world, succeed, LOST)(world.make("pending")),
    "unreadable message": lambda world, _: world.consume("not JSON"),
    "newer schema": lambda world, _: world.consume(NEWER),
    "several work items in one message": lambda world, _: several(world),
    "no work item in a message": lambda world, _: world.consume("a test event", read=lambda body: ParsedMessage([])),
    "dead-letter queue: returned": lambda world, state: world.archive(world.make(state)),
    "dead-letter queue: returned twice, never attempted": lambda world, state: world.archive(
        world.make(state, dlq_returns=2)
    ),
    "dead-letter queue: upload returned": lambda world, _: world.archive(world.upload(), "acquisition"),
    "dead-letter queue: returned twice before": lambda world, state: world.archive(
        world.make(state, dlq_returns=2, attempts=1)
    ),
    "dead-letter queue: no attempts left": lambda world, state: world.archive(world.make(state, attempts=3)),
    "dead-letter queue: running": lambda world, state: world.archive(world.make(state)),
    "dead-letter queue: failed": lambda world, _: joined(world),
    "dead-letter queue: ended": lambda world, state: world.archive(world.make(state)),
    "dead-letter queue: older copy": lambda world, state: world.archive(older(world.make(state, send_number=1))),
    "dead-letter queue: newer than its row": lambda world, state: world.archive(newer(world.make(state))),
    "dead-letter queue: unknown work item": lambda world, _: world.archive(UNKNOWN_MESSAGE),
    "dead-letter queue: unreadable": lambda world, _: world.archive("not JSON"),
    "dead-letter queue: newer schema": lambda world, _: world.archive(NEWER),
    "watchdog: unsent": lambda world, _: unsent(world),
    "watchdog: message lost": resent,
    "new revision": begun,
}


def unprotected(world: World, state: str) -> Transition:
    world.sqs.refuse_visibility = {"it": 2}
    return world.consume(world.make(state))


CASES["unprotected"] = unprotected


@pytest.mark.parametrize(
    ("name", "state"), [(name, state) for name, row in TABLE.items() for state in row.before.split(" or ")]
)
def test_transition_matches_table(world: World, name: str, state: str) -> None:
    assert CASES[name](world, state) == TABLE[name]._replace(before=state)


def test_every_transition_has_a_case() -> None:
    assert set(CASES) == set(TABLE)


def test_table_covers_counted_outcomes_and_claim_answers() -> None:
    called = {row.called for row in TABLE.values()}
    assert set(METRICS_BY_OUTCOME) <= called
    answers = {ClaimStatus.ENDED, ClaimStatus.RUNNING, ClaimStatus.UNKNOWN}
    assert {str(answer) for answer in answers} <= called


STORE = {
    "claim": {"claim", "ended", "older revision", "running", "early", "exhausted", "unknown work item"},
    "succeed": {"success"},
    "skip": {"skip"},
    "schedule_retry": {"transient failure"},
    "park_failed": {"transient failure, third receive"},
    "release_attempt": {"deferral"},
    "park_unclaimed": {"early", "no time to start"},
    "claim_abandoned": {"exhausted", "early, too many deferrals", "dead-letter queue: returned twice before"},
    "fail": {"permanent failure", "transient failure, last attempt", "exhausted"},
    "return_to_queue": {"dead-letter queue: returned"},
}
"""Functions of the store that change a work item's state, with transitions."""


def test_table_covers_every_state_changing_function() -> None:
    source = Path(sql.__file__).read_text()
    updates = re.findall(r'^(_[A-Z_]+) = """(.*?)"""', source, re.DOTALL | re.MULTILINE)
    changing = {
        name for name, sql in updates if re.search(r"UPDATE {table}.*({status}|{claim_token}) =", sql, re.DOTALL)
    }
    functions = re.split(r"^def ", source, flags=re.MULTILINE)[1:]
    public = {
        function.split("(")[0]
        for function in functions
        if any(re.search(rf"sql\({name}\)", function) for name in changing)
    }
    assert public - {"_end"} | {"succeed", "skip"} == set(STORE)
    assert set().union(*STORE.values()) <= set(TABLE)
