"""Diagnostics on the real engine: bursts, concurrent changes and removed clusters."""

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


class Documents:
    """Documents of a tenant, with matching and comparison as in the workers."""

    def __init__(self, database: Database, admin: Connection, clock: Clock, tenant_id: UUID) -> None:
        self.database, self.admin, self.clock, self.tenant_id = database, admin, clock, tenant_id
        self._filed = 0

    def file(self, paper: Any, id_: UUID | None = None) -> UUID:
        """Store a document. By default, ids increase, like the ids that PostgreSQL generates."""
        self._filed += 1
        return factories.make_document(
            self.admin,
            self.tenant_id,
            paper.data,
            type=paper.kind,
            received_at=paper.received_at,
            id=UUID(int=self._filed) if id_ is None else id_,
            matching_revision=1,
        )

    def match(self, *ids: UUID) -> list[OutboxMessage]:
        """Match documents. Return the due messages."""
        sends: list[OutboxMessage] = []
        for id_ in ids:
            outcome = match(TenantAttempt(id_, self.tenant_id, 1, 1, 1, self.database, self.clock))
            with self.database.tenant(self.tenant_id) as connection:
                sends += outcome.effects(connection).messages
        return sends

    def request(self, *clusters: UUID) -> list[OutboxMessage]:
        with self.database.tenant(self.tenant_id) as connection:
            return diagnostics.enqueue_diagnostics(connection, self.tenant_id, clusters, self.clock())

    def compute(
        self, sends: Sequence[OutboxMessage], work: Callable[[TenantAttempt], Outcome] = diagnose, receives: int = 1
    ) -> list[str]:
        """Process messages in separate batches. Return the ids of the retained ones."""
        consumer = make_consumer(self.database, work, self.clock, worker=WORKER, queue_urls=QUEUES)
        kept = []
        for send in sends:
            answer = consumer.handle(event(record(send.message, receives=receives)), Context(50))
            kept += [str(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]]
        return kept

    def found(self, cluster: UUID) -> dict[str, Any]:
        """Return the stored result of a cluster."""
        (row,) = [row for row in rows(self.admin, "cluster_diagnostics") if row["id"] == str(cluster)]
        return row

    def codes(self, cluster: UUID) -> list[str]:
        return [variance["code"] for variance in self.found(cluster)["result"]["variances"]]


@pytest.fixture
def desk(database: Database, admin: Connection, clock: Clock, tenant: UUID, sqs: Any) -> Documents:
    return Documents(database, admin, clock, tenant)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[Metric, float]:
    found: dict[Metric, float] = {}

    def add_values(values: dict[Metric, Any], **_: str) -> None:
        for metric, value in values.items():
            if isinstance(value, int | float):
                found[metric] = found.get(metric, 0) + value

    monkeypatch.setattr(metrics, "emit", add_values)
    return found


def case(desk: Documents) -> tuple[UUID, UUID, UUID]:
    """An order, its delivery, and an invoice that bills two too many."""
    return (
        desk.file(order("4711", lines=[line("A1")])),
        desk.file(delivery("L1", po_reference="4711", lines=[line("A1")])),
        desk.file(invoice("R1", po_reference="4711", lines=[line("A1", "12")])),
    )


def test_cluster_without_structured_data_is_skipped(desk: Documents, admin: Connection) -> None:
    id_ = desk.file(order())
    sends = desk.match(id_)
    admin.execute("UPDATE document SET structured_data = NULL WHERE id = %s", [id_])

    assert desk.compute(sends) == []
    assert (desk.found(id_)["status"], desk.found(id_)["result"]) == (None, None)


def test_clusters_changed_by_matching_are_computed(desk: Documents):
    first, second, third = case(desk)
    sends = desk.match(first, second, third)
    desk.clock.pass_(seconds=5)
    assert desk.compute(sends) == []
    row = desk.found(first)
    assert (row["status"], row["match_status"], desk.codes(first)) == (
        "succeeded",
        "exception",
        ["over_billed_quantity", "billed_beyond_order"],
    )
    assert row["skip_reason"] == "Invoice R1 bills 12 pieces of 'Bolt A1'; 10 pieces were delivered, 2 pieces too many."


def test_accepted_variance_closes_the_cluster(desk: Documents):
    ids = case(desk)
    sends = desk.match(*ids)
    desk.clock.pass_(seconds=5)
    desk.compute(sends)
    with desk.database.tenant(desk.tenant_id) as connection:
        decided = differences.say(
            connection,
            desk.tenant_id,
            ids[0],
            differences.VarianceSelector(),
            "accepted",
            desk.clock(),
            DecisionContext("ann", "a gift"),
        )
    assert isinstance(decided, differences.DecisionResult)
    desk.clock.pass_(seconds=5)
    assert desk.compute(decided.sends) == []
    row = desk.found(ids[0])
    assert (row["status"], row["match_status"]) == ("succeeded", "matched")
    assert row["skip_reason"].endswith("2 pieces too many. Accepted by ann on 2026-01-02: a gift.")


