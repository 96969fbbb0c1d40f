"""Secrets come from the environment first, else from Secrets Manager, and are never quoted."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from counterfoil import aws, secrets
from counterfoil.errors import InvalidSettingsError, RejectedRequestError, ServiceUnavailableError
from counterfoil.secrets import secret
from counterfoil.settings import Settings

ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:counterfoil"
STORED = Settings.from_environment({"SECRETS_ARN": ARN})


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    client: Any = boto3.client("secretsmanager", "eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")
    monkeypatch.setattr(aws, "client", {"secretsmanager": client}.__getitem__)
    secrets._fetch.cache_clear()
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()
    secrets._fetch.cache_clear()
    client.close()


def holds(manager: Stubber, text: str) -> None:
    manager.add_response("get_secret_value", {"SecretString": text}, {"SecretId": ARN})


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


def test_a_secret_that_is_not_stored_or_empty_is_none(manager: Stubber):
    holds(manager, '{"LLM_API_KEY": ""}')
    assert secret(STORED, "LLM_API_KEY") is None
    assert secret(STORED, "SLACK_WEBHOOK_URL") is None


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
