"""Each revision's webhook delivery succeeds, is retried or fails as documented."""

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
from tests.functions.output_harness import NAME, OutputHarness, running_receiver
from tests.llm.server import Raw, Request, Server
from tools.demo.webhook_receiver import is_signature_valid

ACKNOWLEDGED: dict[str, list[Any]] = {"batchItemFailures": []}
REFUSALS = [301, 302, 307, 400, 401, 403, 404, 409, 410, 413, 422, 451]


@pytest.fixture
def output(database: Database, admin: Connection, clock: Clock, tenant: UUID, sqs: FakeSqs) -> OutputHarness:
    return OutputHarness(database, admin, clock, tenant)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def seconds_until_retry(job: dict[str, Any], clock: Clock) -> float:
    """Return the seconds until a job's next attempt."""
    return (datetime.fromisoformat(job["next_attempt_at"]) - clock()).total_seconds()


def ids(requests: Sequence[Request]) -> list[str]:
    return [str(json.loads(request.body)["id"]) for request in requests]


# Delivered


def test_delivery_has_signature_and_idempotency_key(output: OutputHarness, server: Server):
    secret = output.webhook(server.url)
    cluster = output.result()
    server.add_steps(Raw(204))
    assert output.run() == ACKNOWLEDGED
    job = output.job()
    assert (job["status"], job["response_status"]) == ("succeeded", 204)
    assert datetime.fromisoformat(job["delivered_at"]) == output.clock()
    (request,) = server.requests
    delivered = json.loads(request.body)
    assert (delivered["event"], delivered["subject_id"], delivered["revision"]) == ("cluster", str(cluster), 1)
    assert (delivered["schema_version"], delivered["data"]["outcome"]) == (1, "matched")
    assert delivered["data"]["documents"][0]["structured_data"] == {"invoice_number": "R-1"}
    assert request.headers["idempotency-key"] == delivered["id"] == f"{job['id']}:1"
    assert request.headers["content-type"] == "application/json"
    assert (request.path, request.headers["host"].partition(":")[0]) == ("/hook?token=t0ken", NAME)
    signature = request.headers["counterfoil-signature"]
    assert is_signature_valid(signature, request.body, [secret], output.clock().timestamp())


def test_sample_receiver_accepts_the_delivery(output: OutputHarness):
    secrets: list[str] = []
    with running_receiver(secrets, output.clock) as receiver:
        secrets.append(output.webhook(f"http://127.0.0.1:{receiver.server_port}"))
        cluster = output.result()
        output.run()
        assert [result["subject_id"] for result in receiver.inbox.results()] == [str(cluster)]
    assert output.job()["response_status"] == 200


def test_receiver_with_another_secret_rejects_the_delivery(output: OutputHarness):
    with running_receiver(["whsec_of_another_receiver"], output.clock) as receiver:
        output.webhook(f"http://127.0.0.1:{receiver.server_port}")
        output.result()
        output.run()
        assert receiver.inbox.results() == []
    assert (output.job()["status"], output.job()["error"]) == ("failed", f"{NAME} answered with HTTP 401")


def test_newer_result_closes_the_dead_letter(output: OutputHarness, server: Server):
    output.webhook(server.url)
    cluster = output.result("incomplete")
    server.add_steps(Raw(401), Raw(204))
    output.run()
    assert [dead_letter["status"] for dead_letter in rows(output.admin, "dead_letter")] == ["pending"]
    output.result("exception", cluster)
    output.run()
    (dead_letter,) = rows(output.admin, "dead_letter")
    assert (output.job()["status"], dead_letter["status"], dead_letter["resolved_by"]) == (
        "succeeded",
        "retried",
        "document_output",
    )


# Failing receivers


