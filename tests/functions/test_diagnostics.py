"""Diagnostics on the real engine: bursts, concurrent changes, removed clusters."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest

from counterfoil import metrics
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.work import OutboxMessage
from counterfoil.documents import diagnostics, differences
from counterfoil.documents.review import DecisionContext
from counterfoil.errors import InvalidDocumentError
from counterfoil.metrics import Metric
from functions.diagnostics.work import diagnose
from functions.matching.work import match
from tests import factories
from tests.delivery.harness import Clock, Context, event, make_consumer, record, rows
from tests.documents.matching.samples import OTHER_SELLER, contract, delivery, invoice, line, order

WORKER = {"name": "diagnostics", "timeout": 60, "permits": 2, "start_margin": 20}
QUEUES = {"diagnostics": "diagnostics", "document_output": "output"}


class DiagnosticsHarness:
    """Helpers that match and compare a tenant's documents as the workers do."""

    def __init__(self, database: Database, admin: Connection, clock: Clock, tenant_id: UUID) -> None:
        self.database, self.admin, self.clock, self.tenant_id = database, admin, clock, tenant_id
        self._document_count = 0

    def file(self, sample: Any, id_: UUID | None = None) -> UUID:
        """Store a document. Ids increase by default, as uuidv7() ids do."""
        self._document_count += 1
        return factories.make_document(
            self.admin,
            self.tenant_id,
            sample.data,
            type=sample.kind,
            received_at=sample.received_at,
            id=UUID(int=self._document_count) if id_ is None else id_,
            matching_revision=1,
        )

    def match(self, *ids: UUID) -> list[OutboxMessage]:
        """Match documents. Return the enqueued messages."""
        messages: list[OutboxMessage] = []
        for id_ in ids:
            outcome = match(TenantAttempt(id_, self.tenant_id, 1, 1, 1, self.database, self.clock))
            with self.database.tenant(self.tenant_id) as connection:
                messages += outcome.effects(connection).messages
        return messages

    def request(self, *clusters: UUID) -> list[OutboxMessage]:
        with self.database.tenant(self.tenant_id) as connection:
            return diagnostics.enqueue_diagnostics(connection, self.tenant_id, clusters, self.clock())

    def compute(
        self, messages: Sequence[OutboxMessage], work: Callable[[TenantAttempt], Outcome] = diagnose, receives: int = 1
    ) -> list[str]:
        """Process messages in separate batches. Return the ids of retained messages."""
        consumer = make_consumer(self.database, work, self.clock, worker=WORKER, queue_urls=QUEUES)
        retained = []
        for message in messages:
            response = consumer.handle(event(record(message.message, receives=receives)), Context(50))
            retained += [str(failure["itemIdentifier"]) for failure in response["batchItemFailures"]]
        return retained

    def stored_result(self, cluster: UUID) -> dict[str, Any]:
        """Return a cluster's stored result."""
        (row,) = [row for row in rows(self.admin, "cluster_diagnostics") if row["id"] == str(cluster)]
        return row

    def codes(self, cluster: UUID) -> list[str]:
        return [variance["code"] for variance in self.stored_result(cluster)["result"]["variances"]]


@pytest.fixture
def harness(database: Database, admin: Connection, clock: Clock, tenant: UUID, sqs: Any) -> DiagnosticsHarness:
    return DiagnosticsHarness(database, admin, clock, tenant)


@pytest.fixture
def metric_totals(monkeypatch: pytest.MonkeyPatch) -> dict[Metric, float]:
    totals: dict[Metric, float] = {}

    def add_values(values: dict[Metric, Any], **_: str) -> None:
        for metric, value in values.items():
            if isinstance(value, int | float):
                totals[metric] = totals.get(metric, 0) + value

    monkeypatch.setattr(metrics, "emit", add_values)
    return totals


