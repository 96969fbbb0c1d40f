"""Webhook deliveries of each revision succeed, are retried or fail, as documented."""

import json
import ssl
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from counterfoil import egress, http
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.work import start_revision
from functions.document_output.work import OutputDependencies
from tests.certificates import write_certificate
from tests.delivery.harness import Clock, FakeSqs, rows
from tests.faulty_servers import scripted_server
from tests.functions.output_world import NAME, World, receiving
from tests.llm.server import Raw, Request, Server
from tools.demo.webhook_receiver import is_genuine

ACKNOWLEDGED: dict[str, list[Any]] = {"batchItemFailures": []}
REFUSALS = [301, 302, 307, 400, 401, 403, 404, 409, 410, 413, 422, 451]


@pytest.fixture
def world(database: Database, admin: Connection, clock: Clock, tenant: UUID, sqs: FakeSqs) -> World:
    return World(database, admin, clock, tenant)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def in_seconds(job: dict[str, Any], clock: Clock) -> float:
    """Return the seconds until the next attempt."""
    return (datetime.fromisoformat(job["next_attempt_at"]) - clock()).total_seconds()


def ids(requests: Sequence[Request]) -> list[str]:
    return [str(json.loads(request.body)["id"]) for request in requests]


# Delivered


def test_delivery_has_signature_and_idempotency_key(world: World, server: Server):
    secret = world.webhook(server.url)
    cluster = world.result()
    server.then(Raw(204))
    assert world.run() == ACKNOWLEDGED
    job = world.job()
    assert (job["status"], job["response_status"]) == ("succeeded", 204)
    assert datetime.fromisoformat(job["delivered_at"]) == world.clock()
    (request,) = server.requests
    delivered = json.loads(request.body)
    assert (delivered["event"], delivered["subject_id"], delivered["revision"]) == ("cluster", str(cluster), 1)
    assert (delivered["schema_version"], delivered["data"]["outcome"]) == (1, "matched")
    assert delivered["data"]["documents"][0]["structured_data"] == {"invoice_number": "R-1"}
    assert request.headers["idempotency-key"] == delivered["id"] == f"{job['id']}:1"
    assert request.headers["content-type"] == "application/json"
    assert (request.path, request.headers["host"].partition(":")[0]) == ("/hook?token=t0ken", NAME)
    signature = request.headers["counterfoil-signature"]
    assert is_genuine(signature, request.body, [secret], world.clock().timestamp())


def test_sample_receiver_accepts_the_delivery(world: World):
    secrets: list[str] = []
    with receiving(secrets, world.clock) as receiver:
        secrets.append(world.webhook(f"http://127.0.0.1:{receiver.server_port}"))
        cluster = world.result()
        world.run()
        assert [result["subject_id"] for result in receiver.inbox.results()] == [str(cluster)]
    assert world.job()["response_status"] == 200


def test_receiver_with_another_secret_rejects_the_delivery(world: World):
    with receiving(["whsec_of_somebody_else"], world.clock) as receiver:
        world.webhook(f"http://127.0.0.1:{receiver.server_port}")
        world.result()
        world.run()
        assert receiver.inbox.results() == []
    assert (world.job()["status"], world.job()["error"]) == ("failed", f"{NAME} answered with HTTP 401")


def test_newer_delivery_closes_the_dead_letter(world: World, server: Server):
    world.webhook(server.url)
    cluster = world.result("incomplete")
    server.then(Raw(401), Raw(204))
    world.run()
    assert [letter["status"] for letter in rows(world.admin, "dead_letter")] == ["pending"]
    world.result("exception", cluster)
    world.run()
    (letter,) = rows(world.admin, "dead_letter")
    assert (world.job()["status"], letter["status"], letter["resolved_by"]) == (
        "succeeded",
        "retried",
        "document_output",
    )


# Failing receivers


