"""Slack notifications to a local webhook with scripted responses.

The webhook accepts, rejects, throttles, hangs or disconnects.
"""

import json
from collections.abc import Callable
from datetime import timedelta
from threading import Event

import pytest

from counterfoil import aws
from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection
from counterfoil.errors import RejectedRequestError, ServiceUnavailableError
from counterfoil.notifications import channels
from counterfoil.notifications.notifier import DeliveryStats, Notifier
from tests.delivery.harness import Clock
from tests.notifications.conftest import Fail
from tests.notifications.harness import ScriptedResponse, Webhook, deliveries


@pytest.fixture
def run(make_notifier: Callable[..., Notifier], webhook: Webhook) -> Callable[[], DeliveryStats]:
    """`run()` runs a notifier that sends only to Slack."""
    notifier = make_notifier(slack_webhook_url=webhook.url, console_url="https://console.example.com")
    return lambda: notifier.run(lambda: 60)


Run = Callable[[], DeliveryStats]


def test_failure_is_posted_with_document_and_link(fail: Fail, run: Run, webhook: Webhook):
    (document,) = fail(error="The sum of <b> & <c> is wrong")
    assert run().sent == 1
    (request,) = webhook.requests
    assert set(request) == {"text", "unfurl_links", "unfurl_media"}
    assert "*A document for acme failed in matching*" in request["text"]
    assert f"<https://console.example.com/documents/{document}?tenant=acme|{document}>" in request["text"]
    assert "The sum of &lt;b&gt; &amp; &lt;c&gt; is wrong" in request["text"]
    assert webhook.content_types == ["application/json"]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ((500, {}), "127.0.0.1 answered with HTTP 500"),
        ((503, {}), "127.0.0.1 answered with HTTP 503"),
        ((404, {}), "127.0.0.1 answered with HTTP 404"),
        ((410, {}), "127.0.0.1 answered with HTTP 410"),
        ((302, {"Location": "http://127.0.0.1:1/"}), "127.0.0.1 answered with HTTP 302"),
        (None, "127.0.0.1 did not send a complete, valid response"),
    ],
)
def test_failed_post_is_recorded_and_retried(
    response: ScriptedResponse, error: str, fail: Fail, run: Run, webhook: Webhook, clock: Clock, admin: Connection
):
    fail()
    webhook.script = [response]
    assert run().failed == 1
    ((error_text, next_attempt_at),) = deliveries(admin, "error", "next_attempt_at")
    assert error_text.startswith(error)
    assert next_attempt_at == clock() + timedelta(seconds=30)
    clock.advance(minutes=1)
    assert run().sent == 1
    assert webhook.requests[0] == webhook.requests[1]
    assert webhook.keys[0] == webhook.keys[1] is not None


def test_throttled_digest_is_retried_after_requested_delay(
    fail: Fail, run: Run, webhook: Webhook, clock: Clock, admin: Connection
):
    fail(error="Failure of one kind")
    fail(error="Failure of another")
    webhook.script = [(429, {"Retry-After": "600"})]
    assert run().failed == 1
    assert len(webhook.requests) == 1  # the other digest is not attempted in this run
    assert max(deliveries(admin, "next_attempt_at")) == (clock() + timedelta(seconds=600),)
    clock.advance(minutes=1)
    assert run().sent == 1
    clock.advance(minutes=9)
    assert run().sent == 1


