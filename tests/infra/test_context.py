"""Deployment context: valid values, and errors for invalid values."""

import json
from typing import Any

import pytest
from pydantic import SecretStr

from counterfoil.settings import Settings
from infra.alarm_table import THRESHOLDS
from infra.context import (
    EMBEDDING_PROVIDERS,
    PROVIDERS,
    RECOGNITIONS,
    SECRETS,
    STACK_SETTINGS,
    TUNABLE,
    ContextError,
    Deployment,
    Issuer,
)
from tests.infra.conftest import LOCAL

SECRET_ARN = "arn:aws:secretsmanager:eu-central-1:000000000000:secret:mine-AbCdEf"


def deployment(**context: Any) -> Deployment:
    return Deployment.of(context.get)


def test_each_setting_belongs_to_exactly_one_group():
    known = {name.upper() for name in Settings.model_fields}

    assert known == TUNABLE | SECRETS | STACK_SETTINGS
    assert len(TUNABLE) + len(SECRETS) + len(STACK_SETTINGS) == len(known)


def test_secret_settings_are_listed_as_secrets():
    secret = {name.upper() for name, field in Settings.model_fields.items() if field.annotation == SecretStr | None}

    assert secret == SECRETS


def test_providers_match_the_settings():
    for provider in PROVIDERS:
        Settings.from_environment({"LLM_PROVIDER": provider})
    assert Settings.model_fields["llm_provider"].annotation.__args__[0].__args__ == PROVIDERS  # type: ignore[union-attr]
    embedding = Settings.model_fields["embedding_provider"].annotation
    assert embedding.__args__[0].__args__ == EMBEDDING_PROVIDERS  # type: ignore[union-attr]


def test_ocr_providers_match_the_settings():
    assert Settings.model_fields["ocr_provider"].annotation.__args__[0].__args__ == RECOGNITIONS  # type: ignore[union-attr]


def test_empty_context_deploys_to_aws_with_defaults():
    assert deployment() == Deployment(
        stage="aws",
        database_url=None,
        endpoint=None,
        timeout=None,
        settings={},
        alarms={},
        retention={},
        inventory=False,
        secret_arn=None,
        slack=False,
        webhooks=False,
        mail_domain=None,
        issuer=None,
    )


def test_custom_issuer_and_audience_are_read():
    named = deployment(issuer="https://login.example.com/acme", audience="counterfoil")

    assert named.issuer == Issuer("https://login.example.com/acme", "counterfoil")


@pytest.mark.parametrize(
    "context",
    [
        {"issuer": "https://login.example.com/acme"},
        {"audience": "counterfoil"},
        {"issuer": "http://login.example.com", "audience": "counterfoil"},
    ],
)
def test_incomplete_or_plain_http_issuer_is_rejected(context: dict[str, str]):
    with pytest.raises(ContextError, match=r"'issuer' .* and 'audience', or neither"):
        deployment(**context)


def test_settings_and_thresholds_accept_text_or_objects():
    settings, alarms = {"REDELIVERY_DELAYS_SECONDS": "[3, 9]", "EMAIL_FROM": "a@b.example"}, {"queue-depth": 5000}

    as_text = deployment(settings=json.dumps(settings), alarms=json.dumps(alarms))
    as_objects = deployment(settings=settings, alarms=alarms)

    assert as_text == as_objects
    assert (as_text.settings, as_text.alarms) == (settings, alarms)
    Settings.from_environment(as_text.settings)


