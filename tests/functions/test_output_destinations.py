"""Deliveries to destinations that fail, are removed, or rotate or lose their secrets."""

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
from tests.functions.output_harness import FAILURES, World
from tests.functions.test_document_output import ACKNOWLEDGED, in_seconds, server, world
from tests.llm.server import Raw, Server
from tools.demo.webhook_receiver import is_genuine

__all__ = ["server", "world"]


def test_failing_destination_is_paused_and_others_are_not(world: World, server: Server):
    with Server() as broken:
        world.webhook(broken.url, "broken")
        world.webhook(server.url, "sound")
        broken.then(*[Raw(503)] * FAILURES)
        server.then(*[Raw(200)] * 5)
        for _ in range(FAILURES):
            world.result()
        world.run()  # opens the breaker of one destination
        for _ in range(2):
            world.result()
        world.run()
        assert (len(broken.requests), len(server.requests)) == (FAILURES, 5)
    at = {name: id_ for id_, name in world.admin.execute("SELECT id::text, name FROM destination").fetchall()}
    parked = [job for job in world.jobs() if job["destination_id"] == at["broken"] and job["attempts"] == 0]
    assert [(job["status"], job["send_number"]) for job in parked] == [("pending", 1)] * 2
    assert {in_seconds(job, world.clock) for job in parked} == {30}
    assert {job["status"] for job in world.jobs() if job["destination_id"] == at["sound"]} == {"succeeded"}
    assert world.admin.execute("SELECT name FROM breaker WHERE opened_at IS NOT NULL").fetchall() == [
        (f"destination:{at['broken']}",)
    ]


def test_parked_deliveries_resume_with_their_destination(world: World, server: Server):
    world.webhook(server.url)
    server.then(*[Raw(503)] * FAILURES, *[Raw(200)] * 5)
    for _ in range(FAILURES):
        world.result()
    world.run()
    for _ in range(2):
        world.result()
    world.run()
    assert len(server.requests) == FAILURES
    world.clock.pass_(minutes=10)
    world.run()  # one delivery probes; others wait unless they start after its response
    world.clock.pass_(minutes=10)
    world.run()
    assert {job["status"] for job in world.jobs()} == {"succeeded"}
    assert len(server.requests) == FAILURES + 5


def test_refusal_is_not_an_outage(world: World, server: Server):
    world.webhook(server.url)
    server.then(*[Raw(400)] * (FAILURES + 1))
    for _ in range(FAILURES + 1):
        world.result()
    world.run()
    assert len(server.requests) == FAILURES + 1
    assert {job["status"] for job in world.jobs()} == {"failed"}


def test_deliveries_to_a_removed_destination_are_skipped(world: World, server: Server):
    world.webhook(server.url)
    world.result()
    assert destinations.remove(world.admin, world.change(), "office")
    assert world.run() == ACKNOWLEDGED
    assert (world.job()["status"], world.job()["skip_reason"]) == (None, "The destination 'office' was removed")
    assert server.requests == []
    assert rows(world.admin, "destination_secret") == []


def test_removed_destination_retains_no_document_data(world: World, server: Server):
    world.webhook(server.url)
    world.webhook(server.url, "archive")
    delivered = world.result()
    server.then(Raw(200), Raw(200))
    world.run()
    assert destinations.remove(world.admin, world.change(), "office")
    gone = destination_id_of(world, "office")
    kept = {job["destination_id"] == gone: job["payload"] for job in world.jobs()}
    assert kept[True] is None
    assert kept[False]["documents"][0]["id"] == str(delivered)


def test_delivery_requested_during_removal_is_skipped(world: World, server: Server):
    world.webhook(server.url)
    world.result()
    world.admin.execute("UPDATE destination SET disabled_at = now()")
    assert world.job()["payload"]["documents"]
    world.run()
    assert (world.job()["status"], world.job()["payload"]) == (None, None)


def destination_id_of(world: World, name: str) -> str:
    row = world.admin.execute("SELECT id::text FROM destination WHERE name = %s", [name]).fetchone()
    assert row is not None
    return str(row[0])


