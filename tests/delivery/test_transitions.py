"""Every transition in the table in docs/delivery.md, checked on PostgreSQL."""

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
LEASE_LEFT = timedelta(seconds=90)
PROTECTION_SECONDS = 300
LATE_CONTEXT = Context(seconds_left=20)
"""Lambda context with too little time left to start a work item."""


class Transition(NamedTuple):
    """One row of the transition table."""

    before: str
    after: str
    attempts: str
    disposition: str
    written: str
    called: str


def read_table() -> dict[str, Transition]:
    """Return the table's rows, by transition name."""
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
class Scenario:
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

    def make_work_item(self, state: str, **columns: Any) -> Message:
        """Create a work item in the given state of the table."""
        lease = self.clock() + (LEASE_LEFT if state == "in-progress" else -timedelta(seconds=1))
        token = self.admin.execute("SELECT nextval('claim_token')").fetchall()[0][0]
        status = {"skipped": None, "in-progress, lease expired": "in-progress"}.get(state, state)
        values = {"status": status, "claim_token": token}
        if status == "in-progress":
            values |= {"attempts": 1, "lease_expires_at": lease, "claimed_at": lease - LEASE_LEFT}
        return self.pending(**values | columns)

    def snapshot(self) -> Snapshot:
        with self.admin.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self.table}".encode())
            names = [column.name.removeprefix("matching_") for column in cursor.description or ()]
            stored = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        tables = ("dead_letter", "failure_event", "outbox", "dead_letter_audit")
        counts = {name: len(rows(self.admin, name)) for name in tables}
        return Snapshot(
            stored[0] if stored else None, counts | {"effects": sum(row.get("method") is not None for row in stored)}
        )

    def state(self, row: dict[str, Any] | None) -> str:
        if row is None:
            return "none"
        if row["status"] == "in-progress" and row["lease_expires_at"] <= self.clock():
            return "in-progress, lease expired"
        return row["status"] or "skipped"

    def transition(self, message: str, called: str) -> Transition:
        """Return the changes since `before`, in the table's terms."""
        row, counts = self.snapshot()
        row_before, counts_before = self.before
        unchanged = row == row_before and row is not None
        attempts = (row or {}).get("attempts", 0) - (row_before or {}).get("attempts", 0)
        new = {name for name, count in counts.items() if count > counts_before[name]}
        if row is not None and row["status"] == "failed" and "dead_letter" in new:
            assert row["failed_at"] == self.clock()
        labels = {
            "effects": "effects",
            "dead_letter": "dead letter",
            "failure_event": "notification",
            "outbox": "a message",
        }
        written = ", ".join(label for name, label in labels.items() if name in new)
        return Transition(
            self.state(row_before),
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
        **options: Any,
    ) -> Transition:
        """Consume one message and return the transition.

        If `work` runs, only the settlement is included.
        """
        self.before = self.snapshot()

        def snapshot_and_work(attempt: TenantAttempt) -> Any:
            assert work is not None, "must not run"
            self.before = self.snapshot()
            return work(attempt)

        consumer = make_consumer(database or self.database, snapshot_and_work, self.clock, **options)
        self.log.clear()
        response = consumer.handle(event(record(body, receives=receives, handle="it")), context or Context())
        lines = [line for line in self.log.records if line.funcName == "_conclude" and line.levelname == "INFO"]
        (called,) = [line.message for line in lines]
        return self.transition(self.disposition(reported=bool(response["batchItemFailures"])), called)

    def disposition(self, *, reported: bool) -> str:
        if not reported:
            return "acknowledged"
        row = self.snapshot().row
        changes = [seconds for kind, (_, seconds) in self.sqs.log if kind == "visibility"]
        if self.sqs.visibility.get("it") is None:
            return "reported, as received"
        if changes == [PROTECTION_SECONDS]:
            return "reported, as protected"
        now, visible_in = self.clock(), timedelta(seconds=changes[-1])
        dispositions = {
            timedelta(): "reported, visible immediately",
            timedelta(seconds=300): "reported, by receive count",
            _from(now, row, "next_attempt_at"): "reported, until the next attempt",
            _from(now, row, "lease_expires_at", timedelta(seconds=1)): "reported, until the lease expires",
        }
        return dispositions[visible_in]

    def archive(self, body: Message | str, worker: str = "matching") -> Transition:
        """Archive one message from the dead-letter queue and return the transition."""
        self.before = self.snapshot()
        outbox = Outbox(self.maintenance, settings().queue_urls, clock=self.clock)
        archiver = Archiver(self.maintenance, outbox, RedeliverPolicy(), self.clock)
        disposition = "kept"
        with suppress(UnsupportedSchemaError):
            result = archiver.process(worker, SQSRecord(record(body)))
            disposition = "deleted" if result is None else "kept"
            if result is not None:
                assert result.seconds == LEASE_LEFT.total_seconds() + 1
                disposition = "kept, until the lease expires"
        entries = [entry["action"] for entry in rows(self.admin, "dead_letter_audit")]
        return self.transition(disposition, ", ".join(entries[self.before.counts["dead_letter_audit"] :]))

    def run_watchdog(self) -> Transition:
        """Run the watchdog and return the transition."""
        self.before = self.snapshot()
        config = settings()
        outbox = Outbox(self.maintenance, config.queue_urls, clock=self.clock)
        Watchdog(config, self.maintenance, outbox, self.clock).run()
        return self.transition("sent" if self.sqs.sent[QUEUE_URL] else "not sent", "")

    def upload(self) -> str:
        """Return an S3 event for a tenant's file. Later snapshots read the upload's row."""
        self.table = "acquisition_job"
        self.make_tenant("beta")
        s3_object = {"key": "uploads/beta/a.xml", "size": 3, "sequencer": "01"}
        entity = {"bucket": {"name": "uploads"}, "object": s3_object}
        return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": entity}]})