def test_computation_waits_for_further_changes(desk: Documents):
    (send,) = desk.request(UUID(int=1))
    assert send.scheduled_at - desk.clock() == diagnostics.DEBOUNCE


def test_burst_for_one_cluster_is_computed_once(desk: Documents):
    computed = []

    def work(attempt: TenantAttempt) -> Outcome:
        computed.append(attempt.work_id)
        return diagnose(attempt)

    first, *others = case(desk)
    sends = desk.match(first)
    for number in range(5):
        later = desk.file(delivery(f"N{number}", po_reference="4711", lines=[line("A1", "0")]))
        sends += desk.match(*others, later)
    ours = [send for send in sends if send.message.work_id == first]
    assert len(ours) == 1
    desk.clock.pass_(seconds=5)
    assert desk.compute(ours, work) == []
    assert (computed, len(desk.found(first)["result"]["lines"][0]["parts"])) == ([first], 8)


def test_cluster_changed_during_computation_is_computed_again(desk: Documents, counted: dict[Metric, float]):
    first, second, third = case(desk)
    sends = desk.match(first, second)
    desk.clock.pass_(seconds=5)
    later: list[OutboxMessage] = []

    def slow(attempt: TenantAttempt) -> Outcome:
        outcome = diagnose(attempt)
        later.extend(desk.match(third))
        return outcome

    assert len(desk.compute(sends[:1], slow)) == 1  # reported: the newer revision has another message
    row = desk.found(first)
    assert (row["status"], row["revision"], row["match_status"], row["result"]) == ("pending", 2, None, None)
    assert counted == {Metric.STALE_CLAIMS: 1}
    desk.clock.pass_(seconds=5)
    assert desk.compute([*sends[:1], *later], receives=2) == []
    assert (counted[Metric.SUPERSEDED], counted[Metric.SUCCEEDED], desk.found(first)["match_status"]) == (
        1,
        1,
        "exception",
    )


def test_new_request_resets_a_failed_attempt(desk: Documents):
    first, *_ = case(desk)
    sends = desk.match(first)

    def broken(attempt: TenantAttempt) -> Outcome:
        raise RuntimeError

    desk.compute(sends, broken)
    assert desk.found(first)["attempts"] == 1
    (again,) = desk.request(first)
    assert (again.message.revision, desk.found(first)["attempts"], desk.found(first)["error"]) == (2, 0, None)


def test_repeated_request_locks_the_row_until_commit(desk: Documents, admin_database_url: str):
    desk.request(UUID(int=1))
    with desk.database.tenant(desk.tenant_id) as connection:
        assert diagnostics.enqueue_diagnostics(connection, desk.tenant_id, [UUID(int=1)], desk.clock()) == []
        with (
            psycopg.connect(admin_database_url) as other,
            pytest.raises(psycopg.errors.LockNotAvailable),
        ):
            other.execute("SELECT FROM cluster_diagnostics FOR NO KEY UPDATE NOWAIT")


def test_removed_cluster_loses_result_and_notifies_receivers(desk: Documents):
    factories.make_destination(desk.admin, desk.tenant_id)
    second = desk.file(invoice("R1", po_reference="4711", lines=[line("A1")]))
    third = desk.file(delivery("L1", po_reference="4711", lines=[line("A1")]))
    desk.compute(desk.match(second))
    assert desk.found(second)["match_status"] == "incomplete"
    (job,) = rows(desk.admin, "output_job")
    assert (job["subject_id"], job["payload"]["outcome"]) == (str(second), "incomplete")
    desk.file(order("4711", lines=[line("A1")]), UUID(int=0))  # the smallest id names the cluster
    sends = desk.match(third, UUID(int=0))
    assert desk.compute(sends) == []
    gone = desk.found(second)
    assert (gone["status"], gone["match_status"], gone["result"], gone["revision"]) == (None, None, None, 2)
    assert desk.found(UUID(int=0))["match_status"] == "matched"
    payloads = {job["subject_id"]: job["payload"] for job in rows(desk.admin, "output_job")}
    assert (payloads[str(second)], payloads[str(UUID(int=0))]["outcome"]) == (None, "matched")