def test_both_secrets_sign_during_a_rotation(world: World, server: Server):
    old = world.webhook(server.url)
    new = destinations.rotate(world.admin, world.change(), "office")
    assert new is not None
    for passed, expected in ((0, {old, new}), (23, {old, new}), (2, {new})):
        world.clock.pass_(hours=passed)
        world.result()
        server.then(Raw(200))
        world.run()
        request = server.requests[-1]
        signature, now = request.headers["counterfoil-signature"], world.clock().timestamp()
        assert {one for one in (old, new) if is_genuine(signature, request.body, [one], now)} == expected
        assert signature.count("v1=") == len(expected)


def test_second_rotation_invalidates_the_first_secret(world: World):
    first = world.webhook("http://127.0.0.1:1")
    rotations = [destinations.rotate(world.admin, world.change(), "office") for _ in range(2)]
    (row,) = rows(world.admin, "destination")
    with world.database.tenant(world.tenant_id) as connection:
        found = destinations.active_secrets(connection, UUID(row["id"]), world.clock())
    assert set(found) == set(rotations)
    assert first not in found


# Configuration and time


def test_missing_internet_access_names_the_remedy(world: World, server: Server):
    world.webhook(server.url)
    world.result()
    world.dependencies = OutputDependencies(world.dependencies.breakers, None, None)
    world.run()
    assert world.job()["status"] == "failed"
    assert "Deploy with -c enableWebhooks=true" in world.job()["error"]


def test_missing_secret_sends_no_unsigned_request(world: World, server: Server):
    world.webhook(server.url)
    world.admin.execute("DELETE FROM destination_secret")
    world.result()
    world.run()
    assert (server.requests, world.job()["status"]) == ([], "failed")
    assert "rotate it" in world.job()["error"]


def test_call_without_time_left_is_not_made(world: World, server: Server):
    world.webhook(server.url)
    world.result()
    (message,) = world.due_messages()
    canceled: list[type[BaseException]] = []

    def hurried(attempt: TenantAttempt) -> Outcome:
        try:
            return world.deliver(replace(attempt, deadline=Deadline(lambda: 1.0)))
        except BaseException as error:
            canceled.append(type(error))
            raise

    world.run(message, work=hurried)
    assert [error.__name__ for error in canceled] == ["CancelledError"]
    assert (server.requests, world.job()["status"]) == ([], "pending")


def test_logs_and_errors_contain_no_secret_or_path(
    world: World, server: Server, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    secret = world.webhook(server.url)
    world.result()
    server.then(Raw(500, b"t0ken"), Raw(400, b"t0ken"))
    world.run()
    world.clock.pass_(minutes=5)
    world.run(receives=2)
    logs = capsys.readouterr().out + str([vars(line) for line in caplog.records])
    assert "HTTP 500" in logs
    kept = json.dumps([rows(world.admin, name) for name in ("dead_letter", "failure_event", "dead_letter_audit")])
    for text in (logs, kept, world.job()["error"]):
        assert "t0ken" not in text
        assert secret not in text
        assert "R-1" not in text


def test_results_are_not_delivered_to_other_tenants(
    world: World, server: Server, make_tenant: Callable[..., UUID], clock: Clock
):
    world.webhook(server.url)
    other = World(world.database, world.admin, clock, make_tenant("other"))
    with Server(Raw(200)) as theirs:
        other.webhook(theirs.url)
        cluster = other.result()
        other.run()
        assert json.loads(theirs.requests[0].body)["subject_id"] == str(cluster)
    assert server.requests == []


def test_repeated_failure_waits_half_an_hour(world: World, server: Server):
    world.webhook(server.url)
    world.result()
    server.then(Raw(500), Raw(500))
    world.run()
    world.clock.pass_(minutes=5)
    world.run(receives=2)
    assert in_seconds(world.job(), world.clock) == timedelta(minutes=30).total_seconds()
