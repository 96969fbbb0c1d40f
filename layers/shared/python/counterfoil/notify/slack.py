"""Notices by a Slack incoming webhook, or by anything that takes the same JSON (Mattermost and others)."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from counterfoil import aws, http
from counterfoil.breaker import Breakers
from counterfoil.errors import CounterfoilError, InvalidSettingsError, ServiceUnavailableError
from counterfoil.notify.notice import Fact, Text
from counterfoil.secrets import secret
from counterfoil.settings import Settings

CONNECT_SECONDS = 5
READ_SECONDS = 10
TOTAL_SECONDS = 15
SECRET_SECONDS = 3
"""Longest look-up of the address; one that takes longer is known when the next notice is sent."""


class Slack:
    """The one webhook that hears of every tenant's failures."""

    def __init__(self, settings: Settings, breakers: Breakers) -> None:
        self._settings = settings
        self._breakers = breakers

    @classmethod
    def from_settings(cls, settings: Settings, breakers: Breakers) -> "Slack | None":
        """The channel, where SLACK says so or the environment has SLACK_WEBHOOK_URL.

        Whether it is wanted does not depend on the secret. While that holds no address, or cannot be read, notices are
        owed to Slack, fail to be sent, and are tried again.
        """
        return cls(settings, breakers) if settings.slack or settings.slack_webhook_url is not None else None

    def recipients(self, admins: Sequence[str]) -> Sequence[str]:  # noqa: ARG002  # the webhook is everybody's
        """The webhook."""
        return ["webhook"]

    def send(self, text: Text, recipient: str, key: str) -> None:  # noqa: ARG002  # there is one webhook
        """Post one notice. Slack takes no idempotency key and ignores the header.

        Raises:
            InvalidSettingsError, RejectedRequestError: the webhook is none, is gone, or refuses.
            ServiceUnavailableError, BreakerOpenError: later, also where nobody has put its address into the secret yet.
        """
        url = self._address()
        with self._breakers.guard(f"webhook:{_host(url)}"):
            http.send(
                "POST",
                url,
                headers={"Idempotency-Key": key},
                json={"text": layout(text), "unfurl_links": False, "unfurl_media": False},
                connect=CONNECT_SECONDS,
                read=READ_SECONDS,
                total=TOTAL_SECONDS,
            )

    def _address(self) -> str:
        """The webhook's address, which is as good as a password.

        Raises:
            ServiceUnavailableError: it is not to be had now.
        """
        try:
            with aws.errors_mapped():
                url = http.within(SECRET_SECONDS, lambda: secret(self._settings, "SLACK_WEBHOOK_URL"))
        except CounterfoilError as error:
            message = f"SLACK_WEBHOOK_URL could not be read from the secret of SECRETS_ARN: {error}"
            raise ServiceUnavailableError(message) from None
        if url is None:
            raise ServiceUnavailableError(
                "SLACK_WEBHOOK_URL is missing: put the address of the webhook into the secret of SECRETS_ARN."
            )
        return url.get_secret_value()


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname
    except ValueError:  # its message would quote the address, which is the secret
        host = None
    if not host:
        raise InvalidSettingsError("SLACK_WEBHOOK_URL is wrong: it must be an https address.")
    return host


def layout(text: Text) -> str:
    """A notice in Slack's mrkdwn."""
    lines = [f"*{_escaped(text.headline)}*", *(_line(fact) for fact in text.facts), _escaped(text.closing)]
    return "\n".join(lines)


def _line(fact: Fact) -> str:
    value = _escaped(fact.value)
    if fact.url is not None:
        value = f"<{_escaped(fact.url)}|{value}>"
    return f"{fact.label}: {value}"


def _escaped(text: str) -> str:
    """With the three characters replaced by which Slack knows links, mentions and commands."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