def _from(now: datetime, row: dict[str, Any] | None, column: str, margin: timedelta = timedelta()) -> timedelta | None:
    return row[column] - now + margin if row is not None and row[column] is not None else None


@pytest.fixture
def scenario(
    database: Database,
    database_url: str,
    maintenance_database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Callable[..., Message],
    make_tenant: Callable[..., UUID],
    caplog: pytest.LogCaptureFixture,
) -> Iterator[Scenario]:
    flaky = Flaky(database_url)
    flaky.fail_tenant, flaky.fail_delivery = [], []
    yield Scenario(database, maintenance_database, flaky, admin, sqs, clock, pending, make_tenant, caplog)
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


def claim(scenario: Scenario, body: Message | str, **options: Any) -> Transition:
    """Return the transition that the claim causes, observed during the attempt."""
    transitions: list[Transition] = []

    def work(attempt: TenantAttempt) -> Succeeded:
        transitions.append(
            scenario.transition("hidden", "")
            if scenario.sqs.visibility == {"it": PROTECTION_SECONDS}
            else scenario.transition("visible", "")
        )
        return Succeeded(lambda connection: Effects())

    scenario.before = scenario.snapshot()
    snapshot = scenario.before
    consumer = make_consumer(scenario.database, work, scenario.clock, **options)
    scenario.before = snapshot
    consumer.handle(event(record(body, handle="it")), Context())
    return transitions[0]


def take_over(scenario: Scenario) -> Callable[[TenantAttempt], Succeeded]:
    def work(attempt: TenantAttempt) -> Succeeded:
        scenario.admin.execute("UPDATE document SET matching_claim_token = nextval('claim_token')")
        scenario.before = scenario.snapshot()
        return succeed(attempt)

    return work


def fail_settlement(
    scenario: Scenario, work: Callable[[TenantAttempt], Any], *failures: Exception, committed: bool = False
) -> Callable[..., Transition]:
    """Return a function that consumes a message while settlement transactions fail."""
    scenario.flaky.fail_tenant = [lambda failure=failure: failure for failure in failures]  # type: ignore[misc]
    scenario.flaky.commit_then_fail = committed
    return lambda message: scenario.consume(message, work, database=scenario.flaky)


def older_copy(message: Message) -> Message:
    """Return the message that was sent before the work item was last parked."""
    return message.model_copy(update={"send_number": message.send_number - 1})


def newer_copy(message: Message) -> Message:
    """Return a newer message, as if the transaction that enqueued it had been lost."""
    return message.model_copy(update={"send_number": message.send_number + 1})


def consume_two(scenario: Scenario) -> Transition:
    messages = [scenario.make_work_item("pending") for _ in range(2)]
    return scenario.consume("both", read=lambda body: ParsedMessage(messages))


def archive_twice(scenario: Scenario) -> Transition:
    message = scenario.make_work_item("in-progress, lease expired", attempts=3)
    scenario.archive(message)
    return scenario.archive(message)


def watch_lost_message(scenario: Scenario, state: str) -> Transition:
    message = scenario.make_work_item(state)
    start = scenario.clock()
    with scenario.database.delivery() as connection:
        columns = "worker, work_id, revision, send_number, scheduled_at, created_at, sent_at"
        connection.execute(
            f"INSERT INTO outbox ({columns}) VALUES ('matching', %s, 1, 0, %s, %s, %s)".encode(),
            [message.work_id, start, start, start],
        )
    scenario.clock.advance(hours=1)
    return scenario.run_watchdog()


