"""Delivery to destinations that fail, are removed, rotate secrets or lose them."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from counterfoil.deadline import Deadline
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.webhooks import destinations
from functions.document_output.work import OutputDependencies
from tests.delivery.harness import Clock, rows
from tests.functions.output_harness import FAILURES, OutputHarness
from tests.functions.test_document_output import ACKNOWLEDGED, output, seconds_until_retry, server
from tests.llm.server import Raw, Server
from tools.demo.webhook_receiver import is_signature_valid

__all__ = ["output", "server"]


def test_breaker_opens_only_for_failing_destination(output: OutputHarness, server: Server):
    with Server() as failing_server:
        output.webhook(failing_server.url, "broken")
        output.webhook(server.url, "sound")
        failing_server.add_steps(*[Raw(503)] * FAILURES)
        server.add_steps(*[Raw(200)] * 5)
        for _ in range(FAILURES):
            output.result()
        output.run()  # opens the breaker of one destination
        for _ in range(2):
            output.result()
        output.run()
        assert (len(failing_server.requests), len(server.requests)) == (FAILURES, 5)
    destination_ids = {
        name: id_ for id_, name in output.admin.execute("SELECT id::text, name FROM destination").fetchall()
    }
    parked = [
        job for job in output.jobs() if job["destination_id"] == destination_ids["broken"] and job["attempts"] == 0
    ]
    assert [(job["status"], job["send_number"]) for job in parked] == [("pending", 1)] * 2
    assert {seconds_until_retry(job, output.clock) for job in parked} == {30}
    assert {job["status"] for job in output.jobs() if job["destination_id"] == destination_ids["sound"]} == {
        "succeeded"
    }
    assert output.admin.execute("SELECT name FROM breaker WHERE opened_at IS NOT NULL").fetchall() == [
        (f"destination:{destination_ids['broken']}",)
    ]


def test_parked_deliveries_succeed_after_destination_recovers(output: OutputHarness, server: Server):
    output.webhook(server.url)
    server.add_steps(*[Raw(503)] * FAILURES, *[Raw(200)] * 5)
    for _ in range(FAILURES):
        output.result()
    output.run()
    for _ in range(2):
        output.result()
    output.run()
    assert len(server.requests) == FAILURES
    output.clock.advance(minutes=10)
    output.run()  # one delivery is the probe; others wait unless they start after its response
    output.clock.advance(minutes=10)
    output.run()
    assert {job["status"] for job in output.jobs()} == {"succeeded"}
    assert len(server.requests) == FAILURES + 5


def test_rejected_deliveries_do_not_open_breaker(output: OutputHarness, server: Server):
    output.webhook(server.url)
    server.add_steps(*[Raw(400)] * (FAILURES + 1))
    for _ in range(FAILURES + 1):
        output.result()
    output.run()
    assert len(server.requests) == FAILURES + 1
    assert {job["status"] for job in output.jobs()} == {"failed"}


def test_deliveries_to_a_removed_destination_are_skipped(output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.result()
    assert destinations.remove(output.admin, output.change(), "office")
    assert output.run() == ACKNOWLEDGED
    assert (output.job()["status"], output.job()["skip_reason"]) == (None, "The destination 'office' was removed")
    assert server.requests == []
    assert rows(output.admin, "destination_secret") == []


def test_removed_destination_retains_no_document_data(output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.webhook(server.url, "archive")
    delivered = output.result()
    server.add_steps(Raw(200), Raw(200))
    output.run()
    assert destinations.remove(output.admin, output.change(), "office")
    deleted_id = destination_id_of(output, "office")
    payloads = {job["destination_id"] == deleted_id: job["payload"] for job in output.jobs()}
    assert payloads[True] is None
    assert payloads[False]["documents"][0]["id"] == str(delivered)


def test_delivery_requested_during_removal_is_skipped(output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.result()
    output.admin.execute("UPDATE destination SET disabled_at = now()")
    assert output.job()["payload"]["documents"]
    output.run()
    assert (output.job()["status"], output.job()["payload"]) == (None, None)


def destination_id_of(output: OutputHarness, name: str) -> str:
    row = output.admin.execute("SELECT id::text FROM destination WHERE name = %s", [name]).fetchone()
    assert row is not None
    return str(row[0])


def test_both_secrets_sign_during_a_rotation(output: OutputHarness, server: Server):
    old_secret = output.webhook(server.url)
    new_secret = destinations.rotate_secret(output.admin, output.change(), "office")
    assert new_secret is not None
    for passed, expected in ((0, {old_secret, new_secret}), (23, {old_secret, new_secret}), (2, {new_secret})):
        output.clock.advance(hours=passed)
        output.result()
        server.add_steps(Raw(200))
        output.run()
        request = server.requests[-1]
        signature, now = request.headers["counterfoil-signature"], output.clock().timestamp()
        assert {
            secret for secret in (old_secret, new_secret) if is_signature_valid(signature, request.body, [secret], now)
        } == expected
        assert signature.count("v1=") == len(expected)


def test_second_rotation_invalidates_the_first_secret(output: OutputHarness):
    first = output.webhook("http://127.0.0.1:1")
    rotations = [destinations.rotate_secret(output.admin, output.change(), "office") for _ in range(2)]
    (row,) = rows(output.admin, "destination")
    with output.database.tenant(output.tenant_id) as connection:
        secrets = destinations.active_secrets(connection, UUID(row["id"]), output.clock())
    assert set(secrets) == set(rotations)
    assert first not in secrets


# Configuration and time


def test_error_for_missing_internet_access_names_remedy(output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.result()
    output.dependencies = OutputDependencies(output.dependencies.breakers, None, None)
    output.run()
    assert output.job()["status"] == "failed"
    assert "Deploy with -c enableWebhooks=true" in output.job()["error"]


def test_no_unsigned_request_is_sent_without_a_secret(output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.admin.execute("DELETE FROM destination_secret")
    output.result()
    output.run()
    assert (server.requests, output.job()["status"]) == ([], "failed")
    assert "Rotate the secret" in output.job()["error"]


def test_no_call_is_made_without_time_left(output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.result()
    (message,) = output.due_messages()
    canceled: list[type[BaseException]] = []

    def hurried(attempt: TenantAttempt) -> Outcome:
        try:
            return output.deliver(replace(attempt, deadline=Deadline(lambda: 1.0)))
        except BaseException as error:
            canceled.append(type(error))
            raise

    output.run(message, work=hurried)
    assert [error.__name__ for error in canceled] == ["CancelledError"]
    assert (server.requests, output.job()["status"]) == ([], "pending")


def test_logs_and_errors_contain_no_secret_or_path(
    output: OutputHarness, server: Server, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    secret = output.webhook(server.url)
    output.result()
    server.add_steps(Raw(500, b"t0ken"), Raw(400, b"t0ken"))
    output.run()
    output.clock.advance(minutes=5)
    output.run(receives=2)
    logs = capsys.readouterr().out + str([vars(line) for line in caplog.records])
    assert "HTTP 500" in logs
    stored_text = json.dumps(
        [rows(output.admin, name) for name in ("dead_letter", "failure_event", "dead_letter_audit")]
    )
    for text in (logs, stored_text, output.job()["error"]):
        assert "t0ken" not in text
        assert secret not in text
        assert "R-1" not in text


def test_results_are_not_delivered_to_other_tenants(
    output: OutputHarness, server: Server, make_tenant: Callable[..., UUID], clock: Clock
):
    output.webhook(server.url)
    other = OutputHarness(output.database, output.admin, clock, make_tenant("other"))
    with Server(Raw(200)) as other_server:
        other.webhook(other_server.url)
        cluster = other.result()
        other.run()
        assert json.loads(other_server.requests[0].body)["subject_id"] == str(cluster)
    assert server.requests == []


def test_second_failure_delays_delivery_by_half_an_hour(output: OutputHarness, server: Server):
    output.webhook(server.url)
    output.result()
    server.add_steps(Raw(500), Raw(500))
    output.run()
    output.clock.advance(minutes=5)
    output.run(receives=2)
    assert seconds_until_retry(output.job(), output.clock) == timedelta(minutes=30).total_seconds()