def make_cluster(harness: DiagnosticsHarness) -> tuple[UUID, UUID, UUID]:
    """Store an order, its delivery note, and an invoice for two pieces too many."""
    return (
        harness.file(order("4711", lines=[line("A1")])),
        harness.file(delivery("L1", po_reference="4711", lines=[line("A1")])),
        harness.file(invoice("R1", po_reference="4711", lines=[line("A1", "12")])),
    )


def test_cluster_without_structured_data_is_skipped(harness: DiagnosticsHarness, admin: Connection) -> None:
    id_ = harness.file(order())
    messages = harness.match(id_)
    admin.execute("UPDATE document SET structured_data = NULL WHERE id = %s", [id_])

    assert harness.compute(messages) == []
    assert (harness.stored_result(id_)["status"], harness.stored_result(id_)["result"]) == (None, None)


def test_clusters_changed_by_matching_are_computed(harness: DiagnosticsHarness):
    first, second, third = make_cluster(harness)
    messages = harness.match(first, second, third)
    harness.clock.advance(seconds=5)
    assert harness.compute(messages) == []
    row = harness.stored_result(first)
    assert (row["status"], row["match_status"], harness.codes(first)) == (
        "succeeded",
        "exception",
        ["over_billed_quantity", "billed_beyond_order"],
    )
    assert (
        row["skip_reason"]
        == "Invoice R1 bills 12 pieces of “Bolt A1”, but only 10 pieces were delivered (2 pieces too many)."
    )


def test_cluster_with_accepted_variances_is_matched(harness: DiagnosticsHarness):
    ids = make_cluster(harness)
    messages = harness.match(*ids)
    harness.clock.advance(seconds=5)
    harness.compute(messages)
    with harness.database.tenant(harness.tenant_id) as connection:
        decided = differences.decide(
            connection,
            harness.tenant_id,
            ids[0],
            differences.VarianceSelector(),
            "accepted",
            harness.clock(),
            DecisionContext("ann", "a gift"),
        )
    assert isinstance(decided, differences.DecisionResult)
    harness.clock.advance(seconds=5)
    assert harness.compute(decided.messages) == []
    row = harness.stored_result(ids[0])
    assert (row["status"], row["match_status"]) == ("succeeded", "matched")
    assert row["skip_reason"].endswith("(2 pieces too many). Accepted by ann on 2026-01-02: a gift.")


def test_computation_waits_for_further_changes(harness: DiagnosticsHarness):
    (outbox_message,) = harness.request(UUID(int=1))
    assert outbox_message.scheduled_at - harness.clock() == diagnostics.DEBOUNCE


def test_burst_for_one_cluster_is_computed_once(harness: DiagnosticsHarness):
    computed = []

    def work(attempt: TenantAttempt) -> Outcome:
        computed.append(attempt.work_id)
        return diagnose(attempt)

    first, *other_ids = make_cluster(harness)
    messages = harness.match(first)
    for number in range(5):
        later_id = harness.file(delivery(f"N{number}", po_reference="4711", lines=[line("A1", "0")]))
        messages += harness.match(*other_ids, later_id)
    own = [outbox_message for outbox_message in messages if outbox_message.message.work_id == first]
    assert len(own) == 1
    harness.clock.advance(seconds=5)
    assert harness.compute(own, work) == []
    assert (computed, len(harness.stored_result(first)["result"]["lines"][0]["parts"])) == ([first], 8)


def test_cluster_changed_during_computation_is_computed_again(
    harness: DiagnosticsHarness, metric_totals: dict[Metric, float]
):
    first, second, third = make_cluster(harness)
    messages = harness.match(first, second)
    harness.clock.advance(seconds=5)
    later_messages: list[OutboxMessage] = []

    def work_slowly(attempt: TenantAttempt) -> Outcome:
        outcome = diagnose(attempt)
        later_messages.extend(harness.match(third))
        return outcome

    assert (
        len(harness.compute(messages[:1], work_slowly)) == 1
    )  # reported to SQS, although the newer revision has its own message
    row = harness.stored_result(first)
    assert (row["status"], row["revision"], row["match_status"], row["result"]) == ("pending", 2, None, None)
    assert metric_totals == {Metric.STALE_CLAIMS: 1}
    harness.clock.advance(seconds=5)
    assert harness.compute([*messages[:1], *later_messages], receives=2) == []
    assert (
        metric_totals[Metric.SUPERSEDED],
        metric_totals[Metric.SUCCEEDED],
        harness.stored_result(first)["match_status"],
    ) == (
        1,
        1,
        "exception",
    )


