"""Sends digests of new failures, each through every channel at least once.

failure ──┬─ first with its fingerprint ─────▶ digest ──┬─▶ delivery by Slack ─────────────▶ sent,
          │                                     │  ▲    └─▶ delivery by email, one for ────▶ or abandoned after 3 days
          └─ more of them: wait 5 minutes ──────┼──┘        each recipient
                                                └─▶ if there are no recipients: stored for 30 days, like all digests

Exactly-once delivery is impossible, because neither Slack nor SES has idempotency keys: after a crash between sending a
digest and recording this, the digest is sent again when the lease expires. No transaction is open while a channel
sends.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from aws_lambda_powertools import Logger

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Database, retry_on_conflict
from counterfoil.errors import BreakerOpenError, ServiceUnavailableError, safe_message
from counterfoil.metrics import Metric, emit
from counterfoil.notifications import store
from counterfoil.notifications.channels import Channel, Factory, Mail, Slack
from counterfoil.notifications.digest import render, to_one_line
from counterfoil.notifications.store import Delivery
from counterfoil.settings import Settings

CHANNELS: Mapping[str, Factory] = {"slack": Slack.from_settings, "email": Mail.from_settings}
"""Factories of channels by name. The name is also the metric dimension."""

LEASE = timedelta(minutes=2)
"""Lease of a delivery. It is longer than a watchdog run."""
INITIAL_BACKOFF = timedelta(seconds=30)
"""Delay after the first failed attempt. It doubles with each failure."""
MAX_BACKOFF = timedelta(hours=1)
"""Maximum delay after a failed attempt, including delays that a service requests."""
ABANDON_AFTER = timedelta(days=3)
"""Age of a digest after which its unsent deliveries are abandoned."""
RETENTION = timedelta(days=30)
"""Retention of digests. It is longer than a dead-letter queue stores a message, so that no failure is reported twice.
"""
MARGIN_SECONDS = 19.0
"""Minimum remaining seconds to start a delivery, including reading the webhook URL and storing the result."""
MAX_ERROR_CHARS = 500
"""Maximum length of a stored delivery error."""

logger = Logger()


@dataclass(frozen=True)
class DeliveryStats:
    """Result of a run."""

    digests: int
    """Number of digests created."""
    sent: int
    """Number of deliveries sent."""
    failed: int
    """Number of failed attempts."""
    deferred: int
    """Number of attempts deferred by a circuit breaker."""
    abandoned: int
    """Number of deliveries abandoned."""
    purged: int
    """Number of digests deleted after their retention."""


class Notifier:
    """Sends failure notifications."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        breakers: Breakers,
        *,
        channels: Mapping[str, Factory] = CHANNELS,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        """`database` must connect as counterfoil_maintenance."""
        self._settings = settings
        self._database = database
        self._breakers = breakers
        self._factories = channels
        self._clock = clock or database.now

    @classmethod
    def from_settings(cls, settings: Settings, database: Database, breakers: Breakers) -> "Notifier":
        """Return the watchdog's notifier."""
        return cls(settings, database, breakers)

    def run(self, time_left: Callable[[], float]) -> DeliveryStats:
        """Create the due digests, and send due deliveries while time remains.

        A delivery starts only if enough of `time_left()` seconds remains. A failing channel affects neither other
        channels nor work items. Its deliveries are retried.

        Raises:
            DatabaseUnavailableError, ConflictError: the next run continues.
        """
        now = self._clock()
        abandoned = retry_on_conflict(lambda: store.abandon_expired(self._database, now - ABANDON_AFTER, now))
        for name, count in Counter(abandoned).items():
            logger.error("Deliveries of notification digests were abandoned", channel=name, number=count)
            emit({Metric.NOTIFICATION_FAILURES: count}, channel=name)
        channels = self._channels()
        window = timedelta(seconds=self._settings.notification_digest_interval_seconds)

        def recipients(admins: Sequence[str]) -> list[tuple[str, str]]:
            return [(name, recipient) for name, channel in channels.items() for recipient in channel.recipients(admins)]

        created = retry_on_conflict(lambda: store.create_digests(self._database, recipients, window, now))
        outcomes = self._send(channels, time_left)
        purged = retry_on_conflict(lambda: store.purge(self._database, now - RETENTION))
        return DeliveryStats(
            created, outcomes["sent"], outcomes["failed"], outcomes["deferred"], len(abandoned), purged
        )

    def _channels(self) -> dict[str, Channel]:
        """Return the enabled channels."""
        channels: dict[str, Channel] = {}
        for name, factory in self._factories.items():
            try:
                channel = factory(self._settings, self._breakers)
            except Exception as error:  # noqa: BLE001  # a channel that cannot be created must not stop the others
                logger.error("A notification channel cannot be created", channel=name, error=safe_message(error))
                emit({Metric.NOTIFICATION_FAILURES: 1}, channel=name)
                continue
            if channel is not None:
                channels[name] = channel
        return channels

    def _send(self, channels: Mapping[str, Channel], time_left: Callable[[], float]) -> Counter[str]:
        """Send one delivery per channel in turn.

        Therefore, a slow channel does not use all the time.
        """
        outcomes: Counter[str] = Counter()
        active = dict(channels)
        while active:
            for name, channel in list(active.items()):
                if time_left() < MARGIN_SECONDS:
                    return outcomes
                outcome, can_continue = self._send_next(name, channel)
                outcomes[outcome] += 1
                if not can_continue:
                    del active[name]
        return outcomes

    def _send_next(self, name: str, channel: Channel) -> tuple[str, bool]:
        """Send the channel's oldest due delivery.

        Returns its result, and whether the channel may continue.
        """
        claimed = store.claim_delivery(self._database, name, self._clock(), LEASE)
        if claimed is None:
            return "none", False
        delivery, digest = claimed
        try:
            key = f"{delivery.digest_id}/{name}/{delivery.recipient}"
            text = render(digest, self._settings.console_url, self._settings.notification_digest_interval_seconds)
            channel.send(text, delivery.recipient, key)
        except BreakerOpenError as error:
            store.mark_deferred(self._database, delivery, max(error.until, self._clock()))
            return "deferred", False
        except Exception as error:  # noqa: BLE001  # an error in one channel must not stop the others
            self._record_failure(delivery, error)
            return "failed", not isinstance(error, ServiceUnavailableError)
        store.mark_sent(self._database, delivery, self._clock())
        emit({Metric.NOTIFICATIONS_SENT: 1}, channel=name)
        return "sent", True

    def _record_failure(self, delivery: Delivery, error: Exception) -> None:
        message = to_one_line(safe_message(error), MAX_ERROR_CHARS)
        delay = max(backoff(delivery.attempt), _requested_delay(error))
        emit({Metric.NOTIFICATION_FAILURES: 1}, channel=delivery.channel)
        logger.warning(
            "A notification digest was not sent",
            channel=delivery.channel,
            digest=str(delivery.digest_id),
            attempt=delivery.attempt,
            error=message,
        )
        store.mark_failed(self._database, delivery, message, self._clock() + delay)


def backoff(attempts: int) -> timedelta:
    """Return the delay after `attempts` (>= 1) failed attempts.

    It is 30 s * 2^(attempts - 1), at most an hour.
    """
    return min(INITIAL_BACKOFF * (1 << min(attempts - 1, 20)), MAX_BACKOFF)


def _requested_delay(error: Exception) -> timedelta:
    """Return the delay that the service requested, at most MAX_BACKOFF, or zero."""
    seconds = (isinstance(error, ServiceUnavailableError) and error.retry_after) or 0.0
    return timedelta(seconds=min(seconds, MAX_BACKOFF.total_seconds()))