@pytest.mark.parametrize("status", REFUSALS)
def test_refusal_is_final_and_notifies(status: int, world: World, server: Server):
    world.webhook(server.url)
    world.result()
    server.then(Raw(status, headers={"Location": f"{server.url}/elsewhere"}))
    assert world.run() == ACKNOWLEDGED
    job = world.job()
    assert (job["status"], job["attempts"], job["error"]) == ("failed", 1, f"{NAME} answered with HTTP {status}")
    (letter,) = rows(world.admin, "dead_letter")
    assert (letter["worker"], letter["dlq_reason"]) == ("document_output", "non_retriable_error")
    assert letter["payload"]["file"] == {
        "destination": "office",
        "subject": "cluster",
        "subject_id": job["subject_id"],
    }
    assert len(rows(world.admin, "failure_event")) == 1
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_unavailable_receiver_is_retried_in_five_minutes(status: int, world: World, server: Server):
    world.webhook(server.url)
    world.result()
    server.then(Raw(status), Raw(200))
    (kept,) = world.run()["batchItemFailures"]
    assert kept["itemIdentifier"]
    job = world.job()
    assert (job["status"], job["attempts"], job["error"]) == ("pending", 1, f"{NAME} answered with HTTP {status}")
    assert in_seconds(job, world.clock) == 300
    world.clock.pass_(seconds=300)
    assert world.run(receives=2) == ACKNOWLEDGED
    assert (world.job()["status"], world.job()["attempts"]) == ("succeeded", 2)


@pytest.mark.parametrize(("requested", "seconds"), [("1200", 1200), ("60", 300), ("86400", 3600)])
def test_requested_retry_delay_is_honored_within_limits(requested: str, seconds: float, world: World, server: Server):
    world.webhook(server.url)
    world.result()
    server.then(Raw(429, headers={"Retry-After": requested}))
    world.run()
    assert 0 <= in_seconds(world.job(), world.clock) - seconds < 1  # up to a second of jitter


def test_reset_connection_is_retried(world: World):
    with scripted_server() as receiver:
        receiver.response = None
        world.webhook(f"http://127.0.0.1:{receiver.port}")
        world.result()
        world.run()
    assert (world.job()["status"], in_seconds(world.job(), world.clock)) == ("pending", 300)