def test_new_request_clears_attempts_and_error(harness: DiagnosticsHarness):
    first, *_ = make_cluster(harness)
    messages = harness.match(first)

    def fail(attempt: TenantAttempt) -> Outcome:
        raise RuntimeError

    harness.compute(messages, fail)
    assert harness.stored_result(first)["attempts"] == 1
    (repeated,) = harness.request(first)
    assert (
        repeated.message.revision,
        harness.stored_result(first)["attempts"],
        harness.stored_result(first)["error"],
    ) == (2, 0, None)


def test_repeated_request_locks_row_until_commit(harness: DiagnosticsHarness, admin_database_url: str):
    harness.request(UUID(int=1))
    with harness.database.tenant(harness.tenant_id) as connection:
        assert diagnostics.enqueue_diagnostics(connection, harness.tenant_id, [UUID(int=1)], harness.clock()) == []
        with (
            psycopg.connect(admin_database_url) as other,
            pytest.raises(psycopg.errors.LockNotAvailable),
        ):
            other.execute("SELECT FROM cluster_diagnostics FOR NO KEY UPDATE NOWAIT")


def test_removed_cluster_loses_result_and_notifies_receivers(harness: DiagnosticsHarness):
    factories.make_destination(harness.admin, harness.tenant_id)
    second = harness.file(invoice("R1", po_reference="4711", lines=[line("A1")]))
    third = harness.file(delivery("L1", po_reference="4711", lines=[line("A1")]))
    harness.compute(harness.match(second))
    assert harness.stored_result(second)["match_status"] == "incomplete"
    (job,) = rows(harness.admin, "output_job")
    assert (job["subject_id"], job["payload"]["outcome"]) == (str(second), "incomplete")
    harness.file(order("4711", lines=[line("A1")]), UUID(int=0))  # the smallest id becomes the cluster's id
    messages = harness.match(third, UUID(int=0))
    assert harness.compute(messages) == []
    removed = harness.stored_result(second)
    assert (removed["status"], removed["match_status"], removed["result"], removed["revision"]) == (None, None, None, 2)
    assert harness.stored_result(UUID(int=0))["match_status"] == "matched"
    payloads = {job["subject_id"]: job["payload"] for job in rows(harness.admin, "output_job")}
    assert (payloads[str(second)], payloads[str(UUID(int=0))]["outcome"]) == (None, "matched")


def test_recreated_cluster_continues_revision_numbers(harness: DiagnosticsHarness):
    first, *_ = make_cluster(harness)
    harness.compute(harness.match(first))
    harness.admin.execute("UPDATE document SET cluster_id = NULL")
    harness.compute(harness.request(first))
    (outbox_message,) = harness.match(first)
    assert outbox_message.message.revision == 3
    assert harness.compute([outbox_message]) == []
    assert harness.stored_result(first)["match_status"] == "incomplete"


def test_unchanged_result_is_not_delivered_again(harness: DiagnosticsHarness):
    factories.make_destination(harness.admin, harness.tenant_id)
    ids = make_cluster(harness)
    harness.compute(harness.match(*ids))
    harness.compute(harness.request(ids[0]))
    (job,) = rows(harness.admin, "output_job")
    assert (job["revision"], harness.stored_result(ids[0])["revision"]) == (1, 2)


