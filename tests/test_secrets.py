"""Secrets come from the environment or Secrets Manager, and are never quoted.

Values from Secrets Manager are cached.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from counterfoil import aws
from counterfoil.aws import get_secret
from counterfoil.errors import InvalidSettingsError, RejectedRequestError, ServiceUnavailableError
from counterfoil.settings import Settings

ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:counterfoil"
STORED = Settings.from_environment({"SECRETS_ARN": ARN})


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    client: Any = boto3.client("secretsmanager", "eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")
    monkeypatch.setattr(aws, "client", {"secretsmanager": client}.__getitem__)
    monkeypatch.setattr(aws, "_secret_cache", {})
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()
    client.close()


def store_secret(manager: Stubber, text: str) -> None:
    manager.add_response("get_secret_value", {"SecretString": text}, {"SecretId": ARN})


def key_at(seconds: float) -> str | None:
    """Return the API key that a lookup returns at this clock time."""
    value = get_secret(STORED, "LLM_API_KEY", clock=lambda: seconds)
    return None if value is None else value.get_secret_value()


def test_environment_secret_requires_no_lookup(manager: Stubber):
    settings = Settings.from_environment({"SECRETS_ARN": ARN, "LLM_API_KEY": "from-the-environment"})
    value = get_secret(settings, "LLM_API_KEY")
    assert value is not None
    assert value.get_secret_value() == "from-the-environment"


def test_missing_secret_returns_none():
    assert get_secret(Settings(), "LLM_API_KEY") is None


def test_one_request_returns_all_secrets(manager: Stubber):
    store_secret(manager, '{"LLM_API_KEY": "key-1", "SLACK_WEBHOOK_URL": "https://hooks.example/1"}')
    for _ in range(2):
        key, url = get_secret(STORED, "LLM_API_KEY"), get_secret(STORED, "SLACK_WEBHOOK_URL")
        assert key is not None
        assert url is not None
        assert (key.get_secret_value(), url.get_secret_value()) == ("key-1", "https://hooks.example/1")


@pytest.mark.parametrize("empty", ["{}", '{"LLM_API_KEY": ""}', '{"SLACK_WEBHOOK_URL": "https://hooks.example/1"}'])
def test_missing_or_empty_secret_is_not_cached(empty: str, manager: Stubber):
    store_secret(manager, empty)
    assert key_at(0) is None
    store_secret(manager, '{"LLM_API_KEY": "key-1"}')
    assert key_at(1) == "key-1"


def test_changed_secret_is_read_after_five_minutes(manager: Stubber):
    store_secret(manager, '{"LLM_API_KEY": "key-1"}')
    assert [key_at(seconds) for seconds in (0, 299)] == ["key-1", "key-1"]
    store_secret(manager, '{"LLM_API_KEY": "key-2"}')
    assert [key_at(seconds) for seconds in (300, 599)] == ["key-2", "key-2"]
    store_secret(manager, "{}")
    assert key_at(600) is None


def test_clock_set_back_does_not_extend_cache(manager: Stubber):
    store_secret(manager, '{"LLM_API_KEY": "key-1"}')
    assert key_at(1000) == "key-1"
    store_secret(manager, '{"LLM_API_KEY": "key-2"}')
    assert key_at(10) == "key-2"


def test_outage_keeps_cached_secret(manager: Stubber, caplog: pytest.LogCaptureFixture):
    store_secret(manager, '{"LLM_API_KEY": "key-1"}')
    assert key_at(0) == "key-1"
    manager.add_client_error("get_secret_value", "InternalServiceError", http_status_code=500)
    assert [key_at(seconds) for seconds in (300, 599)] == ["key-1", "key-1"]
    store_secret(manager, '{"LLM_API_KEY": "key-2"}')
    assert key_at(600) == "key-2"
    assert "key-1" not in caplog.text


def test_revoked_access_raises_despite_cached_secret(manager: Stubber):
    store_secret(manager, '{"LLM_API_KEY": "key-1"}')
    assert key_at(0) == "key-1"
    manager.add_client_error("get_secret_value", "AccessDeniedException", http_status_code=403)
    with pytest.raises(RejectedRequestError):
        key_at(300)


def test_concurrent_threads_send_one_request(manager: Stubber):
    store_secret(manager, '{"LLM_API_KEY": "key-1"}')
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(key_at, [0.0] * 64)) == {"key-1"}


@pytest.mark.parametrize("text", ["key-1", '["key-1"]', '{"LLM_API_KEY": {"key-1": 1}}', '"key-1"'])
def test_invalid_secret_value_is_rejected_without_quoting(text: str, manager: Stubber):
    store_secret(manager, text)
    with pytest.raises(InvalidSettingsError, match="SECRETS_ARN") as caught:
        get_secret(STORED, "LLM_API_KEY")
    assert "key-1" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("ResourceNotFoundException", 400, RejectedRequestError),
        ("AccessDeniedException", 403, RejectedRequestError),
        ("InternalServiceError", 500, ServiceUnavailableError),
        ("ThrottlingException", 400, ServiceUnavailableError),
    ],
)
def test_failed_lookup_is_mapped_and_repeated(code: str, status: int, expected: type[Exception], manager: Stubber):
    manager.add_client_error("get_secret_value", code, http_status_code=status)
    with pytest.raises(expected):
        get_secret(STORED, "LLM_API_KEY")
    store_secret(manager, '{"LLM_API_KEY": "key-1"}')
    assert get_secret(STORED, "LLM_API_KEY") is not None
