"""Notification channels: Slack and email."""

from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from counterfoil import aws, http
from counterfoil.aws import get_secret
from counterfoil.circuit_breaker import Breakers
from counterfoil.errors import CounterfoilError, InvalidSettingsError, ServiceUnavailableError
from counterfoil.http import run_with_deadline
from counterfoil.notifications.digest import NotificationField, RenderedNotification, to_one_line
from counterfoil.settings import Settings


class Channel(Protocol):
    """A notification channel.

    The delivery to each recipient is attempted, counted and retried separately.
    """

    def recipients(self, admins: Sequence[str]) -> Sequence[str]:
        """Return the recipients of a tenant's digests.

        `admins` are the email addresses of its admins.

        PostgreSQL stores the recipients until the digest is deleted, so they must be names or addresses, never secrets.
        """

    def send(self, text: RenderedNotification, recipient: str, key: str) -> None:
        """Send one digest, within about 15 seconds.

        `key` is the same for every attempt to send this digest to this recipient. Services can use it as an idempotency
        key.

        Raises:
            ServiceUnavailableError, BreakerOpenError: the service is unavailable. The channel sends nothing else before
                the next run.
            CounterfoilError: this digest was not sent.
        """


Factory = Callable[[Settings, Breakers], Channel | None]
"""Function that creates a channel once per run. It returns None if the settings do not enable the channel."""


CONNECT_SECONDS = 5
READ_SECONDS = 10
TOTAL_SECONDS = 15
"""Timeout of a call, including the client's own retries."""
SECRET_SECONDS = 3
"""Timeout for reading the webhook URL. A URL that arrives later is cached for the next digest."""


class Slack:
    """Slack webhook for the failures of all tenants."""

    def __init__(self, settings: Settings, breakers: Breakers) -> None:
        self._settings = settings
        self._breakers = breakers

    @classmethod
    def from_settings(cls, settings: Settings, breakers: Breakers) -> "Slack | None":
        """Return the channel if SLACK_ENABLED or SLACK_WEBHOOK_URL is set.

        This does not depend on the secret. While the secret has no webhook URL or cannot be read, digests for Slack are
        enqueued, fail and are retried.
        """
        return cls(settings, breakers) if settings.slack_enabled or settings.slack_webhook_url is not None else None

    def recipients(self, admins: Sequence[str]) -> Sequence[str]:  # noqa: ARG002  # all tenants share the webhook
        """Return the webhook as the only recipient."""
        return ["webhook"]

    def send(self, text: RenderedNotification, recipient: str, key: str) -> None:  # noqa: ARG002  # there is one webhook
        """Post one digest. Slack has no idempotency keys and ignores the header.

        Raises:
            InvalidSettingsError, RejectedRequestError: the webhook is invalid, was deleted, or rejects the digest.
            ServiceUnavailableError, BreakerOpenError: the failure is temporary, for example because the secret has no
                webhook URL yet.
        """
        url = self._address()
        with self._breakers.guard(f"webhook:{_host(url)}"):
            http.send(
                "POST",
                url,
                headers={"Idempotency-Key": key},
                json={"text": render_mrkdwn(text), "unfurl_links": False, "unfurl_media": False},
                connect=CONNECT_SECONDS,
                read=READ_SECONDS,
                total=TOTAL_SECONDS,
            )

    def _address(self) -> str:
        """Return the webhook's URL, which is a secret.

        Raises:
            ServiceUnavailableError: the URL is missing or cannot be read.
        """
        try:
            with aws.translate_errors():
                url = http.run_with_deadline(SECRET_SECONDS, lambda: get_secret(self._settings, "SLACK_WEBHOOK_URL"))
        except CounterfoilError as error:
            message = f"SLACK_WEBHOOK_URL could not be read from the secret at SECRETS_ARN: {error}"
            raise ServiceUnavailableError(message) from None
        if url is None:
            raise ServiceUnavailableError(
                "SLACK_WEBHOOK_URL is missing: add the webhook's URL to the secret at SECRETS_ARN."
            )
        return url.get_secret_value()


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname
    except ValueError:  # the message would quote the secret URL
        host = None
    if not host:
        raise InvalidSettingsError("SLACK_WEBHOOK_URL is invalid: it must be an https URL.")
    return host


def render_mrkdwn(text: RenderedNotification) -> str:
    """Render a digest in Slack's mrkdwn."""
    lines = [f"*{_escape(text.headline)}*", *(_slack_line(field) for field in text.fields), _escape(text.closing)]
    return "\n".join(lines)


def _slack_line(field: NotificationField) -> str:
    value = _escape(field.value)
    if field.url is not None:
        value = f"<{_escape(field.url)}|{value}>"
    return f"{field.label}: {value}"


def _escape(text: str) -> str:
    """Escape the three characters that start links, mentions and commands in Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


MAX_SUBJECT_CHARS = 150


class Mail:
    """Email to a tenant's admins and to the recipients for all tenants.

    Each recipient gets a separate message.
    """

    def __init__(self, sender: str, global_recipients: Sequence[str], breakers: Breakers) -> None:
        """`sender` is an address verified in SES.

        `global_recipients` receive the digests of all tenants.
        """
        self._sender = sender
        self._global_recipients = global_recipients
        self._breakers = breakers

    @classmethod
    def from_settings(cls, settings: Settings, breakers: Breakers) -> "Mail | None":
        """Return the channel if EMAIL_FROM is set."""
        return cls(settings.email_from, settings.alert_emails, breakers) if settings.email_from else None

    def recipients(self, admins: Sequence[str]) -> Sequence[str]:
        """Return the tenant's admins and the recipients for all tenants, each once."""
        return list({address.lower(): address for address in (*self._global_recipients, *admins)}.values())

    def send(self, text: RenderedNotification, recipient: str, key: str) -> None:
        """Send one digest.

        SES has no idempotency keys. Recipients can recognize duplicates by a header.

        Raises:
            RejectedRequestError: SES rejects an invalid address or an unverified sender.
            ServiceUnavailableError, BreakerOpenError: the failure is temporary.
        """
        content = {
            "Subject": {"Data": render_subject(text), "Charset": "UTF-8"},
            "Body": {"Text": {"Data": render_body(text), "Charset": "UTF-8"}},
            "Headers": [
                {"Name": "Auto-Submitted", "Value": "auto-generated"},  # prevents out-of-office replies (RFC 3834)
                {"Name": "X-Counterfoil-Digest", "Value": key},
            ],
        }
        with self._breakers.guard("ses"), aws.translate_errors():
            run_with_deadline(
                TOTAL_SECONDS,
                lambda: aws.client("sesv2").send_email(
                    FromEmailAddress=self._sender,
                    Destination={"ToAddresses": [recipient]},
                    Content={"Simple": content},
                ),
            )


def render_subject(text: RenderedNotification) -> str:
    """Return the subject on one line.

    A line break in a name could otherwise add headers.
    """
    return to_one_line(f"Counterfoil: {text.headline}", MAX_SUBJECT_CHARS)


def render_body(text: RenderedNotification) -> str:
    """Render the message as plain text."""
    width = max(len(field.label) for field in text.fields) + 2
    lines = [f"{text.headline}.", "", *(_mail_line(field, width) for field in text.fields), "", text.closing]
    return "\n".join(lines) + "\n"


def _mail_line(field: NotificationField, width: int) -> str:
    value = (
        field.value if field.url is None else field.url if field.value in field.url else f"{field.value}  {field.url}"
    )
    return f"{field.label + ':':<{width}}{value}"