def test_tolerances_of_tenant_apply(harness: DiagnosticsHarness):
    ids = make_cluster(harness)
    harness.admin.execute(
        "INSERT INTO tolerance (tenant_id, variance_type, article, upper_absolute) "
        "VALUES (%s, 'billed_quantity', 'A-1', 2)",
        [harness.tenant_id],
    )
    harness.compute(harness.match(*ids))
    row = harness.stored_result(ids[0])
    assert (row["match_status"], row["result"]["variances"][0]["tolerance"]["upper_absolute"]) == (
        "within-tolerance",
        "2",
    )


def test_other_tenants_tolerances_do_not_apply(harness: DiagnosticsHarness, make_tenant: Callable[..., UUID]):
    ids = make_cluster(harness)
    harness.admin.execute(
        "INSERT INTO tolerance (tenant_id, variance_type) VALUES (%s, 'billed_quantity')", [make_tenant("other")]
    )
    harness.compute(harness.match(*ids))
    assert harness.stored_result(ids[0])["match_status"] == "exception"


def test_contract_is_not_compared(harness: DiagnosticsHarness):
    frame = harness.file(contract("C1", lines=[line("A1")]))
    rent = harness.file(invoice("R1", contract_reference="C1", lines=[line("A1")]))
    harness.compute(harness.match(frame, rent))
    assert [row["id"] for row in rows(harness.admin, "cluster_diagnostics")] == [str(rent)]
    assert harness.stored_result(rent)["match_status"] == "matched"


def test_document_changing_cluster_recomputes_both_clusters(harness: DiagnosticsHarness):
    first = harness.file(order("4711", lines=[line("A1")]))
    second = harness.file(invoice("R1", po_reference="4711", lines=[line("A1")]))
    harness.match(first, second)
    harness.admin.execute("UPDATE cluster_diagnostics SET status = 'succeeded'")
    other = json.dumps(invoice("R1", seller=OTHER_SELLER, lines=[line("Z9", "1")]).data)
    harness.admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [other, second])
    requested = {outbox_message.message.work_id for outbox_message in harness.match(second)}
    assert requested == {first, second}


@pytest.mark.parametrize("threads", [1, 3])
def test_concurrent_requests_of_same_clusters_do_not_deadlock(harness: DiagnosticsHarness, threads: int):
    clusters = [UUID(int=number) for number in range(1, 40)]
    orders = [clusters, clusters[::-1], clusters[10:] + clusters[:10]]
    with ThreadPoolExecutor(threads) as pool:
        messages = [
            outbox_message for batch in pool.map(lambda ids: harness.request(*ids), orders) for outbox_message in batch
        ]
    assert sorted(outbox_message.message.work_id for outbox_message in messages) == clusters


def test_dead_letter_names_the_failed_cluster(harness: DiagnosticsHarness):
    first, *_ = make_cluster(harness)
    messages = harness.match(first)
    harness.admin.execute("UPDATE cluster_diagnostics SET attempts = 2")

    def fail(attempt: TenantAttempt) -> Outcome:
        raise RuntimeError

    harness.compute(messages, fail)
    (dead_letter,) = rows(harness.admin, "dead_letter")
    assert (dead_letter["worker"], dead_letter["payload"]["file"]) == ("diagnostics", {"cluster": str(first)})


def test_recomputed_cluster_closes_its_dead_letter(harness: DiagnosticsHarness):
    first, *_ = make_cluster(harness)
    messages = harness.match(first)

    def fail(attempt: TenantAttempt) -> Outcome:
        message = "It is damaged."
        raise InvalidDocumentError(message, code="damaged_pdf")

    harness.compute(messages, fail)
    assert harness.stored_result(first)["status"] == "failed"
    harness.clock.advance(seconds=10)
    harness.compute(harness.request(first))
    (dead_letter,) = rows(harness.admin, "dead_letter")
    assert (harness.stored_result(first)["status"], dead_letter["status"]) == ("succeeded", "retried")
    assert (dead_letter["resolved_by"], dead_letter["resolution"]["notes"]) == ("diagnostics", diagnostics.CHANGED_NOTE)
    assert [entry["action"] for entry in rows(harness.admin, "dead_letter_audit")].count("retried") == 1