@pytest.mark.parametrize("how", ["silent", "slow_headers"])
def test_receiver_without_an_answer_is_retried(how: Any, world: World, server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(egress, "TOTAL_SECONDS", 0.3)
    world.webhook(server.url)
    world.result()
    server.then(Raw(200, b"ok", how=how))
    world.run()
    assert (world.job()["status"], world.job()["error"]) == ("pending", f"{NAME} did not answer within 0.3 seconds")


def test_status_of_an_endless_response_counts(world: World, server: Server):
    world.webhook(server.url)
    world.result()
    server.then(Raw(200, b"x", how="slow_body"))
    assert world.run() == ACKNOWLEDGED
    assert world.job()["response_status"] == 200


def test_certificate_for_another_name_is_rejected(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write_certificate(tmp_path / "other.pem", "other.example.com")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    http._trust.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with Server(Raw(200), tls=context) as other:
        world.webhook(other.url)
        world.result()
        world.run()
        assert other.requests == []
    http._trust.cache_clear()
    assert (world.job()["status"], world.job()["error"]) == ("pending", f"{NAME} did not answer: ConnectError")


def test_host_resolving_to_private_address_is_rejected(world: World, server: Server):
    """The name was valid when the destination was added."""
    world.webhook(server.url)
    world.result()
    world.resolver.answers = ["169.254.169.254"]
    world.dependencies = OutputDependencies(world.dependencies.breakers, egress.Egress((), world.resolver), None)
    world.admin.execute("UPDATE destination SET url = %s", [f"https://{NAME}/hook"])
    world.run()
    assert (world.job()["status"], world.job()["error"]) == (
        "failed",
        f"{NAME} may not be called: it leads to no public address",
    )
    assert server.requests == []


# Repeated attempts


def test_attempts_send_same_body_and_key(world: World, server: Server):
    secret = world.webhook(server.url)
    world.result()
    server.then(Raw(503), Raw(503), Raw(503))
    times = []
    for receives, minutes in ((1, 5), (2, 30), (3, 0)):
        times.append(world.clock().timestamp())
        world.run(receives=receives)
        world.clock.pass_(minutes=minutes)
    assert len({request.body for request in server.requests}) == 1
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    for request, at in zip(server.requests, times, strict=True):
        assert is_genuine(request.headers["counterfoil-signature"], request.body, [secret], at)
    assert (world.job()["status"], world.job()["attempts"]) == ("failed", 3)
    assert [letter["dlq_reason"] for letter in rows(world.admin, "dead_letter")] == ["max_retries_exceeded"]


def test_unsettled_delivery_is_repeated_and_accepted_once(world: World, monkeypatch: pytest.MonkeyPatch):
    secrets: list[str] = []
    answers: list[str] = []
    with receiving(secrets, world.clock) as receiver:
        secrets.append(world.webhook(f"http://127.0.0.1:{receiver.server_port}"))
        take = receiver.inbox.take

        def take_and_record(body: bytes) -> bool:
            answers.append(json.loads(body)["id"])
            return take(body)

        monkeypatch.setattr(receiver.inbox, "take", take_and_record)
        world.result()

        def crash(attempt: TenantAttempt) -> Outcome:
            world.deliver(attempt)
            raise SystemExit  # after the receiver accepted it

        world.run(work=crash)
        world.clock.pass_(minutes=5)
        world.run(receives=2)
        assert len(answers) == 2
        assert len(set(answers)) == 1
        assert len(receiver.inbox.results()) == 1
    assert (world.job()["status"], world.job()["attempts"]) == ("succeeded", 2)


def test_one_of_two_concurrent_messages_delivers(world: World, server: Server):
    world.webhook(server.url)
    world.result()
    (message,) = world.due_messages()
    server.then(Raw(200))
    world.run(message, message)
    assert len(server.requests) == 1


# Revisions


def test_newer_result_is_delivered_separately(world: World, server: Server):
    world.webhook(server.url)
    cluster = world.result("incomplete")
    server.then(Raw(200), Raw(200))
    world.run()
    world.clock.pass_(minutes=1)
    world.result("matched", cluster)
    world.run()
    job = world.job()
    assert ids(server.requests) == [f"{job['id']}:1", f"{job['id']}:2"]
    assert [json.loads(request.body)["data"]["outcome"] for request in server.requests] == ["incomplete", "matched"]


def test_result_changed_during_delivery_is_delivered_too(world: World, server: Server):
    world.webhook(server.url)
    cluster = world.result("incomplete")
    server.then(Raw(200), Raw(200))

    def supersede(attempt: TenantAttempt) -> Outcome:
        outcome = world.deliver(attempt)
        world.result("matched", cluster)
        return outcome

    world.run(work=supersede)
    assert (world.job()["status"], world.job()["delivered_at"]) == ("pending", None)
    world.run()
    assert (world.job()["status"], world.job()["response_status"]) == ("succeeded", 200)
    assert [id_.rpartition(":")[2] for id_ in ids(server.requests)] == ["1", "2"]


def test_resend_after_failure_has_the_same_delivery_id(world: World, server: Server):
    world.webhook(server.url)
    cluster = world.result()
    server.then(Raw(401), Raw(204), Raw(204))
    world.run()
    assert world.job()["status"] == "failed"
    world.clock.pass_(minutes=5)
    start_revision(world.admin, "document_output", [UUID(world.job()["id"])], world.clock())
    world.run()
    assert (world.job()["status"], world.job()["revision"]) == ("succeeded", 2)
    first, second = server.requests
    assert (first.headers["idempotency-key"], first.body) == (second.headers["idempotency-key"], second.body)
    world.result("exception", cluster)
    world.run()
    assert server.requests[2].headers["idempotency-key"] == f"{world.job()['id']}:2"


def test_late_older_revision_changes_nothing_at_the_receiver(world: World, server: Server):
    world.webhook(server.url)
    cluster = world.result("incomplete")
    server.then(Raw(200), Raw(200))
    world.run()
    world.result("matched", cluster)
    world.run()
    bodies = [request.body for request in server.requests]
    with receiving([], world.clock) as receiver:
        assert [receiver.inbox.take(body) for body in reversed(bodies)] == [True, True]
        assert [result["data"]["outcome"] for result in receiver.inbox.results()] == ["matched"]


def test_attempt_with_a_newer_revision_delivers_nothing(world: World, server: Server):
    world.webhook(server.url)
    cluster = world.result("incomplete")

    def late(attempt: TenantAttempt) -> Outcome:
        world.result("matched", cluster)
        return world.deliver(attempt)

    world.run(work=late)
    assert server.requests == []
    assert (world.job()["status"], world.job()["revision"]) == ("pending", 2)
