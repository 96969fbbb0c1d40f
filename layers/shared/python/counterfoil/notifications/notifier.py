"""The notifier: makes notices of failures that nobody was told of, and sends each by every channel, at least once.

notification ──┬─ first of its fingerprint ───────▶ notice ──┬─▶ delivery by Slack ─────────▶ sent
 (a failure)   │                                      │  ▲    └─▶ delivery by e-mail, each ─▶ abandoned after 3 days
               └─ more of it: wait 5 minutes ─────────┼──┘        recipient
                                                      └─▶ nobody to tell: kept as a record, for 30 days like all

Exactly once is impossible, since neither Slack nor SES takes an idempotency key: a crash between a sending and its mark
sends that notice again when its lease is over. No transaction is open while a channel sends.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from aws_lambda_powertools import Logger

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Database, retry_conflicts
from counterfoil.errors import BreakerOpenError, ServiceUnavailableError, sentence
from counterfoil.metrics import Metric, record
from counterfoil.notifications import store
from counterfoil.notifications.channels import Channel, Factory, Mail, Slack
from counterfoil.notifications.notice import one_line, worded
from counterfoil.notifications.store import Delivery
from counterfoil.settings import Settings

CHANNELS: Mapping[str, Factory] = {"slack": Slack.from_settings, "email": Mail.from_settings}
"""Every channel by its name, which is its place in the metrics. A further one is a further entry."""

LEASE = timedelta(minutes=2)
"""How long a sender has a delivery; longer than a run of the watchdog."""
FIRST_WAIT = timedelta(seconds=30)
"""Wait after the first failed attempt; it doubles."""
LONGEST_WAIT = timedelta(hours=1)
"""Bound of the doubling, and of what a service may ask for."""
TRIED_FOR = timedelta(days=3)
"""What is not sent after this long is given up."""
RETENTION = timedelta(days=30)
"""Longer than a dead-letter queue keeps a message, which could otherwise be told of twice."""
MARGIN_SECONDS = 19.0
"""Time that must be left for one more sending: a webhook's address and its answer, and what is written down of it."""
LONGEST_ERROR = 500
"""Characters of a sending's error that are kept."""

logger = Logger()


@dataclass(frozen=True)
class Notified:
    """What one run did."""

    notices: int
    """Notices made."""
    sent: int
    failed: int
    """Attempts of this run that failed."""
    deferred: int
    """Attempts that a circuit breaker held back."""
    abandoned: int
    """Deliveries given up."""
    purged: int
    """Notices deleted after their time."""


class Notifier:
    """Tells people of failures."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        breakers: Breakers,
        *,
        channels: Mapping[str, Factory] = CHANNELS,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        """`database` is signed in to as counterfoil_keeper."""
        self._settings = settings
        self._database = database
        self._breakers = breakers
        self._factories = channels
        self._clock = clock or database.now

    @classmethod
    def from_settings(cls, settings: Settings, database: Database, breakers: Breakers) -> "Notifier":
        """The notifier of the watchdog."""
        return cls(settings, database, breakers)

    def run(self, time_left: Callable[[], float]) -> Notified:
        """Make the notices that are due and send what is owed, as long as `time_left()` seconds allow.

        A channel that fails touches neither the others nor anybody's work: what it owes is tried again.

        Raises:
            DatabaseUnavailableError, ConflictError: the rest is for the next run.
        """
        now = self._clock()
        abandoned = retry_conflicts(lambda: store.abandon(self._database, now - TRIED_FOR, now))
        for name, number in Counter(abandoned).items():
            logger.error("Notices are given up", channel=name, number=number)
            record({Metric.NOTIFICATION_FAILURES: number}, channel=name)
        channels = self._channels()
        window = timedelta(seconds=self._settings.notification_digest_seconds)

        def recipients(admins: Sequence[str]) -> list[tuple[str, str]]:
            return [(name, one) for name, channel in channels.items() for one in channel.recipients(admins)]

        made = retry_conflicts(lambda: store.group(self._database, recipients, window, now))
        outcomes = self._send(channels, time_left)
        purged = retry_conflicts(lambda: store.purge(self._database, now - RETENTION))
        return Notified(made, outcomes["sent"], outcomes["failed"], outcomes["deferred"], len(abandoned), purged)

    def _channels(self) -> dict[str, Channel]:
        """The channels that the settings enable."""
        channels: dict[str, Channel] = {}
        for name, factory in self._factories.items():
            try:
                channel = factory(self._settings, self._breakers)
            except Exception as error:  # noqa: BLE001  # a channel that cannot even be made does not stop the others
                logger.error("A channel cannot be made: nobody is told by it", channel=name, error=sentence(error))
                record({Metric.NOTIFICATION_FAILURES: 1}, channel=name)
                continue
            if channel is not None:
                channels[name] = channel
        return channels

    def _send(self, channels: Mapping[str, Channel], time_left: Callable[[], float]) -> Counter[str]:
        """Send in turn, one of each channel, so that the many notices of a slow one do not take the time of another."""
        outcomes: Counter[str] = Counter()
        going = dict(channels)
        while going:
            for name, channel in list(going.items()):
                if time_left() < MARGIN_SECONDS:
                    return outcomes
                outcome, goes_on = self._send_next(name, channel)
                outcomes[outcome] += 1
                if not goes_on:
                    del going[name]
        return outcomes

    def _send_next(self, name: str, channel: Channel) -> tuple[str, bool]:
        """Send what the channel has owed longest. Returns what came of it, and whether the channel may go on."""
        taken = store.take(self._database, name, self._clock(), LEASE)
        if taken is None:
            return "none", False
        delivery, notice = taken
        try:
            key = f"{delivery.notice_id}/{name}/{delivery.recipient}"
            text = worded(notice, self._settings.console_url, self._settings.notification_digest_seconds)
            channel.send(text, delivery.recipient, key)
        except BreakerOpenError as error:
            store.deferred(self._database, delivery, max(error.until, self._clock()))
            return "deferred", False
        except Exception as error:  # noqa: BLE001  # whatever a channel does wrong is its own
            self._failed(delivery, error)
            return "failed", not isinstance(error, ServiceUnavailableError)
        store.sent(self._database, delivery, self._clock())
        record({Metric.NOTIFICATIONS_SENT: 1}, channel=name)
        return "sent", True

    def _failed(self, delivery: Delivery, error: Exception) -> None:
        said = one_line(sentence(error), LONGEST_ERROR)
        wait = max(wait_after(delivery.attempt), _asked_for(error))
        record({Metric.NOTIFICATION_FAILURES: 1}, channel=delivery.channel)
        logger.warning(
            "A notice was not sent",
            channel=delivery.channel,
            notice=str(delivery.notice_id),
            attempt=delivery.attempt,
            error=said,
        )
        store.failed(self._database, delivery, said, self._clock() + wait)


def wait_after(attempts: int) -> timedelta:
    """How long to wait after `attempts` (>= 1) failed attempts: 30 s x 2^(attempts - 1), an hour at most."""
    return min(FIRST_WAIT * (1 << min(attempts - 1, 20)), LONGEST_WAIT)


def _asked_for(error: Exception) -> timedelta:
    """How long the service asks to be left alone."""
    seconds = (isinstance(error, ServiceUnavailableError) and error.retry_after) or 0.0
    return timedelta(seconds=min(seconds, LONGEST_WAIT.total_seconds()))