def watch_unsent_message(scenario: Scenario) -> Transition:
    message = scenario.make_work_item("pending")
    with scenario.database.delivery() as connection:
        start_revision(connection, "matching", [message.work_id], scenario.clock())
    scenario.clock.advance(hours=1)
    return scenario.run_watchdog()


def start_new_revision(scenario: Scenario, state: str) -> Transition:
    message = scenario.make_work_item(
        state, dlq_returns=2, send_number=4, attempts=2, error="S3 is slow", skip_reason="empty"
    )
    scenario.before = scenario.snapshot()
    with scenario.database.delivery() as connection:
        (send,) = start_revision(connection, "matching", [message.work_id], scenario.clock())
    row = scenario.snapshot().row or {}
    assert (row["dlq_returns"], row["send_number"], row["next_attempt_at"], row["error"], row["skip_reason"]) == (
        0,
        0,
        None,
        None,
        None,
    )
    assert send.message == Message(work_id=message.work_id, revision=2, send_number=0)
    return scenario.transition("enqueued", "")


NEWER_SCHEMA = f'{{"schema_version": 2, "work": "{uuid4()}"}}'
UNKNOWN_MESSAGE = Message(work_id=uuid4(), revision=1, send_number=0)
UPLOAD_WORKER = {
    "read": files.read_event,
    "worker": {"name": "acquisition", "timeout": 120, "permits": 2, "start_margin": 30},
}
LOST = CommitUnknownError("lost")
UNAVAILABLE = DatabaseUnavailableError("away")