@pytest.mark.parametrize("status", REFUSALS)
def test_non_retriable_response_fails_delivery_and_notifies(status: int, output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.result()
    server.add_steps(Raw(status, headers={"Location": f"{server.url}/elsewhere"}))
    assert output.run() == ACKNOWLEDGED
    job = output.job()
    assert (job["status"], job["attempts"], job["error"]) == ("failed", 1, f"{NAME} answered with HTTP {status}")
    (dead_letter,) = rows(output.admin, "dead_letter")
    assert (dead_letter["worker"], dead_letter["dlq_reason"]) == ("document_output", "non_retriable_error")
    assert dead_letter["payload"]["file"] == {
        "destination": "office",
        "subject": "cluster",
        "subject_id": job["subject_id"],
    }
    assert len(rows(output.admin, "failure_event")) == 1
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_retriable_response_delays_delivery_by_five_minutes(status: int, output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.result()
    server.add_steps(Raw(status), Raw(200))
    (retained_id,) = output.run()["batchItemFailures"]
    assert retained_id["itemIdentifier"]
    job = output.job()
    assert (job["status"], job["attempts"], job["error"]) == ("pending", 1, f"{NAME} answered with HTTP {status}")
    assert seconds_until_retry(job, output.clock) == 300
    output.clock.advance(seconds=300)
    assert output.run(receives=2) == ACKNOWLEDGED
    assert (output.job()["status"], output.job()["attempts"]) == ("succeeded", 2)


@pytest.mark.parametrize(("requested", "seconds"), [("1200", 1200), ("60", 300), ("86400", 3600)])
def test_retry_after_delays_next_attempt_within_limits(
    requested: str, seconds: float, output: OutputHarness, server: Server
):
    output.webhook(server.url)
    output.result()
    server.add_steps(Raw(429, headers={"Retry-After": requested}))
    output.run()
    assert 0 <= seconds_until_retry(output.job(), output.clock) - seconds < 1  # up to a second of jitter


def test_delivery_is_retried_after_reset_connection(output: OutputHarness):
    with scripted_server() as receiver:
        receiver.response = None
        output.webhook(f"http://127.0.0.1:{receiver.port}")
        output.result()
        output.run()
    assert (output.job()["status"], seconds_until_retry(output.job(), output.clock)) == ("pending", 300)


@pytest.mark.parametrize("failure", ["silent", "slow_headers"])
def test_delivery_without_response_is_retried(
    failure: Any, output: OutputHarness, server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(egress, "TOTAL_SECONDS", 0.3)
    output.webhook(server.url)
    output.result()
    server.add_steps(Raw(200, b"ok", behavior=failure))
    output.run()
    assert (output.job()["status"], output.job()["error"]) == ("pending", f"{NAME} did not answer within 0.3 seconds")


def test_endless_response_body_does_not_fail_delivery(output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.result()
    server.add_steps(Raw(200, b"x", behavior="slow_body"))
    assert output.run() == ACKNOWLEDGED
    assert output.job()["response_status"] == 200


def test_certificate_for_another_name_is_rejected(
    output: OutputHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write_certificate(tmp_path / "other.pem", "other.example.com")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    http._ssl_context.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with Server(Raw(200), tls=context) as other:
        output.webhook(other.url)
        output.result()
        output.run()
        assert other.requests == []
    http._ssl_context.cache_clear()
    error = f"{NAME} cannot be reached: its certificate is invalid or not trusted"
    assert (output.job()["status"], output.job()["error"]) == ("pending", error)


def test_host_resolving_to_non_public_address_is_rejected(output: OutputHarness, server: Server):
    """The host resolved to a permitted address when the destination was added."""
    output.webhook(server.url)
    output.result()
    output.resolver.answers = ["169.254.169.254"]
    output.dependencies = OutputDependencies(output.dependencies.breakers, egress.Egress((), output.resolver), None)
    output.admin.execute("UPDATE destination SET url = %s", [f"https://{NAME}/hook"])
    output.run()
    assert (output.job()["status"], output.job()["error"]) == (
        "failed",
        f"{NAME} may not be called: it has no public address",
    )
    assert server.requests == []


# Repeated attempts


def test_attempts_send_same_body_and_key(output: OutputHarness, server: Server):
    secret = output.webhook(server.url)
    output.result()
    server.add_steps(Raw(503), Raw(503), Raw(503))
    times = []
    for receives, minutes in ((1, 5), (2, 30), (3, 0)):
        times.append(output.clock().timestamp())
        output.run(receives=receives)
        output.clock.advance(minutes=minutes)
    assert len({request.body for request in server.requests}) == 1
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    for request, time_ in zip(server.requests, times, strict=True):
        assert is_signature_valid(request.headers["counterfoil-signature"], request.body, [secret], time_)
    assert (output.job()["status"], output.job()["attempts"]) == ("failed", 3)
    assert [dead_letter["dlq_reason"] for dead_letter in rows(output.admin, "dead_letter")] == ["max_retries_exceeded"]


def test_delivery_repeated_after_crash_is_stored_once(output: OutputHarness, monkeypatch: pytest.MonkeyPatch):
    secrets: list[str] = []
    responses: list[str] = []
    with running_receiver(secrets, output.clock) as receiver:
        secrets.append(output.webhook(f"http://127.0.0.1:{receiver.server_port}"))
        store = receiver.inbox.store

        def store_and_record(body: bytes) -> bool:
            responses.append(json.loads(body)["id"])
            return store(body)

        monkeypatch.setattr(receiver.inbox, "store", store_and_record)
        output.result()

        def crash(attempt: TenantAttempt) -> Outcome:
            output.deliver(attempt)
            raise SystemExit  # after the receiver stored the delivery

        output.run(work=crash)
        output.clock.advance(minutes=5)
        output.run(receives=2)
        assert len(responses) == 2
        assert len(set(responses)) == 1
        assert len(receiver.inbox.results()) == 1
    assert (output.job()["status"], output.job()["attempts"]) == ("succeeded", 2)


def test_duplicate_messages_cause_one_delivery(output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.result()
    (message,) = output.due_messages()
    server.add_steps(Raw(200))
    output.run(message, message)
    assert len(server.requests) == 1


# Revisions


def test_newer_result_is_delivered_separately(output: OutputHarness, server: Server):
    output.webhook(server.url)
    cluster = output.result("incomplete")
    server.add_steps(Raw(200), Raw(200))
    output.run()
    output.clock.advance(minutes=1)
    output.result("matched", cluster)
    output.run()
    job = output.job()
    assert ids(server.requests) == [f"{job['id']}:1", f"{job['id']}:2"]
    assert [json.loads(request.body)["data"]["outcome"] for request in server.requests] == ["incomplete", "matched"]


def test_result_changed_during_delivery_is_delivered_next(output: OutputHarness, server: Server):
    output.webhook(server.url)
    cluster = output.result("incomplete")
    server.add_steps(Raw(200), Raw(200))

    def supersede(attempt: TenantAttempt) -> Outcome:
        outcome = output.deliver(attempt)
        output.result("matched", cluster)
        return outcome

    output.run(work=supersede)
    assert (output.job()["status"], output.job()["delivered_at"]) == ("pending", None)
    output.run()
    assert (output.job()["status"], output.job()["response_status"]) == ("succeeded", 200)
    assert [id_.rpartition(":")[2] for id_ in ids(server.requests)] == ["1", "2"]


def test_retry_after_failure_has_same_delivery_id(output: OutputHarness, server: Server):
    output.webhook(server.url)
    cluster = output.result()
    server.add_steps(Raw(401), Raw(204), Raw(204))
    output.run()
    assert output.job()["status"] == "failed"
    output.clock.advance(minutes=5)
    start_revision(output.admin, "document_output", [UUID(output.job()["id"])], output.clock())
    output.run()
    assert (output.job()["status"], output.job()["revision"]) == ("succeeded", 2)
    first, second = server.requests
    assert (first.headers["idempotency-key"], first.body) == (second.headers["idempotency-key"], second.body)
    output.result("exception", cluster)
    output.run()
    assert server.requests[2].headers["idempotency-key"] == f"{output.job()['id']}:2"


def test_receiver_ignores_older_revision_received_late(output: OutputHarness, server: Server):
    output.webhook(server.url)
    cluster = output.result("incomplete")
    server.add_steps(Raw(200), Raw(200))
    output.run()
    output.result("matched", cluster)
    output.run()
    bodies = [request.body for request in server.requests]
    with running_receiver([], output.clock) as receiver:
        assert [receiver.inbox.store(body) for body in reversed(bodies)] == [True, True]
        assert [result["data"]["outcome"] for result in receiver.inbox.results()] == ["matched"]


def test_superseded_attempt_delivers_nothing(output: OutputHarness, server: Server):
    output.webhook(server.url)
    cluster = output.result("incomplete")

    def late(attempt: TenantAttempt) -> Outcome:
        output.result("matched", cluster)
        return output.deliver(attempt)

    output.run(work=late)
    assert server.requests == []
    assert (output.job()["status"], output.job()["revision"]) == ("pending", 2)
