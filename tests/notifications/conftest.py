"""Fixtures for notification tests: clock, tenant, channel and notifier."""

from collections.abc import Callable, Iterator
from functools import partial
from uuid import UUID

import pytest

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection, Database
from counterfoil.notifications.notifier import CHANNELS, DeliveryStats, Notifier
from counterfoil.settings import Settings
from tests.delivery.harness import Clock
from tests.notifications import harness
from tests.notifications.harness import FakeChannel, Webhook

Run = Callable[..., DeliveryStats]
Fail = Callable[..., list[UUID]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def acme(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def fail(admin: Connection, clock: Clock, acme: UUID) -> Fail:
    """`fail(tenant_id=acme, **options)` records failures; see `harness.fail`."""
    return lambda tenant_id=acme, **options: harness.fail(admin, clock, tenant_id, **options)


@pytest.fixture
def breakers(maintenance_database: Database, clock: Clock) -> Breakers:
    return Breakers(maintenance_database, clock, failures=5, open_seconds=30, spread=lambda: 0.0)


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@pytest.fixture
def make_notifier(maintenance_database: Database, breakers: Breakers, clock: Clock) -> Callable[..., Notifier]:
    """`make_notifier(channels, **settings)` creates a notifier.

    By default, it has the channels of the settings.
    """

    def make(channels: dict[str, FakeChannel] | None = None, **settings: object) -> Notifier:
        factories = (
            CHANNELS
            if channels is None
            else {name: partial(_return_channel, channel) for name, channel in channels.items()}
        )
        return Notifier(
            Settings.model_validate(settings), maintenance_database, breakers, channels=factories, clock=clock
        )

    return make


def _return_channel(channel: FakeChannel, settings: Settings, breakers: Breakers) -> FakeChannel:
    return channel


@pytest.fixture
def run(make_notifier: Callable[..., Notifier], channel: FakeChannel) -> Run:
    """`run(time_left)` runs a notifier with one channel.

    By default, enough time is left.
    """
    notifier = make_notifier({"pager": channel})
    return lambda time_left=lambda: 60.0: notifier.run(time_left)


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.close()
