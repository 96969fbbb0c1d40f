"""Channels of notifications: Slack and e-mail."""

from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from counterfoil import aws, http
from counterfoil.aws import secret
from counterfoil.circuit_breaker import Breakers
from counterfoil.errors import CounterfoilError, InvalidSettingsError, ServiceUnavailableError
from counterfoil.http import within
from counterfoil.notifications.notice import Fact, Text, one_line
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


CONNECT_SECONDS = 5
READ_SECONDS = 10
TOTAL_SECONDS = 15
"""Longest call, with the client's own retries."""
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
    lines = [f"*{_escaped(text.headline)}*", *(_slack_line(fact) for fact in text.facts), _escaped(text.closing)]
    return "\n".join(lines)


def _slack_line(fact: Fact) -> str:
    value = _escaped(fact.value)
    if fact.url is not None:
        value = f"<{_escaped(fact.url)}|{value}>"
    return f"{fact.label}: {value}"


def _escaped(text: str) -> str:
    """With the three characters replaced by which Slack knows links, mentions and commands."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


LONGEST_SUBJECT = 150


class Mail:
    """E-mail to a tenant's admins and to those who hear of every tenant's failures. No one sees another's address."""

    def __init__(self, sender: str, everywhere: Sequence[str], breakers: Breakers) -> None:
        """`sender` is an address that SES has verified; `everywhere` hears of every tenant."""
        self._sender = sender
        self._everywhere = everywhere
        self._breakers = breakers

    @classmethod
    def from_settings(cls, settings: Settings, breakers: Breakers) -> "Mail | None":
        """The channel, where EMAIL_FROM is set."""
        return cls(settings.email_from, settings.email_to, breakers) if settings.email_from else None

    def recipients(self, admins: Sequence[str]) -> Sequence[str]:
        """The tenant's admins and those of every tenant, each once."""
        return list({address.lower(): address for address in (*self._everywhere, *admins)}.values())

    def send(self, text: Text, recipient: str, key: str) -> None:
        """Send one notice. SES takes no idempotency key; the header lets a recipient see a repetition.

        Raises:
            RejectedRequestError: SES refuses: an address that is none, or a sender that it has not verified.
            ServiceUnavailableError, BreakerOpenError: later.
        """
        content = {
            "Subject": {"Data": subject(text), "Charset": "UTF-8"},
            "Body": {"Text": {"Data": body(text), "Charset": "UTF-8"}},
            "Headers": [
                {"Name": "Auto-Submitted", "Value": "auto-generated"},  # no out-of-office replies (RFC 3834)
                {"Name": "X-Counterfoil-Notice", "Value": key},
            ],
        }
        with self._breakers.guard("ses"), aws.errors_mapped():
            within(
                TOTAL_SECONDS,
                lambda: aws.client("sesv2").send_email(
                    FromEmailAddress=self._sender,
                    Destination={"ToAddresses": [recipient]},
                    Content={"Simple": content},
                ),
            )


def subject(text: Text) -> str:
    """The subject: always one line, or a name with a line break could write headers."""
    return one_line(f"Counterfoil: {text.headline}", LONGEST_SUBJECT)


def body(text: Text) -> str:
    """The message as plain text."""
    width = max(len(fact.label) for fact in text.facts) + 2
    lines = [f"{text.headline}.", "", *(_mail_line(fact, width) for fact in text.facts), "", text.closing]
    return "\n".join(lines) + "\n"


def _mail_line(fact: Fact, width: int) -> str:
    value = fact.value if fact.url is None else fact.url if fact.value in fact.url else f"{fact.value}  {fact.url}"
    return f"{fact.label + ':':<{width}}{value}"