def test_recreated_cluster_continues_its_revision(desk: Documents):
    first, *_ = case(desk)
    desk.compute(desk.match(first))
    desk.admin.execute("UPDATE document SET cluster_id = NULL")
    desk.compute(desk.request(first))
    (send,) = desk.match(first)
    assert send.message.revision == 3
    assert desk.compute([send]) == []
    assert desk.found(first)["match_status"] == "incomplete"


def test_equal_result_is_delivered_once(desk: Documents):
    factories.make_destination(desk.admin, desk.tenant_id)
    ids = case(desk)
    desk.compute(desk.match(*ids))
    desk.compute(desk.request(ids[0]))
    (job,) = rows(desk.admin, "output_job")
    assert (job["revision"], desk.found(ids[0])["revision"]) == (1, 2)


def test_tenants_tolerances_apply(desk: Documents):
    ids = case(desk)
    desk.admin.execute(
        "INSERT INTO tolerance (tenant_id, variance_type, article, upper_absolute) "
        "VALUES (%s, 'billed_quantity', 'A-1', 2)",
        [desk.tenant_id],
    )
    desk.compute(desk.match(*ids))
    row = desk.found(ids[0])
    assert (row["match_status"], row["result"]["variances"][0]["tolerance"]["upper_absolute"]) == (
        "within-tolerance",
        "2",
    )


def test_tolerances_of_another_tenant_do_not_apply(desk: Documents, make_tenant: Callable[..., UUID]):
    ids = case(desk)
    desk.admin.execute(
        "INSERT INTO tolerance (tenant_id, variance_type) VALUES (%s, 'billed_quantity')", [make_tenant("other")]
    )
    desk.compute(desk.match(*ids))
    assert desk.found(ids[0])["match_status"] == "exception"


def test_contracts_are_not_compared_but_shown_with_clusters(desk: Documents):
    frame = desk.file(contract("C1", lines=[line("A1")]))
    rent = desk.file(invoice("R1", contract_reference="C1", lines=[line("A1")]))
    desk.compute(desk.match(frame, rent))
    assert [row["id"] for row in rows(desk.admin, "cluster_diagnostics")] == [str(rent)]
    assert desk.found(rent)["match_status"] == "matched"


def test_matching_requests_left_and_joined_clusters(desk: Documents):
    first = desk.file(order("4711", lines=[line("A1")]))
    second = desk.file(invoice("R1", po_reference="4711", lines=[line("A1")]))
    desk.match(first, second)
    desk.admin.execute("UPDATE cluster_diagnostics SET status = 'succeeded'")
    other = json.dumps(invoice("R1", seller=OTHER_SELLER, lines=[line("Z9", "1")]).data)
    desk.admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [other, second])
    requested = {send.message.work_id for send in desk.match(second)}
    assert requested == {first, second}


@pytest.mark.parametrize("threads", [1, 3])
def test_concurrent_requests_of_same_clusters_do_not_deadlock(desk: Documents, threads: int):
    clusters = [UUID(int=number) for number in range(1, 40)]
    orders = [clusters, clusters[::-1], clusters[10:] + clusters[:10]]
    with ThreadPoolExecutor(threads) as pool:
        sends = [send for found in pool.map(lambda ids: desk.request(*ids), orders) for send in found]
    assert sorted(send.message.work_id for send in sends) == clusters


def test_dead_letter_names_the_failed_cluster(desk: Documents):
    first, *_ = case(desk)
    sends = desk.match(first)
    desk.admin.execute("UPDATE cluster_diagnostics SET attempts = 2")

    def broken(attempt: TenantAttempt) -> Outcome:
        raise RuntimeError

    desk.compute(sends, broken)
    (letter,) = rows(desk.admin, "dead_letter")
    assert (letter["worker"], letter["payload"]["file"]) == ("diagnostics", {"cluster": str(first)})


def test_recomputed_cluster_closes_its_dead_letter(desk: Documents):
    first, *_ = case(desk)
    sends = desk.match(first)

    def broken(attempt: TenantAttempt) -> Outcome:
        message = "It is damaged."
        raise InvalidDocumentError(message, code="damaged_pdf")

    desk.compute(sends, broken)
    assert desk.found(first)["status"] == "failed"
    desk.clock.pass_(seconds=10)
    desk.compute(desk.request(first))
    (letter,) = rows(desk.admin, "dead_letter")
    assert (desk.found(first)["status"], letter["status"]) == ("succeeded", "retried")
    assert (letter["resolved_by"], letter["resolution"]["notes"]) == ("diagnostics", diagnostics.CHANGED)
    assert [entry["action"] for entry in rows(desk.admin, "dead_letter_audit")].count("retried") == 1
