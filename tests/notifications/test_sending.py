"""Every digest reaches every channel at least once, despite crashes and outages."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import BreakerOpenError, DatabaseUnavailableError, RejectedRequestError, ServiceUnavailableError
from counterfoil.notifications import store
from counterfoil.notifications.notifier import ABANDON_AFTER, LEASE, MAX_BACKOFF, RETENTION, Notifier, backoff
from tests.delivery.harness import Clock
from tests.notifications.conftest import Fail, Run
from tests.notifications.harness import FakeChannel, RaiseErrors, deliveries, metrics

UNAVAILABLE = ServiceUnavailableError("hooks.example.com answered with HTTP 503")
MakeNotifier = Callable[..., Notifier]


def count_rows(admin: Connection, table: str) -> int:
    row = admin.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


# At least once


def test_sent_digest_is_recorded_and_counted(
    fail: Fail, run: Run, channel: FakeChannel, clock: Clock, admin: Connection, capsys: pytest.CaptureFixture[str]
):
    fail()
    stats = run()
    assert (stats.digests, stats.sent, stats.failed) == (1, 1, 0)
    assert deliveries(admin, "channel", "recipient", "attempts", "sent_at", "error") == [
        ("pager", "on-call", 1, clock(), None)
    ]
    assert metrics(capsys.readouterr().out) == [("NotificationsSent", "pager", 1)]


def test_unrecorded_digest_is_sent_again_after_crash(
    fail: Fail, run: Run, channel: FakeChannel, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    fail()
    with monkeypatch.context() as patch:
        patch.setattr(store, "mark_sent", RaiseErrors(KeyboardInterrupt()))  # as if the process crashed here
        with pytest.raises(KeyboardInterrupt):
            run()
    assert run().sent == 0  # another sender may still hold the lease
    clock.now += LEASE
    assert run().sent == 1
    assert [sent.key for sent in channel.sent] == [channel.sent[0].key] * 2
    clock.now += 2 * LEASE
    assert run().sent == 0


def test_interrupted_digest_is_sent_after_lease_expiry(fail: Fail, run: Run, channel: FakeChannel, clock: Clock):
    fail()
    channel.on_send = RaiseErrors(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run()
    clock.now += LEASE
    assert run().sent == 1
    assert len(channel.sent) == 1


def test_unrecorded_digest_is_sent_again_after_database_outage(
    fail: Fail, run: Run, channel: FakeChannel, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    fail()
    with monkeypatch.context() as patch:
        patch.setattr(store, "mark_sent", RaiseErrors(DatabaseUnavailableError("PostgreSQL is not available")))
        with pytest.raises(DatabaseUnavailableError):
            run()
    clock.now += LEASE
    run()
    assert len(channel.sent) == 2


def test_sender_with_expired_lease_still_records_success(
    fail: Fail, run: Run, channel: FakeChannel, clock: Clock, admin: Connection
):
    fail()

    def expire_lease() -> None:
        channel.on_send = RaiseErrors(UNAVAILABLE)
        clock.now += LEASE
        assert run().failed == 1

    channel.on_send = expire_lease
    assert run().sent == 1
    assert deliveries(admin, "attempts", "sent_at", "error") == [(2, clock(), None)]


def test_failure_after_expired_lease_keeps_newer_state(
    fail: Fail, run: Run, channel: FakeChannel, clock: Clock, admin: Connection
):
    fail()

    def expire_lease() -> None:
        channel.on_send = RaiseErrors(ServiceUnavailableError("Later, please", retry_after=600))
        clock.now += LEASE
        assert run().failed == 1
        raise UNAVAILABLE

    channel.on_send = expire_lease
    run()
    assert deliveries(admin, "attempts", "error", "next_attempt_at") == [
        (2, "Later, please", clock() + timedelta(seconds=600))
    ]


def test_delivery_locked_by_another_watchdog_is_skipped(
    fail: Fail, run: Run, channel: FakeChannel, clock: Clock, admin: Connection
):
    channel.on_send = RaiseErrors(RejectedRequestError("not now"), RejectedRequestError("not now"))
    fail(error="Failure of one kind")
    fail(error="Failure of another")
    assert run().failed == 2
    clock.advance(minutes=1)
    with admin.transaction():
        admin.execute("SELECT FROM notification_delivery ORDER BY next_attempt_at, digest_id LIMIT 1 FOR UPDATE")
        assert run().sent == 1
    assert run().sent == 1


def test_digest_being_sent_is_not_sent_twice(fail: Fail, run: Run, channel: FakeChannel):
    fail()
    outcomes = []

    def run_other() -> None:
        channel.on_send = lambda: None
        outcomes.append(run())

    channel.on_send = run_other
    assert run().sent == 1
    assert outcomes[0].sent == 0
    assert len(channel.sent) == 1


def test_concurrent_watchdogs_send_each_digest_once(fail: Fail, run: Run, channel: FakeChannel):
    for number in range(40):
        fail(error=f"Failure of kind {chr(65 + number)}")
    with ThreadPoolExecutor(2) as pool:
        results = [future.result() for future in [pool.submit(run), pool.submit(run)]]
    assert sum(result.digests for result in results) == 40
    run()  # sends digests that one run created after the other had searched for due deliveries
    assert len(channel.sent) == len({sent.key for sent in channel.sent}) == 40


def test_no_transaction_is_open_while_a_channel_sends(
    fail: Fail, run: Run, channel: FakeChannel, admin: Connection, migrated_database: str
):
    fail()
    states = []

    def record_state() -> None:
        states.extend(
            admin.execute(
                "SELECT state FROM pg_stat_activity WHERE usename = 'counterfoil_maintenance' AND datname = %s",
                [migrated_database],
            ).fetchall()
        )

    channel.on_send = record_state
    run()
    assert set(states) == {("idle",)}


# Failing channels


def test_failed_delivery_is_retried_with_growing_delays(
    fail: Fail, run: Run, channel: FakeChannel, clock: Clock, admin: Connection, capsys: pytest.CaptureFixture[str]
):
    fail()
    channel.on_send = on_send = RaiseErrors(UNAVAILABLE, RejectedRequestError("HTTP 404"), UNAVAILABLE)
    start = clock()
    attempt_times: list[float] = []
    for _ in range(30):
        if run().failed or not attempt_times:
            attempt_times.append((clock() - start).total_seconds())
        clock.advance(seconds=10)
    assert attempt_times == [0, 30, 90]  # after 30 s and 60 s; the last delay is 120 s
    assert on_send.calls == 4
    assert len(channel.sent) == 1
    assert deliveries(admin, "attempts", "error") == [(4, None)]
    assert [metric[:2] for metric in metrics(capsys.readouterr().out)] == [
        ("NotificationFailures", "pager"),
        ("NotificationFailures", "pager"),
        ("NotificationFailures", "pager"),
        ("NotificationsSent", "pager"),
    ]


def test_retry_delays_double_up_to_an_hour():
    assert [backoff(n).total_seconds() for n in range(1, 10)] == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert backoff(10**6) == MAX_BACKOFF


@pytest.mark.parametrize(("retry_after", "waited"), [(600, 600), (5, 30), (None, 30), (1e12, 3600)])
def test_retry_after_is_honored_up_to_an_hour(
    retry_after: float | None, waited: int, fail: Fail, run: Run, channel: FakeChannel, clock: Clock, admin: Connection
):
    fail()
    channel.on_send = RaiseErrors(ServiceUnavailableError("HTTP 429", retry_after=retry_after))
    run()
    assert deliveries(admin, "next_attempt_at") == [(clock() + timedelta(seconds=waited),)]


def test_failing_channel_does_not_affect_others(
    fail: Fail, make_notifier: MakeNotifier, channel: FakeChannel, admin: Connection, clock: Clock
):
    failing_channel = FakeChannel(on_send=RaiseErrors(*[UNAVAILABLE] * 99))
    notifier = make_notifier({"broken": failing_channel, "pager": channel})
    for number in range(5):
        fail(error=f"Failure of kind {'abcde'[number]}")
    stats = notifier.run(lambda: 60)
    assert len(channel.sent) == 5
    assert (stats.sent, stats.failed) == (5, 1)  # after one failed call, the run skips the channel
    for _ in range(20):
        clock.advance(minutes=1)
        notifier.run(lambda: 60)
    assert len(channel.sent) == 5


def test_unexpected_channel_error_is_isolated_and_redacted(
    fail: Fail, make_notifier: MakeNotifier, channel: FakeChannel, admin: Connection
):
    failing_channel = FakeChannel(on_send=RaiseErrors(KeyError("token=secret")))
    fail()
    assert make_notifier({"broken": failing_channel, "pager": channel}).run(lambda: 60).sent == 1
    ((error,), _) = deliveries(admin, "error")
    assert error.startswith("Unexpected KeyError at tests.notifications")
    assert "secret" not in error


def test_channel_creation_failure_does_not_stop_others(
    fail: Fail,
    maintenance_database: Database,
    clock: Clock,
    make_notifier: MakeNotifier,
    channel: FakeChannel,
    capsys: pytest.CaptureFixture[str],
):
    def fail_creation(*_: object) -> None:
        raise KeyError

    notifier = make_notifier({"pager": channel})
    notifier._factories = {"broken": fail_creation, **notifier._factories}
    fail()
    assert notifier.run(lambda: 60).sent == 1
    assert ("NotificationFailures", "broken", 1) in metrics(capsys.readouterr().out)


def test_rejected_digest_does_not_block_the_next(fail: Fail, run: Run, channel: FakeChannel):
    fail(error="Failure of one kind")
    fail(error="Failure of another")
    channel.on_send = RaiseErrors(RejectedRequestError("There is no such address"))
    stats = run()
    assert (stats.sent, stats.failed) == (1, 1)


def test_one_recipients_failure_does_not_affect_others(
    fail: Fail, make_notifier: MakeNotifier, admin: Connection, clock: Clock
):
    channel = FakeChannel(addresses=("good@example.com", "bad@example.com"))
    channel.on_send = RaiseErrors(RejectedRequestError("There is no such address"))
    notifier = make_notifier({"email": channel})
    fail()
    notifier.run(lambda: 60)
    (first,) = channel.sent
    clock.advance(minutes=1)
    notifier.run(lambda: 60)
    assert {sent.recipient for sent in channel.sent} == set(channel.addresses)
    assert channel.sent[1].recipient != first.recipient


def test_open_breaker_spends_no_attempt(
    fail: Fail,
    run: Run,
    channel: FakeChannel,
    clock: Clock,
    admin: Connection,
    capsys: pytest.CaptureFixture[str],
):
    fail()
    open_until = clock() + timedelta(seconds=45)
    channel.on_send = RaiseErrors(BreakerOpenError("The circuit breaker is open", until=open_until))
    stats = run()
    assert (stats.deferred, stats.failed) == (1, 0)
    assert deliveries(admin, "attempts", "next_attempt_at", "error") == [(0, open_until, None)]
    assert metrics(capsys.readouterr().out) == []
    clock.now = open_until
    assert run().sent == 1


def test_unsent_delivery_is_abandoned_after_three_days(
    fail: Fail, run: Run, channel: FakeChannel, clock: Clock, admin: Connection, capsys: pytest.CaptureFixture[str]
):
    fail()
    channel.on_send = on_send = RaiseErrors(*[UNAVAILABLE] * 1000)
    start = clock()
    while clock() <= start + ABANDON_AFTER:
        run()
        clock.advance(minutes=10)
    capsys.readouterr()
    calls_before = on_send.calls
    assert run().abandoned == 1
    assert metrics(capsys.readouterr().out) == [("NotificationFailures", "pager", 1)]
    assert deliveries(admin, "abandoned_at IS NULL", "sent_at", "error") == [(False, None, str(UNAVAILABLE))]
    clock.advance(days=1)
    assert (run().abandoned, on_send.calls) == (0, calls_before)
    assert 70 < calls_before < 85  # hourly, after shorter delays at first


def test_deliveries_of_disabled_channel_are_eventually_abandoned(
    fail: Fail, run: Run, channel: FakeChannel, clock: Clock, make_notifier: MakeNotifier
):
    fail()
    channel.on_send = RaiseErrors(UNAVAILABLE)
    run()
    clock.now += ABANDON_AFTER + timedelta(seconds=1)
    assert make_notifier({}).run(lambda: 60).abandoned == 1


# Time


def test_sending_requires_enough_time_left(fail: Fail, run: Run, channel: FakeChannel):
    fail()
    assert run(lambda: 10.0).sent == 0
    assert run().sent == 1


def test_busy_channel_leaves_time_for_others(fail: Fail, make_notifier: MakeNotifier):
    busy, pager = FakeChannel(addresses=[f"{n}@example.com" for n in range(50)]), FakeChannel()
    fail()
    seconds_left = iter([60.0] * 6)
    stats = make_notifier({"busy": busy, "pager": pager}).run(lambda: next(seconds_left, 0.0))
    assert len(pager.sent) == 1
    assert stats.sent == 1 + len(busy.sent) == 5


# No channels, and retention


def test_without_channels_failures_are_only_recorded(
    fail: Fail, make_notifier: MakeNotifier, channel: FakeChannel, clock: Clock, admin: Connection
):
    without_channels = make_notifier()
    fail(times=20)
    for _ in range(10):
        without_channels.run(lambda: 60)
        clock.advance(minutes=1)
    assert count_rows(admin, "failure_event WHERE digest_id IS NULL") == 0
    assert (count_rows(admin, "failure_event"), count_rows(admin, "notification_delivery")) == (20, 0)
    make_notifier({"pager": channel}).run(lambda: 60)
    assert channel.sent == []  # adding a channel does not send old failures


def test_old_digests_are_deleted_with_failures_and_deliveries(
    fail: Fail, run: Run, clock: Clock, admin: Connection, make_notifier: MakeNotifier
):
    fail()
    run()
    fail(None, error="No admin receives this")
    make_notifier({}).run(lambda: 60)
    clock.now += RETENTION
    assert run().purged == 0
    clock.advance(seconds=1)
    fail()
    assert run().purged == 2
    assert [
        count_rows(admin, table) for table in ("notification_digest", "failure_event", "notification_delivery")
    ] == [
        1,
        1,
        1,
    ]


def test_tenant_admins_get_only_their_failures(
    fail: Fail, run: Run, channel: FakeChannel, admin: Connection, acme: UUID, make_tenant: Callable[..., UUID]
):
    zenith = make_tenant("zenith")
    for tenant_id, email in ((acme, "ann@acme.example"), (acme, "bob@acme.example"), (zenith, "zoe@zenith.example")):
        admin.execute("INSERT INTO tenant_admin (tenant_id, email) VALUES (%s, %s)", [tenant_id, email])
    fail()
    run()
    assert {sent.recipient for sent in channel.sent} == {"on-call", "ann@acme.example", "bob@acme.example"}
    channel.sent.clear()
    fail(None)
    run()
    assert [sent.recipient for sent in channel.sent] == ["on-call"]


def test_notifier_with_worker_role_is_rejected(
    database: Database, fail: Fail, make_notifier: MakeNotifier, channel: FakeChannel
):
    notifier = make_notifier({"pager": channel})
    notifier._database = database
    fail()
    with pytest.raises(Exception, match="InsufficientPrivilege") as caught:
        notifier.run(lambda: 60)
    assert isinstance(caught.value.__cause__, psycopg.errors.InsufficientPrivilege)


def test_logs_contain_no_address_or_error_text(
    fail: Fail, make_notifier: MakeNotifier, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    channel = FakeChannel(addresses=("ann@acme.example",), on_send=RaiseErrors(UNAVAILABLE))
    fail(error="The file 'Rechnung an Ann.pdf' is empty")
    with caplog.at_level(logging.DEBUG):
        make_notifier({"email": channel}).run(lambda: 60)
    output = capsys.readouterr().out + caplog.text
    assert "A notification digest was not sent" in output
    assert "ann@" not in output
    assert "Rechnung" not in output
