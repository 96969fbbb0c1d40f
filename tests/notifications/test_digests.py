"""The first failure with a fingerprint is sent immediately.

Later failures are grouped.
"""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection
from counterfoil.notifications.notifier import Notifier
from tests.delivery.harness import Clock
from tests.notifications.conftest import Fail, Run
from tests.notifications.harness import FakeChannel


def test_first_failure_is_sent_immediately(fail: Fail, run: Run, channel: FakeChannel):
    (document,) = fail()
    assert run().sent == 1
    assert channel.headlines == ["A document for acme failed in matching"]
    assert str(document) in [field.value for field in channel.sent[0].text.fields]
    assert run().sent == 0


def test_five_hundred_equal_failures_send_two_messages(fail: Fail, run: Run, channel: FakeChannel, clock: Clock):
    documents = fail(times=500)
    for _ in range(15):
        run()
        clock.advance(minutes=1)
    assert channel.headlines == [
        "A document for acme failed in matching",
        "499 more documents for acme failed in matching",
    ]
    digest = channel.sent[1].text
    named_documents = [field.value for field in digest.fields if field.label == "Document"]
    assert len(named_documents) == 5
    assert set(named_documents) <= {str(document) for document in documents}
    assert ("And", "494 more") in [(field.label, field.value) for field in digest.fields]


def test_five_minutes_of_failures_send_two_messages(fail: Fail, run: Run, channel: FakeChannel, clock: Clock):
    for second in range(300):
        if second % 60 == 0:
            run()
        fail()
        clock.advance(seconds=1)
    for _ in range(10):
        run()
        clock.advance(minutes=1)
    assert channel.headlines == [
        "A document for acme failed in matching",
        "299 more documents for acme failed in matching",
    ]


def test_digest_waits_until_its_window_ends(fail: Fail, run: Run, channel: FakeChannel, clock: Clock):
    fail()
    run()
    fail()
    clock.advance(seconds=299)
    assert run().digests == 0
    clock.advance(seconds=1)
    assert run().digests == 1
    assert len(channel.sent) == 2


def test_window_restarts_after_a_digest(fail: Fail, run: Run, channel: FakeChannel, clock: Clock):
    counts = []
    for minute in range(20):  # with failures during the first 15
        if minute < 15:
            fail(times=10)
        counts.append(run().digests)
        clock.advance(minutes=1)
    assert [minute for minute, count in enumerate(counts) if count] == [0, 5, 10, 15]
    assert channel.headlines == [
        "A document for acme failed in matching",
        "59 more documents for acme failed in matching",
        "50 more documents for acme failed in matching",
        "40 more documents for acme failed in matching",
    ]


def test_failure_after_quiet_window_is_sent_immediately(fail: Fail, run: Run, channel: FakeChannel, clock: Clock):
    fail()
    run()
    clock.advance(seconds=301)
    fail(times=30)
    run()
    assert channel.headlines == ["A document for acme failed in matching"] * 2
    clock.advance(seconds=300)
    run()
    assert channel.headlines[2:] == ["29 more documents for acme failed in matching"]


def test_digest_of_one_failure_has_singular_wording(fail: Fail, run: Run, channel: FakeChannel, clock: Clock):
    fail()
    run()
    fail()
    clock.advance(seconds=300)
    run()
    assert channel.headlines == ["A document for acme failed in matching"] * 2


def test_failures_during_watchdog_outage_send_two_messages(fail: Fail, run: Run, channel: FakeChannel, clock: Clock):
    fail(times=50)
    clock.advance(hours=3)
    run()
    clock.advance(seconds=300)
    run()
    assert channel.headlines == [
        "A document for acme failed in matching",
        "49 more documents for acme failed in matching",
    ]


@pytest.mark.parametrize("other", ["tenant", "no tenant", "error", "worker"])
def test_new_fingerprint_or_tenant_starts_a_digest(
    other: str, fail: Fail, run: Run, channel: FakeChannel, make_tenant: Callable[..., UUID]
):
    fail()
    run()
    match other:
        case "tenant":
            fail(make_tenant("zenith"))
        case "no tenant":
            fail(None)
        case "error":
            fail(error="The file is empty")
        case "worker":
            fail(worker="ingestion")
    run()
    assert len(channel.sent) == 2


def test_failures_without_a_tenant_are_grouped_too(fail: Fail, run: Run, channel: FakeChannel, clock: Clock):
    fail(None, times=20)
    for _ in range(10):
        run()
        clock.advance(minutes=1)
    assert channel.headlines == ["A document failed in matching", "19 more documents failed in matching"]


def test_numbers_and_names_do_not_change_the_fingerprint(fail: Fail, run: Run, channel: FakeChannel):
    for number in range(20):
        fail(error=f"The file '{number}.pdf' has {number} pages")
    run()
    assert len(channel.sent) == 1


def test_only_one_watchdog_creates_digests(fail: Fail, run: Run, channel: FakeChannel, admin: Connection):
    fail(times=2)
    with admin.transaction():
        admin.execute("SELECT pg_advisory_xact_lock(hashtext('notification_digest'))")  # as another watchdog does
        assert run().digests == 0
    assert run().digests == 1
    assert len(channel.sent) == 1


def test_zero_window_sends_remaining_failures_on_next_run(
    fail: Fail, make_notifier: Callable[..., Notifier], channel: FakeChannel, clock: Clock
):
    notifier = make_notifier({"pager": channel}, notification_digest_interval_seconds=0)
    fail(times=3)
    for _ in range(2):
        clock.advance(minutes=1)
        notifier.run(lambda: 60)
    assert channel.headlines == [
        "A document for acme failed in matching",
        "2 more documents for acme failed in matching",
    ]
