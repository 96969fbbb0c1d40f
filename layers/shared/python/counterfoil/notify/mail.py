"""Notices by e-mail, through Amazon SES v2: plain text, one message for each recipient."""

from collections.abc import Sequence

from counterfoil import aws
from counterfoil.breaker import Breakers
from counterfoil.http import within
from counterfoil.notify.notice import Fact, Text, one_line
from counterfoil.settings import Settings

LONGEST_SUBJECT = 150
TOTAL_SECONDS = 15
"""Longest call, the client's own retries included."""


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
    lines = [f"{text.headline}.", "", *(_line(fact, width) for fact in text.facts), "", text.closing]
    return "\n".join(lines) + "\n"


def _line(fact: Fact, width: int) -> str:
    value = fact.value if fact.url is None else fact.url if fact.value in fact.url else f"{fact.value}  {fact.url}"
    return f"{fact.label + ':':<{width}}{value}"
