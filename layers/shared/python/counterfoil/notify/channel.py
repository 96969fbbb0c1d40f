"""What a channel is: a way by which notices reach people."""

from collections.abc import Callable, Sequence
from typing import Protocol

from counterfoil.breaker import Breakers
from counterfoil.notify.notice import Text
from counterfoil.settings import Settings


class Channel(Protocol):
    """A way to people. Each recipient's delivery is tried, counted and retried by itself."""

    def recipients(self, admins: Sequence[str]) -> Sequence[str]:
        """Whom a tenant's notice goes to by this channel; `admins` are the e-mail addresses of the tenant's admins.

        They are kept in PostgreSQL until the notice is purged: names or addresses, never secrets.
        """

    def send(self, text: Text, recipient: str, key: str) -> None:
        """Send one notice, within 15 seconds or so.

        `key` is the same each time that this notice is sent to this recipient, for services that drop repetitions.

        Raises:
            ServiceUnavailableError, BreakerOpenError: the service cannot be reached by anybody now; nothing else is
                sent by this channel before the next run.
            CounterfoilError: this one was not sent.
        """


Factory = Callable[[Settings, Breakers], Channel | None]
"""Makes a channel from the settings, once in each run; None where they do not enable it."""
