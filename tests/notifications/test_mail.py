"""Email notifications through SES: requests, rejections and outages."""

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any
from uuid import UUID

import boto3
import pytest
from botocore.config import Config
from botocore.stub import ANY, Stubber
from moto import mock_aws
from moto.sesv2.models import sesv2_backends

from counterfoil import aws
from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection
from counterfoil.errors import ServiceUnavailableError
from counterfoil.notifications import channels
from counterfoil.notifications.notifier import DeliveryStats, Notifier
from tests.delivery.harness import Clock
from tests.notifications.conftest import Fail
from tests.notifications.harness import deliveries

SENDER = "counterfoil@example.com"
Run = Callable[[], DeliveryStats]


@pytest.fixture
def run(make_notifier: Callable[..., Notifier]) -> Run:
    """`run()` runs a notifier that sends only email."""
    notifier = make_notifier(email_from=SENDER, alert_emails=["ops@example.com"])
    return lambda: notifier.run(lambda: 60)


@pytest.fixture
def ses(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    """Stubbed SES v2 client: botocore checks every call against the service model."""
    make: Any = boto3.client
    client = make(
        "sesv2",
        region_name="eu-central-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=Config(retries={"total_max_attempts": 1}),
    )
    monkeypatch.setattr(aws, "client", lambda service: {"sesv2": client}[service])
    with Stubber(client) as stubber:
        yield stubber


def expected_request(recipient: str, text: Any = ANY) -> dict[str, Any]:
    return {
        "FromEmailAddress": SENDER,
        "Destination": {"ToAddresses": [recipient]},
        "Content": {
            "Simple": {
                "Subject": {
                    "Data": "Counterfoil: A document for acme failed in matching",
                    "Charset": "UTF-8",
                },
                "Body": {"Text": {"Data": text, "Charset": "UTF-8"}},
                "Headers": [
                    {"Name": "Auto-Submitted", "Value": "auto-generated"},
                    {"Name": "X-Counterfoil-Digest", "Value": ANY},
                ],
            }
        },
    }


def test_failure_is_mailed_to_each_recipient_separately(
    fail: Fail, run: Run, ses: Stubber, admin: Connection, acme: UUID
):
    admin.execute("INSERT INTO tenant_admin (tenant_id, email) VALUES (%s, 'ann@acme.example')", [acme])
    for recipient in ("ann@acme.example", "ops@example.com"):
        ses.add_response("send_email", {"MessageId": "1"}, expected_request(recipient))
    fail()
    assert run().sent == 2
    ses.assert_no_pending_responses()


def test_admin_in_both_lists_gets_one_message(fail: Fail, run: Run, ses: Stubber, admin: Connection, acme: UUID):
    admin.execute("INSERT INTO tenant_admin (tenant_id, email) VALUES (%s, 'OPS@example.com')", [acme])
    ses.add_response("send_email", {"MessageId": "1"}, expected_request("OPS@example.com"))
    fail()
    assert run().sent == 1


@pytest.mark.parametrize(
    ("code", "status", "is_retried"),
    [
        ("TooManyRequestsException", 429, False),
        ("LimitExceededException", 400, False),
        ("InternalServiceErrorException", 500, False),
        ("MessageRejected", 400, True),
        ("MailFromDomainNotVerifiedException", 400, True),
        ("AccessDeniedException", 403, True),
    ],
)
def test_failed_mail_is_retried_later(
    code: str, status: int, is_retried: bool, fail: Fail, run: Run, ses: Stubber, clock: Clock, admin: Connection
):
    admin.execute("INSERT INTO tenant_admin (tenant_id, email) SELECT id, 'ann@acme.example' FROM tenant")
    fail()
    ses.add_client_error("send_email", code, "Email address is not verified: ann@acme.example", status)
    if is_retried:
        ses.add_response("send_email", {"MessageId": "1"}, expected_request("ops@example.com"))
    stats = run()
    assert (stats.failed, stats.sent) == (1, int(is_retried))
    errors = [error for (error,) in deliveries(admin, "error") if error]
    assert errors == [f"SendEmail failed with {code} (HTTP {status})"]
    for _ in range(2 - is_retried):
        ses.add_response("send_email", {"MessageId": "2"})
    clock.advance(minutes=1)
    assert run().sent == 2 - is_retried


def test_hanging_service_times_out(fail: Fail, run: Run, admin: Connection, monkeypatch: pytest.MonkeyPatch):
    end = Event()

    class Hanging:
        def send_email(self, **_: Any) -> None:
            end.wait(10)

    monkeypatch.setattr(channels, "TOTAL_SECONDS", 0.1)
    monkeypatch.setattr(aws, "client", lambda _: Hanging())
    fail()
    assert run().failed == 1
    assert deliveries(admin, "error") == [("An AWS service did not respond correctly: TimeoutError",)]
    end.set()


def test_open_breaker_defers_mail(fail: Fail, run: Run, ses: Stubber, breakers: Breakers):
    for _ in range(5):
        with pytest.raises(ServiceUnavailableError), breakers.guard("ses"):
            raise ServiceUnavailableError("another caller's call")
    fail()
    assert run().deferred == 1  # a call would fail, because the stub has no response


def test_without_recipients_no_delivery_is_created(
    fail: Fail, make_notifier: Callable[..., Notifier], admin: Connection
):
    fail()
    assert make_notifier(email_from=SENDER).run(lambda: 60).digests == 1
    assert deliveries(admin, "channel") == []


def test_default_client_reaches_ses(fail: Fail, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    (document,) = fail()
    with mock_aws():
        make: Any = boto3.client
        make("sesv2").create_email_identity(EmailIdentity=SENDER)
        aws.client.cache_clear()
        try:
            assert run().sent == 1
        finally:
            aws.client.cache_clear()
        (sent,) = sesv2_backends["123456789012"]["eu-central-1"].core_backend.sent_messages
    assert sent.destinations["ToAddresses"] == ["ops@example.com"]
    assert str(document) in sent.body
