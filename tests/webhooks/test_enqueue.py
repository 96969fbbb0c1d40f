"""A delivery is enqueued once for each destination and state of a subject."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import OutboxMessage
from counterfoil.documents.clusters import cluster_data
from counterfoil.webhooks.destinations import enqueue, job_id
from tests.delivery.harness import Clock, rows
from tests.factories import make_destination

CLUSTER_PAYLOAD = {"outcome": "matched", "reasons": ["All fits."]}


class OutputScenario:
    """A tenant with a cluster of two documents."""

    def __init__(self, database: Database, admin: Connection, make_tenant: Any, make_document: Any) -> None:
        self.database, self.admin = database, admin
        self.clock = Clock()
        self.tenant_id: UUID = make_tenant("acme")
        self.first, self.second = sorted(
            make_document(self.tenant_id, {"invoice_number": name, "total_gross": "1.10"}, type="invoice")
            for name in ("R-1", "R-2")
        )
        self.cluster = self.first
        admin.execute("UPDATE document SET cluster_id = %s", [self.cluster])

    def request(
        self, payload: Any = CLUSTER_PAYLOAD, subject: Any = "cluster", subject_id: UUID | None = None
    ) -> list[OutboxMessage]:
        self.clock.advance(seconds=1)
        with self.database.tenant(self.tenant_id) as connection:
            id_ = subject_id or self.cluster

            def data() -> str | None:
                if subject == "cluster" and payload is not None:
                    return cluster_data(connection, self.tenant_id, id_, payload)
                return None if payload is None else json.dumps(payload)

            return enqueue(connection, self.tenant_id, subject, id_, data, self.clock())

    def jobs(self) -> list[dict[str, Any]]:
        return rows(self.admin, "output_job")


@pytest.fixture
def scenario(
    database: Database, admin: Connection, make_tenant: Callable[..., UUID], make_document: Callable[..., UUID]
) -> OutputScenario:
    return OutputScenario(database, admin, make_tenant, make_document)


def test_only_active_subscribed_destinations_get_a_delivery(scenario: OutputScenario, make_tenant: Callable[..., UUID]):
    subscribed = {make_destination(scenario.admin, scenario.tenant_id, f"to-{n}") for n in range(2)}
    make_destination(scenario.admin, scenario.tenant_id, "documents", events=["document"])
    make_destination(scenario.admin, scenario.tenant_id, "gone", disabled_at=scenario.clock())
    make_destination(scenario.admin, make_tenant("other"), "theirs")
    messages = scenario.request()
    assert {UUID(job["destination_id"]) for job in scenario.jobs()} == subscribed
    assert {send.message.work_id for send in messages} == {
        job_id(destination, "cluster", scenario.cluster) for destination in subscribed
    }
    assert {(job["status"], job["revision"], job["schema_version"]) for job in scenario.jobs()} == {("pending", 1, 1)}
    assert [row["worker"] for row in rows(scenario.admin, "outbox")] == ["document_output"] * 2


def test_no_subscribed_destination_means_no_delivery(scenario: OutputScenario):
    assert scenario.request() == []
    assert scenario.jobs() == []


def test_changed_state_starts_new_revision(scenario: OutputScenario):
    make_destination(scenario.admin, scenario.tenant_id)
    (first,) = scenario.request()
    assert scenario.request() == []
    scenario.admin.execute("UPDATE output_job SET status = 'succeeded', delivered_at = now(), response_status = 200")
    (second,) = scenario.request(CLUSTER_PAYLOAD | {"outcome": "exception"})
    (job,) = scenario.jobs()
    assert (first.message.work_id, first.message.revision) == (second.message.work_id, 1)
    assert (second.message.revision, job["revision"], job["status"]) == (2, 2, "pending")
    assert (job["delivered_at"], job["response_status"], job["payload"]["outcome"]) == (None, None, "exception")
    assert job["requested_at"] > job["created_at"]


def test_cluster_payload_has_documents_and_matches(scenario: OutputScenario):
    make_destination(scenario.admin, scenario.tenant_id)
    scenario.admin.execute(
        """INSERT INTO document_match (tenant_id, document_a_id, document_b_id, score, confidence, evidence, decided_by,
                                       reasoning, decided_at)
           VALUES (%s, %s, %s, 1, 'high', '{}', 'rules', '', now())""",
        [scenario.tenant_id, scenario.first, scenario.second],
    )
    scenario.request()
    payload = scenario.jobs()[0]["payload"]
    assert (payload["outcome"], payload["reasons"]) == ("matched", ["All fits."])
    assert [document["id"] for document in payload["documents"]] == [str(scenario.first), str(scenario.second)]
    assert payload["documents"][0]["received_at"] == "2026-01-02T03:04:05.000000Z"
    assert {document["structured_data"]["total_gross"] for document in payload["documents"]} == {"1.10"}
    assert payload["matches"] == [
        {
            "document_a_id": str(scenario.first),
            "document_b_id": str(scenario.second),
            "confidence": "high",
            "decided_by": "rules",
        }
    ]


def test_document_joining_cluster_starts_new_revision(scenario: OutputScenario, make_document: Callable[..., UUID]):
    make_destination(scenario.admin, scenario.tenant_id)
    scenario.request()
    joining_document = make_document(scenario.tenant_id, {}, cluster_id=scenario.cluster)
    assert [send.message.revision for send in scenario.request()] == [2]
    assert str(joining_document) in {document["id"] for document in scenario.jobs()[0]["payload"]["documents"]}


def test_session_time_zone_does_not_change_the_payload(scenario: OutputScenario, database_url: str):
    make_destination(scenario.admin, scenario.tenant_id)
    scenario.request()
    database_in_kathmandu = Database(
        f"{database_url}{'&' if '?' in database_url else '?'}options=-ctimezone%3DAsia/Kathmandu"
    )
    scenario.database = database_in_kathmandu
    assert scenario.request() == []
    database_in_kathmandu.close()


def test_cluster_deletion_goes_only_to_previous_recipients(scenario: OutputScenario):
    make_destination(scenario.admin, scenario.tenant_id, "knew")
    scenario.request()
    make_destination(scenario.admin, scenario.tenant_id, "new")
    scenario.admin.execute("UPDATE document SET cluster_id = NULL")
    (send,) = scenario.request()
    (job,) = scenario.jobs()
    assert (send.message.revision, job["payload"]) == (2, None)
    assert scenario.request(None) == []


def test_document_state_is_sent_unchanged(scenario: OutputScenario):
    make_destination(scenario.admin, scenario.tenant_id)
    state = {"id": str(scenario.first), "status": "matched"}
    assert len(scenario.request(state, "document", scenario.first)) == 1
    assert scenario.jobs()[0]["payload"] == state


def test_rolled_back_request_enqueues_nothing(scenario: OutputScenario):
    make_destination(scenario.admin, scenario.tenant_id)

    def fail_after_enqueue() -> None:
        with scenario.database.tenant(scenario.tenant_id) as connection:
            data = partial(cluster_data, connection, scenario.tenant_id, scenario.cluster, CLUSTER_PAYLOAD)
            assert enqueue(connection, scenario.tenant_id, "cluster", scenario.cluster, data, scenario.clock())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_enqueue()
    assert (scenario.jobs(), rows(scenario.admin, "outbox")) == ([], [])


def test_job_id_is_deterministic_per_destination_and_subject():
    destination, subject = uuid4(), uuid4()
    ids = {
        job_id(destination, "cluster", subject),
        job_id(destination, "document", subject),
        job_id(uuid4(), "cluster", subject),
        job_id(destination, "cluster", uuid4()),
    }
    assert len(ids) == 4
    assert job_id(UUID(int=1), "cluster", UUID(int=2)) == UUID("7a091eb1-354d-57e7-897f-f9e9d482265d")