def test_hanging_webhook_times_out(
    fail: Fail, run: Run, webhook: Webhook, clock: Clock, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(channels, "TOTAL_SECONDS", 0.2)
    fail()
    webhook.may_answer.clear()
    assert run().failed == 1
    assert deliveries(admin, "error") == [("127.0.0.1 did not answer within 0.2 seconds",)]
    webhook.may_answer.set()
    clock.advance(minutes=1)
    assert run().sent == 1


def test_failing_webhook_opens_breaker_and_recovers(
    fail: Fail, run: Run, webhook: Webhook, clock: Clock, admin: Connection
):
    for kind in "abcdef":
        fail(error=f"Failure of kind {kind}")
    webhook.script = [(500, {})] * 5
    deferred = 0
    for _ in range(120):
        deferred += run().deferred
        clock.advance(seconds=10)
    assert len(webhook.requests) == 5 + 6
    assert deferred > 0
    assert sum(attempts for (attempts,) in deliveries(admin, "attempts")) == 5 + 6
    assert {sent_at is None for (sent_at,) in deliveries(admin, "sent_at")} == {False}


def test_open_breaker_defers_post_without_spending_attempt(
    fail: Fail, run: Run, webhook: Webhook, clock: Clock, admin: Connection, breakers: Breakers
):
    for _ in range(5):
        with pytest.raises(ServiceUnavailableError), breakers.guard("webhook:127.0.0.1"):
            raise ServiceUnavailableError("another caller's call")
    fail()
    assert run().deferred == 1
    assert webhook.requests == []
    assert deliveries(admin, "attempts", "next_attempt_at") == [(0, clock() + timedelta(seconds=30))]
    clock.advance(seconds=30)
    assert run().sent == 1


@pytest.mark.parametrize("url", ["nonsense", "http://", "http://[half", "https:///services/secret"])
def test_invalid_address_error_omits_the_address(
    url: str, fail: Fail, make_notifier: Callable[..., Notifier], admin: Connection
):
    fail()
    assert make_notifier(slack_webhook_url=url).run(lambda: 60).failed == 1
    assert deliveries(admin, "error") == [("SLACK_WEBHOOK_URL is invalid: it must be an https URL.",)]


class Secrets:
    """Fake Secrets Manager that returns a secret or raises an error."""

    def __init__(self, stored: str | Exception) -> None:
        self.stored = stored

    def get_secret_value(self, *, SecretId: str) -> dict[str, str]:  # noqa: N803
        assert SecretId == "arn:kept"
        if isinstance(self.stored, Exception):
            raise self.stored
        return {"SecretString": self.stored}


UNAVAILABLE = ServiceUnavailableError("Secrets Manager is unavailable")
REJECTED = RejectedRequestError("GetSecretValue failed with AccessDeniedException (HTTP 403)")


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Secrets:
    secrets = Secrets("{}")
    monkeypatch.setattr("counterfoil.aws._secret_cache", {})
    monkeypatch.setattr(aws, "client", {"secretsmanager": secrets}.__getitem__)
    return secrets


def test_webhook_address_may_be_in_the_secret(
    fail: Fail, make_notifier: Callable[..., Notifier], webhook: Webhook, manager: Secrets
):
    manager.stored = f'{{"SLACK_WEBHOOK_URL": "{webhook.url}"}}'
    fail()
    assert make_notifier(slack_enabled=True, secrets_arn="arn:kept").run(lambda: 60).sent == 1


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("{}", "SLACK_WEBHOOK_URL is missing: add the webhook's URL to the secret at SECRETS_ARN."),
        ('{"SLACK_WEBHOOK_URL": ""}', "SLACK_WEBHOOK_URL is missing: add the webhook's URL to the secret"),
        ("[]", "SLACK_WEBHOOK_URL could not be read from the secret at SECRETS_ARN: SECRETS_ARN is invalid"),
        (
            UNAVAILABLE,
            "SLACK_WEBHOOK_URL could not be read from the secret at SECRETS_ARN: Secrets Manager is unavailable",
        ),
        (REJECTED, "SLACK_WEBHOOK_URL could not be read from the secret at SECRETS_ARN: GetSecretValue failed with"),
    ],
    ids=["new", "empty", "not an object", "unavailable", "rejected"],
)
def test_digests_wait_for_the_webhook_address(
    stored: str | Exception,
    expected: str,
    fail: Fail,
    make_notifier: Callable[..., Notifier],
    webhook: Webhook,
    clock: Clock,
    admin: Connection,
    manager: Secrets,
    capsys: pytest.CaptureFixture[str],
):
    manager.stored = stored
    notifier = make_notifier(slack_enabled=True, secrets_arn="arn:kept")
    notifier.run(lambda: 60)
    fail(error="Failure of one kind")
    fail(error="Failure of another")
    assert notifier.run(lambda: 60).failed == 1  # the other digest is not attempted in this run
    metric_lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["channel"] for line in metric_lines if "NotificationFailures" in line] == ["slack"]
    errors = [error for (error,) in deliveries(admin, "error")]
    assert len(errors) == 2
    assert [error.startswith(expected) for error in errors if error is not None] == [True]
    manager.stored = f'{{"SLACK_WEBHOOK_URL": "{webhook.url}"}}'
    clock.advance(hours=1)
    assert notifier.run(lambda: 60).sent == 2


@pytest.mark.parametrize(
    "stored", ["{}", UNAVAILABLE, REJECTED, '{"LLM_API_KEY": "k"}', '{"SLACK_WEBHOOK_URL": "https://x"}']
)
def test_disabled_slack_gets_no_deliveries(
    stored: str | Exception, fail: Fail, make_notifier: Callable[..., Notifier], admin: Connection, manager: Secrets
):
    manager.stored = stored
    fail()
    stats = make_notifier(secrets_arn="arn:kept").run(lambda: 60)
    assert (stats.digests, stats.failed) == (1, 0)
    assert deliveries(admin, "channel") == []


def test_hanging_secrets_manager_times_out(
    fail: Fail,
    make_notifier: Callable[..., Notifier],
    clock: Clock,
    manager: Secrets,
    webhook: Webhook,
    monkeypatch: pytest.MonkeyPatch,
):
    release = Event()

    def hang(*, SecretId: str) -> dict[str, str]:  # noqa: N803
        release.wait(30)
        return {"SecretString": f'{{"SLACK_WEBHOOK_URL": "{webhook.url}"}}'}

    monkeypatch.setattr(manager, "get_secret_value", hang, raising=False)
    monkeypatch.setattr(channels, "SECRET_SECONDS", 0.2)
    fail()
    notifier = make_notifier(slack_enabled=True, secrets_arn="arn:kept")
    assert notifier.run(lambda: 60).failed == 1
    release.set()
    monkeypatch.setattr(channels, "SECRET_SECONDS", 30)
    clock.advance(minutes=1)
    assert notifier.run(lambda: 60).sent == 1