def test_local_stage_accepts_timeout_and_secrets():
    local = deployment(**LOCAL, timeout="20", settings={"LLM_API_KEY": "none"})

    assert (local.timeout, local.settings) == (20, {"LLM_API_KEY": "none"})


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (
            {"settings": '{"RETRY_MAX": "1"}'},
            r"Unknown setting 'RETRY_MAX'\. Known settings: ALERT_EMAILS, BREAKER_FAILURE_THRESHOLD, ",
        ),
        ({"settings": '{"LEASE_SECONDS": 5}'}, r'LEASE_SECONDS must be a string, .*: use "\.\.\."'),
        ({"settings": "[]"}, r"The context 'settings' must be a JSON object, such as \{\}"),
        ({"settings": "{"}, r"The context 'settings' must be a JSON object: .* at 1"),
        ({"settings": '{"LLM_API_KEY": "k"}'}, r"LLM_API_KEY is a secret: store it in Secrets Manager"),
        ({"settings": '{"SLACK_WEBHOOK_URL": "k"}'}, r"SLACK_WEBHOOK_URL is a secret"),
        ({"settings": '{"QUEUE_URLS": "{}"}'}, r"The stack sets QUEUE_URLS for each function: remove it"),
        ({"settings": '{"LLM_PROVIDER": "other"}'}, r"LLM_PROVIDER must be one of anthropic, openai, bedrock"),
        ({"settings": '{"EMBEDDING_API_KEY": "k"}'}, r"EMBEDDING_API_KEY is a secret: store it in Secrets Manager"),
        ({"settings": '{"EMBEDDING_PROVIDER": "other"}'}, r"EMBEDDING_PROVIDER must be one of openai, bedrock"),
        ({"settings": '{"OCR_PROVIDER": "other"}'}, r"OCR_PROVIDER must be textract or omitted, not 'other'"),
        (
            {"settings": '{"HTTP_REQUEST_TASKS_ENABLED": "true"}'},
            r"HTTP_REQUEST_TASKS_ENABLED requires internet access: add -c enableWebhooks=true",
        ),
        ({"timeout": "20"}, r"The context 'timeout' is for the local stage: on AWS, change the worker table"),
        ({**LOCAL, "timeout": "0"}, r"'timeout' must be a positive whole number of seconds, not '0'"),
        ({**LOCAL, "timeout": "1.5"}, r"'timeout' must be a positive whole number of seconds"),
        (
            {"alarms": '{"stuck": 1}'},
            r"Unknown alarm 'stuck'\. Alarms with a threshold: attempts-before-success, ",
        ),
        ({"alarms": '{"queue-depth": "1"}'}, r"The threshold of 'queue-depth' must be a number of at least 0, not '1'"),
        ({"alarms": '{"queue-depth": true}'}, r"The threshold of 'queue-depth' must be a number"),
        ({"alarms": '{"queue-depth": -1}'}, r"The threshold of 'queue-depth' must be a number"),
        ({"enableSlack": "yes"}, r"The context 'enableSlack' must be true or false, not 'yes'"),
        ({"mailDomain": "Acme.example"}, r"'mailDomain' must be a domain in lower case, such as in.example.com"),
        ({"mailDomain": "localhost"}, r"'mailDomain' must be a domain"),
        ({**LOCAL, "mailDomain": "in.acme.example"}, r"'mailDomain' is for AWS: in the local cloud, use 'counterfoil "),
        ({**LOCAL, "inventory": "true"}, r"'inventory' is for AWS: the local cloud has no S3 Inventory"),
        ({"inventory": "daily"}, r"'inventory' must be true or false"),
        ({"stage": "prod"}, r"Unknown stage 'prod': omit it for AWS, or use -c stage=local"),
        ({**LOCAL, "databaseUrl": None}, r"add -c databaseUrl="),
        ({"secretArn": "mine"}, r"'secretArn' must be the complete ARN of a secret, not 'mine'"),
    ],
)
def test_invalid_context_is_rejected(context: dict[str, Any], message: str):
    with pytest.raises(ContextError, match=message):
        deployment(**context)


def test_http_requests_are_allowed_with_webhooks_or_locally():
    http_settings = {"HTTP_REQUEST_TASKS_ENABLED": "true", "HTTP_REQUEST_ALLOWLIST": '["erp.internal:8080"]'}

    assert deployment(settings=http_settings, enableWebhooks="true").settings == http_settings
    assert deployment(**LOCAL, settings=http_settings).settings == http_settings
    assert deployment(settings={"HTTP_REQUEST_TASKS_ENABLED": "false"}).settings == {
        "HTTP_REQUEST_TASKS_ENABLED": "false"
    }


def test_rejected_secret_is_not_quoted():
    with pytest.raises(ContextError) as refused:
        deployment(settings={"LLM_API_KEY": "sk-4711"})

    assert "4711" not in str(refused.value)


def test_every_threshold_can_be_overridden():
    assert deployment(alarms=dict.fromkeys(THRESHOLDS, 7), secretArn=SECRET_ARN).alarms == dict.fromkeys(THRESHOLDS, 7)


def test_retention_is_parsed_as_days_by_prefix():
    assert deployment(retention='{"uploads/": 3650, "noncurrent": 7}').retention == {"uploads/": 3650, "noncurrent": 7}


@pytest.mark.parametrize(
    ("retention", "message"),
    [
        ({"tasks/": 1}, "'tasks/' has no configurable retention: use one of uploads/, inbox/"),
        ({"uploads/": 0}, "must be a positive whole number of days, not 0"),
        ({"uploads/": True}, "must be a positive whole number of days"),
        ({"inbox/": "30"}, "must be a positive whole number of days, not '30'"),
    ],
)
def test_invalid_retention_is_rejected(retention: dict[str, Any], message: str):
    with pytest.raises(ContextError, match=message):
        deployment(retention=retention)