CASES: dict[str, Callable[[Scenario, str], Transition]] = {
    "claim": lambda scenario, state: claim(scenario, scenario.make_work_item(state)),
    "claim of an upload": lambda scenario, _: claim(scenario, scenario.upload(), **UPLOAD_WORKER),
    "ended": lambda scenario, state: scenario.consume(scenario.make_work_item(state)),
    "older copy": lambda scenario, state: scenario.consume(older_copy(scenario.make_work_item(state, send_number=1))),
    "older revision": lambda scenario, state: scenario.consume(
        scenario.make_work_item(state, revision=2).model_copy(update={"revision": 1})
    ),
    "newer than its row": lambda scenario, state: scenario.consume(newer_copy(scenario.make_work_item(state))),
    "newer than its row, ended": lambda scenario, state: scenario.consume(newer_copy(scenario.make_work_item(state))),
    "running": lambda scenario, state: scenario.consume(scenario.make_work_item(state)),
    "early": lambda scenario, state: scenario.consume(
        scenario.make_work_item(state, next_attempt_at=scenario.clock() + LEASE_LEFT)
    ),
    "exhausted": lambda scenario, state: scenario.consume(scenario.make_work_item(state, attempts=3)),
    "early, too many deferrals": lambda scenario, state: scenario.consume(
        scenario.make_work_item(
            state, next_attempt_at=scenario.clock() + LEASE_LEFT, send_number=MAX_MESSAGES_PER_REVISION
        )
    ),
    "unknown work item": lambda scenario, _: scenario.consume(UNKNOWN_MESSAGE),
    "no time to start": lambda scenario, state: scenario.consume(scenario.make_work_item(state), context=LATE_CONTEXT),
    "no time to start, running": lambda scenario, state: scenario.consume(
        scenario.make_work_item(state), context=LATE_CONTEXT
    ),
    "no time to start, exhausted": lambda scenario, state: scenario.consume(
        scenario.make_work_item(state, attempts=3), context=LATE_CONTEXT
    ),
    "no time to start, too many deferrals": lambda scenario, state: scenario.consume(
        scenario.make_work_item(state, send_number=MAX_MESSAGES_PER_REVISION), context=LATE_CONTEXT
    ),
    "success": lambda scenario, _: scenario.consume(scenario.make_work_item("pending"), succeed),
    "skip": lambda scenario, _: scenario.consume(
        scenario.make_work_item("pending"), lambda attempt: Skipped("no counterparty")
    ),
    "permanent failure": lambda scenario, _: scenario.consume(
        scenario.make_work_item("pending"), fail(InvalidDocumentError("Empty.", code="damaged_pdf"))
    ),
    "transient failure": lambda scenario, _: scenario.consume(scenario.make_work_item("pending"), transient()),
    "unknown error": lambda scenario, _: scenario.consume(
        scenario.make_work_item("pending"), fail(ZeroDivisionError())
    ),
    "canceled at the deadline": lambda scenario, _: scenario.consume(
        scenario.make_work_item("pending"), fail(CancelledError("stopped"))
    ),
    "transient failure, third receive": lambda scenario, _: scenario.consume(
        scenario.make_work_item("pending"), transient(), receives=3
    ),
    "transient failure, last attempt": lambda scenario, _: scenario.consume(
        scenario.make_work_item("pending", attempts=2), transient()
    ),
    "deferral": lambda scenario, _: scenario.consume(
        scenario.make_work_item("pending"), fail(BreakerOpenError("open", until=scenario.clock() + LEASE_LEFT))
    ),
    "deferral, too many deferrals": lambda scenario, _: scenario.consume(
        scenario.make_work_item("pending", send_number=MAX_MESSAGES_PER_REVISION),
        fail(BreakerOpenError("open", until=scenario.clock() + LEASE_LEFT)),
    ),
    "stale": lambda scenario, _: scenario.consume(scenario.make_work_item("pending"), take_over(scenario)),
    "database unavailable": lambda scenario, _: fail_settlement(scenario, succeed, *[UNAVAILABLE] * 9)(
        scenario.make_work_item("pending")
    ),
    "commit unacknowledged, committed": lambda scenario, _: fail_settlement(scenario, succeed, LOST, committed=True)(
        scenario.make_work_item("pending")
    ),
    "commit unacknowledged, rolled back": lambda scenario, _: fail_settlement(scenario, succeed, LOST)(
        scenario.make_work_item("pending")
    ),
    "unreadable message": lambda scenario, _: scenario.consume("not JSON"),
    "newer schema": lambda scenario, _: scenario.consume(NEWER_SCHEMA),
    "several work items in one message": lambda scenario, _: consume_two(scenario),
    "no work item in a message": lambda scenario, _: scenario.consume(
        "a test event", read=lambda body: ParsedMessage([])
    ),
    "dead-letter queue: returned": lambda scenario, state: scenario.archive(scenario.make_work_item(state)),
    "dead-letter queue: returned twice, never attempted": lambda scenario, state: scenario.archive(
        scenario.make_work_item(state, dlq_returns=2)
    ),
    "dead-letter queue: upload returned": lambda scenario, _: scenario.archive(scenario.upload(), "acquisition"),
    "dead-letter queue: returned twice before": lambda scenario, state: scenario.archive(
        scenario.make_work_item(state, dlq_returns=2, attempts=1)
    ),
    "dead-letter queue: no attempts left": lambda scenario, state: scenario.archive(
        scenario.make_work_item(state, attempts=3)
    ),
    "dead-letter queue: running": lambda scenario, state: scenario.archive(scenario.make_work_item(state)),
    "dead-letter queue: failed": lambda scenario, _: archive_twice(scenario),
    "dead-letter queue: ended": lambda scenario, state: scenario.archive(scenario.make_work_item(state)),
    "dead-letter queue: older copy": lambda scenario, state: scenario.archive(
        older_copy(scenario.make_work_item(state, send_number=1))
    ),
    "dead-letter queue: newer than its row": lambda scenario, state: scenario.archive(
        newer_copy(scenario.make_work_item(state))
    ),
    "dead-letter queue: unknown work item": lambda scenario, _: scenario.archive(UNKNOWN_MESSAGE),
    "dead-letter queue: unreadable": lambda scenario, _: scenario.archive("not JSON"),
    "dead-letter queue: newer schema": lambda scenario, _: scenario.archive(NEWER_SCHEMA),
    "watchdog: unsent": lambda scenario, _: watch_unsent_message(scenario),
    "watchdog: message lost": watch_lost_message,
    "new revision": start_new_revision,
}


def consume_unprotected(scenario: Scenario, state: str) -> Transition:
    scenario.sqs.refuse_visibility = {"it": 2}
    return scenario.consume(scenario.make_work_item(state))


CASES["unprotected"] = consume_unprotected


@pytest.mark.parametrize(
    ("name", "state"), [(name, state) for name, row in TABLE.items() for state in row.before.split(" or ")]
)
def test_transition_matches_table(scenario: Scenario, name: str, state: str) -> None:
    assert CASES[name](scenario, state) == TABLE[name]._replace(before=state)


def test_every_transition_has_a_case() -> None:
    assert set(CASES) == set(TABLE)


def test_table_covers_counted_outcomes_and_claim_statuses() -> None:
    called = {row.called for row in TABLE.values()}
    assert set(METRICS_BY_OUTCOME) <= called
    claim_statuses = {ClaimStatus.ENDED, ClaimStatus.RUNNING, ClaimStatus.UNKNOWN}
    assert {str(claim_status) for claim_status in claim_statuses} <= called


TRANSITIONS_BY_FUNCTION = {
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
"""Functions in `sql` that change a work item's state, with their transitions."""


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
    assert public - {"_end"} | {"succeed", "skip"} == set(TRANSITIONS_BY_FUNCTION)
    assert set().union(*TRANSITIONS_BY_FUNCTION.values()) <= set(TABLE)
