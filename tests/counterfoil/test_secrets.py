"""Secrets come from the environment first, else from Secrets Manager, are asked for again, and are never quoted."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from counterfoil import aws
from counterfoil.aws import secret
from counterfoil.errors import InvalidSettingsError, RejectedRequestError, ServiceUnavailableError
from counterfoil.settings import Settings

ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:counterfoil"
STORED = Settings.from_environment({"SECRETS_ARN": ARN})


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    client: Any = boto3.client("secretsmanager", "eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")
    monkeypatch.setattr(aws, "client", {"secretsmanager": client}.__getitem__)
    monkeypatch.setattr(aws, "_read", {})
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()
    client.close()


def holds(manager: Stubber, text: str) -> None:
    manager.add_response("get_secret_value", {"SecretString": text}, {"SecretId": ARN})


def key_at(seconds: float) -> str | None:
    """The key as it is known at this time."""
    found = secret(STORED, "LLM_API_KEY", clock=lambda: seconds)
    return None if found is None else found.get_secret_value()


def test_what_the_environment_has_is_not_looked_up(manager: Stubber):
    settings = Settings.from_environment({"SECRETS_ARN": ARN, "LLM_API_KEY": "from-the-environment"})
    found = secret(settings, "LLM_API_KEY")
    assert found is not None
    assert found.get_secret_value() == "from-the-environment"


def test_without_either_there_is_none():
    assert secret(Settings(), "LLM_API_KEY") is None


def test_secrets_manager_is_asked_once_for_all_secrets(manager: Stubber):
    holds(manager, '{"LLM_API_KEY": "key-1", "SLACK_WEBHOOK_URL": "https://hooks.example/1"}')
    for _ in range(2):
        key, url = secret(STORED, "LLM_API_KEY"), secret(STORED, "SLACK_WEBHOOK_URL")
        assert key is not None
        assert url is not None
        assert (key.get_secret_value(), url.get_secret_value()) == ("key-1", "https://hooks.example/1")


@pytest.mark.parametrize("empty", ["{}", '{"LLM_API_KEY": ""}', '{"SLACK_WEBHOOK_URL": "https://hooks.example/1"}'])
def test_a_secret_that_is_not_stored_or_empty_is_none_until_a_person_fills_it(empty: str, manager: Stubber):
    holds(manager, empty)
    assert key_at(0) is None
    holds(manager, '{"LLM_API_KEY": "key-1"}')
    assert key_at(1) == "key-1"


def test_a_secret_that_was_changed_is_known_after_five_minutes(manager: Stubber):
    holds(manager, '{"LLM_API_KEY": "key-1"}')
    assert [key_at(seconds) for seconds in (0, 299)] == ["key-1", "key-1"]
    holds(manager, '{"LLM_API_KEY": "key-2"}')
    assert [key_at(seconds) for seconds in (300, 599)] == ["key-2", "key-2"]
    holds(manager, "{}")
    assert key_at(600) is None


def test_a_clock_that_is_put_back_makes_nothing_last_longer(manager: Stubber):
    holds(manager, '{"LLM_API_KEY": "key-1"}')
    assert key_at(1000) == "key-1"
    holds(manager, '{"LLM_API_KEY": "key-2"}')
    assert key_at(10) == "key-2"


def test_what_was_known_is_good_while_secrets_manager_is_away(manager: Stubber, caplog: pytest.LogCaptureFixture):
    holds(manager, '{"LLM_API_KEY": "key-1"}')
    assert key_at(0) == "key-1"
    manager.add_client_error("get_secret_value", "InternalServiceError", http_status_code=500)
    assert [key_at(seconds) for seconds in (300, 599)] == ["key-1", "key-1"]
    holds(manager, '{"LLM_API_KEY": "key-2"}')
    assert key_at(600) == "key-2"
    assert "key-1" not in caplog.text


def test_a_secret_that_may_no_longer_be_read_is_not_used(manager: Stubber):
    holds(manager, '{"LLM_API_KEY": "key-1"}')
    assert key_at(0) == "key-1"
    manager.add_client_error("get_secret_value", "AccessDeniedException", http_status_code=403)
    with pytest.raises(RejectedRequestError):
        key_at(300)


def test_many_threads_ask_once(manager: Stubber):
    holds(manager, '{"LLM_API_KEY": "key-1"}')
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(key_at, [0.0] * 64)) == {"key-1"}


@pytest.mark.parametrize("text", ["key-1", '["key-1"]', '{"LLM_API_KEY": {"key-1": 1}}', '"key-1"'])
def test_what_is_no_object_of_texts_is_refused_and_not_quoted(text: str, manager: Stubber):
    holds(manager, text)
    with pytest.raises(InvalidSettingsError, match="SECRETS_ARN") as caught:
        secret(STORED, "LLM_API_KEY")
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
def test_a_failed_look_up_is_mapped_and_asked_again(
    code: str, status: int, expected: type[Exception], manager: Stubber
):
    manager.add_client_error("get_secret_value", code, http_status_code=status)
    with pytest.raises(expected):
        secret(STORED, "LLM_API_KEY")
    holds(manager, '{"LLM_API_KEY": "key-1"}')
    assert secret(STORED, "LLM_API_KEY") is not None
